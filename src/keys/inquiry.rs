//! Naming an operation by its key alone, for somebody who only asks what is known of it.

use http::HeaderMap;

use super::path::unescaped;
use super::source::{self, Found};
use super::{Caller, Names, Refusal, Settings, Source, dated, issued, operation, scope};
use crate::machine::Inquiry;
use crate::upstream::headers::Kinds;

impl Settings {
    /// Where keys come from that clients have in hand: the first header, query parameter or token of the sources.
    pub fn client_made(&self) -> Option<&Source> {
        let in_hand =
            |source: &&Source| matches!(source.plain(), Source::Header(_) | Source::Query(_) | Source::Token(_));
        self.sources.iter().find(in_hand)
    }
}

/// Names the operation that a client would name by this key, as a segment of a path spells it, in a request with these
/// fields of this caller.
///
/// # Errors
/// When the key is none, or the scope's value is missing.
pub fn inquire(settings: &Settings, segment: &str, headers: &HeaderMap, caller: &Caller) -> Result<Inquiry, Refusal> {
    let invalid = |what: &str| Refusal::KeyInvalid(format!("The key in the path {what}."));
    Names::of(settings).check(headers, Kinds::of(headers))?;
    let source = settings.client_made().ok_or_else(|| invalid("is none that a client makes"))?;
    let key = unescaped(segment).ok_or_else(|| invalid("has a malformed escape"))?;
    let parts = vec![source::named(source, key).map_err(invalid)?];
    let scope = scope::values(&settings.scope, headers, caller)?;
    let operation = operation(&settings.namespace, &scope, &parts);
    let found = Found::Key(parts);
    let made = dated::made(settings, &found)?;
    let issued = issued::recognise(settings, &found, &scope)?;
    let validities = issued.iter().flat_map(|issued| issued.spans).collect();
    Ok(Inquiry { operation, credentials: scope::credentials(settings, headers), made, validities })
}

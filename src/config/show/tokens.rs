//! The section of single-use tokens, written out. Secrets are masked.

use super::super::values::span_text;
use super::{MASK, Page, list, quoted};
use crate::config::Settings;

/// Nothing where no route takes tokens: then nobody gets any.
pub(super) fn show_tokens(page: &mut Page, settings: &Settings) {
    let mut guards = settings.gateway.routes.iter().filter_map(|route| route.guard.as_ref());
    let tokens = guards.find_map(|guard| guard.keys.tokens());
    if let (Some(path), Some(tokens)) = (&settings.gateway.tokens, tokens) {
        page.section("tokens", |page| {
            page.put("path", quoted(path));
            page.put("header", quoted(&tokens.header));
            page.put("lifetime", span_text(tokens.lifetime));
            page.put("secrets", list(tokens.keys.iter().map(|_| MASK)));
        });
    }
}

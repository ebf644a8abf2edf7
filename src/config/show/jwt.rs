//! The section on JSON Web Tokens as it will run. Secrets are masked.

use super::{MASK, Page, list, quoted, show_client_tls, size, span_text};
use crate::jwt::{Origin, Proof, Reading, Settings};
use crate::keys::Carrier;
use crate::tls::client;

pub(super) fn show_jwt(page: &mut Page, settings: &Settings) {
    match &settings.proof {
        Proof::Keys(origin, how) => {
            match origin {
                Origin::File { path, .. } => page.put("jwks_file", quoted(path.display())),
                Origin::Url { url, tls } => {
                    page.put("jwks_url", quoted(url));
                    if let Some(tls) = tls.as_ref().filter(|tls| *tls.settings() != client::Settings::default()) {
                        page.section("tls", |page| show_client_tls(page, tls.settings()));
                    }
                }
            }
            reading(page, *how);
        }
        Proof::Secrets(secrets) => page.put("secrets", list(secrets.iter().map(|_| MASK))),
        Proof::Elsewhere => page.put("unverified", true),
    }
    page.put("algorithms", list(settings.algorithms.iter().map(|algorithm| algorithm.name())));
    page.put("issuer", list(&settings.rules.issuers));
    page.put("audience", list(&settings.rules.audiences));
    page.put("leeway", span_text(settings.rules.leeway));
    match &settings.carrier {
        Carrier::Bearer => {}
        Carrier::Header(name) => page.put("header", quoted(name)),
        Carrier::Cookie(name) => page.put("cookie", quoted(name)),
    }
    page.put("token_size_limit", size(settings.size_limit));
    page.put("cache", size(settings.cache));
}

fn reading(page: &mut Page, reading: Reading) {
    page.put("refresh", span_text(reading.refresh));
    page.put("refresh_pause", span_text(reading.pause));
    page.put("fetch_timeout", span_text(reading.timeout));
    page.put("jwks_size_limit", size(reading.size_limit));
}

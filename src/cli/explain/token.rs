//! What `explain` says of a token: its parts, and how it stands to route and caller. Whether it was used, the store knows.

use super::page::Page;
use crate::clock::Clock;
use crate::keys::{TokenParts, TokenStanding};
use crate::machine::Time;

pub(super) fn show(page: &mut Page, parts: &TokenParts) {
    let time = |time: Time| time.rfc3339().unwrap_or_else(|| "no time".to_owned());
    page.line("token", format!("number {}, signed by the key {}", parts.number, parts.key));
    page.line("token's time", format!("{} to {}", time(parts.issued), time(parts.until)));
    let standing = match parts.standing {
        TokenStanding::UnknownKey => "no good: none of `tokens.secrets` is the one of its key",
        TokenStanding::Foreign => "no good: issued for another namespace or another caller, or changed on its way",
        TokenStanding::Good if parts.until <= Clock::wall() => {
            "over, by this machine's clock: 410, unless the store knows of its use"
        }
        TokenStanding::Good => "issued for this route and this caller",
    };
    page.line("token stands", standing);
}

//! No caller can make itself into another: whatever stands in the parts of a scope, wherever they are cut, however a
//! token is renewed.

use std::sync::Arc;

use http::HeaderValue;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;

const TENANT: HeaderName = HeaderName::from_static("x-tenant");

/// What a request says of its caller, in every way that there is.
#[derive(Debug, Clone, PartialEq)]
struct Said {
    header: String,
    cookie: String,
    parameter: String,
    subject: String,
    number: Option<u64>,
    issuer: Option<String>,
}

/// Few letters, so that equal values and values that are parts of others come up often.
fn said() -> impl Strategy<Value = Said> {
    let field = "[a=:,/|.\"]{1,3}";
    (
        field,
        field,
        "[a/%;\0 ]{0,2}a",
        "[a\",:{}\\\\\n]{0,2}a",
        prop::option::of(0_u64..3),
        prop::option::of("[a/\"]{0,2}"),
    )
        .prop_map(|(header, cookie, parameter, subject, number, issuer)| Said {
            header,
            cookie,
            parameter,
            subject,
            number,
            issuer,
        })
}

impl Said {
    fn claims(&self, more: &Json) -> Json {
        let mut claims = more.clone();
        claims["sub"] = self.number.map_or_else(|| json!(self.subject), |number| json!(number));
        if let Some(issuer) = &self.issuer {
            claims["iss"] = json!(issuer);
        }
        claims
    }

    fn hash(&self, scope: &Scope, more: &Json) -> [u8; 32] {
        let mut headers = HeaderMap::new();
        headers.insert(TENANT, HeaderValue::from_str(&self.header).unwrap());
        headers.insert(COOKIE, HeaderValue::from_str(&format!("sid={}", self.cookie)).unwrap());
        let caller = Caller {
            claims: Claims::read(self.claims(more).to_string()).map(Arc::new),
            parameters: vec![("tenant".to_owned(), self.parameter.clone())],
            ..Caller::default()
        };
        let mut frame = Frame::new("test");
        frame_values(&mut frame, &values(scope, &headers, &caller).unwrap());
        frame.finish()
    }

    /// The same but for the parts that are taken from somebody else: a bit for each.
    fn with(&self, other: &Self, taken: u8) -> Self {
        let from = |bit: u8| if taken >> bit & 1 == 1 { other } else { self };
        Self {
            header: from(0).header.clone(),
            cookie: from(1).cookie.clone(),
            parameter: from(2).parameter.clone(),
            subject: from(3).subject.clone(),
            number: from(4).number,
            issuer: from(5).issuer.clone(),
        }
    }

    /// What counts of it: a number stands in the place of the subject.
    fn counted(&self) -> Self {
        let subject = if self.number.is_some() { String::new() } else { self.subject.clone() };
        Self { subject, ..self.clone() }
    }
}

fn leaves_of_all() -> Vec<Scope> {
    vec![
        Scope::Header(TENANT),
        Scope::Cookie("sid".to_owned()),
        Scope::PathParameter("tenant".to_owned()),
        Scope::JwtClaim("/sub".to_owned(), Carrier::Bearer),
    ]
}

proptest! {
    #[test]
    fn two_callers_are_one_only_if_every_part_is(one in said(), stranger in said(), taken in prop::bits::u8::masked(63)) {
        let other = one.with(&stranger, taken);
        let scope = Scope::All(leaves_of_all());
        let nothing = json!({});
        let same = one.hash(&scope, &nothing) == other.hash(&scope, &nothing);
        prop_assert_eq!(same, one.counted() == other.counted());
    }

    #[test]
    fn a_text_that_is_cut_elsewhere_is_another_caller(text in "[a:/=]{2,6}", cuts in (1_usize..5, 1_usize..5)) {
        let cut = |at: usize| {
            let (header, rest) = text.split_at(at.min(text.len() - 1));
            let rest = rest.to_owned();
            Said {
                header: header.to_owned(),
                cookie: rest.clone(),
                parameter: "p".to_owned(),
                subject: "s".to_owned(),
                number: None,
                issuer: None,
            }
        };
        let (one, other) = (cut(cuts.0), cut(cuts.1));
        let scope = Scope::All(vec![Scope::Header(TENANT), Scope::Cookie("sid".to_owned())]);
        let nothing = json!({});
        prop_assert_eq!(one.hash(&scope, &nothing) == other.hash(&scope, &nothing), one == other);
    }

    /// Equal texts in parts of different kinds, and the same parts in another order, are other scopes.
    #[test]
    fn kinds_and_their_order_count(text in "[a-c]{1,3}", order in Just(leaves_of_all()).prop_shuffle(), kept in 1_usize..5) {
        let said = Said {
            header: text.clone(),
            cookie: text.clone(),
            parameter: text.clone(),
            subject: text,
            number: None,
            issuer: None,
        };
        let nothing = json!({});
        let (usual, other) = (leaves_of_all(), order[..kept].to_vec());
        let same = other == usual;
        prop_assert_eq!(said.hash(&Scope::All(other), &nothing) == said.hash(&Scope::All(usual), &nothing), same);
    }

    #[test]
    fn whatever_else_a_token_says_its_subject_is_the_same_caller(
        said in said(),
        times in any::<(u32, u32)>(),
        id in ".{0,8}",
        more in prop::collection::btree_map("[a-h]{1,4}", any::<i64>(), 0..4),
    ) {
        let mut renewed = json!({ "exp": times.0, "iat": times.1, "jti": id, "scope": ["orders"] });
        for (name, value) in more {
            renewed[name] = json!({ "sub": value, "iss": value });
        }
        let scope = Scope::JwtClaim("/sub".to_owned(), Carrier::Bearer);
        let by_header = Scope::JwtClaim("/sub".to_owned(), Carrier::Header(TENANT));
        prop_assert_eq!(said.hash(&scope, &json!({})), said.hash(&by_header, &renewed));
    }
}

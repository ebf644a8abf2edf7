//! What a request carries its JSON Web Token in. It takes the token out and does not look into it.

use std::fmt;

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderName};

use super::header::{self, Line};
use super::{Refusal, scope};

/// Where a token stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carrier {
    /// `Authorization: Bearer`.
    Bearer,
    /// A header of its own, without a scheme.
    Header(HeaderName),
    /// A cookie.
    Cookie(String),
}

impl Carrier {
    /// The token.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn token(&self, headers: &HeaderMap) -> Result<Vec<u8>, Refusal> {
        match self {
            Self::Cookie(name) => scope::cookie(headers, name),
            Self::Header(name) => self.one_line(headers, name).map(<[u8]>::to_vec),
            Self::Bearer => {
                let value = self.one_line(headers, &AUTHORIZATION)?;
                let (scheme, token) = value.split_at(value.iter().position(u8::is_ascii_whitespace).unwrap_or(0));
                let token = Some(token.trim_ascii()).filter(|_| scheme.eq_ignore_ascii_case(b"bearer"));
                token.map(<[u8]>::to_vec).ok_or_else(|| self.missing("is of another kind"))
            }
        }
    }

    fn one_line<'a>(&self, headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a [u8], Refusal> {
        match header::line(headers, name) {
            Line::Absent => Err(self.missing("is not there")),
            Line::Several => Err(self.missing("is on several lines")),
            Line::One(b"") => Err(self.missing("is blank")),
            Line::One(value) => Ok(value),
        }
    }

    fn missing(&self, what: &str) -> Refusal {
        Refusal::ScopeMissing(format!("The scope is read from a token, and {self} {what}."))
    }

    /// The field that it is.
    pub(super) fn header_name(&self) -> HeaderName {
        match self {
            Self::Bearer => AUTHORIZATION,
            Self::Header(name) => name.clone(),
            Self::Cookie(_) => COOKIE,
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bearer => f.write_str("the header authorization with Bearer"),
            Self::Header(name) => write!(f, "the header {name}"),
            Self::Cookie(name) => write!(f, "the cookie {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn token(carrier: &Carrier, lines: &[(HeaderName, &str)]) -> Option<String> {
        let headers = lines.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()));
        carrier.token(&headers.collect()).ok().map(|token| String::from_utf8(token).unwrap())
    }

    #[test]
    fn a_bearer_token_stands_alone_on_its_line() {
        let bearer = |lines: &[&str]| {
            token(&Carrier::Bearer, &lines.iter().map(|line| (AUTHORIZATION, *line)).collect::<Vec<_>>())
        };
        for (line, expected) in [
            ("Bearer a.b.c", Some("a.b.c")),
            ("bEARER   a.b.c ", Some("a.b.c")),
            ("Bearer a, Bearer b", Some("a, Bearer b")),
            ("Basic dTpw", None),
            ("Bearer", None),
            ("Bearera.b.c", None),
            ("", None),
        ] {
            assert_eq!(bearer(&[line]).as_deref(), expected, "{line}");
        }
        assert_eq!(bearer(&[]), None);
        assert_eq!(bearer(&["Bearer a", "Bearer a"]), None, "two lines are never one token");
    }

    #[test]
    fn a_header_or_a_cookie_holds_nothing_but_the_token() {
        let name = HeaderName::from_static("x-token");
        let header = Carrier::Header(name.clone());
        assert_eq!(token(&header, &[(name.clone(), " a.b.c ")]).as_deref(), Some("a.b.c"));
        assert_eq!(token(&header, &[(name.clone(), "a"), (name, "b")]), None);
        assert_eq!(token(&header, &[(AUTHORIZATION, "Bearer a.b.c")]), None);
        let cookie = Carrier::Cookie("id".to_owned());
        assert_eq!(token(&cookie, &[(COOKIE, "x=1; id=a.b.c")]).as_deref(), Some("a.b.c"));
        assert_eq!(token(&cookie, &[(COOKIE, "id=a; id=b")]), None);
    }
}

//! Header fields for which a request is refused whatever its route: what a proxy before or behind this one could take in
//! another way. What a guard asks of fields is in `keys`.

use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, VIA};
use http::{HeaderName, request};

use super::problem::Problem;
use super::routes::{Place, Routes};
use super::settings::Underscores;
use crate::keys::query;
use crate::upstream::headers::{self, Kinds};

/// The query parameter that asks servers for another method than the request's own, as some fields do.
const OVERRIDE_PARAMETER: &str = "_method";

/// Refuses what no route takes, and what would lead round a guard. The fields are of these kinds.
///
/// # Errors
/// Why the request cannot be taken.
pub fn check_fields(
    head: &request::Parts,
    kinds: Kinds,
    place: &Place<'_>,
    routes: &Routes,
    underscores: Underscores,
) -> Result<(), Problem> {
    let refused = |detail: String| Err(Problem::BadRequest(detail));
    if kinds.any(Kinds::CONNECTION)
        && let Some(name) = headers::nominated(&head.headers).find(is_relied_on)
    {
        return refused(format!("`Connection` names {name}, which is not the connection's own."));
    }
    let one_of = |kind: Kinds| {
        let found = kinds.any(kind).then(|| head.headers.keys().find(|name| Kinds::one(name).any(kind)));
        found.flatten().map(HeaderName::as_str)
    };
    if underscores == Underscores::Refuse
        && let Some(name) = one_of(Kinds::UNDERSCORE)
    {
        return refused(format!("The name of the field {name} has an underscore."));
    }
    match one_of(Kinds::OVERRIDE).or_else(|| method_parameter(head)) {
        Some(what) if routes.refuses_overrides(place) => {
            refused(format!("`{what}` asks for another method, and this path is guarded."))
        }
        _ => Ok(()),
    }
}

/// Whether a field would change what the request is, or hide where it came from, were it dropped on the way.
fn is_relied_on(name: &HeaderName) -> bool {
    [HOST, CONTENT_LENGTH, AUTHORIZATION, VIA].contains(name) || headers::is_forwarding(name)
}

/// What in a query asks for another method, if anything does. Bodies are not looked at.
fn method_parameter(head: &request::Parts) -> Option<&'static str> {
    head.uri.query().filter(|query| query::has(query, OVERRIDE_PARAMETER)).map(|_| OVERRIDE_PARAMETER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::Target;
    use http::Request;

    fn head(target: &str, fields: &[(&str, &str)]) -> request::Parts {
        let request =
            fields.iter().fold(Request::builder().uri(target), |all, (name, value)| all.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    fn check(head: &request::Parts, underscores: Underscores) -> Result<(), Problem> {
        let target = Target { authority: "a".to_owned(), host: "a".to_owned(), path: "/".to_owned() };
        let kinds = Kinds::of(&head.headers);
        check_fields(head, kinds, &Place::of(&target, "/").unwrap(), &Routes::new(&[]), underscores)
    }

    #[test]
    fn what_connection_may_not_name_is_found_on_any_line_and_in_any_case() {
        for (bad, lines) in [
            (true, &["close", "x-a, HOST"][..]),
            (true, &["Content-Length"]),
            (true, &[" ,authorization\t"]),
            (true, &["X-Forwarded-For"]),
            (true, &["x_forwarded_proto"]),
            (true, &["forwarded"]),
            (true, &["via"]),
            (false, &["close, , keep-alive", "\"host\", host;q=1, x-host, @"]),
            (false, &[]),
        ] {
            let fields: Vec<_> = lines.iter().map(|line| ("connection", *line)).collect();
            let checked = check(&head("/", &fields), Underscores::Drop);
            assert_eq!(matches!(checked, Err(Problem::BadRequest(_))), bad, "{lines:?}");
        }
    }

    #[test]
    fn underscores_are_refused_where_the_settings_say_so() {
        let head = head("/", &[("x_a", "1")]);
        for (underscores, passes) in
            [(Underscores::Drop, true), (Underscores::Pass, true), (Underscores::Refuse, false)]
        {
            assert_eq!(check(&head, underscores).is_ok(), passes, "{underscores:?}");
        }
    }

    #[test]
    fn overrides_are_found_in_any_spelling() {
        let asks = |target: &str, name: &str| {
            let head = head(target, &[(name, "PUT")]);
            Kinds::of(&head.headers).any(Kinds::OVERRIDE) || method_parameter(&head).is_some()
        };
        for name in ["X-HTTP-Method-Override", "x_http_method", "X-Method_Override"] {
            assert!(asks("/", name), "{name}");
        }
        for target in ["/?_method=PUT", "/?a=1&%5fmethod", "/?_method=1&_method=2", "/?_method=%zz"] {
            assert!(asks(target, "accept"), "{target}");
        }
        assert!(!asks("/_method?method=_method&x_method=1", "x-method"));
    }
}

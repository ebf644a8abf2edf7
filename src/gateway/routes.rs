//! Which route takes a request: first match wins, over every way in which servers may read its path.

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use http::{Method, request};

use super::cors::preflight;
use super::pattern::{Case, Pattern};
use super::problem::Problem;
use super::settings::{MethodOverride, Mode, PathParameters, Route};
use super::target::Target;
use crate::keys::path;

/// The route table. A route is found by the segments that its path begins with, up to the first parameter; only those that
/// begin as a request's path does are looked at one by one.
pub struct Routes {
    rules: Vec<Rule>,
    /// By that beginning, in lower case; in order.
    beginnings: HashMap<String, Vec<usize>, RandomState>,
    /// Whether there is a beginning of so many segments.
    lengths: Vec<bool>,
}

/// A request's route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Its place in the table.
    pub index: usize,
    /// Whether the request only asks what a page may do there: it passes unguarded.
    pub preflight: bool,
}

struct Rule {
    methods: Vec<Method>,
    hosts: Vec<String>,
    pattern: Pattern,
    case: Case,
    path_parameters: PathParameters,
    /// Whether it refuses requests that ask for another method than their own.
    refuses_overrides: bool,
}

/// A host, and a path in every way that servers may read it.
///
/// Some servers read an escaped slash as a slash, some cut parameters such as `;x=1`, others do neither. A request's route
/// is the first of all readings, so that no such spelling leads round a guard.
pub struct Place<'a> {
    host: &'a str,
    reading: Reading<'a>,
    /// Seldom any.
    others: Vec<Reading<'a>>,
}

struct Reading<'a> {
    path: Cow<'a, str>,
    /// Whether parameters were cut: not every route takes that.
    cut: bool,
}

impl<'a> Place<'a> {
    /// The place that a request is for. `raw_path` is the target's path as sent.
    ///
    /// # Errors
    /// When without its parameters the path has no safe normal form.
    pub fn of(target: &'a Target, raw_path: &str) -> Result<Self, Problem> {
        let reading = Reading { path: path::for_matching(&target.path), cut: false };
        let mut others = Vec::new();
        if is_read_one_way(raw_path) && (target.path == raw_path || is_read_one_way(&target.path)) {
            return Ok(Self { host: &target.host, reading, others });
        }
        let mut also = |normal: &str, cut| {
            others.push(Reading { path: path::for_matching(normal).into_owned().into(), cut });
        };
        let slashes = path::with_slashes(&target.path);
        let bare = path::without_parameters(raw_path);
        let both = slashes.as_deref().and_then(path::without_parameters);
        if let Some(slashes) = &slashes {
            also(slashes, false);
        }
        for bare in bare.iter().chain(&both) {
            let normal = path::normalize(bare).map_err(|error| {
                Problem::BadRequest(format!("Without its parameters, the path cannot be read: {error}."))
            })?;
            also(&normal, true);
            if let Some(slashes) = path::with_slashes(&normal) {
                also(&slashes, true);
            }
        }
        Ok(Self { host: &target.host, reading, others })
    }
}

impl Place<'_> {
    fn readings(&self) -> impl Iterator<Item = &Reading<'_>> {
        std::iter::once(&self.reading).chain(&self.others)
    }

    /// The parameters of a route's path that its scope asks for, decoded. One that the readings do not agree on is left
    /// out: nobody knows which the upstream takes.
    pub fn parameters(&self, route: &Route) -> Vec<(String, String)> {
        let asked = route.guard.iter().flat_map(|guard| guard.keys.scope.path_parameters());
        asked.filter_map(|name| Some((name.to_owned(), self.parameter(route, name)?))).collect()
    }

    fn parameter(&self, route: &Route, name: &str) -> Option<String> {
        let place = route.path.parameter(name)?;
        let taken = |reading: &&Reading<'_>| reading.is_taken(&route.path, route.case, route.path_parameters);
        let mut values = self.readings().filter(taken).map(|reading| path::segment(&reading.path, place));
        let first = values.next()?;
        values.all(|other| other == first).then_some(first)?
    }
}

impl Reading<'_> {
    fn is_taken(&self, pattern: &Pattern, case: Case, parameters: PathParameters) -> bool {
        let cut = self.cut && parameters == PathParameters::Keep;
        !cut && pattern.matches(&self.path, case)
    }
}

impl Routes {
    /// The table of these routes.
    pub fn new(routes: &[Route]) -> Self {
        let mut table =
            Self { rules: Vec::with_capacity(routes.len()), beginnings: HashMap::default(), lengths: Vec::new() };
        for (index, route) in routes.iter().enumerate() {
            let beginning = route.path.beginning().to_ascii_lowercase();
            let length = beginning.matches('/').count();
            table.lengths.resize(table.lengths.len().max(length + 1), false);
            table.lengths[length] = true;
            table.beginnings.entry(beginning).or_default().push(index);
            table.rules.push(Rule::of(route));
        }
        table
    }

    /// The first route that takes a request. A preflight goes where the request will go that it asks about, unless a route
    /// lists OPTIONS.
    pub fn find(&self, head: &request::Parts, place: &Place<'_>) -> Option<Found> {
        let own = self.find_for(&head.method, place);
        let listed = own.is_some_and(|own| self.rules[own].methods.contains(&Method::OPTIONS));
        let asked = preflight(head).filter(|_| !listed).and_then(|asked| self.find_for(&asked, place));
        let index = asked.or(own)?;
        Some(Found { index, preflight: asked.is_some() })
    }

    fn find_for(&self, method: &Method, place: &Place<'_>) -> Option<usize> {
        self.first(place, |rule| rule.methods.is_empty() || rule.methods.contains(method))
    }

    /// Whether a guarded route takes some method there, and minds that a request asks for another than its own.
    pub(super) fn refuses_overrides(&self, place: &Place<'_>) -> bool {
        self.first(place, |rule| rule.refuses_overrides).is_some()
    }

    fn first(&self, place: &Place<'_>, wanted: impl Fn(&Rule) -> bool) -> Option<usize> {
        let wanted = |rule: &Rule| wanted(rule) && rule.takes_host(place.host);
        let first = self.first_as(&place.reading, wanted);
        place.others.iter().filter_map(|reading| self.first_as(reading, wanted)).chain(first).min()
    }

    /// The first of those that begin as the path does: of each beginning the first, and of these the first again.
    fn first_as(&self, reading: &Reading<'_>, wanted: impl Fn(&Rule) -> bool) -> Option<usize> {
        let path = in_lower_case(&reading.path);
        let takes = |index: &usize| wanted(&self.rules[*index]) && self.rules[*index].takes_path(reading);
        let mut first = None;
        let (mut end, mut rest) = (0, if &*path == "/" { "" } else { &path });
        for is_one in &self.lengths {
            if *is_one && let Some(begun) = self.beginnings.get(&path[..end]) {
                let found = begun.iter().copied().find(takes);
                first = first.into_iter().chain(found).min();
            }
            let Some(after) = rest.strip_prefix('/') else { break };
            let length = after.find('/').unwrap_or(after.len());
            (end, rest) = (end + 1 + length, &after[length..]);
        }
        first
    }
}

impl Rule {
    fn of(route: &Route) -> Self {
        let acts = route.guard.as_ref().is_some_and(|guard| guard.mode == Mode::Enforce);
        Self {
            methods: route.methods.clone(),
            hosts: route.hosts.clone(),
            pattern: route.path.clone(),
            case: route.case,
            path_parameters: route.path_parameters,
            refuses_overrides: acts && route.method_override == MethodOverride::Refuse,
        }
    }

    fn takes_host(&self, host: &str) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|own| own == host)
    }

    fn takes_path(&self, reading: &Reading<'_>) -> bool {
        reading.is_taken(&self.pattern, self.case, self.path_parameters)
    }
}

/// Whether nothing in a path is an escape or a parameter.
fn is_read_one_way(path: &str) -> bool {
    !path.bytes().any(|byte| matches!(byte, b'%' | b';'))
}

fn in_lower_case(path: &str) -> Cow<'_, str> {
    if path.bytes().any(|byte| byte.is_ascii_uppercase()) { path.to_ascii_lowercase().into() } else { path.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn route(methods: &[Method], path: &str, hosts: &[&str]) -> Route {
        Route {
            name: path.to_owned(),
            methods: methods.to_vec(),
            path: Pattern::parse(path).unwrap(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            case: Case::Sensitive,
            path_parameters: PathParameters::Ignore,
            method_override: MethodOverride::Refuse,
            upstream: 0,
            concurrency: None,
            websocket: true,
            cors: None,
            guard: None,
        }
    }

    fn find(table: &Routes, method: &Method, host: &str, raw_path: &str) -> Option<usize> {
        let path = path::normalize(raw_path).unwrap().into_owned();
        let target = Target { authority: host.to_owned(), host: host.to_owned(), path };
        table.find_for(method, &Place::of(&target, raw_path).unwrap())
    }

    #[test]
    fn the_first_match_wins_whether_literal_or_not() {
        let table = Routes::new(&[
            route(&[Method::POST], "/orders", &[]),
            route(&[], "/v1/{*rest}", &[]),
            route(&[], "/v1/orders", &[]),
            route(&[Method::GET], "/orders/{id}", &["api.example"]),
            route(&[], "/{*all}", &[]),
        ]);
        let find = |method, host, path| find(&table, &method, host, path);
        assert_eq!(find(Method::POST, "x", "/orders"), Some(0));
        assert_eq!(find(Method::GET, "x", "/orders"), Some(4));
        assert_eq!(find(Method::GET, "x", "/v1/orders"), Some(1));
        assert_eq!(find(Method::GET, "api.example", "/orders/7"), Some(3));
        assert_eq!(find(Method::GET, "other", "/orders/7"), Some(4));
        assert_eq!(find(Method::GET, "x", "/"), None);
    }

    #[test]
    fn no_spelling_leads_round_a_literal_path() {
        let table = Routes::new(&[
            route(&[], "/pay:now", &[]),
            route(&[], "/a%2Cb/{id}", &[]),
            route(&[], "/caf%C3%a9", &[]),
            route(&[], "/{*all}", &[]),
        ]);
        for (path, found) in
            [("/pay:now", 0), ("/pay%3Anow", 0), ("/a,b/1", 1), ("/a%2Cb/1", 1), ("/caf%C3%A9", 2), ("/pay%253Anow", 3)]
        {
            assert_eq!(find(&table, &Method::POST, "x", path), Some(found), "{path}");
        }
    }

    #[test]
    fn an_escaped_slash_leads_round_no_route_whichever_way_it_is_read() {
        let table =
            Routes::new(&[route(&[], "/v1/orders", &[]), route(&[], "/names/{name}", &[]), route(&[], "/{*all}", &[])]);
        for (path, found) in [
            ("/v1%2Forders", 0),
            ("/v1/orders%2F", 0),
            ("/%2F/v1%5Corders", 0),
            ("/names/a%2Fb", 1),
            ("/names%2Fa", 1),
            ("/v1%252Forders", 2),
        ] {
            assert_eq!(find(&table, &Method::POST, "x", path), Some(found), "{path}");
        }
    }

    #[test]
    fn parameters_lead_round_no_route_but_one_that_keeps_them() {
        let table = Routes::new(&[
            route(&[], "/v1/orders", &[]),
            route(&[], "/a;b", &[]),
            Route { path_parameters: PathParameters::Keep, ..route(&[], "/kept/{id}", &[]) },
            Route { path_parameters: PathParameters::Keep, ..route(&[], "/kept", &[]) },
            route(&[], "/{*all}", &[]),
        ]);
        for (path, found) in [
            ("/v1/orders;x=1", 0),
            ("/v1;a=b;c/orders;", 0),
            ("/;v=1/v1/orders/", 0),
            ("/v1/orders%3Bx", 0),
            ("/v1/orders%3bx", 0),
            ("/v1/x/..;/orders", 0),
            ("/v1/x/y/..;x/../orders", 0),
            ("/v1%2Forders;x", 0),
            ("/v1;x%2Forders", 0),
            ("/v1;x/%2Forders", 0),
            ("/v1/orders%253Bx", 4),
            ("/a;b", 1),
            ("/a", 4),
            ("/kept;x", 4),
            ("/kept", 3),
            ("/kept/7;x", 2),
        ] {
            assert_eq!(find(&table, &Method::POST, "x", path), Some(found), "{path}");
        }
    }

    #[test]
    fn a_path_that_is_unsafe_without_its_parameters_has_no_place() {
        for path in ["/x%2f..;a/orders", "/%2e%2e;/x%5c..%3B/orders"] {
            let normal = path::normalize(path).unwrap().into_owned();
            let target = Target { authority: "x".to_owned(), host: "x".to_owned(), path: normal };
            assert!(matches!(Place::of(&target, path), Err(Problem::BadRequest(_))), "{path}");
        }
    }

    #[test]
    fn case_counts_unless_the_route_says_otherwise() {
        let table = Routes::new(&[
            route(&[], "/Exact", &[]),
            Route { case: Case::Insensitive, ..route(&[], "/Orders", &[]) },
            Route { case: Case::Insensitive, ..route(&[], "/V1/{id}/Pay", &[]) },
            route(&[], "/orders", &[]),
        ]);
        for (path, found) in [
            ("/Exact", Some(0)),
            ("/exact", None),
            ("/oRDERS", Some(1)),
            ("/orders", Some(1)),
            ("/%6frders", Some(1)),
            ("/v1/X/pay;x", Some(2)),
            ("/v2/X/pay", None),
        ] {
            assert_eq!(find(&table, &Method::POST, "x", path), found, "{path}");
        }
    }

    /// Patterns and paths of few segments, so that they begin alike.
    fn segments(each: &'static str) -> impl Strategy<Value = String> {
        prop::collection::vec(each, 0..4).prop_map(|parts| parts.iter().flat_map(|part| ["/", part]).collect())
    }

    fn routes() -> impl Strategy<Value = Vec<Route>> {
        let pattern = (segments("a|A|b|b%2Fa|\\{x\\}"), any::<bool>());
        let one = (pattern, 0..3_usize, any::<bool>(), any::<bool>());
        let made = one.prop_map(|((path, rest), method, insensitive, keep)| {
            let path = if rest { format!("{path}/{{*rest}}") } else { path };
            let path = if path.is_empty() { "/".to_owned() } else { path };
            Route {
                case: if insensitive { Case::Insensitive } else { Case::Sensitive },
                path_parameters: if keep { PathParameters::Keep } else { PathParameters::Ignore },
                ..route(&[vec![], vec![Method::GET], vec![Method::POST]][method], &path, &[])
            }
        });
        prop::collection::vec(made, 0..12)
    }

    proptest! {
        #[test]
        fn what_is_found_is_the_first_of_a_plain_walk(
            routes in routes(),
            raw in segments("a|A|b|B|b%2Fa|b%2fA;x|a;y|c"),
        ) {
            let table = Routes::new(&routes);
            let raw = if raw.is_empty() { "/".to_owned() } else { raw };
            let path = path::normalize(&raw).unwrap().into_owned();
            let target = Target { authority: "x".to_owned(), host: "x".to_owned(), path };
            let place = Place::of(&target, &raw).unwrap();
            let takes = |rule: &Rule| {
                let method = rule.methods.is_empty() || rule.methods.contains(&Method::POST);
                method && place.readings().any(|reading| rule.takes_path(reading))
            };
            let walked = table.rules.iter().position(takes);
            prop_assert_eq!(table.find_for(&Method::POST, &place), walked);
        }
    }
}

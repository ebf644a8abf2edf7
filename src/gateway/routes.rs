//! Which route takes a request: first match wins.

use std::collections::HashMap;

use http::Method;

use super::pattern::Pattern;
use super::settings::Route;
use crate::keys::path;

/// The route table. A literal path is found by its text; only routes with parameters are looked at one by one.
pub struct Routes {
    rules: Vec<Rule>,
    literal: HashMap<String, Vec<usize>>,
    patterned: Vec<usize>,
}

struct Rule {
    methods: Vec<Method>,
    hosts: Vec<String>,
    pattern: Pattern,
}

impl Routes {
    /// The table of these routes.
    pub fn new(routes: &[Route]) -> Self {
        let mut table =
            Self { rules: Vec::with_capacity(routes.len()), literal: HashMap::new(), patterned: Vec::new() };
        for (index, route) in routes.iter().enumerate() {
            let pattern = route.path.clone();
            match pattern.literal() {
                Some(path) => table.literal.entry(path).or_default().push(index),
                None => table.patterned.push(index),
            }
            table.rules.push(Rule { methods: route.methods.clone(), hosts: route.hosts.clone(), pattern });
        }
        table
    }

    /// The first route that takes a request. `path` is in normal form, `host` in lower case and without port.
    ///
    /// Some servers read an escaped slash as a slash, others do not. The route is the first of both readings, so that no
    /// such spelling leads round a guard.
    pub fn find(&self, method: &Method, host: &str, path: &str) -> Option<usize> {
        let path = &*path::for_matching(path);
        let other = path::with_slashes(path).and_then(|path| self.find_as(method, host, &path));
        self.find_as(method, host, path).into_iter().chain(other).min()
    }

    fn find_as(&self, method: &Method, host: &str, path: &str) -> Option<usize> {
        let takes = |index: &usize| self.rules[*index].takes(method, host);
        let literal = self.literal.get(path).and_then(|found| found.iter().copied().find(takes));
        let patterned = self
            .patterned
            .iter()
            .copied()
            .take_while(|index| literal.is_none_or(|literal| *index < literal))
            .find(|index| takes(index) && self.rules[*index].pattern.matches(path));
        patterned.or(literal)
    }
}

impl Rule {
    fn takes(&self, method: &Method, host: &str) -> bool {
        (self.methods.is_empty() || self.methods.contains(method))
            && (self.hosts.is_empty() || self.hosts.iter().any(|own| own == host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(methods: &[Method], path: &str, hosts: &[&str]) -> Route {
        Route {
            name: path.to_owned(),
            methods: methods.to_vec(),
            path: Pattern::parse(path).unwrap(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            upstream: 0,
            websocket: true,
            guard: None,
        }
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
        let find = |method, host, path| table.find(&method, host, path);
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
            assert_eq!(table.find(&Method::POST, "x", path), Some(found), "{path}");
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
            assert_eq!(table.find(&Method::POST, "x", path), Some(found), "{path}");
        }
    }
}

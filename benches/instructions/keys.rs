//! Key, scope and fingerprint of one request of 1 KiB. What is done for the first time is done before.

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group};
use http::header::{CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use oncegate::config;
use oncegate::keys::{Caller, Named, Naming, Request};
use oncegate::machine::{Arrival, Prints, RawPrint, Salt};
use oncegate::upstream::headers::Kinds;

use super::{at_most, orders};

/// A request, and how its route names operations: both live on, as what borrows them is handed on beside them.
pub(crate) struct Case {
    naming: &'static Naming,
    /// Of the request's fields.
    kinds: Kinds,
    request: &'static Request,
}

/// One that the route with this name takes. All that is lazy has happened.
pub(crate) fn case(route: &str) -> Case {
    let text = orders::config("64MiB").replace("UPSTREAM", "127.0.0.1:9001");
    let routes = config::parse("bench", &text, &|_| None).unwrap().settings.gateway.routes;
    let guard = routes.into_iter().find(|own| own.name == route).and_then(|own| own.guard).unwrap();
    let mut headers = HeaderMap::new();
    let mut insert = |name, value: &str| headers.insert(name, HeaderValue::from_str(value).unwrap());
    insert(HOST, "shop.example");
    insert(CONTENT_TYPE, "application/json");
    insert(HeaderName::from_static("idempotency-key"), &orders::key(7));
    insert(HeaderName::from_static("x-tenant"), "shop-17");
    insert(COOKIE, "theme=dark; sid=4b3c2d1e0f; lang=de");
    let request: &Request = Box::leak(Box::new(Request {
        method: Method::POST,
        authority: "shop.example".to_owned(),
        path: "/orders".to_owned(),
        query: None,
        raw_path: "/orders".to_owned(),
        headers,
        caller: Caller::default(),
        body: orders::order(7).into(),
    }));
    let naming = Box::leak(Box::new(Naming::new(guard.keys)));
    let case = Case { naming, kinds: Kinds::of(&request.headers), request };
    case.arrival().prints();
    case
}

impl Case {
    /// What the request is taken for.
    pub(crate) fn arrival(&self) -> Arrival<'static> {
        match black_box(self.naming).identify(black_box(self.request), Salt(*b"saltsalt")).unwrap() {
            Named::Operation(arrival) => arrival,
            Named::Unkeyed => panic!("it has a key"),
        }
    }
}

// Before the body is read.
#[library_benchmark]
#[bench::header(args = ("create-order",), setup = case, config = at_most(2_250))]
#[bench::fields_and_scope(args = ("fields",), setup = case, config = at_most(3_120))]
fn head(case: Case) -> Case {
    let Request { headers, query, caller, .. } = case.request;
    black_box(black_box(case.naming).check_head(black_box(headers), case.kinds, query.as_deref(), caller).unwrap());
    case
}

// What names it. Of its fingerprints none is made yet.
#[library_benchmark]
#[bench::header(args = ("create-order",), setup = case, config = at_most(5_150))]
#[bench::fields_and_scope(args = ("fields",), setup = case, config = at_most(47_400))]
#[bench::fingerprint(args = ("whole",), setup = case, config = at_most(33_250))]
fn operation(case: Case) -> (Case, Arrival<'static>) {
    let arrival = case.arrival();
    (case, black_box(arrival))
}

// The digest of the canonical form and the keyed hash of what was sent, which a first request needs both.
#[library_benchmark]
#[bench::json_1_kib(args = ("create-order",), setup = with_arrival, config = at_most(32_300))]
fn canonical((case, arrival): (Case, Arrival<'static>)) -> (Case, Arrival<'static>, Prints) {
    let prints = arrival.prints();
    (case, arrival, black_box(prints))
}

// An exact retry against what was recorded.
#[library_benchmark]
#[bench::exact(args = ("create-order",), setup = recorded, config = at_most(7_900))]
fn retry((case, recorded): (Case, RawPrint)) -> (Case, Arrival<'static>, bool) {
    let again = case.arrival();
    let same = again.is_exactly(recorded);
    (case, again, black_box(same))
}

fn recorded(route: &str) -> (Case, RawPrint) {
    let case = case(route);
    let recorded = case.arrival().prints().raw;
    (case, recorded)
}

fn with_arrival(route: &str) -> (Case, Arrival<'static>) {
    let case = case(route);
    let arrival = case.arrival();
    (case, arrival)
}

library_benchmark_group!(name = naming_requests, benchmarks = [head, operation]);
library_benchmark_group!(name = fingerprints, benchmarks = [canonical, retry]);

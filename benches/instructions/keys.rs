//! Key, scope and fingerprint of one request of 1 KiB. What is done for the first time is done before.

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group};
use http::header::{CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use oncegate::config;
use oncegate::keys::{Caller, Named, Naming, Request};
use oncegate::machine::{Arrival, Print, Prints};
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
        match black_box(self.naming).identify(black_box(self.request)).unwrap() {
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

// With the digest of what was sent, which is all that an exact retry needs.
#[library_benchmark]
#[bench::header(args = ("create-order",), setup = case, config = at_most(6_950))]
#[bench::fields_and_scope(args = ("fields",), setup = case, config = at_most(48_400))]
#[bench::fingerprint(args = ("whole",), setup = case, config = at_most(33_800))]
fn operation(case: Case) -> (Case, Arrival<'static>) {
    let arrival = case.arrival();
    (case, black_box(arrival))
}

// The digest of the canonical form, which a first request and a changed one need too.
#[library_benchmark]
#[bench::json_1_kib(args = ("create-order",), setup = with_arrival, config = at_most(28_500))]
fn canonical((case, arrival): (Case, Arrival<'static>)) -> (Case, Arrival<'static>, Prints) {
    let prints = arrival.prints();
    (case, arrival, black_box(prints))
}

// An exact retry against what was recorded.
#[library_benchmark]
#[bench::exact(args = ("create-order",), setup = with_arrival, config = at_most(7_000))]
fn retry((case, first): (Case, Arrival<'static>)) -> (Case, Arrival<'static>, Arrival<'static>, bool) {
    let again = case.arrival();
    let recorded: Print = black_box(first.raw);
    let same = again.raw == recorded;
    (case, first, again, black_box(same))
}

fn with_arrival(route: &str) -> (Case, Arrival<'static>) {
    let case = case(route);
    let arrival = case.arrival();
    (case, arrival)
}

library_benchmark_group!(name = naming_requests, benchmarks = [head, operation]);
library_benchmark_group!(name = fingerprints, benchmarks = [canonical, retry]);

//! 100 exchanges with a server over one connection, one after another, as requests leave the gateway; with the server, which
//! shares their thread.

use gungraun::{library_benchmark, library_benchmark_group};
use http::Request;
use http_body_util::BodyExt;
use oncegate::config;
use oncegate::upstream::{Outgoing, Upstream};
use tokio::runtime::Runtime;

use super::at_most;
use super::orders::{config, order};
use super::whole::{runtime, upstream};

const COUNTED: usize = 100;
const BEFORE: usize = 50;

/// A way to a server, and what it is asked.
type Asked = (Runtime, Upstream, Vec<Request<Outgoing>>);

fn request(number: usize) -> Request<Outgoing> {
    let body = order(number);
    let request = Request::post("/orders").header("host", "shop.example").header("content-length", body.len());
    let request = request.header("content-type", "application/json").header("accept", "application/json");
    let request = request.header("user-agent", "shop/1.0").header("idempotency-key", number.to_string());
    let request = request.header("x-forwarded-for", "192.0.2.1").header("x-forwarded-proto", "https");
    let request = request.header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    request.header("oncegate-attempt", 1).body(Outgoing::Whole(body.into())).unwrap()
}

fn ask(runtime: &Runtime, way: &Upstream, requests: impl IntoIterator<Item = Request<Outgoing>>) {
    runtime.block_on(async {
        for request in requests {
            let answer = way.send(request).await.unwrap();
            assert_eq!(answer.status(), 201);
            answer.into_body().collect().await.unwrap();
        }
    });
}

fn asked() -> Asked {
    let runtime = runtime();
    let address = runtime.block_on(upstream());
    let settings = config::parse("bench", &config("0").replace("UPSTREAM", &address), &|_| None).unwrap().settings;
    let way = Upstream::new(settings.upstreams[0].clone());
    ask(&runtime, &way, (0..BEFORE).map(request));
    (runtime, way, (BEFORE..BEFORE + COUNTED).map(request).collect())
}

#[library_benchmark]
#[bench::hundred(setup = asked, config = at_most(3_100_000))]
fn exchange((runtime, way, requests): Asked) -> (Runtime, Upstream) {
    ask(&runtime, &way, requests);
    (runtime, way)
}

library_benchmark_group!(name = exchanges, benchmarks = [exchange]);

//! What a build of oncegate that counts its own steps is shown, so that the next build is laid out for it (`deploy/build`).
//! Its requests are not the ones that are measured: those have other fields and other bodies.

use anyhow::Result;

use crate::bench::Bench;
use crate::generator::Pace;
use crate::requests::Route;
use crate::requests::Workload::{self, Fingerprint, InFlight, Mix, Plain, Replay, Unique};
use crate::servers::Server::{self, Embedded, Redis, Uncached};
use crate::servers::Tuning;

const SHOWN: [(Server, &[Workload]); 3] = [
    (Redis, &[Unique, Fingerprint, InFlight, Plain, Replay]),
    (Uncached, &[Unique, Replay, Mix]),
    (Embedded, &[Unique, Replay]),
];
/// Enough that every way through a request counts as often gone.
const REQUESTS: u64 = 20_000;

pub(crate) fn run(bench: &Bench) -> Result<()> {
    for (server, workloads) in SHOWN {
        let running = bench.start(server, &Tuning::default())?;
        for &workload in workloads {
            bench.measure(&running, workload, Pace::Count(REQUESTS))?;
        }
        // It writes down what it has counted when it ends.
        running.end()?;
    }
    Ok(())
}

/// An order as a shop's server sends it. Where it is sent again, its members may stand in another order.
pub(crate) fn request(route: Route, key: &str) -> String {
    let customer = r#""customer":{"id":12345,"name":"Zo\u00eb Ångström","email":"zoe@example.com","vip":false}"#;
    let items: Vec<String> = (1..=5).map(item).collect();
    let items = items.join(",");
    let (total, note) = (r#""total":"149.95""#, r#""note":"ring \"twice\", please""#);
    let body = match route {
        Route::Respelled => {
            format!("{{\"order\":\"{key}\", {note}, {total},\n {customer}, \"items\": [{items}]}}")
        }
        Route::Orders | Route::Prints | Route::Plain => {
            format!("{{\"order\":\"{key}\",\"items\":[{items}],{customer},{total},{note}}}")
        }
    };
    let (path, named, length) = (route.path(), route.key_line(key), body.len());
    format!(
        "POST {path}?channel=web&region=eu HTTP/1.1\r\nhost: shop.example.com\r\n{named}accept: application/json\r\n\
         accept-encoding: gzip, br\r\ncontent-type: application/json; charset=utf-8\r\nuser-agent: shop/4.2 (server)\r\n\
         authorization: Bearer a.b.c\r\nx-customer-id: 4711\r\nx-request-id: 2f6c1c9e\r\nx-tenant: north\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}

fn item(n: u32) -> String {
    format!(
        r#"{{"sku":"SKU-{:05}","quantity":{n},"price":{n}9.90,"currency":"EUR","gift":false,"tags":["a","b"]}}"#,
        n * 777
    )
}

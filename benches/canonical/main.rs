//! What a fingerprint costs beside reading its request: 1 KiB of JSON, read over loopback as the gateway reads it, and
//! the same bodies named. Medians of rounds of one run, as a ratio: `cargo bench --bench canonical` (CONTRIBUTING.md).

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use oncegate::clock::Clock;
use oncegate::keys::{Caller, FingerprintSettings, Missing, Named, Naming, Request, Scope, Settings, Source};
use oncegate::machine::{Arrival, RawPrint, Salt};

const SALT: Salt = Salt(*b"saltsalt");

/// Bodies of one round.
const BODIES: usize = 20_000;
const ROUNDS: usize = 9;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

fn main() -> Result<()> {
    let order = order();
    let (json, bytes) = (request(&order, "application/json"), request(&order, "text/plain"));
    let (address, server) = serve()?;
    let mut client = TcpStream::connect(address)?;
    client.set_nodelay(true)?;
    let recorded = RawPrint::new(SALT, [0; 8]);
    let [mut reading, mut exact, mut raw, mut canonical] = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        reading.push(timed(|| send(&mut client, &order))?);
        exact.push(timed(|| named(&json, |arrival| _ = black_box(arrival.is_exactly(black_box(recorded)))))?);
        raw.push(timed(|| named(&bytes, |arrival| _ = black_box(arrival.prints())))?);
        canonical.push(timed(|| named(&json, |arrival| _ = black_box(arrival.prints())))?);
    }
    drop(client);
    server.join().map_err(|_| anyhow!("the server panicked"))??;
    let [reading, exact, raw, canonical] = [reading, exact, raw, canonical].map(median);
    let (print, form) = (canonical.saturating_sub(exact), canonical.saturating_sub(raw));
    println!("{} bytes of JSON, medians of {ROUNDS} rounds of {BODIES}", order.len());
    let line = |what: &str, spent| println!("{what:<48}{:>8.2} us", micros(spent));
    line("read over loopback, one by one", reading);
    line("named by its key, as an exact retry is", exact);
    line("named, with the fingerprint of its bytes", raw);
    line("named, with the fingerprint of its JSON", canonical);
    line("so the canonical fingerprint", print);
    line("so its canonical form alone", form);
    let ratio = |spent| micros(reading) / micros(spent);
    println!("in the time of one read: {:.1} fingerprints, {:.1} canonical forms", ratio(print), ratio(form));
    Ok(())
}

/// An order of 1 KiB as shops send it: nested, members in no order, some escapes, white space after commas.
fn order() -> Bytes {
    let line = |no: usize| {
        format!(
            r#"{{"sku": "SKU-{no:05}", "name": "Caf\u00e9 au lait, {no} g", "quantity": {no}, "unit_price": {no}.50}}"#
        )
    };
    let head = r#"{"order_no": "2026-11-30-000017", "customer": {"id": 90071992547, "email": "someone@shop.example", "name": "Zoë Müller"}, "currency": "EUR", "total": 199.90, "express": false, "coupon": null, "address": {"street": "Lange Straße 7", "zip": "10115", "city": "Berlin"}, "lines": ["#;
    let lines: Vec<String> = (1..=7).map(line).collect();
    let text = format!("{head}{}], \"note\": \"", lines.join(", "));
    let note = "x".repeat(1024_usize.saturating_sub(text.len() + 2));
    format!("{text}{note}\"}}").into()
}

/// Reads bodies as the gateway does: hyper on a runtime of one thread, a request at a time.
fn serve() -> Result<(SocketAddr, std::thread::JoinHandle<Result<()>>)> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = std::thread::spawn(move || {
        runtime.block_on(async {
            let (stream, _) = tokio::net::TcpListener::from_std(listener)?.accept().await?;
            stream.set_nodelay(true)?;
            let read = |request: http::Request<Incoming>| async {
                let body = request.into_body().collect().await?.to_bytes();
                black_box(body);
                Ok::<_, hyper::Error>(Response::new(Empty::<Bytes>::new()))
            };
            http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(read)).await.context("serving")
        })
    });
    Ok((address, server))
}

/// Sends one body after another, each after the answer to the one before.
fn send(client: &mut TcpStream, body: &[u8]) -> Result<()> {
    let head = format!(
        "POST /orders HTTP/1.1\r\nHost: shop.example\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let request = [head.as_bytes(), body].concat();
    let mut answer = [0; 512];
    for _ in 0..BODIES {
        client.write_all(&request)?;
        let length = client.read(&mut answer)?;
        ensure!(answer[..length].starts_with(b"HTTP/1.1 200") && answer[..length].ends_with(b"\r\n\r\n"), "no answer");
    }
    Ok(())
}

/// Names the same request again and again.
fn named(request: &Request, look: impl Fn(Arrival)) -> Result<()> {
    let naming = Naming::new(settings());
    for _ in 0..BODIES {
        match naming.identify(black_box(request), SALT)? {
            Named::Operation(arrival) => look(arrival),
            Named::Unkeyed => return Err(anyhow!("it has a key")),
        }
    }
    Ok(())
}

fn request(body: &Bytes, kind: &'static str) -> Request {
    let mut headers = HeaderMap::new();
    headers.insert(KEY, HeaderValue::from_static("8e03978e-40d5-43dd-bc93-6894a57f9324"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Request {
        method: Method::POST,
        authority: "shop.example".to_owned(),
        path: "/orders".to_owned(),
        query: None,
        raw_path: "/orders".to_owned(),
        headers,
        caller: Caller::default(),
        body: body.clone(),
    }
}

fn settings() -> Settings {
    Settings {
        namespace: "orders".to_owned(),
        sources: vec![Source::Header(KEY)],
        dated: false,
        missing: Missing::Reject,
        scope: Scope::None,
        require_same: Vec::new(),
        probe: None,
        also: None,
        fingerprint: FingerprintSettings::default(),
    }
}

/// How long one of the bodies took.
fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let begun = Clock::instant();
    work()?;
    Ok(begun.elapsed() / u32::try_from(BODIES)?)
}

fn median(mut rounds: Vec<Duration>) -> Duration {
    rounds.sort_unstable();
    rounds[rounds.len() / 2]
}

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

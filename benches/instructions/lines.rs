//! A line of the access log, from what is known of a request to its worker's page.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gungraun::{library_benchmark, library_benchmark_group};
use oncegate::telemetry::access::{AccessLog, Destination, Format, Line, Settings};
use oncegate::telemetry::{Metrics, Verdict};

use super::at_most;

/// Fewer than wake the writer.
const COUNTED: u64 = 100;

fn line(at: u64) -> Line<'static> {
    Line {
        at,
        client: "10.20.30.40".parse().unwrap(),
        peer: "10.0.0.1".parse().unwrap(),
        method: Some("POST"),
        path: Some("/api/v2/customers/4711/orders"),
        query: Some("dry_run=false"),
        protocol: "HTTP/1.1",
        status: 201,
        bytes: 400,
        took: Duration::from_micros(1_234),
        route: "create-order",
        upstream: Some("127.0.0.1:9001".parse().unwrap()),
        verdict: Verdict::Executed,
        operation: Some([0x8e, 0x03, 0x97, 0x8e, 0x40, 0xd5]),
        request_id: Some(b"019a6b1e-2f3c-7c4d-8e5f-0123456789ab"),
        trace_id: Some(b"0af7651916cd43dd8448eb211c80319c"),
        user_agent: Some(
            b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
        ),
    }
}

fn log(format: Format) -> AccessLog {
    let log = AccessLog::new(1, Arc::new(Metrics::new().unwrap()));
    let to = Destination::File(PathBuf::from("/dev/null"));
    let settings = Settings { to, format, query: true, buffer: 8 << 20, flush: Duration::from_mins(1) };
    log.turn(settings.open().unwrap()).unwrap();
    let pen = log.pen(0).unwrap();
    (0..20).for_each(|at| pen.write(&line(at)));
    log
}

#[library_benchmark]
#[bench::json(args = (Format::Json,), setup = log, config = at_most(325_000))]
#[bench::combined(args = (Format::Combined,), setup = log, config = at_most(312_000))]
fn hundred_lines(log: AccessLog) -> AccessLog {
    let pen = log.pen(0).unwrap();
    (0..COUNTED).for_each(|at| pen.write(black_box(&line(1_764_499_749_000 + at))));
    log
}

library_benchmark_group!(name = access_log, benchmarks = [hundred_lines]);

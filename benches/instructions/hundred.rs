//! 100 requests through the whole gateway, one after another, with the client and the upstream that share its thread.

use gungraun::{library_benchmark, library_benchmark_group};

use super::at_most;
use super::orders::{config, logged, requests};
use super::whole::Whole;

const COUNTED: usize = 100;
const BEFORE: usize = 50;

/// What is asked, after as many requests as it takes until nothing is done for the first time.
type Asked = (Whole, Vec<Vec<u8>>, &'static str);

fn asked(mut whole: Whole, mut requests: Vec<Vec<u8>>, status: &'static str) -> Asked {
    let counted = requests.split_off(BEFORE);
    whole.ask(&requests, status);
    (whole, counted, status)
}

fn straight(path: &str) -> Asked {
    asked(Whole::straight(), requests(path, 0..BEFORE + COUNTED), "201")
}

/// With four fields more, which makes ten.
fn echoed() -> Asked {
    const MORE: &str = "Accept: */*\r\nAccept-Encoding: gzip, br\r\nX-Request-Id: 3f1c9a\r\nAuthorization: Bearer abc.def\r\n\
                        traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
    let longer = |request: Vec<u8>| String::from_utf8(request).unwrap().replace("Accept: */*\r\n", MORE).into_bytes();
    asked(Whole::echo(), requests("/orders", 0..BEFORE + COUNTED).into_iter().map(longer).collect(), "200")
}

fn once(path: &str) -> Asked {
    asked(Whole::gateway(&config("64MiB")), requests(path, 0..BEFORE + COUNTED), "201")
}

fn again(path: &str, cache: &str) -> Asked {
    let requests = requests(path, 1..2);
    asked(Whole::gateway(&config(cache)), requests.iter().cycle().take(BEFORE + COUNTED).cloned().collect(), "201")
}

fn again_logged(path: &str) -> Asked {
    let requests = requests(path, 1..2);
    asked(Whole::gateway(&logged("64MiB")), requests.iter().cycle().take(BEFORE + COUNTED).cloned().collect(), "201")
}

fn once_logged(path: &str) -> Asked {
    asked(Whole::gateway(&logged("64MiB")), requests(path, 0..BEFORE + COUNTED), "201")
}

#[library_benchmark]
#[bench::straight(args = ("/orders",), setup = straight, config = at_most(600_000))]
#[bench::echoed(setup = echoed, config = at_most(2_670_000))]
#[bench::plain(args = ("/plain",), setup = once, config = at_most(5_960_000))]
#[bench::unique(args = ("/orders",), setup = once, config = at_most(12_300_000))]
#[bench::unique_by_fingerprint(args = ("/whole",), setup = once, config = at_most(12_400_000))]
#[bench::replay(args = ("/orders", "0"), setup = again, config = at_most(4_420_000))]
#[bench::replay_from_cache(args = ("/orders", "64MiB"), setup = again, config = at_most(4_130_000))]
#[bench::unique_logged(args = ("/orders",), setup = once_logged, config = at_most(12_900_000))]
#[bench::replay_from_cache_logged(args = ("/orders",), setup = again_logged, config = at_most(4_490_000))]
fn hundred((mut whole, counted, status): Asked) -> Asked {
    whole.ask(&counted, status);
    (whole, counted, status)
}

library_benchmark_group!(name = whole_requests, benchmarks = [hundred]);

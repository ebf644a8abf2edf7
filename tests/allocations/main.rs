//! How much a request allocates on its way through the whole gateway, from socket to socket with its records in memory:
//! never more than stands here. A figure that falls is to be lowered here; one that has to rise needs a reason.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

#[path = "../../benches/instructions/orders.rs"]
mod orders;
#[path = "../../benches/instructions/whole.rs"]
mod whole;

use allocation_counter::{AllocationInfo, measure};
use orders::{config, logged, requests};
use whole::Whole;

/// Requests that are counted, after as many as it takes until nothing is done for the first time.
const COUNTED: usize = 200;
const BEFORE: usize = 50;

/// What one request may allocate: how often, and how many bytes.
struct Most {
    times: u64,
    bytes: u64,
}

/// Sends the requests, and then says what each of the counted ones took.
fn counted(mut whole: Whole, requests: &[Vec<u8>], status: &str) -> AllocationInfo {
    let (before, counted) = requests.split_at(requests.len() - COUNTED);
    whole.ask(before, status);
    measure(|| whole.ask(counted, status))
}

/// The sums over all counted requests, so that nothing is lost by rounding.
fn expect(what: &str, info: &AllocationInfo, most: &Most) {
    let count = u64::try_from(COUNTED).unwrap();
    let told = format!(
        "{what}: {:.2} allocations of {:.0} bytes a request, at most {} of {}",
        per_request(info.count_total),
        per_request(info.bytes_total),
        most.times,
        most.bytes,
    );
    println!("{told}");
    assert!(info.count_total <= most.times * count && info.bytes_total <= most.bytes * count, "{told}");
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn per_request(sum: u64) -> f64 {
    sum as f64 / COUNTED as f64
}

/// The same request again and again, which is executed once.
fn again(path: &str) -> Vec<Vec<u8>> {
    let requests = requests(path, 1..2);
    requests.iter().cycle().take(BEFORE + COUNTED).cloned().collect()
}

fn each_once(path: &str) -> Vec<Vec<u8>> {
    requests(path, 0..BEFORE + COUNTED)
}

#[test]
fn client_and_upstream_by_themselves_count_for_nothing() {
    expect("straight", &counted(Whole::straight(), &each_once("/orders"), "201"), &Most { times: 1, bytes: 1_000 });
}

#[test]
fn a_request_through_the_loop_alone() {
    expect("echoed", &counted(Whole::echo(), &each_once("/orders"), "200"), &Most { times: 12, bytes: 7_600 });
}

#[test]
fn a_request_on_a_plain_route() {
    let whole = Whole::gateway(&config("64MiB"));
    expect("plain", &counted(whole, &each_once("/plain"), "201"), &Most { times: 21, bytes: 14_400 });
}

#[test]
fn a_first_request_by_its_header() {
    let whole = Whole::gateway(&config("64MiB"));
    expect("unique", &counted(whole, &each_once("/orders"), "201"), &Most { times: 45, bytes: 28_600 });
}

#[test]
fn a_first_request_with_a_line_in_the_access_log() {
    let whole = Whole::gateway(&logged("64MiB"));
    expect("logged", &counted(whole, &each_once("/orders"), "201"), &Most { times: 46, bytes: 30_200 });
}

#[test]
fn a_first_request_by_its_fingerprint() {
    let whole = Whole::gateway(&config("64MiB"));
    expect("fingerprint", &counted(whole, &each_once("/whole"), "201"), &Most { times: 45, bytes: 28_700 });
}

#[test]
fn a_replay_from_the_store() {
    let whole = Whole::gateway(&config("0"));
    expect("replay", &counted(whole, &again("/orders"), "201"), &Most { times: 21, bytes: 8_700 });
}

#[test]
fn a_replay_from_the_cache() {
    let whole = Whole::gateway(&config("64MiB"));
    expect("cached", &counted(whole, &again("/orders"), "201"), &Most { times: 19, bytes: 8_300 });
}

//! The bytes of a record with an answer of 400 bytes, written and read.

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group};
use oncegate::machine::{OperationId, Record};
use oncegate::store::codec::Codec;

use super::at_most;
use super::rules::case;

const ID: OperationId = OperationId([0x1D; 32]);

/// A codec that has been used, a claim, and the record that takes its place.
fn records(route: &str) -> (Codec, Record, Record) {
    let (codec, case) = (Codec::default(), case(route));
    let completed = case.completed();
    codec.encode(&ID, &completed).unwrap();
    (codec, case.claim, completed)
}

fn encoded(route: &str) -> (Codec, Vec<u8>) {
    let (codec, _, completed) = records(route);
    let bytes = codec.encode(&ID, &completed).unwrap();
    codec.decode(&ID, &bytes).unwrap();
    (codec, bytes)
}

#[library_benchmark]
#[bench::claim(args = ("create-order",), setup = records, config = at_most(1_040))]
fn encode_claim((codec, claim, completed): (Codec, Record, Record)) -> (Codec, Record, Record, Vec<u8>) {
    let bytes = codec.encode(&ID, black_box(&claim)).unwrap();
    (codec, claim, completed, black_box(bytes))
}

#[library_benchmark]
#[bench::answer_of_400_bytes(args = ("create-order",), setup = records, config = at_most(1_220))]
fn encode((codec, claim, completed): (Codec, Record, Record)) -> (Codec, Record, Record, Vec<u8>) {
    let bytes = codec.encode(&ID, black_box(&completed)).unwrap();
    (codec, claim, completed, black_box(bytes))
}

#[library_benchmark]
#[bench::answer_of_400_bytes(args = ("create-order",), setup = encoded, config = at_most(1_640))]
fn decode((codec, bytes): (Codec, Vec<u8>)) -> (Codec, Vec<u8>, Record) {
    let record = codec.decode(&ID, black_box(&bytes)).unwrap();
    (codec, bytes, black_box(record))
}

library_benchmark_group!(name = record_bytes, benchmarks = [encode_claim, encode, decode]);

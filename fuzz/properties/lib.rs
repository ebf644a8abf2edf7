//! What must hold for any input: shared by the fuzz targets, which look for inputs that break it, and by
//! `tests/corpora.rs`, which shows it every input that was ever of interest. Nothing here knows the fuzzer.

pub mod answer_head;
pub mod client_print;
pub mod codec;
pub mod coding;
mod dice;
pub mod form;
pub mod json;
mod json_value;
pub mod key_header;
pub mod multipart;
pub mod path;
pub mod replies;
pub mod request_head;
mod served;
mod stream;
pub mod token;
mod view;

/// A check that panics where something does not hold.
pub type Check = fn(&[u8]);

/// Every target by its name, which is also that of its corpus.
pub const TARGETS: [(&str, Check); 12] = [
    ("answer_head", answer_head::check),
    ("client_print", client_print::check),
    ("codec", codec::check),
    ("coding", coding::check),
    ("form", form::check),
    ("json", json::check),
    ("key_header", key_header::check),
    ("multipart", multipart::check),
    ("path", path::check),
    ("replies", replies::check),
    ("request_head", request_head::check),
    ("token", token::check),
];

//! `access_log`: its defaults and its bounds.

use std::path::PathBuf;
use std::time::Duration;

use oncegate::telemetry::access::{Destination, Format, Settings};

use super::{LEAST, loaded, refused};

fn with(settings: &str) -> String {
    format!("{LEAST}workers: 2\naccess_log: {{ {settings} }}\n")
}

#[test]
fn a_path_is_enough() {
    let log = loaded(&with("path: /var/log/access.log")).settings.access_log.unwrap();
    let expected = Settings {
        to: Destination::File(PathBuf::from("/var/log/access.log")),
        format: Format::Json,
        query: false,
        buffer: 8 << 20,
        flush: Duration::from_millis(250),
    };
    assert_eq!(log, expected);
    assert_eq!(loaded(&with("path: stdout")).settings.access_log.unwrap().to, Destination::Stdout);
}

#[test]
fn what_it_cannot_be_is_refused() {
    refused(&with("format: json"), "11:13 access_log", "`path`");
    refused(&with("path: ''"), "11:21 access_log.path", "is empty");
    refused(&with("path: x, format: text"), "11:32 access_log.format", "json");
    refused(&with("path: x, query: hide"), "11:31 access_log.query", "keep");
    refused(&with("path: x, buffer: 1KiB"), "11:32 access_log.buffer", "1MiB");
    refused(
        &with("path: x, buffer: 1MiB").replace("workers: 2", "workers: 16"),
        "11:32 access_log.buffer",
        "write 3264KiB or more",
    );
    refused(&with("path: x, flush: 2m"), "11:31 access_log.flush", "1m");
}

//! Lines as they are spelled, and as they come to a file that is there, full, slow, or taken away.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::*;
use crate::telemetry::Verdict;

const ALWAYS: Duration = Duration::from_secs(20);

fn line(route: &str) -> Line<'_> {
    Line {
        at: 1_764_499_749_007,
        client: "10.0.0.1".parse().unwrap(),
        peer: "127.0.0.1".parse().unwrap(),
        method: Some("POST"),
        path: Some("/orders"),
        query: Some("token=secret"),
        protocol: "HTTP/1.1",
        status: 201,
        bytes: 6,
        took: Duration::from_micros(1_002_003),
        route,
        upstream: Some("127.0.0.1:9001".parse().unwrap()),
        verdict: Verdict::Executed,
        operation: Some([0xab, 0, 1, 2, 3, 4]),
        request_id: Some(b"id-1"),
        trace_id: Some(b"0af7651916cd43dd8448eb211c80319c"),
        user_agent: Some(b"curl/8 \"x\""),
    }
}

fn bare() -> Line<'static> {
    Line {
        method: None,
        path: None,
        query: None,
        upstream: None,
        operation: None,
        request_id: None,
        trace_id: None,
        user_agent: None,
        ..line("")
    }
}

fn spelled(line: &Line<'_>, format: Format, query: bool) -> String {
    let mut page = Page { most: 1 << 20, format, query, ..Page::default() };
    assert!(page.make_room(line.most()));
    page.append(line);
    assert!(page.bytes.len() <= line.most());
    String::from_utf8(page.bytes).unwrap()
}

fn settings(path: &Path) -> Settings {
    Settings {
        to: Destination::File(path.to_owned()),
        format: Format::Combined,
        query: false,
        buffer: 1 << 20,
        flush: Duration::from_millis(1),
    }
}

fn log(workers: usize) -> (AccessLog, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new().unwrap());
    (AccessLog::new(workers, Arc::clone(&metrics)), metrics)
}

fn dropped(metrics: &Metrics) -> u64 {
    let page = metrics.render();
    let line = page.lines().find_map(|line| line.strip_prefix("oncegate_access_log_dropped_total "));
    line.unwrap().parse().unwrap()
}

#[test]
fn a_line_has_every_field_in_both_forms() {
    let json: serde_json::Value = serde_json::from_str(&spelled(&line("orders"), Format::Json, false)).unwrap();
    let expected = serde_json::json!({
        "time": "2025-11-30T10:49:09.007Z", "client": "10.0.0.1", "peer": "127.0.0.1", "method": "POST",
        "target": "/orders", "protocol": "HTTP/1.1", "status": 201, "bytes": 6, "duration": 1.002_003,
        "route": "orders", "upstream": "127.0.0.1:9001", "verdict": "executed", "operation": "ab0001020304",
        "request_id": "id-1", "trace_id": "0af7651916cd43dd8448eb211c80319c", "user_agent": "curl/8 \"x\"",
    });
    assert_eq!(json, expected);
    assert_eq!(
        spelled(&line("orders"), Format::Combined, true),
        "10.0.0.1 - - [30/Nov/2025:10:49:09 +0000] \"POST /orders?token=secret HTTP/1.1\" 201 6 \"-\" \
         \"curl/8 \\x22x\\x22\" 1.002003 \"orders\" 127.0.0.1:9001 executed ab0001020304 \"id-1\" \
         \"0af7651916cd43dd8448eb211c80319c\" 127.0.0.1\n"
    );
}

#[test]
fn what_is_not_known_is_said_so() {
    let json: serde_json::Value = serde_json::from_str(&spelled(&bare(), Format::Json, true)).unwrap();
    for name in ["method", "target", "route", "upstream", "operation", "request_id", "trace_id", "user_agent"] {
        assert!(json[name].is_null(), "{name} in {json}");
    }
    let line = spelled(&bare(), Format::Combined, true);
    assert!(
        line.contains("\"- - HTTP/1.1\" 201 6 \"-\" \"-\" 1.002003 \"-\" - executed - \"-\" \"-\" 127.0.0.1\n"),
        "{line}"
    );
}

#[test]
fn lines_of_all_workers_are_written_whole_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, metrics) = log(3);
    log.turn(Settings { flush: ALWAYS, ..settings(&path) }.open().unwrap()).unwrap();
    for worker in 0..3 {
        (0..200).for_each(|_| log.pen(worker).unwrap().write(&line("r")));
    }
    assert!(log.pen(3).is_none());
    assert!(log.finish(ALWAYS));
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        text.lines().filter(|found| format!("{found}\n") == spelled(&line("r"), Format::Combined, false)).count(),
        600
    );
    assert_eq!((text.lines().count(), dropped(&metrics)), (600, 0));
}

#[test]
fn what_has_no_room_is_dropped_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(pipe.metadata().unwrap().file_type().is_fifo());
    let (log, metrics) = log(1);
    let wanted = Settings { buffer: 512 * 1024, ..settings(&pipe) };
    // Nobody reads the pipe: opening it holds up nobody, and neither does writing.
    log.turn(wanted.open().unwrap()).unwrap();
    let pen = log.pen(0).unwrap();
    let all = 10_000;
    (0..all).for_each(|_| pen.write(&line("r")));
    let lost = dropped(&metrics);
    assert!(lost > 0 && lost < all, "{lost}");
    assert!(pen.page().bytes.capacity() <= 256 * 1024);
    assert!(!log.finish(Duration::from_millis(10)), "the pipe is full");
    // Who reads on gets whole lines: all that were not dropped.
    let mut reader = std::io::BufReader::new(std::fs::File::open(&pipe).unwrap());
    let expected = spelled(&line("r"), Format::Combined, false);
    for _ in lost..all {
        let mut found = String::new();
        std::io::BufRead::read_line(&mut reader, &mut found).unwrap();
        assert_eq!(found, expected);
    }
    assert!(log.finish(ALWAYS));
}

#[test]
fn a_full_disk_costs_lines_and_no_halves() {
    let (log, metrics) = log(1);
    log.turn(settings(Path::new("/dev/full")).open().unwrap()).unwrap();
    let pen = log.pen(0).unwrap();
    (0..20_000).for_each(|_| pen.write(&line("r")));
    let lost = dropped(&metrics);
    assert!(lost > 0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    log.turn(settings(&path).open().unwrap()).unwrap();
    assert!(log.finish(ALWAYS));
    assert_eq!(dropped(&metrics), 20_000, "what the old file did not take does not go to the new one");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "");
}

#[test]
fn after_a_rename_the_name_is_a_new_file_and_no_line_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (path, old) = (folder.path().join("log"), folder.path().join("log.1"));
    let (log, _) = log(1);
    log.turn(Settings { flush: ALWAYS, ..settings(&path) }.open().unwrap()).unwrap();
    let pen = log.pen(0).unwrap();
    pen.write(&line("before"));
    std::fs::rename(&path, &old).unwrap();
    log.reopen();
    let came = (0..20_000).any(|_| {
        path.exists() || {
            std::thread::sleep(Duration::from_millis(1));
            false
        }
    });
    assert!(came, "the name is no file again");
    pen.write(&line("after"));
    assert!(log.finish(ALWAYS));
    assert!(std::fs::read_to_string(old).unwrap().contains("before"));
    let new = std::fs::read_to_string(path).unwrap();
    assert_eq!((new.lines().count(), new.contains("after")), (1, true));
}

#[test]
fn a_destination_that_cannot_be_is_told_with_its_name_and_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no").join("log");
    for fault in [settings(&path).open().unwrap_err(), settings(&path).check().unwrap_err()] {
        assert!(fault.starts_with("`access_log.path`: ") && fault.contains(path.to_str().unwrap()), "{fault}");
        assert!(fault.contains("make its folder"), "{fault}");
    }
    let fine = folder.path().join("log");
    settings(&fine).check().unwrap();
    assert!(!fine.exists(), "a look makes nothing");
}

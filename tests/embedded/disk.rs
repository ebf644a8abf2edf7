//! Disks that go wrong under a running gateway: it says 503, runs nothing, makes up nothing, and goes on when it can.
//! The limit on a file's size stands for the disk: it binds every user, and can be changed while a process runs.

use std::path::Path;
use std::process::Command;

use crate::gateway::{Gateway, wait_until};
use crate::upstream::{Recorded, Reply, ScriptedUpstream};
use crate::{Home, naming, oncegate, order, refused, replays, started, stop, text, told};

const LIMITLESS: u64 = u64::MAX;

/// Starts a gateway that is told of a file that grows too large by an error, not by a signal.
fn limited(config: &Path) -> Gateway {
    let mut command = Command::new("sh");
    let script = "trap '' XFSZ; exec \"$0\" serve --config \"$1\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_oncegate")]).arg(config);
    Gateway::try_command(command, config).unwrap_or_else(|(ended, log)| panic!("it did not start ({ended}):\n{log}"))
}

/// How large the gateway's files may become from now on.
fn limit(gateway: &Gateway, bytes: u64) {
    let soft = if bytes == LIMITLESS { "unlimited".to_owned() } else { bytes.to_string() };
    let pid = gateway.pid().to_string();
    let done = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={soft}:")]).status().unwrap();
    assert!(done.success());
}

fn ready(gateway: &Gateway) -> bool {
    gateway.get_admin("/readyz").status == 200
}

fn unavailable(gateway: &Gateway, key: &str) -> bool {
    told(&gateway.send(&order(key))) == refused(503, "store-unavailable")
}

const ERRORS: &str = r#"oncegate_store_errors_total{op="reserve"}"#;

#[test]
fn a_full_disk_refuses_and_recovers_without_a_restart() {
    let upstream = ScriptedUpstream::start(|request: &Recorded| {
        let key = request.text("Idempotency-Key");
        Reply::whole(201, &[("X-Key", &key)], vec![b'x'; 100_000])
    });
    let home = Home::new(&upstream);
    let mut gateway = limited(&home.config("store", ""));
    gateway.send(&order("first"));
    let size = home.path("store/records.redb").metadata().unwrap().len();
    limit(&gateway, size + (1 << 20));
    // Fills the disk; at last not even a reservation fits.
    let mut asked = vec!["first".to_owned()];
    wait_until("the disk is full", || {
        let key = format!("k{}", asked.len());
        let answer = gateway.send(&order(&key));
        asked.push(key);
        assert!(answer.status == 201 || told(&answer) == refused(503, "store-unavailable"), "{answer:?}");
        assert!(asked.len() < 5_000);
        answer.status == 503
    });
    // Whatever still fits, a disk without room for an answer makes the gateway say so.
    wait_until("it is not ready", || {
        let key = format!("k{}", asked.len());
        let _ = gateway.send(&order(&key));
        asked.push(key);
        assert!(asked.len() < 5_000);
        !ready(&gateway)
    });
    assert!(gateway.metric(ERRORS) > 0.0);
    assert!(gateway.log().contains("the embedded store failed"), "{}", gateway.log());

    limit(&gateway, LIMITLESS);
    wait_until("it is ready again", || ready(&gateway));
    settle_all(&gateway, &upstream, &asked);
    // And all of it is on the disk.
    gateway.kill();
    let heir = home.start("store");
    settle_all(&heir, &upstream, &asked);
}

/// Asks for every key until it is answered: no key ran twice, and whatever ran is replayed or in doubt.
fn settle_all(gateway: &Gateway, upstream: &ScriptedUpstream, keys: &[String]) {
    for key in keys {
        wait_until(&format!("{key} is settled"), || {
            let answer = gateway.send(&order(key));
            answer.status == 201 || answer.code().as_deref() == Some("outcome-unknown")
        });
        assert_eq!(upstream.executions("Idempotency-Key", key), 1, "{key}");
    }
}

#[test]
fn a_disk_that_takes_no_writes_stops_reservations_and_not_the_process() {
    let upstream = naming();
    let home = Home::new(&upstream);
    let gateway = limited(&home.config("store", ""));
    assert_eq!(gateway.send(&order("before")).status, 201);
    limit(&gateway, 0);
    for number in 0..20 {
        assert!(unavailable(&gateway, &format!("during-{number}")));
    }
    assert!(!ready(&gateway));
    assert!(gateway.metric(ERRORS) >= 20.0);
    assert_eq!(upstream.requests().len(), 1, "nothing runs without a reservation");
    limit(&gateway, LIMITLESS);
    wait_until("it is ready again", || ready(&gateway));
    assert!(replays(&gateway, "before"));
    for number in 0..20 {
        assert_eq!(gateway.send(&order(&format!("during-{number}"))).status, 201);
    }
    assert_eq!(upstream.requests().len(), 21);
    stop(gateway);
}

#[test]
fn a_file_that_was_cut_is_refused_until_a_backup_is_in_its_place() {
    let upstream = naming();
    let home = Home::new(&upstream);
    let config = home.config("store", "");
    let mut gateway = started(&config);
    assert_eq!(gateway.send(&order("kept")).status, 201);
    let (copy, at) = (home.path("copy"), gateway.admin.to_string());
    let backup = ["backup", "--config", config.to_str().unwrap(), "--to", copy.to_str().unwrap(), "--admin", &at];
    assert!(oncegate(&backup).status.success());

    let file = home.path("store/records.redb");
    let whole = std::fs::read(&file).unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_len(whole.len() as u64 / 2).unwrap();
    for key in ["kept", "new"] {
        wait_until(&format!("{key} is refused"), || unavailable(&gateway, key));
    }
    assert!(!ready(&gateway));
    gateway.kill();
    for _ in 0..2 {
        let Err((ended, log)) = Gateway::try_run(&config) else { panic!("it starts on half a file") };
        assert_eq!(ended.code(), Some(1));
        for word in ["is damaged", "oncegate backup", "may run a second time"] {
            assert!(log.contains(word), "{log}");
        }
    }
    assert_eq!(upstream.requests().len(), 1);

    std::fs::remove_dir_all(home.path("store")).unwrap();
    std::fs::rename(&copy, home.path("store")).unwrap();
    let heir = started(&config);
    assert!(replays(&heir, "kept"));
    assert_eq!(heir.send(&order("new")).status, 201);
}

#[test]
fn a_place_that_takes_no_files_is_refused_at_the_start() {
    let home = Home::new(&naming());
    std::fs::write(home.path("file"), "").unwrap();
    // Nobody, root included, can make a directory in a file, or in the kernel's own.
    for place in [home.path("file/store"), "/proc/self/store".into()] {
        let config = home.config_with(&format!("path: '{}'", place.display()), "");
        let output = oncegate(&["serve", "--config", config.to_str().unwrap()]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(&format!("the store in {} cannot be opened", place.display())), "{told}");
    }
}

#[test]
fn a_disk_that_is_full_at_the_start_is_refused_and_leaves_nothing_in_the_way() {
    let upstream = naming();
    let home = Home::new(&upstream);
    let config = home.config("store", "");
    let script = "trap '' XFSZ; ulimit -S -f 8; exec \"$0\" serve --config \"$1\"";
    for _ in 0..2 {
        let output =
            Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_oncegate")]).arg(&config).output().unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("cannot be opened"), "{told}");
    }
    let gateway = started(&config);
    assert_eq!(gateway.send(&order("k")).status, 201);
}

#[test]
fn an_empty_store_is_begun_with_a_warning_once() {
    let home = Home::new(&naming());
    let config = home.config("store", "");
    let warning = "an empty one was begun";
    let first = started(&config);
    assert!(first.log().contains(warning), "{}", first.log());
    stop(first);
    let second = started(&config);
    assert!(!second.log().contains(warning), "{}", second.log());
}

//! `oncegate backup`: what is in a copy, made while the gateway runs and while not, and when there is none.

use std::path::Path;
use std::process::Output;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::client::Call;
use crate::gateway::{Gateway, wait_until};
use crate::upstream::{Gate, Recorded, Reply, ScriptedUpstream};
use crate::{Home, TOKEN, admin, made, naming, oncegate, order, refused, replays, started, stop, text};

/// Runs the command; `at` is where the running gateway's door is, if one runs.
fn back_up(config: &Path, to: &Path, at: Option<std::net::SocketAddr>) -> Output {
    let (config, to) = (config.to_str().unwrap(), to.to_str().unwrap());
    let at = at.map(|at| at.to_string());
    let mut arguments = vec!["backup", "--config", config, "--to", to];
    arguments.extend(at.as_deref().into_iter().flat_map(|at| ["--admin", at]));
    oncegate(&arguments)
}

/// The error of a command that must fail and leave nothing.
fn failure(output: &Output, to: &Path) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let folder = to.parent().unwrap();
    let left: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_str().unwrap().contains("partial")), "{left:?}");
    text(&output.stderr)
}

fn records(output: &Output) -> usize {
    assert!(output.status.success(), "{output:?}");
    let out = text(&output.stdout);
    assert!(out.contains("read back and checked"), "{out}");
    out.split(' ').next().unwrap().parse().unwrap()
}

/// Sends one order after another until it is told to stop, and notes the keys that were made.
fn load(gateway: &Gateway, client: usize, stop: &AtomicBool, done: &Mutex<Vec<String>>) {
    for number in 0.. {
        let key = format!("c{client}-{number}");
        assert!(made(&gateway.send(&order(&key)), &key), "{key}");
        done.lock().unwrap().push(key);
        if stop.load(Ordering::SeqCst) {
            return;
        }
    }
}

#[test]
fn a_copy_made_under_load_has_everything_that_was_answered_before_it() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |request: &Recorded| {
        let key = request.text("Idempotency-Key");
        let reply = Reply::whole(201, &[], format!("made {key}"));
        if key == "slow" { reply.after(&hold) } else { reply }
    });
    let home = Home::new(&upstream);
    let config = home.config("store", "");
    let gateway = started(&config);
    let (stopped, done) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let copy = home.path("copy");
    let (before, count) = std::thread::scope(|scope| {
        let slow = scope.spawn(|| gateway.send(&order("slow")));
        let clients: Vec<_> = (0..4)
            .map(|number| {
                scope.spawn({
                    let (gateway, stopped, done) = (&gateway, &stopped, &done);
                    move || load(gateway, number, stopped, done)
                })
            })
            .collect();
        wait_until("orders were made", || done.lock().unwrap().len() >= 100);
        let before = done.lock().unwrap().clone();
        let output = back_up(&config, &copy, Some(gateway.admin));
        stopped.store(true, Ordering::SeqCst);
        for client in clients {
            client.join().unwrap();
        }
        gate.open();
        assert!(made(&slow.join().unwrap(), "slow"));
        (before, records(&output))
    });
    assert!(count > before.len(), "{count} records, {} answered before, one under way", before.len());
    stop(gateway);

    // The original has gone; a gateway goes on with the copy.
    std::fs::remove_dir_all(home.path("store")).unwrap();
    let heir = home.start("copy");
    for key in &before {
        assert!(replays(&heir, key), "{key} was answered before the backup began");
    }
    // What was under way is found without a gateway that looks after it: in doubt when its lease has ended, never run.
    wait_until("the lease ends", || heir.send(&order("slow")).code().as_deref() == Some("outcome-unknown"));
    assert_eq!(upstream.executions("Idempotency-Key", "slow"), 1);
    for key in &before {
        assert_eq!(upstream.executions("Idempotency-Key", key), 1, "{key}");
    }
}

#[test]
fn a_copy_of_a_store_that_nobody_has_open_is_the_same() {
    let upstream = naming();
    let home = Home::new(&upstream);
    let config = home.config("store", "");
    let gateway = started(&config);
    for number in 0..20 {
        gateway.send(&order(&format!("k{number}")));
    }
    stop(gateway);
    assert_eq!(records(&back_up(&config, &home.path("copy"), None)), 20);
    // As an operator would put it in place.
    std::fs::remove_dir_all(home.path("store")).unwrap();
    std::fs::rename(home.path("copy"), home.path("store")).unwrap();
    let heir = started(&config);
    assert!((0..20).all(|number| replays(&heir, &format!("k{number}"))));
    assert_eq!(upstream.requests().len(), 20);
}

#[test]
fn nothing_is_replaced() {
    let home = Home::new(&naming());
    let config = home.config("store", "");
    stop(started(&config));
    let (folder, file, link) = (home.path("folder"), home.path("file"), home.path("link"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(&file, "mine").unwrap();
    std::os::unix::fs::symlink("/nowhere", &link).unwrap();
    for there in [&folder, &file, &link] {
        let told = failure(&back_up(&config, there, None), there);
        assert!(told.contains("is there already: a backup replaces nothing"), "{told}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    let told = failure(&back_up(&config, &home.path("no/such/folder"), None), &home.path("x"));
    assert!(told.contains("cannot be made"), "{told}");
}

#[test]
fn a_running_gateway_gives_it_to_its_operators_alone() {
    let home = Home::new(&naming());
    let config = home.config("store", "");
    let gateway = started(&config);
    let (copy, at) = (home.path("copy"), Some(gateway.admin));
    assert_eq!(gateway.get_admin("/api/v1/backup").status, 401);
    let stranger = home.config("store", &admin("another-operators-token"));
    let told = failure(&back_up(&stranger, &copy, at), &copy);
    assert!(told.contains("admin token"), "{told}");
    let nowhere = failure(&back_up(&config, &copy, None), &copy);
    assert!(nowhere.contains("--admin"), "{nowhere}");
    let deaf = failure(&back_up(&config, &copy, Some(([127, 0, 0, 1], 9).into())), &copy);
    assert!(deaf.contains("127.0.0.1:9") && deaf.contains("in use"), "{deaf}");
    drop(gateway);

    let open = home.config("store", "admin: { listen: 127.0.0.1:0 }\n");
    let gateway = started(&open);
    assert_eq!(told_by(&gateway), refused(403, "token-needed"));
    let told = failure(&back_up(&open, &copy, Some(gateway.admin)), &copy);
    assert!(told.contains("`admin.token`"), "{told}");
}

/// The call that asks a gateway's door for a backup.
fn question() -> Call {
    Call::new("GET", "/api/v1/backup").header("Authorization", format!("Bearer {TOKEN}"))
}

/// Status and code of the refusal; the operators' door says no more about itself.
fn told_by(gateway: &Gateway) -> (u16, Option<String>) {
    let answer = question().send(gateway.admin);
    let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    (answer.status, problem["code"].as_str().map(str::to_owned))
}

#[test]
fn other_stores_say_what_to_do_instead() {
    let home = Home::new(&naming());
    for (store, remedy) in
        [("kind: memory", "nothing to back up"), ("kind: redis, url: 'redis://127.0.0.1:9'", "BGSAVE")]
    {
        let copy = home.path("copy");
        let told = failure(&back_up(&home.config_with(store, ""), &copy, None), &copy);
        assert!(told.contains(remedy), "{told}");
    }
    let gateway = started(&home.config_with("kind: memory", ""));
    assert_eq!(told_by(&gateway), refused(409, "no-backup"));
    let told = failure(&back_up(&home.config("nowhere", ""), &home.path("copy"), None), &home.path("copy"));
    assert!(told.contains("nowhere cannot be opened"), "{told}");
    assert!(!home.path("nowhere").exists());
}

#[test]
fn a_copy_that_breaks_off_or_is_garbled_on_its_way_is_none() {
    let upstream = naming();
    let home = Home::new(&upstream);
    let config = home.config("store", "");
    let gateway = started(&config);
    for number in 0..5 {
        gateway.send(&order(&format!("k{number}")));
    }
    let whole = question().send(gateway.admin).body;
    let bad = |from: usize| {
        let mut bytes = whole.clone();
        bytes[from] ^= 1;
        bytes
    };
    let end = whole.len();
    let bodies = [
        whole[..end - 1].to_vec(),
        whole[..end / 2].to_vec(),
        whole[..10].to_vec(),
        Vec::new(),
        bad(0),
        bad(20),
        bad(30),
        bad(end / 2),
        bad(end - 40),
        bad(end - 1),
        [&whole[..], b"x"].concat(),
        whole.clone(),
    ];
    let last = bodies.len() - 1;
    for (number, body) in bodies.into_iter().enumerate() {
        let door = ScriptedUpstream::start(move |_| Reply::whole(200, &[], &body));
        let copy = home.path(&format!("copy-{number}"));
        let output = back_up(&config, &copy, Some(door.address()));
        if number == last {
            assert_eq!(records(&output), 5);
        } else {
            let told = failure(&output, &copy);
            assert!(told.contains("broke off or was garbled"), "{number}: {told}");
            assert!(!copy.exists());
        }
    }
    // A connection that is cut in the middle.
    let half = whole.clone();
    let door = ScriptedUpstream::start(move |_| Reply::cut_short(200, &[], half.len(), &half[..half.len() / 2]));
    let copy = home.path("cut");
    let told = failure(&back_up(&config, &copy, Some(door.address())), &copy);
    assert!(told.contains("gave no backup"), "{told}");
}

/// An operator who asks and never reads holds up nobody else, and not the end of the gateway.
#[test]
fn a_reader_who_does_not_read_is_no_burden() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], vec![b'x'; 200_000]));
    let home = Home::new(&upstream);
    let config = home.config("store", "limits: { send_timeout: 1s }");
    let gateway = started(&config);
    for number in 0..60 {
        assert_eq!(gateway.send(&order(&format!("k{number}"))).status, 201);
    }
    let mut lazy = crate::client::connect(gateway.admin).unwrap();
    std::io::Write::write_all(&mut lazy, &question().bytes()).unwrap();
    wait_until("the first one is under way", || told_by(&gateway) == refused(503, "overloaded"));
    assert_eq!(gateway.send(&order("meanwhile")).status, 201);
    // It is cut off, and the next one gets its backup.
    wait_until("its place is free", || back_up(&config, &home.path("copy"), Some(gateway.admin)).status.success());
    drop(lazy);
    stop(gateway);
}

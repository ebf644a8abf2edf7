//! Threads that cannot be had: a gateway that starts has all of them.

use std::process::Command;

use crate::gateway::{self, Gateway};
use crate::{ready_upstream, yaml};

/// How many threads of this name the process has.
fn threads(pid: u32, name: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|own| own.trim_end() == name).count()
}

#[test]
fn a_gateway_with_too_few_descriptors_does_not_start_with_fewer_threads() {
    let upstream = ready_upstream();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("oncegate.yaml");
    gateway::write(&config, &yaml(&upstream, "workers: 4\nstore: { kind: memory }\n", ""));
    let (mut refused, mut started) = (0, 0);
    for descriptors in 16..64 {
        let mut command = Command::new("sh");
        let script = format!("ulimit -n {descriptors}; exec \"$0\" serve --config \"$1\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_oncegate")]).arg(&config);
        match Gateway::try_command(command, &config) {
            Err((_, told)) => {
                assert!(told.contains("Too many open files"), "{told}");
                refused += 1;
            }
            Ok(gateway) => {
                // What the system shows of a name.
                let of = |name| threads(gateway.pid(), name);
                assert_eq!((of("oncegate-worker"), of("oncegate-house")), (4, 1), "of {descriptors} descriptors");
                started += 1;
            }
        }
        if started == 3 {
            break;
        }
    }
    assert!(refused > 0 && started > 0, "{refused} refused, {started} started");
}

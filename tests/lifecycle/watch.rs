//! A watched file is read again when its content changes, however it does: written over, replaced, or reached by a link
//! that is turned.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::client::Call;
use crate::gateway::{self, Gateway};
use crate::upstream::ScriptedUpstream;
use crate::{ready_upstream, yaml};

const TAKEN: &str = r#"oncegate_reloads_total{result="ok"}"#;

fn watched(upstream: &ScriptedUpstream, route: &str) -> String {
    let route = format!("  - {{ name: {route}, match: {{ path: /{route} }}, upstream: orders }}\n");
    yaml(upstream, "reload: { watch: true }", &route)
}

/// Whether a route of this name is in force.
fn has(gateway: &Gateway, route: &str) -> bool {
    let series = format!("oncegate_requests_total{{route=\"{route}\",verdict=\"passed\"}}");
    let before = gateway.metric(&series);
    gateway.send(&Call::new("GET", &format!("/{route}")));
    gateway.metric(&series) > before
}

#[test]
fn a_file_is_read_when_it_is_replaced_or_written_over() {
    let upstream = ready_upstream();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("oncegate.yaml");
    gateway::write(&config, &watched(&upstream, "first"));
    let gateway = Gateway::try_run(&config).unwrap_or_else(|(_, log)| panic!("{log}"));
    gateway.rewrite(&watched(&upstream, "second"));
    gateway.wait_for_metric(TAKEN, 1.0);
    assert!(has(&gateway, "second") && !has(&gateway, "first"));
    gateway::write(&config, &watched(&upstream, "third"));
    gateway.wait_for_metric(TAKEN, 2.0);
    assert!(has(&gateway, "third"));
}

/// As Kubernetes lays out a configuration: the file is a link through `..data`, which is a link to a folder.
#[test]
fn a_file_is_read_when_the_link_to_it_is_turned() {
    let upstream = ready_upstream();
    let folder = tempfile::tempdir().unwrap();
    let put = |version: &str, route: &str| {
        let data = folder.path().join(version);
        std::fs::create_dir(&data).unwrap();
        let text = watched(&upstream, route).replace("{dir}", &folder.path().display().to_string());
        gateway::write(&data.join("oncegate.yaml"), &text);
        let fresh = folder.path().join("..data_tmp");
        symlink(version, &fresh).unwrap();
        std::fs::rename(fresh, folder.path().join("..data")).unwrap();
    };
    put("..1", "first");
    let config = folder.path().join("oncegate.yaml");
    symlink(Path::new("..data/oncegate.yaml"), &config).unwrap();
    let gateway = Gateway::try_run(&config).unwrap_or_else(|(_, log)| panic!("{log}"));
    for (turn, (version, route)) in [("..2", "second"), ("..3", "third")].into_iter().enumerate() {
        put(version, route);
        gateway.wait_for_metric(TAKEN, if turn == 0 { 1.0 } else { 2.0 });
        assert!(has(&gateway, route), "{route}");
    }
}

#[test]
fn what_changes_no_content_is_no_reload() {
    let upstream = ready_upstream();
    let text = watched(&upstream, "first");
    let gateway = Gateway::start(&text);
    gateway.rewrite(&text);
    // Read once more for a change that counts: the one before it was seen by then, and was none.
    gateway.rewrite(&watched(&upstream, "second"));
    gateway.wait_for_metric(TAKEN, 1.0);
    gateway.rewrite(&watched(&upstream, "second"));
    gateway.rewrite(&watched(&upstream, "third").replace("watch: true", "watch: false"));
    gateway.wait_for_metric(TAKEN, 2.0);
    gateway.rewrite(&watched(&upstream, "fourth"));
    gateway.signal("HUP");
    gateway.wait_for_metric(TAKEN, 3.0);
    assert!(has(&gateway, "fourth"));
    assert_eq!(gateway.metric(TAKEN), 3.0);
}

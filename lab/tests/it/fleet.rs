//! A fleet of three machines, from outside: one short failure under load, and nothing is left of it.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::runs::TestDirectory;

/// What a machine needs for a fleet: root's rights, and HAProxy.
fn may_be_built() -> bool {
    let namespaces = Command::new("unshare").args(["--net", "true"]).stderr(Stdio::null()).status();
    namespaces.is_ok_and(|status| status.success()) && Path::new("/usr/sbin/haproxy").exists()
}

#[test]
fn a_drained_node_costs_no_request() {
    if !may_be_built() {
        assert!(std::env::var_os("CI").is_none(), "run as root, with haproxy and iproute2");
        println!("not run: it needs root's rights and haproxy");
        return;
    }
    let directory = TestDirectory::new("fleet");
    let mut command = directory.experiment(&["fleet", "--quick", "--only", "drained", "--json"], "1");
    let lab = command.stdout(Stdio::piped()).spawn().expect("the laboratory");
    let pid = lab.id();
    let output = lab.wait_with_output().expect("its end");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let drained = &results["failures"][0];
    assert!(drained["idempotent"].as_u64().is_some_and(|requests| requests > 100), "{results}");
    assert!(drained["posts"].as_u64().is_some_and(|posts| posts > 10), "{results}");
    for reasons in ["idempotent_failed", "posts_failed"] {
        assert_eq!(drained[reasons], serde_json::json!({}), "{results}");
    }
    assert_eq!((&drained["posts_doubled"], &drained["posts_lost"]), (&0.into(), &0.into()), "{results}");
    directory.assert_clean(pid, "at the end");
    let left = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let own = format!("tsubame-lab.{pid}.");
    assert_eq!(left.filter(|name| name.file_name().to_string_lossy().starts_with(&own)).count(), 0);
}

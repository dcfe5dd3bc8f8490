//! A fleet of three machines, from outside: short failures under load, and nothing is left of them.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::runs::TestDirectory;

/// What a machine needs for a fleet: root's rights, HAProxy and Redis.
fn may_be_built() -> bool {
    let namespaces = Command::new("unshare").args(["--net", "true"]).stderr(Stdio::null()).status();
    let programs = ["/usr/sbin/haproxy", "/usr/bin/redis-server"];
    namespaces.is_ok_and(|status| status.success()) && programs.iter().all(|program| Path::new(program).exists())
}

#[test]
fn a_drained_node_or_a_lost_store_costs_no_request() {
    if !may_be_built() {
        assert!(std::env::var_os("CI").is_none(), "run as root, with haproxy, redis-server and iproute2");
        println!("not run: it needs root's rights, haproxy and redis-server");
        return;
    }
    let directory = TestDirectory::new("fleet");
    let out = directory.out();
    let kept = out.to_string_lossy();
    let arguments = ["fleet", "--quick", "--only", "drained,redis-killed", "--json", "--out", &kept];
    let lab = directory.experiment(&arguments, "1").stdout(Stdio::piped()).spawn().expect("the laboratory");
    let pid = lab.id();
    let output = lab.wait_with_output().expect("its end");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(results["absences"], serde_json::json!([]), "{results}");
    for failure in [&results["failures"][0], &results["failures"][1]] {
        assert!(failure["idempotent"].as_u64().is_some_and(|requests| requests > 100), "{results}");
        assert!(failure["posts"].as_u64().is_some_and(|posts| posts > 10), "{results}");
        for reasons in ["idempotent_failed", "posts_failed"] {
            assert_eq!(failure[reasons], serde_json::json!({}), "{results}");
        }
        assert_eq!((&failure["posts_doubled"], &failure["posts_lost"]), (&0.into(), &0.into()), "{results}");
    }
    for (file, part) in
        [("report.html", "<h2>Failures</h2>"), ("raw.csv", "\nredis-killed,1,"), ("setup.txt", "ClientLimitStore")]
    {
        let text = std::fs::read_to_string(out.join(file)).expect(file);
        assert!(text.contains(part), "{file}: {text}");
    }
    directory.assert_clean(pid, "at the end");
    let left = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let own = format!("tsubame-lab.{pid}.");
    assert_eq!(left.filter(|name| name.file_name().to_string_lossy().starts_with(&own)).count(), 0);
}

//! `run proxies` from outside: what is behind a proxy is not part of it, fails when it should, and ends with the run.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::runs::{TestDirectory, await_step, interrupt};

#[test]
fn no_request_fails_with_an_origin_that_is_killed() {
    let place = TestDirectory::new("proxy-killed");
    let arguments = ["proxies", "--workloads", "proxy-killed", "--subjects", "tsubame-percore", "--json"];
    let child = place.experiment(&arguments, "1").stdout(Stdio::piped()).spawn().expect("the laboratory");
    let pid = child.id();
    let output = child.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("[1/1] proxy-killed round 1: Tsubame percore"), "{said}");
    place.assert_clean(pid, "at the end");

    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let measure = &results["samples"][0]["measure"];
    let sum = |of: &Value| of.as_object().expect("counts").values().filter_map(Value::as_u64).sum::<u64>();
    assert!(measure["requests"].as_u64() > Some(900), "{results}");
    assert_eq!(sum(&measure["errors"]), 0, "{measure}");
    assert_eq!(measure["reopened"], 0, "a request was not answered, and sent again by the client: {measure}");
    // It keeps those waiting that were in the origin when it stood still, before it was killed.
    assert!(measure["max_us"].as_u64() > Some(20_000), "{measure}");
    // A server of one process, its parent, and none of those behind it.
    assert!(measure["processes"].as_u64() <= Some(3), "{measure}");
    assert_eq!(measure["replaced"], 0, "{measure}");

    let subjects = results["subjects"].as_array().expect("subjects");
    let own = subjects.iter().find(|subject| subject["id"] == "tsubame-percore").expect("its record");
    let files = own["configurations"][0]["files"].as_array().expect("files");
    let text = |name: &str| {
        let file = files.iter().find(|file| file[0] == name);
        file.and_then(|file| file[1].as_str()).unwrap_or_else(|| panic!("no {name} in {files:?}"))
    };
    assert_eq!(text("httpd.conf").matches("BalancerMember http://127.0.0.1:").count(), 3);
    assert!(text("origin-0.conf").contains("listen 127.0.0.1:"));
}

#[test]
fn an_origin_that_stands_still_ends_with_an_interrupted_run() {
    let place = TestDirectory::new("proxy-halted");
    let arguments = ["proxies", "--workloads", "proxy-halted", "--subjects", "tsubame-percore"];
    let mut child = place.experiment(&arguments, "5").spawn().expect("the laboratory");
    let pid = child.id();
    let said = await_step(&mut child, "[1/1]");
    let stands_still = |process: &std::path::PathBuf| {
        // The state follows the name, which stands in parentheses.
        let text = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        text.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('T'))
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while !place.servers().iter().any(stands_still) {
        assert!(Instant::now() < deadline, "no origin stands still");
        std::thread::yield_now();
    }
    let (status, rest) = interrupt(child, said, "-INT");
    assert_eq!(status.code(), Some(1), "{rest}");
    assert!(rest.contains("the run was interrupted"), "{rest}");
    place.assert_clean(pid, "interrupted");
}

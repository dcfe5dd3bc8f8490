//! `tsubame check`: its findings, its exit status, and its agreement with `-t`.

use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::mpm::Mpm;
use crate::harness::site::{self, Site};

fn run(site: &Site, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
    command.args(arguments).args(["-d", site.path(), "-f", "conf/httpd.conf"]).output().expect("run")
}

/// The report of a configuration, and its exit status.
fn check(text: &str) -> (Value, Option<i32>, Site) {
    let site = Site::new();
    site.configure_with(&site::load_lines(Mpm::Event), text);
    let output = run(&site, &["check", "--json"]);
    (serde_json::from_slice(&output.stdout).expect("JSON"), output.status.code(), site)
}

/// The subjects of the findings of a topic.
fn subjects<'a>(report: &'a Value, topic: &str) -> Vec<&'a str> {
    let findings = report["findings"].as_array().expect("findings").iter();
    findings.filter(|found| found["topic"] == topic).filter_map(|found| found["subject"].as_str()).collect()
}

#[test]
fn all_errors_are_in_one_report() {
    let text = "LockFile x\nNoSuchThing 1\nLoadModule nosuch_module x.so\nInclude missing.conf\n<Directory /x>\nFoo 1\n\
                </Location>\nBar 2\n<VirtualHost *:80>\nQuux 1\n";
    let (report, status, _) = check(text);
    assert_eq!(status, Some(2));
    assert_eq!(report["verdict"], "does_not_start");
    assert_eq!(subjects(&report, "module"), ["nosuch_module"]);
    let unknown = subjects(&report, "directive");
    for name in ["LockFile", "NoSuchThing", "Foo", "Bar", "Quux"] {
        assert!(unknown.contains(&name), "{name} is not in {unknown:?}");
    }
    assert!(subjects(&report, "syntax").contains(&"Include"), "{report:#}");
}

#[test]
fn a_directive_that_was_dropped_is_explained() {
    let (report, _, _) = check("SSLMutex default\n");
    let found = &report["findings"][0];
    assert_eq!(found["subject"], "SSLMutex");
    assert_eq!(found["message"], "Apache 2.2 was the last version that had it.");
    assert!(found["instead"].as_str().is_some_and(|text| text.contains("Mutex")), "{found:#}");
    assert!(found["places"][0]["line"].as_u64().is_some(), "{found:#}");
}

#[test]
fn files_below_the_roots_are_looked_at() {
    let site = Site::new();
    let root = format!("{}/htdocs", site.path());
    let text =
        format!("<Directory {root}>\nAllowOverride All\nOptions +ExecCGI\nAddHandler cgi-script .cgi\n</Directory>\n");
    site.configure_with(&site::load_lines(Mpm::Event), &text);
    site.file("htdocs/deep/er/.htaccess", "NoSuchThing 1\n");
    site.file("htdocs/plain.cgi", "#!/bin/sh\n");
    let output = run(&site, &["check", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    assert_eq!(report["verdict"], "starts_with_losses");
    assert_eq!(subjects(&report, "access_file"), ["NoSuchThing"]);
    assert_eq!(subjects(&report, "script"), [format!("{root}/plain.cgi")]);
    let without = run(&site, &["check", "--json", "--no-files"]);
    assert_eq!(without.status.code(), Some(0));
}

#[test]
fn the_text_begins_with_the_verdict_and_has_no_colours_in_a_pipe() {
    let site = Site::new();
    site.configure_with(&site::load_lines(Mpm::Event), "NoSuchThing 1\n");
    let output = run(&site, &["check"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.starts_with("Would not start: 1 reason"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    let output = Command::new(env!("CARGO_BIN_EXE_tsubame")).args(["check", "--nosuch"]).output().expect("run");
    assert_eq!(output.status.code(), Some(2));
}

/// `check` reports an error for every golden configuration that `-t` refuses.
#[test]
fn check_agrees_with_the_test_of_the_syntax() {
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let site = Site::new();
    let (mut right, mut wrong) = (0, 0);
    for entry in std::fs::read_dir(golden).expect("golden") {
        let path = entry.expect("entry").path();
        let bytes = std::fs::read(&path).expect("a case");
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().skip_while(|line| line.starts_with(">> ")).collect();
        let lines: Vec<&str> = lines.into_iter().take_while(|line| !line.starts_with("----------")).collect();
        site.configure_with(&site::load_lines(Mpm::Event), &format!("{}\n", lines.join("\n")));
        let starts = run(&site, &["check", "--no-files"]).status.code() != Some(2);
        let output = run(&site, &["-t"]);
        let is_right = output.status.success();
        let name = path.display();
        assert!(!starts || is_right, "{name}: -t refuses it: {}", String::from_utf8_lossy(&output.stderr));
        right += usize::from(is_right);
        wrong += usize::from(!is_right);
    }
    assert!(right > 20 && wrong > 20, "{right} right, {wrong} wrong");
}

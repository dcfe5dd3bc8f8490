//! Messages of mod_rewrite and mod_headers about lines that they refuse, or accept with a warning: Apache's words.

use std::path::Path;

use crate::harness::beside::{self, Call, modules};
use crate::harness::oracle::{self, Allowed, Case, compare_some};
use crate::harness::site::Site;

/// Lines, with `\n` between those that belong together.
const LINES: &str = include_str!("../listing/rewrite_and_headers_lines.txt");

fn lines() -> impl Iterator<Item = String> {
    LINES.lines().filter(|line| !line.starts_with('#')).map(|line| line.replace("\\n", "\n"))
}

/// Lines with another meaning outside sections, or allowed only there.
#[test]
fn lines_of_a_server() {
    if !oracle::is_there("lines_of_a_server") {
        return;
    }
    const OWN: [&str; 6] = ["RewriteMap", "RewriteOptions", "RewriteBase", "<", "RequestHeader", "RewriteCond expr"];
    let base = format!(
        "ServerName localhost\nDefaultRuntimeDir run\nListen 127.0.0.1:9\nPidFile logs/pid\n{}",
        modules(&["mpm_event", "authz_core", "rewrite", "headers"])
    );
    let lines: Vec<String> =
        lines().filter(|line| OWN.iter().any(|own| line.starts_with(own)) || line.contains(['\\', 'é'])).collect();
    beside::compare(&lines, |line| {
        let site = Site::new();
        site.file("conf/map", "a b\n");
        site.file("conf/httpd.conf", format!("{base}{line}\n"));
        let call = Call { site: &site, arguments: &["-t"], user: None };
        (line.clone(), call.both(Path::new(env!("CARGO_BIN_EXE_tsubame"))))
    });
}

/// All of them, each in an `.htaccess` file of its own: a request finds it.
#[test]
fn lines_of_a_directory() {
    let build = |site: &Site| {
        for (number, line) in lines().enumerate() {
            site.page(&format!("{number}/.htaccess"), format!("{line}\n"));
            site.page(&format!("{number}/f"), "f\n");
        }
    };
    let cases: Vec<Case> = lines()
        .enumerate()
        .map(|(number, line)| Case { name: line, ..Case::of(&format!("GET /{number}/|X-A: a")) })
        .collect();
    let configuration =
        "DirectoryIndex f\n<Directory ${DOCS}>\nAllowOverride All\nOptions FollowSymLinks\n</Directory>\n";
    let allowed = ["%b", "content-length"].map(|what| Allowed {
        case: "Header set * a",
        what,
        entry: "The length of an error page",
    });
    compare_some("lines_of_a_directory", build, configuration, &cases, &allowed, 8);
}

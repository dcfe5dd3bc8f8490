//! The script log's entries for failed scripts, compared with Apache.

use std::os::unix::fs::PermissionsExt;

use crate::harness::mpm::Mpm;
use crate::harness::oracle::{self, Apache, Case};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::Client;
use crate::scripts::cgi_same_as_apache::{SECTIONS, case, gets};

/// Scripts that fail, and one that only complains.
const FAILING: &[(&str, &str)] = &[
    ("nohdr", "cat >/dev/null; printf 'no header here\\nmore\\ntext\\n'"),
    ("empty", "cat >/dev/null"),
    ("exit", "cat >/dev/null; echo complaint >&2; exit 1"),
    ("premature", "printf 'X-A: 1\\nSet-Cookie: a\\n'"),
    ("complains", "echo complaint >&2; printf '\\nok'"),
    ("badname", "printf 'X A: 1\\n\\nbody'"),
    ("badstatus", "printf 'Status: abc\\n\\nbody'"),
    ("hangs", "echo X-B: 1; exec sleep 30"),
    ("late", "printf 'Content-Type: text/x\\nX-A: 1\\nbad line\\nX-C: 1\\n\\nbody\\n'"),
    ("tagged", "printf 'ETag: \"e\"\\nX-A: 1\\n\\nbody'"),
];

#[test]
fn contents_of_the_script_log() {
    let conf = format!("{SECTIONS}\nScriptLog ${{ROOT}}/marks/script_log\nScriptLogBuffer 10\nCGIScriptTimeout 1");
    let body = |length: usize| (format!("Content-Type: a/b\r\nContent-Length: {length}\r\n"), "x".repeat(length));
    let mut cases = gets(&["/cgi/none", "/cgi/", "/cgi/badint"]);
    cases.extend(FAILING.iter().flat_map(|(name, _)| {
        let [short, long] = [4, 40].map(body);
        [
            case(&format!("GET /cgi/{name}/info?a=b"), "X-A: 1\r\nX-A: 2\r\nAuthorization: Basic eDp5\r\n", ""),
            case(&format!("GET /cgi/{name}"), "If-None-Match: \"e\"\r\n", ""),
            case(&format!("POST /cgi/{name}"), &short.0, &short.1),
            case(&format!("PUT /cgi/{name}"), &long.0, &long.1),
            case(&format!("DELETE /cgi/{name}"), &short.0, &short.1),
        ]
    }));
    // Once is long enough.
    let mut hangs = 0;
    cases.retain(|case| {
        !case.name.contains("/hangs") || {
            hangs += 1;
            hangs == 1
        }
    });
    cases.push(case("GET /cgi/tagged", "If-Match: \"z\"\r\n", ""));
    let build = |site: &Site| {
        for (name, text) in FAILING {
            site.script(name, &format!("#!/bin/sh\n{text}\n"));
        }
        site.script("badint", "#!/no/such/interpreter\n");
        let marks = site.root.join("marks");
        std::fs::create_dir_all(&marks).expect("directory");
        // A child writes the log, without the rights of its parent.
        std::fs::set_permissions(marks, std::fs::Permissions::from_mode(0o777)).expect("mode");
    };
    // The log entries for each request, without the date.
    let said = |site: &Site| -> Vec<String> {
        let mut seen = 0;
        let new = |Case { name, bytes }: &Case| {
            let mut client = Client::connect(site.address());
            client.send(bytes);
            client.rest();
            let log = site.read("marks/script_log");
            let lines: Vec<&str> = log.lines().skip(seen).collect();
            seen += lines.len();
            let dateless = |line: &&str| match line.split_once("] ") {
                Some((date, rest))
                    if date.starts_with("%% [") && date.len() == "%% [Sun Nov 22 07:04:21 2026".len() =>
                {
                    rest.to_string()
                }
                _ => line.replace(site.path(), "ROOT"),
            };
            format!("{name}\n    {}", lines.iter().map(dateless).collect::<Vec<_>>().join("\n    "))
        };
        cases.iter().map(new).collect()
    };
    if !oracle::is_there("contents_of_the_script_log") {
        return;
    }
    let (our_site, their_site) = (Site::new(), Site::new());
    let ours = {
        build(&our_site);
        let server = Server::start(Mpm::Percore, &our_site, &conf);
        server.allow_everything("other tests check the error log");
        said(&our_site)
    };
    build(&their_site);
    let _apache = Apache::start(&their_site, &conf);
    let theirs = said(&their_site);
    let differences: Vec<String> = ours
        .iter()
        .zip(&theirs)
        .filter(|(ours, theirs)| ours != theirs)
        .map(|(o, t)| format!("ours: {o}\nApache: {t}"))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

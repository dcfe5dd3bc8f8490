//! Scripts and clients that misbehave: the client's answer and the log lines, compared with Apache's prefork.

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::harness::mpm::under_percore_and;
use crate::harness::oracle::{self, Apache};
use crate::harness::server::{Server, children};
use crate::harness::site::Site;
use crate::harness::wait::{until, within};
use crate::harness::wire::Client;

const CONFIGURATION: &str = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\nAlias /elsewhere/ ${ROOT}/cgi-bin/\nCGIScriptTimeout 1\n\
    <Location /elsewhere/>\nSetHandler cgi-script\n</Location>\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>";

/// A script's fault, the client's answer, and the log lines.
struct Fault {
    name: &'static str,
    /// The text after `#!/bin/sh`; if empty, there is no such file, or it is not a script.
    script: &'static str,
    /// The request.
    request: Ask,
    expected: Outcome,
    /// Apache's outcome, if it differs, and the entry of `docs/differences.md` with the reason.
    apache: Option<(Outcome, &'static str)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    Get,
    /// With a body of [`UPLOAD`] bytes.
    Post,
    /// In a place where scripts may not run.
    Elsewhere,
}

/// The outcome of a request.
#[derive(Clone, Copy)]
struct Outcome {
    /// `nothing`, `STATUS` with a page of the server's own, or `STATUS BODY`; with `, cut` where its end is missing.
    answer: &'static str,
    /// Module, level and text of each line; `DIR` is where the scripts are.
    log: &'static [&'static str],
}

const fn fault(name: &'static str, script: &'static str, answer: &'static str, log: &'static [&'static str]) -> Fault {
    Fault { name, script, request: Ask::Get, expected: Outcome { answer, log }, apache: None }
}

#[rustfmt::skip]
const FAULTS: &[Fault] = &[
    fault("none", "", "404", &["[cgi:error] AH02811: stderr from DIR/none: script not found or unable to stat"]),
    fault("", "", "403", &["[cgi:error] AH02812: stderr from DIR/: attempt to invoke directory as script"]),
    Fault { request: Ask::Elsewhere, ..fault("ok", "printf '\\nok'", "403", &["[cgi:error] AH02809: stderr from DIR/ok: Options ExecCGI is off in this directory"]) },
    fault("noexec", "echo", "500", &[
        "[cgi:error] AH01215: stderr from DIR/noexec: (13)Permission denied: exec of 'DIR/noexec' failed",
        "[cgi:error] End of script output before headers: noexec",
    ]),
    fault("badint", "", "500", &[
        "[cgi:error] AH01215: stderr from DIR/badint: (2)No such file or directory: exec of 'DIR/badint' failed",
        "[cgi:error] End of script output before headers: badint",
    ]),
    Fault {
        apache: Some((
            Outcome {
                answer: "nothing",
                log: &["[cgi:error] AH01215: stderr from DIR/nph-badint: (2)No such file or directory: exec of 'DIR/nph-badint' failed"],
            },
            "An nph- script that cannot be started",
        )),
        ..fault("nph-badint", "", "500", &[
            "[cgi:error] AH01215: stderr from DIR/nph-badint: (2)No such file or directory: exec of 'DIR/nph-badint' failed",
            "[cgi:error] End of script output before headers: nph-badint",
        ])
    },
    fault("text", "", "500", &[
        "[cgi:error] AH01215: stderr from DIR/text: (8)Exec format error: exec of 'DIR/text' failed",
        "[cgi:error] End of script output before headers: text",
    ]),
    fault("empty", "", "500", &["[cgi:error] End of script output before headers: empty"]),
    fault("exit1", "exit 1", "500", &["[cgi:error] End of script output before headers: exit1"]),
    fault("killed", "kill -9 $$", "500", &["[cgi:error] End of script output before headers: killed"]),
    fault("premature", "echo X-A: 1", "500", &["[cgi:error] Premature end of script headers: premature"]),
    fault("nohdr", "echo no header here", "500", &["[cgi:error] malformed header from script 'nohdr': Bad header: no header here"]),
    fault("html", "echo '<html>a long line of text'; exec head -c 1000000 /dev/zero", "500", &["[cgi:error] malformed header from script 'html': Bad header: <html>a long line of text"]),
    fault("line", "printf 'X-A: '; head -c 10000000 /dev/zero | tr '\\0' a; printf '\\n\\nx'", "500", &["[cgi:error] End of script output before headers: line"]),
    Fault { apache: Some((Outcome { answer: "200 x", log: &[] }, "A script's header")), ..fault("lines", "head -c 400000 /dev/zero | tr '\\0' '\\n' | sed 's/^/X-A: 12345678901234567890/'; printf '\\nx'", "500", &["[cgi:error] Premature end of script headers: lines"]) },
    fault("nul", "printf 'X-A: a\\000b\\nX\\000-B: 2\\n\\nx'", "500", &["[cgi:error] malformed header from script 'nul': Bad header: X"]),
    fault("badstatus", "printf 'Status: abc\\n\\nx'", "500 x", &["[cgi:error] Invalid status line from script 'badstatus': abc"]),
    fault("nohdrname", "echo : x; echo; echo", "500", &["[http:error] AH02428: Empty response header name, aborting request"]),
    fault("badname", "printf 'X A: 1\\n\\nx'", "500", &["[http:error] AH02429: Response header name 'X A' contains invalid characters, aborting request"]),
    fault("badvalue", "printf 'X-A: a\\001b\\n\\nx'", "500", &["[http:error] AH02430: Response header 'X-A' value of 'a\\x01b' contains invalid characters, aborting request"]),
    fault("stderr", "echo to-stderr >&2; printf '\\nok'", "200 ok", &["[cgi:error] AH01215: stderr from DIR/stderr: to-stderr"]),
    fault("half-exit1", "printf '\\nhalf'; exit 1", "200 half", &[]),
    fault("half-killed", "printf '\\nhalf'; kill -9 $$", "200 half", &[]),
    fault("hang", "exec sleep 30", "504", &[
        "[cgi:warn] AH01220: Timeout waiting for output from CGI script DIR/hang",
        "[cgi:error] Script timed out before returning headers: hang",
    ]),
    fault("hang-header", "echo X-A: 1; exec sleep 30", "504", &[
        "[cgi:warn] AH01220: Timeout waiting for output from CGI script DIR/hang-header",
        "[cgi:error] Script timed out before returning headers: hang-header",
    ]),
    Fault {
        apache: Some((Outcome { answer: "200 half, cut", log: &["[cgi:warn] AH01220: Timeout waiting for output from CGI script DIR/hang-half", FILTER] }, "Messages of Apache's filters")),
        ..fault("hang-half", "printf '\\nhalf'; exec sleep 30", "200 half, cut", &["[cgi:warn] AH01220: Timeout waiting for output from CGI script DIR/hang-half"])
    },
    fault("mute-early", "exec sleep 30 >&-", "500", &["[cgi:error] End of script output before headers: mute-early"]),
    fault("mute-header", "echo X-A: 1; exec sleep 30 >&-", "500", &["[cgi:error] Premature end of script headers: mute-header"]),
    fault("mute", "printf '\\nall'; exec sleep 30 >&-", "200 all", &[]),
    fault("gone", "printf '\\nall'; exec sleep 30 >&- 2>&-", "200 all", &[]),
    Fault {
        apache: Some((Outcome { answer: "200 all, cut", log: &["[cgi:warn] AH01220: Timeout waiting for output from CGI script DIR/daemon-open", FILTER] }, "Messages of Apache's filters")),
        ..fault("daemon-open", "printf '\\nall'; sleep 30 &", "200 all, cut", &["[cgi:warn] AH01220: Timeout waiting for output from CGI script DIR/daemon-open"])
    },
    fault("daemon-closed", "printf '\\nall'; sleep 5 </dev/null >/dev/null 2>&1 &", "200 all", &[]),
    Fault { request: Ask::Post, ..fault("deaf", "printf '\\nall'", "200 all", &["[cgi:error] (32)Broken pipe: AH02651: Error writing request body to script DIR/deaf"]) },
    Fault { request: Ask::Post, apache: Some((Outcome { answer: "504", log: &[
        "[cgi:error] (70007)The timeout specified has expired: AH02651: Error writing request body to script DIR/deaf-hang",
        "[cgi:warn] AH01220: Timeout waiting for output from CGI script DIR/deaf-hang",
        "[cgi:error] Script timed out before returning headers: deaf-hang",
    ] }, "A script may answer before its input is complete")), ..fault("deaf-hang", "exec sleep 30", "504", &[
        "[cgi:warn] AH01220: Timeout waiting for output from CGI script DIR/deaf-hang",
        "[cgi:error] Script timed out before returning headers: deaf-hang",
    ]) },
];

/// The line that Apache adds to a time-out.
const FILTER: &str = "[core:error] (70007)The timeout specified has expired: AH00574: ap_content_length_filter: apr_bucket_read() failed";

/// More than pipes and sockets hold.
const UPLOAD: usize = 10_000_000;

fn site() -> Site {
    let site = Site::new();
    for Fault { name, script, .. } in FAULTS.iter().filter(|fault| !fault.script.is_empty()) {
        site.script(name, &format!("#!/bin/sh\n{script}\n"));
    }
    site.script("empty", "#!/bin/sh\n");
    for name in ["badint", "nph-badint"] {
        site.script(name, "#!/no/such/interpreter\n");
    }
    site.script("text", "Content-Type: text/plain\n\ntext\n");
    let noexec = site.root.join("cgi-bin/noexec");
    std::fs::set_permissions(noexec, std::fs::Permissions::from_mode(0o644)).expect("mode");
    site
}

/// Asks for a script, and shows the answer as an [`Outcome`] has it.
fn answer(site: &Site, fault: &Fault) -> String {
    let (method, directory) = match fault.request {
        Ask::Get => ("GET", "/cgi"),
        Ask::Post => ("POST", "/cgi"),
        Ask::Elsewhere => ("GET", "/elsewhere"),
    };
    let body = if method == "POST" { "x".repeat(UPLOAD) } else { String::new() };
    let fields = format!("Host: localhost\r\nConnection: close\r\nContent-Length: {}", body.len());
    let request = format!("{method} {directory}/{} HTTP/1.1\r\n{fields}\r\n\r\n{body}", fault.name);
    let stream = TcpStream::connect(site.address()).expect("connect");
    let (mut sender, mut client) = (Client::over(stream.try_clone().expect("clone")), Client::over(stream));
    std::thread::scope(|scope| {
        // A server that answers early may stop reading.
        scope.spawn(move || sender.send(request));
        let Ok((response, whole)) = client.beginning_to("GET") else { return "nothing".into() };
        let text = response.text();
        let body = if text.starts_with("<!DOCTYPE") { String::new() } else { format!(" {text}") };
        format!("{}{body}{}", response.status, if whole.is_ok() { "" } else { ", cut" })
    })
}

/// The error log from line `from` on, without what differs from run to run, and without notices.
fn log(site: &Site, from: usize) -> Vec<String> {
    let directory = format!("{}/cgi-bin", site.path());
    let plain = |line: &str| {
        // `[time] [module:level] [pid 1:tid 1] (2)An error: [client 127.0.0.1:2] text`
        let (_, line) = line.split_once("] ")?;
        let (level, line) = line.split_once(" [pid ")?;
        let (_, line) = line.split_once("] ")?;
        let (error, rest) = line.split_once("[client ").unwrap_or(("", line));
        let text = rest.split_once("] ").filter(|_| rest.len() < line.len()).map_or(rest, |(_, text)| text);
        Some(format!("{level} {error}{text}").replace(&directory, "DIR"))
    };
    let log = site.read("logs/error_log");
    log.lines().filter_map(plain).filter(|line| !line.contains(":notice]")).skip(from).collect()
}

/// Runs the table, one request after the other, and returns the rows with unexpected outcomes.
fn check(site: &Site, expected: impl Fn(&Fault) -> Outcome, neutral: fn(String) -> String) -> Vec<String> {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for fault in FAULTS {
        let want = expected(fault);
        let answer = neutral(answer(site, fault));
        // Surplus lines are found by the next comparison.
        let enough = || Some(log(site, seen)).filter(|lines| lines.len() >= want.log.len());
        let lines = within(Duration::from_secs(5), enough).unwrap_or_else(|| log(site, seen));
        seen += lines.len();
        if answer != want.answer || lines != want.log {
            wrong.push(format!("{}: {answer}\n    {}", fault.name, lines.join("\n    ")));
        }
    }
    wrong.extend(log(site, seen));
    wrong
}

#[test]
fn apache_does_the_same() {
    if !oracle::is_there("apache_does_the_same") {
        return;
    }
    oracle::check_entries(FAULTS.iter().filter_map(|fault| fault.apache.map(|(_, entry)| entry)));
    let site = site();
    let modules = oracle::without("http2_module").replace("mpm_event", "mpm_prefork");
    let _apache = Apache::start_with(&site, &modules, CONFIGURATION);
    // Sometimes the error page is lost if a header cannot be sent.
    let neutral = |answer: String| if answer == "500 , cut" { "500".into() } else { answer };
    let wrong = check(&site, |fault| fault.apache.map_or(fault.expected, |(outcome, _)| outcome), neutral);
    assert!(wrong.is_empty(), "Apache does it otherwise:\n{}", wrong.join("\n"));
}

/// The scripts that the children of a server run.
fn scripts(server: &Server<'_>) -> Vec<i32> {
    let pids = server.children().into_iter().filter_map(sys::process::Pid::new);
    pids.flat_map(children).collect()
}

under_percore_and! {
    worker:

    /// A header without end is refused at its limit, and its script ends then; so does one that writes for ever after a
    /// header that nobody can use, once it has had its time.
    fn headers_without_end(mpm: Mpm) {
        let site = Site::new();
        let say = |name: &str| format!("echo $$ >'{}/run/{name}.pid'\n", site.path());
        site.script("fields", &format!("#!/bin/sh\n{}exec yes 'X-A: 1'\n", say("fields")));
        site.script("line", &format!("#!/bin/sh\n{}exec tr '\\0' a </dev/zero\n", say("line")));
        site.script("rubbish", &format!("#!/bin/sh\n{}exec yes rubbish\n", say("rubbish")));
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(site.root.join("run"), all).expect("permissions");
        // Twenty minutes for the first two: they must not need their time.
        let lines = format!("{CONFIGURATION}\n<Location /cgi/>\nCGIScriptTimeout 1200\n</Location>\n<Location /cgi/rubbish>\nCGIScriptTimeout 1\n</Location>");
        let server = Server::start(mpm, &site, &lines);
        server.allow("Premature end of script headers: fields");
        server.allow("End of script output before headers: line");
        server.allow("malformed header from script 'rubbish'");
        server.allow("Timeout waiting for output from CGI script");
        for name in ["fields", "line", "rubbish"] {
            assert_eq!(server.get(&format!("/cgi/{name}")).status, 500, "{name} under {mpm}");
            let pid = site.read(&format!("run/{name}.pid"));
            let there = std::path::Path::new("/proc").join(pid.trim());
            until("the script to end", || (!there.exists()).then_some(()));
        }
    }

    /// The log names the culprit in Apache's words, and no process stays.
    fn faults_are_reported(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.allow_everything("the test itself checks the log, line by line");
        let wrong = check(&site, |fault| fault.expected, |answer| answer);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        until("the end of the last script", || scripts(&server).is_empty().then_some(()));
    }
}

//! The tools whose options and output the generator imitates, beside the tools themselves on the same server: the same
//! lines, with other numbers in them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::scripted;

/// A plain server.
fn serve() -> SocketAddr {
    scripted::listen(|mut stream| scripted::attend(&mut stream))
}

fn lab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tsubame-lab"))
}

fn said(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"))
}

/// A server that answers so many connections, and resets all others.
fn resetting_after(answers: usize) -> SocketAddr {
    let seen = AtomicUsize::new(0);
    scripted::listen(move |mut stream| match seen.fetch_add(1, Ordering::Relaxed) < answers {
        true => scripted::attend(&mut stream),
        // Closing a connection with a request that was not read resets it.
        false => assert_eq!(stream.peek(&mut [0]).expect("a request"), 1),
    })
}

/// Whether a tool is installed for comparison; with `CI` it has to be.
fn is_here(tool: &str) -> bool {
    let is_here = Command::new(tool).arg("-V").output().is_ok();
    if !is_here {
        let missing = format!("{tool} is not installed (apt-get install apache2-utils httperf)");
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        eprintln!("not compared: {missing}");
    }
    is_here
}

/// The lines of a text without its numbers; ab's remarks on the distribution depend on them.
fn shape(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter(|line| {
        let told = ["WARNING: ", "ERROR: ", "        These results", "       deviation apart"];
        !told.iter().any(|start| line.starts_with(start))
    });
    let without_numbers = |line: &str| {
        let mut out = String::new();
        for char in line.chars() {
            match char {
                '0'..='9' | ' ' if out.ends_with(if char == ' ' { ' ' } else { '#' }) => {}
                '0'..='9' => out.push('#'),
                char => out.push(char),
            }
        }
        out.replace("#.#", "#")
    };
    lines.map(without_numbers).collect()
}

/// Compares a tool's output with ours.
fn compare(tool: &str, arguments: &[&str], skipped: usize) {
    let theirs = shape(&said(Command::new(tool).args(arguments)).stdout);
    let ours = shape(&said(lab().arg(tool).args(arguments)).stdout);
    assert!(theirs.len() > skipped + 5, "{tool} {arguments:?}: {theirs:#?}");
    assert_eq!(ours[skipped.min(ours.len())..], theirs[skipped..], "{tool} {arguments:?}");
}

#[test]
fn ab() {
    if !is_here("ab") {
        return;
    }
    let server = format!("http://{}", serve());
    let body = std::env::temp_dir().join(format!("tsubame-lab-{}-body", std::process::id()));
    std::fs::write(&body, "a=b").expect("write a body");
    let body_path = body.to_str().expect("a path");
    let (good, none) = (format!("{server}/"), format!("{server}/none"));
    let short = format!("{server}/short");
    let proxy = server.trim_start_matches("http://");
    let cases: [&[&str]; 15] = [
        &["-n", "20", "-c", "3", &good],
        &["-n300", "-c3", "-k", &none],
        &["-n", "5", "-c2", "-p", body_path, "-T", "text/x", &good],
        &["-S", "-d", "-q", "-n", "5", "-H", "X-A: b", "-C", "a=b", &good],
        &["-l", "-i", "-n", "5", &good],
        &["-n", "1", "-A", "me:secret", &good],
        &["-w", "-k", "-n", "5", "-u", body_path, "-x", "border=1", &none],
        &["-w", "-n", "5", "-y", "a=b", "-z", "c=d", &good],
        &["-v1", "-n1", &good],
        &["-v", "2", "-n1", &none],
        &["-v", "3", "-k", "-n3", &good],
        &["-v4", "-i", "-n", "1", &good],
        &["-v4", "-n2", &short],
        // Nobody but the proxy could know this name.
        &["-v2", "-n1", "-X", proxy, "http://a..b/x"],
        &["-v2", "-k", "-n2", "-X", proxy, "http://a..b:81/none"],
    ];
    // The name of the tool is in the first three lines, or four of HTML.
    for arguments in cases {
        compare("ab", arguments, if arguments.contains(&"-w") { 4 } else { 3 });
    }
    std::fs::remove_file(&body).expect("remove the body");

    // Its files.
    let directory = std::env::temp_dir();
    let files = ["csv", "tsv"].map(|end| directory.join(format!("tsubame-lab-{}.{end}", std::process::id())));
    let written = |command: &mut Command| {
        said(command.args(["-n", "200", "-e"]).arg(&files[0]).arg("-g").arg(&files[1]).arg(&good));
        files.each_ref().map(|file| {
            let lines = shape(&std::fs::read(file).expect("a file of times"));
            std::fs::remove_file(file).expect("remove it");
            // The days of the week and months are words.
            let dates = lines.iter().map(|line| line.split('\t').count());
            (lines.first().cloned(), lines.len(), dates.max())
        })
    };
    assert_eq!(written(lab().arg("ab")), written(&mut Command::new("ab")));

    // Truncated or invalid answers: ab takes any data.
    for path in ["/short", "/gone"] {
        compare("ab", &["-n", "20", &format!("{server}{path}")], 3);
    }
    // Of -n and -t, the last one determines the number.
    let timed = said(lab().args(["ab", "-q", "-n", "2", "-t", "1", &good]));
    let text = String::from_utf8_lossy(&timed.stdout);
    assert!(!text.contains("Complete requests:      2\n"), "{text}");
    let counted = said(lab().args(["ab", "-q", "-t", "1", "-n", "2", &good]));
    let text = String::from_utf8_lossy(&counted.stdout);
    assert!(text.contains("Complete requests:      2\n"), "{text}");
    // Our proxy must not pass load on to others (an address reserved for documentation, RFC 5737).
    let beyond = said(lab().args(["ab", "-X", proxy, "http://192.0.2.1/"]));
    let text = String::from_utf8_lossy(&beyond.stderr);
    assert!(!beyond.status.success() && text.contains("192.0.2.1 is not on this machine"), "{text}");
    let owned = said(lab().args(["ab", "-q", "-X", proxy, "--i-own-this-target", "192.0.2.1", "http://192.0.2.1/"]));
    assert!(owned.status.success(), "{owned:?}");
    let stranger = said(lab().args(["ab", "-X", "192.0.2.1:80", &good]));
    let text = String::from_utf8_lossy(&stranger.stderr);
    assert!(!stranger.status.success() && text.contains("192.0.2.1 is not on this machine"), "{text}");

    // Failures, and the exit status.
    let statuses = |arguments: &[&str]| {
        [&mut Command::new("ab"), lab().arg("ab")].map(|command| said(command.args(arguments)).status.code())
    };
    // A host alone is no URL to ab.
    for arguments in [&["-n"][..], &["-n1", "-c2", &good], &["-n1", &server]] {
        assert_eq!(statuses(arguments), [Some(22); 2], "{arguments:?}");
    }
    for arguments in [&["-n1", "http://a..b/"][..], &["-n1", "-X", "a..b:80", &good]] {
        assert_eq!(statuses(arguments), [Some(50); 2], "{arguments:?}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("an address");
    let refused = said(lab().args(["ab", &format!("http://{nobody}/")]));
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(111) && text.contains("Connection refused (111)\n"), "{text}");
    assert_eq!(statuses(&["-n9", &format!("http://{}/", resetting_after(0))]), [Some(104); 2]);
    // With -r failures are forgiven, and from -v 1 on shown.
    for address in [nobody, resetting_after(0)] {
        let url = format!("http://{address}/");
        compare("ab", &["-r", "-n", "3", &url], 3);
        let forgiven = |level: &str| said(lab().args(["ab", "-r", "-v", level, "-n3", &url]));
        let [quiet, shown] = ["0", "1"].map(|level| String::from_utf8_lossy(&forgiven(level).stderr).into_owned());
        assert!(quiet.is_empty() && shown.matches("apr_socket_recv: Connection re").count() == 3, "{quiet}{shown}");
    }
    // What was done before the failure is counted.
    let done = said(lab().args(["ab", "-n9", &format!("http://{}/", resetting_after(2))]));
    assert!(done.stdout.ends_with(b"...Total of 2 requests completed\n"), "{done:?}");
    let crowded = said(lab().args(["ab", "-n1", "-c2", &good]));
    let text = String::from_utf8_lossy(&crowded.stderr);
    assert!(text.contains("Cannot use concurrency level greater than total number of requests"), "{text}");
}

#[test]
fn httperf() {
    if !is_here("httperf") {
        return;
    }
    let server = serve();
    let port = format!("--port={}", server.port());
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("an address");
    let closed = format!("--port={}", nobody.port());
    let cases: [&[&str]; 6] = [
        &["--server", "127.0.0.1", &port, "--num-conns", "100", "--rate", "500"],
        &["--server=127.0.0.1", &port, "--uri=/none", "--num-conns=10", "--num-calls=3", "--hog", "--timeout", "5"],
        &["--server=127.0.0.1", &port, "--wsess=10,4,0.01", "--rate", "100", "--burst-length=2"],
        &["--server=127.0.0.1", &port, "--num-conns=10", "--period=u0.01,0.02", "--http-version=1.0", "--method=HEAD"],
        &["--server=127.0.0.1", &closed, "--num-conns=5", "--add-header=X-A: b\\n"],
        &["--server=127.0.0.1", &closed, "--wsess=3,4,0", "--rate=100"],
    ];
    for arguments in cases {
        compare("httperf", arguments, 0);
    }
    // Connections that end before their last answer, or in the middle of it.
    let [brief, silent, broken] = ["/five", "/gone", "/short"].map(|uri| format!("--uri={uri}"));
    for (uri, more) in [(&brief, "--num-calls=10"), (&silent, "--num-calls=1"), (&broken, "--num-calls=1")] {
        let arguments = ["--server=127.0.0.1", &port, uri, "--num-conns=20", more];
        let figures = |command: &mut Command| {
            let text = String::from_utf8_lossy(&said(command.args(arguments)).stdout).into_owned();
            let of = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
            let total = of("Total: ");
            (total.split(" test-duration").next().map(str::to_owned), of("Errors: total"), of("Errors: fd"))
        };
        assert_eq!(figures(lab().arg("httperf")), figures(&mut Command::new("httperf")), "{uri}");
    }
    for arguments in [["--method=POST", "--http-version=1.1"], ["--no-host-hdr", "--max-piped-calls=2"]] {
        let arguments = [&["--server=127.0.0.1", &port][..], &arguments].concat();
        compare("httperf", &arguments, 0);
    }
    // Sessions from a file, one of them with a burst: the same lines, and the same counts.
    let log = std::env::temp_dir().join(format!("tsubame-lab-{}-sessions", std::process::id()));
    std::fs::write(&log, "# two\n/a think=0.01\n  /b\n  /c\n/none method=HEAD\n\n\n/d\n/e\n").expect("write sessions");
    let log_path = log.to_str().expect("a path");
    let [three, five] = [3, 5].map(|count| format!("--wsesslog={count},0.01,{log_path}"));
    let cases: [&[&str]; 5] = [
        &[&three],
        &[&five, "--rate=50", "--session-cookies", "--timeout=5"],
        &[&five, "--max-connections=2", "--max-piped-calls=1"],
        &[&three, "--failure-status=404"],
        &["--wsess=5,6,0.01", "--burst-length=3", "--max-connections=1"],
    ];
    for arguments in cases {
        let arguments = [&["--server=127.0.0.1", &port][..], arguments].concat();
        compare("httperf", &arguments, 0);
        let counts = |command: &mut Command| {
            let text = String::from_utf8_lossy(&said(command.args(&arguments)).stdout).into_owned();
            let of = |start: &str, end: &str| {
                let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_default();
                line[line.find(end).unwrap_or(0)..].to_owned()
            };
            let total = of("Total: ", "Total").split(" test-duration").next().map(str::to_owned);
            let sessions = [of("Session rate", "("), of("Session: ", ""), of("Session length", "")];
            (total, of("Reply status", ""), of("Errors: total", ""), sessions)
        };
        assert_eq!(counts(lab().arg("httperf")), counts(&mut Command::new("httperf")), "{arguments:?}");
    }
    // Requests and answers, byte by byte.
    let printed = |command: &mut Command| {
        let arguments =
            ["--server=127.0.0.1", &port, "--uri=/none", "--num-conns=2", "--print-reply", "--print-request=header"];
        let text = String::from_utf8_lossy(&said(command.args(arguments)).stdout).into_owned();
        // httperf does not end the last line of a body.
        let text = text.replace("helloRS", "hello\nRS");
        let kinds = ["SH", "SS", "RH", "RB", "RS"];
        let lines = text.split('\n').filter(|line| kinds.iter().any(|kind| line.starts_with(kind)));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(printed(lab().arg("httperf")), printed(&mut Command::new("httperf")));
    std::fs::remove_file(&log).expect("remove the sessions");
    let absent = said(lab().args(["httperf", "--wset=1,1"]));
    assert!(!absent.status.success() && String::from_utf8_lossy(&absent.stderr).contains("--wset is not supported"));
}

/// The output of both with TLS, including the negotiated parameters.
#[test]
fn tls_by_ab_and_httperf() {
    let identity = scripted::Identity::new("faces", false);
    let server = identity.serve(&[], true, |stream| {
        scripted::attend(stream);
        stream.conn.send_close_notify();
        let _ = stream.flush();
    });
    let (named, numbered) = (format!("https://localhost:{}/", server.port()), format!("https://{server}/none"));
    if is_here("ab") {
        let cases: [&[&str]; 5] = [
            &["-n", "20", "-c", "3", &named],
            &["-n", "10", "-k", "-f", "TLS1.2", &numbered],
            &["-n", "5", "-f", "TLS1.2", "-Z", "ECDHE-ECDSA-AES128-GCM-SHA256", "-I", &named],
            &["-n", "5", "-fTLS1.3", "-q", "-E", identity.both.to_str().expect("a path"), &named],
            &["-w", "-n", "5", &named],
        ];
        for arguments in cases {
            compare("ab", arguments, if arguments.contains(&"-w") { 4 } else { 3 });
        }
        let told = said(lab().args(["ab", "-n", "2", "-f", "TLS1.2", &named]));
        let text = String::from_utf8_lossy(&told.stdout);
        for line in [
            "SSL/TLS Protocol:       TLSv1.2,ECDHE-ECDSA-AES256-GCM-SHA384,256,256",
            "Server Temp Key:        X25519 253 bits",
            "TLS Server Name:        localhost",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}: {text}");
        }
    }
    let plain = said(lab().args(["ab", "-n", "2", &format!("https://{}/", serve())]));
    let text = String::from_utf8_lossy(&plain.stderr);
    assert!(!plain.status.success() && text.contains("SSL handshake failed (1)."), "{text}");
    if is_here("httperf") {
        let port = format!("--port={}", server.port());
        let cases: [&[&str]; 2] = [
            &["--ssl", "--server", "localhost", &port, "--num-conns", "10", "--num-calls", "2"],
            &["--ssl", "--ssl-no-reuse", "--server=localhost", &port, "--rate=100", "--num-conns=5", "--uri=/none"],
        ];
        for arguments in cases {
            compare("httperf", arguments, 0);
        }
    }
}

/// The output in the first seed.
#[test]
fn weighttp() {
    let url = format!("{}/", serve());
    let output = said(lab().args(["weighttp", "-k", "-c", "3", "-t", "2", "-n", "1000", &url]));
    let mut expected = vec![
        "weighttp - a lightweight and simple webserver benchmarking tool".to_owned(),
        String::new(),
        "starting benchmark...".to_owned(),
        "spawning thread #: # concurrent requests, # total requests".to_owned(),
        "spawning thread #: # concurrent requests, # total requests".to_owned(),
    ];
    expected.extend((1..=10).map(|_| "progress: #% done".to_owned()));
    expected.extend(
        [
            "",
            "finished in # sec, # millisec and # microsec, # req/s, # kbyte/s",
            "requests: # total, # started, # done, # succeeded, # failed, # errored",
            "status codes: # #xx, # #xx, # #xx, # #xx",
            "traffic: # bytes total, # bytes http, # bytes data",
        ]
        .map(str::to_owned),
    );
    assert_eq!(shape(&output.stdout), expected, "{}", String::from_utf8_lossy(&output.stdout));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("1000 total, 1000 started, 1000 done, 1000 succeeded, 0 failed, 0 errored"), "{text}");
    assert!(text.contains("5000 bytes data"), "{text}");
}

/// Options that 0.4 lacks are those of 0.5, which prints JSON.
#[test]
fn newer_weighttp() {
    let server = serve();
    let (good, none) = (format!("{server}/"), format!("{server}/none"));
    let results = |arguments: &[&str]| {
        let output = said(lab().arg("weighttp").args(arguments));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let json = text.find('{').map_or("", |start| &text[start..]).to_owned();
        (text, serde_json::from_str::<serde_json::Value>(&json).unwrap_or_else(|_| panic!("{output:?}")))
    };
    let (text, json) = results(&["-n", "100", "-c", "4", "-t2", "-K", "2", "-i", "-H", "X-A: b", &good]);
    let lines: Vec<String> = shape(text.as_bytes()).into_iter().take(7).collect();
    let expected = [
        "",
        "weighttp # - a lightweight and simple webserver benchmarking tool",
        "",
        "spawning thread #: # concurrent requests, # total requests",
        "spawning thread #: # concurrent requests, # total requests",
        "starting benchmark...",
        "progress: #% done",
    ];
    assert_eq!(lines, expected, "{text}");
    let names =
        |value: &serde_json::Value| value.as_object().map(|all| all.keys().cloned().collect::<Vec<_>>().join(" "));
    let names = |value| names(value).unwrap_or_default();
    let expected = [
        ("request_counts", "keep-alive retired started total"),
        ("response_counts", "errs fail pass"),
        ("status_codes", "2xx 3xx 4xx 5xx"),
        ("traffic", "bytes_body bytes_headers bytes_total"),
        ("connect_times", "0% 100% 50% 66% 75% 80% 90% 95% 98% 99% avg num stddev unit"),
        ("time_to_first_byte", "0% 100% 50% 66% 75% 80% 90% 95% 98% 99% avg num stddev unit"),
        ("response_times", "0% 100% 50% 66% 75% 80% 90% 95% 98% 99% avg num stddev unit"),
    ];
    for (name, inner) in expected {
        assert_eq!(names(&json[name]), inner, "{text}");
    }
    assert!(["reqs_per_sec", "kBps_per_sec", "secs_elapsed"].iter().all(|name| json[name].is_number()), "{text}");
    assert_eq!(
        (&json["request_counts"]["keep-alive"], &json["traffic"]["bytes_body"]),
        (&96.into(), &0.into()),
        "{text}"
    );

    let (text, json) = results(&["-n", "10", "--json", "-k", &none]);
    assert!(text.starts_with('{'), "{text}");
    assert_eq!((&json["response_counts"]["fail"], &json["status_codes"]["4xx"]), (&10.into(), &10.into()), "{text}");
    let (text, _) = results(&["-qd", "-n", "10", &good]);
    assert!(text.starts_with('{'), "{text}");

    for (option, name) in [("-F", "-F"), ("-a5", "-a"), ("-s1", "-s"), ("-ex", "-e")] {
        let absent = said(lab().args(["weighttp", "-n", "10", option, &good]));
        let text = String::from_utf8_lossy(&absent.stderr);
        assert!(!absent.status.success() && text.contains(&format!("{name} is not supported")), "{text}");
    }
}

/// Readers like `head` leave before the end.
#[test]
fn nobody_has_to_read_to_the_end() {
    let url = format!("http://{}/", serve());
    for arguments in [&["load", "-n", "1", &url][..], &["ab", &url], &["weighttp", "-n", "1", &url], &["list"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = lab().args(arguments).stdout(writer).output().expect("run it");
        assert!(output.status.success() && !String::from_utf8_lossy(&output.stderr).contains("panic"), "{output:?}");
    }
}

/// Connections that end without an answer fail, under each name.
#[test]
fn servers_that_say_nothing() {
    let gone = format!("http://{}/gone", serve());
    let output = said(lab().args(["load", "-n", "10", "-c", "2", "--json", &gone]));
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("\"answers\":0") && text.contains("\"failures\":{\"read\":10}"), "{text}");
    let output = said(lab().args(["weighttp", "-n", "10", &gone]));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("0 succeeded, 0 failed, 10 errored"), "{text}");
}

/// A terminal gets a view while the load runs, and drawings at the end; a pipe gets neither.
#[test]
fn load_draws_in_a_terminal() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("not tried: script is not installed (apt-get install bsdutils)");
        return;
    }
    let url = format!("http://{}/", serve());
    let load = format!("stty cols 80 && {} load -c 2 -r 500 -d 2500ms {url}", env!("CARGO_BIN_EXE_tsubame-lab"));
    let output = said(Command::new("script").args(["-qec", &load, "/dev/null"]).env("TERM", "xterm"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for part in
        ["responses per second on average, 0 failed", "in the last second, 0 failed, p50 ", "Distribution", "p99.9"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = said(lab().args(["load", "-c", "2", "-n", "100", &url]));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("Latency in milliseconds") && !text.contains("Distribution"), "{text}");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// If you interrupt a load in a terminal, you see the results so far, and nothing of the view remains: `^C` is not
/// written into it.
#[test]
fn an_interrupted_view_is_gone() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("not tried: script is not installed (apt-get install bsdutils)");
        return;
    }
    let url = format!("http://{}/", serve());
    // Without `exec`, some shells wait for the load, and the key's signal ends them too.
    let load = format!("stty cols 80 && exec {} load -c 2 -r 500 -d 1h {url}", env!("CARGO_BIN_EXE_tsubame-lab"));
    let mut script = Command::new("script");
    script.args(["-qec", &load, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = script.spawn().expect("a terminal");
    let (mut keys, mut screen) = (script.stdin.take().expect("a pipe"), script.stdout.take().expect("a pipe"));
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    let mut is_interrupted = false;
    while let Ok(length @ 1..) = screen.read(&mut piece) {
        seen.extend_from_slice(&piece[..length]);
        // The view appears before the first answer, without which a load fails.
        if !is_interrupted && String::from_utf8_lossy(&seen).contains("in the last second") {
            is_interrupted = true;
            keys.write_all(b"\x03").expect("press a key");
        }
    }
    let text = String::from_utf8_lossy(&seen);
    assert!(script.wait().expect("its end").success(), "{text}");
    assert!(text.contains("it was interrupted") && !text.contains("^C"), "{text}");
}

/// The command of a load that may have only 64 open files, even as root.
fn confined(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    if rustix::process::geteuid().is_root() {
        command = Command::new("setpriv");
        command.args(["--bounding-set=-sys_resource", "sh"]);
    }
    command.args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tsubame-lab")]).args(arguments);
    command
}

/// More connections than one process may open files: several share them, and the output does not show that.
#[test]
fn loads_that_are_too_large_for_one_process() {
    let server = serve();
    let (good, gone) = (format!("http://{server}/"), format!("http://{server}/gone"));
    let output = said(&mut confined(&["load", "-c", "200", "-n", "2000", "--json", &good]));
    let text = String::from_utf8_lossy(&output.stdout);
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    for (name, figure) in [("answers", 2000), ("good", 2000), ("requests", 2000), ("connections", 200)] {
        assert_eq!(results[name], figure, "{name}: {text}");
    }
    assert_eq!((&results["bytes"]["body"], &results["failures"]), (&10_000.into(), &serde_json::json!({})), "{text}");
    let seconds = results["timeline"].as_array().expect("a timeline");
    assert_eq!(seconds.iter().filter_map(|second| second["answers"].as_u64()).sum::<u64>(), 2000, "{text}");

    // At a fixed rate, and under other names.
    let output = said(&mut confined(&["load", "-c", "100", "-r", "1000", "-n", "300", "--json", &good]));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("\"answers\":300,"), "{output:?}");
    let output = said(&mut confined(&["ab", "-c", "150", "-n", "300", "-q", &good]));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("Complete requests:      300\n") && text.contains("Failed requests:        0\n"), "{text}");

    // Failures are reported as usual, and impossible numbers are refused.
    let output = said(&mut confined(&["load", "-c", "60", "-n", "60", "--json", &gone]));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && text.contains("\"failures\":{\"read\":60}"), "{output:?}");
    let output = said(&mut confined(&["load", "-c", "5000", "-n", "5000", &good]));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("only 64 open files are allowed"), "{text}");
}

/// A load in several processes ends as a whole: when interrupted, it reports its results so far; without one of its
/// processes, it says so. Nothing of it remains.
#[test]
fn several_processes_end_together() {
    let url = format!("http://{}/", serve());
    let deadline = Instant::now() + Duration::from_secs(30);
    // A process that is left would keep the pipes open.
    let end = |whom: fn(u32, u32) -> u32, signal: Signal| {
        let mut command = confined(&["load", "-c", "100", "-d", "1h", "--json", &url]);
        let mut load = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a load");
        let children = format!("/proc/{}/task/{}/children", load.id(), load.id());
        let copy = loop {
            assert!(Instant::now() < deadline, "there are no copies");
            let copies = std::fs::read_to_string(&children).unwrap_or_default();
            if let Some(last) = copies.split_whitespace().nth(2) {
                break last.parse().expect("a number of a process");
            }
            std::thread::yield_now();
        };
        let pid = Pid::from_raw(whom(load.id(), copy).cast_signed()).expect("a process");
        kill_process(pid, signal).expect("send a signal");
        let (mut results, mut errors) = (String::new(), String::new());
        load.stdout.take().expect("a pipe").read_to_string(&mut results).expect("results");
        load.stderr.take().expect("a pipe").read_to_string(&mut errors).expect("errors");
        assert!(Instant::now() < deadline, "{errors}");
        (results, errors, load.wait().expect("an end").success())
    };
    let (results, errors, _) = end(|load, _| load, Signal::TERM);
    assert!(results.contains("\"failures\":{}"), "{results} {errors}");
    let (results, errors, is_good) = end(|_, copy| copy, Signal::KILL);
    assert!(!is_good && results.is_empty(), "{results}");
    assert!(errors.contains("a process of the generator ended too early (signal: 9 (SIGKILL))"), "{errors}");
    let (_, errors, is_good) = end(|load, _| load, Signal::KILL);
    assert!(!is_good && errors.is_empty(), "{errors}");
}

/// Clients that rest, and requests due at random.
#[test]
fn load_has_the_paces_of_httperf() {
    let url = format!("http://{}/", serve());
    let results = |arguments: &[&str]| {
        let output = said(lab().args(["load", "--json"]).args(arguments).arg(&url));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let rested = results(&["-c", "1", "-n", "6", "--think", "20ms"]);
    assert!(rested["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.1), "five rests: {rested}");
    let due = results(&["-r", "200", "-n", "40", "--poisson"]);
    assert_eq!((&due["answers"], &due["failures"]), (&40.into(), &serde_json::json!({})), "{due}");
}

/// Scripts learn by the exit status whether a load kept its limits, after the results.
#[test]
fn load_keeps_limits() {
    let server = serve();
    let ends = |path: &str, limits: &[&str]| {
        let limits = limits.iter().flat_map(|limit| ["--fail-if", limit]);
        let url = format!("http://{server}{path}");
        let output = said(lab().args(["load", "-c", "1", "-n", "10", "--json", &url]).args(limits));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), output.stdout.starts_with(b"{"), told)
    };
    assert_eq!(ends("/", &["p99 > 1h", "rps < 0.001", "errors > 0", "4xx > 0"]), (Some(0), true, String::new()));
    let (status, is_written, told) = ends("/none", &["max < 1h", "errors >= 100%", "4xx > 9", "5xx > 0"]);
    assert_eq!((status, is_written, told.matches("failed, because").count()), (Some(99), true, 3), "{told}");
    assert!(told.contains("failed, because errors >= 100%: it is 100.00 %"), "{told}");
    assert!(ends("/", &["p99 over 1s"]).2.contains("a limit is `FIGURE > VALUE`"));
}

/// A search ends with a rate that was tried.
#[test]
fn load_finds_a_rate() {
    let url = format!("http://{}/", serve());
    let find = |limit: &str| {
        said(lab().args(["load", "--find-rate", "--p99", limit, "-d", "100ms", "-c", "4", "--json", &url]))
    };
    let output = find("10s");
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let steps = results["steps"].as_array().expect("steps");
    let good = steps.iter().filter(|step| step["too_high"].is_null()).filter_map(|step| step["rate"].as_f64());
    assert_eq!(results["rate"].as_f64(), good.reduce(f64::max), "{results}");
    let output = find("0.001ms");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && text.contains("\"rate\":null"), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains(" too "), "{output:?}");
}

/// The same page in two ways: the comparison, and the doubts.
#[test]
fn compare_tells_what_it_measured() {
    let server = serve();
    let (one, other) = (format!("http://{server}/"), format!("http://{server}/none"));
    let output = said(lab().args(["compare", "--rounds", "2", "-n", "50", "-c", "2", "--json", &one, &other]));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("\"rounds\":2") && text.contains("\"failures\":[0,100]"), "{text}");
    assert!(text.contains("\"name\":\"answers per second\"") && text.contains("A and B are the same server"), "{text}");
    let output = said(lab().args(["compare", "--rounds", "1", "-n", "5", "-c", "1", &one, &one]));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("only 1 round(s)") && text.contains("p99 ms (less is better)"), "{text}");
}

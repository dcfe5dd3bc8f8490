//! Sessions of users, as `load --scenario` plays them, seen by the server.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::scripted;
use crate::scripted::site::{File, Seen, Site, echo, lab, said, serve, text};
use serde_json::Value;

/// A shop: a form with a token, a login that needs it and leads to a basket, which needs a cookie.
fn shop(seen: &Seen) -> (String, String) {
    let has_login = seen.field("Cookie").is_some_and(|cookies| cookies.contains("login=yes"));
    match (&*seen.method, &*seen.path) {
        ("GET", "/login") => {
            let head = "200 OK\r\nSet-Cookie: visit=1; Path=/; HttpOnly";
            (head.to_owned(), "<form><input name=\"token\" value=\"a/b c&d\"></form>".to_owned())
        }
        ("POST", "/login") if seen.body.contains("token=a%2Fb%20c%26d") && seen.field("Cookie") == Some("visit=1") => {
            ("302 Found\r\nLocation: /basket?id=7\r\nSet-Cookie: login=yes; Path=/basket".to_owned(), String::new())
        }
        ("GET", "/basket?id=7") if has_login => ("200 OK".to_owned(), "Your basket is empty".to_owned()),
        ("PUT", "/basket/7") if has_login => ("201 Created".to_owned(), String::new()),
        _ => ("403 Forbidden".to_owned(), "who are you?".to_owned()),
    }
}

/// The results of a scenario as JSON.
fn played(url: &str, scenario: &str, test: &str, arguments: &[&str]) -> Value {
    let file = File::new(test, scenario);
    let output = said(lab().args(["load", url, "--json", "--scenario", file.path()]).args(arguments));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Name, requests and failures of each step.
fn steps(results: &Value) -> Vec<(&str, u64, u64)> {
    let steps = results["sessions"]["steps"].as_array().expect("steps");
    let number = |value: &Value| value.as_u64().expect("a number");
    let told = |step: &Value| (number(&step["requests"]), number(&step["failures"]));
    steps.iter().map(|step| (step["name"].as_str().expect("a name"), told(step).0, told(step).1)).collect()
}

/// The example that the documentation teaches.
fn example() -> String {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = std::fs::read_to_string(readme).expect("the documentation");
    let lines = readme.lines().skip_while(|line| !line.starts_with("    # shop.txt"));
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect()
}

/// Users log in with what the page before gave them, each anew, over a connection each.
#[test]
fn users_carry_cookies_and_values_from_step_to_step() {
    let site = Site::new(shop);
    let scenario = example().replace("think 1s..3s", "think 1ms..3ms");
    assert!(scenario.contains("think 1ms..3ms"), "{scenario}");
    let results = played(&site.url(), &scenario, "shop", &["-c", "3", "-n", "10", "-t", "2"]);
    let named = ["the form", "log in", "GET ${next}", "PUT /basket/7"];
    assert_eq!(steps(&results), named.map(|name| (name, 10, 0)), "{results}");
    let sessions = &results["sessions"];
    assert_eq!((&sessions["complete"], &sessions["failed"]), (&10.into(), &0.into()), "{results}");
    assert_eq!((&results["good"], &results["connections"]), (&40.into(), &10.into()), "{results}");

    let seen = site.seen();
    let forms = seen.iter().filter(|seen| seen.method == "GET" && seen.path == "/login");
    assert!(forms.clone().all(|seen| seen.field("Cookie").is_none()), "a user begins without cookies");
    let users: HashSet<&str> =
        seen.iter().filter(|seen| seen.path == "/login").map(|seen| seen.body.as_str()).collect();
    assert_eq!(users.len(), 11, "an empty body, and ten users with names of their own: {users:?}");
    let baskets = seen.iter().filter(|seen| seen.path == "/basket?id=7");
    assert!(baskets.clone().all(|seen| seen.field("Cookie") == Some("login=yes; visit=1")), "{seen:?}");
    let puts: Vec<&Seen> = seen.iter().filter(|seen| seen.method == "PUT").collect();
    assert_eq!((puts[0].body.as_str(), puts[0].field("Content-Type")), ("{\"item\": 7}", Some("application/json")));
    for connection in 0..10 {
        let paths = seen.iter().filter(|seen| seen.connection == connection).map(|seen| seen.path.as_str());
        assert_eq!(paths.collect::<Vec<_>>(), ["/login", "/login", "/basket?id=7", "/basket/7"]);
    }
}

/// The text for people has the same figures.
#[test]
fn steps_are_shown() {
    let site = Site::new(echo);
    let file = File::new("shown", "GET /a\nGET /none\n  name nothing\nGET /b\n");
    let output = said(lab().args(["load", &site.url(), "-c", "2", "-n", "4", "--scenario", file.path()]));
    let told = text(&output.stdout);
    for part in [
        "  2 users, ",
        "Sessions  0 complete; 4 failed\n",
        "  step     requests  failed  p50 ms  p99 ms\n",
        "  ! nothing, the first failure: its status is 404\n",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let row = |name: &str| told.lines().find(|line| line.trim_start().starts_with(name)).map(str::to_owned);
    let figures = |name| {
        row(name).map(|row| {
            row.split_whitespace()
                .skip(if name == "nothing" { 1 } else { 2 })
                .take(2)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(figures("GET /a").expect("a row"), ["4", "0"], "{told}");
    assert_eq!(figures("nothing").expect("a row"), ["4", "4"], "{told}");
    assert_eq!(figures("GET /b").expect("a row"), ["0", "0"], "{told}");
}

/// A step whose answer is not as expected has failed, and ends its session.
#[test]
fn expectations_hold_or_the_session_ends() {
    let site = Site::new(echo);
    let cases = [
        ("GET /a\n  expect 200\n  expect text 'hello'\nGET /b", 0, ""),
        ("GET /none\n  expect 404 5xx\nGET /b", 0, ""),
        ("GET /none\nGET /b", 1, "its status is 404"),
        ("GET /a\n  expect 3xx\nGET /b", 1, "its status is 200"),
        ("GET /a\n  expect text \"it's\"\nGET /b", 1, "its body does not contain \"it's\""),
        ("GET /a\n  take x from header X\nGET /b", 1, "there is no \"x\": it has no field X"),
        ("GET /a\n  take x between 'h' and 'z'\nGET /b", 1, "there is no \"x\": its body has nothing between"),
        ("GET /gone\nGET /b", 1, "it was not answered"),
    ];
    for (scenario, failed, why) in cases {
        let results = played(&site.url(), scenario, "expected", &["-c", "1", "-n", "1"]);
        let sessions = &results["sessions"];
        assert_eq!((&sessions["failed"], &sessions["complete"]), (&failed.into(), &(1 - failed).into()), "{results}");
        let steps = steps(&results);
        assert_eq!((steps[0].1, steps[0].2, steps[1].1), (1, failed, 1 - failed), "{scenario}: {results}");
        let told = sessions["steps"][0]["first_failure"].as_str().unwrap_or_default();
        assert!(told.starts_with(why) && told.is_empty() == why.is_empty(), "{scenario}: {told}");
        assert_eq!(results["good"], 2 - 2 * failed, "{results}");
    }
    let file = File::new("limit", "GET /none");
    let output =
        said(lab().args(["load", &site.url(), "-n", "1", "--scenario", file.path(), "--fail-if", "errors > 0"]));
    assert_eq!(output.status.code(), Some(99), "{output:?}");
}

/// A value cannot become a field, a request, or a request to somebody else.
#[test]
fn values_stay_where_they_belong() {
    let site = Site::new(echo);
    let take = "GET /lines\n  take v between '<' and '>'\n  take next from header X-Next\n";
    for (step, why) in [
        ("GET /x\n  header X-A: ${v}", "it was not sent: the value \"a\\r\\nX-B: c\" has several lines"),
        ("GET /${v}", "it was not sent: \"/a\\r\\nX-B: c\" is not a URL"),
        ("GET ${next}", "it was not sent: http://localhost:1/ is on another server"),
    ] {
        let results = played(&site.url(), &format!("{take}{step}\n"), "unfit", &["-c", "1", "-n", "1"]);
        let told = results["sessions"]["steps"][1]["first_failure"].as_str().unwrap_or_default();
        assert!(told.starts_with(why), "{told}");
        assert_eq!(site.taken(), ["GET /lines"], "{step}");
    }
    let encoded = format!("{take}POST /x?${{v:url}}\n  body ${{v}} $${{v}}\n");
    played(&site.url(), &encoded, "fit", &["-c", "1", "-n", "1"]);
    assert_eq!(site.taken(), ["GET /lines", "POST /x?a%0D%0AX-B%3A%20c a\r\nX-B: c ${v}"]);
}

/// Cookies belong to paths and to TLS, and servers delete them.
#[test]
fn cookies_are_those_of_browsers() {
    fn app(seen: &Seen) -> (String, String) {
        let fields = match seen.path.as_str() {
            "/set" => {
                "\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2; Path=/deep\r\nSet-Cookie: c=3; Secure\r\nSet-Cookie: d=4; Domain=other.test"
            }
            "/unset" => "\r\nSet-Cookie: a=; Max-Age=0",
            "/past" => "\r\nSet-Cookie: a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
            _ => "",
        };
        (format!("200 OK{fields}"), String::new())
    }
    let site = Site::new(app);
    let scenario = "GET /set\nGET /x\nGET /deep/y\nGET /own\n  header Cookie: z=1\nGET /unset\nGET /x\nGET /set\nGET /past\nGET /x\n";
    let cookies = |seen: &[Seen]| {
        let cookies = seen.iter().map(|seen| seen.field("Cookie").unwrap_or("-").to_owned());
        cookies.collect::<Vec<_>>()
    };
    played(&site.url(), scenario, "cookies", &["-c", "1", "-n", "1"]);
    assert_eq!(cookies(&site.seen()), ["-", "a=1", "b=2; a=1", "z=1", "a=1", "-", "-", "a=1", "-"]);

    let identity = scripted::Identity::new("cookies", false);
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let log = Arc::clone(&seen);
    let address = identity.serve(&[], true, move |stream| serve(stream, app, &log, 0));
    played(&format!("https://{address}/"), "GET /set\nGET /x\n", "secure", &["-c", "1", "-n", "1"]);
    assert_eq!(cookies(&seen.lock().expect("requests")), ["-", "a=1; c=3"]);
}

/// Requests that a server may not have seen are sent again over another connection; options say how many it carries.
#[test]
fn sessions_outlive_their_connections() {
    let site = Site::new(echo);
    let connections = |site: &Site| site.seen().iter().map(|seen| seen.connection).collect::<Vec<_>>();
    let results = played(&site.url(), "GET /close\nGET /a\nGET /b\n", "close", &["-c", "1", "-n", "2"]);
    assert_eq!(results["sessions"]["complete"], 2, "{results}");
    assert_eq!(connections(&site), [0, 1, 1, 2, 3, 3]);
    for (arguments, expected) in [(&["--close"][..], [0, 1, 2]), (&["--per-connection", "2"], [0, 0, 1])] {
        let site = Site::new(echo);
        let results =
            played(&site.url(), "GET /a\nGET /b\nGET /c\n", "calls", &[&["-c", "1", "-n", "1"], arguments].concat());
        assert_eq!(
            (results["sessions"]["complete"].as_u64(), connections(&site)),
            (Some(1), expected.to_vec()),
            "{results}"
        );
    }
    // The second request of each connection is lost.
    let lossy = scripted::listen(|stream| {
        let mut stream = BufReader::new(stream);
        let mut requests = 0;
        loop {
            let mut line = String::new();
            match stream.read_line(&mut line) {
                Ok(1..) if line.trim().is_empty() => requests += 1,
                Ok(1..) => continue,
                _ => return,
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            if requests == 2 || stream.get_mut().write_all(answer).is_err() {
                return;
            }
        }
    });
    let results = played(&format!("http://{lossy}/"), "GET /a\nGET /b\n", "lossy", &["-c", "1", "-n", "3"]);
    assert_eq!((&results["sessions"]["complete"], &results["reopened"]), (&3.into(), &3.into()), "{results}");
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("an address");
    let results = played(&format!("http://{nobody}/"), "GET /a\n", "nobody", &["-c", "2", "-n", "3"]);
    assert_eq!((&results["failures"]["refused"], &results["sessions"]["failed"]), (&3.into(), &3.into()), "{results}");
}

/// Sessions repeat until the time is over, or become due at a rate; users rest.
#[test]
fn sessions_have_the_paces_of_a_load() {
    let site = Site::new(echo);
    let results =
        played(&site.url(), "GET /a\nthink 20ms\nGET /b\nthink 30ms..40ms\n", "rest", &["-c", "1", "-n", "2"]);
    assert!(results["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.1), "two rests, twice: {results}");
    assert_eq!(results["sessions"]["complete"], 2, "{results}");
    let results = played(&site.url(), "GET /a\nGET /b\n", "due", &["-r", "200", "-n", "30"]);
    assert_eq!((&results["sessions"]["complete"], &results["answers"]), (&30.into(), &60.into()), "{results}");
    let results = played(&site.url(), "GET /a\nthink 1h\nGET /b\n", "time", &["-c", "3", "-d", "300ms"]);
    let sessions = &results["sessions"];
    assert_eq!((&sessions["complete"], &sessions["failed"]), (&0.into(), &0.into()), "cut off: {results}");
    assert_eq!(steps(&results), [("GET /a", 3, 0), ("GET /b", 0, 0)]);
    let results = played(&site.url(), "GET /a\nGET /b\n", "again", &["-c", "2", "-d", "300ms"]);
    assert!(results["sessions"]["complete"].as_u64() > Some(2), "they repeat: {results}");
}

/// A silent server does not hold a session for ever.
#[test]
fn sessions_do_not_wait_for_ever() {
    let silent = scripted::listen(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let results =
        played(&format!("http://{silent}/"), "GET /a\nGET /b\n", "late", &["-c", "1", "-n", "1", "--timeout", "50ms"]);
    assert_eq!((&results["failures"]["timeout"], &results["sessions"]["failed"]), (&1.into(), &1.into()), "{results}");
}

/// More users than one process may open files: several share them, and their sessions have different numbers.
#[test]
fn users_of_several_processes_are_different() {
    let site = Site::new(echo);
    let file = File::new("processes", "GET /${session}\n");
    let mut command = Command::new("sh");
    if rustix::process::geteuid().is_root() {
        command = Command::new("setpriv");
        command.args(["--bounding-set=-sys_resource", "sh"]);
    }
    command.args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tsubame-lab"), "load", &site.url()]);
    let output = said(command.args(["--json", "-c", "100", "-n", "300", "--scenario", file.path()]));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(results["sessions"]["complete"], 300, "{results}");
    assert_eq!(steps(&results), [("GET /${session}", 300, 0)]);
    let paths: HashSet<String> = site.taken().into_iter().collect();
    assert_eq!(paths.len(), 300, "each has a number of its own");
}

/// Mistakes in a scenario are named with file and line.
#[test]
fn mistakes_in_scenarios_are_named() {
    let site = Site::new(echo);
    let fails = |scenario: &str, arguments: &[&str]| {
        let file = File::new("mistakes", scenario);
        let output = said(lab().args(["load", "--scenario", file.path()]).args(arguments));
        assert!(!output.status.success(), "{scenario:?} {arguments:?}");
        text(&output.stderr).replace(file.path(), "FILE")
    };
    let url = site.url();
    for (scenario, why) in [
        ("", "FILE has no steps"),
        ("# nothing\n\n", "FILE has no steps"),
        ("\n  expect 200", "FILE:2: an indented line belongs to a step"),
        ("think 1s", "FILE:1: a user rests after a step"),
        ("GET /\nthink 1s\nthink 2s", "FILE:3: a user rests once"),
        ("GET /\nthink 3s..1s", "FILE:2: 3s is longer than 1s"),
        ("GET /\nthink long", "FILE:2: \"long\" is not a unit of time"),
        ("get /", "FILE:1: \"get /\" is neither METHOD URL, nor think TIME"),
        ("GET / HTTP/1.1", "FILE:1: \"GET / HTTP/1.1\" is neither"),
        ("GET", "FILE:1: \"GET\" is neither"),
        ("GET index.html", "FILE:1: \"index.html\" is neither a path"),
        ("GET http://example.org/", "FILE:1: http://example.org/ is on another server"),
        ("GET /${id}", "FILE:1: no step before this one takes \"id\""),
        ("GET /\n  take id from header X\n  header Y: ${id}", "FILE:3: no step before this one takes \"id\""),
        ("GET /${id", "FILE:1: \"${id\" has no closing brace"),
        ("GET /\n  expekt 200", "FILE:2: \"expekt\" says nothing about a step"),
        ("GET /\n  expect good", "FILE:2: \"good\" is not a status"),
        ("GET /\n  expect 99", "FILE:2: \"99\" is not a status"),
        ("GET /\n  expect text hello", "FILE:2: \"hello\" is not a text in quotes"),
        ("GET /\n  expect text 'a' 'b'", "FILE:2: \"'b'\" is too much"),
        ("GET /\n  name", "FILE:2: \"name\" says nothing"),
        ("GET /\n  header X", "FILE:2: a field is `Name: value`"),
        ("GET /\n  body a\n  body b", "FILE:3: the step has a body already"),
        ("GET /\n  body-file none.here", "none.here"),
        ("GET /\n  take a", "FILE:2: \"a\" says nothing about where"),
        ("GET /\n  take a from X", "FILE:2: \"a from X\" names no field"),
        ("GET /\n  take a between 'x' 'y'", "has no `and`"),
        ("GET /\n  take a between 'x' and ''", "FILE:2: a value is between two texts"),
        ("GET /\n  take session from header X", "FILE:2: a value cannot be named \"session\""),
        (&"GET /\n".repeat(201), "FILE:201: a scenario has at most 200 steps"),
        (&format!("GET /{}", "x".repeat(1024 * 1024)), "at most 1048576 are allowed"),
    ] {
        let told = fails(scenario, &[&url]);
        assert!(told.contains(why), "{scenario:?}: {told}");
    }
    for (arguments, why) in [
        (&[&*url, &url][..], "the steps of a scenario have paths of their own"),
        (&[&format!("{url}x")], "the steps of a scenario have paths of their own"),
        (&[&url, "--http2"], "cannot be used with"),
        (&[&url, "-m", "POST"], "cannot be used with"),
        (&[&url, "--find-rate"], "cannot be used with"),
    ] {
        let told = fails("GET /", arguments);
        assert!(told.contains(why), "{arguments:?}: {told}");
    }
    assert!(site.seen().is_empty(), "nothing is sent before all is read");
}

/// The help and the manual page have all lines.
#[test]
fn scenarios_are_taught() {
    for arguments in [&["load", "--help"][..], &["man"]] {
        let told = text(&said(lab().args(arguments)).stdout).replace('\\', "");
        for line in ["think TIME..TIME", "body-file FILE", "take NAME between \"A\" and \"B\"", "${NAME:url}"] {
            assert!(told.contains(line), "{arguments:?} {line}: {told}");
        }
    }
}

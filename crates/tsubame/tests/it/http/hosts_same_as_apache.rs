//! The virtual host of a request, the limits before it is known, and the server's name: as in Apache.

use crate::harness::oracle::{Allowed, Case, compare, rows};
use crate::harness::site::Site;

const TELL: &str =
    "#!/bin/sh\nprintf 'Content-type: text/plain\\n\\n'\necho \"$REQUEST_SCHEME $SERVER_NAME $SERVER_PORT\"\n";

fn build(site: &Site) {
    site.page("a.txt", "0123456789");
    site.page("d/index.html", "d\n");
    site.page("big.txt", "0123456789".repeat(100));
    let script = site.page("tell.cgi", TELL);
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("mode");
}

/// The server's own name has the scheme given by `ServerName`, whatever the connection's is.
#[test]
fn server_names_with_a_scheme() {
    let scripts = "AddHandler cgi-script .cgi\nOptions +ExecCGI\nServerSignature On\nRedirect /r /x\n";
    let names = [
        "ServerName https://canon.example",
        "ServerName https://canon.example\nUseCanonicalName On",
        "ServerName https://canon.example:8443\nUseCanonicalName On",
        "ServerName HTTPS://canon.example\nUseCanonicalPhysicalPort On",
        "ServerName ftp://canon.example\nUseCanonicalName On",
        "ServerName canon.example\n<VirtualHost *:8080>\nServerName https://v.example\n</VirtualHost>",
        "ServerName https://canon.example\n<VirtualHost *:8080>\nServerAdmin a@b\n</VirtualHost>",
    ];
    let requests: &[&str] = &["GET /d", "GET /r", "GET /none", "GET /tell.cgi"];
    let ports =
        |host: &str| Case { name: host.into(), bytes: format!("GET /d HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes() };
    for name in names {
        let configuration = format!("{scripts}{name}");
        rows("server_names_with_a_scheme", build, &[(&configuration, requests)], &SCRIPT_LENGTH);
        compare("server_names_with_a_scheme", build, &configuration, &["a:443", "a:80", "a:1"].map(ports), &[]);
    }
}

const SCRIPT_LENGTH: [Allowed; 2] = [
    Allowed { case: "*", what: "transfer-encoding", entry: "The length of a short CGI answer" },
    Allowed { case: "*", what: "content-length", entry: "The length of a short CGI answer" },
];

/// A virtual host without a port has the port of the main server's name, if that stands above it.
#[test]
fn virtual_hosts_without_port() {
    let host = |address: &str| format!("<VirtualHost {address}>\nRedirect /a.txt /here\n</VirtualHost>\n");
    let name = "ServerName main.example:77\n";
    for configuration in [
        format!("{name}{}", host("${ADDR}")),
        format!("{name}{}", host("_default_")),
        format!("{name}{}", host("*")),
        format!("{name}{}", host("${ADDR}:*")),
        format!("{}{name}", host("${ADDR}")),
        format!("ServerName main.example:8080\n{}", host("${ADDR}")),
        format!("{name}UseCanonicalName On\n{}{}", host("${ADDR}:8080"), host("${ADDR}")),
    ] {
        rows("virtual_hosts_without_port", build, &[(&configuration, &["GET /a.txt", "GET /d"])], &[]);
    }
}

/// Until the head is read the first virtual host of the address counts.
#[test]
fn limits_of_the_first_virtual_host() {
    let long = "y".repeat(40);
    let cases = [
        Case::of(&format!("GET /a.txt?{}", "x".repeat(60))),
        Case::of(&format!("GET /a.txt|X: {long}")),
        Case::of(&format!("GET /a.txt?{}", "x".repeat(9000))),
        Case::of(&format!("GET /a.txt|X: {}", "x".repeat(9000))),
        Case::of("GET /a.txt|A: 1|B: 2|C: 3|D: 4|E: 5|F: 6"),
        Case { name: "bare LF".into(), bytes: b"GET /a.txt HTTP/1.1\nHost: localhost\n\n".to_vec() },
        Case { name: "no field".into(), bytes: b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\nX\r\n\r\n".to_vec() },
        Case::of("FOO /a.txt"),
    ];
    let other = |first: &str, second: &str| {
        format!(
            "LimitRequestLine 80\n<VirtualHost *:8080>\nServerName first\n{first}\n</VirtualHost>\n\
             <VirtualHost *:8080>\nServerName localhost\n{second}\n</VirtualHost>"
        )
    };
    let small = "LimitRequestLine 2000\nLimitRequestFields 5\nLimitRequestFieldSize 30\nErrorDocument 400 mine";
    let large = "LimitRequestLine 20000\nLimitRequestFieldSize 20000\nHttpProtocolOptions Unsafe";
    for configuration in [other(small, ""), other("", small), other(large, ""), other("", large)] {
        compare("limits_of_the_first_virtual_host", build, &configuration, &cases, &[]);
    }
}

/// Fields of one name count together, and so do the lines of a folded one.
#[test]
fn fields_that_pass_the_limit_together() {
    let fields = |lengths: &[usize]| {
        let values: String = lengths.iter().map(|length| format!("|A: {}", "x".repeat(*length))).collect();
        Case::of(&format!("GET /a.txt|B: 1{values}"))
    };
    let folded = |lengths: &[usize]| {
        let lines: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
        Case::of(&format!("GET /a.txt|A: {}", lines.join("| ")))
    };
    let mut cases: Vec<Case> = [
        &[10, 10, 10, 10][..],
        &[10; 5],
        &[5; 8],
        &[0, 47],
        &[0, 48],
        &[0, 49],
        &[47, 0],
        &[23, 23],
        &[24, 24],
        &[24, 25],
        &[45, 0, 0],
        &[1; 17],
        &[1; 18],
    ]
    .map(fields)
    .into();
    cases.extend([&[20, 10][..], &[20, 24], &[20, 25], &[20, 27], &[20, 28], &[10, 10, 24], &[10, 10, 10]].map(folded));
    cases.push(Case::of("GET /a.txt|Cookie: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa|COOKIE: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"));
    compare("fields_that_pass_the_limit_together", build, "LimitRequestFieldSize 50", &cases, &[]);
}

/// Adjacent ranges become one; ranges longer in sum than the file are ignored.
#[test]
fn many_ranges() {
    let list = |count: usize, range: &dyn Fn(usize) -> (usize, usize)| {
        let ranges: Vec<String> = (0..count).map(range).map(|(first, last)| format!("{first}-{last}")).collect();
        Case::of(&format!("GET /big.txt|Range: bytes={}", ranges.join(",")))
    };
    let mut cases = Vec::new();
    for count in [2, 20, 21, 22, 23, 50, 199, 200, 201] {
        cases.push(list(count, &|n| (n, n)));
        cases.push(list(count, &|n| (2 * n, 2 * n)));
        cases.push(list(count, &|n| (2 * n, 2 * n + 4)));
        cases.push(list(count, &|n| (900 - n, 901 - n)));
    }
    for set in ["0-499,600-999,0-99", "0-499,600-999,0-100", "0-,5-", "-600,0-300", "0-600,700-800,0-500"] {
        cases.push(Case::of(&format!("GET /big.txt|Range: bytes={set}")));
    }
    cases.push(Case::of("GET /a.txt|Range: bytes=0-1|Range: bytes=3-4"));
    cases.push(Case::of("GET /a.txt|Range: bytes=20-|Range: bytes=3-4"));
    let length = |what| Allowed { case: "*", what, entry: "The length of many ranges" };
    let allowed = [length("content-length"), length("transfer-encoding")];
    for configuration in ["", "MaxRanges none", "MaxRanges 3", "MaxRanges unlimited"] {
        compare("many_ranges", build, configuration, &cases, &allowed);
    }
    // Only a range that is merged with the one before it may be a reversal.
    let turns = |count: usize| vec!["0-1,3-4"; count].join(",");
    let (few, many) = (turns(50), turns(102));
    let sets = [&*few, &many, "10-20,5-12,3-6,1-4,0-2", "10-11,8-9,6-7,4-5", "0-3,4-5,6-7,8-9", "10-20,0-9", "0-1,3-4"];
    let cases: Vec<Case> = sets.iter().map(|set| Case::of(&format!("GET /big.txt|Range: bytes={set}"))).collect();
    for directive in ["MaxRanges", "MaxRangeOverlaps", "MaxRangeReversals"] {
        for value in ["default", "none", "1", "2", "unlimited"] {
            compare("many_ranges", build, &format!("{directive} {value}"), &cases, &allowed);
        }
    }
    let plain: &[&str] = &["GET /a.txt", "HEAD /a.txt", "GET /d/", "GET /none"];
    rows("many_ranges", build, &[("MaxRanges none", plain)], &[]);
}

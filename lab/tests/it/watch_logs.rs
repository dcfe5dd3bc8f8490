//! `switch --watch`, from outside: in logs of eight days, nothing is found where nothing changed, and what is planted is.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const LAB: &str = env!("CARGO_BIN_EXE_tsubame-lab");
const APACHE: &str = "/usr/sbin/apache2";
const MODULES: &str = "/usr/lib/apache2/modules";

/// When Tsubame took over.
const SINCE: &str = "2024-05-14T22:15";

/// Days before.
const DAYS: u32 = 7;

/// Requests an hour.
const REQUESTS: f64 = 4000.0;

/// How many logs in which nothing changed are compared.
const SEEDS: u64 = 50;

/// A family of the site: host, path with `N` for a number, weight, usual status, share of 404, bytes, microseconds.
type Family = (&'static str, &'static str, f64, u16, f64, f64, f64);

const FAMILIES: [Family; 12] = [
    ("www.example.org:443", "/", 10.0, 200, 0.0, 18_000.0, 900.0),
    ("www.example.org:443", "/news/N", 12.0, 200, 0.02, 9_000.0, 30_000.0),
    ("www.example.org:443", "/static/site.css", 16.0, 200, 0.0, 4_000.0, 300.0),
    ("www.example.org:443", "/images/N.jpg", 18.0, 200, 0.01, 60_000.0, 700.0),
    ("www.example.org:443", "/moved/N", 4.0, 301, 0.0, 300.0, 200.0),
    ("www.example.org:443", "/api/v1/items/N", 8.0, 200, 0.05, 1_500.0, 20_000.0),
    ("shop.example.org:443", "/cart.php?id=N", 12.0, 200, 0.0, 12_000.0, 80_000.0),
    ("shop.example.org:443", "/item/N", 10.0, 200, 0.03, 11_000.0, 50_000.0),
    ("shop.example.org:443", "/login.php", 3.0, 302, 0.0, 200.0, 15_000.0),
    ("shop.example.org:443", "/robots.txt", 1.0, 200, 0.0, 120.0, 200.0),
    ("old.example.org:80", "/", 3.0, 200, 0.0, 2_000.0, 300.0),
    ("old.example.org:80", "/archive/N.html", 3.0, 200, 0.1, 5_000.0, 400.0),
];

/// What changes at the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// 2 % of a family get 500.
    Errors,
    /// A family takes 30 % longer.
    Slower,
    /// Everything takes 60 % longer.
    AllSlower,
    /// A redirect becomes 200.
    NoRedirect,
    /// The bodies of a family have half of their length.
    Halved,
    /// Paths that nobody asked for get 404.
    New404,
    /// The same, for a single client who looks for holes.
    Scanner,
    /// A host has no requests.
    HostGone,
}

/// Chance that is the same in every run (SplitMix64).
struct Chance(u64);

impl Chance {
    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Normally distributed.
    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.next()).ln()).sqrt() * (std::f64::consts::TAU * self.next()).cos()
    }

    /// A factor around 1 whose logarithm varies by this much.
    fn factor(&mut self, deviation: f64) -> f64 {
        (self.normal() * deviation).exp()
    }
}

/// The lines of the hour of a day: `before` is how many days before the switch it is. Days differ in traffic, in the share of
/// errors, and a little in how long requests take.
fn hour(before: u32, planted: Planted, chance: &mut Chance, out: &mut String) {
    let day = 14 - before;
    let (traffic, errors, pace) = (chance.factor(0.2), chance.factor(0.25), chance.factor(0.03));
    let planted = if before == 0 { planted } else { Planted::Nothing };
    let number = (REQUESTS * traffic) as u32;
    let all: f64 = FAMILIES.iter().map(|family| family.2).sum();
    for request in 0..number {
        let mut at = chance.next() * all;
        let found = FAMILIES.iter().find(|family| {
            at -= family.2;
            at < 0.0
        });
        let (host, path, _, usual, missing, bytes, time) = *found.unwrap_or(&FAMILIES[0]);
        let (mut path, mut status) = (path.replace('N', &((chance.next() * 1e5) as u32).to_string()), usual);
        let mut client = (chance.next() * 250.0) as u32;
        let mut bytes = bytes * chance.factor(0.8);
        let mut time = time * pace * chance.factor(0.6);
        if chance.next() < missing * errors {
            (status, bytes) = (404, 300.0);
        }
        match planted {
            Planted::Errors if path.starts_with("/cart.php") && chance.next() < 0.02 => status = 500,
            Planted::Slower if path.starts_with("/item/") => time *= 1.3,
            Planted::AllSlower => time *= 1.6,
            Planted::NoRedirect if path.starts_with("/moved/") => status = 200,
            Planted::Halved if path.starts_with("/news/") => bytes /= 2.0,
            Planted::New404 if chance.next() < 0.02 => {
                path = format!("/gone/{}", (chance.next() * 1e5) as u32);
                (status, bytes) = (404, 300.0);
            }
            Planted::Scanner if chance.next() < 0.05 => {
                path = format!("/{}/setup.php", char::from(b'a' + (chance.next() * 26.0) as u8));
                (status, bytes, client) = (404, 300.0, 251);
            }
            Planted::HostGone if host.starts_with("old.") => continue,
            _ => {}
        }
        let second = u64::from(request) * 3600 / u64::from(number) + 22 * 3600 + 15 * 60;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let (bytes, time) = (bytes as u64 + 1, time as u64 + 1);
        let _ = writeln!(
            out,
            "{host} 192.0.2.{client} - - [{day:02}/May/2024:{hour:02}:{minute:02}:{second:02} +0000] \
             \"GET {path} HTTP/1.1\" {status} {bytes} \"-\" \"x\" {time}"
        );
    }
}

/// A server's files, which are removed with this value.
struct Site(PathBuf);

impl Site {
    /// One whose log has this format. `None`: there is no Apache that prints the configuration.
    fn new(name: &str, format: &str) -> Option<Self> {
        if !Path::new(APACHE).exists() {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci == "false"), "apache2 is missing");
            return None;
        }
        let site = Self::empty(name);
        let root = site.0.display();
        let hosts: String = ["www", "shop", "old"]
            .iter()
            .map(|host| {
                let port = if *host == "old" { 80 } else { 443 };
                format!("<VirtualHost *:{port}>\n  ServerName {host}.example.org\n</VirtualHost>\n")
            })
            .collect();
        site.write(
            "httpd.conf",
            &format!(
                "ServerRoot {root}\nListen 80\nListen 443\nServerName main.example.org\nPidFile {root}/pid\nErrorLog {root}/error\n\
                 LoadModule mpm_event_module {MODULES}/mod_mpm_event.so\n\
                 LoadModule authz_core_module {MODULES}/mod_authz_core.so\n\
                 CustomLog {root}/access.log \"{}\"\n{hosts}",
                format.replace('"', "\\\"")
            ),
        );
        Some(site)
    }

    fn empty(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("tsubame-watch-{name}-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a directory");
        Self(root)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    /// Writes the log of all days, today's in a file of its own.
    fn log(&self, planted: Planted, seed: u64) {
        let (mut chance, mut rotated, mut current) = (Chance(seed), String::new(), String::new());
        (1..=DAYS).rev().for_each(|before| hour(before, Planted::Nothing, &mut chance, &mut rotated));
        hour(0, planted, &mut chance, &mut current);
        self.write("access.log.1", &rotated);
        self.write("access.log", &current);
    }

    /// Watches the log of the configuration.
    fn watch(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(LAB);
        command.args(["switch", "--watch", "-f"]).arg(self.path("httpd.conf")).args(arguments);
        command.env("TZ", "UTC").env("NO_COLOR", "1").output().expect("the laboratory")
    }

    /// The report, and the exit status.
    fn report(&self, arguments: &[&str]) -> (Value, Option<i32>) {
        let output = self.watch(&[&["--since", SINCE, "--json"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
        (report, output.status.code())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The format of the logs.
const FORMAT: &str = r#"%v:%p %h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %D"#;

/// Each finding: its importance, its family, and what changed first.
fn found(report: &Value) -> Vec<[String; 3]> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = report["findings"].as_array().expect("findings");
    findings
        .iter()
        .map(|one| [text(&one["importance"]), text(&one["family"]), text(&one["changes"][0]["what"])])
        .collect()
}

#[test]
fn nothing_is_found_where_nothing_changed() {
    let Some(site) = Site::new("calm", FORMAT) else { return };
    let mut alarms = Vec::new();
    for seed in 0..SEEDS {
        site.log(Planted::Nothing, seed * 1_000_003);
        let (report, status) = site.report(&[]);
        assert!(report["comparisons"].as_u64().is_some_and(|number| number > 40), "{report:#}");
        assert_eq!((report["days"].as_u64(), &report["too_few"]), (Some(7), &Value::Null), "{report:#}");
        if report["findings"].as_array().is_none_or(|found| !found.is_empty()) || status != Some(0) {
            alarms.push((seed, found(&report)));
        }
    }
    println!("{} false alarms of {SEEDS}", alarms.len());
    assert!(alarms.len() <= 1, "{alarms:#?}");
}

#[test]
fn planted_changes_are_found() {
    let Some(site) = Site::new("planted", FORMAT) else { return };
    let cases = [
        (Planted::Errors, ["new-server-errors", "shop.example.org/cart.php", "status 500"], 3),
        (Planted::Slower, ["slower", "shop.example.org/item/#", "duration (geometric mean)"], 3),
        (Planted::AllSlower, ["slower", "all requests", "duration, as a factor of the usual one"], 3),
        (Planted::NoRedirect, ["other-status", "www.example.org/moved/#", "status 200"], 0),
        (Planted::Halved, ["size", "www.example.org/news/#", "bytes with status 200 (geometric mean)"], 0),
        (Planted::HostGone, ["host-gone", "old.example.org", "requests"], 0),
    ];
    for (planted, expected, status) in cases {
        for seed in [1, 2, 3] {
            site.log(planted, seed);
            let (report, ended) = site.report(&[]);
            assert_eq!(found(&report), [expected.map(str::to_owned)], "{planted:?}: {report:#}");
            assert_eq!(ended, Some(status), "{planted:?}");
        }
    }
    site.log(Planted::Errors, 1);
    let (report, _) = site.report(&[]);
    let explain = report["findings"][0]["explain"].as_str().expect("a command");
    assert!(explain.starts_with("tsubame explain 'https://shop.example.org/cart.php?id="), "{explain}");
    let example = report["findings"][0]["example"].as_str().expect("a line");
    assert!(example.contains("\" 500 "), "{example}");
}

#[test]
fn a_new_family_of_errors_is_found() {
    let Some(site) = Site::new("new", FORMAT) else { return };
    for seed in [1, 2, 3] {
        site.log(Planted::New404, seed);
        let (report, ended) = site.report(&[]);
        // The path is new at each of the hosts.
        let found = found(&report);
        assert!(!found.is_empty(), "{report:#}");
        let is_meant = |[importance, family, _]: &[String; 3]| {
            importance == "client-errors" && (family.ends_with("/gone/#") || family == "others")
        };
        assert!(found.iter().all(is_meant), "{found:?}");
        assert_eq!(ended, Some(3));
    }
}

#[test]
fn what_a_single_client_looks_for_is_no_fault() {
    let Some(site) = Site::new("scanner", FORMAT) else { return };
    site.log(Planted::Scanner, 4);
    let (report, ended) = site.report(&[]);
    let found = found(&report);
    assert!(!found.is_empty() && found.iter().all(|[importance, ..]| importance == "one-client"), "{report:#}");
    assert_eq!(ended, Some(0));
}

#[test]
fn logs_that_are_named_need_no_configuration() {
    let site = Site::empty("named");
    site.log(Planted::Errors, 5);
    let log = site.path("access.log");
    let text = fs::read_to_string(&log).expect("the log");
    // Without the duration, this is a format that everybody knows.
    let known: String = text.lines().filter_map(|line| Some(format!("{}\n", line.rsplit_once(' ')?.0))).collect();
    let rotated = fs::read_to_string(site.path("access.log.1")).expect("the log");
    let older: String = rotated.lines().filter_map(|line| Some(format!("{}\n", line.rsplit_once(' ')?.0))).collect();
    site.write("access.log", &known);
    site.write("access.log.1", &older);
    let page = site.path("page.html");
    let arguments = [
        "--apache",
        "/nonexistent",
        "--since",
        SINCE,
        "--log",
        &log.to_string_lossy(),
        "--html",
        &page.to_string_lossy(),
    ];
    let output = site.watch(&arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "one thing got worse beyond chance",
        "1. new server errors: shop.example.org/cart.php\n",
        "status 500: 0 % before",
        "would happen by chance less than once in ",
        "tsubame explain 'https://shop.example.org/cart.php?id=",
        "durations are not compared",
        "\nBack to Apache: sed -i ",
    ] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    let page = fs::read_to_string(page).expect("the page");
    assert!(
        page.contains("<h2>new server errors: shop.example.org/cart.php</h2>") && page.ends_with("</html>\n"),
        "{page}"
    );
}

#[test]
fn too_little_is_told() {
    let Some(site) = Site::new("little", FORMAT) else { return };
    site.log(Planted::Errors, 6);
    let text = fs::read_to_string(site.path("access.log")).expect("the log");
    let twelve: String = text.lines().take(12).map(|line| format!("{line}\n")).collect();
    site.write("access.log", &twelve);
    let (report, ended) = site.report(&[]);
    assert_eq!(report["too_few"], "12 requests since the switch: too few to tell; again with --hours 9.");
    assert_eq!((report["findings"].as_array().map(Vec::len), ended), (Some(0), Some(0)), "{report:#}");

    site.write("access.log", &text);
    fs::remove_file(site.path("access.log.1")).expect("removed");
    let (report, ended) = site.report(&[]);
    let why = report["too_few"].as_str().expect("a reason");
    assert!(why.contains("no day before"), "{why}");
    assert_eq!(ended, Some(0));
}

#[test]
fn a_log_without_times_or_statuses_is_an_error() {
    let cases = [
        ("times", r#"%h "%r" %>s %b"#, "192.0.2.1 \"GET / HTTP/1.1\" 200 5\n", "have no times (%t)"),
        (
            "statuses",
            r#"%h %t "%r" %b"#,
            "192.0.2.1 [14/May/2024:22:20:00 +0000] \"GET / HTTP/1.1\" 5\n",
            "have no statuses (%>s)",
        ),
        ("format", r#"%h %l %u %t "%r" %>s %b"#, "nonsense\n", "1 of 1 lines are not of its format"),
    ];
    for (name, format, text, expected) in cases {
        let Some(site) = Site::new(name, format) else { return };
        site.write("access.log", text);
        let output = site.watch(&["--since", SINCE]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(expected), "{name}: {said}");
    }
}

#[test]
fn the_running_server_tells_when_it_took_over() {
    let Some(site) = Site::new("start", r#"%h %l %u %t "%r" %>s %b"#) else { return };
    site.write("access.log", "192.0.2.1 - - [14/May/2024:22:20:00 +0000] \"GET / HTTP/1.1\" 200 5\n");
    let fails = |expected: &str| {
        let output = site.watch(&[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(expected) && said.contains("--since"), "{said}");
    };
    fails("pid: No such file");
    // This process is not Tsubame: its name is that of the tests.
    site.write("pid", &format!("{}\n", std::process::id()));
    fails("is it");
    // Any program is, if its name says so. This one waits for the end of its input.
    site.write("tsubame", "#!/bin/sh\nread line\n");
    fs::set_permissions(site.path("tsubame"), fs::Permissions::from_mode(0o755)).expect("a program");
    let mut server = Command::new(site.path("tsubame")).stdin(Stdio::piped()).spawn().expect("a process");
    site.write("pid", &format!("{}\n", server.id()));
    let output = site.watch(&["--json"]);
    let ended = server.kill().and_then(|()| server.wait());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(ended.is_ok() && output.status.success() && said.contains("no day before"), "{said}");
}

#[test]
fn options_that_mean_nothing_are_refused() {
    for argument in ["--scripts", "--unsafe", "--rounds=1", "--limit=1", "--from=logs", "--fail-on=any"] {
        let output = Command::new(LAB).args(["switch", "--watch", argument]).output().expect("the laboratory");
        assert_eq!(output.status.code(), Some(2), "{argument}");
    }
    let output = Command::new(LAB).args(["switch", "--since", "2h"]).output().expect("the laboratory");
    assert_eq!(output.status.code(), Some(2));
}

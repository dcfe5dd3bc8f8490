//! Debian's apache2 as the oracle: the same configuration, the same requests, the same answers.

mod recorded;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use sys::process::Pid;
use sys::signal::Signal;

use self::recorded::Record;
use crate::harness::mpm::Mpm;
use crate::harness::needs;
use crate::harness::same_lines::{self, FORMATS, Lines};
use crate::harness::server::Server;
use crate::harness::site::{MANAGED, Site};
use crate::harness::wait::{DEADLINE, until, within};
use crate::harness::wire::{Client, End, Response};

/// The program, where Debian puts it.
pub const APACHE: &str = "/usr/sbin/apache2";
pub const MODULES: &str = "/usr/lib/apache2/modules";

/// Whether there is an apache2 to compare with.
pub fn is_there(test: &str) -> bool {
    needs::APACHE.is_there(test)
}

/// `LoadModule` lines for Apache's modules that Tsubame also has, and for those that Apache requires. mod_ssl and
/// mod_perl are not among them: they add versions to Apache's own name.
pub fn load_lines() -> String {
    let paths = modules().into_iter().map(|(id, source)| (id, format!("{MODULES}/{}.so", object(source))));
    paths.filter(|(_, path)| Path::new(path).exists()).map(|(id, path)| format!("LoadModule {id} {path}\n")).collect()
}

/// The identifiers and source files of these modules, in the order in which they are loaded.
fn modules() -> Vec<(&'static str, &'static str)> {
    let ours = crate::config::tables::infos();
    let shared = ours
        .iter()
        .filter(|info| !info.id.starts_with("mpm_") && info.id != "ssl_module" && !MANAGED.contains(&info.id))
        .map(|info| (info.id, info.source));
    let needed = [
        ("authz_core_module", "mod_authz_core.c"),
        ("mpm_event_module", "mod_mpm_event.c"),
        // mod_auth_form wants it.
        ("request_module", "mod_request.c"),
    ];
    let mut all: Vec<(&str, &str)> = shared.chain(needed).collect();
    // Modules that others need come first.
    const FIRST: [&str; 4] = ["cache_module", "dav_module", "proxy_module", "session_module"];
    all.sort_unstable_by_key(|(id, source)| (!FIRST.contains(id), *id, *source));
    all.dedup();
    all
}

/// The same without one of them.
pub fn without(id: &str) -> String {
    let lines = load_lines();
    lines.lines().filter(|line| !line.contains(&format!(" {id} "))).fold(String::new(), |all, line| all + line + "\n")
}

/// The name of a module's file: its source's name, with one exception.
fn object(source: &str) -> &str {
    if source == "util_ldap.c" { "mod_ldap" } else { source.trim_end_matches(".c") }
}

/// Modules with which Apache checks access again for each look-up and each internal redirect; and their directives
/// (`docs/differences.md`, "Access is checked once").
const ASKS_AGAIN: [(&str, &str); 2] = [("allowmethods_module", "AllowMethods"), ("log_debug_module", "LogMessage")];

/// A running apache2.
pub struct Apache<'a> {
    site: &'a Site,
    process: Child,
}

impl<'a> Apache<'a> {
    /// Starts one with these lines of configuration.
    pub fn start(site: &'a Site, text: &str) -> Apache<'a> {
        Apache::start_with(site, &load_lines(), text)
    }

    /// The same with other `LoadModule` lines.
    pub fn start_with(site: &'a Site, modules: &str, text: &str) -> Apache<'a> {
        site.configure_with(modules, text);
        Apache::run(site, Command::new(APACHE))
    }

    /// Starts it through another program, which executes it; `by` is that program and its arguments.
    pub fn start_by(site: &'a Site, by: Vec<String>, text: &str) -> Apache<'a> {
        site.configure_with(&load_lines(), text);
        let mut command = Command::new(&by[0]);
        command.args(&by[1..]).arg(APACHE);
        Apache::run(site, command)
    }

    fn run(site: &'a Site, mut command: Command) -> Apache<'a> {
        let output = || Stdio::from(std::fs::File::create(site.root.join("logs/output")).expect("output"));
        let mut process = command
            .args(["-d", site.path(), "-f", "conf/httpd.conf", "-DFOREGROUND"])
            .stdin(Stdio::null())
            .stdout(output())
            .stderr(output())
            .process_group(0)
            .spawn()
            .expect("apache2");
        until("apache2", || {
            let ended = process.try_wait().expect("wait");
            let said = || format!("{}{}", site.read("logs/output"), site.read("logs/error_log"));
            assert!(ended.is_none(), "apache2 does not start: {}", said());
            std::net::TcpStream::connect(site.address()).ok()
        });
        Apache { site, process }
    }

    pub fn pid(&self) -> Pid {
        i32::try_from(self.process.id()).ok().and_then(Pid::new).expect("pid")
    }
}

impl Drop for Apache<'_> {
    fn drop(&mut self) {
        let pid = self.pid();
        let _ = pid.kill(Signal::TERM);
        if within(DEADLINE, || self.process.try_wait().ok().flatten()).is_none() {
            let _ = pid.kill_group(Signal::KILL);
        }
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("apache2 said:\n{}", self.site.read("logs/error_log"));
        }
    }
}

/// A request, or several in a row, as they go over the wire.
#[derive(Clone)]
pub struct Case {
    pub name: String,
    pub bytes: Vec<u8>,
}

impl Case {
    /// `METHOD target`, then fields, with `|` between.
    pub fn of(request: &str) -> Case {
        let (line, fields) = request.split_once('|').unwrap_or((request, ""));
        let fields: String = fields.split('|').filter(|one| !one.is_empty()).map(|one| format!("{one}\r\n")).collect();
        let bytes = format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").into_bytes();
        Case { name: request.to_string(), bytes }
    }
}

/// A difference that is meant: `docs/differences.md` says why.
#[derive(Clone)]
pub struct Allowed {
    /// The case; `*` stands for any text in it.
    pub case: &'static str,
    /// `status`, `body`, `count`, `error log`, `access log` (how many lines), a format of it such as `%X`, the name of a field, or `*`.
    pub what: &'static str,
    /// The entry of `docs/differences.md`.
    pub entry: &'static str,
}

impl Allowed {
    fn is_about(&self, name: &str) -> bool {
        let Some((first, rest)) = self.case.split_once('*') else { return self.case == name };
        let Some(mut name) = name.strip_prefix(first) else { return false };
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        for part in middle.split('*') {
            let Some((_, behind)) = name.split_once(part) else { return false };
            name = behind;
        }
        name.ends_with(last)
    }
}

/// Compares the answers of both servers to every request, and what they log about it: Apache's with ours under each module,
/// since waiting for a client is what the modules do differently. `build` puts the same files into all places.
pub fn compare(test: &str, build: impl Fn(&Site), configuration: &str, cases: &[Case], allowed: &[Allowed]) {
    compare_some(test, build, configuration, cases, allowed, 1);
}

/// Compares many cases: ours answers all of them under the first chosen MPM, and one in `share` under each of the
/// others. Returns Apache's answers to each case; none without an Apache and a record.
pub fn compare_some(
    test: &str,
    build: impl Fn(&Site),
    configuration: &str,
    cases: &[Case],
    allowed: &[Allowed],
    share: usize,
) -> Vec<Vec<Response>> {
    assert!(!cases.is_empty(), "nothing to compare");
    check_entries(allowed.iter().map(|one| one.entry));
    let configuration = format!("{configuration}\n{}", same_lines::logged());
    let place = || {
        let site = Site::new();
        build(&site);
        freeze(&site.root);
        site
    };
    let site = place();
    let record = Record::of(test, &site, &configuration, cases);
    let recorded = record.find();
    if recorded.is_none() && !is_there(test) {
        return Vec::new();
    }
    // Ours answers once, whoever it is compared with: a difference that comes and goes is one.
    let ours = Mpm::chosen(test).into_iter().enumerate().map(|(turn, mpm)| {
        let site = place();
        let server = Server::start(mpm, &site, &configuration);
        server.allow_everything("only lines about requests are compared; other tests check the rest");
        let asked: Vec<usize> = (0..cases.len()).filter(|number| turn == 0 || number % share == turn % share).collect();
        let answers = Answer::to_all(&site, asked.iter().map(|number| &cases[*number]));
        (mpm, asked.into_iter().zip(answers).collect())
    });
    let ours: Vec<(Mpm, Vec<(usize, Answer)>)> = ours.collect();
    let differences = |theirs: &[Answer]| {
        let mut differences = Vec::new();
        for (mpm, number, ours) in
            ours.iter().flat_map(|(mpm, all)| all.iter().map(move |(number, one)| (mpm, *number, one)))
        {
            let name = &cases[number].name;
            let is_allowed = |what: &str| {
                let is_meant = |one: &Allowed| one.what == "*" || one.what.eq_ignore_ascii_case(what);
                allowed.iter().any(|one| one.is_about(name) && is_meant(one))
            };
            for (what, text) in ours.against(&theirs[number]).into_iter().filter(|(what, _)| !is_allowed(what)) {
                differences.push(format!("{mpm}: {name}: {what}: {text}"));
            }
        }
        differences
    };
    let (found, theirs) = match recorded.map(|theirs| (differences(&theirs), theirs)) {
        Some((found, theirs)) if found.is_empty() || !is_there(test) => (found, theirs),
        // The record may be of a machine whose programs answer otherwise: what differs from it is decided by Apache itself.
        _ => {
            let is_left_out =
                |line: &str| ASKS_AGAIN.iter().any(|(id, own)| line.contains(id) && !configuration.contains(own));
            let modules: String = load_lines().split_inclusive('\n').filter(|line| !is_left_out(line)).collect();
            let apache = Apache::start_with(&site, &modules, &configuration);
            let theirs = Answer::to_all(&site, cases);
            drop(apache);
            record.keep(&theirs);
            (differences(&theirs), theirs)
        }
    };
    assert!(found.is_empty(), "{} differences from Apache:\n{}", found.len(), found.join("\n"));
    theirs.into_iter().map(|answer| answer.responses).collect()
}

/// Compares the answers of each row: lines of configuration, and requests (`METHOD target`, then fields, with `|` between).
pub fn rows(test: &str, build: impl Fn(&Site), rows: &[(&str, &[&str])], allowed: &[Allowed]) {
    for (configuration, requests) in rows {
        let cases: Vec<Case> = requests.iter().map(|request| Case::of(request)).collect();
        compare(&format!("{test}: {configuration}"), &build, configuration, &cases, allowed);
    }
}

/// Makes one check of both servers, ours first, under the chosen modules: what is expected of ours is what Apache does.
/// Returns how often ours was checked.
pub fn both(test: &str, build: impl Fn(&Site), configuration: &str, check: impl Fn(&Site)) -> usize {
    let mpms = Mpm::chosen(test);
    for &mpm in &mpms {
        println!("{test}: ours under {mpm}");
        let site = Site::new();
        build(&site);
        let ours = Server::start(mpm, &site, configuration);
        ours.allow_everything("other tests check the log");
        check(&site);
    }
    if is_there(test) {
        println!("{test}: ours is as expected, now Apache");
        let site = Site::new();
        build(&site);
        let _theirs = Apache::start(&site, configuration);
        check(&site);
    }
    mpms.len()
}

/// Every difference that is allowed is an entry of `docs/differences.md`.
pub fn check_entries(entries: impl Iterator<Item = &'static str>) {
    let text = include_str!("../../../../../docs/differences.md");
    for entry in entries {
        assert!(text.contains(entry), "docs/differences.md has no entry {entry:?}");
    }
}

/// Gives every file the same times, so that validators and listings are the same in two places.
fn freeze(path: &Path) {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return };
    if meta.is_symlink() {
        return;
    }
    if meta.is_dir() {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            freeze(&entry.path());
        }
    }
    let mode = meta.permissions().mode();
    if mode & 0o400 != 0 {
        let time = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        std::fs::File::open(path).and_then(|file| file.set_modified(time)).expect("time");
    }
}

/// A server's answers: one response per request that it recognized.
#[derive(Debug)]
struct Answer {
    responses: Vec<Response>,
    /// Bytes that are not a response.
    rest: String,
    end: End,
    /// The lengths of the bodies as they came.
    lengths: Vec<String>,
    /// The log lines.
    lines: Lines,
}

impl Answer {
    /// The answers to all cases, each over a connection of its own, which is known by its port.
    fn to_all<'a>(site: &Site, cases: impl IntoIterator<Item = &'a Case>) -> Vec<Answer> {
        let (mut ports, mut clients, mut answers) = (BTreeSet::new(), Vec::new(), Vec::new());
        for case in cases {
            // The system gives a port a second time.
            let connect = || Client::connect(site.address());
            let fresh = std::iter::repeat_with(connect).find(|client| ports.insert(client.address().port()));
            let client = fresh.expect("a port");
            let address = client.address();
            let answer = Answer::of(site, client, &case.bytes);
            clients.push((address, answer.responses.len()));
            answers.push(answer);
        }
        for (answer, mut lines) in answers.iter_mut().zip(same_lines::about(site, &clients)) {
            // A body that names its place has another length in another one.
            for (fields, length) in lines.access.iter_mut().zip(&answer.lengths) {
                fields
                    .iter_mut()
                    .zip(FORMATS)
                    .filter(|(value, format)| *format == "%b" && *value == length)
                    .for_each(|(value, _)| *value = "the body's length".into());
            }
            answer.lines = lines;
        }
        answers
    }

    /// Sends the bytes, ends our direction, and takes what comes.
    fn of(site: &Site, mut client: Client, bytes: &[u8]) -> Answer {
        client.send(bytes);
        client.half_close();
        let method = if bytes.starts_with(b"HEAD ") { "HEAD" } else { "GET" };
        let (mut responses, mut lengths) = (Vec::new(), Vec::new());
        while let Ok(mut response) = client.try_response_to(method) {
            lengths.push(response.body.len().to_string());
            neutral(&mut response, site);
            responses.push(response);
        }
        let (rest, end) = client.rest();
        let rest = String::from_utf8_lossy(&rest).into_owned();
        Answer { responses, rest, end, lengths, lines: Lines::default() }
    }

    /// The differences: what differs, and how.
    fn against(&self, theirs: &Answer) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut differ = |what: &str, ours: &dyn std::fmt::Debug, theirs: &dyn std::fmt::Debug| {
            found.push((what.to_string(), format!("\n    ours   {ours:?}\n    Apache {theirs:?}")));
        };
        let is_same = |(our, their): (&Response, &Response)| our.status == their.status;
        if self.responses.len() == theirs.responses.len() && self.responses.iter().zip(&theirs.responses).all(is_same) {
            let (our, their) = (&self.lines.access, &theirs.lines.access);
            if our.len() != their.len() {
                differ("access log", our, their);
            }
            for (column, format) in FORMATS.iter().enumerate() {
                let column = |lines: &[Vec<String>]| -> Vec<Option<String>> {
                    lines.iter().map(|line| line.get(column).cloned()).collect()
                };
                let comparable = self.responses.iter().all(|one| same_lines::is_comparable(format, one.status));
                if comparable && our.len() == their.len() && column(our) != column(their) {
                    differ(format, &column(our), &column(their));
                }
            }
            if self.lines.error != theirs.lines.error {
                differ("error log", &self.lines.error, &theirs.lines.error);
            }
        }
        let statuses = |answer: &Answer| answer.responses.iter().map(|one| one.status).collect::<Vec<_>>();
        if self.responses.len() != theirs.responses.len() {
            differ("count", &statuses(self), &statuses(theirs));
        }
        if self.rest != theirs.rest {
            differ("rest", &self.rest, &theirs.rest);
        }
        if self.end != theirs.end {
            differ("end", &self.end, &theirs.end);
        }
        for (our, their) in self.responses.iter().zip(&theirs.responses) {
            if (our.status, &our.reason, our.minor_version) != (their.status, &their.reason, their.minor_version) {
                differ("status", &(our.status, &our.reason), &(their.status, &their.reason));
                continue;
            }
            for name in names(our, their) {
                let (ours, theirs) = (our.all(&name), their.all(&name));
                if ours != theirs {
                    differ(&name, &ours, &theirs);
                }
            }
            if our.body != their.body {
                differ("body", &our.text(), &their.text());
            }
            if our.interim != their.interim {
                differ("interim", &our.interim, &their.interim);
            }
            if our.trailers != their.trailers {
                differ("trailers", &our.trailers, &their.trailers);
            }
        }
        found
    }
}

/// The names of the fields of two responses, without those that always differ.
fn names(one: &Response, other: &Response) -> Vec<String> {
    let all = one.fields.iter().chain(&other.fields).map(|(name, _)| name.to_ascii_lowercase());
    let mut names: Vec<String> = all.filter(|name| !["date", "server"].contains(&name.as_str())).collect();
    names.sort();
    names.dedup();
    names
}

/// The same text in every place: without the address and the directory, however often they were escaped.
pub fn placeless(text: &str, site: &Site) -> String {
    let text = text.replace(site.path(), "ROOT").replace(&site.ip.to_string(), "ADDR");
    if !text.contains("%2") {
        return text;
    }
    // mod_rewrite leaves nothing but letters and digits in a group.
    let escape =
        |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02x}") };
    let once: String = site.path().bytes().map(escape).collect();
    text.replace(&once.replace('%', "%25"), "ROOT").replace(&once, "ROOT")
}

/// Takes out what belongs to the place: its address, its directory, the name of the server, the boundary of a multipart
/// body.
fn neutral(response: &mut Response, site: &Site) {
    let boundary = response.fields.iter().find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-type").then(|| value.split_once("boundary=")).flatten()
    });
    let boundary = boundary.map(|(_, boundary)| boundary.to_string());
    let clean = |text: String| {
        let text = placeless(&without_ids(&text), site);
        let text = text.replace("Apache/2.4.71 (Debian)", "SERVER").replace(OWN_NAME, "SERVER");
        boundary.iter().fold(text, |text, boundary| text.replace(boundary.as_str(), "BOUNDARY"))
    };
    for (name, value) in &mut response.fields {
        *value = clean(std::mem::take(value));
        if name.eq_ignore_ascii_case("allow") {
            // Apache's order depends on a hash that changes with every start.
            let mut methods: Vec<&str> = value.split(',').collect();
            methods.sort_unstable();
            *value = methods.join(",");
        }
    }
    let Ok(text) = String::from_utf8(response.body.clone()) else { return };
    let before = std::mem::replace(&mut response.body, clean(text).into_bytes()).len().to_string();
    let length = response.fields.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    if let Some((_, value)) = length.filter(|(_, value)| *value == before) {
        *value = response.body.len().to_string();
    }
}

/// Every request has another `UNIQUE_ID`, of the same length.
fn without_ids(text: &str) -> String {
    const NAME: &str = "UNIQUE_ID=";
    if crate::logs::unique_ids::is_id(text) {
        return "ID".into();
    }
    let mut parts = text.split(NAME);
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |out, part| match part.split_at_checked(crate::logs::unique_ids::LENGTH) {
        Some((id, rest)) if crate::logs::unique_ids::is_id(id) => out + NAME + "ID" + rest,
        _ => out + NAME + part,
    })
}

/// With `ServerTokens` as it is by default.
const OWN_NAME: &str = concat!("Tsubame/", env!("CARGO_PKG_VERSION"), " (Unix)");

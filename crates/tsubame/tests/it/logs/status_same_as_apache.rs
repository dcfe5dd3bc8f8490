//! The status page, compared with Apache's: the same fields, the same tables, the same counts, under the same three
//! modules.

use crate::harness::mpm::Mpm;
use crate::harness::oracle::{self, Apache};
use crate::harness::server::Server;
use crate::harness::site::{self, Site};
use crate::harness::wait::until;
use crate::harness::wire::{Client, get};

const CONFIGURATION: &str = "StartServers 1\n<IfModule mpm_prefork_module>\nMinSpareServers 1\nMaxSpareServers 9\n\
    StartServers 5\nMaxRequestWorkers 5\n</IfModule>\n<IfModule !mpm_prefork_module>\nThreadsPerChild 5\nMinSpareThreads 1\n\
    MaxSpareThreads 9\nMaxRequestWorkers 5\n</IfModule>\nKeepAliveTimeout 300\nTimeout 300\n\
    ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n\
    <Location /status>\nSetHandler server-status\n</Location>\n";

fn place() -> Site {
    let site = Site::with([("a.txt", "0123456789")]);
    site.page("large.txt", vec![b'x'; 100_000]);
    site.script(
        "held",
        "#!/bin/sh\nwhile [ -e ../hold ]; do sleep 0.05; done\nprintf 'Content-Type: text/plain\\n\\nok'\n",
    );
    site.file("hold", "");
    site
}

/// A status page, with everything that depends on the moment replaced.
#[derive(Debug, Default, PartialEq)]
struct Told {
    /// Name and form of each line of `?auto`.
    fields: Vec<String>,
    /// Their values, where they must be the same.
    values: Vec<String>,
    /// Query, status, head fields, and the form of the page.
    pages: Vec<(String, u16, Vec<String>, Vec<String>)>,
}

/// Numbers become `#`, sizes lose their unit, days and months their names.
fn form(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '0'..='9' | '.' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            '.' if out.ends_with([' ', '>', 'u', 's']) => out.push('#'),
            c => out.push(c),
        }
    }
    out.replace(" kB", " B").replace(" MB", " B").replace(" GB", " B")
}

/// The form of a line, or nothing where it is there at some moments only.
fn line_form(line: &str) -> Option<String> {
    const OWN: [&str; 10] = [
        "ServerVersion:",
        "Server Built:",
        "CurrentTime:",
        "RestartTime:",
        "ServerUptime:",
        "<dl><dt>Server Version:",
        "<dt>Server Built:",
        "<dt>Current Time:",
        "<dt>Restart Time:",
        "<dt>Server uptime:",
    ];
    if line.starts_with("CPULoad:") {
        return None;
    }
    if let Some(name) = OWN.into_iter().find(|name| line.starts_with(name)) {
        return Some(name.into());
    }
    // There is a load as soon as a hundredth of a second was used.
    let line = match (line.find(" - "), line.find("% CPU load")) {
        (Some(at), Some(_)) => format!("{}{}", &line[..at], &line[line.find("</dt>").unwrap_or(line.len())..]),
        _ => line.into(),
    };
    Some(form(&line))
}

/// Removes our additions: the script element, and the table of scripts.
fn without_ours(page: &str) -> String {
    let page = page.replacen("<script src=\"?live.js\"></script>\n", "", 1);
    match page.split_once("<hr />\n<h2>Scripts</h2>\n") {
        Some((before, rest)) => format!("{before}{}", rest.split_once("</table>\n").expect("the end of the table").1),
        None => page,
    }
}

/// The page in parts: everything above the workers as it is, then the forms of the busy ones.
fn page_form(text: &str) -> Vec<String> {
    let text = without_ours(text);
    let (board, workers) = match text.find("<tr><td><b>").or(text.find("<b>Server ")) {
        Some(at) => text.split_at(at),
        None => (&*text, ""),
    };
    let mut lines: Vec<String> = board.lines().filter_map(line_form).collect();
    for line in &mut lines {
        // Which of the workers are busy may differ; how many are must not.
        if let Some(letters) = letters(line) {
            *line = line.replace(&letters, &sorted(&letters));
        }
    }
    if let Some(first) = lines.iter().position(|line| line.starts_with("PID Key")) {
        // Apache tells of slots that no process ever had, with nothing for a letter.
        let end = lines.iter().skip(first).position(|line| line == "</pre>").expect("the end of the list") + first;
        let states: String = lines.drain(first + 2..end).collect();
        let states: String = states.split(" in state: ").skip(1).filter_map(|rest| rest.chars().next()).collect();
        lines.insert(first + 2, sorted(states.trim()).trim().to_string());
    }
    let end =
        workers.find(" </table>").or(workers.find("</table>")).or(workers.find("</body>")).unwrap_or(workers.len());
    let (workers, rest) = workers.split_at(end);
    let mut shapes: Vec<String> = workers
        .split("\n\n")
        .map(form)
        .filter(|worker| worker.contains("<b>W</b>") || worker.contains("<b>Write</b>"))
        .collect();
    shapes.sort();
    lines.extend(shapes);
    lines.extend(rest.lines().map(form));
    lines
}

/// The scoreboard of a line of the page.
fn letters(line: &str) -> Option<String> {
    line.split("<pre>").nth(1).and_then(|rest| rest.strip_suffix("</pre>")).map(str::to_string)
}

fn sorted(letters: &str) -> String {
    let mut letters: Vec<char> = letters.chars().collect();
    letters.sort_unstable();
    letters.into_iter().collect()
}

fn ask(site: &Site, query: &str) -> String {
    let text = format!("GET /status?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    Client::connect(site.address()).request(text).text()
}

fn value<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Asks one of them everything.
fn told(site: &Site, event: bool, extended: bool) -> Told {
    let mut kept = Client::connect(site.address());
    assert_eq!(kept.get("/a.txt").status, 200);
    for _ in 0..3 {
        let text = "GET /large.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        assert_eq!(Client::connect(site.address()).request(text).body.len(), 100_000);
    }
    let mut script = Client::connect(site.address());
    script.send(get("/cgi/held"));
    let long = format!("long={}&end", "x".repeat(100));
    // Under event a connection that waits for a request has no worker.
    let wanted = sorted(if event { "WW___" } else { "KWW__" });
    let page = until("one script, one that asks, and a second of age", || {
        let page = ask(site, "auto");
        let settled = value(&page, "Scoreboard").map(sorted).as_ref() == Some(&wanted);
        let old = value(&page, "ServerUptimeSeconds").is_some_and(|seconds| seconds != "0");
        (settled && old).then_some(page)
    });
    let mut told = Told::default();
    let upto = page.find("ScriptRuns").unwrap_or(page.len());
    for line in page[..upto].lines().filter(|line| !line.starts_with("Scoreboard")) {
        told.fields.extend(line_form(line).map(|form| match value(line, "ServerMPM") {
            Some(_) => line.to_string(),
            None => form,
        }));
    }
    for name in ["BusyWorkers", "IdleWorkers", "GracefulWorkers", "Processes", "Stopping"] {
        told.values.push(format!("{name}: {:?}", value(&page, name)));
    }
    // Three large files are 292 KiB.
    if extended {
        let kilobytes: u64 = value(&page, "Total kBytes").expect("traffic").parse().expect("a number");
        let accesses: u64 = value(&page, "Total Accesses").expect("accesses").parse().expect("a number");
        assert!(kilobytes >= 293 && accesses >= 4, "{page}");
    }
    for query in ["", "notable", "refresh=5", "refresh", "refresh=0", "notable&refresh=7", "auto&refresh=3", &long] {
        let text = format!("GET /status?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        // One that asked before may still be about to go.
        let answer = until("a page at a quiet moment", || {
            let answer = Client::connect(site.address()).request(&text);
            let settled = |board: String| sorted(&board) == wanted;
            (query.contains("auto") || answer.text().lines().find_map(letters).is_some_and(settled)).then_some(answer)
        });
        let fields = ["Content-Type", "Refresh"].map(|name| format!("{name}: {:?}", answer.all(name)));
        let shape = if query.contains("auto") { Vec::new() } else { page_form(&answer.text()) };
        told.pages.push((query.into(), answer.status, fields.into(), shape));
    }
    for method in ["POST", "PUT", "OPTIONS"] {
        let text =
            format!("{method} /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let answer = Client::connect(site.address()).request(text);
        told.pages.push((method.into(), answer.status, Vec::new(), Vec::new()));
    }
    std::fs::remove_file(site.root.join("hold")).expect("hold");
    assert_eq!(script.response().text(), "ok");
    told
}

fn compared(mpm: Mpm) {
    if !oracle::is_there("status_page") {
        return;
    }
    for (extra, extended) in [("", true), ("SeeRequestTail On", true), ("ExtendedStatus Off", false)] {
        let configuration = format!("{CONFIGURATION}{extra}");
        let ours = {
            let site = place();
            let server = Server::start(mpm, &site, &configuration);
            server.allow("server seems busy");
            told(&site, mpm == Mpm::Event, extended)
        };
        let site = place();
        let modules = oracle::load_lines().replace("mpm_event", &format!("mpm_{mpm}"));
        let _apache = Apache::start_with(&site, &modules, &configuration);
        let theirs = told(&site, mpm == Mpm::Event, extended);
        assert_eq!(ours.fields, theirs.fields, "{mpm}, {extra}");
        assert_eq!(ours.values, theirs.values, "{mpm}, {extra}");
        for (our, their) in ours.pages.iter().zip(&theirs.pages) {
            let difference = our.3.iter().zip(&their.3).find(|(our, their)| our != their);
            assert_eq!(difference, None, "{mpm}, {extra}, {}", our.0);
            assert_eq!(our, their, "{mpm}, {extra}");
        }
    }
}

#[test]
fn the_same_page_under_prefork() {
    compared(Mpm::Prefork);
}

#[test]
fn the_same_page_under_worker() {
    compared(Mpm::Worker);
}

#[test]
fn the_same_page_under_event() {
    compared(Mpm::Event);
}

/// The name and the port by which a host was asked, as Apache tells them.
#[test]
fn hosts_are_reported_with_the_port_of_the_connection() {
    if !oracle::is_there("hosts_are_reported_with_the_port_of_the_connection") {
        return;
    }
    let hosts = format!(
        "{CONFIGURATION}Listen ${{ADDR}}:8081\n<VirtualHost *:{0}>\nServerName one.example\n</VirtualHost>\n\
         <VirtualHost *:{0}>\nServerName two.example:99\n</VirtualHost>\n",
        site::PORT
    );
    let labels = |site: &Site| -> Vec<String> {
        let ask = |port: u16, host: &str| {
            let text = format!("GET /status?{host} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            let page = Client::connect((site.ip, port).into()).request(text).text();
            let row = page
                .split("\n\n")
                .find(|row| row.contains(&format!("GET /status?{host} ")))
                .expect("a row")
                .to_string();
            row.split("<td nowrap>").nth(1).and_then(|cell| cell.split('<').next()).expect("a host").to_string()
        };
        vec![ask(site::PORT, "one.example"), ask(site::PORT, "two.example"), ask(8081, "x.example")]
    };
    let ours = {
        let site = place();
        let _server = Server::start(Mpm::Event, &site, &hosts);
        labels(&site)
    };
    let site = place();
    let _apache = Apache::start(&site, &hosts);
    assert_eq!(ours, labels(&site));
    assert_eq!(ours, ["one.example:8080", "two.example:8080", "localhost:8081"]);
}

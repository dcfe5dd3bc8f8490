//! Programs that read Apache's status page read ours, unchanged: Debian's munin plugins as they are, and readers written as
//! others are: of `key: value` lines (exporters), and of the page's tables (`apachectl fullstatus`, apachetop).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::oracle::{self, Apache};
use crate::harness::server::Server;
use crate::harness::site::{PORT, Site};
use crate::harness::wait::until;
use crate::harness::wire::{Client, get};

const CONFIGURATION: &str = "<Location /server-status>\nSetHandler server-status\n</Location>\n\
    <IfModule mpm_prefork_module>\nStartServers 4\nMinSpareServers 2\n</IfModule>\n";

const PLUGINS: &str = "/usr/share/munin/plugins";

/// The output of a munin plugin.
fn plugin(site: &Site, name: &str, arguments: &[&str]) -> String {
    let output = Command::new(Path::new(PLUGINS).join(name))
        .args(arguments)
        .env("MUNIN_LIBDIR", "/usr/share/munin")
        .env("MUNIN_PLUGSTATE", site.root.join("run"))
        .env("url", format!("http://{}:%d/server-status?auto", site.ip))
        .env("ports", PORT.to_string())
        .output()
        .expect("munin plugin");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// The names and values that the plugins print of one server.
fn plugins(site: &Site) -> BTreeMap<String, String> {
    for _ in 0..20 {
        let text = "GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        assert_eq!(Client::connect(site.address()).request(text).status, 200);
    }
    let mut values = BTreeMap::new();
    for name in ["apache_accesses", "apache_processes", "apache_volume"] {
        assert_eq!(plugin(site, name, &["autoconf"]), "yes\n", "{name}");
        let text = plugin(site, name, &[]);
        values.extend(
            text.lines().filter_map(|line| line.split_once(' ')).map(|(name, value)| (name.into(), value.into())),
        );
    }
    values
}

#[test]
fn munin_reads_it() {
    if !needs::MUNIN.is_there("munin_reads_it") {
        return;
    }
    let build = || {
        let site = Site::new();
        site.page("large", vec![b'x'; 100_000]);
        site
    };
    let ours = {
        let site = build();
        let server = Server::start(Mpm::Prefork, &site, CONFIGURATION);
        server.allow("server seems busy");
        plugins(&site)
    };
    let number = |name: &str| -> f64 {
        let value = ours.get(name).unwrap_or_else(|| panic!("no {name}: {ours:?}"));
        value.parse().unwrap_or_else(|_| panic!("{name} is {value}"))
    };
    assert!(number("accesses8080.value") >= 20.0 && number("volume8080.value") >= 2_000_000.0, "{ours:?}");
    assert!(number("busy8080.value") >= 1.0 && number("idle8080.value") >= 1.0, "{ours:?}");
    if oracle::is_there("munin_reads_it") {
        let site = build();
        let modules = oracle::load_lines().replace("mpm_event", "mpm_prefork");
        let _apache = Apache::start_with(&site, &modules, CONFIGURATION);
        let theirs = plugins(&site);
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    }
}

/// The values that an exporter reads from the lines: each a number under its name, the scoreboard as counts of its
/// letters.
fn exported(page: &str) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    for line in page.lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        if name == "Scoreboard" {
            for letter in value.chars() {
                assert!("_SRWKDCLGI.".contains(letter), "{letter} in {line}");
                *values.entry(format!("scoreboard {letter}")).or_insert(0.0) += 1.0;
            }
        } else if let Ok(number) = value.parse() {
            assert!(values.insert(name.to_string(), number).is_none(), "{name} comes twice");
        }
    }
    values
}

/// The cells of the row of the page's table of workers in which this stands, by the names of their columns.
fn row(page: &str, part: &str) -> BTreeMap<String, String> {
    let text = |cell: &str| {
        let mut out = String::new();
        let mut inside = false;
        for c in cell.chars() {
            match c {
                '<' => inside = true,
                '>' => inside = false,
                c if !inside => out.push(c),
                _ => {}
            }
        }
        out.trim().to_string()
    };
    let table =
        page.split("<table border=\"0\">").nth(1).and_then(|rest| rest.split("</table>").next()).expect("the table");
    let mut rows = table.split("<tr>").skip(1);
    let names: Vec<String> = rows.next().expect("names").split("<th>").skip(1).map(text).collect();
    let found = rows.find(|row| row.contains(part)).unwrap_or_else(|| panic!("no {part} in {table}"));
    let cells: Vec<String> = found.split("<td").skip(1).map(|cell| text(&format!("<td{cell}"))).collect();
    assert_eq!(names.len(), cells.len(), "{found}");
    names.into_iter().zip(cells).collect()
}

under_percore_and! { prefork:
    /// The numbers of the page for programs, and the other page's table, match the work done.
    fn exporters_and_tables(mpm: Mpm) {
        let site = Site::with([("a.txt", "0123456789")]);
        site.script("held", "#!/bin/sh\nwhile [ -e ../hold ]; do sleep 0.05; done\nprintf 'Content-Type: text/plain\\n\\nok'\n");
        site.file("hold", "");
        let text = format!(
            "{CONFIGURATION}ScriptAlias /cgi/ ${{ROOT}}/cgi-bin/\n<Directory ${{ROOT}}/cgi-bin>\nRequire all granted\n</Directory>"
        );
        let server = Server::start(mpm, &site, &text);
        server.allow("server seems busy");
        for _ in 0..10 {
            let text = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            assert_eq!(server.client().request(text).status, 200);
        }
        let mut script = server.client();
        script.send(get("/cgi/held?<script>\"&x"));
        let ask = |query: &str| {
            let text = format!("GET /server-status{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            server.client().request(text).text()
        };
        let values = until("a script that runs", || {
            let values = exported(&ask("?auto"));
            (values.get("ScriptsRunning") == Some(&1.0) && values["Total Accesses"] >= 10.0).then_some(values)
        });
        let always = [
            "ServerUptimeSeconds", "Load1", "Load5", "Load15", "Total kBytes", "Total Duration", "CPUUser", "CPUSystem",
            "CPUChildrenUser", "CPUChildrenSystem", "Uptime", "BytesPerReq", "DurationPerReq", "BusyWorkers", "IdleWorkers",
        ];
        for name in always {
            assert!(values.contains_key(name), "no {name}: {values:?}");
        }
        let is_async = matches!(mpm, Mpm::Event | Mpm::Percore);
        for name in ["ConnsTotal", "ConnsAsyncWaitIO", "ConnsAsyncWriting", "ConnsAsyncKeepAlive", "ConnsAsyncClosing"] {
            assert_eq!(values.contains_key(name), is_async, "{name}: {values:?}");
        }
        let of = |letters: &str| -> f64 {
            letters.chars().filter_map(|letter| values.get(&format!("scoreboard {letter}"))).sum()
        };
        assert_eq!(of("RWKDCL"), values["BusyWorkers"], "{values:?}");
        assert!(of("W") >= 2.0, "{values:?}");
        let cells = row(&ask(""), "/cgi/held");
        let shown = ["M", "Protocol", "VHost", "Request"].map(|name| cells[name].as_str());
        let wanted = "GET /cgi/held?&lt;script&gt;\\&quot;&amp;x HTTP/1.1";
        assert_eq!(shown, ["W", "http/1.1", "localhost:8080", wanted]);
        assert!(cells["Client"].starts_with("127."), "{cells:?}");
        std::fs::remove_file(site.root.join("hold")).expect("hold");
        assert_eq!(script.response().text(), "ok");
    }
}

/// Connections that wait without a worker, in both forms of the page.
#[test]
fn the_queues_of_event() {
    let site = Site::new();
    site.page("large", vec![b'x'; 16 << 20]);
    let text = format!(
        "{CONFIGURATION}StartServers 1\nThreadsPerChild 4\nMaxRequestWorkers 4\nMinSpareThreads 1\n\
         AsyncRequestWorkerFactor 50\nKeepAliveTimeout 300\nTimeout 300\nRequestReadTimeout header=300 body=300\n"
    );
    let server = Server::start(Mpm::Event, &site, &text);
    let mut clients: Vec<Client> = (0..7).map(|_| server.client()).collect();
    let (begun, rest) = clients.split_at_mut(3);
    let (kept, rest) = rest.split_at_mut(2);
    begun.iter_mut().for_each(|client| client.send("GET /"));
    kept.iter_mut().for_each(|client| assert_eq!(client.get("/none").status, 404));
    // One does not read, and one is refused and does not go.
    rest[0].send(get("/large"));
    assert_eq!(rest[1].request("GET / HTTP/1.1\r\n\r\n").status, 400);
    let ask = |query: &str| {
        let text = format!("GET /server-status{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        server.client().request(text).text()
    };
    let names = ["ConnsAsyncWaitIO", "ConnsAsyncWriting", "ConnsAsyncKeepAlive", "ConnsAsyncClosing"];
    let wanted = [3.0, 1.0, 2.0, 1.0];
    until("three begun, one that does not read, two kept, one refused", || {
        let values = exported(&ask("?auto"));
        (names.map(|name| values[name]) == wanted).then_some(())
    });
    let page = ask("");
    assert!(page.contains("<td>3</td><td>1</td><td>2</td><td>1</td></tr>\n</table>"), "{page}");
    drop(clients);
    until("nobody waits", || (names.map(|name| exported(&ask("?auto"))[name]) == [0.0; 4]).then_some(()));
}

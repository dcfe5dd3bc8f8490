//! The live status page: its data, its costs, and its behaviour in a browser.

use serde_json::Value;
use sys::signal::Signal;

use crate::cli::ctl::{ctl, json};
use crate::harness::browser::Browser;
use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::server::{Server, Start};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, Response, get};

const CONFIGURATION: &str = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n\
    </Directory>\n<Location /deep/down/status>\nSetHandler server-status\n</Location>\n";
const PAGE: &str = "/deep/down/status";

fn place() -> Site {
    let site = Site::with([("a.txt", "0123456789")]);
    site.script(
        "held",
        "#!/bin/sh\nwhile [ -e ../hold ]; do sleep 0.05; done\nprintf 'Content-Type: text/plain\\n\\nok'\n",
    );
    site.file("hold", "");
    site
}

fn let_go(site: &Site) {
    std::fs::remove_file(site.root.join("hold")).expect("hold");
}

/// A request with markup that would run as a script in a careless page.
const HOSTILE: &str = "/cgi/held?<img src=x onerror=window.hacked=1></script><script>window.hacked=1</script>";

fn hostile(server: &Server<'_>) -> Client {
    let mut client = server.client();
    client.send(get(&HOSTILE.replace(' ', "/**/")));
    client
}

/// The snapshot of an answer to `?live`.
fn snapshot(answer: &Response) -> Value {
    assert_eq!((answer.status, answer.field("Content-Type")), (200, Some("text/event-stream")));
    assert_eq!(answer.field("Cache-Control"), Some("no-store"));
    let text = answer.text();
    let data = text.strip_prefix("retry: 1000\ndata: ").and_then(|rest| rest.strip_suffix("\n\n"));
    let data = data.unwrap_or_else(|| panic!("one event: {text}"));
    assert!(!data.contains(['\n', '\r']), "{data}");
    serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"))
}

under_percore_and! {
    worker:

    /// One snapshot, and then the answer is over: where connections hold workers this one is not kept.
    fn a_snapshot_for_each_request(mpm: Mpm) {
        let site = place();
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.allow("server seems busy");
        for _ in 0..5 {
            assert_eq!(server.get("/a.txt").status, 200);
        }
        let mut script = hostile(&server);
        let told = until("a script that runs", || {
            let told = snapshot(&server.get(&format!("{PAGE}?live")));
            // The gate is looked at after the rows.
            let is_listed = told["requests"].as_array().is_some_and(|list| !list.is_empty());
            (told["gate"]["running"] == 1 && told["accesses"] == 5 && is_listed).then_some(told)
        });
        assert_eq!(told["mpm"], mpm.name());
        let letters = told["letters"].as_str().expect("letters");
        assert!(letters.contains('W'), "{letters}");
        let served = told["requests"].as_array().expect("requests");
        let line = served.iter().find_map(|one| one["request"].as_str().filter(|line| line.contains("/cgi/held")));
        assert!(line.expect("the script").starts_with("GET /cgi/held?<img/**/src=x"), "{served:?}");
        let counted = |name: &str| told[name].as_array().expect(name).iter().filter_map(Value::as_u64).collect::<Vec<_>>();
        assert_eq!(counted("durations").len(), counted("bounds").len() + 1);
        assert_eq!(counted("durations").iter().sum::<u64>(), counted("classes").iter().sum::<u64>());
        let children = told["children"].as_array().expect("children");
        let running = children.iter().filter(|child| child["life"] == "running" && child["pid"].as_u64() > Some(1));
        assert!(running.count() >= 1, "{children:?}");
        let mut client = server.client();
        let answer = client.get(&format!("{PAGE}?live"));
        if matches!(mpm, Mpm::Prefork | Mpm::Worker) {
            assert!(answer.closes());
            client.expect_end();
        } else {
            snapshot(&client.get(&format!("{PAGE}?live")));
        }
        let_go(&site);
        assert_eq!(script.response().text(), "ok");
    }
}

under_percore_and! {
    worker:

    /// The page omits its own requests; other readers see all requests.
    fn watchers_are_not_counted(mpm: Mpm) {
        let site = place();
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.allow("server seems busy");
        assert_eq!(server.get("/a.txt").status, 200);
        let ask = || snapshot(&server.get(&format!("{PAGE}?live")));
        let all = || -> u64 {
            let page = server.get(&format!("{PAGE}?auto")).text();
            let line = page.lines().find_map(|line| line.strip_prefix("Total Accesses: "));
            line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{page}"))
        };
        let quiet = |told: &Value| {
            let sum = |name: &str| told[name].as_array().expect(name).iter().filter_map(Value::as_u64).sum::<u64>();
            let counts = [told["accesses"].as_u64().expect("accesses"), sum("classes"), sum("durations")];
            (counts, told["sent"].as_u64(), told["received"].as_u64())
        };
        // A child may count a request after its client has the answer.
        let before = until("the first request", || Some(ask()).filter(|told| quiet(told).0 == [1; 3]));
        let counted = all();
        let mut last = before.clone();
        for _ in 0..4 {
            // That the numbers were asked for is counted, and may be under way for a moment longer than its client waits.
            let told = until("a snapshot more, of a server that rests", || {
                let rests = |told: &Value| {
                    told["requests"].as_array().is_some_and(Vec::is_empty)
                        && !told["letters"].as_str().expect("letters").contains('W')
                };
                Some(ask()).filter(|told| told["now"] != last["now"] && quiet(told).0 == [2; 3] && rests(told))
            });
            assert!(quiet(&told).1 > quiet(&before).1, "{told}");
            last = told;
        }
        assert!(all() >= counted + 4);
    }
}

/// More of them than there are workers, all of whom stay connected: others are served all the same.
#[test]
fn watchers_hold_no_worker() {
    for (mpm, limits) in [
        (Mpm::Prefork, "StartServers 2\nMaxRequestWorkers 2\nKeepAliveTimeout 300\n"),
        (Mpm::Worker, "StartServers 1\nThreadsPerChild 2\nMaxRequestWorkers 2\nKeepAliveTimeout 300\n"),
        (
            Mpm::Event,
            "StartServers 1\nThreadsPerChild 2\nMaxRequestWorkers 2\nAsyncRequestWorkerFactor 50\nKeepAliveTimeout 300\n",
        ),
    ] {
        let site = place();
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}{limits}"));
        server.allow("server seems busy");
        server.allow("MaxRequestWorkers setting");
        let mut watchers = Vec::new();
        for _ in 0..30 {
            let mut client = server.client();
            snapshot(&client.get(&format!("{PAGE}?live")));
            // A browser closes what the server has closed.
            client.half_close();
            watchers.push(client);
        }
        assert_eq!(server.get("/a.txt").text(), "0123456789", "{mpm}");
    }
}

/// If requests need no worker, more can be served than there are rows: the page reports no limit that was reached,
/// counts all, and leaves idle workers for readers of Apache's page. Elsewhere the limit is reported.
#[test]
fn more_requests_than_rows() {
    const MORE: usize = 20;
    let text = format!(
        "{CONFIGURATION}<Location /status>\nSetHandler server-status\n</Location>\n<Location /metrics>\nSetHandler metrics\n\
         </Location>\nAdmissionLimit 8\nAdmissionQueue 100000\n"
    );
    let site = place();
    let server = Server::start(Mpm::Percore, &site, &text);
    let line = |name: &str| -> String {
        let page = server.get("/status?auto").text();
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {name} in {page}")).to_string()
    };
    let number = |name: &str| line(name).parse::<usize>().expect(name);
    let rows = line("Scoreboard").len();
    let mut clients: Vec<Client> = (0..rows + MORE).map(|_| server.client()).collect();
    let long = format!("/cgi/held?{}", "x".repeat(200));
    clients.iter_mut().for_each(|client| client.send(get(&long)));
    until("all of them", || (number("BusyWorkers") > rows + MORE).then_some(()));
    assert!(number("IdleWorkers") >= rows + MORE);
    let letters = line("Scoreboard");
    assert!(letters.matches('W').count() <= rows && letters.matches('.').count() >= rows, "{letters}");
    let told = snapshot(&server.get(&format!("{PAGE}?live")));
    assert_eq!((&told["limit"], &told["children"][0]["workers"]), (&Value::Null, &Value::Null));
    assert!(told["unlisted"].as_u64() >= Some(MORE as u64), "{told}");
    let metrics = server.get("/metrics").text();
    assert!(!metrics.contains("tsubame_workers_limit"), "{metrics}");
    let unlisted = metrics.lines().find_map(|line| line.strip_prefix("tsubame_workers{state=\"unlisted\"} "));
    assert!(unlisted.and_then(|count| count.parse().ok()) >= Some(MORE), "{metrics}");
    let status = json(&site, &["status"]);
    let unlisted =
        status["children"].as_array().expect("children").iter().filter_map(|child| child["unlisted"].as_u64());
    assert!(unlisted.sum::<u64>() >= MORE as u64, "{status}");
    assert!(ctl(&site, &["status"]).0.contains(" more requests\n"));
    let line = told["requests"][0]["request"].as_str().expect("a line");
    assert!(line.starts_with("GET /cgi/held?xxx") && line.ends_with("xxx…") && line.len() > 140, "a cut shows: {line}");
    let listed = told["requests"].as_array().expect("requests").len() as u64;
    assert!(listed <= 100 && told["served"].as_u64() > Some(rows as u64), "{told}");
    let_go(&site);
    clients.iter_mut().for_each(|client| assert_eq!(client.response().text(), "ok"));
    drop((clients, server));

    let server = Server::start(Mpm::Event, &site, &text);
    let told = snapshot(&server.get(&format!("{PAGE}?live")));
    assert!(told["limit"].as_u64() > Some(0) && told["children"][0]["workers"].as_u64() > Some(0), "{told}");
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("\ntsubame_workers_limit ") && !metrics.contains("unlisted"), "{metrics}");
}

/// The server keeps ten minutes of history second by second, counts requests by URL and by virtual host, and shows the
/// lines of its error log. The page's own requests are left out.
#[test]
fn the_past_is_kept_by_the_server() {
    let site = place();
    let server = Server::start(Mpm::Event, &site, CONFIGURATION);
    server.announce("AH02811");
    server.allow("server seems busy");
    for _ in 0..5 {
        assert_eq!(server.get("/a.txt?query=secret").status, 200);
    }
    assert_eq!(server.get("/cgi/<b>missing").status, 404);
    let seconds = until("two seconds", || {
        let answer = server.get(&format!("{PAGE}?live.past"));
        assert_eq!((answer.status, answer.field("Content-Type")), (200, Some("application/json")));
        let seconds: Vec<Vec<i64>> = serde_json::from_str(&answer.text()).expect("lists of numbers");
        let answered: i64 = seconds.iter().filter_map(|second| second.get(1)).sum();
        (seconds.len() >= 2 && answered == 6).then_some(seconds)
    });
    assert!(seconds[0][0] > 1_700_000_000_000_000, "µs since 1970: {seconds:?}");
    assert!(seconds[1..].iter().all(|second| second[0] > 500_000), "about a second each: {seconds:?}");
    let told = snapshot(&server.get(&format!("{PAGE}?live")));
    let urls = told["urls"].as_array().expect("urls");
    let of = |path: &str| urls.iter().find(|url| url["path"] == path).unwrap_or_else(|| panic!("{path} in {urls:?}"));
    assert_eq!((&of("/a.txt")["requests"], &of("/a.txt")["failures"]), (&5.into(), &0.into()));
    assert_eq!(of("/cgi/<b>missing")["requests"], 1);
    assert_eq!(urls.len(), 2, "without queries, and without those who watch: {urls:?}");
    let hosts = told["hosts"].as_array().expect("hosts");
    assert_eq!((hosts.len(), &hosts[0]["requests"]), (1, &6.into()));
    let lines = told["lines"].as_array().expect("lines");
    let line = lines.iter().find(|line| line["text"].as_str().is_some_and(|text| text.contains("AH02811")));
    assert!(line.is_some_and(|line| line["level"] == "error"), "{lines:?}");
}

/// The page has one element more than Apache's; other forms of it have none, and its files are what they should be.
#[test]
fn the_page_and_its_files() {
    let site = place();
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    let page = server.get(PAGE).text();
    assert_eq!(page.matches("<script src=\"?live.js\"></script>\n</head>").count(), 1, "{page}");
    assert!(page.matches("<script").count() == 1 && !page.contains("style") && !page.contains("<link"), "{page}");
    for query in ["?auto", "?notable", "?refresh=5", "?refresh", "?notable&auto"] {
        let answer = server.get(&format!("{PAGE}{query}"));
        assert!(answer.status == 200 && !answer.text().contains("script src"), "{query}");
    }
    let files = [
        ("live.js", "text/javascript; charset=utf-8"),
        ("live.css", "text/css; charset=utf-8"),
        ("live.svg", "image/svg+xml"),
    ];
    for (query, media_type) in files {
        let answer = server.get(&format!("{PAGE}?{query}"));
        assert_eq!((answer.status, answer.field("Content-Type")), (200, Some(media_type)));
        let text = answer.text();
        // Nothing is loaded from other hosts, and no text becomes markup.
        for bad in ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "@import", "url("] {
            assert!(!text.contains(bad), "{bad} in {query}");
        }
        let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !elsewhere.contains("//www") && !elsewhere.contains("http:") && !elsewhere.contains("https:"),
            "{query}"
        );
    }
}

/// A browser shows what happens as it happens, finds the server again, and runs nothing that strangers have sent.
#[test]
fn a_browser_shows_it() {
    let site = place();
    let Some(mut browser) = Browser::start("a_browser_shows_it", &site) else { return };
    let mut server = Server::start(Mpm::Event, &site, CONFIGURATION);
    server.allow("server seems busy");
    browser.obey("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'");
    browser.open(&format!("http://{}{PAGE}", server.address()));
    browser.until("the live page", "document.querySelector('#state')?.dataset.state === 'live'");

    browser.until("its style", "getComputedStyle(document.querySelector('main')).display === 'grid'");

    // Numbers grow.
    let count = "Number(document.querySelector('#requests dd').textContent.replaceAll(',', ''))";
    let before = browser.value(count).as_u64().expect("a number");
    for _ in 0..60 {
        assert_eq!(server.get("/a.txt").status, 200);
    }
    browser.until("sixty requests more", &format!("{count} >= {}", before + 60));
    browser.until("a rate", "Number(document.querySelector('#requests .number span').textContent) > 0");
    browser.until("latencies", "/[µm]?s$/.test(document.querySelector('#latency dd').textContent)");
    browser.until("a line", "document.querySelector('#requests path.line0').getAttribute('d').includes('L')");
    browser.until("three lines", "document.querySelectorAll('#latency path.line').length === 3");

    // Charts have labelled axes; tiny values do not look large.
    for (tile, scale) in [("machine", "0 % 50 % 100 %"), ("latency", "10 µs 100 µs 1 ms 10 ms 100 ms")] {
        let ticks =
            format!("[...document.querySelectorAll('#{tile} .ticks span')].map(tick => tick.textContent).join(' ')");
        browser.until(scale, &format!("{ticks}.startsWith('{scale}')"));
    }
    let times = "[...document.querySelectorAll('#requests .times span')].map(time => time.textContent).join(' ')";
    assert_eq!(browser.value(times), "−1 min −30 s now");

    // A mouse or the keys select a moment in a chart, and its values are shown.
    let said = "document.querySelector('#latency .said').textContent";
    browser.until("the peak", &format!("/^peak: p50 .*s · p90 .*s · p99 /.test({said})"));
    let key =
        "document.querySelector('#latency .chart').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft'}))";
    browser.value(key);
    browser.until("a moment", &format!("/^\\d\\d:\\d\\d:\\d\\d: p50 /.test({said})"));

    // The requested URLs, and the errors.
    browser.until(
        "a URL",
        "[...document.querySelectorAll('#urls tbody tr')].some(row => row.textContent.startsWith('/a.txt'))",
    );
    browser.until("no line", "document.querySelector('#lines td').textContent.startsWith('No warning')");

    // A new page also shows the time before it started.
    let seconds = "document.querySelector('#requests path.line0').getAttribute('d').split('L').length";
    browser.until("some seconds", &format!("{seconds} > 3"));
    browser.open(&format!("http://{}{PAGE}", server.address()));
    browser.until("the seconds before", &format!("{seconds} > 3 && document.querySelector('#requests dd') !== null"));

    // A script has a worker, and a line that is text.
    let mut script = hostile(&server);
    browser.until(
        "the script in the table",
        "[...document.querySelectorAll('#now td')].some(cell => cell.textContent.startsWith('GET /cgi/held?<img'))",
    );
    browser
        .until("a busy worker", "[...document.querySelectorAll('.grid span')].some(cell => cell.textContent === 'W')");
    browser.until("a script at the gate", "document.querySelector('#gate dd').textContent === '1'");
    browser.until(
        "the script among the scripts",
        "document.querySelector('#scripts tbody th').textContent.endsWith('/held')",
    );
    assert_eq!(browser.value("typeof window.hacked"), "undefined");
    assert_eq!(browser.value("document.images.length + document.querySelectorAll('script').length"), 1);
    let_go(&site);
    assert_eq!(script.response().text(), "ok");

    // Screen readers, and small screens.
    let tables = "[...document.querySelectorAll('table')].every(table => table.caption && \
         [...table.querySelectorAll('th')].every(cell => cell.scope))";
    assert_eq!(browser.value(tables), true);
    let marks = "['header', 'main', 'footer', 'h1', '[aria-live=polite]'].every(mark => \
         document.querySelectorAll(mark).length === 1) && [...document.querySelectorAll('section')].every(section => \
         section.querySelector('h2, caption')) && document.documentElement.lang === 'en'";
    assert_eq!(browser.value(marks), true);
    browser.resize(375, 812);
    assert_eq!(browser.value("document.documentElement.scrollWidth"), 375);

    // The page shows the next generation; it notices when the server is down, and reconnects.
    server.restart(Signal::USR1);
    browser.until("the next generation", "document.querySelector('header p').textContent.includes('generation 1')");
    assert_eq!(browser.complaints, Vec::<String>::new());
    server.signal(Signal::TERM);
    assert!(server.ends().success());
    drop(server);
    browser.until("a lost connection", "document.querySelector('#state').dataset.state === 'lost'");
    let said = browser.value("document.querySelector('#state').textContent");
    let time = said.as_str().and_then(|said| said.strip_prefix("connection lost, trying again; figures from "));
    assert!(time.is_some_and(|time| time.starts_with("20") && time.len() == "2026-11-22 13:23:06".len()), "{said}");
    let server = Start::new(&site, Mpm::Event).run();
    server.allow("server seems busy");
    browser.until("it is back", "document.querySelector('#state').dataset.state === 'live'");
    browser.until("a generation of its own", "document.querySelector('header p').textContent.includes('generation 0')");
    drop(browser);
}

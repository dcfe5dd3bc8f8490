//! Pools as seen from outside.

use crate::harness::mpm::{Mpm, under_every_mpm};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;

const CONFIGURATION: &str = "LoadModule perl_module modules/mod_perl.so\nPerlOptions +ParseHeaders\nPerlInterpMax 2\n\
    <Directory ${ROOT}/cgi-bin>\nOptions +ExecCGI\nRequire all granted\nSetHandler perl-script\n\
    PerlResponseHandler ModPerl::Registry\n</Directory>\nAlias /perl/ ${ROOT}/cgi-bin/\n\
    CustomLog logs/access \"%U %{queue}G %{cpu}G %{exit}G\"\n\
    <Location /status>\nSetHandler server-status\n</Location>\n<Location /metrics>\nSetHandler metrics\n</Location>\n";

under_every_mpm! {
    /// The memory of a compiled script is known, though separate processes serve the requests.
    fn a_compiled_script_has_memory(mpm: Mpm) {
        let site = Site::new();
        site.script("hello", "print \"Content-Type: text/plain\\n\\nhello\\n\";\n");
        let text = CONFIGURATION.replace("SetHandler perl-script", "SetHandler perl-fork");
        let server = Server::start(mpm, &site, &text);
        assert_eq!(server.get("/perl/hello").text(), "hello\n");
        until("what it has", || {
            let metrics = server.get("/metrics").text();
            let line = metrics.lines().find(|line| line.contains("backend_memory_bytes{pool=\"perl-fork"))?;
            line.rsplit(' ').next()?.parse::<u64>().ok().filter(|bytes| (100_000..100_000_000).contains(bytes))
        });
    }

    /// Sizes, requests and times appear on the status page, in the metrics, and in the output of `ctl`.
    fn pools_are_seen(mpm: Mpm) {
        let site = Site::new();
        site.script("hello", "print \"Content-Type: text/plain\\n\\nhello\\n\";\n");
        let server = Server::start(mpm, &site, CONFIGURATION);
        let auto = server.get("/status?auto").text();
        assert!(!auto.contains("Backend"), "{auto}");
        for _ in 0..3 {
            assert_eq!(server.get("/perl/hello").text(), "hello\n");
        }
        // A request's costs are its own, not its process's.
        let lines = until("three log lines", || {
            let log = site.read("logs/access");
            let lines: Vec<String> = log.lines().filter(|line| line.starts_with("/perl/")).map(str::to_string).collect();
            (lines.len() == 3).then_some(lines)
        });
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let [queued, cpu] = [words[1], words[2]].map(|word| word.parse::<u64>().expect("a number"));
            assert!(queued < 60_000_000 && (1..5_000_000).contains(&cpu) && words[3] == "0", "{line}");
        }
        // A backend is returned after its answer.
        let auto = until("an idle backend", || {
            let auto = server.get("/status?auto").text();
            auto.contains("BackendsBusy: 0\nBackendRequestsWaiting: 0\nBackendsStarted: 1\nBackendRequests: 3").then_some(auto)
        });
        for line in ["BackendPools: 1", "Backends: 1", "BackendsBusy: 0", "BackendRequests: 3", "BackendsStarted: 1"] {
            assert!(auto.lines().any(|one| one == line), "{line}: {auto}");
        }
        let page = server.get("/status?notable").text();
        assert!(page.contains("<h2>Backends</h2>") && page.contains("<tr><td>perl</td><td>1</td><td>0</td><td>2</td>"), "{page}");
        let metrics = server.get("/metrics").text();
        for line in [
            "tsubame_backends{pool=\"perl\"} 1",
            "tsubame_backends_limit{pool=\"perl\"} 2",
            "tsubame_backend_requests_total{pool=\"perl\"} 3",
            "tsubame_backend_ends_total{pool=\"perl\",reason=\"died\"} 0",
        ] {
            assert!(metrics.lines().any(|one| one == line), "{line}: {metrics}");
        }
        let status = crate::cli::ctl::json(&site, &["status"]);
        let pool = &status["pools"][0];
        assert_eq!((pool["name"].as_str(), pool["requests"].as_u64()), (Some("perl"), Some(3)), "{status}");
    }
}

/// CPU-bound scripts would only slow each other down: no more run than there are processors. Scripts that wait for
/// something else get as many processes as needed.
#[test]
fn no_more_start_than_have_something_to_do() {
    let site = Site::new();
    let fifo = site.root.join("go");
    let made = std::process::Command::new("mkfifo").args(["-m", "666"]).arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    let answer = "print \"Content-Type: text/plain\\n\\ndone\\n\";\n";
    site.script("computes", &format!("my $n = 0; $n += $_ for 1 .. 100_000; {answer}"));
    site.script("waits", &format!("open my $go, '<', '{}' or die; close $go; {answer}", fifo.display()));
    let text = CONFIGURATION.replace("PerlInterpMax 2", "PerlInterpMax 40");
    let server = Server::start(Mpm::Percore, &site, &text);
    let get = |path: &str| format!("GET /perl/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let number = |what: &str| crate::cli::ctl::json(&site, &["status"])["pools"][0][what].as_u64().expect("a number");
    let mut clients: Vec<_> = (0..30).map(|_| server.client()).collect();
    for _ in 0..10 {
        clients.iter_mut().for_each(|client| client.send(get("computes")));
        clients.iter_mut().for_each(|client| assert_eq!(client.response().text(), "done\n"));
    }
    // Some have started before it was known, more of them where the machine has other things to do as well.
    let size = number("size");
    assert!(size <= 15, "{size} interpreters for 30 clients");
    clients.iter_mut().for_each(|client| client.send(get("waits")));
    until("all wait", || (number("busy") == 30).then_some(()));
    // While a writer holds the fifo open, opening it does not block.
    let writer = std::fs::File::options().write(true).open(&fifo).expect("a fifo");
    clients.iter_mut().for_each(|client| assert_eq!(client.response().text(), "done\n"));
    drop(writer);
}

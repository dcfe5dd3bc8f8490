//! What administrators see of servers behind this one: counts, times, faults, log lines, and what an explanation foresees.

use serde_json::Value;
use sys::process::Pid;
use sys::signal::Signal;

use crate::cli::ctl;
use crate::harness::mpm::Mpm;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::proxy::origin::Origin;

const CONFIGURATION: &str = "\
<Proxy balancer://b>\nBalancerMember http://ORIGIN/m1 route=a\nBalancerMember http://ORIGIN/m2 route=b\n\
BalancerMember http://ADDR:1/m3 route=c status=+H\nBalancerMember http://ORIGIN/m4 status=D\n\
BalancerMember http://ORIGIN/m5 status=+N route=e\nBalancerMember http://ORIGIN/m6 lbset=1\nProxySet stickysession=SID\n</Proxy>\n\
ProxyPass /b balancer://b\nProxyPass /app/ http://ORIGIN/app/\nProxyPass /dead/ http://ADDR:1/\n\
ProxyPass /slow/ http://ORIGIN/slow/ timeout=1\nRewriteEngine On\nRewriteRule ^/rule/(.*) http://ORIGIN/rule/$1 [P]\n\
<Location /metrics>\nSetHandler metrics\n</Location>\n<Location /status>\nSetHandler server-status\n</Location>\n\
LogFormat '{\"line\":%r,\"server\":%{proxy-name}G,\"address\":%{proxy-address}G,\"connect\":%{proxy-connect}G,\"first\":%{proxy-first-byte}G}' \
j escape=json\nCustomLog logs/proxy.log j\n";

fn configuration(site: &Site, origin: &Origin) -> String {
    CONFIGURATION.replace("ORIGIN", &origin.address.to_string()).replace("ADDR", &site.ip.to_string())
}

/// What `tsubame ctl proxy` says of a server.
fn told(site: &Site, server: &str) -> Value {
    let all = ctl::json(site, &["proxy"]);
    let servers = all["servers"].as_array().expect("servers");
    let found: Vec<&Value> = servers.iter().filter(|one| one["server"] == server).collect();
    assert_eq!(found.len(), 1, "{server}: {all}");
    found[0].clone()
}

/// The counts are those of the work done, for all processes together, and a graceful restart keeps them.
#[test]
fn counts_match_the_work_done() {
    for mpm in [Mpm::Percore, Mpm::Prefork, Mpm::Event] {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let mut server = Server::start(mpm, &site, &configuration(&site, &origin));
        server.allow_everything("the counts say what went wrong");
        let mut client = server.client();
        for _ in 0..5 {
            assert_eq!(client.get("/app/bare").text(), "hi");
        }
        for name in ["end-page", "end-lengths", "end-chunks", "end-empty", "end-empty"] {
            client.get(&format!("/app/{name}"));
        }
        server.get("/app/chunked");
        server.get("/rule/bare");
        let mut short = server.client();
        short.send(crate::harness::wire::get("/app/end-short"));
        assert!(short.beginning_to("GET").is_ok_and(|(_, whole)| whole.is_err()), "the body is too short");
        assert_eq!(server.get("/dead/x").status, 503);
        let mut mute = server.client();
        mute.send("POST /slow/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\na");
        let name = |path: &str| format!("http://{}{path}", origin.address);
        until("a request is on its way", || (told(&site, &name("/slow/"))["busy"] == 1).then_some(()));
        drop(mute);
        until("it has ended", || (told(&site, &name("/slow/"))["busy"] == 0).then_some(()));
        assert_eq!(server.get("/app/bare").text(), "hi");
        let app = until("all requests have ended", || {
            let app = told(&site, &name("/app/"));
            (app["ended"] == app["requests"]).then_some(app)
        });
        assert_eq!(app["requests"], 13, "{app}");
        let sum =
            |one: &str, other: &str| app[one].as_u64().expect("a number") + app[other].as_u64().expect("a number");
        // A request that may be sent twice is, if the server has closed the connection.
        assert!((13..=15).contains(&sum("opened", "reused")) && app["reused"].as_u64() >= Some(4), "{app}");
        assert_eq!(app["faults"], serde_json::json!({"connect": 0, "tls": 0, "timeout": 0, "lost": 3, "malformed": 3}));
        assert!(app["first_byte_seconds"].as_f64() > Some(0.0) && app["total_seconds"].as_f64() > Some(0.0), "{app}");
        assert!(app["connect_seconds"].as_f64() > Some(0.0), "{app}");
        assert!(app["idle"].as_u64() >= Some(1), "{app}");
        let dead = told(&site, &format!("http://{}:1/", site.ip));
        assert_eq!((&dead["faults"]["connect"], &dead["requests"]), (&1.into(), &1.into()));
        until("rules are counted together", || (told(&site, "*")["requests"] == 1).then_some(()));
        for _ in 0..4 {
            server.get("/b/bare");
        }
        assert_eq!(told(&site, &name("/m1"))["requests"], 2);
        let metrics = server.get("/metrics").text();
        let line =
            format!("tsubame_proxy_faults_total{{balancer=\"\",server=\"{}\",kind=\"malformed\"}} 3\n", name("/app/"));
        assert!(metrics.contains(&line), "{metrics}");
        let live = server.get("/status?live").text();
        assert!(live.contains(&format!("\"name\":\"{}\"", name("/app/"))) && live.contains("3 malformed"), "{live}");
        let (text, ..) = ctl::ctl(&site, &["proxy"]);
        assert!(text.contains("faults: 3 lost, 3 malformed\n"), "{text}");
        assert!(text.contains(&format!("out  {} of balancer://b (Init Dis)\n", name("/m4"))), "{text}");
        server.restart(Signal::USR1);
        assert_eq!(told(&site, &name("/app/"))["requests"], 13, "a restart keeps them");
    }
}

/// A child that is killed gives back what it had under way.
#[test]
fn the_dead_are_busy_with_nothing() {
    for mpm in [Mpm::Percore, Mpm::Prefork] {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let server = Server::start(mpm, &site, &configuration(&site, &origin));
        server.allow_everything("children are killed");
        let busy = || {
            let all = ctl::json(&site, &["proxy"]);
            let of_balancer: u64 = all["servers"]
                .as_array()
                .expect("servers")
                .iter()
                .filter(|one| one["balancer"] == "b")
                .filter_map(|one| one["busy"].as_u64())
                .sum();
            (of_balancer, told(&site, &format!("http://{}/app/", origin.address))["busy"].as_u64())
        };
        let post = |path: &str| {
            let mut client = server.client();
            client.send(format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\na"));
            client
        };
        let _waiting = [post("/app/x"), post("/b/x"), post("/b/x")];
        until("three requests are on their way", || (busy() == (2, Some(1))).then_some(()));
        for child in server.children() {
            // A child may end at the same moment.
            let _ = Pid::new(child).expect("a pid").kill(Signal::KILL);
        }
        until("nothing is on its way", || (busy() == (0, Some(0))).then_some(()));
        assert_eq!(server.get("/b/bare").status, 200, "others serve");
    }
}

/// Log lines name the server, and the times that it took.
#[test]
fn log_lines_name_the_server() {
    for mpm in [Mpm::Percore, Mpm::Prefork] {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let server = Server::start(mpm, &site, &configuration(&site, &origin));
        server.allow_everything("a server that is not there");
        let mut client = server.client();
        (0..2).for_each(|_| assert_eq!(client.get("/app/bare").text(), "hi"));
        for path in ["/b/bare", "/dead/x", "/status?auto"] {
            server.get(path);
        }
        let log = until("five lines", || Some(site.read("logs/proxy.log")).filter(|log| log.lines().count() == 5));
        let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        // Lines of several children may come in any order.
        let of = |path: &str| -> Vec<&Value> {
            let line = format!("GET {path} HTTP/1.1");
            lines.iter().filter(|one| one["line"] == line).collect()
        };
        let [first, second] = of("/app/bare")[..] else { panic!("{log}") };
        let (member, dead, own) = (of("/b/bare")[0], of("/dead/x")[0], of("/status?auto")[0]);
        assert_eq!(first["server"], format!("http://{}", origin.address));
        assert_eq!(first["address"], origin.address.to_string());
        assert!(first["connect"].is_u64() && first["first"].as_u64() > Some(0), "{first}");
        assert!(second["connect"].is_null() && second["first"].is_u64(), "the connection was there: {second}");
        assert_eq!(member["server"], format!("http://{}/m1", origin.address));
        assert_eq!(dead["server"], format!("http://{}:1", site.ip));
        assert!(dead["connect"].is_null() && dead["first"].is_null(), "{dead}");
        assert!(own["server"].is_null() && own["address"].is_null(), "{own}");
    }
}

/// An explanation says which member would get the request, and why the others would not; it changes nothing.
#[test]
fn explanations_name_the_member() {
    let site = Site::new();
    let origin = Origin::start(site.ip);
    let server = Server::start(Mpm::Percore, &site, &configuration(&site, &origin));
    server.allow_everything("a server that is not there");
    let explain = |path: &str| ctl::ctl(&site, &["explain", "--all", path]).0;
    let m = |number: u8| format!("http://{}/m{number}", origin.address);
    for _ in 0..2 {
        let text = explain("/b/x");
        for part in [
            format!("balancer://b goes to {}, whose turn it is (byrequests)", m(1)),
            format!("not to {}: it is not its turn (Init Ok)", m(2)),
            format!("not to http://{}:1/m3: it is a standby (Init Stby Ok)", site.ip),
            format!("not to {}: it is disabled (Init Dis)", m(4)),
            format!("not to {}: it gets the requests of its sessions only (Init Drn Ok)", m(5)),
            format!("not to {}: its set 1 waits until no lower one can", m(6)),
            "ProxyPass /b balancer://b".to_string(),
        ] {
            assert!(text.contains(&part), "{part}\n{text}");
        }
    }
    assert!(server.get("/b/x").text().starts_with("GET /m1/x "), "as foreseen");
    assert!(explain("/b/x").contains(&format!("goes to {}, whose turn", m(2))));
    let session = ctl::ctl(&site, &["explain", "--all", "--header", "Cookie: SID=1.e", "/b/x"]).0;
    assert!(session.contains(&format!("goes to {}, the member of its session (e)", m(5))), "{session}");
    assert!(session.contains(&format!("not to {}: it does not belong to the session", m(1))), "{session}");
    let plain = explain("/app/x");
    assert!(
        plain.contains(&format!("http://{0}/app/x, over a persistent connection to {0}", origin.address)),
        "{plain}"
    );
}

/// An explanation names the main server's line that a virtual host does not inherit.
#[test]
fn explanations_name_lines_that_are_not_inherited() {
    let site = Site::new();
    let configuration = "ProxyPass /app/static !\nProxyPass /app http://127.0.0.1:9/\n\
        <VirtualHost *>\nServerName own\nProxyPassInherit Off\nProxyPass / http://127.0.0.1:9/own/\n</VirtualHost>\n\
        <VirtualHost *>\nServerName all\nProxyPass / http://127.0.0.1:9/all/\n</VirtualHost>\n";
    let _server = Server::start(Mpm::Percore, &site, configuration);
    let text = "ProxyPassInherit Off: ProxyPass of the main server (";
    for (host, path, is_told) in
        [("own", "/app/static", true), ("own", "/app/x", true), ("own", "/other", false), ("all", "/app/x", false)]
    {
        let told = ctl::ctl(&site, &["explain", "--header", &format!("Host: {host}"), path]).0;
        assert_eq!(told.contains(text), is_told, "{host} {path}: {told}");
    }
}

//! Load balancers hear how much work this server can take, and whether it wants any.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sys::signal::Signal;

use crate::cli::ctl::ctl;
use crate::harness::mpm::{Mpm, under_every_mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::server::{Server, Start};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, Response};

/// The port at which agent checks are answered.
pub const AGENT: u16 = 9009;

const PROBES: &str = "<Location /ready>\nSetHandler server-ready\n</Location>\n<Location /alive>\nSetHandler server-alive\n</Location>\n";

fn start<'a>(mpm: Mpm, site: &'a Site, more: &str) -> Server<'a> {
    Server::start(mpm, site, &format!("AgentListen {}:{AGENT}\n{PROBES}{more}", site.ip))
}

/// What a balancer that asks is told.
fn told(site: &Site) -> String {
    let mut stream = TcpStream::connect((site.ip, AGENT)).expect("connect");
    stream.write_all(b"as agent-send\n").expect("write");
    let mut line = String::new();
    stream.read_to_string(&mut line).expect("read");
    line
}

under_every_mpm! {
    /// What an administrator wants is told, outlives a restart, and is what probes of readiness see.
    fn administrators_may_keep_clients_away(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        let mut server = start(mpm, &site, "");
        let probes = |server: &Server<'_>| [server.get("/ready").status, server.get("/alive").status];
        until("a serving child", || told(&site).starts_with("ready up ").then_some(()));
        assert_eq!(probes(&server), [200, 200]);
        for (command, line) in [("drain", "drain\n"), ("maintenance", "maint\n")] {
            assert_eq!(ctl(&site, &[command]).2, Some(0));
            until(command, || (told(&site) == line).then_some(()));
            assert_eq!(probes(&server), [503, 200]);
            assert_eq!(server.get("/").status, 200, "whoever comes is served");
        }
        server.restart(Signal::USR1);
        assert_eq!(told(&site), "maint\n");
        assert_eq!(ctl(&site, &["ready"]).2, Some(0));
        until("ready", || told(&site).starts_with("ready up ").then_some(()));
        assert_eq!(probes(&server), [200, 200]);
        assert_eq!(server.get("/ready").field("Cache-Control"), Some("no-store"));
    }
}

under_percore_and! { prefork:
    /// A graceful stop is told before ports close, so that nobody is refused.
    fn a_graceful_stop_is_told_first(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        let mut server = start(mpm, &site, "GracefulShutdownDelay 30s\n");
        server.signal(Signal::WINCH);
        until("drain", || (told(&site) == "drain\n").then_some(()));
        assert_eq!(server.get("/ready").status, 503);
        assert_eq!(server.get("/").status, 200);
        // Another order ends the delay.
        server.signal(Signal::WINCH);
        assert_eq!(server.ends().code(), Some(0));
    }
}

under_percore_and! { prefork:
    /// Two servers do not answer at one port, each for itself.
    fn a_port_in_use_stops_the_start(mpm: Mpm) {
        let [site, other] = [0, 1].map(|_| Site::with([("index.html", "hello\n")]));
        let server = start(mpm, &site, "");
        other.configure(mpm, &format!("AgentListen {}:{AGENT}\n", site.ip));
        let output = Start::new(&other, mpm).by(["timeout", "10"].map(str::to_string).into()).command().output().expect("start");
        let log = other.read("logs/error_log");
        assert!(!output.status.success() && log.contains("AgentListen") && log.contains("cannot be opened"), "{log}");
        drop(server);
    }
}

under_percore_and! { worker:
    /// Requests that wait for their script send work elsewhere.
    fn scripts_take_off_weight(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        site.script("slow", "#!/bin/sh\nwhile [ -e ../hold ]; do sleep 0.02; done\necho\necho done\n");
        site.file("hold", "");
        // The weight follows a queue that lasts.
        let more = "AdmissionMemory 64M\nScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nAdmissionLimit 1\nRequire all granted\n</Directory>\n";
        let server = start(mpm, &site, more);
        let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
        for client in &mut clients {
            client.send("GET /cgi/slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
        }
        let weight = || -> Option<u8> { told(&site).strip_prefix("ready up ")?.strip_suffix("%\n")?.parse().ok() };
        until("less weight", || weight().filter(|weight| *weight < 20));
        std::fs::remove_file(site.root.join("hold")).expect("hold");
        for client in &mut clients {
            assert_eq!(client.response().status, 200);
        }
        // Other tests may take the processors, which count for half.
        until("free memory", || weight().filter(|weight| *weight > 40));
    }
}

/// A HAProxy before some servers, which asks their agents.
struct HaProxy {
    process: Child,
    address: SocketAddr,
}

impl HaProxy {
    /// `asks`: it asks the agents.
    fn start(site: &Site, servers: &[&Site], asks: bool) -> HaProxy {
        let address = SocketAddr::from((site.ip, 8100));
        let lines: String = servers
            .iter()
            .enumerate()
            .map(|(number, server)| {
                let (to, ip) = (server.address(), server.ip);
                let agent = format!(" agent-check agent-addr {ip} agent-port {AGENT} agent-inter 100ms");
                format!("  server s{number} {to} weight 100{}\n", if asks { &agent } else { "" })
            })
            .collect();
        let text = format!(
            "defaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n  retries 3\n  \
             option redispatch 1\n  retry-on conn-failure empty-response 503\nfrontend all\n  bind {address}\n  default_backend nodes\nbackend nodes\n  balance roundrobin\n  \
             http-request disable-l7-retry unless METH_GET\n{lines}"
        );
        let file = site.file("haproxy.cfg", text);
        let mut command = Command::new("/usr/sbin/haproxy");
        let process = command.arg("-db").arg("-f").arg(file).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let started = HaProxy { process: process.expect("haproxy"), address };
        until("HAProxy", || TcpStream::connect(address).ok());
        started
    }

    /// The node that answers a request on a new connection; `None`: the request failed.
    fn node(&self) -> Option<String> {
        let response = self.ask("GET", "/");
        (response.status == 200).then(|| response.text())
    }

    fn ask(&self, method: &str, path: &str) -> Response {
        let mut client = Client::over(TcpStream::connect(self.address).expect("HAProxy"));
        client.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        ));
        client.response()
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

under_percore_and! { event:
    /// HAProxy sends nobody to a node that drains, and no request fails while a node stops.
    fn haproxy_follows(mpm: Mpm) {
        if !needs::HAPROXY.is_there("haproxy_follows") {
            return;
        }
        let [one, other] = ["one", "other"].map(|name| Site::with([("index.html", name)]));
        let mut first = start(mpm, &one, "GracefulShutdownDelay 1s\n");
        let second = start(mpm, &other, "");
        let front = Site::new();
        let haproxy = HaProxy::start(&front, &[&one, &other], true);
        let both = || {
            let nodes: std::collections::BTreeSet<String> = (0..6).map(|_| haproxy.node().expect("an answer")).collect();
            (nodes.len() == 2).then_some(())
        };
        until("both nodes answer", both);
        assert_eq!(ctl(&other, &["drain"]).2, Some(0));
        until("one node answers", || (0..8).all(|_| haproxy.node().as_deref() == Some("one")).then_some(()));
        assert_eq!(ctl(&other, &["ready"]).2, Some(0));
        until("both nodes answer again", both);

        let (ended, failed, asked) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    asked.fetch_add(1, Ordering::Relaxed);
                    failed.fetch_add(usize::from(haproxy.node().is_none()), Ordering::Relaxed);
                }
            });
            first.signal(Signal::WINCH);
            let status = first.ends();
            until("requests after its end", || (asked.load(Ordering::Relaxed) > 20).then_some(()));
            ended.store(true, Ordering::Relaxed);
            assert_eq!(status.code(), Some(0));
        });
        assert_eq!(failed.into_inner(), 0, "of {} requests", asked.into_inner());
        drop(second);
    }
}

under_percore_and! { worker:
    /// HAProxy asks another node when one has no memory for a script. A POST is not repeated: its answer says that it has not begun.
    fn another_node_runs_the_script(mpm: Mpm) {
        if !needs::HAPROXY.is_there("another_node_runs_the_script") {
            return;
        }
        let [full, free] = [Site::new(), Site::new()];
        for site in [&full, &free] {
            site.script("say", "#!/bin/sh\necho\necho done\n");
            site.script("slow", "#!/bin/sh\nwhile [ -e ../hold ]; do sleep 0.02; done\necho\necho done\n");
        }
        full.file("hold", "");
        let more = "AdmissionMemory 16M\nAdmissionTimeout 50ms\nScriptAlias /cgi/ ${ROOT}/cgi-bin/\n\
            <Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n";
        let servers = [&full, &free].map(|site| start(mpm, site, more));
        servers[0].allow("is not started");
        let mut client = servers[0].client();
        client.send("GET /cgi/slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
        until("a running script", || (servers[0].scripts() == 1).then_some(()));
        let front = Site::new();
        let haproxy = HaProxy::start(&front, &[&full, &free], false);
        assert_eq!([(); 8].map(|()| haproxy.ask("GET", "/cgi/say").status), [200; 8]);
        let posts = [(); 8].map(|()| haproxy.ask("POST", "/cgi/say"));
        let refused = posts.iter().find(|answer| answer.status == 503).expect("half of them");
        assert!(refused.field("X-Tsubame-Not-Started").is_some() && refused.field("Retry-After").is_some(), "{refused:?}");
        std::fs::remove_file(full.root.join("hold")).expect("hold");
        assert_eq!(client.response().status, 200);
    }
}

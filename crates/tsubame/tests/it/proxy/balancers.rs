//! Balancers: which member gets a request, compared with Apache; broken members; and the page that shows and changes them.

use std::sync::atomic::Ordering;

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::oracle::{self, Apache};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, Response};
use crate::proxy::origin::Origin;

/// All members are at one server; the path tells which member was elected.
const CONFIGURATION: &str = "\
<Proxy balancer://usual>\nBalancerMember http://ORIGIN/m1 loadfactor=2 route=r1\nBalancerMember http://ORIGIN/m2 route=r2\n\
BalancerMember http://ORIGIN/m3 route=r3 loadfactor=1.5\nProxySet stickysession=SID|sid\n</Proxy>\n\
<Proxy balancer://traffic>\nBalancerMember http://ORIGIN/m1\nBalancerMember http://ORIGIN/m2 loadfactor=2.5\nProxySet lbmethod=bytraffic\n</Proxy>\n\
<Proxy balancer://busy lbmethod=bybusyness>\nBalancerMember http://ORIGIN/m1\nBalancerMember http://ORIGIN/m2 loadfactor=2\n</Proxy>\n\
<Proxy balancer://status>\nBalancerMember http://ORIGIN/m1 status=D\nBalancerMember http://ORIGIN/m2 status=+S\nBalancerMember http://ORIGIN/m3 status=+H\n\
BalancerMember http://ORIGIN/m4 status=+N route=r4\nBalancerMember http://ORIGIN/m5 status=R\nBalancerMember http://ORIGIN/m6\n</Proxy>\n\
<Proxy balancer://sets>\nBalancerMember http://ORIGIN/m1 lbset=1\nBalancerMember http://ADDR:1/m2 lbset=0 retry=100\nBalancerMember http://ORIGIN/m3 lbset=2\n</Proxy>\n\
<Proxy balancer://standby>\nBalancerMember http://ADDR:1/m1 retry=100\nBalancerMember http://ORIGIN/m2 status=+H\n</Proxy>\n\
<Proxy balancer://one>\nBalancerMember http://ADDR:1\n</Proxy>\n\
<Proxy balancer://patient>\nBalancerMember http://ADDR:1 retry=100\nProxySet forcerecovery=Off\n</Proxy>\n\
<Proxy balancer://brittle>\nBalancerMember http://ORIGIN/m1 retry=100\nBalancerMember http://ORIGIN/m2 retry=100\nProxySet failonstatus=404,204\n</Proxy>\n\
<Proxy balancer://bound>\nBalancerMember http://ORIGIN/m1 route=r1\nBalancerMember http://ORIGIN/m2 route=r2 status=D\nBalancerMember http://ORIGIN/m3 route=r3 status=D redirect=r1\nProxySet stickysession=SID nofailover=On stickysessionsep=!\n</Proxy>\n\
<Proxy balancer://whole>\nBalancerMember http://ORIGIN/m1 route=a.1\nBalancerMember http://ORIGIN/m2 route=b.2\n</Proxy>\n\
BalancerMember balancer://outside http://ORIGIN/m1\nBalancerMember balancer://Outside http://ORIGIN/m1 route=x\n\
ProxyPass /usual/ balancer://usual/\nProxyPassReverse /usual/ balancer://usual/\nProxyPassReverse /usual/sub/ balancer://usual/inner/\n\
ProxyPass /traffic balancer://traffic\nProxyPass /busy balancer://busy\nProxyPass /status balancer://status\nProxyPass /sets balancer://sets/deep\n\
ProxyPass /standby balancer://standby\nProxyPass /one balancer://one\nProxyPass /patient balancer://patient\nProxyPass /brittle balancer://brittle\n\
ProxyPass /bound balancer://bound\nProxyPass /whole balancer://whole stickysession=W stickysessionsep=Off scolonpathdelim=On\n\
ProxyPass /outside balancer://OUTSIDE\nProxyPass /none balancer://none\nProxyPass /few balancer://one maxattempts=0\n\
ProxyPass /off/ http://ORIGIN/off/ status=+D\nErrorDocument 410 /sets/gone\nRedirect gone /gone\n\
RewriteEngine On\nRewriteRule ^/rule/(.*) balancer://usual/rule/$1 [P]\n\
<Location /named>\nSetHandler \"proxy:balancer://usual/named\"\n</Location>\n\
Header set X-B \"%{BALANCER_NAME}e|%{BALANCER_WORKER_NAME}e|%{BALANCER_WORKER_ROUTE}e|%{BALANCER_SESSION_STICKY}e|%{BALANCER_SESSION_ROUTE}e|%{BALANCER_ROUTE_CHANGED}e\"\n";

/// Requests in their order, with their cookies.
fn requests() -> Vec<(String, &'static str)> {
    let mut all: Vec<(String, &str)> = Vec::new();
    let mut add = |path: &str, cookie: &'static str, times: usize| {
        for _ in 0..times {
            all.push((path.to_string(), cookie));
        }
    };
    add("/usual/a%20b?c=d", "", 12);
    add("/usual/x;sid=1.r2", "", 3);
    add("/usual/x?sid=1.r3&q", "", 2);
    add("/usual/x", "a=b; SID=foo.r2; c=d", 2);
    add("/usual/x", "XSID=foo.r1; SID=r2; SID=a.b.r2", 2);
    add("/usual/x;sid=1.r1", "SID=foo.r2", 1);
    add("/usual/x", "SID=foo.r9", 2);
    add("/usual/x;sid=.r2", "", 1);
    add("/usual/x;sid=;y", "", 1);
    add("/usual/x", "", 4);
    add("/usual/member-moved", "", 3);
    add("/traffic/x", "", 8);
    add("/traffic/long/er/path", "", 4);
    // Once: how soon a request counts as ended is chance, in Apache too.
    add("/busy/x", "", 1);
    add("/status/x", "", 8);
    add("/status/x", "SID=a.r4", 2);
    add("/sets/x", "", 4);
    add("/standby/x", "", 3);
    add("/one/x", "", 3);
    add("/patient/x", "", 3);
    add("/few/x", "", 1);
    add("/brittle/bare", "", 1);
    add("/brittle/missing", "", 1);
    add("/brittle/bare", "", 3);
    add("/brittle/nothing", "", 2);
    add("/brittle/bare", "", 2);
    add("/bound/x", "SID=foo!r1", 2);
    add("/bound/x", "SID=foo!r2", 2);
    add("/bound/x", "SID=foo!r3", 2);
    add("/bound/x", "", 2);
    add("/whole/x;W=b.2;c", "", 2);
    add("/whole/x", "W=a.1", 2);
    add("/outside/x", "", 2);
    add("/none/x", "", 1);
    add("/rule/a?b", "", 3);
    add("/named/x?y", "", 2);
    add("/off/x", "", 2);
    add("/gone", "", 2);
    add("/usual/x", "foo SID=x.r2", 1);
    all
}

/// What tells the member, and what the client and the environment learn.
fn answers(site: &Site, origin: &Origin) -> Vec<String> {
    let answer = |(path, cookie): (String, &str)| {
        let mut client = Client::connect(site.address());
        let cookie = if cookie.is_empty() { String::new() } else { format!("Cookie: {cookie}\r\n") };
        let response = client.request(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{cookie}\r\n"));
        let text = response.text();
        let elected = text.lines().next().filter(|line| line.starts_with("GET ")).unwrap_or_default();
        format!(
            "{path} {cookie}: {} {elected} {:?} {:?}",
            response.status,
            response.field("Location"),
            response.field("X-B")
        )
        .replace(&origin.address.to_string(), "ORIGIN")
        .replace(&site.ip.to_string(), "ADDR")
    };
    requests().into_iter().map(answer).collect()
}

fn configuration(site: &Site, origin: &Origin) -> String {
    CONFIGURATION.replace("ORIGIN", &origin.address.to_string()).replace("ADDR", &site.ip.to_string())
}

#[test]
fn elections_are_those_of_apache() {
    if !oracle::is_there("elections_are_those_of_apache") {
        return;
    }
    let theirs = {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let _apache = Apache::start(&site, &configuration(&site, &origin));
        answers(&site, &origin)
    };
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let server = Server::start(mpm, &site, &configuration(&site, &origin));
        server.allow_everything("the answers say what went wrong");
        let ours = answers(&site, &origin);
        let wrong: Vec<_> = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs).collect();
        assert!(wrong.is_empty(), "{mpm}: {} differences, ours and Apache's:\n{wrong:#?}", wrong.len());
    }
}

/// A member that ends its connection instead of answering is no reason for an error, as long as another one can answer a
/// request that may be sent twice; and the member gets the next requests.
#[test]
fn a_request_that_nobody_has_answered_goes_elsewhere() {
    for mpm in [Mpm::Percore, Mpm::Prefork] {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let text = format!(
            "<Proxy balancer://b>\nBalancerMember http://{0}/one/end-empty? disablereuse=on\nBalancerMember http://{0}/two?\n</Proxy>\n\
             ProxyPass /b balancer://b\n",
            origin.address
        );
        let server = Server::start(mpm, &site, &text);
        server.allow("AH01102: error reading status line from remote server");
        server.allow("AH00898: Error reading from remote server");
        let mut client = server.client();
        for _ in 0..10 {
            assert_eq!(client.get("/b/x").status, 200);
        }
        assert!(origin.requests.load(Ordering::Relaxed) >= 15, "the broken one has had its turns");
        let post =
            |client: &mut Client| client.request("POST /b/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\na");
        let statuses: Vec<u16> = (0..4).map(|_| post(&mut server.client()).status).collect();
        assert!(statuses.contains(&502) && statuses.contains(&200), "what must not be sent twice is not: {statuses:?}");
    }
}

const MANAGED: &str = "<Proxy balancer://b>\nBalancerMember http://ORIGIN/m1 route=<1>\nBalancerMember http://ORIGIN/m2\n\
    ProxySet nonce=once\n</Proxy>\nProxyPass /b balancer://b\n<Location /manager>\nSetHandler balancer-manager\n</Location>\n\
    ProxyStatus On\n<Location /status>\nSetHandler server-status\n</Location>\n<Location /metrics>\nSetHandler metrics\n</Location>\n";

/// Sends a form to the manager.
fn change(server: &Server<'_>, referer: &str, form: &str) -> Response {
    let referer = if referer.is_empty() { String::new() } else { format!("Referer: {referer}\r\n") };
    server.client().request(format!(
        "POST /manager HTTP/1.1\r\nHost: localhost\r\n{referer}Content-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n{form}",
        form.len()
    ))
}

/// The page shows the balancers, and changes them for all processes, but not for anybody.
#[test]
fn the_manager() {
    for mpm in [Mpm::Percore, Mpm::Prefork] {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let text = MANAGED.replace("ORIGIN", &origin.address.to_string());
        let server = Server::start(mpm, &site, &text);
        server.allow("Init Dis");
        let elected = || {
            let text = server.get("/b/x").text();
            text.split(' ').nth(1).expect("a path").to_string()
        };
        for path in ["/m1/x", "/m2/x", "/m1/x", "/m2/x"] {
            assert_eq!(elected(), path, "all processes count together");
        }
        let page = server.get("/manager").text();
        assert!(page.contains("balancer://b</a>") && page.contains("<td>Init Ok </td><td>2</td><td>0</td>"), "{page}");
        assert!(page.contains("<td>&lt;1&gt;</td>"), "texts are escaped");
        let member = format!("b=b&w=http%3A%2F%2F{}%2Fm1&w_status_D=1&w_lf=3", origin.address);
        let own = "http://localhost/manager";
        for (referer, form) in [
            ("", format!("{member}&nonce=once")),
            ("http://elsewhere.example/", format!("{member}&nonce=once")),
            (own, format!("{member}&nonce=wrong")),
            (own, member.clone()),
        ] {
            assert_eq!(change(&server, referer, &form).status, 200);
        }
        let asked = server
            .client()
            .request(format!("GET /manager?{member}&nonce=once HTTP/1.1\r\nHost: localhost\r\nReferer: {own}\r\n\r\n"));
        assert!(asked.text().contains("Edit worker settings for"), "a link only shows the form");
        assert_eq!([elected(), elected()], ["/m1/x", "/m2/x"], "nothing has changed");
        let page = change(&server, own, &format!("{member}&nonce=once")).text();
        assert!(page.contains("<td>3.00</td><td>0</td><td>Init Dis </td>"), "{page}");
        for _ in 0..6 {
            assert_eq!(elected(), "/m2/x");
        }
        let status = server.get("/status?auto").text();
        assert!(status.contains("ProxyBalancer[0]Worker[0]Status: Init Dis \n"), "{status}");
        let status = server.get("/status").text();
        assert!(status.contains("<h1>Proxy LoadBalancer Status for balancer://b</h1>"), "{status}");
        let metrics = server.get("/metrics").text();
        let line =
            format!("tsubame_balancer_requests_total{{balancer=\"b\",member=\"http://{}/m2\"}} ", origin.address);
        assert!(metrics.contains(&line), "{metrics}");
        let xml = server
            .client()
            .request(format!("GET /manager?xml=1 HTTP/1.1\r\nHost: localhost\r\nReferer: {own}\r\n\r\n"))
            .text();
        assert!(xml.contains("<httpd:status>Init Dis </httpd:status>") && xml.contains("<httpd:busy>0<"), "{xml}");
        assert_eq!(
            server.client().request("PUT /manager HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").status,
            405
        );
    }
}

/// Answers everything at an address until the returned value is dropped.
struct Answering(std::sync::Arc<std::sync::atomic::AtomicBool>, std::net::SocketAddr);

impl Answering {
    fn at(address: std::net::SocketAddr) -> Answering {
        let listener = std::net::TcpListener::bind(address).expect("bind");
        let ended = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = ended.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if seen.load(Ordering::Acquire) {
                    return;
                }
                drop(stream);
            }
        });
        Answering(ended, address)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        // The last connection, which ends the thread.
        let _ = std::net::TcpStream::connect(self.1);
    }
}

/// Members that do not pass their checks get no requests until they pass them again.
#[test]
fn health_checks() {
    for mpm in [Mpm::Percore, Mpm::Prefork] {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let other = std::net::SocketAddr::new(site.ip.into(), 9109);
        let text = format!(
            "ProxyHCExpr found \"%{{REQUEST_STATUS}} =~ /^4/ && hc('body') =~ /nope/\"\nProxyHCTemplate often hcmethod=GET hcinterval=100ms\n\
             <Proxy balancer://b>\nBalancerMember http://{0}/m1 hctemplate=often hcuri=/bare\n\
             BalancerMember http://{0}/m2 hctemplate=often hcuri=missing\n\
             BalancerMember http://{0}/m3 hctemplate=often hcuri=/missing hcexpr=found\n\
             BalancerMember http://{0}/m4 hctemplate=often hcmethod=HEAD11 hcuri=/page hcexpr=found\n\
             BalancerMember http://{other}/m5 hctemplate=often hcmethod=tcp hcpasses=2 hcfails=2\n\
             BalancerMember http://{0}/m6 hctemplate=often hcuri=/end-flood\n</Proxy>\n\
             ProxyPass /b balancer://b\n<Location /manager>\nSetHandler balancer-manager\n</Location>\n",
            origin.address
        );
        let server = Server::start(mpm, &site, &text);
        server.announce("AH03303: balancer://b: Health check DISABLING");
        let states = || {
            let page = server.get("/manager").text();
            let of = |member: &str| {
                let row = page.lines().find(|line| line.contains(&format!("/{member}</a>"))).unwrap_or_default();
                !row.contains("HcFl")
            };
            ["m1", "m2", "m3", "m4", "m5", "m6"].map(of)
        };
        let they_become = |want: [bool; 6]| {
            until("the states of the members", || (states() == want).then_some(()));
        };
        they_become([true, false, true, false, false, false]);
        let elected = || server.get("/b/x").text().split(' ').nth(1).expect("a path").to_string();
        let all: Vec<String> = (0..6).map(|_| elected()).collect();
        assert!(all.iter().all(|path| path == "/m1/x" || path == "/m3/x"), "{all:?}");
        let there = Answering::at(other);
        they_become([true, false, true, false, true, false]);
        drop(there);
        they_become([true, false, true, false, false, false]);
        assert!(
            server
                .get("/manager")
                .text()
                .contains("<td>GET</td><td>100ms</td><td>1</td><td>1</td><td>/bare</td><td></td>")
        );
    }
}

/// A handshake that fails, perhaps because of what a client says, sends the request elsewhere, and takes nobody out.
#[test]
fn a_failed_handshake_takes_nobody_out() {
    let site = Site::new();
    let origin = Origin::start(site.ip);
    let text = format!(
        "SSLProxyEngine on\n<Proxy balancer://b>\nBalancerMember https://{0}/one connectiontimeout=200ms\nBalancerMember http://{0}/two\n</Proxy>\n\
         ProxyPass /b balancer://b\n<Location /manager>\nSetHandler balancer-manager\n</Location>\n",
        origin.address
    );
    let server = Server::start(Mpm::Percore, &site, &text);
    server.announce("AH02003: SSL Proxy connect failed");
    server.allow("Error during SSL Handshake with remote server");
    for _ in 0..4 {
        assert_eq!(server.get("/b/bare").text(), "hi");
        // Nothing of it went out before.
        let post = server.client().request("POST /b/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\na");
        assert!(post.text().ends_with("\na"), "{}", post.text());
    }
    let page = server.get("/manager").text();
    assert_eq!(page.matches("<td>Init Ok </td>").count(), 2, "{page}");
}

//! The server as a forward proxy: what it passes on, what it refuses, and whom it asks in its turn.

use std::process::Command;

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::oracle::{self, Apache};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::Client;
use crate::proxy::origin::Origin;
use crate::proxy::secure_origin::{Authority, Manner, SecureOrigin};

/// `ORIGIN`: the address of the server that clients ask for.
const CONFIGURATION: &str = "ProxyRequests On\nProxyVia On\nAllowCONNECT 9108 1-2\nProxyBlock 127.0.0.9 badword\nProxyDomain .corp.invalid\n\
    TraceEnable On\nProxyPassReverse / http://ORIGIN/inner/\n\
    <Proxy \"*\">\nRequire ip 127\n</Proxy>\n\
    <Proxy \"http://ORIGIN/*\">\n</Proxy>\n<Proxy \"ORIGIN\">\n</Proxy>\n<Proxy \"${ADDR}:1\">\n</Proxy>\n\
    <Proxy \"http://ORIGIN/user*\">\nAuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/conf/users\nRequire valid-user\n</Proxy>\n\
    <Proxy \"http://ORIGIN/user/chain*\">\nSetEnv Proxy-Chain-Auth 1\n</Proxy>\n\
    <ProxyMatch \"/denied$\">\nRequire all denied\n</ProxyMatch>\n\
    <Location \"http://ORIGIN/place\">\nRequire all denied\n</Location>\n\
    <Location \"/\">\nHeader set X-Here 1\n</Location>\n";

/// `u:test`, and how that stands in a request.
const USERS: &str = "u:{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=\n";

/// Requests, with a bar for each line end.
const REQUESTS: &[&str] = &[
    "GET /here.txt HTTP/1.1|Host: localhost||",
    "GET http://ORIGIN/a%20b;x=%25'!/./..//?c=%25&d HTTP/1.1|Host: x||",
    "GET http://ORIGIN HTTP/1.1|Host: x||",
    "GET HTTP://ORIGIN/x HTTP/1.0|||",
    "HEAD http://ORIGIN/page HTTP/1.1|Host: x||",
    "POST http://ORIGIN/echo HTTP/1.1|Host: x|Content-Length: 3||a=b",
    "GET http://ORIGIN/moved HTTP/1.1|Host: x||",
    "GET http://ORIGIN/cookies HTTP/1.1|Host: x||",
    "GET http://ORIGIN/password HTTP/1.1|Host: x||",
    "GET http://ORIGIN/echo HTTP/1.1|Host: x|Proxy-Authorization: Basic eA==|Proxy-Connection: keep-alive|Via: 1.0 a||",
    "GET http://ORIGIN/user HTTP/1.1|Host: x|Authorization: Basic dTp0ZXN0||",
    "GET http://ORIGIN/user HTTP/1.1|Host: x|Proxy-Authorization: Basic dTp3cm9uZw==||",
    "GET http://ORIGIN/user HTTP/1.1|Host: x|Proxy-Authorization: Basic dTp0ZXN0|Authorization: Basic eA==||",
    "GET http://ORIGIN/user/chain HTTP/1.1|Host: x|Proxy-Authorization: Basic dTp0ZXN0||",
    "GET http://ORIGIN/denied HTTP/1.1|Host: x||",
    "GET http://ORIGIN/place HTTP/1.1|Host: x||",
    "GET http://ORIGIN/echo HTTP/1.1|Host: x|Max-Forwards: 3||",
    "GET http://ORIGIN/echo HTTP/1.1|Host: x|Max-Forwards: 0||",
    "TRACE http://ORIGIN/echo HTTP/1.1|Host: x|Max-Forwards: 1||",
    "TRACE http://ORIGIN/echo HTTP/1.1|Host: x|Max-Forwards: 0||",
    "GET http://short/x?y HTTP/1.1|Host: x||",
    "GET http://127.0.0.9:9108/ HTTP/1.1|Host: x||",
    "CONNECT ORIGIN HTTP/1.1|Host: ORIGIN||GET /end-close HTTP/1.0||",
    "CONNECT ORIGIN HTTP/1.0||GET /end-close HTTP/1.0||",
    "CONNECT 127.0.0.9:9108 HTTP/1.1|Host: x||",
    "CONNECT ADDR:3 HTTP/1.1|Host: x||",
    "CONNECT ADDR:1 HTTP/1.1|Host: x||",
];

fn configuration(text: &str, origin: &Origin) -> String {
    text.replace("ORIGIN", &origin.address.to_string())
}

/// Everything about the answers except what belongs to the place, or to the server's own software.
fn answers(site: &Site, origin: &Origin) -> Vec<String> {
    let replaced = |text: &str| configuration(text, origin).replace("ADDR", &site.ip.to_string()).replace('|', "\r\n");
    let answer = |request: &&str| {
        let mut client = Client::connect(site.address());
        client.send(replaced(request).replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1));
        let method = if request.starts_with("HEAD") { "HEAD" } else { "GET" };
        if request.starts_with("CONNECT") {
            client.half_close();
            return tunnelled(&client.rest().0);
        }
        let response = client.response_to(method);
        let is_page = response.field("Content-Type") == Some("text/html; charset=iso-8859-1");
        const SHOWN: [&str; 6] = ["Via", "Location", "Set-Cookie", "Proxy-Authenticate", "WWW-Authenticate", "X-Here"];
        let fields = response.fields.iter().filter(|(name, _)| SHOWN.contains(&&**name));
        let fields: Vec<_> = fields.map(|(name, value)| format!("{name}: {value}")).collect();
        let body = if is_page { String::new() } else { response.text() };
        let text = format!("{} {}\n{}\n{body}", response.status, response.reason, fields.join("\n"));
        text.replace(&origin.address.to_string(), "ORIGIN").replace(&site.ip.to_string(), "ADDR")
    };
    REQUESTS.iter().map(answer).collect()
}

/// The status of an answer to `CONNECT`, and what comes through the tunnel.
fn tunnelled(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    // Apache says that it speaks HTTP/1.0.
    let status = &head.lines().next().expect("a status line")["HTTP/1.1 ".len()..];
    format!("{status}\n{}", if status.starts_with("200 ") { body } else { "" })
}

#[test]
fn the_same_as_apache() {
    if !oracle::is_there("the_same_as_apache") {
        return;
    }
    let started = || {
        let site = Site::with([("here.txt", "here")]);
        site.file("conf/users", USERS);
        let origin = Origin::start(site.ip);
        (site, origin)
    };
    let theirs = {
        let (site, origin) = started();
        let _apache = Apache::start(&site, &configuration(CONFIGURATION, &origin));
        answers(&site, &origin)
    };
    for mpm in Mpm::chosen(test_name!()) {
        let (site, origin) = started();
        let server = Server::start(mpm, &site, &configuration(CONFIGURATION, &origin));
        server.allow_everything("the answers say what went wrong");
        for ((request, ours), theirs) in REQUESTS.iter().zip(answers(&site, &origin)).zip(&theirs) {
            assert_eq!(ours, *theirs, "{mpm}: {request}");
        }
    }
}

/// Lines after `ProxyRequests On`, and what is wrong with them.
const OPEN: &[(&str, &str)] = &[
    ("", "no <Proxy> section says who may use it"),
    ("<Proxy *>\nSetEnv A 1\n</Proxy>", "no <Proxy> section says who may use it"),
    ("<Proxy *>\nRequire all granted\n</Proxy>", "its <Proxy> sections let everybody use it"),
    ("<Proxy *>\nOrder deny,allow\nAllow from all\n</Proxy>", "its <Proxy> sections let everybody use it"),
    (
        "<Proxy *>\nRequire ip 192.0.2.1\n</Proxy>\n<ProxyMatch ^http:>\nRequire all granted\n</ProxyMatch>",
        "its <Proxy> sections let everybody use it",
    ),
    (
        "<Proxy *>\nRequire ip 192.0.2.1\nAllow from all\nSatisfy any\n</Proxy>",
        "its <Proxy> sections let everybody use it",
    ),
    (
        "<VirtualHost *:80>\n<Proxy *>\nRequire all granted\n</Proxy>\n</VirtualHost>\n<Proxy *>\nRequire ip 192.0.2.1\n</Proxy>",
        "its <Proxy> sections let everybody use it",
    ),
    ("<Proxy *>\nRequire ip 192.0.2.1\n</Proxy>", ""),
    ("<Proxy *>\nOrder deny,allow\nDeny from all\nAllow from 192.0.2.1\n</Proxy>", ""),
    ("<Proxy *>\n<RequireAll>\nRequire all granted\nRequire not ip 192.0.2.1\n</RequireAll>\n</Proxy>", ""),
    ("<Proxy http://a.invalid/>\nRequire ip 192.0.2.1\n</Proxy>", ""),
    ("<Proxy *>\nRequire ip 192.0.2.1\n</Proxy>\n<Proxy http://a.invalid/>\nRequire all granted\n</Proxy>", ""),
];

#[test]
fn an_open_proxy_does_not_start() {
    let site = Site::new();
    for (text, want) in OPEN {
        site.configure(Mpm::Event, &format!("ProxyRequests On\n{text}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
        let output = command.args(["-t", "-d", site.path(), "-f", "conf/httpd.conf"]).output().expect("run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), want.is_empty(), "{text}: {said}");
        assert!(want.is_empty() || said.contains(want) && said.contains("httpd.conf"), "{text}: {said}");
    }
}

/// A section for each backend and a file of them: the host chooses.
#[test]
fn hosts_in_a_database() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::with([("a.txt", "local")]);
        let origin = Origin::start(site.ip);
        site.file("conf/backends.txt", format!("one.invalid http://{}/\n", origin.address));
        let made = Command::new("httxt2dbm")
            .args(["-f", "SDBM", "-i"])
            .arg(site.root.join("conf/backends.txt"))
            .arg("-o")
            .arg(site.root.join("conf/backends"))
            .output();
        if !made.is_ok_and(|made| made.status.success()) {
            return;
        }
        let text = "ProxyExpressEnable On\nProxyExpressDBMFile conf/backends\nProxyExpressDBMType SDBM\n";
        let server = Server::start(mpm, &site, text);
        let ask =
            |host: &str, path: &str| server.client().request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(ask("One.invalid", "/a%20b?c").text().starts_with("GET /a%20b?c HTTP/1.1\n"), "{mpm}");
        let moved = ask("one.invalid", "/moved");
        assert_eq!(moved.field("Location"), Some("http://one.invalid/inner/there?x"), "{mpm}");
        assert_eq!(ask("two.invalid", "/a.txt").text(), "local", "{mpm}");
    }
}

/// What only this machine can reach is for no client, unless a section names it; nor is what no section speaks of.
#[test]
fn what_clients_may_not_reach() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        let origin = Origin::start(site.ip);
        let text = "ProxyRequests On\nAllowCONNECT 9108\nProxyBlock blocked\n<ProxyMatch \"^(http:|[0-9a-z.]+:9108)\">\nRequire local\n</ProxyMatch>\n\
                    <Proxy \"http://ORIGIN/named\">\n</Proxy>\nProxyPass /app http://ORIGIN/\n";
        let server = Server::start(mpm, &site, &configuration(text, &origin).replace("/named", ":80/named"));
        let (to, own) = (origin.address, site.address());
        let blocked = "AH00898: Connect to remote machine blocked";
        for (request, why) in [
            (format!("GET http://{to}/"), "is this machine"),
            (format!("GET http://localhost:{}/", to.port()), "is this machine"),
            (format!("GET http://{own}/"), "is this machine"),
            (format!("CONNECT {to}"), "is this machine"),
            ("GET http://169.254.169.254/latest".into(), "is on this machine's link"),
            ("GET http://[::1]/".into(), "is this machine"),
            ("GET http://www.blocked.invalid/".into(), blocked),
        ] {
            server.announce(why);
            server.announce(blocked);
            let response = server.client().request(format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n"));
            assert_eq!((response.status, &*response.reason), (403, "Proxy Error"), "{mpm}: {request}");
        }
        server.announce("no <Proxy> section says who may use the proxy for https://a.invalid/");
        let response = server.client().request("GET https://a.invalid/ HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(response.status, 403, "{mpm}");
        assert_eq!(server.get("/app/bare").text(), "hi", "a reverse proxy is for this");
    }
}

/// Two proxies in a row: the first asks the second one, for requests and for tunnels.
#[test]
fn through_another_proxy() {
    let authority = Authority::new("authority");
    for mpm in Mpm::chosen(test_name!()) {
        let (near, far) = (Site::new(), Site::new());
        let origin = Origin::start(far.ip);
        let manner = Manner::tls(&authority.made(7, &[&far.ip.to_string()], (2020, 2120)), None);
        let secure = SecureOrigin::start(far.ip, 0, manner);
        far.file("conf/users", USERS);
        let text = format!(
            "ProxyRequests On\nProxyVia On\nAllowCONNECT 9000-9200\n<Proxy \"*\">\nAuthType Basic\nAuthName x\nAuthUserFile ${{ROOT}}/conf/users\n<RequireAll>\nRequire ip 127.0.0.77\nRequire valid-user\n</RequireAll>\n</Proxy>\n\
             <Proxy \"http://{0}/*\">\n</Proxy>\n<Proxy \"{0}\">\n</Proxy>\n<Proxy \"{1}\">\n</Proxy>\n",
            origin.address, secure.address
        );
        let behind = Server::start(mpm, &far, &text);
        behind.allow_everything("its answers go through the first one");
        near.file("conf/ca.pem", &authority.pem);
        let text = format!(
            "ProxyRequests On\nProxyVia On\nAllowCONNECT 9108\n<Proxy \"*\">\nRequire local\n</Proxy>\n\
             ProxySourceAddress 127.0.0.77\nNoProxy 127.0.0.8/29 .direct.invalid\nProxyRemote * http://{} u:test\nSSLProxyEngine on\nSSLProxyVerify require\nSSLProxyCACertificateFile conf/ca.pem\n\
             ProxyPass /app/ http://{}/inner/ disablereuse=on\nProxyPass /secure/ https://{}/\n",
            far.address(),
            origin.address,
            secure.address
        );
        let server = Server::start(mpm, &near, &text);
        let to = origin.address;
        let response = server.client().request(format!("GET http://{to}/a?b HTTP/1.1\r\nHost: x\r\n\r\n"));
        let text = response.text();
        assert!(text.starts_with("GET /a?b HTTP/1.1\n"), "{mpm}: {text}");
        assert_eq!(text.matches("1.1 localhost").count(), 2, "{mpm}: {text}");
        assert!(!text.contains("Proxy-Authorization"), "{mpm}: {text}");
        // A reverse proxy asks it as well.
        assert!(server.get("/app/x").text().starts_with("GET /inner/x HTTP/1.1\n"), "{mpm}");
        assert_eq!(server.get("/secure/ended").text(), "until the end", "{mpm}");
        let mut client = server.client();
        client.send(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\nGET /end-close HTTP/1.0\r\n\r\n"));
        client.half_close();
        let (bytes, _) = client.rest();
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            text.starts_with("HTTP/1.1 200 Connection Established\r\n") && text.ends_with("\r\n\r\nuntil the end"),
            "{mpm}: {text}"
        );
        // The second one opens no tunnel to this port.
        server.announce("opens no tunnel to 127.0.0.7:9108: it answers 403");
        let response = server.client().request("CONNECT 127.0.0.7:9108 HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(response.status, 502, "{mpm}");
        // And is not asked for this host.
        server.announce("127.0.0.9 is this machine");
        server.announce("AH00898: Connect to remote machine blocked");
        let response = server.client().request("GET http://127.0.0.9/ HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(response.status, 403, "{mpm}");
    }
}

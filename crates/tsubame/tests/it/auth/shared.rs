//! State that several servers share, and what is left when its store is gone, frozen, full, or begins anew.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustls::RootCertStore;

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::object_servers::{ObjectServer, REDIS_PORT, REDIS_TLS_PORT};
use crate::harness::server::{Server, Start};
use crate::harness::site::{PORT, Site};
use crate::harness::tls::{self, Secure};
use crate::harness::wait::until;
use crate::harness::wire::Response;

const PASSWORD: &str = "a password of the store";
/// How long a server waits for the store.
const PATIENCE: Duration = Duration::from_secs(2);

/// A store, with a certificate and a password.
struct Store {
    site: Site,
    running: Option<ObjectServer>,
}

impl Store {
    fn new() -> Store {
        let site = Site::new();
        let made = rcgen::generate_simple_self_signed([site.address().ip().to_string()]).expect("a certificate");
        site.file("tls.pem", made.cert.pem());
        site.file("tls.key", made.signing_key.serialize_pem());
        let mut store = Store { site, running: None };
        store.begin();
        store
    }

    /// Starts it, with nothing in it.
    fn begin(&mut self) {
        self.running = None;
        let file = |name: &str| format!("{}/{name}", self.site.path());
        let (port, certificate, key) = (REDIS_TLS_PORT.to_string(), file("tls.pem"), file("tls.key"));
        self.running = Some(ObjectServer::redis_with(
            &self.site,
            &[
                ["--tls-port", &port],
                ["--tls-cert-file", &certificate],
                ["--tls-key-file", &key],
                ["--tls-auth-clients", "no"],
                ["--requirepass", PASSWORD],
                ["--maxmemory-policy", "noeviction"],
            ]
            .concat(),
        ));
    }

    /// Tells it something.
    fn tell(&self, command: &str) {
        let mut stream = TcpStream::connect((self.site.address().ip(), REDIS_PORT)).expect("the store");
        write!(stream, "AUTH \"{PASSWORD}\"\r\n{command}\r\n").expect("told");
        let mut reply = Vec::new();
        while reply.iter().filter(|byte| **byte == b'\n').count() < 2 {
            let mut piece = [0; 64];
            let length = stream.read(&mut piece).expect("a reply");
            reply.extend_from_slice(&piece[..length]);
        }
        assert_eq!(String::from_utf8_lossy(&reply), "+OK\r\n+OK\r\n", "{command}");
    }

    /// How many scripts it has run.
    fn evals(&self) -> usize {
        let mut stream = TcpStream::connect((self.site.address().ip(), REDIS_PORT)).expect("the store");
        write!(stream, "AUTH \"{PASSWORD}\"\r\nINFO commandstats\r\nQUIT\r\n").expect("told");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("a reply");
        let line = reply.lines().find_map(|line| line.strip_prefix("cmdstat_eval:calls="));
        line.map_or(0, |line| line.split(',').next().expect("a number").parse().expect("a number"))
    }

    /// Makes it do without memory, or have enough.
    fn fill(&self, fills: bool) {
        self.tell(&format!("CONFIG SET maxmemory {}", if fills { 1 } else { 0 }));
    }

    fn freeze(&self, stops: bool) {
        self.running.as_ref().expect("a store").freeze(stops);
    }

    /// Lines of a server that uses it.
    fn lines(&self, site: &Site) -> String {
        let password = site.file("conf/redis.password", format!("{PASSWORD}\n"));
        format!(
            "RedisTLS on\nRedisCACertificateFile {}/tls.pem\nRedisPasswordFile {}\nRedisTimeout {}ms\n",
            self.site.path(),
            password.display(),
            PATIENCE.as_millis()
        )
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::new(self.site.address().ip(), REDIS_TLS_PORT)
    }
}

fn get(server: &Server<'_>, path: &str, fields: &str) -> Response {
    server.client().request(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
}

fn statuses(server: &Server<'_>, path: &str, count: usize) -> Vec<u16> {
    (0..count).map(|_| get(server, path, "").status).collect()
}

/// Two servers with one configuration, in which `%STORE` is the store.
fn servers<'a>(mpm: Mpm, sites: &'a [Site; 2], store: &Store, configuration: &str) -> [Server<'a>; 2] {
    sites.each_ref().map(|site| {
        let text = store.lines(site) + &configuration.replace("%STORE", &format!("redis:{}", store.address()));
        let server = Server::start(mpm, site, &text);
        server.allow("limits its clients alone meanwhile");
        server.allow("SessionSocache is out of reach");
        server.allow("AH01816: error while loading the session");
        server.allow("AH01822: error while saving the session");
        server
    })
}

/// Far more than a request may take whose server waits for the store twice or thrice.
const LATE: Duration = Duration::from_secs(20);

const LIMITS: &str = "ClientLimitStore %STORE\n<Location /a>\nClientLimit 1/d burst=4\n</Location>\n\
    <Location /b>\nClientLimit 1/d burst=4\n</Location>\n<Location /c>\nClientLimit 1/d burst=4\n</Location>\n\
    <Location /d>\nClientLimit 1/d burst=4\n</Location>\n<Location /e>\nClientLimit 1/d burst=4\n</Location>\n\
    <Location /staff>\nAuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/users\nRequire valid-user\n\
    ClientLimit 1/d burst=2 of=failed-logins\n</Location>\n";

const SESSIONS: &str = "SessionSocache %STORE\n<Location /shop>\nAuthType form\nAuthName x\nAuthUserFile ${ROOT}/users\n\
    AuthFormProvider file\nSession On\nSessionSocacheCookieName s path=/\nRequire valid-user\n</Location>\n\
    ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n\
    <Location /cgi>\nSession On\nSessionEnv On\nSessionHeader X-Session\nSessionMaxAge 1000\nSessionSocacheCookieName s path=/\n\
    </Location>\n<Location /out>\nAuthName x\nSession On\nSessionSocacheCookieName s path=/\nSetHandler form-logout-handler\n\
    AuthFormLogoutLocation /bye\n</Location>\n";

fn sites() -> [Site; 2] {
    [(); 2].map(|()| {
        let site = Site::new();
        for name in ["a", "b", "c", "d", "e", "staff", "shop"] {
            site.page(&format!("{name}/page"), "hello\n");
        }
        site.file("users", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n");
        site.script("slow", "#!/bin/sh\nwhile [ -e ../hold ]; do sleep 0.02; done\necho\necho done\n");
        site.script("change", "#!/bin/sh\necho \"X-Session: n=$QUERY_STRING\"\necho\nprintf '%s' \"$HTTP_SESSION\"\n");
        site
    })
}

/// Logs in with a form. Returns the status, and the cookie with the session's key.
fn log_in(server: &Server<'_>) -> (u16, Option<String>) {
    let body = "httpd_username=ann&httpd_password=secret";
    let response = server.client().request(format!(
        "POST /shop/page HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let cookie = response.field("Set-Cookie").and_then(|value| value.split(';').next()).map(str::to_string);
    (response.status, cookie)
}

/// Whether a client with this session sees the page; a server that has to wait for the store does so for a bounded time.
fn is_known(server: &Server<'_>, cookie: &str) -> bool {
    let began = Instant::now();
    let response = get(server, "/shop/page", &format!("Cookie: {cookie}\r\n"));
    assert!(began.elapsed() < LATE, "{:?}", began.elapsed());
    assert!([200, 401].contains(&response.status), "{response:?}");
    response.status == 200
}

under_percore_and! { prefork:
    /// A limit of two servers is one limit. Without the store, each has its own; nobody gets past it.
    fn limits(mpm: Mpm) {
        if !needs::REDIS.is_there("limits") {
            return;
        }
        let (mut store, sites) = (Store::new(), sites());
        let [one, other] = servers(mpm, &sites, &store, LIMITS);
        for server in [&one, &other] {
            server.allow("AH01617: user ann: authentication failure");
        }
        let both = |path: &str| (statuses(&one, path, 3), statuses(&other, path, 3));
        assert_eq!(both("/a/page"), (vec![200; 3], vec![200, 429, 429]));
        let refused = get(&other, "/a/page", "");
        let wait: u64 = refused.field("Retry-After").expect("a time").parse().expect("seconds");
        assert!((86_000..=86_400).contains(&wait), "{wait}");
        let wrong = "Authorization: Basic YW5uOndyb25n\r\n";
        assert_eq!([&one, &other, &one, &other].map(|server| get(server, "/staff/page", wrong).status), [401, 401, 429, 429]);

        // What this server has seen still counts.
        assert_eq!(statuses(&one, "/b/page", 2), [200; 2]);
        store.running = None;
        let began = Instant::now();
        assert_eq!((statuses(&one, "/b/page", 3), statuses(&other, "/b/page", 5)), (vec![200, 200, 429], vec![200, 200, 200, 200, 429]));
        assert!(began.elapsed() < LATE, "{:?}", began.elapsed());
        assert!(one.log().matches("ClientLimitStore: this server limits its clients alone").count() > 0);

        store.begin();
        until("the new store is used", || {
            let field = get(&one, "/c/page", "").status;
            (field == 429).then_some(())
        });
        store.freeze(true);
        let began = Instant::now();
        assert_eq!(both("/d/page"), (vec![200; 3], vec![200; 3]));
        assert!(began.elapsed() < LATE, "{:?}", began.elapsed());
        store.freeze(false);
        store.fill(true);
        assert_eq!((statuses(&one, "/e/page", 5), statuses(&other, "/e/page", 5)), (vec![200, 200, 200, 200, 429], vec![200, 200, 200, 200, 429]));
    }

    /// However many limits a request meets, the store is asked once.
    fn several_limits_are_one_question(mpm: Mpm) {
        if !needs::REDIS.is_there("several_limits_are_one_question") {
            return;
        }
        let (store, sites) = (Store::new(), sites());
        let lines = "<Location /a>\nClientLimit 1/d burst=3\nClientLimit 1/d burst=1 only-log by=network\nClientLimit 1/d burst=6\n\
            ClientLimit 1/d burst=9 of=failed-logins\n</Location>\n<Location /b>\nClientLimit 1/d burst=2\n</Location>\n";
        let [one, other] = servers(mpm, &sites, &store, &format!("ClientLimitStore %STORE\n{lines}"));
        assert_eq!((statuses(&one, "/a/page", 1), store.evals()), (vec![200], 1));
        assert_eq!((statuses(&other, "/a/page", 4), store.evals()), (vec![200, 200, 429, 429], 4));
        // The first server has room for two more, and the store for none.
        assert_eq!((statuses(&one, "/a/page", 3), store.evals()), (vec![429; 3], 6));
        let answer = get(&one, "/b/page", "");
        assert_eq!((answer.status, store.evals()), (200, 7));
    }

    /// What one server has sent, the other counts too; what did not arrive is given back.
    fn bytes(mpm: Mpm) {
        if !needs::REDIS.is_there("bytes") {
            return;
        }
        let (store, sites) = (Store::new(), sites());
        for site in &sites {
            site.page("a/large", [b'x'; 200_000]);
            site.page("b/large", vec![b'x'; 20_000_000]);
        }
        let lines = "<Location /a>\nClientLimit 1K/h burst=500K of=bytes\n</Location>\n\
            <Location /b>\nClientLimit 1K/h burst=15M of=bytes only-log\nHeader set X-Limited %{CLIENT_LIMITED}e env=CLIENT_LIMITED\n</Location>\n";
        let [one, other] = servers(mpm, &sites, &store, &format!("ClientLimitStore %STORE\n{lines}"));
        assert_eq!(statuses(&one, "/a/large", 3), [200; 3]);
        let refused = until("a refusal", || Some(get(&other, "/a/page", "")).filter(|answer| answer.status == 429));
        let wait: u64 = refused.field("Retry-After").expect("a time").parse().expect("seconds");
        assert!((80 * 3600..120 * 3600).contains(&wait), "{wait}");

        let is_ahead = || get(&other, "/b/page", "").field("X-Limited").is_some();
        assert!(!is_ahead());
        let mut client = one.client();
        client.send("GET /b/large HTTP/1.1\r\nHost: localhost\r\n\r\n");
        until("what is on its way", || is_ahead().then_some(()));
        client.reset();
        until("what came back", || (!is_ahead()).then_some(()));
    }

    /// Who has logged in at one server is known to the other, until he logs out anywhere. Without the store, nobody is known.
    fn sessions(mpm: Mpm) {
        if !needs::REDIS.is_there("sessions") {
            return;
        }
        let (mut store, sites) = (Store::new(), sites());
        let [one, other] = servers(mpm, &sites, &store, SESSIONS);
        let (status, cookie) = log_in(&one);
        let cookie = cookie.expect("a session");
        assert_eq!(status, 200);
        assert!(is_known(&one, &cookie) && is_known(&other, &cookie) && !is_known(&other, "s=0a0b0c0d-0000-4000-8000-000000000000"));
        assert_eq!(get(&other, "/out", &format!("Cookie: {cookie}\r\n")).status, 307);
        assert!(!is_known(&one, &cookie) && !is_known(&other, &cookie), "the session is over everywhere");

        // A request under way when its session ends does not bring the session back.
        let cookie = log_in(&other).1.expect("a session");
        sites[0].file("hold", "");
        let mut client = one.client();
        client.send(format!("GET /cgi/slow HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n"));
        until("a running script", || (one.scripts() == 1).then_some(()));
        assert_eq!(get(&other, "/out", &format!("Cookie: {cookie}\r\n")).status, 307);
        std::fs::remove_file(sites[0].root.join("hold")).expect("hold");
        assert_eq!(client.response().field("Set-Cookie"), None);
        assert!(!is_known(&one, &cookie) && !is_known(&other, &cookie));

        // A changed session has a new key, and requests with the old one still find it for a moment.
        let cookie = log_in(&other).1.expect("a session");
        let changed = get(&one, "/cgi/change?1", &format!("Cookie: {cookie}\r\n"));
        let next = changed.field("Set-Cookie").and_then(|value| value.split(';').next()).expect("a new key");
        assert!(next != cookie && is_known(&other, next) && is_known(&other, &cookie));
        let seen = get(&other, "/cgi/change?2", &format!("Cookie: {cookie}\r\n"));
        assert!(seen.text().contains("n=1"), "{seen:?}");
        assert_eq!(get(&other, "/out", &format!("Cookie: {}\r\n", seen.field("Set-Cookie").expect("a key").split(';').next().expect("a key"))).status, 307);
        assert!(!is_known(&one, &cookie) && !is_known(&one, next));

        let cookie = log_in(&other).1.expect("a session");
        store.freeze(true);
        assert_eq!(get(&other, "/out", &format!("Cookie: {cookie}\r\n")).status, 503, "the session goes on");
        assert!(!is_known(&one, &cookie) && !is_known(&other, &cookie));
        store.freeze(false);
        until("the store is used again", || (is_known(&one, &cookie) && is_known(&other, &cookie)).then_some(()));
        store.fill(true);
        assert_eq!(log_in(&one).1, None, "a session that is not stored is not promised");
        assert!(is_known(&one, &cookie));
        store.running = None;
        assert!(!is_known(&one, &cookie));
        store.begin();
        until("a new session", || {
            let cookie = log_in(&one).1?;
            is_known(&other, &cookie).then_some(())
        });
        assert!(!is_known(&one, &cookie), "a store that begins anew knows nobody");
    }
}

/// A store that cannot show who it is, or does not know us, gets nothing to keep.
#[test]
fn a_store_is_checked() {
    if !needs::REDIS.is_there("a_store_is_checked") {
        return;
    }
    let store = Store::new();
    let impostor = rcgen::generate_simple_self_signed(["192.0.2.1".to_string()]).expect("a certificate");
    let authority = format!("{}/tls.pem", store.site.path());
    for (changed, instead, why) in [
        (authority.as_str(), "${ROOT}/other.pem", "no encryption: invalid peer certificate"),
        (
            "RedisPasswordFile",
            "RedisPasswordFile ${ROOT}/wrong\nDefine UNUSED ",
            "log-in: it answers with the error WRONGPASS",
        ),
        ("RedisPasswordFile", "Define UNUSED ", "the error NOAUTH"),
    ] {
        let [site, _] = sites();
        site.file("other.pem", impostor.cert.pem());
        site.file("wrong", "a wrong password\n");
        let lines = store.lines(&site).replace(changed, instead);
        let text = lines + &SESSIONS.replace("%STORE", &format!("redis:{}", store.address()));
        let server = Server::start(Mpm::Percore, &site, &text);
        for part in ["SessionSocache is out of reach", "AH01816", "AH01822"] {
            server.allow(part);
        }
        assert_eq!(log_in(&server).1, None, "{instead}");
        assert!(server.logged("SessionSocache is out of reach").contains(why), "{}", server.log());
    }
}

/// What would have no effect, or could not be read, is an error before the server starts.
#[test]
fn settings_of_a_store_are_checked() {
    let site = Site::new();
    site.file("empty", "\n");
    for (lines, why) in [
        ("RedisCACertificateFile ca.pem", "RedisCACertificateFile has no effect without RedisTLS on"),
        ("RedisUser joe", "RedisUser has no effect without RedisPasswordFile"),
        ("RedisPasswordFile missing", "missing: (2)No such file or directory"),
        ("RedisPasswordFile empty", "its first line is empty"),
        ("RedisTLS on\nRedisCACertificateFile empty", "RedisCACertificateFile"),
        ("<VirtualHost *:80>\nRedisTLS on\n</VirtualHost>", "RedisTLS"),
        (
            "<Location /a>\nSessionSocacheCookieName s path=/\n</Location>",
            "SessionSocacheCookieName has no effect without SessionSocache",
        ),
    ] {
        site.configure(Mpm::Percore, lines);
        let output = Start::new(&site, Mpm::Percore).arguments(&["-t"]).command().output().expect("run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{lines}: {said}");
    }
}

/// TLS sessions need no store, but a secret in a file.
#[test]
fn tls_sessions() {
    let sites = sites();
    let made = rcgen::generate_simple_self_signed([tls::NAME.to_string()]).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let config = tls::trusting(roots);
    let servers = sites.each_ref().map(|site| {
        site.file("tickets", [7; 48]);
        site.file("tls.pem", made.cert.pem());
        site.file("tls.key", made.signing_key.serialize_pem());
        let text = format!(
            "<VirtualHost *:{PORT}>\nServerName localhost\nSSLEngine on\nSSLCertificateFile ${{ROOT}}/tls.pem\n\
             SSLCertificateKeyFile ${{ROOT}}/tls.key\nSSLSessionTicketKeyFile ${{ROOT}}/tickets\n\
             Header set X-Resumed %{{SSL_SESSION_RESUMED}}s\n</VirtualHost>\n"
        );
        Server::start(Mpm::Percore, site, &text)
    });
    let resumed = servers.each_ref().map(|server| {
        let answer = Secure::to(server.address(), &config).get("/a/page");
        answer.lines().find_map(|line| line.strip_prefix("X-Resumed: ").map(str::to_string)).expect("a field")
    });
    assert_eq!(resumed, ["Initial", "Resumed"]);
}

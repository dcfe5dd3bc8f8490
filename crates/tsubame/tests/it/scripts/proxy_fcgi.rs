//! Requests that mod_proxy passes on to running FastCGI servers: PHP-FPM, and a test server that misbehaves.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::harness::mpm::{Mpm, test_name, under_every_mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::server::{Server, Start};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Response;
use crate::scripts::fcgid::{megabytes, post};

/// A program that a test has started, which ends with it.
pub struct Program(Child);

impl Program {
    /// Starts it and waits until its socket is there.
    pub fn start(command: &mut Command, socket: &Path) -> Program {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start");
        let mut program = Program(child);
        until(&format!("{}", socket.display()), || {
            assert_eq!(program.0.try_wait().expect("wait"), None, "{command:?}");
            UnixStream::connect(socket).ok()
        });
        open(socket);
        program
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // So that what it has started ends with it.
        let pid = i32::try_from(self.0.id()).ok().and_then(sys::process::Pid::new);
        let _ = pid.map(|pid| pid.kill(sys::signal::Signal::TERM));
        let _ = self.0.wait();
    }
}

/// The server, which runs as somebody else, may connect.
pub fn open(socket: &Path) {
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o222)).expect("mode");
}

/// Prints its input, and the sum of its body.
const TELL: &str = "<?php $sum = 0; $in = file_get_contents('php://input');
foreach (count_chars($in, 1) as $byte => $count) { $sum += $byte * $count; }
if (isset($_GET['log'])) { error_log($_GET['log']); }
echo implode('|', [$_SERVER['REQUEST_METHOD'], $_SERVER['SCRIPT_NAME'], $_SERVER['PATH_INFO'] ?? '-', $_SERVER['QUERY_STRING'], strlen($in), $sum]);
header('X-Pid: ' . getmypid());
if (isset($_GET['wait'])) {
    $mark = $_SERVER['DOCUMENT_ROOT'] . '/../marks/' . $_GET['wait'];
    file_put_contents($mark . '.tmp', getmypid());
    rename($mark . '.tmp', $mark . '.in');
    while (!file_exists($mark . '.go')) { usleep(3000); clearstatcache(); }
}
";

/// As Debian's conf-available/php8.2-fpm.conf has it.
const BY_HANDLER: &str = "<FilesMatch \".+\\.ph(?:ar|p|tml)$\">\nSetHandler \"proxy:unix:${ROOT}/run/fpm.sock|fcgi://localhost\"\n</FilesMatch>\n";

/// A place with a page, and PHP-FPM with so many processes.
fn fpm(test: &str, processes: usize) -> Option<(Site, Program)> {
    if !needs::FPM.is_there(test) {
        return None;
    }
    let site = Site::new();
    site.page("a.php", TELL);
    site.marks();
    let root = site.path();
    let file = site.file(
        "conf/fpm.conf",
        format!(
            "[global]\nerror_log = {root}/logs/fpm\n[www]\nuser = www-data\ngroup = www-data\nlisten = {root}/run/fpm.sock\n\
             listen.mode = 0666\npm = static\npm.max_children = {processes}\nphp_admin_flag[log_errors] = on\n"
        ),
    );
    let mut command = Command::new(needs::FPM_PROGRAM);
    command.arg("-F").arg("-R").arg("-y").arg(file);
    let program = Program::start(&mut command, &site.root.join("run/fpm.sock"));
    Some((site, program))
}

fn chunked(server: &Server<'_>, path: &str, body: &[u8]) -> Response {
    let mut bytes =
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
    for piece in body.chunks(50_000) {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    server.client().request(bytes)
}

under_percore_and! { worker:
    /// A look-up sees what a backend would serve, whichever directive names the backend.
    fn indexes_that_a_backend_serves(mpm: Mpm) {
        let Some((site, _fpm)) = fpm("indexes_that_a_backend_serves", 1) else { return };
        site.page("index.php", TELL);
        site.page("d/index.php", TELL);
        site.page("d/index.html", "not asked first\n");
        let socket = "unix:${ROOT}/run/fpm.sock|fcgi://localhost${DOCS}";
        for by in [
            format!("ProxyPassMatch \"^/(.*\\.php(/.*)?)$\" \"{socket}/$1\""),
            format!("RewriteEngine On\nRewriteRule \"^/(.*\\.php)$\" \"{socket}/$1\" [P]"),
        ] {
            let text = format!("{by}\n<Directory ${{DOCS}}>\nDirectoryIndex index.php index.html\nFallbackResource /a.php\n</Directory>");
            let server = Server::start(mpm, &site, &text);
            for (path, name) in [("/a.php", "/a.php"), ("/", "/index.php"), ("/d/", "/d/index.php"), ("/none/x", "/a.php")] {
                assert_eq!(server.get(path).text(), format!("GET|{name}|-||0|0"), "{path}: {by}");
            }
        }
    }

    /// A rule in a section names a socket as one of the server does: the bar in the name is not a part of a path.
    fn a_socket_in_a_section(mpm: Mpm) {
        let Some((site, _fpm)) = fpm("a_socket_in_a_section", 1) else { return };
        let rule = "RewriteRule \"^(.*\\.php)$\" \"unix:${ROOT}/run/fpm.sock|fcgi://localhost${DOCS}/$1\" [P]";
        let text = format!("<Directory ${{DOCS}}>\nRewriteEngine On\n{rule}\n</Directory>");
        let server = Server::start(mpm, &site, &text);
        assert_eq!(server.get("/a.php?q=1").text(), "GET|/a.php|-|q=1|0|0");
    }

    /// A server behind a socket needs no name (Debian's sympa has none).
    fn servers_without_a_name(mpm: Mpm) {
        for name in ["fcgi://", "fcgi:"] {
            let Some((site, _fpm)) = fpm("servers_without_a_name", 1) else { return };
            let server = Server::start(mpm, &site, &BY_HANDLER.replace("fcgi://localhost", name));
            assert_eq!(server.get("/a.php?q=1").text(), "GET|/a.php|-|q=1|0|0", "{name}");
        }
    }

    /// A page with all that it can be told, whichever directive names the server.
    fn pages_of_php_fpm(mpm: Mpm) {
        let Some((site, _fpm)) = fpm("pages_of_php_fpm", 2) else { return };
        let text = format!("{BY_HANDLER}ProxyPassMatch \"^/by/(.*\\.php(/.*)?)$\" \"unix:${{ROOT}}/run/fpm.sock|fcgi://localhost${{DOCS}}/$1\"\n");
        let server = Server::start(mpm, &site, &text);
        let body = megabytes(1);
        let sum: u64 = body.iter().copied().map(u64::from).sum();
        for (path, name) in [("/a.php", "/a.php"), ("/by/a.php", "/by/a.php")] {
            assert_eq!(server.get(&format!("{path}?q=1&r=%20")).text(), format!("GET|{name}|-|q=1&r=%20|0|0"));
            assert_eq!(server.get(&format!("{path}/x/y?q")).text(), format!("GET|{name}|/x/y|q|0|0"));
            assert_eq!(post(&server, &format!("{path}/p"), &body).text(), format!("POST|{name}|/p||1000000|{sum}"));
            assert_eq!(chunked(&server, path, &body).text(), format!("POST|{name}|-||1000000|{sum}"));
            assert_eq!(chunked(&server, path, b"abc").text(), format!("POST|{name}|-||3|294"));
            assert_eq!(post(&server, path, b"").text(), format!("POST|{name}|-||0|0"));
        }
        server.announce("AH01071: Got error 'PHP message: look-out'");
        assert_eq!(server.get("/a.php?log=look-out").status, 200);
        server.allow("AH01071: Got error 'Primary script unknown'");
        assert_eq!(server.get("/by/none.php").status, 404);
        assert_eq!(server.get("/none.php").status, 404);
        until("the line", || server.log().contains("PHP message: look-out").then_some(()));
    }
}

under_every_mpm! {
    /// A connection that is kept occupies a process of FPM: requests that cannot go over it do not wait for it.
    fn kept_connections_hold_nobody_up(mpm: Mpm) {
        let Some((site, _fpm)) = fpm("kept_connections_hold_nobody_up", 1) else { return };
        let text = format!("{BY_HANDLER}<Proxy \"unix:${{ROOT}}/run/fpm.sock|fcgi://localhost\" enablereuse=on>\n</Proxy>\nProxyTimeout 10\n");
        let server = Server::start(mpm, &site, &text);
        let mut client = server.client();
        for _ in 0..3 {
            assert_eq!(client.get("/a.php").text(), "GET|/a.php|-||0|0");
            assert_eq!(client.get("/a.php").text(), "GET|/a.php|-||0|0");
            let head = "POST /a.php HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc";
            assert_eq!(client.request(head).text(), "POST|/a.php|-||3|294");
        }
    }
}

/// The same with two processes and more requests at once than that, in one child, which has kept connections to both.
#[test]
fn requests_at_once_find_kept_connections() {
    let Some((site, _fpm)) = fpm("requests_at_once_find_kept_connections", 2) else { return };
    for mpm in [Mpm::Event, Mpm::Worker] {
        let text = format!(
            "{BY_HANDLER}<Proxy \"unix:${{ROOT}}/run/fpm.sock|fcgi://localhost\" enablereuse=on>\n</Proxy>\nProxyTimeout 10\n\
             ServerLimit 1\nStartServers 1\nMinSpareThreads 1\nThreadsPerChild 10\nMaxRequestWorkers 10\n"
        );
        let server = Server::start(mpm, &site, &text);
        let marks = [format!("{mpm}1"), format!("{mpm}2")];
        let mut clients: Vec<_> = marks
            .iter()
            .map(|mark| {
                let mut client = server.client();
                client.send(crate::harness::wire::get(&format!("/a.php?wait={mark}")));
                client
            })
            .collect();
        let processes: Vec<i32> = marks.iter().map(|mark| site.reached(mark)).collect();
        assert_ne!(processes[0], processes[1]);
        marks.iter().for_each(|mark| site.go_on(mark));
        clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
        let mut clients: Vec<_> = (0..6)
            .map(|_| {
                let mut client = server.client();
                client.send("POST /a.php HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
                client
            })
            .collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.response().text(), "POST|/a.php|-||3|294"));
    }
}

/// A FastCGI server that does what the query says, each connection in a thread of its own. For a request on which it is silent
/// something comes out twice: when it is there, and when its connection has ended.
pub fn puppet(socket: &Path) -> Receiver<()> {
    let listener = UnixListener::bind(socket).expect("bind");
    open(socket);
    let (gone, all_gone) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let gone = gone.clone();
            std::thread::spawn(move || serve(stream, &gone));
        }
    });
    all_gone
}

/// Writes one record of request 1.
fn record(stream: &mut UnixStream, kind: u8, content: &[u8]) {
    let [high, low] = u16::try_from(content.len()).expect("a length").to_be_bytes();
    let _ = stream.write_all(&[&[1, kind, 0, 1, high, low, 0, 0], content].concat());
}

/// A length before a name or a value.
fn length(bytes: &mut &[u8]) -> usize {
    let count = if bytes[0] < 128 { 1 } else { 4 };
    let (head, rest) = bytes.split_at(count);
    *bytes = rest;
    head.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)) & 0x7fff_ffff
}

/// The variables of a request, once its body has ended. `None`: there is no request.
fn variables(stream: &mut UnixStream) -> Option<BTreeMap<String, String>> {
    let (mut head, mut params) = ([0; 8], Vec::new());
    loop {
        stream.read_exact(&mut head).ok()?;
        let size = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let mut content = vec![0; size + usize::from(head[6])];
        stream.read_exact(&mut content).ok()?;
        match head[1] {
            4 => params.extend_from_slice(&content[..size]),
            5 if size == 0 => break,
            _ => {}
        }
    }
    let (mut rest, mut variables) = (&params[..], BTreeMap::new());
    while !rest.is_empty() {
        let (name, value) = (length(&mut rest), length(&mut rest));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        variables.insert(text(&rest[..name]), text(&rest[name..name + value]));
        rest = &rest[name + value..];
    }
    Some(variables)
}

fn serve(mut stream: UnixStream, gone: &Sender<()>) {
    let Some(variables) = variables(&mut stream) else { return };
    let end = |stream: &mut UnixStream| record(stream, 3, &[0; 8]);
    match variables.get("QUERY_STRING").map(String::as_str) {
        Some("close") => {}
        Some("rubbish") => drop(stream.write_all(b"rubbish rubbish rubbish")),
        Some("half") => record(&mut stream, 6, b"Content-Type: text/plain\n\nhalf"),
        Some("header") => {
            record(&mut stream, 6, b"no header\n\n");
            end(&mut stream);
        }
        Some("empty") => end(&mut stream),
        Some("hang") => {
            let _ = gone.send(());
            let _ = stream.read(&mut [0]);
            let _ = gone.send(());
        }
        Some("status") => {
            record(&mut stream, 6, b"Status: 404 Not Here\nX-A: b\n\nmine");
            end(&mut stream);
        }
        _ => {
            // The port always differs.
            let lines = variables.iter().filter(|(name, _)| !name.ends_with("REMOTE_PORT"));
            let text: String = lines.map(|(name, value)| format!("{name}={value}\n")).collect();
            record(&mut stream, 6, format!("Content-Type: text/plain\n\n{text}").as_bytes());
            end(&mut stream);
        }
    }
}

/// The puppet's command, the client's answer (a status and a body; `cut` if the end is missing), and the log lines.
const FAULTS: &[(&str, &str, &str)] = &[
    ("close", "503", "AH01075: Error dispatching request to"),
    ("rubbish", "503", "it speaks version 114 of FastCGI, or something else"),
    ("half", "200 half, cut", "AH01075: Error dispatching request to"),
    ("header", "500", "Bad header: no header"),
    ("empty", "500", "End of script output before headers"),
    ("hang", "504", "it has sent nothing for 1 s"),
    ("status", "404 mine", ""),
];

/// Each fault has its answer and its line in the log, and the next request is served.
#[test]
fn faults_of_servers() {
    let site = Site::new();
    let gone = puppet(&site.root.join("run/puppet.sock"));
    let text = "ProxyPass /p/ unix:${ROOT}/run/puppet.sock|fcgi://localhost/ enablereuse=on\nProxyTimeout 1\n\
        ProxyPass /down/ unix:${ROOT}/run/none.sock|fcgi://localhost:1/\nProxyPass /refused/ fcgi://${ADDR}:1/\n";
    let server = Server::start(Mpm::Event, &site, text);
    server.announce("AH02454: FCGI: attempt to connect to Unix domain socket");
    server.announce("AH00957: FCGI: attempt to connect to");
    server.announce("AH01079: failed to make connection to backend: ");
    for path in ["/down/x", "/refused/x"] {
        assert_eq!(server.get(path).status, 503, "{path}");
    }
    server.allow_everything("the test itself waits for the line of each fault");
    for (deed, expected, logged) in FAULTS {
        let seen = server.log().len();
        let mut client = server.client();
        client.send(crate::harness::wire::get(&format!("/p/x?{deed}")));
        let (response, whole) = client.beginning_to("GET").expect("an answer");
        let body =
            if logged.is_empty() || response.status == 200 { format!(" {}", response.text()) } else { String::new() };
        assert_eq!(
            format!("{}{body}{}", response.status, if whole.is_err() { ", cut" } else { "" }),
            *expected,
            "{deed}"
        );
        until(&format!("a line about {deed}; there is {}", &server.log()[seen..]), || {
            server.log()[seen..].contains(logged).then_some(())
        });
        assert!(server.get("/p/x?tell").text().contains("QUERY_STRING=tell\n"), "after {deed}");
    }
    gone.recv_timeout(crate::harness::wait::DEADLINE).expect("the request is there");
    gone.recv_timeout(crate::harness::wait::DEADLINE).expect("the one that hung is let go");
}

/// The parameters of `ProxyPassMatch` apply to a backend, although its URL contains groups.
#[test]
fn a_url_with_groups_has_parameters() {
    let site = Site::new();
    let gone = puppet(&site.root.join("run/puppet.sock"));
    let text = "ProxyPassMatch ^/p/(.*)$ unix:${ROOT}/run/puppet.sock|fcgi://localhost/p/$1 timeout=1\n";
    let server = Server::start(Mpm::Event, &site, text);
    server.announce("it has sent nothing for 1 s");
    assert_eq!(server.get("/p/x?hang").status, 504);
    gone.recv_timeout(crate::harness::wait::DEADLINE).expect("the request is there");
    gone.recv_timeout(crate::harness::wait::DEADLINE).expect("the connection has ended");
}

/// A client that goes takes its connection to the server with it, and the next one is served.
#[test]
fn clients_that_go() {
    let site = Site::new();
    let gone = puppet(&site.root.join("run/puppet.sock"));
    let text = "ProxyPass /p/ unix:${ROOT}/run/puppet.sock|fcgi://localhost/ enablereuse=on\n";
    for mpm in Mpm::chosen(test_name!()) {
        let server = Server::start(mpm, &site, text);
        server.allow("proxy_fcgi");
        let mut client = server.client();
        client.send(crate::harness::wire::get("/p/x?hang"));
        gone.recv_timeout(crate::harness::wait::DEADLINE).expect("the request is there");
        client.reset();
        gone.recv_timeout(crate::harness::wait::DEADLINE).expect("the connection has ended");
        assert_eq!(server.get("/p/x?status").text(), "mine");
    }
}

/// Backends with an unsupported protocol are refused at the start.
#[test]
fn unsupported_protocols_are_refused() {
    let cases = [
        ("ProxyPass / ftp://127.0.0.1/", "Tsubame does not speak ftp to backends yet; it speaks "),
        ("<Location /x>\nSetHandler proxy:ftp://127.0.0.1/\n</Location>", "does not speak ftp to backends yet"),
        ("ProxyPass / /x", "must be absolute"),
        ("ProxyPass / fcgi://localhost nonsense=1", "ProxyPass unknown Worker parameter"),
    ];
    let site = Site::new();
    for (line, text) in cases {
        site.configure(Mpm::Event, line);
        let output = Start::new(&site, Mpm::Event).arguments(&["-t"]).command().output().expect("run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(text), "{line}: {said}");
    }
}

//! Running servers that speak SCGI or uwsgi, and fcgiwrap.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::harness::mpm::Mpm;
use crate::harness::needs;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::scripts::fcgid::{megabytes, post};
use crate::scripts::proxy_fcgi::Program;

/// An SCGI server: it says what it was told, and how long the body was. Returns its port.
fn scgi(site: &Site) -> u16 {
    let listener = TcpListener::bind((site.ip, 0)).expect("bind");
    let port = listener.local_addr().expect("address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
    port
}

/// One request, as <https://python.ca/scgi/protocol.txt> has it.
fn answer(stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(&stream);
    let mut length = Vec::new();
    reader.read_until(b':', &mut length).ok()?;
    let length = std::str::from_utf8(&length).ok()?.trim_end_matches(':').parse().ok()?;
    let mut head = vec![0; length];
    reader.read_exact(&mut head).ok()?;
    reader.read_exact(&mut [0]).ok()?;
    let text = String::from_utf8_lossy(&head).into_owned();
    assert!(text.starts_with("CONTENT_LENGTH\0"), "it comes first: {text:?}");
    let mut words = text.trim_end_matches('\0').split('\0');
    let mut variables = BTreeMap::new();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        variables.insert(name, value);
    }
    let mut body = vec![0; variables["CONTENT_LENGTH"].parse().expect("a length")];
    reader.read_exact(&mut body).ok()?;
    let deed = variables.get("QUERY_STRING").copied().unwrap_or_default();
    if deed == "close" {
        return Some(());
    }
    let shown = ["SCGI", "REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING"];
    let line: Vec<_> = shown.iter().map(|name| variables.get(name).copied().unwrap_or("-")).collect();
    let field =
        if deed == "file" { format!("X-Sendfile: {}/file.txt\r\n", variables["DOCUMENT_ROOT"]) } else { String::new() };
    let text = format!("Status: 200 OK\r\nContent-Type: text/plain\r\n{field}\r\n{} {}", line.join("|"), body.len());
    (&stream).write_all(text.as_bytes()).ok()
}

/// By mod_proxy and by mod_scgi.
#[test]
fn scgi_servers() {
    for mpm in [Mpm::Event, Mpm::Prefork] {
        let site = Site::with([("file.txt", "a file")]);
        let port = scgi(&site);
        let text = format!(
            "LoadModule scgi_module modules/mod_scgi.so\nProxyPass /proxy/ scgi://${{ADDR}}:{port}/\nProxyPass /down/ scgi://${{ADDR}}:1/\n\
             SCGIMount /mount ${{ADDR}}:{port}\n<Location /section>\nSCGIServer ${{ADDR}}:{port}\nSCGIHandler On\n</Location>\n\
             <Location /proxy/send>\nProxySCGISendfile On\n</Location>\n"
        );
        let server = Server::start(mpm, &site, &text);
        assert_eq!(server.get("/proxy/a/b?q=1").text(), "1|GET|/proxy/a/b|-|q=1 0");
        assert_eq!(server.get("/mount/a%20b?q=1").text(), "1|GET|/mount|/a b|q=1 0");
        assert_eq!(server.get("/section/x").status, 200);
        assert!(post(&server, "/proxy/p", &megabytes(1)).text().ends_with(" 1000000"));
        assert!(post(&server, "/mount/p", &megabytes(1)).text().ends_with(" 1000000"));
        let chunks =
            "POST /mount/p HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        assert_eq!(server.client().request(chunks).text(), "1|POST|/mount|/p| 3");
        assert_eq!(server.get("/proxy/send?file").text(), "a file");
        assert!(server.get("/proxy/other?file").text().ends_with("file 0"), "where it is off, the field is a field");
        server.announce("AH00957: SCGI: attempt to connect to");
        server.announce("AH00866: failed to make connection to backend: ");
        assert_eq!(server.get("/down/x").status, 503);
        server.announce("End of script output before headers: x");
        assert_eq!((server.get("/proxy/x?close").status, server.get("/mount/x?close").status), (500, 500));
        assert_eq!(server.get("/mount/again").status, 200);
    }
}

/// Prints its variables, and the number of bytes of the body.
const APPLICATION: &str = "def application(environ, start_response):
    body = environ['wsgi.input'].read()
    if 'long' in environ['QUERY_STRING']:
        start_response('200 OK', [('Content-Length', '1000000')])
        return [b'x' * 500000, b'y' * 500000] if 'whole' in environ['QUERY_STRING'] else [b'x']
    start_response('201 Made', [('Content-Type', 'text/plain'), ('X-Seen', environ.get('HTTP_X_A', '-')), ('X-Key', environ.get('HTTP_AUTHORIZATION', '-'))])
    names = ['REQUEST_METHOD', 'SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING']
    return [('|'.join(environ.get(name, '-') for name in names) + ' %d' % len(body)).encode()]
";

/// A Python application in uWSGI.
#[test]
fn uwsgi_servers() {
    if !needs::UWSGI.is_there("uwsgi_servers") {
        return;
    }
    let site = Site::new();
    let application = site.file("application.py", APPLICATION);
    let socket = site.root.join("run/uwsgi.sock");
    let mut command = Command::new("/usr/bin/uwsgi-core");
    command
        .args(["--plugin", "python3", "--master", "--die-on-term", "--processes", "1", "--wsgi-file"])
        .arg(application);
    command.arg("--socket").arg(&socket);
    let _uwsgi = Program::start(&mut command, &socket);
    for mpm in [Mpm::Event, Mpm::Prefork] {
        let text =
            "ProxyPass /app unix:${ROOT}/run/uwsgi.sock|uwsgi://localhost/\nProxyPass /down uwsgi://${ADDR}:1/\n";
        let server = Server::start(mpm, &site, text);
        let fields = "Host: localhost\r\nX-A: b\r\nAuthorization: Bearer c";
        let answer = server.client().request(format!("GET /app/x%20y?q=1 HTTP/1.1\r\n{fields}\r\n\r\n"));
        assert_eq!((answer.status, answer.reason.as_str(), answer.field("X-Seen")), (201, "Made", Some("b")));
        assert_eq!(answer.field("X-Key"), Some("Bearer c"));
        assert_eq!(answer.text(), "GET|/app|/x y|q=1 0");
        assert_eq!(post(&server, "/app/p", &megabytes(1)).text(), "POST|/app|/p| 1000000");
        let chunks =
            "POST /app/p HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        assert_eq!(server.client().request(chunks).text(), "POST|/app|/p| 3");
        let long = server.get("/app/long?long,whole");
        assert_eq!((long.field("Content-Length"), long.body.len()), (Some("1000000"), 1_000_000));
        let head = server.client().request("HEAD /app/long?long HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!((head.status, head.field("Content-Length")), (200, Some("1000000")));
        server.announce("AH00957: uwsgi: attempt to connect to");
        server.announce("AH10101: failed to make connection to backend: ");
        assert_eq!(server.get("/down/x").status, 503);
    }
}

/// A CGI script in fcgiwrap.
#[test]
fn scripts_behind_fcgiwrap() {
    if !needs::FCGIWRAP.is_there("scripts_behind_fcgiwrap") {
        return;
    }
    let site = Site::new();
    let script = site.page("a.cgi", "#!/bin/sh\nprintf 'Status: 203\\nContent-Type: text/plain\\n\\n'\necho look-out >&2\necho \"$REQUEST_METHOD $QUERY_STRING $(wc -c)\"\n");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).expect("mode");
    let socket = site.root.join("run/wrap.sock");
    let mut command = Command::new(needs::FCGIWRAP_PROGRAM);
    command.arg("-f").arg("-s").arg(format!("unix:{}", socket.display()));
    let _wrap = Program::start(&mut command, Path::new(&socket));
    for mpm in [Mpm::Event, Mpm::Prefork] {
        let text = "ProxyFCGIBackendType GENERIC\n<FilesMatch \\.cgi$>\nSetHandler proxy:unix:${ROOT}/run/wrap.sock|fcgi://localhost\n</FilesMatch>\n";
        let server = Server::start(mpm, &site, text);
        server.announce("AH01071: Got error 'look-out'");
        let answer = server.get("/a.cgi?q=1");
        assert_eq!((answer.status, answer.text().as_str()), (203, "GET q=1 0\n"));
        assert_eq!(post(&server, "/a.cgi", &megabytes(1)).text(), "POST  1000000\n");
    }
}

//! Real applications behind this server: Flask under gunicorn, WebSockets of Python and Node, events of a Node server.

use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::needs;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::Client;
use crate::proxy::origin::PORT;
use crate::scripts::proxy_fcgi::Program;

/// Debian's Python, whose packages the applications use.
const PYTHON: &str = "/usr/bin/python3";

/// What applications do: forms, uploads, sessions, redirects, responses in pieces.
const FLASK: &str = "\
import hashlib, threading
from flask import Flask, Response, redirect, request, session, url_for

application = Flask(__name__)
application.secret_key = 'secret'
seen = threading.Event()

@application.post('/form')
def form():
    return '&'.join(f'{name}={value}' for name, value in sorted(request.form.items()))

@application.post('/upload')
def upload():
    file = request.files['file']
    return f'{file.filename} {hashlib.sha256(file.read()).hexdigest()}'

@application.post('/body')
def body():
    return hashlib.sha256(request.get_data()).hexdigest()

@application.get('/login')
def login():
    session['user'] = request.args['user']
    return redirect(url_for('whoami', _external=True))

@application.get('/whoami')
def whoami():
    return f\"{session['user']} from {request.headers['X-Forwarded-For']}\"

@application.get('/stream')
def stream():
    def parts():
        seen.clear()
        yield 'one'
        yield 'two' if seen.wait(10) else 'late'
    return Response(parts(), mimetype='text/plain')

@application.get('/seen')
def see():
    seen.set()
    return 'seen'

@application.get('/download')
def download():
    return Response(b'x' * 3000000, mimetype='application/octet-stream')
";

/// Sends back each message.
const ECHO: &str = "\
import asyncio, sys, websockets

async def echo(socket):
    async for message in socket:
        await socket.send(message)

async def main():
    async with websockets.unix_serve(echo, sys.argv[1]):
        await asyncio.Future()

asyncio.run(main())
";

/// Says what it has got back.
const CLIENT: &str = "\
import asyncio, sys, websockets

async def main():
    async with websockets.connect(sys.argv[1]) as socket:
        for message in ['hello', '\\u00e4' * 1000, b'\\0\\xff' * 400000]:
            await socket.send(message)
            print(await socket.recv() == message)
        await (await socket.ping())
    print(socket.close_code)

asyncio.run(main())
";

/// Events, the second once somebody asks for `/seen`; and WebSockets with short messages.
const NODE: &str = "\
const http = require('http'), crypto = require('crypto');
let events;
const server = http.createServer((request, response) => {
    if (request.url === '/events') {
        response.writeHead(200, {'Content-Type': 'text/event-stream'});
        response.write('data: one\\n\\n');
        events = response;
    } else if (request.url === '/seen') {
        events.end('data: two\\n\\n');
        response.end('seen');
    } else {
        response.writeHead(404).end();
    }
});
server.on('upgrade', (request, socket) => {
    const key = request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
    const accept = crypto.createHash('sha1').update(key).digest('base64');
    socket.write(`HTTP/1.1 101 Go on\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: ${accept}\\r\\n\\r\\n`);
    socket.on('end', () => socket.end());
    socket.on('data', frame => {
        const length = frame[1] & 127, mask = frame.subarray(2, 6);
        const text = frame.subarray(6, 6 + length).map((byte, at) => byte ^ mask[at % 4]);
        socket.write(Buffer.concat([Buffer.from([frame[0], length]), text]));
    });
});
server.listen(process.argv[2]);
";

/// Flask under gunicorn, over TCP and over a Unix socket.
#[test]
fn a_flask_application() {
    if !needs::FLASK.is_there("a_flask_application") {
        return;
    }
    let site = Site::new();
    site.file("application.py", FLASK);
    let (socket, address) = (site.root.join("run/app.sock"), format!("{}:{PORT}", site.ip));
    let mut gunicorn = Command::new(PYTHON);
    gunicorn.args(["-m", "gunicorn", "--threads", "8", "--bind", &address, "--bind"]);
    gunicorn.arg(format!("unix:{}", socket.display())).arg("application").current_dir(&site.root);
    let _gunicorn = Program::start(&mut gunicorn, &socket);
    let section = |path: &str, url: &str, of_server: &str| {
        format!(
            "<Location {path}/>\nProxyPass {url}\nProxyPassReverse {of_server}\nProxyPassReverseCookiePath / {path}/\n</Location>\n"
        )
    };
    let (tcp, unix) = (format!("http://{address}/"), format!("unix:{}|http://app.internal/", socket.display()));
    let text = section("/tcp", &tcp, &tcp) + &section("/unix", &unix, "http://app.internal/");
    for mpm in Mpm::chosen(test_name!()) {
        let server = Server::start(mpm, &site, &text);
        for path in ["/tcp", "/unix"] {
            uses_it(&server, path);
        }
    }
}

fn uses_it(server: &Server<'_>, path: &str) {
    let mut client = server.client();
    let post = |client: &mut Client, name: &str, fields: &str, body: &[u8]| {
        let mut text = format!("POST {path}/{name} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").into_bytes();
        text.extend_from_slice(body);
        client.request(text).text()
    };
    let form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 17\r\n";
    assert_eq!(post(&mut client, "form", form, b"name=a+b&x=%C3%A4"), "name=a b&x=\u{e4}");
    let data: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    let sum: String = Sha256::digest(&data).iter().map(|byte| format!("{byte:02x}")).collect();
    let head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\r\n";
    let whole = [head.as_bytes(), &data, b"\r\n--b--\r\n"].concat();
    let fields = format!("Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {}\r\n", whole.len());
    assert_eq!(post(&mut client, "upload", &fields, &whole), format!("a.bin {sum}"));
    let chunk = [b"F4240\r\n", &data[..], b"\r\n0\r\n\r\n"].concat();
    assert_eq!(post(&mut client, "body", "Transfer-Encoding: chunked\r\n", &chunk), sum);

    let login = client.get(&format!("{path}/login?user=me"));
    let place = format!("http://localhost{path}/whoami");
    assert_eq!((login.status, login.field("Location")), (302, Some(&*place)), "{login:?}");
    let cookie = login.field("Set-Cookie").expect("a cookie");
    assert!(cookie.contains(&format!("Path={path}/")), "{cookie}");
    let session = cookie.split(';').next().expect("its value");
    let line = format!("GET {path}/whoami HTTP/1.1\r\nHost: localhost\r\nCookie: {session}\r\n\r\n");
    assert_eq!(client.request(line).text(), "me from 127.0.0.1");

    let mut slow = server.client();
    slow.send(crate::harness::wire::get(&format!("{path}/stream")));
    hears(&mut slow, "one");
    assert_eq!(client.get(&format!("{path}/seen")).text(), "seen");
    hears(&mut slow, "two");
    assert_eq!(client.get(&format!("{path}/download")).body.len(), 3_000_000);
    let head = client.request(format!("HEAD {path}/download HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("3000000")));
    assert_eq!(client.get(&format!("{path}/missing")).status, 404);
}

/// Reads until a text has come.
fn hears(client: &mut Client, text: &str) {
    let mut heard = Vec::new();
    while !heard.ends_with(text.as_bytes()) {
        heard.extend(client.bytes(1));
    }
}

/// Python's WebSockets on both sides.
#[test]
fn web_sockets_of_python() {
    if !needs::WEB_SOCKETS.is_there("web_sockets_of_python") {
        return;
    }
    let site = Site::new();
    let socket = site.root.join("run/echo.sock");
    let mut echo = Command::new(PYTHON);
    let _echo = Program::start(echo.arg(site.file("echo.py", ECHO)).arg(&socket), &socket);
    for mpm in Mpm::chosen(test_name!()) {
        let text = format!(
            "ProxyPass /ws/ unix:{0}|ws://localhost/\nProxyPass /up/ unix:{0}|http://localhost/ upgrade=websocket\n",
            socket.display()
        );
        let server = Server::start(mpm, &site, &text);
        for path in ["ws", "up"] {
            assert_eq!(talks(&site, &server, path), "True\nTrue\nTrue\n1000\n", "{mpm}: {path}");
        }
    }
}

/// What Python's client says of its talk.
fn talks(site: &Site, server: &Server<'_>, path: &str) -> String {
    let mut client = Command::new(PYTHON);
    client.arg(site.file("client.py", CLIENT)).arg(format!("ws://{}/{path}/x", server.address()));
    let output = client.output().expect("Python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A Node server: events arrive one by one, and it takes WebSockets over.
#[test]
fn events_and_web_sockets_of_node() {
    if !needs::NODE.is_there("events_and_web_sockets_of_node") {
        return;
    }
    let site = Site::new();
    let socket = site.root.join("run/node.sock");
    let mut node = Command::new("node");
    let _node = Program::start(node.arg(site.file("app.js", NODE)).arg(Path::new(&socket)), &socket);
    let text = format!("ProxyPass / unix:{}|http://localhost/ upgrade=websocket\n", socket.display());
    for mpm in Mpm::chosen(test_name!()) {
        let server = Server::start(mpm, &site, &text);
        let mut events = server.client();
        events.send(crate::harness::wire::get("/events"));
        hears(&mut events, "data: one\n\n");
        assert_eq!(server.get("/seen").text(), "seen");
        hears(&mut events, "data: two\n\n");
        let mut client = server.client();
        client.send("GET /x HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n");
        client.send("Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
        hears(&mut client, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n");
        client.send([0x81, 0x82, 0, 0, 0, 0, b'h', b'i']);
        hears(&mut client, "\u{2}hi");
    }
}

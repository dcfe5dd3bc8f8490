//! Filters of the bodies of requests, beside Apache's.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::oracle::{Allowed, Case, compare};
use crate::site::Site;

fn build(site: &Site) {
    site.page("a.txt", "text\n");
    site.script(
        "tell",
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\necho \"$CONTENT_LENGTH $HTTP_CONTENT_ENCODING\"\ncat\n",
    );
    site.script("deaf", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\necho deaf\n");
}

const SCRIPTS: &str =
    "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n";

/// A POST of a body.
fn post(target: &str, fields: &str, body: &[u8]) -> Case {
    let fields: String = fields.split('|').filter(|one| !one.is_empty()).map(|one| format!("{one}\r\n")).collect();
    let length = body.len();
    let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n");
    Case { name: format!("{target} {length} {fields}"), bytes: [head.as_bytes(), body].concat() }
}

/// The same in chunks of so many bytes.
fn chunked(target: &str, fields: &str, body: &[u8], size: usize) -> Case {
    let fields: String = fields.split('|').filter(|one| !one.is_empty()).map(|one| format!("{one}\r\n")).collect();
    let mut bytes =
        format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n{fields}\r\n").into_bytes();
    for chunk in body.chunks(size) {
        bytes.extend(format!("{:x}\r\n", chunk.len()).bytes().chain(chunk.iter().copied()).chain(*b"\r\n"));
    }
    bytes.extend(b"0\r\n\r\n");
    Case { name: format!("chunked {target} {} by {size} {fields}", body.len()), bytes }
}

/// What gzip makes of it, with a name in its header or without.
fn gzip(body: &[u8]) -> Vec<u8> {
    let mut gzip =
        Command::new("gzip").args(["-9", "-n"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("gzip");
    let mut input = gzip.stdin.take().expect("a pipe");
    let body = body.to_vec();
    let feeder = std::thread::spawn(move || input.write_all(&body).expect("written"));
    let made = gzip.wait_with_output().expect("gzip").stdout;
    feeder.join().expect("fed");
    made
}

/// How the end of a body is told depends on how it is made.
fn framing() -> Vec<Allowed> {
    let entry = "The length of a filtered answer";
    vec![Allowed { case: "*", what: "content-length", entry }, Allowed { case: "*", what: "transfer-encoding", entry }]
}

#[test]
fn inflated_bodies() {
    const GZIP: &str = "Content-Encoding: gzip";
    let hello = gzip(b"hello\n");
    let numbers: String = (0..5000).map(|number| format!("{number}\n")).collect();
    let long = gzip(numbers.as_bytes());
    let bomb = gzip(&vec![0; 3_000_000]);
    // Fields between the header and the content.
    let with = |flags: u8, more: &[u8]| [&hello[..3], &[flags], &hello[4..10], more, &hello[10..]].concat();
    let changed = |at: usize, byte: u8| {
        let mut bytes = hello.clone();
        bytes[at] = byte;
        bytes
    };
    let cases = [
        post("/cgi/tell", GZIP, &hello),
        post("/cgi/tell", "Content-Encoding: X-GZip", &long),
        post("/cgi/tell", "Content-Encoding: deflate, gzip, identity", &hello),
        post("/cgi/tell", "Content-Encoding: gzip, deflate", b"plain"),
        post("/cgi/tell", "", &hello),
        post("/cgi/tell", "Content-Encoding: gzip|Content-Range: bytes 1-2/3", b"plain"),
        chunked("/cgi/tell", GZIP, &hello, 1),
        chunked("/cgi/tell", GZIP, &long, 1000),
        post("/cgi/tell", GZIP, &changed(2, 7)),
        post("/cgi/tell", GZIP, &with(4, b"\x03\0abc")),
        post("/cgi/tell", GZIP, &with(8 + 16, b"name\0comment\0")),
        post("/cgi/tell", GZIP, &with(2, b"xx")),
        post("/cgi/tell/short", GZIP, &gzip(&[b'x'; 1000])),
        post("/cgi/tell/ratio", GZIP, &hello),
        post("/a.txt", GZIP, &hello),
        post("/a.txt", GZIP, b"plain"),
        post("/a.txt", GZIP, &bomb),
        post("/cgi/tell/none", GZIP, &hello),
        Case::of("GET /cgi/tell/none"),
        Case::of("GET /cgi/tell"),
    ];
    let refused = [
        post("/cgi/tell", GZIP, b"plain"),
        post("/cgi/tell", GZIP, b"this is not what it is said to be"),
        post("/cgi/tell", GZIP, &hello[..9]),
        post("/cgi/tell", GZIP, &hello[..12]),
        post("/cgi/tell", GZIP, &hello[..hello.len() - 1]),
        post("/cgi/tell", GZIP, &[&hello[..], b"more"].concat()),
        post("/cgi/tell", GZIP, &[&hello[..], &hello[..]].concat()),
        post("/cgi/tell", GZIP, &changed(hello.len() - 8, 0)),
        post("/cgi/tell", GZIP, &changed(hello.len() - 4, 7)),
        post("/cgi/tell", "Content-Encoding: gzip, identity", b"plain"),
        post("/cgi/tell", GZIP, &bomb),
        chunked("/cgi/tell", GZIP, &bomb, 500),
        post("/cgi/tell/short", GZIP, &long),
        post("/cgi/tell/short", GZIP, &gzip(&[b'x'; 1001])),
        post("/cgi/tell/limit", GZIP, &gzip(&[b'x'; 1001])),
        post("/cgi/tell/limit", GZIP, &long),
        post("/cgi/tell/ratio", GZIP, &long),
        post("/cgi/deaf", GZIP, &bomb),
    ];
    let configuration = format!(
        "{SCRIPTS}SetInputFilter DEFLATE\n\
         <Location /cgi/tell/short>\nDeflateInflateLimitRequestBody 1000\n</Location>\n\
         <Location /cgi/tell/limit>\nLimitRequestBody 1000\n</Location>\n\
         <Location /cgi/tell/ratio>\nDeflateInflateRatioLimit 2\nDeflateInflateRatioBurst 1\n</Location>\n\
         <Location /cgi/tell/none>\nSetInputFilter nothing;deflate\n</Location>"
    );
    compare("inflated_bodies", build, &configuration, &cases, &framing());
    // Whether the numbers of errors stand in front of the script's line.
    let mut allowed = framing();
    allowed.push(Allowed { case: "*", what: "error log", entry: "Messages of Apache's filters" });
    compare("inflated_bodies", build, &configuration, &refused, &allowed);
}

//! Filters of request bodies, compared with Apache's.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::harness::oracle::{Allowed, Case, compare};
use crate::harness::site::Site;

fn build(site: &Site) {
    site.page("a.txt", "text\n");
    site.script(
        "tell",
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\necho \"$REQUEST_METHOD $CONTENT_LENGTH $HTTP_CONTENT_ENCODING\"\ncat\n",
    );
    // Apache writes all of a body before it reads what the script says of it.
    site.script("sum", "#!/bin/sh\nsum=$(sha256sum)\nprintf 'Content-Type: text/plain\n\n'\necho \"$sum\"\n");
    site.script("deaf", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\necho deaf\n");
}

const SCRIPTS: &str =
    "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n";

/// A POST of a body.
pub fn post(target: &str, fields: &str, body: &[u8]) -> Case {
    let fields: String = fields.split('|').filter(|one| !one.is_empty()).map(|one| format!("{one}\r\n")).collect();
    let length = body.len();
    let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n");
    Case { name: format!("{target} {length} {fields}"), bytes: [head.as_bytes(), body].concat() }
}

/// The same in chunks of so many bytes.
pub fn chunked(target: &str, fields: &str, body: &[u8], size: usize) -> Case {
    let fields: String = fields.split('|').filter(|one| !one.is_empty()).map(|one| format!("{one}\r\n")).collect();
    let mut bytes =
        format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n{fields}\r\n").into_bytes();
    for chunk in body.chunks(size) {
        bytes.extend(format!("{:x}\r\n", chunk.len()).bytes().chain(chunk.iter().copied()).chain(*b"\r\n"));
    }
    bytes.extend(b"0\r\n\r\n");
    Case { name: format!("chunked {target} {} by {size} {fields}", body.len()), bytes }
}

/// The body in gzip format, with or without a name in its header.
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

/// How the end of a body is marked depends on how the body is made.
pub fn framing() -> Vec<Allowed> {
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

/// A body that is larger than what pipes and sockets hold, with a length and in chunks.
fn large(target: &str, fields: &str) -> Vec<Case> {
    let body: String = (0..40_000).map(|number| format!("{number}\n")).collect();
    let mut cases = vec![post(target, fields, body.as_bytes())];
    cases.extend([999, 70_000].map(|size| chunked(target, fields, body.as_bytes(), size)));
    cases
}

#[test]
fn gathered_bodies() {
    let text = b"some text";
    let mut cases = vec![
        Case::of("GET /cgi/tell"),
        post("/cgi/tell", "", b""),
        post("/cgi/tell", "", text),
        chunked("/cgi/tell", "", text, 1),
        chunked("/cgi/tell/small", "", &[b'x'; 2000], 7),
        post("/a.txt", "", text),
        post("/r", "", text),
        chunked("/r", "", text, 2),
    ];
    for target in ["/cgi/sum", "/cgi/sum/small"] {
        cases.extend(large(target, ""));
    }
    let configuration = format!(
        "{SCRIPTS}SetInputFilter BUFFER\n<Location /cgi/tell/small>\nBufferSize 100\n</Location>\n\
         <Location /cgi/sum/small>\nBufferSize 5000\n</Location>\n<Location /r>\nSetHandler reflector\n</Location>"
    );
    let mut allowed = framing();
    allowed.push(Allowed { case: "*", what: "last-modified", entry: "The length of a filtered answer" });
    compare("gathered_bodies", build, &configuration, &cases, &allowed);
}

#[test]
fn translated_bodies() {
    let latin: &[u8] = b"caf\xe9 \xa4";
    let utf = "caf\u{e9} \u{20ac}".as_bytes();
    let mut cases = vec![
        Case::of("GET /cgi/tell"),
        post("/cgi/tell", "", utf),
        chunked("/cgi/tell", "", utf, 4),
        post("/cgi/tell/explicit", "", utf),
        post("/cgi/tell/none", "", utf),
        post("/cgi/tell/named", "", utf),
        post("/cgi/tell/back", "Content-Type: application/x-www-form-urlencoded", latin),
        post("/cgi/tell/same", "", latin),
    ];
    let body = "\u{e9}\u{20ac} a line\n".repeat(20_000);
    cases.extend([999, 70_000].map(|size| chunked("/cgi/sum", "", body.as_bytes(), size)));
    let configuration = format!(
        "{SCRIPTS}<Location /cgi>\nCharsetSourceEnc ISO-8859-15\nCharsetDefault UTF-8\nCharsetOptions TranslateAllMimeTypes\n</Location>\n\
         <Location /cgi/tell/explicit>\nSetInputFilter XLATEIN\nSetOutputFilter XLATEOUT\n</Location>\n\
         <Location /cgi/tell/none>\nCharsetOptions NoImplicitAdd\n</Location>\n\
         <Location /cgi/tell/named>\nCharsetOptions NoImplicitAdd\nSetInputFilter XLATEIN\n</Location>\n\
         <Location /cgi/tell/back>\nCharsetSourceEnc UTF-8\nCharsetDefault ISO-8859-15\n</Location>\n\
         <Location /cgi/tell/same>\nCharsetSourceEnc utf-8\n</Location>\n\
         <Location /cgi/tell/odd>\nCharsetSourceEnc klingon\n</Location>"
    );
    compare("translated_bodies", build, &configuration, &cases, &framing());
    let refused = [
        post("/cgi/tell", "", latin),
        post("/cgi/tell", "", b"cut \xc3"),
        post("/cgi/tell", "", "\u{4e2d}".as_bytes()),
        post("/cgi/tell/odd", "", utf),
    ];
    let mut allowed = framing();
    allowed.push(Allowed { case: "*", what: "error log", entry: "Messages of Apache's filters" });
    compare("translated_bodies", build, &configuration, &refused, &allowed);
}

#[test]
fn bodies_through_programs() {
    let text = b"some text";
    let mut cases = vec![
        Case::of("GET /cgi/tell/upper"),
        post("/cgi/tell/upper", "", text),
        chunked("/cgi/tell/upper", "", text, 1),
        post("/cgi/tell/typed", "Content-Type: Text/Plain; charset=utf-8", text),
        post("/cgi/tell/typed", "Content-Type: text/html", text),
        post("/cgi/tell/typed", "", text),
        post("/cgi/tell/asked", "", text),
        post("/cgi/tell/spared", "", text),
        post("/cgi/tell/env?q", "", text),
        post("/a.txt/upper", "", text),
    ];
    cases.extend(large("/cgi/sum/upper", ""));
    let configuration = format!(
        "{SCRIPTS}ExtFilterDefine upper mode=input cmd=\"/usr/bin/tr a-z A-Z\"\n\
         ExtFilterDefine typed mode=input cmd=\"/usr/bin/tr t T\" intype=text/plain\n\
         ExtFilterDefine asked mode=input cmd=\"/usr/bin/tr t T\" enableenv=please\n\
         ExtFilterDefine spared mode=input cmd=\"/usr/bin/tr t T\" disableenv=please\n\
         ExtFilterDefine env mode=input cmd=\"/bin/sh -c 'cat; echo $REQUEST_URI $REQUEST_METHOD $QUERY_STRING'\"\n\
         <LocationMatch /upper>\nSetInputFilter upper\n</LocationMatch>\n<LocationMatch /typed>\nSetInputFilter TYPED\n</LocationMatch>\n\
         <LocationMatch /asked>\nSetEnv please 1\nSetInputFilter asked\n</LocationMatch>\n\
         <LocationMatch /spared>\nSetEnv please 1\nSetInputFilter spared\n</LocationMatch>\n\
         <LocationMatch /env>\nSetInputFilter env\n</LocationMatch>\n\
         ExtFilterDefine absent mode=input cmd=/none/such\n\
         <LocationMatch /absent>\nSetInputFilter absent\n</LocationMatch>\n<LocationMatch /removed>\nExtFilterOptions Onfail=remove\n</LocationMatch>"
    );
    compare("bodies_through_programs", build, &configuration, &cases, &framing());
    let refused = [post("/cgi/tell/absent", "", text), post("/cgi/tell/absent/removed", "", text)];
    let mut allowed = framing();
    allowed.push(Allowed { case: "*", what: "error log", entry: "Messages of Apache's filters" });
    compare("bodies_through_programs", build, &configuration, &refused, &allowed);
}

#[test]
fn kept_bodies() {
    let pages = |site: &Site| {
        build(site);
        let twice = "one <!--#include virtual=\"/cgi/tell\" --> two <!--#include virtual=\"/cgi/tell\" --> end\n";
        site.page("page.shtml", twice);
    };
    let fit = b"0123456789";
    let large = [b'x'; 101];
    let cases = [
        Case::of("GET /a.txt"),
        post("/page.shtml", "Content-Type: text/x", fit),
        chunked("/page.shtml", "", fit, 3),
        post("/page.shtml", "", &large[..100]),
        post("/cgi/tell", "", fit),
        post("/a.txt", "", fit),
    ];
    let configuration = format!(
        "{SCRIPTS}<Directory ${{DOCS}}>\nOptions +Includes\nAddOutputFilter INCLUDES .shtml\nKeptBodySize 100\n</Directory>\n<Location /cgi>\nKeptBodySize 100\n</Location>"
    );
    compare("kept_bodies", pages, &configuration, &cases, &framing());
    let refused = [
        post("/page.shtml", "", &large),
        chunked("/page.shtml", "", &large, 50),
        post("/cgi/tell", "", &large),
        post("/a.txt", "", &large),
    ];
    let mut allowed = framing();
    allowed.push(Allowed { case: "*", what: "error log", entry: "Messages of Apache's filters" });
    compare("kept_bodies", pages, &configuration, &refused, &allowed);
}

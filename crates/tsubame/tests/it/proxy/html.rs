//! Links in the pages of servers behind this one, compared with Apache; and the charsets of those pages.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::oracle::{self, Apache};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::Client;
use crate::proxy::origin::Listening;

const PORT: u16 = crate::proxy::origin::PORT;

/// A page as Apache writes it, too.
const PAGE: &str = "<html><head><title>/</title><base href=\"http://in.example/x/\"><script src=\"http://in.example/s.js\"></script></head>\
<body onload=\"go('http://in.example/a', '/css/')\"><!-- http://in.example/comment -->\
<a href=\"http://in.example/a?x=1&amp;y=2#f\" name=\"/n\">http://in.example/</a><a href=\"HTTP://IN.example/b\">two</a>\
<a href=\"/css/three\">three</a><a href=\"four\">four</a><img src=\"http://in.example/i.png\" alt=\"a &lt; b /css/\" longdesc=\"/long\">\
<a href=\"http://in.example/q&quot;'\">five</a><a href=\"http://in.example/\u{e9}\">six</a><a href=\"/css/css/a-a-a\">seven</a><br>\
<p onclick=\"a-a-a\" ondblclick=\"/css/\" class=\"/css/\">text /css/</p><form action=\"/A/b?C\"></form>\
<style>a { background: url(http://in.example/bg.png) url(/css/a-a-a) }</style>\
<script>/css/ + \"http://in.example/2\" + '<b>' && a < /css/</script></body></html>";

const COMMENT: &str = "<!-- http://in.example/comment -->";

/// The lines of a section for each name, beside those about elements and attributes.
const SECTIONS: &[(&str, &str)] = &[
    ("plain", "ProxyHTMLURLMap http://in.example /out\nProxyHTMLURLMap / /gw/"),
    (
        "order",
        "ProxyHTMLURLMap / /gw/\nProxyHTMLURLMap /css /late\nProxyHTMLURLMap http://in.example/ http://out.example/",
    ),
    (
        "extended",
        "ProxyHTMLExtended On\nProxyHTMLURLMap http://in.example /out\nProxyHTMLURLMap /css/ /late/\nProxyHTMLURLMap late later",
    ),
    (
        "regex",
        "ProxyHTMLExtended On\nProxyHTMLURLMap ^/css/(.*)$ /styles/$1 R\nProxyHTMLURLMap (?i)IN\\.EXAMPLE out.$0 R\nProxyHTMLURLMap a-(a) <$1> R",
    ),
    (
        "flags",
        "ProxyHTMLExtended On\nProxyHTMLURLMap /css/ /h/ h\nProxyHTMLURLMap /h/ /e/ he\nProxyHTMLURLMap /h/ /c/ hc\nProxyHTMLURLMap http://in.example /last Lc\nProxyHTMLURLMap /last /never",
    ),
    ("start", "ProxyHTMLExtended On\nProxyHTMLURLMap a- start ^\nProxyHTMLURLMap IN.EXAMPLE none Rn"),
    ("nocase", "ProxyHTMLExtended On\nProxyHTMLURLMap IN.EXAMPLE(/) out$1 Ri\nProxyHTMLURLMap CSS styles Rix"),
    ("comments", "ProxyHTMLStripComments On\nProxyHTMLURLMap / /gw/"),
    (
        "vars",
        "ProxyHTMLInterp On\nSetEnv TO there\nSetEnv FROM css\nProxyHTMLURLMap /${FROM}/ /${TO}/ vV\nProxyHTMLURLMap http://in.example/ /${NONE|else}/ V\n",
    ),
    (
        "conds",
        "ProxyHTMLInterp On\nSetEnv TO there\nProxyHTMLURLMap /css/ /not/ h NONE=x\nProxyHTMLURLMap /css/ /no/ V TO=here\nProxyHTMLURLMap /css/ /yes/ V TO=there\nProxyHTMLURLMap http://in.example/ /also/ V \"reqenv('TO') == 'there'\"",
    ),
    ("types", "ProxyHTMLDoctype HTML Legacy\nProxyHTMLURLMap / /gw/"),
    ("five", "ProxyHTMLDoctype html5\nProxyHTMLURLMap / /gw/"),
    ("meta", "ProxyHTMLMeta On\nProxyHTMLURLMap / /gw/"),
    ("out", "ProxyHTMLCharsetOut iso-8859-1\nProxyHTMLURLMap / /gw/"),
    ("same", "ProxyHTMLCharsetOut *\nProxyHTMLURLMap / /gw/"),
];

/// Other pages by name, with their types.
fn page(name: &str) -> (&'static str, Vec<u8>) {
    let latin = |text: &str| text.chars().map(|letter| u8::try_from(letter).expect("a Latin letter")).collect();
    let start = "<html><head>";
    let end = "<title>t</title></head><body><p>caf\u{e9} <a href=\"/\u{e9}\">x</a></p></body></html>";
    match name {
        "latin" => ("text/html; charset=iso-8859-1", latin(&format!("{start}{end}"))),
        "nocharset" => ("text/html", latin(&format!("{start}{end}"))),
        "named" => {
            let meta = "<meta http-equiv=\"Refresh\" content=\"5\"><meta http-equiv=\"Content-Type\" content=\"text/html; charset=iso-8859-1\">";
            ("text/html", latin(&format!("{start}{meta}{end}")))
        }
        "greek" => {
            let page = format!("{start}{end}").replace('\u{e9}', "\u{e1}");
            ("text/html;charset=iso-8859-7", latin(&page))
        }
        "plain" => ("text/plain", b"<a href=\"/x\">".to_vec()),
        "image" => ("image/png", b"<a href=\"/x\">\xff".to_vec()),
        "feed" => ("application/atom+xml; charset=utf-8", b"<feed>\xc3\xa4</feed>".to_vec()),
        _ => ("text/html;charset=utf-8", PAGE.as_bytes().to_vec()),
    }
}

/// A server with these pages.
fn pages(ip: Ipv4Addr) -> Arc<Listening> {
    let listener = TcpListener::bind((ip, PORT)).expect("bind");
    let listening = Arc::new(Listening(listener.try_clone().expect("clone")));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                let Ok(1) = stream.read(&mut byte) else { return };
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let (media_type, page) = page(path.rsplit('/').next().unwrap_or_default());
            let head = format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n",
                page.len()
            );
            let _ = stream.write_all(&[head.as_bytes(), &page].concat());
        }
    });
    listening
}

fn configuration() -> String {
    let mut text = String::from(
        "ProxyHTMLLinks a href\nProxyHTMLLinks base href\nProxyHTMLLinks script src\nProxyHTMLLinks img src longdesc\n\
         ProxyHTMLLinks form action\nProxyHTMLEvents onload onclick ondblclick\nxml2EncAlias iso-8859-1 our-own\n",
    );
    for (name, lines) in SECTIONS {
        text.push_str(&format!(
            "ProxyPass /{name}/ http://${{ADDR}}:{PORT}/{name}/\n<Location /{name}/>\nProxyHTMLEnable On\n{lines}\n</Location>\n"
        ));
    }
    // The server's own pages are left alone.
    text + "<Location /own>\nProxyHTMLEnable On\nProxyHTMLURLMap / /gw/\n</Location>\n"
}

fn paths() -> Vec<String> {
    let mut paths: Vec<String> = SECTIONS.iter().map(|(name, _)| format!("/{name}/page")).collect();
    for section in ["plain", "meta", "out", "same"] {
        paths.extend(["latin", "nocharset", "named"].map(|page| format!("/{section}/{page}")));
    }
    paths.extend(["/plain/greek", "/same/greek", "/plain/image", "/plain/feed", "/own.txt"].map(str::to_string));
    paths
}

/// The types and bodies of the responses.
fn answers(site: &Site) -> Vec<String> {
    let answer = |path: &String| {
        let mut client = Client::connect(site.address());
        let response = client.request(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let fields =
            ["Content-Type", "Refresh"].map(|name| response.field(name).unwrap_or_default().to_ascii_lowercase());
        // With ProxyHTMLExtended, Apache loses comments.
        let body = response.body.escape_ascii().to_string().replace(COMMENT, "");
        format!("{path}: {} {fields:?}\n{}", response.status, body.replace("\\n", ""))
    };
    paths().iter().map(answer).collect()
}

#[test]
fn links_in_pages_as_in_apache() {
    if !oracle::is_there("links_in_pages_as_in_apache") {
        return;
    }
    let theirs = {
        let site = Site::with([("own.txt", "<a href=\"/x\">")]);
        let _pages = pages(site.ip);
        let _apache = Apache::start(&site, &configuration());
        answers(&site)
    };
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::with([("own.txt", "<a href=\"/x\">")]);
        let _pages = pages(site.ip);
        let server = Server::start(mpm, &site, &configuration());
        server.allow_everything("variables of a request look like those of the configuration");
        let differences: Vec<String> = answers(&site)
            .into_iter()
            .zip(&theirs)
            .filter(|(ours, theirs)| ours != *theirs)
            .map(|(ours, theirs)| format!("-- ours\n{ours}\n-- Apache\n{theirs}"))
            .collect();
        assert!(differences.is_empty(), "{mpm}:\n{}", differences.join("\n"));
    }
}

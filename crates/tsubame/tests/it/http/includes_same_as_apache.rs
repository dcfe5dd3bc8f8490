//! Server-side includes, compared with Apache's: the resulting page, and the error log.

use std::os::unix::fs::PermissionsExt;

use crate::harness::mpm::under_percore_and;
use crate::harness::oracle::{Allowed, Case, compare};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire;
use crate::scripts::cgi_same_as_apache::gets;

/// Pages with a line for each thing to be tried.
const PAGES: &[(&str, &str)] = &[
    ("plain.shtml", "nothing here\n"),
    ("empty.shtml", ""),
    (
        "later.shtml",
        "<!--#if expr=\"v('DATE_LOCAL') =~ /20/ && %{ENV:DATE_GMT} =~ /20/ && env('LAST_MODIFIED') =~ /20/\" -->a<!--#endif -->\n\
         <!--#if expr=\"reqenv('USER_NAME') =~ /./\" -->b<!--#endif --><!--#config timefmt=\"x%Y\" --><!--#if expr=\"v('DATE_LOCAL') =~ /^x20/\" -->c<!--#endif -->\n",
    ),
    (
        "echo.shtml",
        "<!--#set var=\"x\" value=\"a b<&'\\\"+%/&auml;\" -->[<!--#echo var=\"x\" -->]\n\
         [<!--#echo encoding=\"none\" var=\"x\" -->][<!--#echo encoding=\"url\" var=\"x\" -->][<!--#echo encoding=\"urlencoded\" var=\"x\" -->]\n\
         [<!--#echo encoding=\"base64\" var=\"x\" -->][<!--#echo encoding=\"entity\" var=\"x\" -->][<!--#echo encoding=\"url,entity\" var=\"x\" -->]\n\
         <!--#set var=\"e\" value=\"%41+%42&amp;lt;\" -->[<!--#echo decoding=\"url\" var=\"e\" -->][<!--#echo decoding=\"urlencoded\" var=\"e\" -->]\n\
         [<!--#echo decoding=\"entity\" encoding=\"none\" var=\"e\" -->]<!--#set var=\"b\" value=\"YWJj\" -->[<!--#echo decoding=\"base64\" var=\"b\" -->]\n\
         [<!--#echo var=\"none\" -->][<!--#echo var=\"x\" var=\"none\" var=\"e\" -->][<!--#ECHO VAR='X'-->]\n\
         <!--#set var=\"y\" decoding=\"url\" encoding=\"base64\" value=\"%41%42\" -->[<!--#echo var=\"y\" -->]\n\
         <!--#set var=\"n\" value=\"x\" --><!--#set var=\"z\" value=\"${n}$x \\$x $ ${} $none|$n.\" -->[<!--#echo var=\"z\" -->][<!--#echo var=\"$n\" encoding=\"none\" -->]\n",
    ),
    (
        "wrong.shtml",
        "a<!--#echo -->b<!--#echo vor=\"x\" -->c<!--#echo encoding=\"odd\" var=\"DOCUMENT_NAME\" -->d<!--#echo decoding=\"odd\" var=\"DOCUMENT_NAME\" -->\n\
         e<!--#set var=\"x\" -->f<!--#set value=\"x\" var=\"y\" -->g<!--#set var=\"x\" valeu=\"y\" -->h<!--#config -->i<!--#config odd=\"x\" -->\n\
         j<!--#config sizefmt=\"odd\" -->k<!--#fsize -->l<!--#flastmod -->m<!--#include -->n<!--#include odd=\"x\" -->o<!--#printenv x=\"y\" -->\n\
         p<!--#nosuch a=\"b\" -->q<!--#nosuch-->r<!--#-->s<!--# echo var=\"x\" -->t<!--#echo \"x\" -->u<!--#echo =\"x\" -->\n\
         v<!--#config errmsg=\"[oops]\" --><!--#echo -->w<!--#config echomsg=\"[nothing]\" --><!--#echo var=\"none\" -->\n\
         x<!--#set var=\"a\" value=\"b ${open\" -->[<!--#echo var=\"a\" -->]y<!--#echo var=\"1\" -->z<!--#set var=\"a\" value=\"b\" encoding=\"odd\" value=\"c\" -->\n",
    ),
    (
        "failed.shtml",
        "1<!--#if expr=\"(\" -->a<!--#else -->b<!--#endif -->c\n2<!--#if -->a<!--#elif expr=\"true\" -->b<!--#else -->c<!--#endif -->d\n\
         3<!--#if expr=\"(\" -->a<!--#elif expr=\"true\" -->b<!--#elif expr=\"true\" -->c<!--#else -->d<!--#endif -->e\n\
         4<!--#if expr=\"(\" -->a<!--#if expr=\"true\" -->b<!--#endif -->c<!--#endif -->d<!--#else -->e<!--#endif -->f\n\
         5<!--#if expr=\"true\" -->a<!--#elif expr=\"(\" -->b<!--#else -->c<!--#endif -->d<!--#if expr=\"false\" -->e<!--#elif -->f<!--#else -->g<!--#endif -->h\n",
    ),
    (
        "files.shtml",
        "<!--#if expr=\"-f '/etc/passwd'\" -->a<!--#endif --><!--#if expr=\"-d '/etc'\" -->b<!--#endif --><!--#if expr=\"-e '/etc'\" -->c<!--#endif -->\n\
         <!--#if expr=\"-s '/etc/passwd'\" -->d<!--#endif --><!--#if expr=\"-L '/etc'\" -->e<!--#endif --><!--#if expr=\"! -h '/etc'\" -->f<!--#endif --><!--#if expr=\"-x '/etc'\" -->g<!--#endif -->\n\
         <!--#if expr=\"-F '/etc/passwd'\" -->h<!--#endif --><!--#if expr=\"-U '/plain.shtml'\" -->i<!--#endif -->\n",
    ),
    ("open.shtml", "a<!--#echo var=\"x"),
    ("open2.shtml", "a<!--#if expr=\"false\" -->b"),
    ("open3.shtml", "a <!--"),
    ("open4.shtml", "a<!--#printenv -"),
    (
        "if.shtml",
        "<!--#if expr=\"true\" -->1<!--#else -->2<!--#endif --><!--#if expr=\"false\" -->1<!--#else -->2<!--#endif -->\n\
         <!--#if expr=\"false\" -->1<!--#elif expr=\"true\" -->2<!--#elif expr=\"true\" -->3<!--#else -->4<!--#endif -->\n\
         <!--#if expr=\"false\" --><!--#if expr=\"true\" -->1<!--#else -->2<!--#endif -->3<!--#else -->4<!--#endif -->5\n\
         <!--#if expr=\"true\" --><!--#if expr=\"false\" -->1<!--#endif -->2<!--#else -->3<!--#endif -->4<!--#endif -->\n\
         <!--#set var=\"x\" value=\"abc\" --><!--#if expr='v(\"x\") = \"abc\"' -->v<!--#endif --><!--#if expr=\"reqenv('x') =~ /^(a)(.)(d)?/\" -->[<!--#echo var=\"0\" -->|<!--#echo var=\"1\" -->|<!--#echo var=\"2\" -->]<!--#endif -->\n\
         <!--#if expr=\"%{REQUEST_URI} =~ m#/if#\" -->uri<!--#endif --><!--#if expr=\"env('x') == 'abc'\" -->env<!--#endif -->\n\
         <!--#if expr=\"file('/etc/passwd') == ''\" -->a<!--#endif --><!--#if expr=\"(\" -->a<!--#endif -->\n\
         <!--#if -->a<!--#endif --><!--#if expr=\"true\" expr=\"false\" -->a<!--#endif --><!--#if expr -->a<!--#endif --><!--#if ex=\"true\" -->a<!--#endif -->\n\
         <!--#if expr=\"false\" --><!--#if -->a<!--#endif --><!--#elif -->b<!--#elif expr -->c<!--#elif ex=\"true\" -->d<!--#else x=\"y\" -->e<!--#endif x=\"y\" -->f<!--#endif -->g\n\
         <!--#else -->h<!--#endif -->i<!--#if expr=\"req('X-No') == ''\" -->j<!--#endif --><!--#comment any thing -->k<!--#if expr=\"false\" --><!--#echo --><!--#nosuch --><!--#endif -->\n",
    ),
    (
        "legacy/if.shtml",
        "<!--#set var=\"x\" value=\"abc\" --><!--#if expr=\"$x = abc\" -->1<!--#endif --><!--#if expr=\"$x = /^(a)(b)/\" -->[<!--#echo var=\"1\" -->$<!--#echo var=\"2\" -->|<!--#echo var=\"5\" -->]<!--#endif -->\n\
         <!--#if expr=\"$none\" -->a<!--#else -->b<!--#endif --><!--#if expr=\"!$none && $x != 'a'\" -->c<!--#endif --><!--#if expr=\"($x < b) || (a >= b)\" -->d<!--#endif -->\n\
         <!--#if expr=\"a || b && $none\" -->e<!--#else -->f<!--#endif --><!--#if expr=\"\" -->g<!--#else -->h<!--#endif --><!--#if expr=\"()\" -->i<!--#endif -->\n\
         <!--#if expr=\"$x = a b\" -->j<!--#else -->k<!--#endif --><!--#if expr=\"(a\" -->l<!--#endif --><!--#if expr=\"a)\" -->m<!--#endif --><!--#if expr=\"/a/\" -->n<!--#endif -->\n\
         <!--#if expr=\"a &&\" -->o<!--#endif --><!--#if expr=\"a = \" -->p<!--#endif --><!--#if expr=\"a < /b/\" -->q<!--#endif --><!--#if expr=\"&& a\" -->r<!--#endif --><!--#if expr=\"a = /(/\" -->s<!--#endif -->\n\
         <!--#if expr=\"-A /plain.shtml\" -->t<!--#endif --><!--#if expr=\"-A /denied/x\" -->u<!--#else -->v<!--#endif --><!--#if expr=\"\\\"$x\\\" = \\\"abc\\\"\" -->w<!--#endif -->\n",
    ),
    ("legacy/more.shtml", MORE),
    (
        "include.shtml",
        "<!--#include virtual=\"/part.txt\" -->|<!--#include file=\"part.txt\" -->|<!--#include virtual=\"sub/in.shtml\" -->|<!--#include file=\"sub/deep.txt\" -->\n\
         <!--#include virtual=\"part.txt\" file=\"part.txt\" -->|<!--#set var=\"p\" value=\"part\" --><!--#include virtual=\"$p.txt\" -->|<!--#include file=\"${p}.txt\" -->\n\
         <!--#include virtual=\"/none.txt\" -->|<!--#include file=\"none.txt\" -->|<!--#include file=\"/etc/passwd\" -->|<!--#include file=\"../x\" -->|<!--#include virtual=\"/denied/x\" -->\n\
         <!--#include virtual=\"/none.txt\" onerror=\"/part.txt\" -->|<!--#include virtual=\"/part.txt\" onerror=\"/sub/in.shtml\" -->|<!--#include virtual=\"/none.txt\" onerror=\"/none2.txt\" -->\n\
         <!--#include virtual=\"/moved\" -->|<!--#include virtual=\"/sub\" -->|<!--#include virtual=\"/sub/\" -->|<!--#include virtual=\"/a%20b.txt\" -->|<!--#include virtual=\"/a b.txt?x=y\" -->|<!--#include virtual=\"../part.txt\" -->\n\
         <!--#echo var=\"inner\" -->|<!--#include virtual=\"/in.bin\" -->|<!--#include virtual=\"/empty.shtml\" -->|<!--#include virtual=\"\" -->\n",
    ),
    ("loop.shtml", "<!--#include virtual=\"/loop.shtml\" -->x\n"),
    ("part.txt", "part\n"),
    ("a b.txt", "blank\n"),
    ("in.bin", "binary"),
    ("sub/index.html", "index\n"),
    (
        "sub/in.shtml",
        "[<!--#echo var=\"DOCUMENT_NAME\" --> <!--#echo var=\"DOCUMENT_URI\" --> <!--#echo var=\"p\" --><!--#set var=\"inner\" value=\"from inside\" --> <!--#include virtual=\"deep.txt\" -->]",
    ),
    ("sub/deep.txt", "deep"),
    ("denied/x", "secret"),
    (
        "size.shtml",
        "<!--#fsize file=\"part.txt\" -->|<!--#fsize virtual=\"/big.bin\" -->|<!--#config sizefmt=\"bytes\" --><!--#fsize virtual=\"big.bin\" file=\"part.txt\" -->|<!--#config sizefmt=\"abbrev\" --><!--#fsize virtual=\"/middle.bin\" -->\n\
         <!--#fsize file=\"none\" -->|<!--#fsize virtual=\"/none\" -->|<!--#fsize file=\"/etc\" -->|<!--#fsize odd=\"x\" -->|<!--#flastmod file=\"part.txt\" -->|<!--#config timefmt=\"%Y-%m-%d %H %Z\" --><!--#flastmod virtual=\"/part.txt\" -->\n\
         <!--#echo var=\"LAST_MODIFIED\" -->|<!--#config timefmt=\"%Y\" --><!--#echo var=\"LAST_MODIFIED\" -->|<!--#config timefmt=\"%Z %z\" --><!--#echo var=\"DATE_LOCAL\" -->|<!--#echo var=\"DATE_GMT\" -->|<!--#echo var=\"USER_NAME\" -->\n",
    ),
    ("time.shtml", "<!--#echo var=\"LAST_MODIFIED\" -->|<!--#include virtual=\"inner-time.shtml\" -->\n"),
    (
        "inner-time.shtml",
        "<!--#echo var=\"LAST_MODIFIED\" --> <!--#config timefmt=\"%B\" --><!--#echo var=\"LAST_MODIFIED\" -->",
    ),
    (
        "vars.shtml",
        "<!--#echo var=\"DOCUMENT_NAME\" -->|<!--#echo var=\"DOCUMENT_URI\" -->|<!--#echo var=\"DOCUMENT_ARGS\" -->|<!--#echo var=\"DOCUMENT_PATH_INFO\" -->|<!--#echo var=\"QUERY_STRING\" -->|<!--#echo var=\"QUERY_STRING_UNESCAPED\" -->\n\
         <!--#echo var=\"REQUEST_URI\" -->|<!--#echo var=\"SCRIPT_NAME\" -->|<!--#echo var=\"PATH_INFO\" -->|<!--#echo var=\"HTTP_X_Y\" -->|<!--#echo var=\"SET\" -->|<!--#echo var=\"request_method\" -->|<!--#echo var=\"REDIRECT_STATUS\" -->\n",
    ),
    (
        "script.shtml",
        "a<!--#set var=\"mine\" value=\"1\" --><!--#include virtual=\"/cgi/tell\" -->b<!--#include virtual=\"/cgi/tell/info?q=1\" -->c<!--#include virtual=\"/cgi/local\" -->d<!--#include virtual=\"/cgi/away\" -->\n\
         e<!--#include virtual=\"/cgi/missing\" -->f<!--#include virtual=\"/cgi/fails\" -->g<!--#include virtual=\"/cgi/page\" -->\n",
    ),
    (
        "exec.shtml",
        "a<!--#set var=\"mine\" value=\"1 2\" --><!--#config timefmt=\"%Y\" --><!--#exec cmd=\"echo $mine; echo \\$mine $none; pwd; echo [$DATE_LOCAL]\" -->b<!--#exec cmd=\"env | grep -E '^(mine|DOCUMENT_|QUERY|REQUEST_URI|PATH_INFO|SCRIPT_NAME|HTTP_)' | sort; cat\" -->\n\
         c<!--#exec cgi=\"/cgi/tell\" -->d<!--#exec cgi=\"/cgi/none\" -->e<!--#exec cgi=\"/cgi/tell?x=y\" -->f<!--#exec cgi=\"/cgi/away\" -->g<!--#exec -->h<!--#exec odd=\"x\" -->i<!--#exec cmd=\"exit 3\" -->\n",
    ),
    ("hack.html", "<!--#echo var=\"DOCUMENT_NAME\" -->\n"),
    ("full.html", "<!--#echo var=\"DOCUMENT_NAME\" -->\n"),
    ("error.shtml", "error <!--#echo var=\"REDIRECT_STATUS\" --> <!--#echo var=\"REDIRECT_URL\" -->\n"),
    ("tags.shtml", "<!--#echo var=\"DOCUMENT_NAME\" --> <%echo var=\"DOCUMENT_NAME\" %> <%nosuch%>\n"),
];

/// Conditions of Apache 2.2, good and bad.
const MORE: &str = r#"0<!--#if expr="!a = b" -->T<!--#else -->F<!--#endif -->
1<!--#if expr="!(a = b) && c" -->T<!--#else -->F<!--#endif -->
2<!--#if expr="a = b = c" -->T<!--#else -->F<!--#endif -->
3<!--#if expr="a (b)" -->T<!--#else -->F<!--#endif -->
4<!--#if expr="a && && b" -->T<!--#else -->F<!--#endif -->
5<!--#if expr="! ! a" -->T<!--#else -->F<!--#endif -->
6<!--#if expr="a = !b" -->T<!--#else -->F<!--#endif -->
7<!--#if expr="(a) = b" -->T<!--#else -->F<!--#endif -->
8<!--#if expr="a || b ||" -->T<!--#else -->F<!--#endif -->
9<!--#if expr="a b = a b" -->T<!--#else -->F<!--#endif -->
10<!--#if expr="'a' 'b'" -->T<!--#else -->F<!--#endif -->
11<!--#if expr="/a/ = a" -->T<!--#else -->F<!--#endif -->
12<!--#if expr="(a && b" -->T<!--#else -->F<!--#endif -->
13<!--#if expr="!" -->T<!--#else -->F<!--#endif -->
14<!--#if expr="a !" -->T<!--#else -->F<!--#endif -->
15<!--#if expr="a = b || a = a" -->T<!--#else -->F<!--#endif -->
16<!--#if expr="a = a && a = b || a" -->T<!--#else -->F<!--#endif -->
17<!--#if expr="()a" -->T<!--#else -->F<!--#endif -->
18<!--#if expr="(())" -->T<!--#else -->F<!--#endif -->
19<!--#if expr="a==a" -->T<!--#else -->F<!--#endif -->
20<!--#if expr="a = = a" -->T<!--#else -->F<!--#endif -->
21<!--#if expr="-A" -->T<!--#else -->F<!--#endif -->
22<!--#if expr="-A (a)" -->T<!--#else -->F<!--#endif -->
23<!--#if expr="-A /plain.shtml && a" -->T<!--#else -->F<!--#endif -->
24<!--#if expr="a -A b" -->T<!--#else -->F<!--#endif -->
25<!--#if expr="$x = ''" -->T<!--#else -->F<!--#endif -->
26<!--#if expr="'' = $x" -->T<!--#else -->F<!--#endif -->
27<!--#if expr="a <= a" -->T<!--#else -->F<!--#endif -->
28<!--#if expr="a && (b" -->T<!--#else -->F<!--#endif -->
29<!--#if expr="a) && b" -->T<!--#else -->F<!--#endif -->
30<!--#if expr="\$x" -->T<!--#else -->F<!--#endif -->
31<!--#if expr="a\=b" -->T<!--#else -->F<!--#endif -->
32<!--#if expr="||a" -->T<!--#else -->F<!--#endif -->
33<!--#if expr="a & b" -->T<!--#else -->F<!--#endif -->
34<!--#if expr="a|b" -->T<!--#else -->F<!--#endif -->
35<!--#if expr="a=/(a)/ && b=/(b)/" -->T<!--#else -->F<!--#endif -->
36<!--#if expr="(a)(b)" -->T<!--#else -->F<!--#endif -->
37<!--#if expr="!=a" -->T<!--#else -->F<!--#endif -->
38<!--#if expr="a!=b" -->T<!--#else -->F<!--#endif -->
"#;

const TELL: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n\
    env | grep -E '^(mine|DOCUMENT_|DATE_|QUERY|REQUEST_|PATH_|SCRIPT_|CONTENT_|SERVER_PROTOCOL|GATEWAY)' | sort; cat\n";

fn build(site: &Site) {
    for (name, text) in PAGES {
        site.page(name, text);
    }
    site.page("big.bin", vec![b'x'; 1_234_567]);
    site.page("middle.bin", vec![b'x'; 20_000]);
    for (name, mode) in [("hack.html", 0o744), ("full.html", 0o754)] {
        std::fs::set_permissions(site.root.join("htdocs").join(name), std::fs::Permissions::from_mode(mode))
            .expect("mode");
    }
    site.script("tell", TELL);
    site.script("local", "#!/bin/sh\nprintf 'Location: /part.txt\\n\\n'\n");
    site.script("away", "#!/bin/sh\nprintf 'Location: http://x.example/\\n\\n'\n");
    site.script("missing", "#!/bin/sh\nprintf 'Status: 404 Not here\\nContent-Type: text/plain\\n\\nnot here\\n'\n");
    site.script("fails", "#!/bin/sh\n");
    site.script("page", "#!/bin/sh\nprintf 'Content-Type: text/html\\n\\n<!--#echo var=\"DOCUMENT_NAME\" -->\\n'\n");
}

const BASE: &str = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n\
    <Directory ${DOCS}>\nOptions Includes FollowSymLinks\nAllowOverride All\nAddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\nSetEnv SET it\n</Directory>\n\
    <Directory ${DOCS}/legacy>\nSSILegacyExprParser on\n</Directory>\n<Location /denied>\nRequire all denied\n</Location>\nRedirect /moved /part.txt\n";

/// A page that is there at once has a length.
fn allowed() -> Vec<Allowed> {
    let length = |what| Allowed { case: "*", what, entry: "The length of a page with includes" };
    let range =
        |what| Allowed { case: "GET /echo.shtml|Range: bytes=0-3", what, entry: "The length of a page with includes" };
    vec![length("content-length"), length("transfer-encoding"), range("status"), range("%s"), range("%>s"), range("%b")]
}

#[test]
fn pages() {
    let mut cases = gets(&[
        "/plain.shtml",
        "/empty.shtml",
        "/echo.shtml",
        "/wrong.shtml",
        "/failed.shtml",
        "/open.shtml",
        "/open2.shtml",
        "/files.shtml",
        "/open3.shtml",
        "/open4.shtml",
        "/if.shtml",
        "/legacy/if.shtml",
        "/legacy/more.shtml",
        "/include.shtml",
        "/loop.shtml",
        "/size.shtml",
        "/time.shtml",
        "/vars.shtml",
        "/vars.shtml?a=b%20c;d&e",
        "/vars.shtml/path/info?q",
        "/script.shtml",
        "/script.shtml?x=1",
        "/exec.shtml",
        "/exec.shtml/p%20i?x=%3b1",
        "/none",
    ]);
    for request in [
        "GET /vars.shtml|X-Y: <z>",
        "GET /plain.shtml|If-Modified-Since: Tue, 14 Nov 2033 22:13:20 GMT",
        "HEAD /echo.shtml",
        "GET /echo.shtml|Range: bytes=0-3",
    ] {
        cases.push(Case::of(request));
    }
    let allowed = allowed();
    compare("pages", build, &format!("{BASE}ErrorDocument 404 /error.shtml"), &cases, &allowed);
}

#[test]
fn whose_pages_are_parsed() {
    let requests = [
        "GET /hack.html",
        "GET /full.html",
        "GET /full.html|If-Modified-Since: Tue, 14 Nov 2033 22:13:20 GMT",
        "GET /hack.html|If-Modified-Since: Tue, 14 Nov 2033 22:13:20 GMT",
        "GET /plain.shtml",
        "GET /part.txt",
        "GET /exec.shtml",
        "GET /script.shtml",
        "GET /include.shtml",
        "GET /tags.shtml",
        "GET /wrong.shtml",
    ];
    let cases: Vec<Case> = requests.iter().map(|request| Case::of(request)).collect();
    let directory = |lines: &str| format!("{BASE}<Directory ${{DOCS}}>\n{lines}\n</Directory>");
    let configurations = [
        directory("XBitHack On"),
        directory("XBitHack Full\nSSIEtag on"),
        directory("Options -Includes"),
        directory("Options IncludesNOEXEC"),
        directory("SSILastModified on\nSSIEtag on\nRemoveOutputFilter .shtml\nAddHandler server-parsed .shtml .txt"),
        directory("SSIErrorMsg [bad]\nSSIUndefinedEcho [unknown]\nSSITimeFormat %Y") + "\nSSIStartTag <%\nSSIEndTag %>",
        directory("SSIErrorMsg [bad]\nSSIUndefinedEcho [unknown]\nSSITimeFormat %Y"),
    ];
    let allowed = allowed();
    for configuration in configurations {
        compare("whose_pages_are_parsed", build, &configuration, &cases, &allowed);
    }
}

under_percore_and! { event:
    /// The text before a script is sent while the script runs, and text that exceeds an answer's memory buffer is sent
    /// whole.
    fn a_page_is_sent_as_it_is_made(mpm: Mpm) {
        let site = Site::with([("slow.shtml", "beginning|<!--#include virtual=\"/cgi/slow\" -->|end\n")]);
        site.page("large.shtml", "<!--#include virtual=\"/large.txt\" --><!--#echo var=\"DOCUMENT_NAME\" -->\n".repeat(3));
        site.page("large.txt", "x".repeat(300_000));
        let fifo = site.root.join("go");
        let made = std::process::Command::new("mkfifo").args(["-m", "666"]).arg(&fifo).status().expect("mkfifo");
        assert!(made.success());
        site.script("slow", &format!("#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\ncat '{}'\n", fifo.display()));
        let server = Server::start(mpm, &site, BASE);
        let mut client = server.client();
        client.send(wire::get("/slow.shtml"));
        let mut so_far = Vec::new();
        while !so_far.ends_with(b"beginning|") {
            so_far.extend(client.bytes(1));
        }
        std::fs::write(&fifo, "made").expect("the script reads");
        let rest = String::from_utf8_lossy(&client.bytes("\r\n4\r\nmade\r\n".len())).into_owned();
        assert!(rest.contains("made"), "{rest:?}");
        let large = server.get("/large.shtml").text();
        assert_eq!((large.len(), large.ends_with("xlarge.shtml\n")), (3 * (300_000 + "large.shtml\n".len()), true));
    }
    /// Texts and variables of a page end somewhere: a page that doubles them shows errors, and holds little.
    fn a_page_may_hold_so_much(mpm: Mpm) {
        let double = "<!--#set var=\"a\" value=\"$a$a\" -->".repeat(40);
        let many: String = (0..40).map(|number| format!("<!--#set var=\"v{number}\" value=\"$a\" -->")).collect();
        let codings = format!("<!--#set var=\"b\" encoding=\"{}\" value=\"x\" -->", "base64,".repeat(60));
        let start = format!("<!--#config errmsg=\"!\" --><!--#set var=\"a\" value=\"{}\" -->", "x".repeat(1000));
        let site = Site::with([
            ("double.shtml", &*format!("{start}{double}end\n")),
            ("many.shtml", &*format!("{start}{}{many}end\n", "<!--#set var=\"a\" value=\"$a$a\" -->".repeat(6))),
            ("coded.shtml", &*format!("{start}{codings}<!--#if expr=\"true\" -->end<!--#endif -->\n")),
        ]);
        let server = Server::start(mpm, &site, BASE);
        server.allow("is longer than 131072 bytes");
        server.allow("hold more than 1048576 bytes");
        // 1 000 bytes, doubled seven times.
        assert_eq!(server.get("/double.shtml").text(), format!("{}end\n", "!".repeat(33)));
        // 64 000 bytes each.
        assert_eq!(server.get("/many.shtml").text(), format!("{}end\n", "!".repeat(25)));
        assert_eq!(server.get("/coded.shtml").text(), "!end\n");
    }
}

//! Information about clients, files and answers, compared with Apache: expiry, clients of proxies, cookies, files with
//! fields, types by content.

use std::cell::RefCell;

use crate::harness::mpm::Mpm;
use crate::harness::oracle::{Allowed, Case, both, compare};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;

/// `Expires` and `Cache-Control` by type, section and origin; what depends on the present moment is replaced.
#[test]
fn expiry_of_answers() {
    let build = |site: &Site| {
        for name in ["f.html", "f.txt", "f.png", "f.gif", "f.none", "off/f.html", "in/f.png", "in/f.css", "act/f.png"] {
            site.page(name, "x\n");
        }
        site.page("ht/f.html", "x\n");
        site.page("ht/.htaccess", "ExpiresDefault \"access plus 3 days\"\nExpiresByType text/html M315360007\n");
        site.page("bad/f.html", "x\n");
        site.page("bad/.htaccess", "ExpiresDefault \"access plus 3 eons\"\n");
        let says = |fields: &str| format!("#!/bin/sh\nprintf 'Content-Type: text/html\\n{fields}\\nhello'\n");
        site.script("own", &says("Expires: Thu, 01 Jan 1970 00:00:00 GMT\\n"));
        site.script("control", &says("Cache-Control: private\\n"));
        site.script("error", &says("Status: 404 Not Found\\n"));
    };
    let configuration = "AllowOverride All\n</Directory>\nScriptAlias /cgi/ ${ROOT}/cgi-bin/\n\
        <Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n\
        ExpiresActive On\nExpiresByType text/html \"access plus 1 hour\"\nExpiresByType image/* A77\n\
        ExpiresByType IMAGE/GIF \"now plus 2 minutes 3 seconds\"\nExpiresDefault \"modification plus 10 years 1 month\"\n\
        ErrorDocument 403 /f.txt\nRedirect /r http://x.example/\n\
        <Location /in>\nExpiresByType text/css A5\n</Location>\n<Location /act>\nExpiresActive On\n</Location>\n\
        <Location /off>\nExpiresActive Off\n</Location>\n<Location /denied>\nRequire all denied\n</Location>\n\
        <Location /past>\nExpiresDefault M1\nExpiresByType text/html \"access plus 100 years\"\n</Location>\n\
        Alias /past/ ${DOCS}/\nHeader edit Expires \"^.* 20(2[6-9]|3[01]) .*$\" now\n\
        Header edit Cache-Control \"max-age=[0-9]{8,}\" max-age=many\n";
    let requests = [
        "GET /f.html",
        "HEAD /f.html",
        "POST /f.html",
        "GET /f.txt",
        "GET /f.png",
        "GET /f.gif",
        "GET /f.none",
        "GET /f.html|If-Modified-Since: Fri, 31 Dec 2038 00:00:00 GMT",
        "GET /f.html|Range: bytes=0-0",
        "GET /in/f.png",
        "GET /in/f.css",
        "GET /act/f.png",
        "GET /off/f.html",
        "GET /none",
        "GET /denied",
        "GET /ht/f.html",
        "GET /bad/f.html",
        "GET /past/f.txt",
        "GET /past/f.html",
        "OPTIONS /f.html",
        "GET /cgi/own",
        "GET /cgi/control",
        "GET /cgi/error",
    ];
    let cases: Vec<Case> = requests.iter().map(|request| Case::of(request)).collect();
    let length = ["content-length", "transfer-encoding"].map(|what| Allowed {
        case: "*/cgi/*",
        what,
        entry: "The length of a short CGI answer",
    });
    let mut allowed = length.to_vec();
    allowed.push(Allowed { case: "GET /bad/f.html", what: "%f", entry: "The file of a request" });
    let text = format!("<Directory ${{DOCS}}>\n{configuration}");
    compare("expiry_of_answers", build, &text, &cases, &allowed);
    // The fields of a redirect are its own: there nothing replaces the moment.
    both("expiry_of_answers", build, &text, |site| {
        for path in ["/in", "/r"] {
            let answer = Client::connect(site.address()).get(path);
            let told = (answer.field("Cache-Control"), answer.field("Expires").is_some());
            assert_eq!(told, (Some("max-age=3600"), true), "{path}");
        }
    });
}

/// A script that shows what it knows of the client.
const WHO: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n\
    env | grep -E '^(REMOTE_(ADDR|HOST)|HTTP_X_)' | sort\n";

/// The known facts about clients, in answers and logs.
const KNOWN: &str = "Header set X-Who \"expr=%{REMOTE_ADDR} %{reqenv:A}\"\nSetEnvIf Remote_Addr ^30 A=thirty\n\
    <If \"%{CONN_REMOTE_ADDR} -ipmatch '127.0.0.0/8'\">\nHeader set X-Conn yes\n</If>\n\
    LogFormat \"%a %{c}a %{remote}p %h %>s list=%{remoteip-proxy-ip-list}n for=%{X-For}i by=%{X-By}i\" who\nCustomLog logs/who who\n\
    ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>\n\
    <Location /in>\nRequire ip 30.0.0.0/8 2001:db8::/32 192.168.0.0/16\n</Location>\n";

/// Sends the bytes of each case over a connection of its own, and compares what both servers answer and log.
fn alike(test: &str, build: impl Fn(&Site), configuration: &str, cases: &[Case]) {
    let seen = RefCell::new(Vec::new());
    both(test, build, configuration, |site| {
        let ip = site.ip.to_string();
        let (mut told, mut answers) = (Vec::new(), 0);
        for case in cases {
            let mut client = Client::connect(site.address());
            let (port, before) = (client.address().port().to_string(), answers);
            client.send(&case.bytes);
            client.half_close();
            while let Ok(answer) = client.try_response_to("GET") {
                answers += 1;
                let fields = ["X-Who", "X-Conn"].map(|name| answer.field(name).unwrap_or_default().to_string());
                told.push(
                    format!("{}: {} {fields:?} {}", case.name, answer.status, answer.text()).replace(&ip, "ADDR"),
                );
            }
            if answers > before {
                let lines = until("a line for each answer", || {
                    let lines: Vec<String> = site.read("logs/who").lines().map(str::to_string).collect();
                    (lines.len() >= answers).then_some(lines)
                });
                let line = lines.last().map(|line| line.replace(&ip, "ADDR").replace(&format!(" {port} "), " PORT "));
                told.push(format!("{}: {line:?}", case.name));
            }
        }
        seen.borrow_mut().push(told);
    });
    let seen = seen.into_inner();
    let Some((theirs, ours)) = seen.split_last() else { return };
    for ours in ours {
        let pairs = ours.iter().zip(theirs).filter(|(ours, theirs)| ours != theirs);
        let differences: Vec<String> = pairs.map(|(ours, theirs)| format!("ours   {ours}\nApache {theirs}")).collect();
        assert!(differences.is_empty() && ours.len() == theirs.len(), "{test}:\n{}", differences.join("\n"));
    }
}

/// The client's address from a field of the request: for scripts, rules, expressions and logs.
#[test]
fn clients_behind_proxies() {
    let build = |site: &Site| {
        site.script("who", WHO);
        site.page("in/f.txt", "x\n");
        site.file("conf/proxies", "# comment\n 20.0.0.0/8 20.1.1.1 # more\n\n::1\n");
    };
    let lists = [
        "30.1.2.3",
        "30.1.2.3, 20.0.0.1",
        "30.1.2.3 , 20.0.0.1,20.1.1.1",
        "30.1.2.3, 40.0.0.1, 20.0.0.1",
        "10.0.0.9, 20.0.0.1",
        "30.1.2.3, 10.0.0.9",
        "192.168.7.7",
        "2001:db8::5",
        "::ffff:30.1.2.3",
        "fe80::1",
        "30.1.2.3,",
        ",30.1.2.3",
        "",
        " ",
    ];
    let mut cases = Vec::new();
    for list in lists {
        for path in ["/cgi/who", "/in/f.txt", "/none"] {
            cases.push(Case::of(&format!("GET {path}|X-For: {list}|X-By: old")));
        }
    }
    cases.push(Case::of("GET /cgi/who|X-For: 30.1.2.3|X-For: 20.0.0.1"));
    cases.push(Case::of("GET /cgi/who|X-Other: 30.1.2.3"));
    // Apache asks a name server for it.
    cases.push(Case::of("GET /cgi/who|X-For: 30.1.2.3, nonsense."));
    for lines in [
        "RemoteIPHeader X-For\nRemoteIPProxiesHeader X-By\nErrorDocument 404 /cgi/who",
        "RemoteIPHeader X-For\nRemoteIPProxiesHeader X-By\nRemoteIPTrustedProxy 127.0.0.0/8 20.0.0.0/8 40.0.0.1",
        "RemoteIPHeader X-For\nRemoteIPProxiesHeader X-By\nRemoteIPInternalProxy 127.0.0.0/8\nRemoteIPTrustedProxyList conf/proxies",
        "RemoteIPHeader X-For\nRemoteIPInternalProxy 127.0.0.0/8 10.0.0.0/8 20.0.0.0/8",
        "RemoteIPHeader X-For\nRemoteIPTrustedProxy 99.0.0.0/8 98.0.0.0/8",
        "RemoteIPProxiesHeader X-By\nRemoteIPTrustedProxy 127.0.0.0/8",
    ] {
        alike("clients_behind_proxies", build, &format!("{lines}\n{KNOWN}"), &cases);
    }
}

/// The client's address from a proxy's header before the first request (PROXY protocol).
#[test]
fn clients_of_proxies_that_say_so() {
    let build = |site: &Site| {
        site.script("who", WHO);
    };
    let get = "GET /cgi/who HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let two = |command: u8, family: u8, addresses: &[u8]| {
        let mut bytes = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
        bytes.extend([command, family]);
        bytes.extend(u16::try_from(addresses.len()).expect("short").to_be_bytes());
        bytes.extend(addresses);
        bytes
    };
    let four = [30, 1, 2, 3, 20, 1, 2, 3, 0x12, 0x34, 0, 80];
    let mut six = [0; 36];
    six[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
    six[15] = 5;
    let with_more = [&four[..], &[3, 0, 2, 9, 9]].concat();
    let said: [(&str, Vec<u8>); 17] = [
        ("four", b"PROXY TCP4 30.1.2.3 20.1.2.3 4660 80\r\n".to_vec()),
        ("six", b"PROXY TCP6 2001:db8::5 ::1 4660 80\r\n".to_vec()),
        ("unknown", b"PROXY UNKNOWN ffff:: ffff:: 1 2\r\n".to_vec()),
        ("nothing", Vec::new()),
        ("another family", b"PROXY TCP5 30.1.2.3 20.1.2.3 4660 80\r\n".to_vec()),
        ("no address", b"PROXY TCP4 name 20.1.2.3 4660 80\r\n".to_vec()),
        ("no port", b"PROXY TCP4 30.1.2.3 20.1.2.3\r\n".to_vec()),
        ("another port", b"PROXY TCP4 30.1.2.3 20.1.2.3 x 80\r\n".to_vec()),
        ("too long", [b"PROXY TCP4 ", &[b'1'; 200][..], b"\r\n"].concat()),
        ("two: four", two(0x21, 0x11, &four)),
        ("two: six", two(0x21, 0x21, &six)),
        ("two: more", two(0x21, 0x11, &with_more)),
        ("two: local", two(0x20, 0, &[])),
        ("two: short", two(0x21, 0x11, &four[..8])),
        ("two: command", two(0x22, 0x11, &four)),
        ("two: version", two(0x31, 0x11, &four)),
        ("two: too long", two(0x21, 0x11, &[0; 300])),
    ];
    let cases: Vec<Case> = said
        .into_iter()
        .map(|(name, bytes)| Case { name: name.into(), bytes: [bytes, get.repeat(2).into_bytes()].concat() })
        .collect();
    let text = format!("RemoteIPProxyProtocol On\nRemoteIPProxyProtocolExceptions 10.0.0.0/8\n{KNOWN}");
    alike("clients_of_proxies_that_say_so", build, &text, &cases);
    // Excepted clients send no such header.
    let text = format!("RemoteIPProxyProtocol On\nRemoteIPProxyProtocolExceptions 127.0.0.0/8\n{KNOWN}");
    alike("clients_of_proxies_that_say_so", build, &text, &[Case::of("GET /cgi/who")]);
    let text = format!("<VirtualHost ${{ADDR}}:8080>\nRemoteIPProxyProtocol On\n{KNOWN}</VirtualHost>\n");
    alike("clients_of_proxies_that_say_so", build, &text, &cases[..4]);
}

/// A proxy's header may arrive in pieces, before a head that arrives in pieces.
#[test]
fn a_proxy_header_may_arrive_slowly() {
    let site = Site::with([("f.txt", "x\n")]);
    let text = format!("RemoteIPProxyProtocol On\n{KNOWN}");
    let server = Server::start(Mpm::Percore, &site, &text);
    let mut client = Client::connect(server.site.address());
    let request = "PROXY TCP4 30.1.2.3 20.1.2.3 4660 80\r\nGET /f.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client.send_in_pieces(request.as_bytes(), 1);
    let answer = client.response();
    assert_eq!((answer.status, answer.field("X-Who")), (200, Some("30.1.2.3 thirty")));
    // It is said once.
    let answer = client.get("/f.txt");
    assert_eq!((answer.status, answer.field("X-Who")), (200, Some("30.1.2.3 thirty")));
}

/// Cookies that browsers are known by; what is drawn is replaced.
#[test]
fn cookies_of_browsers() {
    let build = |site: &Site| {
        for name in ["f.txt", "one/f.txt", "two/f.txt", "three/f.txt", "ht/f.txt", "one/in/f.txt"] {
            site.page(name, "x\n");
        }
        site.page("ht/.htaccess", "CookieTracking on\nCookieName b.a-c_\nCookieDomain .x.example\n");
    };
    let text = "<Directory ${DOCS}>\nAllowOverride FileInfo\n</Directory>\n\
        <Location /one>\nCookieTracking on\nCookieExpires \"2 weeks\"\nCookieSecure on\nCookieHttpOnly on\n\
        CookieSameSite Lax\n</Location>\n<Location /one/in>\nCookieName inner\n</Location>\n\
        <Location /two>\nCookieTracking on\nCookieStyle Cookie2\nCookieDomain .a.b\n</Location>\n\
        <Location /three>\nCookieTracking on\nCookieStyle RFC2109\nCookieName Track\n</Location>\n\
        Header always edit Set-Cookie =[0-9a-f]+\\.[0-9a-f]+ =DRAWN\n\
        Header always edit Set-Cookie2 =[0-9a-f]+\\.[0-9a-f]+ =DRAWN\n\
        Header always edit Set-Cookie \"expires=[A-Z][a-z][a-z], [0-9][0-9]-[A-Z][a-z][a-z]-2[67] [0-9:]{8} GMT\" expires=THEN\n\
        Header set X-Note \"expr=%{note:cookie}\"\nHeader edit X-Note ^[0-9a-f]{1,8}\\.[0-9a-f]{8,}$ DRAWN\n";
    let mut cases = Vec::new();
    for path in ["/f.txt", "/one/f.txt", "/one/in/f.txt", "/two/f.txt", "/three/f.txt", "/ht/f.txt"] {
        for cookie in
            ["", "Apache=abc", "x=y; Apache=abc; z=1", "Track=t,Apache=u", "NotApache=abc", "b.a-c_=q", "Apache="]
        {
            cases.push(Case::of(&format!("GET {path}|Cookie: {cookie}")));
        }
    }
    compare("cookies_of_browsers", build, text, &cases, &[]);
}

/// Fields of answers from files beside the files.
#[test]
fn files_with_fields() {
    let build = |site: &Site| {
        for (name, text) in [
            ("plain", "X-A: one\nX-B:   two  \nETag: \"own\"\nContent-Type: Text/X; Charset=U \n"),
            ("status", "Status: 404 Not here\n"),
            ("number", "Status: 203\n"),
            ("blank", "X-A: one\n\nX-B: two\n"),
            ("crlf", "X-A: one\r\nX-B: two\r\n"),
            ("bad", "X-A: one\nno field\n"),
            ("framing", "X-A: one\nTransfer-Encoding: chunked\n"),
            ("te", "te: x\n"),
            ("empty", ""),
            ("half", "X-A: one"),
            ("denied", "X-A: one\n"),
        ] {
            site.page(&format!("{name}.txt"), "x\n");
            site.page(&format!(".web/{name}.txt.meta"), text);
            site.page(&format!("in/{name}.txt"), "x\n");
            site.page(&format!("in/m/{name}.txt.m"), text);
            site.page(&format!("off/{name}.txt"), "x\n");
            site.page(&format!("off/.web/{name}.txt.meta"), text);
        }
        site.page("none.txt", "x\n");
    };
    let text = "MetaFiles on\n<Directory ${DOCS}/in>\nMetaFiles on\nMetaDir m\nMetaSuffix .m\n</Directory>\n\
        <Directory ${DOCS}/off>\nMetaSuffix .meta\n</Directory>\n<Files denied.txt.meta>\nRequire all denied\n</Files>\n";
    let mut cases = Vec::new();
    for name in
        ["plain", "status", "number", "blank", "crlf", "bad", "framing", "te", "empty", "half", "denied", "none"]
    {
        for directory in ["", "in/", "off/"] {
            cases.push(Case::of(&format!("GET /{directory}{name}.txt")));
        }
    }
    compare("files_with_fields", build, text, &cases, &[]);
}

/// Types by what is in files, with rules of our own.
#[test]
fn types_by_content() {
    let padded = |start: &[u8]| [start, &[b'.'; 600][..]].concat();
    let mut record = vec![0; 512];
    record[..5].copy_from_slice(b"a.txt");
    record[148..156].copy_from_slice(b"000645\0 ");
    let sum: u32 = record.iter().map(|byte| u32::from(*byte)).sum::<u32>()
        - record[148..156].iter().map(|byte| u32::from(*byte)).sum::<u32>()
        + 8 * 32;
    record[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let build = |site: &Site| {
        let rules = "# rules\n0 string GIF8 image/gif\n0\tbeshort\t0x1234\n>2\tbyte\t7\tkind/seven\n>2\tbyte\t>7\tkind/more\n\
            >>3 byte x \\b-%d\n0 string \\x89P\\116G image/PNG  X-Coded\n0 belong 0xcafebabe high/bit\n\
            0 ubelong 0xcafebabf high/unsigned\n0 lelong 0x04030201 little/endian\n0 long 0x44434241 host/order\n\
            4 leshort &0x8000 set/bit\n0 string >zz high/%s\n0 string \\<?xml text/xml\n0 string !no bang/text\n0 string SP no type\n";
        site.file("conf/magic", rules);
        let files: [(&str, Vec<u8>); 27] = [
            ("gif", padded(b"GIF89a")),
            ("short-gif", b"GIF89a".to_vec()),
            ("seven", padded(b"\x12\x34\x07")),
            ("more", padded(b"\x12\x34\x09\x05")),
            ("neither", padded(b"\x12\x34\x01")),
            ("png", padded(b"\x89PNG")),
            ("cafe", padded(b"\xca\xfe\xba\xbe")),
            ("cafe2", padded(b"\xca\xfe\xba\xbf")),
            ("little", padded(b"\x01\x02\x03\x04")),
            ("host", padded(b"ABCD")),
            ("bit", padded(b"\0\0\0\0\0\x80")),
            ("high", padded(b"zzz\n")),
            ("xml", padded(b"<?xml version=1>")),
            ("bang", padded(b"!no")),
            ("space", padded(b"SP")),
            ("html", b"a b <html> c".to_vec()),
            ("escapes", b"\x1b[1m the <html>".to_vec()),
            ("troff", b".TH x 1".to_vec()),
            ("fortran", b"c comment".to_vec()),
            ("mail", b"Received: from x".to_vec()),
            ("unknown", b"nothing at all".to_vec()),
            ("empty", Vec::new()),
            ("tar", record.clone()),
            ("nul", b"\0 the".to_vec()),
            ("hello-gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xcbH\xcd\xc9\xc9\x07\0\x86\xa6\x106\x05\0\0\0".to_vec()),
            ("empty-gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0".to_vec()),
            // A GIF of the rules, and dots.
            (
                "gif-gz",
                b"\x1f\x8b\x08\0\0\0\0\0\0\x03s\xf7t\xb3\xb0L\xd4\x1b\x05\xa3\x80\x06\0\0\xcd\xa3?y^\x02\0\0".to_vec(),
            ),
        ];
        for (name, bytes) in files {
            site.page(name, bytes);
        }
        site.page("named.txt", padded(b"GIF89a"));
        site.page("named.txt@12", padded(b"GIF89a"));
        site.page("forced/gif", padded(b"GIF89a"));
    };
    let text = "MimeMagicFile conf/magic\n<Location /forced>\nForceType a/b\n</Location>\nAddDefaultCharset Off\n";
    let names = [
        "gif",
        "short-gif",
        "seven",
        "more",
        "neither",
        "png",
        "cafe",
        "cafe2",
        "little",
        "host",
        "bit",
        "high",
        "xml",
        "bang",
        "space",
        "html",
        "escapes",
        "troff",
        "fortran",
        "mail",
        "unknown",
        "empty",
        "tar",
        "nul",
        "hello-gz",
        "empty-gz",
        "gif-gz",
        "named.txt",
        "named.txt@12",
        "forced/gif",
        "none",
        "",
    ];
    let cases: Vec<Case> = names.iter().map(|name| Case::of(&format!("GET /{name}"))).collect();
    let entry = "A type that comes with an encoding";
    let allowed =
        [("GET /png", "%{Content-Type}o"), ("GET /escapes", "%{Content-Type}o"), ("GET /empty-gz", "error log")]
            .map(|(case, what)| Allowed { case, what, entry });
    compare("types_by_content", build, text, &cases, &allowed);
    let debian = "<IfFile /etc/apache2/magic>\nMimeMagicFile /etc/apache2/magic\n</IfFile>\nAddDefaultCharset Off\n";
    compare("types_by_content", build, debian, &cases, &allowed);
}

/// Further slashes at the start of a path hide the path neither from patterns nor from expressions of the server.
#[test]
fn slashes_hide_no_path() {
    let build = |site: &Site| {
        site.page("secret/s.txt", "s\n");
    };
    let text = "SetEnvIf Request_URI ^/secret bad\nSetEnvIfExpr \"%{REQUEST_URI} =~ m#^/secret#\" worse\n\
        <Directory ${DOCS}>\n<RequireAll>\nRequire all granted\nRequire not env bad\n</RequireAll>\n</Directory>\n\
        Header always set X-Seen \"expr=%{reqenv:bad} %{reqenv:worse}\"\n";
    for text in [text.to_string(), format!("MergeSlashes Off\n{text}")] {
        let paths = [
            "/secret/s.txt",
            "//secret/s.txt",
            "///secret/s.txt",
            "/secret//s.txt",
            "/./secret/s.txt",
            "/%73ecret/s.txt",
        ];
        let case = |path: &&str| Case {
            name: path.to_string(),
            bytes: format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes(),
        };
        let cases: Vec<Case> = paths.iter().map(case).collect();
        compare("slashes_hide_no_path", build, &text, &cases, &[]);
    }
}

//! Rarer ways to map URLs to files, compared with Apache: users' directories, virtual hosts, misspelled paths, image
//! maps.

use crate::harness::oracle::{Allowed, Case, compare};
use crate::harness::site::Site;

/// A script that shows what it is known by.
const TELL: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n\
    env | grep -E '^(DOCUMENT_ROOT|CONTEXT_|SCRIPT_FILENAME|SCRIPT_NAME|PATH_INFO)' | sort\n";

/// Scripts answer with a length here and in chunks there.
const LENGTH: [Allowed; 2] = [
    Allowed { case: "*cgi*", what: "content-length", entry: "The length of a short CGI answer" },
    Allowed { case: "*cgi*", what: "transfer-encoding", entry: "The length of a short CGI answer" },
];

fn script(site: &Site, name: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = site.file(name, TELL);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("mode");
}

/// Requests to several virtual hosts: `HOST METHOD target`.
fn to_hosts(requests: &[&str]) -> Vec<Case> {
    let case = |request: &&str| {
        let (host, line) = request.split_once(' ').expect("a host");
        Case { name: request.to_string(), bytes: format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes() }
    };
    requests.iter().map(case).collect()
}

#[test]
fn directories_of_users() {
    let build = |site: &Site| {
        site.file("home/ann/web/f.html", "ann's\n");
        site.file("home/Bob/web/f.html", "Bob's\n");
        site.file("other/ann/f.html", "ann's other\n");
        site.file("other/eve/f.html", "eve's other\n");
        site.page("f.html", "root\n");
        script(site, "home/ann/web/cgi-bin/tell");
        site.page("~alias/f.html", "alias\n");
        site.page("~ann/f.html", "not behind the user\n");
        site.page("plain/~ann", "no user\n");
    };
    let hosts = [
        ("first", "UserDir ${ROOT}/home/*/web ${ROOT}/other\nAlias /~alias ${DOCS}/~alias"),
        ("some", "UserDir ${ROOT}/other/\nUserDir disabled ANN root\nUserDir enabled eve"),
        ("none", "UserDir disabled\nUserDir enabled eve\nUserDir ${ROOT}/other"),
        ("url", "UserDir ${ROOT}/home/*/web http://x.example/users"),
        ("star", "UserDir none http://x.example/*/y z"),
        ("ends", "UserDir http://x.example/u/*"),
        ("plain", "UserDir http://x.example/users"),
        ("home", "UserDir public_html nowhere"),
        ("nothing", "ServerAdmin x"),
    ];
    let mut text =
        "<Directory ${ROOT}>\nRequire all granted\n</Directory>\n<DirectoryMatch cgi-bin>\nOptions ExecCGI\n\
        SetHandler cgi-script\n</DirectoryMatch>\nUserDir ${ROOT}/other\nUserDir disabled bob\n"
            .to_string();
    let mut requests = Vec::new();
    for (host, lines) in hosts {
        text += &format!("<VirtualHost *>\nServerName {host}\n{lines}\n</VirtualHost>\n");
        for path in [
            "/~ann/f.html",
            "/~ann",
            "/~ann/",
            "/~Bob/f.html?q=1",
            "/~bob/f.html",
            "/~eve/f.html",
            "/~eve/a%20b%3f?x",
            "/~zoe/f.html",
            "/~/f.html",
            "/~.",
            "/~../f.html",
            "/~www-data/none/f.html",
            "/plain/~ann",
            "/~alias/f.html",
            "/~ann/cgi-bin/tell/x",
        ] {
            requests.push(format!("{host} GET {path}"));
        }
    }
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    compare("directories_of_users", build, &text, &to_hosts(&requests), &LENGTH);
}

#[test]
fn directories_of_virtual_hosts() {
    let build = |site: &Site| {
        for name in ["www.a.test", "a", "www", "x/b.test", "127.64", "_", "w/a"] {
            site.file(format!("v/{name}/f.html"), format!("{name}\n"));
            script(site, &format!("v/{name}/cgi/tell"));
            script(site, &format!("v/{name}/cgi-bin/tell"));
        }
        site.file("out/f.html", "out\n");
    };
    let hosts = [
        ("*.a.test", "VirtualDocumentRoot ${ROOT}/v/%0/\nVirtualScriptAlias ${ROOT}/v/%0/cgi\nAlias /out ${ROOT}/out"),
        ("*.b.test", "VirtualDocumentRoot ${ROOT}/v/%1.1/%2\n"),
        ("*.c.test", "VirtualDocumentRoot ${ROOT}/v/%2\nUseCanonicalName On\nServerName www.canon\n"),
        ("*.d.test", "VirtualDocumentRootIP ${ROOT}/v/%1\nVirtualScriptAliasIP ${ROOT}/v/%2\n"),
        ("*.e.test", "VirtualDocumentRoot none\nVirtualScriptAlias ${ROOT}/v/%9/cgi\n"),
        ("*.f.test", "VirtualScriptAlias None\n"),
    ];
    let mut text = "<Directory ${ROOT}>\nRequire all granted\n</Directory>\n<DirectoryMatch cgi>\nOptions ExecCGI\n\
        </DirectoryMatch>\nVirtualDocumentRoot ${ROOT}/v/%-2\n"
        .to_string();
    for (alias, lines) in hosts {
        text += &format!("<VirtualHost *>\nServerAlias {alias}\n{lines}\n</VirtualHost>\n");
    }
    let mut requests = Vec::new();
    for host in
        ["www.a.test", "WWW.A.test", "www.b.test", "w.a.b.test", "www.c.test", "x.d.test", "x.e.test", "a.f.test"]
    {
        for path in
            ["/f.html", "/", "/none", "/cgi-bin/tell/x", "//cgi-bin/tell", "/cgi-bin", "/out/f.html", "/../f.html"]
        {
            requests.push(format!("{host} GET {path}"));
        }
    }
    let odd = ["..a.test", ".a.test", "a..a.test", "../x", "%2e%2e.a.test", "www.a.test.", "[::1]", "_.a.test"];
    requests.extend(odd.iter().map(|host| format!("{host} GET /f.html")));
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    compare("directories_of_virtual_hosts", build, &text, &to_hosts(&requests), &LENGTH);
}

#[test]
fn paths_that_are_misspelled() {
    let build = |site: &Site| {
        for name in [
            "index.html",
            "one.txt",
            "two.txt",
            "two.gif",
            "tvo.txt",
            "deep/page.html",
            "deep/Other page.html",
            "x/a.b.c",
        ] {
            site.page(name, "x\n");
            site.page(&format!("case/{name}"), "x\n");
            site.page(&format!("stem/{name}"), "x\n");
        }
        std::os::unix::fs::symlink("/none", site.root.join("htdocs/broken")).expect("link");
    };
    let text = "CheckSpelling on\nLogLevel speling:info\n<Location /case>\nCheckSpelling on\nCheckCaseOnly on\n</Location>\n\
        <Location /stem>\nCheckSpelling on\nCheckBasenameMatch off\n</Location>\n<Location /off>\nCheckCaseOnly on\n</Location>\n";
    let mut requests = Vec::new();
    for directory in ["", "/case", "/stem", "/off"] {
        for path in [
            "/INDEX.html",
            "/one.tx",
            "/oen.txt",
            "/oone.txt?a=b",
            "/onf.txt",
            "/on.txt/more/info",
            "/two.png",
            "/twq.txt",
            "/txo.txt",
            "/zzz",
            "/deeep/page.html?q",
            "/deep/Other%20pag.html",
            "/deep/pagf.html",
            "/x/a.c",
            "/.",
            "/broken",
            "/brokem",
        ] {
            requests.push(format!("GET {directory}{path}"));
        }
    }
    requests.push("GET /two.png|Referer: http://x.example/<&>".into());
    requests.push("GET /INDEX.HTML|Referer: http://x.example/".into());
    requests.push("POST /INDEX.html".into());
    requests.push("HEAD /INDEX.html".into());
    let cases: Vec<Case> = requests.iter().map(|request| Case::of(request)).collect();
    let entry = "The length of an error page for HEAD";
    let allowed = [Allowed { case: "HEAD /INDEX.html", what: "content-length", entry }];
    compare("paths_that_are_misspelled", build, text, &cases, &allowed);
}

#[test]
fn maps_of_pictures() {
    let build = |site: &Site| {
        let map = "# a <b>comment</b>\n\nbase referer\nbase_uri http://x.example/a/b/c\ndefault fallback.html \"else\"\n\
            rect one.html 0,0 10,10 \"One & only\"\nrect two.html \"Two\" 10,10 20,20\ncircle ../three.html 50,50 50,60\n\
            poly ../../four 100,100 120,100 120,120 100,120\npoint /five?x 200,200\npoint ftp://six 300 , 300\n\
            rect nocontent 400,400 410,410\nrect error 420,420 430,430\nrect map 440,440 450,450\n\
            rect referer 460,460 470,470\nrect ../../../.. 480,480 490,490\nRECT seven\\\n.html 500,500 510,510\n\
            odd x.html 520,520 530,530\nrect 1.html 1.5,600 700,700\n";
        site.page("a.map", map);
        site.page("bare.map", "rect one 0,0 9,9\nrect /two 10,10 19,19\n");
        site.page("bad.map", "rect one 5,5 9,9\nrect\nrect two 10,10 19,19\n");
        site.page("empty.map", "");
        site.page("semi/a.map", map);
        site.page("un/a.map", map);
        site.page("none/a.map", map);
        site.page("odd/a.map", map);
        site.page("url/bare.map", "rect one 0,0 9,9\ndefault menu\n");
        site.page("err/bare.map", "rect one 0,0 9,9\n");
    };
    let text = "AddHandler imap-file .map\n<Location /semi>\nImapMenu SemiFormatted\n</Location>\n\
        <Location /un>\nImapMenu unformatted\n</Location>\n<Location /none>\nImapMenu none\nImapDefault referer\n</Location>\n\
        <Location /odd>\nImapMenu odd\n</Location>\n<Location /url>\nImapBase http://base.example/x/\n</Location>\n\
        <Location /err>\nImapDefault error\nImapBase referer\n</Location>\n";
    let mut requests = Vec::new();
    for (x, y) in [
        (5, 5),
        (15, 15),
        (10, 10),
        (50, 55),
        (110, 110),
        (100, 110),
        (205, 200),
        (301, 300),
        (405, 405),
        (425, 425),
        (445, 445),
        (465, 465),
        (485, 485),
        (505, 505),
        (525, 525),
        (650, 650),
    ] {
        requests.push(format!("GET /a.map?{x},{y}"));
    }
    for path in [
        "/a.map",
        "/a.map?0,0",
        "/a.map?x",
        "/a.map?7",
        "/semi/a.map",
        "/un/a.map",
        "/none/a.map",
        "/none/a.map?9999,0",
        "/odd/a.map",
        "/bare.map",
        "/bare.map?5,5",
        "/bare.map?15,15",
        "/bare.map?50,50",
        "/bad.map",
        "/bad.map?6,6",
        "/bad.map?15,15",
        "/empty.map",
        "/empty.map?1,1",
        "/url/bare.map?1,1",
        "/url/bare.map?11,11",
        "/err/bare.map?1,1",
        "/err/bare.map?11,11",
        "/none.map",
    ] {
        requests.push(format!("GET {path}"));
    }
    for path in ["/a.map?465,465", "/none/a.map?9999,0", "/err/bare.map?1,1"] {
        requests.push(format!("GET {path}|Referer: http://ref.example/d/page"));
    }
    requests.push("POST /bare.map?5,5".into());
    requests.push("HEAD /a.map".into());
    let cases: Vec<Case> = requests.iter().map(|request| Case::of(request)).collect();
    compare("maps_of_pictures", build, text, &cases, &[]);
}

const FILE: [Allowed; 1] = [Allowed { case: "*", what: "%f", entry: "The file of a request" }];

/// A name that is too long for the system is refused if it is reached; what is missing on the way is missing.
#[test]
fn paths_that_are_too_long() {
    let build = |site: &Site| {
        site.page("there/f.txt", "x\n");
    };
    let lines = "<Directory />\nRequire all granted\n</Directory>\nAlias /there ${DOCS}/there\nAlias /gone /nowhere/at/all\n\
        ErrorDocument 404 nothing\nErrorDocument 403 refused\n";
    let hosts = [("root", "/usr"), ("none", "/non"), ("slash", "/")];
    let hosts =
        hosts.map(|(name, root)| format!("<VirtualHost *>\nServerName {name}\nDocumentRoot {root}\n</VirtualHost>\n"));
    let (name, path) = ("x".repeat(300), "/ab".repeat(1400));
    let mut requests = Vec::new();
    for host in ["root", "none", "slash"] {
        for root in ["", "/there", "/gone", "/there/f.txt", "/there/sub"] {
            for below in [format!("/{name}"), format!("/{name}/y"), path.clone(), format!("{path}/{name}")] {
                requests.push(format!("{host} GET {root}{below}"));
            }
        }
    }
    let mut cases = to_hosts(&requests.iter().map(String::as_str).collect::<Vec<_>>());
    for case in &mut cases {
        let length = case.name.len();
        case.name = format!("{} ({length})", case.name.chars().take(30).collect::<String>());
    }
    compare("paths_that_are_too_long", build, &(lines.to_string() + &hosts.concat()), &cases, &FILE);
}

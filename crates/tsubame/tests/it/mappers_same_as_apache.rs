//! From URLs to files in ways that few sites need, beside Apache: directories of users, of virtual hosts.

use crate::oracle::{Allowed, Case, compare};
use crate::site::Site;

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

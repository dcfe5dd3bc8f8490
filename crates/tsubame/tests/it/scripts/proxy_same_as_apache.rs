//! The variables that mod_proxy sends to FastCGI servers, and their answers, compared with Apache.

use std::net::TcpListener;
use std::os::unix::net::UnixStream;

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::oracle::{self, Apache, Case};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::Client;
use crate::scripts::cgi_same_as_apache::{case, gets};
use crate::scripts::proxy_fcgi::puppet;

const CONFIGURATION: &str = "ProxyPass /over/ unix:${ROOT}/run/puppet.sock|fcgi://localhost/base/\n\
    ProxyPass /document/ unix:${ROOT}/run/puppet.sock|fcgi://localhost/base/\n\
    <Proxy balancer://b>\nBalancerMember fcgi://${ADDR}:9000/base\n</Proxy>\nProxyPass /balanced/ balancer://b/app/\n\
    <LocationMatch ^/(over|document)/>\nProxyErrorOverride On\n</LocationMatch>\n\
    <Location /document/>\nErrorDocument 404 /d.txt\n</Location>\n\
    ProxyPass /pass/ unix:${ROOT}/run/puppet.sock|fcgi://localhost/base/\n\
    ProxyPassMatch ^/match/(.*\\.php(/.*)?)$ unix:${ROOT}/run/puppet.sock|fcgi://localhost${DOCS}/$1\n\
    SetEnvIf Request_URI info=(.*)$ proxy-fcgi-pathinfo=$1\n\
    <FilesMatch \\.php$>\nSetHandler proxy:unix:${ROOT}/run/puppet.sock|fcgi://localhost\n</FilesMatch>\n\
    <Location /generic>\nProxyFCGIBackendType GENERIC\nProxyFCGISetEnvIf \"reqenv('PATH_INFO') =~ m#/(.*)#\" MORE $1\n\
    ProxyFCGISetEnvIf true !SERVER_ADMIN\n</Location>\n\
    <Location /page.shtml>\nSetOutputFilter INCLUDES\nOptions +Includes\n</Location>\n\
    RewriteEngine On\nRewriteCond /pass/x -U\nRewriteRule ^/found$ /d.txt [L]\n\
    RewriteCond /rewritten/x -U\nRewriteRule ^/found-too$ /d.txt [L]\n\
    RewriteCond %{LA-U:REQUEST_FILENAME} ^(.*)$\nRewriteRule ^/match/ahead - [E=AHEAD:%1]\n\
    RewriteRule ^/rewritten/(.*)$ fcgi://${ADDR}:9000/base/$1 [P]\n\
    <Directory ${DOCS}/section>\nRewriteEngine On\nRewriteRule ^(.*)$ fcgi://${ADDR}:9000/base/$1 [P]\n</Directory>\n";

/// A place with a server that prints its input.
fn place() -> Site {
    let site = Site::new();
    for name in ["a.php", "generic/a.php", "d.txt"] {
        site.page(name, "");
    }
    site.page("page.shtml", "<!--#include virtual=\"/pass/in\" -->\n<!--#include virtual=\"/match/in.php\" -->\n<!--#fsize virtual=\"/pass/in\" -->");
    let socket = site.root.join("run/puppet.sock");
    puppet(&socket);
    let listener = TcpListener::bind((site.ip, 9000)).expect("bind");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let Ok(to) = UnixStream::connect(&socket) else { return };
            let (mut back, mut from) = (stream.try_clone().expect("clone"), to.try_clone().expect("clone"));
            std::thread::spawn(move || drop(std::io::copy(&mut &stream, &mut &to)));
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut back);
                let _ = back.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    site
}

/// Statuses and bodies, without what belongs to the place.
fn answers(site: &Site, cases: &[Case]) -> Vec<String> {
    let answer = |one: &Case| {
        let mut client = Client::connect(site.address());
        client.send(&one.bytes);
        let method = if one.bytes.starts_with(b"HEAD") { "HEAD" } else { "GET" };
        let (response, whole) = client.beginning_to(method).expect("an answer");
        let body =
            if response.status == 200 || response.reason == "Not Here" { response.text() } else { String::new() };
        let body = body.replace(site.path(), "ROOT").replace(&site.ip.to_string(), "ADDR");
        // A connection of its own is not what a rule asks for: its variable is not set here.
        let skipped = if one.name.contains("/rewritten/") { "proxy-nokeepalive=" } else { "UNIQUE_ID=" };
        let is_own = |line: &&str| {
            ["SERVER_SOFTWARE=", "SERVER_SIGNATURE=", "UNIQUE_ID=", skipped].iter().any(|name| line.contains(name))
        };
        let lines: Vec<_> = body.lines().filter(|line| !is_own(line)).collect();
        let (status, reason) = (response.status, response.reason);
        format!("{status} {reason}\n{}{}", lines.join("\n"), if whole.is_err() { ", cut" } else { "" })
    };
    cases.iter().map(answer).collect()
}

#[test]
fn variables_of_backend_servers() {
    if !oracle::is_there("variables_of_backend_servers") {
        return;
    }
    let mut cases = gets(&[
        "/a.php",
        "/a.php?a=b%20c&d",
        "/a.php/x%20y/z?q",
        "/generic/a.php/x",
        "/pass/",
        "/pass/a.php/x",
        "/pass/s%20p/a?b",
        "/match/a.php",
        "/match/a.php/x/y?q=1",
        "/balanced/",
        "/balanced/a.php/x%20y/z?q",
        "/balanced/s%20p/a",
        "/balanced/a%20b/info=unescape",
        "/balanced/a.php/info=first-dot",
        "/balanced/a/info=on?x",
        "/pass/a.php/info=first-dot",
        "/pass/a.php/info=last-dot",
        "/pass/a%20b/info=unescape",
        "/pass/a/info=on",
        "/pass/x?status",
        "/over/x?status",
        "/document/x?status",
        "/pass/x?half",
        "/pass/x?close",
        "/pass/x?header",
        "/pass/x?rubbish",
        "/rewritten/a.php?a=b%20c",
        "/rewritten/a%20b/c",
        // Look-ups see what a backend serves.
        "/found",
        "/found-too",
        "/match/ahead.php",
        "/page.shtml",
        "/section/a.php?q",
        "/section/a%20b",
    ]);
    let fields = "Authorization: Basic bWU6c2VjcmV0\r\nX-A: 1\r\nX_B: 2\r\nProxy: x\r\n";
    cases.push(case("POST /a.php?q", &format!("Content-Length: 3\r\n{fields}"), "abc"));
    cases.push(case("POST /pass/x", &format!("Transfer-Encoding: chunked\r\n{fields}"), "3\r\nabc\r\n0\r\n\r\n"));
    cases.push(case("HEAD /match/a.php", "", ""));
    let theirs = {
        let site = place();
        let _apache = Apache::start(&site, CONFIGURATION);
        answers(&site, &cases)
    };
    for mpm in Mpm::chosen(test_name!()) {
        let site = place();
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.allow_everything("other tests check the log");
        let ours = answers(&site, &cases);
        let mut differences = Vec::new();
        for ((one, ours), theirs) in cases.iter().zip(ours).zip(&theirs) {
            if ours != *theirs {
                let only = |a: &str, b: &str| {
                    a.lines()
                        .filter(|line| !b.lines().any(|other| other == *line))
                        .collect::<Vec<_>>()
                        .join("\n        ")
                };
                differences.push(format!(
                    "{}:\n    ours   {}\n    Apache {}",
                    one.name,
                    only(&ours, theirs),
                    only(theirs, &ours)
                ));
            }
        }
        assert!(differences.is_empty(), "{mpm}: {} differences:\n{}", differences.len(), differences.join("\n"));
    }
}

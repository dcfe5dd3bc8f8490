//! Mistakes that Apache accepts in silence, as `tsubame check` reports them; and what is no mistake.

use std::process::Command;

use serde_json::Value;

use crate::harness::mpm::Mpm;
use crate::harness::site::{self, Site};

fn report(site: &Site, text: &str) -> Value {
    site.configure_with(&site::load_lines(Mpm::Event), text);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
    let output = command.args(["check", "--json", "-d", site.path(), "-f", "conf/httpd.conf"]).output().expect("run");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// What the report says, without what is accepted without effect and what differs.
fn said(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().expect("findings").iter();
    let meant =
        findings.filter(|found| !["without_effect", "differs"].contains(&found["topic"].as_str().expect("topic")));
    meant.map(|found| format!("{} {} → {}", found["subject"], found["message"], found["instead"])).collect()
}

fn place() -> Site {
    let site = Site::with([("a.txt", "a"), ("d/a.txt", "a"), ("here.html", "x")]);
    site.file("users", "");
    site.file("other/x.txt", "x");
    site
}

/// Lines, and words of the only finding.
const WRONG: &[(&str, &[&str])] = &[
    ("Timeout abc", &["Timeout", "abc is not a number", "as 0"]),
    ("KeepAlive On\nMaxKeepAliveRequests 5x", &["MaxKeepAliveRequests", "counts as 5"]),
    ("LogFormat %h mine\nCustomLog logs/x combined", &["CustomLog", "No LogFormat has the nickname combined", "mine"]),
    (
        "<Location /x>\nAuthType Basic\nAuthUserFile ${ROOT}/users\nRequire valid-user\n</Location>",
        &["AuthType", "no AuthName", "500"],
    ),
    (
        "<Location /x>\nAuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/none\nRequire valid-user\n</Location>",
        &["AuthUserFile", "does not exist", "htpasswd -c"],
    ),
    ("Alias /x ${ROOT}/none", &["Alias", "does not exist", "404"]),
    ("ErrorDocument 404 /none.html", &["ErrorDocument", "none.html does not exist"]),
    ("<Files *.x>\nSetHandler \"proxy:unix:/nosuch/x.sock|fcgi://localhost\"\n</Files>", &["SetHandler", "503"]),
    ("ProxyPassMatch ^/(.*\\.x)$ unix:/nosuch/x.sock|fcgi://localhost/", &["ProxyPassMatch", "/nosuch/x.sock"]),
    (
        "<Directory ${DOCS}>\nRewriteEngine On\nRewriteRule ^/a$ /b\n</Directory>",
        &["RewriteRule", "never matches", "Write ^a$"],
    ),
    ("RewriteRule ^/a$ /b\nRewriteRule ^/c$ /d", &["RewriteRule", "No RewriteEngine On"]),
    ("<Directory ${DOCS}>\nRewriteRule a b\n</Directory>\nRewriteEngine On", &["RewriteRule", "No RewriteEngine On"]),
    ("Redirect /a http://x/\nRedirect /a/b http://y/", &["Redirect", "No request gets here", "Redirect /a http://x/"]),
    ("Alias /a/b ${ROOT}/other\nRedirect /a http://x/", &["Alias", "No request gets here"]),
    (
        "<Directory ${DOCS}>\nOrder allow,deny\nDeny from all\nRequire all granted\n</Directory>",
        &["Require", "keeps everybody out"],
    ),
    (
        "ProxyPass /a http://h.invalid\nProxyPass /a/b http://i.invalid",
        &["ProxyPass", "No request gets here", "ProxyPass /a", "above that line"],
    ),
    (
        "ProxyPass /a/ http://h.invalid",
        &["ProxyPass", "/a/x is passed on as http://h.invalidx", "Write http://h.invalid/"],
    ),
    ("ProxyPass /a http://h.invalid/", &["ProxyPass", "/a/x is passed on as http://h.invalid//x", "Write /a/"]),
    (
        "<Location /a/>\nProxyPass http://h.invalid\n</Location>",
        &["ProxyPass", "/a/x is passed on as http://h.invalidx"],
    ),
    ("ProxyPassMatch ^/([^/]+)/ http://$1/", &["ProxyPassMatch", "The client chooses the server"]),
    ("ProxyPassMatch ^/x(.*)$ http://h.invalid:80$1", &["ProxyPassMatch", "The client chooses the server"]),
    ("SetOutputFilter proxy-html", &["SetOutputFilter", "does not have the filter proxy-html"]),
    (
        "ExpiresByType text/css A1\nExpiresDefault A2",
        &["ExpiresByType", "There is no ExpiresActive On", "Write `ExpiresActive On`"],
    ),
    ("ExpiresActive Off\nExpiresDefault A2", &["ExpiresDefault", "There is no ExpiresActive On"]),
    ("RemoteIPTrustedProxy 10.0.0.1", &["RemoteIPTrustedProxy", "There is no RemoteIPHeader:", "X-Forwarded-For"]),
    ("<Location />\nSubstitute s/a/b/\n</Location>", &["Substitute", "No line puts the filter SUBSTITUTE in"]),
    ("SSITimeFormat %Y", &["SSITimeFormat", "No line puts the filter INCLUDES in"]),
    (
        "RewriteEngine On\nRewriteCond %{HTTPS} on\n<Location /x>\nRewriteEngine On\nRewriteRule a b\n</Location>",
        &["RewriteCond", "No RewriteRule follows", "below it"],
    ),
];

#[test]
fn mistakes_are_reported() {
    for (text, words) in WRONG {
        let site = place();
        let report = report(&site, text);
        let [said] = &said(&report)[..] else { panic!("{text}: {report:#}") };
        words.iter().for_each(|word| assert!(said.contains(word), "{text}: no {word:?} in {said}"));
    }
}

/// What is right, or may be.
const RIGHT: &[&str] = &[
    "Timeout 60\nMaxKeepAliveRequests 0\nServerLimit 16",
    "LogFormat %h mine\nCustomLog logs/x MINE\nCustomLog logs/y \"%h\"\nCustomLog logs/z json",
    "LogFormat %h mine\n<VirtualHost *:8080>\nCustomLog logs/x mine\n</VirtualHost>",
    "<Location />\nAuthName x\n</Location>\n<Location /x>\nAuthType Basic\nAuthUserFile ${ROOT}/users\nRequire valid-user\n</Location>",
    "Alias /x ${ROOT}/other\nAlias /y/x.txt ${ROOT}/other/x.txt",
    "ErrorDocument 404 /here.html\nErrorDocument 403 http://x/\nErrorDocument 500 \"text /x\"",
    "Alias /e ${ROOT}/other\nErrorDocument 404 /e/x.txt",
    "RewriteEngine On\nRewriteRule ^/e /here.html\nErrorDocument 404 /e",
    "<Directory ${DOCS}>\nRewriteEngine On\nRewriteRule ^/?a$ /b\nRewriteRule ^(/|x)a$ /b\nRewriteRule ^a /b\n</Directory>",
    "RewriteEngine On\nRewriteRule ^/a$ /b",
    "RewriteEngine Off\nRewriteRule ^/a$ /b",
    "Redirect /a/b http://y/\nRedirect /a http://x/\nRedirect /ab http://z/",
    "Redirect 410 /a\nAlias /b ${ROOT}/other",
    "<VirtualHost *:8080>\nRedirect / http://x/\n</VirtualHost>\n<VirtualHost *:8080>\nServerName o\nRedirect /a http://y/\n</VirtualHost>",
    "SetOutputFilter DEFLATE",
    "ProxyPass /a/b ! \nProxyPass /a http://h.invalid\nProxyPass /ab/ http://h.invalid/\nProxyPassMatch ^/(c|d)/(.*) http://h.invalid/$2\nProxyPassMatch ^/(e|f)(/.*)?$ http://h.invalid:80$2",
    "ProxyRequests On\n<Proxy *>\nRequire ip 192.0.2.0/24\n</Proxy>",
    "<Location />\nExpiresDefault A2\n</Location>\nExpiresActive On",
    "ExpiresDefault A2\n<Directory ${DOCS}>\nAllowOverride Indexes\n</Directory>",
    "Substitute s/a/b/\nAddOutputFilterByType INFLATE;substitute;DEFLATE text/html",
    "SSITimeFormat %Y\nXBitHack full",
    "RewriteEngine On\nRewriteCond %{HTTPS} on\nRewriteCond a b\nRewriteRule ^/a - [F]",
];

#[test]
fn what_is_right_is_not_reported() {
    for text in RIGHT {
        let report = report(&place(), text);
        assert_eq!(said(&report), [""; 0], "{text}");
        assert_eq!(report["verdict"], "starts", "{text}");
    }
}

#[test]
fn files_that_nothing_runs_are_reported() {
    let site = place();
    site.page("index.php", "<?php");
    site.page("sub/other.php", "<?php");
    let open = "<Directory ${DOCS}>\nAllowOverride All\nRequire all granted\n</Directory>\n";
    let [php] = &said(&report(&site, open))[..] else { panic!("PHP") };
    assert!(php.contains("its source is sent") && php.contains("1 more"), "{php}");
    for handled in [
        "<FilesMatch \\.php$>\nRequire all denied\n</FilesMatch>",
        "AddHandler fcgid-script .php",
        "RewriteEngine On\nRewriteRule \\.php$ - [F]",
    ] {
        let said = said(&report(&site, &format!("{open}{handled}")));
        assert!(!said.iter().any(|line| line.contains("its source is sent")), "{handled}: {said:?}");
    }
    std::fs::remove_file(site.root.join("htdocs/index.php")).expect("remove");
    std::fs::remove_file(site.root.join("htdocs/sub/other.php")).expect("remove");
    site.page("x.cgi", "#!/bin/sh\n");
    let text = format!("{open}AddHandler cgi-script .cgi\n");
    let [refused] = &said(&report(&site, &text))[..] else { panic!("CGI") };
    assert!(refused.contains("does not allow ExecCGI") && refused.contains("Options +ExecCGI"), "{refused}");
    std::fs::remove_file(site.root.join("htdocs/x.cgi")).expect("remove");
    site.page(".htaccess", "RewriteEngine On\nRewriteRule ^/a$ /b\n");
    let [slash] = &said(&report(&site, open))[..] else { panic!(".htaccess") };
    assert!(slash.contains("never matches") && slash.contains("Write ^a$"), "{slash}");
    let [unread] = &said(&report(&site, "<Directory ${DOCS}>\nAllowOverride None\n</Directory>"))[..] else { panic!() };
    assert!(unread.contains("AllowOverride All"), "{unread}");
}

/// Each host without a certificate is named, and a certificate that nothing uses.
#[test]
fn hosts_without_tls_are_reported() {
    let site = place();
    let hosts: String = (1..4)
        .map(|number| format!("<VirtualHost *:8080>\nServerName h{number}.example\nSSLEngine On\n</VirtualHost>\n"))
        .collect();
    let said = said(&report(&site, &format!("LoadModule ssl_module modules/mod_ssl.so\n{hosts}")));
    for number in 1..4 {
        let name = format!("h{number}.example");
        assert!(said.iter().any(|line| line.contains(&name)), "{name}: {said:?}");
    }
}

//! mod_rewrite, compared with Apache: contexts, flags, conditions, variables, maps.

use std::os::unix::fs::PermissionsExt;

use crate::harness::oracle::{Allowed, Case, compare};
use crate::harness::site::Site;

/// The files of every site of these tests.
fn build(site: &Site) {
    for name in
        ["a.html", "index.html", "index.php", "b.txt", "d/a.html", "d/index.html", "d/sub/x.html", "sp ace.html"]
    {
        site.page(name, format!("{name}\n"));
    }
    site.file("out/f.html", "out\n");
    site.page("x.cgi", "#!/bin/sh\n");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(site.root.join("htdocs/x.cgi"), mode).expect("mode");
    site.page("empty", "");
    std::os::unix::fs::symlink("a.html", site.root.join("htdocs/link")).expect("link");
}

/// Compares the answers to requests, `METHOD target|Field: value`.
fn check(test: &str, configuration: &str, access_files: &[(&str, &str)], requests: &[&str]) {
    check_but_for(&[], test, configuration, access_files, requests);
}

/// The same, except for some differences.
fn check_but_for(
    allowed: &[Allowed],
    test: &str,
    configuration: &str,
    access_files: &[(&str, &str)],
    requests: &[&str],
) {
    let cases: Vec<Case> = requests.iter().map(|request| Case::of(request)).collect();
    let files = |site: &Site| {
        build(site);
        for (name, text) in access_files {
            site.page(&format!("{name}.htaccess"), text.replace("${DOCS}", &format!("{}/htdocs", site.path())));
        }
    };
    let text = format!(
        "<Directory ${{DOCS}}>\nAllowOverride All\nOptions FollowSymLinks\n</Directory>\n\
         <Directory ${{ROOT}}/out>\nRequire all granted\n</Directory>\n{configuration}"
    );
    let above = Allowed { case: "GET /up", what: "*", entry: "A path that leads above the root" };
    compare(test, files, &text, &cases, &[allowed, &[above]].concat());
}

#[test]
fn wordpress() {
    let rules = "<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n\
        RewriteBase /\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
        RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n";
    let requests = [
        "GET /",
        "GET /a.html",
        "GET /2026/11/a-post/?page=2",
        "GET /none",
        "GET /d/",
        "GET /d",
        "GET /index.php",
        "GET /index.php?x=y",
        "GET /a.html/more",
        "GET /sp%20ace.html",
        "GET /%C3%A9t%C3%A9/",
        "HEAD /none",
        "GET /none|Authorization: Basic eDp5",
    ];
    check("wordpress", "DirectoryIndex index.php index.html", &[("", rules)], &requests);
}

#[test]
fn rules_of_a_server() {
    let rules = "RewriteEngine On\nRewriteRule ^/srv$ /a.html\nRewriteRule ^/rel$ a.html\n\
        RewriteRule ^/env(.*)$ /a.html?x=$1 [E=A:b,E=!C,CO=n:v:.d:0:/p:1:1:Lax,CO=;o;w;.e]\n\
        RewriteRule ^/r/(.*)$ /$1 [R=301,L]\nRewriteRule ^/pt$ /d/ [PT]\nRewriteRule ^/al$ /alias/f.html [PT]\n\
        RewriteRule ^/na$ /alias/f.html\nRewriteRule ^/up$ /../../../../etc/passwd\n\
        RewriteRule ^/file/(.*)$ ${ROOT}/out/$1 [L]\nRewriteRule ^/any/(.*)$ /$1/f.html [L]\n\
        RewriteRule ^/anyhow/(.*)$ /$1/f.html [L,UnsafePrefixStat]\nRewriteRule ^/v/(.*)$ http://localhost:8080/$1 [L]\n\
        RewriteRule ^/w/(.*)$ https://localhost/$1 [L]\nRewriteRule ^/ldap$ ldap://h/a\\ b?c?d [L]\n\
        RewriteRule ^/mail$ mailto:a@b [L]\nRewriteRule ^/foo$ foo://x/y?z [L]\nRewriteRule ^/g$ - [G]\nRewriteRule ^/f$ /x [F]\n\
        RewriteRule ^/r204$ /x [R=204]\nRewriteRule ^/rfoo$ /x [R=foo]\nRewriteRule ^/other/(.*)$ http://other/$1?a=b [R=permanent]\n\
        RewriteRule ^/t$ /b.txt [T=Text/Foo]\nRewriteRule ^/n/(.*)$ /n/x$1 [N=5]\nRewriteRule ^/grow(.*)$ /grow/aaaaaaaaaaaaaaaa$1 [N]\n\
        RewriteRule ^/q1/(.*)$ /a.html?$1 [R,L]\nRewriteRule ^/q2$ /a%{QUERY_STRING} [R,L]\nRewriteRule ^/q3$ /a\\?b [R,L]\n\
        RewriteRule ^/q4/(.*)$ /a$1 [R,B,L]\nRewriteRule ^/q5/(.*)$ /a$1 [R,L,UnsafeAllow3F]\n\
        RewriteRule ^/t1$ /a.html? [R,L]\nRewriteRule ^/t2$ /a.html? [R,QSA,L]\nRewriteRule ^/t3$ /a.html?x=1 [R,QSA,L]\n\
        RewriteRule ^/t4$ /a.html?x=1 [R,QSD,L]\nRewriteRule ^/t5$ /a.html?x=1?y=2 [R,QSL,L]\nRewriteRule ^/t6$ /a.html?x&y& [R,L]\n\
        RewriteRule ^/t7$ /a.html?%{QUERY_STRING} [R,L]\nRewriteRule ^/t8/(.*)$ /a$1? [R,QSL,L]\nRewriteRule ^/t9/(.*)$ /a?x=$1 [R,QSL,L]\n\
        RewriteRule ^/c1$ \"/a.html?a b\" [L]\nRewriteRule ^/c2$ \"/a.html?a b\" [R,L]\n\
        RewriteRule ^/c3$ \"/a.html?a b\" [R,NE,L]\nRewriteRule ^/b1/(.*)$ /x/$1 [R,B,NE,L]\nRewriteRule ^/b2/(.*)$ /x/$1 [R,B,BNP,NE,L]\n\
        RewriteRule ^/b3/(.*)$ /x/$1 \"[R,B= ?a,L]\"\nRewriteRule ^/b4/(.*)$ /x/$1 [R,BCTLS,NE,L]\nRewriteRule ^/b5/(.*)$ /x/$1 [R,B,BNE=/:,NE,L]\n\
        RewriteCond %{LA-U:REQUEST_FILENAME} -f\nRewriteRule ^/a(.*)$ - [E=F:%{LA-U:REQUEST_FILENAME}]\n\
        RewriteRule ^/s1$ - [S=1]\nRewriteRule ^/s1$ - [F]\nRewriteRule ^/s1$ /a.html\nRewriteRule ^/no$ /x [C]\nRewriteRule . - [F]\n\
        RewriteCond %{HTTP_HOST} .\nRewriteCond %{HTTP:X-V} !^$\nRewriteRule ^/vary$ /a.html\n\
        RewriteCond %{HTTP:X-V} !^$ [NV]\nRewriteRule ^/novary$ /a.html\n\
        Header set X-Env \"%{A}e %{F}e %{SCRIPT_URL}e %{SCRIPT_URI}e\"\nAlias /alias ${ROOT}/out\nAddType text/x-none none";
    let requests = [
        "GET /srv",
        "GET /rel",
        "GET /env1?q",
        "GET /r/x%20y?a%20b",
        "GET /r/x%3fy",
        "GET /pt",
        "GET /al",
        "GET /na",
        "GET /up",
        "GET /file/f.html",
        "GET /v/a.html",
        "GET /w/a",
        "GET /ldap?x",
        "GET /mail?x",
        "GET /foo?x",
        "GET /g",
        "GET /f",
        "GET /r204",
        "GET /rfoo",
        "GET /other/a%20b?c",
        "GET /t",
        "GET /n/x",
        "GET /grow",
        "GET /q1/x%3fy",
        "GET /q2?a?b",
        "GET /q3",
        "GET /q4/x%3fy",
        "GET /q5/x%3fy",
        "GET /t1?o",
        "GET /t2?o",
        "GET /t3?o",
        "GET /t4?o",
        "GET /t5?o",
        "GET /t6?o",
        "GET /t7?o%20p",
        "GET /t8/x%3fy",
        "GET /t9/x%3fy",
        "GET /c1",
        "GET /c2",
        "GET /c3",
        "GET /b1/a%20b:c%2b_%01/%C3%A9",
        "GET /b2/a%20b:c",
        "GET /b3/a%20b",
        "GET /b4/a%20b:%01",
        "GET /b5/a%20b:c/d",
        "GET /a.html",
        "GET /s1",
        "GET /no",
        "GET /vary|X-V: y",
        "GET /vary",
        "GET /novary|X-V: y",
        "GET http://localhost/srv",
        "POST /srv|Content-Length: 0",
        "HEAD /pt",
    ];
    check("rules_of_a_server", rules, &[], &requests);
}

#[test]
fn rules_and_error_documents() {
    let configuration = "RewriteEngine On\nErrorDocument 405 /moved\nRewriteRule ^/method$ - [R=405]\nRewriteRule ^/moved$ http://x.example/ [R=307]";
    let rules = "RewriteEngine On\nErrorDocument 404 /d/err\nErrorDocument 410 /d/none2\nErrorDocument 403 /a.html\n\
        RewriteRule ^err$ http://x.example/err [R=301,L]\nRewriteRule ^gone$ - [G]\nRewriteRule ^none2$ - [F]";
    let requests = ["GET /method", "GET /d/none", "GET /d/gone"];
    check("rules_and_error_documents", configuration, &[("d/", rules)], &requests);
}

/// Maintenance that leads to itself: the first error counts.
#[test]
fn an_error_document_that_leads_back() {
    let configuration = "ErrorDocument 503 /a.html\nRewriteEngine On\nRewriteRule ^ - [R=503,L]";
    let logged = ["%>s", "%b", "%{Content-Type}o"].map(|what| Allowed {
        case: "*",
        what,
        entry: "An error document that fails",
    });
    let length = Allowed { case: "HEAD *", what: "content-length", entry: "The length of an error page for HEAD" };
    let requests = ["GET /x", "GET /a.html", "HEAD /x"];
    check_but_for(
        &[&logged[..], &[length]].concat(),
        "an_error_document_that_leads_back",
        configuration,
        &[],
        &requests,
    );
}

#[test]
fn rules_of_sections() {
    let configuration = "RewriteEngine On\n<Location /loc>\nRewriteEngine On\nRewriteRule ^x$ /a.html [L]\nRewriteRule loc/y$ /a.html [L]\n\
        </Location>\n<Location /off>\nRewriteEngine Off\n</Location>\n<Files \"a.html\">\nRewriteEngine On\n\
        RewriteRule (.*) - [E=FILES:$1]\n</Files>\n<DirectoryMatch \"/d/sub$\">\nRewriteRule (.*) - [E=MATCH:$1]\n</DirectoryMatch>\n\
        <If \"%{QUERY_STRING} == 'if'\">\nRewriteRule (.*) - [E=IF:$1]\n</If>\nRewriteRule ^/off/(.*)$ /a.html [L]\n\
        Header always set X-Env \"%{FILES}e %{MATCH}e %{IF}e %{HT}e\"\n<Directory ${DOCS}/strict>\nOptions None\n</Directory>";
    let top = "RewriteEngine On\nRewriteRule ^one$ two [L]\nRewriteRule ^two$ a.html [L]\nRewriteRule ^end$ two [END]\n\
        RewriteRule ^loop(.*)$ loopx$1\nRewriteRule ^abs$ /d/a.html\nRewriteRule ^red$ a.html [R]\nRewriteRule ^redir$ /a.html [R,QSA]\n\
        RewriteRule ^same$ same\nRewriteRule ^pi/?(.*)$ a.html [DPI]\nRewriteRule ^q$ a.html?x [QSA]\nRewriteRule ^pt$ /d/ [PT]\n\
        RewriteRule ^type$ b.txt [T=text/x-other]\nRewriteRule ^f$ - [F]\nRewriteRule ^ns$ a.html [NS]\n\
        RewriteCond expr \"%{REQUEST_URI} =~ m#/ex(.)#\"\nRewriteRule ^ex - [R=302,E=HT:%1,L]\n\
        RewriteCond %{REQUEST_URI} ^/c(.)(.)\nRewriteRule ^c. a.html?%2%1 [R]\n\
        RewriteCond %{QUERY_STRING} zzz [OR]\nRewriteCond %{REQUEST_METHOD} =GET\nRewriteRule ^or$ a.html\n\
        RewriteRule ^r\u{e9}$ a.html\nRewriteRule ^%20$ a.html\nRewriteRule ^back$ ../a.html\nRewriteRule ^hash$ /a.html#x [NE,R]\n\
        RewriteRule ^home$ ${DOCS}/a.html\nRewriteRule !html$ - [E=HT:not]";
    let base = "RewriteEngine On\nRewriteBase /d/\nRewriteRule ^r1$ a.html\nRewriteRule ^r2$ a.html [R]\nRewriteRule ^r3$ /a.html\n\
        RewriteRule ^r4$ ${DOCS}/b.txt\nRewriteRule ^r5$ a.html?x=y [R,L]\nRewriteRule ^r6$ http://localhost:8080/d/a.html [L]\n\
        RewriteRule ^r7$ - [F]";
    let files = [
        ("", top),
        ("d/", base),
        ("strict/", "RewriteEngine On\nRewriteRule . -\n"),
        ("i/", "RewriteEngine On\nRewriteOptions Inherit\nRewriteRule ^own$ /a.html\n"),
        ("ib/", "RewriteEngine On\nRewriteOptions InheritBefore\nRewriteRule ^own$ /a.html\n"),
        ("e/", "RewriteEngine On\n"),
        ("n/", "ErrorDocument 404 none\n"),
        ("o/", "RewriteEngine Off\n"),
        ("ns/", "RewriteEngine On\nRewriteOptions AllowNoSlash\nRewriteRule ^(.*)$ /a.html?$1 [L]\n"),
        ("down/", "RewriteEngine On\nRewriteOptions InheritDown MergeBase\nRewriteBase /d\nRewriteRule ^x$ a.html\n"),
        ("down/a/", "RewriteEngine On\n"),
        ("down/b/", "RewriteEngine On\nRewriteOptions IgnoreInherit\n"),
        ("down/c/", "RewriteRule ^y$ a.html\n"),
    ];
    let requests = [
        "GET /loc/x",
        "GET /loc/y",
        "GET /off/x",
        "GET /a.html",
        "GET /a.html?if",
        "GET /d/sub/x.html",
        "GET /one",
        "GET /two",
        "GET /end",
        "GET /loop",
        "GET /abs",
        "GET /red",
        "GET /redir?a=b",
        "GET /same",
        "GET /pi/more/x",
        "GET /q?y",
        "GET /pt",
        "GET /type",
        "GET /f",
        "GET /ns",
        "GET /exy",
        "GET /cab",
        "GET /cab?d",
        "GET /or",
        "GET /r%C3%A9",
        "GET /%2520",
        "GET /back",
        "GET /hash",
        "GET /home",
        "GET /d/r1",
        "GET /d/r2",
        "GET /d/r3",
        "GET /d/r4",
        "GET /d/r5",
        "GET /d/r6",
        "GET /d/r7",
        "GET /d",
        "GET /d/",
        "GET /strict/x",
        "GET /i/own",
        "GET /i/one",
        "GET /ib/own",
        "GET /ib/one",
        "GET /e/one",
        "GET /n/one",
        "GET /o/one",
        "GET /ns",
        "GET /ns/",
        "GET /ns/x",
        "GET /down/x",
        "GET /down/a/x",
        "GET /down/b/x",
        "GET /down/c/x",
        "GET /down/c/y",
        "GET /none",
        "POST /one|Content-Length: 0",
        "GET /sp%20ace.html",
        "GET /",
    ];
    check("rules_of_sections", configuration, &files, &requests);
}

#[test]
fn conditions_and_variables() {
    let tests = [
        "%{REQUEST_FILENAME} -f",
        "%{REQUEST_FILENAME} !-d",
        "%{DOCUMENT_ROOT}/empty -s",
        "%{DOCUMENT_ROOT}/a.html -s",
        "%{DOCUMENT_ROOT}/link -l",
        "%{DOCUMENT_ROOT}/link -h",
        "%{DOCUMENT_ROOT}/a.html -L",
        "%{DOCUMENT_ROOT}/x.cgi -x",
        "%{DOCUMENT_ROOT}/a.html -x",
        "abc <abd",
        "abc <ab",
        "b >abc",
        "abc >=abc",
        "ABC =abc",
        "ABC =abc [NC]",
        "\"\" =\"\"",
        "abc <=abd [NC]",
        "10 -gt9",
        "10 -lt9",
        "10 -eq10x",
        "10 -ne10",
        "10 !-ne10",
        "x -le0",
        "7 -ge7",
        "expr \"%{REQUEST_METHOD} == 'GET'\"",
        "expr \"! -f '%{REQUEST_FILENAME}'\"",
        "%{HTTPS} off",
        "%{IS_SUBREQ} false",
        "%{REMOTE_ADDR} ^127",
        "%{SERVER_PORT} 80",
        "%{THE_REQUEST} HTTP/1.1$",
        "%{PATH_INFO} x",
        "%{ENV:SCRIPT_URL} .",
        "%{SSL:SSL_X} ^$",
        "%{HTTP:X-A} b",
        "%{UNIQUE_ID} ^$",
        "%{REQUEST_SCHEME} ^http$",
        "%{CONTEXT_PREFIX} ^$",
        "%{REQUEST_URI}|%{QUERY_STRING} \\|q",
        "%{SCRIPT_USER} .",
        "%{TIME_YEAR} ^20",
        "%{SERVER_ADDR} ^127",
        "%{REMOTE_HOST} 127",
        "%{SERVER_PROTOCOL} 1.1",
        "%{API_VERSION} :",
        "%{IPV6} off",
        "%{REMOTE_IDENT} .",
        "%{none} ^$",
    ];
    let mut rules = String::from("RewriteEngine On\n");
    for (number, test) in tests.iter().enumerate() {
        rules.push_str(&format!("RewriteCond {test}\nRewriteRule .* - [E=C{number}:1]\n"));
    }
    let names: String = (0..tests.len()).map(|number| format!("%{{C{number}}}e")).collect();
    let variables = "%{REQUEST_URI},%{REQUEST_FILENAME},%{QUERY_STRING},%{SERVER_NAME},%{PATH_INFO},%{HTTP_USER_AGENT},%{SERVER_ADMIN},\
        %{DOCUMENT_ROOT},%{CONTEXT_DOCUMENT_ROOT},%{AUTH_TYPE},%{REMOTE_USER},%{ENV:none},%{HTTP:none},%{,${none:x|dflt},%";
    rules.push_str(&format!("RewriteRule .* - \"[E=V:{}]\"\n", variables.replace(',', ";")));
    let header = format!(
        "Header always set X-C \"{names}\"\nHeader always set X-V \"%{{V}}e\"\n<Location /closed>\nRequire all denied\n</Location>\n"
    );
    let requests = ["GET /a.html?q", "GET /none/x", "HEAD /d/|X-A: abc", "GET /link|User-Agent: u", "GET /a.html/x?y"];
    check("conditions_and_variables", &format!("{header}{rules}"), &[], &requests);
    check("conditions_and_variables", &header, &[("", &rules)], &requests);
}

/// A broken query counts before a status, what `-F` finds has to be there under its new name, and an index does not take an END back.
#[test]
fn order_of_precedence() {
    let header = "Header always set X-C \"%{C}e %{REDIRECT_C}e\"\n";
    let query = "RewriteEngine On\nRewriteRule ^a a.html?%{HTTP:X-A}\nRewriteRule ^a - [G]\n";
    let file = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-F\nRewriteRule ^ - [E=C:not]\nRewriteRule ^a\\.html$ /b.txt\n";
    let requests = ["GET /q/a|X-A: a b", "GET /q/a|X-A: ab", "GET /d/a.html", "GET /d/index.html"];
    check("order_of_precedence", header, &[("q/", query), ("d/", file)], &requests);
    check(
        "order_of_precedence",
        &query.replace(" ^a", " ^/a").replace(" a.html", " /a.html"),
        &[],
        &["GET /a|X-A: a b", "GET /a"],
    );
    let end = "RewriteEngine On\nRewriteRule ^$ %{DOCUMENT_ROOT}/ [END]\nRewriteRule ^index\\.html$ /a.html [END]\n\
        RewriteRule ^a\\.html$ - [G]\n";
    check("order_of_precedence", header, &[("", end)], &["GET /", "GET /index.html", "GET /a.html"]);
}

/// A look-up asks the rules again, so each of these has a directory of its own.
#[test]
fn look_ups() {
    let tests = [
        "%{DOCUMENT_ROOT}/a.html -F",
        "%{DOCUMENT_ROOT}/none -F",
        "/a.html -U",
        "/closed/x -U",
        "/none -U",
        "/broken/x -U",
        "/broken/x !-U",
        "%{DOCUMENT_ROOT}/broken/x !-F",
        "expr \"! -U '/broken/x' && %{REQUEST_URI} =~ /./\"",
        "%{LA-U:REQUEST_FILENAME} html$",
        "%{LA-F:REQUEST_FILENAME} html$",
        "%{LA-U:REMOTE_USER} ^$",
        "%{LA-U:ENV:A} b",
        "%{LA-F:SCRIPT_USER} .",
        "%{LA-U:HTTP:Host} local",
    ];
    let rules = |number: usize| {
        let test = tests[number];
        format!(
            "RewriteEngine On\nRewriteCond {test}\nRewriteRule .* - [E=C:yes]\nRewriteRule .* - \"[E=V:%{{LA-U:REQUEST_FILENAME}}]\"\n"
        )
    };
    let names: Vec<String> = (0..tests.len()).map(|number| format!("u{number}/")).collect();
    let broken = ("broken/", "Nonsense\n");
    let texts: Vec<String> = (0..tests.len()).map(rules).collect();
    let files: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).chain([broken]).collect();
    let requests: Vec<String> =
        names.iter().flat_map(|name| ["x.html", "none/x"].map(|path| format!("GET /{name}{path}"))).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    let header = "SetEnvIf Host . A=b\nHeader always set X-C \"%{C}e %{V}e\"\n<Location /closed>\nRequire all denied\n</Location>\n";
    check("look_ups", header, &files, &requests);
    for text in texts {
        check("look_ups", &format!("{header}{text}"), &[broken], &["GET /a.html", "GET /none/x"]);
    }
}

#[test]
fn maps() {
    let configuration = "RewriteEngine On\nRewriteMap t txt:${ROOT}/out/map.txt\nRewriteMap plain ${ROOT}/out/map.txt\nRewriteMap r rnd:${ROOT}/out/map.txt\n\
        RewriteMap low int:tolower\nRewriteMap up int:toupper\nRewriteMap esc int:escape\nRewriteMap un int:unescape\n\
        RewriteRule ^/t/(.*)$ /${t:$1} [R,L]\nRewriteRule ^/d/(.*)$ /${t:$1|no/$1} [R,L]\nRewriteRule ^/p/(.*)$ /${plain:$1} [R,L]\n\
        RewriteRule ^/r/(.*)$ /${r:$1} [R,L]\nRewriteRule ^/low/(.*)$ /${low:$1} [R,L]\nRewriteRule ^/up/(.*)$ /${up:$1} [R,L]\n\
        RewriteRule ^/esc/(.*)$ /${esc:$1} [R,NE,L]\nRewriteRule ^/un/(.*)$ /${un:$1} [R,L]\nRewriteRule ^/in/(.*)$ /${t:${low:$1}|${up:x}} [R,L]\n\
        RewriteRule ^/none/(.*)$ /${nomap:$1|dflt} [R,L]\nRewriteRule ^/bare/(.*)$ /${t}$1 [R,L]\n";
    let requests = [
        "GET /t/a",
        "GET /t/none",
        "GET /t/two",
        "GET /t/empty",
        "GET /t/first",
        "GET /d/none",
        "GET /d/b",
        "GET /p/a",
        "GET /r/same",
        "GET /low/ABC",
        "GET /up/abc",
        "GET /esc/a%20b",
        "GET /un/a%2541b",
        "GET /in/A",
        "GET /in/zz",
        "GET /none/x",
        "GET /bare/x",
        "GET /t/%23",
        "GET /t/",
    ];
    let text = "# comment\na alpha\nb\tbeta # more\n c gamma\nempty\nempty2 \ntwo one two\nfirst 1\nfirst 2\nsame x|x\nq a?b\n";
    let cases: Vec<Case> = requests.iter().map(|request| Case::of(request)).collect();
    let files = |site: &Site| {
        build(site);
        site.file("out/map.txt", text);
    };
    compare("maps", files, configuration, &cases, &[]);
}

#[test]
fn virtual_hosts_and_the_main_server() {
    let configuration = "RewriteEngine On\nRewriteRule ^/m$ /a.html\n\
        <VirtualHost ${ADDR}:8080>\nServerName plain\nDocumentRoot ${DOCS}\n</VirtualHost>\n\
        <VirtualHost ${ADDR}:8080>\nServerName inherits\nRewriteOptions Inherit\n</VirtualHost>\n\
        <VirtualHost ${ADDR}:8080>\nServerName own\nRewriteRule ^/v$ /b.txt\n</VirtualHost>\n\
        <VirtualHost ${ADDR}:8080>\nServerName off\nRewriteEngine Off\nRewriteOptions InheritBefore\n</VirtualHost>\n\
        <VirtualHost ${ADDR}:8080>\nServerName section\n<Directory ${DOCS}/d>\nRewriteEngine On\nRewriteRule ^x$ a.html\n</Directory>\n</VirtualHost>\n\
        <VirtualHost ${ADDR}:8080>\nServerName root\nServerAlias *.root\nRewriteRule ^/v/(.*)$ http://any.root:8080/$1\n</VirtualHost>\n";
    let mut cases = Vec::new();
    for host in ["plain", "inherits", "own", "off", "section", "root"] {
        for path in ["/m", "/v", "/d/x", "/v/a.html"] {
            let bytes = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
            cases.push(Case { name: format!("{host}{path}"), bytes });
        }
    }
    compare("virtual_hosts_and_the_main_server", build, configuration, &cases, &[]);
}

//! The meaning of lines, sections and expressions, compared with Apache; and undecidable conditions are refused.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::harness::beside::without_help;
use crate::harness::mpm::{Mpm, test_name};
use crate::harness::oracle::{self, Allowed, Case, compare};
use crate::harness::server::Server;
use crate::harness::site::{self, Site};

/// A program's messages about a configuration (standard error without the file's name), and whether it accepts it.
fn checked(program: &str, site: &Site) -> (String, bool) {
    let mut command = Command::new(program);
    let output =
        command.arg0("apache2").args(["-d", site.path(), "-f", "conf/httpd.conf", "-t"]).output().expect("run");
    let said = String::from_utf8_lossy(&output.stderr).replace(site.path(), "ROOT");
    (without_help(&said).last().unwrap_or_default().to_string(), output.status.success())
}

/// Compares both programs' messages for each of the lines.
fn check_lines(test: &str, lines: &[String]) {
    if !oracle::is_there(test) {
        return;
    }
    let (ours, theirs) = (Site::new(), Site::new());
    let mut differences = Vec::new();
    for text in lines {
        ours.configure_with(&site::load_lines(Mpm::Event), text);
        theirs.configure_with(&oracle::load_lines(), text);
        let (our, their) = (checked(env!("CARGO_BIN_EXE_tsubame"), &ours), checked(oracle::APACHE, &theirs));
        // If a line is accepted, other tests check its warnings.
        if our.1 != their.1 || !our.1 && our.0 != their.0 {
            differences.push(format!("{text}\n    ours   {our:?}\n    Apache {their:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn lines_are_right_or_wrong_as_for_apache() {
    let in_directory = [
        "Options All MultiViews",
        "Options None Indexes",
        "Options Indexes None",
        "Options All -Indexes",
        "Options +Indexes All",
        "Options +Indexes Bogus",
        "Options Indexes +FollowSymLinks",
        "Options All +MultiViews Indexes",
        "Options +None",
        "AllowOverride Nonfatal=Foo",
        "AllowOverride Nonfatal=",
        "AllowOverride Nonfatal",
        "<Limit get>\n</Limit>",
        "<LimitExcept FOO>\n</LimitExcept>",
        "<Limit TRACE>\n</Limit>",
        "<Limit FOO>\n</Limit>\nRequire method FOO",
        "Require method BAR",
    ];
    let lines = [
        "<FilesMatch x>\n<Files y>\n</Files>\n</FilesMatch>",
        "<Files x>\n<FilesMatch y>\n</FilesMatch>\n</Files>",
        "<Location /x>\n<Files y>\n</Files>\n</Location>",
        "<Directory ~>\n</Directory>",
        "<Location ~ >\n</Location>",
        "<Files ~ \"\">\n</Files>",
        "ErrorDocument 302 /mine.html",
        "ErrorDocument 100 x",
        "ErrorDocument 999 x",
        "ErrorDocument 404",
        "ErrorDocument 404 \"\"",
        "ErrorDocument 404 Not Found",
        "ErrorDocument 404 \"a b",
        "ErrorDocument 404 \"%{NOSUCH}\"",
        "ErrorDocument 404 http://x/%{NOSUCH}",
        "ErrorLog logs/error_log b",
        "RegexDefaultOptions",
        "RegexDefaultOptions foo",
        "RegexDefaultOptions +",
        "ServerName a:99999",
        "ServerName a:x",
        "ServerName a:80x",
        "ServerName [::1]:80",
        "ServerName [::1",
        "ServerName *.example",
        "Error",
        "Error \"a b\"",
        "<VirtualHost *:80>\nLimitRequestLine 20000\nLimitRequestFieldSize 20000\nLimitRequestFields 10\n</VirtualHost>",
        "<Directory /x>\nLimitRequestLine 10\n</Directory>",
    ];
    let mut all: Vec<String> = in_directory.map(|line| format!("<Directory /x>\n{line}\n</Directory>")).to_vec();
    all.extend(lines.map(String::from));
    check_lines("lines_are_right_or_wrong_as_for_apache", &all);
}

/// The values are those of C's `atoi` and `strtol`, which differ from each other.
/// What is no regular file is not read: it might have no end, or nobody at its other one.
#[test]
fn only_regular_files_are_included() {
    let lines = ["Include /dev/zero", "IncludeOptional /dev/zero", "Include /dev/stdin", "Include /dev/null"];
    let said = |text: &str| {
        let site = Site::new();
        site.configure(Mpm::Event, text);
        checked(env!("CARGO_BIN_EXE_tsubame"), &site)
    };
    for line in lines {
        let (ours, is_right) = said(line);
        assert_eq!(is_right, line.ends_with("null"), "{line}: {ours}");
        assert!(is_right || ours.contains("not a regular file"), "{line}: {ours}");
    }
    let site = Site::new();
    assert!(Command::new("mkfifo").arg(site.root.join("conf/pipe")).status().expect("mkfifo").success());
    let (ours, is_right) = said(&format!("Include {}/conf/pipe", site.path()));
    assert!(!is_right && ours.contains("not a regular file"), "{ours}");
    check_lines("only_regular_files_are_included", &["Include /dev/null".into()]);
}

/// A few lines that double what they add end with an error that names a line, before they have used much memory.
#[test]
fn a_configuration_that_grows_without_end_is_refused() {
    let doubled = |line: &dyn Fn(usize) -> String| (1..40).map(line).collect::<String>();
    let defines = "Define A0 xxxxxxxxxxxxxxxx\n".to_string()
        + &doubled(&|n| format!("Define A{n} ${{A{}}}${{A{}}}\n", n - 1, n - 1));
    let macros = "<Macro M0>\nSetEnv A b\n</Macro>\n".to_string()
        + &doubled(&|n| format!("<Macro M{n}>\nUse M{}\nUse M{}\n</Macro>\n", n - 1, n - 1))
        + "Use M39\n";
    for text in [defines, macros] {
        let site = Site::new();
        site.configure(Mpm::Event, &text);
        let mut command = Command::new("prlimit");
        command.args([
            "--as=3000000000",
            env!("CARGO_BIN_EXE_tsubame"),
            "-d",
            site.path(),
            "-f",
            "conf/httpd.conf",
            "-t",
        ]);
        let output = command.output().expect("run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("Syntax error on line "), "{said}");
        assert!(said.contains("is longer than 16777216 bytes") || said.contains("larger than 256 MiB"), "{said}");
    }
}

#[test]
fn numbers_that_are_too_large_mean_the_same_as_in_apache() {
    let names = [
        "ListenBacklog",
        "MaxMemFree",
        "SendBufferSize",
        "ReceiveBufferSize",
        "ThreadStackSize",
        "DeflateBufferSize",
        "DeflateInflateLimitRequestBody",
        "DeflateInflateRatioLimit",
        "LimitRequestBody",
        "LimitXMLRequestBody",
        "LimitRequestLine",
        "LimitRequestFields",
        "RequestReadTimeout header=",
        "RequestReadTimeout body=1,MinRate=",
        "IndexOptions NameWidth=",
        "IndexOptions DescriptionWidth=",
        "AsyncRequestWorkerFactor",
        "MaxRanges",
    ];
    let line = |name: &str, number: &str| format!("{name}{}{number}", if name.ends_with('=') { "" } else { " " });
    let lines = names.iter().flat_map(|name| ["100000000000000000000", "5000000000"].map(|number| line(name, number)));
    check_lines("numbers_that_are_too_large_mean_the_same_as_in_apache", &lines.collect::<Vec<_>>());
}

fn get(target: &str, fields: &str) -> Case {
    request("GET", target, fields)
}

fn request(method: &str, target: &str, fields: &str) -> Case {
    let bytes = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").into_bytes();
    Case { name: format!("{method} {target}"), bytes }
}

/// Each line stands in the `.htaccess` file of a directory of its own.
#[test]
fn htaccess_files_may_say_what_they_may_for_apache() {
    let lines = [
        "ErrorDocument 404 \"%{file:/etc/hostname}\"",
        "ErrorDocument 404 \"%{filesize:/etc/hostname}\"",
        "ErrorDocument 404 \"http://x/%{file:/etc/hostname}\"",
        "<If \"file('/etc/hostname') != ''\">\n</If>",
        "<If \"filesize('/etc/hostname') -gt 1\">\n</If>",
        "<If \"true\">\n</If>\n<ElseIf \"file('/etc/hostname') != ''\">\n</ElseIf>",
        "<If \"true\">\nErrorDocument 404 \"%{file:/etc/hostname}\"\n</If>",
        "<Files a.txt>\nErrorDocument 404 \"%{file:/etc/hostname}\"\n</Files>",
        "SetHandler \"%{file:/etc/hostname}\"",
        "SetHandler \"expr=%{filesize:/etc/hostname}\"",
        "SetEnvIfExpr \"file('/etc/hostname') != ''\" x",
        "Redirect 302 \"http://x/%{file:/etc/hostname}\"",
        "Require expr \"file('/etc/hostname') != ''\"",
        "Require user %{file:/etc/hostname}",
        "FilterProvider x DEFLATE \"file('/etc/hostname') != ''\"",
        "<If \"-f '/etc/hostname'\">\n</If>",
        "ErrorDocument 404 \"%{osenv:NOSUCH}x\"",
        "ErrorDocument 404 Not Found",
        "Options All MultiViews",
        "<FilesMatch x>\n<Files y>\n</Files>\n</FilesMatch>",
        "<Limit FOO>\n</Limit>",
        "<Limit GET>\n</Limit>",
        "Error",
        "<Files ~>\n</Files>",
    ];
    let options = ["+SymLinksIfOwnerMatch", "SymLinksIfOwnerMatch", "+MultiViews", "+Indexes", "All", "None"];
    let build = |site: &Site| {
        for (nth, line) in lines.iter().enumerate() {
            site.page(&format!("l{nth}/a.txt"), "a\n");
            site.page(&format!("l{nth}/.htaccess"), format!("{line}\n"));
        }
        for (nth, option) in options.iter().enumerate() {
            site.page(&format!("o{nth}/a.txt"), "a\n");
            site.page(&format!("o{nth}/.htaccess"), format!("Options {option}\n"));
        }
    };
    let configuration = "<Directory ${DOCS}>\nAllowOverride All\n</Directory>\n\
        <DirectoryMatch ^${DOCS}/o>\nAllowOverride Options\n</DirectoryMatch>\n\
        <Directory ${DOCS}/o0>\nAllowOverride Options\n</Directory>\n<Directory ${DOCS}/o1>\nAllowOverride Options\n</Directory>\n\
        <Directory ${DOCS}/o2>\nAllowOverride Options\n</Directory>\n<Directory ${DOCS}/o3>\nAllowOverride Options\n</Directory>\n\
        <Directory ${DOCS}/o4>\nAllowOverride Options\n</Directory>\n<Directory ${DOCS}/o5>\nAllowOverride Options\n</Directory>";
    let of_lines = (0..lines.len()).flat_map(|nth| ["a.txt", "none"].map(|file| get(&format!("/l{nth}/{file}"), "")));
    let cases: Vec<Case> = of_lines.chain((0..options.len()).map(|nth| get(&format!("/o{nth}/a.txt"), ""))).collect();
    let file = Allowed { case: "*", what: "%f", entry: "The file of a request" };
    compare("htaccess_files_may_say_what_they_may_for_apache", build, configuration, &cases, &[file]);
}

fn pages(site: &Site) {
    for name in ["index.html", "a.txt", "d/index.html", "d/f.txt", "deny.txt", "mine.html", "e/x/f.txt"] {
        site.page(name, format!("{name}\n"));
    }
}

#[test]
fn directories_are_met_as_in_apache() {
    let configuration = "<DirectoryMatch \"/htdocs/d/\">\nErrorDocument 404 inside\nRequire all denied\n</DirectoryMatch>\n\
        <DirectoryMatch \"/htdocs/e$\">\nRequire all denied\n</DirectoryMatch>\n\
        <Directory \"${DOCS}/e/*\">\nErrorDocument 404 below\n</Directory>\n\
        <Directory \"${DOCS}/a.tx?\">\nErrorDocument 404 file\nForceType x/x\n</Directory>";
    let targets = [
        "/",
        "/d",
        "/d/",
        "/d/f.txt",
        "/d/none",
        "/e",
        "/e/",
        "/e/none",
        "/e/x/none",
        "/e/x",
        "/a.txt",
        "/a.txt/x",
        "/a.txz",
    ];
    compare("directories_are_met_as_in_apache", pages, configuration, &targets.map(|target| get(target, "")), &[]);
}

#[test]
fn documents_of_redirects_are_sent_as_in_apache() {
    let configuration = "ErrorDocument 302 /mine.html\nErrorDocument 301 text\nRedirect /r http://x.example/y\n\
        ErrorDocument 404 \"[%{SERVER_ADMIN}]\"";
    let cases = [get("/r", ""), get("/d", ""), get("/none", ""), get("/a.txt", "")];
    compare("documents_of_redirects_are_sent_as_in_apache", pages, configuration, &cases, &[]);
}

#[test]
fn expressions_see_what_they_see_in_apache() {
    let files = [
        "${DOCS}/a.txt",
        "${DOCS}/none",
        "${DOCS}/d",
        "${DOCS}/deny.txt",
        "a.txt",
        "d/f.txt",
        "../a.txt",
        "/a.txt",
        "",
    ];
    let urls = ["/a.txt", "/none", "/deny.txt", "a.txt", "http://localhost/a.txt", "", "/d/", "/loc"];
    let asked = |operator: &str, what: &[&str]| -> (String, String) {
        let name = |nth: usize| format!("v{}{nth}", &operator[1..]);
        let line =
            |(nth, target): (usize, &&str)| format!("SetEnvIfExpr \"{operator} '{target}'\" {}=yes\n", name(nth));
        let shown = |nth: usize| format!("%{{reqenv:{}}},", name(nth));
        (what.iter().enumerate().map(line).collect(), (0..what.len()).map(shown).collect())
    };
    let ((of_files, files), (of_urls, urls)) = (asked("-F", &files), asked("-U", &urls));
    let configuration = format!(
        "<Files deny.txt>\nRequire all denied\n</Files>\n<Location /loc>\nRequire all denied\n</Location>\n\
         <Location /c>\n{of_files}{of_urls}ErrorDocument 404 \"{files} {urls}\"\n</Location>\n\
         <Location /h>\nErrorDocument 404 \"%{{HTTP:X-A}} %{{req:X-A}} %{{HTTP_ACCEPT}}\"\n</Location>\n\
         <Location /i>\n<If \"req('X-A') == 'a, b'\">\nErrorDocument 404 joined\n</If>\n</Location>\n\
         <Location /j>\n<If \"file('/none') == ''\">\nErrorDocument 404 yes\n</If>\n<Else>\nErrorDocument 404 no\n</Else>\n</Location>"
    );
    let twice = "X-A: a\r\nAccept: a/b\r\nX-A: b\r\nAccept: c/d\r\n";
    let cases = [get("/c", ""), get("/h", twice), get("/i", twice), get("/j", "")];
    let lines = |case| Allowed { case, what: "error log", entry: "Errors of an expression" };
    let allowed = [lines("GET /c"), lines("GET /j")];
    compare("expressions_see_what_they_see_in_apache", pages, &configuration, &cases, &allowed);
}

#[test]
fn limit_makes_methods_known_as_in_apache() {
    let configuration = "<Location /d>\n<Limit FOO>\nRequire all granted\n</Limit>\n</Location>\n\
        <VirtualHost *>\nServerName other.example\n<Location />\n<LimitExcept BAR>\nRequire all granted\n</LimitExcept>\n</Location>\n\
        </VirtualHost>";
    let cases = ["FOO", "BAR", "BAZ", "OPTIONS"].map(|method| request(method, "/a.txt", ""));
    compare("limit_makes_methods_known_as_in_apache", pages, configuration, &cases, &[]);
}

/// Links that lead nowhere or back to themselves are refused alike, with Apache's own lines.
#[test]
fn links_that_lead_nowhere_are_refused() {
    let site = Site::with([("htdocs/a.txt", "a")]);
    for (link, target) in [("loop", "loop"), ("dead", "none")] {
        std::os::unix::fs::symlink(target, site.root.join("htdocs").join(link)).expect("link");
    }
    let server = Server::start(Mpm::Percore, &site, "");
    for link in ["loop", "dead"] {
        assert_eq!(server.get(&format!("/{link}")).status, 403, "{link}");
        let path = site.root.join("htdocs").join(link);
        server.logged(&format!("AH00037: Symbolic link not allowed or link target not accessible: {}", path.display()));
    }
    let long = "x".repeat(300);
    assert_eq!(server.get(&format!("/{long}")).status, 403);
    server.logged(&format!("AH00036: access to /{long} failed (filesystem path '"));
}

/// The settings of the directories on the way decide about links, whatever sections that come later say, and whatever
/// bytes the names of the directories are made of.
#[test]
fn links_are_judged_on_the_way() {
    use std::os::unix::ffi::OsStrExt;

    let build = |site: &Site| {
        for name in ["loc/t.txt", "fil/t.html", "match/t.txt", "own/real/f.txt", "none/t.txt"] {
            site.page(name, "x");
        }
        let docs = site.root.join("htdocs");
        let links =
            [("loc/l.txt", "t.txt"), ("fil/f.html", "t.html"), ("match/l.txt", "t.txt"), ("none/l.txt", "t.txt")];
        for (link, target) in links.into_iter().chain([("own/a", "real")]) {
            std::os::unix::fs::symlink(target, docs.join(link)).expect("a link");
        }
        let odd = docs.join(std::ffi::OsStr::from_bytes(b"\xe9t\xe9"));
        std::fs::create_dir_all(odd.join("in/deep")).expect("a directory");
        std::fs::write(odd.join("in/.htaccess"), "Options None\n").expect("a file");
        std::fs::write(odd.join("in/deep/f.txt"), "x").expect("a file");
        std::os::unix::fs::symlink("deep", odd.join("in/link")).expect("a link");
    };
    let configuration = "<Directory ${DOCS}>\nOptions FollowSymLinks\nAllowOverride Options\n</Directory>\n\
        <Location /loc>\nOptions Indexes\n</Location>\n<Files f.html>\nOptions Indexes\n</Files>\n\
        <DirectoryMatch /match/>\nOptions Indexes\n</DirectoryMatch>\n<Directory ${DOCS}/none>\nOptions None\n</Directory>\n\
        <Directory ${DOCS}/own>\nOptions SymLinksIfOwnerMatch\n</Directory>\n\
        <Directory ${DOCS}/own/a>\nOptions None\n</Directory>\n";
    let requests = [
        "GET /loc/l.txt",
        "GET /fil/f.html",
        "GET /match/l.txt",
        "GET /none/l.txt",
        "GET /none/t.txt",
        "GET /own/a/f.txt",
        "GET /%e9t%e9/in/deep/f.txt",
        "GET /%e9t%e9/in/link/f.txt",
    ];
    let cases = requests.map(Case::of);
    let allowed = Allowed { case: "*/link/f.txt", what: "%f", entry: "The file of a request" };
    oracle::compare("links on the way", build, configuration, &cases, &[allowed]);
}

/// `Digest` leaves the other parts out, and needs no time to become strong.
#[test]
fn tags_of_files_are_those_of_apache() {
    let words = ["Digest", "Digest Size", "+Digest", "All Digest", "None Digest", "-Size +Digest", "Size", "None"];
    let large = "0123456789abcdef".repeat(20_000);
    let build = |site: &Site| {
        for nth in 0..words.len() {
            site.page(&format!("w{nth}/a.txt"), "a\n");
            site.page(&format!("w{nth}/empty.txt"), "");
            site.page(&format!("w{nth}/large.txt"), &large);
        }
    };
    let section =
        |(nth, words): (usize, &&str)| format!("<Directory ${{DOCS}}/w{nth}>\nFileETag {words}\n</Directory>\n");
    let configuration: String = words.iter().enumerate().map(section).collect();
    let files = ["a.txt", "empty.txt", "large.txt"];
    let mut cases: Vec<Case> =
        (0..words.len()).flat_map(|nth| files.map(|file| get(&format!("/w{nth}/{file}"), ""))).collect();
    cases.push(get("/w0/a.txt", "If-None-Match: \"P3h4UerCLIYeAvmt3EKHFVmZ3I8=\"\r\n"));
    cases.push(request("HEAD", "/w0/large.txt", "Range: bytes=0-3\r\n"));
    compare("tags_of_files_are_those_of_apache", build, &configuration, &cases, &[]);
}

/// A regular expression that runs out of its budget neither matches nor fails to: what its line was to decide is refused.
#[test]
fn a_regular_expression_without_an_end_refuses() {
    const COSTLY: &str = "^(a+)+\\1$";
    let lines = [
        format!("SetEnvIf X-A \"{COSTLY}\" bad"),
        "SetEnvIf \"^X-(a+)+\\1$\" . bad".to_string(),
        format!("BrowserMatch \"{COSTLY}\" bad"),
        format!("SetEnvIfExpr \"req('X-A') =~ m#{COSTLY}#\" bad"),
        format!("<If \"req('X-A') =~ m#{COSTLY}#\">\nRequire all denied\n</If>"),
        format!("Require expr \"! req('X-A') =~ m#{COSTLY}#\""),
    ];
    let sections: String =
        lines.iter().enumerate().map(|(nth, line)| format!("<Location /l{nth}>\n{line}\n</Location>\n")).collect();
    let configuration = format!(
        "{sections}SetEnvIf X-B \"{COSTLY}\" bad\nRedirectMatch \"^/r(a+)+\\1$\" /x\nAliasMatch \"^/s(a+)+\\1$\" /x\n\
         <LocationMatch \"^/t(a+)+\\1$\">\nRequire all denied\n</LocationMatch>\n\
         <Directory ${{DOCS}}>\nAllow from all\nDeny from env=bad\nOrder Allow,Deny\n</Directory>"
    );
    let site = Site::with([("htdocs/l0", "x"), ("htdocs/a.txt", "a")]);
    let server = Server::start(Mpm::Percore, &site, &configuration);
    server.allow("cannot be matched: match limit exceeded");
    server.allow("Require expr");
    let many = format!("{}b", "a".repeat(600));
    let asked = |target: &str, field: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{field}\r\nConnection: close\r\n\r\n");
        server.client().request(head).status
    };
    for (nth, line) in lines.iter().enumerate() {
        let field = match line {
            line if line.starts_with("BrowserMatch") => format!("User-Agent: {many}"),
            line if line.contains("^X-") => format!("X-{many}: x"),
            _ => format!("X-A: {many}"),
        };
        assert_eq!(asked(&format!("/l{nth}"), &field), 500, "{line}");
    }
    assert_eq!(asked("/a.txt", &format!("X-B: {many}")), 500);
    for kind in ["r", "s", "t"] {
        assert_eq!(asked(&format!("/{kind}{many}"), "X: y"), 500, "{kind}");
    }
    // The log names each line.
    let text = site.read("conf/httpd.conf");
    for mark in [
        "SetEnvIf X-A",
        "SetEnvIf X-B",
        "BrowserMatch",
        "SetEnvIfExpr",
        "RedirectMatch",
        "AliasMatch",
        "<LocationMatch",
    ] {
        let line = text.lines().position(|line| line.contains(mark)).map_or(0, |at| at + 1);
        let file = Path::new(site.path()).join("conf/httpd.conf");
        server.logged(&format!(
            "cannot be matched: match limit exceeded, so the line at {}:{line} cannot be evaluated",
            file.display()
        ));
    }
}

/// The same for the fields of an answer: no answer is sent whose lines cannot be decided, neither a file nor an error.
#[test]
fn an_endless_regular_expression_keeps_the_answer_back() {
    let long = format!("{}b", "a".repeat(200));
    let field = format!("Header set X-A {long}\n");
    let configuration = format!(
        "<Location /edit>\n{field}Header edit X-A \"^(a+)+\\1$\" x\n</Location>\n\
         <Location /always>\nHeader always set X-A {long}\nHeader always edit X-A \"^(a+)+\\1$\" x\n</Location>\n\
         <Location /cond>\n{field}Header set X-B 1 \"expr=%{{resp:X-A}} =~ /^(a+)+\\1$/\"\n</Location>\n\
         <Location /fine>\n{field}Header edit X-A \"^(a+)\" x\n</Location>\n"
    );
    let site = Site::with([("edit", "secret"), ("always", "secret"), ("cond", "secret"), ("fine", "secret")]);
    for mpm in Mpm::chosen(test_name!()) {
        let server = Server::start(mpm, &site, &configuration);
        server.allow("match limit exceeded");
        let ask = |path: &str| {
            let answer = server.get(path);
            (answer.status, answer.text().contains("secret"), answer.field("X-A").is_some())
        };
        for path in ["/edit", "/cond", "/always"] {
            assert_eq!((ask(path).0, ask(path).1), (500, false), "{path} {mpm}");
        }
        assert_eq!(ask("/always/none"), (500, false, false), "{mpm}");
        assert_eq!(server.get("/edit/none").status, 404, "this line is about successful answers: {mpm}");
        assert_eq!(server.get("/fine").field("X-A"), Some("xb"), "{mpm}");
    }
}

/// The same when a request continues at another path: conditions on that path are refused. Only an error document is
/// sent all the same, since it reports an error that is already decided.
#[test]
fn an_endless_regular_expression_refuses_after_a_redirect() {
    let many = format!("/s{}b.txt", "a".repeat(200));
    let configuration = format!(
        "SetEnvIf Request_URI \"^/s(a+)+\\1$\" bad\nScriptAlias /cgi/ ${{ROOT}}/cgi-bin/\nErrorDocument 404 {many}\n\
         <Directory ${{DOCS}}>\nAllow from all\nDeny from env=bad\nOrder Allow,Deny\n</Directory>\n\
         <Directory ${{ROOT}}/cgi-bin>\nRequire all granted\n</Directory>"
    );
    let site = Site::with([(&many[1..], "found\n"), ("a.txt", "a")]);
    site.script("there", &format!("#!/bin/sh\nprintf 'Location: {many}\\n\\n'\n"));
    site.script("here", "#!/bin/sh\nprintf 'Location: /a.txt\\n\\n'\n");
    for mpm in Mpm::chosen(test_name!()) {
        let server = Server::start(mpm, &site, &configuration);
        server.announce("cannot be matched: match limit exceeded");
        assert_eq!(server.get("/cgi/here").text(), "a", "{mpm}");
        let there = server.get("/cgi/there");
        assert_eq!(there.status, 500, "{mpm}: {}", there.text());
        let absent = server.get("/none");
        assert_eq!((absent.status, absent.text().as_str()), (404, "found\n"), "{mpm}");
    }
}

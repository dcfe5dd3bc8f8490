//! `tsubame explain` predicts what the server does.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::mpm::Mpm;
use crate::harness::needs;
use crate::harness::site::Site;
use crate::mpm::control::said;

/// Runs `tsubame explain` on the site's configuration.
pub fn explain(site: &Site, arguments: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
    command.args(["explain", "-d", site.path(), "-f", "conf/httpd.conf"]).args(arguments).current_dir(&site.root);
    said(&command.output().expect("run"))
}

pub fn json(site: &Site, arguments: &[&str]) -> Value {
    let (output, errors, status) = explain(site, &[&["--json"], arguments].concat());
    assert_eq!((errors.as_str(), status), ("", Some(0)), "{arguments:?}");
    serde_json::from_str(&output).expect("JSON")
}

/// The values of a directive that count, and those that do not, each with the line of its file.
fn values(explained: &Value, name: &str) -> (Vec<String>, Vec<String>) {
    let said =
        explained["paths"][0]["directives"].as_array().expect("directives").iter().find(|said| said["name"] == name);
    let list = |key: &str| -> Vec<String> {
        let lines = said.and_then(|said| said[key].as_array()).into_iter().flatten();
        lines
            .map(|line| {
                let file = line["origin"]["file"].as_str().and_then(|file| file.rsplit('/').next()).unwrap_or("?");
                format!("{} ({file}:{})", line["value"].as_str().expect("value"), line["origin"]["line"])
            })
            .collect()
    };
    (list("in_effect"), list("not_in_effect"))
}

pub fn site() -> Site {
    let site = Site::with([
        ("index.html", "hello\n"),
        ("private/x.html", "no\n"),
        ("sub/index.html", "sub\n"),
        ("sub/page.foo", "foo\n"),
        ("broken/x.html", "x\n"),
        ("broken/.htaccess", "Bogus on\n"),
        (
            "sub/.htaccess",
            "SetEnv FROM htaccess\nAddType text/x-foo .foo\n<Files page.foo>\nSetEnv FROM files\n</Files>\n",
        ),
        ("limited/.htaccess", "SetEnv A b\nOptions +Indexes\n"),
        ("limited/x.html", "x\n"),
    ]);
    site.script("env.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nok\\n'\n");
    site.file("cgi-bin/dull.cgi", "#!/bin/sh\n");
    site.file("cgi-bin/sub/file", "");
    site.page("scripts/no.cgi", "");
    site.page("more/strict.cgi", "");
    site.file("conf/more.conf", "SetEnv FROM include\n");
    site
}

pub const CONFIGURATION: &str = "\
LogFormat \"%h\" one
LogFormat \"%h %r\" one
<Directory />
AllowOverride None
Options FollowSymLinks Indexes
Require all denied
</Directory>
<Directory ${DOCS}>
AllowOverride FileInfo
Options -Indexes
Require all granted
Include conf/more.conf
</Directory>
<Directory ${DOCS}/private>
Require all denied
</Directory>
<Directory ${DOCS}/scripts>
SetHandler cgi-script
</Directory>
<Directory ${DOCS}/more>
Options ExecCGI
SetHandler cgi-script
AcceptPathInfo Off
</Directory>
<Directory ${ROOT}/cgi-bin>
Require all granted
</Directory>
ScriptAlias /cgi-bin/ ${ROOT}/cgi-bin/
Alias /other ${DOCS}/sub
Redirect 301 /old http://elsewhere.example/new
<Location /gone>
Redirect 410
</Location>
ErrorDocument 404 /index.html
<VirtualHost *:8080>
ServerName one.example
</VirtualHost>
<VirtualHost *:8080>
ServerName two.example
ServerAlias *.two.example
DocumentRoot ${DOCS}/sub
</VirtualHost>
";

/// Each directive has its effective value, its origin with the chain of includes, and the values that it replaced.
#[test]
fn values_have_origins_and_losers() {
    let site = site();
    site.configure(Mpm::Percore, CONFIGURATION);
    let explained = json(&site, &["http://one.example:8080/sub/page.foo"]);
    assert_eq!(explained["virtual_host"]["name"], "one.example");
    assert_eq!(explained["virtual_host"]["candidates"], 2);
    assert_eq!(explained["answer"]["type"], "text/x-foo");
    assert_eq!(explained["answer"]["made_by"], "core");
    let (holds, lost) = values(&explained, "Require");
    assert_eq!((holds, lost), (vec!["all granted (httpd.conf:12)".into()], vec!["all denied (httpd.conf:7)".into()]));
    let (holds, lost) = values(&explained, "SetEnv");
    assert_eq!(holds, ["FROM files (.htaccess:4)"]);
    assert_eq!(lost, ["FROM include (more.conf:1)", "FROM htaccess (.htaccess:1)"]);
    let (holds, _) = values(&explained, "Options");
    assert_eq!(holds, ["FollowSymLinks Indexes (httpd.conf:6)", "-Indexes (httpd.conf:11)"]);
    let (holds, lost) = values(&explained, "LogFormat");
    assert_eq!((holds, lost), (vec!["\"%h %r\" one (httpd.conf:3)".into()], vec!["\"%h\" one (httpd.conf:2)".into()]));
    let options =
        explained["paths"][0]["directives"].as_array().expect("list").iter().find(|said| said["name"] == "Options");
    assert_eq!(options.map(|said| &said["result"]), Some(&Value::from("FollowSymLinks")));
    let titles: Vec<&str> = explained["paths"][0]["layers"]
        .as_array()
        .expect("layers")
        .iter()
        .filter_map(|layer| layer["title"].as_str())
        .collect();
    let last: Vec<&str> = titles.iter().rev().take(2).map(|title| title.rsplit('/').next().unwrap_or(title)).collect();
    assert_eq!(last, ["<Files page.foo>", ".htaccess"]);
    let included =
        &explained["paths"][0]["directives"].as_array().expect("list").iter().find(|said| said["name"] == "SetEnv");
    let chain = included.map(|said| said["not_in_effect"][0]["origin"]["included_from"][0].as_str().expect("chain"));
    assert!(chain.is_some_and(|chain| chain.ends_with("httpd.conf:13")), "{chain:?}");
}

/// If an error document answers, the settings of the requested path come first, and then those of the document.
#[test]
fn an_error_document_hides_nothing() {
    let site = Site::with([("closed/x.html", "no\n"), ("sorry.html", "sorry\n")]);
    let text = "ErrorDocument 403 /sorry.html\n<Location /closed>\nRequire all denied\n</Location>\n\
                <Location /sorry.html>\nRequire all granted\n</Location>";
    site.configure(Mpm::Percore, text);
    let explained = json(&site, &["/closed/x.html"]);
    assert_eq!((&explained["answer"]["status"], explained["paths"].as_array().map(Vec::len)), (&403.into(), Some(2)));
    let require = |path: usize| {
        let said =
            explained["paths"][path]["directives"].as_array().expect("list").iter().find(|d| d["name"] == "Require");
        said.expect("a line")["in_effect"][0]["value"].as_str().expect("value").to_string()
    };
    assert_eq!((explained["paths"][0]["path"].as_str(), require(0).as_str()), (Some("/closed/x.html"), "all denied"));
    assert_eq!((explained["paths"][1]["path"].as_str(), require(1).as_str()), (Some("/sorry.html"), "all granted"));
}

/// Only files that the serving user may read are shown, whatever includes them, and opening one never blocks.
#[test]
fn files_closed_to_children_are_not_shown() {
    let site = Site::with([("a/x.html", "x\n"), ("b/x.html", "x\n")]);
    site.configure(Mpm::Percore, "<Directory ${DOCS}>\nRequire all granted\nAllowOverride All\n</Directory>");
    let secret = site.file("secret", "SetEnv SECRET 1\n");
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("mode");
    std::os::unix::fs::symlink(&secret, site.root.join("htdocs/a/.htaccess")).expect("link");
    let made = Command::new("mkfifo").arg(site.root.join("htdocs/b/.htaccess")).status();
    assert!(made.expect("mkfifo").success());
    if needs::ROOT.is_there("files_closed_to_children_are_not_shown") {
        let (text, _, _) = explain(&site, &["--all", "/a/x.html"]);
        assert!(text.contains("AH00529") && text.contains("  status    403") && !text.contains("SECRET"), "{text}");
    }
    let (text, _, _) = explain(&site, &["--all", "/b/x.html"]);
    assert!(text.contains("not a regular file") && text.contains("  status    403"), "{text}");
}

/// Which lines of an `.htaccess` file are let in, and which line keeps others from being read.
#[test]
fn access_files_are_judged_line_by_line() {
    let site = site();
    site.configure(Mpm::Percore, CONFIGURATION);
    let explained = json(&site, &["/limited/x.html"]);
    let steps = explained["steps"].as_array().expect("steps");
    let read = steps.iter().find(|step| step["step"] == "access file").expect("an access file");
    let lines: Vec<(&str, Option<&str>)> = read["lines"]
        .as_array()
        .expect("lines")
        .iter()
        .map(|line| (line["text"].as_str().expect("text"), line["objection"].as_str()))
        .collect();
    assert_eq!(lines, [("SetEnv A b", None), ("Options +Indexes", Some("Options not allowed here"))]);
    let closed = steps.iter().find(|step| step["step"] == "no access file").expect("a directory without");
    assert_eq!((&closed["directory"], &closed["origin"]["line"]), (&"/".into(), &5.into()));
}

/// The page for people says the same, marks nothing where there is no terminal, and errors are errors.
#[test]
fn the_text_is_plain_and_errors_are_reported() {
    let site = site();
    site.configure(Mpm::Percore, CONFIGURATION);
    let (text, errors, status) = explain(&site, &["--all", "http://two.example:8080/page.foo"]);
    assert_eq!((errors.as_str(), status), ("", Some(0)));
    for part in [
        "virtual host two.example: its name matches, among 2 at this address",
        "- Require all denied",
        "replaced",
        "  status    200",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains('\x1b'));
    for (arguments, part) in [
        (&["ftp://x/"][..], "a URL begins with http:// or https://"),
        (&["x"], "a path begins with a slash"),
        (&["/a", "--mpm"], "name one thing to explain"),
        (&["--nonsense", "/"], "unknown option '--nonsense'"),
    ] {
        let (output, errors, status) = explain(&site, arguments);
        assert_eq!((output.as_str(), status), ("", Some(1)), "{arguments:?}");
        assert!(errors.contains(part), "{arguments:?}: {errors}");
    }
    // A request that no server can read has an answer too.
    let (text, errors, status) = explain(&site, &["/a b"]);
    assert!(text.starts_with("400: the request line is malformed\n"), "{text}");
    assert_eq!((errors.as_str(), status), ("", Some(0)));
    let refused = json(&site, &["/a b"]);
    assert_eq!(refused["answer"]["status"], 400);
    assert_eq!(refused["verdict"], "400: the request line is malformed");
    site.configure(Mpm::Percore, "Bogus");
    let (_, errors, status) = explain(&site, &["/"]);
    assert!(errors.contains("Invalid command 'Bogus'") && status == Some(1), "{errors}");
}

/// The configurations of seed 002: what its author asked for, and what he got.
#[test]
fn the_numbers_of_the_seed() {
    let site = Site::new();
    let numbers = |text: &str| {
        site.configure(Mpm::Event, text);
        let explained = json(&site, &["--mpm"]);
        let runs = &explained["runs"];
        let number = |key: &str| runs[key].as_u64().expect("a number");
        let changed: Vec<String> = explained["directives"]
            .as_array()
            .expect("directives")
            .iter()
            .filter(|row| row["changed"] == true)
            .map(|row| row["name"].as_str().expect("name").to_string())
            .collect();
        let found = [number("children"), number("workers_per_child"), number("start"), number("connections")];
        (found, runs["idle_workers"].clone(), changed.join(" "))
    };
    let spare = |min: u64, max: u64| serde_json::json!({ "min": min, "max": max });
    let default = "StartServers 3\nMinSpareThreads 75\nMaxSpareThreads 250\nThreadsPerChild 25\nMaxRequestWorkers 400\n\
                   MaxConnectionsPerChild 0";
    assert_eq!(numbers(default), ([16, 25, 3, 1200], spare(75, 250), String::new()));
    // "By rights it should be 8, but 2 is 20 % faster": one child with two workers, and at most six connections.
    let best = "StartServers 4\nMinSpareThreads 4\nMaxSpareThreads 4\nThreadsPerChild 2\nMaxRequestWorkers 2";
    assert_eq!(numbers(best), ([1, 2, 1, 6], spare(4, 7), "StartServers MaxSpareThreads".into()));
    let many = "ServerLimit 60000\nMaxRequestWorkers 60000\nStartServers 4\nMinSpareThreads 4\nMaxSpareThreads 4\n\
                ThreadsPerChild 2";
    assert_eq!(numbers(many), ([30000, 2, 4, 180_000], spare(4, 7), "MaxSpareThreads".into()));
    let brute = "ServerLimit 60000\nMaxRequestWorkers 60000\nThreadLimit 1000\nStartServers 1000\nMinSpareThreads 1000\n\
                 MaxSpareThreads 1000\nThreadsPerChild 100";
    assert_eq!(numbers(brute), ([600, 100, 600, 180_000], spare(1000, 1101), "StartServers MaxSpareThreads".into()));
    let last = "AsyncRequestWorkerFactor 2\nServerLimit 32\nMaxRequestWorkers 8192\nThreadLimit 256\nStartServers 2048\n\
                MinSpareThreads 2048\nMaxSpareThreads 2048\nThreadsPerChild 256";
    assert_eq!(numbers(last), ([32, 256, 32, 24_576], spare(2048, 2305), "StartServers MaxSpareThreads".into()));
    let (text, _, _) = explain(&site, &["--mpm"]);
    for part in
        ["MaxRequestWorkers 8192 / ThreadsPerChild 256 = 32", "StartServers 2048, at least 1, at most 32 = 32 children"]
    {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

/// Everything at once: lines that are written over are struck out, also within a section.
#[test]
fn the_whole_configuration() {
    let site = Site::new();
    site.configure(
        Mpm::Prefork,
        "StartServers 1\nStartServers 10\n<Directory /x>\nAllowOverride All\nAllowOverride None\n</Directory>",
    );
    let explained = json(&site, &["--config"]);
    let levels = explained["levels"].as_array().expect("levels");
    let fates = |level: &Value, name: &str| -> Vec<(String, String)> {
        let lines = level["lines"].as_array().expect("lines").iter().filter(|line| line["directive"] == name);
        lines
            .map(|line| (line["value"].as_str().unwrap_or("?").into(), line["fate"].as_str().unwrap_or("?").into()))
            .collect()
    };
    let pair = |value: &str, fate: &str| (value.to_string(), fate.to_string());
    assert_eq!(fates(&levels[0], "StartServers"), [pair("1", "replaced"), pair("10", "in effect")]);
    assert_eq!(levels[1]["section"], "<Directory /x>");
    assert_eq!(fates(&levels[1], "AllowOverride"), [pair("All", "replaced"), pair("None", "in effect")]);
    assert_eq!(explained["server_root"], site.path());
    assert!(explained["modules"].as_array().is_some_and(|all| all.iter().any(|id| id == "mpm_prefork_module")));
    assert_eq!(explained["defines"]["ROOT"], site.path());
}

/// A connection that is to be encrypted is taken for one, and a URL with the other scheme leads nowhere.
#[test]
fn https() {
    let site = Site::with([("index.html", "hello\n")]);
    let (tls, _) = crate::harness::tls::lines(&site);
    site.configure(Mpm::Event, &format!("<Directory \"${{DOCS}}\">\nSSLRequireSSL\n</Directory>\n{tls}"));
    let to = format!("{}:{}", site.ip, crate::harness::site::PORT);
    let explained = json(&site, &[&format!("https://{to}/")]);
    assert_eq!((&explained["answer"]["status"], &explained["warning"]), (&200.into(), &Value::Null), "{explained:#}");
    let (output, _, status) = explain(&site, &[&format!("http://{to}/")]);
    assert!(status == Some(0) && output.contains(&format!("connections to {to} are https, not http")), "{output}");
}

/// `--each` answers one line after the other, and goes on after one that is no question.
#[test]
fn many_requests_are_explained_one_by_one() {
    let site = Site::new();
    site.page("a.txt", "a");
    site.program("b.cgi", "#!/bin/sh\necho\n");
    site.configure(Mpm::Percore, "LoadModule cgi_module modules/mod_cgi.so\n<Directory ${DOCS}>\nOptions +ExecCGI\nAddHandler cgi-script .cgi\n</Directory>\n");
    let long = format!(r#"{{"url": "/{}"}}"#, "x".repeat(1 << 20));
    let questions = [
        r#"{"url": "http://localhost/a.txt"}"#,
        r#"{"url": "/b.cgi", "method": "POST", "headers": [["X", "y"]], "from": "192.0.2.1"}"#,
        "nonsense",
        r#"{"url": "/none", "from": "nobody"}"#,
        &long,
        r#"{"url": "/none", "host": ""}"#,
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
    command.args(["explain", "--each", "-d", site.path(), "-f", "conf/httpd.conf"]);
    let mut process =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("tsubame");
    let mut input = process.stdin.take().expect("input");
    input.write_all(format!("{}\n", questions.join("\n")).as_bytes()).expect("questions");
    drop(input);
    let output = process.wait_with_output().expect("output");
    let text = String::from_utf8(output.stdout).expect("text");
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), questions.len(), "{text}");
    assert_eq!(answers[0]["answer"]["status"], 200, "{text}");
    assert_eq!(answers[0]["answer"]["runs"], false, "{text}");
    assert_eq!(answers[1]["answer"]["runs"], true, "{text}");
    for broken in [2, 3, 4] {
        assert!(answers[broken]["error"].is_string(), "{text}");
    }
    assert_eq!(answers[5]["answer"]["status"], 404, "HTTP/1.0 needs no host: {text}");
}

/// No command of a page with includes runs, no external filter, and no application that decides about access.
#[test]
fn filters_and_checks_start_no_programs() {
    let site = Site::new();
    let effect = site.root.join("effect");
    site.page("a.shtml", format!("<!--#exec cmd=\"echo > {}\" -->", effect.display()));
    site.page("b.txt", "b");
    let program = site.script("effect", &format!("#!/bin/sh\necho > {}\ncat\n", effect.display()));
    let modules = [
        "include_module modules/mod_include.so",
        "ext_filter_module modules/mod_ext_filter.so",
        "cgi_module modules/mod_cgi.so",
        "fcgid_module modules/mod_fcgid.so",
        "authnz_fcgi_module modules/mod_authnz_fcgi.so",
    ];
    let load: String = modules.iter().map(|module| format!("LoadModule {module}\n")).collect();
    site.configure(
        Mpm::Percore,
        &format!(
            "{load}ExtFilterDefine effect cmd={program}\nAddOutputFilter INCLUDES .shtml\nAddOutputFilter effect .txt\n\
             <Directory ${{DOCS}}>\nOptions +Includes\n</Directory>\n\
             <Location /members>\nFcgidAccessChecker {program}\n</Location>\n\
             AuthnzFcgiDefineProvider authn far fcgi://127.0.0.1:9/\n\
             <Location /users>\nAuthType Basic\nAuthName x\nAuthBasicProvider far\nRequire valid-user\n</Location>\n",
            program = program.display()
        ),
    );
    let members = format!("mod_fcgid would ask {}, which decides about access", program.display());
    for (page, verdict) in [
        ("/a.shtml", "the default handler would run"),
        ("/b.txt", "the default handler would run"),
        ("/members", &members),
        ("/users", "mod_authnz_fcgi would ask fcgi://127.0.0.1:9/, which decides about access"),
    ] {
        let explained = json(&site, &[page, "--header", "Authorization: Basic am9lOng="]);
        assert_eq!(explained["answer"]["runs"], true, "{page}: {explained:#}");
        assert!(explained["verdict"].as_str().is_some_and(|text| text.starts_with(verdict)), "{page}: {explained:#}");
    }
    assert!(!effect.exists(), "a program ran");
}

//! `switch`, from outside: planted differences are found, hostile logs do no harm, and nothing is left behind.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde_json::Value;

const LAB: &str = env!("CARGO_BIN_EXE_tsubame-lab");
const APACHE: &str = "/usr/sbin/apache2";
const MODULES: &str = "/usr/lib/apache2/modules";

/// The modules of the site.
const LOADED: [&str; 24] = [
    "mpm_event",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_host",
    "authz_user",
    "auth_basic",
    "alias",
    "autoindex",
    "cgid",
    "deflate",
    "dir",
    "env",
    "expires",
    "filter",
    "headers",
    "mime",
    "negotiation",
    "rewrite",
    "setenvif",
    "allowmethods",
    "asis",
    "status",
    "include",
];

/// The fields that the site logs, so that a log can hold any request.
const FIELDS: [&str; 5] = ["Accept-Encoding", "Accept-Language", "Range", "If-Modified-Since", "Authorization"];

/// A site of its own, which is removed with this value.
struct Site(PathBuf);

impl Site {
    /// One whose configuration has these lines, too. `None`: there is no Apache to compare with.
    fn new(name: &str, lines: &str) -> Option<Self> {
        if !Path::new(APACHE).exists() {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci == "false"), "apache2 is missing");
            return None;
        }
        let root = std::env::temp_dir().join(format!("tsubame-switch-{name}-{}", std::process::id()));
        let site = Self(root);
        for name in ["htdocs/listing", "htdocs/indexed", "logs", "scratch", "outside"] {
            fs::create_dir_all(site.path(name)).expect("a directory");
        }
        let load = |module: &&str| format!("LoadModule {module}_module {MODULES}/mod_{module}.so\n");
        let modules: String = LOADED.iter().map(load).collect();
        let fields: String = FIELDS.iter().map(|field| format!(" \\\"%{{{field}}}i\\\"")).collect();
        let shown = site.0.display();
        site.write(
            "httpd.conf",
            &format!(
                "ServerRoot {shown}\nListen 80\nServerName www.example.org\n{modules}TypesConfig /etc/mime.types\n\
                 User www-data\nGroup www-data\nStartServers 1\nPidFile {shown}/outside/pid\nErrorLog {shown}/outside/error\n\
                 ScriptSock {shown}/outside/cgisock\n\
                 LogFormat \"%h %l %u %t \\\"%r\\\" %>s %O %{{logged}}e{fields}\" all\n\
                 CustomLog {shown}/logs/access.log all env=!unlogged\nDocumentRoot {shown}/htdocs\n\
                 <Directory {shown}/htdocs>\n  Require all granted\n  Options Indexes ExecCGI MultiViews\n  AllowOverride All\n\
                 AddHandler cgi-script .cgi\n</Directory>\nAddOutputFilterByType DEFLATE text/html\n{}",
                lines.replace("ROOT", &shown.to_string())
            ),
        );
        Some(site)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    /// A file that may be executed.
    fn write_program(&self, name: &str, text: &str) {
        self.write(name, text);
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).expect("a program");
    }

    /// Writes a log with these requests: `METHOD target`, then fields of [`FIELDS`] with `|` between.
    fn log(&self, requests: &[&str]) {
        let lines = requests.iter().map(|request| {
            let mut parts = request.split('|');
            let line = parts.next().unwrap_or_default();
            let given: BTreeMap<&str, &str> = parts.filter_map(|field| field.split_once(": ")).collect();
            let fields: String =
                FIELDS.iter().map(|name| format!(" \"{}\"", given.get(name).unwrap_or(&"-"))).collect();
            format!("192.0.2.7 - - [30/Nov/2026:18:00:00 +0000] \"{line} HTTP/1.1\" 200 10 -{fields}\n")
        });
        self.write("logs/access.log", &lines.collect::<String>());
    }

    /// Runs `switch` with another program in tsubame's place, if one is given.
    fn switch(&self, tsubame: Option<&Path>, arguments: &[&str]) -> Output {
        self.command(tsubame, arguments).output().expect("the laboratory")
    }

    fn command(&self, tsubame: Option<&Path>, arguments: &[&str]) -> Command {
        let own = Path::new(LAB).with_file_name("tsubame");
        assert!(own.exists(), "cargo build -p tsubame");
        let mut command = Command::new(LAB);
        command.args(["switch", "--rounds", "0", "--json", "-f"]).arg(self.path("httpd.conf"));
        command.arg("--tsubame").arg(tsubame.unwrap_or(&own)).args(arguments);
        command.env("TMPDIR", self.path("scratch"));
        command
    }

    /// Runs `switch` on the log, and returns the report.
    fn report(&self, tsubame: Option<&Path>, arguments: &[&str]) -> Value {
        let output = self.switch(tsubame, &[&["--from", "logs"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What is planted: a line of configuration for Tsubame alone, in a `<Location>` of the request's path; the request; and
/// what has to be found.
const PLANTED: [(&str, &str, &str); 26] = [
    ("Require all denied", "GET /denied.txt", "status"),
    ("Redirect 302 /elsewhere", "GET /moved.txt", "status"),
    ("Redirect 302 /two", "GET /one/moves", "location"),
    ("ForceType text/markdown", "GET /type.txt", "content-type"),
    ("DefaultLanguage de", "GET /language.txt", "content-language"),
    ("AddCharset latin1 .txt", "GET /charset.txt", "content-type"),
    ("AddEncoding x-odd .txt", "GET /encoding.txt", "content-encoding"),
    ("SetEnv no-gzip 1", "GET /packed.html|Accept-Encoding: gzip", "content-encoding"),
    ("Header set Cache-Control max-age=1", "GET /cached.txt", "cache-control"),
    ("ExpiresActive On\nExpiresDefault A3600", "GET /expires.txt", "expires"),
    ("Header add Set-Cookie \"a=b; Secure\"", "GET /cookie.txt", "set-cookie"),
    ("FileETag None", "GET /tag.txt", "etag"),
    ("Header unset Last-Modified", "GET /time.txt", "last-modified"),
    ("AuthType Basic\nAuthName x\nAuthUserFile /dev/null\nRequire valid-user", "GET /secret.txt", "status"),
    ("AuthName two", "GET /realm.txt", "www-authenticate"),
    ("Require ip 192.0.2.128/25", "GET /client.txt", "status"),
    ("AllowMethods GET", "OPTIONS /methods.txt", "status"),
    ("MaxRanges none", "GET /range.txt|Range: bytes=0-1", "status"),
    (
        "RequestHeader unset If-Modified-Since",
        "GET /new.txt|If-Modified-Since: Fri, 01 Jan 2021 00:00:00 GMT",
        "status",
    ),
    ("ErrorDocument 404 \"another page\"", "GET /absent.txt", "body"),
    ("IndexOptions FancyIndexing", "GET /listing/", "body"),
    ("DirectoryIndex other.txt", "GET /indexed/", "body"),
    ("SetEnv PLANTED yes", "GET /environment.cgi", "body"),
    ("SetEnv logged planted", "GET /logged.txt", "access log"),
    ("Header set Set-Cookie \"a=b; expires=Sat, 01 Jan 2101 00:00:00 GMT\"", "GET /lasting.txt", "set-cookie"),
    ("Header unset Content-Security-Policy", "GET /policy.txt", "content-security-policy"),
];

/// Planted outside a `<Location>`: whether a connection stays open, and whether a line is logged.
const PLANTED_OUTSIDE: [(&str, &str, &str); 2] = [
    ("SetEnvIf Request_URI ^/closes.txt$ nokeepalive", "GET /closes.txt", "connection"),
    ("SetEnvIf Request_URI ^/unlogged.txt$ unlogged", "GET /unlogged.txt", "access log"),
];

#[test]
fn planted_differences_are_found() {
    let lines = "<Location /one>\n  Redirect 302 /one\n</Location>\n<Location /realm.txt>\n  AuthType Basic\n  AuthName one\n  \
                 AuthUserFile /dev/null\n  Require valid-user\n</Location>\n<Location /lasting.txt>\n  \
                 Header set Set-Cookie \"a=b; expires=Fri, 01 Jan 2100 00:00:00 GMT\"\n</Location>\n<Location /policy.txt>\n  \
                 Header set Content-Security-Policy \"default-src 'none'; script-src 'nonce-%t'\"\n</Location>\n";
    let Some(site) = Site::new("planted", lines) else { return };
    let all = || PLANTED.iter().chain(&PLANTED_OUTSIDE);
    for path in all().filter_map(|(_, request, _)| path_of(request).strip_prefix('/')) {
        match path {
            "absent.txt" | "one/moves" | "listing/" | "indexed/" => {}
            "environment.cgi" => site.write_program(
                "htdocs/environment.cgi",
                "#!/bin/sh\necho Content-Type: text/plain\necho\nenv | grep -v ^UNIQUE | sort\n",
            ),
            _ => site.write(&format!("htdocs/{path}"), &format!("The text of {path}, again and again.\n").repeat(20)),
        }
    }
    let year_2020 = UNIX_EPOCH + Duration::from_secs(1_577_836_800);
    let file = fs::File::options().write(true).open(site.path("htdocs/new.txt"));
    file.and_then(|file| file.set_modified(year_2020)).expect("an old file");
    site.write("htdocs/indexed/index.html", "one");
    site.write("htdocs/indexed/other.txt", "two");
    site.write("htdocs/listing/file.txt", "three");
    let requests: Vec<&str> = all().map(|(_, request, _)| *request).chain(["GET /same.txt"]).collect();
    site.write("htdocs/same.txt", "the same");
    site.log(&requests);

    // Without anything planted, nothing is found.
    let clean = site.report(None, &["--scripts"]);
    assert_eq!(clean["findings"], Value::Array(Vec::new()), "{clean:#}");
    assert_eq!(clean["asked"]["requests"], requests.len(), "{clean:#}");

    let section =
        |(line, request, _): &(&str, &str, &str)| format!("<Location {}>\n{line}\n</Location>\n", path_of(request));
    let sections: String = PLANTED.iter().map(section).collect();
    let outside: String = PLANTED_OUTSIDE.iter().map(|(line, ..)| format!("{line}\n")).collect();
    site.write("planted.conf", &(sections + &outside));
    let own = Path::new(LAB).with_file_name("tsubame");
    let planted = site.path("planted.conf");
    site.write_program(
        "tsubame",
        &format!("#!/bin/sh\nexec {} \"$@\" -c 'Include {}'\n", own.display(), planted.display()),
    );
    let report = site.report(Some(&site.path("tsubame")), &["--scripts"]);
    let findings = report["findings"].as_array().expect("findings");
    for (line, request, what) in all() {
        let path = format!("http://www.example.org{}", path_of(request));
        let is_found = findings.iter().any(|finding| {
            let is_here = finding["requests"].as_array().is_some_and(|all| {
                all.iter().any(|one| {
                    one.as_str().is_some_and(|one| one.split(" (").next().is_some_and(|one| one.ends_with(&path)))
                })
            });
            let differences = finding["differences"].as_array();
            is_here
                && finding["meant"].is_null()
                && differences.is_some_and(|all| all.iter().any(|one| one[0] == *what))
        });
        assert!(is_found, "{line}: {request}: {what} is not found in {findings:#?}");
    }
    let told = format!("{report}");
    assert!(!told.contains("/same.txt"), "{report:#}");
    // The lines that only Tsubame reads are told, too.
    assert!(report["misread"].as_array().is_some_and(|misread| misread.len() >= PLANTED.len()), "{report:#}");
}

fn path_of(request: &str) -> &str {
    request.split('|').next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default()
}

#[test]
fn hostile_logs_do_no_harm_and_nothing_is_left() {
    // Whatever starts programs by itself, too: a map, pages with includes, an error document that is a script.
    let lines = "RewriteEngine On\nRewriteMap map prg:ROOT/map.sh\nErrorDocument 400 /effect.cgi\n\
                 AddOutputFilter INCLUDES .shtml\nAddType text/html .cgi\n<Directory ROOT/htdocs>\n  Options +Includes\n</Directory>\n";
    let Some(site) = Site::new("hostile", lines) else { return };
    site.write("htdocs/here.txt", "here");
    let effect = format!("#!/bin/sh\necho >> {}\necho\n", site.path("outside/effect").display());
    site.write_program("htdocs/effect.cgi", &effect);
    site.write_program("map.sh", &effect);
    site.write("htdocs/listing/.htaccess", "HeaderName /effect.cgi\n");
    site.write(
        "htdocs/page.shtml",
        &format!("<!--#exec cmd=\"echo >> {}\" -->", site.path("outside/effect").display()),
    );
    fs::set_permissions(site.path("outside"), fs::Permissions::from_mode(0o777)).expect("a directory for everybody");
    site.log(&[
        "GET /here.txt",
        "GET /page.shtml",
        "GET /%zz",
        "DELETE /here.txt",
        "PUT /new.txt",
        "POST /effect.cgi",
        "GET /effect.cgi",
        "GET /listing/",
        "GET /here.txt?a\\r\\n\\r\\nDELETE /here.txt HTTP/1.1\\r\\nHost: x",
        "\\x16\\x03\\x01\\x02",
        "CONNECT example.org:443",
        "GET /\\xff\\xfe",
        "GET /here.txt|Range: bytes=0-1\\r\\nX: y",
    ]);
    let mut log = fs::read(site.path("logs/access.log")).expect("the log");
    log.extend(vec![b'A'; 3 << 20]);
    log.extend(b"\n\0\x01\x02\xff\xfe binary\n\"\"\"\"\n\\\\\\\n");
    fs::write(site.path("logs/access.log"), &log).expect("the log");

    let report = site.report(None, &[]);
    assert_eq!(report["findings"], Value::Array(Vec::new()), "{report:#}");
    assert_eq!(report["asked"]["requests"], 2, "only what is safe is asked: {report:#}");
    let reasons: Vec<&String> = report["not_asked"].as_object().expect("reasons").keys().collect();
    for reason in ["--unsafe", "--scripts", "no requests", "tunnel"] {
        assert!(reasons.iter().any(|one| one.contains(reason)), "{reason} is not in {reasons:?}");
    }
    assert!(site.path("htdocs/here.txt").exists() && !site.path("htdocs/new.txt").exists());
    let left = |name: &str| {
        fs::read_dir(site.path(name)).expect("a directory").flatten().map(|entry| entry.path()).collect::<Vec<_>>()
    };
    assert_eq!(left("outside"), Vec::<PathBuf>::new(), "everything that is written is redirected");
    assert_eq!(left("scratch"), Vec::<PathBuf>::new(), "nothing is left");
    assert_eq!(fs::read(site.path("logs/access.log")).expect("the log"), log, "the log is as before");
}

#[test]
fn what_scripts_and_methods_change_is_a_copy() {
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) != 0) {
        eprintln!("only root can make copies");
        return;
    }
    let Some(site) = Site::new("copies", "") else { return };
    let effect = site.path("outside/effect");
    site.write_program(
        "htdocs/effect.cgi",
        &format!("#!/bin/sh\necho x >> {0}\necho\nwc -l < {0}\n", effect.display()),
    );
    fs::set_permissions(site.path("outside"), fs::Permissions::from_mode(0o777)).expect("a directory for everybody");
    site.log(&["GET /effect.cgi", "POST /effect.cgi", "DELETE /effect.cgi"]);
    let report = site.report(None, &["--scripts", "--unsafe"]);
    assert_eq!(report["asked"]["requests"], 3, "{report:#}");
    assert_eq!(report["findings"], Value::Array(Vec::new()), "{report:#}");
    assert!(!effect.exists(), "a script has written where it is");
    let report = site.report(None, &["--scripts", "--in-place"]);
    assert_eq!(report["asked"]["requests"], 1, "{report:#}");
    assert!(effect.exists(), "the script writes where it is told to");
}

#[test]
fn an_interrupt_ends_the_replay_and_leaves_nothing() {
    let Some(site) = Site::new("interrupted", "") else { return };
    site.write("htdocs/here.txt", "here");
    site.log(&["GET /here.txt", "GET /here.txt"]);
    let log = fs::read_to_string(site.path("logs/access.log")).expect("the log");
    // The second line comes an hour later.
    let line = log.lines().next().unwrap_or_default();
    site.write("logs/access.log", &format!("{line}\n{}\n", line.replace(":18:00:00", ":19:00:00")));
    let mut command = site.command(None, &["--from", "logs", "--speed", "1"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the laboratory");
    let said = BufReader::new(child.stderr.take().expect("messages"));
    let asks = said.lines().map_while(Result::ok).find(|line| line.contains("asking 2 requests"));
    assert!(asks.is_some(), "it does not begin");
    writes_where_nobody_else_does(&site.path("scratch"));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill").success());
    assert_eq!(child.wait().expect("its end").code(), Some(1));
    let left = fs::read_dir(site.path("scratch")).expect("a directory").flatten().map(|entry| entry.path());
    assert_eq!(left.collect::<Vec<_>>(), Vec::<PathBuf>::new(), "nothing is left");
    let processes = fs::read_dir("/proc").expect("/proc").flatten().map(|process| process.path());
    let works_here = |path: &PathBuf| fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&site.0));
    assert_eq!(processes.filter(works_here).collect::<Vec<_>>(), Vec::<PathBuf>::new(), "no server is left");
}

#[test]
fn an_interrupt_does_not_wait_for_answers() {
    let Some(site) = Site::new("patient", "") else { return };
    let asked = site.path("outside/asked");
    assert!(Command::new("mkfifo").args(["-m", "666"]).arg(&asked).status().expect("mkfifo").success());
    fs::set_permissions(site.path("outside"), fs::Permissions::from_mode(0o777)).expect("a directory for everybody");
    site.write_program("htdocs/hangs.cgi", &format!("#!/bin/sh\necho > {}\nexec sleep 300\n", asked.display()));
    site.log(&["GET /hangs.cgi"]);
    let mut command = site.command(None, &["--from", "logs", "--scripts", "--in-place", "--timeout", "300"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the laboratory");
    // Whoever reads a pipe waits until the script writes.
    assert_eq!(fs::read(&asked).expect("the script's word"), b"\n");
    let began = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill").success());
    assert_eq!(child.wait().expect("its end").code(), Some(1));
    assert!(began.elapsed() < Duration::from_secs(100), "it waits for {:?}", began.elapsed());
}

/// What the servers write as root is where nobody else can put a link, and their configuration is nobody else's.
fn writes_where_nobody_else_does(scratch: &Path) {
    use std::os::unix::fs::MetadataExt as _;
    let run = fs::read_dir(scratch).expect("a directory").flatten().next().expect("the run's directory").path();
    let own = fs::metadata("/proc/self").expect("this process").uid();
    for server in ["apache", "tsubame", "apache-twin"] {
        let meta = |name: &str| fs::metadata(run.join(server).join(name)).expect(name);
        for name in ["", "logs", "run"] {
            assert_eq!(meta(name).uid(), own, "{server}/{name}");
        }
        assert_eq!(meta("").mode() & 0o7, 0, "{server}");
        assert_eq!(meta("httpd.conf").mode() & 0o77, 0, "{server}");
    }
}

#[test]
fn long_files_and_pages_in_other_encodings_are_alike() {
    use std::os::unix::ffi::OsStrExt as _;
    let Some(site) = Site::new("alike", "ServerSignature On\n") else { return };
    let long = fs::File::create(site.path("htdocs/long.bin")).expect("a file");
    long.set_len(80 << 20).expect("a long file");
    fs::write(site.path("htdocs/listing").join(std::ffi::OsStr::from_bytes(b"caf\xe9.txt")), "x").expect("a file");
    site.log(&["GET /long.bin", "GET /listing/"]);
    let report = site.report(None, &[]);
    assert_eq!(report["findings"], Value::Array(Vec::new()), "{report:#}");
    assert_eq!(report["same"]["requests"], 2, "{report:#}");
}

#[test]
fn a_log_that_cannot_be_compared_is_told() {
    let Some(site) = Site::new("unread", "RequestHeader unset X-Tsubame-Switch-Number\n") else { return };
    site.write("htdocs/here.txt", "here");
    site.log(&["GET /here.txt"]);
    let report = site.report(None, &[]);
    let notes = report["notes"].as_array().expect("notes");
    let is_told = |note: &Value| note.as_str().is_some_and(|note| note.contains("this log is not compared"));
    assert!(notes.iter().any(is_told), "{report:#}");
}

#[test]
fn a_relative_file_has_its_variables() {
    let Some(site) = Site::new("relative", "Header set X-Name ${SWITCH_NAME}\n") else { return };
    site.write("envvars", "export SWITCH_NAME=x\n");
    site.write("htdocs/here.txt", "here");
    site.log(&["GET /here.txt"]);
    let own = Path::new(LAB).with_file_name("tsubame");
    let mut command = Command::new(LAB);
    command.args(["switch", "--rounds", "0", "--from", "logs", "-f", "httpd.conf", "--tsubame"]).arg(own);
    let output = command.current_dir(&site.0).env("TMPDIR", site.path("scratch")).output().expect("the laboratory");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
}

#[test]
fn what_fails_is_reported() {
    let Some(site) = Site::new("failing", "Nonsense\n") else { return };
    let output = site.switch(None, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("Invalid command 'Nonsense'") && said.contains("apache2 refuses"), "{said}");
}

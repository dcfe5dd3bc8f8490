//! Programs as maps, maps that change or cannot be read, and what explains and logs say of rules.

use std::os::unix::fs::PermissionsExt;

use crate::cli::explain::explain;
use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::oracle::{Case, both, compare};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;

/// A program that says `KEY is its number`, `NULL` for `none`, and ends without an answer for `end`; each key it gets is a line
/// of a file.
const PROGRAM: &str = "#!/bin/sh\nn=0\nwhile read -r key; do\nn=$((n + 1))\ncase $key in\nend) exit 1;;\nhang) sleep 1000;;\n\
    none) echo NULL;;\n*) echo \"$key.$n\";;\nesac\ndone\n";

const CONFIGURATION: &str =
    "RewriteEngine On\nRewriteMap p \"prg:${ROOT}/map.sh a b\"\nRewriteRule ^/p/(.*)$ /${p:$1|dflt} [R,L]\n";

fn site() -> Site {
    let site = Site::with([("a.html", "a\n")]);
    let path = site.file("map.sh", PROGRAM);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("mode");
    site
}

fn location(server: &Server<'_>, path: &str) -> (u16, String) {
    let response = server.get(path);
    let location = response.field("Location").unwrap_or_default();
    (response.status, location.rsplit('/').next().unwrap_or_default().to_string())
}

under_percore_and! { event:
fn a_program_that_ends_is_started_again(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        assert_eq!(location(&server, "/p/key"), (302, "key.1".into()));
        server.allow("the program of RewriteMap p has not answered");
        server.allow("has ended; starting it again");
        assert_eq!(server.get("/p/end").status, 500, "nobody knows what it would have said");
        assert_eq!(location(&server, "/p/key"), (302, "key.1".into()), "another program has begun");
        server.logged("the program of RewriteMap p has not answered, so the line at ");
}

fn a_map_that_changes_is_read_again(mpm: Mpm) {
        let site = Site::with([("a.html", "a\n")]);
        site.file("map.txt", "k one\n");
        let configuration = "RewriteEngine On\nRewriteMap t txt:${ROOT}/map.txt\nRewriteRule ^/t$ /${t:k|none} [R,L]\n";
        let server = Server::start(mpm, &site, configuration);
        assert_eq!(location(&server, "/t"), (302, "one".into()));
        for value in ["two", "six"] {
            site.file("map.txt", format!("k {value}\n"));
            assert_eq!(location(&server, "/t"), (302, value.to_string()));
        }
        std::fs::remove_file(site.root.join("map.txt")).expect("remove");
        server.allow("AH00661");
        assert_eq!(server.get("/t").status, 500, "nobody knows what it would say");
        server.logged("AH00661: mod_rewrite: can't access text RewriteMap file");
}
}

under_percore_and! {
    event:

fn a_program_is_asked_by_all_children(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        for number in 1..=20 {
            assert_eq!(location(&server, "/p/key"), (302, format!("key.{number}")), "one program counts");
        }
        assert_eq!(location(&server, "/p/none"), (302, "dflt".into()));
}

fn a_program_that_hangs_holds_up_nobody_else(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, &format!("Timeout 2\n{CONFIGURATION}"));
        server.allow("the program of RewriteMap p has not answered");
        let mut waiting = server.client();
        waiting.send("GET /p/hang HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(server.get("/a.html").status, 200);
        assert_eq!(waiting.response().status, 500);
        until("another program", || (location(&server, "/p/key") == (302, "key.1".into())).then_some(()));
}
}

#[test]
fn a_program_as_under_apache() {
    let build = |site: &Site| {
        let path = site.file("map.sh", PROGRAM);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("mode");
    };
    let requests = ["GET /p/x", "GET /p/y", "GET /p/none", "GET /p/a%20b", "GET /p/a%0ab", "GET /p/"];
    let cases: Vec<Case> = requests.iter().map(|request| Case::of(request)).collect();
    compare("a_program_as_under_apache", build, CONFIGURATION, &cases, &[]);
}

/// Files of each type, as Apache's own tool makes them.
#[test]
fn dbm_files_as_under_apache() {
    if !needs::APACHE.is_there("dbm_files_as_under_apache") {
        return;
    }
    const TYPES: [&str; 4] = ["default", "sdbm", "gdbm", "db"];
    let build = |site: &Site| {
        let text = site.file("map.txt", format!("a one\nb x|y\n# c d\ne val more\nlong {}\n", "v".repeat(300)));
        for kind in TYPES {
            let file = site.root.join(kind);
            let tool = std::process::Command::new("httxt2dbm")
                .args(["-f", kind, "-i"])
                .arg(&text)
                .arg("-o")
                .arg(&file)
                .output();
            assert!(tool.expect("httxt2dbm").status.success(), "{kind}");
            for suffix in ["", ".pag", ".dir"] {
                let path = site.root.join(format!("{kind}{suffix}"));
                if path.exists() {
                    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).expect("mode");
                }
            }
        }
    };
    let mut lines = String::from(
        "RewriteEngine On\nRewriteMap plain dbm:${ROOT}/default\nRewriteRule ^/plain/(.*)$ /${plain:$1|dflt} [R,L]\n",
    );
    let mut requests = vec!["GET /plain/a".to_string(), "GET /plain/none".into()];
    for kind in TYPES {
        lines += &format!(
            "RewriteMap {kind} dbm={kind}:${{ROOT}}/{kind}\nRewriteRule ^/{kind}/(.*)$ /${{{kind}:$1|dflt}} [R,L]\n"
        );
        requests.extend(["a", "b", "c", "e", "long", "none", ""].map(|key| format!("GET /{kind}/{key}")));
    }
    let cases: Vec<Case> = requests.iter().map(|request| Case::of(request)).collect();
    compare("dbm_files_as_under_apache", build, &lines, &cases, &[]);
}

under_percore_and! { event:
fn a_dbm_file_that_is_gone(mpm: Mpm) {
        if !needs::APACHE.is_there("a_dbm_file_that_is_gone") {
            return;
        }
        let site = Site::with([("a.html", "a\n")]);
        let text = site.file("map.txt", "k one\n");
        let file = site.root.join("map");
        let tool = std::process::Command::new("httxt2dbm").arg("-i").arg(text).arg("-o").arg(&file).output();
        assert!(tool.expect("httxt2dbm").status.success());
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("mode");
        let lines = "RewriteEngine On\nRewriteMap t dbm:${ROOT}/map\nRewriteRule ^/t$ /${t:k|none} [R,L]\n";
        let server = Server::start(mpm, &site, lines);
        assert_eq!(location(&server, "/t"), (302, "one".into()));
        server.allow("AH00656: mod_rewrite: can't open DBM RewriteMap");
        server.allow("AH00662: mod_rewrite: can't access DBM RewriteMap file");
        std::fs::write(&file, "this is none").expect("file");
        assert_eq!(server.get("/t").status, 500, "nobody knows what it would say");
        std::fs::remove_file(file).expect("remove");
        assert_eq!(server.get("/t").status, 500);
        server.logged("so the line at ");
}
}

#[test]
fn undecidable_rules_are_refused() {
    let site = Site::with([("a.html", "a\n")]);
    let configuration = "RewriteEngine On\nRewriteCond %{HTTP:X-A} ^(a+)+\\1d\nRewriteRule ^/re$ /a.html\n\
        RewriteCond expr \"file('/none') == ''\"\nRewriteRule ^/expr$ /a.html\n";
    let server = Server::start(Mpm::Event, &site, configuration);
    server.allow_everything("each undecided rule is logged");
    let hostile = format!("GET /re HTTP/1.1\r\nHost: localhost\r\nX-A: {}cd\r\n\r\n", "a".repeat(2000));
    assert_eq!(server.client().request(hostile).status, 500);
    assert_eq!(server.get("/expr").status, 500);
    assert_eq!(server.get("/a.html").status, 200);
}

/// A look-up that ends with a status has one, also with 500; one in which something cannot be decided has none.
#[test]
fn a_look_up_that_cannot_be_decided_decides_nothing() {
    let site = Site::with([("a.html", "a\n")]);
    let configuration = "RewriteEngine On\nRewriteMap none txt:${ROOT}/map\nRewriteRule ^/unknown ${none:x}\n\
        RewriteCond /unknown !-U\nRewriteRule ^/rule$ /a.html\nRewriteCond expr \"! -U '/unknown'\"\nRewriteRule ^/expr$ /a.html\n\
        <Location /if>\n<If \"! -U '/unknown'\">\nRequire all granted\n</If>\n</Location>\n\
        <Location /require>\nRequire expr ! -U '/unknown'\n</Location>\n";
    site.file("map", "k v\n");
    let server = Server::start(Mpm::Event, &site, configuration);
    server.allow_everything("each undecided rule is logged");
    std::fs::remove_file(site.root.join("map")).expect("remove");
    for path in ["/rule", "/expr", "/if", "/require"] {
        assert_eq!(server.get(path).status, 500, "{path}");
    }
    assert_eq!(server.get("/a.html").status, 200);
}

#[test]
fn loops_end_with_apaches_messages() {
    let build = |site: &Site| {
        site.page("l/.htaccess", "RewriteEngine On\nRewriteRule ^(.*)$ x$1\n");
    };
    let configuration =
        "RewriteEngine On\nRewriteRule ^/n(.*)$ /n$1 [N=7]\n<Directory ${DOCS}>\nAllowOverride All\n</Directory>";
    both("loops_end_with_apaches_messages", build, configuration, |site: &Site| {
        let mut client = Client::connect(site.address());
        for path in ["/n", "/l/y"] {
            assert_eq!(client.get(path).status, 500, "{path}");
            client = Client::connect(site.address());
        }
        let log = site.read("logs/error_log");
        assert!(
            log.contains(
                "AH02596: RewriteRule '^/n(.*)$' and URI '/n' exceeded maximum number of rounds (7) via the [N] flag"
            ) && log.contains("AH00124: Request exceeded the limit of 10 internal redirects"),
            "{log}"
        );
    });
}

/// The lines of `LogLevel rewrite:trace8` about a request, without what differs from one process to the next.
fn traced(site: &Site) -> Vec<String> {
    let log = site.read("logs/error_log");
    let lines = log.lines().filter_map(|line| {
        let (head, text) = line.split_once("][rid#")?;
        let level = head.split("[rewrite:").nth(1)?.split(']').next()?;
        let (rid, text) = text.split_once('/')?;
        let text = text.replace(site.path(), "ROOT").replace(&site.ip.to_string(), "ADDR").replace('\\', "");
        (rid.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| format!("{level} {text}"))
    });
    lines.collect()
}

#[test]
fn traces_are_apaches_lines() {
    if !needs::APACHE.is_there("traces_are_apaches_lines") {
        return;
    }
    let configuration = "LogLevel rewrite:trace8\nRewriteEngine On\nRewriteRule ^/srv$ /a.html [E=A:b]\nRewriteRule ^/r/(.*)$ /$1?x y [R,B]\n\
        RewriteRule ^/r/(.*)$ \"/$1?x y\" [R=301,B,L]\nRewriteRule ^/pt$ /d/ [PT]\nRewriteRule ^/end$ /d/x [END]\nRewriteRule ^/rel$ a.html?q [QSA]\n\
        RewriteCond %{HTTP_HOST} =LOCALHOST [NC]\nRewriteCond %{LA-U:REQUEST_FILENAME} -f\nRewriteRule ^/a - [T=text/plain]\n\
        <Directory ${DOCS}>\nAllowOverride All\n</Directory>";
    let configuration = configuration.replace("RewriteRule ^/r/(.*)$ /$1?x y [R,B]\n", "");
    let rules = "RewriteEngine On\nRewriteBase /d\nRewriteRule ^x$ a.html [L]\nRewriteRule ^y/?(.*)$ /a.html?$1 [QSD]\nRewriteRule ^f$ - [F]\n\
        RewriteRule ^s(ame)$ same\nRewriteRule ^loc$ a.html [R]\n";
    let build = |site: &Site| {
        site.page("a.html", "a\n");
        site.page("d/a.html", "a\n");
        site.page("d/.htaccess", rules);
    };
    let requests =
        ["/srv", "/r/a%20b", "/pt", "/end", "/rel?z", "/a.html", "/d/x", "/d/y/z?q", "/d/f", "/d/same", "/d/loc"];
    let answers = |site: &Site| {
        for path in requests {
            Client::connect(site.address()).get(path);
        }
        until("all lines", || {
            site.read("logs/error_log").contains("redirect to http://localhost/d/a.html").then_some(())
        });
        traced(site)
    };
    let theirs = {
        let site = Site::new();
        build(&site);
        let _apache = crate::harness::oracle::Apache::start(&site, &configuration);
        answers(&site)
    };
    let site = Site::new();
    build(&site);
    let server = Server::start(Mpm::Event, &site, &configuration);
    server.allow_everything("the test itself compares the log");
    let ours = answers(&site);
    assert!(theirs.len() > 100, "{theirs:#?}");
    for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours, theirs, "line {number}");
    }
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn explain_shows_each_rule() {
    let site = Site::with([("index.php", "x"), ("a.html", "a")]);
    site.page(
        ".htaccess",
        "RewriteEngine On\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n",
    );
    let configuration =
        "RewriteEngine On\nRewriteRule ^/old/(.*)$ /new/$1\n<Directory ${DOCS}>\nAllowOverride All\n</Directory>";
    site.configure(Mpm::Event, configuration);
    let (text, errors, status) = explain(&site, &["--all", "/old/x"]);
    assert_eq!((errors.as_str(), status), ("", Some(0)));
    let parts = [
        "RewriteRule ^/old/(.*)$: '/old/x' becomes '/new/x'",
        "RewriteRule ^index\\.php$: 'new/x' does not match",
        "!-f holds, for RewriteRule .",
        "RewriteRule .: 'new/x' becomes '/index.php'",
        "the request starts again with /index.php",
        "RewriteRule ^index\\.php$: 'index.php' matches, and stays as it is",
    ];
    let mut rest = text.as_str();
    for part in parts {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part:?} is missing, or not in order:\n{text}")).1;
    }
    let (text, ..) = explain(&site, &["--all", "/a.html"]);
    assert!(
        text.contains("!-f does not hold") && text.contains("'a.html' matches, but a condition does not hold"),
        "{text}"
    );
}

/// A large file is read once, however many wait for its first answer or change, and held in little more memory than it has.
#[test]
fn a_large_file_is_read_once() {
    const LINES: usize = 200_000;

    let site = Site::new();
    let text: String = (0..LINES).map(|number| format!("key{number} value-{number}\n")).collect();
    site.file("conf/map", &text);
    let lines = "RewriteEngine On\nRewriteMap m txt:${ROOT}/conf/map\nRewriteRule ^/m/(.*)$ http://h.example/${m:$1|none} [R,L]";
    let server = Server::start(Mpm::Percore, &site, lines);
    let held = || -> u64 {
        let of = |child: &i32| sys::process::Pid::new(*child).and_then(|pid| sys::process::anonymous_memory(pid).ok());
        server.children().iter().filter_map(of).sum()
    };
    let before = held();
    let ask_all = |added: usize| {
        std::thread::scope(|scope| {
            for client in 0..16 {
                let address = server.address();
                scope.spawn(move || {
                    let number = client * (LINES / 16) + added;
                    let found = Client::connect(address).get(&format!("/m/key{number}"));
                    assert_eq!(found.field("Location"), Some(&*format!("http://h.example/value-{number}")));
                });
            }
        });
    };
    ask_all(0);
    assert_eq!(server.get("/m/absent").field("Location"), Some("http://h.example/none"));
    site.file("conf/map", format!("{text}late x\n"));
    assert_eq!(server.get("/m/late").field("Location"), Some("http://h.example/x"));
    ask_all(1);
    let children = server.children().len() as u64;
    let grown = held().saturating_sub(before) / children;
    // Each child may hold the file and its index twice while the file changes.
    assert!(grown < 4 * text.len() as u64 + (4 << 20), "{grown} bytes for a file of {}", text.len());
}

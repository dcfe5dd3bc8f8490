//! mod_ssl's configuration is Apache's, and a server that cannot speak TLS as it says does not start.

use std::path::Path;

use sys::signal::Signal;

use crate::cli::ctl::ctl;
use crate::harness::beside::{Call, compare, modules};
use crate::harness::mpm::under_percore_and;
use crate::harness::oracle::{self, both};
use crate::harness::server::{Server, Start};
use crate::harness::site::Site;
use crate::harness::wire::Client;
use crate::mpm::control::said;

/// A place with files for certificates to be looked for.
fn site(text: &str) -> Site {
    let site = Site::new();
    site.file("full", "not looked into\n");
    site.file("empty", "");
    std::fs::create_dir(site.root.join("d")).expect("directory");
    std::os::unix::fs::symlink("full", site.root.join("link")).expect("link");
    let wanted = modules(&["mpm_event", "authz_core", "env", "socache_shmcb", "ssl"]);
    site.file(
        "conf/httpd.conf",
        format!("ServerName localhost\nDefaultRuntimeDir run\nPidFile logs/pid\n{wanted}{text}\nListen 127.0.0.1:9\n"),
    );
    site
}

/// Compares the messages of `-t` and `-S` for each text: `-S` does not look for files.
fn compare_lines(lines: &[String]) {
    let cases: Vec<(&String, &str)> = lines.iter().flat_map(|line| [(line, "-t"), (line, "-S")]).collect();
    compare(&cases, |(line, argument)| {
        let site = site(line);
        let call = Call { site: &site, arguments: &[argument], user: None };
        let [ours, theirs] = call.both(Path::new(env!("CARGO_BIN_EXE_tsubame")));
        // That it will not start Apache says when it starts.
        let is_told_earlier =
            ["AH02572", "AH02231"].iter().any(|number| ours.1.contains(number)) && theirs.1.trim() == "Syntax OK";
        let ours = if is_told_earlier { theirs.clone() } else { ours };
        (format!("{argument} on\n{line}"), [ours, theirs])
    });
}

#[test]
fn values_are_checked_as_by_apache() {
    if oracle::is_there("values_are_checked_as_by_apache") {
        let lines = include_str!("../listing/ssl_lines.txt").lines().filter(|line| !line.starts_with('#'));
        compare_lines(&lines.map(|line| line.replace("\\n", "\n")).collect::<Vec<_>>());
    }
}

/// Each directive of the table with none to four words, outside sections and inside.
#[test]
fn every_directive_takes_what_it_takes_in_apache() {
    if !oracle::is_there("every_directive_takes_what_it_takes_in_apache") {
        return;
    }
    let infos = crate::config::tables::infos();
    let info = infos.iter().find(|info| info.id == "ssl_module").expect("mod_ssl");
    let words = ["", " 1", " 1 2", " 1 2 3", " 1 2 3 4"];
    let lines = info.directives.iter().flat_map(|row| words.map(|words| format!("{}{words}", row.name)));
    let inside = info.directives.iter().map(|row| format!("<Directory />\n{} 1\n</Directory>", row.name));
    let cases: Vec<String> = lines.chain(inside).collect();
    compare(&cases, |line| {
        let site = site(line);
        let call = Call { site: &site, arguments: &["-t"], user: None };
        (line.clone(), call.both(Path::new(env!("CARGO_BIN_EXE_tsubame"))))
    });
}

/// Without the module that keeps sessions there are no names to choose from.
#[test]
fn caches_have_names() {
    if oracle::is_there("caches_have_names") {
        let site = site("SSLSessionCache shmcb:logs/x(512000)");
        let text = site.read("conf/httpd.conf");
        let without: String =
            text.lines().filter(|line| !line.contains("shmcb_module")).map(|line| format!("{line}\n")).collect();
        site.file("conf/httpd.conf", without);
        let [ours, theirs] =
            Call { site: &site, arguments: &["-t"], user: None }.both(Path::new(env!("CARGO_BIN_EXE_tsubame")));
        assert_eq!(ours, theirs);
        assert!(ours.1.contains("(known names: )"), "{}", ours.1);
    }
}

/// Checks and log values for connections that are not encrypted.
#[test]
fn plain_connections_are_treated_as_by_apache() {
    let build = |site: &Site| {
        for name in ["plain/f", "ssl/f", "require/f", "verify/f", "authz/f", "expr/f"] {
            site.page(name, "f\n");
        }
        site.page("file/f", "f\n");
        site.page("file/.htaccess", "SSLRequireSSL\n");
    };
    let configuration = "<IfModule !ssl_module>\nLoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so\n</IfModule>\n\
        <Directory ${DOCS}/ssl>\nSSLRequireSSL\n</Directory>\n<Directory ${DOCS}/require>\nSSLRequire false\n\
        </Directory>\n<Directory ${DOCS}/verify>\nSSLVerifyClient require\n</Directory>\n<Directory ${DOCS}/authz>\nRequire ssl\n\
        </Directory>\n<Directory ${DOCS}/expr>\nRequire expr \"%{SSL_PROTOCOL} == ''\"\n</Directory>\n\
        <Directory ${DOCS}/file>\nAllowOverride AuthConfig\n</Directory>\n\
        LogFormat \"%U %{SSL_PROTOCOL}x %{HTTPS}x %{REQUEST_METHOD}x %{no such}x %{version}c\" t\nCustomLog logs/t t\n";
    both("plain_connections_are_treated_as_by_apache", build, configuration, |site| {
        let expected = [
            ("plain", 200),
            ("ssl", 403),
            ("require", 200),
            ("verify", 200),
            ("authz", 403),
            ("expr", 200),
            ("file", 403),
        ];
        for (name, status) in expected {
            let response = Client::connect(site.address()).get(&format!("/{name}/f"));
            assert_eq!(response.status, status, "{name}");
        }
        let logged = || Some(site.read("logs/t")).filter(|text| text.lines().count() == expected.len());
        let text = crate::harness::wait::until("the access log", logged);
        // The serving process is random, and so is the order.
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let mut wanted = expected.map(|(name, _)| format!("/{name}/f - off GET - -"));
        wanted.sort_unstable();
        assert_eq!(lines, wanted);
        let errors = site.read("logs/error_log");
        let denied = format!("AH02219: access to {}/htdocs/ssl/f failed, reason: SSL connection required", site.path());
        assert!(errors.contains(&denied), "{errors}");
    });
}

const TLS: &str = "<VirtualHost *:8443>\nSSLEngine on\n</VirtualHost>";

under_percore_and! { prefork:
    /// Neither from the command line nor as a new configuration of a running server.
    fn unsupported_lines_are_refused(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        let refused = |place: &str, port| {
            format!("AH02572: Failed to configure at least one certificate and key for {port} (SSLEngine on at {place})")
        };
        let at = refused(&format!("{}/conf/httpd.conf:3", site.path()), "localhost:8443");
        let run = |arguments: &[&str]| said(&Start::new(&site, mpm).arguments(arguments).command().output().expect("run"));
        site.configure(mpm, TLS);
        assert_eq!(run(&["-t"]), (String::new(), format!("{at}\n"), Some(1)), "-t says what will not start");
        assert_eq!(run(&["-S"]).2, Some(0), "what is only looked at may be anything");
        assert_eq!(run(&["-DFOREGROUND"]), (String::new(), format!("{at}\n"), Some(1)));
        assert_eq!(run(&["-k", "start"]), (String::new(), format!("{at}\n"), Some(1)));
        let server = Server::start(mpm, &site, "");
        server.announce(&at);
        server.announce("the new configuration is not used: the server goes on with the old one");
        site.configure(mpm, TLS);
        for argument in ["restart", "graceful", "upgrade"] {
            assert_eq!(run(&["-k", argument]), (String::new(), format!("{at}\n"), Some(1)), "{argument}");
        }
        for command in ["restart", "graceful"] {
            let (output, errors, status) = ctl(&site, &[command]);
            assert!(errors.contains(&at), "{command}: {errors}");
            assert_eq!((output.as_str(), status), ("", Some(1)), "{command}");
        }
        assert!(!server.log().contains(&at), "nothing was sent");
        for (count, signal) in [(1, Signal::HUP), (2, Signal::USR1)] {
            server.signal(signal);
            let told = || (server.log().matches(&at).count() == count).then_some(());
            crate::harness::wait::until("the error log", told);
            assert_eq!(server.get("/").text(), "hello\n");
        }
        // The main server's switch is everybody's.
        site.configure(mpm, "SSLEngine on");
        let main = refused(&format!("{}/conf/httpd.conf:2", site.path()), "localhost:443");
        assert_eq!(run(&["-k", "graceful"]), (String::new(), format!("{main}\n"), Some(1)));
    }
}

//! Applications of PSGI: with Plack in mod_perl's way, and without it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use sys::process::Pid;

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs::PLACK;
use crate::harness::server::Server;
use crate::harness::site::{PORT, Site};
use crate::harness::wait::until;
use crate::harness::wire::get;

const WORK: &str = include_str!("psgi_applications/work.psgi");

/// Plack's own suite for servers, in both ways to run an application.
#[test]
fn placks_suite_passes() {
    if !PLACK.is_there("placks_suite_passes") {
        return;
    }
    let plain = "AliasMatch \"^/(.*)\" \"${ROOT}/apps/suite.psgi/$1\"\n\
        <Files suite.psgi>\nSetHandler psgi-script\nOptions +ExecCGI\n</Files>\n";
    let plack = "<Location />\nSetHandler perl-script\nPerlResponseHandler Plack::Handler::Apache2\n\
        PerlSetVar psgi_app ${ROOT}/apps/suite.psgi\n</Location>\n";
    for (mpm, lines) in [(Mpm::Percore, plain), (Mpm::Prefork, plack)] {
        let site = Site::new();
        site.file("apps/suite.psgi", "use Plack::Test::Suite;\nPlack::Test::Suite->test_app_handler;\n");
        let client = site.file("suite.pl", include_str!("psgi_applications/suite.pl"));
        let text = format!(
            "LoadModule perl_module modules/mod_perl.so\nServerName 127.0.0.1:{PORT}\nUseCanonicalName On\n<Directory ${{ROOT}}/apps>\nRequire all granted\n\
             CGIPassAuth On\n</Directory>\n{lines}"
        );
        let server = Server::start(mpm, &site, &text);
        server.allow("Throwing an exception from app handler");
        let asked =
            Command::new("perl").arg(client).args([site.ip.to_string(), PORT.to_string()]).output().expect("perl");
        let said = String::from_utf8_lossy(&asked.stdout) + String::from_utf8_lossy(&asked.stderr);
        assert!(asked.status.success() && said.matches("\nok ").count() >= 30, "{lines}\n{said}");
    }
}

fn site() -> Site {
    let site = Site::new();
    let script = site.file("apps/work.psgi", WORK);
    // Scripts leave marks beside themselves.
    let directory = script.parent().expect("a directory");
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).expect("mode");
    site.file("apps/big", vec![b'x'; 300_000]);
    site
}

const CONFIGURATION: &str = "LoadModule perl_module modules/mod_perl.so\nPerlInterpMax 1\n\
    Alias /app ${ROOT}/apps/work.psgi\n<Directory ${ROOT}/apps>\nRequire all granted\nOptions +ExecCGI\n\
    <Files *.psgi>\nSetHandler psgi-script\n</Files>\n</Directory>\n";

/// The process that has answered, and its count of requests.
fn counted(server: &Server<'_>) -> (i32, u32) {
    let text = server.get("/app/count").text();
    let numbers = text.split_once(' ').and_then(|(process, count)| Some((process.parse().ok()?, count.parse().ok()?)));
    numbers.unwrap_or_else(|| panic!("{text:?}"))
}

fn is_gone(process: i32) -> bool {
    !Pid::new(process).is_some_and(Pid::exists)
}

fn leave(path: &Path) {
    std::fs::write(path, "").expect("write");
}

under_percore_and! { event:
    /// Responses of all kinds, in pieces when they are made, by an application that needs no Plack.
    fn applications_need_no_plack(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.announce("compiled");
        server.announce("printed");
        let (process, _) = counted(&server);
        assert_eq!(counted(&server), (process, 2), "it is kept");
        let ask = "POST /app//a%2Bb/env?q=%20 HTTP/1.1\r\nHost: localhost\r\nContent-Type: x/y\r\nContent-Length: 3000\r\n\r\n";
        let response = server.client().request(format!("{ask}{}", "b".repeat(3000)));
        assert_eq!(response.text(), "POST\n/app\n//a+b/env\nq=%20\nx/y\n3000\nHTTP/1.1\nhttp\n3000\n");
        assert_eq!(response.all("X-Two"), ["1", "2"]);
        let later = server.get("/app/later");
        assert_eq!((later.status, later.text()), (201, "later".into()));
        let file = server.get("/app/file");
        assert_eq!((file.field("Content-Length"), file.body.len()), (Some("300000"), 300_000));
        assert_eq!(server.get("/app/prints").text(), "clean");
        assert_eq!(server.get("/app/keeps").text(), "mine");
        assert_eq!(server.get("/app/steals").text(), "the response is over\n");
        let mut client = server.client();
        client.send(get("/app/stream"));
        let mut received = String::new();
        while !received.ends_with("first") {
            received.push_str(&String::from_utf8_lossy(&client.bytes(1)));
        }
        leave(&site.root.join("apps/go"));
        while !received.ends_with("second") {
            received.push_str(&String::from_utf8_lossy(&client.bytes(1)));
        }
        assert_eq!(counted(&server).0, process, "the same interpreter all the time");
    }

    /// What goes wrong is logged, and no client takes half a response for a whole one.
    fn failures_of_applications_are_reported(mpm: Mpm) {
        let site = site();
        let script = site.root.join("apps/work.psgi");
        site.file("apps/wrong.psgi", "my $x = ;\n");
        site.file("apps/nothing.psgi", "1;\n");
        let lines = "Alias /wrong ${ROOT}/apps/wrong.psgi\nAlias /nothing ${ROOT}/apps/nothing.psgi\n";
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}{lines}"));
        server.allow_everything("perl's messages have many lines");
        for (path, line) in [
            ("/app/fails", "before the head"),
            ("/app/forgets", "has made no response"),
            ("/app/wide", "characters that are no bytes"),
            ("/app/interim", "no number from 200 to 599"),
            ("/app/broken", "a field cannot be sent: X-A"),
            ("/app/exits", "has made no response"),
            ("/wrong", "syntax error"),
            ("/nothing", "does not end with the code of an application"),
        ] {
            assert_eq!(server.get(path).status, 500, "{path}");
            server.logged(line);
        }
        for (path, line) in [("/app/late", "after the head"), ("/app/open", "has not ended its response")] {
            let mut client = server.client();
            client.send(get(path));
            let (rest, _) = client.rest();
            let text = String::from_utf8_lossy(&rest);
            assert!(text.contains("chunked") && text.contains("first") && !text.ends_with("0\r\n\r\n"), "{text}");
            server.logged(line);
        }
        let (process, _) = counted(&server);
        std::fs::write(&script, WORK.replace("\"$$ \"", "\"7 \"")).expect("write");
        let file = std::fs::File::options().write(true).open(&script).expect("open");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).expect("time");
        assert_eq!(counted(&server), (7, 1), "a changed application begins anew");
        std::fs::write(&script, WORK).expect("write");
        let (other, count) = counted(&server);
        // It is the same process with another program.
        assert_eq!((other, count), (process, 1));
    }

    /// What an application does after its response, nobody waits for; it may be the last that its interpreter does.
    fn applications_clean_up(mpm: Mpm) {
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.announce("compiled");
        assert_eq!(server.get("/app/cleans").text(), "done");
        assert!(!site.root.join("apps/cleaned").exists(), "it waits");
        leave(&site.root.join("apps/go"));
        until("the clean-up", || site.root.join("apps/cleaned").exists().then_some(()));
        let last: i32 = server.get("/app/last").text().parse().expect("a process");
        until("the end of the interpreter", || is_gone(last).then_some(()));
        assert_ne!(counted(&server).0, last);
    }
}

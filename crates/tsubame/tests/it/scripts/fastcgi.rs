//! mod_fastcgi, and applications that authorize.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::fastcgi_programs::{APPLICATION, FILTER};
use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::server::Server;
use crate::harness::wait::until;
use crate::harness::wire::Response;
use crate::scripts::fcgid::{CONFIGURATION as FCGID, post, site, who};
use crate::scripts::fcgid_pools::{applications, asks};

const CONFIGURATION: &str = "LoadModule fastcgi_module modules/mod_fastcgi.so\n<Directory ${DOCS}>\n\
    Options +ExecCGI\nAddHandler fastcgi-script .fcgi\nRequire all granted\n</Directory>\n";

/// Says yes, with a variable and a field, unless the address has another answer in it.
const JUDGE: &str = r#"#!/usr/bin/perl
use FCGI;
my $request = FCGI::Request();
while ($request->Accept() >= 0) {
    if ($ENV{FCGI_ROLE} ne 'AUTHORIZER' || $ENV{SCRIPT_NAME} || $ENV{CONTENT_LENGTH}) { print "Status: 500\n\n" }
    elsif ($ENV{QUERY_STRING} eq 'login') { print "Status: 302\nLocation: /login\n\n" }
    elsif ($ENV{QUERY_STRING} =~ /^(\d+)$/) { print "Status: $1 No\nX-Why: so\n\nno" }
    elsif ($ENV{FCGI_APACHE_ROLE} eq 'AUTHENTICATOR' && "$ENV{REMOTE_USER}:$ENV{REMOTE_PASSWD}" ne 'me:secret') { print "Status: 401\n\n" }
    else { print "Variable-JUDGE: $ENV{FCGI_APACHE_ROLE} $ENV{REMOTE_USER}\nX-Judge: yes\n\nyes" }
}
"#;

/// The configuration of their sections, with the directives of one of the modules.
fn judged(prefix: &str) -> String {
    format!(
        "<Location /access/>\n{prefix}AccessChecker ${{DOCS}}/judge.fcgi\n</Location>\n\
         <Location /weak/>\n{prefix}AccessChecker ${{DOCS}}/judge.fcgi\n{prefix}AccessCheckerAuthoritative Off\n</Location>\n\
         <Location /user/>\nAuthType Basic\nAuthName x\nAuthBasicAuthoritative Off\nAuthUserFile ${{ROOT}}/users\n\
         {prefix}Authenticator ${{DOCS}}/judge.fcgi\nRequire valid-user\n</Location>\n\
         <Location /may/>\nAuthType Basic\nAuthName x\nAuthBasicAuthoritative Off\nAuthUserFile ${{ROOT}}/users\n\
         {prefix}Authenticator ${{DOCS}}/judge.fcgi\n{prefix}Authorizer ${{DOCS}}/judge.fcgi\nRequire valid-user\n</Location>\n"
    )
}

under_percore_and! {
    prefork:

    /// 200 grants access, and its variables are passed to the application that answers; any other status refuses.
    fn applications_say_who_may(mpm: Mpm) {
        for (configuration, prefix) in [(FCGID, "Fcgid"), (CONFIGURATION, "FastCgi")] {
            let Some(site) = site() else { return };
            site.program("judge.fcgi", JUDGE);
            site.file("users", "");
            for name in ["access", "weak", "user", "may"] {
                site.program(&format!("{name}/a.fcgi"), APPLICATION);
            }
            let server = Server::start(mpm, &site, &format!("{configuration}{}", judged(prefix)));
            server.allow("refuses /");
            let ask = |path: &str, fields: &str| {
                server.client().request(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
            };
            let (mine, others) = ("Authorization: Basic bWU6c2VjcmV0\r\n", "Authorization: Basic eW91OnNlY3JldA==\r\n");
            let yes = ask("/access/a.fcgi?env", "");
            assert!(yes.text().contains("JUDGE=ACCESS_CHECKER \n") && !yes.text().contains("FCGI_APACHE_ROLE"), "{yes:?}");
            assert!(yes.text().contains("SCRIPT_NAME=/access/a.fcgi\n"), "{yes:?}");
            assert_eq!((yes.field("X-Judge"), yes.field("Variable-JUDGE")), (Some("yes"), None));
            let no = ask("/access/a.fcgi?403", "");
            assert_eq!((no.status, no.field("X-Why")), (403, Some("so")));
            let login = ask("/access/a.fcgi?login", "");
            assert_eq!((login.status, login.field("Location")), (302, Some("/login")));
            assert_eq!(ask("/weak/a.fcgi?403", "").status, 200, "others decide");
            let body = "POST /access/a.fcgi?count HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc";
            assert_eq!(server.client().request(body).text(), "3 294", "the body is the application's");
            let nobody = ask("/user/a.fcgi?env", "");
            assert_eq!((nobody.status, nobody.field("WWW-Authenticate")), (401, Some("Basic realm=\"x\"")));
            assert_eq!(ask("/user/a.fcgi?env", others).status, 401);
            let text = ask("/user/a.fcgi?env", mine).text();
            assert!(text.contains("REMOTE_USER=me\n") && text.contains("JUDGE=AUTHENTICATOR me\n"), "{text}");
            assert!(!text.contains("REMOTE_PASSWD"), "{text}");
            assert!(ask("/may/a.fcgi?env", mine).text().contains("JUDGE=AUTHORIZER me\n"));
        }
    }

    /// A filter gets the body of the request and then the file, whole, and makes the answer of them.
    fn a_filter_gets_the_file(mpm: Mpm) {
        if !needs::LIBFCGI.is_there("a_filter_gets_the_file") {
            return;
        }
        let Some(site) = site() else { return };
        site.compile("filter", FILTER);
        let page = site.page("a.low", "some text");
        site.page("empty.low", "");
        site.page("big.low", "x".repeat(1_000_000));
        let text = "AddHandler fastcgi-filter .low .none\n<Files *.low>\nFastCgiFilter ${DOCS}/filter\n</Files>\n";
        let server = Server::start(mpm, &site, &format!("{CONFIGURATION}{text}"));
        let changed = |seconds: u64| {
            let file = std::fs::File::options().write(true).open(&page).expect("open");
            file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).expect("time");
        };
        changed(1_000_000_000);
        let lines = |answer: Response| {
            let text = answer.text();
            let (head, rest) = text.split_once('\n').unwrap_or_else(|| panic!("{text}"));
            let (process, head) = head.split_once(' ').expect("a process");
            (process.to_string(), format!("{head}\n{rest}"))
        };
        let (process, first) = lines(server.get("/a.low"));
        assert_eq!(first, "FILTER 9 1000000000\n\nSOME TEXT");
        changed(1_000_000_001);
        assert_eq!(lines(post(&server, "/a.low", b"body")), (process.clone(), "FILTER 9 1000000001\nbody\nSOME TEXT".into()));
        let (same, empty) = lines(server.get("/empty.low"));
        assert!(same == process && empty.starts_with("FILTER 0 ") && empty.ends_with("\n\n"), "{empty}");
        let body = "y".repeat(200_000);
        let (same, big) = lines(post(&server, "/big.low", body.as_bytes()));
        assert!(same == process && big.ends_with(&format!("\n{body}\n{}", "X".repeat(1_000_000))), "{} bytes", big.len());
        assert_eq!(server.get("/nothing.low").status, 404);
        site.page("x.none", "");
        server.announce("no FastCgiFilter line names the program that filters");
        assert_eq!(server.get("/x.none").status, 500);
    }

    /// An application named in the configuration runs from the start, with the configured number of processes, even if
    /// one dies.
    fn named_applications_are_there(mpm: Mpm) {
        let Some(site) = site() else { return };
        let text = "FastCgiServer ${DOCS}/a.fcgi -processes 3 -priority 5\nSetEnv PATH /nowhere\n";
        let mut server = Server::start(mpm, &site, &format!("{CONFIGURATION}{text}"));
        let three = |server: &Server<'_>, not: &BTreeSet<i32>| {
            until("three processes", || {
                let there = applications(server);
                (there.len() == 3 && there.is_disjoint(not)).then_some(there)
            })
        };
        // One starts after the other, until their memory is known: no reason to end one that idles.
        let begun = until("a process", || applications(&server).pop_first());
        let first = three(&server, &BTreeSet::new());
        assert!(first.contains(&begun), "{begun} of {first:?}");
        let niceness = |process: i32| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("stat");
            // proc(5): the 19th, and the name in brackets is the second.
            stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(16)?.parse::<i32>().ok()).expect("a number")
        };
        let wanted = (niceness(server.pid().number()) + 5).min(19);
        assert!(first.iter().all(|process| niceness(*process) == wanted));
        let (serves, number, _) = who(&server.get("/a.fcgi?who"));
        assert!(first.contains(&serves), "{serves} of {first:?}");
        assert_eq!((number, applications(&server)), (1, first.clone()));
        server.announce("(process");
        Pid::new(serves).expect("a process").kill(Signal::KILL).expect("kill");
        until("another one", || applications(&server).iter().any(|process| !first.contains(process)).then_some(()));
        let before = three(&server, &BTreeSet::from([serves]));
        server.restart(Signal::USR1);
        let after = three(&server, &before);
        assert!(after.contains(&who(&server.get("/a.fcgi?who")).0));
    }

    /// Applications that are named, that run elsewhere, and that start on demand.
    fn kinds_of_applications(mpm: Mpm) {
        let Some(site) = site() else { return };
        let socket = site.root.join("marks/outside.socket");
        let outside = site.root.join("htdocs/b.fcgi");
        let program = format!("use FCGI; use POSIX; my $s = FCGI::OpenSocket('{0}', 5); chmod 0777, '{0}'; POSIX::dup2($s, 0); exec '{1}'",
            socket.display(), outside.display());
        let mut process = Command::new("perl").args(["-e", &program]).stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("perl");
        crate::harness::wait::until("its socket", || socket.exists().then_some(()));
        let text = format!("{CONFIGURATION}FastCgiServer ${{DOCS}}/a.fcgi -processes 2 -idle-timeout 60 -initial-env X=1 -init-start-delay 1 -pass-header Authorization\n\
            FastCgiExternalServer ${{DOCS}}/there.fcgi -socket {} -idle-timeout 60\nFastCgiExternalServer ${{DOCS}}/nowhere.fcgi -host 127.0.0.1:1\n\
            FastCgiConfig -maxClassProcesses 1 -singleThreshhold 0 -multiThreshold 10 -autoUpdate\nFastCgiIpcDir /var/run/fastcgi\nFastCgiWrapper Off\n\
            <Location /there.fcgi>\nSetHandler fastcgi-script\n</Location>\n", socket.display());
        let server = Server::start(mpm, &site, &text);
        // Two, and no third.
        let mut both = BTreeSet::new();
        let mut clients = Vec::new();
        for number in 1..=3 {
            clients.push(asks(&server, &format!("/a.fcgi?wait=w{number}")));
            if number < 3 {
                both.insert(site.reached(&format!("w{number}")));
            }
        }
        assert_eq!((both.len(), applications(&server).len()), (2, 2));
        (1..=3).for_each(|number| site.go_on(&format!("w{number}")));
        clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
        let told = server.client().request("GET /a.fcgi?env HTTP/1.1\r\nHost: localhost\r\nAuthorization: x\r\n\r\n").text();
        assert!(told.contains("Authorization=x\n"), "{told}");
        for number in 1..4 {
            assert_eq!(who(&server.get("/there.fcgi?who")).1, number);
        }
        assert_eq!(post(&server, "/there.fcgi?count", &vec![1; 300_000]).text(), "300000 300000");
        server.announce("FastCGI: failed to connect to server");
        assert_eq!(server.get("/nowhere.fcgi").status, 503);
        let (first, ..) = who(&server.get("/b.fcgi?who"));
        assert_eq!(who(&server.get("/b.fcgi?who")).0, first);
        process.kill().expect("kill");
        process.wait().expect("wait");
    }
}

/// A body that is too long, and one that stops in the middle: the status says why no application has seen it.
#[test]
fn bodies_that_do_not_come() {
    let Some(site) = site() else { return };
    let text = format!("{CONFIGURATION}LimitRequestBody 10\nRequestReadTimeout body=1\n");
    let server = Server::start(Mpm::Percore, &site, &text);
    let refused = |fields: &str, body: &str| {
        let head = format!("POST /a.fcgi?count HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n\r\n");
        server.client().request(head + body).status
    };
    assert_eq!(refused("Content-Length: 3", "abc"), 200);
    assert_eq!(refused("Transfer-Encoding: chunked", "b\r\n01234567890\r\n0\r\n\r\n"), 413);
    assert_eq!(refused("Content-Length: 3", "ab"), 408);
}

/// Every option has a meaning, or is refused with a word.
#[test]
fn options_that_are_wrong() {
    let cases = [
        ("FastCgiServer ${DOCS}/a.fcgi -nonsense", "invalid option: -nonsense"),
        ("FastCgiServer ${DOCS}/a.fcgi -processes", "-processes has no value"),
        ("FastCgiServer ${DOCS}/a.fcgi -processes x", "-processes x is not a number"),
        ("FastCgiServer ${DOCS}/none.fcgi", "is not a file"),
        ("FastCgiServer ${DOCS}/a.fcgi -user nobody", "-user and -group go together"),
        ("FastCgiServer ${DOCS}/a.fcgi -user no.such.user -group #1", "bad user name no.such.user"),
        ("FastCgiServer ${DOCS}/a.fcgi -priority -5", "write a number from 0 to 19"),
        ("FastCgiServer ${DOCS}/a.fcgi -port 9000", "use FastCgiExternalServer for an application that listens itself"),
        ("FastCgiExternalServer ${DOCS}/x.fcgi", "add -host or -socket, which says where"),
        ("FastCgiExternalServer ${DOCS}/x.fcgi -host nowhere", "write host:port"),
        ("FastCgiConfig -host a:1", "invalid option: -host"),
        ("FastCgiWrapper /usr/sbin/suexec", "SuexecUserGroup says which user runs scripts"),
    ];
    let site = crate::harness::site::Site::new();
    site.program("a.fcgi", APPLICATION);
    for (line, text) in cases {
        site.configure(crate::harness::mpm::Mpm::Event, &format!("{CONFIGURATION}{line}\n"));
        let output = crate::harness::server::Start::new(&site, crate::harness::mpm::Mpm::Event)
            .arguments(&["-t"])
            .command()
            .output()
            .expect("run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(text), "{line}: {said}");
    }
}

//! Names of clients: their role in access control, the places that show them, and the number of queries to a name
//! server.

use std::net::Ipv4Addr;

use crate::harness::mpm::{Mpm, test_name, under_percore_and};
use crate::harness::name_server::{CLIENT, NameServer, Reply};
use crate::harness::needs;
use crate::harness::oracle::{self, Apache};
use crate::harness::server::{Server, Start};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, get};

const HERE: Reply = Reply::Address(Ipv4Addr::LOCALHOST);

/// A place with a directory for each line of configuration, which that line protects.
const RULES: [(&str, &str); 9] = [
    ("deny", "Order allow,deny\nAllow from all\nDeny from bad.example"),
    ("allow", "Order deny,allow\nDeny from all\nAllow from bad.example"),
    ("address", "Order deny,allow\nDeny from bad.example\nAllow from 127"),
    ("other", "Order allow,deny\nAllow from all\nDeny from bad.example 127"),
    ("not", "<RequireAll>\nRequire all granted\nRequire not host bad.example\n</RequireAll>"),
    ("host", "Require host bad.example"),
    ("either", "Require host bad.example\nRequire ip 127"),
    ("forward", "Require forward-dns bad.example"),
    ("not-forward", "<RequireAll>\nRequire all granted\nRequire not forward-dns bad.example\n</RequireAll>"),
];

fn rules() -> String {
    RULES.iter().map(|(name, rules)| format!("<Location /{name}>\n{rules}\n</Location>\n")).collect()
}

fn site() -> Site {
    let pages: Vec<String> = RULES.iter().map(|(name, _)| format!("{name}/f.txt")).collect();
    Site::with(pages.iter().map(|page| (page.as_str(), "x\n")))
}

/// The status for each rule. All are asked for before the first is awaited: where no name server answers, each of them
/// takes as long as the server waits for one.
fn statuses(site: &Site) -> Vec<(&'static str, u16)> {
    let ask = |name: &str| {
        let mut client = Client::connect(site.address());
        client.send(get(&format!("/{name}/f.txt")));
        client
    };
    let asked: Vec<_> = RULES.iter().map(|(name, _)| (*name, ask(name))).collect();
    asked.into_iter().map(|(name, mut client)| (name, client.response().status)).collect()
}

fn start<'a>(site: &'a Site, mpm: Mpm, names: &NameServer, text: &str) -> Server<'a> {
    site.configure(mpm, text);
    Start::new(site, mpm).by(names.by()).run()
}

under_percore_and! { worker:
    /// A client without a name matches no line. If the look-up fails, it might match.
    fn a_name_that_cannot_be_found_out_lets_nobody_in(mpm: Mpm) {
        if !needs::ROOT.is_there("a_name_that_cannot_be_found_out_lets_nobody_in") {
            return;
        }
        let client = |reply| vec![(CLIENT, reply), ("bad.example", Reply::Failure)];
        for (replies, cause) in [
            (client(Reply::Failure), "the resolver failed: Temporary failure in name resolution: "),
            // There is a name, but it cannot be confirmed as the client's.
            (client(Reply::Name("bad.example")), "the resolver failed: Temporary failure in name resolution: "),
            (
                vec![(CLIENT, Reply::Silence), ("bad.example", Reply::Silence)],
                "no name server has answered within 5 s: ",
            ),
        ] {
            // Each child waits for itself: one of them is enough.
            if cause.starts_with("no name server") && mpm != Mpm::Percore {
                continue;
            }
            let site = site();
            let names = NameServer::start(&site, &replies);
            let server = start(&site, mpm, &names, &rules());
            server.announce(format!("{cause}cannot check Allow and Deny for host names: this client's name is unknown"));
            server.announce(format!("{cause}AH01753: access check of 'bad.example' to /not/f.txt failed"));
            server.allow("AH01753: access check of 'bad.example' to /host/f.txt failed");
            server.allow("AH01753: access check of 'bad.example' to /either/f.txt failed");
            server.announce(format!("{cause}AH03356: No sockaddr info for \"bad.example\""));
            server.announce("AH01797: client denied by server configuration");
            server.announce("AH01630: client denied by server configuration");
            let come_to: Vec<u16> = statuses(&site).iter().map(|(_, status)| *status).collect();
            assert_eq!(come_to, [403, 403, 200, 403, 403, 403, 200, 403, 403], "{cause}");
        }
    }
}

/// Known results decide as in Apache, also the result that there is no name.
#[test]
fn names_decide_as_in_apache() {
    if !needs::ROOT.is_there("names_decide_as_in_apache") || !oracle::is_there("names_decide_as_in_apache") {
        return;
    }
    for replies in [
        &[][..],
        &[(CLIENT, Reply::Name("Bad.Example")), ("bad.example", HERE)],
        &[(CLIENT, Reply::Name("bad.example")), ("bad.example", Reply::Address(Ipv4Addr::new(127, 0, 0, 2)))],
        &[(CLIENT, Reply::Name("bad.example"))],
        &[(CLIENT, Reply::Name("good.example")), ("good.example", HERE), ("bad.example", HERE)],
    ] {
        let theirs = {
            let site = site();
            let names = NameServer::start(&site, replies);
            let _apache = Apache::start_by(&site, names.by(), &rules());
            statuses(&site)
        };
        for mpm in Mpm::chosen(test_name!()) {
            let site = site();
            let names = NameServer::start(&site, replies);
            let server = start(&site, mpm, &names, &rules());
            server.allow_everything("each refused client is logged");
            assert_eq!(statuses(&site), theirs, "{mpm}");
        }
    }
}

/// Prints what it knows of the client's name.
const TELL: &str = "#!/bin/sh\nprintf 'Content-type: text/plain\\n\\n'\necho \"${REMOTE_HOST-none} $REMOTE_ADDR\"\n";

/// The client's name as both servers show it: in the log, to a script, in expressions; once per connection.
fn shown(site: &Site) -> Vec<String> {
    let mut client = Client::connect(site.address());
    let told = ["/cgi-bin/tell", "/in/f.txt", "/none"].map(|path| client.get(path));
    let lines = until("the log", || Some(site.read("logs/names")).filter(|log| log.lines().count() == 3));
    let mut shown: Vec<String> = lines.lines().map(str::to_string).collect();
    shown.push(told[0].text());
    shown
}

#[test]
fn host_names_are_looked_up_as_in_apache() {
    if !needs::ROOT.is_there("host_names_are_looked_up") || !oracle::is_there("host_names_are_looked_up") {
        return;
    }
    let common = "ScriptAlias /cgi-bin/ ${ROOT}/cgi-bin/\nSetEnvIf Remote_Host (.+) seen=$1\n\
                  CustomLog logs/names \"%h %{c}h %a %{seen}e %{expr}e\"\n\
                  <Directory />\nSetEnvIfExpr \"%{REMOTE_HOST} =~ /(.*)/\" expr=$1\n</Directory>\n";
    let inside = "<Directory ${DOCS}/in>\nHostnameLookups On\n</Directory>";
    let required = "<Location /in>\nRequire host nobody.example\n</Location>";
    let own: &[(&str, Reply)] = &[(CLIENT, Reply::Name("Client.Example")), ("client.example", HERE)];
    let borrowed: &[(&str, Reply)] = &[(CLIENT, Reply::Name("client.example"))];
    for (text, replies) in [
        ("HostnameLookups On", own),
        ("HostnameLookups Double", own),
        ("HostnameLookups Off", own),
        ("", own),
        (inside, own),
        (required, own),
        ("HostnameLookups On", borrowed),
        ("HostnameLookups Double", borrowed),
        (required, borrowed),
        ("HostnameLookups On", &[]),
    ] {
        let configuration = format!("{common}{text}");
        let place = || {
            let site = Site::with([("in/f.txt", "x\n")]);
            site.script("tell", TELL);
            site
        };
        let theirs = {
            let site = place();
            let names = NameServer::start(&site, replies);
            let _apache = Apache::start_by(&site, names.by(), &configuration);
            (shown(&site), names.count(CLIENT))
        };
        for mpm in Mpm::chosen(test_name!()) {
            let site = place();
            let names = NameServer::start(&site, replies);
            let server = start(&site, mpm, &names, &configuration);
            server.allow_everything("each refused client is logged");
            assert_eq!((shown(&site), names.count(CLIENT)), theirs, "{mpm}: {text}");
        }
    }
}

/// If a section wants names checked, earlier results about the connection's client do not count.
#[test]
fn a_borrowed_name_counts_for_nothing_where_names_are_checked() {
    if !needs::ROOT.is_there("a_borrowed_name_counts_for_nothing_where_names_are_checked") {
        return;
    }
    let rules = "CustomLog logs/names %h\n\
                 <Location /in>\nHostnameLookups Double\nRequire expr \"%{REMOTE_HOST} == 'client.example'\"\n\
                 </Location>\n<Location /host>\nHostnameLookups Off\nRequire host client.example\n</Location>\n";
    let own: &[(&str, Reply)] = &[(CLIENT, Reply::Name("client.example")), ("client.example", HERE)];
    let borrowed: &[(&str, Reply)] = &[(CLIENT, Reply::Name("client.example"))];
    for (outside, before, replies, status, shown) in [
        ("On", "", borrowed, 403, "127.0.0.1"),
        ("On", "/f.txt", borrowed, 403, "127.0.0.1"),
        ("Off", "/host/f.txt", borrowed, 403, "127.0.0.1"),
        ("On", "/f.txt", own, 200, "client.example"),
        ("Off", "/host/f.txt", own, 200, "client.example"),
    ] {
        let site = Site::with([("f.txt", "x\n"), ("in/f.txt", "x\n"), ("host/f.txt", "x\n")]);
        let names = NameServer::start(&site, replies);
        let server = start(&site, Mpm::Percore, &names, &format!("HostnameLookups {outside}\n{rules}"));
        server.allow_everything("each refused client is logged");
        let mut client = server.client();
        if !before.is_empty() {
            client.get(before);
        }
        assert_eq!(client.get("/in/f.txt").status, status, "{outside}, after {before}");
        let count = 1 + usize::from(!before.is_empty());
        let log = until("the log", || Some(site.read("logs/names")).filter(|log| log.lines().count() == count));
        assert_eq!(log.lines().last(), Some(shown), "{outside}, after {before}");
    }
}

under_percore_and! { worker:
    /// A rule about the client's name may deny access: an attacker who disturbs a name server must not turn it off.
    fn lines_that_need_an_unknown_name_refuse(mpm: Mpm) {
        if !needs::ROOT.is_there("lines_that_need_an_unknown_name_refuse") {
            return;
        }
        let failed = "the resolver failed: Temporary failure in name resolution: the client's name is unknown";
        let silent = "no name server has answered within 5 s: the client's name is unknown";
        for (how, reply, cause) in [
            ("On", Reply::Failure, failed),
            ("Double", Reply::Failure, failed),
            ("Off", Reply::Failure, ""),
            ("On", Reply::None, ""),
            ("On", Reply::Silence, silent),
        ] {
            if cause == silent && mpm != Mpm::Percore {
                continue;
            }
            let site = Site::with(["plain/f.txt", "if/f.txt", "expr/f.txt", "env/f.txt"].map(|page| (page, "x\n")));
            site.script("tell", TELL);
            let names = NameServer::start(&site, &[(CLIENT, reply)]);
            let server = start(&site, mpm, &names, &format!(
                "ScriptAlias /cgi-bin/ ${{ROOT}}/cgi-bin/\nCustomLog logs/names %h\nHostnameLookups {how}\n\
                 <Location /if>\n<If \"%{{REMOTE_HOST}} == 'bad.example'\">\nRequire all denied\n</If>\n</Location>\n\
                 <Location /expr>\n<RequireAll>\nRequire all granted\n\
                 Require not expr \"%{{REMOTE_HOST}} == 'bad.example'\"\n</RequireAll>\n</Location>\n\
                 <Location /env>\nSetEnvIf Remote_Host bad.example bad\n<RequireAll>\nRequire all granted\n\
                 Require not env bad\n</RequireAll>\n</Location>\n"
            ));
            if !cause.is_empty() {
                server.announce(format!("{cause}, so the line at "));
                server.announce(format!("AH02320: Error evaluating expression in 'Require expr': {cause}"));
                server.allow(cause);
            }
            let status = |name: &str| server.client().get(&format!("/{name}/f.txt")).status;
            let decided = if cause.is_empty() { 200 } else { 500 };
            assert_eq!(["plain", "if", "expr", "env"].map(status), [200, decided, decided, decided], "{how}: {cause}");
            // Where the name is only shown, the address appears instead.
            assert_eq!(server.client().get("/cgi-bin/tell").text(), "none 127.0.0.1\n");
            until("the log", || (site.read("logs/names") == "127.0.0.1\n".repeat(5)).then_some(()));
        }
    }
}

/// A line that names several hosts waits for all of them together: their number does not prolong the wait.
#[test]
fn the_names_of_a_line_share_one_deadline() {
    if !needs::ROOT.is_there("the_names_of_a_line_share_one_deadline") {
        return;
    }
    let site = Site::with([("f.txt", "x\n")]);
    let silent = ["a.example", "b.example", "c.example"];
    let names = NameServer::start(&site, &silent.map(|name| (name, Reply::Silence)));
    let lines = "<Location />\nRequire forward-dns a.example b.example c.example\n</Location>\n";
    let server = start(&site, Mpm::Percore, &names, lines);
    for name in silent {
        server.announce(format!("no name server has answered within 5 s: AH03356: No sockaddr info for \"{name}\""));
    }
    server.announce("AH01630: client denied by server configuration");
    assert_eq!(server.client().get("/f.txt").status, 403);
    assert_eq!(names.count("b.example"), 0, "it was asked after the deadline");
}

/// Each process asks for a client's name once, however many connections wait for it.
#[test]
fn questions_under_way_are_shared() {
    if !needs::ROOT.is_there("questions_under_way_are_shared") {
        return;
    }
    for mpm in [Mpm::Percore, Mpm::Event, Mpm::Worker] {
        let site = Site::with([("f.txt", "x\n")]);
        let names = NameServer::start(&site, &[(CLIENT, Reply::Silence), ("client.example", HERE)]);
        let lines = "CustomLog logs/names %h\nHostnameLookups On\n";
        let server = start(&site, mpm, &names, lines);
        let mut clients: Vec<Client> = (0..60).map(|_| server.client()).collect();
        clients.iter_mut().for_each(|client| client.send(get("/f.txt")));
        let processes = server.children().len().max(1);
        until("a question", || (names.count(CLIENT) > 0).then_some(()));
        assert!(clients.iter().all(Client::is_silent), "{mpm}: somebody got an answer without a name");
        names.speak(CLIENT, Reply::Name("client.example"));
        clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200, "{mpm}"));
        let asked = names.count(CLIENT);
        assert!(asked <= processes, "{mpm}: {asked} questions of {processes} processes");
        until("the log", || (site.read("logs/names") == "client.example\n".repeat(60)).then_some(()));
    }
}

//! Slow work outside scripts (passwords, listings, name servers) delays no other request, even if one thread serves
//! them all. The tests check the order, not times: other requests are answered before the slow one.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use crate::auth::passwords;
use crate::harness::mpm::Mpm;
use crate::harness::name_server::{NameServer, Reply};
use crate::harness::needs;
use crate::harness::server::{Server, Start};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, get};

/// The modules under which a thread serves many connections.
const MANY: [Mpm; 2] = [Mpm::Percore, Mpm::Event];

/// As many requests reach every child.
const OTHERS: usize = 20;

/// A section that wants a user of the file `users`.
fn members(location: &str) -> String {
    format!(
        "<Location {location}>\nAuthType Basic\nAuthName x\nAuthUserFile ${{ROOT}}/conf/users\nRequire valid-user\n\
         </Location>\n"
    )
}

/// A password that takes a fifth of a second, and one that takes no time.
const USERS: &str = "slow:$2y$11$abcdefghijklmnopqrstuuNF5/gKGv1vSzRBclZtmf77tbZMWqiPK\n\
     quick:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";

/// `secret`, which takes a while.
const RIGHT: &str = "$2y$09$bD0lsLunYzSWMMGkTs0I..gIsF37y1OkNRRXGJRY0isemSgG2zVMa";

/// Sends a request on each of several connections.
fn ask(server: &Server<'_>, requests: impl Iterator<Item = String>) -> Vec<Client> {
    let send = |request| {
        let mut client = server.client();
        client.send(request);
        client
    };
    requests.map(send).collect()
}

/// Others are served at once.
fn others_are_served(server: &Server<'_>) {
    for _ in 0..OTHERS {
        assert_eq!(server.get("/f.txt").status, 200);
    }
}

#[test]
fn passwords_are_hashed() {
    for mpm in MANY {
        let site = Site::with([("f.txt", "x\n"), ("in/f.txt", "x\n")]);
        site.file("conf/users", USERS);
        let server = Server::start(mpm, &site, &members("/in"));
        server.announce("AH01617: user slow: authentication failure for \"/in/f.txt\": Password Mismatch");
        let mut logging_in =
            ask(&server, (0..8).map(|i| passwords::request("/in/f.txt", "slow", &format!("wrong{i}"))));
        others_are_served(&server);
        assert!(logging_in.iter().any(Client::is_silent), "{mpm}: all passwords were checked first");
        for client in &mut logging_in {
            assert_eq!(client.response().status, 401, "{mpm}");
        }
    }
}

/// More digests of files than every child has processors hold up no log-in.
#[test]
fn files_are_digested() {
    let site = Site::with([("in/f.txt", "x\n")]);
    site.file("conf/users", USERS);
    let names: Vec<String> = (0..4 * sys::affinity::cpus()).map(|i| format!("big{i}")).collect();
    for name in &names {
        let file = std::fs::File::create(site.page(name, "")).expect("file");
        file.set_len(128 << 20).expect("length");
    }
    for mpm in MANY {
        let server = Server::start(mpm, &site, &format!("FileETag Digest\n{}", members("/in")));
        let head = |name: &String| format!("HEAD /{name} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut digesting = ask(&server, names.iter().map(head));
        for _ in 0..3 {
            let member = passwords::request("/in/f.txt", "quick", "secret");
            assert_eq!(server.client().request(member).status, 200, "{mpm}");
        }
        assert!(digesting.iter().all(Client::is_silent), "{mpm}: a file was read first");
        let tags = digesting.iter_mut().map(|client| client.response_to("HEAD").field("ETag").map(str::to_string));
        let tags: BTreeSet<Option<String>> = tags.collect();
        assert!(tags.len() == 1 && !tags.contains(&None), "{mpm}: {tags:?}");
    }
}

/// More than a child checks at a time: the rest need not wait for an end that does not come.
#[test]
fn too_many_passwords_are_turned_away() {
    let site = Site::with([("f.txt", "x\n"), ("in/f.txt", "x\n")]);
    // Each check takes a hundredth of a second.
    site.file("conf/users", "slow:$2y$08$abcdefghijklmnopqrstuuNF5/gKGv1vSzRBclZtmf77tbZMWqiPK\n");
    let server = Server::start(Mpm::Percore, &site, &members("/in"));
    server.announce("AH01617: user slow: authentication failure for \"/in/f.txt\": Password Mismatch");
    server.announce("the password of user slow is not checked: too many are being checked already");
    let mut all = ask(&server, (0..600).map(|i| passwords::request("/in/f.txt", "slow", &format!("wrong{i}"))));
    let statuses: Vec<u16> = all.iter_mut().map(|client| client.response().status).collect();
    let count = |status| statuses.iter().filter(|one| **one == status).count();
    assert!(count(401) >= 128 && count(503) > 0 && count(401) + count(503) == 600, "{statuses:?}");
}

/// An expression waits for the answer if it looks up a path protected by a password, which is hashed beside the event
/// loop.
#[test]
fn an_expression_that_has_to_wait_decides() {
    let site = Site::with([("f.txt", "x\n"), ("in/f.txt", "x\n"), ("url/f.txt", "x\n"), ("file/f.txt", "x\n")]);
    site.file("conf/users", format!("{USERS}right:{RIGHT}\n"));
    let conditions = "<Location /url>\n<If \"-U '/in/f.txt'\">\nRequire all denied\n</If>\n</Location>\n\
        <Location /file>\n<If \"-F '${DOCS}/in/f.txt'\">\nRequire all denied\n</If>\n</Location>\n";
    for mpm in Mpm::ALL {
        // -F looks up a file, which no <Location> is about.
        let inside =
            members("/in").replace("<Location /in>", "<Directory ${DOCS}/in>").replace("</Location>", "</Directory>");
        let server = Server::start(mpm, &site, &format!("{inside}{conditions}"));
        server.allow("a subrequest for ");
        server.allow("AH01617: user ");
        server.allow("AH01630: client denied");
        for path in ["/url/f.txt", "/file/f.txt"] {
            assert_eq!(server.get(path).status, 200, "{mpm} {path}: without a user it is not allowed");
            let status = |user| server.client().request(passwords::request(path, user, "secret")).status;
            assert_eq!(status("slow"), 200, "{mpm} {path}: that is not the password");
            assert_eq!(status("right"), 403, "{mpm} {path}");
        }
    }
}

/// An expression that would start a look-up of its own kind also ends: a look-up asks no further.
#[test]
fn an_expression_that_asks_for_itself_ends() {
    let site = Site::with([("f.txt", "x\n")]);
    for mpm in Mpm::ALL {
        let server = Server::start(mpm, &site, "<If \"-U '/f.txt'\">\nRequire all denied\n</If>\n");
        server.announce("AH01630: client denied by server configuration");
        assert_eq!(server.get("/f.txt").status, 403, "{mpm}");
    }
}

#[test]
fn long_directories_are_listed() {
    let site = Site::with([("f.txt", "x\n")]);
    let names: Vec<String> = (0..20_000).map(|i| format!("file{i:05}.txt")).collect();
    names.iter().for_each(|name| drop(site.page(&format!("many/{name}"), "")));
    for mpm in MANY {
        let server = Server::start(mpm, &site, "<Directory ${DOCS}>\nOptions Indexes MultiViews\n</Directory>\n");
        let mut listing = ask(&server, std::iter::once(get("/many/")));
        others_are_served(&server);
        assert!(listing[0].is_silent(), "{mpm}: the listing came first");
        let page = listing[0].response().text();
        let listed: Vec<&str> = page.split("<a href=\"file").skip(1).filter_map(|rest| rest.get(..9)).collect();
        assert!(listed.iter().copied().eq(names.iter().map(|name| &name[4..])), "{mpm}: {} names", listed.len());
        assert_eq!(server.get("/many/file00007").text(), "", "{mpm}: MultiViews");
        assert_eq!(server.get("/many/none").status, 404, "{mpm}");
    }
}

#[test]
fn names_are_looked_up() {
    // Only root can give a process its own name server.
    if !needs::ROOT.is_there("names_are_looked_up") {
        return;
    }
    let site = Site::with([("f.txt", "x\n"), ("in/f.txt", "x\n"), ("named/f.txt", "x\n"), ("many/f.html", "x\n")]);
    site.file("conf/users", USERS);
    let names = NameServer::start(&site, &[("none.example", Reply::Silence)]);
    let named = "<Location /named>\nRequire forward-dns none.example\n</Location>\n\
                 <Directory ${DOCS}/many>\nOptions MultiViews\n</Directory>\n";
    for mpm in MANY {
        site.configure(mpm, &format!("{}{named}", members("/in")));
        let server = Start::new(&site, mpm).by(names.by()).run();
        server.announce("AH03356: No sockaddr info for \"none.example\"");
        server.announce("AH01630: client denied by server configuration");
        let mut asking = ask(&server, (0..2 * OTHERS).map(|_| get("/named/f.txt")));
        others_are_served(&server);
        for _ in 0..OTHERS {
            // Neither passwords nor directories wait for names.
            let member = passwords::request("/in/f.txt", "quick", "secret");
            assert_eq!(server.client().request(member).status, 200, "{mpm}");
            assert_eq!(server.get("/many/f").status, 200, "{mpm}");
        }
        assert!(asking.iter().all(Client::is_silent), "{mpm}: somebody got an answer without a name");
        for client in &mut asking {
            assert_eq!(client.response().status, 403, "{mpm}");
        }
    }
}

/// A name server that takes too long for one request has answered for the next: what became known is not forgotten for the
/// request that gave up.
#[test]
fn a_name_that_comes_late_counts_for_the_next_request() {
    if !needs::ROOT.is_there("a_name_that_comes_late_counts_for_the_next_request") {
        return;
    }
    let site = Site::with([("named/f.txt", "x\n")]);
    let names = NameServer::start(&site, &[("late.example", Reply::Silence)]);
    site.configure(Mpm::Percore, "<Location /named>\nRequire forward-dns late.example\n</Location>\n");
    let server = Start::new(&site, Mpm::Percore).by(names.by()).run();
    server.announce("AH03356: No sockaddr info for \"late.example\"");
    server.announce("AH01630: client denied by server configuration");
    // One connection, so that the same child is asked again.
    let mut client = server.client();
    assert_eq!(client.get("/named/f.txt").status, 403);
    names.speak("late.example", Reply::Address(Ipv4Addr::LOCALHOST));
    until("the name to be known", || (client.get("/named/f.txt").status == 200).then_some(()));
}

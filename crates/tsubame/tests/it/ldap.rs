//! Users and groups of a directory (mod_ldap, mod_authnz_ldap), against a slapd and beside Apache.

use std::time::{Duration, Instant};

use sys::signal::Signal;

use crate::mpm::Mpm;
use crate::needs;
use crate::oracle::{self, Allowed, Case};
use crate::passwords::request;
use crate::server::Server;
use crate::site::Site;
use crate::slapd::{ADMIN, ADMIN_PASSWORD, PORT, Slapd};
use crate::wire::{Client, Response};

const ENTRIES: &str = "\
dn: dc=example,dc=org\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example\n\n\
dn: ou=people,dc=example,dc=org\nobjectClass: organizationalUnit\nou: people\n\n\
dn: uid=joe,ou=people,dc=example,dc=org\nobjectClass: inetOrgPerson\nuid: joe\ncn: Joe Doe\nsn: Doe\ntitle: boss\n\
mail: joe@example.org\nmail: joseph@example.org\nemployeeType: secret agent\nuserPassword: good\n\n\
dn: uid=ann,ou=people,dc=example,dc=org\nobjectClass: inetOrgPerson\nuid: ann\ncn: Ann (the first) *\nsn: Smith\n\
userPassword: fine\n\n\
dn: uid=back\\5Cslash,ou=people,dc=example,dc=org\nobjectClass: inetOrgPerson\nuid: back\\slash\ncn: Back\nsn: Slash\n\
userPassword: odd\n\n\
dn: uid=twin,ou=people,dc=example,dc=org\nobjectClass: inetOrgPerson\nuid: twin\ncn: Twin\nsn: One\nuserPassword: one\n\n\
dn: ou=more,dc=example,dc=org\nobjectClass: organizationalUnit\nou: more\n\n\
dn: uid=twin,ou=more,dc=example,dc=org\nobjectClass: inetOrgPerson\nuid: twin\ncn: Twin\nsn: Two\nuserPassword: one\n\n\
dn: uid=alias,ou=more,dc=example,dc=org\nobjectClass: alias\nobjectClass: extensibleObject\nuid: alias\n\
aliasedObjectName: uid=joe,ou=people,dc=example,dc=org\n\n\
dn: ou=groups,dc=example,dc=org\nobjectClass: organizationalUnit\nou: groups\n\n\
dn: cn=top,ou=groups,dc=example,dc=org\nobjectClass: groupOfNames\ncn: top\n\
member: cn=middle,ou=groups,dc=example,dc=org\nmember: cn=loop,ou=groups,dc=example,dc=org\n\n\
dn: cn=middle,ou=groups,dc=example,dc=org\nobjectClass: groupOfUniqueNames\ncn: middle\n\
uniqueMember: cn=low,ou=groups,dc=example,dc=org\nuniqueMember: uid=ann,ou=people,dc=example,dc=org\n\n\
dn: cn=low,ou=groups,dc=example,dc=org\nobjectClass: groupOfNames\ncn: low\n\
member: uid=joe,ou=people,dc=example,dc=org\n\n\
dn: cn=loop,ou=groups,dc=example,dc=org\nobjectClass: groupOfNames\ncn: loop\n\
member: cn=top,ou=groups,dc=example,dc=org\n\n\
dn: cn=posix,ou=groups,dc=example,dc=org\nobjectClass: posixGroup\ncn: posix\ngidNumber: 7\nmemberUid: joe\n";

/// A section in which users log in.
fn section(place: &str, lines: &str) -> String {
    format!("<Location /{place}>\nAuthType Basic\nAuthName x\nAuthBasicProvider ldap\n{lines}\n</Location>\n")
}

fn log_in(site: &Site, path: &str, user: &str, password: &str) -> Response {
    Client::connect(site.address()).request(request(path, user, password))
}

/// Everyone who may log in, or try.
const USERS: [(&str, &str); 16] = [
    ("joe", "good"),
    ("joe", "bad"),
    ("ann", "fine"),
    ("nobody", "x"),
    ("JOE", "good"),
    ("joe", ""),
    ("", "x"),
    ("", ""),
    ("twin", "one"),
    ("alias", "good"),
    ("back\\slash", "odd"),
    // None of them is a name.
    ("*", "good"),
    ("j*", "good"),
    ("joe)(uid=*", "good"),
    ("*)(|(uid=joe", "good"),
    ("joe\\2a", "good"),
];

const PLACES: [&str; 24] = [
    "valid",
    "user",
    "group",
    "deep",
    "shallow",
    "none-deep",
    "posix",
    "dn",
    "dn-server",
    "attribute",
    "filter",
    "search",
    "one",
    "filtered",
    "as-user",
    "open",
    "isdn",
    "byname",
    "aliases",
    "bound",
    "twice",
    "missing",
    "nourl",
    "fails",
];

fn configuration(slapd: &Slapd) -> String {
    let url = slapd.url();
    let people = format!("AuthLDAPURL {url}/ou=people,dc=example,dc=org?uid,mail,title,nothing");
    let all = format!("AuthLDAPURL {url}/dc=example,dc=org");
    let low = "cn=low,ou=groups,dc=example,dc=org";
    let top = "cn=top,ou=groups,dc=example,dc=org";
    let places = [
        ("valid", format!("{all}\nRequire valid-user")),
        ("user", format!("{people}\nRequire ldap-user ann joe")),
        ("group", format!("{people}\nRequire ldap-group {low}")),
        ("deep", format!("{people}\nRequire ldap-group {top}")),
        ("shallow", format!("{people}\nAuthLDAPMaxSubGroupDepth 1\nRequire ldap-group {top}")),
        ("none-deep", format!("{people}\nAuthLDAPMaxSubGroupDepth 0\nRequire ldap-group {top}")),
        (
            "posix",
            format!(
                "{people}\nAuthLDAPGroupAttribute memberUid\nAuthLDAPGroupAttributeIsDN off\n\
                 Require ldap-group cn=posix,ou=groups,dc=example,dc=org"
            ),
        ),
        ("dn", format!("{people}\nRequire ldap-dn uid=joe,ou=people,dc=example,dc=org")),
        (
            "dn-server",
            format!("{people}\nAuthLDAPCompareDNOnServer on\nRequire ldap-dn UID=Joe, OU=People,DC=example,DC=org"),
        ),
        ("attribute", format!("{people}\nRequire ldap-attribute sn=nope title=boss \"cn=Ann (the first) *\"")),
        ("filter", format!("{people}\nRequire ldap-filter &(title=boss)(!(sn=Smith))")),
        ("search", format!("{people}\nRequire ldap-search (&(title=boss)(uid=%{{REMOTE_USER}}))")),
        ("one", format!("AuthLDAPURL {url}/dc=example,dc=org?uid?one\nRequire valid-user")),
        ("filtered", format!("AuthLDAPURL {url}/dc=example,dc=org?uid?sub?(title=*)\nRequire valid-user")),
        (
            "as-user",
            format!(
                "{people}\nAuthLDAPInitialBindAsUser on\n\
                 AuthLDAPInitialBindPattern (.+) uid=$1,ou=people,dc=example,dc=org\nAuthLDAPSearchAsUser on\n\
                 AuthLDAPCompareAsUser on\nRequire ldap-attribute \"employeeType=secret agent\""
            ),
        ),
        ("open", format!("{people}\nAuthLDAPBindAuthoritative off\nRequire valid-user")),
        ("isdn", format!("{people}\nAuthLDAPRemoteUserIsDN on\nRequire valid-user")),
        (
            "byname",
            format!("{people}\nAuthLDAPRemoteUserAttribute mail\nAuthLDAPAuthorizePrefix X_\nRequire ldap-user joe"),
        ),
        ("aliases", format!("{all}\nAuthLDAPDereferenceAliases never\nRequire valid-user")),
        (
            "bound",
            format!(
                "{people}\nAuthLDAPBindDN {ADMIN}\nAuthLDAPBindPassword \"exec:/bin/echo {ADMIN_PASSWORD}\"\n\
                 Require ldap-attribute \"employeeType=secret agent\""
            ),
        ),
        ("twice", format!("{all}\nRequire ldap-group cn=nobody,dc=example,dc=org\nRequire ldap-group not-a-name")),
        ("missing", format!("{people}\nAuthLDAPRemoteUserAttribute cn\nRequire valid-user")),
        ("nourl", "Require valid-user".into()),
        ("fails", format!("{people}\nAuthLDAPBindDN {ADMIN}\nAuthLDAPBindPassword wrong\nRequire valid-user")),
    ];
    assert_eq!(places.len(), PLACES.len());
    let variables = [
        "AUTHENTICATE_UID",
        "AUTHENTICATE_MAIL",
        "AUTHENTICATE_NOTHING",
        "AUTHORIZE_MAIL",
        "X_TITLE",
        "LDAP_BINDASUSER",
    ];
    let known: String = variables.iter().map(|name| format!("|%{{reqenv:{name}}}")).collect();
    // No connection stays behind.
    let shown = format!("LDAPConnectionPoolTTL 0\nHeader set X-Known \"expr=%{{REMOTE_USER}}{known}\"\n");
    places.iter().map(|(place, lines)| section(place, lines)).collect::<String>() + &shown
}

fn build(site: &Site) {
    for place in PLACES {
        site.page(&format!("{place}/f.html"), "x\n");
    }
}

/// Each kind of line, with each user: the answer, the variables, and what is logged.
#[test]
fn who_may_as_in_apache() {
    if !needs::SLAPD.is_there("who_may_as_in_apache") {
        return;
    }
    let slapd = Slapd::start(ENTRIES);
    let mut cases = Vec::new();
    for place in PLACES {
        // Names that are none are so everywhere.
        let users = if place == "valid" { USERS.len() } else { 5 };
        for (user, password) in USERS.into_iter().take(users) {
            let bytes = request(&format!("/{place}/f.html"), user, password).into_bytes();
            cases.push(Case { name: format!("{place} {user}:{password}"), bytes });
        }
        cases.push(Case::of(&format!("GET /{place}/f.html")));
    }
    oracle::compare(
        "who_may_as_in_apache",
        build,
        &configuration(&slapd),
        &cases,
        &[Allowed {
            case: "dn-server ann:fine",
            what: "*",
            entry: "A user whose name the directory writes differently",
        }],
    );
}

const VALID: &str = "AuthLDAPURL DIRECTORY/ou=people,dc=example,dc=org?uid\nRequire valid-user";

/// A server whose users are those of this directory.
fn configured(slapd: &Slapd, lines: &str) -> String {
    format!("{lines}\n{}", section("valid", &VALID.replace("DIRECTORY", &slapd.url())))
}

/// What was right once is remembered for all children, and a wrong password never is; a connection is used again.
#[test]
fn answers_are_remembered() {
    if !needs::SLAPD.is_there("answers_are_remembered") {
        return;
    }
    for (mpm, lines) in [(Mpm::Percore, ""), (Mpm::Prefork, "StartServers 3\nMaxConnectionsPerChild 1")] {
        let mut slapd = Slapd::start(ENTRIES);
        let site = Site::new();
        build(&site);
        let lines =
            format!("{lines}\nLDAPConnectionPoolTTL 0\n<Location /status>\nSetHandler ldap-status\n</Location>");
        let server = Server::start(mpm, &site, &configured(&slapd, &lines));
        server.allow("auth_basic:error");
        let status = |password: &str| log_in(&site, "/valid/f.html", "joe", password).status;
        assert_eq!([status("bad"), status("good")], [401, 200]);
        let binds = slapd.count("BIND dn=\"uid=joe");
        for _ in 0..10 {
            assert_eq!(status("good"), 200, "{mpm}");
        }
        assert_eq!(slapd.count("BIND dn=\"uid=joe"), binds, "{mpm}: no password is tried twice");
        assert_eq!(status("bad"), 401, "{mpm}");
        slapd.modify(
            "dn: uid=joe,ou=people,dc=example,dc=org\nchangetype: modify\nreplace: userPassword\nuserPassword: new\n",
        );
        assert_eq!(
            [status("new"), status("good")],
            [200, 401],
            "{mpm}: the new one is tried, and replaces the old one"
        );
        // What is remembered needs no directory.
        slapd.end();
        assert_eq!([status("new"), status("good")], [200, 500], "{mpm}");
        let page = log_in(&site, "/status", "x", "x").text();
        assert!(page.contains("<td>Searches</td><td>1 ("), "{page}");
        slapd.begin_again();
        assert_eq!(status("good"), 401, "{mpm}");
    }
}

/// A directory that accepts and says nothing holds up nobody but those who ask it, and those not for ever.
#[test]
fn a_silent_directory_holds_up_nobody() {
    if !needs::SLAPD.is_there("a_silent_directory_holds_up_nobody") {
        return;
    }
    let slapd = Slapd::start(ENTRIES);
    for mpm in [Mpm::Percore, Mpm::Event] {
        let site = Site::new();
        build(&site);
        site.page("f.txt", "x\n");
        let lines = "LDAPTimeout 1\nLDAPRetries 0\nLDAPConnectionPoolTTL 0\nThreadsPerChild 2\nMaxRequestWorkers 2\nServerLimit 1";
        let lines = if mpm == Mpm::Event { lines } else { &lines[..lines.find("Threads").expect("lines")] };
        let server = Server::start(mpm, &site, &configured(&slapd, lines));
        server.allow("AH10159");
        server.allow("AH00484");
        assert_eq!(log_in(&site, "/valid/f.html", "joe", "good").status, 200);
        slapd.signal(Signal::STOP);
        let mut waiting: Vec<Client> = (0..3).map(|_| Client::connect(site.address())).collect();
        for client in &mut waiting {
            client.send(request("/valid/f.html", "ann", "fine"));
        }
        // All of them wait, and so would this request.
        let began = Instant::now();
        assert_eq!(log_in(&site, "/valid/f.html", "joe", "good").status, 200, "{mpm}: this one is known");
        assert_eq!(server.get("/f.txt").status, 200);
        assert!(began.elapsed() < Duration::from_millis(900), "{mpm}: {:?}", began.elapsed());
        let statuses: Vec<u16> = waiting.iter_mut().map(|client| client.response().status).collect();
        assert_eq!(statuses, [500; 3], "{mpm}");
        slapd.signal(Signal::CONT);
        assert_eq!(log_in(&site, "/valid/f.html", "ann", "fine").status, 200, "{mpm}");
    }
}

/// Where there is no directory, nobody gets in; of several hosts, one is enough.
#[test]
fn hosts() {
    if !needs::SLAPD.is_there("hosts") {
        return;
    }
    let slapd = Slapd::start(ENTRIES);
    let base = "/ou=people,dc=example,dc=org";
    let host = slapd.url().trim_start_matches("ldap://").trim_end_matches(&format!(":{PORT}")).to_string();
    let places = [
        ("valid", format!("ldap://{host}:1 {host}:{PORT}{base}")),
        ("user", format!("{}{base}", slapd.local_url())),
        ("group", format!("ldap://{host}:1{base}")),
        ("open", format!("ldap://no-such-host.invalid{base}")),
        ("dn", "ldapi://%2Fnone".to_string()),
    ];
    let lines = places.map(|(place, url)| section(place, &format!("AuthLDAPURL \"{url}\"\nRequire valid-user")));
    let site = Site::new();
    build(&site);
    let server = Server::start(Mpm::Percore, &site, &format!("LDAPConnectionPoolTTL 0\n{}", lines.concat()));
    for place in ["valid", "user"] {
        assert_eq!(log_in(&site, &format!("/{place}/f.html"), "joe", "good").status, 200, "{place}");
    }
    for place in ["group", "open", "dn"] {
        assert_eq!(log_in(&site, &format!("/{place}/f.html"), "joe", "good").status, 500, "{place}");
    }
    drop(server);
}

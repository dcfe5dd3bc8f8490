//! Users and groups of a directory (mod_ldap, mod_authnz_ldap), with a slapd and compared with Apache.

use std::time::{Duration, Instant};

use crate::auth::passwords::request;
use crate::harness::mpm::{Mpm, test_name};
use crate::harness::needs;
use crate::harness::oracle::{self, Allowed, Case};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::slapd::{ADMIN, ADMIN_PASSWORD, PORT, Slapd};
use crate::harness::wire::{Client, Response};

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

/// All users, also those that may not log in.
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
    // No connection stays open.
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
fn rights_as_in_apache() {
    if !needs::SLAPD.is_there("rights_as_in_apache") {
        return;
    }
    let slapd = Slapd::start(ENTRIES);
    let mut cases = Vec::new();
    for place in PLACES {
        // Invalid names are invalid everywhere.
        let users = if place == "valid" { USERS.len() } else { 5 };
        for (user, password) in USERS.into_iter().take(users) {
            let bytes = request(&format!("/{place}/f.html"), user, password).into_bytes();
            cases.push(Case { name: format!("{place} {user}:{password}"), bytes });
        }
        cases.push(Case::of(&format!("GET /{place}/f.html")));
    }
    oracle::compare(
        "rights_as_in_apache",
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

/// The contents of another directory, and names that are not in UTF-8.
#[test]
fn other_directories_and_charsets_as_in_apache() {
    if !needs::SLAPD.is_there("other_directories_and_charsets_as_in_apache") {
        return;
    }
    let base = "dn: dc=example,dc=org\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example\n\n";
    let far = Slapd::start(&format!(
        "{base}dn: ou=away,dc=example,dc=org\nobjectClass: organizationalUnit\nou: away\n\n\
         dn: uid=far,ou=away,dc=example,dc=org\nobjectClass: inetOrgPerson\nuid: far\ncn: Far\nsn: Far\n\
         userPassword: off\n"
    ));
    let near = Slapd::start(&format!(
        "{base}dn: ou=away,dc=example,dc=org\nobjectClass: referral\nobjectClass: extensibleObject\nou: away\n\
         ref: {}/ou=away,dc=example,dc=org\n\n\
         dn: cn=jose,dc=example,dc=org\nobjectClass: inetOrgPerson\nuid:: am9zw6k=\ncn: jose\nsn: J\nuserPassword: pw\n",
        far.url()
    ));
    let url = format!("AuthLDAPURL {}/dc=example,dc=org?uid,sn", near.url());
    let places = [
        ("on", "ldap", "Require valid-user"),
        ("user", "file", "Require ldap-user far"),
        ("attribute", "file", "Require ldap-attribute sn=Far"),
        ("other", "file", "Require ldap-attribute sn=Near"),
    ];
    let section = |(place, provider, lines): &(&str, &str, &str)| {
        format!(
            "<Location /{place}>\nAuthType Basic\nAuthName x\nAuthBasicProvider {provider}\nAuthUserFile conf/people\n\
             {url}\n{lines}\n</Location>\n"
        )
    };
    let sections = places.iter().map(section);
    let configuration =
        format!("LDAPConnectionPoolTTL 0\nAuthLDAPCharsetConfig conf/charsets\n{}", sections.collect::<String>());
    let mut cases: Vec<Case> = (places.iter())
        .map(|(place, ..)| Case {
            name: format!("{place} far"),
            bytes: request(&format!("/{place}/f.html"), "far", "off").into_bytes(),
        })
        .collect();
    for language in ["en", "en-US, de", "de"] {
        let bytes = format!(
            "GET /on/f.html HTTP/1.1\r\nHost: x\r\nAuthorization: Basic am9z6Tpwdw==\r\nAccept-Language: {language}\r\n\
             Connection: close\r\n\r\n"
        );
        cases.push(Case { name: format!("latin {language}"), bytes: bytes.into_bytes() });
    }
    let build = |site: &Site| {
        places.iter().for_each(|(place, ..)| drop(site.page(&format!("{place}/f.html"), "x\n")));
        site.file("conf/charsets", "en ISO-8859-1\nutf-8 utf8\n");
        site.file("conf/people", "far:{SHA}2npoc0Nngo4wuUkn9MK0PtLA9lI=\n");
    };
    oracle::compare("other_directories_and_charsets_as_in_apache", build, &configuration, &cases, &[]);

    // Apache uses a connection for all of them as the first wants it, and then fails or hangs.
    let site = Site::new();
    build(&site);
    let lines = ["off", "default"].map(|how| {
        let lines = format!("LDAPReferrals {how}\nRequire ldap-attribute sn=Far");
        section(&(if how == "off" { "user" } else { "other" }, "file", &lines))
    });
    let server = Server::start(Mpm::Percore, &site, &format!("LDAPConnectionPoolTTL 0\n{}", lines.concat()));
    server.allow("AH01631");
    let status = |place: &str| log_in(&site, &format!("/{place}/f.html"), "far", "off").status;
    assert_eq!([status("user"), status("other")], [401, 200]);
}

const VALID: &str = "AuthLDAPURL DIRECTORY/ou=people,dc=example,dc=org?uid\nRequire valid-user";

/// The configuration of a server whose users are in this directory.
fn configured(slapd: &Slapd, lines: &str) -> String {
    format!("{lines}\n{}", section("valid", &VALID.replace("DIRECTORY", &slapd.url())))
}

/// Successful log-ins are remembered for all children, wrong passwords never are; connections are reused.
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
        // Remembered results need no directory.
        slapd.end();
        assert_eq!([status("new"), status("good")], [200, 500], "{mpm}");
        let page = log_in(&site, "/status", "x", "x").text();
        assert!(page.contains("<td>Searches</td><td>1 ("), "{page}");
        slapd.begin_again();
        assert_eq!(status("good"), 401, "{mpm}");
    }
}

/// A directory that accepts connections and never answers delays only the requests that need it, and those for a
/// limited time.
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
        let lines = "LDAPTimeout 3\nLDAPRetries 0\nLDAPConnectionPoolTTL 0\nThreadsPerChild 2\nMaxRequestWorkers 2\nServerLimit 1";
        let lines = if mpm == Mpm::Event { lines } else { &lines[..lines.find("Threads").expect("lines")] };
        let server = Server::start(mpm, &site, &configured(&slapd, lines));
        server.allow("AH10159");
        server.allow("AH00484");
        assert_eq!(log_in(&site, "/valid/f.html", "joe", "good").status, 200);
        slapd.stop();
        let mut waiting: Vec<Client> = (0..3).map(|_| Client::connect(site.address())).collect();
        for client in &mut waiting {
            client.send(request("/valid/f.html", "ann", "fine"));
        }
        // All of them wait, and so would these requests.
        assert_eq!(log_in(&site, "/valid/f.html", "joe", "good").status, 200, "{mpm}: this one is known");
        assert_eq!(server.get("/f.txt").status, 200);
        assert!(!waiting.iter_mut().any(Client::has_input), "{mpm}: the directory's time is over");
        let statuses: Vec<u16> = waiting.iter_mut().map(|client| client.response().status).collect();
        assert_eq!(statuses, [500; 3], "{mpm}");
        slapd.go_on();
        assert_eq!(log_in(&site, "/valid/f.html", "ann", "fine").status, 200, "{mpm}");
    }
}

/// Without a directory, all log-ins are refused; of several hosts, one is enough.
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

/// A chain of groups, as deep as they are looked into, in every kind of thread.
#[test]
fn groups_in_groups_in_groups() {
    if !needs::SLAPD.is_there("groups_in_groups_in_groups") {
        return;
    }
    let group = |number: usize| format!("cn=g{number},ou=groups,dc=example,dc=org");
    let chain: String = (0..10)
        .map(|number| {
            let (dn, below) = (group(number), group(number + 1));
            format!("\ndn: {dn}\nobjectClass: groupOfNames\ncn: g{number}\nmember: {below}\n")
        })
        .collect();
    let last = format!(
        "\ndn: {}\nobjectClass: groupOfNames\ncn: g10\nmember: uid=joe,ou=people,dc=example,dc=org\n",
        group(10)
    );
    let slapd = Slapd::start(&format!("{ENTRIES}{chain}{last}"));
    let url = format!("AuthLDAPURL {}/ou=people,dc=example,dc=org?uid", slapd.url());
    let lines = section("deep", &format!("{url}\nRequire ldap-group {}", group(0)));
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        build(&site);
        let server = Server::start(mpm, &site, &format!("ThreadStackSize 65536\nLDAPConnectionPoolTTL 0\n{lines}"));
        server.allow_everything("each refused user is logged");
        let status = |user: &str, password: &str| log_in(&site, "/deep/f.html", user, password).status;
        assert_eq!([status("joe", "good"), status("ann", "fine")], [200, 401], "{mpm}");
    }
}

/// A connection is reused for the next user, and no request is refused because it has ended. A directory that does not
/// answer is asked again after a while; a user whose group membership is unknown is refused.
#[test]
fn connections_are_kept_and_tries_repeated() {
    if !needs::SLAPD.is_there("connections_are_kept_and_tries_repeated") {
        return;
    }
    let mut slapd = Slapd::start(ENTRIES);
    let site = Site::new();
    build(&site);
    let url = format!("AuthLDAPURL {}/ou=people,dc=example,dc=org?uid", slapd.url());
    let banned = ["group cn=low,ou=groups,dc=example,dc=org", "user joe", "attribute title=boss", "filter title=boss"];
    let banned: String = (["deep", "user", "attribute", "filter"].iter().zip(banned))
        .map(|(place, line)| {
            let lines = format!("<RequireAll>\nRequire valid-user\nRequire not ldap-{line}\n</RequireAll>");
            section(place, &format!("{url}\n{lines}"))
        })
        .collect();
    let lines = "ServerLimit 1\nThreadsPerChild 4\nMaxRequestWorkers 4\nLDAPRetries 2\nLDAPRetryDelay 50ms\n\
        LDAPOpCacheEntries 0\n";
    let server = Server::start(Mpm::Event, &site, &configured(&slapd, &format!("{lines}{banned}")));
    server.allow_everything("refused users and the lost directory are logged");
    let status =
        |place: &str, user: &str, password: &str| log_in(&site, &format!("/{place}/f.html"), user, password).status;
    assert_eq!(status("valid", "joe", "good"), 200);
    let connections = slapd.connections();
    assert_eq!(
        [status("valid", "ann", "fine"), status("valid", "ann", "bad"), status("valid", "x", "x")],
        [200, 401, 401]
    );
    for place in ["deep", "user", "attribute", "filter"] {
        assert_eq!([status(place, "joe", "good"), status(place, "ann", "fine")], [401, 200], "{place}");
    }
    assert_eq!((slapd.connections(), connections), (1, 1));

    slapd.end();
    slapd.begin_again();
    assert_eq!(status("valid", "back\\slash", "odd"), 200, "another connection is made");

    slapd.end();
    let began = Instant::now();
    assert_eq!(status("valid", "twin", "one"), 500);
    assert!((Duration::from_millis(100)..Duration::from_secs(5)).contains(&began.elapsed()), "{:?}", began.elapsed());
    for place in ["deep", "user", "attribute"] {
        assert_eq!([status(place, "joe", "good"), status(place, "ann", "fine")], [401; 2], "{place}");
    }
    // That he passes is remembered.
    assert_eq!([status("filter", "joe", "good"), status("filter", "ann", "fine")], [401; 2]);
}

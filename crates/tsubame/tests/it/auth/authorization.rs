//! Access control: `Require`, the directives of 2.2, passwords. Every table is also checked against Apache.

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::oracle;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::Client;

const BASIC: &str = "AuthType Basic\nAuthName x\nAuthBasicProvider file\nAuthUserFile ${ROOT}/conf/passwords\n";

/// A section for the whole site.
fn docs(inside: &str) -> String {
    format!("<Directory \"${{DOCS}}\">\n{inside}\n</Directory>\n")
}

/// A section for the directory of the requested file.
fn inner(inside: &str) -> String {
    format!("<Directory \"${{DOCS}}/d\">\n{inside}\n</Directory>\n")
}

fn build(site: &Site) {
    site.page("d/e/f.txt", "x\n");
    // joe's password is `secret`, in the forms that htpasswd writes.
    site.file("conf/passwords", "joe:$apr1$abcdefgh$9jCg0hVr5RIpMwaYQ4Cjd0\nann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n");
}

fn get(site: &Site, credentials: Option<&str>) -> u16 {
    get_from(site, "localhost", credentials)
}

fn get_from(site: &Site, host: &str, credentials: Option<&str>) -> u16 {
    let field = credentials.map(|word| format!("Authorization: Basic {word}\r\n")).unwrap_or_default();
    let request = format!("GET /d/e/f.txt HTTP/1.1\r\nHost: {host}\r\n{field}\r\n");
    Client::connect(site.address()).request(request).status
}

/// `ann:secret`
const GOOD: &str = "YW5uOnNlY3JldA==";
/// `ann:wrong`
const BAD: &str = "YW5uOndyb25n";

/// The target decides about an internal redirect, whatever its source.
#[test]
fn redirects_do_not_lead_around() {
    let build = |site: &Site| {
        site.script("lead", "#!/bin/sh\nprintf 'Location: /secret/x.txt\\n\\n'\n");
        site.page("secret/x.txt", "secret\n");
        site.page("open/a.txt", "open\n");
        site.page("fall/a.txt", "fall\n");
    };
    let configuration = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\nErrorDocument 410 /secret/x.txt\nRedirect gone /gone\n\
        <Directory ${DOCS}/open>\nDirectoryIndex /secret/x.txt\n</Directory>\n\
        <Directory ${DOCS}/secret>\nRequire all denied\n</Directory>";
    oracle::both("redirects_do_not_lead_around", build, configuration, |site| {
        for (path, status) in [("/secret/x.txt", 403), ("/cgi/lead", 403), ("/open/", 403), ("/gone", 410)] {
            let answer = Client::connect(site.address()).get(path);
            assert!(answer.status == status && !answer.text().contains("secret\n"), "{path}: {answer:?}");
        }
    });
}

/// Sections and `Require expr` that look something up wait for the password there.
#[test]
fn a_look_up_for_a_password_is_waited_for() {
    let configuration = format!(
        "<Location /secret>\n{BASIC}Require valid-user\n</Location>\nAlias /require ${{DOCS}}\nAlias /if ${{DOCS}}\n\
         Alias /not ${{DOCS}}\n<Location /require>\nRequire expr -U '/secret/d/e/f.txt'\n</Location>\n\
         <Location /not>\n<RequireAll>\nRequire all granted\nRequire not expr -U '/secret/d/e/f.txt'\n</RequireAll>\n</Location>\n\
         <Location /if>\n<If \"-U '/secret/d/e/f.txt'\">\nRequire all granted\n</If>\n<Else>\nRequire all denied\n</Else>\n</Location>\n\
         Alias /secret ${{DOCS}}\n<Directory ${{DOCS}}>\nRequire all granted\n</Directory>\n"
    );
    oracle::both("a_look_up_for_a_password_is_waited_for", build, &configuration, |site| {
        for (place, let_in, kept_out) in [("require", 200, 403), ("not", 403, 200), ("if", 200, 403)] {
            for (credentials, status) in [(GOOD, let_in), (BAD, kept_out)] {
                let text = format!(
                    "GET /{place}/d/e/f.txt HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {credentials}\r\n\r\n"
                );
                let answer = Client::connect(site.address()).request(text);
                assert_eq!(answer.status, status, "/{place} with {credentials}");
            }
        }
    });
}

/// A redirect that changes the method is judged anew, also where it leads to a place with the same settings: they may say
/// something else of that method.
#[test]
fn a_redirect_with_another_method_is_judged_anew() {
    let configuration = "ScriptAlias /cgi/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\n\
        <Limit GET>\nRequire all denied\n</Limit>\n</Directory>";
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::new();
        site.script("lead", "#!/bin/sh\nprintf 'Location: /cgi/secret\\n\\n'\n");
        site.script("secret", "#!/bin/sh\nprintf '\\n%s' \"$REQUEST_METHOD\"\n");
        let server = Server::start(mpm, &site, configuration);
        server.announce("AH01630");
        let post = |path: &str| {
            let text = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
            server.client().request(text)
        };
        assert_eq!((server.get("/cgi/secret").status, post("/cgi/secret").text().as_str()), (403, "POST"), "{mpm}");
        assert_eq!(post("/cgi/lead").status, 403, "{mpm}");
    }
}

/// A client of IPv4 is the same client where a socket of IPv6 has accepted it.
#[test]
fn addresses_of_ipv4_are_those_through_a_socket_of_ipv6() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::with([("old/f.txt", "x"), ("new/f.txt", "x"), ("closed/f.txt", "x")]);
        let configuration = format!(
            "Listen [::ffff:{}]:8081\n<Location /old>\nOrder deny,allow\nDeny from all\nAllow from 127.0.0.1\n</Location>\n\
             <Location /new>\nRequire ip 127.0.0.1\n</Location>\n\
             <Location /closed>\nOrder allow,deny\nAllow from all\nDeny from 127.0.0.0/8\n</Location>",
            site.ip
        );
        let server = Server::start(mpm, &site, &configuration);
        server.announce("AH01797");
        for port in [crate::harness::site::PORT, 8081] {
            let status = |path| Client::connect((site.ip, port).into()).get(path).status;
            let statuses = ["/old/f.txt", "/new/f.txt", "/closed/f.txt"].map(status);
            assert_eq!(statuses, [200, 200, 403], "{mpm} {port}");
        }
    }
}

#[test]
fn decisions_are_those_of_apache() {
    let denied = "Require all denied";
    let granted = "Require all granted";
    let rows: Vec<(&str, String, [u16; 2])> = vec![
        ("nothing at all", String::new(), [200, 200]),
        ("the inner section replaces", docs(denied) + &inner(granted), [200, 200]),
        ("the inner section replaces, 2", docs(granted) + &inner("Require ip 10.0.0.0/8"), [403, 403]),
        ("AuthMerging And", docs(granted) + &inner("AuthMerging And\nRequire ip 10.0.0.0/8"), [403, 403]),
        ("AuthMerging Or", docs(granted) + &inner("AuthMerging Or\nRequire ip 10.0.0.0/8"), [200, 200]),
        ("several: any of them", docs("Require ip 10\nRequire ip 127"), [200, 200]),
        ("RequireAll", docs("<RequireAll>\nRequire ip 127\nRequire not ip 127.0.0.1\n</RequireAll>"), [403, 403]),
        (
            "networks in a row, and something between them",
            docs(&format!("{BASIC}Require ip 10\nRequire ip 11\nRequire valid-user\nRequire ip 12\nRequire ip 13")),
            [401, 200],
        ),
        (
            "networks in a row, the last one",
            docs(&format!(
                "{BASIC}Require ip 10\nRequire user nobody\nRequire ip 11 12\nRequire ip 13\nRequire ip 127"
            )),
            [200, 200],
        ),
        (
            "networks in a row for other methods",
            docs("Require ip 10\n<Limit POST>\nRequire ip 127\n</Limit>\nRequire ip 11"),
            [403, 403],
        ),
        (
            "RequireAll of many negative ones",
            docs(
                "<RequireAll>\nRequire not ip 10\nRequire not ip 11\nRequire all granted\nRequire not ip 12\n</RequireAll>",
            ),
            [200, 200],
        ),
        (
            "RequireAll of many negative ones, the last",
            docs(
                "<RequireAll>\nRequire all granted\nRequire not ip 10\nRequire not ip 11\nRequire not ip 127\n</RequireAll>",
            ),
            [403, 403],
        ),
        (
            "RequireAll of positive ones",
            docs("<RequireAll>\nRequire ip 127\nRequire ip 127.0\nRequire ip 10\n</RequireAll>"),
            [403, 403],
        ),
        (
            "RequireAll and RequireNone",
            docs("<RequireAll>\nRequire all granted\n<RequireNone>\nRequire ip 10\n</RequireNone>\n</RequireAll>"),
            [200, 200],
        ),
        ("Files over Directory", docs(granted) + "<Files \"f.txt\">\nRequire all denied\n</Files>", [403, 403]),
        (
            "Location over Files",
            "<Files \"f.txt\">\nRequire all denied\n</Files>\n<Location /d>\nRequire all granted\n</Location>".into(),
            [200, 200],
        ),
        (
            "If over Location",
            "<Location /d>\nRequire all granted\n</Location>\n<If \"true\">\nRequire all denied\n</If>".into(),
            [403, 403],
        ),
        ("valid-user", docs(&format!("{BASIC}Require valid-user")), [401, 200]),
        ("another user", docs(&format!("{BASIC}Require user bob")), [401, 401]),
        ("AuthType without Require", docs(BASIC), [500, 500]),
        ("valid-user without AuthType", docs("Require valid-user"), [500, 500]),
        ("an address or a user", docs(&format!("{BASIC}Require ip 127\nRequire valid-user")), [200, 200]),
        ("another address or a user", docs(&format!("{BASIC}Require ip 10\nRequire valid-user")), [401, 200]),
        (
            "method, env, expr",
            docs(
                "SetEnvIf Request_URI \"f\" ok\n<RequireAll>\nRequire method GET\nRequire env ok\n\
                 Require expr %{REQUEST_URI} =~ /txt$/\n</RequireAll>",
            ),
            [200, 200],
        ),
        ("Order allow,deny: nobody", docs("Order allow,deny"), [403, 403]),
        ("Order deny,allow: everybody", docs("Order deny,allow"), [200, 200]),
        ("Allow wins", docs("Order Deny,Allow\nDeny from all\nAllow from 127.0.0.1"), [200, 200]),
        ("Deny wins", docs("Order Allow,Deny\nAllow from 127.0.0.1\nDeny from all"), [403, 403]),
        ("Deny without Order", docs("Deny from 127.0.0.1"), [403, 403]),
        ("old denies, new grants", docs("Order allow,deny\nDeny from all\nRequire all granted"), [403, 403]),
        ("old allows, new denies", docs("Order allow,deny\nAllow from all\nRequire all denied"), [403, 403]),
        (
            "old denies outside, new grants inside",
            docs("Order deny,allow\nDeny from all") + &inner(granted),
            [403, 403],
        ),
        (
            "new denies outside, old allows inside",
            docs(denied) + &inner("Order allow,deny\nAllow from all"),
            [403, 403],
        ),
        (
            "Satisfy Any: one of both",
            docs(&format!("{BASIC}Order deny,allow\nDeny from all\nRequire valid-user\nSatisfy Any")),
            [401, 200],
        ),
        (
            "Satisfy All: both",
            docs(&format!("{BASIC}Order deny,allow\nDeny from all\nAllow from 127.0.0.1\nRequire valid-user")),
            [401, 200],
        ),
        (
            "Satisfy Any: the address will do",
            docs(&format!(
                "{BASIC}Order deny,allow\nDeny from all\nAllow from 127.0.0.1\nRequire valid-user\nSatisfy Any"
            )),
            [200, 200],
        ),
        (
            "Allow from env",
            docs("SetEnvIf Host \"local\" h\nOrder deny,allow\nDeny from all\nAllow from env=h"),
            [200, 200],
        ),
        ("Limit POST", docs("<Limit POST>\nRequire all denied\n</Limit>\nRequire all granted"), [200, 200]),
        ("Limit POST, before 2.4", docs("Order deny,allow\n<Limit POST>\nDeny from all\n</Limit>"), [200, 200]),
        (
            "a name in groups",
            docs("<RequireAll>\n<RequireAny>\nRequire ip 10\nRequire host localhost\n</RequireAny>\n</RequireAll>"),
            [200, 200],
        ),
        ("what stands behind # is no name", docs("Require forward-dns # localhost"), [403, 403]),
        ("LimitExcept POST", docs("<LimitExcept POST>\nRequire all denied\n</LimitExcept>"), [403, 403]),
    ];
    // Each row is a host: a server for each would take most of a minute to start.
    let hosts = rows.iter().enumerate().map(|(index, (_, lines, _))| {
        format!("<VirtualHost *>\nServerName row{index}.local\nDocumentRoot ${{DOCS}}\n{lines}\n</VirtualHost>\n")
    });
    oracle::both("decisions_are_those_of_apache", build, &hosts.collect::<String>(), |site| {
        for (index, (name, _, wanted)) in rows.iter().enumerate() {
            let ask = |credentials| get_from(site, &format!("row{index}.local"), credentials);
            assert_eq!([ask(None), ask(Some(GOOD))], *wanted, "{name}");
        }
    });
}

/// Wrong passwords, broken fields, and the challenge.
#[test]
fn a_password_is_asked_for() {
    let configuration = docs(&format!("{BASIC}Require valid-user"));
    oracle::both("a_password_is_asked_for", build, &configuration, |site| {
        let answer = Client::connect(site.address()).get("/d/e/f.txt");
        assert_eq!((answer.status, answer.field("WWW-Authenticate")), (401, Some("Basic realm=\"x\"")));
        assert!(!answer.text().contains("x\n<"), "{}", answer.text());
        for wrong in [BAD, "", "%%%", "YW5u", "OnNlY3JldA==", "bm9ib2R5OnNlY3JldA=="] {
            assert_eq!(get(site, Some(wrong)), 401, "{wrong:?}");
        }
        assert_eq!(get(site, Some(GOOD)), 200);
    });
}

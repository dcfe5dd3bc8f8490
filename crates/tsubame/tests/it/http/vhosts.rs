//! Which virtual host answers. Every table holds for Apache too.

use std::net::SocketAddr;

use crate::harness::observe::{log_line, variable};
use crate::harness::oracle;
use crate::harness::site::{PORT, Site};
use crate::harness::wire::Client;

/// A virtual host that says its name.
fn host(addresses: &str, inside: &str, says: &str) -> String {
    format!("<VirtualHost {addresses}>\n{inside}\nSetEnvIf Request_URI . v={says}\n</VirtualHost>\n")
}

/// `Host` field (`None`: no such field), port, status, and who answered.
type Row = (Option<&'static str>, u16, u16, &'static str);

fn check(test: &str, configuration: &str, rows: &[Row]) {
    let configuration = format!("{}SetEnvIf Request_URI . v=main\n{configuration}", log_line("v"));
    oracle::both(
        test,
        |site| _ = site.page("index.html", "hello\n"),
        &configuration,
        |site| {
            for (host, port, status, expected) in rows {
                let mut client = Client::connect(SocketAddr::new(site.ip.into(), *port));
                let (line, fields) = match host {
                    Some(host) => ("GET / HTTP/1.1", format!("Host: {host}\r\n")),
                    None => ("GET / HTTP/1.0", String::new()),
                };
                let (response, who) = variable(site, &mut client, line, &fields);
                assert_eq!((response.status, who.as_str()), (*status, *expected), "Host: {host:?} to port {port}");
            }
        },
    );
}

#[test]
fn names_are_tried_in_file_order() {
    let configuration = [
        host("*:8080", "ServerName a.example\nServerAlias www.a.example\nServerAlias *.wild.example", "one"),
        host("*:8080", "ServerName b.example\nServerAlias a.example\nServerAlias x.wild.example", "two"),
        host("*:8080", "ServerName c.example:9999", "three"),
    ];
    let rows = [
        (Some("a.example"), PORT, 200, "one"),
        (Some("A.EXAMPLE"), PORT, 200, "one"),
        (Some("a.example."), PORT, 200, "one"),
        (Some("www.a.example"), PORT, 200, "one"),
        (Some("b.example:1234"), PORT, 200, "two"),
        (Some("x.wild.example"), PORT, 200, "one"),
        (Some("c.example"), PORT, 200, "three"),
        (Some("unknown"), PORT, 200, "one"),
        (None, PORT, 200, "one"),
        (Some("127.0.0.1"), PORT, 200, "one"),
    ];
    check("names_are_tried_in_file_order", &configuration.concat(), &rows);
}

#[test]
fn the_address_decides_before_the_name() {
    let configuration = [
        "Listen ${ADDR}:8081\nListen ${ADDR}:8082\n".to_string(),
        host("*:8080", "ServerName a.example", "star"),
        host("${ADDR}:8081", "ServerName b.example", "ip"),
        host("*:8081", "ServerName c.example", "never"),
    ];
    let rows = [
        (Some("a.example"), PORT, 200, "star"),
        (Some("a.example"), 8081, 200, "ip"),
        (Some("b.example"), PORT, 200, "star"),
        (Some("c.example"), 8081, 200, "ip"),
        (Some("a.example"), 8082, 200, "main"),
    ];
    check("the_address_decides_before_the_name", &configuration.concat(), &rows);
}

#[test]
fn any_port_default_and_several_addresses() {
    let configuration = [
        "Listen ${ADDR}:8081\nListen ${ADDR}:8082\n".to_string(),
        host("*", "ServerName a.example", "no port"),
        host("_default_:8081", "ServerName b.example", "default 8081"),
        host("${ADDR}:8082 ${ADDR}:8081", "ServerName c.example", "two addresses"),
    ]
    .concat()
    .replace("v=no port", "v=noport")
    .replace("v=default 8081", "v=default")
    .replace("v=two addresses", "v=two");
    let rows = [
        (Some("a.example"), PORT, 200, "noport"),
        (Some("b.example"), 8081, 200, "two"),
        (Some("c.example"), 8082, 200, "two"),
        (Some("zzz"), PORT, 200, "noport"),
    ];
    check("any_port_default_and_several_addresses", &configuration, &rows);
}

#[test]
fn a_host_without_name_and_a_name_twice() {
    let configuration = [
        host("*:8080", "", "noname"),
        host("*:8080", "ServerName d.example", "d1"),
        host("*:8080", "ServerName d.example", "d2"),
        host("*:9999", "ServerName e.example", "never"),
    ];
    let rows = [
        (Some("d.example"), PORT, 200, "d1"),
        (Some("zzz"), PORT, 200, "noname"),
        (Some("localhost"), PORT, 200, "noname"),
        (Some("e.example"), PORT, 200, "noname"),
    ];
    check("a_host_without_name_and_a_name_twice", &configuration.concat(), &rows);
}

#[test]
fn strict_names() {
    let configuration = ["StrictHostCheck On\n".to_string(), host("*:8080", "ServerName a.example", "one")];
    let rows = [(Some("a.example"), PORT, 200, "one"), (Some("zzz"), PORT, 400, "-")];
    check("strict_names", &configuration.concat(), &rows);
}

/// The name in an absolute target wins over the field.
#[test]
fn an_absolute_target_wins() {
    let hosts = [host("*:8080", "ServerName a.example", "one"), host("*:8080", "ServerName b.example", "two")].concat();
    let build = |site: &Site| _ = site.page("index.html", "hello\n");
    let configuration = format!("{}{hosts}", log_line("v"));
    oracle::both("an_absolute_target_wins", build, &configuration, |site| {
        let mut client = Client::connect(site.address());
        let line = "GET http://b.example/ HTTP/1.1";
        assert_eq!(variable(site, &mut client, line, "Host: a.example\r\n").1, "two");
    });
}

/// Settings of the main server hold in a virtual host where it has none of its own.
#[test]
fn a_host_inherits_from_the_main_server() {
    let configuration = "ErrorDocument 404 main\nErrorDocument 403 main\n\
        <VirtualHost *:8080>\nServerName a.example\nErrorDocument 404 \"of a\"\n</VirtualHost>\n\
        <VirtualHost *:8080>\nServerName b.example\nDocumentRoot ${ROOT}/other\n</VirtualHost>";
    let build = |site: &Site| {
        site.page("index.html", "main\n");
        site.file("other/index.html", "other\n");
    };
    oracle::both("a_host_inherits_from_the_main_server", build, configuration, |site| {
        let get = |host: &str, path: &str| {
            Client::connect(site.address()).request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).text()
        };
        assert_eq!(get("a.example", "/"), "main\n");
        assert_eq!(get("a.example", "/none"), "of a");
        assert_eq!(get("b.example", "/"), "other\n");
        assert_eq!(get("b.example", "/none"), "main");
    });
}

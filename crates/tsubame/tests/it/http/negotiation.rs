//! Type maps that are none.

use std::process::Command;

use crate::harness::mpm::Mpm;
use crate::harness::oracle::both;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::{Client, get};

/// Opening a pipe to read would wait for a writer: pipes are refused, and the other requests are served.
#[test]
fn a_pipe_is_no_type_map() {
    let build = |site: &crate::harness::site::Site| {
        site.page("a.var", "URI: a.txt\nContent-Type: text/plain\n");
        site.page("a.txt", "a");
        let made = Command::new("mkfifo").arg(site.root.join("htdocs/b.var")).status();
        assert!(made.expect("mkfifo").success());
    };
    both("a_pipe_is_no_type_map", build, "AddHandler type-map .var\nOptions MultiViews", |site| {
        for (path, status) in [("/b.var", 403), ("/b", 404), ("/a.var", 200), ("/a", 200)] {
            let mut client = Client::connect(site.address());
            client.send(get(path));
            assert_eq!(client.response().status, status, "{path}");
        }
    });
}

/// A directory that is said to be a type map is one without variants.
#[test]
fn a_directory_is_an_empty_type_map() {
    let build = |site: &Site| _ = site.page("d/f.txt", "f");
    both("a_directory_is_an_empty_type_map", build, "<Location /d>\nSetHandler type-map\n</Location>", |site| {
        assert_eq!(Client::connect(site.address()).get("/d/").status, 406);
    });
}

/// So many files that begin like the name asked for are an error, not a request that is under way for ever.
#[test]
fn a_name_has_so_many_variants() {
    let site = Site::new();
    for number in 0..1000 {
        site.page(&format!("a.{number}"), "");
    }
    let server = Server::start(Mpm::Percore, &site, "<Directory ${DOCS}>\nOptions MultiViews\n</Directory>");
    server.announce("AH00687: Negotiation: discovered file(s) matching request");
    assert_eq!(server.get("/a").status, 404);
    site.page("a.txt", "a");
    server.announce("more than 1000 files begin with a: ");
    server.announce("AH00686: cannot read directory for multi");
    assert_eq!(server.get("/a").status, 403);
}

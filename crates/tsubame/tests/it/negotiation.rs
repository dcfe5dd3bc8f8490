//! Type maps that are none.

use std::process::Command;

use crate::oracle::both;
use crate::wire::{Client, get};

/// Whoever reads a pipe waits for somebody to write into it: it is refused, and the others are served.
#[test]
fn a_pipe_is_no_type_map() {
    let build = |site: &crate::site::Site| {
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

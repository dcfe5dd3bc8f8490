//! Files: always fresh, odd names, symbolic links, and no way out of the document root.

use std::os::unix::fs::{PermissionsExt, symlink};

use crate::harness::mpm::under_percore_and;
use crate::harness::oracle::{self, Allowed, Case, compare};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::Client;

under_percore_and! { event:
    /// The next request gets the current content of the disk, also over the same connection.
    fn a_changed_file_is_seen_at_once(mpm: Mpm) {
        let site = Site::with([("a.txt", "first")]);
        let server = Server::start(mpm, &site, "");
        let mut client = server.client();
        for round in 0..50 {
            // The length stays the same: only content and time tell.
            let text = format!("round {round:03}");
            site.page("a.txt", &text);
            let response = client.get("/a.txt");
            assert_eq!((response.status, response.text()), (200, text));
        }
        for round in 0..10 {
            // Another file of the same name.
            site.page("new", format!("replaced {round}"));
            std::fs::rename(site.root.join("htdocs/new"), site.root.join("htdocs/a.txt")).expect("rename");
            assert_eq!(client.get("/a.txt").text(), format!("replaced {round}"));
            std::fs::remove_file(site.root.join("htdocs/a.txt")).expect("remove");
            assert_eq!(client.get("/a.txt").status, 404);
        }
    }

    /// Large files too, and a validator never outlives its content.
    fn a_large_file_is_fresh_too(mpm: Mpm) {
        let site = Site::new();
        let server = Server::start(mpm, &site, "");
        let mut client = server.client();
        for byte in [b'a', b'b', b'c'] {
            site.page("large", vec![byte; 1 << 20]);
            let response = client.get("/large");
            assert_eq!(response.body.len(), 1 << 20);
            assert!(response.body.iter().all(|have| *have == byte), "stale content");
            let tag = response.field("ETag").expect("a tag").to_string();
            let again = client.request(format!("GET /large HTTP/1.1\r\nHost: a\r\nIf-None-Match: {tag}\r\n\r\n"));
            assert_eq!(again.status, 304);
        }
    }

    /// A file that is cut short while it is sent ends the connection: a client must not take a part for the whole.
    fn a_file_that_shrinks_is_not_passed_off_as_whole(mpm: Mpm) {
        let site = Site::new();
        let path = site.page("large", vec![b'x'; 64 << 20]);
        let server = Server::start(mpm, &site, "");
        let mut client = server.client();
        client.send(crate::harness::wire::get("/large"));
        client.bytes(1000);
        std::fs::File::options().write(true).open(path).and_then(|file| file.set_len(1 << 20)).expect("truncate");
        let (rest, _) = client.rest();
        assert!(rest.len() < 64 << 20);
    }

    /// Names are bytes.
    fn names_may_have_any_bytes(mpm: Mpm) {
        let site = Site::new();
        let mut names: Vec<Vec<u8>> = (1..=255u8).filter(|byte| *byte != b'/').map(|byte| vec![b'n', byte, b'x']).collect();
        names.extend([b"%41".to_vec(), b"a%2fb".to_vec(), b"...".to_vec(), b"~".to_vec(), b"x".repeat(255)]);
        for name in &names {
            site.odd_page(name, &format!("{name:?}"));
        }
        let server = Server::start(mpm, &site, "MaxKeepAliveRequests 0");
        let mut client = server.client();
        for name in &names {
            let path: String = name.iter().map(|byte| format!("%{byte:02x}")).collect();
            let response = client.get(&format!("/{path}"));
            assert_eq!((response.status, response.text()), (200, format!("{name:?}")), "{path}");
        }
    }
}

/// Ways out of the document root, and encodings that could hide one.
#[test]
fn there_is_no_way_out() {
    let build = |site: &Site| {
        site.page("index.html", "index\n");
        site.page("d/f.txt", "inside\n");
        site.file("secret.txt", "outside\n");
    };
    let paths = [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/%2e%2e%2fsecret.txt",
        "/..%2fsecret.txt",
        "/d/../../secret.txt",
        "/d/%2e%2e/%2e%2e/secret.txt",
        "/d/..%5c..%5csecret.txt",
        "/d/..\\..\\secret.txt",
        "/%252e%252e/secret.txt",
        "//../secret.txt",
        "/./../secret.txt",
        "/d/.%2e/../secret.txt",
        "/.../secret.txt",
        "/..;/secret.txt",
        "/d/..%00/../secret.txt",
        "/%c0%ae%c0%ae/secret.txt",
        "/%uff0e%uff0e/secret.txt",
        "/d/f.txt/../../../secret.txt",
        "/d/f.txt%2f",
        "/d%2ff.txt",
        "/d/f.txt/",
        "/d/f.txt/.",
        "/d/./f.txt",
        "/d/x/../f.txt",
        "/d//f.txt",
        "/d/f.txt%00",
        "/d/f.txt%0a",
        "/d/f.txt%20",
        "/d/f.txt.",
        "/D/f.txt",
    ];
    let cases: Vec<Case> = paths
        .iter()
        .map(|path| Case { name: path.to_string(), bytes: crate::harness::wire::get(path).into_bytes() })
        .collect();
    for configuration in ["", "AllowEncodedSlashes On", "AllowEncodedSlashes NoDecode", "MergeSlashes Off"] {
        let status = |case, entry| Allowed { case, what: "status", entry };
        let allowed = [
            status("/d/..%00/../secret.txt", "A NUL in a part that is taken back"),
            status("/%2e%2e%2fsecret.txt", "A path that leaves the root when it is decoded"),
            status("/..%2fsecret.txt", "A path that leaves the root when it is decoded"),
        ];
        let undecoded = ["/%2e%2e%2fsecret.txt", "/..%2fsecret.txt", "/d/f.txt%2f", "/d%2ff.txt", "/d/f.txt%00"]
            .map(|case| Allowed { case, what: "%U", entry: "The path of a request that cannot be decoded" });
        let allowed: Vec<Allowed> = allowed.into_iter().chain(undecoded).collect();
        compare("there_is_no_way_out", build, configuration, &cases, &allowed);
    }
    let site = Site::new();
    build(&site);
    let server = Server::start(crate::harness::mpm::Mpm::Percore, &site, "");
    server.allow("AH10244: invalid URI path");
    for path in paths {
        let mut client = server.client();
        assert!(!client.get(path).text().contains("outside"), "{path}");
    }
}

/// Symbolic links under each of the `Options` about them.
#[test]
fn links_are_followed_where_they_may_be() {
    let build = |site: &Site| {
        site.page("a.txt", "a\n");
        site.page("d/f.txt", "f\n");
        site.file("out/f.txt", "out\n");
        let docs = site.root.join("htdocs");
        symlink("a.txt", docs.join("link.txt")).expect("link");
        symlink("d", docs.join("linkdir")).expect("link");
        symlink("../out", docs.join("outside")).expect("link");
        symlink("nothing", docs.join("broken")).expect("link");
        symlink("loop", docs.join("loop")).expect("link");
        symlink("/etc/hostname", docs.join("others")).expect("link");
    };
    let all = ["/link.txt", "/linkdir/f.txt", "/linkdir/", "/outside/f.txt", "/broken", "/loop", "/a.txt", "/d/f.txt"];
    for options in ["None", "FollowSymLinks", "SymLinksIfOwnerMatch", "All", "Indexes"] {
        let configuration = format!("<Directory \"${{DOCS}}\">\nOptions {options}\n</Directory>");
        let cases: Vec<Case> = all
            .iter()
            .map(|path| Case {
                name: format!("{path} with {options}"),
                bytes: crate::harness::wire::get(path).into_bytes(),
            })
            .collect();
        let listing = |site: &Site| build(site);
        let allowed = [
            Allowed { case: "*", what: "%f", entry: "The file of a request" },
            Allowed { case: "*", what: "error log", entry: "A symbolic link that leads in a circle" },
        ];
        compare("links_are_followed_where_they_may_be", listing, &configuration, &cases, &allowed);
    }
}

/// Special files, and files that must not be read.
#[test]
fn only_readable_files_are_served() {
    let build = |site: &Site| {
        let closed = site.page("closed.txt", "closed\n");
        std::fs::set_permissions(closed, std::fs::Permissions::from_mode(0o000)).expect("mode");
        site.page("locked/f.txt", "f\n");
        let locked = site.root.join("htdocs/locked");
        std::fs::set_permissions(locked, std::fs::Permissions::from_mode(0o000)).expect("mode");
        let _socket = std::os::unix::net::UnixListener::bind(site.root.join("htdocs/socket")).expect("socket");
    };
    oracle::both("only_readable_files_are_served", build, "", |site| {
        for (path, status) in
            [("/closed.txt", 403), ("/locked/f.txt", 403), ("/locked/", 403), ("/socket", 403), ("/none", 404)]
        {
            assert_eq!(Client::connect(site.address()).get(path).status, status, "{path}");
        }
        let locked = site.root.join("htdocs/locked");
        std::fs::set_permissions(locked, std::fs::Permissions::from_mode(0o755)).expect("mode");
    });
}

/// A device has no end, and is not served (Apache would try).
#[test]
fn devices_are_not_served() {
    let site = Site::new();
    symlink("/dev/zero", site.root.join("htdocs/zero")).expect("link");
    let server = Server::start(crate::harness::mpm::Mpm::Percore, &site, "");
    server.announce("AH00127: Cannot map GET /zero HTTP/1.1 to file");
    assert_eq!(server.get("/zero").status, 403);
}

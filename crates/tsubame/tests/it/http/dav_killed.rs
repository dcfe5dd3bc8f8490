//! WebDAV: what clients have written when the processes that serve them are killed.

use std::path::Path;

use sys::process::Pid;
use sys::signal::Signal;

use super::dav::{CONFIGURATION, LOCKINFO, ask, place};
use crate::harness::mpm::{Mpm, test_name};
use crate::harness::server::Server;
use crate::harness::wait::until;
use crate::harness::wire::Client;

/// Kills every process that serves clients.
fn kill_children(server: &Server<'_>) {
    let before = server.children();
    for child in &before {
        let _ = Pid::new(*child).expect("a pid").kill(Signal::KILL);
    }
    until("other children", || {
        let now = server.children();
        (!now.is_empty() && now.is_disjoint(&before)).then_some(())
    });
}

#[test]
fn writes_survive_a_killed_process() {
    const PROPERTY: &str =
        "<propertyupdate xmlns=\"DAV:\"><set><prop><x xmlns=\"u:\">kept</x></prop></set></propertyupdate>";
    const FIND: &str = "<propfind xmlns=\"DAV:\"><prop><x xmlns=\"u:\"/><lockdiscovery/></prop></propfind>";
    for mpm in Mpm::chosen(test_name!()) {
        let site = place();
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.allow_everything("killed processes are reported");
        assert_eq!(ask(&site, "PUT /dav/f", &[], "old").status, 201);
        assert_eq!(ask(&site, "PROPPATCH /dav/f", &[], PROPERTY).status, 207);
        let locked = ask(&site, "LOCK /dav/f", &[], LOCKINFO);
        let token = locked.field("Lock-Token").expect("a token").to_string();

        // Half of a new content has arrived.
        let mut client = Client::connect(site.address());
        let half = vec![b'n'; 600 * 1024];
        client.send(format!(
            "PUT /dav/f HTTP/1.1\r\nHost: localhost\r\nIf: ({token})\r\nContent-Length: {}\r\n\r\n",
            half.len() * 2
        ));
        client.send(&half);
        // A file that is being written has no name.
        let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
        let place = site.root.join("htdocs/dav");
        let holds_much = |child: &i32| {
            entries(Path::new(&format!("/proc/{child}/fd"))).any(|entry| {
                std::fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(&place))
                    && std::fs::metadata(entry.path()).is_ok_and(|meta| meta.len() >= 256 * 1024)
            })
        };
        until("a part of it is on the disk", || server.children().iter().any(holds_much).then_some(()));
        kill_children(&server);
        if sys::file::unnamed(&place, 0o600).is_ok() {
            let left: Vec<_> = entries(&place).map(|entry| entry.file_name()).collect();
            assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".davfs")), "{left:?}");
        }

        assert_eq!(server.get("/dav/f").text(), "old", "{mpm}");
        let found = ask(&site, "PROPFIND /dav/", &["Depth: 1"], FIND).text();
        assert!(found.contains(">kept<") && found.contains(token.trim_matches(['<', '>'])), "{mpm}: {found}");
        assert!(!found.contains(".davfs.tmp"), "clients see what is not whole: {found}");
        assert_eq!(ask(&site, "PUT /dav/f", &[], "x").status, 423, "{mpm}");
        assert_eq!(ask(&site, "PUT /dav/f", &[&format!("If: ({token})")], "new").status, 204, "{mpm}");
        assert_eq!(server.get("/dav/f").text(), "new", "{mpm}");
    }
}

/// Clients write continuously while processes are killed at any point: each file has the content of one of the
/// requests.
#[test]
fn nothing_is_torn_whenever_processes_are_killed() {
    let property = |text: &str| {
        format!("<propertyupdate xmlns=\"DAV:\"><set><prop><x xmlns=\"u:\">{text}</x></prop></set></propertyupdate>")
    };
    let find = "<propfind xmlns=\"DAV:\"><prop><x xmlns=\"u:\"/></prop></propfind>";
    let site = place();
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    server.allow_everything("killed processes are reported");
    let text = |c: char| c.to_string().repeat(100_000);
    assert_eq!(ask(&site, "PUT /dav/f", &[], &text('a')).status, 201);
    assert_eq!(ask(&site, "PROPPATCH /dav/f", &[], &property(&text('a'))).status, 207);
    // The pause before a successor doubles each time.
    for round in 0..5 {
        let letter = char::from(b'b' + round);
        std::thread::scope(|scope| {
            let send = |line: &'static str, body: String| {
                let address = site.address();
                scope.spawn(move || {
                    for _ in 0..20 {
                        let mut client = Client::connect(address);
                        let length = body.len();
                        client.send(format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"));
                        if client.try_response_to("PUT").is_err() {
                            return;
                        }
                    }
                })
            };
            let writers = [send("PUT /dav/f", text(letter)), send("PROPPATCH /dav/f", property(&text(letter)))];
            kill_children(&server);
            writers.into_iter().for_each(|writer| drop(writer.join()));
        });
        let whole = |content: &str| {
            let first = content.chars().next().expect("a content");
            content == text(first)
        };
        assert!(whole(&server.get("/dav/f").text()), "a torn file");
        let found = ask(&site, "PROPFIND /dav/f", &["Depth: 0"], find).text();
        let value =
            found.split_once(":x xmlns:ns0=\"u:\">").and_then(|(_, rest)| rest.split_once('<')).expect("a property").0;
        assert!(whole(value), "a torn property");
        assert_eq!(ask(&site, "PROPPATCH /dav/f", &[], &property(&text('z'))).status, 207, "it can be changed again");
    }
}

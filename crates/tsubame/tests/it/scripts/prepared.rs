//! A request for a script that begins right before its handler, where an earlier one was, finds whatever has changed on the way to the
//! script meanwhile.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::harness::mpm::Mpm;
use crate::harness::open_metrics::counted;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Response;

const SCRIPT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s' \"$HTTP_X_A $REMOTE_PORT\"\n";

const CONFIGURATION: &str = "Protocols http/1.1\nAlias /s/ ${ROOT}/scripts/\n<Directory ${ROOT}/scripts>\nRequire all granted\nAllowOverride All\n\
    Options +ExecCGI\n<FilesMatch ^x>\nSetHandler cgi-script\n</FilesMatch>\n</Directory>\n\
    <Location /metrics>\nSetHandler metrics\n</Location>\n";

/// What happens to the script in a directory, or to the directory, and how.
type Change = (&'static str, fn(&Path));

/// All of these.
const CHANGES: &[Change] = &[
    ("nobody may run it", |script| mode(script, 0o644)),
    ("nobody may read its directory", |script| mode(script.parent().expect("a directory"), 0o700)),
    ("it is gone", |script| fs::remove_file(script).expect("remove")),
    ("another one has its name", |script| {
        write(&script.with_file_name("new"), &SCRIPT.replace("%s", "new %s"));
        fs::rename(script.with_file_name("new"), script).expect("rename");
    }),
    ("a directory has its name", |script| {
        fs::remove_file(script).expect("remove");
        fs::create_dir(script).expect("directory");
    }),
    ("a link has its name", |script| {
        fs::rename(script, script.with_file_name("other")).expect("rename");
        symlink("other", script).expect("link");
    }),
    ("its directory is gone", |script| {
        let directory = script.parent().expect("a directory");
        fs::rename(directory, directory.with_extension("old")).expect("rename");
    }),
    ("an access file refuses all", |script| {
        fs::write(script.with_file_name(".htaccess"), "Require all denied\n").expect("write")
    }),
    ("an access file has another handler", |script| {
        fs::write(script.with_file_name(".htaccess"), "<Files x>\nSetHandler default-handler\n</Files>\n")
            .expect("write");
    }),
    ("an access file is broken", |script| fs::write(script.with_file_name(".htaccess"), "Nonsense\n").expect("write")),
];

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("write");
    mode(path, 0o755);
}

#[test]
fn whatever_has_changed_is_found() {
    for mpm in [Mpm::Percore, Mpm::Event, Mpm::Prefork] {
        let site = Site::new();
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.allow_everything("scripts cannot be run");
        for (number, (what, change)) in CHANGES.iter().enumerate() {
            let directory = site.root.join(format!("scripts/{number}"));
            fs::create_dir_all(&directory).expect("directory");
            write(&directory.join("x"), SCRIPT);
            let ask = |query: &str, value: &str| -> Response {
                let mut client = server.client();
                client.request(format!(
                    "GET /s/{number}/x{query} HTTP/1.1\r\nHost: localhost\r\nX-A: {value}\r\nConnection: close\r\n\r\n"
                ))
            };
            let before = counted(&server, "requests_prepared");
            let mut ports = Vec::new();
            let mut ask_twice = || {
                for value in ["a", "b"] {
                    let response = ask("", value);
                    let text = response.text();
                    let (own, port) = text.split_once(' ').expect("two words");
                    assert_eq!((response.status, own), (200, value), "{mpm}: {what}");
                    assert!(
                        ports.last().is_none_or(|last| last != port),
                        "{mpm}: {what}: the port of another connection"
                    );
                    ports.push(port.to_string());
                }
            };
            match mpm {
                // Each of many children would have to meet the line first.
                Mpm::Prefork => ask_twice(),
                _ => until("a request that begins at its handler", || {
                    ask_twice();
                    (counted(&server, "requests_prepared") > before).then_some(())
                }),
            }
            change(&directory.join("x"));
            // Nobody has asked for that line before: the phases decide.
            let (again, anew) = (ask("", "e"), ask("?new", "e"));
            let shown = |response: &Response| {
                (response.status, response.text().split(|char: char| char.is_ascii_digit()).next().map(str::to_string))
            };
            assert_eq!(shown(&again), shown(&anew), "{mpm}: {what}");
        }
    }
}

//! Log files that are renamed while the server runs, with no word to it.

use std::fs;

use crate::mpm::{Mpm, under_every_mpm};
use crate::server::Server;
use crate::site::Site;
use crate::wait::until;

under_every_mpm! {
    /// As logrotate does it: renamed, and made anew. The configuration is not read for it: this one has an error by then.
    fn renamed_logs_are_opened_again(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        let server = Server::start(mpm, &site, "CustomLog logs/access \"%q\"");
        server.allow("log files were renamed or removed");
        assert_eq!(server.get("/?before").status, 200);
        until("its line", || (site.read("logs/access") == "?before\n").then_some(()));
        site.file("conf/httpd.conf", "Nonsense\n");
        for name in ["access", "error_log"] {
            let path = site.root.join("logs").join(name);
            fs::rename(&path, path.with_extension("1")).expect("rename");
            site.file(format!("logs/{name}"), "");
        }
        // Children of before finish what they have with the old file.
        let mut number = 0;
        until("the new log", || {
            number += 1;
            assert_eq!(server.get(&format!("/?{number}")).status, 200);
            (!site.read("logs/access").is_empty()).then_some(())
        });
        assert!(site.read("logs/error_log").contains("resuming normal operations"));
        assert!(!site.read("logs/error_log").contains("Nonsense"));
        let all = || {
            let mut lines = site.read("logs/access.1").lines().count();
            lines += site.read("logs/access").lines().count();
            (lines == number + 1).then_some(())
        };
        until("every line in one of both", all);
    }
}

/// A file that is removed is made again, a second later.
#[test]
fn a_removed_log_is_made_again() {
    let site = Site::with([("index.html", "hello\n")]);
    let server = Server::start(Mpm::Percore, &site, "CustomLog logs/access \"%q\"");
    server.allow("log files were renamed or removed");
    fs::remove_file(site.root.join("logs/access")).expect("remove");
    until("the log", || site.root.join("logs/access").exists().then_some(()));
    until("a line in it", || {
        assert_eq!(server.get("/?after").status, 200);
        site.read("logs/access").starts_with("?after\n").then_some(())
    });
}

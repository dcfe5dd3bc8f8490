//! Log files that are renamed while the server runs, with no word to it.

use std::fs;
use std::time::{Duration, Instant};

use sys::process::Pid;
use sys::signal::Signal;

use crate::cli::ctl::ctl;
use crate::harness::hung_disk::HungDisk;
use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;

under_percore_and! { event:
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

/// Whoever may write to the directory of a log does not choose the file that root writes to: a name that has become a link is
/// not opened before somebody orders a restart. A renamed log is, there too.
#[test]
fn links_in_a_directory_of_a_user_are_not_followed_without_an_order() {
    if !needs::ROOT.is_there("links_in_a_directory_of_a_user_are_not_followed_without_an_order") {
        return;
    }
    let site = Site::with([("index.html", "hello\n")]);
    let logs = site.root.join("of-a-user");
    fs::create_dir(&logs).expect("directory");
    std::os::unix::fs::chown(&logs, Some(33), Some(33)).expect("chown");
    site.file("secret", "mine\n");
    fs::write(site.root.join("twin"), "mine\n").expect("file");
    // The way to the directory may have links of root's.
    std::os::unix::fs::symlink(&logs, site.root.join("logs-of-a-user")).expect("link");
    let lines =
        "CustomLog logs-of-a-user/a \"%q\"\nCustomLog logs-of-a-user/b \"%q\"\nCustomLog logs-of-a-user/c \"%q\"";
    let server = Server::start(Mpm::Percore, &site, lines);
    server.allow("log files were renamed or removed");
    let rename = |name: &str| fs::rename(logs.join(name), logs.join(format!("{name}.1"))).expect("rename");
    for name in ["a", "b", "c"] {
        rename(name);
    }
    std::os::unix::fs::symlink(site.root.join("secret"), logs.join("a")).expect("link");
    fs::hard_link(site.root.join("twin"), logs.join("b")).expect("link");
    fs::write(logs.join("c"), "").expect("file");
    for name in ["a", "b"] {
        server.logged(&format!("logs-of-a-user/{name} was renamed or removed and cannot be opened again"));
    }
    until("a line in the new log", || {
        assert_eq!(server.get("/?x").status, 200);
        (!fs::read_to_string(logs.join("c")).expect("a log").is_empty()).then_some(())
    });
    assert_eq!((site.read("secret"), site.read("twin")), ("mine\n".into(), "mine\n".into()));
    assert!(fs::read_to_string(logs.join("a.1")).expect("a log").contains("?x\n"));
}

/// The parent follows signals and replaces children, though neither a look for its logs nor a line in one comes to an end.
#[test]
fn a_disk_that_hangs_holds_up_no_parent() {
    if !needs::FUSE.is_there("a_disk_that_hangs_holds_up_no_parent") {
        return;
    }
    let site = Site::with([("index.html", "hello\n")]);
    fs::create_dir(site.root.join("disk")).expect("directory");
    let disk = HungDisk::new(&site.root.join("disk"), &["access", "error"]);
    // The children write no line of their own: that would wait.
    let lines = "ErrorLog disk/error\nCustomLog disk/access \"%q\" env=wanted\n\
        <Location /status>\nSetHandler server-status\n</Location>";
    let mut server = Server::start(Mpm::Percore, &site, lines);
    disk.hang();

    let killed = *server.children().first().expect("a child");
    Pid::new(killed).expect("pid").kill(Signal::KILL).expect("kill");
    until("another child", || (!server.children().is_empty() && !server.children().contains(&killed)).then_some(()));
    assert_eq!(server.get("/").status, 200);
    let (_, errors, status) = ctl(&site, &["--socket", "logs/pid.ctl", "status"]);
    assert_eq!((errors.as_str(), status), ("", Some(0)));
    let told = "has not answered for 3 s";
    until("a word about the disk", || server.get("/status?live").text().contains(told).then_some(()));
    server.restart(Signal::USR1);
    assert_eq!(server.get("/").status, 200);

    disk.go_on();
    for part in ["exit signal Killed", told, "does not answer: the open file stays"] {
        until(part, || disk.text("error").contains(part).then_some(()));
    }
    disk.hang();
    let began = Instant::now();
    server.signal(Signal::TERM);
    assert!(server.ends().success());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

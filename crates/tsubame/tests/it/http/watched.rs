//! Directories under watch: whatever changes on the way to a file counts from the next request on.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sys::inotify::Inotify;

use crate::harness::chance::seeds;
use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::server::{Server, Start};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;

const ALL: &str = "KeepAliveTimeout 60\n<Directory \"${DOCS}\">\nAllowOverride All\nOptions FollowSymLinks\n</Directory>\n\
                   <Directory \"${DOCS}/nolinks\">\nOptions None\n</Directory>";
const DENIED: &str = "Require all denied\n";
const GRANTED: &str = "Require all granted\n";

/// Something that may happen, and be undone. All paths are below `htdocs`.
struct Change {
    name: &'static str,
    /// The path that is asked for.
    path: &'static str,
    prepare: fn(&Path),
    /// From now on the path is forbidden.
    forbid: fn(&Path),
    /// From now on it is not.
    allow: fn(&Path),
}

const CHANGES: [Change; 16] = [
    Change {
        name: "a file is created and removed",
        path: "/d/e/f.txt",
        prepare: |docs| page(docs, "d/e/f.txt", "x"),
        forbid: |docs| page(docs, "d/.htaccess", DENIED),
        allow: |docs| fs::remove_file(docs.join("d/.htaccess")).expect("remove"),
    },
    Change {
        name: "a file is written to",
        path: "/d/e/f.txt",
        prepare: |docs| (page(docs, "d/e/f.txt", "x"), page(docs, "d/.htaccess", GRANTED)).0,
        forbid: |docs| page(docs, "d/.htaccess", DENIED),
        allow: |docs| page(docs, "d/.htaccess", GRANTED),
    },
    Change {
        name: "a file is replaced by another",
        path: "/d/e/f.txt",
        prepare: |docs| (page(docs, "d/e/f.txt", "x"), page(docs, "d/.htaccess", GRANTED)).0,
        forbid: |docs| replace(docs, "d/.htaccess", DENIED),
        allow: |docs| replace(docs, "d/.htaccess", GRANTED),
    },
    Change {
        name: "a file is moved in and out",
        path: "/d/e/f.txt",
        prepare: |docs| (page(docs, "d/e/f.txt", "x"), page(docs, "away", DENIED)).0,
        forbid: |docs| rename(docs, "away", "d/e/.htaccess"),
        allow: |docs| rename(docs, "d/e/.htaccess", "away"),
    },
    Change {
        name: "a file gets another name",
        path: "/d/e/f.txt",
        prepare: |docs| (page(docs, "d/e/f.txt", "x"), page(docs, "away", DENIED)).0,
        forbid: |docs| fs::hard_link(docs.join("away"), docs.join("d/.htaccess")).expect("link"),
        allow: |docs| fs::remove_file(docs.join("d/.htaccess")).expect("remove"),
    },
    Change {
        name: "a file is written to under another name",
        path: "/d/e/f.txt",
        prepare: |docs| {
            page(docs, "d/e/f.txt", "x");
            page(docs, "other", GRANTED);
            fs::hard_link(docs.join("other"), docs.join("d/.htaccess")).expect("link");
        },
        forbid: |docs| page(docs, "other", DENIED),
        allow: |docs| page(docs, "other", GRANTED),
    },
    Change {
        name: "what a linked file leads to appears",
        path: "/d/e/f.txt",
        prepare: |docs| {
            page(docs, "d/e/f.txt", "x");
            fs::create_dir(docs.join("elsewhere")).expect("directory");
            symlink("../elsewhere/rules", docs.join("d/.htaccess")).expect("link");
        },
        forbid: |docs| page(docs, "elsewhere/rules", DENIED),
        allow: |docs| fs::remove_file(docs.join("elsewhere/rules")).expect("remove"),
    },
    Change {
        name: "what a linked file leads to changes",
        path: "/d/e/f.txt",
        prepare: |docs| {
            page(docs, "d/e/f.txt", "x");
            page(docs, "elsewhere/rules", GRANTED);
            symlink("../elsewhere/rules", docs.join("d/.htaccess")).expect("link");
        },
        forbid: |docs| page(docs, "elsewhere/rules", DENIED),
        allow: |docs| page(docs, "elsewhere/rules", GRANTED),
    },
    Change {
        name: "directories change places",
        path: "/d/e/g/f.txt",
        prepare: |docs| {
            page(docs, "d/e/g/f.txt", "x");
            page(docs, "closed/e/g/f.txt", "x");
            page(docs, "closed/e/.htaccess", DENIED);
        },
        forbid: |docs| (rename(docs, "d", "open"), rename(docs, "closed", "d")).0,
        allow: |docs| (rename(docs, "d", "closed"), rename(docs, "open", "d")).0,
    },
    Change {
        name: "a directory is made anew",
        path: "/d/e/f.txt",
        prepare: |docs| page(docs, "d/e/f.txt", "x"),
        forbid: |docs| {
            fs::remove_dir_all(docs.join("d")).expect("remove");
            page(docs, "d/e/.htaccess", DENIED);
            page(docs, "d/e/f.txt", "x");
        },
        allow: |docs| {
            fs::remove_dir_all(docs.join("d")).expect("remove");
            page(docs, "d/e/f.txt", "x");
        },
    },
    Change {
        name: "a link leads elsewhere",
        path: "/current/e/f.txt",
        prepare: |docs| {
            page(docs, "releases/1/e/f.txt", "x");
            page(docs, "releases/2/e/f.txt", "x");
            page(docs, "releases/2/.htaccess", DENIED);
            relink(docs, "releases/1", "current");
        },
        forbid: |docs| relink(docs, "releases/2", "current"),
        allow: |docs| relink(docs, "./releases/../releases/1/", "current"),
    },
    Change {
        name: "directories change places above what a link leads to",
        path: "/d/e/f.txt",
        prepare: |docs| {
            page(docs, "far/1/e/f.txt", "x");
            page(docs, "closed/1/e/f.txt", "x");
            page(docs, "closed/1/.htaccess", DENIED);
            symlink(docs.join("far/1"), docs.join("d")).expect("link");
        },
        forbid: |docs| (rename(docs, "far", "open"), rename(docs, "closed", "far")).0,
        allow: |docs| (rename(docs, "far", "closed"), rename(docs, "open", "far")).0,
    },
    Change {
        name: "a directory becomes a link",
        path: "/nolinks/d/e/f.txt",
        prepare: |docs| page(docs, "nolinks/d/e/f.txt", "x"),
        forbid: |docs| {
            rename(docs, "nolinks/d", "nolinks/real");
            symlink("real", docs.join("nolinks/d")).expect("link");
        },
        allow: |docs| {
            fs::remove_file(docs.join("nolinks/d")).expect("remove");
            rename(docs, "nolinks/real", "nolinks/d");
        },
    },
    Change {
        name: "a directory may not be entered",
        path: "/d/e/f.txt",
        prepare: |docs| page(docs, "d/e/f.txt", "x"),
        forbid: |docs| mode(docs, "d", 0o000),
        allow: |docs| mode(docs, "d", 0o755),
    },
    Change {
        name: "more happens than there is room to tell",
        path: "/d/e/f.txt",
        prepare: |docs| page(docs, "d/e/f.txt", "x"),
        forbid: |docs| {
            let room = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("the room");
            page(docs, "d/one", "");
            for _ in 0..room.trim().parse::<u32>().expect("a number") / 4 {
                rename(docs, "d/one", "d/two");
                rename(docs, "d/two", "d/one");
            }
            page(docs, "d/.htaccess", DENIED);
        },
        allow: |docs| fs::remove_file(docs.join("d/.htaccess")).expect("remove"),
    },
    Change {
        name: "names of other alphabets",
        path: "/%C3%A9t%C3%A9/f.txt",
        prepare: |docs| page(docs, "été/f.txt", "x"),
        forbid: |docs| page(docs, "été/.htaccess", DENIED),
        allow: |docs| fs::remove_file(docs.join("été/.htaccess")).expect("remove"),
    },
];

fn page(docs: &Path, name: &str, text: &str) {
    let path = docs.join(name);
    fs::create_dir_all(path.parent().expect("parent")).expect("directory");
    fs::write(path, text).expect("file");
}

fn rename(docs: &Path, from: &str, to: &str) {
    fs::rename(docs.join(from), docs.join(to)).expect("rename");
}

fn replace(docs: &Path, name: &str, text: &str) {
    page(docs, "new", text);
    rename(docs, "new", name);
}

fn relink(docs: &Path, to: &str, name: &str) {
    symlink(to, docs.join("new")).expect("link");
    rename(docs, "new", name);
}

fn mode(docs: &Path, name: &str, mode: u32) {
    fs::set_permissions(docs.join(name), fs::Permissions::from_mode(mode)).expect("mode");
}

/// As `ps` and the kernel know it: the directories that the children watch, by their numbers.
fn watched(server: &Server<'_>) -> Vec<u64> {
    let mut found = Vec::new();
    for child in server.children() {
        for entry in fs::read_dir(format!("/proc/{child}/fdinfo")).expect("descriptors").flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let numbers = text.lines().filter_map(|line| line.strip_prefix("inotify ")?.split("ino:").nth(1));
            found.extend(numbers.filter_map(|rest| u64::from_str_radix(rest.split(' ').next()?, 16).ok()));
        }
    }
    found
}

/// Whether this module's children can watch a directory: prefork has too many children for that.
fn can_watch(mpm: Mpm, directory: &Path) -> bool {
    let path = CString::new(directory.as_os_str().as_bytes()).expect("no NUL");
    let mut inotify = Inotify::new().expect("inotify");
    mpm != Mpm::Prefork && inotify.add(c"/").and_then(|()| inotify.add(&path)).is_ok()
}

under_percore_and! { event:
    /// On a connection that is kept, and on a new one; two rounds, so that what was learnt in the first may go wrong.
    fn a_change_counts_at_once(mpm: Mpm) {
        let site = Site::new();
        let server = Server::start(mpm, &site, ALL);
        for error in ["AH01630", "AH00037", "AH00035"] {
            server.allow(error);
        }
        let docs = site.root.join("htdocs");
        for Change { name, path, prepare, forbid, allow } in CHANGES {
            prepare(&docs);
            let mut kept = server.client();
            for round in 0..2 {
                for (status, change) in [(200, None), (403, Some(forbid)), (200, Some(allow))] {
                    change.iter().for_each(|change| change(&docs));
                    for _ in 0..3 {
                        assert_eq!(kept.get(path).status, status, "{name}, round {round}");
                    }
                    assert_eq!(server.get(path).status, status, "{name}, round {round}, another connection");
                }
            }
            fs::remove_dir_all(&docs).expect("remove");
            fs::create_dir(&docs).expect("directory");
        }
    }

    /// A file is remembered once it is older than its times are exact; it is looked at all the same, as it may be written to
    /// under a name that nobody watches.
    fn a_file_that_is_remembered_is_looked_at(mpm: Mpm) {
        let site = Site::with([("d/e/f.txt", "x"), ("d/.htaccess", GRANTED)]);
        let server = Server::start(mpm, &site, ALL);
        server.allow("AH01630");
        let (file, other) = (site.root.join("htdocs/d/.htaccess"), site.root.join("other"));
        fs::hard_link(&file, &other).expect("link");
        for (text, status) in [(GRANTED, 200), (DENIED, 403), (GRANTED, 200), (DENIED, 403)] {
            fs::write(&other, text).expect("write");
            assert_eq!(server.get("/d/e/f.txt").status, status);
            until("a file that is remembered", || {
                let changed = fs::metadata(&file).and_then(|meta| meta.modified()).expect("times");
                (changed.elapsed().ok()? > Duration::from_millis(100)).then_some(())
            });
            let mut client = server.client();
            for _ in 0..3 {
                assert_eq!(client.get("/d/e/f.txt").status, status);
            }
        }
    }

    /// With others that ask all the time, so that looks are shared and threads get into each other's way. `TSUBAME_SEEDS=10` makes
    /// ten times as many changes.
    fn hundreds_of_changes_count_at_once(mpm: Mpm) {
        let site = Site::with([("d/e/f.txt", "x")]);
        let server = Server::start(mpm, &site, ALL);
        server.allow("AH01630");
        let docs = site.root.join("htdocs");
        page(&docs, "closed", DENIED);
        let (done, address) = (AtomicBool::new(false), server.address());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut client = Client::connect(address);
                    while !done.load(Ordering::Relaxed) {
                        let response = client.get("/d/e/f.txt");
                        assert!(matches!(response.status, 200 | 403));
                        if response.closes() {
                            client = Client::connect(address);
                        }
                    }
                });
            }
            let rounds = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for round in 0..200 * seeds(1).count() {
                    let expect = |status, count| {
                        let mut client = server.client();
                        for _ in 0..count {
                            assert_eq!(client.get("/d/e/f.txt").status, status, "round {round}");
                        }
                    };
                    expect(200, 3);
                    rename(&docs, "closed", "d/.htaccess");
                    expect(403, 1);
                    rename(&docs, "d/.htaccess", "closed");
                }
            }));
            done.store(true, Ordering::Relaxed);
            rounds.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }

    /// Files requested only once are not watched; the targets of links are.
    fn a_directory_requested_twice_is_watched(mpm: Mpm) {
        let site = Site::with([("d/e/f.txt", "x"), ("once/f.txt", "x")]);
        symlink("d", site.root.join("htdocs/link")).expect("link");
        let server = Server::start(mpm, &site, ALL);
        let number = |name: &str| fs::metadata(site.root.join(name)).expect("directory").ino();
        let mut client = server.client();
        assert_eq!(client.get("/once/f.txt").status, 200);
        for _ in 0..3 {
            assert_eq!(client.get("/link/e/f.txt").status, 200);
        }
        let watched = watched(&server);
        for name in ["", "htdocs", "htdocs/d", "htdocs/d/e"] {
            assert_eq!(watched.contains(&number(name)), can_watch(mpm, &site.root), "{name:?} of {watched:?}");
        }
        assert!(!watched.contains(&number("htdocs/once")));
    }

    /// Mounted over a directory on the way, and over one above it; a bind mount of what is watched is the same directory.
    fn a_mount_counts_at_once(mpm: Mpm) {
        if !needs::ROOT.is_there("a_mount_counts_at_once") {
            return;
        }
        let files = [("d/e/f.txt", "x"), ("closed/e/f.txt", "x"), ("closed/.htaccess", DENIED)];
        let site = Site::with(files);
        site.configure(mpm, ALL);
        // Mounts of its own, which end with it.
        let words = ["unshare", "--mount", "--propagation", "private"].map(str::to_string).to_vec();
        let server = Start::new(&site, mpm).by(words).run();
        server.allow("AH01630");
        let docs = site.root.join("htdocs");
        let run = |words: &[&str]| {
            let pid = server.pid().to_string();
            let mut command = Command::new("nsenter");
            command.args(["--mount", "--target", &pid]).args(words).current_dir("/");
            assert!(command.status().expect("nsenter").success(), "{words:?}");
        };
        let path = |name: &str| docs.join(name).to_str().expect("a plain path").to_string();
        let mut kept = server.client();
        let mut expect = |status, what: &str| {
            for _ in 0..3 {
                assert_eq!(kept.get("/d/e/f.txt").status, status, "{what}");
                assert_eq!(server.get("/d/e/f.txt").status, status, "{what}, another connection");
            }
        };
        for _ in 0..2 {
            expect(200, "before");
            run(&["mount", "--bind", &path("closed"), &path("d")]);
            expect(403, "another directory");
            run(&["umount", &path("d")]);
            expect(200, "unmounted");
            // The same directory again, through which a change is seen.
            run(&["mount", "--bind", &path("d"), &path("d")]);
            expect(200, "itself");
            page(&docs, "d/.htaccess", DENIED);
            expect(403, "a file below the mount");
            fs::remove_file(docs.join("d/.htaccess")).expect("remove");
            expect(200, "no file below the mount");
            run(&["umount", "--lazy", &path("d")]);
            // A file system that gives no notice.
            run(&["mount", "-t", "ramfs", "none", &path("d")]);
            run(&["sh", "-c", "mkdir \"$1/e\" && echo x > \"$1/e/f.txt\"", "sh", &path("d")]);
            expect(200, "another file system");
            run(&["sh", "-c", "echo Require all denied > \"$1/.htaccess\"", "sh", &path("d")]);
            expect(403, "a file in it");
            run(&["umount", &path("d")]);
        }
    }
}

/// A system that lets a user watch two directories, the root and another one.
#[test]
fn without_room_for_watches_a_change_counts_all_the_same() {
    if !needs::ROOT.is_there("without_room_for_watches_a_change_counts_all_the_same") {
        return;
    }
    let site = Site::with([("d/f.txt", "x")]);
    site.configure(Mpm::Percore, ALL);
    // Users of its own, with limits of their own, as long as somebody is there.
    let mut holder = Command::new("unshare").args(["--user", "cat"]).stdin(Stdio::piped()).spawn().expect("unshare");
    let pid = holder.id().to_string();
    let users = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/user")).ok();
    until("users of its own", || (users(&pid)? != users("self")?).then_some(()));
    for map in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{pid}/{map}"), "0 0 65536").expect("map");
    }
    let script = "echo 2 > /proc/sys/user/max_inotify_watches && exec \"$@\"";
    let words = ["nsenter", "--user", "--target", &pid, "sh", "-c", script, "sh"].map(str::to_string).to_vec();
    let server = Start::new(&site, Mpm::Percore).by(words).run();
    server.allow("AH01630");
    let docs = site.root.join("htdocs");
    let mut client = server.client();
    for _ in 0..3 {
        for _ in 0..3 {
            assert_eq!(client.get("/d/f.txt").status, 200);
        }
        assert!(watched(&server).len() <= 2);
        page(&docs, "d/.htaccess", DENIED);
        assert_eq!(client.get("/d/f.txt").status, 403);
        fs::remove_file(docs.join("d/.htaccess")).expect("remove");
    }
    drop(holder.stdin.take());
    holder.wait().expect("wait");
}

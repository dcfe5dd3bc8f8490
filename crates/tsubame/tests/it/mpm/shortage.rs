//! The machine has no room: no memory, and then the kernel ends scripts before children and children before the parent; or no
//! room for another process, and then the old children serve on.

use std::os::unix::fs::{MetadataExt, chown};
use std::process::Command;

use sys::signal::Signal;

use crate::harness::mpm::{Mpm, under_every_mpm};
use crate::harness::needs;
use crate::harness::server::{Server, Start, title};
use crate::harness::site::{Site, load_lines};
use crate::harness::wait::until;

/// Prints its rank once it is no longer that of a child, with which a script begins.
const RANKED: &str = "#!/bin/sh
printf 'Content-Type: text/plain\\n\\n'
read first < /proc/$$/oom_score_adj
rank=$first tries=200
while [ $rank = $first ] && [ $((tries -= 1)) -gt 0 ]; do
    sleep 0.1
    read rank < /proc/$$/oom_score_adj
done
echo $rank
";

fn rank(process: i32) -> i32 {
    let text = std::fs::read_to_string(format!("/proc/{process}/oom_score_adj")).unwrap_or_default();
    text.trim().parse().expect("a number")
}

/// The processes that serve, without daemons that start scripts.
fn serving(server: &Server<'_>) -> Vec<i32> {
    server.children().into_iter().filter(|child| !title(*child).contains("daemon")).collect()
}

under_every_mpm! {
    /// Scripts go first, then what the parent has forked, and the parent last.
    fn the_parent_is_the_last_to_be_ended(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        site.script("s.sh", RANKED);
        let lines = "ScriptAlias /cgi-bin/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>";
        let server = Server::start(mpm, &site, lines);
        let parent = rank(server.pid().number());
        // A child that was just forked has its parent's rank.
        let of_children = until("the ranks of the children", || {
            let ranks: Vec<i32> = serving(&server).into_iter().map(rank).collect();
            (!ranks.is_empty() && ranks.iter().all(|child| *child > parent)).then_some(ranks)
        });
        let script: i32 = server.get("/cgi-bin/s.sh").text().trim().parse().expect("a number");
        assert!(of_children.iter().all(|child| *child < script), "{of_children:?} {script}");
    }

    /// What daemons start goes first, too, although they are another user's than the parent.
    fn scripts_of_daemons_go_first(mpm: Mpm) {
        let site = Site::new();
        site.script("s.sh", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\ncat /proc/$$/oom_score_adj\n");
        let lines = "ScriptAlias /cgi-bin/ ${ROOT}/cgi-bin/\n<Directory ${ROOT}/cgi-bin>\nRequire all granted\n</Directory>";
        let without = |line: &&str| !line.contains(" cgi_module ");
        let modules: String = load_lines(mpm).lines().filter(without).map(|line| format!("{line}\n")).collect();
        site.configure_with(&modules, lines);
        let server = Start::new(&site, mpm).run();
        let script: i32 = server.get("/cgi-bin/s.sh").text().trim().parse().expect("a number");
        assert!(serving(&server).into_iter().all(|child| rank(child) < script), "{script}");
    }

    /// A graceful restart while the user may have no more processes: the old children serve until one of the new ones can.
    fn old_children_stay_until_new_ones_can_be_forked(mpm: Mpm) {
        if !needs::ROOT.is_there("old_children_stay_until_new_ones_can_be_forked") {
            return;
        }
        let site = Site::with([("index.html", "hello\n"), ("more/new.html", "new\n")]);
        // A user that has no other processes: the limit counts those of a user, and their threads.
        let user = 1_000_000 + std::process::id() * 4 + mpm as u32;
        let few = match mpm {
            Mpm::Percore => "",
            Mpm::Prefork => "StartServers 2\nMinSpareServers 1\nMaxRequestWorkers 4",
            Mpm::Worker | Mpm::Event => "StartServers 1\nThreadsPerChild 4\nMinSpareThreads 1\nMaxRequestWorkers 8",
        };
        site.configure(mpm, few);
        for path in ["logs", "run"] {
            chown(site.root.join(path), Some(user), Some(user)).expect("chown");
        }
        let [uid, gid] = ["reuid", "regid"].map(|option| format!("--{option}={user}"));
        let become_user = ["setpriv", &uid, &gid, "--clear-groups"];
        let limited = format!("--nproc={MOST}");
        let by = [&become_user[..], &["prlimit", &limited]].concat();
        let mut server = Start::new(&site, mpm).by(by.into_iter().map(String::from).collect()).run();
        server.allow("nable to fork new process");
        assert_eq!(server.get("/").text(), "hello\n");
        let before = server.children();
        let neighbours: Vec<Neighbour> = (0..MOST)
            .map(|_| Command::new(become_user[0]).args(&become_user[1..]).args(["sleep", "1000"]).spawn().map(Neighbour))
            .collect::<Result<_, _>>()
            .expect("neighbours");
        let is_user = |process: &Neighbour| {
            std::fs::metadata(format!("/proc/{}", process.0.id())).is_ok_and(|meta| meta.uid() == user)
        };
        until("all of them", || neighbours.iter().all(is_user).then_some(()));
        site.configure(mpm, &format!("{few}\nAlias /new ${{DOCS}}/more/new.html"));
        server.signal(Signal::USR1);
        server.logged("nable to fork new process");
        for _ in 0..20 {
            assert_eq!(server.get("/").text(), "hello\n");
        }
        assert!(server.children().is_subset(&before));
        drop(neighbours);
        while !server.notified().contains("READY=1") {}
        assert_eq!(server.get("/new").text(), "new\n");
        until("the end of the old children", || {
            (server.children().is_disjoint(&before) && !server.children().is_empty()).then_some(())
        });
    }
}

/// How many processes and threads the user may have.
const MOST: usize = 60;

/// Another process of the user.
struct Neighbour(std::process::Child);

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

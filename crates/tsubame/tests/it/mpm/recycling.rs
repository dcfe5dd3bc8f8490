//! Children are replaced after enough work, without an effect on clients.

use std::collections::{BTreeMap, BTreeSet};

use crate::harness::mpm::{Mpm, under_every_mpm};
use crate::harness::server::{Server, Start};
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::mpm::load::{Load, TEXT};

/// Twenty children where their number can be chosen, all of them from the start, and the messages about them.
fn lines(mpm: Mpm, limit: &str) -> String {
    let number = match mpm {
        Mpm::Percore => "",
        Mpm::Prefork => "StartServers 20\nMinSpareServers 1\nMaxSpareServers 20\nMaxRequestWorkers 20",
        Mpm::Worker | Mpm::Event => {
            "ServerLimit 20\nStartServers 20\nThreadsPerChild 2\nMinSpareThreads 1\nMaxSpareThreads 60\nMaxRequestWorkers 40"
        }
    };
    format!("LogLevel warn mpm_{mpm}_module:info\n{number}\nMaxKeepAliveRequests 3\n{limit}")
}

/// Pages that a child remembers once it has sent them.
fn pages() -> Vec<String> {
    (0..PAGES).map(|number| format!("/{number}.txt")).collect()
}

fn site() -> Site {
    let site = Site::with([("index.html", "hello\n")]);
    let text = site.file("text", TEXT);
    pages().iter().for_each(|page| site.link(format!("htdocs{page}"), &text));
    site
}

/// The numbers around the words of a message: what a child has done, and its limit.
fn messages(log: &str, words: &str) -> Vec<(u64, u64)> {
    let number = |text: &str| text.split_whitespace().find_map(|word| word.trim_matches([',', ':']).parse().ok());
    let parts = log.lines().filter_map(|line| line.split_once(words));
    parts
        .map(|(_, rest)| rest.split_once("its limit is").expect("both numbers"))
        .map(|(spent, limit)| (number(spent).expect("a count"), number(limit).expect("a limit")))
        .collect()
}

/// Under load with such a limit children are replaced, at least so many, without a failure and one in ten at a time. Returns
/// what they had done when it was their turn, and their limits.
fn replaced_under_load(mpm: Mpm, limit: &str, words: &str, least: usize) -> Vec<(u64, u64)> {
    let site = site();
    let server = Server::start(mpm, &site, &lines(mpm, limit));
    server.allow("takes its place");
    let before = until("all children", || {
        let children = server.children();
        (mpm == Mpm::Percore || children.len() >= 20).then_some(children)
    });
    let most = before.len() + (before.len() / 10).max(1);
    let load = Load::over(server.address(), 4, &pages());
    let mut crowd = 0;
    until("other children", || {
        crowd = crowd.max(server.children().len());
        (messages(&server.log(), words).len() >= least).then_some(())
    });
    assert!(before != server.children());
    assert_eq!(load.end(), Vec::<String>::new());
    assert!(crowd <= most, "{crowd} children, of which there are to be {most} at most");
    messages(&server.log(), words)
}

/// So many that what a child remembers of them is worth replacing it.
const PAGES: usize = 500;
/// So many that their limits cannot all be the same by chance.
const MANY: usize = 12;
/// Fewer where the server checks children once a second; several are drawn from a larger range.
const SOME: usize = 4;

/// All limits are within the range and were reached, and there are several.
fn are_spread(reached: &[(u64, u64)], least: u64, most: u64) {
    assert!(reached.iter().all(|(spent, limit)| spent >= limit && (least..=most).contains(limit)), "{reached:?}");
    let limits: BTreeSet<u64> = reached.iter().map(|(_, limit)| *limit).collect();
    assert!(limits.len() > 1, "{reached:?}");
}

/// Invalid numbers are reported before the server starts.
#[test]
fn numbers_make_sense() {
    let site = Site::new();
    for (lines, said) in [
        ("MaxRequestsPerChildMin 5\nMaxRequestsPerChildMax 5", "Syntax OK"),
        (
            "MaxRequestsPerChildMin 6\nMaxRequestsPerChildMax 5",
            "MaxRequestsPerChildMax 5 is less than MaxRequestsPerChildMin 6",
        ),
        ("MaxRequestsServedPerChild many", "'many' is not a number of requests"),
        ("MaxMemoryGrowthPerChild 1.5M", "'1.5M' is not a size, such as 64M"),
        ("StallTimeout abc", "'abc' is not a time, such as 30 or 5min"),
        ("StallTimeout 99999999999", "'99999999999' is not a time"),
        ("StallTimeout 5min", "Syntax OK"),
    ] {
        site.configure(Mpm::Prefork, lines);
        let output = Start::new(&site, Mpm::Prefork).arguments(&["-t"]).command().output().expect("run");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(said), "{text}");
    }
}

under_every_mpm! {
    /// By connections, with a limit that Apache knows.
    fn by_connections(mpm: Mpm) {
        are_spread(&replaced_under_load(mpm, "MaxConnectionsPerChild 40", "has accepted ", MANY), 30, 40);
    }

    /// By connections, from a range.
    fn by_bumpy_life(mpm: Mpm) {
        let limit = "MaxRequestsPerChildMin 20\nMaxRequestsPerChildMax 40";
        are_spread(&replaced_under_load(mpm, limit, "has accepted ", MANY), 20, 39);
    }

    /// By requests.
    fn by_requests_served(mpm: Mpm) {
        are_spread(&replaced_under_load(mpm, "MaxRequestsServedPerChild 80", "has served ", MANY), 60, 80);
    }

    /// By memory.
    fn by_memory_growth(mpm: Mpm) {
        are_spread(&replaced_under_load(mpm, "MaxMemoryGrowthPerChild 64K", "has grown by ", SOME), 48, 64);
    }

    /// A child that nobody else stands in for accepts as many connections as it should, and another one those that follow.
    fn one_child_after_the_other(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        let alone = "<IfModule !percore.c>\nStartServers 1\nMaxRequestWorkers 1\n<IfModule !prefork.c>\nThreadsPerChild 1\n\
                     </IfModule>\n</IfModule>\nCustomLog logs/access_log %P\nMaxConnectionsPerChild 3";
        let server = Server::start(mpm, &site, alone);
        // The parent may look at the only worker while it serves, or once while it does not, and then warns as Apache does.
        server.allow("AH00287");
        server.allow("AH10159");
        let mut served = BTreeMap::<i32, usize>::new();
        for connection in 1..=30 {
            assert_eq!(server.client().request("GET / HTTP/1.0\r\nConnection: close\r\n\r\n").status, 200);
            let log = until("the log", || {
                Some(site.read("logs/access_log")).filter(|log| log.lines().count() == connection)
            });
            let child = log.lines().last().and_then(|child| child.parse().ok()).expect("a child");
            let count = served.entry(child).or_default();
            *count += 1;
            assert!(*count <= 3, "{child} has served {count}");
            if *count == 3 {
                // Until there is another one it would go on, after a while.
                until("its successor", || (!server.children().contains(&child)).then_some(()));
            }
        }
        let serving = server.children();
        assert!(served.iter().all(|(child, count)| *count == 3 || serving.contains(child)), "{served:?}");
    }
}

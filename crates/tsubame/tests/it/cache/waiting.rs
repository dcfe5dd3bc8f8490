//! Requests for the same response at the same time: one asks the origin, the others get what is stored.

use super::{open_directories, word};
use crate::harness::mpm::{Mpm, test_name};
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::get;

/// A script that waits until it may answer, once there is a file `slow`.
const SCRIPT: &str = "#!/bin/sh\ncd \"${0%/*}/../run\"\n[ -e slow ] && { echo > begun; read x < gate; }\n\
    printf 'Cache-Control: %s\\nETag: \"%s\"\\nContent-Type: a/b\\n\\nrun %s\\n' \"$QUERY_STRING\" $$ $$\n";

/// Lines of the configuration, the response's `Cache-Control`, what a second request gets, and its warning.
const CASES: [(&str, &str, &str, &str); 5] = [
    ("CacheLock On", "max-age=0", "HIT", "110 Response is stale"),
    ("CacheLock On", "max-age=0,must-revalidate", "none", ""),
    ("", "max-age=0,stale-while-revalidate=60", "HIT", "110 Response is stale"),
    ("", "max-age=0,stale-while-revalidate=0", "MISS", ""),
    ("", "max-age=0", "MISS", ""),
];

#[test]
fn one_request_asks_for_all() {
    for mpm in Mpm::chosen(test_name!()) {
        for (lines, control, expected, warning) in CASES {
            let site = Site::new();
            open_directories(&site, &["run", "run/cache"]);
            site.script("c", SCRIPT);
            let configuration = format!(
                "ScriptAlias /c ${{ROOT}}/cgi-bin/c\n<Directory ${{ROOT}}/cgi-bin>\nRequire all granted\n</Directory>\n\
                 CacheRoot ${{ROOT}}/run/cache\nCacheEnable disk /\nCacheHeader On\nCacheLockPath ${{ROOT}}/run/locks\n{lines}\n"
            );
            let server = Server::start(mpm, &site, &configuration);
            let path = format!("/c?{control}");
            let first = server.get(&path);
            assert_eq!(word(&first), "MISS", "{mpm}: {control}");
            let gate = site.root.join("run/gate");
            let made = std::process::Command::new("mkfifo").args(["-m", "666"]).arg(&gate).status();
            assert!(made.expect("mkfifo").success());
            site.file("run/slow", "");
            let mut waiting = server.client();
            waiting.send(get(&path));
            until("the script", || site.root.join("run/begun").exists().then_some(()));
            std::fs::remove_file(site.root.join("run/slow")).expect("remove");
            let second = server.get(&path);
            assert_eq!(word(&second), expected, "{mpm}: {lines} {control}");
            assert_eq!(second.field("Warning").unwrap_or_default(), warning, "{mpm}: {lines} {control}");
            assert_eq!(second.body == first.body, expected == "HIT", "{mpm}: {lines} {control}");
            std::fs::write(&gate, "\n").expect("gate");
            let last = waiting.response();
            assert_eq!((last.status, word(&last)), (200, "MISS"), "{mpm}: {lines} {control}");
            assert_eq!(site.root.join("run/locks").exists(), expected != "MISS", "{lines} {control}");
        }
    }
}

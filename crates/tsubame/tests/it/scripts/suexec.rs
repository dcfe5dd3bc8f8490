//! Scripts that run as their owners: their user, their environment, and the refusals.

use std::os::unix::fs::{PermissionsExt, chown};

use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::server::{Server, Start};
use crate::harness::site::{Site, load_lines};
use crate::harness::wait::until;
use crate::scripts::fcgid_pools::is_gone;

/// Need not be anybody's.
const OWNER: u32 = 54321;

const CONFIGURATION: &str = "SuexecDocumentRoot ${ROOT}/cgi-bin\nScriptAlias /cgi/ ${ROOT}/cgi-bin/\n\
    ScriptAlias /elsewhere/ ${ROOT}/elsewhere/\n<Directory ${ROOT}>\nRequire all granted\n</Directory>\n\
    SetEnv EVIL yes\nSetEnv PATH /evil\n";

const SHOW: &str = "#!/bin/sh\nprintf '\\n'; /usr/bin/id -u; /usr/bin/id -g; /usr/bin/id -G; echo \"$PATH $EVIL $QUERY_STRING $HTTP_HOST\"\n";

/// A place where most belongs to somebody else. `None` where nothing can be given away.
fn site() -> Option<Site> {
    if !needs::ROOT.is_there("every test of suexec") {
        return None;
    }
    let site = Site::with([("a.txt", "0123456789")]);
    let scripts = [
        ("ok", 0o755, OWNER),
        ("open", 0o775, OWNER),
        ("other", 0o755, 0),
        ("setuid", 0o4755, OWNER),
        ("text", 0o644, OWNER),
    ];
    for (name, mode, owner) in scripts {
        site.script(name, SHOW);
        let path = site.root.join("cgi-bin").join(name);
        chown(&path, Some(owner), Some(owner)).expect("chown");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("mode");
    }
    chown(site.root.join("cgi-bin"), Some(OWNER), Some(OWNER)).expect("chown");
    std::fs::create_dir_all(site.root.join("elsewhere")).expect("directory");
    std::fs::copy(site.root.join("cgi-bin/ok"), site.root.join("elsewhere/ok")).expect("copy");
    Some(site)
}

/// With one of the two modules only.
fn configure(mpm: Mpm, site: &Site, module: &str, text: &str) {
    let other = if module == "cgi" { " cgid_module " } else { " cgi_module " };
    let modules = load_lines(mpm);
    let modules =
        modules.lines().filter(|line| !line.contains(other)).fold(String::new(), |all, line| all + line + "\n");
    site.configure_with(&modules, &format!("{CONFIGURATION}{text}"));
}

fn start<'a>(mpm: Mpm, site: &'a Site, module: &str, text: &str) -> Server<'a> {
    configure(mpm, site, module, text);
    let server = Start::new(site, mpm).run();
    if text.contains("SuexecUserGroup") {
        server.announce("[suexec:notice]");
    }
    server
}

under_percore_and! { event:
    /// A virtual host's scripts run as its owner, the others as the server's user, with either module.
    fn scripts_run_as_their_owners(mpm: Mpm) {
        for module in ["cgi", "cgid"] {
            let Some(site) = site() else { return };
            let host = format!("<VirtualHost *>\nServerName hers\nSuexecUserGroup #{OWNER} #{OWNER}\n</VirtualHost>\n");
            let server = start(mpm, &site, module, &format!("<VirtualHost *>\nServerName his\n</VirtualHost>\n{host}"));
            let get = |host: &str, path: &str| {
                server.client().request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
            };
            let hers = get("hers", "/cgi/ok?q").text();
            assert_eq!(hers, format!("{OWNER}\n{OWNER}\n{OWNER}\n/usr/local/bin:/usr/bin:/bin  q hers\n"));
            assert_eq!(get("his", "/elsewhere/ok?q").text().lines().next(), Some("33"), "www-data");
            let path = site.path();
            let cases = [
                ("/cgi/open", "file is writable by others", "cgi-bin/open"),
                ("/cgi/other", "target uid/gid mismatch with directory or program", "cgi-bin/other"),
                ("/cgi/setuid", "file is either setuid or setgid", "cgi-bin/setuid"),
                ("/cgi/text", "file has no execute permission", "cgi-bin/text"),
                ("/elsewhere/ok", "command not in docroot", "elsewhere/ok"),
            ];
            server.allow("End of script output before headers: ");
            for (uri, reason, file) in cases {
                server.announce(format!("suexec policy violation: {reason}: ({path}/{file})"));
                assert_eq!(get("hers", uri).status, 500, "{uri}");
            }
        }
    }
}

/// A client of the daemon can run only the owner's own scripts, in their own place.
#[test]
fn a_daemon_is_not_led_astray() {
    let Some(site) = site() else { return };
    // The script's own directory is a link, which leads elsewhere.
    std::os::unix::fs::symlink(site.root.join("elsewhere"), site.root.join("cgi-bin/link")).expect("link");
    let text = format!(
        "Alias /link/ ${{ROOT}}/cgi-bin/link/\n<Location /link>\nSetHandler cgi-script\nOptions +ExecCGI\n</Location>\nSuexecUserGroup #{OWNER} #{OWNER}\n"
    );
    let server = start(Mpm::Percore, &site, "cgid", &text);
    server.announce("suexec policy violation: command not in docroot");
    server.allow("End of script output before headers: ok");
    assert_eq!((server.get("/link/ok").status, server.get("/cgi/ok").status), (500, 200));
}

/// A restart with an unusable configuration does not affect scripts. Without root, no process can change to an owner.
#[test]
fn a_refused_restart_leaves_the_daemons() {
    let Some(site) = site() else { return };
    let modules = load_lines(Mpm::Prefork);
    let modules: String = modules
        .lines()
        .filter(|line| !line.contains(" cgi_module "))
        .fold(String::new(), |all, line| all + line + "\n");
    site.configure_with(&modules, &format!("{CONFIGURATION}MaxConnectionsPerChild 1\n"));
    // Everything belongs to the starting user.
    let all = std::process::Command::new("chown").args(["-R", "33:33"]).arg(&site.root).status().expect("chown");
    assert!(all.success());
    let by = ["setpriv", "--reuid=33", "--regid=33", "--clear-groups"].map(str::to_string).to_vec();
    let server = Start::new(&site, Mpm::Prefork).by(by).run();
    assert_eq!(server.get("/cgi/ok").status, 200);
    site.configure_with(
        &modules,
        &format!("{CONFIGURATION}MaxConnectionsPerChild 1\nSuexecUserGroup #{OWNER} #{OWNER}\n"),
    );
    server.signal(sys::signal::Signal::USR1);
    server.announce("SuexecUserGroup configured, but suEXEC is disabled: the server was not started by root");
    server.announce("the new configuration is not used: the server goes on with the old one");
    server.logged("the new configuration is not used");
    for _ in 0..20 {
        assert_eq!(server.get("/cgi/ok").status, 200);
    }
}

/// A FastCGI application runs as whom the line says that names it, under the same rules as scripts.
#[test]
fn an_application_runs_as_its_owner() {
    let Some(site) = site() else { return };
    if !needs::PERL.is_there("an_application_runs_as_its_owner") {
        return;
    }
    let text = "#!/usr/bin/perl\nuse FCGI;\nmy $r = FCGI::Request();\nwhile ($r->Accept() >= 0) { print \"\\n$< $( $ENV{REQUEST_METHOD}\" }\n";
    for (name, owner) in [("owned.fcgi", OWNER), ("not.fcgi", 0)] {
        site.script(name, text);
        chown(site.root.join("cgi-bin").join(name), Some(owner), Some(owner)).expect("chown");
    }
    let lines = format!(
        "LoadModule fastcgi_module modules/mod_fastcgi.so\nAlias /fast/ ${{ROOT}}/cgi-bin/\n\
         <Location /fast/>\nSetHandler fastcgi-script\n</Location>\n\
         FastCgiServer ${{ROOT}}/cgi-bin/owned.fcgi -user #{OWNER} -group #{OWNER}\n"
    );
    configure(Mpm::Event, &site, "cgid", &lines);
    let server = Start::new(&site, Mpm::Event).run();
    server.allow("[suexec:notice]");
    assert_eq!(server.get("/fast/owned.fcgi").text(), format!("{OWNER} {OWNER} {OWNER} GET"));
    drop(server);
    configure(Mpm::Event, &site, "cgid", &lines.replace("owned", "not"));
    let server = Start::new(&site, Mpm::Event).run();
    server.allow("[suexec:notice]");
    server.announce("it may not run as its owner");
    server.allow("no backend for");
    assert_eq!(server.get("/fast/not.fcgi").status, 500);
}

/// With `-X` scripts run as their owners too, and the daemons that start them end with the server: they are root's, which the
/// server is no more.
#[test]
fn one_process_has_daemons_for_owners() {
    for module in ["cgi", "cgid"] {
        let Some(site) = site() else { return };
        configure(Mpm::Prefork, &site, module, &format!("SuexecUserGroup #{OWNER} #{OWNER}\n"));
        let mut server = Start::new(&site, Mpm::Prefork).arguments(&["-X"]).run();
        server.allow("[suexec:notice]");
        let answer = server.get("/cgi/ok");
        assert!(answer.text().starts_with(&format!("{OWNER}\n")), "{module}: {answer:?}");
        let daemons = server.children();
        assert!(!daemons.is_empty());
        server.signal(sys::signal::Signal::TERM);
        assert_eq!(server.ends().code(), Some(0));
        for pid in daemons {
            until("the end of its daemons", || is_gone(pid).then_some(()));
        }
    }
}

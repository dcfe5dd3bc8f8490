//! Debian's own `/etc/apache2`, with nothing changed in it but where it listens and writes.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::mpm::{Mpm, under_every_mpm};
use crate::oracle;
use crate::server::Start;
use crate::site::{PORT, Site};
use crate::wire::{Client, Response};

const ETC: &str = "/etc/apache2";

/// A copy of the tree. Its files name no path of the tree itself; `Listen 80`, the document root and the variables of
/// `envvars` are all that belongs to the machine.
fn copy(site: &Site) {
    let text = format!("cp -a {ETC} {root}/etc && cp -a /var/www/html/. {root}/htdocs/", root = site.path());
    assert!(Command::new("/bin/sh").args(["-c", &text]).status().expect("cp").success());
    let edit = |name: &str, from: &str, to: &str| {
        let path = format!("etc/{name}");
        site.file(&path, site.read(&path).replace(from, to));
    };
    edit("ports.conf", "Listen 80", &format!("Listen {}:{PORT}", site.ip));
    edit("sites-available/000-default.conf", "/var/www/html", &format!("{}/htdocs", site.path()));
    edit("sites-available/000-default.conf", "*:80", &format!("*:{PORT}"));
    edit("apache2.conf", "/var/www/", &format!("{}/htdocs/", site.path()));
    // The name of the machine is nobody's business here.
    site.file("etc/conf-enabled/name.conf", "ServerName localhost\n");
}

/// What `envvars` sets.
fn variables(site: &Site) -> [(&'static str, String); 6] {
    let root = site.path();
    [
        ("APACHE_RUN_USER", "www-data".into()),
        ("APACHE_RUN_GROUP", "www-data".into()),
        ("APACHE_PID_FILE", format!("{root}/logs/pid")),
        ("APACHE_RUN_DIR", format!("{root}/run")),
        ("APACHE_LOCK_DIR", format!("{root}/run")),
        ("APACHE_LOG_DIR", format!("{root}/logs")),
    ]
}

fn is_there(test: &str) -> bool {
    oracle::is_there(test) && Path::new(ETC).join("apache2.conf").exists()
}

/// Standard output and error, exit status, without what may differ.
fn run(program: &str, site: &Site, arguments: &[&str]) -> (BTreeSet<String>, BTreeSet<String>, Option<i32>) {
    let output = Command::new(program)
        .arg0("apache2")
        .args(["-d", &format!("{}/etc", site.path())])
        .args(arguments)
        .envs(variables(site))
        .output()
        .expect("run");
    // As many as there are modules that want one.
    let kept = |line: &&str| !line.starts_with("Mutex ");
    let lines = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).replace(site.path(), "ROOT");
        text.lines().filter(kept).map(str::to_string).collect()
    };
    (lines(&output.stdout), lines(&output.stderr), output.status.code())
}

#[test]
fn it_is_read_as_by_apache() {
    if !is_there("it_is_read_as_by_apache") {
        return;
    }
    let site = Site::new();
    copy(&site);
    for arguments in [&["-t"][..], &["-S"], &["-t", "-DDUMP_INCLUDES"], &["-t", "-DDUMP_VHOSTS"]] {
        let [ours, theirs] =
            [env!("CARGO_BIN_EXE_tsubame"), oracle::APACHE].map(|program| run(program, &site, arguments));
        assert_eq!(ours, theirs, "{arguments:?}");
    }
    let modules = |program| run(program, &site, &["-M"]);
    let [ours, theirs] = [modules(env!("CARGO_BIN_EXE_tsubame")), modules(oracle::APACHE)];
    // Watchdog is a helper of modules that are not here; macro is linked in.
    let missing: Vec<&String> = theirs.0.difference(&ours.0).collect();
    assert_eq!(missing, [" watchdog_module (static)"], "{ours:?}");
}

under_every_mpm! {
    /// It starts and serves; under another MPM as `a2dismod mpm_event; a2enmod mpm_NAME` leaves it, under percore without
    /// any.
    fn it_serves_the_same(mpm: Mpm) {
        if !is_there("it_serves_the_same") {
            return;
        }
        let site = Site::new();
        copy(&site);
        let enabled = site.root.join("etc/mods-enabled");
        let replace = |with: Option<&str>| {
            for suffix in ["load", "conf"] {
                std::fs::remove_file(enabled.join(format!("mpm_event.{suffix}"))).expect("remove");
                let Some(with) = with else { continue };
                let target = format!("../mods-available/mpm_{with}.{suffix}");
                std::os::unix::fs::symlink(target, enabled.join(format!("mpm_{with}.{suffix}"))).expect("link");
            }
        };
        match mpm {
            Mpm::Event => {}
            Mpm::Percore => replace(None),
            Mpm::Prefork | Mpm::Worker => replace(Some(mpm.name())),
        }
        let arguments = ["-d", &format!("{}/etc", site.path()), "-f", "apache2.conf", "-DFOREGROUND"];
        let mut starting = Start::new(&site, mpm).arguments(&arguments);
        for (name, value) in variables(&site) {
            starting = starting.variable(name, &value);
        }
        let server = starting.error_log("logs/error.log").run();
        let ours = answers(&site);
        server.announce("AH01630: client denied by server configuration: ");
        server.announce("AH01276: Cannot serve directory /usr/share/apache2/icons/: ");
        drop(server);
        if mpm == Mpm::Percore {
            // Apache cannot do without one.
            for suffix in ["load", "conf"] {
                let target = format!("../mods-available/mpm_event.{suffix}");
                std::os::unix::fs::symlink(target, enabled.join(format!("mpm_event.{suffix}"))).expect("link");
            }
        }
        let theirs = {
            let mut process = Command::new(oracle::APACHE)
                .args(&arguments[..])
                .envs(variables(&site))
                .process_group(0)
                .spawn()
                .expect("apache2");
            crate::wait::until("apache2", || std::net::TcpStream::connect(site.address()).ok());
            let theirs = answers(&site);
            let pid = i32::try_from(process.id()).ok().and_then(sys::process::Pid::new).expect("pid");
            pid.kill(sys::signal::Signal::TERM).expect("signal");
            process.wait().expect("wait");
            theirs
        };
        assert_eq!(ours, theirs);
    }
}

/// What matters of the answers to some requests.
fn answers(site: &Site) -> Vec<(u16, Vec<String>, Vec<u8>)> {
    let told = |response: &Response| {
        let names = ["Content-Type", "ETag", "Last-Modified", "Accept-Ranges", "Vary", "Content-Encoding", "Location"];
        names.iter().map(|name| format!("{name}: {:?}", response.all(name))).collect()
    };
    let requests = [
        "/",
        "/index.html",
        "/none",
        "/.htaccess",
        "/icons/",
        "/icons/blank.gif",
        "/server-status",
        "/cgi-bin/x",
        "/?q",
    ];
    let ask = |path: &&str| {
        let response = Client::connect(site.address()).get(path);
        // The status page counts; what a page says of the server differs.
        let body = if *path == "/server-status" || response.status != 200 { Vec::new() } else { response.body.clone() };
        (response.status, told(&response), body)
    };
    requests.iter().map(ask).collect()
}

//! Debian's own `/etc/apache2`, unchanged except for the addresses it listens on and the files it writes.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::harness::beside::{self, Output, compare};
use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::needs;
use crate::harness::oracle;
use crate::harness::server::Start;
use crate::harness::site::{PORT, Site};
use crate::harness::wire::{Client, Response};

const ETC: &str = "/etc/apache2";

/// A copy of the tree. Its files name no path of the tree itself; `Listen 80`, the document root and the variables of
/// `envvars` are all that belongs to the machine.
pub fn copy(site: &Site) {
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
    // The test must not depend on the machine's name.
    site.file("etc/conf-enabled/name.conf", "ServerName localhost\n");
}

/// The variables that `envvars` sets.
pub fn variables(site: &Site) -> [(&'static str, String); 6] {
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

pub fn is_there(test: &str) -> bool {
    oracle::is_there(test) && needs::DEBIAN.is_there(test)
}

/// A program's output for the copy.
fn said(program: &str, site: &Site, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.arg0("apache2").args(["-d", &format!("{}/etc", site.path())]).args(arguments).envs(variables(site));
    beside::said(command, site)
}

/// Every dump, byte for byte, with mod_info for the one that needs it.
fn compare_dumps(site: &Site) {
    let lists: [&[&str]; 10] = [
        &["-S"],
        &["-M"],
        &["-V"],
        &["-t", "-DDUMP_INCLUDES"],
        &["-t", "-DDUMP_VHOSTS"],
        &["-t", "-DDUMP_RUN_CFG"],
        &["-t", "-DDUMP_CERTS"],
        &["-t", "-DDUMP_INCLUDES", "-DDUMP_VHOSTS", "-DDUMP_RUN_CFG", "-DDUMP_MODULES", "-DDUMP_CERTS"],
        &["-t", "-DDUMP_CONFIG"],
        &[
            "-t",
            "-DDUMP_CONFIG",
            "-DDUMP_INCLUDES",
            "-DDUMP_VHOSTS",
            "-DDUMP_RUN_CFG",
            "-DDUMP_MODULES",
            "-DDUMP_CERTS",
        ],
    ];
    compare_said(site, &lists);
}

/// Compares the output of both programs for each list of arguments.
fn compare_said(site: &Site, lists: &[&[&str]]) {
    let info = format!("LoadModule info_module {}/mod_info.so", oracle::MODULES);
    compare(lists, |arguments| {
        let mut arguments = arguments.to_vec();
        if arguments.contains(&"-DDUMP_CONFIG") {
            arguments.extend(["-C", &info]);
        }
        let both = [env!("CARGO_BIN_EXE_tsubame"), oracle::APACHE].map(|program| said(program, site, &arguments));
        (format!("{arguments:?}"), both)
    });
}

#[test]
fn it_is_read_as_by_apache() {
    if is_there("it_is_read_as_by_apache") {
        let site = Site::new();
        copy(&site);
        compare_dumps(&site);
        compare_said(&site, &[&["-t"]]);
    }
}

/// The state after `a2enmod ssl; a2ensite default-ssl`, with a certificate and an address for the test.
fn enable_ssl(site: &Site) {
    let modules = ["ssl.load", "ssl.conf", "socache_shmcb.load"].map(|name| ("mods", name));
    for (kind, name) in modules.into_iter().chain([("sites", "default-ssl.conf")]) {
        let link = site.root.join(format!("etc/{kind}-enabled/{name}"));
        std::os::unix::fs::symlink(format!("../{kind}-available/{name}"), link).expect("link");
    }
    let root = site.path();
    let make = format!(
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 3 -keyout {root}/ssl.key -out {root}/ssl.pem 2>&1"
    );
    assert!(Command::new("/bin/sh").args(["-c", &make]).output().expect("openssl").status.success());
    let edit = |name: &str, changes: &[(&str, &str)]| {
        let text = site.read(&format!("etc/{name}"));
        let text = changes.iter().fold(text, |text, (from, to)| text.replace(from, to));
        site.file(format!("etc/{name}"), text);
    };
    edit("ports.conf", &[("Listen 443", &format!("Listen {}:{TLS_PORT}", site.ip))]);
    edit(
        "sites-available/default-ssl.conf",
        &[
            ("/etc/ssl/certs/ssl-cert-snakeoil.pem", &format!("{root}/ssl.pem")),
            ("/etc/ssl/private/ssl-cert-snakeoil.key", &format!("{root}/ssl.key")),
            ("*:443", &format!("*:{TLS_PORT}")),
            ("/var/www/html", &format!("{root}/htdocs")),
        ],
    );
}

/// The copy's port for TLS.
const TLS_PORT: u16 = 8443;

#[test]
fn it_is_read_as_by_apache_with_ssl() {
    if is_there("it_is_read_as_by_apache_with_ssl") && needs::OPENSSL.is_there("it_is_read_as_by_apache_with_ssl") {
        let site = Site::new();
        copy(&site);
        enable_ssl(&site);
        compare_dumps(&site);
        compare_said(&site, &[&["-t"]]);
    }
}

/// The same pages come over TLS, and scripts hear of it.
#[test]
fn it_serves_over_tls() {
    let test = "it_serves_over_tls";
    if !is_there(test) || !needs::OPENSSL.is_there(test) || !needs::CURL.is_there(test) {
        return;
    }
    let site = Site::new();
    copy(&site);
    enable_ssl(&site);
    let arguments = ["-d", &format!("{}/etc", site.path()), "-f", "apache2.conf", "-DFOREGROUND"];
    let ask = || {
        let url = format!("https://{}:{TLS_PORT}/", site.ip);
        let output = Command::new("curl").args(["-sk", "-w", "%{http_code}", &url]).output().expect("curl");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let ours = {
        let mut starting = Start::new(&site, Mpm::Event).arguments(&arguments);
        for (name, value) in variables(&site) {
            starting = starting.variable(name, &value);
        }
        let server = starting.error_log("logs/error.log").run();
        // The certificate is a CA's, and it names no host of this place.
        server.allow("AH01906: ");
        server.allow("AH01909: ");
        ask()
    };
    let mut apache = Command::new(oracle::APACHE);
    let mut process = apache.args(&arguments[..]).envs(variables(&site)).process_group(0).spawn().expect("apache2");
    crate::harness::wait::until("apache2", || std::net::TcpStream::connect(site.address()).ok());
    let theirs = ask();
    let pid = i32::try_from(process.id()).ok().and_then(sys::process::Pid::new).expect("pid");
    pid.kill(sys::signal::Signal::TERM).expect("signal");
    process.wait().expect("wait");
    assert_eq!(ours, theirs);
    assert!(ours.ends_with("200"), "{ours}");
}

under_percore_and! { event:
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
            crate::harness::wait::until("apache2", || std::net::TcpStream::connect(site.address()).ok());
            let theirs = answers(&site);
            let pid = i32::try_from(process.id()).ok().and_then(sys::process::Pid::new).expect("pid");
            pid.kill(sys::signal::Signal::TERM).expect("signal");
            process.wait().expect("wait");
            theirs
        };
        assert_eq!(ours, theirs);
    }
}

/// The relevant parts of the answers to some requests.
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

//! `tsubame bundle` and `tsubame ctl load`: one configuration for several machines.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::cli::ctl::{command, ctl, json};
use crate::harness::mpm::{Mpm, under_percore_and};
use crate::harness::server::{Server, Start};
use crate::harness::site::{PORT, Site, load_lines};
use crate::harness::wait::until;
use crate::harness::wire::Client;
use crate::mpm::control::said;

/// A machine: nothing in its main file says on which it is.
fn node(mpm: Mpm, main: &str) -> Site {
    let site = Site::with([("index.html", "hello\n")]);
    let identity = if sys::cred::is_root() { "User www-data\nGroup www-data\n" } else { "" };
    let modules = load_lines(mpm);
    site.file(
        "conf/httpd.conf",
        format!(
            "{modules}{identity}DefaultRuntimeDir run\nPidFile logs/pid\nErrorLog logs/error_log\nServerName localhost\n\
             Listen ${{ADDR}}:{PORT}\nDocumentRoot htdocs\nTypesConfig conf/mime.types\n{main}\n"
        ),
    );
    site
}

/// The first machine, with a configuration of several files.
fn first(mpm: Mpm) -> Site {
    let site = node(
        mpm,
        "Include conf/macros.conf\n<IfFile sites/one.conf>\nInclude sites/*.conf\n</IfFile>\nIncludeOptional sites/none/*.conf",
    );
    site.file("conf/macros.conf", "<Macro Says $what>\nHeader set X-Says $what\n</Macro>\n");
    site.file("sites/one.conf", "Use Says one\n");
    site.file("sites/two.conf", "Header set X-Two two\n<Location /metrics>\nSetHandler metrics\n</Location>\n");
    site
}

/// Another machine with a configuration of its own, whose files lie where the first one's do.
fn second(mpm: Mpm) -> Site {
    let site = node(mpm, "Include sites/*.conf");
    site.file("sites/own.conf", "Header set X-Own own\n");
    site
}

fn start(site: &Site, mpm: Mpm) -> Server<'_> {
    Start::new(site, mpm).variable("ADDR", &site.ip.to_string()).run()
}

/// Makes a bundle; returns its file, and what the command said.
fn bundle(site: &Site, name: &str) -> (PathBuf, String) {
    let file = site.root.join(name);
    let (output, errors, code) = said(&bundling(site, &file).output().expect("run"));
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    (file, output)
}

fn bundling(site: &Site, file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsubame"));
    command.args(["bundle", "-d", site.path(), "-f", "conf/httpd.conf", "-o"]).arg(file);
    command.env("ADDR", site.ip.to_string());
    command
}

fn load(site: &Site, words: &[&str]) -> (String, String, Option<i32>) {
    let mut command = command(site, &[&["load"], words].concat());
    said(&command.env("ADDR", site.ip.to_string()).output().expect("run"))
}

fn path(file: &Path) -> &str {
    file.to_str().expect("a plain path")
}

/// The names of the fields that tell which configuration has answered.
fn fields(server: &Server<'_>) -> Vec<&'static str> {
    let response = server.get("/");
    assert_eq!(response.status, 200);
    ["X-Says", "X-Two", "X-Own"].into_iter().filter(|name| response.field(name).is_some()).collect()
}

under_percore_and! { worker:
    /// What one machine serves, another one serves in other directories: nothing of its own files is mixed in.
    fn a_bundle_serves_the_same_on_another_machine(mpm: Mpm) {
        let (a, b) = (first(mpm), second(mpm));
        let (file, output) = bundle(&a, "x.bundle");
        let (again, _) = bundle(&a, "y.bundle");
        assert_eq!(std::fs::read(&file).expect("bundle"), std::fs::read(&again).expect("bundle"));
        assert_eq!(std::fs::metadata(&file).expect("bundle").permissions().mode() & 0o777, 0o600);

        let version = {
            let server = start(&a, mpm);
            assert_eq!(fields(&server), ["X-Says", "X-Two"]);
            json(&a, &["status"])["configuration"]["version"].as_str().expect("a version").to_string()
        };
        assert!(output.contains(&format!("version {version}")), "{output}");

        let server = start(&b, mpm);
        assert_eq!(fields(&server), ["X-Own"]);
        let own = json(&b, &["status"])["configuration"].take();
        assert_ne!(own["version"], version.as_str());
        assert!(own["bundle"].is_null());
        let (output, errors, code) = load(&b, &[path(&file), "--check", &format!("http://{}/", b.address())]);
        assert_eq!((errors.as_str(), code), ("", Some(0)));
        assert_eq!(output, format!("version {version} is in effect\n"));
        assert_eq!(fields(&server), ["X-Says", "X-Two"]);
        let now = json(&b, &["status"])["configuration"].take();
        let directory = b.root.join("conf/httpd.conf.bundles").join(&version);
        assert_eq!((&now["version"], &now["bundle"]), (&version.as_str().into(), &path(&directory).into()));
        let info = format!("tsubame_configuration_info{{version=\"{version}\"}} 1\n");
        assert!(server.get("/metrics").text().contains(&info));

        // The files that the machine had are there again after a rollback, and the next rollback takes it back.
        assert_eq!(load(&b, &["--rollback"]).2, Some(0));
        assert_eq!(fields(&server), ["X-Own"]);
        assert_eq!(load(&b, &["--rollback"]).2, Some(0));
        assert_eq!(fields(&server), ["X-Says", "X-Two"]);
        drop(server);
        let server = start(&b, mpm);
        assert_eq!(fields(&server), ["X-Says", "X-Two"]);
        server.allow("takes the place of");
    }
}

under_percore_and! { event:
    /// Whatever is wrong with a bundle: the old configuration is in effect, and no client gets an error meanwhile.
    fn a_bundle_that_is_no_good_is_not_kept(mpm: Mpm) {
        let (a, b) = (first(mpm), second(mpm));
        let server = start(&b, mpm);
        let before = json(&b, &["status"])["configuration"].take();
        let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
        let refused = |words: &[&str], parts: &[&str]| {
            let (output, errors, code) = load(&b, words);
            assert_eq!((output.as_str(), code), ("", Some(1)), "{errors}");
            assert!(parts.iter().all(|part| errors.contains(part)), "{errors}");
            assert_eq!(json(&b, &["status"])["configuration"], before);
            // Children of the configuration that was given up serve the connections that they have accepted.
            until("the old configuration", || (fields(&server) == ["X-Own"]).then_some(()));
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(Client::connect(b.address()).get("/").status, 200);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bad_bundles(&a, &b, refused)));
            stop.store(true, Ordering::Relaxed);
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        assert!(asked.load(Ordering::Relaxed) > 0);
        server.allow("Address already in use");
        server.allow("no listening sockets available");
        server.allow("the new configuration is not used");
    }
}

/// Loads one bundle after another that `b` cannot use.
fn bad_bundles(a: &Site, b: &Site, refused: impl Fn(&[&str], &[&str])) {
    refused(&["--rollback"], &["there is no earlier version"]);
    // Cut off, and altered.
    let (file, _) = bundle(a, "x.bundle");
    let bytes = std::fs::read(&file).expect("bundle");
    refused(&[path(&a.file("cut.bundle", &bytes[..bytes.len() / 2]))], &["cut.bundle: it is cut off"]);
    let at = bytes.windows(7).rposition(|part| part == b"X-Two t").expect("a word");
    let mut altered = bytes.clone();
    altered[at] = b'Y';
    refused(&[path(&a.file("altered.bundle", &altered))], &["sites/two.conf was altered"]);

    // The server serves, and a URL that has to answer well does not.
    let none = format!("http://{}/none", b.address());
    refused(&[path(&file), "--check", &none, "--within", "1s"], &["it answers 404", "is in effect again"]);

    // Certificates that this machine lacks, or has in another version.
    let certificate = || {
        let made = rcgen::generate_simple_self_signed(["a.example".to_string()]).expect("certificate");
        made.cert.pem() + &made.signing_key.serialize_pem()
    };
    a.file("ssl/a.pem", certificate());
    a.file("sites/tls.conf", "SSLCertificateFile ssl/a.pem\nSSLCertificateKeyFile ssl/a.pem\n");
    let (tls, output) = bundle(a, "tls.bundle");
    assert!(output.contains("SSLCertificateFile ssl/a.pem"), "{output}");
    assert!(!String::from_utf8_lossy(&std::fs::read(&tls).expect("bundle")).contains("PRIVATE KEY"));
    refused(&[path(&tls)], &["SSLCertificateFile ssl/a.pem: ", "SSLCertificateKeyFile ssl/a.pem: ", "No such file"]);
    b.file("ssl/a.pem", certificate());
    refused(&[path(&tls)], &["SSLCertificateFile ssl/a.pem: other certificates"]);

    // What is wrong on this machine only: a line, and a port that another program has.
    b.file("is-b", "");
    a.file("sites/tls.conf", "<IfFile is-b>\nBogus on\n</IfFile>\n");
    refused(&[path(&bundle(a, "line.bundle").0)], &["nothing has changed", "line 2 of", "Invalid command 'Bogus'"]);
    let _other = std::net::TcpListener::bind((b.ip, PORT + 1)).expect("a port");
    a.file("sites/tls.conf", format!("<IfFile is-b>\nListen ${{ADDR}}:{}\n</IfFile>\n", PORT + 1));
    refused(&[path(&bundle(a, "port.bundle").0)], &["Address already in use", "is in effect again"]);
}

/// What one machine writes to a pipe, another one loads from it.
#[test]
fn a_bundle_goes_through_a_pipe() {
    let mpm = Mpm::Percore;
    let (a, b) = (first(mpm), second(mpm));
    let (file, _) = bundle(&a, "x.bundle");
    let written = bundling(&a, Path::new("-")).output().expect("run");
    assert!(written.status.success() && written.stdout == std::fs::read(&file).expect("bundle"));
    let summary = String::from_utf8_lossy(&written.stderr).into_owned();
    assert!(summary.starts_with("bundle: version "), "{summary}");
    assert!(!a.root.join("-").exists());
    // A device is not replaced by a file.
    let link = a.root.join("link");
    std::os::unix::fs::symlink("/dev/null", &link).expect("a link");
    let (_, errors, code) = said(&bundling(&a, &link).output().expect("run"));
    assert!(code == Some(1) && errors.contains("no regular file"), "{errors}");
    assert!(std::fs::read_link(&link).is_ok());

    let server = start(&b, mpm);
    let piped = |bytes: &[u8]| {
        let mut command = command(&b, &["load", "-"]);
        let input = std::fs::File::open(b.file("run/piped", bytes)).expect("file");
        said(&command.stdin(input).env("ADDR", b.ip.to_string()).output().expect("run"))
    };
    let (_, errors, code) = piped(b"");
    assert!(code == Some(1) && errors.contains("standard input: it is cut off"), "{errors}");
    assert_eq!(piped(&written.stdout).2, Some(0));
    assert_eq!(fields(&server), ["X-Says", "X-Two"]);
}

/// Lines for a host that is encrypted on another port, with a certificate for this name in `ssl/NAME.pem`.
fn encrypted(name: &str) -> String {
    format!(
        "Listen ${{ADDR}}:{}\n<VirtualHost *:{}>\nServerName {name}\nSSLEngine on\n\
         SSLCertificateFile ssl/{name}.pem\nSSLCertificateKeyFile ssl/{name}.key\n</VirtualHost>\n",
        PORT + 1,
        PORT + 1
    )
}

fn certify(site: &Site, name: &str, made: &rcgen::CertifiedKey<rcgen::KeyPair>) {
    site.file(format!("ssl/{name}.pem"), made.cert.pem());
    site.file(format!("ssl/{name}.key"), made.signing_key.serialize_pem());
}

/// The health check over TLS: the certificate of the configuration is trusted for its name, no other is.
#[test]
fn an_encrypted_url_may_be_the_check() {
    let mpm = Mpm::Percore;
    let (a, b) = (first(mpm), second(mpm));
    let made = rcgen::generate_simple_self_signed(["own.example".to_string()]).expect("certificate");
    [&a, &b].into_iter().for_each(|site| certify(site, "own.example", &made));
    a.file("sites/tls.conf", encrypted("own.example"));
    let (file, _) = bundle(&a, "x.bundle");
    let mut server = start(&b, mpm);
    let to = format!("{}:{}", b.ip, PORT + 1);
    let (output, errors, code) = load(&b, &[path(&file), "--check", "https://own.example/", "--to", &to]);
    assert!(output.ends_with("is in effect\n") && code == Some(0), "{errors}");
    // Nobody asks for a name by the address.
    assert_eq!(load(&b, &[path(&file), "--check", &format!("https://{to}/")]).2, Some(0));
    server.count_descriptors();
    let refused = |url: &str, to: &str, part: &str| {
        let (_, errors, code) = load(&b, &[path(&file), "--check", url, "--to", to, "--within", "1s"]);
        assert!(code == Some(1) && errors.contains(part), "{errors}");
        assert_eq!(fields(&server), ["X-Says", "X-Two"]);
    };
    refused("https://other.example/", &to, "certificate not valid for name \"other.example\"");
    refused("https://own.example/none", &to, "https://own.example/none does not answer well within 1s: it answers 404");

    // Another server at that address, with a certificate of its own.
    let other = node(mpm, &encrypted("own.example"));
    let made = rcgen::generate_simple_self_signed(["own.example".to_string()]).expect("certificate");
    certify(&other, "own.example", &made);
    let _other = start(&other, mpm);
    refused("https://own.example/", &format!("{}:{}", other.ip, PORT + 1), "UnknownIssuer");
}

/// Keys and files of users that a server could not use are told before anything changes.
#[test]
fn keys_and_files_of_users_have_to_be_usable() {
    let mpm = Mpm::Percore;
    let (a, b) = (first(mpm), second(mpm));
    let make = || rcgen::generate_simple_self_signed(["own.example".to_string()]).expect("certificate");
    let made = make();
    [&a, &b].into_iter().for_each(|site| certify(site, "own.example", &made));
    a.file("sites/tls.conf", encrypted("own.example"));
    a.file("sites/users.conf", "<Location /in>\nAuthUserFile ssl/users\nAuthGroupFile ssl/groups\n</Location>\n");
    for site in [&a, &b] {
        site.file("ssl/users", "# people\n\njoe:x\n");
        site.file("ssl/groups", "all: joe\n");
    }
    let (file, _) = bundle(&a, "x.bundle");
    let mut server = start(&b, mpm);
    let refused = |parts: &[&str]| {
        let (output, errors, code) = load(&b, &[path(&file)]);
        assert_eq!((output.as_str(), code), ("", Some(1)), "{errors}");
        assert!(parts.iter().all(|part| errors.contains(part)) && errors.contains("nothing has changed"), "{errors}");
        assert_eq!(fields(&server), ["X-Own"]);
    };
    b.file("ssl/own.example.key", make().signing_key.serialize_pem());
    refused(&["AH02565: Certificate and private key", "ssl/own.example.key do not match"]);
    b.file("ssl/own.example.key", "no key\n");
    refused(&["AH02564: Failed to configure", "ssl/own.example.key", "Private key not found"]);
    certify(&b, "own.example", &made);
    b.file("ssl/users", "joe:x\nzoe\n");
    b.file("ssl/groups", ": joe\n");
    refused(&["AuthUserFile ssl/users: line 2 is no name", "AuthGroupFile ssl/groups: line 1 is no name"]);
    let users = b.file("ssl/users", "joe:x\n");
    b.file("ssl/groups", "all: joe\n");
    if sys::cred::is_root() {
        std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o600)).expect("a mode");
        refused(&["AuthUserFile ssl/users: the user of the server's children may not read it"]);
        std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o644)).expect("a mode");
    }
    assert_eq!(load(&b, &[path(&file)]).2, Some(0));
    server.count_descriptors();

    // The machine where it is made counts too.
    a.file("ssl/users", "joe\n");
    let (_, errors, code) = said(&bundling(&a, &a.root.join("y.bundle")).output().expect("run"));
    assert!(code == Some(1) && errors.contains("AuthUserFile ssl/users: line 1 is no name"), "{errors}");
}

/// A load that is killed half-way leaves one version as a whole, and can be taken back.
#[test]
fn a_load_that_is_killed_leaves_no_mixture() {
    let mpm = Mpm::Percore;
    let (a, b) = (first(mpm), second(mpm));
    let (file, output) = bundle(&a, "x.bundle");
    let server = start(&b, mpm);
    let none = format!("http://{}/none", b.address());
    let mut command = command(&b, &["load", path(&file), "--check", &none, "--within", "60s"]);
    let mut loading = command.env("ADDR", b.ip.to_string()).spawn().expect("run");
    let version = || json(&b, &["status"])["configuration"]["version"].as_str().expect("a version").to_string();
    until("the new version is in effect", || output.contains(&version()).then_some(()));
    let (_, errors, code) = load(&b, &[path(&file)]);
    assert!(code == Some(1) && errors.contains("another load is under way"), "{errors}");
    loading.kill().expect("kill");
    loading.wait().expect("wait");
    assert_eq!(fields(&server), ["X-Says", "X-Two"]);
    assert_eq!(ctl(&b, &["graceful"]).2, Some(0));
    assert_eq!(load(&b, &["--rollback"]).2, Some(0));
    assert_eq!(fields(&server), ["X-Own"]);
}

/// A file that was changed by hand, and a certificate that was replaced, are told.
#[test]
fn what_was_changed_by_hand_is_told() {
    let mpm = Mpm::Percore;
    let (a, b) = (first(mpm), second(mpm));
    let certificate = || rcgen::generate_simple_self_signed(["a.example".to_string()]).expect("certificate").cert.pem();
    let pem = certificate();
    for site in [&a, &b] {
        site.file("ssl/ca.pem", &pem);
    }
    a.file("sites/tls.conf", "SSLCACertificateFile ssl/ca.pem\n");
    let (file, _) = bundle(&a, "x.bundle");
    let server = start(&b, mpm);
    assert_eq!(load(&b, &[path(&file)]).2, Some(0));
    let told = || json(&b, &["status"])["configuration"]["drift"].take();
    assert_eq!(told(), serde_json::json!([]));

    let version = json(&b, &["status"])["configuration"]["version"].as_str().expect("a version").to_string();
    let name = format!("conf/httpd.conf.bundles/{version}/root/sites/one.conf");
    assert!(b.read(&name).contains("Use Says"));
    b.file(&name, "Header set X-Own hand\n");
    b.file("ssl/ca.pem", certificate());
    let drift = told();
    let list: Vec<&str> = drift.as_array().expect("a list").iter().filter_map(|text| text.as_str()).collect();
    assert!(list[0].ends_with("sites/one.conf: changed"), "{list:?}");
    assert!(list[1].starts_with("SSLCACertificateFile ssl/ca.pem: other certificates"), "{list:?}");
    assert_eq!(list.len(), 2);
    let (output, ..) = ctl(&b, &["status"]);
    assert_eq!(output.matches("changed by hand since it was loaded").count(), 2, "{output}");
    assert_eq!(json(&b, &["diff"])["drift"], drift);

    // In effect after a restart, which gives the configuration another version.
    assert_eq!(ctl(&b, &["graceful"]).2, Some(0));
    until("the line takes effect", || (fields(&server) == ["X-Two", "X-Own"]).then_some(()));
    assert_ne!(json(&b, &["status"])["configuration"]["version"], version.as_str());
}

/// Two nodes are compared directive by directive; where Apache ignores the order of lines, so does the comparison.
#[test]
fn two_nodes_are_compared() {
    let mpm = Mpm::Percore;
    let hosts = |grant: &str| {
        format!(
            "<VirtualHost *:81>\nServerName one.example\n</VirtualHost>\n\
             <VirtualHost *:81>\nServerName two.example\n<Directory /srv>\nRequire {grant}\n</Directory>\n</VirtualHost>\n"
        )
    };
    let a = node(
        mpm,
        &format!("Timeout 7\nHeader set X-A a\nHeader set X-B b\nListen ${{ADDR}}:8082\n{}", hosts("all granted")),
    );
    let b = node(
        mpm,
        &format!("Listen ${{ADDR}}:8082\nHeader set X-A a\nHeader set X-B b\nTimeout 7\n{}", hosts("all granted")),
    );
    let (file, _) = bundle(&a, "x.bundle");
    let server = start(&b, mpm);
    let diff = |words: &[&str]| {
        let mut command = command(&b, &[&["diff"], words].concat());
        said(&command.env("ADDR", b.ip.to_string()).output().expect("run"))
    };
    let want = format!("the configuration in effect is that of {}\n", path(&file));
    assert_eq!(diff(&[path(&file)]), (want, String::new(), Some(0)));

    // Another value, a line more, and lines whose order matters.
    let main = a.read("conf/httpd.conf");
    let main = main.replace("all granted", "all denied").replace("Timeout 7", "Timeout 8\nAlias /x /tmp");
    a.file("conf/httpd.conf", main.replace("Header set X-A a\nHeader set X-B b", "Header set X-B b\nHeader set X-A a"));
    let (file, _) = bundle(&a, "x.bundle");
    let (output, errors, code) = diff(&[path(&file)]);
    assert_eq!((errors.as_str(), code), ("", Some(1)), "{output}");
    let output: Vec<&str> = output.lines().map(|line| line.split("  # ").next().unwrap_or_default()).collect();
    let want = [
        "- in effect here",
        &format!("+ {}", path(&file)),
        "  <VirtualHost *:81> ServerName two.example <Directory /srv>",
        "-   Require all granted",
        "+   Require all denied",
        "  server level",
        "+   Alias /x /tmp",
        "-   Header set X-A a",
        "+   Header set X-A a",
        "-   Timeout 7",
        "+   Timeout 8",
    ];
    assert_eq!(output, want);
    let (output, _, code) = diff(&[path(&file), "--json"]);
    let changes: serde_json::Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!((&changes["same"], code), (&false.into(), Some(1)));
    let first = &changes["changes"][0];
    assert_eq!((&first["only"], &first["line"]), (&"here".into(), &"Require all granted".into()));
    let origin = &first["origin"];
    assert!(origin["file"].as_str().is_some_and(|file| file.ends_with("conf/httpd.conf")) && origin["line"].is_u64());

    // What another node prints, over a pipe; and what is neither.
    let (config, ..) = ctl(&b, &["config", "--json"]);
    let piped = b.file("run/config", config);
    let mut command = command(&b, &["diff", "-"]);
    command.stdin(std::fs::File::open(piped).expect("file")).env("ADDR", b.ip.to_string());
    assert_eq!(said(&command.output().expect("run")).2, Some(0));
    let (_, errors, code) = diff(&[path(&a.file("text", "Listen 80\n"))]);
    assert!(code == Some(2) && errors.contains("it is"), "{errors}");
    drop(server);
}

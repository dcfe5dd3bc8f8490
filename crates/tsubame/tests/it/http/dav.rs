//! WebDAV: real clients, Debian's suite of tests, and what our server alone decides.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::needs;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::{Client, Response};

pub(super) const CONFIGURATION: &str = "DavLockDB run/locks\nDirectoryIndex disabled\nDirectorySlash Off\n\
    <Location /dav>\nDav On\n</Location>\n";

/// A place that the children may write to.
pub(super) fn writable(site: &Site) {
    std::fs::create_dir_all(site.root.join("htdocs/dav")).expect("a directory");
    for name in ["run", "htdocs", "htdocs/dav"] {
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(site.root.join(name), all).expect("permissions");
    }
}

pub(super) fn place() -> Site {
    let site = Site::new();
    writable(&site);
    site
}

pub(super) fn ask(site: &Site, line: &str, fields: &[&str], body: &str) -> Response {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let length = body.len();
    let method = line.split(' ').next().unwrap_or_default();
    let mut client = Client::connect(site.address());
    client.send(format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\n{fields}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    client.response_to(method)
}

/// Runs a program, which must succeed, and returns its output.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

pub(super) const LOCKINFO: &str = "<lockinfo xmlns=\"DAV:\"><lockscope><exclusive/></lockscope><locktype><write/></locktype>\
    <owner>me</owner></lockinfo>";

#[test]
fn litmus_passes() {
    if !needs::LITMUS.is_there("litmus_passes") {
        return;
    }
    for mpm in Mpm::chosen(test_name!()) {
        let site = place();
        // The directory of the file is missing, as after a boot.
        let text = CONFIGURATION.replace("run/locks", "run/lock/locks");
        let server = Server::start(mpm, &site, &text);
        server.allow_everything("litmus also makes requests that must be refused");
        let url = format!("http://{}/dav/", site.address());
        let said = run(Command::new("litmus").arg("-k").arg(url).current_dir(&site.root));
        assert!(!said.contains("FAIL") && said.matches("100.0%").count() == 5, "{mpm}: {said}");
    }
}

#[test]
fn cadaver_and_rclone_work_with_files() {
    if !needs::DAV_CLIENTS.is_there("cadaver_and_rclone_work_with_files") {
        return;
    }
    for mpm in Mpm::chosen(test_name!()) {
        let site = place();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let url = format!("http://{}/dav/", site.address());
        let local = site.file("local/a b.txt", "hello\n");
        site.file("local/deep/\u{e4}.txt", vec![b'x'; 3 << 20]);
        let lines = format!(
            "put \"{}\"\nmkcol col\ncopy \"a b.txt\" col/c.txt\nmove col/c.txt col/d.txt\nlock col/d.txt\n\
             propset col/d.txt colour green\npropget col/d.txt colour\nunlock col/d.txt\nls col\nquit\n",
            local.display()
        );
        site.file("script", lines);
        let said = {
            let script = std::fs::File::open(site.root.join("script")).expect("a script");
            run(Command::new("cadaver").arg(&url).env("HOME", site.path()).stdin(script))
        };
        assert!(said.contains("green") && said.contains("d.txt") && !said.contains("failed"), "{mpm}: {said}");
        assert_eq!(server.get("/dav/col/d.txt").text(), "hello\n");

        let rclone = |words: &[&str]| {
            let mut command = Command::new("rclone");
            command.env("HOME", site.path()).env("RCLONE_WEBDAV_URL", &url).env("RCLONE_WEBDAV_VENDOR", "other");
            run(command.args(["--retries=1", "--config", "/dev/null"]).args(words))
        };
        let path = |name: &str| site.root.join(name).display().to_string();
        rclone(&["copy", &path("local"), ":webdav:up"]);
        rclone(&["copy", ":webdav:up", &path("back")]);
        assert_eq!(std::fs::read(path("back/deep/\u{e4}.txt")).expect("a file").len(), 3 << 20);
        rclone(&["moveto", ":webdav:up/deep", ":webdav:moved"]);
        assert!(rclone(&["lsf", "-R", ":webdav:"]).contains("moved/\u{e4}.txt"), "{mpm}");
        rclone(&["purge", ":webdav:up"]);
        assert!(!Path::new(&path("htdocs/dav/up")).exists());
        server.allow_everything("the clients may ask for what is not there");
    }
}

#[test]
fn a_large_file_goes_through_in_pieces() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = place();
        let server = Server::start(mpm, &site, CONFIGURATION);
        let mut client = server.client();
        let (piece, count) = (vec![b'p'; 1 << 20], 64);
        client.send(format!("PUT /dav/large HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", piece.len() * count));
        for _ in 0..count {
            client.send(&piece);
        }
        assert_eq!(client.response_to("PUT").status, 201);
        let meta = std::fs::metadata(site.root.join("htdocs/dav/large")).expect("a file");
        assert_eq!(meta.len(), (piece.len() * count) as u64);
        for child in server.children() {
            let status = std::fs::read_to_string(format!("/proc/{child}/status")).expect("a process");
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a figure");
            let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
            assert!(peak < 48 << 10, "{mpm}: {peak} KiB");
        }
    }
}

#[test]
fn access_is_checked_at_both_ends() {
    let configuration = "DavLockDB run/locks\nDirectorySlash Off\n<Location /dav>\nDav On\n</Location>\n\
        <Location /dav/closed>\nRequire all denied\n</Location>\n\
        <Location /dav/read>\n<LimitExcept GET HEAD OPTIONS PROPFIND>\nRequire all denied\n</LimitExcept>\n</Location>\n\
        <Location /dav/off>\nDav Off\n</Location>\n<Directory htdocs/dav/broken>\nAllowOverride All\n</Directory>\n";
    for mpm in Mpm::chosen(test_name!()) {
        let site = place();
        site.page("dav/closed/secret", "x");
        site.page("dav/read/f", "x");
        site.page("dav/off/f", "x");
        site.page("dav/broken/.htaccess", "Nonsense\n");
        let server = Server::start(mpm, &site, configuration);
        server.allow_everything("each refused request is logged");
        assert_eq!(ask(&site, "PUT /dav/f", &[], "x").status, 201);
        let copy = |from: &str, to: &str| {
            let destination = format!("Destination: http://localhost{to}");
            ask(&site, &format!("COPY {from}"), &[&destination], "").status
        };
        assert_eq!(copy("/dav/closed/secret", "/dav/stolen"), 403);
        assert_eq!(copy("/dav/f", "/dav/closed/f"), 403);
        assert_eq!(copy("/dav/f", "/dav/read/g"), 403);
        assert_eq!(copy("/dav/f", "/dav/off/g"), 405);
        assert_eq!(ask(&site, "PUT /dav/read/f", &[], "y").status, 403);
        assert_eq!(ask(&site, "PROPFIND /dav/read/f", &["Depth: 0"], "").status, 207);
        assert_eq!(ask(&site, "DELETE /dav/off/f", &[], "").status, 405);
        let listing = ask(&site, "PROPFIND /dav/", &["Depth: 1"], "").text();
        assert!(listing.contains("/dav/read/") && !listing.contains("closed"), "{listing}");
        assert!(!listing.contains("broken"), "who may see it cannot be known: {listing}");
    }
}

/// The root of a repository, its file of locks, and whatever a client may not touch stay where they are.
#[test]
fn what_a_client_may_not_remove_stays() {
    let configuration = "DavLockDB ${DOCS}/dav/state/locks\nDirectorySlash Off\nDirectoryIndex disabled\n\
        <Directory ${DOCS}>\nDav On\n</Directory>\nAlias /other/ ${ROOT}/run/\n<Location /other>\nDav On\nRequire all granted\n</Location>\n\
        <Location /dav/a/closed>\nRequire all denied\n</Location>\n<Files keep.txt>\nRequire all denied\n</Files>\n";
    for mpm in Mpm::chosen(test_name!()) {
        let site = place();
        site.page("dav/a/closed/secret", "x");
        site.page("dav/a/open", "x");
        site.page("dav/b/deep/keep.txt", "x");
        site.page("dav/c/deep/free.txt", "x");
        site.page("dav/state/x", "x");
        site.file("run/f", "x");
        let open = std::fs::Permissions::from_mode(0o777);
        for name in ["dav/a", "dav/a/closed", "dav/b", "dav/b/deep", "dav/c", "dav/c/deep", "dav/state"] {
            std::fs::set_permissions(site.root.join("htdocs").join(name), open.clone()).expect("permissions");
        }
        let server = Server::start(mpm, &site, configuration);
        server.allow_everything("each refused request is logged");
        let to = |line: &str, to: &str| {
            let destination = format!("Destination: http://localhost{to}");
            let fields = [destination.as_str()];
            ask(&site, line, &fields[..usize::from(!to.is_empty())], "").status
        };
        for (line, destination, status) in [
            ("DELETE /", "", 403),
            ("DELETE /other/", "", 403),
            ("MOVE /", "/dav/x/", 403),
            ("MOVE /other/", "/dav/x/", 403),
            ("COPY /dav/c/", "/", 403),
            ("COPY /dav/c/", "/other/", 403),
            ("DELETE /dav/a/", "", 207),
            ("MOVE /dav/a/", "/dav/x/", 207),
            ("COPY /dav/a/", "/dav/x/", 207),
            ("COPY /dav/c/", "/dav/a/", 207),
            ("DELETE /dav/b/", "", 207),
            ("DELETE /dav/state/", "", 403),
            ("DELETE /dav/", "", 403),
            ("COPY /dav/c/", "/dav/d/", 201),
            ("MOVE /dav/d/", "/dav/e/", 201),
            ("DELETE /dav/e/", "", 204),
        ] {
            assert_eq!(to(line, destination), status, "{line} {destination} under {mpm}");
        }
        for file in ["htdocs/dav/a/open", "htdocs/dav/a/closed/secret", "htdocs/dav/b/deep/keep.txt", "run/f"] {
            assert!(site.root.join(file).exists(), "{file}");
        }
        assert!(!site.root.join("htdocs/dav/x").exists());
    }
}

#[test]
fn a_form_below_reaches_its_script() {
    let site = place();
    let script = "#!/bin/sh\necho Content-Type: text/plain\necho\necho \"$REQUEST_METHOD\"\n";
    let script = site.page("dav/form.cgi", script);
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).expect("permissions");
    let text = format!("{CONFIGURATION}AddHandler cgi-script .cgi\n<Location /dav>\nOptions +ExecCGI\n</Location>\n");
    let server = Server::start(Mpm::Percore, &site, &text);
    for method in ["GET", "POST"] {
        let response = ask(&site, &format!("{method} /dav/form.cgi"), &[], "");
        assert_eq!((response.status, response.text().as_str()), (200, format!("{method}\n").as_str()));
    }
    assert_eq!(ask(&site, "PATCH /dav/form.cgi", &[], "").status, 405);
    server.allow_everything("the refused method is logged");
}

/// Apache also counts the collection and the destination.
#[test]
fn a_token_without_a_name_is_enough() {
    let site = place();
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    for (line, fields) in [("DELETE /dav/f", &[][..]), ("MOVE /dav/f", &["Destination: http://localhost/dav/g"])] {
        assert_eq!(ask(&site, "PUT /dav/f", &[], "x").status, 201);
        let locked = ask(&site, "LOCK /dav/f", &[], LOCKINFO);
        let field = format!("If: ({})", locked.field("Lock-Token").expect("a token"));
        let fields: Vec<&str> = fields.iter().copied().chain([field.as_str()]).collect();
        let status = ask(&site, line, &fields, "").status;
        assert!(matches!(status, 201 | 204), "{line}: {status}");
        // A deleted file has no locks, and neither does a new one with its name.
        assert_eq!(ask(&site, "PUT /dav/f", &[], "x").status, 201);
        assert_eq!(ask(&site, "DELETE /dav/f", &[], "").status, 204);
    }
    server.allow_everything("other tests check the log");
}

#[test]
fn links_lead_nowhere() {
    let site = place();
    site.file("outside/keep", "x");
    std::os::unix::fs::symlink(site.root.join("outside"), site.root.join("htdocs/dav/link")).expect("a link");
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    let listing = ask(&site, "PROPFIND /dav/", &["Depth: 1"], "").text();
    assert!(!listing.contains("link"), "{listing}");
    assert_eq!(ask(&site, "COPY /dav/", &["Destination: http://localhost/dav2"], "").status, 405);
    assert_eq!(ask(&site, "DELETE /dav/link", &[], "").status, 204);
    assert!(site.root.join("outside/keep").exists() && !site.root.join("htdocs/dav/link").exists());
    server.allow_everything("the refused copy is logged");
}

#[test]
fn bodies_are_bounded() {
    let site = place();
    let text = format!("{CONFIGURATION}LimitXMLRequestBody 100\n");
    let server = Server::start(Mpm::Percore, &site, &text);
    server.announce("AH00539: XML request body is larger than the configured limit of 100");
    server.announce("AH00541: XML Parser Error");
    assert_eq!(ask(&site, "PROPFIND /dav/", &["Depth: 0"], &"x".repeat(101)).status, 413);
    let bomb = "<!DOCTYPE a [<!ENTITY b \"bbbbbbbb\"><!ENTITY c \"&b;&b;\">]><a>&c;</a>";
    assert_eq!(ask(&site, "PROPFIND /dav/", &["Depth: 0"], bomb).status, 400);
}

#[test]
fn a_small_document_makes_no_large_one() {
    let site = place();
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    let many: String = (0..5_000).map(|number| format!("<b{number}/><b{number}/>")).collect();
    let space = "u".repeat(1000);
    let prop = format!("<D:prop xmlns=\"{space}\">{many}</D:prop>");

    let found =
        ask(&site, "PROPFIND /dav/", &["Depth: 0"], &format!("<D:propfind xmlns:D=\"DAV:\">{prop}</D:propfind>"));
    let text = found.text();
    assert_eq!((found.status, text.matches(&space).count(), text.matches(":b77/>").count()), (207, 1, 1));

    assert_eq!(ask(&site, "PUT /dav/f", &[], "x").status, 201);
    let update = |verb: &str, prop: &str| {
        let text = format!("<D:propertyupdate xmlns:D=\"DAV:\"><D:{verb}>{prop}</D:{verb}></D:propertyupdate>");
        ask(&site, "PROPPATCH /dav/f", &[], &text)
    };
    let removed = update("remove", &prop);
    assert_eq!((removed.status, removed.text().matches(&space).count()), (207, 1));
    server.announce("Could not open the property database for /dav/f.");
    assert_eq!(update("set", &prop).status, 507, "each of them would carry its namespace");
    assert_eq!(update("set", "<D:prop><kept/></D:prop>").status, 207);
    let names = "<D:propfind xmlns:D=\"DAV:\"><D:propname/></D:propfind>";
    let names = ask(&site, "PROPFIND /dav/f", &["Depth: 0"], names).text();
    assert!(names.contains("<kept/>") && !names.contains("b77"), "{names}");
    server.announce("AH00541: XML Parser Error: a namespace with a very long name");
    let long = format!("<propfind xmlns=\"DAV:\"><prop xmlns=\"{space}{space}\">{many}</prop></propfind>");
    assert_eq!(ask(&site, "PROPFIND /dav/", &["Depth: 0"], &long).status, 400);
}

#[test]
fn one_of_those_that_make_the_same_file_is_the_first() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = place();
        let server = Server::start(mpm, &site, CONFIGURATION);
        for round in 0..10 {
            let line = format!("PUT /dav/{round}");
            let put = || ask(&site, &line, &["If-None-Match: *"], "x").status;
            let mut answers = std::thread::scope(|scope| {
                let all: Vec<_> = (0..8).map(|_| scope.spawn(put)).collect();
                all.into_iter().map(|one| one.join().expect("an answer")).collect::<Vec<u16>>()
            });
            answers.sort_unstable();
            assert_eq!(answers, [201, 412, 412, 412, 412, 412, 412, 412], "{mpm}");
        }
        server.allow_everything("other tests check the log");
    }
}

/// Every write that the server has confirmed is on the disk, whatever the file's name was then.
#[test]
fn properties_go_with_a_file_that_moves() {
    let site = place();
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    server.allow_everything("requests for a file that has just moved may be refused");
    assert_eq!(ask(&site, "PUT /dav/a", &[], "x").status, 201);
    let set: Vec<String> = std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            for _ in 0..100 {
                for (from, to) in [("a", "b"), ("b", "a")] {
                    let destination = format!("Destination: http://localhost/dav/{to}");
                    assert_eq!(ask(&site, &format!("MOVE /dav/{from}"), &[&destination], "").status, 201);
                }
            }
        });
        let mut set = Vec::new();
        for number in 0.. {
            let text = format!("<propertyupdate xmlns=\"DAV:\"><set><prop><p{number}/></prop></set></propertyupdate>");
            for name in ["a", "b"] {
                if ask(&site, &format!("PROPPATCH /dav/{name}"), &[], &text).status == 207 {
                    set.push(format!(":p{number}/>"));
                }
            }
            if mover.is_finished() {
                break;
            }
        }
        set
    });
    let all = "<propfind xmlns=\"DAV:\"><propname/></propfind>";
    let found = ask(&site, "PROPFIND /dav/a", &["Depth: 0"], all).text();
    let lost: Vec<&String> = set.iter().filter(|name| !found.contains(*name)).collect();
    assert!(set.len() > 10 && lost.is_empty(), "{} set, lost: {lost:?}", set.len());
}

#[test]
fn no_file_has_the_properties_of_a_collection() {
    let site = place();
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    for name in [".state_for_dir", ".state_for_dir.props", ".props"] {
        assert_eq!(ask(&site, &format!("PUT /dav/{name}"), &[], "x").status, 201);
        let text = "<propertyupdate xmlns=\"DAV:\"><set><prop><own/></prop></set></propertyupdate>";
        assert_eq!(ask(&site, &format!("PROPPATCH /dav/{name}"), &[], text).status, 207);
    }
    let all = "<propfind xmlns=\"DAV:\"><propname/></propfind>";
    let found = ask(&site, "PROPFIND /dav/", &["Depth: 0"], all).text();
    assert!(!found.contains("own"), "{found}");
    assert_eq!(server.get("/dav/.props").text(), "x");
}

#[test]
fn without_a_file_of_locks_there_are_none() {
    let site = place();
    let server = Server::start(Mpm::Percore, &site, "<Location /dav>\nDav On\n</Location>\n");
    let options = ask(&site, "OPTIONS /dav/", &[], "");
    assert_eq!(options.all("DAV")[0], "1");
    assert_eq!(ask(&site, "PUT /dav/f", &[], "x").status, 201);
    let refused = ask(&site, "LOCK /dav/f", &[], LOCKINFO);
    assert_eq!(refused.status, 405);
    assert!(!refused.field("Allow").expect("a field").contains("LOCK"));
    assert_eq!(server.get("/dav/f").text(), "x");
}

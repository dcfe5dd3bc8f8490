//! WebDAV: real clients, Debian's suite of tests, the same requests to Apache, and processes that are killed.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::mpm::Mpm;
use crate::harness::needs;
use crate::harness::oracle;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, Response};

const CONFIGURATION: &str = "DavLockDB run/locks\nDirectoryIndex disabled\nDirectorySlash Off\n\
    <Location /dav>\nDav On\n</Location>\n";

/// A place that the children may write to.
fn writable(site: &Site) {
    std::fs::create_dir_all(site.root.join("htdocs/dav")).expect("a directory");
    for name in ["run", "htdocs", "htdocs/dav"] {
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(site.root.join(name), all).expect("permissions");
    }
}

fn place() -> Site {
    let site = Site::new();
    writable(&site);
    site
}

fn ask(site: &Site, line: &str, fields: &[&str], body: &str) -> Response {
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

#[test]
fn litmus_passes() {
    if !needs::LITMUS.is_there("litmus_passes") {
        return;
    }
    for mpm in Mpm::chosen("litmus_passes") {
        let site = place();
        // The directory of the file is missing, as after a boot.
        let text = CONFIGURATION.replace("run/locks", "run/lock/locks");
        let server = Server::start(mpm, &site, &text);
        // It also tries requests that must be refused.
        server.allow("");
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
    for mpm in Mpm::chosen("cadaver_and_rclone_work_with_files") {
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
        server.allow("");
    }
}

/// A request after the other, as `METHOD path|field|field||body`, and the status that Apache answers with.
const REQUESTS: &[(&str, u16)] = &[
    ("OPTIONS /dav/none", 200),
    ("PROPFIND /dav/none|Depth: 0", 404),
    ("PUT /dav/f.txt||one", 201),
    ("PUT /dav/f.txt||two2", 204),
    ("OPTIONS /dav/f.txt", 200),
    ("PUT /dav/f.txt|Content-Range: bytes 1-2/4||XY", 204),
    ("GET /dav/f.txt", 200),
    ("PUT /dav/f.txt|Content-Range: bytes 4-5/*||ab", 204),
    ("PUT /dav/f.txt|Content-Range: x||ab", 400),
    ("GET /dav/f.txt", 200),
    ("PUT /dav/no/f||x", 409),
    ("PUT /dav/||x", 409),
    ("PUT /dav/f.txt/x||x", 400),
    ("PUT /dav/f.txt|If-None-Match: *||x", 412),
    ("PUT /dav/f.txt|If-Match: \"x\"||x", 412),
    ("PUT /dav/none|If-Match: *||x", 412),
    ("PUT /dav/new|If-None-Match: *||x", 201),
    ("MKCOL /dav/c", 201),
    ("MKCOL /dav/c", 405),
    ("MKCOL /dav/x/y", 409),
    ("MKCOL /dav/b||<a/>", 415),
    ("PROPFIND /dav/c|Depth: 1", 207),
    ("PROPFIND /dav/|Depth: infinity", 403),
    ("PROPFIND /dav/|Depth: 2", 400),
    ("PROPFIND /dav/f.txt|Depth: 0||<a", 400),
    ("PROPFIND /dav/f.txt|Depth: 0||<a/>", 400),
    ("PROPFIND /dav/f.txt|Depth: 0||<propfind xmlns=\"DAV:\"/>", 400),
    ("PROPFIND /dav/f.txt|Depth: 0||<propfind xmlns=\"DAV:\"><propname/></propfind>", 207),
    (
        "PROPFIND /dav/f.txt|Depth: 0||<propfind xmlns=\"DAV:\"><prop><getcontentlength/><x xmlns=\"u:\"/><displayname/>\
         <resourcetype/><getcontenttype/><supportedlock/><lockdiscovery/></prop></propfind>",
        207,
    ),
    (
        "PROPPATCH /dav/f.txt||<propertyupdate xmlns=\"DAV:\"><set><prop><x xmlns=\"u:\">a &lt; <y xmlns=\"\">b</y></x>\
         </prop></set></propertyupdate>",
        207,
    ),
    (
        "PROPPATCH /dav/f.txt||<propertyupdate xmlns=\"DAV:\"><set><prop><z xmlns=\"u:\">1</z><getetag>2</getetag></prop>\
         </set></propertyupdate>",
        207,
    ),
    ("PROPPATCH /dav/f.txt||<propertyupdate xmlns=\"DAV:\"><set/></propertyupdate>", 400),
    ("PROPPATCH /dav/none||<propertyupdate xmlns=\"DAV:\"/>", 404),
    (
        "PROPFIND /dav/f.txt|Depth: 0||<propfind xmlns=\"DAV:\"><prop><x xmlns=\"u:\"/><z xmlns=\"u:\"/></prop></propfind>",
        207,
    ),
    ("COPY /dav/f.txt", 400),
    ("COPY /dav/f.txt|Destination: /dav/g", 400),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/f.txt", 403),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/x/y", 409),
    ("COPY /dav/f.txt|Destination: http://localhost/outside", 405),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/.DAV/x", 403),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/../../x", 400),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/g?q", 400),
    ("COPY /dav/f.txt|Destination: ftp://localhost/dav/g", 502),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/g|Overwrite: X", 400),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/g|Depth: 1", 400),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/g", 201),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/g|Overwrite: F", 412),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/g", 204),
    ("PROPFIND /dav/g|Depth: 0||<propfind xmlns=\"DAV:\"><prop><x xmlns=\"u:\"/></prop></propfind>", 207),
    ("COPY /dav/c|Destination: http://localhost/dav/c/d", 403),
    ("MOVE /dav/c|Destination: http://localhost/dav/d|Depth: 0", 400),
    ("MOVE /dav/g|Destination: http://localhost/dav/c/g", 201),
    ("PROPFIND /dav/c/g|Depth: 0||<propfind xmlns=\"DAV:\"><prop><x xmlns=\"u:\"/></prop></propfind>", 207),
    ("MOVE /dav/c|Destination: http://localhost/dav/d", 201),
    ("PROPFIND /dav/d|Depth: 1||<propfind xmlns=\"DAV:\"><prop><x xmlns=\"u:\"/></prop></propfind>", 207),
    ("DELETE /dav/d|Depth: 0", 400),
    ("DELETE /dav/f.txt|Depth: 1", 400),
    ("GET /dav/.DAV/f.txt", 403),
    ("PROPFIND /dav/.DAV|Depth: 0", 403),
    ("LOCK /dav/f.txt", 400),
    ("LOCK /dav/f.txt|Depth: 1||LOCKINFO", 400),
    ("LOCK /dav/no/f||LOCKINFO", 409),
    ("LOCK /dav/f.txt|Timeout: Second-600||LOCKINFO", 200),
    ("LOCK /dav/f.txt||LOCKINFO", 423),
    ("PUT /dav/f.txt||x", 423),
    ("DELETE /dav/f.txt", 423),
    ("COPY /dav/f.txt|Destination: http://localhost/dav/g", 201),
    ("MOVE /dav/g|Destination: http://localhost/dav/f.txt", 423),
    ("PUT /dav/f.txt|If: (<TOKEN>)||x", 204),
    ("PUT /dav/f.txt|If: (<DAV:no-lock>)||x", 412),
    ("PUT /dav/f.txt|If: (Not <DAV:no-lock>)||x", 423),
    ("PUT /dav/f.txt|If: (<TOKEN> [\"bad\"])||x", 412),
    ("PUT /dav/f.txt|If: (<DAV:no-lock>) (<TOKEN>)||x", 204),
    ("PUT /dav/f.txt|If: <http://localhost/dav/f.txt> (<TOKEN>)||x", 204),
    ("PUT /dav/f.txt|If: garbage||x", 400),
    ("LOCK /dav/f.txt|If: (<TOKEN>)|Timeout: Second-5", 200),
    ("UNLOCK /dav/f.txt", 400),
    ("UNLOCK /dav/f.txt|Lock-Token: <TOKEN>", 204),
    ("UNLOCK /dav/f.txt|Lock-Token: <TOKEN>", 400),
    ("LOCK /dav/f.txt||LOCKINFO", 200),
    ("DELETE /dav/f.txt|If: <http://localhost/dav/f.txt> (<TOKEN>)", 204),
    ("LOCK /dav/null||LOCKINFO", 200),
    ("GET /dav/null", 404),
    ("OPTIONS /dav/null", 200),
    ("MKCOL /dav/null", 423),
    ("DELETE /dav/null", 404),
    ("PUT /dav/null|If: (<TOKEN>)||x", 201),
    ("MOVE /dav/null|Destination: http://localhost/dav/moved|If: </dav/null> (<TOKEN>)", 201),
    ("LOCK /dav/d|Depth: infinity||LOCKINFO", 200),
    ("PUT /dav/d/g||x", 423),
    ("PUT /dav/d/new||x", 207),
    ("PUT /dav/d/new|If: </dav/d/> (<TOKEN>)||x", 201),
    ("LOCK /dav/d/g||LOCKINFO", 423),
    ("DELETE /dav/d", 423),
    ("UNLOCK /dav/d/g|Lock-Token: <TOKEN>", 204),
    ("LOCK /dav/d/g||LOCKINFO", 200),
    ("DELETE /dav/d", 424),
    ("LOCK /dav/d||LOCKINFO", 207),
    ("DELETE /dav/d|If: <http://localhost/dav/d/g> (<TOKEN>)", 204),
    ("PROPFIND /outside|Depth: 0", 405),
    ("VERSION-CONTROL /dav/new", 405),
    ("SEARCH /dav/new", 405),
    ("BIND /outside", 405),
    ("ACL /dav/new", 501),
    ("REPORT /dav/new", 400),
    ("REPORT /dav/new||<a", 400),
    ("REPORT /dav/new||<a/>", 501),
    ("REPORT /dav/none||<a/>", 404),
    ("POST /dav/new||x", 200),
    ("DELETE /dav/none", 404),
];

const LOCKINFO: &str = "<lockinfo xmlns=\"DAV:\"><lockscope><exclusive/></lockscope><locktype><write/></locktype>\
    <owner>me</owner></lockinfo>";

/// The parts of an answer that must be equal.
fn essence(response: &Response) -> String {
    let text = response.text();
    let mut found = vec![
        response.status.to_string(),
        response.all("DAV").join(", "),
        response.field("Location").unwrap_or_default().to_string(),
    ];
    if response.status == 200 && !response.all("DAV").is_empty() {
        found.push(response.field("Allow").unwrap_or_default().to_string());
    }
    if response.status == 207 {
        // The elements by their names alone: prefixes are anybody's choice. Resources come in any order.
        let mut words: Vec<String> = text
            .split('<')
            .skip(2)
            .filter(|tag| !tag.starts_with('/') && !tag.contains("multistatus"))
            .map(|tag| {
                let (name, value) = tag.split_once('>').unwrap_or((tag, ""));
                let name = name.split([' ', '/']).next().unwrap_or(name);
                let name = name.rsplit(':').next().unwrap_or(name);
                let is_fleeting = ["creationdate", "getlastmodified", "getetag"].contains(&name);
                format!("{name}={}", if is_fleeting { "" } else { value.trim() })
            })
            .collect();
        words.sort();
        found.push(words.join(" "));
    } else if response.field("Content-Type") == Some("text/plain") {
        found.push(text);
    }
    found.join("|")
}

/// Allowed differences in the body, and the reasons (`docs/differences.md`).
const BODIES: [(&str, &str); 1] = [("LOCK /dav/d||", "The answer to a LOCK of a collection with locks in it")];

#[test]
fn the_same_as_apache() {
    oracle::check_entries(BODIES.iter().map(|(_, entry)| *entry));
    let answers = std::cell::RefCell::new(Vec::new());
    oracle::both("dav::the_same_as_apache", writable, CONFIGURATION, |site| {
        let mut token = String::new();
        let mut all = Vec::new();
        for (request, status) in REQUESTS {
            let (head, body) = request.split_once("||").unwrap_or((request, ""));
            let head = head.replace("TOKEN", &token);
            let mut fields = head.split('|');
            let line = fields.next().unwrap_or_default();
            let fields: Vec<&str> = fields.collect();
            let response = ask(site, line, &fields, if body == "LOCKINFO" { LOCKINFO } else { body });
            assert_eq!(response.status, *status, "{request}: {}", response.text());
            if let Some(given) = response.field("Lock-Token") {
                token = given.trim_matches(['<', '>']).to_string();
            }
            let is_compared = !BODIES.iter().any(|(start, _)| request.starts_with(start));
            let essence = essence(&response).replace(&site.ip.to_string(), "");
            all.push(format!("{request}: {}", if is_compared { essence } else { String::new() }));
        }
        answers.borrow_mut().push(all);
    });
    let answers = answers.into_inner();
    for (first, other) in answers.iter().skip(1).flat_map(|other| answers[0].iter().zip(other)) {
        assert_eq!(first, other);
    }
}

/// Kills every process that serves clients.
fn kill_children(server: &Server<'_>) {
    let before = server.children();
    for child in &before {
        let _ = Pid::new(*child).expect("a pid").kill(Signal::KILL);
    }
    until("other children", || {
        let now = server.children();
        (!now.is_empty() && now.is_disjoint(&before)).then_some(())
    });
}

#[test]
fn writes_survive_a_killed_process() {
    const PROPERTY: &str =
        "<propertyupdate xmlns=\"DAV:\"><set><prop><x xmlns=\"u:\">kept</x></prop></set></propertyupdate>";
    const FIND: &str = "<propfind xmlns=\"DAV:\"><prop><x xmlns=\"u:\"/><lockdiscovery/></prop></propfind>";
    for mpm in Mpm::chosen("writes_survive_a_killed_process") {
        let site = place();
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.allow("");
        assert_eq!(ask(&site, "PUT /dav/f", &[], "old").status, 201);
        assert_eq!(ask(&site, "PROPPATCH /dav/f", &[], PROPERTY).status, 207);
        let locked = ask(&site, "LOCK /dav/f", &[], LOCKINFO);
        let token = locked.field("Lock-Token").expect("a token").to_string();

        // Half of a new content has arrived.
        let mut client = Client::connect(site.address());
        let half = vec![b'n'; 600 * 1024];
        client.send(format!(
            "PUT /dav/f HTTP/1.1\r\nHost: localhost\r\nIf: ({token})\r\nContent-Length: {}\r\n\r\n",
            half.len() * 2
        ));
        client.send(&half);
        // A file that is being written has no name.
        let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
        let place = site.root.join("htdocs/dav");
        let holds_much = |child: &i32| {
            entries(Path::new(&format!("/proc/{child}/fd"))).any(|entry| {
                std::fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(&place))
                    && std::fs::metadata(entry.path()).is_ok_and(|meta| meta.len() >= 256 * 1024)
            })
        };
        until("a part of it is on the disk", || server.children().iter().any(holds_much).then_some(()));
        kill_children(&server);
        if sys::file::unnamed(&place, 0o600).is_ok() {
            let left: Vec<_> = entries(&place).map(|entry| entry.file_name()).collect();
            assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".davfs")), "{left:?}");
        }

        assert_eq!(server.get("/dav/f").text(), "old", "{mpm}");
        let found = ask(&site, "PROPFIND /dav/", &["Depth: 1"], FIND).text();
        assert!(found.contains(">kept<") && found.contains(token.trim_matches(['<', '>'])), "{mpm}: {found}");
        assert!(!found.contains(".davfs.tmp"), "clients see what is not whole: {found}");
        assert_eq!(ask(&site, "PUT /dav/f", &[], "x").status, 423, "{mpm}");
        assert_eq!(ask(&site, "PUT /dav/f", &[&format!("If: ({token})")], "new").status, 204, "{mpm}");
        assert_eq!(server.get("/dav/f").text(), "new", "{mpm}");
    }
}

/// Clients write continuously while processes are killed at any point: each file has the content of one of the
/// requests.
#[test]
fn nothing_is_torn_whenever_processes_are_killed() {
    let property = |text: &str| {
        format!("<propertyupdate xmlns=\"DAV:\"><set><prop><x xmlns=\"u:\">{text}</x></prop></set></propertyupdate>")
    };
    let find = "<propfind xmlns=\"DAV:\"><prop><x xmlns=\"u:\"/></prop></propfind>";
    let site = place();
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    server.allow("");
    let text = |c: char| c.to_string().repeat(100_000);
    assert_eq!(ask(&site, "PUT /dav/f", &[], &text('a')).status, 201);
    assert_eq!(ask(&site, "PROPPATCH /dav/f", &[], &property(&text('a'))).status, 207);
    // The pause before a successor doubles each time.
    for round in 0..5 {
        let letter = char::from(b'b' + round);
        std::thread::scope(|scope| {
            let send = |line: &'static str, body: String| {
                let address = site.address();
                scope.spawn(move || {
                    for _ in 0..20 {
                        let mut client = Client::connect(address);
                        let length = body.len();
                        client.send(format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"));
                        if client.try_response_to("PUT").is_err() {
                            return;
                        }
                    }
                })
            };
            let writers = [send("PUT /dav/f", text(letter)), send("PROPPATCH /dav/f", property(&text(letter)))];
            kill_children(&server);
            writers.into_iter().for_each(|writer| drop(writer.join()));
        });
        let whole = |content: &str| {
            let first = content.chars().next().expect("a content");
            content == text(first)
        };
        assert!(whole(&server.get("/dav/f").text()), "a torn file");
        let found = ask(&site, "PROPFIND /dav/f", &["Depth: 0"], find).text();
        let value =
            found.split_once(":x xmlns:ns0=\"u:\">").and_then(|(_, rest)| rest.split_once('<')).expect("a property").0;
        assert!(whole(value), "a torn property");
        assert_eq!(ask(&site, "PROPPATCH /dav/f", &[], &property(&text('z'))).status, 207, "it can be changed again");
    }
}

#[test]
fn a_large_file_goes_through_in_pieces() {
    for mpm in Mpm::chosen("a_large_file_goes_through_in_pieces") {
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

/// A copy is a new file: the only permission it takes from the old one is to be executable.
#[test]
fn the_modes_of_copies_are_those_of_apache() {
    let mode = |path: std::path::PathBuf| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let build = |site: &Site| {
        writable(site);
        for (name, mode) in [("c/a", 0o606), ("c/x", 0o705), ("c/d/s", 0o604), ("old", 0o646), ("ran", 0o646)] {
            let path = site.page(&format!("dav/{name}"), name);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("permissions");
        }
        for name in ["c", "c/d"] {
            let path = site.root.join("htdocs/dav").join(name);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("permissions");
        }
        for name in ["old", "ran"] {
            // The children's user must own the files that it changes.
            std::os::unix::fs::chown(site.root.join("htdocs/dav").join(name), Some(65534), Some(65534)).expect("owner");
        }
    };
    oracle::both("the_modes_of_copies_are_those_of_apache", build, CONFIGURATION, |site| {
        for (from, to, status) in [("c/", "copy/", 201), ("c/a", "old", 204), ("c/x", "ran", 204)] {
            let destination = format!("Destination: http://localhost/dav/{to}");
            assert_eq!(ask(site, &format!("COPY /dav/{from}"), &[&destination], "").status, status, "{from} {to}");
        }
        for (name, want) in [
            ("copy", 0o755),
            ("copy/a", 0o644),
            ("copy/x", 0o705),
            ("copy/d", 0o755),
            ("copy/d/s", 0o644),
            ("old", 0o644),
            ("ran", 0o705),
        ] {
            assert_eq!(mode(site.root.join("htdocs/dav").join(name)), want, "{name}");
        }
    });
}

#[test]
fn access_is_checked_at_both_ends() {
    let configuration = "DavLockDB run/locks\nDirectorySlash Off\n<Location /dav>\nDav On\n</Location>\n\
        <Location /dav/closed>\nRequire all denied\n</Location>\n\
        <Location /dav/read>\n<LimitExcept GET HEAD OPTIONS PROPFIND>\nRequire all denied\n</LimitExcept>\n</Location>\n\
        <Location /dav/off>\nDav Off\n</Location>\n<Directory htdocs/dav/broken>\nAllowOverride All\n</Directory>\n";
    for mpm in Mpm::chosen("access_is_checked_at_both_ends") {
        let site = place();
        site.page("dav/closed/secret", "x");
        site.page("dav/read/f", "x");
        site.page("dav/off/f", "x");
        site.page("dav/broken/.htaccess", "Nonsense\n");
        let server = Server::start(mpm, &site, configuration);
        server.allow("");
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
    for mpm in Mpm::chosen("what_a_client_may_not_remove_stays") {
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
        server.allow("");
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

/// An index in a collection, or a member that is not touched, keeps nobody from changing another one.
#[test]
fn an_index_above_is_in_nobodys_way() {
    let build = |site: &Site| {
        writable(site);
        for file in ["index.html", "a", "b", "c", "d", "deep/.htclosed"] {
            site.page(&format!("dav/{file}"), "x");
        }
        for name in ["dav", "dav/deep"] {
            let all = std::fs::Permissions::from_mode(0o777);
            std::fs::set_permissions(site.root.join("htdocs").join(name), all).expect("permissions");
        }
    };
    let configuration = "DavLockDB ${ROOT}/run/locks\n<Directory ${DOCS}/dav>\nDav On\nDirectoryIndex index.html\n\
        </Directory>\n<FilesMatch \"^\\.ht\">\nRequire all denied\n</FilesMatch>\n";
    oracle::both("an index above", build, configuration, |site| {
        let to = |name: &str| format!("Destination: http://localhost/dav/{name}");
        assert_eq!(ask(site, "DELETE /dav/a", &[], "").status, 204);
        assert_eq!(ask(site, "MOVE /dav/b", &[&to("moved")], "").status, 201);
        assert_eq!(ask(site, "COPY /dav/c", &[&to("d")], "").status, 204);
        assert_eq!(ask(site, "COPY /dav/deep/", &[&to("shallow/"), "Depth: 0"], "").status, 201);
    });
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
    server.allow("");
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
    server.allow("");
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
    server.allow("");
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
    let many: String = (0..20_000).map(|number| format!("<b{number}/><b{number}/>")).collect();
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
    for mpm in Mpm::chosen("one_of_those_that_make_the_same_file_is_the_first") {
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
        server.allow("");
    }
}

/// Every write that the server has confirmed is on the disk, whatever the file's name was then.
#[test]
fn properties_go_with_a_file_that_moves() {
    let site = place();
    let server = Server::start(Mpm::Percore, &site, CONFIGURATION);
    server.allow("");
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

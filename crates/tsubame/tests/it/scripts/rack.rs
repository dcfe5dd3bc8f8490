//! Applications of Rack, with the directives of Phusion Passenger and as `rack-script`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use sys::process::Pid;

use crate::harness::mpm::under_percore_and;
use crate::harness::needs::RACK;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::get;

const WORK: &str = include_str!("rack_applications/work.ru");

/// An application with a public directory, as Rails makes it.
fn site() -> Site {
    let site = Site::new();
    let file = site.file("app/config.ru", WORK);
    // Applications leave marks beside themselves.
    let directory = file.parent().expect("a directory");
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).expect("mode");
    site.file("app/big", vec![b'x'; 3_000_000]);
    site.file("app/public/robots.txt", "robots");
    site.file("app/public/pages/index.html", "an index");
    site.file("app/public/images/x.png", "png");
    site
}

const CONFIGURATION: &str = "LoadModule passenger_module modules/mod_passenger.so\nPassengerMaxPoolSize 1\n\
    DocumentRoot ${ROOT}/app/public\n<Directory ${ROOT}/app/public>\nRequire all granted\n</Directory>\n";

/// The process that has answered, and its count of requests.
fn counted(server: &Server<'_>) -> (i32, u32) {
    let text = server.get("/count").text();
    let numbers = text.split_once(' ').and_then(|(process, count)| Some((process.parse().ok()?, count.parse().ok()?)));
    numbers.unwrap_or_else(|| panic!("{text:?}"))
}

fn is_gone(process: i32) -> bool {
    !Pid::new(process).is_some_and(Pid::exists)
}

under_percore_and! { event:
    /// The application answers for what is no file of its public directory, as Rack's Lint wants it.
    fn an_application_answers_for_what_is_no_file(mpm: Mpm) {
        if !RACK.is_there("an_application_answers_for_what_is_no_file") {
            return;
        }
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        for line in ["loaded", "closed", "a note of the application"] {
            server.announce(line);
        }
        let (process, _) = counted(&server);
        assert_eq!(counted(&server), (process, 2), "it is kept");
        for (path, status, body) in [
            ("/robots.txt", 200, "robots"),
            ("/pages/", 200, "an index"),
            ("/images", 404, "no such work"),
            ("/", 404, "no such work"),
            ("/config.ru", 404, "no such work"),
            ("/errors", 200, "noted"),
            ("/created", 201, "made"),
            ("/called", 200, "called"),
            ("/none", 204, ""),
        ] {
            let response = server.get(path);
            assert_eq!((response.status, &*response.text()), (status, body), "{path}");
        }
        server.logged("a note of the application");
        let ask = "POST /env?q=%20 HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\nContent-Type: x/y\r\nContent-Length: 300000\r\n\r\n";
        let response = server.client().request(format!("{ask}{}", "b".repeat(300_000)));
        assert_eq!(
            response.text(),
            "REQUEST_METHOD=POST\nSCRIPT_NAME=\nPATH_INFO=/env\nQUERY_STRING=q=%20\nCONTENT_TYPE=x/y\nCONTENT_LENGTH=300000\n\
             SERVER_PROTOCOL=HTTP/1.1\nrack.url_scheme=http\nHTTP_X_A=b\n300000 bbbbbbbbbb production true"
        );
        assert_eq!(server.get("/cookies").all("Set-Cookie"), ["a=1", "b=2"]);
        assert_eq!(server.get("/lists").all("Set-Cookie"), ["a=1", "b=2"]);
        let file = server.get("/file");
        assert_eq!((file.field("Content-Length"), file.body.len()), (Some("3000000"), 3_000_000));
        let head = server.client().request("HEAD /cookies HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert_eq!((head.status, head.body.len()), (200, 0));
        let mut client = server.client();
        client.send(get("/stream"));
        let mut received = String::new();
        while !received.ends_with("first") {
            received.push_str(&String::from_utf8_lossy(&client.bytes(1)));
        }
        std::fs::write(site.root.join("app/go"), "").expect("write");
        while !received.ends_with("second") {
            received.push_str(&String::from_utf8_lossy(&client.bytes(1)));
        }
        assert_eq!(server.get("/finished").text(), "done");
        until("the call after the response", || {
            std::fs::read_to_string(site.root.join("app/finished")).is_ok_and(|text| text == "200").then_some(())
        });
        assert_eq!(counted(&server).0, process, "the same process all the time");
    }

    /// What goes wrong is logged, and no client takes half a response for a whole one.
    fn failures_of_applications_are_reported(mpm: Mpm) {
        if !RACK.is_there("failures_of_applications_are_reported") {
            return;
        }
        let site = site();
        let server = Server::start(mpm, &site, CONFIGURATION);
        server.allow_everything("ruby's messages have many lines");
        for (path, line) in [("/fails", "before the head"), ("/broken", "contains a line break"), ("/exits", "ended before it answered")] {
            assert_eq!(server.get(path).status, 500, "{path}");
            server.logged(line);
        }
        let mut client = server.client();
        client.send(get("/late"));
        let (rest, _) = client.rest();
        let text = String::from_utf8_lossy(&rest);
        assert!(text.contains("chunked") && text.contains("first") && !text.ends_with("0\r\n\r\n"), "{text}");
        server.logged("after the head");

        let (process, _) = counted(&server);
        std::fs::create_dir(site.root.join("app/tmp")).expect("a directory");
        let restarts = site.file("app/tmp/restart.txt", "");
        let (other, count) = counted(&server);
        assert!(other != process && count == 1, "restart.txt begins a new process");
        let file = site.file("app/config.ru", "run(\n");
        let touch = |path: &Path, seconds| {
            let file = std::fs::File::options().write(true).open(path).expect("open");
            file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).expect("time");
        };
        touch(&restarts, 1_000_000_000);
        assert_eq!(server.get("/count").status, 500);
        server.logged("syntax error");
        std::fs::write(&file, WORK).expect("write");
        assert_eq!(counted(&server).1, 1, "what could not be loaded is loaded anew");
        assert!(Command::new("kill").args(["-9", &counted(&server).0.to_string()]).status().expect("kill").success());
        until("another process", || (server.get("/count").status == 200).then_some(()));
    }

    /// An application below a path, by an alias and by a link, and what sections leave to the server.
    fn applications_have_paths_of_their_own(mpm: Mpm) {
        if !RACK.is_there("applications_have_paths_of_their_own") {
            return;
        }
        let site = site();
        site.file("docs/index.html", "the site");
        site.file("docs/off/x.txt", "x");
        std::os::unix::fs::symlink(site.root.join("app/public"), site.root.join("docs/linked")).expect("a link");
        let text = "LoadModule passenger_module modules/mod_passenger.so\nPassengerMaxPoolSize 4\nDocumentRoot ${ROOT}/docs\n\
            Alias /shop ${ROOT}/app/public\n<Location /shop>\nPassengerBaseURI /shop\nPassengerAppRoot ${ROOT}/app\nRailsEnv staging\n</Location>\n\
            RailsBaseURI /linked\n<Location /linked/off>\nPassengerEnabled off\n</Location>\n\
            <Location /linked/status>\nSetHandler server-status\n</Location>\n\
            Alias /direct ${ROOT}/app/config.ru\nAlias /closed ${ROOT}/closed.ru\n\
            <Directory ${ROOT}>\nRequire all granted\nOptions +FollowSymLinks\n<Files config.ru>\nOptions +ExecCGI\n</Files>\n\
            <Files *.ru>\nSetHandler rack-script\n</Files>\n</Directory>\n";
        site.file("closed.ru", WORK);
        let server = Server::start(mpm, &site, text);
        server.allow_everything("applications say that they are loaded");
        assert_eq!(server.get("/").text(), "the site");
        for (path, name, environment) in [
            ("/shop", "/shop", "staging"), ("/linked", "/linked", "production"), ("/direct", "/direct", "production"),
        ] {
            let text = server.get(&format!("{path}/env")).text();
            assert!(text.contains(&format!("SCRIPT_NAME={name}\nPATH_INFO=/env\n")) && text.contains(environment), "{text}");
            if path != "/direct" {
                assert_eq!(server.get(&format!("{path}/robots.txt")).text(), "robots");
            }
        }
        assert_eq!(server.get("/linked").status, 404);
        assert!(server.get("/linked").text().contains("no such work"));
        assert_eq!(server.get("/linked/off/y").status, 404);
        assert!(!server.get("/linked/off/y").text().contains("no such work"));
        assert!(server.get("/linked/status").text().contains("Server Status"));
        assert_eq!((server.get("/closed").status, server.get("/elsewhere").status), (403, 404));
    }

    /// A process ends after so many requests, or when it has been idle.
    fn processes_come_and_go(mpm: Mpm) {
        if !RACK.is_there("processes_come_and_go") {
            return;
        }
        let site = site();
        let text = format!("{CONFIGURATION}PassengerMaxRequests 2\nPassengerMinInstances 0\nPassengerPoolIdleTime 1\n");
        let server = Server::start(mpm, &site, &text);
        server.announce("loaded");
        let (first, _) = counted(&server);
        assert_eq!(counted(&server), (first, 2));
        let (second, count) = counted(&server);
        assert!(second != first && count == 1);
        until("the end of an idle process", || is_gone(second).then_some(()));
    }
}

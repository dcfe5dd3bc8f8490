//! Names of requests: mod_unique_id's, and those of log lines.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::mpm::{Mpm, under_every_mpm};
use crate::oracle;
use crate::server::Server;
use crate::site::Site;
use crate::wait::until;
use crate::wire::{Client, get};

/// How long an id is: the letters of 20 bytes.
pub const LENGTH: usize = 27;

pub fn is_id(text: &str) -> bool {
    text.len() == LENGTH && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

under_every_mpm! {
    /// No id comes twice, whichever children and threads serve the requests, before and after a restart.
    fn no_two_requests_have_the_same_id(mpm: Mpm) {
        let site = Site::with([("index.html", "hello\n")]);
        let children = if mpm == Mpm::Percore { "" } else { "StartServers 3" };
        let mut server = Server::start(mpm, &site, &format!("{children}\nCustomLog logs/access %{{UNIQUE_ID}}e"));
        let (address, mut count) = (server.address(), 0);
        for round in 0..2 {
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(move || {
                        for _ in 0..4 {
                            let mut client = Client::connect(address);
                            (0..10).for_each(|_| assert_eq!(client.get("/").status, 200));
                        }
                    });
                }
            });
            count += 8 * 4 * 10;
            until("all lines", || (site.read("logs/access").lines().count() == count).then_some(()));
            if round == 0 {
                server.restart(sys::signal::Signal::HUP);
            }
        }
        let log = site.read("logs/access");
        assert!(log.lines().all(is_id), "{log}");
        assert_eq!(log.lines().collect::<BTreeSet<_>>().len(), count);
    }
}

const SCRIPT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s %s %s' \"$UNIQUE_ID\" \"$REDIRECT_UNIQUE_ID\" \"$REQUEST_URI\"\n";

/// A script sees the id of its request, an error document that of the request it stands for, and log lines the same.
#[test]
fn an_id_stays_with_its_request() {
    let build = |site: &Site| {
        site.page("a.txt", "a\n");
        site.page("dir/index.html", "index\n");
        site.script("show", SCRIPT);
    };
    let configuration = "LogLevel core:info\nScriptAlias /cgi-bin/ ${ROOT}/cgi-bin/\nErrorDocument 404 /cgi-bin/show\n\
        <Directory ${ROOT}/cgi-bin>\nOptions +ExecCGI\nRequire all granted\n</Directory>\n\
        ErrorLogFormat \"id=%L connection=%{c}L %M\"\n\
        CustomLog logs/access \"%{UNIQUE_ID}e %{REDIRECT_UNIQUE_ID}e %L %{x}L %{c}L %{UNIQUE_ID}n %U\"";
    oracle::both("an_id_stays_with_its_request", build, configuration, |site| {
        let lines = || site.read("logs/access").lines().map(str::to_string).collect::<Vec<_>>();
        let mut client = Client::connect(site.address());
        let script = client.get("/cgi-bin/show").text();
        let error = client.get("/none").text();
        assert_eq!(client.get("/dir/").status, 200);
        assert_eq!(client.get("/%zz").status, 400);
        drop(client);
        let lines = until("four lines", || Some(lines()).filter(|lines| lines.len() == 4));
        let words: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();

        // Nothing was logged about the first request, nor about its connection until then.
        assert!(is_id(words[0][0]), "{lines:?}");
        assert_eq!(words[0][1..], ["-", "-", "-", "-", "-", "/cgi-bin/show"]);
        assert_eq!(script, format!("{}  /cgi-bin/show", words[0][0]));

        let (id, connection) = (words[1][0], words[1][4]);
        assert!(is_id(id) && id != words[0][0], "{lines:?}");
        assert_eq!(words[1], [id, id, id, id, connection, "-", "/none"]);
        assert_eq!(error, format!("{id} {id} /none"));
        assert_eq!(connection.len(), 11, "{connection}");
        let log = site.read("logs/error_log");
        let said = format!("id={id} connection={connection} AH00128: File does not exist");
        assert!(log.contains(&said), "no {said:?} in:\n{log}");

        // What is the connection's has an id since then, which the next request shows too.
        assert!(is_id(words[2][0]), "{lines:?}");
        assert_eq!(words[2][1..5], ["-", "-", "-", connection]);

        // The error log speaks of the last one before there is a variable.
        assert!(is_id(words[3][2]), "{lines:?}");
        assert!(log.contains(&format!("id={} connection={connection} AH10244", words[3][2])), "{log}");
    });
}

/// Without mod_unique_id a request has an id if the error log speaks of it, whatever the form of its lines.
#[test]
fn ids_of_log_lines_need_no_module() {
    let modules = |site: &Site| _ = site.page("a.txt", "0123456789");
    let shapes = RefCell::new(Vec::new());
    let run = |site: &Site| {
        let mut client = Client::connect(site.address());
        for path in ["/a.txt", "/none", "/a.txt"] {
            client.request(get(path));
        }
        // Several ranges, which make a boundary, say nothing in the error log.
        let ranges = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-1,4-5\r\n\r\n";
        assert_eq!(client.request(ranges).status, 206);
        drop(client);
        let lines = until("four lines", || {
            let log = site.read("logs/access");
            (log.lines().count() == 4).then_some(log)
        });
        let id = lines.lines().nth(1).and_then(|line| line.split(' ').next()).unwrap_or_default().to_string();
        let connection = lines.lines().nth(1).and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_string();
        assert_eq!((id.len(), connection.len()), (11, 11), "{lines}");
        assert_ne!(id, connection);
        assert!(site.read("logs/error_log").contains(&format!("{id} AH00128")));
        shapes.borrow_mut().push(lines.replace(&id, "ID").replace(&connection, "CONNECTION"));
    };
    let configuration = "LogLevel core:info\nErrorLogFormat \"%L %M\"\nCustomLog logs/access \"%L %{c}L %>s\"";
    let site = Site::new();
    modules(&site);
    site.configure_with("LoadModule mpm_percore_module x\nLoadModule authz_core_module x\n", configuration);
    let ours = crate::server::Start::new(&site, Mpm::Percore).run();
    ours.allow("");
    run(&site);
    drop(ours);
    if oracle::is_there("ids_of_log_lines_need_no_module") {
        let site = Site::new();
        modules(&site);
        let lines: String = oracle::load_lines()
            .lines()
            .filter(|line| !line.contains("unique_id"))
            .fold(String::new(), |text, line| text + line + "\n");
        let _theirs = oracle::Apache::start_with(&site, &lines, configuration);
        run(&site);
    }
    assert!(
        shapes.borrow().iter().all(|shape| shape == "- - 200\nID CONNECTION 404\n- CONNECTION 200\n- CONNECTION 206\n"),
        "{shapes:?}"
    );
}

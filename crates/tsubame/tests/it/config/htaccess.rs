//! `.htaccess` files and `AllowOverride`: which lines count, which are refused, and the log. Every table is also
//! checked against Apache.

use std::os::unix::fs::PermissionsExt;

use crate::harness::mpm::{Mpm, test_name};
use crate::harness::observe::{log_line, variable};
use crate::harness::oracle;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::Client;

/// A case: the configuration, the `.htaccess` of the requested file's directory, and the result.
struct Row {
    name: &'static str,
    configuration: &'static str,
    htaccess: &'static str,
    status: u16,
    /// The variable `v` that the file sets.
    variable: &'static str,
    /// A part of a line of the error log.
    logged: &'static str,
}

/// A row of which only the outcome is of interest.
const fn row(name: &'static str, configuration: &'static str, htaccess: &'static str, status: u16) -> Row {
    Row { name, configuration, htaccess, status, variable: "-", logged: "" }
}

const ALL: &str = "<Directory \"${DOCS}\">\nAllowOverride All\n</Directory>";
const SET: &str = "SetEnvIf Request_URI . v=1";

const ROWS: [Row; 31] = [
    Row {
        logged: "d/.htaccess: Invalid command 'Bogus', perhaps misspelled or defined by a module not included",
        ..row("no AllowOverride: the file is read and everything refused", "", "Bogus", 500)
    },
    Row {
        logged: "d/.htaccess: <IfModule not allowed here",
        ..row("no AllowOverride: a condition", "", "<IfModule nope.c>\n</IfModule>", 500)
    },
    row("no AllowOverride: a comment", "", "# x", 200),
    row("None", "<Directory \"${DOCS}\">\nAllowOverride None\n</Directory>", "Bogus", 200),
    Row { variable: "1", ..row("All", ALL, SET, 200) },
    Row { logged: "Invalid command 'Bogus'", ..row("an unknown directive", ALL, "Options None\nBogus on", 500) },
    Row {
        logged: "d/.htaccess:1: <Files> was not closed.",
        ..row("a section that stays open", ALL, "<Files x>\nOptions None", 500)
    },
    Row {
        logged: "Options not allowed here",
        ..row(
            "a class that is not allowed",
            "<Directory \"${DOCS}\">\nAllowOverride FileInfo\n</Directory>",
            "Options -Indexes",
            500,
        )
    },
    Row { variable: "1", ..row("FileInfo", "<Directory \"${DOCS}\">\nAllowOverride FileInfo\n</Directory>", SET, 200) },
    row("Indexes", "<Directory \"${DOCS}\">\nAllowOverride Indexes\n</Directory>", "DirectoryIndex x", 200),
    Row {
        logged: "AH01630: client denied by server configuration: ",
        ..row(
            "AuthConfig",
            "<Directory \"${DOCS}\">\nAllowOverride AuthConfig\n</Directory>",
            "Require all denied",
            403,
        )
    },
    Row {
        logged: "AH01797: client denied by server configuration: ",
        ..row(
            "Limit",
            "<Directory \"${DOCS}\">\nAllowOverride Limit\n</Directory>",
            "Order allow,deny\nDeny from all",
            403,
        )
    },
    Row {
        logged: "Require not allowed here",
        ..row(
            "Limit does not allow Require",
            "<Directory \"${DOCS}\">\nAllowOverride Limit\n</Directory>",
            "Require all denied",
            500,
        )
    },
    Row {
        logged: "Option FollowSymLinks not allowed here",
        ..row(
            "an option outside the list",
            "<Directory \"${DOCS}\">\nAllowOverride Options=Indexes\n</Directory>",
            "Options +FollowSymLinks",
            500,
        )
    },
    row(
        "an option inside the list",
        "<Directory \"${DOCS}\">\nAllowOverride Options=Indexes,FollowSymLinks\n</Directory>",
        "Options +Indexes",
        200,
    ),
    Row {
        variable: "1",
        logged: "AH02295: Options in .htaccess forbidden by AllowOverride",
        ..row(
            "Nonfatal=Override",
            "<Directory \"${DOCS}\">\nAllowOverride FileInfo Nonfatal=Override\n</Directory>",
            "Options -Indexes\nSetEnvIf Request_URI . v=1",
            200,
        )
    },
    Row {
        variable: "1",
        logged: "AH02296: Unknown directive bogus perhaps misspelled or defined by a module not included in the server",
        ..row(
            "Nonfatal=Unknown",
            "<Directory \"${DOCS}\">\nAllowOverride FileInfo Nonfatal=Unknown\n</Directory>",
            "Bogus on\nSetEnvIf Request_URI . v=1",
            200,
        )
    },
    row(
        "Nonfatal=All: faults in arguments stay fatal",
        "<Directory \"${DOCS}\">\nAllowOverride FileInfo Nonfatal=All\n</Directory>",
        "SetEnvIf x",
        500,
    ),
    Row {
        variable: "1",
        ..row(
            "AllowOverrideList",
            "<Directory \"${DOCS}\">\nAllowOverride None\nAllowOverrideList SetEnvIf\n</Directory>",
            SET,
            200,
        )
    },
    Row {
        logged: "Options not allowed here",
        ..row(
            "AllowOverrideList: another directive",
            "<Directory \"${DOCS}\">\nAllowOverride None\nAllowOverrideList SetEnvIf\n</Directory>",
            "Options -Indexes",
            500,
        )
    },
    Row { logged: "DocumentRoot not allowed here", ..row("a server's directive", ALL, "DocumentRoot /", 500) },
    Row { logged: "Define not allowed here", ..row("Define", ALL, "Define a b", 500) },
    Row { logged: "Include not allowed here", ..row("Include", ALL, "Include f.txt", 500) },
    Row {
        logged: "<Directory not allowed here",
        ..row("a Directory section", ALL, "<Directory /srv>\n</Directory>", 500)
    },
    Row {
        variable: "val",
        ..row(
            "conditions and variables",
            "Define V val\n<Directory \"${DOCS}\">\nAllowOverride All\n</Directory>",
            "<IfModule mod_setenvif.c>\n<IfDefine V>\n<IfVersion >= 2.4>\nSetEnvIf Request_URI . v=${V}\n</IfVersion>\n\
             </IfDefine>\n</IfModule>",
            200,
        )
    },
    Row { logged: "Invalid command 'php_value'", ..row("php_value", ALL, "php_value a b", 500) },
    Row {
        variable: "1",
        ..row(
            "php_value where there is no PHP",
            ALL,
            "<IfModule mod_php.c>\nphp_value a b\n</IfModule>\nSetEnvIf Request_URI . v=1",
            200,
        )
    },
    Row { logged: "AH01630", ..row("Limit sections", ALL, "<Limit GET>\nRequire all denied\n</Limit>", 403) },
    Row {
        logged: "SetEnvIf not allowed here",
        ..row(
            "AllowOverride in Files says nothing",
            "<Directory \"${DOCS}\">\n<Files \"*\">\nAllowOverride All\n</Files>\n</Directory>",
            SET,
            500,
        )
    },
    Row {
        logged: "SetEnvIf not allowed here",
        ..row(
            "AllowOverride in DirectoryMatch comes too late",
            "<DirectoryMatch \"^${DOCS}\">\nAllowOverride All\n</DirectoryMatch>",
            SET,
            500,
        )
    },
    row(
        "a section below decides",
        "<Directory \"${DOCS}/d\">\nAllowOverride None\n</Directory>\n<Directory \"${DOCS}\">\nAllowOverride All\n</Directory>",
        "Bogus",
        200,
    ),
];

fn get(site: &Site) -> (u16, String) {
    let mut client = Client::connect(site.address());
    let (response, value) = variable(site, &mut client, "GET /d/f.txt HTTP/1.1", "Host: localhost\r\n");
    (response.status, value)
}

#[test]
fn files_are_read_as_in_apache() {
    for row in ROWS {
        let build = |site: &Site| {
            site.page("d/f.txt", "x\n");
            site.page("d/.htaccess", row.htaccess);
        };
        let configuration = format!("{}{}", log_line("v"), row.configuration);
        oracle::both(row.name, build, &configuration, |site| {
            assert_eq!(get(site), (row.status, row.variable.to_string()), "{}", row.name);
            let log = || site.read("logs/error_log").contains(row.logged).then_some(());
            until(&format!("{}: a log line with {:?}", row.name, row.logged), log);
        });
    }
}

/// A file that cannot be read could forbid something: the request is refused.
#[test]
fn a_file_that_cannot_be_read_forbids() {
    let unreadable = |site: &Site| {
        site.page("d/f.txt", "x\n");
        let path = site.page("d/.htaccess", SET);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o000)).expect("mode");
    };
    let directory = |site: &Site| {
        site.page("d/f.txt", "x\n");
        site.page("d/.htaccess/x", "");
    };
    let builds = [("an unreadable file", &unreadable as &dyn Fn(&Site)), ("a directory", &directory)];
    for (name, build) in builds {
        oracle::both(name, build, &format!("{}{ALL}", log_line("v")), |site| {
            assert_eq!(get(site), (403, "-".to_string()), "{name}");
            assert!(site.read("logs/error_log").contains("AH00529: "), "{name}");
        });
    }
}

/// `AccessFileName`: the first of the names that exists, and no other; the parents' files count too.
#[test]
fn other_names_and_parents() {
    let build = |site: &Site| {
        site.page("d/f.txt", "x\n");
        site.page("d/.htaccess", "SetEnvIf Request_URI . v=htaccess");
        site.page("d/.ht2", "SetEnvIf Request_URI . v=ht2");
        site.page(".htaccess", "SetEnvIf Request_URI . w=parent");
    };
    for (variable, configuration, expected) in
        [("v", "AccessFileName .ht2 .htaccess", "ht2"), ("v", "", "htaccess"), ("w", "", "parent")]
    {
        let configuration = format!("{}{configuration}\n{ALL}", log_line(variable));
        oracle::both("other_names_and_parents", build, &configuration, |site| {
            assert_eq!(get(site), (200, expected.to_string()));
        });
    }
}

/// A changed, new or removed file counts from the next request on.
#[test]
fn a_change_counts_at_once() {
    let build = |site: &Site| _ = site.page("d/f.txt", "x\n");
    oracle::both("a_change_counts_at_once", build, &format!("{}{ALL}", log_line("v")), |site| {
        for round in 0..10 {
            assert_eq!(get(site), (200, "-".to_string()));
            site.page("d/.htaccess", format!("SetEnvIf Request_URI . v={round}"));
            assert_eq!(get(site), (200, round.to_string()));
            site.page("d/.htaccess", "Require all denied");
            assert_eq!(get(site).0, 403);
            std::fs::remove_file(site.root.join("htdocs/d/.htaccess")).expect("remove");
        }
    });
}

/// A special or very large file is not read, but its possible contents are not ignored either.
#[test]
fn access_files_that_are_not_files() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::with([("fifo/f.txt", "x"), ("large/f.txt", "x"), ("most/f.txt", "x")]);
        let fifo = std::process::Command::new("mkfifo").arg(site.root.join("htdocs/fifo/.htaccess")).status();
        assert!(fifo.expect("mkfifo").success());
        site.page("large/.htaccess", vec![b'\n'; (1 << 20) + 1]);
        site.page("most/.htaccess", vec![b'\n'; 1 << 20]);
        let server = Server::start(mpm, &site, ALL);
        server.announce("not a regular file");
        server.announce("AH00529: ");
        server.announce("larger than 1048576 bytes");
        let statuses = ["/fifo/f.txt", "/large/f.txt", "/most/f.txt"].map(|path| server.get(path).status);
        assert_eq!(statuses, [403, 500, 200], "{mpm}");
    }
}

/// An unchanged access file changes its meaning: the condition that it tests has changed.
#[test]
fn conditions_on_files_are_asked_for_each_request() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::with([("d/f.txt", "x")]);
        let flag = site.root.join("flag");
        let text = format!("<IFfile {}>\nRequire all denied\n</IfFile>\n", flag.display());
        let path = site.page("d/.htaccess", text);
        // Long ago, so that it may be remembered.
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        std::fs::File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("time");
        let server = Server::start(mpm, &site, ALL);
        server.announce("AH01630");
        let mut client = server.client();
        for _ in 0..3 {
            assert_eq!(client.get("/d/f.txt").status, 200, "{mpm}");
            std::fs::write(&flag, "").expect("flag");
            assert_eq!(client.get("/d/f.txt").status, 403, "{mpm}");
            std::fs::remove_file(&flag).expect("flag");
        }
    }
}

/// A file may be written twice before the clock of the file system goes on: its times, its size and its number are the same.
#[test]
fn two_changes_in_a_moment_both_count() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::with([("d/f.txt", "x")]);
        let server = Server::start(mpm, &site, &format!("MaxKeepAliveRequests 0\n{ALL}"));
        server.announce("AH01630");
        let mut client = server.client();
        for round in 0..200 {
            for (text, status) in [("Require all granted", 200), ("Require all  denied", 403)] {
                site.page("d/.htaccess", text);
                assert_eq!(client.get("/d/f.txt").status, status, "{mpm}, round {round}");
            }
        }
    }
}

/// A large file is read beside the event loop, and the request goes on where it stopped: a file above it, which is never
/// remembered, has its warnings logged once.
#[test]
fn large_files_are_read_apart() {
    for mpm in Mpm::chosen(test_name!()) {
        let site = Site::with([("small.html", "x"), ("d/e/index.html", "x"), ("d/e/f/index.html", "x")]);
        site.page("d/.htaccess", "<IfFile /none>\n</IfFile>\nBogus on\n");
        let lines: String = (0..1000).map(|n| format!("SetEnvIf Request_URI \"^/none/{n}$\" v={n}\n")).collect();
        site.page("d/e/.htaccess", format!("{lines}SetEnvIf Request_URI . v=outer\n"));
        site.page("d/e/f/.htaccess", format!("{lines}SetEnvIf v (.*) v=$1-inner\n"));
        let lines = "<Directory \"${DOCS}\">\nAllowOverride FileInfo Nonfatal=Unknown\n</Directory>\n";
        let server = Server::start(mpm, &site, &format!("{lines}{}", log_line("v")));
        server.allow("AH02296");
        let ask = |path: &str| variable(&site, &mut server.client(), &format!("GET {path} HTTP/1.1\r\nHost: x"), "").1;
        let computing = || {
            let tasks =
                server.children().into_iter().flat_map(|child| std::fs::read_dir(format!("/proc/{child}/task")));
            let names = tasks.flatten().flatten().map(|task| std::fs::read_to_string(task.path().join("comm")));
            names.flatten().filter(|name| name.starts_with("offload-compute")).count()
        };
        assert_eq!((ask("/small.html"), computing()), ("-".into(), 0), "{mpm}");
        assert_eq!(ask("/d/e/f/index.html"), "outer-inner", "{mpm}");
        assert_eq!(server.log().matches("AH02296").count(), 1, "{mpm}: {}", server.log());
        assert_eq!(computing() > 0, matches!(mpm, Mpm::Event | Mpm::Percore), "{mpm}");
        assert_eq!(ask("/d/e/index.html"), "outer", "{mpm}");
    }
}

//! Sources of users and groups: DBM files of Apache's own tools, anonymous users, owners of files. Every table is also
//! checked against Apache.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use crate::auth::passwords::request;
use crate::harness::mpm::{Mpm, test_name};
use crate::harness::needs;
use crate::harness::object_servers::{ObjectServer, REDIS_PORT};
use crate::harness::oracle;
use crate::harness::server::Server;
use crate::harness::site::Site;
use crate::harness::wire::Client;

/// The status of a request with these credentials.
fn log_in(site: &Site, path: &str, user: &str, password: &str) -> u16 {
    Client::connect(site.address()).request(request(path, user, password)).status
}

/// Runs a tool of Apache's.
fn tool(name: &str, arguments: &[&str]) {
    let output = Command::new(name).args(arguments).output().unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(output.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Children may read what the tools have made.
fn readable(site: &Site, names: &[&str]) {
    for name in names {
        let path = site.root.join(name);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).expect("mode");
    }
}

const KINDS: [(&str, &str); 4] = [("sdbm", "SDBM"), ("gdbm", "GDBM"), ("db", "DB"), ("other", "default")];

/// Many users, so that each file has many pages, and one with groups after the password.
fn dbm_files(site: &Site) {
    site.page("f.txt", "x\n");
    for (name, kind) in KINDS {
        let path = site.root.join("conf").join(name);
        let path = path.to_str().expect("a plain path");
        let kind = format!("-T{kind}");
        tool("htdbm", &["-cbs", &kind, path, "joe", "secret"]);
        tool("htdbm", &["-bst", &kind, path, "ann", "other", "staff,editors"]);
        for number in 0..30 {
            tool("htdbm", &["-bm", &kind, path, &format!("user-with-a-long-name-{number}"), "pass"]);
        }
        tool("htdbm", &["-x", &kind, path, "user-with-a-long-name-15"]);
    }
    readable(site, &["conf/sdbm.pag", "conf/sdbm.dir", "conf/gdbm", "conf/db", "conf/other"]);
    site.file("conf/passwords", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\njoe:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n");
    let path = site.root.join("conf/large");
    if needs::APACHE.is_there("dbm_files") {
        // A value that needs pages of its own, and a page of which things were deleted.
        let program = "use DB_File; tie my %h, 'DB_File', $ARGV[0], O_CREAT|O_RDWR, 0644, $DB_HASH or die; \
            $h{\"k$_\"} = 'v' x 50 for 1..200; delete $h{\"k$_\"} for 1..150; \
            $h{joe} = join ',', map \"group-number-$_\", 1..2000; $h{'ann:x'} = 'here:staff:comment';";
        tool("perl", &["-e", program, path.to_str().expect("a plain path")]);
        readable(site, &["conf/large"]);
    }
}

#[test]
fn dbm_files_are_read() {
    let mut configuration: String = KINDS
        .iter()
        .map(|(name, kind)| {
            format!(
                "Alias /{name} ${{DOCS}}\n<Location /{name}>\nAuthType Basic\nAuthName x\nAuthBasicProvider dbm\n\
                 AuthDBMType {kind}\nAuthDBMUserFile ${{ROOT}}/conf/{name}\nRequire valid-user\n</Location>\n\
                 Alias /groups-{name} ${{DOCS}}\n<Location /groups-{name}>\nAuthType Basic\nAuthName x\n\
                 AuthUserFile ${{ROOT}}/conf/passwords\nAuthzDBMType {kind}\nAuthDBMGroupFile ${{ROOT}}/conf/{name}\n\
                 Require dbm-group none editors\n</Location>\n"
            )
        })
        .collect();
    configuration += "<Location /missing>\nAuthType Basic\nAuthName x\nAuthBasicProvider dbm\n\
        AuthDBMUserFile ${ROOT}/conf/missing\nRequire valid-user\n</Location>\n\
        <Location /wrong>\nAuthType Basic\nAuthName x\nAuthBasicProvider dbm\nAuthDBMType GDBM\n\
        AuthDBMUserFile ${ROOT}/conf/db\nRequire valid-user\n</Location>\n\
        <Location /odd>\nAuthType Basic\nAuthName x\nAuthBasicProvider dbm\nAuthDBMType odd\n\
        AuthDBMUserFile ${ROOT}/conf/db\nRequire valid-user\n</Location>\n\
        <Location /none>\nAuthType Basic\nAuthName x\nAuthBasicProvider dbm\nRequire valid-user\n</Location>\n\
        <Location /large>\nAuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/conf/passwords\n\
        AuthDBMGroupFile ${ROOT}/conf/large\nRequire dbm-group group-number-1999 staff\n</Location>\n\
        <Location /lost>\nAuthType Basic\nAuthName x\nAuthUserFile ${ROOT}/conf/passwords\n\
        AuthDBMGroupFile ${ROOT}/conf/missing\nRequire dbm-group a\n</Location>\n\
        Alias /large ${DOCS}\n";
    oracle::both("dbm_files_are_read", dbm_files, &configuration, |site| {
        for (name, _) in KINDS {
            let path = format!("/{name}/f.txt");
            let mut statuses = vec![log_in(site, &path, "joe", "secret"), log_in(site, &path, "joe", "wrong")];
            statuses.extend([log_in(site, &path, "ann", "other"), log_in(site, &path, "nobody", "secret")]);
            statuses
                .extend([0, 14, 15, 29].map(|n| log_in(site, &path, &format!("user-with-a-long-name-{n}"), "pass")));
            assert_eq!(statuses, [200, 401, 200, 401, 200, 200, 401, 200], "{name}");
            let path = format!("/groups-{name}/f.txt");
            assert_eq!(
                [log_in(site, &path, "ann", "secret"), log_in(site, &path, "joe", "secret")],
                [200, 401],
                "{name}"
            );
        }
        for path in ["/missing", "/wrong", "/odd", "/none", "/lost"] {
            assert_eq!(log_in(site, path, "ann", "secret"), 500, "{path}");
        }
        let log = site.read("logs/error_log");
        assert!(log.contains("AH10285: could not open dbm (type GDBM) file: "), "{log}");
        assert!(log.contains("AH01801: Authorization of user joe to access /groups-db/f.txt failed"), "{log}");
        assert_eq!(
            [log_in(site, "/large/f.txt", "joe", "secret"), log_in(site, "/large/f.txt", "ann", "secret")],
            [200; 2]
        );
    });
}

/// A change takes effect at once, however it was made.
#[test]
fn a_dbm_file_may_change() {
    let configuration = "<Location />\nAuthType Basic\nAuthName x\nAuthBasicProvider dbm\n\
        AuthDBMUserFile ${ROOT}/conf/users\nRequire valid-user\n</Location>";
    let build = |site: &Site| {
        site.page("f.txt", "x\n");
        let path = site.root.join("conf/users");
        tool("htdbm", &["-cbs", path.to_str().expect("a plain path"), "joe", "secret"]);
        readable(site, &["conf/users"]);
    };
    oracle::both("a_dbm_file_may_change", build, configuration, |site| {
        let path = site.root.join("conf/users");
        let path = path.to_str().expect("a plain path");
        assert_eq!([log_in(site, "/f.txt", "joe", "secret"), log_in(site, "/f.txt", "ann", "other")], [200, 401]);
        tool("htdbm", &["-bs", path, "joe", "changed"]);
        tool("htdbm", &["-bs", path, "ann", "other"]);
        let statuses =
            [("joe", "secret"), ("joe", "changed"), ("ann", "other")].map(|(u, p)| log_in(site, "/f.txt", u, p));
        assert_eq!(statuses, [401, 200, 200]);
    });
}

#[test]
fn anonymous_users() {
    let build = |site: &Site| {
        for place in ["any", "some", "address", "nobody", "unset"] {
            site.page(&format!("{place}/f.txt"), "x\n");
        }
    };
    let section = |place: &str, lines: &str| {
        format!(
            "<Location /{place}>\nAuthType Basic\nAuthName x\nAuthBasicProvider anon\n{lines}\nRequire valid-user\n\
             </Location>\n"
        )
    };
    let configuration = section("any", "Anonymous *\nAnonymous_MustGiveEmail Off")
        + &section("some", "Anonymous guest \"the public\"")
        + &section("address", "Anonymous guest\nAnonymous_VerifyEmail On\nAnonymous_LogEmail Off")
        + &section("nobody", "Anonymous guest\nAnonymous_NoUserId On")
        + &section("unset", "Anonymous_NoUserId On")
        + "LogLevel authn_anon:info";
    oracle::both("anonymous_users", build, &configuration, |site| {
        for (place, user, password, status) in [
            ("any", "joe", "", 200),
            ("any", "", "x", 401),
            ("some", "GUEST", "x", 200),
            ("some", "the public", "x", 200),
            ("some", "guest", "", 401),
            ("some", "joe", "x", 401),
            ("address", "guest", "x", 401),
            ("address", "guest", "joe@example", 401),
            ("address", "guest", "joe@example.org", 200),
            ("nobody", "", "x", 200),
            ("nobody", "", "", 401),
            ("unset", "", "x", 401),
        ] {
            assert_eq!(log_in(site, &format!("/{place}/f.txt"), user, password), status, "{place} {user} {password}");
        }
        let log = site.read("logs/error_log");
        assert!(log.contains("AH01672: Anonymous: Passwd <x> Accepted") && !log.contains("<joe@example.org>"), "{log}");
    });
}

/// If the list of banned users cannot be read, all log-ins are refused.
#[test]
fn an_unknown_result_is_not_a_no() {
    let site = Site::new();
    let secret = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
    site.file("conf/passwords", format!("joe:{secret}\nann:{secret}\n"));
    site.file("conf/groups", "banned: joe\n");
    let places = [
        ("known", "AuthGroupFile ${ROOT}/conf/groups", "group banned", [401, 200]),
        ("unread", "AuthGroupFile ${ROOT}/conf/none", "group banned", [401, 401]),
        ("unset", "", "group banned", [401, 401]),
        ("owner", "", "file-owner", [401, 401]),
        ("dbm", "", "dbm-group banned", [401, 401]),
    ];
    let sections = places.map(|(place, file, line, _)| {
        format!(
            "<Location /{place}>\nAuthType Basic\nAuthName x\nAuthUserFile ${{ROOT}}/conf/passwords\n{file}\n\
             <RequireAll>\nRequire valid-user\nRequire not {line}\n</RequireAll>\n</Location>\n"
        )
    });
    site.page("known", "x\n");
    let server = Server::start(Mpm::Percore, &site, &sections.concat());
    server.allow_everything("each refused user is logged");
    for (place, .., want) in places {
        assert_eq!(["joe", "ann"].map(|user| log_in(&site, &format!("/{place}"), user, "secret")), want, "{place}");
    }
}

#[test]
fn owners_and_groups_of_files() {
    if !needs::ROOT.is_there("owners_and_groups_of_files") {
        return;
    }
    let build = |site: &Site| {
        for place in ["own", "group", "dbm-group"] {
            let path = site.page(&format!("{place}/f.txt"), "x\n");
            let meta = std::fs::metadata(&path).expect("a file");
            assert_eq!((meta.uid(), meta.gid()), (0, 0));
            let path = site.page(&format!("{place}/www.txt"), "x\n");
            tool("chown", &["www-data:www-data", path.to_str().expect("a plain path")]);
        }
        let secret = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
        site.file("conf/passwords", format!("root:{secret}\nwww-data:{secret}\njoe:{secret}\n"));
        site.file("conf/groups", "Root: joe\nwww-data: www-data\n");
        let path = site.root.join("conf/group-dbm");
        tool("htdbm", &["-cbst", path.to_str().expect("a plain path"), "joe", "x", "a,root"]);
        readable(site, &["conf/group-dbm"]);
    };
    let section = |place: &str, lines: &str| {
        format!(
            "<Location /{place}>\nAuthType Basic\nAuthName x\nAuthUserFile ${{ROOT}}/conf/passwords\n{lines}\n</Location>\n"
        )
    };
    let configuration = section("own", "Require file-owner")
        + &section("group", "AuthGroupFile ${ROOT}/conf/groups\nRequire file-group")
        + &section("dbm-group", "AuthDBMGroupFile ${ROOT}/conf/group-dbm\nRequire dbm-file-group")
        + &section("lost", "Require file-group");
    oracle::both("owners_and_groups_of_files", build, &configuration, |site| {
        for (path, user, status) in [
            ("/own/f.txt", "root", 200),
            ("/own/f.txt", "joe", 401),
            ("/own/www.txt", "www-data", 200),
            ("/own/www.txt", "root", 401),
            ("/own/missing.txt", "root", 401),
            ("/group/f.txt", "joe", 200),
            ("/group/f.txt", "root", 401),
            ("/group/www.txt", "www-data", 200),
            ("/group/www.txt", "joe", 401),
            ("/dbm-group/f.txt", "joe", 200),
            ("/dbm-group/www.txt", "joe", 401),
            ("/dbm-group/f.txt", "root", 401),
            ("/lost", "root", 401),
        ] {
            assert_eq!(log_in(site, path, user, "secret"), status, "{path} {user}");
        }
        let log = site.read("logs/error_log");
        for line in [
            "AH01637: Authorization of user joe to access /own/f.txt failed, reason: file owner root does not match.",
            "AH01634: Authorization of user root to access /own/missing.txt failed, reason: could not stat file ",
            "AH01670: Authorization of user root to access /group/f.txt failed, reason: user doesn't appear in group file",
            "AH01805: Authorization of user joe to access /dbm-group/www.txt failed",
            "AH01668: No group file was specified in the configuration",
        ] {
            assert!(log.contains(line), "{line}: {log}");
        }
    });
}

/// A result found by one child is known to all children until it expires, even if the file changes.
#[test]
fn passwords_are_remembered() {
    let build = |site: &Site| {
        for place in ["a", "b", "every/c", "every/d", "now", "other"] {
            site.page(&format!("{place}/f.txt"), "x\n");
        }
        site.file("conf/passwords", "joe:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n");
    };
    let section = |place: &str, lines: &str| {
        format!(
            "<Location /{place}>\nAuthType Basic\nAuthName x\nAuthBasicProvider socache file\n\
             AuthUserFile ${{ROOT}}/conf/passwords\n{lines}\nRequire valid-user\n</Location>\n"
        )
    };
    let configuration = "AuthnCacheSOCache shmcb\n".to_string()
        + &section("a", "AuthnCacheProvideFor file")
        + &section("b", "AuthnCacheProvideFor file")
        + &section("every", "AuthnCacheProvideFor file\nAuthnCacheContext every")
        + &section("now", "AuthnCacheProvideFor file\nAuthnCacheTimeout 0")
        + &section("other", "AuthnCacheProvideFor dbm");
    oracle::both("passwords_are_remembered", build, &configuration, |site| {
        let statuses = |path: &str| ["secret", "changed"].map(|password| log_in(site, path, "joe", password));
        for path in ["/a/f.txt", "/every/c/f.txt", "/now/f.txt", "/other/f.txt"] {
            assert_eq!(statuses(path), [200, 401], "{path}");
        }
        tool("htpasswd", &["-bs", site.root.join("conf/passwords").to_str().expect("a plain path"), "joe", "changed"]);
        // Several times: other children answer.
        for _ in 0..8 {
            for (path, want) in [
                ("/a/f.txt", [200, 401]),
                ("/b/f.txt", [401, 200]),
                ("/every/c/f.txt", [200, 401]),
                ("/every/d/f.txt", [200, 401]),
                ("/now/f.txt", [401, 200]),
                ("/other/f.txt", [401, 200]),
            ] {
                assert_eq!(statuses(path), want, "{path}");
            }
        }
        assert_eq!(log_in(site, "/a/f.txt", "bob", "secret"), 401);
    });
}

/// The same in a server that several machines may share; without it the source answers.
#[test]
fn passwords_are_remembered_in_redis() {
    if !needs::REDIS.is_there("passwords_are_remembered_in_redis") {
        return;
    }
    let site = Site::new();
    site.page("f.txt", "x\n");
    site.file("conf/passwords", "joe:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n");
    let redis = ObjectServer::redis(&site);
    let configuration = format!(
        "AuthnCacheSOCache redis:{}:{REDIS_PORT}\n<Location />\nAuthType Basic\nAuthName x\nAuthBasicProvider socache file\n\
         AuthUserFile ${{ROOT}}/conf/passwords\nAuthnCacheProvideFor file\nRequire valid-user\n</Location>\n",
        site.address().ip()
    );
    let server = Server::start(Mpm::chosen(test_name!())[0], &site, &configuration);
    server.announce("Authn cache: the cache is out of reach");
    server.allow("AH01680");
    server.allow("AH01617");
    let statuses = || ["secret", "changed"].map(|password| log_in(&site, "/f.txt", "joe", password));
    assert_eq!(statuses(), [200, 401]);
    tool("htpasswd", &["-bs", site.root.join("conf/passwords").to_str().expect("a plain path"), "joe", "changed"]);
    assert_eq!(statuses(), [200, 401]);
    drop(redis);
    assert_eq!(statuses(), [401, 200]);
}

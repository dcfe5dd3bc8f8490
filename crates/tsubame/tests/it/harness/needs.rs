//! The tests' requirements besides Rust: Debian's programs, root's rights, a kernel that permits what they do.
//!
//! If something is missing, a test skips the part that needs it, and one message says so for all tests. With `CI=true`
//! nothing may be skipped: the test fails, and says what to install.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

/// Something that may be missing.
pub struct Need {
    what: &'static str,
    /// The remedy.
    remedy: &'static str,
    is_there: fn() -> bool,
    /// The machine has it or not, and it cannot be installed: no reason to fail.
    is_fate: bool,
}

/// Apache, whose answers ours are compared with.
pub const APACHE: Need = Need {
    what: "/usr/sbin/apache2",
    remedy: "apt-get install apache2",
    is_there: || Path::new(crate::harness::oracle::APACHE).exists(),
    is_fate: false,
};

/// Apache's configuration as Debian ships it.
pub const DEBIAN: Need = Need {
    what: "/etc/apache2/apache2.conf",
    remedy: "apt-get install apache2",
    is_there: || Path::new("/etc/apache2/apache2.conf").exists(),
    is_fate: false,
};

/// A program that makes certificates and keys in every form, and a client.
pub const OPENSSL: Need = Need {
    what: "/usr/bin/openssl",
    remedy: "apt-get install openssl",
    is_there: || Path::new("/usr/bin/openssl").exists(),
    is_fate: false,
};

/// A directory, and the programs that change it.
pub const SLAPD: Need = Need {
    what: crate::harness::slapd::SLAPD,
    remedy: "apt-get install slapd ldap-utils",
    is_there: crate::harness::slapd::exists,
    is_fate: false,
};

/// A load balancer.
pub const HAPROXY: Need = Need {
    what: "/usr/sbin/haproxy",
    remedy: "apt-get install haproxy",
    is_there: || Path::new("/usr/sbin/haproxy").exists(),
    is_fate: false,
};

/// The checker of Prometheus. Its package takes 100 MB: too much to ask of every machine that builds.
pub const PROMTOOL: Need = Need {
    what: "/usr/bin/promtool",
    remedy: "apt-get install prometheus",
    is_there: || Path::new("/usr/bin/promtool").exists(),
    is_fate: false,
};

/// A server of objects.
pub const REDIS: Need = Need {
    what: crate::harness::object_servers::REDIS,
    remedy: "apt-get install redis-server",
    is_there: || Path::new(crate::harness::object_servers::REDIS).exists(),
    is_fate: false,
};

/// The same.
pub const MEMCACHED: Need = Need {
    what: crate::harness::object_servers::MEMCACHED,
    remedy: "apt-get install memcached",
    is_there: || Path::new(crate::harness::object_servers::MEMCACHED).exists(),
    is_fate: false,
};

/// A browser for the live page.
pub const CHROMIUM: Need = Need {
    what: "/usr/bin/chromium",
    remedy: "apt-get install chromium",
    is_there: || Path::new(crate::harness::browser::CHROMIUM).exists(),
    is_fate: false,
};

/// A client that speaks TLS.
pub const CURL: Need = Need {
    what: "/usr/bin/curl",
    remedy: "apt-get install curl",
    is_there: || Path::new("/usr/bin/curl").exists(),
    is_fate: false,
};

/// A reader of the status page, and the library it reads with.
pub const MUNIN: Need = Need {
    what: "/usr/share/munin/plugins",
    remedy: "apt-get install munin-plugins-core libwww-perl",
    is_there: || {
        ["/usr/share/munin/plugins/apache_accesses", "/usr/share/perl5/LWP.pm"]
            .iter()
            .all(|file| Path::new(file).exists())
    },
    is_fate: false,
};

/// FCGI and CGI::Fast.
pub const PERL: Need = Need {
    what: "FCGI and CGI::Fast of Perl",
    remedy: "apt-get install libfcgi-perl libcgi-fast-perl",
    is_there: || {
        Command::new("perl").args(["-MFCGI", "-MCGI::Fast", "-e1"]).output().is_ok_and(|it| it.status.success())
    },
    is_fate: false,
};

/// Debian's mod_fcgid, whose answers ours are compared with.
pub const FCGID: Need = Need {
    what: "Apache's mod_fcgid",
    remedy: "apt-get install libapache2-mod-fcgid",
    is_there: || Path::new(crate::harness::oracle::MODULES).join("mod_fcgid.so").exists(),
    is_fate: false,
};

/// libfcgi and a compiler.
pub const LIBFCGI: Need = Need {
    what: "libfcgi and cc",
    remedy: "apt-get install gcc libfcgi-dev",
    is_there: || {
        Path::new("/usr/include/fcgi_stdio.h").exists() && Command::new("cc").arg("--version").output().is_ok()
    },
    is_fate: false,
};

/// PHP, as the server starts it.
pub const PHP: Need = Need {
    what: "/usr/bin/php-cgi",
    remedy: "apt-get install php-cgi",
    is_there: || Path::new("/usr/bin/php-cgi").exists(),
    is_fate: false,
};

/// Debian's program of PHP-FPM.
pub const FPM_PROGRAM: &str = "/usr/sbin/php-fpm8.2";

/// PHP-FPM, which a test starts itself.
pub const FPM: Need = Need {
    what: FPM_PROGRAM,
    remedy: "apt-get install php-fpm",
    is_there: || Path::new(FPM_PROGRAM).exists(),
    is_fate: false,
};

/// Debian's program of fcgiwrap.
pub const FCGIWRAP_PROGRAM: &str = "/usr/sbin/fcgiwrap";

/// FastCGI for CGI scripts.
pub const FCGIWRAP: Need = Need {
    what: FCGIWRAP_PROGRAM,
    remedy: "apt-get install fcgiwrap",
    is_there: || Path::new(FCGIWRAP_PROGRAM).exists(),
    is_fate: false,
};

/// uWSGI with Python.
pub const UWSGI: Need = Need {
    what: "/usr/bin/uwsgi-core with its plugin for Python",
    remedy: "apt-get install uwsgi-core uwsgi-plugin-python3",
    is_there: || {
        ["/usr/bin/uwsgi-core", "/usr/lib/uwsgi/plugins/python3_plugin.so"].iter().all(|file| Path::new(file).exists())
    },
    is_fate: false,
};

/// An application in Python, and the server that it runs in.
pub const FLASK: Need = Need {
    what: "Debian's gunicorn and Flask",
    remedy: "apt-get install gunicorn python3-flask",
    is_there: || has_python_packages(&["gunicorn", "flask"]),
    is_fate: false,
};

/// Plack, whose suite asks servers of PSGI.
pub const PLACK: Need = Need {
    what: "Debian's Plack",
    remedy: "apt-get install libplack-perl",
    is_there: || Path::new("/usr/share/perl5/Plack/Test/Suite.pm").exists(),
    is_fate: false,
};

/// Rack, whose Lint checks what servers and applications say to each other.
pub const RACK: Need = Need {
    what: "Debian's Ruby and Rack",
    remedy: "apt-get install ruby ruby-rack",
    is_there: || Command::new("ruby").args(["-rrack", "-e1"]).output().is_ok_and(|output| output.status.success()),
    is_fate: false,
};

/// WebSockets of Python, client and server.
pub const WEB_SOCKETS: Need = Need {
    what: "Debian's WebSockets for Python",
    remedy: "apt-get install python3-websockets",
    is_there: || has_python_packages(&["websockets"]),
    is_fate: false,
};

/// gRPC of Python, client and server.
pub const GRPC: Need = Need {
    what: "Debian's gRPC for Python",
    remedy: "apt-get install python3-grpcio",
    is_there: || has_python_packages(&["grpc"]),
    is_fate: false,
};

/// Whether Debian's Python has packages of these names.
fn has_python_packages(names: &[&str]) -> bool {
    names.iter().all(|name| Path::new("/usr/lib/python3/dist-packages").join(name).exists())
}

/// Java, of any version that Tomcat takes.
pub const JAVA: &str = "/usr/bin/java";
/// Debian's Tomcat.
pub const TOMCAT_HOME: &str = "/usr/share/tomcat10";

/// A server of applications in Java.
pub const TOMCAT: Need = Need {
    what: "/usr/share/tomcat10 or /usr/bin/java",
    remedy: "apt-get install tomcat10-common",
    is_there: || Path::new(TOMCAT_HOME).join("bin/bootstrap.jar").exists() && Path::new(JAVA).exists(),
    is_fate: false,
};

/// JavaScript outside a browser.
pub const NODE: Need = Need {
    what: "node",
    remedy: "apt-get install nodejs",
    is_there: || Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success()),
    // It is 150 MB for one test, so nobody has to install it.
    is_fate: true,
};

/// Applications in PHP, with the files that their packages have for Apache.
pub const PHP_APPLICATIONS: Need = Need {
    what: "/etc/phpmyadmin/apache.conf or /usr/share/wordpress",
    remedy: "apt-get install phpmyadmin wordpress",
    is_there: || {
        ["/etc/phpmyadmin/apache.conf", "/usr/share/wordpress/index.php"].iter().all(|file| Path::new(file).exists())
    },
    is_fate: false,
};

/// The suite of tests for WebDAV servers.
pub const LITMUS: Need = Need {
    what: "/usr/bin/litmus",
    remedy: "apt-get install litmus",
    is_there: || Path::new("/usr/bin/litmus").exists(),
    is_fate: false,
};

/// Clients of WebDAV.
pub const DAV_CLIENTS: Need = Need {
    what: "/usr/bin/cadaver and /usr/bin/rclone",
    remedy: "apt-get install cadaver rclone",
    is_there: || ["/usr/bin/cadaver", "/usr/bin/rclone"].iter().all(|file| Path::new(file).exists()),
    is_fate: false,
};

/// SQLite's own program, which makes the databases that servers read; and Apache's driver for them.
pub const SQLITE: Need = Need {
    what: "/usr/bin/sqlite3, or Apache's driver for SQLite",
    remedy: "apt-get install sqlite3 libaprutil1-dbd-sqlite3",
    is_there: || Path::new("/usr/bin/sqlite3").exists() && has_driver("sqlite3"),
    is_fate: false,
};

/// A certificate authority, which tests install themselves.
pub const PEBBLE: Need = Need {
    what: "pebble, a Go program",
    remedy: "install Go, and let it fetch modules",
    is_there: || crate::harness::pebble::programs().is_some(),
    // Not every machine may fetch modules.
    is_fate: true,
};

/// Debian's programs of PostgreSQL.
pub const POSTGRES_PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// PostgreSQL, which a test starts itself, and Apache's driver for it.
pub const POSTGRES: Need = Need {
    what: "/usr/lib/postgresql/15/bin, or Apache's driver for PostgreSQL",
    remedy: "apt-get install postgresql libaprutil1-dbd-pgsql",
    is_there: || Path::new(POSTGRES_PROGRAMS).join("initdb").exists() && has_driver("pgsql"),
    is_fate: false,
};

/// Whether Apache has a driver for a kind of database.
fn has_driver(name: &str) -> bool {
    Path::new(&format!("/usr/lib/{}-linux-gnu/apr-util-1/apr_dbd_{name}.so", std::env::consts::ARCH)).exists()
}

/// Processes of other users, files of other users.
pub const ROOT: Need =
    Need { what: "the rights of root", remedy: "run the tests as root", is_there: sys::cred::is_root, is_fate: false };

/// A clock that says what a test wants.
pub const TIME_NAMESPACES: Need = Need {
    what: "time namespaces",
    remedy: "run the tests as root, where unshare(1) --time is permitted",
    is_there: || Command::new("unshare").args(["--time", "true"]).output().is_ok_and(|output| output.status.success()),
    is_fate: true,
};

/// A file system that hangs when a test says so.
pub const FUSE: Need = Need {
    what: "/dev/fuse",
    remedy: "run the tests as root, where FUSE may be mounted",
    is_there: crate::harness::hung_disk::exists,
    is_fate: true,
};

/// More than one bucket of listeners.
pub const PROCESSORS: Need = Need {
    what: "a second processor",
    remedy: "run the tests where there are two",
    is_there: || sys::affinity::cpus() >= 2,
    is_fate: true,
};

impl Need {
    /// Whether it is available. If it is missing and required, the test fails.
    pub fn is_there(&self, test: &str) -> bool {
        if (self.is_there)() {
            return true;
        }
        let Need { what, remedy, .. } = self;
        assert!(self.is_fate || !must_be_there(), "{test} needs {what}, which is missing: {remedy}");
        static SAID: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
        if SAID.lock().is_ok_and(|mut said| said.insert(what)) {
            // Past what catches the output of tests that pass.
            let _ = writeln!(
                std::io::stderr(),
                "{what}: missing; {test}, and every other test that needs it, passes without having looked: {remedy}"
            );
        }
        false
    }
}

/// Whether everything is to be tested.
fn must_be_there() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// In a process of its own: with `CI` what is missing is a failure that says what to do, without it is said once.
#[test]
fn nothing_is_left_out_quietly() {
    const NAME: &str = "nothing_is_left_out_quietly";
    const MISSING: Need = Need { what: "nonsense", remedy: "get some", is_there: || false, is_fate: false };
    const INSIDE: &str = "TSUBAME_WITHOUT";
    if std::env::var_os(INSIDE).is_some() {
        assert!(!MISSING.is_there("one") && !MISSING.is_there("two"));
        return;
    }
    // The names of tests begin behind the name of their program.
    let (_, module) = module_path!().split_once("::").expect("a module");
    let run = |ci: &str| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        let output = command
            .args(["--exact", &format!("{module}::{NAME}")])
            .env(INSIDE, "1")
            .env("CI", ci)
            .output()
            .expect("run");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).matches("nonsense").count(), text)
    };
    let (passed, said, text) = run("");
    assert!(passed && said == 1, "{}", String::from_utf8_lossy(&text));
    let (passed, _, text) = run("true");
    let text = String::from_utf8_lossy(&text);
    assert!(!passed && text.contains("one needs nonsense, which is missing: get some"), "{text}");
}

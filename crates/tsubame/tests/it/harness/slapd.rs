//! A directory for one test: a private instance of Debian's slapd.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::site::Site;
use crate::harness::wait::{DEADLINE, until, within};

/// The program, where Debian puts it.
pub const SLAPD: &str = "/usr/sbin/slapd";
/// Its port, at an address that no other test has.
pub const PORT: u16 = 8389;
/// It runs as nobody.
const NOBODY: u32 = 65534;

/// A running slapd.
pub struct Slapd {
    site: Site,
    process: Child,
}

impl Slapd {
    /// Starts one that holds these entries below `dc=example,dc=org`.
    pub fn start(entries: &str) -> Slapd {
        let site = Site::new();
        let root = site.path().to_string();
        site.file("db/.keep", "");
        for directory in ["db", "run"] {
            std::fs::set_permissions(site.root.join(directory), std::fs::Permissions::from_mode(0o777)).expect("mode");
        }
        let schemas =
            ["core", "cosine", "nis", "inetorgperson"].map(|name| format!("include /etc/ldap/schema/{name}.schema\n"));
        site.file(
            "conf/slapd.conf",
            format!(
                "{}modulepath /usr/lib/ldap\nmoduleload back_mdb\npidfile {root}/run/pid\ndatabase mdb\nmaxsize 16777216\n\
                 suffix \"dc=example,dc=org\"\nrootdn \"{ADMIN}\"\nrootpw {ADMIN_PASSWORD}\ndirectory {root}/db\n\
                 access to attrs=userPassword by anonymous auth by self read by * none\n\
                 access to attrs=employeeType by self read by dn=\"{ADMIN}\" read by * none\naccess to * by * read\n",
                schemas.concat()
            ),
        );
        site.file("conf/entries.ldif", entries);
        let config = format!("{root}/conf/slapd.conf");
        let added = as_nobody("/usr/sbin/slapadd")
            .args(["-f", &config, "-l", &format!("{root}/conf/entries.ldif")])
            .output()
            .expect("slapadd");
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        let process = Slapd::run(&site);
        Slapd { site, process }
    }

    fn run(site: &Site) -> Child {
        let (root, ip) = (site.path(), site.ip);
        let socket = format!("{root}/run/socket").replace('/', "%2F");
        let log = std::fs::File::create(site.root.join("logs/slapd")).expect("log");
        let mut process = as_nobody(SLAPD)
            .args(["-f", &format!("{root}/conf/slapd.conf"), "-d", "256"])
            .args(["-h", &format!("ldap://{ip}:{PORT}/ ldapi://{socket}/")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("slapd");
        until("slapd", || {
            let ended = process.try_wait().expect("wait");
            assert!(ended.is_none(), "slapd does not start: {}", site.read("logs/slapd"));
            std::net::TcpStream::connect((ip, PORT)).ok()
        });
        process
    }

    /// `ldap://HOST:PORT`.
    pub fn url(&self) -> String {
        format!("ldap://{}:{PORT}", self.site.ip)
    }

    /// `ldapi://SOCKET`.
    pub fn local_url(&self) -> String {
        format!("ldapi://{}", format!("{}/run/socket", self.site.path()).replace('/', "%2F"))
    }

    /// How often its log has a text: of each operation it has a line.
    pub fn count(&self, text: &str) -> usize {
        self.site.read("logs/slapd").matches(text).count()
    }

    /// How many connections have begun with an operation. The line of an operation is there before its answer; slapd writes the
    /// line of a new connection (`ACCEPT`) when others may already use it.
    pub fn connections(&self) -> usize {
        let log = self.site.read("logs/slapd");
        let first = log.lines().filter_map(|line| Some(line.split_once(" op=0 ")?.0.rsplit_once("conn=")?.1));
        first.collect::<BTreeSet<_>>().len()
    }

    /// Changes entries, as LDIF says how.
    pub fn modify(&self, ldif: &str) {
        let file = self.site.file("conf/change.ldif", ldif);
        let output = Command::new("ldapmodify")
            .args(["-x", "-H", &self.url(), "-D", ADMIN, "-w", ADMIN_PASSWORD, "-f"])
            .arg(file)
            .output()
            .expect("ldapmodify");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Stops it at any point of its work, so that it accepts connections and never answers.
    pub fn stop(&self) {
        self.pid().kill(Signal::STOP).expect("signal");
        // A thread runs until it gets the signal to stop, which takes a while on a busy machine.
        until("all threads of slapd have stopped", || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("its threads").flatten();
            let stat = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            tasks.map(stat).all(|stat| stat.contains(") T ")).then_some(())
        });
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        self.pid().kill(Signal::CONT).expect("signal");
    }

    /// Ends it; [`begin_again`](Slapd::begin_again) starts it anew with the same entries.
    pub fn end(&mut self) {
        let _ = self.pid().kill(Signal::TERM);
        if within(DEADLINE, || self.process.try_wait().ok().flatten()).is_none() {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }

    pub fn begin_again(&mut self) {
        self.process = Slapd::run(&self.site);
    }

    fn pid(&self) -> Pid {
        i32::try_from(self.process.id()).ok().and_then(Pid::new).expect("pid")
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        let _ = self.pid().kill(Signal::CONT);
        self.end();
    }
}

/// The user that may change everything.
pub const ADMIN: &str = "cn=admin,dc=example,dc=org";
pub const ADMIN_PASSWORD: &str = "secret";

fn as_nobody(program: &str) -> Command {
    let mut command = Command::new(program);
    if sys::cred::is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Whether there is one.
pub fn exists() -> bool {
    [SLAPD, "/usr/bin/ldapmodify"].iter().all(|path| Path::new(path).exists())
}

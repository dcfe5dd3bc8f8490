//! A PostgreSQL server of a test's own.

use std::fs::File;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::needs::POSTGRES_PROGRAMS;
use crate::harness::site::Site;
use crate::harness::wait::{DEADLINE, until, within};

/// The port that each cluster has, on an address of its own.
pub const PORT: u16 = 5432;
/// The password of all its users.
const PASSWORD: &str = "it's secret";
/// Access rules, by user name.
const ACCESS: &str = "local all admin trust\nlocal all all scram-sha-256\nhost all scram all scram-sha-256\n\
    host all md5 all md5\nhost all trust all trust\n";

/// A cluster with one database, which ends on drop.
pub struct Postgres {
    site: Site,
    process: Option<Child>,
}

impl Postgres {
    /// Makes a cluster and starts it. Its users are `admin`, `scram`, `md5` and `trust`.
    pub fn start() -> Postgres {
        let mut postgres = Postgres { site: Site::new(), process: None };
        let directory = postgres.site.root.join("pg");
        std::fs::create_dir_all(&directory).expect("directory");
        if let Some(user) = owner() {
            chown(&directory, Some(user.uid), Some(user.gid)).expect("owner");
        }
        let made = postgres
            .program("initdb")
            .args(["-U", "admin", "-A", "trust", "-N", "-E", "UTF8", "--locale=C", "-D"])
            .arg(directory.join("data"))
            .output()
            .expect("initdb");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let settings = format!(
            "listen_addresses = '{}'\nport = {PORT}\nunix_socket_directories = '{}'\nfsync = off\nlog_statement = all\nlog_connections = on\n\
             shared_buffers = 1MB\nmax_connections = 100\n",
            postgres.site.ip,
            directory.display()
        );
        std::fs::write(directory.join("data/postgresql.conf"), settings).expect("settings");
        std::fs::write(directory.join("data/pg_hba.conf"), ACCESS).expect("access");
        postgres.run();
        let quoted = PASSWORD.replace('\'', "''");
        postgres.sql(&format!(
            "CREATE USER scram PASSWORD '{quoted}'; CREATE USER trust;
             SET password_encryption = 'md5'; CREATE USER md5 PASSWORD '{quoted}';"
        ));
        postgres
    }

    /// Starts the server.
    pub fn run(&mut self) {
        let directory = self.directory();
        let log = || Stdio::from(File::options().append(true).create(true).open(directory.join("log")).expect("log"));
        let mut command = self.program("postgres");
        command.arg("-D").arg(directory.join("data")).stdout(log()).stderr(log());
        self.process = Some(command.spawn().expect("postgres"));
        until("postgres", || self.psql("SELECT 1").ok());
    }

    /// Ends the server, and all its connections with it.
    pub fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let pid = i32::try_from(process.id()).ok().and_then(Pid::new).expect("pid");
        // Its own "fast" way.
        let _ = pid.kill(Signal::INT);
        if within(DEADLINE, || process.try_wait().ok().flatten()).is_none() {
            let _ = pid.kill(Signal::KILL);
            let _ = process.wait();
        }
    }

    /// Runs statements, and gives what they say.
    pub fn sql(&self, sql: &str) -> String {
        self.psql(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    fn psql(&self, sql: &str) -> Result<String, String> {
        let output = self
            .program("psql")
            .args(["-U", "admin", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-c", sql, "-h"])
            .arg(self.directory())
            .output()
            .expect("psql");
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_string()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// The directory of its socket.
    pub fn directory(&self) -> PathBuf {
        self.site.root.join("pg")
    }

    /// `DBDParams` for one of its users, over TCP.
    pub fn parameters(&self, user: &str) -> String {
        let password = PASSWORD.replace('\'', "\\\\'");
        format!("DBDParams \"host={} dbname=postgres user={user} password='{password}'\"\n", self.site.ip)
    }

    /// The same over its socket.
    pub fn parameters_of_socket(&self) -> String {
        format!("DBDParams \"host={} dbname=postgres user=admin\"\n", self.directory().display())
    }

    /// Its log.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.directory().join("log")).unwrap_or_default()).into_owned()
    }

    /// One of its programs, which refuse to be root's.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(format!("{POSTGRES_PROGRAMS}/{name}"));
        command.current_dir(self.directory()).stdin(Stdio::null());
        if let Some(user) = owner() {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            eprintln!("postgres said:\n{}", self.log());
        }
    }
}

fn owner() -> Option<sys::cred::User> {
    sys::cred::is_root().then(|| sys::cred::user("postgres").ok().flatten().expect("the user of Debian's package"))
}

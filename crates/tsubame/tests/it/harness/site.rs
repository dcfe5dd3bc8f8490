//! A place of a test's own: a directory and an address that no other test has.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::harness::mpm::Mpm;
use crate::harness::wait::until;

/// The port that every server of a test listens to, on an address of its own.
pub const PORT: u16 = 8080;

/// Directory and address; both are given back on drop.
pub struct Site {
    /// `ServerRoot`; `conf`, `logs`, `htdocs`, `cgi-bin` are below it.
    pub root: PathBuf,
    /// The address to listen to.
    pub ip: Ipv4Addr,
    /// Holds the address: whoever binds this name owns it, and the kernel gives it back however the test ends.
    _hold: UnixDatagram,
}

impl Site {
    /// A new place with an empty `htdocs`.
    pub fn new() -> Site {
        let (ip, hold) = own_address();
        let root = std::env::temp_dir().join(format!("tsubame-it-{ip}"));
        // Files left by a killed test run.
        let _ = std::fs::remove_dir_all(&root);
        for directory in ["conf", "logs", "htdocs", "cgi-bin", "run"] {
            std::fs::create_dir_all(root.join(directory)).expect("directory");
        }
        std::fs::write(root.join("conf/mime.types"), MIME_TYPES).expect("mime.types");
        Site { root, ip, _hold: hold }
    }

    /// The same, with files below `htdocs`.
    pub fn with<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Site {
        let site = Site::new();
        for (name, text) in files {
            site.page(name, text);
        }
        site
    }

    /// Writes a file below the root.
    pub fn file(&self, name: impl AsRef<OsStr>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(Path::new(name.as_ref()));
        std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        std::fs::write(&path, bytes).expect("file");
        path
    }

    /// Gives a file another name: quicker than a copy where there are thousands.
    pub fn link(&self, name: impl AsRef<Path>, file: &Path) {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        std::fs::hard_link(file, path).expect("link");
    }

    /// Writes a file below `htdocs`.
    pub fn page(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        self.file(format!("htdocs/{name}"), bytes)
    }

    /// Writes a file below `htdocs` whose name is any bytes.
    pub fn odd_page(&self, name: &[u8], bytes: &str) -> PathBuf {
        self.file(OsStr::from_bytes(&[b"htdocs/", name].concat()), bytes)
    }

    /// Writes a script below `cgi-bin`.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(format!("cgi-bin/{name}"), text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
        path
    }

    /// The text of a file below the root.
    pub fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.root.join(name)).unwrap_or_default()).into_owned()
    }

    /// The text of a log below the root. While a process writes, a reader may see the first pages of its lines: waits for
    /// the end of the last one.
    pub fn read_lines(&self, name: &str) -> String {
        until("a whole line", || Some(self.read(name)).filter(|text| text.is_empty() || text.ends_with('\n')))
    }

    /// The root as a configuration names it.
    pub fn path(&self) -> &str {
        self.root.to_str().expect("a plain path")
    }

    /// The server's address.
    pub fn address(&self) -> SocketAddr {
        (self.ip, PORT).into()
    }

    /// Writes `conf/httpd.conf`: what every configuration needs, and `text`. `${ROOT}`, `${DOCS}` and `${ADDR}` are defined.
    pub fn configure(&self, mpm: Mpm, text: &str) -> PathBuf {
        self.configure_with(&load_lines(mpm), text)
    }

    /// The same with other `LoadModule` lines.
    pub fn configure_with(&self, modules: &str, text: &str) -> PathBuf {
        let identity = if sys::cred::is_root() { "User www-data\nGroup www-data\n" } else { "" };
        self.file("conf/base.conf", format!("{modules}{identity}{}", self.base()));
        self.file("conf/httpd.conf", format!("Include conf/base.conf\n{text}\n"))
    }

    /// What every configuration has besides its modules and the identity of the server's processes.
    pub fn base(&self) -> String {
        let (path, ip) = (self.path(), self.ip);
        format!(
            "Define ROOT \"{path}\"\nDefine DOCS \"{path}/htdocs\"\nDefine ADDR {ip}\n\
             DefaultRuntimeDir run\nPidFile logs/pid\nErrorLog logs/error_log\nLogLevel warn\nServerName localhost\n\
             Listen {ip}:{PORT}\nDocumentRoot \"{path}/htdocs\"\n\
             <IfModule mod_mime.c>\nTypesConfig conf/mime.types\n</IfModule>\n"
        )
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::env::var_os("KEEP").is_none() {
            // A directory that cannot be removed lies where temporary files lie.
            let _ = std::fs::remove_dir_all(&self.root);
        }
    }
}

const MIME_TYPES: &str = "\
text/html html htm\ntext/plain txt\ntext/css css\napplication/javascript js\nimage/png png\nimage/gif gif\n\
image/jpeg jpg jpeg\napplication/gzip gz\napplication/json json\n";

/// An address of 127.100.100.100 to 127.253.255.253 that no other process tests with: all are equally long, and so are pages with
/// the names of files.
fn own_address() -> (Ipv4Addr, UnixDatagram) {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id().wrapping_mul(512).wrapping_add(COUNTER.fetch_add(1, Ordering::Relaxed));
        let [_, a, b, c] = number.to_be_bytes();
        let ip = Ipv4Addr::new(127, 100 + a % 154, 100 + b % 156, 100 + c % 154);
        let name = UnixAddr::from_abstract_name(format!("tsubame-it-{ip}")).expect("name");
        if let Ok(hold) = UnixDatagram::bind_addr(&name) {
            return (ip, hold);
        }
    }
}

/// Modules that bring a process manager with them: tests that need one load it.
pub const MANAGED: [&str; 10] = [
    "fastcgi_module",
    "fcgid_module",
    "perl_module",
    "php_module",
    "php7_module",
    "php5_module",
    "scgi_module",
    "speedycgi_module",
    "wsgi_module",
    "passenger_module",
];

/// A `LoadModule` line for the wanted MPM and for every module of Tsubame that is only there when it is asked.
pub fn load_lines(mpm: Mpm) -> String {
    crate::config::tables::infos()
        .iter()
        .filter(|info| !info.linked && !info.id.starts_with("mpm_") && !MANAGED.contains(&info.id))
        .map(|info| info.id)
        .chain([format!("mpm_{mpm}_module").as_str()])
        .map(|id| format!("LoadModule {id} modules/{}.so\n", id.trim_end_matches("_module")))
        .collect()
}

//! The load: a small site of all kinds, and how often each is asked for.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use super::succeed;

/// How the server is configured, with `{words}` for what each run has of its own.
const CONFIGURATION: &str = include_str!("httpd.conf");
/// `#` in a path stands for each of these in turn: more than the server remembers.
const NUMBERS: std::ops::Range<u32> = 0..1200;
/// How long a server may take to begin and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// One kind of request.
struct Load {
    count: u32,
    /// Further options of `tsubame-lab load`.
    options: &'static [&'static str],
    /// With `#` for a number.
    path: &'static str,
    /// The status of the answer.
    status: u16,
}

const fn load(count: u32, options: &'static [&'static str], path: &'static str) -> Load {
    Load { count, options, path, status: 200 }
}

const fn other(status: u16, count: u32, options: &'static [&'static str], path: &'static str) -> Load {
    Load { count, options, path, status }
}

/// What is asked in the clear. What a site has many of comes often: code that never ran is made small instead of fast.
const LOADS: &[Load] = &[
    load(6000, &["--bare"], "/small.txt"),
    load(3000, &[], "/small.txt"),
    load(1000, &["--bare"], "/large.bin"),
    load(100, &["--bare"], "/huge.bin"),
    load(2500, &["--bare"], "/files/#.txt"),
    load(2500, &[], "/files/#.txt"),
    load(500, &["--bare", "--header", "Range: bytes=1-9"], "/small.txt"),
    load(500, &["--bare", "--header", "If-None-Match: *"], "/files/#.txt"),
    load(500, &["--header", "Accept-Encoding: gzip"], "/page.html"),
    load(300, &["--close"], "/small.txt"),
    other(302, 300, &[], "/moved/x"),
    other(404, 300, &[], "/nothing"),
    other(301, 300, &[], "/files"),
    load(500, &[], "/front/#"),
    load(300, &[], "/listing/"),
    load(300, &[], "/page.shtml"),
    other(401, 200, &[], "/private/small.txt"),
    other(401, 500, &["--header", "Authorization: Basic dTpw"], "/private/small.txt"),
    load(300, &[], "/cgi-bin/hello"),
    load(100, &["--method", "POST", "--body", "a=b"], "/cgi-bin/hello"),
    load(1500, &[], "/app.php"),
    load(300, &["--method", "POST", "--body", "a=b"], "/app.php"),
    load(500, &[], "/perl/hello.pl"),
    load(2000, &["--h2c", "--streams", "10"], "/small.txt"),
    other(404, 500, &["--h2c"], "/nothing"),
];
/// What is asked over TLS.
const TLS_LOADS: &[Load] = &[
    load(2000, &[], "/small.txt"),
    load(200, &["--close"], "/small.txt"),
    load(1000, &["--http2", "--streams", "10"], "/small.txt"),
    load(1000, &["--http2", "--streams", "10"], "/files/#.txt"),
    load(300, &["--http2"], "/app.php"),
];

/// The files that the load asks for, outside of any home directory: whoever builds as root has them served by somebody else.
pub(super) struct Site {
    place: PathBuf,
    /// The program that makes the load.
    lab: PathBuf,
    /// Where an application speaks FastCGI.
    fastcgi: SocketAddr,
}

impl Site {
    pub(super) fn new(lab: PathBuf) -> Result<Site, String> {
        let place = std::env::temp_dir().join(format!("tsubame-pgo-{}", std::process::id()));
        // It must not be there: whoever has made it could change what a server of root's reads.
        let made = fs::DirBuilder::new().mode(0o755).create(&place);
        made.map_err(|error| format!("{}: {error}", place.display()))?;
        let site = Site { place, lab, fastcgi: begin_fastcgi().map_err(|error| format!("FastCGI: {error}"))? };
        let small = "thirty-one bytes of plain text\n";
        let page = "<p>a page that is worth compressing</p>\n".repeat(200);
        let files = [
            ("htdocs/small.txt", small, 0o644),
            ("htdocs/large.bin", &"0123456789abcdef".repeat(1024), 0o644),
            ("htdocs/huge.bin", &"0123456789abcdef".repeat(64 * 1024), 0o644),
            ("htdocs/page.html", &page, 0o644),
            ("htdocs/page.shtml", "<!--#set var=\"a\" value=\"b\" --><!--#include virtual=\"small.txt\" -->\n", 0o644),
            ("htdocs/private/small.txt", small, 0o644),
            ("htdocs/listing/some.txt", small, 0o644),
            ("htdocs/listing/other.html", &page, 0o644),
            ("htdocs/app.php", "its application does not read it\n", 0o644),
            ("htdocs/front/index.html", small, 0o644),
            (
                "htdocs/front/.htaccess",
                "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.html [L]\n",
                0o644,
            ),
            ("htdocs/perl/hello.pl", "print \"Content-Type: text/plain\\n\\nhello\\n\";\n", 0o755),
            ("cgi-bin/hello", "#!/bin/sh\necho 'Content-Type: text/plain'\necho\necho hello\n", 0o755),
            // Of `u`, whose password is `p`.
            ("passwords", "u:{SHA}UWuXg/ylF+7L0dBk2i0WUxCxl1k=\n", 0o644),
        ];
        for (name, text, mode) in files {
            site.put(name, text, mode)?;
        }
        for number in NUMBERS {
            site.put(&format!("htdocs/files/{number}.txt"), small, 0o644)?;
        }
        for (directory, mode) in [("logs", 0o755), ("run", 0o700)] {
            let path = site.path(directory);
            let made =
                fs::create_dir(&path).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)));
            made.map_err(|error| format!("{path}: {error}"))?;
        }
        if is_root() {
            // The server writes its profiles as the user that it has become, and nobody else writes there.
            succeed(Command::new("chown").args(["nobody", &site.path("run")]))?;
        }
        let mut openssl = Command::new("openssl");
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            "/CN=localhost",
        ]);
        openssl.args(["-keyout", &site.path("key.pem"), "-out", &site.path("cert.pem")]);
        succeed(openssl.stdout(Stdio::null()).stderr(Stdio::null()))?;
        Ok(site)
    }

    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.place.display())
    }

    fn put(&self, name: &str, text: &str, mode: u32) -> Result<(), String> {
        let path = self.place.join(name);
        let write = || {
            let parent = path.parent().unwrap_or(&self.place);
            fs::create_dir_all(parent)?;
            // Whatever the umask is, and however many directories there are.
            for directory in parent.ancestors().take_while(|directory| directory.starts_with(&self.place)) {
                fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
            }
            fs::write(&path, text)?;
            // A young file has another tag at first.
            fs::File::options().write(true).open(&path)?.set_modified(UNIX_EPOCH)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))
        };
        write().map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Serves the load with this program, in one process, with these variables in its environment. Returns the answers to one
    /// request of each kind.
    pub(super) fn serve(
        &self,
        program: &Path,
        mpm: &str,
        environment: &[(&str, String)],
    ) -> Result<Vec<String>, String> {
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let (clear, tls) = (free(), free());
        let (clear, tls) = clear.and_then(|clear| Ok((clear, tls?))).map_err(|error| format!("a port: {error}"))?;
        let words = [
            ("{mpm}", mpm),
            ("{clear}", &clear.to_string()),
            ("{tls}", &tls.to_string()),
            ("{fastcgi}", &self.fastcgi.to_string()),
            ("{root}", &self.path("")),
        ];
        let text = words.iter().fold(CONFIGURATION.to_string(), |text, (word, value)| text.replace(word, value));
        self.put("httpd.conf", &text, 0o644)?;
        let mut command = Command::new(program);
        command.args(["-X", "-D", if is_root() { "ROOT" } else { "USER" }, "-f", &self.path("httpd.conf")]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let server = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let mut server = Server(server);
        server.until_ready(clear)?;
        let answers = LOADS.iter().map(|load| answer(clear, load)).collect::<Result<_, _>>();
        let answers = answers.map_err(|error| format!("{}: {error}", program.display()))?;
        let all =
            LOADS.iter().map(|load| ("http", clear, load)).chain(TLS_LOADS.iter().map(|load| ("https", tls, load)));
        for (scheme, address, Load { count, options, path, .. }) in all {
            let mut load = Command::new(&self.lab);
            load.args(["load", "-c", "1", "-n", &count.to_string()]).args(*options);
            let numbers = if path.contains('#') { NUMBERS } else { 0..1 };
            load.args(numbers.map(|number| format!("{scheme}://{address}{}", path.replace('#', &number.to_string()))));
            // The answers are known to be good.
            load.stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .map_err(|error| format!("{}: {error}", self.lab.display()))?;
        }
        server.end()?;
        Ok(answers)
    }

    /// The profiles whose names end so, as many as there should be.
    pub(super) fn profiles(&self, end: &str, count: usize) -> Result<Vec<PathBuf>, String> {
        let listed = fs::read_dir(self.path("run")).map_err(|error| format!("{}: {error}", self.path("run")))?;
        let all = listed.flatten().map(|entry| entry.path());
        let is_one = |path: &PathBuf| path.extension().is_some_and(|is| is == end);
        let has_content = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.len() > 0);
        let all: Vec<PathBuf> = all.filter(|path| is_one(path) && has_content(path)).collect();
        if all.len() == count { Ok(all) } else { Err(format!("{} profiles of {count}", all.len())) }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // What cannot be removed lies among other temporary files.
        let _ = fs::remove_dir_all(&self.place);
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// A response without its date.
fn answer(address: SocketAddr, load: &Load) -> Result<String, String> {
    let path = load.path.replace('#', "1");
    let begun = Instant::now();
    loop {
        let text = ask(address, &path).map_err(|error| format!("{path}: {error}"))?;
        match text.split(' ').nth(1).and_then(|status| status.parse().ok()) {
            Some(status) if load.status == status => return Ok(text),
            // A script waits while the machine is busy.
            Some(503) if begun.elapsed() < PATIENCE => pause(),
            _ => return Err(format!("{path} should be answered with {}:\n{text}", load.status)),
        }
    }
}

fn ask(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    let text = String::from_utf8_lossy(&response);
    Ok(text.lines().filter(|line| !line.starts_with("Date: ")).collect::<Vec<_>>().join("\n"))
}

/// Begins an application that speaks FastCGI and says hello to everybody, for as long as this program runs.
fn begin_fastcgi() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that breaks off has had its answer, or will not get one.
            thread::spawn(move || say_hello(stream));
        }
    });
    Ok(address)
}

/// Answers the requests of a connection, one after the other (FastCGI 1.0, sections 3.3 and 5).
fn say_hello(mut stream: TcpStream) -> std::io::Result<()> {
    const BEGIN: u8 = 1;
    const END: u8 = 3;
    const STDIN: u8 = 5;
    const STDOUT: u8 = 6;
    let mut keeps = false;
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header)?;
        let [_, kind, id_high, id_low, high, low, padding, _] = header;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let mut content = vec![0; length + usize::from(padding)];
        stream.read_exact(&mut content)?;
        if kind == BEGIN {
            keeps = content.get(2).is_some_and(|flags| flags & 1 == 1);
        }
        if kind == STDIN && length == 0 {
            let record =
                |kind, content: &[u8]| [&[1, kind, id_high, id_low, 0, content.len() as u8, 0, 0], content].concat();
            let page = record(STDOUT, b"Content-Type: text/plain\r\n\r\nhello\n");
            stream.write_all(&[page, record(STDOUT, b""), record(END, &[0; 8])].concat())?;
            if !keeps {
                return Ok(());
            }
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "nobody is served meanwhile")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// A server that ends with us.
struct Server(Child);

impl Server {
    fn until_ready(&mut self, address: SocketAddr) -> Result<(), String> {
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            let has_ended = self.0.try_wait().map_err(|error| error.to_string())?;
            if let Some(status) = has_ended {
                return Err(format!("the server does not begin: {status}"));
            }
            if begun.elapsed() > PATIENCE {
                return Err("the server does not begin".into());
            }
            pause();
        }
        Ok(())
    }

    /// Ends it as an administrator would: a profile is written at the end.
    fn end(&mut self) -> Result<(), String> {
        succeed(Command::new("kill").arg(self.0.id().to_string()))?;
        let begun = Instant::now();
        loop {
            match self.0.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("the server has ended with {status}")),
                None if begun.elapsed() > PATIENCE => return Err("the server does not end".into()),
                None => pause(),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended, unless something went wrong.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

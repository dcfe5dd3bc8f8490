//! `cargo xtask layout`: the programs of a package, and the server's code in the order in which requests need it.
//!
//! A request runs a little code in many places of a large program: a server whose caches are cold, as those of a process under
//! prefork are at each request, waits for every one of them. LLVM's BOLT moves what a load has run to one place, and what it has
//! not run out of the way. The load is made here, so a package is always laid out after the program that is in it.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::tree::{cargo, target_dir};

/// The names under which distributions install BOLT, newest first, and the package that Debian has it in.
const BOLT: [&str; 4] = ["llvm-bolt", "llvm-bolt-22", "llvm-bolt-21", "llvm-bolt-20"];
const PACKAGE: &str = "bolt-22";
/// The modules of processes that serve the load. Each has code of its own.
const MPMS: [&str; 4] = ["prefork", "worker", "event", "percore"];
/// How the server is configured, with `{words}` for what each run has of its own.
const CONFIGURATION: &str = include_str!("layout/httpd.conf");
/// What is asked: how often, further options of `tsubame-lab load`, and the path.
const LOADS: [(&str, &[&str], &str); 12] = [
    ("6000", &["--bare"], "/small.txt"),
    ("3000", &[], "/small.txt"),
    ("1000", &["--bare"], "/large.bin"),
    ("500", &["--bare", "--header", "Range: bytes=1-9"], "/small.txt"),
    ("500", &["--bare", "--header", "If-None-Match: *"], "/small.txt"),
    ("500", &["--header", "Accept-Encoding: gzip"], "/page.html"),
    ("300", &["--close"], "/small.txt"),
    ("300", &[], "/moved/x"),
    ("300", &[], "/nothing"),
    ("200", &[], "/cgi-bin/hello"),
    ("2000", &["--h2c", "--streams", "10"], "/small.txt"),
    ("500", &["--h2c"], "/nothing"),
];
/// What is asked over TLS.
const TLS_LOADS: [(&str, &[&str], &str); 3] = [
    ("2000", &[], "/small.txt"),
    ("200", &["--close"], "/small.txt"),
    ("1000", &["--http2", "--streams", "10"], "/small.txt"),
];
/// How long a server may take to begin and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Builds the programs, and says where they are.
pub(crate) fn run() -> Result<(), String> {
    println!("{}", build()?.display());
    Ok(())
}

/// Builds the programs as packages hold them. Returns the directory that they are in.
pub(crate) fn build() -> Result<PathBuf, String> {
    let built = target_dir().join("dist");
    succeed(cargo().args(["build", "--profile", "dist", "--package", "tsubame-lab"]))?;
    let Some(bolt) = BOLT.into_iter().find_map(find) else {
        succeed(cargo().args(["build", "--profile", "dist", "--package", "tsubame"]))?;
        eprintln!(
            "The code is not laid out: llvm-bolt is not here. To get it: apt-get install --no-install-recommends {PACKAGE}"
        );
        return Ok(built);
    };
    // BOLT has to know what refers to what it moves.
    let relocations = ["--", "-C", "link-arg=-Wl,--emit-relocs"];
    succeed(
        cargo().args(["rustc", "--profile", "dist", "--package", "tsubame", "--bin", "tsubame"]).args(relocations),
    )?;
    let directory = target_dir().join("layout");
    let place = |name: &str| directory.join(name);
    let (program, lab) = (built.join("tsubame"), built.join("tsubame-lab"));
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let site = Site::new()?;
    let as_built = site.serve(&program, &lab, MPMS[0])?;
    let instrumented = place("instrumented");
    let profile = format!("--instrumentation-file={}", site.path("run/profile"));
    succeed(bolt_quietly(&bolt, &program, &instrumented).args([
        "-instrument",
        "--instrumentation-file-append-pid",
        &profile,
    ]))?;
    for mpm in MPMS {
        eprintln!("A load for the profile: {mpm}");
        same_answers(&as_built, &site.serve(&instrumented, &lab, mpm)?)?;
    }
    let merged = fs::File::create(place("profile")).map_err(|error| format!("the profile: {error}"))?;
    let merge = bolt.with_file_name("merge-fdata");
    succeed(Command::new(merge).args(site.profiles()?).stdout(merged).stderr(Stdio::null()))?;
    let laid_out = place("tsubame");
    let mut layout = bolt_quietly(&bolt, &program, &laid_out);
    layout.arg(format!("-data={}", place("profile").display()));
    layout.args(["-reorder-blocks=ext-tsp", "-reorder-functions=cdsort", "-icf=1"]);
    succeed(layout.args(["-split-functions", "-split-all-cold", "-split-eh"]))?;
    same_answers(&as_built, &site.serve(&laid_out, &lab, MPMS[0])?)?;
    for option in ["-l", "-L"] {
        let said = |program: &Path| Command::new(program).arg(option).output().map(|output| output.stdout);
        match (said(&program), said(&laid_out)) {
            (Ok(one), Ok(other)) if one == other => {}
            _ => return Err(format!("the program says something else to {option} once its code is laid out")),
        }
    }
    fs::copy(&lab, place("tsubame-lab")).map_err(|error| format!("{}: {error}", lab.display()))?;
    Ok(directory)
}

/// The real place of a program in `PATH`, whose companions lie beside it.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find_map(|file| file.canonicalize().ok())
}

/// BOLT, which says much about programs that are not its own.
fn bolt_quietly(bolt: &Path, from: &Path, to: &Path) -> Command {
    let mut command = Command::new(bolt);
    command.arg(from).arg("-o").arg(to).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed")) }
}

fn same_answers(one: &[String], other: &[String]) -> Result<(), String> {
    match one.iter().zip(other).find(|(one, other)| one != other) {
        None => Ok(()),
        Some((one, other)) => Err(format!("the program as built answered:\n{one}\nand now it answers:\n{other}")),
    }
}

/// The files that the load asks for, outside of any home directory: whoever builds as root has them served by somebody else.
struct Site(PathBuf);

impl Site {
    fn new() -> Result<Site, String> {
        let place = std::env::temp_dir().join(format!("tsubame-layout-{}", std::process::id()));
        // It must not be there: whoever has made it could change what a server of root's reads.
        let made = fs::DirBuilder::new().mode(0o755).create(&place);
        made.map_err(|error| format!("{}: {error}", place.display()))?;
        let site = Site(place);
        let hello = "#!/bin/sh\necho 'Content-Type: text/plain'\necho\necho hello\n";
        let page = "<p>a page that is worth compressing</p>\n".repeat(200);
        let files = [
            ("htdocs/small.txt", "thirty-one bytes of plain text\n", 0o644),
            ("htdocs/large.bin", &"0123456789abcdef".repeat(1024), 0o644),
            ("htdocs/page.html", &page, 0o644),
            ("cgi-bin/hello", hello, 0o755),
        ];
        for (name, text, mode) in files {
            site.put(name, text, mode)?;
        }
        fs::create_dir_all(site.path("run"))
            .and_then(|()| fs::set_permissions(site.path("run"), fs::Permissions::from_mode(0o777)))
            .map_err(|error| format!("{}: {error}", site.path("run")))?;
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

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.0.display())
    }

    fn put(&self, name: &str, text: &str, mode: u32) -> Result<(), String> {
        let path = self.0.join(name);
        let write = || {
            fs::create_dir_all(path.parent().unwrap_or(&self.0))?;
            fs::write(&path, text)?;
            // A young file has another tag at first.
            fs::File::options().write(true).open(&path)?.set_modified(UNIX_EPOCH)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))
        };
        write().map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Serves the load with this program, in one process. Returns the answers to one request of each kind.
    fn serve(&self, program: &Path, lab: &Path, mpm: &str) -> Result<Vec<String>, String> {
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let (clear, tls) = (free(), free());
        let (clear, tls) = clear.and_then(|clear| Ok((clear, tls?))).map_err(|error| format!("a port: {error}"))?;
        let words =
            [("{mpm}", mpm), ("{clear}", &clear.to_string()), ("{tls}", &tls.to_string()), ("{root}", &self.path(""))];
        let text = words.iter().fold(CONFIGURATION.to_string(), |text, (word, value)| text.replace(word, value));
        self.put("httpd.conf", &text, 0o644)?;
        let mut command = Command::new(program);
        let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        command.args(["-X", "-D", if is_root { "ROOT" } else { "USER" }, "-f", &self.path("httpd.conf")]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let server = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let mut server = Server(server);
        server.until_ready(clear)?;
        let answers = LOADS.iter().map(|(.., path)| answer(clear, path)).collect::<Result<_, _>>();
        let answers = answers.map_err(|error| format!("{}: {error}", program.display()))?;
        let all =
            LOADS.iter().map(|load| ("http", clear, load)).chain(TLS_LOADS.iter().map(|load| ("https", tls, load)));
        for (scheme, address, (count, options, path)) in all {
            let mut load = Command::new(lab);
            load.args(["load", "-c", "1", "-n", count]).args(*options).arg(format!("{scheme}://{address}{path}"));
            // Whether the answers are good is seen above; some are errors.
            load.stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .map_err(|error| format!("{}: {error}", lab.display()))?;
        }
        server.end()?;
        Ok(answers)
    }

    fn profiles(&self) -> Result<Vec<PathBuf>, String> {
        let listed = fs::read_dir(self.path("run")).map_err(|error| format!("{}: {error}", self.path("run")))?;
        let all = listed
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "fdata"));
        let all: Vec<PathBuf> = all.collect();
        if all.len() == MPMS.len() { Ok(all) } else { Err(format!("{} profiles of {}", all.len(), MPMS.len())) }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // What cannot be removed lies among other temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A response without its date.
fn answer(address: std::net::SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    let text = String::from_utf8_lossy(&response);
    Ok(text.lines().filter(|line| !line.starts_with("Date: ")).collect::<Vec<_>>().join("\n"))
}

#[allow(clippy::disallowed_methods, reason = "nobody is served meanwhile")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// A server that ends with us.
struct Server(Child);

impl Server {
    fn until_ready(&mut self, address: std::net::SocketAddr) -> Result<(), String> {
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

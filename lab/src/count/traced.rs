//! A server in one process under a tool of valgrind.

use std::cell::Cell;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::count::requests::CountedRequest;
use crate::experiments::installation::Installation;
use crate::experiments::program::Program;
use crate::experiments::recipe::{Backend, Recipe};
use crate::experiments::site::{Account, Site};
use crate::experiments::subject::Subject;
use crate::experiments::workload::Protocol;
use crate::load::tls::Tls;
use crate::load::{self, Live, Plan};
use crate::machine::error::{Context as _, Error, Result, write_file};
use crate::machine::identity::Identity;
use crate::machine::interrupt;
use crate::machine::scratch::Scratch;
use crate::measure::server::last_words;

/// How long a server may take to accept its first connection: valgrind makes it fifty times slower.
const START_LIMIT: Duration = Duration::from_secs(300);

/// A request under valgrind without a response after this has failed.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(20);

/// A file may have changed again in the second of its last change, so servers remember only older ones.
const AGE: Duration = Duration::from_secs(4);

/// What all servers have in common.
pub(super) struct Setup<'a> {
    pub(super) scratch: &'a Scratch,
    pub(super) documents: PathBuf,
    /// The scripts, which are programs already.
    pub(super) scripts: PathBuf,
    /// The user that servers run as, if we are root: from their start, since valgrind's own files are theirs, too.
    pub(super) account: Option<Account>,
    pub(super) apache: Option<Installation>,
    /// The certificate of servers that speak TLS.
    pub(super) identity: Identity,
    pub(super) valgrind: PathBuf,
    /// When the documents were written.
    pub(super) written: Instant,
}

impl Setup<'_> {
    /// A command that runs as the servers do.
    pub(super) fn command(&self, program: &Path) -> Command {
        match &self.account {
            Some(Account { uid, gid, .. }) => {
                let mut command = Command::new("setpriv");
                command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".to_owned()]);
                command.arg(program);
                command
            }
            None => Command::new(program),
        }
    }
}

/// A server that serves one request again and again.
pub(super) struct Traced<'a> {
    child: Child,
    /// The program that it passes requests to, which is not traced.
    #[expect(dead_code, reason = "it runs for as long as the server")]
    backend: Option<RunningBackend>,
    address: SocketAddr,
    request: &'a CountedRequest,
    /// How many requests it has had: their heads go on taking turns.
    asked: Cell<usize>,
    /// The server's directory.
    pub(super) directory: PathBuf,
}

impl<'a> Traced<'a> {
    /// Starts a server with these options of valgrind, and waits until it has served a request.
    pub(super) fn start(
        setup: &Setup<'_>,
        tool: &[String],
        subject: &Subject,
        program: &Path,
        request: &'a CountedRequest,
    ) -> Result<Self> {
        let directory = setup.scratch.create_anew(&format!("{}.{}", request.id, subject.id))?;
        if let Some(Account { uid, gid, user, .. }) = &setup.account {
            std::os::unix::fs::chown(&directory, Some(*uid), Some(*gid))
                .context(|| format!("give {} to {user}", directory.display()))?;
        }
        let address = free_address()?;
        let site = Site {
            directory: directory.clone(),
            documents: setup.documents.clone(),
            addresses: vec![address],
            profile: request.profile,
            close: false,
            script: request.script.map(|script| setup.scripts.join(script.name)),
            memory: None,
            descriptors: 1024,
            account: None,
            identity: request.protocol.tls().map(|_| setup.identity.clone()),
            origins: None,
            many: None,
            apache: setup.apache.clone(),
        };
        let recipe = in_one_process(subject, (subject.recipe)(&site)?);
        for file in recipe.files.iter().chain(recipe.backend.iter().map(|backend| &backend.file)) {
            let path = directory.join(&file.name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).context(|| format!("create {}", parent.display()))?;
            }
            write_file(path, &file.text)?;
        }
        let output_path = directory.join("output.log");
        let output = File::create(&output_path).context(|| format!("create {}", output_path.display()))?;
        let errors = output.try_clone().context(|| "share a log file".to_owned())?;
        let backend = recipe.backend.as_ref().map(|backend| start_backend(setup, backend, &directory)).transpose()?;
        let mut command = setup.command(&setup.valgrind);
        command.args(tool).arg(program).args(&recipe.arguments);
        command.envs(recipe.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(&directory).stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().context(|| format!("start {}", setup.valgrind.display()))?;
        let mut server = Self { child, backend, address, request, asked: Cell::new(0), directory };
        server.await_ready()?;
        if request.protocol == Protocol::Clear {
            server.check_status()?;
        }
        std::thread::sleep(AGE.saturating_sub(setup.written.elapsed()));
        Ok(server)
    }

    /// The server's process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends so many requests over a new connection, with a pause after each response.
    pub(super) fn ask(&self, count: u32, pause: Duration) -> Result<()> {
        let streams = match self.request.protocol {
            Protocol::Http2 { streams } => Some(streams),
            Protocol::Clear | Protocol::Tls | Protocol::Resumed => None,
        };
        let http2 = streams.is_some();
        let mut requests = self.request.all(self.address);
        let first = self.asked.replace(self.asked.get() + count as usize) % requests.len();
        requests.rotate_left(first);
        let name = if http2 { "h2" } else { "http/1.1" };
        let plan = Plan {
            count: Some(count.into()),
            think: pause,
            pipeline: streams.unwrap_or(1) as usize,
            timeout: TIMEOUT,
            tls: self.request.protocol.tls().map(|tls| Tls { protocols: vec![name.to_owned()], ..tls }),
            http2,
            ..Plan::of(self.address, requests)
        };
        let record = load::run(&plan, &Live::default(), |_| {})?;
        let good = record.classes[usize::from(self.request.status / 100)];
        match good == u64::from(count) && record.failures.total() == 0 {
            true => Ok(()),
            false => Err(Error::new(format!("{good} of {count} requests had a good response"))),
        }
    }

    /// Asks the server to end, and waits until valgrind has written what it knows.
    pub(super) fn stop(mut self) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).context(|| "end the server".to_owned())?;
        let deadline = Instant::now() + TIMEOUT;
        while self.child.try_wait().context(|| "wait for valgrind".to_owned())?.is_none() {
            interrupt::check()?;
            if Instant::now() > deadline {
                return Err(Error::new(format!("it does not end{}", last_words(&self.directory))));
            }
            std::thread::sleep(INTERVAL);
        }
        Ok(())
    }

    /// Ends the server, and valgrind with it.
    pub(super) fn end(mut self) -> Result<()> {
        self.child.kill().context(|| "end valgrind".to_owned())?;
        self.child.wait().context(|| "wait for valgrind".to_owned())?;
        Ok(())
    }

    fn await_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while TcpStream::connect(self.address).is_err() {
            interrupt::check()?;
            let ended = self.child.try_wait().context(|| "wait for valgrind".to_owned())?;
            if ended.is_some() || Instant::now() > deadline {
                return Err(Error::new(format!("it does not serve{}", last_words(&self.directory))));
            }
            std::thread::sleep(INTERVAL);
        }
        Ok(())
    }

    /// A server that refuses a request must not count as one that serves it with little effort.
    fn check_status(&self) -> Result<()> {
        let mut line = [0; "HTTP/1.1 200".len()];
        let mut exchange = || -> std::io::Result<()> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.write_all(&self.request.all(self.address)[0].bytes)?;
            stream.read_exact(&mut line)
        };
        let wanted = format!("HTTP/1.1 {}", self.request.status);
        exchange().context(|| "ask for it once".to_owned())?;
        match line == wanted.as_bytes() {
            true => Ok(()),
            false => {
                let (line, log) = (line.escape_ascii(), last_words(&self.directory));
                Err(Error::new(format!("its response begins with {line} and not with {wanted}{log}")))
            }
        }
    }
}

impl Drop for Traced<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program beside a server.
struct RunningBackend(Child);

impl Drop for RunningBackend {
    fn drop(&mut self) {
        // It ends its own children.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Starts the program beside a server, and waits until the server can use it.
fn start_backend(setup: &Setup<'_>, backend: &Backend, directory: &Path) -> Result<RunningBackend> {
    let program = backend.program.locate(None).map_err(|remedy| {
        Error::new(format!("{} needs a program that is not here", directory.display())).advise(remedy)
    })?;
    let mut command = setup.command(&program);
    command.args(&backend.arguments).arg(directory.join(&backend.file.name)).current_dir(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().context(|| format!("start {}", program.display()))?;
    let mut running = RunningBackend(child);
    let deadline = Instant::now() + TIMEOUT;
    while !backend.ready.exists() {
        interrupt::check()?;
        let ended = running.0.try_wait().context(|| format!("wait for {}", program.display()))?;
        if ended.is_some() || Instant::now() > deadline {
            return Err(Error::new(format!("{} does not run", program.display())));
        }
        std::thread::sleep(INTERVAL);
    }
    Ok(running)
}

/// Without children a server is one process from its start, which is what valgrind shows best.
fn in_one_process(subject: &Subject, mut recipe: Recipe) -> Recipe {
    if subject.id.starts_with("tsubame-") || subject.id.starts_with("apache-") {
        for argument in recipe.arguments.iter_mut().filter(|argument| *argument == "-DFOREGROUND") {
            *argument = "-X".to_owned();
        }
    }
    if matches!(subject.program, Program::System { package: "nginx", .. }) {
        recipe.arguments.extend(["-g", "master_process off;"].map(str::to_owned));
    }
    recipe
}

fn free_address() -> Result<SocketAddr> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.context(|| "find a free port".to_owned())
}

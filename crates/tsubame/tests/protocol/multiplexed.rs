//! The server under test, and its protocol.
//!
//! A client sends lines `NUMBER PATH [FIELD=VALUE …]` and a line with a dot. All of these are served at once. An answer is
//! a line `NUMBER STATUS LENGTH`, a line for each field, an empty line, and the body. An interim response is one without a
//! body. With a field `protocol` a request may become a tunnel: the field `says` is what goes into it, and the body what comes
//! out of it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use conf::{Language, ModuleInfo, Origin, SettingsMap, Source};
use http::Version;
use http::h1::head::Parts;
use http::h1::response::BadField;
use mpm::control::Conversation;
use mpm::settings::{Listen, MpmSettings};
use mpm::{About, Generation, Listeners, ParentCallbacks, Restart, choose, run, tables};
use runtime::executor::Descriptor;
use runtime::scoreboard::Workers;
use runtime::{Accepted, Connection, HelperProcess, Service, Stage, Stepping};
use server::exchange::{Exchange, Received, Running, Transfer};
use server::machine::Machine;
use server::{Client, Endpoint, FieldSink, HttpService, Interim, Module, RequestHead, SendingInterim, Sources, module};
use sys::cred::Identity;
use sys::signal::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::handlers;

/// The module to run.
pub(crate) const MPM: &str = "TSUBAME_TEST_PROTOCOL_MPM";
/// A directory with the documents.
pub(crate) const DIRECTORY: &str = "TSUBAME_TEST_PROTOCOL_DIRECTORY";
/// Set where HTTP/1 is to be spoken, with a `Timeout` of a second.
pub(crate) const HTTP: &str = "TSUBAME_TEST_PROTOCOL_HTTP";

pub(crate) fn main() -> ExitCode {
    let known: &'static [&'static Module] =
        Vec::leak(modules::MODULES.iter().copied().chain([&handlers::MODULE]).collect());
    module::set_known(known);
    let variable = |name| std::env::var(name).unwrap_or_default();
    let http = std::env::var_os(HTTP).is_some();
    let directory = variable(DIRECTORY);
    let text = format!(
        "ServerName test.example\nDocumentRoot {directory}/docs\nPidFile {directory}/pid\n\
         ErrorLog {directory}/error\nLogFormat \"%r %>s %V\" short\nCustomLog {directory}/access short\n\
         AddHandler cgi-script .cgi\n<Directory {directory}/docs>\nOptions +ExecCGI\nAllowOverride All\n</Directory>\n\
         LogFormat \"%U %>s %I %O\" bytes\nCustomLog {directory}/bytes bytes\n\
         <Location /hints>\nSetHandler tested-hints\n</Location>\n<Location /status>\nSetHandler server-status\n\
         </Location>\n<LocationMatch /(tunnel|uninvited)>\nSetHandler tested-tunnel\n</LocationMatch>\n{}\n",
        if http { "Timeout 1\nProtocols h2c http/1.1\nH2WebSockets on" } else { "" }
    );
    let own = known.iter().map(|module| &module.info);
    let named = |info: &&&ModuleInfo| info.log_name() == format!("mpm_{}", variable(MPM));
    let mpms = [&tables::PREFORK, &tables::WORKER, &tables::EVENT, &tables::PERCORE];
    let mpm: &'static ModuleInfo = mpms.iter().find(named).expect("a module");
    let infos: &'static [&'static ModuleInfo] = Vec::leak([&tables::CORE, mpm].into_iter().chain(own).collect());
    let language = Language::new(infos, infos, &directory);
    let sources = Sources {
        program: "test",
        before: &[],
        file: None,
        text: Some(("test", &text)),
        after: &[],
        keep_errors: false,
    };
    let loaded = match server::load(Arc::new(Machine), language, &sources, |_| "Test/1".into(), |_, _| Ok(())) {
        Ok(loaded) => loaded,
        Err(failed) => {
            println!("{:?}", failed.error);
            return ExitCode::FAILURE;
        }
    };
    loaded.server.open_logs().expect("logs");
    let mut settings: SettingsMap = loaded.server.main().settings.clone();
    // The kernel chooses the port.
    let origin = Origin { source: Arc::new(Source::new("test")), line: 1 };
    let address = ([127, 0, 0, 1], 0).into();
    let listen = Listen { addresses: vec![address], port: 0, protocol: Some("lines".into()) };
    settings.edit::<MpmSettings>().listen.push(listen, &origin);
    let log = loaded.server.main_log();
    runtime::log::set(log.clone());
    let mpm = choose(&[mpm], "test").expect("one module");
    let listeners = Listeners::open(&settings, Vec::new()).expect("listener");
    println!("listening {}", listeners.addresses()[0]);
    let about = About {
        program: "test".into(),
        server: "Test/1".into(),
        built: "today".into(),
        command_line: "test".into(),
        one_process: true,
        ends_with_terminal: false,
        invocation: None,
        predecessor: None,
    };
    let service: Arc<dyn Service> = match http {
        true => Arc::new(HttpService::new(Arc::new(loaded.server))),
        false => {
            let server = Box::leak(Box::new(loaded.server));
            let hooks = Box::leak(Box::new(server::phases::hooks(&module::with_infos(server.infos()))));
            Arc::new(Multiplexed(Running { server, hooks }))
        }
    };
    run(Generation { mpm, service, settings, identity: None, log }, listeners, about, &mut Nothing)
}

struct Nothing;

impl ParentCallbacks for Nothing {
    fn reload(&mut self, _: Restart) -> Result<Generation, String> {
        Err("there is one configuration".into())
    }

    fn converse(&mut self, _: Conversation<'_>) -> Option<Signal> {
        None
    }
}

struct Multiplexed(Running);

impl Service for Multiplexed {
    fn connect(&'static self, accepted: Accepted) -> Box<dyn Connection> {
        let local = sys::socket::local_address(&accepted.socket).expect("address");
        Box::new(Lines {
            running: self.0,
            client: Arc::new(Client::new(accepted.peer, Arc::new(Ends(local)))),
            workers: accepted.workers,
            socket: Some(accepted.socket),
            stream: None,
            received: Vec::new(),
            traffic: 0,
        })
    }

    fn child_started(&self, children: usize) {
        self.0.server.child_started(children);
    }

    fn helpers(&self, _: Option<&Identity>) -> Result<Vec<HelperProcess>, String> {
        Ok(Vec::new())
    }

    fn before_wait(&self) {
        server::log::flush_all();
    }

    fn before_pass(&self) {}

    fn before_end(&self) {
        server::log::flush_last();
    }
}

struct Ends(SocketAddr);

impl Endpoint for Ends {
    fn local(&self) -> io::Result<SocketAddr> {
        Ok(self.0)
    }

    fn has_ended(&self) -> bool {
        false
    }
}

struct Lines {
    running: Running,
    client: Arc<Client>,
    workers: &'static Workers,
    socket: Option<std::os::fd::OwnedFd>,
    stream: Option<Descriptor>,
    received: Vec<u8>,
    traffic: u64,
}

impl Connection for Lines {
    fn step(&mut self, stage: Stage) -> Stepping<'_> {
        match stage {
            Stage::Linger | Stage::ShortLinger => Stepping::Done(Stage::Closed),
            Stage::KeepAlive => Stepping::waiting(async { self.receive().await.unwrap_or(Stage::Closed) }),
            _ => Stepping::waiting(async { self.serve().await.unwrap_or(Stage::Closed) }),
        }
    }

    fn has_input(&self) -> bool {
        false
    }
}

impl Lines {
    fn stream(&mut self) -> io::Result<&mut Descriptor> {
        if let Some(socket) = self.socket.take() {
            self.stream = Some(Descriptor::new(socket)?);
        }
        self.stream.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Waits for a whole batch.
    async fn receive(&mut self) -> io::Result<Stage> {
        while !self.received.ends_with(b".\n") {
            let mut piece = [0; 1024];
            match self.stream()?.read(&mut piece).await? {
                0 => return Ok(Stage::Closed),
                read => self.received.extend_from_slice(&piece[..read]),
            }
        }
        Ok(Stage::Serve)
    }

    /// Serves a batch: all of its requests at once.
    async fn serve(&mut self) -> io::Result<Stage> {
        if self.receive().await? == Stage::Closed {
            return Ok(Stage::Closed);
        }
        let batch = String::from_utf8_lossy(&std::mem::take(&mut self.received)).into_owned();
        let mut under_way: Vec<Pin<Box<dyn Future<Output = Vec<u8>> + Send>>> = Vec::new();
        let early = Early::default();
        for line in batch.lines().take_while(|line| *line != ".") {
            let (number, rest) = line.split_once(' ').unwrap_or((line, "/"));
            let (path, fields) = rest.split_once(' ').unwrap_or((rest, ""));
            let fields: Vec<(&[u8], &[u8])> = fields
                .split_whitespace()
                .filter_map(|field| field.split_once('='))
                .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
                .collect();
            let parts = Parts {
                method: b"GET",
                target: path.as_bytes(),
                authority: Some(b"test.example"),
                version: Version::Http2,
            };
            let head = RequestHead::assembled(&parts, fields);
            let (received, row) = (Received::whole(head), self.workers.acquire());
            let mut exchange = Exchange::begin(self.running, &self.client, received, row, self.traffic);
            exchange.request.interim = Some(Arc::new(Aside { number: number.into(), early: early.clone() }));
            under_way.push(Box::pin(answer(number.to_string(), exchange)));
        }
        while !under_way.is_empty() {
            let mut done: VecDeque<Vec<u8>> = poll_fn(|cx| {
                let mut done = VecDeque::new();
                under_way.retain_mut(|one| match one.as_mut().poll(cx) {
                    Poll::Ready(frame) => {
                        done.push_back(frame);
                        false
                    }
                    Poll::Pending => true,
                });
                let mut frames = std::mem::take(&mut *early.lock().expect("frames"));
                frames.append(&mut done);
                if frames.is_empty() { Poll::Pending } else { Poll::Ready(frames) }
            })
            .await;
            while let Some(frame) = done.pop_front() {
                self.traffic += frame.len() as u64;
                self.stream()?.write_all(&frame).await?;
            }
        }
        Ok(Stage::KeepAlive)
    }
}

/// An exchange from its beginning to its end; the answer as it goes out.
async fn answer(number: String, mut exchange: Exchange) -> Vec<u8> {
    let response = exchange.respond().await;
    exchange.request.interim = None;
    let mut body = Vec::new();
    if let Some(tunnel) = response.tunnel {
        let says = exchange.request.header("says").unwrap_or_default().into_owned();
        let (mut ours, theirs) = tokio::io::duplex(1024);
        ours.write_all(says.as_bytes()).await.expect("room");
        ours.shutdown().await.expect("the end");
        (tunnel.speak)(Box::new(theirs)).await;
        ours.read_to_end(&mut body).await.expect("what it said");
    }
    let mut stream = response.body.into_stream();
    while let Some(piece) = stream.next().await {
        body.extend_from_slice(&piece.expect("a body"));
    }
    let mut fields = Fields(Vec::new());
    exchange.request.fields_out(&mut fields).expect("fields");
    let mut frame = format!("{number} {} {}\n", exchange.request.response.status(), body.len()).into_bytes();
    frame.extend_from_slice(&fields.0);
    frame.push(b'\n');
    let transfer = Transfer { body: body.len() as u64, complete: true, ..Transfer::default() };
    frame.extend_from_slice(&body);
    exchange.end(Transfer { sent: frame.len() as u64, ..transfer });
    frame
}

/// Frames that go out before answers do.
type Early = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// The way to the client of one of several requests.
struct Aside {
    number: String,
    early: Early,
}

impl Interim for Aside {
    fn send<'a>(
        &'a self,
        _: &'a RequestHead,
        status: u16,
        fields: &'a server::Fields,
        _: Duration,
    ) -> SendingInterim<'a> {
        let mut frame = format!("{} {status} 0\n", self.number);
        fields.iter().for_each(|(name, value)| frame.push_str(&format!("{name}: {value}\n")));
        frame.push('\n');
        let length = frame.len() as u64;
        self.early.lock().expect("frames").push_back(frame.into_bytes());
        Box::pin(async move { Ok(length) })
    }

    fn tunnel_for<'h>(&self, head: &'h RequestHead) -> Option<Cow<'h, [u8]>> {
        head.field("protocol").map(Cow::Borrowed)
    }
}

struct Fields(Vec<u8>);

impl FieldSink for Fields {
    fn field(&mut self, name: &str, value: &[u8]) -> Result<(), BadField> {
        for part in [name.as_bytes(), b": ", value, b"\n"] {
            self.0.extend_from_slice(part);
        }
        Ok(())
    }

    fn own_fields(&mut self) -> Result<(), BadField> {
        Ok(())
    }
}

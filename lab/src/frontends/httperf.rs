//! `httperf`: the command line and output of httperf 0.9.0 (its manual page), as shown in the article that
//! `run event-vs-worker` repeats.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use crate::load::request_builder::RequestBuilder;
use crate::load::scenario::{Expected, Parts, Printed, Scenario, Server, Step, Template};
use crate::load::tls::Tls;
use crate::load::url::Url;
use crate::load::{self, Arrival, Live, Pace, Plan, destination};
use crate::machine::descriptors;
use crate::machine::descriptors::DESCRIPTORS_IN_RESERVE;
use crate::machine::error::{Context as _, Error, Result};
use crate::machine::procfs;

mod sessions;
mod text;
mod values;

use sessions::{SessionLog, UniformSessions};
use values::{Part, log, part, period, rate};

/// The most connections of a session at a time.
const CONNECTIONS: u32 = 4;

/// httperf's options.
#[derive(Args, Clone, Debug)]
#[command(version = "0.9.0", display_name = "httperf", disable_version_flag = true, infer_long_args = true)]
pub(crate) struct HttperfOptions {
    /// The server
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    server: String,

    /// The value of `Host` instead
    #[arg(long, value_name = "HOST")]
    server_name: Option<String>,

    /// Its port
    #[arg(long, value_name = "N", default_value_t = 80)]
    port: u16,

    /// The path to request
    #[arg(long, value_name = "PATH", default_value = "/")]
    uri: String,

    /// Connections in all
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    num_conns: u64,

    /// Requests of each connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    num_calls: u64,

    /// Connections a second; 0: each as soon as the one before has ended
    #[arg(long, value_name = "X", default_value_t = 0.0, conflicts_with = "period", value_parser = rate)]
    rate: f64,

    /// The time between two connections: T1, uT1,T2 (anything between them), or eT1 (exponentially distributed)
    #[arg(long, value_name = "[d|u|e]T1[,T2]", value_parser = period)]
    period: Option<Pace>,

    /// Requests that a connection sends at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    burst_length: u32,

    /// The most requests of a connection that wait for their responses at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_piped_calls: Option<u32>,

    /// Sessions instead of connections: how many, of how many requests, and seconds between bursts
    #[arg(long, value_name = "N,N,X", value_parser = UniformSessions::parse)]
    wsess: Option<UniformSessions>,

    /// Sessions from a file: how many, seconds between bursts, and the file. Each line is a path, with method=NAME, think=SECONDS and
    /// contents='TEXT' if you like; indented lines are a burst after the line above; empty lines end a session; # begins a comment
    #[arg(long, value_name = "N,X,FILE", conflicts_with_all = ["wsess", "wlog", "burst_length"], value_parser = SessionLog::parse)]
    wsesslog: Option<SessionLog>,

    /// Keep the cookies of each session, and send them back
    #[arg(long)]
    session_cookies: bool,

    /// A session fails with a response of this status
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(100..1000))]
    failure_status: Option<u16>,

    /// Print responses: lines RH of heads, RB of bodies (up to 1 MiB of each), and RS with their sizes
    #[arg(long, value_name = "header|body", num_args = 0..=1, require_equals = true, value_parser = part)]
    print_reply: Option<Option<Part>>,

    /// Print requests: lines SH of heads, SB of bodies, and SS with their sizes
    #[arg(long, value_name = "header|body", num_args = 0..=1, require_equals = true, value_parser = part)]
    print_request: Option<Option<Part>>,

    /// A file of paths to request, each ended by a NUL; y: start again at its end
    #[arg(long, value_name = "y|n,FILE", value_parser = log)]
    wlog: Option<(bool, PathBuf)>,

    /// The most connections of a session at a time [default: 4]; without sessions, the most at a time of all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: Option<u32>,

    /// Seconds to wait for anything; 0 is for ever
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    timeout: f64,

    /// Seconds that the server may think in addition
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    think_timeout: f64,

    /// The method
    #[arg(long, value_name = "NAME")]
    method: Option<String>,

    /// Fields of the request, each followed by
    ///
    #[arg(long, value_name = "TEXT")]
    add_header: Option<String>,

    /// 1.0 or 1.1
    #[arg(long, value_name = "VERSION", default_value = "1.1", value_parser = ["1.0", "1.1"])]
    http_version: String,

    /// Leave out `Host`
    #[arg(long)]
    no_host_hdr: bool,

    /// Accepted and shown: which of several clients this is
    #[arg(long, value_name = "I/N", default_value = "0/1")]
    client: String,

    /// Accepted, and left to the kernel
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    send_buffer: u32,

    /// Accepted, and left to the kernel
    #[arg(long, value_name = "BYTES", default_value_t = 16384)]
    recv_buffer: u32,

    /// Speak TLS
    #[arg(long)]
    ssl: bool,

    /// Its cipher suites, in OpenSSL's words
    #[arg(long, value_name = "L")]
    ssl_ciphers: Option<String>,

    /// Make a full handshake for each connection, without resuming an earlier session
    #[arg(long)]
    ssl_no_reuse: bool,

    /// Accepted: all ports are used anyway
    #[arg(long)]
    hog: bool,

    /// Show more
    #[arg(short = 'v', long)]
    verbose: bool,

    /// Accepted, and ignored
    #[arg(short = 'd', long, value_name = "LEVEL")]
    debug: Option<u32>,

    /// Print the version
    #[arg(short = 'V', long, action = clap::ArgAction::Version)]
    version: Option<bool>,

    /// Load this host although it is not on this machine: it is yours
    #[arg(long, value_name = "HOST")]
    i_own_this_target: Option<String>,

    #[command(flatten)]
    unsupported: Unsupported,
}

/// Options of httperf that are missing here.
#[derive(Args, Clone, Debug)]
struct Unsupported {
    #[arg(long, hide = true, value_name = "N,X")]
    wset: Option<String>,
    #[arg(long, hide = true)]
    close_with_reset: bool,
    #[arg(long, hide = true)]
    retry_on_failure: bool,
}

impl Unsupported {
    fn first(&self) -> Option<&'static str> {
        let options = [
            ("--wset", self.wset.is_some()),
            ("--close-with-reset", self.close_with_reset),
            ("--retry-on-failure", self.retry_on_failure),
        ];
        options.into_iter().find(|(_, is_there)| *is_there).map(|(name, _)| name)
    }
}

/// Runs `tsubame-lab httperf`.
pub(crate) fn run(options: &HttperfOptions) -> Result<()> {
    if let Some(unsupported) = options.unsupported.first() {
        return Err(Error::new(format!("{unsupported} is not supported"))
            .advise("use httperf itself, or `tsubame-lab load`, which has other options"));
    }
    if !options.has_sessions() && (options.session_cookies || options.failure_status.is_some()) {
        let option = if options.session_cookies { "--session-cookies" } else { "--failure-status" };
        return Err(Error::new(format!("{option} is for sessions")).advise("--wsess or --wsesslog"));
    }
    let descriptors = descriptors::raise_limit()?;
    let plan = options.plan(descriptors)?;
    say_line!("{}", text::command_line(options));
    if options.verbose {
        say_line!("httperf: maximum number of open descriptors = {descriptors}");
    }
    let before = procfs::stat(std::process::id());
    let record = load::run(&plan, &Live::default(), |_| {})?;
    let after = procfs::stat(std::process::id());
    let used = before.zip(after).map_or([Duration::ZERO; 2], |(before, after)| {
        let (user, all) = (after.user.saturating_sub(before.user), after.own.saturating_sub(before.own));
        [user, all.saturating_sub(user)]
    });
    say!("{}", text::results(options, &record, used));
    Ok(())
}

impl HttperfOptions {
    /// Whether sessions are generated, not connections.
    fn has_sessions(&self) -> bool {
        self.wsess.is_some() || self.wsesslog.is_some()
    }

    /// Connections, or sessions, and the requests of each if they are alike.
    fn work(&self) -> (u64, u64) {
        match (&self.wsess, &self.wsesslog) {
            (Some(sessions), _) => (sessions.count, sessions.calls),
            (_, Some(log)) => (log.count, self.num_calls),
            _ => (self.num_conns, self.num_calls),
        }
    }

    /// What is printed of requests and responses.
    fn prints(&self) -> Printed {
        let parts = |option: Option<Option<Part>>| match option {
            None => Parts::default(),
            Some(part) => Parts { head: part != Some(Part::Body), body: part != Some(Part::Header) },
        };
        Printed { request: parts(self.print_request), reply: parts(self.print_reply) }
    }

    /// What users do, if there are sessions or something is printed: then every connection is a session.
    fn scenario(&self, paths: &[String], url: &Url, build: &RequestBuilder<'_>) -> Result<Option<Scenario>> {
        let prints = self.prints();
        if !self.has_sessions() && prints == Printed::default() {
            return Ok(None);
        }
        let server = Server::of(url);
        let step = |method: &str, path: &str, contents: Option<String>| {
            Ok::<_, String>(Step {
                number: 0,
                target: Template::literal(server.path(path)?),
                minor: build.minor,
                fields: Template::literal(RequestBuilder { method, ..build.clone() }.lines(url)),
                takes_cookies: true,
                body: contents.map(Template::literal),
                expected: Expected::any_but(self.failure_status),
                captures: Vec::new(),
                method: method.to_owned(),
            })
        };
        let burst = self.burst_length as usize;
        let steps = || paths.iter().map(|path| step(build.method, path, None).map(Arc::new).map_err(Error::new));
        let sessions = match (&self.wsesslog, self.wsess) {
            (Some(log), _) => log.sessions(step)?,
            (_, Some(sessions)) => sessions.sessions(&steps().collect::<Result<Vec<_>>>()?, burst)?,
            _ => sessions::connections(&steps().collect::<Result<Vec<_>>>()?, self.num_calls, burst)?,
        };
        let connections = if self.has_sessions() { self.max_connections.unwrap_or(CONNECTIONS) as usize } else { 1 };
        let cookies = self.session_cookies;
        Ok(Some(Scenario { sessions, server, connections, cookies, names: Vec::new(), prints }))
    }

    fn pace(&self) -> Pace {
        match self.period {
            Some(period) => period,
            None if self.rate > 0.0 => Pace::per_second(self.rate),
            None => Pace::Constant(Duration::ZERO),
        }
    }

    fn plan(&self, descriptors: u64) -> Result<Plan> {
        let (count, calls) = self.work();
        let pace = self.pace();
        let each = if self.has_sessions() { self.max_connections.unwrap_or(CONNECTIONS) } else { 1 };
        let most = match self.max_connections.filter(|_| !self.has_sessions()) {
            Some(most) => most,
            None if pace == Pace::Constant(Duration::ZERO) => 1,
            None => {
                let room = descriptors.saturating_sub(DESCRIPTORS_IN_RESERVE) / u64::from(each);
                u32::try_from(room).unwrap_or(u32::MAX).max(1)
            }
        };
        let paths = match &self.wlog {
            None => vec![self.uri.clone()],
            Some((_, file)) => {
                let text = std::fs::read_to_string(file).context(|| format!("read {}", file.display()))?;
                text.split(['\0', '\n']).filter(|path| !path.is_empty()).map(str::to_owned).collect()
            }
        };
        // A log that does not repeat ends with its last path.
        let count = match &self.wlog {
            Some((false, _)) => count.min((paths.len() as u64).div_ceil(calls)),
            _ => count,
        };
        if paths.is_empty() {
            return Err(Error::new("the log has no path in it"));
        }
        let mut fields: Vec<String> = Vec::new();
        if !self.no_host_hdr {
            fields.push(format!("Host: {}", self.server_name.as_ref().unwrap_or(&self.server)));
        }
        let added = self.add_header.as_deref().unwrap_or_default().replace("\\n", "\n");
        fields.extend(added.lines().filter(|line| !line.is_empty()).map(str::to_owned));
        let is_old = self.http_version == "1.0";
        let build = RequestBuilder {
            method: self.method.as_deref().unwrap_or("GET"),
            minor: u8::from(!is_old),
            fields: &fields,
            body: &[],
            content_type: "",
            tells_host: !self.no_host_hdr,
            agent: Some("httperf/0.9.0"),
            accepts_all: false,
            connection: is_old.then_some("keep-alive"),
        };
        let url =
            Url { is_secure: self.ssl, host: self.server.clone(), port: self.port, path: String::new(), user: None };
        let scenario = self.scenario(&paths, &url, &build)?.map(Arc::new);
        let requests = paths.into_iter().map(|path| build.of(&Url { path, ..url.clone() })).collect();
        let timeout = Duration::try_from_secs_f64(self.timeout + self.think_timeout);
        let timeout = timeout.ok().filter(|timeout| !timeout.is_zero()).unwrap_or(Duration::MAX);
        let server = destination::server(&url, false, self.i_own_this_target.as_deref())?;
        Ok(Plan {
            arrival: Arrival::Connections(pace),
            clients: most as usize,
            calls: scenario.is_none().then_some(calls),
            pipeline: match scenario {
                None => self.burst_length.min(self.max_piped_calls.unwrap_or(u32::MAX)),
                Some(_) => self.max_piped_calls.unwrap_or(u32::MAX),
            } as usize,
            scenario,
            takes_broken: true,
            count: Some(count),
            timeout,
            tls: self.ssl.then(|| Tls {
                resumes: !self.ssl_no_reuse,
                suites: self.ssl_ciphers.clone(),
                ..Tls::to(self.server_name.as_ref().unwrap_or(&self.server))
            }),
            ..Plan::of(server, requests)
        })
    }
}

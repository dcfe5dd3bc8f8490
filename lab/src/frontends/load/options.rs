//! The options of a load, and the plan that they make.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::scenario;
use super::tls_options::TlsOptions;
use super::values::{field, number, positive, rate};
use crate::load::request_builder::RequestBuilder;
use crate::load::url::Url;
use crate::load::{self, Arrival, Live, Pace, Plan, destination};
use crate::machine::duration::duration;
use crate::machine::error::{Context as _, Error, Result, read_text};
use crate::screen::text::counted;

/// The destination and shape of a load; `compare` has these options, too.
#[derive(Args, Clone, Debug)]
pub(crate) struct LoadOptions {
    /// The URLs to request; several take turns
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<String>,

    /// A file with further URLs, one on each line. With --connect they may have any hosts
    #[arg(long, value_name = "FILE")]
    url_file: Option<PathBuf>,

    /// Users who do what a file says, step by step, instead of one request again and again; the URL names only the server. -c is then the
    /// number of users, -n that of sessions, and --rate that of sessions per second
    #[arg(long, value_name = "FILE", conflicts_with_all = SINGLE)]
    scenario: Option<PathBuf>,

    /// Connections at a time
    #[arg(short, long, value_name = "N", default_value_t = 50, value_parser = positive)]
    connections: usize,

    /// How long [default: 10s, unless -n says how often]
    #[arg(short, visible_short_alias = 'z', long, value_name = "TIME", value_parser = duration)]
    pub(super) duration: Option<Duration>,

    /// How many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = number)]
    requests: Option<u64>,

    /// Requests per second at a fixed rate, regardless of earlier responses (an open loop); latencies count from when a
    /// request was due
    #[arg(short, visible_short_aliases = ['q', 'R'], long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,

    /// With --rate: requests are due at random moments, as if many people asked independently of each other (a Poisson process)
    #[arg(long, requires = "rate")]
    poisson: bool,

    /// How long a connection rests after a response before it asks again
    #[arg(long, value_name = "TIME", conflicts_with = "rate", value_parser = duration)]
    think: Option<Duration>,

    /// Threads that share the work
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = positive)]
    threads: usize,

    /// Use a new connection for each request
    #[arg(long, visible_alias = "disable-keepalive")]
    close: bool,

    /// Close a connection after this many requests
    #[arg(long, value_name = "N", conflicts_with = "close", value_parser = clap::value_parser!(u64).range(1..))]
    per_connection: Option<u64>,

    /// Requests in progress at a time on each connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive, conflicts_with_all = ["close", "rate"])]
    pipeline: usize,

    /// The method
    #[arg(short, long, value_name = "NAME", default_value = "GET")]
    method: String,

    #[command(flatten)]
    tls_options: TlsOptions,

    /// A field of the request, as `Name: value`; may be given more than once
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = field)]
    headers: Vec<String>,

    /// Send only the mandatory fields and those of --header
    #[arg(long)]
    bare: bool,

    /// The body of the request
    #[arg(short, long, value_name = "TEXT", conflicts_with = "body_file")]
    body: Option<String>,

    /// A file with the body of the request
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,

    /// The media type of the body
    #[arg(short = 'T', long, value_name = "TYPE", default_value = "application/octet-stream")]
    content_type: String,

    /// A file with the body of every good response
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,

    /// A request without a response after this has failed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    timeout: Duration,

    /// How long to send requests before anything counts
    #[arg(long, visible_alias = "warm-up-time", value_name = "TIME", value_parser = duration)]
    warm_up: Option<Duration>,

    /// The local addresses to use, in turn: one has some 28 000 ports
    #[arg(long, value_name = "IP,IP", value_delimiter = ',')]
    source: Vec<IpAddr>,

    /// Connect to these addresses, in turn, instead of the URL's host
    #[arg(long, value_name = "IP:PORT,IP:PORT", value_delimiter = ',')]
    connect: Vec<SocketAddr>,

    /// Load this host although it is not on this machine: it is yours
    #[arg(long, value_name = "HOST")]
    i_own_this_target: Option<String>,

    /// Never sleep: for a generator that has a core to itself
    #[arg(long)]
    spin: bool,

    /// Print the results as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Accepted for compatibility with wrk: latencies are always shown
    #[arg(long, hide = true)]
    latency: bool,

    /// Write the time of each request to a file
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
}

/// Options that describe the one request of a load, or are for a connection that carries requests of several users; a scenario has its own.
const SINGLE: [&str; 10] =
    ["url_file", "think", "pipeline", "method", "body", "body_file", "expect", "http2", "h2c", "streams"];

impl LoadOptions {
    /// Whether requests are sent at a fixed rate, regardless of responses.
    pub(crate) fn is_paced(&self) -> bool {
        self.rate.is_some()
    }

    /// The most connections at a time.
    pub(crate) fn clients(&self) -> u64 {
        self.connections as u64
    }

    /// Threads that share the work.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// The load in a few words.
    pub(crate) fn describe(&self) -> String {
        let moments = if self.poisson { " at random moments" } else { "" };
        let (who, what) = if self.scenario.is_some() { ("user", "sessions") } else { ("connection", "requests") };
        let pace = self.rate.map_or(String::new(), |rate| format!(", {rate} {what} per second{moments}"));
        let rest = self.think.map_or(String::new(), |rest| format!(", {rest:?} of rest between requests"));
        let reuse = match (self.close, self.per_connection) {
            (true, _) => ", a connection for each request".to_owned(),
            (_, Some(count)) => format!(", {count} requests each"),
            _ if self.scenario.is_some() => ", a connection for each session".to_owned(),
            _ => ", kept alive".to_owned(),
        };
        let streams = self.tls_options.streams(&self.method).filter(|streams| *streams > 1);
        let streams = streams.map(|streams| format!(" of {streams} streams")).unwrap_or_default();
        format!("{}{streams}{reuse}{pace}{rest}", counted(self.clients(), who))
    }

    /// Sends the warm-up requests.
    pub(crate) fn warm_up(&self, plan: &Plan) -> Result<()> {
        let Some(time) = self.warm_up else { return Ok(()) };
        let warm = Plan { count: None, time: Some(time), samples: false, ..plan.clone() };
        load::run(&warm, &Live::default(), |_| {}).map(|_| ())
    }

    fn pace(&self, rate: f64) -> Pace {
        match self.poisson {
            true => Pace::Exponential(Duration::from_secs_f64(1.0 / rate)),
            false => Pace::per_second(rate),
        }
    }

    /// The load on these URLs.
    ///
    /// # Errors
    /// There is no URL, or they belong to several servers.
    pub(crate) fn plan(&self, urls: &[String]) -> Result<Plan> {
        let listed = self.url_file.as_deref().map(read_text).transpose()?.unwrap_or_default();
        let urls = urls.iter().map(String::as_str).chain(listed.lines());
        let urls = urls.map(Url::parse).collect::<Result<Vec<Url>>>()?;
        let [first, others @ ..] = &urls[..] else { return Err(Error::new("there is no URL")) };
        // A server may have many names in the clear; a connection over TLS is made to one of them.
        let is_served = |url: &Url| {
            let names_differ = !first.is_secure && !url.is_secure && !self.connect.is_empty();
            names_differ || url.origin() == first.origin()
        };
        if let Some(other) = others.iter().find(|url| !is_served(url)) {
            return Err(Error::new(format!("{} and {} are two servers", first.authority(), other.authority()))
                .advise("one `load` for each, at the same time"));
        }
        let body = match &self.body_file {
            Some(path) => std::fs::read(path).context(|| format!("read {}", path.display()))?,
            None => self.body.clone().unwrap_or_default().into_bytes(),
        };
        let expected =
            self.expect.as_ref().map(|path| std::fs::read(path).context(|| format!("read {}", path.display())));
        let streams = self.tls_options.streams(&self.method);
        let build = RequestBuilder {
            // `-m` here is the number of streams.
            method: if self.method.parse::<usize>().is_ok() && streams.is_some() { "GET" } else { &self.method },
            minor: 1,
            fields: &self.headers,
            body: &body,
            content_type: &self.content_type,
            tells_host: true,
            agent: (!self.bare).then_some(concat!("tsubame-lab/", env!("CARGO_PKG_VERSION"))),
            accepts_all: !self.bare,
            connection: self.close.then_some("close"),
        };
        let scenario = self.scenario.as_deref().map(|file| scenario::read(file, first, &build)).transpose()?;
        if scenario.is_some() && (!others.is_empty() || first.path != "/") {
            return Err(Error::new("the steps of a scenario have paths of their own").advise(format!(
                "one URL, {}://{}/",
                first.scheme(),
                first.authority()
            )));
        }
        let owned = self.i_own_this_target.as_deref();
        let servers = match &self.connect[..] {
            [] => vec![destination::server(first, false, owned)?],
            servers => destination::check(&first.host, servers, owned).map(|()| servers.to_vec())?,
        };
        Ok(Plan {
            servers,
            sources: self.source.clone(),
            requests: urls.iter().map(|url| build.of(url)).collect(),
            scenario: scenario.map(Arc::new),
            arrival: self.rate.map_or(Arrival::Closed, |rate| Arrival::Requests(self.pace(rate))),
            clients: self.connections,
            calls: if self.close { Some(1) } else { self.per_connection },
            pipeline: streams.unwrap_or(self.pipeline),
            tls: self.tls_options.tls(first)?,
            http2: self.tls_options.is_http2(),
            think: self.think.unwrap_or_default(),
            threads: self.threads,
            count: self.requests,
            time: self.duration.or(self.requests.is_none().then_some(LENGTH)),
            timeout: self.timeout,
            body: expected.transpose()?.map(Into::into),
            takes_broken: false,
            shows: None,
            samples: self.csv.is_some(),
            spin: self.spin,
        })
    }
}

/// The default duration.
const LENGTH: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {

    #[test]
    fn a_server_may_have_many_names() {
        use clap::Parser as _;
        let scratch = crate::machine::scratch::Scratch::for_test("load-options");
        let file = scratch.path().join("urls");
        std::fs::write(&file, "http://b.test:81/y\nhttp://c.test/z\n").unwrap();
        let plan = |line: &str| {
            let words =
                ["tsubame-lab", "load", "--url-file", file.to_str().unwrap()].into_iter().chain(line.split(' '));
            match crate::cli::Cli::try_parse_from(words).map(|cli| cli.command) {
                Ok(crate::cli::Command::Load(options)) => options.load.plan(&options.load.urls),
                other => panic!("{line}: {:?}", other.err()),
            }
        };
        let requests = plan("http://a.test/x --bare --connect 127.0.0.1:80").unwrap().requests;
        let texts: Vec<String> = requests.iter().map(|one| String::from_utf8_lossy(&one.bytes).into_owned()).collect();
        for (text, [path, host]) in texts.iter().zip([["/x", "a.test"], ["/y", "b.test:81"], ["/z", "c.test"]]) {
            assert!(text.starts_with(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n")), "{text}");
        }
        assert_eq!(texts.len(), 3);
        for line in ["http://a.test/x", "https://a.test/x --connect 127.0.0.1:443"] {
            assert!(plan(line).unwrap_err().to_string().contains("are two servers"), "{line}");
        }
    }

    #[test]
    fn letters_of_other_generators_are_understood() {
        use clap::Parser as _;
        let options = |line: &str| {
            let words = ["tsubame-lab", "load"].into_iter().chain(line.split(' '));
            match crate::cli::Cli::try_parse_from(words).map(|cli| cli.command) {
                Ok(crate::cli::Command::Load(options)) => format!("{options:?}"),
                other => panic!("{line}: {:?}", other.err()),
            }
        };
        for (theirs, ours) in [
            (
                "-n200 -c50 -q 100 -m POST -T text/plain -H a:b x",
                "-n 200 -c 50 -r 100 -m POST --content-type text/plain -H a:b x",
            ),
            ("-z 30s -c 100 --disable-keepalive x", "-d 30s -c 100 --close x"),
            ("-t2 -c100 -d30s -R2000 x", "-t 2 -c 100 -d 30 --rate 2000 x"),
            ("-n2M -c1k x", "-n 2000000 -c 1000 x"),
            ("-n1 -c1 --warm-up-time=3 x", "-n 1 -c 1 --warm-up 3s x"),
        ] {
            assert_eq!(options(theirs), options(ours));
        }
        options("-t2 -c100 -d30s --latency x");
    }
}

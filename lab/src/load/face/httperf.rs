//! `httperf`: the command line and output of httperf 0.9.0 (its manual page), as shown in the fifth seed.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::crowd::DESCRIPTORS_IN_RESERVE;
use crate::error::{Context as _, Error, Result};
use crate::launch;
use crate::load::build::Build;
use crate::load::url::Url;
use crate::load::{self, Arrival, Live, Pace, Plan, target};
use crate::procfs;
use crate::tls::Tls;

mod text;

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

    /// The most requests of a connection that wait for their answers at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_piped_calls: Option<u32>,

    /// Sessions instead of connections: how many, of how many requests, and seconds between bursts
    #[arg(long, value_name = "N,N,X", value_parser = sessions)]
    wsess: Option<Sessions>,

    /// A file of paths to request, each ended by a NUL; y: start again at its end
    #[arg(long, value_name = "y|n,FILE", value_parser = log)]
    wlog: Option<(bool, PathBuf)>,

    /// The most connections at a time
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
    absent: Absent,
}

/// Options of httperf that are missing here.
#[derive(Args, Clone, Debug)]
struct Absent {
    #[arg(long, hide = true, value_name = "N,X")]
    wset: Option<String>,
    #[arg(long, hide = true, value_name = "N,X,FILE")]
    wsesslog: Option<String>,
    #[arg(long, hide = true)]
    session_cookies: bool,
    #[arg(long, hide = true)]
    close_with_reset: bool,
    #[arg(long, hide = true)]
    retry_on_failure: bool,
    #[arg(long, hide = true, value_name = "N")]
    failure_status: Option<u32>,
    #[arg(long, hide = true, num_args = 0..=1)]
    print_reply: Option<Option<String>>,
    #[arg(long, hide = true, num_args = 0..=1)]
    print_request: Option<Option<String>>,
}

impl Absent {
    fn first(&self) -> Option<&'static str> {
        let options = [
            ("--wset", self.wset.is_some()),
            ("--wsesslog", self.wsesslog.is_some()),
            ("--session-cookies", self.session_cookies),
            ("--close-with-reset", self.close_with_reset),
            ("--retry-on-failure", self.retry_on_failure),
            ("--failure-status", self.failure_status.is_some()),
            ("--print-reply", self.print_reply.is_some()),
            ("--print-request", self.print_request.is_some()),
        ];
        options.into_iter().find(|(_, is_there)| *is_there).map(|(name, _)| name)
    }
}

/// The number of sessions, their requests, and the pause between bursts.
#[derive(Clone, Copy, Debug)]
struct Sessions {
    count: u64,
    calls: u64,
    think: Duration,
}

fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= LONGEST);
    time.ok_or_else(|| format!("{text} is not a time of 0 to {} seconds", LONGEST.as_secs()))
}

/// Thirty years: sums of times up to this do not overflow.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);

fn rate(text: &str) -> std::result::Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of connections"))?;
    let is_possible = rate == 0.0 || (rate.is_finite() && rate * LONGEST.as_secs_f64() >= 1.0);
    is_possible.then_some(rate).ok_or_else(|| "a rate is a number of connections per second, or 0".into())
}

fn period(text: &str) -> std::result::Result<Pace, String> {
    let (kind, times) = match text.as_bytes().first() {
        Some(kind @ (b'd' | b'u' | b'e')) => (*kind, &text[1..]),
        _ => (b'd', text),
    };
    match (kind, times.split_once(',')) {
        (b'd', None) => seconds(times).map(Pace::Constant),
        (b'e', None) => seconds(times).map(Pace::Exponential),
        (b'u', Some((least, most))) => {
            let (least, most) = (seconds(least)?, seconds(most)?);
            if least <= most { Ok(Pace::Uniform(least, most)) } else { Err("T1 is longer than T2".into()) }
        }
        _ => Err("a period is T1, uT1,T2 or eT1".into()),
    }
}

fn sessions(text: &str) -> std::result::Result<Sessions, String> {
    let wrong = || "sessions are N,N,X: how many, of how many requests, and seconds between bursts".to_owned();
    let [count, calls, think] = text.split(',').collect::<Vec<_>>()[..] else { return Err(wrong()) };
    let number = |text: &str| text.parse().ok().filter(|number| *number > 0).ok_or_else(wrong);
    Ok(Sessions { count: number(count)?, calls: number(calls)?, think: seconds(think)? })
}

fn log(text: &str) -> std::result::Result<(bool, PathBuf), String> {
    match text.split_once(',') {
        Some((again @ ("y" | "n"), file)) => Ok((again == "y", file.into())),
        _ => Err("a log is y,FILE or n,FILE".into()),
    }
}

/// Runs `tsubame-lab httperf`.
pub(crate) fn run(options: &HttperfOptions) -> Result<()> {
    if let Some(absent) = options.absent.first() {
        return Err(Error::new(format!("{absent} is not supported"))
            .advise("use httperf itself, or `tsubame-lab load`, which has other options"));
    }
    let descriptors = launch::raise_descriptor_limit()?;
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
    say!("{}", text::results(options, &plan, &record, used));
    Ok(())
}

impl HttperfOptions {
    /// Connections, or sessions, and the requests of each.
    fn work(&self) -> (u64, u64) {
        self.wsess.map_or((self.num_conns, self.num_calls), |sessions| (sessions.count, sessions.calls))
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
        let most = match self.max_connections {
            Some(most) => most,
            None if pace == Pace::Constant(Duration::ZERO) => 1,
            None => u32::try_from(descriptors.saturating_sub(DESCRIPTORS_IN_RESERVE)).unwrap_or(u32::MAX).max(1),
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
        let build = Build {
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
        let requests = paths.into_iter().map(|path| build.of(&Url { path, ..url.clone() })).collect();
        let timeout = Duration::try_from_secs_f64(self.timeout + self.think_timeout);
        let timeout = timeout.ok().filter(|timeout| !timeout.is_zero()).unwrap_or(Duration::MAX);
        let server = target::server(&url, false, self.i_own_this_target.as_deref())?;
        Ok(Plan {
            arrival: Arrival::Connections(pace),
            clients: most as usize,
            calls: Some(calls),
            pipeline: self.burst_length.min(self.max_piped_calls.unwrap_or(u32::MAX)) as usize,
            takes_broken: true,
            think: self.wsess.map_or(Duration::ZERO, |sessions| sessions.think),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_distributions() {
        let milliseconds = Duration::from_millis;
        assert_eq!(period("0.01"), Ok(Pace::Constant(milliseconds(10))));
        assert_eq!(period("d0.01"), Ok(Pace::Constant(milliseconds(10))));
        assert_eq!(period("u0.01,0.02"), Ok(Pace::Uniform(milliseconds(10), milliseconds(20))));
        assert_eq!(period("e0.5"), Ok(Pace::Exponential(milliseconds(500))));
        assert!(["", "u1", "u2,1", "e1,2", "x1", "-1", "e1e19"].into_iter().all(|text| period(text).is_err()));
    }

    #[test]
    fn rates_are_possible() {
        assert_eq!(["0", "0.001", "1e8"].map(rate), [Ok(0.0), Ok(0.001), Ok(1e8)]);
        assert!(["-1", "nan", "inf", "1e-300"].into_iter().all(|text| rate(text).is_err()));
    }

    #[test]
    fn sessions_and_logs_are_read() {
        let read = sessions("10,5,0.1").unwrap();
        assert_eq!((read.count, read.calls, read.think), (10, 5, Duration::from_millis(100)));
        assert!(["10,5", "0,5,1", "a,5,1", "1,1,x"].into_iter().all(|text| sessions(text).is_err()));
        assert_eq!(log("y,/a"), Ok((true, "/a".into())));
        assert!(log("/a").is_err());
    }
}

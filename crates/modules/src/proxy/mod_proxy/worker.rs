//! The settings of a backend in `ProxyPass`, `<Proxy>` and `ProxySet`: `key=value`.

use std::time::Duration;

use conf::values::{atoi, duration, one_of};

use super::target::Target;

/// A backend that `ProxyPass` or `<Proxy>` names, with its settings.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) target: Target,
    pub(super) parameters: Parameters,
}

/// The `key=value` settings of a backend; `None`: not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// How long it may be silent.
    pub(crate) timeout: Option<Duration>,
    /// How long it may take to accept a connection.
    pub(crate) connect: Option<Duration>,
    /// Whether a connection stays open after its request.
    pub(crate) reuse: Option<bool>,
    /// How many idle connections a child keeps.
    pub(crate) max: Option<usize>,
    /// How long an idle connection is kept.
    pub(crate) idle: Option<Duration>,
    /// Whether each piece of a response goes out at once.
    pub(crate) flush: Option<bool>,
    /// The protocol that a request may switch to: its name, `ANY` or `NONE`.
    pub(crate) upgrade: Option<String>,
}

/// Parameters without a meaning in these protocols, or that Tsubame does not need.
const WITHOUT_EFFECT: [&str; 16] = [
    "acquire",
    "addressttl",
    "flushwait",
    "iobuffersize",
    "keepalive",
    "lbset",
    "loadfactor",
    "min",
    "ping",
    "receivebuffersize",
    "redirect",
    "responsefieldsize",
    "retry",
    "route",
    "secret",
    "smax",
];

/// Parameters that would affect the routing of requests, and are not supported.
const REFUSED: [&str; 8] =
    ["failonstatus", "hcexpr", "hcinterval", "hcmethod", "hctemplate", "hcuri", "mapping", "status"];

impl Parameters {
    /// Sets `key=value`. `Err`: the message after the name of the directive.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let key = key.to_ascii_lowercase();
        let on = |name: &str| match value.to_ascii_lowercase().as_str() {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(format!("{name} must be On|Off")),
        };
        match key.as_str() {
            "timeout" => {
                let seconds = u64::try_from(atoi(value)).ok().filter(|seconds| *seconds > 0);
                let seconds = seconds.ok_or("Timeout must be at least one second")?;
                self.timeout = Some(Duration::from_secs(seconds));
            }
            "connectiontimeout" => {
                let time = duration(value, Duration::from_secs(1)).ok_or("Connectiontimeout has wrong format")?;
                if time < Duration::from_millis(1) {
                    return Err("Connectiontimeout must be at least one millisecond.".into());
                }
                self.connect = Some(time);
            }
            "flushpackets" => {
                let table = [("on", true), ("auto", true), ("off", false)];
                self.flush = Some(one_of(value, &table).ok_or("flushpackets must be on|off|auto")?);
            }
            "enablereuse" => self.reuse = Some(on("EnableReuse")?),
            "disablereuse" => self.reuse = Some(!on("DisableReuse")?),
            "upgrade" => self.upgrade = Some(value.to_string()),
            "max" => self.max = usize::try_from(atoi(value)).ok().filter(|max| *max > 0),
            "ttl" => {
                let seconds = u64::try_from(atoi(value)).map_err(|_| "TTL must be at least one second")?;
                self.idle = Some(Duration::from_secs(seconds)).filter(|time| !time.is_zero());
            }
            "retry" if atoi(value) < 0 => return Err("Retry must be a positive value".into()),
            "iobuffersize" if atoi(value) != 0 && atoi(value) < 512 => {
                return Err("IOBufferSize must be >= 512 bytes, or 0 for system default.".into());
            }
            known if WITHOUT_EFFECT.contains(&known) => {}
            refused if REFUSED.contains(&refused) => {
                return Err(format!("Tsubame does not support the parameter {key}={value} yet"));
            }
            _ => return Err("unknown Worker parameter".into()),
        }
        Ok(())
    }

    /// The settings of `later`, and otherwise those of this one.
    fn changed_by(&mut self, later: &Parameters) {
        let Parameters { timeout, connect, reuse, max, idle, flush, upgrade } = later.clone();
        self.timeout = timeout.or(self.timeout);
        self.connect = connect.or(self.connect);
        self.reuse = reuse.or(self.reuse);
        self.max = max.or(self.max);
        self.idle = idle.or(self.idle);
        self.flush = flush.or(self.flush);
        self.upgrade = upgrade.or(self.upgrade.take());
    }

    /// The settings for a request: those of the backend whose URL covers the most of it. `None`: there are none.
    pub(super) fn of(workers: &[&Worker], target: &Target) -> Option<Parameters> {
        let covering = || workers.iter().filter(|worker| worker.target.covers(target));
        let length =
            |worker: &&&Worker| (worker.target.path.trim_end_matches('/').len(), worker.target.socket.is_some());
        let longest = covering().map(|worker| length(&worker)).max()?;
        let mut all = Parameters::default();
        covering().filter(|worker| length(worker) == longest).for_each(|worker| all.changed_by(&worker.parameters));
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(url: &str, pairs: &[(&str, &str)]) -> Worker {
        let mut parameters = Parameters::default();
        pairs.iter().for_each(|(key, value)| parameters.set(key, value).expect("a parameter"));
        Worker { target: Target::parse(url).expect("a URL"), parameters }
    }

    #[test]
    fn the_longest_url_counts_and_the_last_word() {
        let workers = [
            worker("fcgi://h", &[("timeout", "1"), ("enablereuse", "on")]),
            worker("fcgi://h/a", &[("timeout", "2"), ("max", "5")]),
            worker("fcgi://h/a/", &[("timeout", "3"), ("disablereuse", "off"), ("ttl", "9")]),
        ];
        let of = |url| Parameters::of(&workers.iter().collect::<Vec<_>>(), &Target::parse(url).expect("a URL"));
        let seconds = |count| Some(Duration::from_secs(count));
        let want = Parameters { timeout: seconds(1), reuse: Some(true), ..Parameters::default() };
        assert_eq!(of("fcgi://h/b"), Some(want));
        let want = Parameters {
            timeout: seconds(3),
            reuse: Some(true),
            max: Some(5),
            idle: seconds(9),
            ..Parameters::default()
        };
        assert_eq!(of("fcgi://h/a/x"), Some(want));
        assert_eq!(of("fcgi://other/a/x"), None);
    }
}

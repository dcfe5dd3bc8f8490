//! The settings of a backend in `ProxyPass`, `<Proxy>`, `ProxySet` and `BalancerMember`: `key=value`.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use conf::values::{atoi, duration, one_of};
use upstream::{Limit, Tally};

use super::ajp_settings::AjpSettings;
use super::health::Health;
use super::rest::Rest;
use super::status::{Change, Status};
use super::target::Target;
use super::unused;

/// A backend that `ProxyPass` or `<Proxy>` names, with its settings.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) target: Target,
    pub(crate) parameters: Parameters,
    /// What all lines about it have in common, once the whole configuration is known; not for members of balancers.
    pub(super) common: OnceLock<Common>,
}

/// What all requests to a backend have in common.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    /// What is counted of it.
    pub(super) tally: Tally,
    /// How many connections to it a child uses at most.
    pub(super) limit: Option<Arc<Limit>>,
    /// The rest that it has after it could not be reached.
    pub(super) rest: Option<Rest>,
}

impl Worker {
    pub(super) fn new(target: Target, parameters: Parameters) -> Worker {
        Worker { target, parameters, common: OnceLock::new() }
    }
}

/// The `key=value` settings of a backend; `None`: not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parameters {
    /// How long it may be silent.
    pub(crate) timeout: Option<Duration>,
    /// How long it may take to accept a connection.
    pub(crate) connect: Option<Duration>,
    /// Whether a connection stays open after its request.
    pub(crate) reuse: Option<bool>,
    /// How many connections a child uses at a time.
    pub(crate) max: Option<usize>,
    /// How many idle connections are kept, if that is another number.
    pub(crate) smax: Option<usize>,
    /// How long a request waits for a connection.
    pub(crate) acquire: Option<Duration>,
    /// How long an idle connection is kept.
    pub(crate) idle: Option<Duration>,
    /// Whether each piece of a response goes out at once.
    pub(crate) flush: Option<bool>,
    pub(crate) ajp: AjpSettings,
    /// The protocol that a request may switch to: its name, `ANY` or `NONE`.
    pub(crate) upgrade: Option<String>,
    /// How long it gets no requests after it could not be reached.
    pub(crate) retry: Option<Duration>,
    /// The end of the identifiers of sessions that belong to the member.
    pub(crate) route: Option<String>,
    /// The route of the member that takes its place.
    pub(crate) redirect: Option<String>,
    /// Its share of the load, in hundredths.
    pub(crate) factor: Option<u32>,
    /// The members of a higher set get requests only while none of the lower ones can.
    pub(crate) set: Option<u8>,
    /// What the lines say about its status.
    pub(crate) status: Change,
    /// How it is checked.
    pub(crate) health: Health,
}

/// The longest route, in bytes.
pub(crate) const ROUTE_MAX: usize = 63;

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
            // The kernel probes all connections.
            "keepalive" => _ = on("KeepAlive")?,
            "upgrade" => self.upgrade = Some(value.to_string()),
            "max" => {
                let max = usize::try_from(atoi(value)).map_err(|_| "Max must be a positive number")?;
                self.max = Some(max).filter(|max| *max > 0);
            }
            "smax" => self.smax = Some(usize::try_from(atoi(value)).map_err(|_| "Smax must be a positive number")?),
            "acquire" => {
                let time = duration(value, Duration::from_millis(1)).ok_or("Acquire timeout has wrong format")?;
                if time < Duration::from_millis(1) {
                    return Err("Acquire must be at least one millisecond".into());
                }
                self.acquire = Some(time);
            }
            "ttl" => {
                let seconds = u64::try_from(atoi(value)).map_err(|_| "TTL must be at least one second")?;
                self.idle = Some(Duration::from_secs(seconds)).filter(|time| !time.is_zero());
            }
            "retry" => {
                let seconds = u64::try_from(atoi(value)).map_err(|_| "Retry must be a positive value")?;
                self.retry = Some(Duration::from_secs(seconds));
            }
            "route" | "redirect" if value.len() > ROUTE_MAX => {
                let name = if key == "route" { "Route" } else { "Redirect" };
                return Err(format!("{name} length must be < {} characters", ROUTE_MAX + 1));
            }
            "route" => self.route = Some(value.to_string()),
            "redirect" => self.redirect = Some(value.to_string()),
            "loadfactor" => self.factor = Some(factor(value).ok_or("LoadFactor must be a number between 1..100")?),
            "lbset" => {
                let set = u8::try_from(atoi(value)).ok().filter(|set| *set < 100);
                self.set = Some(set.ok_or("lbset must be between 0 and 99")?);
            }
            "status" => self.status = self.status.then(Status::change(value).ok_or("Unknown status parameter option")?),
            key if self.ajp.set(key, value)? => {}
            key => unused::check(key, value).ok_or("unknown Worker parameter")??,
        }
        Ok(())
    }

    /// The settings of `later`, and otherwise those of this one.
    pub(super) fn changed_by(&mut self, later: &Parameters) {
        let Parameters {
            timeout,
            connect,
            reuse,
            max,
            smax,
            acquire,
            idle,
            flush,
            ajp,
            upgrade,
            retry,
            route,
            redirect,
            factor,
            set,
            status,
            health,
        } = later.clone();
        self.timeout = timeout.or(self.timeout);
        self.connect = connect.or(self.connect);
        self.reuse = reuse.or(self.reuse);
        self.max = max.or(self.max);
        self.smax = smax.or(self.smax);
        self.acquire = acquire.or(self.acquire);
        self.idle = idle.or(self.idle);
        self.flush = flush.or(self.flush);
        self.ajp.changed_by(ajp);
        self.upgrade = upgrade.or(self.upgrade.take());
        self.retry = retry.or(self.retry);
        self.route = route.or(self.route.take());
        self.redirect = redirect.or(self.redirect.take());
        self.factor = factor.or(self.factor);
        self.set = set.or(self.set);
        self.status = self.status.then(status);
        self.health.changed_by(&health);
    }

    /// The settings for a request: those of the backend whose URL covers the most of it, and what its requests have in common. `None`:
    /// there are none.
    pub(super) fn of<'w>(
        workers: impl Iterator<Item = &'w Worker> + Clone,
        target: &Target,
    ) -> Option<(Cow<'w, Parameters>, Option<&'w Common>)> {
        let mut covering = workers.filter(|worker| worker.target.covers(target));
        // Groups may be in the host, too. Of a URL with groups and an equally long one without, that one is meant.
        let length = |worker: &&Worker| {
            let Target { socket, path, .. } = &worker.target;
            let path_length = path.trim_end_matches('/').len().max(1);
            (worker.target.server_length() + path_length, socket.is_some(), !worker.target.has_groups())
        };
        let longest = covering.clone().map(|worker| length(&worker)).max()?;
        let is_longest = |worker: &&Worker| length(worker) == longest;
        let first = covering.find(is_longest)?;
        let all = covering.filter(is_longest).fold(Cow::Borrowed(&first.parameters), |mut all, worker| {
            all.to_mut().changed_by(&worker.parameters);
            all
        });
        Some((all, first.common.get()))
    }
}

/// A share of the load, from 1 to 100, in hundredths.
pub(crate) fn factor(text: &str) -> Option<u32> {
    let hundredths = (text.trim().parse::<f64>().ok()? * 100.0) as u32;
    (100..=10_000).contains(&hundredths).then_some(hundredths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(url: &str, pairs: &[(&str, &str)]) -> Worker {
        let mut parameters = Parameters::default();
        pairs.iter().for_each(|(key, value)| parameters.set(key, value).expect("a parameter"));
        Worker::new(Target::parse(url).expect("a URL"), parameters)
    }

    #[test]
    fn the_longest_url_counts_and_the_last_word() {
        let workers = [
            worker("fcgi://h", &[("timeout", "1"), ("enablereuse", "on")]),
            worker("fcgi://h/a", &[("timeout", "2"), ("max", "5")]),
            worker("fcgi://h/a/", &[("timeout", "3"), ("disablereuse", "off"), ("ttl", "9")]),
        ];
        let of =
            |url| Parameters::of(workers.iter(), &Target::parse(url).expect("a URL")).map(|(all, _)| all.into_owned());
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

    #[test]
    fn with_groups_the_whole_url_counts() {
        let pattern = |url: &str| {
            let target = Target::parse_with_groups(url).expect("a URL");
            Worker { target, ..worker("http://h", &[("timeout", "9")]) }
        };
        let workers = [
            pattern("http://h:$1/$2"),
            pattern("http://h:$1/long/$2"),
            worker("http://h:8080/", &[("max", "1")]),
            worker("http://h:80/", &[("max", "2")]),
            worker("http://h:8080/long/er/", &[("max", "3")]),
        ];
        let max =
            |url| Parameters::of(workers.iter(), &Target::parse(url).expect("a URL")).and_then(|(all, _)| all.max);
        // As in Apache, the whole URL counts.
        assert_eq!(max("http://h:8080/x"), Some(1));
        assert_eq!((max("http://h:80/x"), max("http://h:8080/long/x")), (None, None));
        assert_eq!(max("http://h:8080/long/er/x"), Some(3));
        assert_eq!(max("http://h:9/x"), None);
    }
}

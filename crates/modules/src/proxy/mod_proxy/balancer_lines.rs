//! What the lines of the configuration say about balancers.

use std::time::Duration;

use conf::values::atoi;

use super::method::Method;
use super::worker::Worker;

/// How URLs of balancers begin.
pub(crate) const PREFIX: &str = "balancer://";
/// The most members that the page may add to a balancer, as in Apache.
const GROWTH_MAX: usize = 100;

/// What a line says about a balancer.
#[derive(Clone, Debug)]
pub(super) enum BalancerLine {
    /// `ProxyPass`, `<Proxy>` or `ProxySet`.
    Parameters(BalancerParameters),
    /// `BalancerMember`
    Member(Box<Worker>),
}

/// A line about the balancer of this name.
#[derive(Clone, Debug)]
pub(super) struct NamedLine {
    /// In lower case, without `balancer://`.
    pub(super) name: String,
    /// Whether it is in a virtual host.
    pub(super) in_host: bool,
    pub(super) line: BalancerLine,
}

/// The `key=value` settings of a balancer; `None`: not set.
#[derive(Clone, Debug, Default)]
pub(super) struct BalancerParameters {
    pub(super) method: Option<Method>,
    /// The cookie with the identifier of a session, and the parameter of paths.
    pub(super) sticky: Option<(String, String)>,
    /// What stands before the route in an identifier; `Some(None)`: all of it is the route.
    pub(super) separator: Option<Option<char>>,
    /// Whether a semicolon ends an identifier in a URL.
    pub(super) semicolons: Option<bool>,
    /// Whether a session ends with its member.
    pub(super) no_failover: Option<bool>,
    /// How long a request waits for a member.
    pub(super) timeout: Option<Duration>,
    /// How many members more a request is tried at.
    pub(super) attempts: Option<usize>,
    /// Responses that say that a member is broken.
    pub(super) fail_on: Option<Vec<u16>>,
    /// Whether a member that is silent for too long is broken.
    pub(super) fail_on_timeout: Option<bool>,
    /// Whether members are tried early if none is left.
    pub(super) force_recovery: Option<bool>,
    /// What forms of the balancer-manager have to know; `Some(None)`: nothing.
    pub(super) nonce: Option<Option<String>>,
    /// How many members the page balancer-manager may add.
    pub(super) growth: Option<usize>,
}

impl BalancerParameters {
    /// Sets `key=value`. `Err`: the message after the name of the directive.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let on = |name: &str| match value.to_ascii_lowercase().as_str() {
            "on" => Ok(Some(true)),
            "off" => Ok(Some(false)),
            _ => Err(format!("{name} must be On|Off")),
        };
        match key.to_ascii_lowercase().as_str() {
            "lbmethod" => self.method = Some(Method::named(value).ok_or("unknown lbmethod")?),
            "stickysession" => {
                let (cookie, path) = value.split_once('|').unwrap_or((value, value));
                self.sticky = Some((cookie.to_string(), path.to_string()));
            }
            "stickysessionsep" => {
                let mut chars = value.chars();
                self.separator = Some(match (chars.next(), chars.next()) {
                    _ if value.eq_ignore_ascii_case("off") => None,
                    (Some(one), None) => Some(one),
                    _ => return Err("stickysessionsep must be a single character or Off".into()),
                });
            }
            "scolonpathdelim" => self.semicolons = on("scolonpathdelim")?,
            "nofailover" => self.no_failover = on("failover")?,
            "timeout" => {
                let seconds = u64::try_from(atoi(value)).ok().filter(|seconds| *seconds > 0);
                self.timeout = Some(Duration::from_secs(seconds.ok_or("timeout must be at least one second")?));
            }
            "maxattempts" => {
                let number = usize::try_from(atoi(value));
                self.attempts = Some(number.map_err(|_| "maximum number of attempts must be a positive number")?);
            }
            "failonstatus" => {
                let status = |text: &str| u16::try_from(atoi(text)).ok().filter(|status| (100..600).contains(status));
                let all: Option<Vec<_>> = value.split(',').map(str::trim).map(status).collect();
                self.fail_on = Some(all.ok_or("failonstatus must be one or more HTTP response codes")?);
            }
            "failontimeout" => self.fail_on_timeout = on("failontimeout")?,
            "forcerecovery" => self.force_recovery = on("forcerecovery")?,
            "nonce" => self.nonce = Some(Some(value.to_string()).filter(|_| !value.eq_ignore_ascii_case("none"))),
            "growth" => {
                let room = usize::try_from(atoi(value)).ok().filter(|room| (1..=GROWTH_MAX).contains(room));
                self.growth = Some(room.ok_or_else(|| format!("growth must be between 1 and {GROWTH_MAX}"))?);
            }
            _ => return Err("unknown Balancer parameter".into()),
        }
        Ok(())
    }

    /// The settings of `later`, and otherwise those of this one.
    pub(super) fn changed_by(&mut self, later: &BalancerParameters) {
        let later = later.clone();
        self.method = later.method.or(self.method);
        self.sticky = later.sticky.or(self.sticky.take());
        self.separator = later.separator.or(self.separator);
        self.semicolons = later.semicolons.or(self.semicolons);
        self.no_failover = later.no_failover.or(self.no_failover);
        self.timeout = later.timeout.or(self.timeout);
        self.attempts = later.attempts.or(self.attempts);
        self.fail_on = later.fail_on.or(self.fail_on.take());
        self.fail_on_timeout = later.fail_on_timeout.or(self.fail_on_timeout);
        self.force_recovery = later.force_recovery.or(self.force_recovery);
        self.nonce = later.nonce.or(self.nonce.take());
        self.growth = later.growth.or(self.growth);
    }
}

//! What the configuration says about health checks: the parameters of members that begin with `hc`.

use std::sync::Arc;
use std::time::Duration;

use conf::Listed;
use conf::expr::Expr;
use conf::values::{atoi, duration};

/// How often a member is checked if its line does not say.
const INTERVAL: Duration = Duration::from_secs(30);
/// The shortest interval, as in Apache.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// The longest path, in bytes.
const PATH_MAX: usize = 127;
/// The longest name of a condition that may change while the server runs, in bytes.
const NAME_MAX: usize = 63;
/// The most bytes of the values that may change while the server runs: names, three numbers, and a path, each with a separator.
pub(super) const VALUES_MAX: usize = 10 + 3 * 21 + NAME_MAX + 1 + PATH_MAX;

/// How a member is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthMethod {
    /// A connection can be made.
    Connect,
    /// A request is answered: its method, and the minor version of HTTP/1.
    Request(&'static str, u8),
}

/// The names in the configuration, in lower case.
const METHODS: [(&str, HealthMethod); 7] = [
    ("tcp", HealthMethod::Connect),
    ("options", HealthMethod::Request("OPTIONS", 0)),
    ("head", HealthMethod::Request("HEAD", 0)),
    ("get", HealthMethod::Request("GET", 0)),
    ("options11", HealthMethod::Request("OPTIONS", 1)),
    ("head11", HealthMethod::Request("HEAD", 1)),
    ("get11", HealthMethod::Request("GET", 1)),
];

impl HealthMethod {
    /// Its name on the pages.
    pub(crate) fn name(self) -> String {
        let name = METHODS.iter().find(|(_, method)| *method == self).map_or("", |(name, _)| name);
        name.to_ascii_uppercase()
    }
}

impl HealthMethod {
    /// Those of the configuration by their names, in the order of the page; `None`: no check.
    pub(crate) fn names() -> impl Iterator<Item = (Option<HealthMethod>, String)> {
        std::iter::once((None, "NONE".into())).chain(METHODS.iter().map(|(_, method)| (Some(*method), method.name())))
    }

    fn named(name: &str) -> Option<Option<HealthMethod>> {
        HealthMethod::names().find(|(_, own)| own.eq_ignore_ascii_case(name)).map(|(method, _)| method)
    }
}

/// A condition by its name.
#[derive(Debug, PartialEq)]
pub(crate) struct HealthExpr {
    pub(crate) name: String,
    pub(crate) expr: Expr,
}

/// A set of parameters by its name.
#[derive(Debug)]
pub(crate) struct HealthTemplate {
    pub(super) name: String,
    pub(super) health: Health,
}

/// The parameters of a member; `None`: not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Health {
    /// `Some(None)`: the member is not checked.
    method: Option<Option<HealthMethod>>,
    interval: Option<Duration>,
    passes: Option<u32>,
    fails: Option<u32>,
    pub(crate) uri: Option<String>,
    /// What a response has to meet; without a condition its status has to be 2xx or 3xx.
    pub(crate) condition: Option<Arc<HealthExpr>>,
}

impl Health {
    /// Sets `hc…=value`, with the templates and conditions of a server. `Err`: the message after the name of the directive.
    pub(super) fn set(
        &mut self,
        key: &str,
        value: &str,
        templates: &Listed<Arc<HealthTemplate>>,
        exprs: &Listed<Arc<HealthExpr>>,
    ) -> Result<(), String> {
        let count = |name: &str| {
            let number = u32::try_from(atoi(value));
            number.map_err(|_| format!("{name} must be a positive value"))
        };
        match key.to_ascii_lowercase().as_str() {
            "hctemplate" => {
                let template = templates.iter().find(|one| one.name.eq_ignore_ascii_case(value));
                let template = template.ok_or_else(|| format!("Unknown ProxyHCTemplate name: {value}"))?;
                self.changed_by(&template.health);
            }
            "hcmethod" => {
                let name = value.to_ascii_lowercase();
                self.method = Some(match METHODS.iter().find(|(known, _)| *known == name) {
                    Some((_, method)) => Some(*method),
                    None if name == "none" => None,
                    None if name == "cping" => {
                        return Err("Health check method CPING not (yet) implemented".into());
                    }
                    None => return Err("Unknown method".into()),
                });
            }
            "hcinterval" => {
                let time = duration(value, Duration::from_secs(1)).ok_or("Unparse-able hcinterval setting")?;
                if time < INTERVAL_MIN {
                    return Err("Interval must be a positive value greater than 100ms".into());
                }
                self.interval = Some(time);
            }
            "hcpasses" => self.passes = Some(count("Passes")?),
            "hcfails" => self.fails = Some(count("Fails")?),
            "hcuri" if value.len() > PATH_MAX => {
                return Err(format!("Health check uri length must be < {} characters", PATH_MAX + 1));
            }
            "hcuri" => self.uri = Some(value.to_string()),
            "hcexpr" => {
                let condition = exprs.iter().find(|one| one.name.eq_ignore_ascii_case(value));
                let condition = condition.ok_or_else(|| format!("Unknown health check condition expr: {value}"))?;
                self.condition = Some(condition.clone());
            }
            _ => return Err("unknown Worker hcheck parameter".into()),
        }
        Ok(())
    }

    /// The settings of `later`, and otherwise those of this one.
    pub(super) fn changed_by(&mut self, later: &Health) {
        let later = later.clone();
        self.method = later.method.or(self.method);
        self.interval = later.interval.or(self.interval);
        self.passes = later.passes.or(self.passes);
        self.fails = later.fails.or(self.fails);
        self.uri = later.uri.or(self.uri.take());
        self.condition = later.condition.or(self.condition.take());
    }

    /// What may change while the server runs: method, interval in milliseconds, passes, fails, condition and path.
    pub(crate) fn values(&self) -> [String; 6] {
        [
            self.method().map_or_else(|| "NONE".into(), HealthMethod::name),
            self.interval().as_millis().to_string(),
            self.passes().to_string(),
            self.fails().to_string(),
            self.condition.as_ref().map_or("", |condition| &condition.name).to_string(),
            self.uri.clone().unwrap_or_default(),
        ]
    }

    /// This one, except for the values that are given, and that make sense; with the conditions of a server. As in Apache, a condition
    /// that there is not is none, and so is one without a response.
    pub(crate) fn with_values(&self, values: [Option<&str>; 6], conditions: &[Arc<HealthExpr>]) -> Health {
        let [method, interval, passes, fails, condition, uri] = values;
        let mut changed = self.clone();
        let count = |text: &str| u32::try_from(atoi(text)).ok().filter(|count| *count > 0);
        changed.method = method.and_then(HealthMethod::named).or(self.method);
        let interval = interval.and_then(|text| duration(text, Duration::from_millis(1)));
        changed.interval = interval.filter(|time| *time >= INTERVAL_MIN).or(self.interval);
        changed.passes = passes.and_then(count).or(self.passes);
        changed.fails = fails.and_then(count).or(self.fails);
        if let Some(name) = condition {
            let known = conditions.iter().find(|one| one.name == name && name.len() <= NAME_MAX);
            changed.condition = known.cloned();
        }
        if let Some(uri) = uri {
            let is_path = !uri.is_empty() && uri.len() <= PATH_MAX && !uri.chars().any(char::is_control);
            changed.uri = is_path.then(|| uri.to_string());
        }
        if matches!(changed.method(), None | Some(HealthMethod::Connect)) {
            changed.condition = None;
        }
        changed
    }

    /// How the member is checked, if it is.
    pub(crate) fn method(&self) -> Option<HealthMethod> {
        self.method.flatten()
    }

    pub(crate) fn interval(&self) -> Duration {
        self.interval.unwrap_or(INTERVAL)
    }

    /// How many checks in a row a member has to pass to get requests again.
    pub(crate) fn passes(&self) -> u32 {
        self.passes.unwrap_or(1)
    }

    /// How many checks in a row it may fail, the last of which takes it out.
    pub(crate) fn fails(&self) -> u32 {
        self.fails.unwrap_or(1)
    }
}

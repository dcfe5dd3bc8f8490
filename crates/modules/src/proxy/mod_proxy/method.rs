//! How balancers elect members, by name.

/// How a balancer elects members (`lbmethod`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Method {
    /// Each gets its share of the requests.
    #[default]
    Requests,
    /// Each gets its share of the bytes, in both directions.
    Traffic,
    /// The one with the fewest requests on their way.
    Busyness,
    /// By chance, the more often the more workers of a member say that they wait.
    Heartbeat,
}

impl Method {
    /// All, in the order of their numbers.
    pub(crate) const ALL: [Method; 4] = [Method::Requests, Method::Traffic, Method::Busyness, Method::Heartbeat];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Method::Requests => "byrequests",
            Method::Traffic => "bytraffic",
            Method::Busyness => "bybusyness",
            Method::Heartbeat => "heartbeat",
        }
    }

    /// The module that has it, as in `LoadModule`.
    pub(crate) fn module(self) -> &'static str {
        match self {
            Method::Requests => "lbmethod_byrequests_module",
            Method::Traffic => "lbmethod_bytraffic_module",
            Method::Busyness => "lbmethod_bybusyness_module",
            Method::Heartbeat => "lbmethod_heartbeat_module",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Its number in shared memory.
    pub(super) fn number(self) -> u64 {
        self as u64
    }

    pub(super) fn from_number(number: u64) -> Method {
        Method::ALL.into_iter().find(|method| method.number() == number).unwrap_or_default()
    }
}

//! Every test of the running server runs under every multi-processing module.

use std::fmt;

/// A module that decides which process polls a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpm {
    Percore,
    Prefork,
    Worker,
    Event,
}

impl Mpm {
    pub const ALL: [Mpm; 4] = [Mpm::Percore, Mpm::Prefork, Mpm::Worker, Mpm::Event];

    /// As in `LoadModule mpm_NAME_module`.
    pub fn name(self) -> &'static str {
        match self {
            Mpm::Percore => "percore",
            Mpm::Prefork => "prefork",
            Mpm::Worker => "worker",
            Mpm::Event => "event",
        }
    }

    /// Whether one process serves one connection: what a client holds, another one cannot have.
    pub fn is_one_connection_a_process(self) -> bool {
        self == Mpm::Prefork
    }
}

impl fmt::Display for Mpm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Makes of each `fn name(mpm: Mpm)` a test per module. A new module is one more line here.
macro_rules! under_every_mpm {
    ($($(#[$doc:meta])* fn $name:ident($mpm:ident: Mpm) $body:block)+) => {$(
        $(#[$doc])*
        mod $name {
            #[allow(unused_imports, reason = "a short test may need nothing of its file")]
            use super::*;

            fn test($mpm: $crate::mpm::Mpm) $body

            #[test]
            fn percore() { test($crate::mpm::Mpm::Percore) }
            #[test]
            fn prefork() { test($crate::mpm::Mpm::Prefork) }
            #[test]
            fn worker() { test($crate::mpm::Mpm::Worker) }
            #[test]
            fn event() { test($crate::mpm::Mpm::Event) }
        }
    )+};
}
pub(crate) use under_every_mpm;

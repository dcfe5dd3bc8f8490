//! Which multi-processing modules (MPMs) a test of the running server runs under: all four, or percore and one other.

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

    /// The modules for a test to which no module can matter: percore and, by the test's name ([`test_name`]), one of the
    /// others; all of them if `TSUBAME_EVERY_MPM` is set.
    pub fn chosen(test: &str) -> Vec<Mpm> {
        let [first, others @ ..] = Mpm::ALL;
        if std::env::var_os("TSUBAME_EVERY_MPM").is_some() {
            return Mpm::ALL.to_vec();
        }
        vec![first, others[test.bytes().map(usize::from).sum::<usize>() % others.len()]]
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

/// The name of the test in whose body this stands.
macro_rules! test_name {
    () => {{
        fn here() {}
        let path = std::any::type_name_of_val(&here);
        path.rsplit("::").nth(1).unwrap_or(path)
    }};
}
pub(crate) use test_name;

/// Makes of each `fn name(mpm: Mpm)` a test per module: for whatever depends on who polls a connection or starts a
/// process. A new module is one more line here.
macro_rules! under_every_mpm {
    ($($tests:tt)+) => { $crate::harness::mpm::tests_of! { [] [] [] $($tests)+ } };
}
pub(crate) use under_every_mpm;

/// Makes of each `fn name(mpm: Mpm)` a test under percore and one under the named module: for everything else that
/// needs a running server. Files take turns with the name. The tests under the other two modules are ignored unless
/// `--include-ignored` asks for them.
macro_rules! under_percore_and {
    (prefork: $($tests:tt)+) => { $crate::harness::mpm::tests_of! { [] [ignore = "every MPM"] [ignore = "every MPM"] $($tests)+ } };
    (worker: $($tests:tt)+) => { $crate::harness::mpm::tests_of! { [ignore = "every MPM"] [] [ignore = "every MPM"] $($tests)+ } };
    (event: $($tests:tt)+) => { $crate::harness::mpm::tests_of! { [ignore = "every MPM"] [ignore = "every MPM"] [] $($tests)+ } };
}
pub(crate) use under_percore_and;

/// The tests of both macros. The brackets hold the attributes of the tests under prefork, worker and event.
macro_rules! tests_of {
    ([$($prefork:meta)?] [$($worker:meta)?] [$($event:meta)?]) => {};
    (
        [$($prefork:meta)?] [$($worker:meta)?] [$($event:meta)?]
        $(#[$doc:meta])* fn $name:ident($mpm:ident: Mpm) $body:block
        $($rest:tt)*
    ) => {
        $(#[$doc])*
        mod $name {
            #[allow(unused_imports, reason = "a short test may need nothing of its file")]
            use super::*;

            fn test($mpm: $crate::harness::mpm::Mpm) $body

            #[test]
            fn percore() { test($crate::harness::mpm::Mpm::Percore) }
            #[test]
            $(#[$prefork])?
            fn prefork() { test($crate::harness::mpm::Mpm::Prefork) }
            #[test]
            $(#[$worker])?
            fn worker() { test($crate::harness::mpm::Mpm::Worker) }
            #[test]
            $(#[$event])?
            fn event() { test($crate::harness::mpm::Mpm::Event) }
        }
        $crate::harness::mpm::tests_of! { [$($prefork)?] [$($worker)?] [$($event)?] $($rest)* }
    };
}
pub(crate) use tests_of;

//! The targets about persistent Perl, PHP behind php-fpm, and waiting.

use crate::experiments::profile::Profile::{
    self, Fcgid, OneBackend, PerlCgi, PerlFork, PerlRun, PhpFpm, PhpKept, Registry, Speedy,
};
use crate::experiments::profile::{Entry, under};
use crate::measure::results::Load;
use crate::report::targets::target::{Rule, Target};

/// Every target.
pub(super) static TARGETS: [Target; 11] = [
    perl("Registry ≥ 1.0 × Apache's mod_perl2", &[(ours(Registry), MOD_PERL)], 1.0),
    perl("SpeedyCGI ≥ 1.0 × Apache's mod_perl2", &[(ours(Speedy), MOD_PERL)], 1.0),
    perl("mod_fcgid ≥ 1.3 × Apache's", &[(ours(Fcgid), under(Fcgid, "apache-event"))], 1.3),
    perl("perl-fork ≥ 6 × CGI", &[(ours(PerlFork), ours(PerlCgi))], 6.0),
    perl("PerlRun faster than CGI", &[(ours(PerlRun), ours(PerlCgi))], 1.0),
    faultless("no failed request with 4, 50 and 300 clients", "perl-app", OURS),
    each("php-fpm ≥ 1.1 × nginx", "php-fpm", &[(ours(PhpFpm), under(PhpFpm, "nginx"))], 1.1),
    each("php-fpm ≥ 1.3 × Apache", "php-fpm", &[(ours(PhpFpm), under(PhpFpm, "apache-event"))], 1.3),
    each("connections kept: php-fpm ≥ 1.1 × nginx", "php-kept", &[(ours(PhpKept), under(PhpKept, "nginx"))], 1.1),
    faultless("php-fpm: no failed request with 4, 50 and 300 clients", "php-fpm", &[ours(PhpFpm), ours(PhpKept)]),
    Target {
        text: "one process, three times its load: p99 ≤ 1.05 × what queueing makes of it",
        rule: Rule::Queued {
            workload: "queue",
            subjects: &[ours(OneBackend), under(OneBackend, "tsubame-event")],
            factor: 1.05,
        },
    },
];

const OURS: &[Entry] = &[ours(PerlCgi), ours(PerlRun), ours(PerlFork), ours(Fcgid), ours(Speedy), ours(Registry)];
const MOD_PERL: Entry = under(Registry, "apache-prefork");

const fn ours(profile: Profile) -> Entry {
    under(profile, "tsubame-percore")
}

const fn perl(text: &'static str, pairs: &'static [(Entry, Entry)], factor: f64) -> Target {
    each(text, "perl-app", pairs, factor)
}

const fn each(text: &'static str, workload: &'static str, pairs: &'static [(Entry, Entry)], factor: f64) -> Target {
    Target { text, rule: Rule::Each { workload, pairs, figure: Load::per_cpu_second, factor } }
}

const fn faultless(text: &'static str, workload: &'static str, subjects: &'static [Entry]) -> Target {
    Target { text, rule: Rule::Faultless { workload, subjects, connections: &[4, 50, 300] } }
}

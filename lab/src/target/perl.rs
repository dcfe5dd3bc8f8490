//! What was promised of persistent Perl.

use super::{Rule, Target};
use crate::results::Load;
use crate::workload::Profile::{Fcgid, PerlCgi, PerlFork, PerlRun, Registry, Speedy};
use crate::workload::{Entry, under};

/// Every promise.
pub(crate) static TARGETS: [Target; 6] = [
    each("Registry ≥ 1.0 × Apache's mod_perl2", &[(ours(Registry), MOD_PERL)], 1.0),
    each("SpeedyCGI ≥ 1.0 × Apache's mod_perl2", &[(ours(Speedy), MOD_PERL)], 1.0),
    each("mod_fcgid ≥ 1.3 × Apache's", &[(ours(Fcgid), under(Fcgid, "apache-event"))], 1.3),
    each("perl-fork ≥ 6 × CGI", &[(ours(PerlFork), ours(PerlCgi))], 6.0),
    each("PerlRun faster than CGI", &[(ours(PerlRun), ours(PerlCgi))], 1.0),
    Target {
        text: "no failed request with 4, 50 and 300 clients",
        rule: Rule::Faultless { workload: "perl-app", subjects: OURS, connections: &[4, 50, 300] },
    },
];

const OURS: &[Entry] = &[ours(PerlCgi), ours(PerlRun), ours(PerlFork), ours(Fcgid), ours(Speedy), ours(Registry)];
const MOD_PERL: Entry = under(Registry, "apache-prefork");

const fn ours(profile: crate::workload::Profile) -> Entry {
    under(profile, "tsubame-percore")
}

const fn each(text: &'static str, pairs: &'static [(Entry, Entry)], factor: f64) -> Target {
    Target { text, rule: Rule::Each { workload: "perl-app", pairs, figure: Load::per_cpu_second, factor } }
}

//! What is configured and never used: certificates without TLS, filters that no module has.

use super::line::{Config, Line};
use crate::check::report::Report;
use server::module::finding::{Topic, Weight};

/// Finds certificates of hosts whose connections are not encrypted.
pub(super) fn certificates_without_engine(config: &Config<'_>, report: &mut Report) {
    for line in config.named("SSLCertificateFile") {
        // The main server's certificate may be meant for the hosts.
        if line.host().is_none() && config.server.hosts.len() > 1 {
            continue;
        }
        // Whatever the host's own line says is somebody's decision; the main server's `On` holds for hosts without one.
        let is_on = |engine: &Line<'_>| engine.words().first().is_some_and(|word| word.eq_ignore_ascii_case("on"));
        let is_decided = |engine: &Line<'_>| match engine.host() {
            None if line.host().is_some() => is_on(engine),
            host => host == line.host(),
        };
        if config.named("SSLEngine").any(is_decided) {
            continue;
        }
        let message = "Without SSLEngine On the certificate is not used, and connections are not encrypted.";
        report.add(line.finding(Weight::Loses, Topic::Certificate, message).instead("Write `SSLEngine On` above it"));
    }
}

/// Directives that name filters in their first word.
const FILTERS: [&str; 2] = ["SetOutputFilter", "AddOutputFilter"];

/// Filters of Apache's modules that Tsubame does not have.
const MISSING: [&str; 5] = ["proxy-html", "xml2enc", "CACHE", "BUCKETEER", "CASEFILTER"];

/// Finds filters that are passed over.
pub(super) fn unknown_filters(config: &Config<'_>, report: &mut Report) {
    for name in FILTERS {
        for line in config.named(name) {
            let words = line.words();
            let named = words.iter().take(1).flat_map(|word| word.split(';'));
            for filter in named.filter(|filter| MISSING.iter().any(|missing| missing.eq_ignore_ascii_case(filter))) {
                let message = format!("Tsubame does not have the filter {filter}: responses are sent without it.");
                report.add(line.finding(Weight::Loses, Topic::Handler, message).instead("Remove it"));
            }
        }
    }
}

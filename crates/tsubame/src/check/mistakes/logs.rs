//! Nicknames of log formats.

use std::collections::BTreeSet;

use super::line::Config;
use crate::check::report::Report;
use server::module::finding::{Topic, Weight};

/// Finds logs whose format is a word that no `LogFormat` defines: each of their lines is that word.
pub(super) fn unknown_nicknames(config: &Config<'_>, report: &mut Report) {
    let names =
        config.named("LogFormat").filter_map(|line| Some((line.host(), line.words().get(1)?.to_ascii_lowercase())));
    let names: Vec<_> = names.collect();
    for line in ["CustomLog", "GlobalLog"].into_iter().flat_map(|name| config.named(name)) {
        let Some(format) = line.words().get(1).cloned() else { continue };
        let lower = format.to_ascii_lowercase();
        let here = names.iter().filter(|(host, _)| host.is_none() || *host == line.host());
        let here: BTreeSet<&str> = here.map(|(_, name)| name.as_str()).collect();
        let is_condition = lower.starts_with("env=") || lower.starts_with("expr=");
        if here.contains(&*lower) || lower == "json" || is_condition || format.contains(['%', ' ', '\\', '{']) {
            continue;
        }
        let message = format!("No LogFormat has the nickname {format}: every line of this log is the word {format}.");
        let instead = match here.is_empty() {
            true => format!("Write `LogFormat \"%h %l %u %t \\\"%r\\\" %>s %b\" {format}`"),
            false => format!("Those that are defined here: {}", here.into_iter().collect::<Vec<_>>().join(", ")),
        };
        report.add(line.finding(Weight::Loses, Topic::Log, message).instead(instead));
    }
}

//! Numbers that are none: some directives take 0 for them, as in Apache.

use super::line::Config;
use crate::check::report::Report;
use server::module::finding::{Topic, Weight};

/// Directives that read the digits at the beginning of a word, and need none.
const NUMBERS: [&str; 20] = [
    "GracefulShutdownTimeout",
    "LimitRequestFields",
    "LimitRequestFieldSize",
    "LimitRequestLine",
    "LimitXMLRequestBody",
    "MaxConnectionsPerChild",
    "MaxKeepAliveRequests",
    "MaxMemFree",
    "MaxRequestWorkers",
    "MaxRequestsPerChild",
    "MaxClients",
    "MaxSpareServers",
    "MaxSpareThreads",
    "MinSpareServers",
    "MinSpareThreads",
    "SendBufferSize",
    "ServerLimit",
    "StartServers",
    "ThreadsPerChild",
    "Timeout",
];

/// Finds words that are not numbers.
pub(super) fn without_digits(config: &Config<'_>, report: &mut Report) {
    for line in config.lines.iter().filter(|line| NUMBERS.iter().any(|name| line.is(name))) {
        let Some(word) = line.words().into_iter().next().filter(|word| !word.contains("${")) else { continue };
        let digits = word.strip_prefix(['-', '+']).unwrap_or(&word);
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        if count == digits.len() && count > 0 {
            continue;
        }
        let counts = if count == 0 { "0" } else { &word[..word.len() - digits.len() + count] };
        let message = format!("{word} is not a number: it counts as {counts}, as in Apache.");
        report.add(line.finding(Weight::Loses, Topic::Warning, message).instead("Write the number in digits alone"));
    }
}

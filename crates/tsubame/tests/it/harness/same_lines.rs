//! Log lines of both servers for the same requests: each connection's lines of the access log and of the error log.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::harness::oracle::placeless;
use crate::harness::site::Site;
use crate::harness::wait::until;

/// Formats whose values depend neither on the place nor on the time. The number of received bytes is not among them:
/// bytes read ahead count here for the request that they belong to, in Apache for the one that was being read.
pub const FORMATS: [&str; 18] = [
    "%a",
    "%l",
    "%u",
    "%m",
    "%r",
    "%U",
    "%q",
    "%s",
    "%>s",
    "%b",
    "%H",
    "%k",
    "%X",
    "%f",
    "%v",
    "%R",
    "%{Content-Type}o",
    "%{Location}o",
];

/// Formats without a comparable value if the request's first lines were refused: docs/differences.md.
const OF_NO_REQUEST: [&str; 6] = ["%m", "%r", "%U", "%q", "%H", "%f"];

/// Whether both servers log this of a request with this answer.
pub fn is_comparable(format: &str, status: u16) -> bool {
    !OF_NO_REQUEST.contains(&format) || !matches!(status, 400 | 414 | 417 | 431 | 501 | 505)
}

/// Lines after a configuration: [`FORMATS`] preceded by the client's port and the time when the request began.
pub fn logged() -> String {
    let formats = FORMATS.join("\\t");
    format!("LogFormat \"%{{remote}}p\\t%{{usec}}t\\t{formats}\" compared\nCustomLog logs/compared_log compared\n")
}

/// The lines about one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// A line as its fields.
    pub access: Vec<Vec<String>>,
    pub error: Vec<String>,
}

/// The lines about connections, by the ports of the clients, once there is one in the access log for each of so many answers.
///
/// For a client that mod_remoteip names both servers log the port 0. These lines belong to the connections that miss
/// some, by the time: the connections follow one another, but their children write when they like.
pub fn about(site: &Site, answers: &[(SocketAddr, usize)]) -> Vec<Lines> {
    let all = || -> Option<Vec<Lines>> {
        let (mut access, error) =
            (by_port(site, "logs/compared_log", accessed), by_port(site, "logs/error_log", failed));
        let mut portless = access.remove(&0).unwrap_or_default();
        // Each begins with the time, whose digits do not change in number.
        portless.sort();
        let mut portless = portless.into_iter();
        let lines = |(client, count): &(SocketAddr, usize)| {
            let mut own = access.remove(&client.port()).unwrap_or_default();
            own.extend(portless.by_ref().take(count.saturating_sub(own.len())));
            let lines = Lines {
                access: own.iter().map(|line| fields(line)).collect(),
                error: error.get(&client.port()).cloned().unwrap_or_default(),
            };
            (own.len() >= *count).then_some(lines)
        };
        answers.iter().map(lines).collect()
    };
    until("a line in the access log for each answer", all)
}

fn by_port(site: &Site, file: &str, parse: fn(&str) -> Option<(u16, String)>) -> BTreeMap<u16, Vec<String>> {
    let mut found: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for (port, line) in site.read_lines(file).lines().filter_map(parse) {
        found.entry(port).or_default().push(placeless(&line, site));
    }
    found
}

fn accessed(line: &str) -> Option<(u16, String)> {
    let (port, rest) = line.split_once('\t')?;
    Some((port.parse().ok()?, rest.into()))
}

/// The fields behind the time. Nothing and an empty value look the same to a reader.
fn fields(line: &str) -> Vec<String> {
    line.split('\t').skip(1).map(|field| if field.is_empty() { "-" } else { field }.to_string()).collect()
}

/// `[time] [module:level] [pid 1:tid 2] text [client 127.0.0.1:PORT] text`, without time and process.
fn failed(line: &str) -> Option<(u16, String)> {
    let (head, text) = line.split_once("[client ")?;
    let (client, text) = text.split_once("] ")?;
    let level = head.split("] [").nth(1)?;
    let before = head.rsplit_once("] ").map_or("", |(_, before)| before);
    Some((client.rsplit_once(':')?.1.parse().ok()?, format!("[{level}] {before}{text}")))
}

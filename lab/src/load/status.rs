//! A server's status page for programs: `?auto` of Apache and Tsubame, `stub_status` of nginx.

use std::time::Duration;

use serde::Serialize;

use crate::load::client::Connector;
use crate::load::tls::Tls;
use crate::load::url::Url;
use crate::machine::error::{Error, Result};

/// The content of the page at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Status {
    /// The multi-processing module, in lower case; `nginx` for nginx.
    pub(crate) mpm: String,
    /// The server's own version text; `None` for nginx.
    pub(crate) version: Option<String>,
    /// Workers that serve a request, including the one for the page; connections of nginx.
    pub(crate) busy: u64,
    /// Idle workers; 0 for nginx.
    pub(crate) idle: u64,
    /// Whether there is no room for another worker.
    pub(crate) is_full: bool,
    /// A letter for each worker slot; empty for nginx.
    pub(crate) scoreboard: String,
    /// Since the server started, if the page shows them: requests, bytes sent, and total milliseconds.
    pub(crate) requests: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) milliseconds: Option<u64>,
    /// Seconds since the server started.
    pub(crate) uptime: Option<u64>,
    /// Connections by state, if the page shows them.
    pub(crate) connections: Vec<(&'static str, u64)>,
}

/// The page for a URL: for the whole server it is `/server-status`, and pages for people have a variant for programs.
///
/// # Errors
/// The text is no URL.
pub(crate) fn page(url: &str) -> Result<Url> {
    let mut url = Url::parse(url)?;
    if url.path == "/" {
        url.path = "/server-status".to_owned();
    }
    if !url.path.contains('?') {
        url.path.push_str("?auto");
    }
    Ok(url)
}

/// The current status. Connecting, and each wait for bytes, may take as long as `patience`.
///
/// # Errors
/// The server does not answer, or has no such page.
pub(crate) fn fetch(url: &Url, patience: Duration) -> Result<Status> {
    parse(&text(url, patience, "switch the status page on, and give its address with --url (--help shows how)")?)
}

/// The text of a page, with the same patience. `remedy`: what to do if there is no such page.
///
/// # Errors
/// The server does not answer, or has no such page.
pub(crate) fn text(url: &Url, patience: Duration, remedy: &str) -> Result<String> {
    let connector = Connector { patience, ..Connector::default() };
    let tls = url.is_secure.then(|| Tls::to(&url.host).client()).transpose()?;
    let opened = connector.open_with(url.resolve(false)?, tls.as_ref());
    let connection = opened.map_err(|error| error.advise("start the server, or give its address with --url"))?;
    let response = connection.with_host(url.authority()).fetch(url.path.trim_start_matches('/'))?;
    let remedy = match response.status {
        200 => return Ok(String::from_utf8_lossy(&response.body).into_owned()),
        403 => "permit this address to see the page: `Require local`, or `Require ip`, in its <Location>",
        _ => remedy,
    };
    let text = format!("{}://{}{} answers {}", url.scheme(), url.authority(), url.path, response.status);
    Err(Error::new(text).advise(remedy))
}

/// The pages' names for connection states, and ours.
const CONNECTIONS: [(&str, &str); 5] = [
    ("ConnsTotal", "all"),
    ("ConnsAsyncWaitIO", "waiting"),
    ("ConnsAsyncWriting", "writing"),
    ("ConnsAsyncKeepAlive", "keep-alive"),
    ("ConnsAsyncClosing", "closing"),
];

/// Parses either page.
///
/// # Errors
/// The text is neither.
pub(crate) fn parse(text: &str) -> Result<Status> {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| *key == name).map(|(_, value)| value.trim())
    };
    let number = |name: &str| value(name)?.parse::<u64>().ok();
    if let Some(active) = number("Active connections") {
        return Ok(nginx(active, text));
    }
    let workers = value("ServerMPM").zip(number("BusyWorkers")).zip(number("IdleWorkers"));
    let ((mpm, busy), idle) = workers.ok_or_else(|| {
        Error::new("the page is not a status page for programs").advise(
            "the address of `SetHandler server-status` (Apache 2.4, Tsubame) or of `stub_status` (nginx), with --url",
        )
    })?;
    let scoreboard = value("Scoreboard").unwrap_or_default().to_owned();
    Ok(Status {
        mpm: mpm.to_ascii_lowercase(),
        version: value("ServerVersion").map(str::to_owned),
        busy,
        idle,
        is_full: !scoreboard.is_empty() && !scoreboard.contains(['.', '_']),
        scoreboard,
        requests: number("Total Accesses"),
        bytes: number("Total kBytes").map(|kilobytes| kilobytes * 1024),
        milliseconds: number("Total Duration"),
        uptime: number("ServerUptimeSeconds"),
        connections: CONNECTIONS.iter().filter_map(|(key, name)| Some((*name, number(key)?))).collect(),
    })
}

/// `stub_status` shows all its numbers in four lines of words.
fn nginx(active: u64, text: &str) -> Status {
    let mut lines = text.lines().skip_while(|line| !line.contains("requests")).skip(1);
    let counted = lines.next().unwrap_or_default().split_ascii_whitespace().nth(2);
    let words: Vec<&str> = lines.next().unwrap_or_default().split_ascii_whitespace().collect();
    let state = |name: &str| words.iter().skip_while(|word| **word != name).nth(1)?.parse().ok();
    let states = [("Reading:", "reading"), ("Writing:", "writing"), ("Waiting:", "keep-alive")];
    let states = states.into_iter().filter_map(|(key, name)| Some((name, state(key)?)));
    Status {
        mpm: "nginx".to_owned(),
        busy: active,
        requests: counted.and_then(|count| count.parse().ok()),
        connections: std::iter::once(("all", active)).chain(states).collect(),
        ..Status::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_pages_are_read() {
        let apache = |board: &str| {
            let text = format!(
                "localhost\nServerVersion: Apache/2.4.71 (Unix)\nServerMPM: event\nServerUptimeSeconds: 9\nTotal Accesses: 12\n\
                 Total kBytes: 3\nTotal Duration: 40\nBusyWorkers: 3\nIdleWorkers: 1\nConnsTotal: 5\nConnsAsyncClosing: 2\n\
                 Scoreboard: {board}\n"
            );
            parse(&text).unwrap()
        };
        let expected = Status {
            mpm: "event".into(),
            version: Some("Apache/2.4.71 (Unix)".into()),
            busy: 3,
            idle: 1,
            is_full: false,
            scoreboard: "WWW_".into(),
            requests: Some(12),
            bytes: Some(3072),
            milliseconds: Some(40),
            uptime: Some(9),
            connections: vec![("all", 5), ("closing", 2)],
        };
        assert_eq!(apache("WWW_"), expected);
        assert_eq!([apache("WWW.").is_full, apache("WWWG").is_full], [false, true]);
        let nginx = "Active connections: 291 \nserver accepts handled requests\n 9 9 31070465 \nReading: 6 Writing: 179 Waiting: 106 \n";
        let expected = Status {
            mpm: "nginx".into(),
            busy: 291,
            requests: Some(31_070_465),
            connections: vec![("all", 291), ("reading", 6), ("writing", 179), ("keep-alive", 106)],
            ..Status::default()
        };
        assert_eq!(parse(nginx).unwrap(), expected);
        assert!(parse("<html>").unwrap_err().to_string().contains("SetHandler server-status"));
    }

    #[test]
    fn a_server_has_a_page() {
        let path = |url| page(url).unwrap().path;
        assert_eq!(path("localhost"), "/server-status?auto");
        assert_eq!(path("localhost/status"), "/status?auto");
        assert_eq!(path("localhost/status?auto"), "/status?auto");
    }
}

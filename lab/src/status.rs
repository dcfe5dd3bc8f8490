//! A server's status page for programs: `?auto` of Apache and Tsubame, `stub_status` of nginx.

use crate::error::{Error, Result};

/// What the page says of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// The multi-processing module, in lower case; `nginx` for nginx.
    pub(crate) mpm: String,
    /// Workers that serve a request, the page's own included; connections of nginx.
    pub(crate) busy: u64,
    /// Workers that wait for one; none of nginx.
    pub(crate) idle: u64,
    /// Whether no place is left for another worker.
    pub(crate) is_full: bool,
}

/// Reads either page.
///
/// # Errors
/// It is neither.
pub(crate) fn parse(text: &str) -> Result<Status> {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| *key == name).map(|(_, value)| value.trim())
    };
    let number = |name: &str| value(name)?.parse::<u64>().ok();
    if let Some(active) = number("Active connections") {
        return Ok(Status { mpm: "nginx".to_owned(), busy: active, idle: 0, is_full: false });
    }
    let workers = value("ServerMPM").zip(number("BusyWorkers")).zip(number("IdleWorkers"));
    let ((mpm, busy), idle) = workers.ok_or_else(|| {
        Error::new("the page is no status page for programs").advise(
            "the address of `SetHandler server-status` (Apache 2.4, Tsubame) or of `stub_status` (nginx), with --url",
        )
    })?;
    let board = value("Scoreboard").unwrap_or(".");
    Ok(Status { mpm: mpm.to_ascii_lowercase(), busy, idle, is_full: !board.contains(['.', '_']) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_pages_are_read() {
        let apache = |board: &str| {
            let text = format!("localhost\nServerMPM: event\nBusyWorkers: 3\nIdleWorkers: 1\nScoreboard: {board}\n");
            parse(&text).unwrap()
        };
        let expected = Status { mpm: "event".into(), busy: 3, idle: 1, is_full: false };
        assert_eq!([apache("WWW_"), apache("WWW.")], [expected.clone(), expected.clone()]);
        assert_eq!(apache("WWWG"), Status { is_full: true, ..expected });
        let nginx = "Active connections: 291 \nserver accepts handled requests\n 9 9 9 \nReading: 6 Writing: 179 Waiting: 106 \n";
        assert_eq!(parse(nginx).unwrap(), Status { mpm: "nginx".into(), busy: 291, idle: 0, is_full: false });
        assert!(parse("<html>").unwrap_err().to_string().contains("SetHandler server-status"));
    }
}

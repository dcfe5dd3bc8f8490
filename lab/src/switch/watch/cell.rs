//! What is counted of the requests of a family in each window.

use std::collections::BTreeMap;

use super::statistics::{Moments, Share};
use super::windows::DAYS_MAX;

/// From here on a request is slow, in microseconds: a person notices.
const SLOW: f64 = 1e6;

/// What is kept of an example's line, in bytes.
const EXAMPLE: usize = 400;

/// What a line says of its request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line<'l> {
    pub(super) status: Option<u16>,
    /// Bytes of the response, if its status is 200.
    pub(super) size: Option<u64>,
    /// Microseconds.
    pub(super) duration: Option<f64>,
    /// A hash of the client's address.
    pub(super) client: Option<u64>,
    pub(super) host: &'l str,
    pub(super) target: &'l [u8],
    pub(super) is_encrypted: bool,
    pub(super) text: &'l [u8],
    /// The number of its file, and its own.
    pub(super) place: (usize, u64),
}

/// An example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Example {
    pub(super) url: String,
    /// The line itself, without control characters.
    pub(super) text: String,
    /// The number of the file, and that of the line.
    pub(super) place: (usize, u64),
}

impl Example {
    fn of(line: &Line<'_>) -> Self {
        let scheme = if line.is_encrypted { "https" } else { "http" };
        let host = if line.host.is_empty() { "localhost" } else { line.host };
        let target: String = line.target.iter().take(EXAMPLE).map(|byte| escaped(*byte)).collect();
        // A target in absolute form has its own host.
        let url = if target.starts_with('/') { format!("{scheme}://{host}{target}") } else { target };
        let text = String::from_utf8_lossy(&line.text[..line.text.len().min(EXAMPLE)]);
        Self { url, text: text.replace(char::is_control, "?"), place: line.place }
    }
}

/// A byte as it may stand in a URL.
fn escaped(byte: u8) -> String {
    match byte.is_ascii_graphic() && byte != b'\'' {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    }
}

/// About how many clients there are, in one word: a bit for each of 64 parts of all addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clients(u64);

impl Clients {
    fn add(&mut self, client: Option<u64>) {
        self.0 |= client.map_or(0, |client| 1 << (client % 64));
    }

    /// Whether all requests can be of one client.
    pub(super) fn is_one(self) -> bool {
        self.0.count_ones() == 1
    }
}

/// The requests of one window.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub(super) requests: u64,
    /// Those that took a second or more.
    slow: u64,
    /// Logarithms of bytes.
    pub(super) sizes: Moments,
    /// Logarithms of microseconds.
    pub(super) durations: Moments,
    /// Few of them occur, in no order.
    statuses: Vec<(u16, u64)>,
}

impl Cell {
    fn add(&mut self, line: &Line<'_>) {
        self.requests += 1;
        line.status.into_iter().for_each(|status| self.count(status, 1));
        line.size.into_iter().for_each(|size| self.sizes.add((size as f64).ln_1p()));
        if let Some(duration) = line.duration {
            self.durations.add(duration.ln_1p());
            self.slow += u64::from(duration >= SLOW);
        }
    }

    fn count(&mut self, status: u16, times: u64) {
        match self.statuses.iter_mut().find(|(known, _)| *known == status) {
            Some((_, count)) => *count += times,
            None => self.statuses.push((status, times)),
        }
    }

    fn join(&mut self, other: &Self) {
        self.requests += other.requests;
        self.slow += other.slow;
        self.sizes = self.sizes.and(other.sizes);
        self.durations = self.durations.and(other.durations);
        other.statuses.iter().for_each(|(status, times)| self.count(*status, *times));
    }

    /// The share of the requests whose status is one of these.
    pub(super) fn share(&self, is_one: impl Fn(u16) -> bool) -> Share {
        let part = self.statuses.iter().filter(|(status, _)| is_one(*status)).map(|(_, count)| count).sum();
        Share { part, all: self.requests }
    }

    /// The share of the slow ones.
    pub(super) fn slow(&self) -> Share {
        Share { part: self.slow, all: self.durations.number }
    }
}

/// The requests of all windows.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// By the number of the window; the last may be missing.
    cells: Vec<Cell>,
    /// The first line since the switch of each status, and who asks for it.
    after: BTreeMap<u16, (Example, Clients)>,
    /// The first line at all.
    first: Option<Example>,
    /// Who asks since the switch.
    pub(super) clients: Clients,
}

/// A window without requests.
const EMPTY: &Cell =
    &Cell { requests: 0, slow: 0, sizes: Moments::NONE, durations: Moments::NONE, statuses: Vec::new() };

impl Counts {
    /// Adds a line of a window.
    pub(super) fn add(&mut self, window: usize, line: &Line<'_>) {
        let window = window.min(DAYS_MAX);
        if self.cells.len() <= window {
            self.cells.resize_with(window + 1, Cell::default);
        }
        self.cells[window].add(line);
        self.first.get_or_insert_with(|| Example::of(line));
        if window == 0 {
            let status = line.status.unwrap_or_default();
            let (_, clients) = self.after.entry(status).or_insert_with(|| (Example::of(line), Clients::default()));
            clients.add(line.client);
            self.clients.add(line.client);
        }
    }

    /// Adds what another family has.
    pub(super) fn join(&mut self, other: Self) {
        if self.cells.len() < other.cells.len() {
            self.cells.resize_with(other.cells.len(), Cell::default);
        }
        self.cells.iter_mut().zip(&other.cells).for_each(|(cell, other)| cell.join(other));
        for (status, (example, clients)) in other.after {
            let known = self.after.entry(status).or_insert_with(|| (example, Clients::default()));
            known.1.0 |= clients.0;
        }
        self.first = self.first.take().or(other.first);
        self.clients.0 |= other.clients.0;
    }

    /// A window.
    pub(super) fn cell(&self, window: usize) -> &Cell {
        self.cells.get(window).unwrap_or(EMPTY)
    }

    /// How many requests there are in these windows together.
    pub(super) fn requests(&self, windows: &[usize]) -> u64 {
        windows.iter().map(|window| self.cell(*window).requests).sum()
    }

    /// All statuses of these windows, in order.
    pub(super) fn statuses(&self, windows: &[usize]) -> Vec<u16> {
        let cells = windows.iter().map(|window| self.cell(*window));
        let mut all: Vec<u16> = cells.flat_map(|cell| cell.statuses.iter().map(|(status, _)| *status)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// An example since the switch with one of these statuses, and all clients who get such; otherwise any line.
    pub(super) fn example(&self, is_one: impl Fn(u16) -> bool) -> (Option<&Example>, Clients) {
        let mut found = self.after.iter().filter(|(status, _)| is_one(**status)).map(|(_, value)| value);
        let clients = Clients(found.clone().fold(0, |bits, (_, clients)| bits | clients.0));
        (found.next().map(|(example, _)| example).or(self.first.as_ref()), clients)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_joined() {
        let line = |status, size, client| Line {
            status: Some(status),
            size: Some(size),
            duration: Some(2e6),
            client: Some(client),
            target: b"/a'b\xff",
            text: b"a\x1b[31m",
            ..Line::default()
        };
        let (mut one, mut other) = (Counts::default(), Counts::default());
        one.add(0, &line(200, 10, 1));
        one.add(3, &line(404, 10, 2));
        other.add(0, &line(500, 10, 3));
        other.add(5, &line(404, 10, 2));
        one.join(other);
        assert_eq!((one.requests(&[0, 3, 5]), one.requests(&[1, 3, 99])), (4, 1));
        assert_eq!((one.statuses(&[0]), one.statuses(&[3, 5])), (vec![200, 500], vec![404]));
        assert_eq!(one.cell(0).share(|status| status >= 500), Share { part: 1, all: 2 });
        assert_eq!(one.cell(0).slow(), Share { part: 2, all: 2 });
        let (example, clients) = one.example(|status| status == 500);
        assert!(clients.is_one() && !one.clients.is_one());
        let example = example.expect("an example");
        assert_eq!((example.url.as_str(), example.text.as_str()), ("http://localhost/a%27b%FF", "a?[31m"));
    }
}

//! `tsubame-lab top --fleet`: several servers in one table, a row for each.
//!
//! A thread for each server asks for its metrics, so that one that does not answer slows nobody down.

mod metrics;
mod node;

use std::io::IsTerminal as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::widgets::Paragraph;
use serde::Serialize;

use super::exit;
use super::observer::{rhythm, spawn};
use crate::load::status;
use crate::load::url::Url;
use crate::machine::error::{Context as _, Error, Result};
use crate::machine::interrupt;
use crate::screen::table::Table;
use metrics::Reading;
use node::{HEADERS, Node, Row};

/// How long a server may take to tell its metrics. After that it is asked again.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long keys and signals may wait.
const ATTENTION: Duration = Duration::from_millis(100);

/// What a thread has seen of the server with this number.
struct Seen {
    number: usize,
    at: Instant,
    reading: std::result::Result<Reading, String>,
}

/// One snapshot for programs.
#[derive(Serialize)]
struct Snapshot {
    /// The time over which rates were measured.
    seconds: f64,
    nodes: Vec<Row>,
}

/// Watches these servers, each with its metrics at `/metrics` or at the path of its URL.
pub(super) fn run(hosts: &[String], interval: Duration, is_once: bool, is_json: bool) -> Result<()> {
    let urls = hosts.iter().map(|host| page(host)).collect::<Result<Vec<Url>>>()?;
    let mut nodes: Vec<Node> = hosts.iter().map(|host| Node::new(host)).collect();
    let seen = watch(urls, interval)?;
    if is_once || is_json || !std::io::stdout().is_terminal() {
        once(&mut nodes, &seen, interval)?;
        let rows = nodes.iter().map(Node::row);
        match is_json {
            true => {
                let snapshot = Snapshot { seconds: interval.as_secs_f64(), nodes: rows.collect() };
                let text = serde_json::to_string(&snapshot).context(|| "write what was seen as JSON".to_owned())?;
                say_line!("{text}");
            }
            false => say!("{}", table(rows)),
        }
        return Ok(());
    }
    exit::end_with_terminal()?;
    let mut terminal = ratatui::try_init().context(|| "use this terminal".to_owned())?;
    let outcome = show(&mut terminal, &mut nodes, &seen);
    ratatui::restore();
    outcome
}

/// The metrics of a host.
fn page(host: &str) -> Result<Url> {
    let mut url = Url::parse(host)?;
    if url.path == "/" {
        url.path = "/metrics".to_owned();
    }
    Ok(url)
}

/// Starts a thread for each server.
fn watch(urls: Vec<Url>, interval: Duration) -> Result<Receiver<Seen>> {
    let (sender, seen) = channel();
    for (number, url) in urls.into_iter().enumerate() {
        let look = move |sender: Sender<Seen>| {
            let look = || {
                let text = status::text(&url, PATIENCE, "switch `SetHandler metrics` on, and give its address");
                let reading = text.map_err(|error| error.to_string()).and_then(|text| metrics::parse(&text));
                sender.send(Seen { number, at: Instant::now(), reading }).is_ok()
            };
            look();
            rhythm(interval, interval, look);
        };
        spawn(sender.clone(), look)?;
    }
    Ok(seen)
}

/// Waits until each server was seen twice, or in vain.
fn once(nodes: &mut [Node], seen: &Receiver<Seen>, interval: Duration) -> Result<()> {
    let end = Instant::now() + interval + 2 * PATIENCE;
    while !nodes.iter().all(Node::is_known) && Instant::now() < end {
        interrupt::check()?;
        take(nodes, seen)?;
    }
    Ok(())
}

/// Takes what comes within a moment. Returns whether there was anything.
fn take(nodes: &mut [Node], seen: &Receiver<Seen>) -> Result<bool> {
    match seen.recv_timeout(ATTENTION) {
        Ok(Seen { number, at, reading }) => nodes[number].see(at, reading),
        Err(RecvTimeoutError::Timeout) => return Ok(false),
        Err(RecvTimeoutError::Disconnected) => return Err(Error::new("the threads that look have ended")),
    }
    Ok(true)
}

/// The table, and below it why nodes do not answer.
fn table(rows: impl Iterator<Item = Row>) -> String {
    let (mut table, mut problems) = (Table::new(2, &HEADERS), String::new());
    for row in rows {
        table.push(row.cells());
        problems.extend(row.problem().map(|why| format!("! {why}\n")));
    }
    table.to_text() + &problems
}

/// Draws until the user quits.
fn show(terminal: &mut ratatui::DefaultTerminal, nodes: &mut [Node], seen: &Receiver<Seen>) -> Result<()> {
    let mut is_new = true;
    while !interrupt::is_asked() {
        if std::mem::take(&mut is_new) {
            let text = format!("{}\nq quits", table(nodes.iter().map(Node::row)));
            terminal
                .draw(|frame| frame.render_widget(Paragraph::new(text), frame.area()))
                .context(|| "draw".to_owned())?;
        }
        while event::poll(Duration::ZERO).context(|| "wait for a key".to_owned())? {
            is_new = true;
            match event::read().context(|| "read a key".to_owned())? {
                Event::Key(key) if key.kind == KeyEventKind::Press && quits(key) => return Ok(()),
                _ => {}
            }
        }
        is_new |= take(nodes, seen)?;
    }
    Ok(())
}

fn quits(key: KeyEvent) -> bool {
    let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

//! `tsubame-lab top`: a server and its machine in a terminal, with the latency of its load.
//!
//! Two threads observe, [`sample`] /proc and [`crate::load::status`] the server's page, so that a slow page delays
//! nothing; [`state`] keeps the observations, [`draw`] draws them.

mod draw;
mod plain;
mod sample;
mod server;
mod state;

use std::io::IsTerminal as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::load::status::{self, Status};
use crate::load::url::Url;
use crate::machine::duration::duration;
use crate::machine::error::{Context as _, Error, Result};
use crate::machine::interrupt;
use crate::screen::style;
use crate::watch::observer::{rhythm, spawn};
use crate::watch::{exit, fleet};
use sample::{Sample, Sampler};
use state::State;

/// The options of `top`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopOptions {
    /// The server, or its status page: Apache's or Tsubame's `server-status`, nginx's `stub_status`
    #[arg(long, value_name = "URL", default_value = "http://localhost/server-status")]
    url: String,

    /// Several servers of Tsubame in one table instead, each with its metrics at /metrics or at the path of its URL
    #[arg(long, value_name = "HOST", num_args = 1.., conflicts_with = "url")]
    fleet: Vec<String>,

    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,

    /// Print one snapshot, taken over one interval, and exit; the default if the output is no terminal
    #[arg(long)]
    once: bool,

    /// Print the snapshot as one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tsubame-lab top                                          the server at port 80
  tsubame-lab top --url localhost:8080                     its page is /server-status
  tsubame-lab top --url localhost/nginx_status --interval 2s
  tsubame-lab top --once | head -20                        a snapshot for a report
  tsubame-lab top --json | jq '.machine.all, .page.traffic'
  tsubame-lab top --fleet one two three:8080               a row for each of these servers
  tsubame-lab top --json --fleet one two | jq '.nodes[] | {node, requests, p99_ms}'

Keys: q quits, p pauses, s sorts by the next column, ? shows what letters and bars mean.
Run it as root to see the memory of the server's processes. Your running loads show up by themselves.
To switch the status page on: `<Location /server-status> SetHandler server-status` in Apache and
Tsubame, `location = /server-status { stub_status; }` in nginx.";

/// How long a status page may take. After that it is requested again.
const PATIENCE: Duration = Duration::from_secs(2);

/// The first picture covers this short time.
const FIRST: Duration = Duration::from_millis(300);

/// How long keys and signals may wait.
const ATTENTION: Duration = Duration::from_millis(100);

fn interval(text: &str) -> std::result::Result<Duration, String> {
    let time = duration(text)?;
    let is_possible = (Duration::from_millis(100)..=Duration::from_secs(60)).contains(&time);
    is_possible.then_some(time).ok_or_else(|| "an interval is from 100ms to 60s".into())
}

/// The reports of the observing threads.
enum Observation {
    Machine(Box<Sample>),
    Page(Instant, std::result::Result<Status, String>),
    /// /proc cannot be read any more.
    Nothing(Error),
}

/// Runs `tsubame-lab top`.
pub(crate) fn run(options: &TopOptions) -> Result<()> {
    interrupt::catch()?;
    if !options.fleet.is_empty() {
        return fleet::run(&options.fleet, options.interval, options.once, options.json);
    }
    let url = status::page(&options.url)?;
    let is_once = options.once || options.json || !std::io::stdout().is_terminal();
    let name = format!("{}://{}{}", url.scheme(), url.authority(), url.path);
    let mut state = State::new(name, options.interval, style::is_wanted(&std::io::stdout()) && !is_once);
    let seen = watch(&url, options.interval, if is_once { options.interval } else { FIRST.min(options.interval) })?;
    if is_once {
        once(&mut state, &seen)?;
        match options.json {
            true => say_line!("{}", plain::json(&state)?),
            false => say!("{}", plain::text(&state)),
        }
        return Ok(());
    }
    exit::end_with_terminal()?;
    let mut terminal = ratatui::try_init().context(|| "use this terminal".to_owned())?;
    let outcome = show(&mut terminal, &mut state, &seen);
    ratatui::restore();
    outcome
}

/// Starts the observing threads: the first for the machine, after `first` and then each `interval`; the second for the
/// page in the same way.
fn watch(url: &Url, interval: Duration, first: Duration) -> Result<Receiver<Observation>> {
    let (sender, seen) = channel();
    let mut sampler = Sampler::new(url.clone())?;
    let machine = move |sender: Sender<Observation>| {
        let mut take =
            || sampler.take().map_or_else(Observation::Nothing, |sample| Observation::Machine(Box::new(sample)));
        // This sample covers all the time since the machine started.
        take();
        rhythm(interval, first, || sender.send(take()).is_ok());
    };
    let url = url.clone();
    let page = move |sender: Sender<Observation>| {
        let look = || {
            let look = status::fetch(&url, PATIENCE).map_err(|error| error.to_string());
            sender.send(Observation::Page(Instant::now(), look)).is_ok()
        };
        look();
        rhythm(interval, first, look);
    };
    spawn(sender.clone(), machine)?;
    spawn(sender, page)?;
    Ok(seen)
}

/// Waits until everything was observed once, and the page twice, or in vain.
fn once(state: &mut State, seen: &Receiver<Observation>) -> Result<()> {
    let end = Instant::now() + state.interval + 2 * PATIENCE;
    let (mut machine, mut looks) = (0, 0);
    while machine < 1 || (looks < 2 && state.page.problem.is_none()) {
        interrupt::check()?;
        match seen.recv_timeout(ATTENTION) {
            Ok(Observation::Machine(_)) if machine > 0 => {}
            Ok(one) => {
                machine += usize::from(matches!(one, Observation::Machine(_)));
                looks += usize::from(matches!(one, Observation::Page(..)));
                take(state, one)?;
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < end => {}
            Err(_) => break,
        }
    }
    Ok(())
}

fn take(state: &mut State, seen: Observation) -> Result<()> {
    match seen {
        Observation::Machine(sample) => state.see(*sample),
        Observation::Page(at, look) => state.page.take(at, look),
        Observation::Nothing(error) => return Err(error),
    }
    Ok(())
}

/// Draws new observations until the user quits.
fn show(terminal: &mut ratatui::DefaultTerminal, state: &mut State, seen: &Receiver<Observation>) -> Result<()> {
    let mut is_new = true;
    while !interrupt::is_asked() {
        if std::mem::take(&mut is_new) {
            terminal.draw(|frame| draw::picture(frame, state)).context(|| "draw".to_owned())?;
        }
        if event::poll(ATTENTION).context(|| "wait for a key".to_owned())? {
            is_new = true;
            match event::read().context(|| "read a key".to_owned())? {
                Event::Key(key) if key.kind == KeyEventKind::Press && !obey(state, key) => return Ok(()),
                _ => {}
            }
        }
        loop {
            match seen.try_recv() {
                // Input during a pause is not kept: a pause ends with the current state.
                Ok(_) if state.is_paused => {}
                Ok(one) => {
                    take(state, one)?;
                    is_new = true;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(Error::new("the threads that look have ended")),
            }
        }
    }
    Ok(())
}

/// Handles a key. Returns whether to continue.
fn obey(state: &mut State, key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Esc if state.shows_help => state.shows_help = false,
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('p' | ' ') => state.is_paused = !state.is_paused,
        KeyCode::Char('s') => state.order = state.order.next(),
        KeyCode::Char('?' | 'h') => state.shows_help = !state.shows_help,
        _ => {}
    }
    true
}

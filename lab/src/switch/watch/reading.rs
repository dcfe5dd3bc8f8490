//! Reads the logs in one pass, and counts what lies in the windows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::cell::Line;
use super::families::{Families, Family};
use super::windows::{DAYS_MAX, Days, Windows};
use crate::machine::error::{Error, Result};
use crate::switch::endpoints::HTTPS;
use crate::switch::log::{Entry, Log, read_logs};
use crate::switch::sites::Sites;

/// The most names of methods that are told apart; clients may invent them.
const METHODS_MAX: usize = 32;

/// What is kept of a method's name, in bytes.
const METHOD: usize = 20;

/// The most hosts whose sites are remembered.
const HOSTS_MAX: usize = 10_000;

/// Everything that was counted.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) families: Vec<Family>,
    /// Requests of each method in each window.
    pub(super) methods: BTreeMap<String, Vec<u64>>,
    /// Statuses and methods of all lines before the switch, at any time of the day.
    pub(super) statuses_before: BTreeSet<u16>,
    pub(super) methods_before: BTreeSet<String>,
    pub(super) days: Days,
    /// The last moment of the logs, if they end long before the window after does.
    pub(super) ends_early: Option<i64>,
    /// All files, in the order of their numbers.
    pub(super) files: Vec<PathBuf>,
    /// Lines that could be read.
    pub(super) lines: u64,
    /// Whether durations are finer than a second; none if there are none.
    pub(super) has_fine_durations: Option<bool>,
    pub(super) notes: Vec<String>,
}

/// What was read so far.
#[derive(Debug)]
pub(super) struct Reader<'r> {
    windows: &'r Windows,
    sites: Option<&'r Sites>,
    families: Families,
    /// The name of the site for the number of a log's own site and a host, and whether it speaks TLS.
    hosts: HashMap<(usize, Option<u16>, String), (String, bool)>,
    /// The first moment of all lines, and the last one.
    times: Option<(i64, i64)>,
    /// How many requests each window has.
    requests: [u64; DAYS_MAX + 1],
    read: Read,
}

/// What the lines of one log have.
#[derive(Clone, Copy, Debug, Default)]
struct Has {
    lines: u64,
    times: u64,
    statuses: u64,
}

impl<'r> Reader<'r> {
    /// Nothing was read yet. Without sites, hosts are those of the lines.
    pub(super) fn new(windows: &'r Windows, sites: Option<&'r Sites>) -> Self {
        let read = Read {
            families: Vec::new(),
            methods: BTreeMap::new(),
            statuses_before: BTreeSet::new(),
            methods_before: BTreeSet::new(),
            days: Days { numbers: Vec::new(), is_same_weekday: false },
            ends_early: None,
            files: Vec::new(),
            lines: 0,
            has_fine_durations: None,
            notes: Vec::new(),
        };
        Self {
            windows,
            sites,
            families: Families::new(),
            hosts: HashMap::new(),
            times: None,
            requests: [0; DAYS_MAX + 1],
            read,
        }
    }

    /// Reads all logs with what was rotated.
    ///
    /// # Errors
    /// There is no log whose lines have times and statuses.
    pub(super) fn read(mut self, logs: &[Log], notes: Vec<String>) -> Result<Read> {
        let windows = self.windows;
        let mut notes = notes;
        let mut has = vec![Has::default(); logs.len()];
        self.read.files = read_logs(logs, &|file| is_recent(file, windows), &mut notes, &mut |entry| {
            let Entry { number, logged, .. } = &entry;
            has[*number].lines += 1;
            has[*number].times += u64::from(logged.time.is_some());
            has[*number].statuses += u64::from(logged.status.is_some());
            self.line(&entry);
        })?;
        let mut usable = 0;
        for (log, has) in logs.iter().zip(has) {
            let mut lacks = |what: &str| notes.push(format!("the lines of {} have no {what}", log.path.display()));
            match has {
                Has { lines: 0, .. } => {}
                Has { times: 0, .. } => lacks("times (%t)"),
                Has { statuses: 0, .. } => lacks("statuses (%>s)"),
                _ => usable += 1,
            }
        }
        self.read.notes = notes;
        if usable == 0 {
            let why = if self.read.notes.is_empty() {
                "the logs have no lines".to_owned()
            } else {
                self.read.notes.join("\n")
            };
            return Err(Error::new(format!("there is nothing to compare: {why}")));
        }
        Ok(self.finish())
    }

    /// Counts a line.
    fn line(&mut self, entry: &Entry<'_>) {
        let Entry { log, text, logged, .. } = entry;
        let (Some(time), Some(request)) = (logged.time, &logged.request) else { return };
        self.read.lines += 1;
        self.times = Some(self.times.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
        let method = String::from_utf8_lossy(&request.method[..request.method.len().min(METHOD)]);
        if time < self.windows.since() {
            self.read.statuses_before.extend(logged.status);
            if !self.read.methods_before.contains(&*method) && self.read.methods_before.len() < METHODS_MAX {
                self.read.methods_before.insert(method.clone().into_owned());
            }
        }
        let Some(window) = self.windows.of(time) else { return };
        self.requests[window] += 1;
        self.count_method(&method, window);
        let duration = logged.duration.map(|time| time.as_secs_f64() * 1e6);
        if let Some(time) = logged.duration {
            let is_fine = !time.is_zero() && !(time.as_micros() as u64).is_multiple_of(1_000_000);
            self.read.has_fine_durations = Some(self.read.has_fine_durations.unwrap_or_default() | is_fine);
        }
        let has_body = logged.status == Some(200) && request.method != b"HEAD";
        let host = logged.host.as_deref().or(log.host.as_deref().map(str::as_bytes)).unwrap_or_default();
        let (name, is_encrypted) = self.site(log.site, &String::from_utf8_lossy(host), logged.port);
        let line = Line {
            status: logged.status,
            size: logged.bytes.or(logged.sent).filter(|_| has_body),
            duration,
            client: logged.client.map(hash),
            host: &name,
            target: &request.target,
            is_encrypted,
            text,
            place: (entry.file, entry.line),
        };
        self.families.counts(&name, &request.target).add(window, &line);
    }

    fn count_method(&mut self, method: &str, window: usize) {
        let methods = &mut self.read.methods;
        if methods.len() >= METHODS_MAX && !methods.contains_key(method) {
            return;
        }
        if !methods.contains_key(method) {
            methods.insert(method.to_owned(), vec![0; DAYS_MAX + 1]);
        }
        methods.get_mut(method).and_then(|windows| windows.get_mut(window)).into_iter().for_each(|count| *count += 1);
    }

    /// The name of the site that a line is about, or else the host of the line, and whether it speaks TLS.
    fn site(&mut self, own: usize, host: &str, port: Option<u16>) -> (String, bool) {
        let key = (own, port, host.to_owned());
        if let Some(known) = self.hosts.get(&key) {
            return known.clone();
        }
        let (bare, own_port) = match host.rsplit_once(':') {
            Some((bare, port)) if port.parse::<u16>().is_ok() => (bare, port.parse().ok()),
            _ => (host, None),
        };
        let port = port.or(own_port);
        let asked = Some(bare).filter(|bare| !bare.is_empty());
        let site = self.sites.and_then(|sites| sites.all().get(sites.named(own, asked, port)));
        let name = site.map(|site| site.name.clone()).filter(|name| !name.is_empty());
        let is_encrypted = site.is_some_and(|site| site.is_encrypted) || port == Some(HTTPS);
        let found = (name.unwrap_or_else(|| bare.to_owned()), is_encrypted);
        if self.hosts.len() >= HOSTS_MAX {
            self.hosts.clear();
        }
        self.hosts.insert(key, found.clone());
        found
    }

    fn finish(self) -> Read {
        let (first, last) = self.times.unwrap_or((i64::MAX, i64::MAX));
        let days = self.windows.held(first, &self.requests);
        let ends_early = Some(last).filter(|last| self.windows.is_beyond(*last));
        let windows: Vec<usize> = [0].into_iter().chain(days.numbers.iter().copied()).collect();
        Read { families: self.families.finish(&windows), days, ends_early, ..self.read }
    }
}

/// Whether a file can have a line of a window: it was written later than the first of them began.
fn is_recent(file: &Path, windows: &Windows) -> bool {
    let written = file.metadata().and_then(|meta| meta.modified()).ok();
    let written = written.and_then(|time| Timestamp::try_from(time).ok());
    written.is_none_or(|time| time.as_microsecond() >= windows.earliest())
}

/// A number for a client.
fn hash(client: std::net::IpAddr) -> u64 {
    let mut hasher = DefaultHasher::new();
    client.hash(&mut hasher);
    hasher.finish()
}

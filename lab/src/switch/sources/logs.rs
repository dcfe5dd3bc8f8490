//! Requests that clients made, from access logs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::collection::{Busiest, Collected, Given};
use crate::load::request_builder::base64;
use crate::machine::error::{Error, Result};
use crate::switch::ask::{Ask, Sample, Source, Unsendable, is_left_out};
use crate::switch::log::{Entry, Limits, Log, LogFormat, Request, Tallied, Tally, logged_by, read_logs};
use crate::switch::tree::{Directive, Origin, all};

/// Names of what makes two lines different requests, beside their fields. No field has such a name.
const SITE: &str = ":site";
const CLIENT: &str = ":client";
const VERSION: &str = ":version";
const USER: &str = ":user";

/// What the number of a file is shifted by, to be one number with that of a line.
const FILE_SHIFT: u32 = 40;

/// The most minutes whose load is kept: a year and a half.
const MINUTES_MAX: usize = 800_000;

/// What the configuration says that depends on the address of the client.
const ABOUT_CLIENTS: [&str; 6] = ["remote_addr", "remote_host", "allow from", "deny from", "-ipmatch", "-r "];

/// The requests of one minute, and the time that they took together.
#[derive(Clone, Copy, Debug, Default)]
struct Minute {
    requests: u64,
    busy: Duration,
}

/// What is read from all logs.
struct Reading<'g> {
    given: &'g Given<'g>,
    /// Whether the client's address can change an answer.
    knows_clients: bool,
    tally: Tally,
    malformed: u64,
    /// Lines that name no host, in logs that are nobody's own.
    nameless: u64,
    /// Lines that are not replayed.
    left_out: u64,
    minutes: BTreeMap<i64, Minute>,
    has_durations: bool,
    /// Each line, with its time in microseconds, if all are replayed.
    replayed: Option<Vec<(i64, Tallied)>>,
}

/// Adds the requests of all logs, the most frequent first.
pub(super) fn collect(given: &Given<'_>, collected: &mut Collected) -> Result<()> {
    let logs = logs(given, &mut collected.notes)?;
    let mut reading = Reading {
        given,
        knows_clients: all(&given.installed.tree).any(is_about_clients),
        tally: Tally::new(Limits::default()),
        malformed: 0,
        nameless: 0,
        left_out: 0,
        minutes: BTreeMap::new(),
        has_durations: false,
        replayed: given.options.speed.map(|_| Vec::new()),
    };
    let files = read_logs(&logs, &|_| true, &mut collected.notes, &mut |entry| reading.line(&entry))?;
    reading.finish(&files, collected);
    Ok(())
}

/// The logs to read: those that were named, or those of the configuration.
///
/// # Errors
/// No host has the name of `--host`.
pub(crate) fn logs(given: &Given<'_>, notes: &mut Vec<String>) -> Result<Vec<Log>> {
    let host = given.options.host.as_deref();
    if let Some(host) = host.filter(|host| !given.sites.has(host)) {
        return Err(Error::new(format!("no host of the configuration is named {host}")));
    }
    let mut logs = Vec::new();
    for path in &given.options.logs {
        // A log that the configuration has is of the format that it says there.
        let configured = configured(given, &mut Vec::new()).into_iter().find(|log| log.path == *path);
        let (site, format) = configured.map_or((0, None), |log| (log.site, log.format));
        logs.push(Log { site, host: host.map(str::to_owned), path: path.clone(), format, is_named: true });
    }
    if logs.is_empty() {
        logs = configured(given, notes);
    }
    Ok(logs)
}

fn configured(given: &Given<'_>, notes: &mut Vec<String>) -> Vec<Log> {
    let mut logs: Vec<Log> = Vec::new();
    for (site, log) in
        given.sites.all().iter().enumerate().flat_map(|(n, site)| site.logs.iter().map(move |log| (n, log)))
    {
        let path = match log.to.strip_prefix('|') {
            Some(_) => logged_by(&log.to),
            None => Some(given.installed.root.join(&log.to)),
        };
        let Some(path) = path else {
            notes.push(format!("{}: where {} writes is not known; name the files (--log)", log.origin, log.to));
            continue;
        };
        match LogFormat::compile(&log.format) {
            Ok(format) if !logs.iter().any(|known| known.path == path) => {
                logs.push(Log { site, host: None, path, format: Some(format), is_named: false });
            }
            // Several hosts write to one log: who was asked is in the line, or unknown.
            Ok(_) => logs.iter_mut().filter(|known| known.path == path).for_each(|known| known.site = 0),
            Err(why) => notes.push(format!("{}: {why}", log.origin)),
        }
    }
    logs
}

/// Whether the line decides by the address of the client, or lets `.htaccess` files decide.
fn is_about_clients(directive: &Directive) -> bool {
    let line = format!("{} {}", directive.name, directive.arguments).to_ascii_lowercase();
    let mut words = line.split_whitespace().skip(1).take(2);
    let is_address = |word: &str| matches!(word, "ip" | "host" | "local" | "forward-dns");
    let is_open = directive.is("AllowOverride") && !directive.arguments.eq_ignore_ascii_case("none");
    is_open
        || (directive.is("Require") && words.any(is_address))
        || ABOUT_CLIENTS.iter().any(|text| line.contains(text))
}

impl Reading<'_> {
    fn line(&mut self, entry: &Entry<'_>) {
        let Entry { log, logged, .. } = entry;
        let line = ((entry.file as u64) << FILE_SHIFT) | entry.line;
        if let Some(time) = logged.time
            && (self.minutes.len() < MINUTES_MAX || self.minutes.contains_key(&(time / 60_000_000)))
        {
            let minute = self.minutes.entry(time / 60_000_000).or_default();
            minute.requests += 1;
            minute.busy += logged.duration.unwrap_or_default();
            self.has_durations |= logged.duration.is_some();
        }
        let Some(request) = &logged.request else {
            self.malformed += 1;
            return;
        };
        let host = logged.host.as_deref().or(log.host.as_deref().map(str::as_bytes));
        self.nameless += u64::from(host.is_none() && log.site == 0);
        let shown = host.map(String::from_utf8_lossy);
        let (name, port) = match shown.as_deref().and_then(|host| host.rsplit_once(':')) {
            Some((name, port)) if port.parse::<u16>().is_ok() => (Some(name), port.parse().ok()),
            _ => (shown.as_deref(), None),
        };
        let site = self.given.sites.named(log.site, name, logged.port.or(port)).to_string();
        let client = logged.client.filter(|_| self.knows_clients).map(|client| client.to_string());
        let text = |text: String| Cow::Owned(text.into_bytes());
        let mut fields: Vec<(&str, Cow<'_, [u8]>)> = vec![(SITE, text(site))];
        fields.extend(client.map(|client| (CLIENT, text(client))));
        fields.extend(
            request.version.filter(|version| *version == b"1.0").map(|version| (VERSION, Cow::Borrowed(version))),
        );
        fields.extend(logged.user.as_ref().map(|_| (USER, Cow::Borrowed(&b""[..]))));
        fields.extend(logged.fields.iter().cloned());
        let request = Request { method: request.method, target: &request.target, host, fields: &fields };
        match (&mut self.replayed, logged.time) {
            (None, _) => self.tally.add(&request, line, logged.status, logged.bytes),
            (Some(replayed), Some(time)) if replayed.len() < self.given.options.limit as usize => {
                replayed.push((time, Tallied::once(&request, line, logged.status)));
            }
            // What has no time, or is beyond the limit, is told at the end.
            (Some(_), _) => self.left_out += 1,
        }
    }

    fn finish(self, files: &[PathBuf], collected: &mut Collected) {
        let tallies = self.tally.finish();
        if tallies.dropped_lines > 0 {
            let (dropped, lines) = (tallies.dropped_lines, tallies.lines);
            collected
                .notes
                .push(format!("{dropped} of {lines} lines are of requests that were seen too rarely to keep"));
        }
        if self.malformed > 0 {
            let count = collected.unsendable.entry(Unsendable::Malformed).or_default();
            count.lines += self.malformed;
        }
        let sites = self.given.sites;
        if self.nameless > 0 && sites.all().len() > 2 {
            let site = sites.all().get(sites.named(0, None, None)).map_or("", |site| &site.name);
            let lines = self.nameless;
            collected.notes.push(format!(
                "{lines} lines name no host: they are asked at {site} (--log FILE --host NAME names another)"
            ));
        }
        let busiest = self.minutes.values().max_by_key(|minute| minute.requests);
        collected.busiest = busiest.map(|minute| Busiest {
            rate: minute.requests as f64 / 60.0,
            concurrency: self.has_durations.then(|| minute.busy.as_secs_f64() / 60.0),
        });
        let mut nowhere = 0;
        for request in tallies.requests {
            let lines = request.count;
            match sample(self.given, files, request) {
                Some(sample) => collected.add(sample),
                None => nowhere += lines,
            }
        }
        if nowhere > 0 {
            collected.notes.push(format!("{nowhere} lines are of hosts for which nothing listens"));
        }
        if let (Some(mut replayed), Some(speed)) = (self.replayed, self.given.options.speed) {
            // Lines are written when requests end, and logs of several hosts are read one after the other.
            replayed.sort_by_key(|(time, _)| *time);
            let first = replayed.first().map_or(0, |(time, _)| *time);
            for (time, request) in replayed {
                let due = Duration::from_micros((time - first).unsigned_abs()).div_f64(speed);
                let sample = sample(self.given, files, request);
                collected.add_all(sample.map(|sample| Sample { due: Some(due), ..sample }));
            }
        }
        if self.left_out > 0 {
            let lines = self.left_out;
            collected.notes.push(format!("{lines} lines are not replayed: they have no time, or are beyond --limit"));
        }
    }
}

/// The request of a line; none if nothing listens for its site.
fn sample(given: &Given<'_>, files: &[PathBuf], request: Tallied) -> Option<Sample> {
    let Tallied { method, target, host, fields, count, first_line, statuses, .. } = request;
    let (own, fields): (Vec<_>, Vec<_>) = fields.into_iter().partition(|(name, _)| name.starts_with(':'));
    let own = |name: &str| {
        own.iter().find(|(own, _)| own == name).map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    let site = own(SITE)?.parse().ok()?;
    let simple = given.ask(site, "/")?;
    let host = host.map(|host| String::from_utf8_lossy(&host).into_owned()).or_else(|| simple.host.clone());
    let mut fields = fields;
    fields.retain(|(name, _)| !is_left_out(name));
    if let (Some(_), Some(user)) = (own(USER), &given.options.user) {
        fields.push(("Authorization".to_owned(), format!("Basic {}", base64(user)).into_bytes()));
    }
    let minor = u8::from(own(VERSION).is_none());
    let ask = Ask {
        method: String::from_utf8_lossy(&method).into_owned(),
        target,
        minor,
        host,
        fields,
        client: own(CLIENT).and_then(|client| client.parse().ok()),
        ..simple
    };
    let file = files.get((first_line >> FILE_SHIFT) as usize)?;
    let line = u32::try_from(first_line & ((1 << FILE_SHIFT) - 1)).unwrap_or(u32::MAX);
    let mut logged = statuses.iter();
    let status = logged.next().filter(|_| statuses.iter().count() == 1).map(|(status, _)| status);
    let line = Origin { file: file.to_string_lossy().into(), line };
    Some(Sample { ask, weight: count, due: None, source: Source::Log { line, status } })
}

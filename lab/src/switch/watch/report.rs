//! The report: for a terminal, for programs, and for a browser.

use std::fmt::Write as _;

use jiff::{Timestamp, Zoned};
use serde::Serialize;

use super::comparison::{DAYS_MIN, Values};
use super::findings::{Change, Finding, Importance, Unit};
use super::reading::Read;
use super::windows::Windows;
use crate::machine::error::{Context as _, Result};
use crate::screen::style;
use crate::screen::table::Table;
use crate::screen::text::{counted, figure, grouped};

/// With fewer requests since the switch there is nothing to say.
pub(super) const REQUESTS_MIN: u64 = 50;

/// How many things are told that are too few to tell.
const UNSURE_MAX: usize = 10;

/// docs/moving.md, section 8, in a line.
const WAY_BACK: &str = "sed -i '/^export APACHE_HTTPD=/d' /etc/apache2/envvars && systemctl disable tsubame && \
                        systemctl enable apache2 && systemctl start apache2";

/// Everything that was found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// When Tsubame took over.
    since: String,
    /// The length of each window.
    minutes: f64,
    /// How many days before are compared with, and whether all are of the same weekday.
    days: usize,
    is_same_weekday: bool,
    /// Requests since the switch.
    requests: u64,
    /// Why nothing is compared.
    too_few: Option<String>,
    traffic: Change,
    statuses: Vec<Change>,
    comparisons: usize,
    findings: Vec<Finding>,
    /// What did not occur before, but not often enough to tell.
    unsure: Vec<String>,
    notes: Vec<String>,
    way_back: &'static str,
}

impl Report {
    /// Gathers everything. Nothing was compared if there is too little of it.
    pub(super) fn new(read: &Read, windows: &Windows, since: &Zoned, compared: Option<(Vec<Finding>, usize)>) -> Self {
        let is_compared = compared.is_some();
        let (findings, comparisons) = compared.unwrap_or_default();
        let minutes = windows.minutes();
        let requests = all(read, 0);
        let usual = mean(read.days.numbers.iter().map(|day| all(read, *day) as f64)) / minutes;
        let each = read.days.numbers.iter().map(|day| all(read, *day) as f64 / minutes);
        let rate = Values::of(each, usual, requests as f64 / minutes);
        let traffic = Change::new("requests a minute".to_owned(), Unit::RequestsPerMinute, rate);
        let mut report = Self {
            since: since.strftime("%Y-%m-%d %H:%M").to_string(),
            minutes,
            days: read.days.numbers.len(),
            is_same_weekday: read.days.is_same_weekday,
            requests,
            too_few: (!is_compared).then(|| too_few(read, requests, windows)),
            traffic,
            statuses: if read.days.numbers.is_empty() { Vec::new() } else { statuses(read) },
            comparisons,
            unsure: unsure(read, &findings),
            findings,
            notes: read.notes.clone(),
            way_back: WAY_BACK,
        };
        if let Some(last) = read.ends_early {
            let last = Timestamp::from_microsecond(last).unwrap_or_default().to_zoned(since.time_zone().clone());
            report.notes.push(format!(
                "the last line is of {}, long before the end of this time: it is not told what has no requests any more",
                last.strftime("%Y-%m-%d %H:%M")
            ));
        }
        if is_compared && report.days < DAYS_MIN {
            report.notes.push(format!(
                "{} before: how much days differ is assumed, not seen; only plain differences are found",
                counted(report.days as u64, "day")
            ));
        }
        if is_compared && read.has_fine_durations.is_none() {
            report
                .notes
                .push("durations are not compared: the format of the logs has no %D, or none is known".to_owned());
        }
        report
    }

    /// How many findings are worse than before.
    pub(super) fn worse(&self) -> usize {
        self.findings.iter().filter(|finding| finding.is_worse).count()
    }

    /// For programs.
    pub(super) fn json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).context(|| "write the report as JSON".to_owned())
    }

    /// The verdict, in a sentence.
    fn verdict(&self) -> String {
        if let Some(why) = &self.too_few {
            return why.clone();
        }
        let found = match (self.findings.len(), self.worse()) {
            (0, _) => "nothing changed beyond chance".to_owned(),
            (1, 1) => "one thing got worse beyond chance".to_owned(),
            (many, 0) => {
                format!("{many} changed beyond chance, and nothing got worse", many = counted(many as u64, "thing"))
            }
            (many, worse) => {
                format!("{many} changed beyond chance, {worse} got worse", many = counted(many as u64, "thing"))
            }
        };
        format!("{}: {found}.", self.about())
    }

    /// What was compared.
    fn about(&self) -> String {
        let days = match self.is_same_weekday {
            true => format!("{} of the same weekday", counted(self.days as u64, "day")),
            false => counted(self.days as u64, "day"),
        };
        let requests = grouped(self.requests as f64);
        let length = figure(self.minutes);
        format!(
            "{requests} requests of {length} minutes since {}, compared with the same time of {days} before",
            self.since
        )
    }

    /// What changed in traffic and statuses, found or not.
    fn table(&self) -> Table {
        let mut table = Table::new(1, &["", "before", "on single days", "since the switch"]);
        for change in [&self.traffic].into_iter().chain(&self.statuses) {
            let [least, most] = change.range.map(|value| change.unit.shown(value));
            let (before, after) = (change.unit.shown(change.before), change.unit.shown(change.after));
            table.push(vec![change.what.clone(), before, format!("{least} – {most}"), after]);
        }
        table
    }

    /// For a terminal.
    pub(super) fn text(&self) -> String {
        let mut out = format!("{}\n\n", style::heading(&self.verdict()));
        for (number, finding) in self.findings.iter().enumerate() {
            let heading = format!("{}. {}", number + 1, finding.heading());
            let _ = writeln!(out, "{}", if finding.is_worse { style::bad(&heading) } else { heading });
            out.extend(finding.lines().iter().map(|line| format!("   {line}\n")));
            out.push('\n');
        }
        if !self.statuses.is_empty() {
            let _ = writeln!(out, "{}", self.table().to_screen());
        }
        for (heading, lines) in [("Too few to tell", &self.unsure), ("Notes", &self.notes)] {
            if !lines.is_empty() {
                let _ = writeln!(out, "{}", style::heading(heading));
                out.extend(lines.iter().map(|line| format!("  {line}\n")));
                out.push('\n');
            }
        }
        let _ = writeln!(out, "Back to Apache: {}", self.way_back);
        out
    }

    /// For a browser.
    pub(super) fn page(&self) -> String {
        use crate::machine::host::{self, Host};
        use crate::page::html;
        use crate::screen::table::escape;
        let mut page = html::begin("After the switch", &self.verdict(), &host::now(), &Host::observe());
        for finding in &self.findings {
            let _ = write!(
                page,
                "<h2>{}</h2>\n<pre>{}</pre>\n",
                escape(&finding.heading()),
                escape(&finding.lines().join("\n"))
            );
        }
        if !self.statuses.is_empty() {
            let _ = write!(page, "<h2>Traffic</h2>\n{}", self.table().to_html());
        }
        page += &html::list("Too few to tell", &self.unsure);
        page += &html::list("Notes", &self.notes);
        let _ = write!(page, "<h2>Back to Apache</h2>\n<pre>{}</pre>\n", escape(self.way_back));
        page + &html::end()
    }
}

impl Finding {
    /// What it is, in a line.
    fn heading(&self) -> String {
        format!("{}: {}", self.importance.told(), self.family)
    }

    /// The rest.
    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.changes.iter().map(Change::told).collect();
        let once = if self.once_in >= 1e9 { "a thousand million".to_owned() } else { grouped(self.once_in) };
        lines.push(format!("would happen by chance less than once in {once} such comparisons"));
        if let (Some(line), Some(example)) = (&self.line, &self.example) {
            lines.push(format!("{line}: {example}"));
        }
        lines.extend(self.explain.clone());
        lines
    }
}

impl Importance {
    fn told(self) -> &'static str {
        match self {
            Self::NewServerErrors => "new server errors",
            Self::ServerErrors => "more server errors",
            Self::ClientErrors => "more client errors",
            Self::Slower => "slower",
            Self::HostGone => "no requests to this host any more",
            Self::OtherStatus => "other statuses",
            Self::Size => "other lengths",
            Self::Gone => "no requests any more",
            Self::New => "new",
            Self::OneClient => "more client errors, all for one client",
            Self::Better => "better",
        }
    }
}

impl Change {
    /// In a line.
    fn told(&self) -> String {
        let [before, after] = [self.before, self.after].map(|value| self.unit.shown(value));
        let [least, most] = self.range.map(|value| self.unit.shown(value));
        let of_all = if self.unit == Unit::ShareOfAll { " of all requests" } else { "" };
        format!("{}: {before} before (on single days {least} – {most}), {after}{of_all} since the switch", self.what)
    }
}

impl Unit {
    fn shown(self, value: f64) -> String {
        match self {
            Self::Share | Self::ShareOfAll => format!("{} %", figure(value * 100.0)),
            Self::Bytes | Self::Requests => grouped(value),
            Self::RequestsPerMinute | Self::Factor => figure(value),
            Self::Microseconds if value < 1e3 => format!("{} µs", figure(value)),
            Self::Microseconds if value < 1e6 => format!("{} ms", figure(value / 1e3)),
            Self::Microseconds => format!("{} s", figure(value / 1e6)),
        }
    }
}

/// All requests of a window.
fn all(read: &Read, window: usize) -> u64 {
    read.families.iter().map(|family| family.counts.cell(window).requests).sum()
}

/// Whether there is enough to compare.
pub(super) fn is_enough(read: &Read) -> bool {
    all(read, 0) >= REQUESTS_MIN && !read.days.numbers.is_empty()
}

/// Why nothing is compared, and when to try again.
fn too_few(read: &Read, requests: u64, windows: &Windows) -> String {
    let counted = counted(requests, "request");
    if read.days.numbers.is_empty() {
        return format!(
            "{counted} since the switch, but the logs hold this time of no day before: nothing to compare with."
        );
    }
    let again = again(requests, windows.minutes() / 60.0, f64::from(windows.hours()));
    format!("{counted} since the switch: too few to tell; again {again}.")
}

/// When there are enough requests: so many came in so many hours of those that are meant.
fn again(requests: u64, passed: f64, meant: f64) -> String {
    const DAY: f64 = 24.0;
    let needed = (2.0 * REQUESTS_MIN as f64 * passed / requests.max(1) as f64).ceil();
    let is_over = passed >= meant;
    match needed {
        needed if needed <= meant && !is_over => "in an hour".to_owned(),
        needed if needed > DAY => "in a day, with --hours 24".to_owned(),
        needed if is_over => format!("with --hours {}", needed.max(meant + 1.0).min(DAY)),
        needed => format!("in {} hours, with --hours {needed}", (needed - passed).ceil()),
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let number = values.len().max(1) as f64;
    values.sum::<f64>() / number
}

/// The statuses of all requests.
fn statuses(read: &Read) -> Vec<Change> {
    let windows: Vec<usize> = [0].into_iter().chain(read.days.numbers.iter().copied()).collect();
    let mut known: Vec<u16> = read.families.iter().flat_map(|family| family.counts.statuses(&windows)).collect();
    known.sort_unstable();
    known.dedup();
    let share = |status: u16, windows: &[usize]| {
        let cells = read.families.iter().flat_map(|family| windows.iter().map(|window| family.counts.cell(*window)));
        let shares = cells.map(|cell| cell.share(|one| one == status));
        shares.fold(super::statistics::Share::default(), super::statistics::Share::and).value()
    };
    let change = |status: &u16| {
        let each = read.days.numbers.iter().map(|day| share(*status, &[*day]));
        let values = Values::of(each, share(*status, &read.days.numbers), share(*status, &[0]));
        Change::new(format!("status {status}"), Unit::Share, values)
    };
    known.iter().map(change).collect()
}

/// Statuses and methods that no line before has, and no finding tells.
fn unsure(read: &Read, findings: &[Finding]) -> Vec<String> {
    let is_found = |name: &str| findings.iter().any(|one| one.changes.iter().any(|change| change.what.contains(name)));
    let mut statuses: Vec<u16> = read.families.iter().flat_map(|family| family.counts.statuses(&[0])).collect();
    statuses.sort_unstable();
    statuses.dedup();
    let new = statuses.into_iter().rev().filter(|status| !read.statuses_before.contains(status));
    let told = new.filter(|status| !is_found(&format!("status {status}"))).map(|status| {
        let having = read.families.iter().filter(|family| family.counts.statuses(&[0]).contains(&status));
        let count: u64 = having.clone().map(|family| family.counts.cell(0).share(|one| one == status).part).sum();
        let url = having.clone().find_map(|family| family.counts.example(|one| one == status).0);
        let url = url.map(|example| example.url.clone()).unwrap_or_default();
        format!("status {status}, which no line before has: {}, such as {url}", counted(count, "request"))
    });
    let methods = read.methods.iter().filter(|(method, counts)| {
        !read.methods_before.contains(*method) && counts[0] > 0 && !is_found(&format!("method {method},"))
    });
    let methods = methods.map(|(method, counts)| {
        format!("the method {method}, which no line before has: {}", counted(counts[0], "request"))
    });
    told.chain(methods).take(UNSURE_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units() {
        let cases = [
            (Unit::Share, 0.021, "2.1 %"),
            (Unit::Bytes, 12_345.0, "12 345"),
            (Unit::Microseconds, 250.0, "250 µs"),
            (Unit::Microseconds, 2_500.0, "2.5 ms"),
            (Unit::Microseconds, 3e6, "3 s"),
        ];
        for (unit, value, expected) in cases {
            assert_eq!(unit.shown(value), expected);
        }
    }

    #[test]
    fn too_few_requests_become_more() {
        let cases = [
            (12, 0.1, 1.0, "in an hour"),
            (12, 0.5, 1.0, "in 5 hours, with --hours 5"),
            (12, 1.0, 1.0, "with --hours 9"),
            (49, 1.0, 1.0, "with --hours 3"),
            (0, 1.0, 1.0, "in a day, with --hours 24"),
        ];
        for (requests, passed, meant, expected) in cases {
            assert_eq!(again(requests, passed, meant), expected, "{requests} in {passed} of {meant}");
        }
    }

    #[test]
    fn the_way_back_is_that_of_the_manual() {
        let manual = include_str!("../../../../docs/moving.md");
        let section = manual.split_once("## 8. Go back to Apache").map(|(_, section)| section).expect("section 8");
        let block: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix("    ")).collect();
        let commands: Vec<&str> = WAY_BACK.split(" && ").collect();
        assert_eq!(commands, block[..commands.len()]);
    }
}

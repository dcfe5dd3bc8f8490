//! When Tsubame took over: as it is written on a command line, or as the running server tells.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use crate::machine::duration;
use crate::machine::error::{Error, Result};
use crate::machine::procfs;
use crate::switch::tree::{Directive, Installed};

/// Apache's default for `PidFile`.
const PID_FILE: &str = "logs/httpd.pid";

/// What a name of a process that is Tsubame begins with.
const PROGRAM: &str = "tsubame";

/// A moment on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// `2026-11-30T22:15`, by the clock of this machine
    Local(DateTime),
    /// `2026-11-30T22:15:00Z`
    Instant(Timestamp),
    /// `22:15`, today
    Today(Time),
    /// `2h`, ago
    Ago(Duration),
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let ago = || match text.strip_suffix('d') {
            Some(days) => days.parse().ok().map(|days: u32| Duration::from_secs(u64::from(days) * 86_400)),
            // A number alone could be anything.
            None => duration::duration(text).ok().filter(|_| text.ends_with(|char: char| char.is_ascii_alphabetic())),
        };
        // A date alone would be midnight, and a time is part of one.
        let local = || text.parse().ok().filter(|_| text.contains(':')).map(Self::Local);
        let instant = text.parse().ok().map(Self::Instant);
        let today = || text.parse().ok().filter(|_| text.contains(':')).map(Self::Today);
        let is_dated = text.contains('-');
        let moment = match is_dated {
            true => instant.or_else(local),
            false => today().or_else(|| ago().map(Self::Ago)),
        };
        moment.ok_or_else(|| "a moment is 2026-11-30T22:15, 22:15 (today) or 2h (ago)".to_owned())
    }
}

impl Since {
    /// The moment itself.
    ///
    /// # Errors
    /// It is out of all bounds.
    pub(super) fn moment(self, now: &Zoned) -> Result<Zoned> {
        let zone = now.time_zone();
        let moment = match self {
            Self::Local(local) => local.to_zoned(zone.clone()),
            Self::Instant(instant) => Ok(instant.to_zoned(zone.clone())),
            Self::Today(time) => now.date().to_datetime(time).to_zoned(zone.clone()),
            Self::Ago(time) => SignedDuration::try_from(time).and_then(|time| now.checked_sub(time)),
        };
        moment.map_err(|error| Error::new(format!("--since: {error}")))
    }
}

/// When the tsubame started that the configuration's `PidFile` names.
///
/// # Errors
/// Nothing is there, or what runs there is not Tsubame.
pub(super) fn start_of_server(installed: &Installed) -> Result<Zoned> {
    let file = installed.root.join(pid_file(&installed.tree));
    let unknown = |why: String| {
        Error::new(format!("when Tsubame took over is not known: {why}")).advise("--since TIME, like 22:15 or 2h")
    };
    let text = std::fs::read_to_string(&file).map_err(|error| unknown(format!("{}: {error}", file.display())))?;
    let pid = text.trim().parse().map_err(|_| unknown(format!("{} has no number in it", file.display())))?;
    let shown = file.display();
    let stat = procfs::stat(pid).ok_or_else(|| unknown(format!("process {pid}, which {shown} names, is not there")))?;
    if !stat.name.starts_with(PROGRAM) {
        return Err(unknown(format!("process {pid}, which {shown} names, is {}", stat.name)));
    }
    started(Path::new("/proc"), pid).ok_or_else(|| unknown(format!("/proc/{pid}/stat has no start time")))
}

/// `PidFile` of the main server; the last one counts.
fn pid_file(tree: &[Directive]) -> String {
    let own = tree.iter().rfind(|directive| directive.is("PidFile"));
    own.and_then(|directive| directive.words().into_iter().next()).unwrap_or_else(|| PID_FILE.to_owned())
}

/// When a process started, by the clock: field 22 of its `stat` is in ticks since the machine did, `btime` when that was.
fn started(proc: &Path, pid: u32) -> Option<Zoned> {
    let read = |name: &str| std::fs::read_to_string(proc.join(name)).ok();
    let stat = read(&format!("{pid}/stat"))?;
    // The name of the process, in parentheses, may hold anything.
    let ticks: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let boot: i64 = read("stat")?.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let seconds = i64::try_from(ticks / rustix::param::clock_ticks_per_second()).ok()?;
    Some(Timestamp::from_second(boot.checked_add(seconds)?).ok()?.to_zoned(TimeZone::system()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::tree::Origin;

    #[test]
    fn moments_have_several_forms() {
        let zone = TimeZone::posix("CET-1").expect("a time zone");
        let now = jiff::civil::date(2026, 11, 30).at(23, 0, 0, 0).to_zoned(zone).expect("a time");
        let cases = [
            ("2026-11-30T22:15", "2026-11-30T22:15:00"),
            ("2026-11-29 22:15:07", "2026-11-29T22:15:07"),
            ("2026-11-30T20:15:00Z", "2026-11-30T21:15:00"),
            ("2026-11-30T22:15+02:00", "2026-11-30T21:15:00"),
            ("22:15", "2026-11-30T22:15:00"),
            ("2h", "2026-11-30T21:00:00"),
            ("90m", "2026-11-30T21:30:00"),
            ("1d", "2026-11-29T23:00:00"),
        ];
        for (text, expected) in cases {
            let since: Since = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(since.moment(&now).expect("a moment").datetime().to_string(), expected, "{text}");
        }
        for text in ["", "yesterday", "12", "2026-11-30", "25:00", "2x", "-1h", "99999999999d"] {
            assert!(text.parse::<Since>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_pid_file_counts() {
        let line = |arguments: &str| Directive {
            name: "pidfile".to_owned(),
            arguments: arguments.to_owned(),
            origin: Origin { file: "a".into(), line: 1 },
            children: None,
        };
        assert_eq!(pid_file(&[]), "logs/httpd.pid");
        assert_eq!(pid_file(&[line("one"), line("\"/run/a b\"")]), "/run/a b");
    }

    #[test]
    fn this_process_started_before_now() {
        let started = started(Path::new("/proc"), std::process::id()).expect("a start");
        let age = Zoned::now().timestamp().as_second() - started.timestamp().as_second();
        // Both clocks are read in whole seconds.
        assert!((-2..3600).contains(&age), "{age}");
    }
}

//! Compares the output of `-t` and similar options with Apache's: both programs read the same file in the same place.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::harness::oracle;
use crate::harness::site::Site;
use crate::harness::wait::until;

/// Standard output, standard error, exit status.
pub type Output = (String, String, Option<i32>);

/// Lines of `-V` that tell about the program.
const OWN: [&str; 5] = ["Server version:", "Server built:", "Server loaded:", "Compiled using:", " -D "];

/// Our own notes about adjusted numbers (docs/differences.md).
const TOLD: [&str; 2] = ["the server runs ", "no file is made"];

/// Runs one of the programs as `apache2`, with `-d ROOT -f conf/httpd.conf` in front of the arguments.
pub struct Call<'a> {
    pub site: &'a Site,
    pub arguments: &'a [&'a str],
    /// User and group, where they are others than ours.
    pub user: Option<u32>,
}

impl Call<'_> {
    /// The output of `program`, which is Tsubame, and Apache's.
    pub fn both(&self, program: &Path) -> [Output; 2] {
        [program, Path::new(oracle::APACHE)].map(|program| self.said(program))
    }

    /// The output of one of them.
    pub fn said(&self, program: &Path) -> Output {
        let mut command = Command::new(program);
        command.arg0("apache2").args(["-d", self.site.path(), "-f", "conf/httpd.conf"]).args(self.arguments);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        said(command, self.site)
    }
}

/// The output of a command, without what always differs.
pub fn said(mut command: Command, site: &Site) -> Output {
    // A copy of a program may still be open for writing in a process of another test, which was forked a moment ago.
    let output = until("a program that nobody writes to", || match command.output() {
        Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => None,
        output => Some(output.expect("run")),
    });
    let clean = |bytes: &[u8]| neutral(&String::from_utf8_lossy(bytes).replace(site.path(), "ROOT"));
    (clean(&output.stdout), clean(&output.stderr), output.status.code())
}

/// Apache's words of an error message, without the help that we add and without further errors.
pub fn without_help(text: &str) -> impl Iterator<Item = &str> {
    // `    2 | Listen x`, and below it `      | ^` and `      = help: ...`.
    let is_help = |line: &&str| {
        let (number, rest) = line.split_at_checked(6).unwrap_or_default();
        rest.starts_with(['|', '=']) && number.chars().all(|c| matches!(c, ' ' | '.' | '0'..='9'))
    };
    let is_end = |line: &&str| line.ends_with(" more error:") || line.ends_with(" more errors:");
    text.lines().take_while(move |line| !is_end(line)).filter(move |line| !is_help(line))
}

/// Removes times, processes, and the order of a hash, and the text below Apache's own words.
fn neutral(text: &str) -> String {
    let own = |line: &str| OWN.iter().any(|own| line.starts_with(own)) || TOLD.iter().any(|told| line.contains(told));
    let kept = without_help(text).filter(|line| !own(line));
    let mut lines: Vec<String> = kept.map(without_time).collect();
    // Which place a lock has in the list differs from run to run.
    let mut mutexes: Vec<String> = lines.iter().filter(|line| line.starts_with("Mutex ")).cloned().collect();
    mutexes.sort_unstable();
    let places = lines.iter_mut().filter(|line| line.starts_with("Mutex "));
    places.zip(mutexes).for_each(|(line, mutex)| *line = mutex);
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// `[time] [module:level] [pid 1:tid 2] text` without what differs from run to run; names of caches in one order.
fn without_time(line: &str) -> String {
    let rest = line.strip_prefix('[').and_then(|rest| rest.split_once("] [")).map(|(_, rest)| rest);
    let parts = rest
        .and_then(|rest| rest.split_once("] [pid "))
        .and_then(|(level, rest)| Some((level, rest.split_once(']')?.1)));
    match parts {
        Some((level, text)) => format!("[{level}]{text}"),
        None => line.replace("known names: default,shmcb", "known names: shmcb,default"),
    }
}

/// `LoadModule` lines for Apache's files.
pub fn modules(names: &[&str]) -> String {
    names.iter().map(|name| format!("LoadModule {name}_module {}/mod_{name}.so\n", oracle::MODULES)).collect()
}

/// Compares every case, several at a time, and shows all differences.
pub fn compare<T: Sync>(cases: &[T], both: impl Fn(&T) -> (String, [Output; 2]) + Sync) {
    assert!(!cases.is_empty(), "nothing to compare");
    let check = |part: &[T]| -> Vec<String> { part.iter().filter_map(|case| difference(both(case))).collect() };
    let check = &check;
    let differences: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            cases.chunks(cases.len().div_ceil(4)).map(|part| scope.spawn(move || check(part))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
    });
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

fn difference((what, [ours, theirs]): (String, [Output; 2])) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let only = |one: &str, other: &str, sign: char| -> String {
        one.lines()
            .filter(|line| !other.lines().any(|have| have == *line))
            .map(|line| format!("  {sign} {line}\n"))
            .collect()
    };
    let both = |(out, errors, _): &Output| format!("{out}{errors}");
    let (our, their) = (both(&ours), both(&theirs));
    let lines = format!("{}{}", only(&our, &their, '+'), only(&their, &our, '-'));
    Some(format!("{what}\n  exit {:?}, Apache {:?}; + ours, - Apache's (or another order)\n{lines}", ours.2, theirs.2))
}

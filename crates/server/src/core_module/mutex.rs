//! `Mutex`: the kinds of locks, and their settings (Apache manual, core; forms and messages measured on 2.4.71).
//!
//! Nothing here uses the locks that `Mutex` names: the lines are checked, and shown by `-t -D DUMP_RUN_CFG`.

use std::fmt::Write as _;

use conf::{Cmd, Language, ModuleInfo, Outcome, Refusal, SettingsMap};

use crate::module::hook::{Hook, hooks_of};
use crate::settings::core::{CoreServer, Mechanism, Mutex};

/// The words for mechanisms, with their meanings on Linux; `None` is no lock at all.
const MECHANISMS: [(&str, Option<Mechanism>); 11] = [
    ("none", None),
    ("no", None),
    ("default", Some("default")),
    ("yes", Some("default")),
    ("fcntl", Some("fcntl")),
    ("flock", Some("flock")),
    ("file", Some("fcntl")),
    ("sysvsem", Some("sysvsem")),
    ("posixsem", Some("posixsem")),
    ("sem", Some("posixsem")),
    ("pthread", Some("pthread")),
];

const KNOWN: &str = "(Mutex mechanisms are: 'none', 'default', 'flock:/path/to/file', 'fcntl:/path/to/file', \
                     'file:/path/to/file', 'pthread', 'sysvsem', 'posixsem', 'sem')";

/// The lock around accepting, the only one that may be `none`: it belongs to prefork and worker, which are not modules
/// with hooks.
const ACCEPT: &str = "mpm-accept";
const ACCEPTING: [&str; 2] = ["mpm_prefork_module", "mpm_worker_module"];

/// The kind in a line without a name.
const DEFAULT: &str = "default";

pub(super) fn set(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    let Some((argument, names)) = words.split_first() else {
        return Err(Refusal::missing(format!("Mutex requires at least a mechanism argument {KNOWN}")));
    };
    let (word, dir) = argument.split_once(':').map_or((argument.as_str(), None), |(word, dir)| (word, Some(dir)));
    let Some(mechanism) = conf::values::one_of(word, &MECHANISMS) else {
        return Err(Refusal::argument(1, format!("Invalid Mutex argument {argument} {KNOWN}")));
    };
    let dir = dir.filter(|dir| !dir.is_empty() && mechanism.is_some()).map(|dir| directory(cmd, dir)).transpose();
    let dir = dir.map_err(|()| Refusal::argument(1, format!("Invalid Mutex directory in argument {argument}")))?;
    let is_omit = |name: &str| name.eq_ignore_ascii_case("OmitPid");
    let omit_pid = names.iter().any(|name| is_omit(name));
    let numbered = names.iter().map(String::as_str).zip(2..);
    let mut names: Vec<(&str, usize)> = numbered.filter(|(name, _)| !is_omit(name)).collect();
    if names.is_empty() {
        names.push((DEFAULT, 1));
    }
    let kinds = kinds(cmd.context.language.loaded());
    for (name, number) in names {
        if name != DEFAULT && !kinds.contains(&name) {
            return Err(Refusal::argument(number, format!("Mutex type {name} is not valid")));
        }
        let mechanism = match mechanism {
            Some(mechanism) => mechanism,
            None if name == ACCEPT => "none",
            None => return Err(Refusal::argument(number, format!("None is not allowed for mutex type {name}"))),
        };
        let mutex = Mutex { mechanism, dir: dir.clone(), omit_pid };
        cmd.server.edit::<CoreServer>().mutexes.set(name.to_string(), mutex, &cmd.node.origin);
    }
    Ok(())
}

/// A directory below `ServerRoot`; keeps a slash at its end.
fn directory(cmd: &Cmd<'_>, dir: &str) -> Result<String, ()> {
    let path = cmd.context.server_relative_as_written(dir);
    if cmd.context.system.is_dir(&path) { Ok(path) } else { Err(()) }
}

/// The kinds of locks of these modules.
fn kinds(loaded: &[&'static ModuleInfo]) -> Vec<&'static str> {
    let accept = loaded.iter().any(|info| ACCEPTING.contains(&info.id)).then_some(ACCEPT);
    let of_modules = hooks_of(loaded).filter_map(|hook| match hook {
        Hook::Mutex(name) => Some(*name),
        _ => None,
    });
    accept.into_iter().chain(of_modules).collect()
}

/// The `Mutex` lines of `-t -D DUMP_RUN_CFG`: the default first, then the kinds of the loaded modules. Apache's order
/// is that of a hash table.
pub fn dump(main: &SettingsMap, language: &Language) -> String {
    let configured = &main.get::<CoreServer>().mutexes;
    let runtime_dir = format!("{}/", language.runtime_dir().trim_end_matches('/'));
    let unset = Mutex { mechanism: "default", dir: None, omit_pid: false };
    let default = configured.get(DEFAULT).unwrap_or(&unset);
    let default_dir = default.dir.as_deref().unwrap_or(&runtime_dir);
    let mut out = default.line(DEFAULT, default_dir);
    for name in kinds(language.loaded()) {
        match configured.get(name) {
            // Only a lock in a file needs a place.
            Some(mutex) if matches!(mutex.mechanism, "fcntl" | "flock") => out += &mutex.line(name, default_dir),
            Some(mutex) => out += &mutex.line(name, ""),
            None => _ = writeln!(out, "Mutex {name}: using_defaults"),
        }
    }
    out
}

impl Mutex {
    fn line(&self, name: &str, fallback: &str) -> String {
        let dir = self.dir.as_deref().unwrap_or(fallback);
        let omit_pid = if self.omit_pid { "[OmitPid]" } else { "" };
        format!("Mutex {name}: dir=\"{dir}\" mechanism={} {omit_pid}\n", self.mechanism)
    }
}

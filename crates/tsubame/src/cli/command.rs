//! The commands of Tsubame itself, such as `tsubame check`. Under a name of httpd there are none.

use std::ffi::OsString;
use std::path::Path;

use conf::nearest_name;

use super::misuse;
use super::program::is_httpd_name;

/// Tsubame's own commands, which httpd does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// `tsubame bundle`
    Bundle,
    /// `tsubame cache`
    Cache,
    /// `tsubame check`
    Check,
    /// `tsubame explain`
    Explain,
    /// `tsubame ctl`
    Ctl,
    /// `tsubame completions`
    Completions,
}

/// The names of the commands.
pub(super) const COMMANDS: [(&str, Command); 6] = [
    ("bundle", Command::Bundle),
    ("cache", Command::Cache),
    ("check", Command::Check),
    ("explain", Command::Explain),
    ("ctl", Command::Ctl),
    ("completions", Command::Completions),
];

/// Words that are no commands here, and the command line to write instead.
pub(super) const OTHER_WORDS: [(&str, &str); 13] = [
    ("configtest", "-t -f FILE"),
    ("fullstatus", "ctl -f FILE status"),
    ("graceful", "-f FILE -k graceful"),
    ("graceful-stop", "-f FILE -k graceful-stop"),
    ("reload", "-f FILE -k graceful"),
    ("restart", "-f FILE -k restart"),
    ("run", "-f FILE -DFOREGROUND"),
    ("serve", "-f FILE -DFOREGROUND"),
    ("start", "-f FILE -k start"),
    ("status", "ctl -f FILE status"),
    ("stop", "-f FILE -k stop"),
    ("test", "-t -f FILE"),
    ("version", "--version"),
];

/// Our own command, if the first argument is one. There are none under the names of httpd.
pub(crate) fn command(program: &str, args: &[OsString]) -> Option<Command> {
    let word = args.first().filter(|_| !is_httpd_name(program))?;
    COMMANDS.into_iter().find(|(name, _)| name == word).map(|(_, command)| command)
}

/// `tsubame help` and `tsubame help COMMAND` as `--help`.
pub(crate) fn as_options(program: &str, args: Vec<OsString>) -> Vec<OsString> {
    match &args[..] {
        [help] if help == "help" && !is_httpd_name(program) => vec!["--help".into()],
        [help, name] if help == "help" && command(program, std::slice::from_ref(name)).is_some() => {
            vec![name.clone(), "--help".into()]
        }
        _ => args,
    }
}

/// A message about an unknown command, with what was probably meant.
pub(super) fn unknown_command(program: &str, word: &str) -> String {
    if let Some((_, line)) = OTHER_WORDS.iter().find(|(other, _)| *other == word) {
        return format!("unknown command '{word}': write `{program} {line}`");
    }
    let names = || COMMANDS.iter().map(|(name, _)| *name);
    match nearest_name(names(), word) {
        Some(_) => misuse::unknown("command", word, names()),
        None => format!("unknown command '{word}', and no directory has this name"),
    }
}

/// Whether a word looks like a command rather than a path, and no directory has this name.
pub(super) fn is_no_directory(word: &str) -> bool {
    !word.is_empty() && !word.contains(['/', '.']) && !Path::new(word).exists()
}

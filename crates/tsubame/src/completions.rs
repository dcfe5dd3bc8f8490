//! `tsubame completions`: prints shell completions, made from the tables that `--help` is made from.

mod shells;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::cli::{HelpPage, Value, Word, misuse, word};
use crate::{bundle, cache, check, cli, ctl, explain, output};

/// The help page of `tsubame completions`.
static PAGE: HelpPage = HelpPage {
    name: "completions",
    purpose: "completion of tsubame's command line for your shell",
    usage: &["completions SHELL"],
    brief: &[],
    text: "\
For this shell and those you open later:
  tsubame completions bash > /etc/bash_completion.d/tsubame
  tsubame completions zsh > /usr/local/share/zsh/site-functions/_tsubame
  tsubame completions fish > /etc/fish/completions/tsubame.fish
",
    column: 8,
    groups: &[("Commands", &[word(&["bash"], "for bash"), word(&["zsh"], "for zsh"), word(&["fish"], "for fish")])],
    end: "",
    misuse: 1,
};

/// The words of a command. The program itself has no name.
struct Completed {
    name: &'static str,
    purpose: &'static str,
    words: Vec<CompletedWord>,
}

/// One name of a word.
#[derive(Clone, Copy, Debug)]
struct CompletedWord {
    /// `-f`, `--host`, `status`
    name: &'static str,
    /// The value that follows an option.
    value: Value,
    meaning: &'static str,
}

/// Runs `tsubame completions`.
pub(crate) fn run(program: &str, args: &[OsString]) -> ExitCode {
    let [shell] = args else {
        misuse::report(program, &PAGE, &"name one shell: bash, zsh or fish".into());
        return PAGE.misuse.into();
    };
    let pages = pages();
    match shell.to_str() {
        Some("-h" | "--help") => output::print(&PAGE.page()),
        Some("bash") => output::print(&shells::bash(&pages)),
        Some("zsh") => output::print(&shells::zsh(&pages)),
        Some("fish") => output::print(&shells::fish(&pages)),
        _ => {
            let why = format!("'{}' is none of the shells: bash, zsh, fish", shell.to_string_lossy());
            misuse::report(program, &PAGE, &why.into());
            return PAGE.misuse.into();
        }
    }
    ExitCode::SUCCESS
}

/// All commands, starting with the program itself.
fn pages() -> Vec<Completed> {
    let commands = [&bundle::PAGE, &cache::PAGE, &check::PAGE, &explain::PAGE, &ctl::PAGE, &PAGE];
    let commands = commands.into_iter().map(|page| (page.name, page.purpose, completed(page.words())));
    let own = ("", "", completed(cli::own_words()));
    std::iter::once(own).chain(commands).map(|(name, purpose, words)| Completed { name, purpose, words }).collect()
}

/// Each name once; the first meaning counts.
fn completed(words: impl Iterator<Item = &'static Word>) -> Vec<CompletedWord> {
    let mut found: Vec<CompletedWord> = Vec::new();
    for Word { names, value, meaning } in words {
        for name in *names {
            if !found.iter().any(|known| known.name == *name) {
                // What follows a command is no value of an option.
                let value = if name.starts_with('-') { *value } else { Value::None };
                found.push(CompletedWord { name, value, meaning });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_words() {
        for Completed { name, purpose, words } in pages() {
            assert!(!words.is_empty() && (name.is_empty() || !purpose.is_empty()), "{name}");
            assert!(words.iter().all(|word| !word.name.contains([' ', '\'', '['])), "{name}: {words:?}");
        }
        let own = &pages()[0].words;
        for option in ["-f", "-d", "-D", "-C", "-c", "-e", "-E", "-k", "-t", "-S", "-M", "-v", "-V", "-X", "--port"] {
            assert!(own.iter().any(|word| word.name == option), "{option}");
        }
    }
}

//! `tsubame completions`: prints shell completions. They are made from the pages of `--help`, so they cover everything
//! listed there.

mod shells;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::{check, cli, ctl, explain, misuse, output};

/// The help page of `tsubame completions`.
pub(crate) const USAGE: &str = "\
tsubame completions: completion of tsubame's command line for your shell

Usage: tsubame completions SHELL

For this shell and those you open later:
  tsubame completions bash > /etc/bash_completion.d/tsubame
  tsubame completions zsh > /usr/local/share/zsh/site-functions/_tsubame
  tsubame completions fish > /etc/fish/completions/tsubame.fish

Commands:
  bash  for bash
  zsh   for zsh
  fish  for fish
";

/// An option, or a word without a dash.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    /// `-f`, `--host`, `status`
    name: String,
    /// The value that follows it.
    value: Option<Value>,
    meaning: String,
}

/// The kind of value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    File,
    Directory,
    /// One of these.
    Of(Vec<&'static str>),
    /// A value that cannot be completed.
    Any,
}

/// A command with its words. The program itself has no name.
struct Page {
    name: &'static str,
    purpose: String,
    words: Vec<Word>,
}

/// Runs `tsubame completions`.
pub(crate) fn run(program: &str, args: &[OsString]) -> ExitCode {
    let [shell] = args else {
        misuse::report(program, "completions", USAGE, &"name one shell: bash, zsh or fish".into());
        return ExitCode::FAILURE;
    };
    let pages = pages();
    match shell.to_str() {
        Some("-h" | "--help") => output::print(USAGE),
        Some("bash") => output::print(&shells::bash(&pages)),
        Some("zsh") => output::print(&shells::zsh(&pages)),
        Some("fish") => output::print(&shells::fish(&pages)),
        _ => {
            let why = format!("'{}' is none of the shells: bash, zsh, fish", shell.to_string_lossy());
            misuse::report(program, "completions", USAGE, &why.into());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The pages of all commands, starting with the program's own.
fn pages() -> Vec<Page> {
    let own = cli::help("tsubame");
    let mut own = Page { name: "", purpose: String::new(), words: words(&own) };
    own.words.extend([
        word("-k", Some("word"), "start the server, or send it a signal"),
        word("--port", Some("N"), "serve a directory, or the demonstration site, on this port"),
        word("--help", None, "what the program can do"),
        word("--version", None, "its version"),
    ]);
    let commands = [("check", check::USAGE), ("explain", explain::USAGE), ("ctl", ctl::USAGE), ("completions", USAGE)];
    let mut pages = vec![own];
    for (name, page) in commands {
        let purpose = page.lines().next().and_then(|line| line.split_once(": ")).map_or("", |(_, purpose)| purpose);
        let mut words = words(page);
        // The program's page alone explains the options that select the configuration.
        let explained = &pages[0].words;
        for word in words.iter_mut().filter(|word| word.meaning.is_empty()) {
            if let Some(known) = explained.iter().find(|known| known.name == word.name) {
                word.meaning.clone_from(&known.meaning);
            }
        }
        pages.push(Page { name, purpose: purpose.to_string(), words });
    }
    pages
}

/// The words of a page: those with a line of their own, and those in brackets in the usage lines.
fn words(page: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut add = |new: Word| match words.iter().any(|word| word.name == new.name) {
        true => {}
        false => words.push(new),
    };
    let mut commands = false;
    let mut shown = false;
    for line in page.lines() {
        if !line.starts_with(' ') {
            commands = line.starts_with("Commands");
            shown = line.starts_with("Usage: ");
        }
        let text = line.trim();
        if shown {
            let given = line.split('[').skip(1).filter_map(|rest| rest.split_once(']'));
            given.filter(|(option, _)| option.starts_with('-')).for_each(|(option, _)| add(named(option, "")));
            continue;
        }
        let meant = match line.starts_with("  ") && (commands || text.starts_with('-')) {
            true => text.split_once("  ").or_else(|| text.split_once(": ")),
            false => None,
        };
        let Some((term, meaning)) = meant else { continue };
        let meaning = meaning.trim_start_matches([' ', ':']);
        // `-t -D DUMP_VHOSTS` combines two options, which have lines of their own.
        let alone = term.split(", ").filter(|term| !(term.starts_with('-') && term.contains(" -")));
        alone.for_each(|term| add(named(term, meaning)));
    }
    words
}

/// Parses a term such as `-f file`; from `explain URL | --mpm` it takes the first word.
fn named(term: &str, meaning: &str) -> Word {
    match term.split_once(' ') {
        Some((name, value)) => word(name, Some(value.trim()).filter(|_| name.starts_with('-')), meaning),
        None => word(term, None, meaning),
    }
}

fn word(name: &str, value: Option<&str>, meaning: &str) -> Word {
    let value = value.filter(|value| !value.starts_with('-')).map(|value| match (name, value) {
        ("-k", _) => Value::Of(cli::SIGNALS.iter().map(|(word, _)| *word).collect()),
        (_, "file" | "path") => Value::File,
        (_, "directory") => Value::Directory,
        _ => Value::Any,
    });
    Word { name: name.to_string(), value, meaning: meaning.trim().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_say_what_there_is() {
        let page = "demo x: looks\n\nUsage: demo x [-f file] [--json] [options] URL\n       demo x [-v]\n\nText [-z] of it.\n\n\
                    Commands that ask:\n  status   how it is\n  log A B  a level\n  log -    all\n\nOptions:\n  \
                    -h, --help  this page\n  -t -D X  : dumps\n";
        let found: Vec<(String, Option<Value>, String)> =
            words(page).into_iter().map(|word| (word.name, word.value, word.meaning)).collect();
        let plain = |name: &str, meaning: &str| (name.to_string(), None, meaning.to_string());
        let want = [
            ("-f".into(), Some(Value::File), String::new()),
            plain("--json", ""),
            plain("-v", ""),
            plain("status", "how it is"),
            plain("log", "a level"),
            plain("-h", "this page"),
            plain("--help", "this page"),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn every_page_has_words() {
        for Page { name, purpose, words } in pages() {
            assert!(!words.is_empty() && (name.is_empty() || !purpose.is_empty()), "{name}");
            assert!(words.iter().all(|word| !word.name.contains([' ', '\'', '['])), "{name}: {words:?}");
        }
        let own = &pages()[0].words;
        for option in ["-f", "-d", "-D", "-C", "-c", "-e", "-E", "-k", "-t", "-S", "-M", "-v", "-V", "-X", "--port"] {
            assert!(own.iter().any(|word| word.name == option), "{option}");
        }
    }
}

//! Writes the pages as completion scripts for the shells.

use std::fmt::Write as _;

use super::{Completed, CompletedWord};
use crate::cli::Value;

/// The options whose value is of one kind, as a pattern for `case`.
fn options(pages: &[Completed], is_wanted: fn(Value) -> bool) -> String {
    let mut names: Vec<&str> = Vec::new();
    for word in pages.iter().flat_map(|page| &page.words) {
        if is_wanted(word.value) && !names.contains(&word.name) {
            names.push(word.name);
        }
    }
    names.join("|")
}

/// The options that take one of a fixed set of words, such as `-k`, with these words.
fn choices(pages: &[Completed]) -> Vec<(&'static str, Vec<&'static str>)> {
    let chosen = pages[0].words.iter().map(|word| (word.name, word.value.choice()));
    chosen.filter(|(_, words)| !words.is_empty()).collect()
}

fn commands(pages: &[Completed]) -> Vec<&str> {
    pages[1..].iter().map(|page| page.name).collect()
}

fn names(words: &[CompletedWord]) -> String {
    words.iter().map(|word| word.name).collect::<Vec<_>>().join(" ")
}

/// Puts a text in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

pub(super) fn bash(pages: &[Completed]) -> String {
    let mut out = String::from(
        "# Made by `tsubame completions bash`.\n_tsubame() {\n    \
         local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words\n    case $before in\n",
    );
    let (files, directories) = (
        options(pages, |value| matches!(value, Value::File(_))),
        options(pages, |value| matches!(value, Value::Directory(_))),
    );
    let reply = "mapfile -t COMPREPLY < <(compgen";
    let _ = writeln!(out, "        {files}) compopt -o filenames; {reply} -f -- \"$word\"); return ;;");
    let _ = writeln!(out, "        {directories}) compopt -o filenames; {reply} -d -- \"$word\"); return ;;");
    for (name, words) in choices(pages) {
        let words = words.join(" ");
        let _ = writeln!(out, "        {name}) {reply} -W '{words}' -- \"$word\"); return ;;");
    }
    let _ = writeln!(out, "        {}) return ;;\n    esac", options(pages, |value| matches!(value, Value::Any(_))));
    out.push_str("    case $COMP_CWORD:${COMP_WORDS[1]} in\n");
    let (own, first) = (names(&pages[0].words), commands(pages).join(" "));
    let _ = writeln!(out, "        1:*) words='{first} {own}' ;;");
    for page in &pages[1..] {
        let _ = writeln!(out, "        *:{}) words='{}' ;;", page.name, names(&page.words));
    }
    let _ = writeln!(out, "        *) words='{own}' ;;\n    esac");
    let _ = writeln!(out, "    {reply} -W \"$words\" -- \"$word\")\n}}\ncomplete -o default -F _tsubame tsubame");
    out
}

pub(super) fn zsh(pages: &[Completed]) -> String {
    // `_arguments` wants colons and brackets escaped.
    let escape = |text: &str| text.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]").replace(':', "\\:");
    let specification = |word: &CompletedWord| {
        let value = match word.value {
            Value::None => String::new(),
            Value::File(_) => ":file:_files".into(),
            Value::Directory(_) => ":directory:_directories".into(),
            Value::Signal(_) => format!(":word:({})", word.value.choice().join(" ")),
            Value::Any(_) => ":value: ".into(),
        };
        quoted(&format!("*{}[{}]{value}", word.name, escape(word.meaning.trim())))
    };
    let arguments = |out: &mut String, page: &Completed, rest: &str| {
        let (options, words): (Vec<&CompletedWord>, Vec<&CompletedWord>) =
            page.words.iter().partition(|word| word.name.starts_with('-'));
        out.push_str("            _arguments");
        options.iter().for_each(|word| {
            let _ = write!(out, " \\\n                {}", specification(word));
        });
        if !words.is_empty() {
            let words: Vec<&str> = words.iter().map(|word| word.name).collect();
            let _ = write!(out, " \\\n                '*:word:({})'", words.join(" "));
        }
        let _ = writeln!(out, "{rest} ;;");
    };
    let mut out = String::from(
        "#compdef tsubame\n# Made by `tsubame completions zsh`.\n_tsubame() {\n    local -a commands\n    commands=(\n",
    );
    for page in &pages[1..] {
        let _ = writeln!(out, "        {}", quoted(&format!("{}:{}", page.name, page.purpose)));
    }
    let _ =
        writeln!(out, "    )\n    if (( CURRENT > 2 )) && [[ $words[2] == ({}) ]]; then", commands(pages).join("|"));
    out.push_str("        shift words\n        (( CURRENT-- ))\n    else\n        words[1]=tsubame\n    fi\n");
    out.push_str("    case $words[1] in\n");
    for page in &pages[1..] {
        let _ = writeln!(out, "        {})", page.name);
        arguments(&mut out, page, "");
    }
    out.push_str("        *)\n            (( CURRENT == 2 )) && _describe command commands\n");
    arguments(&mut out, &pages[0], " \\\n                '*:directory:_directories'");
    out.push_str("    esac\n}\n_tsubame \"$@\"\n");
    out
}

pub(super) fn fish(pages: &[Completed]) -> String {
    let mut out = String::from("# Made by `tsubame completions fish`.\ncomplete -c tsubame -f\n");
    let all = commands(pages).join(" ");
    for page in &pages[1..] {
        let meaning = quoted(page.purpose);
        let _ = writeln!(out, "complete -c tsubame -n '__fish_is_nth_token 1' -a {} -d {meaning}", page.name);
    }
    for page in pages {
        let when = match page.name {
            "" => format!("not __fish_seen_subcommand_from {all}"),
            name => format!("__fish_seen_subcommand_from {name}"),
        };
        for CompletedWord { name, value, meaning } in &page.words {
            let word = match (name.strip_prefix("--"), name.strip_prefix('-')) {
                (Some(long), _) => format!("-l {long}"),
                (None, Some(short)) => format!("-s {short}"),
                (None, None) => format!("-a {name}"),
            };
            let value = match value {
                Value::None => String::new(),
                Value::File(_) | Value::Directory(_) => " -r -F".into(),
                Value::Signal(_) => format!(" -x -a {}", quoted(&value.choice().join(" "))),
                Value::Any(_) => " -x".into(),
            };
            let _ = writeln!(out, "complete -c tsubame -n '{when}' {word}{value} -d {}", quoted(meaning.trim()));
        }
    }
    out
}

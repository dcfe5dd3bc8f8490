//! The first line of a script: the program that runs it, and its switches.

use std::fs::File;
use std::io::Read;

use http::text::from_bytes;
use server::paths::base_name;

/// How much of a file to read, in bytes: as much as the kernel does (`BINPRM_BUF_SIZE`).
const FIRST: u64 = 256;

/// The parts of a first line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shebang {
    /// The name of the program, without its directory.
    pub(super) program: String,
    /// Its switches up to `--`.
    pub(super) perl: Vec<String>,
    /// The switches after it, which are SpeedyCGI's.
    pub(super) speedy: Vec<String>,
}

/// The first line of a file; empty if there is no file, or no such line.
pub(super) fn of(path: &str) -> Shebang {
    let mut first = Vec::new();
    let read = server::paths::c_path(path)
        .and_then(|path| sys::file::open(&path).ok())
        .is_some_and(|file| File::from(file).take(FIRST).read_to_end(&mut first).is_ok());
    if read { parse(&first) } else { Shebang::default() }
}

fn parse(first: &[u8]) -> Shebang {
    let line = first.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some(line) = line.strip_prefix(b"#!") else { return Shebang::default() };
    let line = from_bytes(line);
    let mut words = line.split_whitespace().map(str::to_string);
    let mut program = words.next().unwrap_or_default();
    if base_name(&program) == "env" {
        program = words.next().unwrap_or_default();
    }
    let perl = words.by_ref().take_while(|word| word != "--").filter(|word| word.starts_with('-')).collect();
    Shebang { program: base_name(&program).to_string(), perl, speedy: words.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let cases: &[(&str, &str, &[&str], &[&str])] = &[
            ("#!/usr/bin/perl -wT\nprint 1", "perl", &["-wT"], &[]),
            ("#!/usr/bin/speedy -w -- -t300 -M5\r\n", "speedy", &["-w"], &["-t300", "-M5"]),
            ("#! /usr/bin/env perl\n", "perl", &[], &[]),
            ("#!/usr/bin/perperl", "perperl", &[], &[]),
            ("print 1;\n#!/usr/bin/perl", "", &[], &[]),
            ("", "", &[], &[]),
        ];
        for (text, program, perl, speedy) in cases {
            let want = Shebang { program: program.to_string(), perl: words(perl), speedy: words(speedy) };
            assert_eq!(parse(text.as_bytes()), want, "{text}");
        }
    }
}

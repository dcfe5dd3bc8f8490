//! Finds the log that a program writes: `CustomLog "|/usr/bin/rotatelogs /var/log/access.%Y%m%d 86400" combined`.

use std::path::{Path, PathBuf};

/// A program that writes what it reads to files.
struct Program {
    name: &'static str,
    /// Options whose value is the next argument.
    with_values: &'static [&'static str],
}

/// The programs whose first argument is the file, or a pattern of strftime for it.
const PROGRAMS: [Program; 2] = [
    Program { name: "rotatelogs", with_values: &["-L", "-p", "-n"] },
    Program {
        name: "cronolog",
        with_values: &[
            "-H",
            "--hardlink",
            "-S",
            "-l",
            "--symlink",
            "-P",
            "--prev-symlink",
            "-p",
            "--period",
            "-d",
            "--delay",
        ],
    },
];

/// The path, or the pattern for paths, in a log's destination that begins with `|`. `None` if it is not a pipe or its
/// program is not known.
pub(crate) fn logged_by(destination: &str) -> Option<PathBuf> {
    let command = destination.strip_prefix('|')?;
    // `||` runs the program without a shell, as `|` does; `|$` runs it with one.
    let command = command.strip_prefix(['|', '$']).unwrap_or(command);
    let mut words = words(command).into_iter().skip_while(|word| word == "exec");
    let program = words.next()?;
    let name = Path::new(&program).file_name()?.to_str()?;
    // Some distributions call Apache's programs `rotatelogs2`.
    let program = PROGRAMS.iter().find(|program| name.trim_end_matches('2') == program.name)?;
    while let Some(word) = words.next() {
        match program.with_values.contains(&word.as_str()) {
            true => drop(words.next()),
            false if word.len() > 1 && word.starts_with('-') => {}
            false => return Some(PathBuf::from(word)),
        }
    }
    None
}

/// The words of a command; quotes and backslashes are a shell's.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = command.chars();
    while let Some(char) = chars.next() {
        match (char, quote) {
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(chars.next()),
            ('"' | '\'', None) => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (_, Some(open)) if char == open => quote = None,
            (_, None) if char.is_ascii_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_known_program_is_found() {
        let cases = [
            ("|/usr/bin/rotatelogs /var/log/x.%Y%m%d 86400", Some("/var/log/x.%Y%m%d")),
            ("| rotatelogs2 -l -f /var/log/x 5M", Some("/var/log/x")),
            ("||/usr/sbin/rotatelogs -L /var/log/link -p /bin/true -n 5 -Dc \"/var/log/a b\" 60", Some("/var/log/a b")),
            ("|$exec rotatelogs '/var/log/a\\b' 86400 | true", Some("/var/log/a\\b")),
            ("||cronolog --period=days -S /l /var/log/%Y/%m/access.log", Some("/var/log/%Y/%m/access.log")),
            ("|cronolog --symlink /l logs/a\\ b", Some("logs/a b")),
            ("|rotatelogs -n", None),
            ("|rotatelogs", None),
            ("|/usr/bin/multilog t /var/log/x", None),
            ("|$gzip -c >> /var/log/x.gz", None),
            ("|", None),
            ("|'", None),
            ("|\\", None),
            ("/var/log/apache2/access.log", None),
        ];
        for (destination, path) in cases {
            assert_eq!(logged_by(destination), path.map(PathBuf::from), "{destination}");
        }
    }
}

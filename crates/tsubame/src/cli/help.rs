//! Help pages as tables. `--help`, completions and messages about a wrong command line are made from them.

use std::fmt::Write as _;

use super::options::SIGNALS;

/// A word of a command line: an option, or a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    /// Its names, such as `-h` and `--help`.
    pub(crate) names: &'static [&'static str],
    pub(crate) value: Value,
    pub(crate) meaning: &'static str,
}

/// What follows a word, and the text that stands for it on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    None,
    File(&'static str),
    Directory(&'static str),
    /// A word for `-k`.
    Signal(&'static str),
    Any(&'static str),
}

impl Value {
    fn text(self) -> &'static str {
        match self {
            Value::None => "",
            Value::File(text) | Value::Directory(text) | Value::Signal(text) | Value::Any(text) => text,
        }
    }

    /// The words to choose from, if there are only so many.
    pub(crate) fn choice(self) -> Vec<&'static str> {
        match self {
            Value::Signal(_) => SIGNALS.iter().map(|(word, _)| *word).collect(),
            _ => Vec::new(),
        }
    }
}

/// A word without a value.
pub(crate) const fn word(names: &'static [&'static str], meaning: &'static str) -> Word {
    Word { names, value: Value::None, meaning }
}

/// A word with a value.
pub(crate) const fn with(names: &'static [&'static str], value: Value, meaning: &'static str) -> Word {
    Word { names, value, meaning }
}

impl Word {
    /// As the page shows it: `-f file`, or `-h, --help`.
    pub(crate) fn term(&self) -> String {
        let names = self.names.join(", ");
        match self.value.text() {
            "" => names,
            value => format!("{names} {value}"),
        }
    }
}

/// The help page of a command.
pub(crate) struct HelpPage {
    /// The name of the command.
    pub(crate) name: &'static str,
    pub(crate) purpose: &'static str,
    /// The usage lines. `{}` stands for the options in `brief`, in brackets.
    pub(crate) usage: &'static [&'static str],
    /// Options that only the usage lines show.
    pub(crate) brief: &'static [Word],
    /// Paragraphs before the words.
    pub(crate) text: &'static str,
    /// The column of the words' meanings.
    pub(crate) column: usize,
    /// The words, below their headings.
    pub(crate) groups: &'static [(&'static str, &'static [Word])],
    /// Paragraphs after the words, if any.
    pub(crate) end: &'static str,
    /// The exit status if the command line is wrong.
    pub(crate) misuse: u8,
}

impl HelpPage {
    /// The page, as `--help` prints it.
    pub(crate) fn page(&self) -> String {
        let mut page = format!("tsubame {}: {}\n\n{}\n{}", self.name, self.purpose, self.usage_lines(), self.text);
        for (heading, words) in self.groups {
            let _ = writeln!(page, "\n{heading}:");
            for word in *words {
                let _ = writeln!(page, "  {:<width$}{}", word.term(), word.meaning, width = self.column - 2);
            }
        }
        if !self.end.is_empty() {
            let _ = write!(page, "\n{}", self.end);
        }
        page
    }

    /// How the command is called.
    pub(crate) fn usage_lines(&self) -> String {
        let brief: Vec<String> = self.brief.iter().map(|word| format!("[{}]", word.term())).collect();
        let mut lines = String::new();
        for (number, line) in self.usage.iter().enumerate() {
            let front = if number == 0 { "Usage: " } else { "       " };
            let _ = writeln!(lines, "{front}tsubame {}", line.replace("{}", &brief.join(" ")));
        }
        lines
    }

    /// All words, in the order of the page.
    pub(crate) fn words(&self) -> impl Iterator<Item = &'static Word> {
        self.brief.iter().chain(self.groups.iter().flat_map(|(_, words)| *words))
    }

    /// The names of the long options.
    pub(crate) fn long_options(&self) -> impl Iterator<Item = &'static str> {
        self.words().flat_map(|word| word.names).copied().filter(|name| name.starts_with("--"))
    }
}

const DEFINE: &str = "define a name for use in <IfDefine name> directives";
const SERVER_ROOT: &str = "specify an alternate initial ServerRoot";
const FILE: &str = "specify an alternate ServerConfigFile";
const BEFORE: &str = "process directive before reading config files";
const AFTER: &str = "process directive after reading config files";

/// The options that select the configuration, for commands of our own.
pub(crate) const CONFIGURATION: [Word; 5] = [
    with(&["-d"], Value::Directory("directory"), SERVER_ROOT),
    with(&["-f"], Value::File("file"), FILE),
    with(&["-D"], Value::Any("name"), DEFINE),
    with(&["-C"], Value::Any("line"), BEFORE),
    with(&["-c"], Value::Any("line"), AFTER),
];

/// httpd's own options. Some rows combine options that have rows of their own.
#[rustfmt::skip]
pub(super) const HTTPD: [Word; 21] = [
    with(&["-D"], Value::Any("name"), DEFINE),
    with(&["-d"], Value::Directory("directory"), SERVER_ROOT),
    with(&["-f"], Value::File("file"), FILE),
    with(&["-C"], Value::Any("\"directive\""), BEFORE),
    with(&["-c"], Value::Any("\"directive\""), AFTER),
    with(&["-e"], Value::Any("level"), "show startup errors of level (see LogLevel)"),
    with(&["-E"], Value::File("file"), "log startup errors to file"),
    word(&["-v"], "show version number"),
    word(&["-V"], "show compile settings"),
    word(&["-h"], "list available command line options (this page)"),
    word(&["-l"], "list compiled in modules"),
    word(&["-L"], "list available configuration directives"),
    word(&["-t -D DUMP_VHOSTS"], "show parsed vhost settings"),
    word(&["-t -D DUMP_RUN_CFG"], "show parsed run settings"),
    word(&["-S"], "a synonym for -t -D DUMP_VHOSTS -D DUMP_RUN_CFG"),
    word(&["-t -D DUMP_MODULES"], "show all loaded modules "),
    word(&["-M"], "a synonym for -t -D DUMP_MODULES"),
    word(&["-t -D DUMP_INCLUDES"], "show all included configuration files"),
    word(&["-t"], "run syntax check for config files"),
    word(&["-T"], "start without DocumentRoot(s) check"),
    word(&["-X"], "debug mode (only one worker, do not detach)"),
];

/// The options of the program itself that its pages show in examples only.
const OWN: [Word; 4] = [
    with(&["-k"], Value::Signal("word"), "start the server, or send it a signal"),
    with(&["--port"], Value::Any("N"), "serve a directory, or the demonstration site, on this port"),
    word(&["--help"], "what the program can do"),
    word(&["--version"], "its version"),
];

/// The words of the program itself, each once.
pub(crate) fn own_words() -> impl Iterator<Item = &'static Word> {
    const ALL: [&[Word]; 2] = [&HTTPD, &OWN];
    ALL.into_iter().flatten().filter(|word| !word.names[0].contains(' '))
}

//! No configuration makes the reader panic, an error has its line, and a tree that was read can be written and read
//! again.
//!
//! The directive tables are those of the whole server; the machine is simulated. An input is a main file. `%%` on a
//! line of its own begins the text of `other.conf`, which the main file may include.

#![no_main]

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};

use conf::error::{Error, Phase};
use conf::{Args, FileKind, Language, ModuleInfo, Node, Reader, System};
use http::text::to_bytes;
use libfuzzer_sys::fuzz_target;
use server::{Sources, load};

const MAIN: &str = "/etc/httpd/httpd.conf";
const OTHER: &str = "/etc/httpd/other.conf";
const SEPARATOR: &[u8] = b"\n%%\n";

/// Every module of the program, as the binary lists them.
static KNOWN: LazyLock<Vec<&'static ModuleInfo>> = LazyLock::new(|| {
    server::module::set_known(modules::MODULES);
    let mpms = [&mpm::tables::PREFORK, &mpm::tables::WORKER, &mpm::tables::EVENT, &mpm::tables::PERCORE];
    std::iter::once(&mpm::tables::CORE).chain(server::known_infos()).chain(mpms).collect()
});
/// The modules without any `LoadModule` line.
static UNSELECTED: LazyLock<Vec<&'static ModuleInfo>> =
    LazyLock::new(|| KNOWN.iter().copied().filter(|info| !info.id.starts_with("mpm_")).collect());

fuzz_target!(|data: &[u8]| {
    let machine = Arc::new(Machine::new(data));
    if let Some((tree, language)) = read(machine.clone()) {
        read_again(machine.clone(), &tree, language);
    }
    apply(machine);
});

/// The state before anything is read.
static LANGUAGE: LazyLock<Language> = LazyLock::new(|| Language::new(&KNOWN, &UNSELECTED, "/etc/httpd"));

fn language() -> Language {
    LANGUAGE.clone()
}

/// Reads the main file into a tree.
fn read(machine: Arc<Machine>) -> Option<(Vec<Node>, Language)> {
    let mut reader = Reader::new(machine, language());
    match reader.read_file(MAIN) {
        Ok(tree) => {
            tree.iter().for_each(has_a_place);
            Some((tree, reader.language))
        }
        Err(error) => {
            knows_its_line(&error);
            None
        }
    }
}

/// Writes a tree, reads it again, and expects the same tree.
fn read_again(machine: Arc<Machine>, tree: &[Node], language: Language) {
    if !tree.iter().all(|node| is_plain(node, &language)) {
        return;
    }
    let text = write(tree);
    let mut reader = Reader::new(machine, language);
    let again = reader.read_text("again", to_bytes(&text).into_owned()).expect("what was written can be read");
    assert_eq!(text, write(&again));
}

/// Whether a line means the same when it is read again. Its name must consist of letters, digits and `_`, as all known
/// names do: each reading removes quotes, backslashes and a closing `>`, which may expose a `#` or a `<` at the start.
/// Excluded are lines with a variable in a value that came out of a variable, with a backslash at the end of the file,
/// or of a module that was loaded after the line and would now run it at once.
fn is_plain(node: &Node, language: &Language) -> bool {
    let word = if node.children.is_some() { &node.name[1..] } else { &node.name[..] };
    let named = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let runs = language.directive(&node.name).is_some_and(|row| matches!(row.args, Args::OnRead(_)));
    let plain = named && !runs && !node.args.contains("${") && !node.args.ends_with('\\');
    plain && node.children.iter().flatten().all(|child| is_plain(child, language))
}

/// A tree as configuration text.
fn write(tree: &[Node]) -> String {
    let line = |node: &Node| match &node.children {
        None => format!("{} {}\n", node.name, node.args),
        Some(children) => format!("{} {}\n{}</{}>\n", node.name, node.args, write(children), &node.name[1..]),
    };
    tree.iter().map(line).collect()
}

/// Goes all the way from tree to settings to server. If all errors are kept, as `check` does, there must be errors if
/// and only if the configuration cannot start.
fn apply(machine: Arc<Machine>) {
    let starts = try_apply(machine.clone(), false).is_empty();
    let errors = try_apply(machine, true);
    assert_eq!(starts, errors.is_empty(), "started: {starts}; kept: {errors:?}");
}

/// The errors: the first one, or all.
fn try_apply(machine: Arc<Machine>, keep_errors: bool) -> Vec<Error> {
    let sources = Sources { program: "tsubame", before: &[], file: Some(MAIN), text: None, after: &[], keep_errors };
    let check = |draft: &mut server::Draft, context: &mut conf::Context| {
        let chosen = mpm::choose(context.language.loaded(), "tsubame")?;
        context.notices.extend(chosen.check(&draft.main, mpm::When::Start));
        Ok(())
    };
    let errors = match load(machine, language(), &sources, |_| "Tsubame".to_string(), check) {
        Ok(loaded) => {
            conf::dump::dump_config(&loaded.server.tree, loaded.server.infos());
            loaded.errors
        }
        Err(failed) => std::iter::once(failed.error).chain(failed.errors).collect(),
    };
    errors.iter().for_each(knows_its_line);
    errors
}

fn has_a_place(node: &Node) {
    assert!(node.origin.line > 0);
    node.children.iter().flatten().for_each(has_a_place);
}

fn knows_its_line(error: &Error) {
    assert!(!error.message.is_empty() && !error.own_lines("tsubame").is_empty());
    match &error.origin {
        Some(origin) => assert!(origin.line > 0, "{error:?}"),
        // Only checks of the whole configuration, and Apache's messages without a line, have no origin.
        None => assert!(error.phase == Phase::Check || error.message.starts_with("AH"), "{error:?}"),
    }
}

/// A machine with two files, two directories and one user.
struct Machine {
    main: Vec<u8>,
    other: Vec<u8>,
}

impl Machine {
    fn new(data: &[u8]) -> Machine {
        let split = data.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
        let (main, other) = match split {
            Some(at) => (&data[..at + 1], &data[at + SEPARATOR.len()..]),
            None => (data, &b"KeepAlive On\n"[..]),
        };
        Machine { main: main.to_vec(), other: other.to_vec() }
    }
}

impl System for Machine {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        match path {
            MAIN => Ok(self.main.clone()),
            OTHER => Ok(self.other.clone()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        match dir.trim_end_matches('/') {
            "/etc/httpd" => Ok(vec!["other.conf".into(), "httpd.conf".into()]),
            "/etc" => Ok(vec!["httpd".into()]),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn file_kind(&self, path: &str) -> io::Result<FileKind> {
        match path.trim_end_matches('/') {
            _ if path == MAIN || path == OTHER => Ok(FileKind::Regular { is_empty: false }),
            "" | "/etc" | "/etc/httpd" | "/etc/httpd/logs" | "/var/www/html" => Ok(FileKind::Directory),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn env(&self, name: &str) -> Option<String> {
        (name == "RUN").then(|| "/run/httpd".to_string())
    }

    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match name {
            "localhost" => Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn name_of(&self, _: IpAddr) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn user(&self, name: &str) -> Option<(u32, u32)> {
        (name == "www").then_some((33, 33))
    }

    fn group(&self, name: &str) -> Option<u32> {
        (name == "www").then_some(33)
    }

    fn hostname(&self) -> (String, Option<String>) {
        ("fuzz".into(), None)
    }
}

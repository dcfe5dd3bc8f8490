//! Golden configurations: `tests/golden/*.conf`.
//!
//! A case is a configuration, a line of dashes, and what `-t` says of it, standard output first. Lines with `- ` in front
//! are Apache's only, lines with `+ ` are ours only, all others come from both; where apache2 is installed it is asked
//! too. What we say below Apache's words is left out: `gallery.rs` shows that. Lines with `>> ` at the beginning of a file say how to run it:
//!
//! - `>> arguments …`, `>> environment NAME=VALUE`: beside `-t`
//! - `>> needs alias env`: modules without which the case says nothing
//! - `>> no newline at the end`
//! - `>> alone`: Apache is not asked, as its words depend on more than the case
//! - `>> differs ENTRY`: the entry of `docs/differences.md` for lines that are not the same
//!
//! `---------- file NAME` begins a further file (`NAME -> TARGET` is a symbolic link). `UPDATE=1` writes what is said now.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::beside::without_help;
use crate::harness::oracle;
use crate::harness::site::Site;

const DASHES: &str = "----------";

/// The modules that the cases are written for, as in the captures of Apache's behaviour.
const MODULES: [&str; 28] = [
    "access_compat",
    "actions",
    "alias",
    "allowmethods",
    "auth_basic",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_host",
    "authz_user",
    "autoindex",
    "deflate",
    "dir",
    "env",
    "expires",
    "filter",
    "headers",
    "include",
    "macro",
    "mime",
    "negotiation",
    "proxy",
    "proxy_http",
    "rewrite",
    "setenvif",
    "status",
    "ssl",
    "userdir",
];

struct Case {
    path: PathBuf,
    header: Vec<String>,
    /// Name and text; the first is the configuration itself.
    files: Vec<(String, String)>,
    expected: Vec<String>,
}

impl Case {
    fn read(path: PathBuf) -> Case {
        let text = std::fs::read_to_string(&path).expect("a golden case");
        let mut case =
            Case { path, header: Vec::new(), files: vec![("c.conf".into(), String::new())], expected: Vec::new() };
        let mut lines = text.split_inclusive('\n').peekable();
        while let Some(line) = lines.next_if(|line| line.starts_with(">> ")) {
            case.header.push(line[3..].trim_end().into());
        }
        for line in lines.by_ref() {
            match line.trim_end_matches('\n').strip_prefix(DASHES) {
                Some("") => break,
                Some(name) if name.starts_with(" file ") => case.files.push((name[6..].into(), String::new())),
                _ => case.files.last_mut().expect("a file").1.push_str(line),
            }
        }
        case.expected = lines.map(|line| line.trim_end_matches('\n').to_string()).collect();
        if case.header.iter().any(|line| line == "no newline at the end") {
            case.files[0].1.pop();
        }
        case
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.header.iter().find_map(|line| line.strip_prefix(name)).map(str::trim)
    }

    fn words(&self, name: &str) -> Vec<&str> {
        self.value(name).map(|value| value.split(' ').collect()).unwrap_or_default()
    }

    fn name(&self) -> String {
        self.path.file_name().expect("a name").to_string_lossy().into_owned()
    }

    /// Whether we have the modules.
    fn is_for_us(&self) -> bool {
        self.words("needs ").iter().all(|module| is_ours(module))
    }

    /// The output of `program`: standard output, standard error, exit status.
    fn run(&self, program: &Path, modules: &str) -> Vec<String> {
        let site = Site::new();
        let root = site.path();
        let real = |text: &str| text.replace("ROOT", root).replace("MODULES", oracle::MODULES);
        for (name, text) in &self.files {
            match name.split_once(" -> ") {
                Some((link, target)) => {
                    std::os::unix::fs::symlink(target, site.root.join(link)).expect("a link");
                }
                None => _ = site.file(name, real(text)),
            }
        }
        site.file("exists", "");
        let identity = if sys::cred::is_root() { "User www-data\nGroup www-data\n" } else { "" };
        site.file("base.conf", format!("ServerName localhost\nListen 127.0.0.1:9\n{identity}{modules}<IfModule mod_mime.c>\nTypesConfig conf/mime.types\n</IfModule>\n"));
        let output = Command::new(program)
            .arg0("apache2")
            .args(["-d", root, "-f", "c.conf", "-C", &format!("Include {root}/base.conf"), "-t"])
            .args(self.words("arguments "))
            .envs(self.value("environment ").and_then(|pair| pair.split_once('=')))
            .output()
            .expect("run");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        let mut lines = neutral(&text.replace(root, "ROOT").replace(oracle::MODULES, "MODULES"));
        lines.push(format!("-> exit {}", output.status.code().unwrap_or(-1)));
        lines
    }
}

fn is_ours(module: &str) -> bool {
    crate::config::tables::infos().iter().any(|info| info.id == format!("{module}_module"))
}

/// Takes out times and process numbers, what belongs to `base.conf`, our help below an error, and what is repeated very often.
fn neutral(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut in_base = false;
    for line in without_help(text) {
        if let Some(file) = line.strip_prefix("# In file: ") {
            in_base = file == "ROOT/base.conf";
        }
        // The dump ends where something else begins.
        in_base &= line.starts_with([' ', '#']) || line.split(' ').next().is_some_and(is_directive_of_base);
        if in_base {
            continue;
        }
        let line = match line.strip_prefix('[').and_then(|rest| rest.split_once("] [")) {
            Some((_, rest)) => {
                match rest.split_once("] [pid ").and_then(|(level, rest)| Some((level, rest.split_once(']')?.1))) {
                    Some((level, rest)) => format!("[T] [{level}] [pid N]{rest}"),
                    None => line.into(),
                }
            }
            None => line.to_string(),
        };
        let prefix = "Syntax error on line 1 of ROOT/c.conf: ";
        let times = line.matches(prefix).count();
        lines.push(match times {
            0..10 => line,
            _ => line.replacen(prefix, &format!("[{times} times the same] "), 1).replace(prefix, ""),
        });
    }
    lines
}

fn is_directive_of_base(word: &str) -> bool {
    ["ServerName", "Listen", "User", "Group", "TypesConfig"].contains(&word)
}

fn our_modules() -> String {
    let all = MODULES.iter().chain([&"info"]);
    let ours = all.filter(|module| is_ours(module) && **module != "macro");
    let macros = is_linked("macro").then_some(()).map_or("LoadModule macro_module MODULES/mod_macro.so\n", |()| "");
    let lines: String =
        ours.map(|module| format!("LoadModule {module}_module {0}/mod_{module}.so\n", oracle::MODULES)).collect();
    format!("LoadModule mpm_prefork_module {}/mod_mpm_prefork.so\n{macros}{lines}", oracle::MODULES)
}

fn is_linked(module: &str) -> bool {
    crate::config::tables::infos().iter().any(|info| info.id == format!("{module}_module") && info.linked)
}

/// Apache needs mod_info to dump a configuration.
fn their_modules() -> String {
    let all = ["mpm_prefork", "info"].into_iter().chain(MODULES);
    all.map(|module| format!("LoadModule {module}_module {0}/mod_{module}.so\n", oracle::MODULES)).collect()
}

/// Puts two answers together: common lines, `- ` the first one's, `+ ` the second one's, in the order of the second.
fn merge(theirs: &[String], ours: &[String]) -> Vec<String> {
    let mut merged = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < theirs.len() || j < ours.len() {
        if i < theirs.len() && j < ours.len() && theirs[i] == ours[j] {
            merged.push(theirs[i].clone());
            (i, j) = (i + 1, j + 1);
        } else if i < theirs.len() && !ours[j..].contains(&theirs[i]) {
            merged.push(format!("- {}", theirs[i]));
            i += 1;
        } else {
            merged.push(format!("+ {}", ours[j]));
            j += 1;
        }
    }
    merged
}

/// The lines of one side.
fn side(expected: &[String], other: &str, own: &str) -> Vec<String> {
    let lines = expected.iter().filter(|line| !line.starts_with(other));
    lines.map(|line| line.strip_prefix(own).unwrap_or(line).to_string()).collect()
}

fn check(case: &Case) -> Vec<String> {
    let mut problems = Vec::new();
    let ours = case.is_for_us().then(|| case.run(Path::new(env!("CARGO_BIN_EXE_tsubame")), &our_modules()));
    let alone = case.header.iter().any(|line| line == "alone") || !Path::new(oracle::APACHE).exists();
    let theirs = (!alone).then(|| case.run(Path::new(oracle::APACHE), &their_modules()));
    if std::env::var_os("UPDATE").is_some() {
        let old = (side(&case.expected, "+ ", "- "), side(&case.expected, "- ", "+ "));
        let theirs = theirs.unwrap_or(old.0);
        let merged = match ours {
            Some(ours) => merge(&theirs, &ours),
            None => theirs,
        };
        write(case, &merged);
        return problems;
    }
    let mut compare = |who: &str, said: Option<Vec<String>>, expected: Vec<String>| {
        if said.as_ref().is_some_and(|said| *said != expected) {
            let said = said.unwrap_or_default().join("\n    ");
            problems.push(format!(
                "{}: {who} says\n    {said}\n  and not\n    {}",
                case.name(),
                expected.join("\n    ")
            ));
        }
    };
    compare("Tsubame", ours, side(&case.expected, "- ", "+ "));
    compare("Apache", theirs, side(&case.expected, "+ ", "- "));
    let different = case.expected.iter().any(|line| line.starts_with("- ") || line.starts_with("+ "));
    match case.value("differs ") {
        Some(entry) if !include_str!("../../../../../docs/differences.md").contains(entry) => {
            problems.push(format!("{}: docs/differences.md has no entry {entry:?}", case.name()));
        }
        None if different => problems.push(format!("{}: it differs from Apache without saying why", case.name())),
        _ => {}
    }
    problems
}

fn write(case: &Case, expected: &[String]) {
    let mut text: String = case.header.iter().map(|line| format!(">> {line}\n")).collect();
    for (index, (name, content)) in case.files.iter().enumerate() {
        if index > 0 {
            text.push_str(&format!("{DASHES} file {name}\n"));
        }
        text.push_str(content);
        if !content.is_empty() && !content.ends_with('\n') {
            text.push('\n');
        }
    }
    text.push_str(&format!("{DASHES}\n{}\n", expected.join("\n")));
    std::fs::write(&case.path, text).expect("write");
}

#[test]
fn every_case_says_what_it_should() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory).expect("tests/golden").map(|entry| entry.expect("entry").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no golden cases");
    let cases: Vec<Case> = paths.into_iter().map(Case::read).collect();
    for case in cases.iter().filter(|case| !case.is_for_us()) {
        println!("{}: not run, it needs {}", case.name(), case.words("needs ").join(", "));
    }
    oracle::is_there("golden configurations");
    let problems: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = cases
            .chunks(cases.len().div_ceil(4))
            .map(|part| scope.spawn(move || part.iter().flat_map(check).collect::<Vec<String>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a checker")).collect()
    });
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

//! A configuration in Apache's language, flattened to one text in which the settings of the multi-processing module can
//! be replaced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::space::Mpm;

/// The settings of the multi-processing module. The lifetime of a child and the needs of its threads are left alone.
const SETTINGS: [&str; 11] = [
    "asyncrequestworkerfactor",
    "maxclients",
    "maxrequestworkers",
    "maxspareservers",
    "maxsparethreads",
    "minspareservers",
    "minsparethreads",
    "serverlimit",
    "startservers",
    "threadlimit",
    "threadsperchild",
];

/// Files that include each other more deeply than this do so endlessly.
const DEPTH_MAX: usize = 16;

/// Reads a configuration like httpd, only to replace includes by their contents.
pub(super) struct Flattener {
    /// The base of relative names, until a `ServerRoot` line changes it.
    root: PathBuf,
    defines: BTreeMap<String, String>,
}

impl Flattener {
    /// With the compiled-in server root.
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, defines: BTreeMap::new() }
    }

    /// The text with its includes expanded. A line whose include cannot be read stays: it may be in an unwanted
    /// section, and if not, the server reports the error.
    pub(super) fn flatten(&mut self, text: &str) -> String {
        self.flattened(text, 0)
    }

    fn flattened(&mut self, text: &str, depth: usize) -> String {
        let mut out = String::new();
        for line in lines(text) {
            let (name, value) = directive(&line);
            match name.as_str() {
                "define" => {
                    let (name, value) = value.split_once(char::is_whitespace).unwrap_or((&value, ""));
                    let value = self.expand(&unquoted(value));
                    self.defines.insert(name.to_owned(), value);
                }
                "serverroot" => self.root = PathBuf::from(self.expand(&unquoted(&value))),
                "include" | "includeoptional" => {
                    let files = files(&self.root.join(self.expand(&unquoted(&value))));
                    let texts: Option<Vec<String>> =
                        files.iter().map(|file| std::fs::read_to_string(file).ok()).collect();
                    if let Some(texts) = texts.filter(|texts| !texts.is_empty() && depth < DEPTH_MAX) {
                        for (file, text) in files.iter().zip(texts) {
                            let text = self.flattened(&text, depth + 1);
                            out += &format!("# From {}\n{}\n", file.display(), text.trim_end());
                        }
                        continue;
                    }
                }
                _ => {}
            }
            out += &line;
            out.push('\n');
        }
        out
    }

    /// Replaces `${NAME}` by its definition, or by the environment's value. Unknown names stay.
    fn expand(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${")
            && let Some((name, behind)) = after.split_once('}')
        {
            let value = self.defines.get(name).cloned().or_else(|| std::env::var(name).ok());
            out += before;
            out += &value.unwrap_or_else(|| format!("${{{name}}}"));
            rest = behind;
        }
        out + rest
    }
}

/// The module in a flattened configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LoadedMpm {
    /// The module that it loads, if any.
    pub(super) mpm: Option<Mpm>,
    /// The directory of modules.
    pub(super) modules: Option<PathBuf>,
}

/// The module that a flattened configuration loads.
pub(super) fn loaded(text: &str) -> LoadedMpm {
    lines(text).iter().filter_map(|line| load_line(line)).next_back().map_or_else(LoadedMpm::default, |(mpm, file)| {
        LoadedMpm { mpm: Some(mpm), modules: file.parent().map(Path::to_owned) }
    })
}

/// The module's settings in a flattened configuration, by lower-case names; of several the last counts. Sections for
/// another module are skipped.
pub(super) fn settings(text: &str, mpm: Mpm) -> BTreeMap<String, u64> {
    let mut sections: Vec<bool> = Vec::new();
    let mut found = BTreeMap::new();
    for line in lines(text) {
        let (name, value) = directive(&line);
        if let Some(end) = name.strip_prefix('<') {
            match end.starts_with('/') {
                true => drop(sections.pop()),
                false => sections.push(is_for(&line, mpm)),
            }
        } else if SETTINGS.contains(&name.as_str())
            && sections.iter().all(|holds| *holds)
            && let Ok(number) = unquoted(&value).parse::<f64>()
        {
            let name = if name == "maxclients" { "maxrequestworkers".to_owned() } else { name };
            found.insert(name, number as u64);
        }
    }
    found
}

/// A flattened configuration with this module, loaded by `load` in the place of the old one, and with these lines
/// instead of its settings.
pub(super) fn replaced(text: &str, load: Option<&str>, settings: &str) -> String {
    let mut out = String::new();
    let mut is_loaded = load.is_none();
    for line in lines(text) {
        if SETTINGS.contains(&directive(&line).0.as_str()) {
            continue;
        }
        match (load_line(&line), load) {
            (Some(_), Some(load)) => {
                out += load;
                is_loaded = true;
            }
            _ => out += &line,
        }
        out.push('\n');
    }
    match load.filter(|_| !is_loaded) {
        Some(load) => format!("{load}\n{out}{settings}"),
        None => out + settings,
    }
}

/// The module and the file of a line that loads one.
fn load_line(line: &str) -> Option<(Mpm, PathBuf)> {
    let (name, value) = directive(line);
    let (module, file) = value.split_once(char::is_whitespace).filter(|_| name == "loadmodule")?;
    let mpm = Mpm::of(module.strip_prefix("mpm_")?.strip_suffix("_module")?)?;
    Some((mpm, PathBuf::from(unquoted(file))))
}

/// Whether the contents of a section apply under this module. Only tests for a module are evaluated: others are left to
/// the server.
fn is_for(line: &str, mpm: Mpm) -> bool {
    let asked = line.trim().trim_start_matches('<').trim_end_matches('>');
    let Some((kind, asked)) = asked.split_once(char::is_whitespace) else { return true };
    let asked = unquoted(asked);
    let (wanted, asked) = match asked.strip_prefix('!') {
        Some(asked) => (false, asked),
        None => (true, asked.as_str()),
    };
    let name = asked.trim_end_matches(".c").trim_end_matches("_module");
    match Mpm::of(name.strip_prefix("mpm_").unwrap_or(name)) {
        Some(other) if kind.eq_ignore_ascii_case("ifmodule") => (other == mpm) == wanted,
        _ => true,
    }
}

/// Lines as defined by the language: a backslash at the end joins the next one.
fn lines(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        match all.last_mut().filter(|_| goes_on) {
            Some(last) => {
                last.push('\n');
                last.push_str(line);
            }
            None => all.push(line.to_owned()),
        }
        goes_on = line.ends_with('\\');
    }
    all
}

/// The name in lower case, and the rest of the line.
fn directive(line: &str) -> (String, String) {
    let line = line.replace("\\\n", " ");
    let (name, value) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    (name.to_ascii_lowercase(), value.trim().to_owned())
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    let inner = ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    inner.unwrap_or(text).to_owned()
}

/// The files that match a name with wildcards, in order; for a directory, all in it.
fn files(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern {
        let part = part.to_string_lossy();
        found = match part.contains(['*', '?']) {
            false => found.into_iter().map(|path| path.join(part.as_ref())).collect(),
            true => found.iter().flat_map(|path| entries(path)).filter(|path| has_name(path, &part)).collect(),
        };
    }
    found.into_iter().flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
}

fn below(directory: &Path) -> Vec<PathBuf> {
    entries(directory).into_iter().flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn has_name(path: &Path, pattern: &str) -> bool {
    path.file_name().is_some_and(|name| matches(pattern.as_bytes(), name.to_string_lossy().as_bytes()))
}

/// `*` matches anything, `?` one character.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|at| matches(rest, &name[at..])),
        (Some((b'?', rest)), Some((_, behind))) => matches(rest, behind),
        (Some((one, rest)), Some((other, behind))) => one == other && matches(rest, behind),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::scratch::Scratch;

    #[test]
    fn included_files_take_the_place_of_their_line() {
        let scratch = Scratch::for_test("flatten");
        let root = scratch.path();
        std::fs::create_dir_all(root.join("sites/old")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
        write("sites/b.conf", "B 2\n");
        write("sites/a.conf", "A 1\nInclude ${DIR}/old\n");
        write("sites/c.txt", "C 3\n");
        write("sites/old/d", "D 4");
        let text = format!(
            "ServerRoot \"{}\"\nDefine DIR sites\nBefore\nInclude sites/*.conf\nIncludeOptional none/*.conf\n\
             <IfDefine X>\nInclude none.conf\n</IfDefine>\nAfter \\\n  all\n",
            root.display()
        );
        let flat = Flattener::new("/nowhere".into()).flatten(&text);
        let kept: Vec<&str> = flat.lines().filter(|line| !line.starts_with('#')).skip(2).collect();
        let expected = [
            "Before",
            "A 1",
            "D 4",
            "B 2",
            "IncludeOptional none/*.conf",
            "<IfDefine X>",
            "Include none.conf",
            "</IfDefine>",
            "After \\",
            "  all",
        ];
        assert_eq!(kept, expected);
    }

    #[test]
    fn a_file_that_includes_itself_comes_to_an_end() {
        let scratch = Scratch::for_test("flatten-loop");
        let file = scratch.path().join("loop.conf");
        let text = format!("Include {}\n", file.display());
        std::fs::write(&file, &text).unwrap();
        assert!(Flattener::new("/".into()).flatten(&text).ends_with(&text));
    }

    #[test]
    fn wild_cards_stand_for_names() {
        let cases = [("*.conf", "a.conf", true), ("*.conf", "a.conf~", false), ("a?c", "abc", true), ("*", "", true)];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    const TEXT: &str = "\
LoadModule mpm_event_module /lib/m/mod_mpm_event.so
Listen 80
<IfModule mpm_prefork_module>
StartServers 5
</IfModule>
<IfModule !mpm_prefork.c>
  StartServers 3
  MaxClients \"400\"
</IfModule>
ThreadsPerChild \\
  25
MaxConnectionsPerChild 9
";

    #[test]
    fn settings_are_those_of_the_module() {
        let found = loaded(TEXT);
        assert_eq!((found.mpm, found.modules), (Some(Mpm::Event), Some("/lib/m".into())));
        let said = |mpm| {
            let all = settings(TEXT, mpm);
            all.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(said(Mpm::Event), "maxrequestworkers=400 startservers=3 threadsperchild=25");
        assert_eq!(said(Mpm::Prefork), "startservers=5 threadsperchild=25");
    }

    #[test]
    fn settings_and_module_are_replaced_and_nothing_else() {
        let load = "LoadModule mpm_worker_module /lib/m/mod_mpm_worker.so";
        let text = replaced(TEXT, Some(load), "StartServers 1\n");
        let expected = format!(
            "{load}\nListen 80\n<IfModule mpm_prefork_module>\n</IfModule>\n<IfModule !mpm_prefork.c>\n</IfModule>\n\
             MaxConnectionsPerChild 9\nStartServers 1\n"
        );
        assert_eq!(text, expected);
        assert_eq!(replaced("Listen 80\n", Some(load), ""), format!("{load}\nListen 80\n"));
        assert!(replaced(TEXT, None, "").starts_with("LoadModule mpm_event_module"));
    }
}

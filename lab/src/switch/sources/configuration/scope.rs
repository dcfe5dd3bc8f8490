//! What a section covers: paths of URLs that reach it.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::switch::sources::pattern::Pattern;
use crate::switch::sources::walk::{Entry, Ground, encoded, is_like};
use crate::switch::tree::Directive;

/// The most paths of a section.
const PATHS_MAX: usize = 3;

/// What a section covers.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// Some paths that reach it, a directory first if there is one.
    pub(super) paths: Vec<String>,
    within: Within,
}

/// Which files are in it.
#[derive(Clone, Debug)]
enum Within {
    All,
    Directories(Vec<PathBuf>),
    Paths(Vec<String>),
}

impl Scope {
    /// Everything that a site serves.
    pub(super) fn of_site(ground: &Ground) -> Self {
        let mut scope = Self { paths: vec!["/".to_owned()], within: Within::All };
        scope.paths.extend(scope.files(ground, is_text).into_iter().take(1));
        scope
    }

    /// What a section in it covers.
    pub(super) fn within(&self, section: &Directive, ground: &Ground) -> Self {
        let words = section.words();
        let (is_pattern, text) = match &words[..] {
            [tilde, pattern, ..] if tilde == "~" => (true, pattern.as_str()),
            [text, ..] => (section.name.to_ascii_lowercase().ends_with("match"), text.as_str()),
            [] => return self.clone(),
        };
        let pattern = if is_pattern { Pattern::read(text) } else { None };
        let mut scope = match section.name.to_ascii_lowercase().as_str() {
            "location" | "locationmatch" => {
                let paths = match pattern {
                    Some(pattern) => paths_of(&pattern),
                    None if is_pattern => Vec::new(),
                    None => vec![encoded(plain(text).as_bytes())],
                };
                let mut scope = Self { within: Within::Paths(paths.clone()), paths };
                scope.paths.extend(scope.files(ground, is_text).into_iter().take(1));
                scope
            }
            "directory" | "directorymatch" => {
                let path = Path::new(text);
                let is_plain = !is_pattern && !text.contains(['*', '?', '[']);
                let fits = |entry: &Entry| match &pattern {
                    Some(pattern) => {
                        let own = entry.path.to_string_lossy();
                        pattern.is_found(&own) || pattern.is_found(&format!("{own}/"))
                    }
                    None => {
                        let pattern = text.trim_end_matches('/').as_bytes();
                        !is_pattern && is_like(pattern, entry.path.as_os_str().as_bytes(), true)
                    }
                };
                let directories: Vec<PathBuf> = match is_plain {
                    true => vec![path.to_owned()],
                    false => {
                        let found = ground.entries().filter(|(_, entry)| entry.is_directory && fits(entry));
                        found.map(|(_, entry)| entry.path.clone()).take(PATHS_MAX).collect()
                    }
                };
                let urls = directories.iter().flat_map(|directory| ground.urls_of(directory));
                let slashed = urls.map(|url| format!("{}/", url.trim_end_matches('/'))).take(PATHS_MAX - 1).collect();
                let mut scope = Self { paths: slashed, within: Within::Directories(directories) };
                scope.paths.extend(scope.files(ground, is_text).into_iter().take(1));
                scope
            }
            "files" | "filesmatch" => {
                let fits = |entry: &Entry| match &pattern {
                    Some(pattern) => pattern.is_found(&String::from_utf8_lossy(entry.name())),
                    None => !is_pattern && is_like(text.as_bytes(), entry.name(), false),
                };
                let mut paths = self.files(ground, fits);
                let name = match &pattern {
                    Some(pattern) => pattern.texts().into_iter().next(),
                    None => Some(plain(text)),
                };
                let missing = name.filter(|name| !name.is_empty() && !name.contains('/'));
                let place = self.paths.first().map_or("/", String::as_str);
                let directory = &place[..=place.rfind('/').unwrap_or(0)];
                paths.extend(missing.map(|name| format!("{directory}{}", encoded(name.as_bytes()))));
                Self { within: Within::Paths(paths.clone()), paths }
            }
            _ => return self.clone(),
        };
        scope.paths.dedup();
        scope.paths.truncate(PATHS_MAX);
        scope
    }

    /// Whether it is a section of a directory, in which paths are relative.
    pub(super) fn is_directory(&self) -> bool {
        matches!(self.within, Within::Directories(_))
    }

    /// The paths of some files in it.
    pub(super) fn files(&self, ground: &Ground, fits: impl Fn(&Entry) -> bool) -> Vec<String> {
        let own = ground.entries().filter(|(url, entry)| !entry.is_directory && self.has(url, entry) && fits(entry));
        own.map(|(url, _)| url).take(PATHS_MAX - 1).collect()
    }

    /// Whether a file or directory is in it.
    pub(super) fn has(&self, url: &str, entry: &Entry) -> bool {
        match &self.within {
            Within::All => true,
            Within::Directories(all) => all.iter().any(|directory| entry.path.starts_with(directory)),
            Within::Paths(all) => all.iter().any(|path| url.starts_with(path.as_str())),
        }
    }
}

/// Paths of URLs that a pattern matches.
pub(super) fn paths_of(pattern: &Pattern) -> Vec<String> {
    let path = |text: String| {
        let path = if text.starts_with('/') { text } else { format!("/{text}") };
        pattern.is_found(&path).then(|| encoded(path.as_bytes()))
    };
    pattern.texts().into_iter().filter_map(path).collect()
}

/// A text that a pattern of a shell stands for.
fn plain(pattern: &str) -> String {
    pattern.replace(['*', '?'], "x")
}

/// Whether it is a page or another text that everybody may read.
fn is_text(entry: &Entry) -> bool {
    let extension = entry.extension().unwrap_or_default();
    entry.is_open && entry.size > 0 && ["html", "htm", "txt", "css", "js", "xml"].contains(&extension)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::tree::Origin;

    #[test]
    fn sections_cover_paths() {
        let ground = Ground::default();
        for (name, arguments, expected) in [
            ("Location", "/a*/b", &["/ax/b"][..]),
            ("Location", "~ \"^/(x|y)z$\"", &["/xz", "/yz"]),
            ("LocationMatch", r"\.(php|cgi)$", &["/.php", "/.cgi"]),
            ("LocationMatch", "(?<name>.)", &[]),
            ("Directory", "/no/such", &[]),
            ("Files", "*.bak", &["/x.bak"]),
            ("FilesMatch", r"^\.ht", &["/.ht"]),
            ("If", "true", &["/"]),
        ] {
            let origin = Origin { file: "a".into(), line: 1 };
            let children = Some(Vec::new());
            let section = Directive { name: name.to_owned(), arguments: arguments.to_owned(), origin, children };
            assert_eq!(Scope::of_site(&ground).within(&section, &ground).paths, expected, "{name} {arguments}");
        }
    }
}

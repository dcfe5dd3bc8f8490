//! The files that sites serve, and the paths of URLs at which they are: what `DocumentRoot`, `Alias` and `UserDir` say.
//!
//! Files are never opened, and what is behind a symbolic link is served but not walked.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::collection::Given;
use crate::switch::sites::Site;
use crate::switch::tree::{Directive, all};

/// The most entries of one directory tree: every kind of file shows among the first thousands.
const ENTRIES_MAX: usize = 5_000;
/// The most entries of all trees together, so that a thousand sites do not take the memory of a million files.
const TOTAL_MAX: usize = 200_000;
/// How deep directories are walked.
const DEPTH_MAX: usize = 8;
/// The most users whose directories are walked.
const USERS_MAX: usize = 3;
/// How many directories that may not be read are named.
const NAMED_MAX: usize = 5;

/// A file or a directory.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its place.
    pub(super) path: PathBuf,
    /// Its path below the tree's directory.
    below: PathBuf,
    pub(super) is_directory: bool,
    /// In bytes.
    pub(super) size: u64,
    /// When it was modified, in seconds since 1970.
    pub(super) modified: i64,
    /// Whether everybody may read it, and enter it if it is a directory.
    pub(super) is_open: bool,
    pub(super) is_link: bool,
}

impl Entry {
    /// Its name, as bytes.
    pub(super) fn name(&self) -> &[u8] {
        self.path.file_name().map_or(b"", |name| name.as_bytes())
    }

    /// What follows the last dot of its name; none for `.htaccess`.
    pub(super) fn extension(&self) -> Option<&str> {
        self.path.extension()?.to_str()
    }
}

/// A directory that a site serves.
#[derive(Clone, Debug)]
pub(super) struct Mount {
    /// The path of URLs that leads there, as it is sent, with a slash at the end.
    pub(super) url: String,
    pub(super) directory: PathBuf,
    entries: Rc<Vec<Entry>>,
}

impl Mount {
    /// Its files and directories, with their paths in URLs.
    pub(super) fn entries(&self) -> impl Iterator<Item = (String, &Entry)> {
        self.entries.iter().map(|entry| (self.url_of(entry), entry))
    }

    /// The path of an entry in URLs; that of a directory has a slash at the end.
    fn url_of(&self, entry: &Entry) -> String {
        let slash = if entry.is_directory && entry.path != self.directory { "/" } else { "" };
        format!("{}{}{slash}", self.url, encoded(entry.below.as_os_str().as_bytes()))
    }

    /// The path in URLs of a place in the directory.
    fn url_in(&self, path: &Path) -> Option<String> {
        let below = path.strip_prefix(&self.directory).ok()?;
        Some(format!("{}{}", self.url, encoded(below.as_os_str().as_bytes())))
    }
}

/// What a site serves.
#[derive(Clone, Debug, Default)]
pub(super) struct Ground {
    /// The directories, those first whose paths in URLs are longest.
    pub(super) mounts: Vec<Mount>,
}

impl Ground {
    /// All files and directories, with their paths in URLs.
    pub(super) fn entries(&self) -> impl Iterator<Item = (String, &Entry)> {
        self.mounts.iter().flat_map(Mount::entries)
    }

    /// The paths in URLs of a place: its own, or those of all directories in it.
    pub(super) fn urls_of(&self, path: &Path) -> Vec<String> {
        let own = self.mounts.iter().filter(|mount| path.starts_with(&mount.directory));
        let nearest = own.max_by_key(|mount| mount.directory.as_os_str().len());
        match nearest.and_then(|mount| mount.url_in(path)) {
            Some(url) => vec![url],
            None => {
                let inside = self.mounts.iter().filter(|mount| mount.directory.starts_with(path));
                inside.map(|mount| mount.url.clone()).collect()
            }
        }
    }
}

/// The directories of all sites, each walked once.
#[derive(Debug, Default)]
pub(super) struct Walked {
    trees: BTreeMap<PathBuf, Rc<Vec<Entry>>>,
    total: usize,
    /// Directories that this process may not read.
    unreadable: Vec<PathBuf>,
}

impl Walked {
    /// What a site serves.
    pub(super) fn ground(&mut self, given: &Given<'_>, site: &Site) -> Ground {
        let own =
            |directive: &&Directive| !directive.is("VirtualHost") || site.origin.as_ref() == Some(&directive.origin);
        // A host's own lines come before those of the main server, as Apache looks at them.
        let tree = given.installed.tree.iter().filter(own);
        let (hosts, general): (Vec<&Directive>, Vec<&Directive>) = tree.partition(|one| one.is("VirtualHost"));
        let mut mounts = Vec::new();
        for directive in hosts.into_iter().chain(general).flat_map(|one| all(std::slice::from_ref(one))) {
            let words = directive.words();
            match (directive.name.to_ascii_lowercase().as_str(), &words[..]) {
                ("alias" | "scriptalias", [url, directory]) if url.starts_with('/') => {
                    mounts.push((url.clone(), given.installed.root.join(directory)));
                }
                ("userdir", words) => mounts.extend(users(words)),
                _ => {}
            }
        }
        if let Some(documents) = &site.documents {
            mounts.push(("/".to_owned(), given.installed.root.join(documents)));
        }
        let mut ground = Ground::default();
        for (url, directory) in mounts {
            let url = format!("{}/", encoded(url.trim_end_matches('/').as_bytes()));
            if directory.is_dir() && !ground.mounts.iter().any(|known| known.url == url) {
                let entries = self.tree(&directory);
                ground.mounts.push(Mount { url, directory, entries });
            }
        }
        ground.mounts.sort_by_key(|mount| std::cmp::Reverse(mount.url.len()));
        ground
    }

    /// What has to be said about the walk.
    pub(super) fn notes(&self) -> Vec<String> {
        let shown: Vec<String> =
            self.unreadable.iter().take(NAMED_MAX).map(|path| path.display().to_string()).collect();
        let more = self.unreadable.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let unreadable = (!shown.is_empty())
            .then(|| format!("you may not read {}{more}: what is there is not asked for", shown.join(", ")));
        let full = (self.total >= TOTAL_MAX).then(|| format!("only the first {TOTAL_MAX} files were looked at"));
        unreadable.into_iter().chain(full).collect()
    }

    /// The entries of a directory, itself first, upper ones before deeper ones.
    fn tree(&mut self, directory: &Path) -> Rc<Vec<Entry>> {
        if let Some(known) = self.trees.get(directory) {
            return Rc::clone(known);
        }
        let mut entries: Vec<Entry> = entry(directory, directory).into_iter().collect();
        let mut open = VecDeque::from([(directory.to_owned(), 0)]);
        while let Some((inside, depth)) = open.pop_front() {
            let Ok(found) = std::fs::read_dir(&inside) else {
                self.unreadable.push(inside);
                continue;
            };
            let left = ENTRIES_MAX.min(TOTAL_MAX.saturating_sub(self.total)).saturating_sub(entries.len());
            let mut paths: Vec<PathBuf> = found.flatten().map(|one| one.path()).take(left).collect();
            paths.sort();
            for entry in paths.iter().filter_map(|path| entry(path, directory)) {
                if entry.is_directory && !entry.is_link && depth < DEPTH_MAX {
                    open.push_back((entry.path.clone(), depth + 1));
                }
                entries.push(entry);
            }
        }
        self.total += entries.len();
        let entries = Rc::new(entries);
        self.trees.insert(directory.to_owned(), Rc::clone(&entries));
        entries
    }
}

/// What is there, without opening it; none if it is neither file nor directory.
fn entry(path: &Path, tree: &Path) -> Option<Entry> {
    let is_link = path.symlink_metadata().ok()?.is_symlink() && path != tree;
    let about = path.metadata().ok()?;
    let needed = if about.is_dir() { 0o005 } else { 0o004 };
    (about.is_dir() || about.is_file()).then(|| Entry {
        path: path.to_owned(),
        below: path.strip_prefix(tree).unwrap_or(path).to_owned(),
        is_directory: about.is_dir(),
        size: about.len(),
        modified: about.mtime(),
        is_open: about.permissions().mode() & needed == needed,
        is_link,
    })
}

/// The directories of some users, as `UserDir` says.
fn users(words: &[String]) -> Vec<(String, PathBuf)> {
    let Some(pattern) = words.first().filter(|word| !word.contains("://")) else { return Vec::new() };
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let homes = text.lines().filter_map(|line| {
        let parts: Vec<&str> = line.split(':').collect();
        Some((*parts.first()?, *parts.get(5)?))
    });
    let place = |(name, home): (&str, &str)| {
        let path = match pattern.as_str() {
            pattern if pattern.contains('*') => pattern.replacen('*', name, 1),
            pattern if pattern.starts_with('/') => format!("{pattern}/{name}"),
            pattern => format!("{home}/{pattern}"),
        };
        (format!("/~{name}"), PathBuf::from(path))
    };
    homes.map(place).filter(|(_, path)| path.is_dir()).take(USERS_MAX).collect()
}

/// A path as it stands in a target: what has no meaning of its own there stays, everything else is escaped.
pub(super) fn encoded(path: &[u8]) -> String {
    let escape = |byte: &u8| match byte {
        b'/' | b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';'
        | b'=' | b':' | b'@' => char::from(*byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    path.iter().map(escape).collect()
}

/// Whether a pattern of a shell stands for a text; with `in_paths`, wildcards stand for no slash.
pub(super) fn is_like(pattern: &[u8], text: &[u8], in_paths: bool) -> bool {
    // The last star, and how far the text behind it was tried.
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        let fits = match pattern.get(at) {
            Some(b'?') => !in_paths || text[from] != b'/',
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
                continue;
            }
            Some(byte) => *byte == text[from],
            None => false,
        };
        if fits {
            (at, from) = (at + 1, from + 1);
            continue;
        }
        let Some((last, tried)) = star.filter(|(_, tried)| !in_paths || text[*tried] != b'/') else { return false };
        star = Some((last, tried + 1));
        (at, from) = (last + 1, tried + 1);
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::machine::scratch::Scratch;

    /// A file that needs not be there.
    pub(in super::super) fn file(path: &str, size: u64, modified: i64) -> Entry {
        let path = PathBuf::from(path);
        let below = path.file_name().map(PathBuf::from).unwrap();
        Entry { path, below, is_directory: false, size, modified, is_open: true, is_link: false }
    }

    #[test]
    fn paths_are_escaped() {
        assert_eq!(encoded("/a b/ü?#%+.x".as_bytes()), "/a%20b/%C3%BC%3F%23%25+.x");
    }

    #[test]
    fn patterns_of_a_shell() {
        for (pattern, text, in_paths, expected) in [
            ("/home/*/public_html", "/home/me/public_html", true, true),
            ("/home/*/public_html", "/home/a/b/public_html", true, false),
            ("/home/*/public_html", "/home/a/b/public_html", false, true),
            (".ht*", ".htaccess", false, true),
            ("a?c*", "abc", false, true),
            ("a?c", "a/c", true, false),
            ("*a*b", "xaxxab", false, true),
            ("", "", false, true),
            ("", "a", false, false),
        ] {
            assert_eq!(is_like(pattern.as_bytes(), text.as_bytes(), in_paths), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn links_are_not_followed_into_directories() {
        let scratch = Scratch::for_test("walk");
        let root = scratch.path().join("tree");
        std::fs::create_dir_all(root.join("deep/er")).unwrap();
        std::fs::write(root.join("deep/er/a b.txt"), "x").unwrap();
        std::os::unix::fs::symlink("/", root.join("out")).unwrap();
        let mut walked = Walked::default();
        let entries = walked.tree(&root);
        let mount = Mount { url: "/d/".to_owned(), directory: root.clone(), entries };
        let ground = Ground { mounts: vec![mount] };
        let urls: Vec<String> = ground.entries().map(|(url, _)| url).collect();
        assert_eq!(urls, ["/d/", "/d/deep/", "/d/out/", "/d/deep/er/", "/d/deep/er/a%20b.txt"]);
        assert_eq!(ground.urls_of(&root.join("deep/new")), ["/d/deep/new"]);
        assert_eq!(ground.urls_of(scratch.path()), ["/d/"]);
        assert!(ground.urls_of(Path::new("/no/such")).is_empty());
    }
}

//! Requests for files: one of each kind in each site, in all forms.

mod forms;

use std::collections::BTreeSet;

use super::collection::{Collected, Given, in_turn};
use super::walk::{Entry, Ground};
use crate::switch::ask::{Ask, Sample, Source};
use forms::{DIRECTORY, FILE, Form};

/// The most requests: as many as two servers answer within a minute or two.
const REQUESTS_MAX: usize = 8_000;

/// The most requests of a site if there are very many sites.
const SITE_MIN: usize = 20;

/// Files of these extensions are asked in all forms: they stand for text, for what browsers load with a page, and for what is
/// not compressed.
const IMPORTANT: [&[&str]; 5] =
    [&["html", "htm"], &["css"], &["js", "mjs"], &["png", "jpg", "jpeg", "gif", "svg"], &[""]];

/// A mebibyte: larger files are sent differently.
const LARGE: u64 = 1024 * 1024;

/// A kind of files: of each only one is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    is_directory: bool,
    extension: String,
    size: Size,
    is_open: bool,
    is_link: bool,
    /// Whether its name begins with a dot.
    is_hidden: bool,
    /// What its name has besides letters, digits and the usual signs.
    special: Vec<char>,
    /// Whether a directory has a file that it may be shown by.
    has_index: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Size {
    Empty,
    Usual,
    Large,
}

/// Adds them for each site.
pub(super) fn collect(given: &Given<'_>, grounds: &[Ground], collected: &mut Collected) {
    let sites = given.sites.all().iter().filter(|site| site.endpoint().is_some()).count();
    let site_max = (REQUESTS_MAX / sites.max(1)).max(SITE_MIN);
    let mut lists = Vec::new();
    let mut all = 0;
    for (number, ground) in grounds.iter().enumerate() {
        if let Some(ask) = given.ask(number, "/") {
            let mut list = of_site(&ask, ground);
            all += list.len();
            list.truncate(site_max);
            lists.push(list);
        }
    }
    let taken = in_turn(lists, REQUESTS_MAX);
    if all > taken.len() {
        collected.notes.push(format!("of {all} requests for files, {} were asked", taken.len()));
    }
    taken.into_iter().for_each(|sample| collected.add(sample));
}

/// The requests of a site, the plain ones first.
fn of_site(ask: &Ask, ground: &Ground) -> Vec<Sample> {
    let chosen = chosen(ground);
    let mut samples = Vec::new();
    let mut complete: BTreeSet<usize> = BTreeSet::new();
    let rounds: [fn(&Form) -> bool; 3] = [Form::is_plain, Form::is_short, Form::is_long];
    for (round, belongs) in rounds.iter().enumerate() {
        for (url, entry) in &chosen {
            if round == 2 && !is_important(entry, &mut complete) {
                continue;
            }
            let forms = if entry.is_directory { DIRECTORY } else { FILE };
            for form in forms.iter().filter(|form| belongs(form)) {
                let mut ask = Ask { target: url.clone().into_bytes(), ..ask.clone() };
                (form.change)(&mut ask, entry);
                let source = Source::File(entry.path.display().to_string(), form.what);
                samples.push(Sample { ask, weight: 0, due: None, source });
            }
        }
    }
    samples
}

/// Whether it is the first of an important kind; directories always are.
fn is_important(entry: &Entry, complete: &mut BTreeSet<usize>) -> bool {
    if entry.is_directory {
        return complete.insert(IMPORTANT.len());
    }
    let extension = entry.extension().unwrap_or_default().to_ascii_lowercase();
    let group = IMPORTANT.iter().position(|group| group.contains(&extension.as_str()));
    entry.is_open
        && entry.size > 0
        && !entry.name().starts_with(b".")
        && group.is_some_and(|group| complete.insert(group))
}

/// One entry of each kind in each directory that is served, those of the document root first.
fn chosen(ground: &Ground) -> Vec<(String, &Entry)> {
    let is_index = |entry: &Entry| !entry.is_directory && entry.name().starts_with(b"index.");
    let indexes = ground.entries().filter(|(_, entry)| is_index(entry));
    let indexed: BTreeSet<_> = indexes.filter_map(|(_, entry)| entry.path.parent()).collect();
    let mut chosen = Vec::new();
    for mount in ground.mounts.iter().rev() {
        let mut known = BTreeSet::new();
        let is_new = |(_, entry): &(String, &Entry)| known.insert(kind(entry, indexed.contains(entry.path.as_path())));
        chosen.extend(mount.entries().filter(is_new));
    }
    chosen
}

fn kind(entry: &Entry, has_index: bool) -> Kind {
    let name = String::from_utf8_lossy(entry.name());
    let mut special: Vec<char> =
        name.chars().filter(|char| !char.is_ascii_alphanumeric() && !"-_.".contains(*char)).collect();
    // Letters beyond ASCII are all alike.
    special.iter_mut().filter(|char| !char.is_ascii()).for_each(|char| *char = 'ü');
    special.sort_unstable();
    special.dedup();
    let extension = if entry.is_directory { None } else { entry.extension() };
    Kind {
        is_directory: entry.is_directory,
        extension: extension.unwrap_or_default().to_ascii_lowercase(),
        size: match entry.size {
            _ if entry.is_directory => Size::Usual,
            0 => Size::Empty,
            1..=LARGE => Size::Usual,
            _ => Size::Large,
        },
        is_open: entry.is_open,
        is_link: entry.is_link,
        is_hidden: name.starts_with('.'),
        special,
        has_index,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::scratch::Scratch;
    use crate::switch::sources::collection::tests::{found, with_given};
    use crate::switch::sources::walk::Walked;

    #[test]
    fn one_file_of_each_kind_is_asked_for() {
        let scratch = Scratch::for_test("files");
        let root = scratch.path().join("site");
        for directory in ["documents/in", "documents/out", "more"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        for (file, content) in [
            ("documents/index.html", "x"),
            ("documents/other.html", "x"),
            ("documents/empty.html", ""),
            ("documents/in/index.html", "x"),
            ("documents/in/a?b.html", "x"),
            ("more/page.html", "x"),
            ("more/.hidden", "x"),
        ] {
            std::fs::write(root.join(file), content).unwrap();
        }
        let shown = root.display();
        let text = format!("Listen 80\nDocumentRoot {shown}/documents\nAlias /more {shown}/more");
        with_given(&text, &[], |given| {
            let mut walked = Walked::default();
            let grounds: Vec<Ground> = given.sites.all().iter().map(|site| walked.ground(given, site)).collect();
            let mut collected = Collected::default();
            collect(given, &grounds, &mut collected);
            let all = found(&collected);
            let plain =
                all.iter().filter(|(_, source)| source.ends_with("(the file)") || source.ends_with("(the directory)"));
            let targets: Vec<&str> = plain.filter_map(|(text, _)| text.strip_suffix(", Host: localhost")).collect();
            assert_eq!(
                targets,
                [
                    "GET /",
                    "GET /empty.html",
                    "GET /index.html",
                    "GET /out/",
                    "GET /in/a%3Fb.html",
                    "GET /more/",
                    "GET /more/.hidden",
                    "GET /more/page.html"
                ]
            );
            let has = |request: &str| all.iter().any(|(text, _)| text == request);
            assert!(has("GET /index.html, Host: localhost, Range: bytes=0-1,4-5,-2"), "the first page has all forms");
            assert!(!has("GET /more/page.html, Host: localhost, Range: bytes=0-1,4-5,-2"), "others have few");
            assert!(has("GET /more/page.html, Host: localhost, Range: bytes=0-9"));
        });
    }
}

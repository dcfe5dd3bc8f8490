//! The entries of a listing: their files, icons, descriptions and order.

use std::cmp::Ordering;
use std::fs::{DirEntry, ReadDir};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use conf::fnmatch::{self, fnmatch};
use conf::{Level, Stacked};
use http::text::{from_bytes, to_bytes};
use runtime::CoopBudget;
use server::Request;
use server::paths::{c_path, os_path};

use super::items::{DIRECTORY, Item, find};
use super::options::{FANCY, FOLDERS_FIRST, IGNORE_CASE, SCAN_TITLES, SHOW_FORBIDDEN, TABLE, VERSION_SORT};
use super::query::Query;
use super::settings::{IndexDir, Key};
use super::sort::{natural, sort_by};

fn describe(conf: &IndexDir, path: &str) -> Option<Arc<str>> {
    conf.descriptions.iter().find(|one| one.is_for(path)).map(|one| one.text.clone())
}

/// A line of a listing.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The name, with a slash at the end of a directory's; of the parent directory its URL path.
    pub(super) name: String,
    pub(super) icon: Option<Arc<str>>,
    pub(super) alt: Option<Arc<str>>,
    pub(super) description: Option<Arc<str>>,
    /// `None` for directories.
    pub(super) size: Option<u64>,
    /// In nanoseconds since 1970.
    pub(super) modified: Option<i128>,
    first: bool,
}

/// The maximum number of entries that are listed: a listing is sorted in memory.
const ENTRIES_MAX: usize = 100_000;

/// How many entries are read at once, beside the event loop.
const BATCH: usize = 1000;

/// The entries of a directory, sorted.
pub(super) async fn collect(request: &Request, conf: &IndexDir, query: &Query, directory: ReadDir) -> Vec<Entry> {
    let mut entries: Vec<Entry> = parent(request, conf, query).into_iter().collect();
    let mut budget = CoopBudget::new();
    let mut unread = Some(directory);
    while let Some(directory) = unread.take() {
        let (names, rest) = runtime::offload(runtime::Load::Wait, move || batch(directory)).await;
        unread = rest;
        for (name, is_dir) in names {
            budget.step().await;
            let Some(entry) = entry(request, conf, query, &name, is_dir).await else { continue };
            if entries.len() == ENTRIES_MAX {
                let text =
                    format!("{} has more than {ENTRIES_MAX} entries: the rest is not listed", request.mapped.filename);
                request.log("autoindex", Level::Warn, text);
                unread = None;
                break;
            }
            entries.push(entry);
        }
    }
    sort_by(entries, &|a, b| compare(query, a, b), &mut budget).await
}

/// The next names, and whether they are directories; and the rest to read.
fn batch(mut directory: ReadDir) -> (Vec<(String, bool)>, Option<ReadDir>) {
    let mut names = Vec::with_capacity(BATCH);
    while names.len() < BATCH {
        let Some(found) = directory.next() else { return (names, None) };
        names.extend(found.ok().and_then(|found| named(&found)));
    }
    (names, Some(directory))
}

/// `None`: it leads nowhere.
fn named(found: &DirEntry) -> Option<(String, bool)> {
    let kind = found.file_type().ok()?;
    let is_dir = if kind.is_symlink() { std::fs::metadata(found.path()).ok()?.is_dir() } else { kind.is_dir() };
    Some((from_bytes(found.file_name().as_bytes()).into_owned(), is_dir))
}

fn parent(request: &Request, conf: &IndexDir, query: &Query) -> Option<Entry> {
    let uri = request.data.uri.trim_end_matches('/');
    let up = &uri[..=uri.rfind('/')?];
    let path = format!("{}..", request.mapped.filename);
    if conf.ignored.covers(&path) {
        return None;
    }
    let fancy = query.options & FANCY != 0;
    let of = |list: &Stacked<Item>| find(list, &path, None).or_else(|| find(list, DIRECTORY, None));
    Some(Entry {
        name: up.to_string(),
        icon: of(&conf.icons).filter(|_| fancy),
        alt: fancy.then(|| of(&conf.alts).unwrap_or_else(|| "PARENTDIR".into())),
        description: describe(conf, &path).filter(|_| fancy),
        size: None,
        modified: None,
        first: false,
    })
}

/// The entry of a file; `None` if it is not to be shown, or would not be served.
async fn entry(request: &Request, conf: &IndexDir, query: &Query, name: &str, is_dir: bool) -> Option<Entry> {
    if let Some(pattern) = &query.pattern
        && !fnmatch(&pattern.replace('\\', "\\\\"), name, fnmatch::Flags::PERIOD)
    {
        return None;
    }
    let path = format!("{}{name}", request.mapped.filename);
    if conf.ignored.covers(&path) {
        return None;
    }
    let found = request.lookup_entry(name, is_dir).await;
    let meta = found.mapped.stat.filter(|meta| meta.is_dir() || meta.is_file())?;
    // A directory that the server may not enter could not be shown.
    let enters = |path| c_path(path).is_some_and(|path| sys::file::may_access(&path, true).is_ok());
    let status = if is_dir && !enters(&path) { 403 } else { found.response.status() };
    let shown = query.options & SHOW_FORBIDDEN != 0 && matches!(status, 401 | 403);
    if !shown && !(200..400).contains(&status) {
        return None;
    }
    let mut entry = Entry {
        name: if is_dir { format!("{name}/") } else { name.to_string() },
        icon: None,
        alt: None,
        description: None,
        size: None,
        modified: None,
        first: false,
    };
    if query.options & (FANCY | TABLE) == 0 {
        return Some(entry);
    }
    entry.first = is_dir && query.options & FOLDERS_FIRST != 0;
    entry.modified = Some(meta.mtime);
    let path = path.as_str();
    if is_dir {
        let of = |list| find(list, path, None).or_else(|| find(list, DIRECTORY, None));
        entry.icon = of(&conf.icons);
        entry.alt = Some(of(&conf.alts).unwrap_or_else(|| "DIR".into()));
    } else {
        entry.icon = find(&conf.icons, path, Some(&found));
        entry.alt = find(&conf.alts, path, Some(&found));
        entry.size = Some(meta.size);
    }
    entry.description = describe(conf, path);
    if entry.description.is_none() && query.options & SCAN_TITLES != 0 {
        entry.description = title(&found);
    }
    Some(entry)
}

/// How much of a page is searched for its title, in bytes, as in Apache.
const TITLE_WITHIN: u64 = 8191;

/// The title of an HTML page.
fn title(found: &Request) -> Option<Arc<str>> {
    use std::io::Read;
    let with_includes = found.response.content_type() == Some("text/x-server-parsed-html");
    if found.response.status() != 200 || found.response.content_encoding.is_some() || !(is_html(found) || with_includes)
    {
        return None;
    }
    let mut start = Vec::new();
    std::fs::File::open(os_path(&found.mapped.filename)).ok()?.take(TITLE_WITHIN).read_to_end(&mut start).ok()?;
    let tag = b"<title>";
    let at = start.windows(tag.len()).position(|part| part.eq_ignore_ascii_case(tag))? + tag.len();
    let text = &start[at..];
    let text = &text[..memchr::memchr2(b'<', 0, text).unwrap_or(text.len())];
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let text = text.iter().skip_while(|byte| is_break(byte));
    let text: Vec<u8> = text.map(|byte| if is_break(byte) { b' ' } else { *byte }).collect();
    Some(from_bytes(&text).into())
}

/// Whether a file is HTML.
pub(super) fn is_html(found: &Request) -> bool {
    let name = found.response.content_type().and_then(|text| text.split(';').next()).unwrap_or_default().trim();
    ["text/html", "application/xhtml+xml"].iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// The parent directory is always first, then perhaps the directories; names decide where all else is equal.
fn compare(query: &Query, a: &Entry, b: &Entry) -> Ordering {
    let is_parent = |entry: &Entry| entry.name.starts_with('/');
    let place = is_parent(b).cmp(&is_parent(a)).then_with(|| b.first.cmp(&a.first));
    let (a, b) = if query.ascending { (a, b) } else { (b, a) };
    place.then_with(|| by_key(query, a, b)).then_with(|| by_name(query, &a.name, &b.name))
}

fn by_key(query: &Query, a: &Entry, b: &Entry) -> Ordering {
    match query.key {
        Key::Name => Ordering::Equal,
        Key::Date => a.modified.cmp(&b.modified),
        Key::Size => a.size.cmp(&b.size),
        Key::Description => {
            let text = |entry: &Entry| to_bytes(entry.description.as_deref().unwrap_or_default()).into_owned();
            match query.options & VERSION_SORT != 0 {
                true => natural(&text(a), &text(b), false),
                false => text(a).cmp(&text(b)),
            }
        }
    }
}

fn by_name(query: &Query, a: &str, b: &str) -> Ordering {
    let (a, b) = (to_bytes(a), to_bytes(b));
    let ignore_case = query.options & IGNORE_CASE != 0;
    let mut order = Ordering::Equal;
    if query.options & VERSION_SORT != 0 {
        if ignore_case {
            order = natural(&a, &b, true);
        }
        order = order.then_with(|| natural(&a, &b, false));
    }
    if ignore_case {
        order = order.then_with(|| a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase()));
    }
    order.then_with(|| a.cmp(&b))
}

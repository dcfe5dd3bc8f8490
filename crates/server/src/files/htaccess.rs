//! `.htaccess` files: read through the same tables, cached by file identity (Apache manual, ".htaccess files").

use std::io::{self, Read};
use std::sync::PoisonError;

use conf::error::Phase;
use conf::{Allowed, Context, DirectiveContext, Error, Errors, Level, Node, Origin, Reader, SettingsMap};
use sys::file::Meta;

use crate::paths::{c_path, join, too_long};
use crate::request::Request;
use crate::request::flow::Flow;
use crate::settings::core::CoreDir;
use crate::settings::merge::Layer;
use crate::site::htaccess_cache::{CachedLayer, CachedSettings, HtaccessCache, Identity, OverrideRules};
use crate::site::server::Server;
use crate::site::watched::WatchedPath;
use crate::trace::{AccessLine, Met, Step};

/// The largest file, in bytes: a user with access to one must not be able to fill the server's memory.
pub(super) const SIZE_MAX: u64 = 1024 * 1024;
/// At this many cached files, all are forgotten.
const REMEMBERED_MAX: usize = 4096;

/// A file of this size or more is read beside the event loop, in bytes: a hundred lines take half a millisecond.
const LARGE: u64 = 16 * 1024;

/// An obstacle on the way to a directory.
pub(crate) enum Stop {
    /// The request ends.
    Ended(Flow),
    /// This large access file has to be read first.
    Unread(Box<Unread>),
}

impl From<Flow> for Stop {
    fn from(flow: Flow) -> Stop {
        Stop::Ended(flow)
    }
}

/// An access file as it is to be read: this state of it, under these rules.
pub(crate) struct Unread {
    server: &'static Server,
    path: String,
    /// The length of its directory's part of the path.
    dir: usize,
    meta: Meta,
    rules: OverrideRules,
}

/// An access file that was read beside the event loop.
pub(crate) struct Apart {
    path: String,
    reading: io::Result<Reading>,
}

/// A file's settings, and whether they are to be remembered.
struct Reading {
    known: CachedSettings,
    settled: bool,
}

impl Unread {
    /// Reads the file for [`read`]. Blocks, and takes up to 0.1 s.
    pub(crate) fn apart(self) -> Apart {
        let reading = match self.remembered() {
            Some(known) => Ok(Reading { known, settled: true }),
            None => self.reading(),
        };
        Apart { path: self.path, reading }
    }

    fn dir(&self) -> &str {
        &self.path[..self.dir]
    }

    fn identity(&self) -> Identity {
        let Meta { dev, ino, size, mtime, ctime, .. } = self.meta;
        (dev, ino, size, mtime, ctime)
    }

    fn is_in(&self, known: &CachedSettings) -> bool {
        known.identity == self.identity() && known.rules == self.rules
    }

    fn remembered(&self) -> Option<CachedSettings> {
        let files = self.server.htaccess.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(&self.path).filter(|known| self.is_in(known)).cloned()
    }

    fn reading(&self) -> io::Result<Reading> {
        let bytes = fetch(&self.path)?;
        // A file changed within the last tick could change again without a trace: do not cache it.
        let settled = !is_fresh(self.meta.mtime.max(self.meta.ctime)) && !depends_on_files(&bytes);
        let (outcome, warnings) = parse(self.server, &self.path, self.dir(), bytes, &self.rules);
        let known = CachedSettings { identity: self.identity(), rules: self.rules.clone(), outcome, warnings };
        if settled {
            let mut files = self.server.htaccess.files.write().unwrap_or_else(PoisonError::into_inner);
            if files.len() >= REMEMBERED_MAX {
                files.clear();
            }
            files.insert(self.path.clone(), known.clone());
        }
        Ok(Reading { known, settled })
    }
}

/// The settings of the first access file in `dir` (which ends with a slash), if there is one. `Err`: the request ends,
/// or a large file has to be read first. For settings that [want](is_wanted) one. `way`: collects other findings on the
/// way to the file. `apart`: the large files that were read for this request.
pub(crate) fn read(
    request: &mut Request,
    dir: &str,
    core: &CoreDir,
    way: &mut WatchedPath,
    apart: &[Apart],
) -> Result<Option<Layer>, Stop> {
    let Some((path, meta)) = find(request, dir, way)? else {
        request.trace.iter_mut().for_each(|trace| trace.note(Step::MissingAccessFile(dir.to_string())));
        return Ok(None);
    };
    let unread = Unread { server: request.server, path, dir: dir.len(), meta, rules: OverrideRules::of(core) };
    let path = &unread.path;
    let known = match unread.remembered().filter(|_| request.trace.is_none()) {
        Some(known) => known,
        None => {
            note(request, &unread);
            let before = apart.iter().find(|apart| apart.path == *path);
            let here;
            let reading = match before.map(|apart| &apart.reading) {
                None if meta.size >= LARGE && request.trace.is_none() => return Err(Stop::Unread(Box::new(unread))),
                Some(Ok(reading)) if unread.is_in(&reading.known) => Ok(reading),
                Some(Err(error)) => Err(error),
                _ => {
                    here = unread.reading();
                    here.as_ref()
                }
            };
            match reading {
                Ok(Reading { known, settled }) => {
                    way.passing |= !settled;
                    known.clone()
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    way.passing = true;
                    return Ok(None);
                }
                Err(error) => return Err(unreadable(request, path, dir, error).into()),
            }
        }
    };
    // A file's warnings are logged for each request, once: not again after a large file further down was read.
    way.passing |= !known.warnings.is_empty();
    let is_again = apart.iter().any(|apart| apart.path != *path && apart.path.starts_with(dir));
    for warning in known.warnings.iter().filter(|_| !is_again) {
        request.log_apart("core", Level::Warn, warning);
    }
    match known.outcome {
        Ok(layer) => Ok(Some(layer)),
        Err(message) => {
            request.log("core", Level::Alert, format!("{path}: {message}"));
            note_error(request, path, &message);
            Err(Flow::Status(500).into())
        }
    }
}

/// Says which line of an access file cannot be used.
fn note_error(request: &Request, path: &str, message: &str) {
    let lines = request.trace.iter().flat_map(|trace| trace.steps.iter().rev()).find_map(|step| match step {
        Step::AccessFile(file, lines, _) if file == path => Some(lines),
        _ => None,
    });
    let line = lines.and_then(|lines| lines.iter().find(|line| line.objection.is_some())).map(|line| line.number);
    request.note_reason(500, "core", None, |_| {
        let place = line.map_or_else(String::new, |line| format!(":{line}"));
        (format!("{path}{place}: {message}"), String::new())
    });
}

/// The first access file in a directory.
fn find(request: &Request, dir: &str, way: &mut WatchedPath) -> Result<Option<(String, Meta)>, Flow> {
    for name in &request.vhost.access_file_names {
        let path = join(dir, name);
        let Some(os) = c_path(&path) else { continue };
        let meta = match sys::file::stat(&os) {
            Ok(meta) => meta,
            Err(error) if matches!(error.raw_os_error(), Some(2 | 20)) => {
                // A link's target may appear where nobody watches.
                way.passing |= way.is_watched() && sys::file::lstat(&os).is_ok();
                continue;
            }
            // There is no such directory.
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename && too_long(&path).is_none() => continue,
            Err(error) => return Err(unreadable(request, &path, dir, &error)),
        };
        if !meta.is_file() {
            let text = format!("AH00554: Access to file {path} denied by server: not a regular file");
            request.log("core", Level::Error, text);
            return Err(unreadable(request, &path, dir, &io::Error::from_raw_os_error(sys::errno::BAD_DESCRIPTOR)));
        }
        if meta.size > SIZE_MAX {
            let text = format!("{path}: larger than {SIZE_MAX} bytes, the limit for an access file");
            request.log("core", Level::Alert, text);
            return Err(Flow::Status(500));
        }
        way.found(os, meta);
        return Ok(Some((path, meta)));
    }
    Ok(None)
}

/// The content of a file, whatever has replaced it meanwhile: never waits, and has a limit.
pub(super) fn fetch(path: &str) -> io::Result<Vec<u8>> {
    let file = std::fs::File::from(sys::file::open(&c_path(path).ok_or(io::ErrorKind::InvalidFilename)?)?);
    let mut bytes = Vec::new();
    file.take(SIZE_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The time within which a second change might leave no trace in a file's time of change, in nanoseconds.
const FRESH: i128 = 50_000_000;

fn is_fresh(mtime: i128) -> bool {
    sys::time::realtime_coarse().as_nanos() as i128 - mtime < FRESH
}

/// Whether the meaning of a file may change while the file does not: `<IfFile>` is evaluated for each request.
fn depends_on_files(text: &[u8]) -> bool {
    const ASKS: &[u8] = b"<IfFile";
    text.windows(ASKS.len()).any(|window| window.eq_ignore_ascii_case(ASKS))
}

fn unreadable(request: &Request, path: &str, dir: &str, error: &io::Error) -> Flow {
    let text = format!(
        "AH00529: {path} pcfg_openfile: unable to check htaccess file, ensure it is readable and that '{dir}' is executable"
    );
    request.log_os("core", Level::Crit, error, text);
    request.note_reason(403, "core", None, |_| {
        (path.to_string(), format!("cannot be read, so nothing in {dir} is served: {}", sys::describe(error)))
    });
    Flow::Status(403)
}

fn parse(
    server: &Server,
    path: &str,
    dir: &str,
    bytes: Vec<u8>,
    rules: &OverrideRules,
) -> (Result<Layer, String>, Vec<String>) {
    let (tree, place, mut context) = read_tree(server, path, dir, bytes, rules, Errors::first());
    let (mut ignored, mut slots) = (SettingsMap::default(), SettingsMap::default());
    let outcome = tree.and_then(|tree| {
        conf::apply(&tree, &mut ignored, &mut slots, &place, &mut context)?;
        Ok(layer_of(&server.htaccess, path, rules, tree, slots))
    });
    let warnings = context.notices.into_iter().map(|notice| notice.text).collect();
    let outcome = outcome.map_err(|error| match error.phase {
        Phase::Read | Phase::Apply | Phase::Check => error.message,
    });
    (outcome, warnings)
}

/// The layer of these settings: the file's former one, if its content is the same.
fn layer_of(cache: &HtaccessCache, path: &str, rules: &OverrideRules, tree: Vec<Node>, slots: SettingsMap) -> Layer {
    let mut layers = cache.layers.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(before) = layers.get(path).filter(|before| before.rules == *rules && before.tree == tree) {
        return before.layer.clone();
    }
    let layer = Layer::new(slots);
    if layers.len() >= REMEMBERED_MAX {
        layers.clear();
    }
    layers.insert(path.to_string(), CachedLayer { rules: rules.clone(), tree, layer: layer.clone() });
    layer
}

/// The lines of a file, and the context for applying them.
pub(super) fn read_tree(
    server: &Server,
    path: &str,
    dir: &str,
    bytes: Vec<u8>,
    rules: &OverrideRules,
    errors: Errors,
) -> (Result<Vec<Node>, Error>, DirectiveContext, Context) {
    let place = rules.place(dir);
    let mut reader = Reader::htaccess(server.system.clone(), server.language.clone(), place.clone());
    reader.errors = errors;
    let tree = reader.read_text(path, bytes);
    (tree, place, reader.into_context())
}

/// Records an access file's lines for an explanation, with whether each is allowed.
fn note(request: &mut Request, file: &Unread) {
    let Some(mut trace) = request.trace.take() else { return };
    let (path, dir, rules) = (&file.path, file.dir(), &file.rules);
    // A file that cannot be read says so later.
    let bytes = fetch(path).unwrap_or_default();
    let (tree, place, mut context) = read_tree(request.server, path, dir, bytes, rules, Errors::first());
    let (tree, mut wrong) = match tree {
        Ok(tree) => (tree, None),
        Err(error) => (Vec::new(), Some(error.message)),
    };
    context.errors = Errors::all();
    // The error that ends the reading is among the others, or one too many.
    let _ = conf::apply(&tree, &mut SettingsMap::default(), &mut SettingsMap::default(), &place, &mut context);
    let errors = context.errors.kept().iter();
    let errors: Vec<Objection> =
        errors.filter_map(|error| Some((error.origin.clone()?, error.message.clone()))).collect();
    let notices = context.notices.into_iter().filter_map(|notice| Some((notice.origin?, notice.text))).collect();
    wrong = wrong.or_else(|| errors.first().map(|(_, message)| message.clone()));
    let mut lines = Vec::new();
    list(&tree, 0, false, &[errors, notices].concat(), &mut lines);
    trace.note(Step::AccessFile(path.to_string(), lines, wrong));
    trace.layers.push(Met::File(path.to_string(), tree));
    request.trace = Some(trace);
}

/// An objection to a line.
type Objection = (Origin, String);

/// The lines in order. Those in a skipped section are skipped too (`barred`).
fn list(nodes: &[Node], depth: usize, barred: bool, objections: &[Objection], lines: &mut Vec<AccessLine>) {
    for node in nodes {
        let own = objections.iter().find(|(origin, _)| *origin == node.origin).map(|(_, text)| text.clone());
        let objection = own.or_else(|| barred.then(|| "the section around it is not allowed".to_string()));
        let barred = objection.is_some();
        lines.push(AccessLine { depth, text: node.to_string(), number: node.origin.line, objection });
        list(node.children.as_deref().unwrap_or_default(), depth + 1, barred, objections, lines);
    }
}

/// Whether to look up access files under these settings: not with `AllowOverride None` and no list. By default they are
/// looked up, and may set nothing.
pub(crate) fn is_wanted(core: &CoreDir) -> bool {
    let is_none = core.allow_override.get().is_some_and(|over| over.classes == Allowed::NONE);
    !is_none || core.allow_override_list.get().is_some_and(|list| !list.is_empty())
}

//! Finds the sections of a request, merged in Apache's order (Apache manual, "Configuration Sections", how the sections
//! are merged).
//!
//! The settings of a directory's `<Directory>` sections depend only on its path and are cached, unless there may be
//! `.htaccess` files on the way. [`Merger`](crate::settings::merge::Merger) caches merges, so a request for a known
//! directory costs a look-up or two.

use std::borrow::Cow;
use std::ffi::CString;
use std::io;
use std::sync::Arc;

use conf::expr::Expr;
use conf::pattern::MatchError;
use conf::{Level, Origin};
use runtime::{Load, offload};
use sys::file::Meta;

use crate::files::htaccess::{self, Apart, Stop};
use crate::message::fields::Fields;
use crate::paths::{base_name, c_path, dir_name, too_long};
use crate::request::flow::{Flow, Waiting};
use crate::request::{Request, RequestKind};
use crate::settings::core::CoreDir;
use crate::settings::core::options::{Bits, SYM_LINKS, SYM_OWNER};
use crate::settings::merge::Merged;
use crate::settings::section::{Matcher, Section};
use crate::site::directory_cache::Walked;
use crate::site::links::Links;
use crate::site::watched::{Watch, WatchedPath};
use crate::trace::{Met, Step};

/// After this many missing parts at the end of a name, its existing part is searched from the root on.
const MISSING_MAX: u32 = 8;

/// Whether a directory's cached findings still hold for a request.
fn still_holds(walked: &Walked, request: &Request) -> bool {
    walked.holds(&request.server.watched, request.account.tick, request.account.start)
}

/// `<Location>` sections; once before the URL is mapped, once after, from the settings merged so far.
pub(crate) fn locations(request: &mut Request) -> Result<(), Flow> {
    if request.vhost.locations.is_empty() {
        return Ok(());
    }
    let vhost = request.vhost;
    // With `MergeSlashes Off` a path may hold several slashes in a row; only regular expressions see them (as in
    // Apache).
    let merged = merge_slashes(request, &request.data.uri);
    for section in &vhost.locations {
        merge_if(request, section, |request, env| {
            let uri = merged.as_ref().filter(|_| !section.is_regex()).unwrap_or(&request.data.uri);
            section.is_location(uri, env)
        })?;
    }
    Ok(())
}

/// A path with repeated slashes merged, if that makes a difference: `MergeSlashes Off` keeps them, and no section would
/// match the path as it is.
fn merge_slashes(request: &Request, path: &str) -> Option<String> {
    if request.vhost.plan.path.merge_slashes {
        return None;
    }
    match http::uri::merge_slashes(path) {
        Cow::Owned(merged) => Some(merged),
        Cow::Borrowed(_) => None,
    }
}

/// Merges the `<If>` sections whose conditions hold, those inside taken sections too.
pub(crate) async fn conditions(request: &mut Request) -> Result<(), Flow> {
    // Sections inside the taken sections extend the list during the walk.
    let (mut at, mut taken) = (0, false);
    loop {
        let ifs = &request.dir::<CoreDir>().ifs;
        let Some((section, _)) = ifs.entries().get(at) else { return Ok(()) };
        let section = section.clone();
        at += 1;
        if section.after && taken {
            request.note_met(|| Met::Unmet(section.origin.clone(), "an earlier condition is true"));
            continue;
        }
        taken = match &section.matcher {
            Matcher::If(expr) => holds(request, expr, &section.origin).await?,
            Matcher::Else => true,
            _ => false,
        };
        match taken {
            true => merge(request, &section),
            false => request.note_met(|| Met::Unmet(section.origin.clone(), "its condition is false")),
        }
    }
}

/// Whether the condition of an `<If>` holds. As in Apache, one that cannot be evaluated does not.
async fn holds(request: &mut Request, expr: &Expr, origin: &Origin) -> Result<bool, Flow> {
    match crate::phases::subject::evaluate_waiting(request, expr).await {
        Ok((holds, _)) => Ok(holds),
        Err(why) if why.is_undecided() => Err(request.undecided("core", &why, origin)),
        Err(why) => {
            request.not_evaluated("core", &why, origin);
            request.log("core", Level::Error, format!("AH00039: Failed to evaluate <If > condition: {why}"));
            Ok(false)
        }
    }
}

/// Maps the request's file name to a file: finds it, splits off `PATH_INFO`, merges the sections of all directories on
/// the way and of the file.
///
/// A large access file may have to be read first: [`read_apart`] does that.
pub(crate) fn directories(request: &mut Request) -> Result<(), Stop> {
    directories_with(request, &[])
}

/// Goes on where [`directories`] has stopped.
pub(crate) fn read_apart(request: &mut Request, mut stop: Stop) -> Waiting<'_, Result<(), Flow>> {
    Box::pin(async move {
        let mut apart = Vec::new();
        loop {
            match stop {
                Stop::Ended(flow) => return Err(flow),
                Stop::Unread(file) => apart.push(offload(Load::Compute, || file.apart()).await),
            }
            match directories_with(request, &apart) {
                Ok(()) => return Ok(()),
                Err(next) => stop = next,
            }
        }
    })
}

/// [`directories`], with the large access files that were read for it so far.
fn directories_with(request: &mut Request, apart: &[Apart]) -> Result<(), Stop> {
    if let Some(merged) = merge_slashes(request, &request.mapped.filename) {
        request.mapped.filename = merged;
    }
    find_file(request)?;
    let is_dir = request.mapped.stat.is_some_and(|meta| meta.is_dir());
    let dir: Cow<'_, str> = if is_dir && !request.mapped.filename.ends_with('/') {
        Cow::Owned(format!("{}/", request.mapped.filename))
    } else {
        Cow::Borrowed(dir_name(&request.mapped.filename))
    };
    let known = request.server.directories.get(request.vhost.index, &dir);
    let walked = match known.filter(|_| request.trace.is_none()) {
        Some(walked) if still_holds(&walked, request) => {
            request.mapped.walked = Some(walked.clone());
            walked
        }
        known => {
            request.asks_beyond_head();
            let dir = dir.into_owned();
            walk(request, &dir, known.and_then(|known| known.way.as_ref().map(|way| way.watch)), apart)?
        }
    };
    request.dir = walked.merged.clone();
    let vhost = request.vhost;
    if !is_dir {
        // A section may also name a file, if there is one and the request is not for anything below it.
        let there = request.mapped.stat.is_some() && request.mapped.path_info.is_empty();
        if let Some(depth) = walked.files_at.filter(|_| there) {
            for section in vhost.directories.iter().filter(|s| s.depth() == depth) {
                if section.is_directory(&request.mapped.filename) {
                    merge(request, section);
                }
            }
        }
    }
    // As in Apache, the settings so far decide about links.
    let options = options(&request.dir);
    if !is_dir {
        check_last_link(request, options)?;
    }
    request.mapped.links = Some(Links::of(options, walked.followed, walked.same_owner));
    for section in &vhost.directory_matches {
        // As in Apache, a directory ends with a slash if the request had one.
        merge_if(request, section, |request, env| section.is_directory_match(&request.mapped.filename, env))?;
    }
    Ok(files(request)?)
}

/// `<Files>` sections of the settings merged so far.
fn files(request: &mut Request) -> Result<(), Flow> {
    if request.dir::<CoreDir>().files.is_empty() {
        return Ok(());
    }
    let slots = request.dir.slots.clone();
    for section in slots.get::<CoreDir>().files.iter() {
        merge_if(request, section, |request, env| section.is_file(base_name(&request.mapped.filename), env))?;
    }
    Ok(())
}

/// Merges a section if the test says that the request is in it. The test reads the request and sets variables for the
/// groups of a match, so it gets the environment apart from the request.
fn merge_if(
    request: &mut Request,
    section: &Section,
    is_met: impl FnOnce(&Request, &mut Fields) -> Result<bool, MatchError>,
) -> Result<(), Flow> {
    let mut env = std::mem::take(&mut request.env);
    let met = is_met(request, &mut env);
    request.env = env;
    if met.map_err(|why| request.undecided("core", &why, &section.origin))? {
        merge(request, section);
    }
    Ok(())
}

fn merge(request: &mut Request, section: &Section) {
    request.note_met(|| Met::Section(section.origin.clone()));
    request.dir = request.server.merger.merge(&request.dir, &section.layer);
}

/// Goes down from the root to `dir`, directory by directory. `before`: an earlier walk found that the result does not
/// depend on the configuration alone. A directory requested a second time is worth watching.
fn walk(request: &mut Request, dir: &str, before: Option<Watch>, apart: &[Apart]) -> Result<Arc<Walked>, Stop> {
    let vhost = request.vhost;
    let server = request.server;
    let files_at = crate::settings::section::components(dir) + 1;
    let files_at = vhost.directories.iter().any(|section| section.depth() == files_at).then_some(files_at);
    if matches!(before, Some(Watch::Since(_))) {
        // The findings may hold for this request only.
        server.directories.remove(vhost.index, dir);
    }
    let watch = before.map(|before| server.watched.watch(dir, &vhost.access_file_names, before));
    let mut way = WatchedPath::new(watch.unwrap_or_default());
    let mut merged = vhost.base.base();
    let (mut looked, mut followed, mut same_owner) = (false, 0, false);
    let mut sections = vhost.directories.iter().peekable();
    for (depth, end) in dir.match_indices('/').map(|(at, _)| at).enumerate() {
        let path = &dir[..end];
        if depth > 0 {
            let options = options(&merged);
            match options & SYM_LINKS {
                0 => {
                    check_link(request, path, options)?;
                    (looked, same_owner) = (true, same_owner || options & SYM_OWNER != 0);
                }
                _ => (followed, same_owner) = (end, false),
            }
        }
        while let Some(section) = sections.next_if(|section| section.depth() <= depth) {
            if section.depth() == depth && section.is_directory(path) {
                request.note_met(|| Met::Section(section.origin.clone()));
                merged = server.merger.merge(&merged, &section.layer);
            }
        }
        let slots = merged.slots.clone();
        if !htaccess::is_wanted(slots.get()) {
            if let Some(trace) = &mut request.trace {
                let why = slots.get::<CoreDir>().allow_override.origin().cloned();
                trace.note(Step::NoAccessFile(dir[..=end].to_string(), why));
            }
        } else {
            looked = true;
            match htaccess::read(request, &dir[..=end], slots.get(), &mut way, apart) {
                Ok(Some(layer)) => merged = server.merger.merge(&merged, &layer),
                Ok(None) => {}
                Err(stop) => {
                    request.trace.iter_mut().for_each(|trace| trace.cut_off = Some(merged.clone()));
                    return Err(stop);
                }
            }
        }
    }
    way.looked(request.account.start);
    let way = Some(way).filter(|_| looked);
    let is_of_use = |way: &WatchedPath| way.is_watched() || request.account.tick.is_some() || before != Some(way.watch);
    let is_kept = way.as_ref().is_none_or(|way| !way.passing && is_of_use(way));
    let followed = c_path(&dir[..followed]).map_or(0, |path| path.to_bytes().len());
    let walked = Arc::new(Walked { merged, way, files_at, followed, same_owner });
    if is_kept {
        server.directories.insert(vhost.index, dir, walked.clone());
    }
    Ok(walked)
}

/// The options in effect.
fn options(merged: &Merged) -> Bits {
    merged.slots.get::<CoreDir>().options.0.effective()
}

/// Refuses `path` if it is a symbolic link that these options do not let through.
fn check_link(request: &Request, path: &str, options: Bits) -> Result<(), Flow> {
    request.asks_beyond_head();
    let Some(os) = c_path(path) else { return Err(Flow::Status(404)) };
    let Ok(link) = sys::file::lstat(&os) else { return Ok(()) };
    let same_owner = || sys::file::stat(&os).is_ok_and(|target| target.uid == link.uid);
    match link.is_symlink() && !(options & SYM_OWNER != 0 && same_owner()) {
        true => Err(link_refused(request, path)),
        false => Ok(()),
    }
}

fn check_last_link(request: &Request, options: Bits) -> Result<(), Flow> {
    if request.mapped.stat.is_some() {
        if options & SYM_LINKS == 0 {
            check_link(request, &request.mapped.filename, options)?;
        }
    } else if c_path(&request.mapped.filename)
        .is_some_and(|path| sys::file::lstat(&path).is_ok_and(|link| link.is_symlink()))
    {
        // As in Apache, a dangling link differs from a missing file.
        return Err(link_refused(request, &request.mapped.filename));
    }
    Ok(())
}

fn link_refused(request: &Request, path: &str) -> Flow {
    // Apache has two numbers: one is for a file in a directory that this request, or its parent, has met before.
    let is_beside = |other: &str| dir_name(other) == dir_name(path);
    let number = match &request.kind {
        RequestKind::Subrequest { .. } if path == request.mapped.filename => "AH00032",
        RequestKind::Redirected(previous) if is_beside(&previous.filename) => "AH00032",
        _ => "AH00037",
    };
    let text = format!("{number}: Symbolic link not allowed or link target not accessible: {path}");
    request.log("core", Level::Error, text);
    request.note_reason(403, "core", None, |_| {
        (
            format!("{path} is a symbolic link"),
            "that Options do not let the server follow, or that leads nowhere".into(),
        )
    });
    Flow::Status(403)
}

/// Looks up the file; the part after the first one that is not a directory becomes `PATH_INFO`.
fn find_file(request: &mut Request) -> Result<(), Flow> {
    if let Some(kept) = request.server.files.find(&request.mapped.filename) {
        if !kept.look.holds(request.account.tick, request.account.start) {
            match locate(request, &request.mapped.filename)? {
                Located::File(meta, _) if meta == kept.meta => kept.look.renew(request.account.start),
                _ => return find_part(request),
            }
        }
        request.mapped.path_info.clear();
        request.mapped.stat = Some(kept.meta);
        request.mapped.kept = Some(kept);
        return Ok(());
    }
    find_part(request)
}

/// Looks up the whole name, then its rest without the last part, and so on. Mostly only the last part is missing; a
/// client that sends thousands of parts must not cause a look-up for each.
fn find_part(request: &mut Request) -> Result<(), Flow> {
    let mut name = request.mapped.filename.clone();
    let mut missing = 0;
    loop {
        let located = locate(request, name.trim_end_matches('/'));
        request.mapped.is_directory = matches!(&located, Ok(Located::File(meta, _)) if missing == 0 && meta.is_dir());
        let is_file = matches!(&located, Ok(Located::File(meta, _)) if missing == 0 && meta.is_file());
        if !request.mapped.is_directory && !is_file {
            request.asks_beyond_head();
        }
        match located? {
            Located::File(meta, path) => {
                request.mapped.looked = is_file.then_some((path, meta));
                let split = name.len();
                if meta.is_dir() {
                    // A directory keeps the requested slash, and no more.
                    let whole = request.mapped.filename.clone();
                    request.mapped.path_info = whole[split..].to_string();
                    if split < whole.len() {
                        // The request is for something below it that does not exist.
                        request.mapped.stat = None;
                        let rest = whole[split..].trim_start_matches('/');
                        let (first, info) =
                            rest.split_once('/').map_or((rest, ""), |(first, _)| (first, &rest[first.len()..]));
                        request.mapped.filename = format!("{}/{first}", name.trim_end_matches('/'));
                        request.mapped.path_info = info.to_string();
                        return Ok(());
                    }
                    request.mapped.path_info = String::new();
                } else {
                    let bare = name.trim_end_matches('/').len();
                    request.mapped.path_info = request.mapped.filename[bare..].to_string();
                    name.truncate(bare);
                }
                request.mapped.filename = name;
                request.mapped.stat = Some(meta);
                return Ok(());
            }
            Located::Nothing => {
                request.mapped.stat = None;
                missing += 1;
                if missing == MISSING_MAX {
                    match existing(request, &name)? {
                        0 => return Ok(()),
                        end => name.truncate(end),
                    }
                    continue;
                }
                let bare = name.trim_end_matches('/').len();
                match name[..bare].rfind('/') {
                    Some(at) if at > 0 => name.truncate(at),
                    _ => return Ok(()),
                }
            }
        }
    }
}

/// The length of the existing beginning of `name`: a file, or the last directory. Searches from the root on.
fn existing(request: &Request, name: &str) -> Result<usize, Flow> {
    let mut there = 0;
    for (end, _) in name.match_indices('/').skip(1) {
        match locate(request, &name[..end])? {
            Located::File(meta, _) if meta.is_dir() => there = end,
            Located::File(..) => return Ok(end),
            Located::Nothing => break,
        }
    }
    Ok(there)
}

enum Located {
    /// There is something at the path, in the form for the system.
    File(Meta, CString),
    Nothing,
}

fn locate(request: &Request, path: &str) -> Result<Located, Flow> {
    let path = if path.is_empty() { "/" } else { path };
    let Some(os) = c_path(path) else { return Err(Flow::Status(404)) };
    match sys::file::stat(&os) {
        Ok(meta) => Ok(Located::File(meta, os)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(Located::Nothing),
            // As in Apache, what is missing counts, and not the length of what would be in it.
            io::ErrorKind::InvalidFilename if too_long(path).is_none() => Ok(Located::Nothing),
            io::ErrorKind::PermissionDenied => {
                let text = format!(
                    "AH00035: access to {} denied (filesystem path '{path}') because search permissions are missing on \
                     a component of the path",
                    request.data.uri
                );
                request.log_os("core", Level::Error, &error, text);
                request.note_reason(403, "core", None, |_| {
                    (
                        path.to_string(),
                        "cannot be reached: the server's user may not enter a directory on the way".into(),
                    )
                });
                Err(Flow::Status(403))
            }
            // A link that leads back to itself.
            _ if sys::file::lstat(&os).is_ok_and(|link| link.is_symlink()) => Err(link_refused(request, path)),
            _ => {
                let path = too_long(path).unwrap_or(path);
                let text = format!("AH00036: access to {} failed (filesystem path '{path}')", request.data.uri);
                request.log_os("core", Level::Error, &error, text);
                Err(Flow::Status(403))
            }
        },
    }
}

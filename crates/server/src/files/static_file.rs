//! The default handler: files, as they are on disk right now.
//!
//! A file's content is cached under its identity (device, inode, size, times): each request has asked the system for
//! that identity anyway, so a changed file is never served from memory. Small files are kept whole, larger ones open.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use conf::Level;
use runtime::{Awaited, Load, offload_apart, release_worker};
use sys::file::Meta;

use crate::files::absent;
use crate::message::fields::Value;
use crate::message::response::{Body, FilePart, HandlerResult};
use crate::request::Request;
use crate::request::hooks::Handler;
use crate::settings::core::CoreDir;
use crate::settings::core::etag::{Bits, DIGEST};
use crate::site::file_cache::{CachedFile, Content, SMALL, open};
use crate::site::links::Links;
use runtime::CoopBudget;

/// A request's body is read first, as in Apache: no file needs it, but a body that is too long or broken is an error.
/// After an error the connection closes, and nothing is read; nor is a client asked to send the body it still holds
/// back.
pub(crate) const AFTER_BODY: Handler = Handler::Later {
    claims: |request| {
        !request.body.is_done()
            && !http::status::closes_connection(request.response.status())
            && !request.header("Expect").is_some_and(|expect| expect.eq_ignore_ascii_case("100-continue"))
    },
    check: |_| None,
    run: |request| Box::pin(after_body(request)),
};

async fn after_body(request: &mut Request) -> HandlerResult {
    let mut budget = CoopBudget::new();
    loop {
        budget.step().await;
        match request.body.read().await {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => return HandlerResult::Status(error.status()),
        }
    }
    match at_once(request) {
        Some(result) => result,
        None => after_digest(request).await,
    }
}

/// Serves a file for `GET`, `HEAD` and, as Apache does, `POST`: at once, unless its tag requires reading the whole
/// file.
pub(crate) const HANDLER: Handler =
    Handler::Later { claims: |_| true, check: at_once, run: |request| Box::pin(after_digest(request)) };

fn at_once(request: &mut Request) -> Option<HandlerResult> {
    let meta = match checked(request) {
        Ok(meta) => meta,
        Err(result) => return Some(result),
    };
    let (parts, links) = (request.dir::<CoreDir>().etag.effective(), request.links());
    let is_same = |kept: &Arc<CachedFile>| kept.meta == meta && kept.parts == parts && kept.links == links;
    match request.mapped.kept.take().filter(is_same) {
        Some(kept) => {
            let result = serve(request, &kept);
            request.mapped.served = Some(kept);
            Some(result)
        }
        // A file that is read at once anyway is digested at once, and does not queue behind large files.
        None if parts & DIGEST != 0 && meta.size > SMALL => {
            // Later requests find the digest with the file, and do not make it again.
            request.asks_beyond_head();
            None
        }
        None => {
            let opened = open(&request.mapped.filename, parts, links).map(Arc::new).map_err(Arc::new);
            Some(serve_opened(request, opened))
        }
    }
}

async fn after_digest(request: &mut Request) -> HandlerResult {
    let (name, parts) = (request.mapped.filename.clone(), request.dir::<CoreDir>().etag.effective());
    let Some(meta) = request.mapped.stat else { return HandlerResult::Status(404) };
    let opened = digested(name, meta, parts, request.links()).await;
    serve_opened(request, opened)
}

/// A file whose digest is being computed: its name and identity, the parts of its tag, and the links that may be on the
/// way.
type Digested = (String, [i128; 5], Bits, Links);
type Opened = Result<Arc<CachedFile>, Arc<io::Error>>;
static DIGESTS: LazyLock<Mutex<HashMap<Digested, Awaited<Opened>>>> = LazyLock::new(Mutex::default);

fn digests() -> MutexGuard<'static, HashMap<Digested, Awaited<Opened>>> {
    DIGESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a file and reads all of it. Requests for the same file wait for the same result.
async fn digested(name: String, meta: Meta, parts: Bits, links: Links) -> Opened {
    let identity = [meta.dev.into(), meta.ino.into(), meta.size.into(), meta.mtime, meta.ctime];
    let key = (name, identity, parts, links);
    let (digest, is_first) = match digests().entry(key.clone()) {
        Entry::Occupied(digest) => (digest.get().clone(), false),
        Entry::Vacant(place) => (place.insert(Awaited::default()).clone(), true),
    };
    if is_first {
        let digesting =
            Digesting { key, digest: digest.clone(), opened: Err(Arc::new(io::ErrorKind::WouldBlock.into())) };
        offload_apart(Load::Digest, || digesting.run(open));
    }
    release_worker(digest.wait()).await
}

/// The job that computes a digest. However it ends, the waiting requests get its result, even if it never begins, or
/// panics.
struct Digesting {
    key: Digested,
    digest: Awaited<Opened>,
    opened: Opened,
}

impl Digesting {
    fn run(mut self, open: fn(&str, Bits, Links) -> io::Result<CachedFile>) {
        self.opened = Err(Arc::new(io::Error::other("computing the digest has panicked")));
        self.opened = open(&self.key.0, self.key.2, self.key.3).map(Arc::new).map_err(Arc::new);
    }
}

impl Drop for Digesting {
    fn drop(&mut self) {
        digests().remove(&self.key);
        self.digest.set(self.opened.clone());
    }
}

/// The requested file; `Err`: a different response.
fn checked(request: &mut Request) -> Result<Meta, HandlerResult> {
    if request.data.method == "OPTIONS" {
        let allow = request.allowed_methods();
        request.response.headers_out.set("Allow", allow);
        return Err(HandlerResult::Body(Body::Empty));
    }
    let needed = request.handler_name().and_then(|name| Some((name, absent::module_of(name)?)));
    // A file that is not there has nothing to hide.
    if let Some((name, module)) = needed.filter(|_| request.mapped.stat.is_some()) {
        let text = format!("nothing handles {name}, which needs {module}: {} is not sent", request.mapped.filename);
        request.log("core", Level::Error, text);
        return Err(HandlerResult::Status(500));
    }
    if !matches!(&*request.data.method, "GET" | "HEAD" | "POST") {
        if !request.server.knows_method(&request.data.method) {
            let text = format!("AH00135: Invalid method in request {}", request.request_line());
            request.log("core", Level::Error, text);
            request.note_reason(501, "core", None, |request| {
                (request.data.method.to_string(), "is not a known method".into())
            });
            return Err(HandlerResult::Status(501));
        }
        request.note_reason(405, "core", None, |request| {
            let Request { data, mapped, .. } = request;
            (format!("no module handles {} for {}", data.method, mapped.filename), String::new())
        });
        return Err(HandlerResult::Status(405));
    }
    let Some(meta) = request.mapped.stat else {
        let path = format!("{}{}", request.mapped.filename, request.mapped.path_info);
        request.log("core", Level::Info, format!("AH00128: File does not exist: {path}"));
        request.note_reason(404, "core", None, |_| (path, "does not exist".into()));
        return Err(HandlerResult::Status(404));
    };
    if meta.is_dir() {
        let text = format!("AH00129: Attempt to serve directory: {}", request.mapped.filename);
        request.log("core", Level::Info, text);
        request.note_reason(404, "core", None, |request| {
            (request.mapped.filename.clone(), "is a directory, and no module answers for directories".into())
        });
        return Err(HandlerResult::Status(404));
    }
    if !request.mapped.path_info.is_empty() && !request.mapped.accept_path_info.unwrap_or(false) {
        let path = format!("{}{}", request.mapped.filename, request.mapped.path_info);
        request.log("core", Level::Info, format!("AH00130: File does not exist: {path}"));
        request.note_reason(404, "core", None, |request| {
            (request.mapped.filename.clone(), format!("is a file, so {} is not below it", request.mapped.path_info))
        });
        return Err(HandlerResult::Status(404));
    }
    if !meta.is_file() {
        let text = format!("AH00127: Cannot map {} to file", request.request_line());
        request.log("core", Level::Error, text);
        request.note_reason(403, "core", None, |request| {
            (request.mapped.filename.clone(), "is neither a file nor a directory".into())
        });
        return Err(HandlerResult::Status(403));
    }
    Ok(meta)
}

fn serve_opened(request: &mut Request, opened: Opened) -> HandlerResult {
    match opened {
        Ok(kept) => {
            request.server.files.keep(&request.mapped.filename, &kept);
            serve(request, &kept)
        }
        Err(error) => {
            let text = match sys::file::is_loop(&error) {
                true => "AH00037: Symbolic link not allowed or link target not accessible",
                false => "AH00132: file permissions deny server access",
            };
            let text = format!("{text}: {}", request.mapped.filename);
            request.log_os("core", Level::Error, &error, text);
            let status = match error.kind() {
                // A name that is not a path belongs to no file.
                io::ErrorKind::NotFound if request.mapped.filename.starts_with('/') => 404,
                // Too many other files are being read.
                io::ErrorKind::WouldBlock => 503,
                io::ErrorKind::Other => 500,
                _ if sys::is_shortage(&error) => 503,
                _ => 403,
            };
            request.note_reason(status, "core", None, |request| {
                (
                    request.mapped.filename.clone(),
                    format!("cannot be read by the server's user: {}", sys::describe(&error)),
                )
            });
            HandlerResult::Status(status)
        }
    }
}

fn serve(request: &mut Request, kept: &CachedFile) -> HandlerResult {
    request.mapped.stat = Some(kept.meta);
    request.response.headers_out.set("Last-Modified", kept.modified.clone());
    if let Some(etag) = &kept.etag {
        match &request.response.vlist_validator {
            None => request.response.headers_out.set("ETag", etag.clone()),
            // After a different choice, the same file is a different response.
            Some(list) => {
                let etag = format!("{};{list}\"", etag.strip_suffix('"').unwrap_or(etag));
                request.response.headers_out.set("ETag", etag);
            }
        }
    }
    request.response.headers_out.set("Accept-Ranges", Value::Static(request.accept_ranges()));
    HandlerResult::Body(match &kept.content {
        _ if kept.meta.size == 0 => Body::Empty,
        Content::Small(bytes) => Body::Bytes(bytes.clone()),
        Content::Open(file) => Body::File(FilePart { file: file.clone(), offset: 0, length: kept.meta.size }),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_digest_under_way_is_waited_for() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let name = path.to_str().expect("a path").to_string();
        let kept = Arc::new(open(&name, DIGEST, Links::Any).expect("a file"));
        let meta = kept.meta;
        let identity = [meta.dev.into(), meta.ino.into(), meta.size.into(), meta.mtime, meta.ctime];
        let (key, digest) = ((name.clone(), identity, DIGEST, Links::Any), Awaited::<Opened>::default());
        digests().insert(key.clone(), digest.clone());
        digest.set(Ok(kept.clone()));
        let ask =
            || sys::block_on::block_on(digested(name.clone(), meta, DIGEST, Links::Any), || ()).expect("an answer");
        assert!(Arc::ptr_eq(&ask().expect("a file"), &kept), "it is computed twice");
        digests().remove(&key);
        let anew = ask().expect("a file");
        assert!(!Arc::ptr_eq(&anew, &kept) && anew.etag == kept.etag);
        assert!(!digests().contains_key(&key), "it is still under way");
    }
    #[test]
    fn a_digest_that_fails_leaves_nobody_waiting() {
        for (begins, kind) in [(true, io::ErrorKind::Other), (false, io::ErrorKind::WouldBlock)] {
            let key = ("no file".to_string(), [i128::from(begins); 5], DIGEST, Links::Any);
            let digest = Awaited::default();
            digests().insert(key.clone(), digest.clone());
            let opened = Err(Arc::new(io::ErrorKind::WouldBlock.into()));
            let digesting = Digesting { key: key.clone(), digest: digest.clone(), opened };
            // As if a pool did the job, or had no room for it.
            let ended = std::thread::spawn(move || {
                if begins {
                    digesting.run(|_, _, _| panic!("on purpose"))
                }
            })
            .join();
            assert_eq!(ended.is_err(), begins);
            let opened = sys::block_on::block_on(digest.wait(), || ()).expect("a result");
            assert_eq!(opened.err().map(|error| error.kind()), Some(kind));
            assert!(!digests().contains_key(&key));
        }
    }
}

//! Which requests an application answers: those for paths at which its public directory has no file.

use runtime::{Load, offload};
use server::paths::{c_path, dir_name};
use server::{Flow, Request};

use super::HANDLER;
use super::settings::{PassengerDir, STARTUP};

/// The note of a request whose path has led to an application.
const FOUND: &str = "passenger-found";

/// The page that a directory may have. An application does not answer for it, as in Passenger.
const INDEX: &str = "index.html";

/// Whether an application may have to answer.
pub(super) fn may_be_for_application(request: &Request) -> bool {
    // A section's SetHandler has said who answers: Passenger takes the request from, for example, server-status.
    request.dir::<PassengerDir>().enabled()
        && request.mapped.handler.is_none()
        && request.mapped.stat.is_none_or(|meta| meta.is_dir())
        && request.data.uri.starts_with('/')
}

/// Leads a request to the application of its path, if there is one.
pub(super) async fn find(request: &mut Request) -> Flow {
    request.asks_beyond_head();
    let dir = request.dir.slots.clone();
    let conf = dir.get::<PassengerDir>();
    let uri = &request.data.uri;
    let is_of =
        |base: &&String| uri.strip_prefix(base.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let base = conf.bases.iter().filter(is_of).max_by_key(|base| base.len()).cloned().unwrap_or_default();
    let rest = uri[base.len()..].to_string();
    let public = match base.is_empty() {
        true => request.document_root().to_string(),
        // A link, or an alias.
        false => request.mapped.filename.strip_suffix(&rest).unwrap_or_default().to_string(),
    };
    let index = request.mapped.stat.map(|_| format!("{}/{INDEX}", request.mapped.filename));
    let search = Search {
        is_link: !base.is_empty(),
        public,
        root: conf.root.get().cloned(),
        startup: conf.startup.get().map_or(STARTUP, String::as_str).to_string(),
        index,
    };
    // The disk may be slow.
    let Some((file, meta)) = offload(Load::Wait, move || search.run()).await else { return Flow::Declined };
    request.mapped.filename = file;
    request.mapped.stat = Some(meta);
    request.mapped.path_info = rest;
    request.mapped.handler = Some(HANDLER.into());
    request.notes.set(FOUND, "1");
    Flow::Ok
}

/// Whether the path of a request has led to its application, and no handler of a file.
pub(super) fn was_found(request: &Request) -> bool {
    request.notes.contains(FOUND)
}

/// What to look for.
struct Search {
    /// The directory of the files that need no application.
    public: String,
    is_link: bool,
    /// The application's directory, if the configuration says it.
    root: Option<String>,
    startup: String,
    /// The page of a directory.
    index: Option<String>,
}

impl Search {
    /// The application's startup file. `None`: there is no application, or it need not be asked.
    fn run(self) -> Option<(String, sys::file::Meta)> {
        let is_file = |path: &str| Some(sys::file::stat(&c_path(path)?).ok()?).filter(|meta| !meta.is_dir());
        if self.index.is_some_and(|index| is_file(&index).is_some()) {
            return None;
        }
        let above = || {
            let public = match self.is_link {
                true => std::fs::canonicalize(&self.public).ok()?.into_os_string().into_string().ok()?,
                false => self.public.trim_end_matches('/').to_string(),
            };
            Some(dir_name(&public).trim_end_matches('/').to_string())
        };
        let root = self.root.or_else(above)?;
        let file = if self.startup.starts_with('/') { self.startup } else { format!("{root}/{}", self.startup) };
        let meta = is_file(&file)?;
        Some((file, meta))
    }
}

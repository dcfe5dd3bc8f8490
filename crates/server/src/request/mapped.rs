//! The mapping of a request's path.

use std::borrow::Cow;
use std::ffi::CString;
use std::sync::Arc;

use sys::file::Meta;

use crate::site::directory_cache::Walked;
use crate::site::file_cache::CachedFile;
use crate::site::links::Links;

/// The beginning of a file name, or of a handler's name, that stands for the URL of a backend, as in Apache.
pub const TO_BACKEND: &str = "proxy:";

/// The note of a request whose path goes to the backend as it stands, without being escaped again.
pub const NOCANON: &str = "proxy-nocanon";

/// The note of a request whose path was mapped before it was decoded: it goes to the backend as it is, and the query with it.
pub const NOENCODE: &str = "proxy-noencode";

/// The mapping of a request's path.
#[derive(Default)]
pub struct Mapped {
    /// The file.
    pub filename: String,
    /// The path after the file's part.
    pub path_info: String,
    /// Whether the handler accepts `path_info` (`AcceptPathInfo`); `None` leaves it to the handler's default.
    pub accept_path_info: Option<bool>,
    /// The links that may be on the way to the file, if the directories on that way were walked through.
    pub(crate) links: Option<Links>,
    /// The file, if it exists.
    pub stat: Option<Meta>,
    /// The cached data of that file.
    pub(crate) kept: Option<Arc<CachedFile>>,
    /// The cached file that the response consists of.
    pub(crate) served: Option<Arc<CachedFile>>,
    /// The path of the file, if there is one and the system was asked about that path alone, and what it said. Whoever begins where
    /// the phases have left this request asks again; any other repeat asks nobody.
    pub(crate) looked: Option<(CString, Meta)>,
    /// The system was asked whether the path is a directory, and it is. If an index of the directory becomes the response, the
    /// look at that file says so too; but that look says nothing of the directory's owner and times.
    pub(crate) is_directory: bool,
    /// The cached findings on the way to the file's directory.
    pub(crate) walked: Option<Arc<Walked>>,
    /// The URL prefix and directory of the `Alias` that mapped it.
    pub context: Option<(String, String)>,
    /// The directory for the URL paths of this request, if it is not that of the virtual host.
    pub document_root: Option<String>,
    /// The handler of the request.
    pub handler: Option<Cow<'static, str>>,
    /// Filters for the request's body by the file's name (`AddInputFilter`), before those of the configuration.
    pub input_filters: Vec<String>,
    /// The body's fields after filters have worked on it; `None`: such a field is removed. It holds for code that takes
    /// the body before it looks at the fields, as in Apache.
    pub read_fields: Vec<(&'static str, Option<String>)>,
}

impl Mapped {
    /// The URL of the backend that the file name stands for.
    pub fn backend_url(&self) -> Option<&str> {
        self.filename.strip_prefix(TO_BACKEND)
    }

    /// Becomes like the mapping of a request before its handler.
    pub(super) fn become_like(&mut self, other: &Mapped) {
        let Mapped {
            filename,
            path_info,
            accept_path_info,
            links,
            stat,
            kept: _,
            served: _,
            looked: _,
            is_directory: _,
            walked: _,
            context,
            document_root,
            handler,
            input_filters,
            read_fields,
        } = other;
        self.filename.clone_from(filename);
        self.path_info.clone_from(path_info);
        (self.accept_path_info, self.links, self.stat) = (*accept_path_info, *links, *stat);
        self.context.clone_from(context);
        self.document_root.clone_from(document_root);
        self.handler.clone_from(handler);
        self.input_filters.clone_from(input_filters);
        self.read_fields.clone_from(read_fields);
        (self.kept, self.served, self.looked, self.walked, self.is_directory) = (None, None, None, None, false);
    }

    /// Forgets everything, before another path is examined.
    pub(super) fn clear(&mut self) {
        self.filename.clear();
        self.path_info.clear();
        self.accept_path_info = None;
        self.links = None;
        self.stat = None;
        self.kept = None;
        self.served = None;
        self.looked = None;
        self.is_directory = false;
        self.walked = None;
        self.context = None;
        self.document_root = None;
        self.handler = None;
        self.input_filters.clear();
        self.read_fields.clear();
    }
}

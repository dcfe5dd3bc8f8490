//! The core's own part in mapping: `DocumentRoot`, `SetHandler`, `ForceType`.

use std::io;

use conf::Level;

use crate::paths::MAPPED_MAX;
use crate::request::Request;
use crate::request::flow::Flow;
use crate::settings::core::{CoreDir, CoreServer, HandlerName};

/// Maps everything that no module has mapped to `DocumentRoot`.
pub(crate) fn document_root(request: &mut Request) -> Flow {
    if !request.data.uri.starts_with('/') && request.data.uri != "*" {
        let uri = request.data.uri.clone();
        request.log("core", Level::Error, format!("AH00126: Invalid URI in request '{uri}'"));
        return Flow::Status(400);
    }
    // A root that is `/` is kept without it.
    let length = request.vhost.document_root.len().max("/".len()) + request.data.uri.trim_start_matches('/').len();
    if length > MAPPED_MAX {
        return request.cannot_map();
    }
    request.mapped.filename = [&*request.vhost.document_root, &*request.data.uri].concat();
    let origin = request.vhost.settings.get::<CoreServer>().document_root.origin();
    request.note_step("core", origin, |request| format!("below DocumentRoot: {}", request.mapped.filename));
    Flow::Ok
}

impl Request {
    /// Refuses a path that is too long to be that of a file.
    pub fn cannot_map(&self) -> Flow {
        let error = io::Error::from_raw_os_error(sys::errno::NAME_TOO_LONG);
        let text = format!("AH00127: Cannot map {} to file", self.request_line());
        self.log_os("core", Level::Error, &error, text);
        self.note_reason(403, "core", None, |_| ("the path".into(), "is too long for a file".into()));
        Flow::Status(403)
    }
}

/// `SetHandler` and `ForceType` override the file name's meaning.
pub(crate) fn overrides(request: &mut Request) -> Flow {
    let dir = request.dir.slots.clone();
    let core = dir.get::<CoreDir>();
    if let Some(Some(name)) = core.force_type.get() {
        request.response.set_content_type(name.clone());
    }
    match core.handler.get() {
        // `none` cancels an outer `SetHandler`, not an `AddHandler`.
        None | Some(HandlerName::Name(None)) => {}
        Some(HandlerName::Name(Some(name))) => request.mapped.handler = Some(name.clone().into()),
        Some(HandlerName::Expr(expr)) => match crate::phases::subject::evaluate_string(request, expr) {
            Ok(name) => {
                request.mapped.handler = Some(name.into()).filter(|name: &std::borrow::Cow<'_, str>| !name.is_empty())
            }
            Err(error) => {
                request.log("core", Level::Error, format!("AH03154: Can't evaluate handler expression: {error}"));
                return Flow::Status(500);
            }
        },
    }
    if let (true, Some(name)) = (core.handler.is_set(), request.mapped.handler.clone()) {
        request.note_step("core", core.handler.origin(), |_| format!("SetHandler: {name}"));
    }
    request.mapped.accept_path_info = core.accept_path_info.value_or(None);
    Flow::Declined
}

//! Responses to errors: `ErrorDocument`, or the server's own page.

use conf::Level;
use http::{ErrorPage, error_page, server_signature};

use crate::message::response::Body;
use crate::request::{Request, RequestKind};
use crate::settings::core::{CoreDir, CoreServer, ErrorDocument, Tri};

/// The source of the response to an error.
pub(crate) enum Page {
    /// This body.
    Body(Body),
    /// Another path of this server.
    Redirect(String),
}

/// The response for a status; sets status and fields of the request.
pub(crate) fn find(request: &mut Request, status: u16) -> Page {
    let status = if !http::status::reason(status).is_empty() { status } else { 500 };
    // As in Apache, a module that has set the status to 200 makes this error count as its own.
    let is_own = request.response.status() == 200;
    let failed_document = match &request.kind {
        RequestKind::Redirected(previous) if previous.status >= 300 && !is_own => Some(previous.status),
        _ => None,
    };
    if let Some(original) = failed_document {
        return Page::Body(failed(request, original));
    }
    request.response.set_status(status);
    if status >= 300 && status != 304 {
        let dir = request.dir.slots.clone();
        let vhost = request.vhost;
        let documents = &dir.get::<CoreDir>().error_documents;
        let forced = &vhost.base_settings::<CoreDir>().error_documents;
        let document = documents.get(&status).or_else(|| forced.get(&status));
        let origin = documents.origin(&status).or_else(|| forced.origin(&status));
        match document {
            None | Some(ErrorDocument::Default) => {}
            Some(ErrorDocument::Path(expr)) => {
                if let Some(path) = value(request, expr) {
                    request.note_step("core", origin, |_| format!("ErrorDocument {status}: {path}"));
                    // As in Apache, the document says why in its own words.
                    request.response.forget_reason();
                    return Page::Redirect(path);
                }
            }
            Some(ErrorDocument::Text(expr)) => {
                if let Some(text) = value(request, expr) {
                    request.note_step("core", origin, |_| format!("ErrorDocument {status}: a text"));
                    begin_page(request, status);
                    return Page::Body(Body::Bytes(http::text::to_bytes(&text).into_owned().into()));
                }
            }
            Some(ErrorDocument::Url(expr)) => {
                if let Some(url) = value(request, expr) {
                    request.note_reason(302, "core", origin, |_| (format!("ErrorDocument {status}"), String::new()));
                    request.response.set_status(302);
                    request.response.headers_out.set("Location", url);
                    return Page::Body(page(request, 302, None));
                }
            }
        }
    }
    Page::Body(page(request, status, None))
}

/// The page for an error whose document failed itself: the first error counts, and as in Apache the page names no
/// other.
pub(crate) fn failed(request: &mut Request, original: u16) -> Body {
    // The document's own fields are not for the page.
    request.response.set_status(original);
    request.response.headers_out.clear();
    page(request, original, Some(original))
}

/// The server's own page for a status, whatever is configured.
pub(crate) fn canned(request: &mut Request, status: u16) -> Body {
    request.response.set_status(status);
    page(request, status, None)
}

/// The page for a response that turned out to be unsendable: it names the status that the response would have had.
pub(crate) fn unsendable(request: &mut Request) -> Body {
    let meant = Some(request.response.status()).filter(|status| *status != 200);
    request.response.set_status(500);
    request.response.headers_out.clear();
    request.response.err_headers_out.clear();
    page(request, 500, meant)
}

/// The fields of a page or text of our own.
fn begin_page(request: &mut Request, status: u16) {
    clear_entity(request, status);
    // Some old clients choke on a charset (Apache manual, special purpose environment variables).
    let bare = request.env.contains("suppress-error-charset");
    request.response.set_content_type(if bare { "text/html" } else { "text/html; charset=iso-8859-1" });
    if matches!(status, 405 | 501) && !request.response.headers_out.contains("Allow") {
        let allow = request.allowed_methods();
        request.response.headers_out.set("Allow", allow);
    }
}

fn value(request: &mut Request, expr: &conf::expr::StringExpr) -> Option<String> {
    match crate::phases::subject::evaluate_string(request, expr) {
        Ok(text) => Some(text),
        Err(error) => {
            request.log("core", Level::Error, format!("AH02841: core: Failed to evaluate ErrorDocument: {error}"));
            None
        }
    }
}

/// Removes the fields that describe the unsent body. The fields for all answers replace them, and as in Apache are no
/// longer those that `Header always` changes.
fn clear_entity(request: &mut Request, status: u16) {
    let response = &mut request.response;
    let is_led = matches!(status, 201 | 300..400);
    let location = response.headers_out.get("Location").filter(|text| is_led && !text.is_empty()).map(str::to_string);
    response.headers_out = std::mem::take(&mut response.err_headers_out);
    if let Some(location) = location {
        response.headers_out.set("Location", location);
    }
    response.content_encoding = None;
    response.is_passed_on = false;
    response.content_languages.clear();
    response.clear_content_type();
}

fn page(request: &mut Request, status: u16, document_status: Option<u16>) -> Body {
    if http::status::is_bodyless(status) {
        return Body::Empty;
    }
    begin_page(request, status);
    let location = request.response.headers_out.get("Location").unwrap_or_default().to_string();
    let expect = request.header_joined("Expect").map(std::borrow::Cow::into_owned);
    let admin = request.vhost.admin.clone().unwrap_or_default();
    let signature = signature(request);
    let reason = request.response.status_line().and_then(|line| line.split_once(' ')).map(|(_, reason)| reason);
    let text = error_page(
        status,
        &ErrorPage {
            reason,
            method: &request.data.method,
            location: &location,
            expect: expect.as_deref(),
            note: request.notes.get("error-notes").unwrap_or_default(),
            variants: request.notes.get("variant-list").unwrap_or_default(),
            admin: &admin,
            document_status,
            signature: &signature,
        },
    );
    Body::Bytes(http::text::to_bytes(&text).into_owned().into())
}

/// The footer of pages that the server makes (`ServerSignature`).
pub(crate) fn signature(request: &Request) -> String {
    let email = match request.dir::<CoreDir>().signature() {
        Tri::Off => return String::new(),
        Tri::On => None,
        Tri::Other => Some(request.vhost.admin.as_deref().unwrap_or(http::NO_ADMIN)),
    };
    server_signature(&request.server.software, &request.server_name(), request.server_port(), email)
}

impl Request {
    /// The value of an `Allow` field.
    pub fn allowed_methods(&self) -> String {
        if let Some(allowed) = &self.response.allowed {
            return allowed.join(",");
        }
        let mut methods = "GET,POST,OPTIONS,HEAD".to_string();
        if self.host::<CoreServer>().trace() != Tri::Off {
            methods.push_str(",TRACE");
        }
        methods
    }

    /// The footer of pages that the server makes; empty with `ServerSignature Off`.
    pub fn signature(&self) -> String {
        signature(self)
    }
}

//! The response for several resources at once (RFC 4918, section 13).

use super::xml::escape;

/// The response's media type, as Apache writes it.
pub(super) const TYPE: &str = "text/xml; charset=\"utf-8\"";
/// What ends the document.
pub(super) const END: &str = "</D:multistatus>\n";

/// What begins the document.
pub(super) fn begin() -> String {
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n".into()
}

/// A URL path as it stands in `href`.
pub(super) fn href(uri: &str) -> String {
    escape(&http::uri::escape_path(uri))
}

/// Adds what became of one resource.
pub(super) fn push_status(out: &mut String, uri: &str, status: u16, description: &str) {
    let href = href(uri);
    let reason = http::status::reason(status);
    out.push_str(&format!("<D:response>\n<D:href>{href}</D:href>\n<D:status>HTTP/1.1 {status} {reason}</D:status>\n"));
    if !description.is_empty() {
        let text = escape(description).replace("&quot;", "\"");
        out.push_str(&format!("<D:responsedescription>{text}</D:responsedescription>\n"));
    }
    out.push_str("</D:response>\n");
}

//! The pages that Apache sends when no ErrorDocument applies, byte for byte as in 2.4.71.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::status::reason;
use crate::uri::escape_html;

/// The text in place of a missing `ServerAdmin`.
pub const NO_ADMIN: &str = "[no address given]";

/// The values that a canned page may mention. They are plain text and are escaped here, except for
/// [`signature`](Self::signature) and [`note`](Self::note), which are HTML.
#[derive(Clone, Copy, Debug, Default)]
pub struct ErrorPage<'a> {
    /// The reason phrase, if it is not that of the status.
    pub reason: Option<&'a str>,
    /// The request method.
    pub method: &'a str,
    /// The Location of a redirect.
    pub location: &'a str,
    /// The request's Expect field.
    pub expect: Option<&'a str>,
    /// HTML after the explanation, such as `Reason: ...<br />` or [`HeadError::note`](crate::HeadError::note).
    pub note: &'a str,
    /// HTML for 300, 406 and 506: the list of variants.
    pub variants: &'a str,
    /// `ServerAdmin`; empty means none was given.
    pub admin: &'a str,
    /// The status of the original request, if this page reports that its ErrorDocument failed: `status` is then that of
    /// the original request, and this is that of the failed document.
    pub document_status: Option<u16>,
    /// The footer of `ServerSignature`: see [`server_signature`]. Empty for Off.
    pub signature: &'a str,
}

/// The canned page for `status`, of type `text/html; charset=iso-8859-1`.
#[must_use]
pub fn error_page(status: u16, page: &ErrorPage<'_>) -> String {
    // A status without a phrase is shown as an internal error, as Apache does.
    let (status, phrase) = match reason(status) {
        "" => (500, reason(500)),
        phrase => (status, phrase),
    };
    let mut out = String::with_capacity(640);
    out.push_str(concat!(
        "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n",
        "<html><head>\n"
    ));
    // Writing to a String cannot fail.
    let phrase = page.reason.map_or(Cow::Borrowed(phrase), escape_html);
    let _ = write!(out, "<title>{status} {phrase}</title>\n</head><body>\n<h1>{phrase}</h1>\n");
    out.push_str(&explanation(status, page));
    if let Some(second) = page.document_status {
        let phrase = reason(second);
        let _ = write!(
            out,
            "<p>Additionally, a {second} {phrase}\nerror was encountered while trying to use an ErrorDocument to handle the request.</p>\n"
        );
    }
    out.push_str(page.signature);
    out.push_str("</body></html>\n");
    out
}

/// The footer that `ServerSignature On` adds to pages: `server` is the text of `ServerTokens`, `host` and `port` are
/// those of the request, and `email` is `ServerAdmin` under `ServerSignature EMail`.
#[must_use]
pub fn server_signature(server: &str, host: &str, port: u16, email: Option<&str>) -> String {
    let host = escape_html(host);
    let host = match email {
        Some(email) => Cow::Owned(format!("<a href=\"mailto:{}\">{host}</a>", escape_html(email))),
        None => host,
    };
    format!("<hr>\n<address>{} Server at {host} Port {port}</address>\n", escape_html(server))
}

fn explanation(status: u16, page: &ErrorPage<'_>) -> Cow<'static, str> {
    let method = escape_html(page.method);
    let note = page.note;
    match status {
        301 | 302 | 307 | 308 => {
            format!("<p>The document has moved <a href=\"{}\">here</a>.</p>\n", escape_html(page.location)).into()
        }
        303 => format!(
            "<p>The answer to your request is located <a href=\"{}\">here</a>.</p>\n",
            escape_html(page.location)
        )
        .into(),
        400 => {
            format!("<p>Your browser sent a request that this server could not understand.<br />\n{note}</p>\n").into()
        }
        403 => format!("<p>You don't have permission to access this resource.{note}</p>\n").into(),
        405 => format!("<p>The requested method {method} is not allowed for this URL.</p>\n").into(),
        411 => format!(
            "<p>A request of the requested method {method} requires a valid Content-length.<br />\n{note}</p>\n"
        )
        .into(),
        413 => format!(
            "The requested resource does not allow request data with {method} requests, or the amount of data \
             provided in\nthe request exceeds the capacity limit.\n"
        )
        .into(),
        414 => {
            format!("<p>The requested URL's length exceeds the capacity\nlimit for this server.<br />\n{note}</p>\n")
                .into()
        }
        300 => page.variants.to_string().into(),
        406 => format!(
            "<p>An appropriate representation of the requested resource could not be found on this server.</p>\n{}",
            page.variants
        )
        .into(),
        417 => expectation(page.expect).into(),
        451 => format!("<p>Access to this URL has been denied for legal reasons.<br />\n{note}</p>\n").into(),
        501 => format!("<p>{method} not supported for current URL.<br />\n{note}</p>\n").into(),
        // The carriage returns are Apache's.
        502 => format!(
            "<p>The proxy server received an invalid\r\nresponse from an upstream server.<br />\r\n{note}</p>\n"
        )
        .into(),
        506 => format!(
            "<p>A variant for the requested resource\n<pre>\n{}\n</pre>\nis itself a negotiable resource. This \
             indicates a configuration error.</p>\n",
            page.variants
        )
        .into(),
        _ => match fixed_explanation(status) {
            Some(text) => text.into(),
            None => internal_error(page).into(),
        },
    }
}

/// The explanations that depend only on the status.
fn fixed_explanation(status: u16) -> Option<&'static str> {
    Some(match status {
        305 => {
            "<p>This resource is only accessible through the proxy\n\
             <br />\n\
             You will need to configure your client to use that proxy.</p>\n"
        }
        401 | 407 => {
            "<p>This server could not verify that you\n\
             are authorized to access the document\n\
             requested.  Either you supplied the wrong\n\
             credentials (e.g., bad password), or your\n\
             browser doesn't understand how to supply\n\
             the credentials required.</p>\n"
        }
        404 => "<p>The requested URL was not found on this server.</p>\n",
        408 => "<p>Server timeout waiting for the HTTP request from the client.</p>\n",
        410 => {
            "<p>The requested resource is no longer available on this server and there is no forwarding address.\n\
             Please remove all references to this resource.</p>\n"
        }
        412 => "<p>The precondition on the request for this URL evaluated to false.</p>\n",
        415 => {
            "<p>The supplied request data is not in a format\n\
             acceptable for processing by this resource.</p>\n"
        }
        416 => {
            "<p>None of the range-specifier values in the Range\n\
             request-header field overlap the current extent\n\
             of the selected resource.</p>\n"
        }
        421 => {
            "<p>The client needs a new connection for this\n\
             request as the requested host name does not match\n\
             the Server Name Indication (SNI) in use for this\n\
             connection.</p>\n"
        }
        422 => {
            "<p>The server understands the media type of the\n\
             request entity, but was unable to process the\n\
             contained instructions.</p>\n"
        }
        423 => {
            "<p>The requested resource is currently locked.\n\
             The lock must be released or proper identification\n\
             given before the method can be applied.</p>\n"
        }
        424 => {
            "<p>The method could not be performed on the resource\n\
             because the requested action depended on another\n\
             action and that other action failed.</p>\n"
        }
        426 => {
            "<p>The requested resource can only be retrieved\n\
             using SSL.  The server is willing to upgrade the current\n\
             connection to SSL, but your client doesn't support it.\n\
             Either upgrade your client, or try requesting the page\n\
             using https://\n"
        }
        428 => "<p>The request is required to be conditional.</p>\n",
        429 => {
            "<p>The user has sent too many requests\n\
             in a given amount of time.</p>\n"
        }
        431 => {
            "<p>The server refused this request because\n\
             the request header fields are too large.</p>\n"
        }
        503 => {
            "<p>The server is temporarily unable to service your\n\
             request due to maintenance downtime or capacity\n\
             problems. Please try again later.</p>\n"
        }
        504 => {
            "<p>The gateway did not receive a timely response\n\
             from the upstream server or application.</p>\n"
        }
        507 => {
            "<p>The method could not be performed on the resource\n\
             because the server is unable to store the\n\
             representation needed to successfully complete the\n\
             request.  There is insufficient free space left in\n\
             your storage allocation.</p>\n"
        }
        508 => {
            "<p>The server terminated an operation because\n\
             it encountered an infinite loop.</p>\n"
        }
        510 => {
            "<p>A mandatory extension policy in the request is not\n\
             accepted by the server for this resource.</p>\n"
        }
        511 => {
            "<p>The client needs to authenticate to gain\n\
             network access.</p>\n"
        }
        _ => return None,
    })
}

fn expectation(expect: Option<&str>) -> String {
    let complaint = match expect {
        Some(expect) => format!(
            "<p>The expectation given in the Expect request-header\nfield could not be met by this server.\nThe client \
             sent<pre>\n    Expect: {}\n</pre>\n",
            escape_html(expect)
        ),
        None => {
            "<p>No expectation was seen, the Expect request-header \nfield was not presented by the client.\n".into()
        }
    };
    complaint + "</p><p>Only the 100-continue expectation is supported.</p>\n"
}

/// Only the administrator should learn the exact failure, so this omits the note.
fn internal_error(page: &ErrorPage<'_>) -> String {
    let admin = if page.admin.is_empty() { NO_ADMIN.into() } else { escape_html(page.admin) };
    format!(
        "<p>The server encountered an internal error or\nmisconfiguration and was unable to complete\nyour \
         request.</p>\n<p>Please contact the server administrator at \n {admin} to inform them of the time this error \
         occurred,\n and the actions you performed just before this error.</p>\n<p>More information about this error \
         may be available\nin the server error log.</p>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status, length and FNV-1a hash of the pages that Apache 2.4.71 sent for `GET` with `ServerSignature Off`.
    const APACHE: &[(u16, usize, u64)] = &[
        (400, 266, 0x50992068745a0cf7),
        (401, 421, 0x2f2e82bd3a06a3b7),
        (402, 561, 0x8fbbb6e95e4c016d),
        (403, 239, 0x6579eba3c7e13089),
        (404, 236, 0x4bccc53b3b952f87),
        (405, 260, 0xb183cb3ad9f4331b),
        (406, 289, 0xbf1e5e87a65df7a9),
        (407, 455, 0x9a80fc83f4900ecf),
        (408, 261, 0x6fe6bb50c497ce43),
        (409, 545, 0xcd42389684285070),
        (410, 322, 0x8e1f22fe147ec0ed),
        (411, 278, 0xfccb6963a5d4733e),
        (412, 273, 0x31167eaff5d0eb89),
        (413, 355, 0xf7b8f8cdfd979dc9),
        (414, 288, 0x6ca2a707852d4ad2),
        (415, 303, 0xfd90ad97c9684b7c),
        (416, 354, 0x1ca1d285f5630efc),
        (417, 352, 0xcc6652fa7c0b0a67),
        (421, 362, 0xb2c50baece14f1d8),
        (422, 325, 0x8902444cd066fcef),
        (423, 317, 0xd29688cfe6c870af),
        (424, 340, 0xabb7b992c38ed841),
        (426, 425, 0xf85af83451cda470),
        (428, 255, 0xf8cd578dd566e32c),
        (429, 267, 0x3303dce99160fbb8),
        (431, 313, 0x06627022949f1b2b),
        (451, 289, 0x032cdc169abf0af4),
        (500, 571, 0x39336c2a38d41d1e),
        (501, 242, 0x8004d29e4b55cc4e),
        (502, 272, 0x3a8b47d518266ae8),
        (503, 339, 0x17288f2bf9d43b21),
        (504, 287, 0xfb43be1cc0eda8ea),
        (505, 581, 0xc66abd82c61262bb),
        (506, 338, 0xb30a51bb9f43899c),
        (507, 429, 0x63ee71861e81c17a),
        (508, 272, 0xf3842a4fe56e497d),
        (510, 287, 0xd8b9cfebdac45b31),
        (511, 289, 0x12dd9b2b69a420b9),
    ];

    #[test]
    fn pages_are_those_of_apache() {
        let hash = |text: &str| {
            text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
        };
        for &(status, len, expected) in APACHE {
            let page = error_page(status, &ErrorPage { method: "GET", ..ErrorPage::default() });
            assert_eq!((page.len(), hash(&page)), (len, expected), "{status}: {page}");
        }
    }

    #[test]
    fn variable_parts() {
        let page = |status, page: ErrorPage<'_>| error_page(status, &page);
        let moved = page(301, ErrorPage { location: "http://x/a&b\"<", ..ErrorPage::default() });
        assert!(
            moved.contains(
                "<h1>Moved Permanently</h1>\n<p>The document has moved <a href=\"http://x/a&amp;b&quot;&lt;\">"
            )
        );
        let footer = server_signature("Apache", "foo.com", 8, Some("you@example.com"));
        assert_eq!(
            footer,
            "<hr>\n<address>Apache Server at <a href=\"mailto:you@example.com\">foo.com</a> Port 8</address>\n"
        );
        let twice = page(404, ErrorPage { document_status: Some(404), signature: &footer, ..ErrorPage::default() });
        assert!(twice.contains("<p>Additionally, a 404 Not Found\nerror was"));
        assert!(twice.ends_with("</address>\n</body></html>\n"));
        let reason = page(404, ErrorPage { reason: Some("Gone <b>"), ..ErrorPage::default() });
        assert!(reason.contains("<title>404 Gone &lt;b&gt;</title>") && reason.contains("<h1>Gone &lt;b&gt;</h1>"));
        let expect = page(417, ErrorPage { expect: Some("x<>"), ..ErrorPage::default() });
        assert!(expect.contains("The client sent<pre>\n    Expect: x&lt;&gt;\n</pre>\n</p><p>Only"));
    }
}

//! The page of a listing: made while it is sent, so that only its entries are held in memory.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;

use bytes::Bytes;
use http::text::to_bytes;
use http::uri::escape_html;
use server::Slots;
use server::paths::os_path;
use server::{Body, BodyStream, Piece, Request};

use super::entry::{Entry, is_html};
use super::options::{NO_PREAMBLE, XHTML};
use super::query::Query;
use super::settings::IndexDir;
use super::table::Table;

/// The approximate number of bytes made at once; a page that fits is sent whole, with its length.
const PIECE: usize = 32 * 1024;

/// A part of a listing's page: text that is ready, or what makes it when its turn comes.
enum Part {
    Text(Vec<u8>),
    Rows(Box<Table>),
    /// A text file, shown unchanged.
    Plain(File),
    /// A separate page inside this one, and the text that follows if it succeeded or failed.
    Document {
        found: Box<Request>,
        made: Vec<u8>,
        failed: Vec<u8>,
    },
    Body(Box<dyn BodyStream>),
}

/// A page that is being made.
struct Page {
    parts: VecDeque<Part>,
}

/// The response to `HEAD`.
pub(super) fn nothing() -> Body {
    Body::Stream(Box::new(Page { parts: VecDeque::new() }))
}

/// Makes the page, or the means to make it.
pub(super) async fn make(request: &mut Request, slots: Slots, query: Query, entries: Vec<Entry>) -> Body {
    let mut page = Page { parts: VecDeque::new() };
    head(request, slots.get(), &query, &mut page.parts).await;
    let tail = tail(request, slots.get(), &query).await;
    page.parts.push_back(Part::Rows(Box::new(Table::new(slots, query, entries))));
    page.parts.extend(tail);
    let (mut out, mut whole) = (Vec::new(), false);
    while out.len() < PIECE {
        whole = !page.make_some(&mut out);
        if whole {
            break;
        }
        if matches!(page.parts.front(), Some(Part::Document { .. } | Part::Body(_))) {
            break;
        }
    }
    if whole && page.parts.is_empty() {
        return Body::Bytes(out.into());
    }
    page.parts.push_front(Part::Text(out));
    Body::Stream(Box::new(page))
}

impl Page {
    /// Makes a piece that needs no waiting; `false`: none is left.
    fn make_some(&mut self, out: &mut Vec<u8>) -> bool {
        match self.parts.front_mut() {
            Some(Part::Text(text)) => out.append(text),
            Some(Part::Rows(table)) => {
                if table.make(out, PIECE) {
                    return true;
                }
            }
            Some(Part::Plain(file)) => {
                let mut piece = Vec::new();
                match file.take(PIECE as u64).read_to_end(&mut piece) {
                    Ok(read) if read > 0 => {
                        plain(&piece, out);
                        return true;
                    }
                    _ => out.extend_from_slice(b"</pre>\n"),
                }
            }
            _ => return false,
        }
        self.parts.pop_front();
        true
    }
}

impl BodyStream for Page {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(async move {
            loop {
                let mut out = Vec::new();
                while out.len() < PIECE && self.make_some(&mut out) {}
                if !out.is_empty() {
                    return Some(Ok(Bytes::from(out)));
                }
                match self.parts.pop_front()? {
                    Part::Document { mut found, made, failed } => match found.run_subrequest().await {
                        Ok(body) => {
                            self.parts.push_front(Part::Text(made));
                            self.parts.push_front(Part::Body(body.into_stream()));
                        }
                        Err(_) => self.parts.push_front(Part::Text(failed)),
                    },
                    Part::Body(mut body) => {
                        if let Some(piece) = body.next().await {
                            self.parts.push_front(Part::Body(body));
                            return Some(piece);
                        }
                    }
                    // Made above.
                    Part::Text(_) | Part::Rows(_) | Part::Plain(_) => {}
                }
            }
        })
    }
}

/// Text inside `<pre>`.
fn plain(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            _ => out.push(*byte),
        }
    }
}

/// A file named by `HeaderName` or `ReadmeName`.
enum Insert {
    Html(Box<Request>),
    Plain(File),
}

fn insert(found: Box<Request>) -> Option<Insert> {
    if found.response.status() != 200 || !found.mapped.stat.is_some_and(|meta| meta.is_file()) {
        return None;
    }
    if is_html(&found) {
        return Some(Insert::Html(found));
    }
    let is_text = found.response.content_type().is_some_and(|text| text.to_ascii_lowercase().starts_with("text/"));
    if !is_text {
        return None;
    }
    File::open(os_path(&found.mapped.filename)).ok().map(Insert::Plain)
}

/// The preamble up to the heading, or its replacement.
async fn head(request: &mut Request, conf: &IndexDir, query: &Query, parts: &mut VecDeque<Part>) {
    let title = request.data.uri.trim_end_matches('/');
    let title = escape_html(if title.is_empty() { "/" } else { title }).into_owned();
    let preamble = preamble(conf, query, &title);
    let id = if conf.style_sheet.is_set() { "  <h1 id=\"indextitle\">" } else { "<h1>" };
    let heading = to_bytes(&format!("{id}Index of {title}</h1>\n")).into_owned();
    let found = match conf.header.get() {
        Some(name) => Some(look_up_text(request, name).await),
        None => None,
    };
    match found.and_then(insert) {
        None => parts.push_back(Part::Text([preamble, heading].concat())),
        Some(Insert::Plain(file)) => {
            parts.push_back(Part::Text([preamble, b"<pre>\n".to_vec()].concat()));
            parts.push_back(Part::Plain(file));
        }
        Some(Insert::Html(found)) => {
            let (before, failed) = match query.options & NO_PREAMBLE != 0 {
                true => (Vec::new(), [preamble, heading].concat()),
                false => (preamble, heading),
            };
            parts.push_back(Part::Text(before));
            parts.push_back(Part::Document { found, made: Vec::new(), failed });
        }
    }
}

/// Looks up the file above a listing: it becomes a part of this page, whatever types the client accepts.
async fn look_up_text(request: &mut Request, name: &str) -> Box<Request> {
    let field = |request: &Request, name| request.header_joined(name).map(std::borrow::Cow::into_owned);
    let (types, codings) = (field(request, "Accept"), field(request, "Accept-Encoding"));
    let fields = request.headers_mut();
    fields.set("Accept", "text/html, text/plain");
    fields.remove("Accept-Encoding");
    let target = match &request.data.args {
        Some(args) => format!("{name}?{args}"),
        None => name.to_string(),
    };
    let found = request.lookup_uri(&target).await;
    let fields = request.headers_mut();
    match types {
        Some(types) => fields.set("Accept", types),
        None => fields.remove("Accept"),
    }
    if let Some(codings) = codings {
        fields.set("Accept-Encoding", codings);
    }
    found
}

fn preamble(conf: &IndexDir, query: &Query, title: &str) -> Vec<u8> {
    let (start, close) = match query.options & XHTML != 0 {
        true => (
            "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Transitional//EN\"\n\
             \"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd\">\n\
             <html xmlns=\"http://www.w3.org/1999/xhtml\">\n",
            " />",
        ),
        false => (
            "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n<html>\n",
            ">",
        ),
    };
    let mut out = format!("{start} <head>\n  <title>Index of {title}</title>\n");
    if let Some(sheet) = conf.style_sheet.get() {
        out.push_str(&format!("  <link rel=\"stylesheet\" href=\"{sheet}\" type=\"text/css\"{close}\n"));
    }
    out.push_str(conf.head_insert.get().map_or("", String::as_str));
    out.push_str(" </head>\n <body>\n");
    to_bytes(&out).into_owned()
}

/// The part below the listing.
async fn tail(request: &Request, conf: &IndexDir, query: &Query) -> Vec<Part> {
    let end = b"</body></html>\n".to_vec();
    let signature = request.signature();
    let signature = to_bytes(signature.strip_prefix("<hr>\n").unwrap_or(&signature)).into_owned();
    let found = match conf.readme.get() {
        Some(name) => Some(request.lookup_uri(name).await),
        None => None,
    };
    match found.and_then(insert) {
        None => vec![Part::Text([signature, end].concat())],
        Some(Insert::Plain(file)) => {
            vec![Part::Text(b"<pre>\n".to_vec()), Part::Plain(file), Part::Text(end)]
        }
        Some(Insert::Html(found)) => {
            let failed = [signature, end.clone()].concat();
            let made = if query.options & NO_PREAMBLE != 0 { Vec::new() } else { end };
            vec![Part::Document { found, made, failed }]
        }
    }
}

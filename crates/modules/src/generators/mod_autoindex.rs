//! Listings of directories without an index file.
//!
//! Apache manual: mod_autoindex. The pages are Apache's byte for byte, since scripts and style sheets know them.

mod entry;
mod items;
mod options;
mod page;
mod query;
mod set;
mod settings;
mod sort;
mod table;

use std::io;

use conf::directive::Args::{Flag, Iterate, Iterate2, Raw, Take1, Take2, Words};
use conf::{Allowed, Directive, Level, ModuleInfo, on_or_off, row};
use server::core::CoreDir;
use server::core::options::INDEXES;
use server::site::file_cache::entity_tag;
use server::{Body, Handler, HandlerResult, Hook, Module, Order, Request};

use self::items::{RESET, SelectedBy};
use self::options::TRACK_MODIFIED;
use self::query::Query;
use self::set::{add_alt, add_description, add_icon, add_ignored, set_options, set_order, text};
use self::settings::IndexDir;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "autoindex_module", source: "mod_autoindex.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::Handler(Order::Middle, INDEX_OF)],
};

/// The entries of a listing are looked up.
const INDEX_OF: Handler =
    Handler::Later { claims: is_directory, check: refusal, run: |request| Box::pin(handler(request)) };

const INDEX: Allowed = Allowed::INDEXES;

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AddIcon", INDEX, Iterate2(|c, icon, to| add_icon(c, SelectedBy::Path, icon, to)), "", "an icon URL followed by one or more filenames"),
    row("AddIconByType", INDEX, Iterate2(|c, icon, to| add_icon(c, SelectedBy::Type, icon, to)), "", "an icon URL followed by one or more MIME types"),
    row("AddIconByEncoding", INDEX, Iterate2(|c, icon, to| add_icon(c, SelectedBy::Encoding, icon, to)), "", "an icon URL followed by one or more content encodings"),
    row("AddAlt", INDEX, Iterate2(|c, alt, to| add_alt(c, SelectedBy::Path, alt, to)), "", "alternate descriptive text followed by one or more filenames"),
    row("AddAltByType", INDEX, Iterate2(|c, alt, to| add_alt(c, SelectedBy::Type, alt, to)), "", "alternate descriptive text followed by one or more MIME types"),
    row("AddAltByEncoding", INDEX, Iterate2(|c, alt, to| add_alt(c, SelectedBy::Encoding, alt, to)), "", "alternate descriptive text followed by one or more content encodings"),
    row("IndexOptions", INDEX, Words(set_options), "", "one or more index options [+|-][]"),
    row("IndexOrderDefault", INDEX, Take2(set_order), "Ascending Name", "{Ascending,Descending} {Name,Size,Description,Date}"),
    row("IndexIgnore", INDEX, Iterate(add_ignored), ".", "one or more file extensions"),
    row("IndexIgnoreReset", INDEX, Flag(|c, on| c.set(|d: &mut IndexDir| &mut d.ignored.reset, on)), on_or_off(RESET), "Reset the inherited list of IndexIgnore filenames"),
    row("AddDescription", INDEX, Iterate2(add_description), "", "Descriptive text followed by one or more filenames"),
    row("HeaderName", INDEX, Take1(|c, v| text(c, v, |d| &mut d.header)), "", "a filename"),
    row("ReadmeName", INDEX, Take1(|c, v| text(c, v, |d| &mut d.readme)), "", "a filename"),
    row("FancyIndexing", Allowed::ANY, Raw(|c, _| Err(c.row.help.into())), "", "The FancyIndexing directive is no longer supported. Use IndexOptions FancyIndexing."),
    row("DefaultIcon", INDEX, Take1(|c, v| text(c, v, |d| &mut d.default_icon)), "", "an icon URL"),
    row("IndexStyleSheet", INDEX, Take1(|c, v| text(c, v, |d| &mut d.style_sheet)), "", "URL to style sheet"),
    row("IndexHeadInsert", INDEX, Take1(|c, v| text(c, v, |d| &mut d.head_insert)), "", "String to insert in HTML HEAD section"),
];

fn is_directory(request: &Request) -> bool {
    matches!(request.handler_name(), None | Some(crate::metadata::mod_mime::DIRECTORY))
        && request.mapped.stat.is_some_and(|meta| meta.is_dir())
        && matches!(&*request.data.method, "GET" | "HEAD")
}

fn refusal(request: &mut Request) -> Option<HandlerResult> {
    if request.options() & INDEXES != 0 {
        return None;
    }
    let names = request.notes.get("dir-index-names").unwrap_or("none");
    let text = format!(
        "AH01276: Cannot serve directory {}: No matching DirectoryIndex ({names}) found, and server-generated \
         directory index forbidden by Options directive",
        request.mapped.filename
    );
    request.log("autoindex", Level::Error, text);
    let origin = request.dir::<CoreDir>().options.0.origin();
    request.note_reason(403, "autoindex", origin, |request| {
        let cause = format!("{} has no index page, and Options", request.mapped.filename);
        (cause, "do not allow a listing".into())
    });
    Some(HandlerResult::Status(403))
}

async fn handler(request: &mut Request) -> HandlerResult {
    if !request.mapped.filename.ends_with('/') {
        request.mapped.filename.push('/');
    }
    match list(request).await {
        Ok(body) => HandlerResult::Body(body),
        Err(error) => {
            let text = format!("AH01275: Can't open directory for index: {}", request.mapped.filename);
            request.log_os("autoindex", Level::Error, &error, text);
            HandlerResult::Status(403)
        }
    }
}

async fn list(request: &mut Request) -> io::Result<Body> {
    let slots = request.dir.slots.clone();
    let conf = slots.get::<IndexDir>();
    let directory = std::fs::read_dir(server::paths::os_path(&request.mapped.filename))?;
    let media_type = conf.media_type.get().map_or("text/html", String::as_str);
    let charset = conf.charset.get().map_or("ISO-8859-1", String::as_str);
    let parameter = if charset.is_empty() { String::new() } else { format!(";charset={charset}") };
    request.response.set_content_type(format!("{media_type}{parameter}"));
    let query = Query::of(request, conf);
    if query.options & TRACK_MODIFIED != 0 {
        track_modified(request);
    }
    if request.data.method == "HEAD" || request.is_hypothetical() {
        // The body would not be sent, so it is not made.
        return Ok(page::nothing());
    }
    let entries = entry::collect(request, conf, &query, directory).await;
    Ok(page::make(request, slots.clone(), query, entries).await)
}

/// Sets the listing's date to its directory's, which changes only with the set of entries: an option for administrators
/// who accept that.
fn track_modified(request: &mut Request) {
    let Some(meta) = request.mapped.stat else { return };
    let date = http::date::http_date(meta.mtime.div_euclid(1_000_000_000) as i64);
    request.response.headers_out.set("Last-Modified", String::from_utf8_lossy(&date).into_owned());
    let parts = request.dir::<CoreDir>().etag.effective();
    if let Ok(Some(etag)) = entity_tag(&request.mapped.filename, &meta, parts) {
        request.response.headers_out.set("ETag", etag);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn lines_as_apache_takes_them() {
        check(&[
            ("IndexOrderDefault a b", "First keyword must be 'Ascending' or 'Descending'"),
            ("IndexOrderDefault ascending b", "Second keyword must be 'Name', 'Date', 'Size', or 'Description'"),
            ("IndexOrderDefault Descending DATE", ""),
            ("AddIcon (abc y", "missing closing paren"),
            ("AddIcon (a,b y", "missing closing paren"),
            ("AddIcon (abc) y", ""),
            ("AddIcon x", "AddIcon requires at least two arguments, an icon URL followed by one or more filenames"),
            ("FancyIndexing on", "The FancyIndexing directive is no longer supported. Use IndexOptions FancyIndexing."),
            ("IndexIgnoreReset x", "IndexIgnoreReset must be On or Off"),
            (
                "AddDescription \"x\"",
                "AddDescription requires at least two arguments, Descriptive text followed by one or more filenames",
            ),
            ("IndexIgnore", "IndexIgnore requires at least one argument, one or more file extensions"),
            ("HeaderName", "HeaderName takes one argument, a filename"),
        ]);
    }
}

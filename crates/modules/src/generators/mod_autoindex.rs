//! Listings of directories without an index file.
//!
//! Apache manual: mod_autoindex. The pages are Apache's byte for byte, since scripts and style sheets know them.

mod entry;
mod options;
mod page;
mod query;
mod sort;
mod table;

use std::io;

use conf::directive::Args::{Flag, Iterate, Iterate2, Raw, Take1, Take2, Words};
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, Stacked, on_or_off, row, settings};
use server::core::CoreDir;
use server::core::options::INDEXES;
use server::{Body, Handler, HandlerResult, Hook, Module, Order, Request};

use self::entry::{Description, Ignored, Item, Kind, RESET};
use self::options::{Options, TRACK_MODIFIED, Width};
use self::query::{Key, Query};
pub(crate) use self::table::size as abbreviated_size;

/// The module.
pub static MODULE: Module = Module {
    info: ModuleInfo { id: "autoindex_module", source: "mod_autoindex.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Handler(Order::Middle, INDEX_OF)],
};

/// The entries of a listing are looked up.
const INDEX_OF: Handler =
    Handler::Later { claims: is_directory, check: refusal, answer: |request| Box::pin(handler(request)) };

const INDEX: Allowed = Allowed::INDEXES;

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AddIcon", INDEX, Iterate2(|c, icon, to| add_icon(c, Kind::Path, icon, to)), "", "an icon URL followed by one or more filenames"),
    row("AddIconByType", INDEX, Iterate2(|c, icon, to| add_icon(c, Kind::Type, icon, to)), "", "an icon URL followed by one or more MIME types"),
    row("AddIconByEncoding", INDEX, Iterate2(|c, icon, to| add_icon(c, Kind::Encoding, icon, to)), "", "an icon URL followed by one or more content encodings"),
    row("AddAlt", INDEX, Iterate2(|c, alt, to| add_alt(c, Kind::Path, alt, to)), "", "alternate descriptive text followed by one or more filenames"),
    row("AddAltByType", INDEX, Iterate2(|c, alt, to| add_alt(c, Kind::Type, alt, to)), "", "alternate descriptive text followed by one or more MIME types"),
    row("AddAltByEncoding", INDEX, Iterate2(|c, alt, to| add_alt(c, Kind::Encoding, alt, to)), "", "alternate descriptive text followed by one or more content encodings"),
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

settings! {
    /// The module's settings of a section.
    pub struct IndexDir {
        icons: Stacked<Item>,
        alts: Stacked<Item>,
        descriptions: Stacked<Description>,
        ignored: Ignored,
        options: Options,
        icon_width: Setting<i64>,
        icon_height: Setting<i64>,
        name_width: Setting<Width>,
        description_width: Setting<Width>,
        media_type: Setting<String>,
        charset: Setting<String>,
        old_dates: Setting<bool> = false,
        order: Setting<(bool, Key)>,
        header: Setting<String>,
        readme: Setting<String>,
        default_icon: Setting<String>,
        style_sheet: Setting<String>,
        head_insert: Setting<String>,
    }
}

fn text(cmd: &mut Cmd<'_>, value: &str, field: fn(&mut IndexDir) -> &mut Setting<String>) -> Outcome {
    cmd.set(field, value.to_string())
}

/// The path in which entries of this place apply, as Apache keeps it: a directory's path ends with a slash.
fn place_path(cmd: &Cmd<'_>) -> String {
    let path = cmd.place.path.as_deref().unwrap_or_default();
    let is_directory = cmd.place.enclosing.last().is_some_and(|name| name.eq_ignore_ascii_case("<Directory"));
    if is_directory && !path.ends_with('/') { format!("{path}/") } else { path.to_string() }
}

fn item(cmd: &Cmd<'_>, kind: Kind, to: &str, data: &str) -> Item {
    Item::new(kind, to, &place_path(cmd), data)
}

fn add_icon(cmd: &mut Cmd<'_>, kind: Kind, icon: &str, to: &str) -> Outcome {
    let url = match icon.strip_prefix('(') {
        None => icon,
        Some(pair) => {
            let pair = &pair[..pair.find(')').ok_or("missing closing paren")?];
            let (alt, url) = pair.split_once(',').unwrap_or((pair, ""));
            add_alt(cmd, kind, alt, to)?;
            url.trim_start_matches(',')
        }
    };
    let (item, origin) = (item(cmd, kind, to, url), cmd.origin());
    cmd.dir.edit::<IndexDir>().icons.push(item, &origin);
    Ok(())
}

fn add_alt(cmd: &mut Cmd<'_>, kind: Kind, alt: &str, to: &str) -> Outcome {
    let (item, origin) = (item(cmd, kind, to, alt), cmd.origin());
    cmd.dir.edit::<IndexDir>().alts.push(item, &origin);
    Ok(())
}

fn add_ignored(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let (item, origin) = (item(cmd, Kind::Ignore, name, ""), cmd.origin());
    cmd.dir.edit::<IndexDir>().ignored.list.push(item, &origin);
    Ok(())
}

fn add_description(cmd: &mut Cmd<'_>, description: &str, to: &str) -> Outcome {
    let origin = cmd.origin();
    cmd.dir.edit::<IndexDir>().descriptions.push(Description::new(description, to), &origin);
    Ok(())
}

fn set_options(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    let in_section = cmd.place.htaccess || !cmd.place.enclosing.is_empty();
    let origin = cmd.origin();
    options::apply(cmd.dir.edit(), words, in_section, &origin)
}

fn set_order(cmd: &mut Cmd<'_>, direction: &str, key: &str) -> Outcome {
    let ascending = conf::values::one_of(direction, &[("Ascending", true), ("Descending", false)])
        .ok_or("First keyword must be 'Ascending' or 'Descending'")?;
    let keys = [("Name", Key::Name), ("Date", Key::Date), ("Size", Key::Size), ("Description", Key::Description)];
    let key =
        conf::values::one_of(key, &keys).ok_or("Second keyword must be 'Name', 'Date', 'Size', or 'Description'")?;
    cmd.set(|d: &mut IndexDir| &mut d.order, (ascending, key))
}

fn is_directory(request: &Request) -> bool {
    matches!(request.handler_name(), None | Some(crate::metadata::mod_mime::DIRECTORY))
        && request.mapped.stat.is_some_and(|meta| meta.is_dir())
        && matches!(&*request.asked.method, "GET" | "HEAD")
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
    request.answer.set_content_type(format!("{media_type}{parameter}"));
    let query = Query::of(request, conf);
    if query.options & TRACK_MODIFIED != 0 {
        track_modified(request);
    }
    if request.asked.method == "HEAD" || request.is_question() {
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
    request.answer.headers_out.set("Last-Modified", String::from_utf8_lossy(&date).into_owned());
    let modified = (meta.mtime / 1000) as i64;
    let tag = http::conditional::FileTag { inode: None, size: Some(meta.size), modified_us: Some(modified) };
    let now = request.account.time.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_micros());
    if let Some(etag) = tag.etag(http::conditional::is_young(modified, now as i64)) {
        request.answer.headers_out.set("ETag", etag);
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

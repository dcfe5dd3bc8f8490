//! The listing itself: a table, preformatted columns, or a plain list.

mod cells;

use http::text::{from_bytes, to_bytes};
use http::uri::{escape_html, escape_relative_path};
use server::Slots;

use self::cells::date;
use super::entry::Entry;
use super::items::{BLANK, find};
use super::options::{
    ALT_CLASS, FANCY, ICONS_ARE_LINKS, NO_DATE, NO_DESCRIPTION, NO_ICON, NO_RULES, NO_SIZE, NO_SORTING, TABLE, WIDTH,
    Width, XHTML,
};
use super::query::Query;
use super::settings::{IndexDir, Key};
use crate::abbreviated_size::abbreviated_size;

/// A listing that is partly made.
pub(super) struct Table {
    slots: Slots,
    query: Query,
    entries: std::vec::IntoIter<Entry>,
    name_width: usize,
    description_width: usize,
    /// The number of the next line; the head comes before the first.
    line: usize,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Head,
    Lines,
    Done,
}

impl Table {
    pub(super) fn new(slots: Slots, query: Query, entries: Vec<Entry>) -> Table {
        let conf = slots.get::<IndexDir>();
        let columns = query.options & (FANCY | TABLE) == FANCY;
        let wide = |width: Option<&Width>, longest: &dyn Fn() -> usize| match width {
            None => WIDTH,
            Some(width) if width.adjust && columns => width.bytes.max(longest()),
            Some(width) => width.bytes,
        };
        let length = |text: &str| to_bytes(text).len();
        let name_width =
            wide(conf.name_width.get(), &|| entries.iter().map(|entry| length(&entry.name)).max().unwrap_or(0));
        let description_width = wide(conf.description_width.get(), &|| {
            entries.iter().filter_map(|entry| entry.description.as_deref()).map(length).max().unwrap_or(0)
        });
        Table { slots, query, entries: entries.into_iter(), name_width, description_width, line: 0, stage: Stage::Head }
    }

    /// Makes lines until `out` holds `enough`; `false`: none is left.
    pub(super) fn make(&mut self, out: &mut Vec<u8>, enough: usize) -> bool {
        let slots = self.slots.clone();
        let conf = slots.get::<IndexDir>();
        if self.stage == Stage::Head {
            self.head(conf, out);
            self.stage = Stage::Lines;
        }
        while self.stage == Stage::Lines && out.len() < enough {
            match self.entries.next() {
                Some(entry) => {
                    self.entry(conf, &entry, out);
                    self.line += 1;
                }
                None => {
                    self.foot(conf, out);
                    self.stage = Stage::Done;
                }
            }
        }
        self.stage != Stage::Done
    }

    fn has(&self, option: u32) -> bool {
        self.query.options & option != 0
    }

    fn head(&self, conf: &IndexDir, out: &mut Vec<u8>) {
        if self.has(TABLE) {
            self.table_head(conf, out);
        } else if self.has(FANCY) {
            self.column_head(conf, out);
        } else {
            out.extend_from_slice(b"<ul>");
        }
    }

    fn table_head(&self, conf: &IndexDir, out: &mut Vec<u8>) {
        let styled = conf.style_sheet.is_set();
        let start =
            if styled { "  <table id=\"indexlist\">\n   <tr class=\"indexhead\">" } else { "  <table>\n   <tr>" };
        put(out, start);
        let class = |out: &mut Vec<u8>, class: &str, plain: &str| {
            if styled { put(out, &format!(" class=\"{class}\">")) } else { put(out, plain) }
        };
        if !self.has(NO_ICON) {
            put(out, "<th");
            class(out, "indexcolicon", " valign=\"top\">");
            match find(&conf.icons, BLANK, None) {
                Some(icon) => {
                    self.image(conf, &icon, "[ICO]", out);
                    put(out, "</th>");
                }
                None => put(out, "&nbsp;</th>"),
            }
        }
        put(out, "<th");
        class(out, "indexcolname", ">");
        self.link("Name", Key::Name, out);
        for (suppressed, name, title, key) in [
            (NO_DATE, "indexcollastmod", "Last modified", Key::Date),
            (NO_SIZE, "indexcolsize", "Size", Key::Size),
            (NO_DESCRIPTION, "indexcoldesc", "Description", Key::Description),
        ] {
            if !self.has(suppressed) {
                put(out, "</th><th");
                class(out, name, ">");
                self.link(title, key, out);
            }
        }
        put(out, "</th></tr>\n");
        self.rule_row(conf, out);
    }

    /// A line across the table.
    fn rule_row(&self, conf: &IndexDir, out: &mut Vec<u8>) {
        if self.has(NO_RULES) {
            return;
        }
        let columns = 1 + [NO_ICON, NO_DATE, NO_SIZE, NO_DESCRIPTION].iter().filter(|one| !self.has(**one)).count();
        let class = if conf.style_sheet.is_set() { " class=\"indexbreakrow\"" } else { "" };
        let close = self.close();
        put(out, &format!("   <tr{class}><th colspan=\"{columns}\"><hr{close}></th></tr>\n"));
    }

    fn close(&self) -> &'static str {
        if self.has(XHTML) { " /" } else { "" }
    }

    fn column_head(&self, conf: &IndexDir, out: &mut Vec<u8>) {
        put(out, "<pre>");
        if !self.has(NO_ICON) {
            match find(&conf.icons, BLANK, None) {
                Some(icon) => {
                    self.image(conf, &icon, "Icon ", out);
                    put(out, " ");
                }
                None => put(out, "      "),
            }
        }
        self.link("Name", Key::Name, out);
        pad(out, self.name_width.saturating_sub("Name".len()) + 1);
        if !self.has(NO_DATE) {
            self.link("Last modified", Key::Date, out);
            put(out, "      ");
        }
        if !self.has(NO_SIZE) {
            self.link("Size", Key::Size, out);
            put(out, "  ");
        }
        if !self.has(NO_DESCRIPTION) {
            self.link("Description", Key::Description, out);
        }
        match self.has(NO_RULES) {
            true => put(out, "\n"),
            false => put(out, &format!("<hr{}>", self.close())),
        }
    }

    /// The title of a column; a second click on the current key reverses the order.
    fn link(&self, title: &str, key: Key, out: &mut Vec<u8>) {
        if self.has(NO_SORTING) {
            return put(out, title);
        }
        let order = if self.query.key == key && self.query.ascending { 'D' } else { 'A' };
        let (letter, suffix) = (key.letter(), &self.query.suffix);
        put(out, &format!("<a href=\"?C={letter};O={order}{suffix}\">{title}</a>"));
    }

    fn image(&self, conf: &IndexDir, url: &str, alt: &str, out: &mut Vec<u8>) {
        put(out, &format!("<img src=\"{}\" alt=\"{alt}\"", escape_html(url)));
        for (name, size) in [("width", &conf.icon_width), ("height", &conf.icon_height)] {
            if let Some(size) = size.get() {
                put(out, &format!(" {name}=\"{size}\""));
            }
        }
        put(out, &format!("{}>", self.close()));
    }

    fn entry(&self, conf: &IndexDir, entry: &Entry, out: &mut Vec<u8>) {
        let anchor = escape_html(&escape_relative_path(&entry.name)).into_owned();
        let is_parent = self.line == 0 && entry.name.starts_with('/');
        let shown = to_bytes(if is_parent { "Parent Directory" } else { &entry.name });
        if self.has(TABLE) {
            self.row(conf, entry, &anchor, &shown, out);
        } else if self.has(FANCY) {
            self.columns(conf, entry, &anchor, &shown, out);
        } else {
            put(out, &format!("<li><a href=\"{anchor}\"> "));
            html(&shown, out);
            put(out, "</a></li>\n");
        }
    }

    fn row(&self, conf: &IndexDir, entry: &Entry, anchor: &str, shown: &[u8], out: &mut Vec<u8>) {
        let styled = conf.style_sheet.is_set();
        let class = |out: &mut Vec<u8>, class: &str, plain: &str| {
            if styled { put(out, &format!(" class=\"{class}\">")) } else { put(out, plain) }
        };
        if styled {
            let parity = if self.line % 2 == 1 { "odd" } else { "even" };
            match entry.alt.as_deref().filter(|_| self.has(ALT_CLASS)) {
                Some(alt) => put(out, &format!("   <tr class=\"{parity}-{}\">", alt.to_ascii_lowercase())),
                None => put(out, &format!("   <tr class=\"{parity}\">")),
            }
        } else {
            put(out, "<tr>");
        }
        if !self.has(NO_ICON) {
            put(out, "<td");
            class(out, "indexcolicon", " valign=\"top\">");
            self.icon(conf, entry, anchor, "&nbsp;", out);
            put(out, "</td>");
        }
        put(out, "<td");
        class(out, "indexcolname", ">");
        match conf.name_width.get().is_some_and(|width| width.adjust) {
            true => {
                put(out, &format!("<a href=\"{anchor}\">"));
                html(shown, out);
                put(out, "</a>");
            }
            false => self.name(anchor, shown, out),
        }
        if !self.has(NO_DATE) {
            put(out, "</td><td");
            match entry.modified {
                Some(modified) => {
                    class(out, "indexcollastmod", " align=\"right\">");
                    put(out, &format!("{}  ", date(modified, conf.old_dates())));
                }
                None => {
                    class(out, "indexcollastmod", ">");
                    put(out, "&nbsp;");
                }
            }
        }
        if !self.has(NO_SIZE) {
            put(out, "</td><td");
            class(out, "indexcolsize", " align=\"right\">");
            put(out, &abbreviated_size(entry.size));
        }
        if !self.has(NO_DESCRIPTION) {
            put(out, "</td><td");
            class(out, "indexcoldesc", ">");
            match &entry.description {
                Some(text) if conf.description_width.get().is_some_and(|width| width.adjust) => put(out, text),
                Some(text) => self.description(conf, text, out),
                None => put(out, "&nbsp;"),
            }
        }
        put(out, "</td></tr>\n");
    }

    fn columns(&self, conf: &IndexDir, entry: &Entry, anchor: &str, shown: &[u8], out: &mut Vec<u8>) {
        if !self.has(NO_ICON) {
            self.icon(conf, entry, anchor, "     ", out);
            put(out, " ");
        }
        self.name(anchor, shown, out);
        put(out, " ");
        if !self.has(NO_DATE) {
            match entry.modified {
                Some(modified) => put(out, &format!("{}  ", date(modified, conf.old_dates()))),
                None => put(out, "                   "),
            }
        }
        if !self.has(NO_SIZE) {
            put(out, &format!("{}  ", abbreviated_size(entry.size)));
        }
        if !self.has(NO_DESCRIPTION)
            && let Some(text) = &entry.description
        {
            self.description(conf, text, out);
        }
        put(out, "\n");
    }

    fn icon(&self, conf: &IndexDir, entry: &Entry, anchor: &str, none: &str, out: &mut Vec<u8>) {
        let is_link = self.has(ICONS_ARE_LINKS);
        if is_link {
            put(out, &format!("<a href=\"{anchor}\">"));
        }
        match entry.icon.as_deref().or(conf.default_icon.get().map(String::as_str)) {
            Some(icon) => self.image(conf, icon, &format!("[{}]", entry.alt.as_deref().unwrap_or("   ")), out),
            None => put(out, none),
        }
        if is_link {
            put(out, "</a>");
        }
    }

    /// The name as a link, truncated or padded to its width.
    fn name(&self, anchor: &str, shown: &[u8], out: &mut Vec<u8>) {
        let width = self.name_width;
        put(out, &format!("<a href=\"{anchor}\">"));
        if shown.len() > width {
            let cut = [&shown[..width.saturating_sub(3)], b"..>"].concat();
            html(&cut, out);
        } else {
            html(shown, out);
        }
        put(out, "</a>");
        pad(out, width.saturating_sub(shown.len()));
    }

    /// The description, truncated to its width; tags do not count, entities count as one character.
    fn description(&self, conf: &IndexDir, text: &str, out: &mut Vec<u8>) {
        let text = to_bytes(text);
        let mut left = self.description_width;
        if !conf.description_width.is_set() {
            // Omitted columns make room.
            let room = [(NO_ICON, 6), (NO_DATE, 19), (NO_SIZE, 7)];
            left += room.iter().filter(|(option, _)| self.has(*option)).map(|(_, width)| width).sum::<usize>();
        }
        let mut at = 0;
        while at < text.len() && (left > 0 || text[at] == b'<') {
            let end = match text[at] {
                b'<' => b'>',
                b'&' => {
                    left -= 1;
                    b';'
                }
                _ => {
                    left -= 1;
                    at += 1;
                    continue;
                }
            };
            match memchr::memchr(end, &text[at..]) {
                Some(length) => at += length + 1,
                None => at = text.len(),
            }
        }
        if at < text.len() {
            out.extend_from_slice(&text[..at.saturating_sub(1)]);
            out.push(b'>');
        } else {
            out.extend_from_slice(&text);
        }
    }

    fn foot(&self, conf: &IndexDir, out: &mut Vec<u8>) {
        if self.has(TABLE) {
            self.rule_row(conf, out);
            put(out, "</table>\n");
        } else if !self.has(FANCY) {
            put(out, "</ul>\n");
        } else if self.has(NO_RULES) {
            put(out, "</pre>\n");
        } else {
            put(out, &format!("<hr{}></pre>\n", self.close()));
        }
    }
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&to_bytes(text));
}

fn pad(out: &mut Vec<u8>, count: usize) {
    out.resize(out.len() + count, b' ');
}

/// Bytes as HTML text.
pub(super) fn html(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&to_bytes(&escape_html(&from_bytes(bytes))));
}

//! Server-side image maps: looks up the clicked place in a map.
//!
//! Apache manual: mod_imagemap. Doubtful cases were measured on 2.4.71.

mod menu;
mod shapes;

use std::io;

use conf::directive::Args::Take1;
use conf::{Allowed, Directive, Level, ModuleInfo, Setting, row, settings};
use runtime::{Load, offload};
use server::paths::os_path;
use server::{Body, Handler, HandlerResult, Hook, Module, Order, Request};

use self::menu::Menu;
use self::shapes::{Point, clicked, is_in_circle, is_in_polygon, is_in_rectangle, numbers};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "imagemap_module", source: "mod_imagemap.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Handler(
            Order::Middle,
            Handler::Later { claims: is_map, check: |_| None, run: |request| Box::pin(handle(request)) },
        ),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ImapMenu", Allowed::INDEXES, Take1(|c, v| c.set(|d: &mut ImapDir| &mut d.menu, v.to_string())), MENU, "the type of menu generated: none, formatted, semiformatted, unformatted"),
    row("ImapDefault", Allowed::INDEXES, Take1(|c, v| c.set(|d: &mut ImapDir| &mut d.default, v.to_string())), DEFAULT, "the action taken if no match: error, nocontent, referer, menu, URL"),
    row("ImapBase", Allowed::INDEXES, Take1(|c, v| c.set(|d: &mut ImapDir| &mut d.base, v.to_string())), BASE, "the base for all URL's: map, referer, URL (or start of)"),
];

const MENU: &str = "formatted";
const DEFAULT: &str = "nocontent";
const BASE: &str = "map";

/// The largest map, in bytes.
const MAX: u64 = 1024 * 1024;

settings! {
    /// The module's settings of a section.
    pub struct ImapDir {
        menu: Setting<String>,
        default: Setting<String>,
        base: Setting<String>,
    }
}

fn is_map(request: &Request) -> bool {
    matches!(request.handler_name(), Some("imap-file" | "application/x-httpd-imap"))
        && matches!(&*request.data.method, "GET" | "HEAD")
}

async fn handle(request: &mut Request) -> HandlerResult {
    let path = request.mapped.filename.clone();
    let Ok(bytes) = offload(Load::Wait, move || read(&path)).await else { return HandlerResult::Status(404) };
    let text = http::text::from_bytes(&bytes);
    let mut lines = text.lines().enumerate();
    let whole = std::iter::from_fn(|| {
        // A backslash at its end joins a line with the next one.
        let (mut number, line) = lines.next()?;
        let mut line = line.trim().to_string();
        while line.ends_with('\\') {
            line.pop();
            let Some((next, more)) = lines.next() else { break };
            number = next;
            line += more.trim();
        }
        Some((number + 1, line))
    });
    match look_up(request, whole) {
        Ok(Outcome::Page(page)) => {
            request.response.set_content_type("text/html; charset=ISO-8859-1");
            HandlerResult::Body(Body::text(page))
        }
        Ok(Outcome::Url(url)) if url.eq_ignore_ascii_case("nocontent") => HandlerResult::Status(204),
        Ok(Outcome::Url(url)) if url.is_empty() || url.eq_ignore_ascii_case("error") => HandlerResult::Status(500),
        Ok(Outcome::Url(url)) => {
            request.response.headers_out.set("Location", url);
            HandlerResult::Status(302)
        }
        Err(Failed) => HandlerResult::Status(500),
    }
}

fn read(path: &str) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let file = std::fs::File::open(os_path(path))?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut bytes = Vec::new();
    file.take(MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A map's result for a click.
enum Outcome {
    /// There was no valid click: a page with all links.
    Page(String),
    /// The target; or `error`, or `nocontent`.
    Url(String),
}

/// The map is unusable, which is logged.
struct Failed;

fn look_up(request: &Request, lines: impl Iterator<Item = (usize, String)>) -> Result<Outcome, Failed> {
    let conf = request.dir::<ImapDir>();
    let of = |setting: &Setting<String>, default: &str| setting.get().map_or(default, String::as_str).to_string();
    let kind = of(&conf.menu, MENU);
    let base = url(request, "", &of(&conf.base, BASE))?;
    let default = url(request, "", &of(&conf.default, DEFAULT))?;
    let click = clicked(request.data.args.as_deref());
    let hides = kind.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("no"));
    let menu = (click.is_none() && !hides).then(|| Menu::new(&kind, &request.data.uri));
    let mut search = Search { request, click, base, default, closest: None, menu };
    for (number, line) in lines {
        match search.line(number, &line) {
            Ok(None) => {}
            Ok(Some(target)) => return search.target(&target).map(Outcome::Url),
            // The page has begun: it shows the error itself.
            Err(Failed) if search.menu.is_some() => {
                let menu = search.menu.take().map(Menu::failed).unwrap_or_default();
                return Ok(Outcome::Page(menu));
            }
            Err(Failed) => return Err(Failed),
        }
    }
    if let Some(menu) = search.menu.take() {
        return Ok(Outcome::Page(menu.end()));
    }
    let target = search.closest.as_ref().map_or(&search.default, |(_, target)| target).clone();
    search.target(&target).map(Outcome::Url)
}

/// The search through the lines of a map.
struct Search<'a> {
    request: &'a Request,
    click: Option<Point>,
    base: String,
    default: String,
    /// The nearest point: the square of its distance, and its target.
    closest: Option<(f64, String)>,
    menu: Option<Menu>,
}

impl Search<'_> {
    fn target(&self, value: &str) -> Result<String, Failed> {
        url(self.request, &self.base, value)
    }

    /// Takes a line. `Some`: the click is inside its shape, which leads there.
    fn line(&mut self, number: usize, line: &str) -> Result<Option<String>, Failed> {
        if let Some(comment) = line.strip_prefix('#') {
            self.menu.iter_mut().for_each(|menu| menu.comment(comment));
            return Ok(None);
        }
        if line.is_empty() {
            self.menu.iter_mut().for_each(Menu::blank);
            return Ok(None);
        }
        let Some((directive, rest)) = line.split_once(|c: char| c.is_ascii_whitespace()) else {
            let uri = &self.request.data.uri;
            let text = format!("AH00679: map file {uri}, line {number} syntax error: requires at least two fields");
            self.request.log("imagemap", Level::Error, text);
            return Err(Failed);
        };
        let rest = rest.trim_start();
        let (value, rest) = rest.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((rest, ""));
        if directive.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("base")) {
            self.base = url(self.request, "", value)?;
            return Ok(None);
        }
        let (quoted, rest) = quoted(rest);
        if directive.eq_ignore_ascii_case("default") {
            self.default = url(self.request, "", value)?;
            if self.menu.is_some() {
                let target = self.target(&self.default)?;
                let text = quoted.unwrap_or(&self.default).to_string();
                self.menu.iter_mut().for_each(|menu| menu.default(&target, &text));
            }
            return Ok(None);
        }
        let (points, rest) = numbers(rest);
        if self.menu.is_some() {
            let text = quoted.or_else(|| self::quoted(rest).0).unwrap_or(value);
            let target = self.target(value)?;
            self.menu.iter_mut().for_each(|menu| menu.link(&target, text));
            return Ok(None);
        }
        let (Some(click), Some(first)) = (self.click, points.first()) else { return Ok(None) };
        let second = points.get(1).copied().unwrap_or_default();
        let hit = match directive.to_ascii_lowercase().as_str() {
            "poly" => is_in_polygon(click, &points),
            "circle" => is_in_circle(click, *first, second),
            "rect" => is_in_rectangle(click, *first, second),
            "point" => {
                let distance = (click.x - first.x).powi(2) + (click.y - first.y).powi(2);
                if click.x >= 0.0 && click.y >= 0.0 && self.closest.as_ref().is_none_or(|(best, _)| distance < *best) {
                    self.closest = Some((distance, value.to_string()));
                }
                false
            }
            _ => false,
        };
        Ok(hit.then(|| value.to_string()))
    }
}

/// A quoted text at the beginning, and the rest.
fn quoted(text: &str) -> (Option<&str>, &str) {
    match text.trim_start().strip_prefix('"') {
        Some(inner) => {
            let (inner, rest) = inner.split_once('"').unwrap_or((inner, ""));
            (Some(inner), rest)
        }
        None => (None, text),
    }
}

/// The meaning of a value: a keyword, a URL, or a path relative to `base`.
fn url(request: &Request, base: &str, value: &str) -> Result<String, Failed> {
    let own = |word: &str| value.eq_ignore_ascii_case(word);
    if own("map") || own("menu") {
        return Ok(request.url(&request.data.uri));
    }
    if own("nocontent") || own("error") {
        return Ok(value.to_string());
    }
    let mut value = value;
    if own("referer") {
        match request.header("Referer").filter(|referer| !referer.is_empty()) {
            Some(referer) => return Ok(referer.into_owned()),
            None => value = "",
        }
    }
    if value.trim_start_matches(|c: char| c.is_ascii_alphabetic()).starts_with(':') {
        return Ok(value.to_string());
    }
    if base.is_empty() {
        return Ok(if value.is_empty() { request.url("/") } else { value.to_string() });
    }
    let climbs = |value: &str| value == ".." || value.starts_with("../");
    let fail = |text: &str| {
        request.log("imagemap", Level::Error, format!("{text} in map file: {}", request.data.uri));
        Failed
    };
    if !base.contains('/') && climbs(value) {
        return Err(fail("AH00677: invalid base directive"));
    }
    // After the host, if there is one.
    let bytes = base.as_bytes();
    let mut start = 0;
    while start < bytes.len() && (bytes[start] != b'/' || bytes.get(start + 1) == Some(&b'/')) {
        start += if bytes[start] == b'/' { 2 } else { 1 };
    }
    let start = start.min(base.len());
    let (host, path) = base.split_at(start);
    let mut directory = match value.starts_with('/') {
        true => String::new(),
        false => path[..path.rfind('/').map_or(0, |at| at + 1)].to_string(),
    };
    while climbs(value) {
        if directory.is_empty() {
            return Err(fail("AH00678: invalid directory name"));
        }
        // Slashes at the end are removed with the name before them.
        while directory.ends_with('/') {
            directory.pop();
        }
        directory.truncate(directory.rfind('/').unwrap_or(0));
        value = &value[2..];
        if value == "/.." || value.starts_with("/../") {
            value = &value[1..];
        }
    }
    Ok(format!("{host}{directory}{value}"))
}

//! Type maps: handwritten lists of variants.
//!
//! Apache manual: mod_negotiation, "Type maps".

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use conf::Level;
use http::text::from_bytes;
use server::paths::{base_name, c_path};
use server::{Links, Request};

use super::accept::Media;
use super::offer::Offer;
use super::report;
use super::select::{VARIANTS_MAX, Variant};

/// The variants of a type map.
#[derive(Debug, Default)]
pub(super) struct Map {
    pub(super) variants: Arc<[Variant]>,
    /// Its errors, as messages for the log.
    pub(super) complaints: Vec<String>,
    /// Whether it is unusable.
    pub(super) broken: bool,
}

/// The largest map, in bytes: it is kept in memory.
const SIZE_MAX: u64 = 256 * 1024;
/// At this many cached maps, all are forgotten.
const REMEMBERED_MAX: usize = 64;
/// The longest text inside a map, in bytes, as in Apache.
const BODY_MAX: usize = 8192;

type Identity = (u64, u64, u64, i64, i64);

type Remembered = HashMap<String, (Identity, Arc<Map>)>;

static MAPS: LazyLock<Mutex<Remembered>> = LazyLock::new(Mutex::default);

/// Reads a map, unless the cached one is current.
pub(super) fn read(path: &str, links: Links) -> io::Result<Arc<Map>> {
    let os = c_path(path).ok_or(io::ErrorKind::InvalidInput)?;
    // Opening a pipe and waiting for a writer could take for ever.
    let file = File::from(links.open(&os)?);
    let meta = file.metadata()?;
    if meta.is_dir() {
        // As in Apache, it counts as empty.
        return Ok(Arc::default());
    }
    if !meta.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if meta.len() > SIZE_MAX {
        return Err(io::Error::other("it is too large for a type map"));
    }
    let identity = (meta.dev(), meta.ino(), meta.len(), meta.ctime(), meta.ctime_nsec());
    let remembered = || MAPS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, map)) = remembered().get(path)
        && *known == identity
    {
        return Ok(map.clone());
    }
    let mut bytes = Vec::with_capacity(meta.len() as usize);
    file.take(SIZE_MAX).read_to_end(&mut bytes)?;
    let map = Arc::new(parse(&bytes, path));
    let mut maps = remembered();
    if maps.len() >= REMEMBERED_MAX {
        maps.clear();
    }
    maps.insert(path.to_string(), (identity, map.clone()));
    Ok(map)
}

/// The variants described by `bytes`, at most [`VARIANTS_MAX`]; `path` is for messages, and for texts inside the map.
fn parse(bytes: &[u8], path: &str) -> Map {
    let mut rest = bytes;
    let (mut variants, mut complaints) = (Vec::new(), Vec::new());
    let mut broken = false;
    let mut draft = Draft::default();
    while let Some(line) = header_line(&mut rest) {
        if line.trim().is_empty() {
            variants.extend(std::mem::take(&mut draft).finished());
            if variants.len() > VARIANTS_MAX {
                complaints.push(format!("the type map {path} has more than {VARIANTS_MAX} variants"));
                broken = true;
                break;
            }
            continue;
        }
        let Some((name, value)) = line.split_once(':') else {
            complaints.push(format!("AH00681: Syntax error in type map, no ':' in {path} for header {line}"));
            broken = true;
            break;
        };
        let value = value.trim_start();
        if value.is_empty() {
            let name = name.to_ascii_lowercase();
            complaints.push(format!("AH00682: Syntax error in type map --- no header body: {name}: for {path}"));
            broken = true;
            break;
        }
        if let Err(complaint) = draft.take(&name.to_ascii_lowercase(), &without_comments(value), &mut rest, path) {
            complaints.push(complaint);
            draft = Draft::default();
            break;
        }
    }
    variants.extend(draft.finished());
    Map { variants: variants.into(), complaints, broken }
}

/// The next line that is not a comment, with its continuation lines; `None` at the end.
fn header_line(rest: &mut &[u8]) -> Option<String> {
    let mut line = loop {
        let line = next_line(rest)?;
        if !line.starts_with(b"#") {
            break line.to_vec();
        }
    };
    let is_body = line.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"body:"));
    while !is_body && !line.trim_ascii().is_empty() {
        match rest.first() {
            Some(b'#') => {
                next_line(rest);
            }
            Some(b' ' | b'\t') => {
                let mut ahead = *rest;
                let more = next_line(&mut ahead).unwrap_or_default();
                if more.trim_ascii().is_empty() {
                    break;
                }
                line.extend_from_slice(more.trim_ascii_start());
                *rest = ahead;
            }
            _ => break,
        }
    }
    Some(from_bytes(&line).into_owned())
}

/// The next line, including its end.
fn next_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    if rest.is_empty() {
        return None;
    }
    let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
    let (line, tail) = rest.split_at(end);
    *rest = tail;
    Some(line)
}

/// Removes `(comments in parentheses)`.
fn without_comments(value: &str) -> String {
    let mut depth = false;
    value
        .chars()
        .map(|c| match c {
            '(' if !depth => {
                depth = true;
                ' '
            }
            ')' if depth => {
                depth = false;
                ' '
            }
            _ if depth => ' ',
            c => c,
        })
        .collect()
}

/// The first word of a value.
fn token(value: &str) -> &str {
    let value = value.trim_start();
    &value[..value.find([' ', '\t', '\r', '\n', ';', ',']).unwrap_or(value.len())]
}

/// A variant being described.
#[derive(Default)]
struct Draft {
    variant: Variant,
    described: bool,
}

impl Draft {
    fn finished(self) -> Option<Variant> {
        (self.described && !self.variant.name.is_empty()).then_some(self.variant)
    }

    /// Takes a line; a `Body` consumes its text from `rest`.
    fn take(&mut self, name: &str, value: &str, rest: &mut &[u8], path: &str) -> Result<(), String> {
        let variant = &mut self.variant;
        match name {
            "uri" => {
                variant.name = token(value).to_string();
                return Ok(());
            }
            "description" => {
                variant.description = value.trim_end_matches(['\r', '\n']).replace('\n', " ");
                return Ok(());
            }
            "body" => {
                let tag = value.trim_end();
                let Some(body) = body(rest, tag.as_bytes()) else {
                    return Err(format!(
                        "AH00685: Syntax error in type map, no end tag '{tag}'found in {path} for Body: content."
                    ));
                };
                variant.length = Some(body.len() as u64);
                variant.body = Some(bytes::Bytes::copy_from_slice(body));
                variant.name = base_name(path).to_string();
                return Ok(());
            }
            "content-type" => variant.media = Media::parse(value.split(',').next().unwrap_or_default().trim()),
            "content-length" => {
                let number = token(value);
                let length = conf::values::number(number).and_then(|n| u64::try_from(n).ok());
                variant.length = Some(length.ok_or_else(|| {
                    format!("AH00684: Parse error in type map, Content-Length: '{number}' in {path} is invalid.")
                })?);
            }
            "content-language" => {
                let words = value.split([',', ';', ' ', '\t', '\r', '\n']).filter(|word| !word.is_empty());
                variant.languages = words.map(str::to_ascii_lowercase).collect();
            }
            "content-encoding" => variant.encoding = Some(token(value).to_string()),
            _ => return Ok(()),
        }
        self.described = true;
        Ok(())
    }
}

/// Consumes a text from `rest`, up to and including the line with the tag.
fn body<'a>(rest: &mut &'a [u8], tag: &[u8]) -> Option<&'a [u8]> {
    let window = &rest[..rest.len().min(BODY_MAX)];
    let end = memchr::memmem::find(window, tag)?;
    let body = &rest[..end];
    *rest = &rest[end..];
    next_line(rest);
    Some(body)
}

pub(super) const MAP_TYPE: &str = "application/x-type-map";

/// Looks up a name from a map: a file beside the map, or in a directory below. `Err`: the response is this status.
pub(super) async fn named_by_map(request: &Request, name: &str) -> Result<Box<Request>, u16> {
    if name.split('/').any(|part| matches!(part, "." | "..")) {
        request.log("core", Level::Error, format!("AH10244: invalid URI path ({name})"));
        return Err(400);
    }
    Ok(if name.contains('/') { request.lookup_path(name, None).await } else { request.lookup_file(name).await })
}

pub(super) fn is_map(request: &Request) -> bool {
    request.mapped.handler.as_deref() == Some("type-map") || request.response.content_type() == Some(MAP_TYPE)
}

/// Reads the map at `path`. `Err`: the response is this status.
pub(super) async fn from_map(request: &mut Request, path: &str, dir: &str) -> Result<Offer, u16> {
    let (own, links) = (path.to_string(), request.links());
    let map: Arc<Map> = runtime::offload(runtime::Load::Wait, move || read(&own, links)).await.map_err(|error| {
        request.log_os("negotiation", Level::Error, &error, format!("AH00683: cannot access type map file: {path}"));
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => 404u16,
            _ => 403,
        }
    })?;
    for complaint in &map.complaints {
        request.log("negotiation", Level::Error, complaint);
    }
    if map.broken {
        return Err(500);
    }
    request.response.vlist_validator = report::validator(path, Some(request));
    Ok(Offer { variants: map.variants.clone(), dir: dir.to_string(), multiviews: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_texts() {
        let text =
            b"# a comment\nURI: index.html.en\nContent-Language: en,\n  en-GB\nContent-Type: text/html; qs=0.8\n\
            Description: english (not american) one\n\nURI: lost\n\nURI: doc.txt\nContent-type: text/plain\n\
            Content-Length: 15\nContent-Encoding: x-gzip\n\nContent-Type: text/html; charset=UTF-8\nBody:----x\n\
            <b>body</b>\n----x\n\nContent-Language: de\nURI: last";
        let map = parse(text, "/srv/m.var");
        let got: Vec<_> = map.variants.iter().map(|v| (v.name.as_str(), v.languages.join(","), v.length)).collect();
        let none = String::new();
        let want = [
            ("index.html.en", "en,en-gb".to_string(), None),
            ("doc.txt", none.clone(), Some(15)),
            ("m.var", none, Some(12)),
            ("last", "de".to_string(), None),
        ];
        assert_eq!(got, want);
        assert_eq!((map.variants[0].media.quality, map.variants[1].encoding.as_deref()), (0.8, Some("x-gzip")));
        assert_eq!(map.variants[0].description.split_whitespace().collect::<Vec<_>>(), ["english", "one"]);
        assert_eq!(map.variants[2].body.as_deref(), Some(&b"<b>body</b>\n"[..]));
        assert!(map.complaints.is_empty() && !map.broken);
    }

    #[test]
    fn mistakes_as_apache_sees_them() {
        let table: [(&[u8], usize, bool, &str); 4] = [
            (b"garbage\n", 0, true, "AH00681: Syntax error in type map, no ':' in m for header garbage\n"),
            (b"URI:\n", 0, true, "AH00682: Syntax error in type map --- no header body: uri: for m"),
            (
                b"URI: a\nContent-Type: a/b\n\nURI: b\nContent-Length: x\n",
                1,
                false,
                "AH00684: Parse error in type map, Content-Length: 'x' in m is invalid.",
            ),
            (
                b"Content-Type: a/b\nBody: --\nnever\n",
                0,
                false,
                "AH00685: Syntax error in type map, no end tag '--'found in m for Body: content.",
            ),
        ];
        for (text, count, broken, complaint) in table {
            let map = parse(text, "m");
            assert_eq!((map.variants.len(), map.broken, map.complaints.join("|").as_str()), (count, broken, complaint));
        }
        let many = b"URI: a\nContent-Type: a/b\n\n".repeat(VARIANTS_MAX);
        assert!(!parse(&many, "m").broken);
        let more = [&many[..], b"URI: a\nContent-Type: a/b\n\n"].concat();
        assert_eq!(parse(&more, "m").complaints, ["the type map m has more than 1000 variants"]);
        assert!(parse(&more, "m").broken);
    }
}

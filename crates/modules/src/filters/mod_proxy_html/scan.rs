//! A page on its way: what is a link in it becomes another one, and every other byte stays as it is.

use conf::pattern::TooLong;

use super::attributes::{attributes, decoded, encoded, tag_end};
use super::rule::{Active, Fault, Place, change};

/// The longest tag that is looked into, in bytes: no link is so long.
const TAG_MAX: usize = 64 * 1024;
/// The longest script or style sheet that is looked into, and the longest that a text may become by the rules, in bytes.
pub(super) const SCRIPT_MAX: usize = 1024 * 1024;
/// Elements whose content is no HTML. Those with scripts come first.
const RAW: [&[u8]; 8] = [b"script", b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes"];
const SCRIPTS: usize = 2;

/// What begins otherwise than a tag.
const STARTS: [&[u8]; 3] = [b"!--", b"!doctype", b"?xml"];

/// What is done with a page.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) rules: Vec<Active>,
    /// The attributes that are links, for each element; all in lower case.
    pub(super) links: Vec<(String, Vec<String>)>,
    /// The attributes that are scripts, in lower case.
    pub(super) events: Vec<String>,
    /// Whether scripts are changed.
    pub(super) extended: bool,
    pub(super) strips_comments: bool,
    /// Links become lower case.
    pub(super) lowercase: bool,
    /// Backslashes in links become slashes.
    pub(super) dospath: bool,
    /// The document type, which takes the place of the page's own.
    pub(super) doctype: Option<String>,
}

/// What the next byte is a part of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Text,
    Comment,
    /// A tag without links, or a declaration; `true`: it is left out.
    Rest(bool),
    /// The content of one of the elements [`RAW`]; `true`: it is passed on as it is.
    Raw(usize, bool),
}

/// The state of a page.
pub(super) struct Scan {
    work: Work,
    at: At,
    /// Received, and not yet understood.
    pending: Vec<u8>,
    has_begun: bool,
    /// Why the last text that could not be changed was left as it is.
    pub(super) faults: Vec<Fault>,
}

impl Scan {
    pub(super) fn new(work: Work) -> Scan {
        Scan { work, at: At::Text, pending: Vec::new(), has_begun: false, faults: Vec::new() }
    }

    /// Takes the next piece of the page, and appends what is done with it. `is_last`: nothing more comes.
    pub(super) fn step(&mut self, piece: &[u8], is_last: bool, out: &mut Vec<u8>) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(piece);
        if !self.has_begun && !pending.is_empty() {
            self.has_begun = true;
            out.extend(self.work.doctype.iter().flat_map(|text| text.bytes()));
        }
        let mut done = 0;
        while let Some(length) = self.next(&pending[done..], is_last, out) {
            done += length;
        }
        pending.drain(..done);
        self.pending = pending;
    }

    /// Goes on by one part of the page, and returns its length. `None`: more has to come.
    fn next(&mut self, text: &[u8], is_last: bool, out: &mut Vec<u8>) -> Option<usize> {
        if text.is_empty() {
            return None;
        }
        match self.at {
            At::Text => self.text(text, is_last, out),
            At::Comment => {
                let end = memchr::memmem::find(text, b"-->").map(|at| at + 3);
                self.pass(text, end, 2, is_last, self.work.strips_comments, out)
            }
            At::Rest(is_left_out) => {
                let end = memchr::memchr(b'>', text).map(|at| at + 1);
                self.pass(text, end, 0, is_last, is_left_out, out)
            }
            At::Raw(index, is_passed) => self.raw(index, is_passed, text, is_last, out),
        }
    }

    /// Passes on what ends at `end`, or all but the last bytes of it.
    fn pass(
        &mut self,
        text: &[u8],
        end: Option<usize>,
        kept: usize,
        is_last: bool,
        is_left_out: bool,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let length = end.unwrap_or(text.len() - if is_last { 0 } else { kept.min(text.len()) });
        if end.is_some() {
            self.at = At::Text;
        }
        if !is_left_out {
            out.extend_from_slice(&text[..length]);
        }
        (length > 0).then_some(length)
    }

    /// Text up to the next tag, or what begins with one.
    fn text(&mut self, text: &[u8], is_last: bool, out: &mut Vec<u8>) -> Option<usize> {
        match memchr::memchr(b'<', text) {
            None => {
                out.extend_from_slice(text);
                return Some(text.len());
            }
            Some(0) => {}
            Some(at) => {
                out.extend_from_slice(&text[..at]);
                return Some(at);
            }
        }
        match text.get(1..) {
            // Too few bytes to tell what it is.
            Some(rest) if !is_last && STARTS.iter().any(|start| start.len() > rest.len() && begins(start, rest)) => {
                return None;
            }
            Some(rest) if rest.starts_with(b"!--") => {
                self.at = At::Comment;
                // `<!-->` is a whole comment.
                return self.begin(&text[..2], self.work.strips_comments, out);
            }
            Some(rest @ [b'!' | b'?', ..]) => {
                let is_left_out = self.work.doctype.is_some() && is_type(rest);
                self.at = At::Rest(is_left_out);
                return self.begin(&text[..1], is_left_out, out);
            }
            Some([b'/', ..]) => {
                self.at = At::Rest(false);
                return self.begin(&text[..1], false, out);
            }
            Some([byte, ..]) if byte.is_ascii_alphabetic() => {}
            _ => return self.begin(&text[..1], false, out),
        }
        match tag_end(text) {
            Some(end) if end <= TAG_MAX => {
                self.tag(&text[..end], out);
                Some(end)
            }
            None if !is_last && text.len() <= TAG_MAX => None,
            _ => {
                self.at = At::Rest(false);
                self.begin(&text[..1], false, out)
            }
        }
    }

    fn begin(&mut self, text: &[u8], is_left_out: bool, out: &mut Vec<u8>) -> Option<usize> {
        if !is_left_out {
            out.extend_from_slice(text);
        }
        Some(text.len())
    }

    /// A whole tag.
    fn tag(&mut self, tag: &[u8], out: &mut Vec<u8>) {
        let end = tag.iter().skip(1).position(|byte| byte.is_ascii_whitespace() || b"/>".contains(byte));
        let end = end.map_or(tag.len(), |at| at + 1);
        let name = tag[1..end].to_ascii_lowercase();
        let links = self.work.links.iter().find(|(element, _)| element.as_bytes() == name).map(|(_, names)| &names[..]);
        let mut copied = 0;
        if links.is_some() || self.work.extended {
            for one in attributes(tag, end) {
                let is_one = |names: &[String]| {
                    names.iter().any(|known| tag[one.name.clone()].eq_ignore_ascii_case(known.as_bytes()))
                };
                let place = match () {
                    () if links.is_some_and(is_one) => Place::Link,
                    () if self.work.extended && is_one(&self.work.events) => Place::Event,
                    () => continue,
                };
                let Some(value) = changed(&self.work, place, &tag[one.value.clone()], &mut self.faults) else {
                    continue;
                };
                out.extend_from_slice(&tag[copied..one.quoted.start]);
                encoded(&value, out);
                copied = one.quoted.end;
                // `href=x>` would otherwise lose its end.
                if tag.get(copied).is_some_and(|next| !next.is_ascii_whitespace() && !b"/>".contains(next)) {
                    out.push(b' ');
                }
            }
        }
        out.extend_from_slice(&tag[copied..]);
        // In XHTML it may end with its own tag.
        if let Some(index) = RAW.iter().position(|raw| *raw == name).filter(|_| !tag.ends_with(b"/>")) {
            self.at = At::Raw(index, index >= SCRIPTS || !self.work.extended);
        }
    }

    /// The content of an element without HTML in it.
    fn raw(&mut self, index: usize, is_passed: bool, text: &[u8], is_last: bool, out: &mut Vec<u8>) -> Option<usize> {
        let end = raw_end(text, RAW[index]);
        if end == Some(0) {
            self.at = At::Text;
            return self.text(text, is_last, out);
        }
        if is_passed {
            // Its end tag may have begun.
            let kept = if is_last { 0 } else { RAW[index].len() + 2 };
            let length = end.unwrap_or_else(|| text.len().saturating_sub(kept));
            out.extend_from_slice(&text[..length]);
            return (length > 0).then_some(length);
        }
        match end {
            None if !is_last && text.len() <= SCRIPT_MAX => return None,
            None => self.at = At::Raw(index, true),
            Some(_) => {}
        }
        let length = end.unwrap_or(text.len());
        let mut script = text[..length].to_vec();
        let result = match TooLong::check(length, SCRIPT_MAX) {
            Ok(()) => change(&self.work.rules, Place::Script, &mut script, SCRIPT_MAX),
            Err(why) => Err(why.into()),
        };
        match result {
            Ok(_) => out.extend_from_slice(&script),
            Err(fault) => {
                self.faults.push(fault);
                out.extend_from_slice(&text[..length]);
            }
        }
        Some(length)
    }
}

/// The changed text of a value; `None`: it stays as it is.
fn changed(work: &Work, place: Place, value: &[u8], faults: &mut Vec<Fault>) -> Option<Vec<u8>> {
    let mut text = decoded(value)?;
    let mut is_changed = false;
    if place == Place::Link {
        for byte in &mut text {
            let normal = match byte {
                b'A'..=b'Z' if work.lowercase => byte.to_ascii_lowercase(),
                b'\\' if work.dospath => b'/',
                _ => continue,
            };
            is_changed = true;
            *byte = normal;
        }
    }
    match change(&work.rules, place, &mut text, TAG_MAX) {
        Ok(by_rule) => (is_changed || by_rule).then_some(text),
        Err(fault) => {
            faults.push(fault);
            None
        }
    }
}

/// Whether a text begins with this one, in whatever case.
fn begins(text: &[u8], with: &[u8]) -> bool {
    text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with))
}

/// Whether a declaration is one of the document's type.
fn is_type(declaration: &[u8]) -> bool {
    STARTS[1..].iter().any(|start| begins(declaration, start))
}

/// Where the end tag of an element begins.
fn raw_end(text: &[u8], name: &[u8]) -> Option<usize> {
    memchr::memmem::find_iter(text, b"</").find(|at| {
        let rest = &text[at + 2..];
        rest.get(..name.len()).is_some_and(|have| have.eq_ignore_ascii_case(name))
            && rest.get(name.len()).is_some_and(|next| next.is_ascii_whitespace() || b"/>".contains(next))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::filters::mod_proxy_html::rule::Rule;

    fn work() -> Work {
        let rule = |from: &str, to: &str| {
            let rule = Rule::parse(&[from.to_string(), to.to_string()], conf::expr::Options::default());
            Arc::new(rule.expect("a rule")).constant()
        };
        Work {
            rules: vec![rule("http://in/", "/out/"), rule("/", "/gw/")],
            links: vec![("a".into(), vec!["href".into()]), ("img".into(), vec!["src".into(), "longdesc".into()])],
            events: vec!["onclick".into()],
            ..Work::default()
        }
    }

    /// The page with its links changed, in pieces of every length.
    fn scanned(page: &str, work: impl Fn() -> Work) -> String {
        let in_pieces = |length: usize| {
            let (mut scan, mut out) = (Scan::new(work()), Vec::new());
            page.as_bytes().chunks(length).for_each(|piece| scan.step(piece, false, &mut out));
            scan.step(b"", true, &mut out);
            String::from_utf8(out).expect("text")
        };
        let whole = in_pieces(page.len().max(1));
        for length in 1..page.len() {
            assert_eq!(in_pieces(length), whole, "{page} in pieces of {length}");
        }
        whole
    }

    #[test]
    fn links() {
        let table = [
            ("", ""),
            ("<a href='http://in/x'>/</a>", "<a href=\"/out/x\">/</a>"),
            ("<A HREF=/x b>http://in/", "<A HREF=\"/gw/x\" b>http://in/"),
            ("<img alt='/' src=\"/x\" longdesc='y'/>", "<img alt='/' src=\"/gw/x\" longdesc='y'/>"),
            ("<a href=\"/?a&amp;b\"><b href=/x>", "<a href=\"/gw/?a&amp;b\"><b href=/x>"),
            ("<!-- <a href=/> --><a href=/>", "<!-- <a href=/> --><a href=\"/gw/\">"),
            ("<!--><a href=/x>", "<!--><a href=\"/gw/x\">"),
            ("<!DOCTYPE html>\n<?xml ?><a href=/x>", "<!DOCTYPE html>\n<?xml ?><a href=\"/gw/x\">"),
            (
                "<script>'<a href=/x>'</scripty></SCRIPT ><a href=/x>",
                "<script>'<a href=/x>'</scripty></SCRIPT ><a href=\"/gw/x\">",
            ),
            ("<title/><a href=/x>", "<title/><a href=\"/gw/x\">"),
            ("<textarea><a href=/x></textarea>", "<textarea><a href=/x></textarea>"),
            ("<a onclick=\"go('http://in/')\">", "<a onclick=\"go('http://in/')\">"),
            ("a < b <3 <a href=/x", "a < b <3 <a href=/x"),
            ("</a href=/x><a title='>' href=/x>", "</a href=/x><a title='>' href=\"/gw/x\">"),
            ("<", "<"),
            ("<!-", "<!-"),
        ];
        for (page, want) in table {
            assert_eq!(scanned(page, work), want);
        }
    }

    #[test]
    fn scripts_comments_and_types() {
        let all = || Work {
            extended: true,
            strips_comments: true,
            lowercase: true,
            dospath: true,
            doctype: Some("<!DOCTYPE html>\n".into()),
            ..work()
        };
        let table = [
            ("", ""),
            ("<?xml version='1.0'?><!doctype x><![CDATA[y]]>", "<!DOCTYPE html>\n<![CDATA[y]]>"),
            ("a<!-- b -->c<!---->", "<!DOCTYPE html>\nac"),
            ("<a href='X\\Y' name=Z>", "<!DOCTYPE html>\n<a href=\"x/y\" name=Z>"),
            ("<a onclick=\"go('http://in/')\" x>", "<!DOCTYPE html>\n<a onclick=\"go('/gw/out/gw/')\" x>"),
            ("<style>a{b:url(/x)}</style>", "<!DOCTYPE html>\n<style>a{b:url(/gw/x)}</style>"),
            ("<script>'<a href=q>", "<!DOCTYPE html>\n<script>'<a href=q>"),
            ("<title>/</title>", "<!DOCTYPE html>\n<title>/</title>"),
        ];
        for (page, want) in table {
            assert_eq!(scanned(page, all), want);
        }
    }

    #[test]
    fn what_is_too_long_stays_as_it_is() {
        let step = |page: &str| {
            let (mut scan, mut out) = (Scan::new(Work { extended: true, ..work() }), Vec::new());
            page.as_bytes().chunks(4096).for_each(|piece| scan.step(piece, false, &mut out));
            scan.step(b"", true, &mut out);
            (String::from_utf8(out).expect("text"), scan.faults.len())
        };
        let long = "/".repeat(SCRIPT_MAX + 1);
        let page = format!("<script>{long}<a href=/x></script>");
        assert!(step(&page) == (page.clone(), 1));
        let tag = format!("<a x='{}' href=/x>", "y".repeat(TAG_MAX));
        assert!(step(&tag) == (tag.clone(), 0));
        let script = format!("<script>{}</script>", "/".repeat(SCRIPT_MAX / 2));
        assert!(step(&script) == (script.clone(), 1), "its links would make it too long");
    }
}

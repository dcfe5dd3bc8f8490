//! XML as WebDAV needs it: elements with namespaces, read from the body of a request and written into an answer.
//!
//! A document type is refused, so there are no entities but the five that XML itself has.

use encoding_rs::{UTF_16BE, UTF_16LE};
use quick_xml::NsReader;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::ResolveResult;

/// The namespace of RFC 4918.
pub(super) const DAV: &str = "DAV:";
/// The namespace that the prefix `xml` stands for.
const XML: &str = "http://www.w3.org/XML/1998/namespace";
/// How deep elements may nest. Each level is a call where they are written.
const DEPTH_MAX: usize = 128;

/// A name with its namespace, which is empty where it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) space: String,
    pub(super) local: String,
}

impl Name {
    /// Whether it is this one of RFC 4918.
    pub(super) fn is_dav(&self, local: &str) -> bool {
        self.space == DAV && self.local == local
    }
}

/// An element with all that is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: Name,
    attributes: Vec<(Name, String)>,
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Element(Element),
    Text(String),
}

impl Element {
    /// The elements in it.
    pub(super) fn children(&self) -> impl Iterator<Item = &Element> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    /// The first element in it with this name of RFC 4918.
    pub(super) fn child(&self, local: &str) -> Option<&Element> {
        self.children().find(|child| child.name.is_dav(local))
    }

    /// The text directly in it.
    pub(super) fn text(&self) -> String {
        let text = |node: &Node| match node {
            Node::Text(text) => Some(text.clone()),
            Node::Element(_) => None,
        };
        self.nodes.iter().filter_map(text).collect()
    }

    /// Its language, if it says one itself.
    pub(super) fn language(&self) -> Option<&str> {
        let is_language = |name: &Name| name.space == XML && name.local == "lang";
        self.attributes.iter().find(|(name, _)| is_language(name)).map(|(_, value)| value.as_str())
    }

    /// Gives it a language, unless it says one itself.
    pub(super) fn inherit_language(&mut self, language: Option<&str>) {
        if let (None, Some(language)) = (self.language(), language) {
            let name = Name { space: XML.into(), local: "lang".into() };
            self.attributes.push((name, language.to_string()));
        }
    }

    /// Writes it so that it can stand anywhere: it declares all its namespaces itself.
    pub(super) fn write(&self) -> String {
        let mut spaces = Vec::new();
        self.gather(&mut spaces);
        let mut out = String::new();
        self.write_into(&mut out, &spaces, true);
        out
    }

    fn gather<'a>(&'a self, spaces: &mut Vec<&'a str>) {
        let names = std::iter::once(&self.name).chain(self.attributes.iter().map(|(name, _)| name));
        for space in names.map(|name| name.space.as_str()) {
            if !space.is_empty() && space != XML && !spaces.contains(&space) {
                spaces.push(space);
            }
        }
        self.children().for_each(|child| child.gather(spaces));
    }

    fn write_into(&self, out: &mut String, spaces: &[&str], is_root: bool) {
        let name = prefixed(&self.name, spaces);
        out.push('<');
        out.push_str(&name);
        for (at, space) in spaces.iter().enumerate().filter(|_| is_root) {
            out.push_str(&format!(" xmlns:ns{at}=\"{}\"", escape(space)));
        }
        for (name, value) in &self.attributes {
            out.push_str(&format!(" {}=\"{}\"", prefixed(name, spaces), escape(value)));
        }
        if self.nodes.is_empty() {
            out.push_str("/>");
            return;
        }
        out.push('>');
        for node in &self.nodes {
            match node {
                Node::Text(text) => out.push_str(&escape(text)),
                Node::Element(child) => child.write_into(out, spaces, false),
            }
        }
        out.push_str(&format!("</{name}>"));
    }
}

fn prefixed(name: &Name, spaces: &[&str]) -> String {
    match spaces.iter().position(|space| *space == name.space) {
        Some(at) => format!("ns{at}:{}", name.local),
        None if name.space == XML => format!("xml:{}", name.local),
        None => name.local.clone(),
    }
}

/// A name alone, as an empty element.
pub(super) fn empty_element(name: &Name) -> String {
    Element { name: name.clone(), attributes: Vec::new(), nodes: Vec::new() }.write()
}

/// Escapes what XML has another meaning for, in texts and in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\r' => out.push_str("&#13;"),
            _ => out.push(c),
        }
    }
    out
}

/// Reads a document. `Err`: why it is none.
pub(super) fn parse(bytes: &[u8]) -> Result<Element, String> {
    let text = decode(bytes)?;
    if let Some(odd) = text.chars().find(|c| !is_xml_char(*c)) {
        return Err(format!("a character that XML does not have ({:#x})", u32::from(odd)));
    }
    let mut reader = NsReader::from_str(&text);
    reader.config_mut().expand_empty_elements = true;
    let mut open: Vec<Element> = Vec::new();
    let mut root = None;
    loop {
        let event = reader.read_event().map_err(|error| error.to_string())?;
        match event {
            Event::Start(start) => {
                if root.is_some() || open.len() >= DEPTH_MAX {
                    return Err("a second root element, or elements that nest too deep".into());
                }
                open.push(element(&reader, &start)?);
            }
            Event::End(_) => {
                let done = open.pop().ok_or("an end without a beginning")?;
                match open.last_mut() {
                    Some(parent) => parent.nodes.push(Node::Element(done)),
                    None => root = Some(done),
                }
            }
            Event::Text(text) => add(&mut open, &text.xml_content().map_err(|error| error.to_string())?)?,
            Event::CData(text) => add(&mut open, &text.decode().map_err(|error| error.to_string())?)?,
            Event::GeneralRef(reference) => add(&mut open, &character(&reference)?.to_string())?,
            Event::DocType(_) => return Err("a document type".into()),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) | Event::Empty(_) => {}
            Event::Eof => break,
        }
    }
    match root {
        Some(root) if open.is_empty() => Ok(root),
        _ => Err("no root element, or one without its end".into()),
    }
}

/// A text inside the innermost open element; outside the root there may only be space.
fn add(open: &mut [Element], text: &str) -> Result<(), String> {
    match open.last_mut() {
        None if text.trim_ascii().is_empty() => {}
        None => return Err("text outside the root element".into()),
        Some(element) => match element.nodes.last_mut() {
            Some(Node::Text(before)) => before.push_str(text),
            _ => element.nodes.push(Node::Text(text.to_string())),
        },
    }
    Ok(())
}

fn element(reader: &NsReader<&[u8]>, start: &BytesStart<'_>) -> Result<Element, String> {
    let (space, local) = reader.resolve_element(start.name());
    let name = name(space, local.as_ref())?;
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let value = attribute.unescape_value().map_err(|error| error.to_string())?;
        if attribute.value.contains(&b'<') {
            return Err("a \"<\" in an attribute".into());
        }
        if let Some(binding) = attribute.key.as_namespace_binding() {
            // A prefix cannot be bound to nothing; the default namespace can.
            if value.is_empty() && matches!(binding, quick_xml::name::PrefixDeclaration::Named(_)) {
                return Err("a namespace prefix was defined with an empty URI".into());
            }
            continue;
        }
        let (space, local) = reader.resolve_attribute(attribute.key);
        attributes.push((self::name(space, local.as_ref())?, value.into_owned()));
    }
    Ok(Element { name, attributes, nodes: Vec::new() })
}

fn name(space: ResolveResult<'_>, local: &[u8]) -> Result<Name, String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string());
    let space = match space {
        ResolveResult::Bound(space) => {
            let space = text(space.into_inner())?;
            quick_xml::escape::unescape(&space).map_err(|error| error.to_string())?.into_owned()
        }
        ResolveResult::Unbound => String::new(),
        ResolveResult::Unknown(_) => return Err("an undefined namespace prefix was used".into()),
    };
    let local = text(local)?;
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let is_name =
        local.starts_with(is_first) && local.chars().all(|c| is_first(c) || c.is_ascii_digit() || "-.".contains(c));
    if !is_name {
        return Err(format!("{local:?} is no name"));
    }
    Ok(Name { space, local })
}

/// What a reference stands for: a number, or one of the five that need no declaration.
fn character(reference: &BytesRef<'_>) -> Result<char, String> {
    if let Some(c) = reference.resolve_char_ref().map_err(|error| error.to_string())? {
        return if is_xml_char(c) { Ok(c) } else { Err("a reference to no character of XML".into()) };
    }
    Ok(match &**reference {
        b"lt" => '<',
        b"gt" => '>',
        b"amp" => '&',
        b"quot" => '"',
        b"apos" => '\'',
        _ => return Err("an entity that is not declared".into()),
    })
}

/// XML 1.0, production 2.
fn is_xml_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

/// The text of a document in one of the encodings that XML parsers have to know, and the two that old clients name.
fn decode(bytes: &[u8]) -> Result<String, String> {
    let utf16 = match bytes {
        [0xfe, 0xff, rest @ ..] => Some(UTF_16BE.decode_without_bom_handling(rest)),
        [0xff, 0xfe, rest @ ..] => Some(UTF_16LE.decode_without_bom_handling(rest)),
        _ => None,
    };
    if let Some((text, broken)) = utf16 {
        return if broken { Err("broken UTF-16".into()) } else { Ok(text.into_owned()) };
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match declared(bytes).to_ascii_lowercase().as_str() {
        "" | "utf-8" | "us-ascii" => {
            std::str::from_utf8(bytes).map(str::to_string).map_err(|_| "broken UTF-8".to_string())
        }
        "iso-8859-1" => Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
        other => Err(format!("an encoding that is not known ({other})")),
    }
}

/// The encoding that the declaration of a document names; empty if it names none.
fn declared(bytes: &[u8]) -> String {
    let end = memchr::memmem::find(bytes, b"?>").filter(|_| bytes.starts_with(b"<?xml"));
    let declaration = String::from_utf8_lossy(&bytes[..end.unwrap_or(0)]).into_owned();
    let Some((_, rest)) = declaration.split_once("encoding") else { return String::new() };
    let rest = rest.trim_start().trim_start_matches('=').trim_start();
    let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) else { return String::new() };
    rest[1..].split(quote).next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_kept_and_declared_where_they_are_needed() {
        let rows = [
            ("<a/>", "<a/>"),
            ("<a xmlns='DAV:'><b>t</b></a>", "<ns0:a xmlns:ns0=\"DAV:\"><ns0:b>t</ns0:b></ns0:a>"),
            (
                "<x:a xmlns:x='u:1'><b xmlns='u:2'/><c/></x:a>",
                "<ns0:a xmlns:ns0=\"u:1\" xmlns:ns1=\"u:2\"><ns1:b/><c/></ns0:a>",
            ),
            (
                "<a xmlns='DAV:'><b xmlns=''>&lt;&#65;&amp;</b></a>",
                "<ns0:a xmlns:ns0=\"DAV:\"><b>&lt;A&amp;</b></ns0:a>",
            ),
            ("<a xml:lang='de' q='&quot;'><![CDATA[<&]]></a>", "<a xml:lang=\"de\" q=\"&quot;\">&lt;&amp;</a>"),
            ("<?xml version='1.0' encoding='ISO-8859-1'?><a>\u{e4}</a>", "<a>\u{c3}\u{a4}</a>"),
            ("\u{feff}<!-- c --><a>\u{1f600}</a>\n", "<a>\u{1f600}</a>"),
        ];
        for (text, want) in rows {
            assert_eq!(parse(text.as_bytes()).map(|root| root.write()).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_is_no_document_is_refused() {
        let deep = format!("{}{}", "<a>".repeat(200), "</a>".repeat(200));
        let rows = [
            "",
            "a",
            "<a",
            "<a>",
            "<a></b>",
            "<a/><b/>",
            "<a/>t",
            "<x:a/>",
            "<a x:b='1'/>",
            "<a xmlns:x=''/>",
            "<a>&e;</a>",
            "<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>",
            "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>",
            "<1/>",
            "<a b='1' b='2'/>",
            "<a>&#0;</a>",
            "<a b='<'/>",
            "<?xml version='1.0' encoding='utf-7'?><a/>",
            "<a>\u{1}</a>",
            &deep,
        ];
        for text in rows {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse(b"<a>\xff</a>").is_err());
        assert!(parse(b"\xff\xfe<\0a\0/\0>\0").is_ok());
    }
}

//! XML for WebDAV: elements with namespaces, read from the body of a request and written into a response.
//!
//! A document type is refused, so there are no entities except XML's own five.

use std::collections::HashMap;
use std::sync::Arc;

use encoding_rs::{UTF_16BE, UTF_16LE};
use http::uri::escape_html;
use quick_xml::NsReader;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::ResolveResult;

/// The namespace of RFC 4918.
pub(super) const DAV: &str = "DAV:";
/// The namespace of the prefix `xml`.
const XML: &str = "http://www.w3.org/XML/1998/namespace";
/// The namespace of the prefix `xmlns`, in which nothing but declarations is.
const XMLNS: &str = "http://www.w3.org/2000/xmlns/";
/// The maximum nesting of elements. Each level is a recursive call when written.
const DEPTH_MAX: usize = 128;
/// The most attributes of an element, and the most namespaces declared in one place. Each is compared with the others.
const ATTRIBUTES_MAX: usize = 1024;
/// The longest name of a namespace, in bytes.
const SPACE_MAX: usize = 1024;

/// A name with its namespace, which may be empty. All names of a document share their namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) space: Arc<str>,
    pub(super) local: String,
}

impl Name {
    /// Whether it is this name from RFC 4918.
    pub(super) fn is_dav(&self, local: &str) -> bool {
        &*self.space == DAV && self.local == local
    }
}

/// An element with its content.
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
    pub(super) fn children(&self) -> impl Iterator<Item = &Element> + Clone {
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

    /// Its own language, if it has one.
    pub(super) fn language(&self) -> Option<&str> {
        let is_language = |name: &Name| &*name.space == XML && name.local == "lang";
        self.attributes.iter().find(|(name, _)| is_language(name)).map(|(_, value)| value.as_str())
    }

    /// Gives it a language, unless it has its own.
    pub(super) fn inherit_language(&mut self, language: Option<&str>) {
        if let (None, Some(language)) = (self.language(), language) {
            let name = Name { space: XML.into(), local: "lang".into() };
            self.attributes.push((name, language.to_string()));
        }
    }

    /// Writes it in a form that is valid anywhere: it declares all its namespaces itself.
    pub(super) fn write(&self) -> String {
        let mut prefixes = Prefixes::default();
        self.gather(&mut prefixes);
        let mut out = String::new();
        self.write_into(&mut out, &prefixes, &prefixes.declarations());
        out
    }

    fn gather(&self, prefixes: &mut Prefixes) {
        prefixes.add(&self.name);
        self.attributes.iter().for_each(|(name, _)| prefixes.add(name));
        self.children().for_each(|child| child.gather(prefixes));
    }

    fn write_into(&self, out: &mut String, prefixes: &Prefixes, declarations: &str) {
        let name = prefixes.prefixed(&self.name);
        out.push('<');
        out.push_str(&name);
        out.push_str(declarations);
        for (name, value) in &self.attributes {
            out.push_str(&format!(" {}=\"{}\"", prefixes.prefixed(name), escape(value)));
        }
        if self.nodes.is_empty() {
            out.push_str("/>");
            return;
        }
        out.push('>');
        for node in &self.nodes {
            match node {
                Node::Text(text) => out.push_str(&escape(text)),
                Node::Element(child) => child.write_into(out, prefixes, ""),
            }
        }
        out.push_str(&format!("</{name}>"));
    }
}

/// The prefixes of namespaces, declared once for many names.
#[derive(Default)]
pub(super) struct Prefixes(HashMap<Arc<str>, usize>);

impl Prefixes {
    /// Gives each namespace of these names a prefix.
    pub(super) fn of<'a>(names: impl IntoIterator<Item = &'a Name>) -> Prefixes {
        let mut prefixes = Prefixes::default();
        names.into_iter().for_each(|name| prefixes.add(name));
        prefixes
    }

    fn add(&mut self, name: &Name) {
        if !name.space.is_empty() && &*name.space != XML && !self.0.contains_key(&name.space) {
            self.0.insert(name.space.clone(), self.0.len());
        }
    }

    /// The attributes that declare them, each with a space in front of it.
    pub(super) fn declarations(&self) -> String {
        let mut all: Vec<(&usize, &Arc<str>)> = self.0.iter().map(|(space, number)| (number, space)).collect();
        all.sort_unstable();
        all.iter().map(|(number, space)| format!(" xmlns:ns{number}=\"{}\"", escape(space))).collect()
    }

    /// A name as an empty element, inside the one with the declarations.
    pub(super) fn empty_element(&self, name: &Name) -> String {
        format!("<{}/>", self.prefixed(name))
    }

    fn prefixed(&self, name: &Name) -> String {
        match self.0.get(&name.space) {
            Some(number) => format!("ns{number}:{}", name.local),
            None if &*name.space == XML => format!("xml:{}", name.local),
            None => name.local.clone(),
        }
    }
}

/// Escapes the special characters of XML, in texts and in attributes.
pub(super) fn escape(text: &str) -> String {
    escape_html(text).replace('\r', "&#13;")
}

/// Parses a document. `Err`: why it is invalid.
pub(super) fn parse(bytes: &[u8]) -> Result<Element, String> {
    let text = decode(bytes)?;
    if let Some(odd) = text.chars().find(|c| !is_xml_char(*c)) {
        return Err(format!("a character that XML does not allow ({:#x})", u32::from(odd)));
    }
    let mut reader = NsReader::from_str(&text);
    reader.config_mut().expand_empty_elements = true;
    // Open elements, each with the number of namespaces declared before it.
    let mut open: Vec<(Element, usize)> = Vec::new();
    let mut spaces = HashMap::new();
    let mut root = None;
    loop {
        let event = reader.read_event().map_err(|error| error.to_string())?;
        match event {
            Event::Start(start) => {
                if root.is_some() || open.len() >= DEPTH_MAX {
                    return Err("a second root element, or elements that nest too deep".into());
                }
                let outside = open.last().map_or(0, |(_, declared)| *declared);
                let (element, declared) = element(&reader, &start, &mut spaces)?;
                if outside + declared > ATTRIBUTES_MAX {
                    return Err("too many namespaces".into());
                }
                open.push((element, outside + declared));
            }
            Event::End(_) => {
                let (done, _) = open.pop().ok_or("an end tag without a start tag")?;
                match open.last_mut() {
                    Some((parent, _)) => parent.nodes.push(Node::Element(done)),
                    None => root = Some(done),
                }
            }
            Event::Text(text) => add(&mut open, &text.xml10_content().map_err(|error| error.to_string())?)?,
            Event::CData(text) => add(&mut open, &text.decode().map_err(|error| error.to_string())?)?,
            Event::GeneralRef(reference) => add(&mut open, &character(&reference)?.to_string())?,
            Event::DocType(_) => return Err("a document type declaration".into()),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) | Event::Empty(_) => {}
            Event::Eof => break,
        }
    }
    match root {
        Some(root) if open.is_empty() => Ok(root),
        _ => Err("no root element, or one that is not closed".into()),
    }
}

/// Adds a text to the innermost open element; outside the root only space is allowed.
fn add(open: &mut [(Element, usize)], text: &str) -> Result<(), String> {
    match open.last_mut() {
        None if text.trim_ascii().is_empty() => {}
        None => return Err("text outside the root element".into()),
        Some((element, _)) => match element.nodes.last_mut() {
            Some(Node::Text(before)) => before.push_str(text),
            _ => element.nodes.push(Node::Text(text.to_string())),
        },
    }
    Ok(())
}

/// The namespaces of a document, by their names in it.
type Spaces = HashMap<Vec<u8>, Arc<str>>;

/// An element without its content, and how many namespaces it declares.
fn element(reader: &NsReader<&[u8]>, start: &BytesStart<'_>, spaces: &mut Spaces) -> Result<(Element, usize), String> {
    let (space, local) = reader.resolve_element(start.name());
    let name = name(space, local.as_ref(), spaces)?;
    let (mut attributes, mut declared) = (Vec::new(), 0);
    for (at, attribute) in start.attributes().enumerate() {
        if at == ATTRIBUTES_MAX {
            return Err("too many attributes".into());
        }
        let attribute = attribute.map_err(|error| error.to_string())?;
        let value = attribute.unescape_value().map_err(|error| error.to_string())?;
        if !value.chars().all(is_xml_char) {
            return Err("a reference to a character that XML does not allow".into());
        }
        if attribute.value.contains(&b'<') {
            return Err("a \"<\" in an attribute".into());
        }
        if let Some(binding) = attribute.key.as_namespace_binding() {
            // A prefix cannot be unbound; the default namespace can.
            if value.is_empty() && matches!(binding, quick_xml::name::PrefixDeclaration::Named(_)) {
                return Err("a namespace prefix was defined with an empty URI".into());
            }
            declared += 1;
            continue;
        }
        let (space, local) = reader.resolve_attribute(attribute.key);
        let name = self::name(space, local.as_ref(), spaces)?;
        // Duplicates with two prefixes of the same namespace; the reader finds the others.
        if attributes.iter().any(|(other, _)| *other == name) {
            return Err("an attribute that occurs twice".into());
        }
        attributes.push((name, value.into_owned()));
    }
    Ok((Element { name, attributes, nodes: Vec::new() }, declared))
}

fn name(space: ResolveResult<'_>, local: &[u8], spaces: &mut Spaces) -> Result<Name, String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string());
    let raw = match space {
        ResolveResult::Bound(space) => space.into_inner(),
        ResolveResult::Unbound => b"",
        ResolveResult::Unknown(_) => return Err("an undefined namespace prefix was used".into()),
    };
    if raw == XMLNS.as_bytes() {
        return Err("a name in the namespace of declarations".into());
    }
    let too_long = || "a namespace with a very long name".to_string();
    if raw.len() > SPACE_MAX {
        return Err(too_long());
    }
    let space = match spaces.get(raw) {
        Some(space) => space.clone(),
        None => {
            let space = text(raw)?;
            let space: Arc<str> = quick_xml::escape::unescape(&space).map_err(|error| error.to_string())?.into();
            // The name space is stored as it is written here, and has to be readable then.
            if escape(&space).len() > SPACE_MAX {
                return Err(too_long());
            }
            spaces.insert(raw.to_vec(), space.clone());
            space
        }
    };
    let local = text(local)?;
    if !local.starts_with(begins_name) || !local.chars().all(continues_name) {
        return Err(format!("{local:?} is not a name"));
    }
    Ok(Name { space, local })
}

/// XML 1.0, production 4, without the colon.
fn begins_name(c: char) -> bool {
    matches!(c, 'A'..='Z' | '_' | 'a'..='z' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}'
        | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}' | '\u{200d}' | '\u{2070}'..='\u{218f}'
        | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}'
        | '\u{10000}'..='\u{effff}')
}

/// XML 1.0, production 4a, without the colon.
fn continues_name(c: char) -> bool {
    begins_name(c) || matches!(c, '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}' | '\u{2040}')
}

/// The character of a reference: a number, or one of the five that need no declaration.
fn character(reference: &BytesRef<'_>) -> Result<char, String> {
    if let Some(c) = reference.resolve_char_ref().map_err(|error| error.to_string())? {
        return if is_xml_char(c) { Ok(c) } else { Err("a reference to a character that XML does not allow".into()) };
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

/// The text of a document in one of the encodings that XML parsers must support, or the two that old clients use.
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
        other => Err(format!("an unknown encoding ({other})")),
    }
}

/// The encoding in the declaration of a document; empty if there is none.
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
            ("<a>\u{85}\r\n\u{2028}</a>", "<a>\u{85}\n\u{2028}</a>"),
            ("\u{feff}<!-- c --><a>\u{1f600}</a>\n", "<a>\u{1f600}</a>"),
        ];
        for (text, want) in rows {
            assert_eq!(parse(text.as_bytes()).map(|root| root.write()).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn malformed_documents_are_refused() {
        let deep = format!("{}{}", "<a>".repeat(200), "</a>".repeat(200));
        let many =
            |name: &str, count: usize| -> String { (0..count).map(|number| format!(" {name}{number}='u:'")).collect() };
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
            "<a b='&#1;'/>",
            "<a xmlns:x='u:' xmlns:y='u:' x:b='1' y:b='2'/>",
            "<\u{d7}/>",
            "<xmlns:a/>",
            &format!("<a xmlns='{}'/>", "u".repeat(SPACE_MAX + 1)),
            &format!("<a xmlns='{}'/>", "\"".repeat(SPACE_MAX / 6 + 1)),
            &format!("<a{}/>", many("b", ATTRIBUTES_MAX + 1)),
            &format!("<a{0}><b{0}/></a>", many("xmlns:b", ATTRIBUTES_MAX / 2 + 1)),
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

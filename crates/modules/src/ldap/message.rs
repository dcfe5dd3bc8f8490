//! The messages (RFC 4511 section 4) that log-ins need.

use super::ber::{ENUMERATED, INTEGER, Malformed, OCTETS, Reader, SEQUENCE, SET, Writer};
use super::code::Code;
use super::filter::Filter;

const BIND: u8 = 0x60;
const BIND_REPLY: u8 = 0x61;
const UNBIND: u8 = 0x42;
const SEARCH: u8 = 0x63;
const ENTRY: u8 = 0x64;
const SEARCH_DONE: u8 = 0x65;
const COMPARE: u8 = 0x6e;
const COMPARE_REPLY: u8 = 0x6f;
const REFERENCE: u8 = 0x73;
/// The password of a simple bind.
const SIMPLE: u8 = 0x80;
const REFERRALS: u8 = 0xa3;

/// The depth of a search below its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    /// The base alone.
    Base,
    /// The entries directly below it.
    OneLevel,
    /// The entry and everything below.
    Subtree,
}

/// When alias entries are followed (`AuthLDAPDereferenceAliases`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Aliases {
    Never,
    Searching,
    Finding,
    #[default]
    Always,
}

/// What a search asks a directory for (RFC 4511 section 4.5.1).
#[derive(Clone, Debug)]
pub(crate) struct Search<'a> {
    pub(crate) base: &'a str,
    pub(crate) scope: Scope,
    pub(crate) aliases: Aliases,
    pub(crate) filter: &'a Filter,
    /// The wanted attributes; an empty list means none.
    pub(crate) attributes: &'a [String],
    /// The most entries that the server sends.
    pub(crate) most: i32,
    /// The server's time limit in seconds; 0: its own.
    pub(crate) seconds: i32,
}

/// What a client may ask a directory.
#[derive(Clone, Debug)]
pub(super) enum Question<'a> {
    Bind { dn: &'a str, password: &'a [u8] },
    Search(&'a Search<'a>),
    Compare { dn: &'a str, attribute: &'a str, value: &'a str },
    Unbind,
}

impl Question<'_> {
    /// The message with this number.
    pub(super) fn encode(&self, id: i32) -> Vec<u8> {
        let mut message = Writer::default();
        message.nest(SEQUENCE, |message| {
            message.number(INTEGER, id);
            match self {
                Question::Bind { dn, password } => message.nest(BIND, |bind| {
                    bind.number(INTEGER, 3);
                    text(bind, dn);
                    bind.bytes(SIMPLE, password);
                }),
                Question::Search(search) => message.nest(SEARCH, |fields| search.write(fields)),
                Question::Compare { dn, attribute, value } => message.nest(COMPARE, |compare| {
                    text(compare, dn);
                    compare.nest(SEQUENCE, |assertion| {
                        text(assertion, attribute);
                        text(assertion, value);
                    });
                }),
                Question::Unbind => message.bytes(UNBIND, &[]),
            }
        });
        message.finish()
    }
}

impl Search<'_> {
    fn write(&self, fields: &mut Writer) {
        text(fields, self.base);
        fields.number(
            ENUMERATED,
            match self.scope {
                Scope::Base => 0,
                Scope::OneLevel => 1,
                Scope::Subtree => 2,
            },
        );
        fields.number(
            ENUMERATED,
            match self.aliases {
                Aliases::Never => 0,
                Aliases::Searching => 1,
                Aliases::Finding => 2,
                Aliases::Always => 3,
            },
        );
        fields.number(INTEGER, self.most);
        fields.number(INTEGER, self.seconds);
        // Including their values.
        fields.flag(false);
        self.filter.write(fields);
        fields.nest(SEQUENCE, |names| match self.attributes {
            // RFC 4511 section 4.5.1.8: this stands for none.
            [] => text(names, "1.1"),
            wanted => wanted.iter().for_each(|name| text(names, name)),
        });
    }
}

fn text(writer: &mut Writer, text: &str) {
    writer.bytes(OCTETS, &http::text::to_bytes(text));
}

/// An entry found by a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) dn: String,
    /// The attributes with their values.
    pub(crate) attributes: Vec<(String, Vec<String>)>,
}

impl Entry {
    /// The values of an attribute, whose name is case-insensitive.
    pub(crate) fn values(&self, name: &str) -> &[String] {
        let found = self.attributes.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or(&[], |(_, values)| values)
    }
}

/// What a directory may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Entry(Entry),
    /// Another part of the search is elsewhere.
    Elsewhere(Vec<String>),
    /// The operation is over. If the code says so, it may be repeated at one of these URLs.
    Done(Code, Vec<String>),
    /// An unsolicited message, for instance that the connection is about to end.
    Unasked,
}

/// Parses a message, and returns the number of its query.
pub(super) fn decode(bytes: &[u8]) -> Result<(i32, Reply), Malformed> {
    let mut message = Reader::new(Reader::new(bytes).take(SEQUENCE)?);
    let id = message.number(INTEGER)?;
    let (kind, content) = message.any()?;
    let mut content = Reader::new(content);
    let reply = match kind {
        BIND_REPLY | SEARCH_DONE | COMPARE_REPLY => {
            let code = Code(content.number(ENUMERATED)?);
            // The name up to which it succeeded, and a text for people.
            content.take(OCTETS)?;
            content.take(OCTETS)?;
            let mut urls = Vec::new();
            while !content.is_empty() {
                if let (REFERRALS, list) = content.any()? {
                    urls = texts(list)?;
                }
            }
            Reply::Done(code, urls)
        }
        ENTRY => {
            let dn = string(content.take(OCTETS)?);
            let mut list = Reader::new(content.take(SEQUENCE)?);
            let mut attributes = Vec::new();
            while !list.is_empty() {
                let mut attribute = Reader::new(list.take(SEQUENCE)?);
                let name = string(attribute.take(OCTETS)?);
                attributes.push((name, texts(attribute.take(SET)?)?));
            }
            Reply::Entry(Entry { dn, attributes })
        }
        REFERENCE => {
            let mut urls = Vec::new();
            while !content.is_empty() {
                urls.push(string(content.take(OCTETS)?));
            }
            Reply::Elsewhere(urls)
        }
        _ => Reply::Unasked,
    };
    Ok((id, reply))
}

fn texts(list: &[u8]) -> Result<Vec<String>, Malformed> {
    let (mut list, mut texts) = (Reader::new(list), Vec::new());
    while !list.is_empty() {
        texts.push(string(list.take(OCTETS)?));
    }
    Ok(texts)
}

fn string(bytes: &[u8]) -> String {
    http::text::from_bytes(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions() {
        let bind = Question::Bind { dn: "cn=a", password: b"pw" };
        assert_eq!(
            bind.encode(1),
            [&[0x30, 18, 2, 1, 1, 0x60, 13, 2, 1, 3, 4, 4][..], b"cn=a", &[0x80, 2], b"pw"].concat()
        );
        assert_eq!(Question::Unbind.encode(2), [0x30, 5, 2, 1, 2, 0x42, 0]);
        let compare = Question::Compare { dn: "d", attribute: "a", value: "v" };
        assert_eq!(compare.encode(3), [0x30, 16, 2, 1, 3, 0x6e, 11, 4, 1, b'd', 0x30, 6, 4, 1, b'a', 4, 1, b'v']);
        let filter = Filter::parse("(a=*)").expect("a filter");
        let search = Search {
            base: "b",
            scope: Scope::Subtree,
            aliases: Aliases::Always,
            filter: &filter,
            attributes: &[],
            most: 2,
            seconds: 60,
        };
        let bytes = Question::Search(&search).encode(4);
        let fields =
            [&[4, 1, b'b', 10, 1, 2, 10, 1, 3, 2, 1, 2, 2, 1, 60, 1, 1, 0, 0x87, 1, b'a', 0x30, 5, 4, 3][..], b"1.1"]
                .concat();
        assert_eq!(bytes[7..], fields);
    }

    #[test]
    fn replies() {
        let done = [0x30, 12, 2, 1, 1, 0x61, 7, 10, 1, 49, 4, 0, 4, 0];
        assert_eq!(decode(&done), Ok((1, Reply::Done(Code::INVALID_CREDENTIALS, vec![]))));
        let entry = [
            &[0x30, 24, 2, 1, 2, 0x64, 19, 4, 3][..],
            b"c=x",
            &[0x30, 12, 0x30, 10, 4, 1, b'a', 0x31, 5, 4, 1, b'1', 4, 0],
        ]
        .concat();
        let Ok((2, Reply::Entry(entry))) = decode(&entry) else { panic!("an entry") };
        assert_eq!((&*entry.dn, entry.values("A")), ("c=x", &["1".to_string(), String::new()][..]));
        assert!(entry.values("b").is_empty());
        let referral =
            [&[0x30, 25, 2, 1, 3, 0x65, 20, 10, 1, 10, 4, 0, 4, 0, 0xa3, 11, 4, 9][..], b"ldap://h/"].concat();
        assert_eq!(decode(&referral), Ok((3, Reply::Done(Code::REFERRAL, vec!["ldap://h/".into()]))));
        for end in 0..referral.len() {
            assert!(decode(&referral[..end]).is_err(), "{end}");
        }
        assert_eq!(decode(&[0x30, 5, 2, 1, 0, 0x78, 0]), Ok((0, Reply::Unasked)));
    }
}

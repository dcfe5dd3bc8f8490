//! From the text of a format to items (Apache manual, mod_log_config, "Custom Log Formats").

use conf::expr::{Options, StringExpr};
use http::{KnownField, Name};

use super::time::TimeItem;

/// A compiled format.
#[derive(Debug, Default)]
pub(super) struct Format(pub(super) Vec<Item>);

#[derive(Debug)]
pub(super) enum Item {
    Text(Vec<u8>),
    /// In a line like Apache's.
    Field(Field),
    /// In a line of JSON, inside a string.
    InString(Field),
    /// In a line of JSON, a value of its own.
    Value(Field),
}

impl Item {
    fn field(&self) -> Option<&Field> {
        match self {
            Item::Text(_) => None,
            Item::Field(field) | Item::InString(field) | Item::Value(field) => Some(field),
        }
    }
}

/// A `%` item.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) what: What,
    /// About the request as it came in, not after internal redirects.
    pub(super) original: bool,
    /// Only for these statuses, or with `negated` only for others; empty means all.
    pub(super) statuses: Vec<u16>,
    pub(super) negated: bool,
}

/// The unit of a counter, with or without its maximum.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    Seconds,
    Millis,
    Micros,
}

#[derive(Debug)]
pub(super) enum What {
    /// A fixed text, for an unknown argument.
    Fixed(String),
    Address,
    /// `%{c}a`: the address of the other end of the connection.
    ConnectionAddress,
    /// The client's name if it was looked up, otherwise its address.
    Host,
    LocalAddress,
    Body,
    BodyOrDash,
    Cookie(String),
    Env(String),
    File,
    Protocol,
    HeaderIn(HeaderName),
    HeaderOut(String),
    Requests,
    LogId,
    ConnectionLogId,
    /// A value that only mod_ident could provide.
    Nothing,
    Method,
    Note(String),
    CanonicalPort,
    LocalPort,
    RemotePort,
    Process,
    Thread,
    ThreadHex,
    Query,
    Line,
    Handler,
    Status,
    Time(TimeItem),
    Duration(Unit),
    User,
    Uri,
    ServerName,
    VirtualHost,
    Connection,
    FirstByte,
    TrailerIn(String),
    TrailerOut(String),
    Received,
    Sent,
    Both,
    Script(Cost),
    Upstream(Part),
    /// A variable of expressions.
    Variable(StringExpr),
}

impl Format {
    /// Whether it has items that are known only once a script has ended.
    pub(super) fn needs_end_of_script(&self) -> bool {
        let needs = |field: &Field| matches!(field.what, What::Script(Cost::Cpu | Cost::Memory | Cost::Exit));
        self.0.iter().filter_map(Item::field).any(needs)
    }

    /// Whether it has items about the server behind this one.
    pub(super) fn needs_upstream(&self) -> bool {
        self.0.iter().filter_map(Item::field).any(|field| matches!(field.what, What::Upstream(_)))
    }
}

/// What is known of the server behind this one that made a response (our own: `%{...}G`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Its URL in the configuration.
    Name,
    /// Where it was reached.
    Address,
    /// The time it took to connect, µs.
    Connect,
    /// The time between the request and the beginning of its response, µs.
    FirstByte,
}

/// The cost of a script (our own: `%{...}G`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// CPU time, µs.
    Cpu,
    /// The most memory it had, KiB.
    Memory,
    /// The time it took to start it, µs.
    Spawn,
    /// The time the request waited for its admission, µs.
    Queue,
    /// Its exit status, or `-` and the number of the signal that ended it.
    Exit,
}

/// The name of a request field, looked up once.
#[derive(Debug)]
pub(super) enum HeaderName {
    Known(KnownField),
    Other(String),
}

impl HeaderName {
    fn new(name: &str) -> HeaderName {
        match name.into() {
            Name::Known(known) => HeaderName::Known(known),
            Name::Other(other) => HeaderName::Other(other.to_string()),
        }
    }

    pub(super) fn name(&self) -> Name<'_> {
        match self {
            HeaderName::Known(known) => (*known).into(),
            HeaderName::Other(other) => Name::Other(other),
        }
    }
}

impl Format {
    /// Compiles a format; `options` determine the variables of `%{...}x`.
    pub(super) fn parse(text: &str, options: Options) -> Result<Format, String> {
        let bytes = http::text::to_bytes(text);
        let mut rest = &bytes[..];
        let mut items = Vec::new();
        let mut literal = Vec::new();
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            match (first, after.first()) {
                (b'%', Some(b'%')) => {
                    literal.push(b'%');
                    rest = &after[1..];
                }
                (b'%', _) => {
                    if !literal.is_empty() {
                        items.push(Item::Text(std::mem::take(&mut literal)));
                    }
                    items.push(Item::Field(field(&mut rest, options)?));
                }
                (b'\\', Some(escaped)) => {
                    match escaped {
                        b'\\' => literal.push(b'\\'),
                        b'n' => literal.push(b'\n'),
                        b'r' => literal.push(b'\r'),
                        b't' => literal.push(b'\t'),
                        other => literal.extend_from_slice(&[b'\\', *other]),
                    }
                    rest = &after[1..];
                }
                _ => literal.push(first),
            }
        }
        if !literal.is_empty() {
            items.push(Item::Text(literal));
        }
        Ok(Format(items))
    }
}

/// The part after a `%`: modifiers in any order, then the letter.
fn field(rest: &mut &[u8], options: Options) -> Result<Field, String> {
    let (mut original, mut statuses, mut negated) = (None, Vec::new(), false);
    let mut argument = String::new();
    loop {
        let (&first, after) = rest.split_first().ok_or("Ran off end of LogFormat parsing args to some directive")?;
        match first {
            b'!' => negated = !negated,
            b'<' => original = Some(true),
            b'>' => original = Some(false),
            b',' => {}
            b'0'..=b'9' => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                // A status out of range is one that no response has.
                statuses
                    .push(std::str::from_utf8(&rest[..digits]).ok().and_then(|n| n.parse().ok()).unwrap_or(u16::MAX));
                *rest = &rest[digits..];
                continue;
            }
            b'{' => {
                let end = memchr::memchr(b'}', after).unwrap_or(after.len());
                argument = http::text::from_bytes(&after[..end]).into_owned();
                *rest = after.get(end + 1..).unwrap_or_default();
                continue;
            }
            _ => {
                let (what, used, default) = letter(rest, argument, options)?;
                *rest = &rest[used..];
                return Ok(Field { what, original: original.unwrap_or(default), statuses, negated });
            }
        }
        *rest = after;
    }
}

/// The item of a letter (or `^` and two), the length of its name in bytes, and whether it is about the original
/// request.
fn letter(rest: &[u8], argument: String, options: Options) -> Result<(What, usize, bool), String> {
    let three = |what| Ok((what, 3, false));
    match rest.get(..3) {
        Some(b"^FB") => return three(What::FirstByte),
        Some(b"^ti") => return three(What::TrailerIn(argument)),
        Some(b"^to") => return three(What::TrailerOut(argument)),
        _ => {}
    }
    let what = match rest[0] {
        b'a' if argument == "c" => What::ConnectionAddress,
        b'a' => What::Address,
        b'h' => What::Host,
        b'A' => What::LocalAddress,
        b'b' => What::BodyOrDash,
        b'B' => What::Body,
        b'C' => What::Cookie(argument),
        b'D' => What::Duration(Unit::Micros),
        b'e' => What::Env(argument),
        b'f' => What::File,
        b'G' => cost(argument),
        b'H' => What::Protocol,
        b'i' => What::HeaderIn(HeaderName::new(&argument)),
        b'I' => What::Received,
        b'k' => What::Requests,
        b'l' => What::Nothing,
        b'L' if argument == "c" => What::ConnectionLogId,
        b'L' => What::LogId,
        b'm' => What::Method,
        b'n' => What::Note(argument),
        b'o' => What::HeaderOut(argument),
        b'O' => What::Sent,
        b'p' => port(argument),
        b'P' => process(argument),
        b'q' => What::Query,
        b'r' => What::Line,
        b'R' => What::Handler,
        b's' => What::Status,
        b'S' => What::Both,
        b't' => What::Time(TimeItem::parse(&argument)),
        b'T' => duration(argument),
        b'u' => What::User,
        b'U' => What::Uri,
        b'v' => What::VirtualHost,
        b'V' => What::ServerName,
        b'X' => What::Connection,
        // Both belong to mod_ssl.
        b'x' if options.ssl => variable(&argument, options),
        b'c' if options.ssl => of_tls(&argument, options),
        other => {
            let letter = http::text::from_bytes(&[other]).into_owned();
            return Err(format!("Unrecognized LogFormat directive %{letter}"));
        }
    };
    let original = matches!(rest[0], b'D' | b'L' | b'r' | b'R' | b's' | b'T' | b'U');
    Ok((what, 1, original))
}

fn variable(name: &str, options: Options) -> What {
    StringExpr::parse_with(&format!("%{{{name}}}"), options).map_or(What::Nothing, What::Variable)
}

/// `%{NAME}c`: mod_ssl's older names for some of its variables. A connection with an error has no requests, so
/// `errcode` and `errstr` are always empty.
fn of_tls(name: &str, options: Options) -> What {
    let variables = [
        ("version", "SSL_PROTOCOL"),
        ("cipher", "SSL_CIPHER"),
        ("subjectdn", "SSL_CLIENT_S_DN"),
        ("clientcert", "SSL_CLIENT_S_DN"),
        ("issuerdn", "SSL_CLIENT_I_DN"),
        ("cacert", "SSL_CLIENT_I_DN"),
    ];
    conf::values::one_of(name, &variables).map_or(What::Nothing, |name| variable(name, options))
}

fn port(argument: String) -> What {
    match argument.to_ascii_lowercase().as_str() {
        "" | "canonical" => What::CanonicalPort,
        "local" => What::LocalPort,
        "remote" => What::RemotePort,
        _ => What::Fixed(argument),
    }
}

fn process(argument: String) -> What {
    match argument.to_ascii_lowercase().as_str() {
        "" | "pid" => What::Process,
        "tid" => What::Thread,
        "hextid" => What::ThreadHex,
        _ => What::Fixed(argument),
    }
}

/// What it took to make the response, and where.
fn cost(argument: String) -> What {
    match argument.to_ascii_lowercase().as_str() {
        "cpu" => What::Script(Cost::Cpu),
        "memory" => What::Script(Cost::Memory),
        "spawn" => What::Script(Cost::Spawn),
        "queue" => What::Script(Cost::Queue),
        "exit" => What::Script(Cost::Exit),
        "proxy-name" => What::Upstream(Part::Name),
        "proxy-address" => What::Upstream(Part::Address),
        "proxy-connect" => What::Upstream(Part::Connect),
        "proxy-first-byte" => What::Upstream(Part::FirstByte),
        _ => What::Fixed(argument),
    }
}

fn duration(argument: String) -> What {
    match argument.to_ascii_lowercase().as_str() {
        "" | "s" => What::Duration(Unit::Seconds),
        "ms" => What::Duration(Unit::Millis),
        "us" => What::Duration(Unit::Micros),
        _ => What::Fixed(argument),
    }
}

#[cfg(test)]
impl Format {
    /// The text of a format without items, for tests.
    pub(super) fn literal(&self) -> String {
        let texts = self.0.iter().map(|item| match item {
            Item::Text(text) => String::from_utf8_lossy(text).into_owned(),
            _ => "%".into(),
        });
        texts.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_as_measured() {
        let ran_off = "Ran off end of LogFormat parsing args to some directive";
        let table = [
            ("%c", "Unrecognized LogFormat directive %c"),
            ("%^FX", "Unrecognized LogFormat directive %^"),
            ("%^", "Unrecognized LogFormat directive %^"),
            ("%é", "Unrecognized LogFormat directive %\u{10FFC3}"),
            ("%", ran_off),
            ("%{a", ran_off),
            ("%200", ran_off),
            ("%{x}>!", ran_off),
        ];
        for (text, message) in table {
            assert_eq!(Format::parse(text, Options::default()).err().as_deref(), Some(message), "{text}");
        }
    }

    #[test]
    fn modifiers_in_any_order() {
        let field = |text: &str| match Format::parse(text, Options::default()) {
            Ok(Format(mut items)) => match items.pop() {
                Some(Item::Field(field)) => Some((field.original, field.negated, field.statuses, field.what)),
                _ => None,
            },
            Err(_) => None,
        };
        assert!(matches!(field("%s"), Some((true, false, statuses, What::Status)) if statuses.is_empty()));
        assert!(matches!(field("%>s"), Some((false, false, _, What::Status))));
        assert!(matches!(field("%<u"), Some((true, false, _, What::User))));
        let statuses = field("%!200,304{X}i");
        assert!(
            matches!(statuses, Some((false, true, s, What::HeaderIn(HeaderName::Other(n)))) if s == [200, 304] && n == "X")
        );
        assert!(matches!(field("%{X}400,>i"), Some((false, false, s, What::HeaderIn(_))) if s == [400]));
        assert!(matches!(
            field("%{user-agent}i"),
            Some((_, _, _, What::HeaderIn(HeaderName::Known(KnownField::UserAgent))))
        ));
        assert!(matches!(field("%{bogus}p"), Some((_, _, _, What::Fixed(text))) if text == "bogus"));
        assert!(matches!(field("%{FOO}^ti"), Some((_, _, _, What::TrailerIn(name))) if name == "FOO"));
    }

    #[test]
    fn texts_have_their_own_escapes() {
        let text = Format::parse(r"a%%\t\n\\\x\", Options::default()).map(|format| format.literal());
        assert_eq!(text.as_deref(), Ok("a%\t\n\\\\x\\"));
    }
}

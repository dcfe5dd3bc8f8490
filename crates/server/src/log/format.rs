//! `ErrorLogFormat` (Apache manual, core).

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;

use conf::Level;
use http::date::Civil;

use crate::log::os_error::os_prefix;

/// A request that a message is about.
pub trait About {
    /// The client's address, and its port.
    fn client(&self) -> (String, u16);
    /// The address and port at the other end of the connection: the client's, or its proxy's.
    fn peer(&self) -> (String, u16);
    /// The local address of the connection.
    fn local(&self) -> SocketAddr;
    /// How many requests the connection has brought before this one.
    fn keepalives(&self) -> u32;
    /// The id that stands for the connection in the logs, if it has one.
    fn connection_log_id(&self) -> Option<String>;
    /// The id that stands for the request in the logs.
    fn log_id(&self) -> Option<&str>;
    /// The configured name of the virtual host.
    fn host_name(&self) -> &str;
    /// The name of the server according to `UseCanonicalName`.
    fn server_name(&self) -> String;
    /// A variable of the request's environment.
    fn env(&self, name: &str) -> Option<&str>;
    /// A note of one module for others.
    fn note(&self, name: &str) -> Option<&str>;
    /// The first value of a field of the request.
    fn field(&self, name: &str) -> Option<String>;
}

/// A message to be written.
pub(crate) struct Entry<'a> {
    pub(crate) about: Option<&'a dyn About>,
    pub(crate) module: &'a str,
    pub(crate) level: Level,
    pub(crate) error: Option<&'a io::Error>,
    pub(crate) text: &'a str,
}

/// A parsed format.
#[derive(Clone, Debug)]
pub struct Format(Vec<Item>);

#[derive(Clone, Debug)]
struct Item {
    what: What,
    /// `-`: print a `-` for nothing.
    dash: bool,
}

#[derive(Clone, Debug)]
enum What {
    /// Text, dropped together with an empty field beside it.
    Text(String),
    /// The end of such a group (`% `).
    Gap,
    Time(TimeStyle),
    Module,
    Level,
    Pid,
    Tid,
    Client,
    ClientUnderlying,
    Local,
    Error,
    Message,
    File,
    Keepalives,
    LogId,
    /// Of the connection.
    ConnectionLogId,
    Host,
    ServerName,
    Env(String),
    Header(String),
    Note(String),
}

#[derive(Clone, Copy, Debug)]
enum TimeStyle {
    Seconds,
    Micros,
    Compact,
    CompactMicros,
}

/// Apache's format if none is given.
const STANDARD: &str = "[%{u}t] [%-m:%l] [pid %P:tid %T] %7F: %E: [client\\ %a] %M% ,\\ referer:\\ %{Referer}i";

impl Format {
    /// Apache's default.
    pub fn standard() -> Format {
        Format::parse(STANDARD).unwrap_or(Format(Vec::new()))
    }

    /// Parses the format of log lines, which have a message.
    pub fn parse(text: &str) -> Result<Format, String> {
        let format = Format::items(text, false)?;
        if format.0.iter().any(|item| matches!(item.what, What::Message)) {
            Ok(format)
        } else {
            Err("main ErrorLogFormat must contain message format string '%M'".into())
        }
    }

    /// Checks the format of lines that are written once for a connection or request: they have no message.
    pub fn check_once(text: &str) -> Result<(), String> {
        Format::items(text, true).map(|_| ())
    }

    fn items(text: &str, once: bool) -> Result<Format, String> {
        let mut items = Vec::new();
        let mut literal = String::new();
        let mut chars = text.chars().peekable();
        let text_item = |text: String| Item { what: What::Text(text), dash: false };
        while let Some(c) = chars.next() {
            match c {
                '\\' => literal.extend(chars.next().map(|c| match c {
                    't' => '\t',
                    'n' => '\n',
                    c => c,
                })),
                // A blank ends a group: the text of an empty field is dropped with it.
                ' ' => {
                    literal.push(' ');
                    items.push(text_item(std::mem::take(&mut literal)));
                    items.push(Item { what: What::Gap, dash: false });
                }
                '%' => {
                    if !literal.is_empty() {
                        items.push(text_item(std::mem::take(&mut literal)));
                    }
                    if chars.next_if_eq(&'%').is_some() {
                        literal.push('%');
                    } else if chars.next_if_eq(&' ').is_some() {
                        items.push(Item { what: What::Gap, dash: false });
                    } else {
                        items.push(Format::item(&mut chars, once)?);
                    }
                }
                c => literal.push(c),
            }
        }
        if !literal.is_empty() {
            items.push(text_item(literal));
        }
        Ok(Format(items))
    }

    fn item(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, once: bool) -> Result<Item, String> {
        let (mut dash, mut required, mut argument) = (false, false, String::new());
        loop {
            let c = chars.next().ok_or("Ran off end of error log format parsing args to some directive")?;
            let what = match c {
                '-' => {
                    dash = true;
                    continue;
                }
                '+' => {
                    required = true;
                    continue;
                }
                '0'..='9' => continue,
                '{' => {
                    argument = chars.by_ref().take_while(|c| *c != '}').collect();
                    continue;
                }
                't' => What::Time(match argument.as_str() {
                    "u" => TimeStyle::Micros,
                    "c" => TimeStyle::Compact,
                    "cu" | "uc" => TimeStyle::CompactMicros,
                    _ => TimeStyle::Seconds,
                }),
                'm' => What::Module,
                'l' => What::Level,
                'P' => What::Pid,
                'T' => What::Tid,
                'a' if argument == "c" => What::ClientUnderlying,
                'a' => What::Client,
                'A' => What::Local,
                'E' => What::Error,
                'M' => What::Message,
                'F' => What::File,
                'k' => What::Keepalives,
                'L' if argument == "c" => What::ConnectionLogId,
                'L' => What::LogId,
                'v' => What::ServerName,
                'V' => What::Host,
                'e' => What::Env(argument),
                'i' => What::Header(argument),
                'n' => What::Note(argument),
                c => return Err(format!("Unrecognized error log format directive %{c}")),
            };
            return match what {
                What::Message if once => {
                    Err("%M cannot be used in once-per-request or once-per-connection formats".into())
                }
                _ if required && !once => Err("The '+' flag cannot be used in the main error log format".into()),
                what => Ok(Item { what, dash }),
            };
        }
    }

    /// The line for a message without a request.
    pub fn bare_line(&self, module: &str, level: Level, text: &str) -> String {
        self.line(&Entry { about: None, module, level, error: None, text })
    }

    /// The line for a message, without line feed.
    pub(crate) fn line(&self, entry: &Entry<'_>) -> String {
        let mut line = String::with_capacity(160);
        // The start of the current group, and whether a field in it was empty.
        let (mut start, mut empty, mut filled) = (0, false, false);
        // The end of a message is kept, including blanks.
        let mut message_end = 0;
        for item in &self.0 {
            match &item.what {
                What::Text(text) => line.push_str(text),
                What::Gap => {
                    if empty && !filled {
                        line.truncate(start);
                    }
                    (start, empty, filled) = (line.len(), false, false);
                }
                what => {
                    let before = line.len();
                    write_field(&mut line, what, entry);
                    if matches!(what, What::Message) {
                        message_end = line.len();
                    }
                    if line.len() > before {
                        filled = true;
                    } else if item.dash {
                        line.push('-');
                        filled = true;
                    } else {
                        empty = true;
                    }
                }
            }
        }
        if empty && !filled {
            line.truncate(start);
        }
        line.truncate(line.trim_end().len().max(message_end));
        line
    }
}

fn write_field(line: &mut String, what: &What, entry: &Entry<'_>) {
    let request = entry.about;
    // Writing to a String cannot fail.
    let _ = match what {
        What::Text(_) | What::Gap | What::File => Ok(()),
        What::Time(style) => {
            write_time(line, *style);
            Ok(())
        }
        What::Module => line.write_str(entry.module),
        What::Level => line.write_str(entry.level.name()),
        What::Pid | What::Tid => write!(line, "{}", std::process::id()),
        What::Client => request.map(About::client).map_or(Ok(()), |(ip, port)| write!(line, "{ip}:{port}")),
        What::ClientUnderlying => request.map(About::peer).map_or(Ok(()), |(ip, port)| write!(line, "{ip}:{port}")),
        What::Local => match request {
            Some(request) => write!(line, "{}", request.local()),
            None => Ok(()),
        },
        What::Error => match entry.error {
            Some(error) => line.write_str(os_prefix(error).trim_end_matches(": ")),
            None => Ok(()),
        },
        What::Message => {
            escape_into(line, entry.text);
            Ok(())
        }
        What::Keepalives => match request {
            Some(request) => write!(line, "{}", request.keepalives()),
            None => Ok(()),
        },
        What::LogId => request.and_then(About::log_id).map_or(Ok(()), |id| line.write_str(id)),
        What::ConnectionLogId => request.and_then(About::connection_log_id).map_or(Ok(()), |id| line.write_str(&id)),
        What::ServerName => match request {
            Some(request) => line.write_str(request.host_name()),
            None => Ok(()),
        },
        What::Host => match request {
            Some(request) => line.write_str(&request.server_name()),
            None => Ok(()),
        },
        What::Env(name) => request.and_then(|r| r.env(name)).map_or(Ok(()), |value| line.write_str(value)),
        What::Note(name) => request.and_then(|r| r.note(name)).map_or(Ok(()), |value| line.write_str(value)),
        What::Header(name) => {
            if let Some(value) = request.and_then(|request| request.field(name)) {
                escape_into(line, &value);
            }
            Ok(())
        }
    };
}

/// `Sat Nov 21 20:38:24.123456 2026`, or `2026-11-21 20:38:24.123456`.
fn write_time(line: &mut String, style: TimeStyle) {
    let now = sys::time::realtime();
    let seconds = now.as_secs() as i64;
    let date = Civil::of(seconds + i64::from(sys::time::local_offset(seconds)));
    let Civil { year, month, day, second_of_day, .. } = date;
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    let clock = format_args!("{hour:02}:{minute:02}:{second:02}");
    let (weekday, name) = (date.weekday(), date.month_name());
    let micros = now.subsec_micros();
    let _ = match style {
        TimeStyle::Seconds => write!(line, "{weekday} {name} {day:02} {clock} {year:04}"),
        TimeStyle::Micros => write!(line, "{weekday} {name} {day:02} {clock}.{micros:06} {year:04}"),
        TimeStyle::Compact => write!(line, "{year:04}-{month:02}-{day:02} {clock}"),
        TimeStyle::CompactMicros => write!(line, "{year:04}-{month:02}-{day:02} {clock}.{micros:06}"),
    };
}

/// Escapes control characters and bytes beyond ASCII, which could forge or garble lines.
pub(super) fn escape_into(line: &mut String, text: &str) {
    if text.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'\\' && b != b'"') {
        line.push_str(text);
        return;
    }
    for &byte in http::text::to_bytes(text).iter() {
        let _ = match byte {
            b'\n' => line.write_str("\\n"),
            b'\r' => line.write_str("\\r"),
            b'\t' => line.write_str("\\t"),
            b'\\' => line.write_str("\\\\"),
            0x20..=0x7e => line.write_char(byte as char),
            _ => write!(line, "\\x{byte:02x}"),
        };
    }
}

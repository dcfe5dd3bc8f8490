//! Many virtual hosts with one line: directories named after the host or the address.
//!
//! Apache manual: mod_vhost_alias. Doubtful cases were measured on 2.4.71.

use conf::directive::Args::Take1;
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, row, settings};
use server::PhaseHook::Now;
use server::{Flow, Hook, Module, Order, Phase, Request};

use super::mod_alias::FORCED_TYPE;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "vhost_alias_module", source: "mod_vhost_alias.c", linked: false, directives: DIRECTIVES },
    // After Alias and UserDir, whatever the order in which the modules are loaded.
    hooks: &[Hook::Repeatable, Hook::Phase(Phase::Translate, Order::AfterMiddle(2), Now(translate))],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("VirtualScriptAlias", Allowed::SERVER, Take1(|c, v| set(c, v, scripts, By::Name)), "none", "how to create a ScriptAlias based on the host"),
    row("VirtualDocumentRoot", Allowed::SERVER, Take1(|c, v| set(c, v, documents, By::Name)), "none", "how to create the DocumentRoot based on the host"),
    row("VirtualScriptAliasIP", Allowed::SERVER, Take1(|c, v| set(c, v, scripts, By::Address)), "none", "how to create a ScriptAlias based on the host"),
    row("VirtualDocumentRootIP", Allowed::SERVER, Take1(|c, v| set(c, v, documents, By::Address)), "none", "how to create the DocumentRoot based on the host"),
];

settings! {
    /// The module's settings of a server.
    pub struct VhostAliasServer {
        documents: Setting<Option<Map>>,
        scripts: Setting<Option<Map>>,
    }
}

fn documents(settings: &mut VhostAliasServer) -> &mut Setting<Option<Map>> {
    &mut settings.documents
}

fn scripts(settings: &mut VhostAliasServer) -> &mut Setting<Option<Map>> {
    &mut settings.scripts
}

/// A directory with parts of a name in it.
#[derive(Clone, Debug)]
struct Map {
    by: By,
    pieces: Vec<Piece>,
}

/// The source of those parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The requested name.
    Name,
    /// The local address of the connection.
    Address,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// `%p`
    Port,
    /// `%N.M`: letters of a part between dots; 0 means all of them.
    Part {
        part: Count,
        letters: Count,
    },
}

/// One number of `%N.M`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    /// The number, counted from 1; 0 means all.
    number: usize,
    /// Whether it counts from the end (`-`).
    from_end: bool,
    /// Whether it includes everything after it, or before it if it counts from the end (`+`).
    and_more: bool,
}

fn set(
    cmd: &mut Cmd<'_>,
    text: &str,
    field: fn(&mut VhostAliasServer) -> &mut Setting<Option<Map>>,
    by: By,
) -> Outcome {
    let map = match text {
        _ if text.starts_with('/') => Some(Map { by, pieces: Piece::parse(text)? }),
        _ if text.eq_ignore_ascii_case("none") => None,
        _ => return Err("format string must be an absolute path, or 'none'".into()),
    };
    cmd.server_set(field, map)
}

impl Piece {
    fn parse(text: &str) -> Result<Vec<Piece>, String> {
        let (mut pieces, mut rest, mut plain) = (Vec::new(), text, String::new());
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            if c != '%' {
                plain.push(c);
                continue;
            }
            if let Some(after) = rest.strip_prefix('%') {
                plain.push('%');
                rest = after;
                continue;
            }
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            if let Some(after) = rest.strip_prefix('p') {
                pieces.push(Piece::Port);
                rest = after;
                continue;
            }
            let part = Count::take(&mut rest)?;
            let letters = match rest.strip_prefix('.') {
                Some(after) => {
                    rest = after;
                    Count::take(&mut rest)?
                }
                None => Count::default(),
            };
            pieces.push(Piece::Part { part, letters });
        }
        pieces.push(Piece::Text(plain));
        Ok(pieces)
    }
}

impl Count {
    fn take(rest: &mut &str) -> Result<Count, String> {
        let mut flag = |sign: char| match rest.strip_prefix(sign) {
            Some(after) => {
                *rest = after;
                true
            }
            None => false,
        };
        let from_end = flag('-');
        let digit = (0..=9).find(|digit| flag(char::from(b'0' + digit)));
        let number = digit.ok_or("syntax error in format string")?.into();
        Ok(Count { number, from_end, and_more: flag('+') })
    }

    /// The selected ones of `many`. `None`: there are not that many.
    fn of(self, many: usize) -> Option<std::ops::Range<usize>> {
        let Count { number, from_end, and_more } = self;
        if number > many {
            return None;
        }
        Some(match (number, from_end, and_more) {
            (0, ..) => 0..many,
            (_, false, false) => number - 1..number,
            (_, false, true) => number - 1..many,
            (_, true, false) => many - number..many - number + 1,
            (_, true, true) => 0..many - number + 1,
        })
    }
}

/// As in Apache, further dots do not separate parts.
const PARTS_MAX: usize = 19;
/// The longest text of a part, as in Apache.
const PART_MAX: usize = 8191;

fn translate(request: &mut Request) -> Flow {
    let host = request.vhost;
    let conf = host.settings.get::<VhostAliasServer>();
    let uri = request.data.uri.clone();
    if let Some(map) = conf.scripts.get().and_then(Option::as_ref)
        && let Some(rest) = uri.trim_start_matches('/').strip_prefix("cgi-bin/")
    {
        let rest = format!("/{rest}");
        let Some(directory) = map.directory(request) else { return Flow::Status(500) };
        request.mapped.filename = format!("{directory}{rest}");
        request.mapped.context = Some(("/cgi-bin".into(), directory.clone()));
        request.mapped.document_root = Some(directory);
        request.mapped.handler = Some("cgi-script".into());
        request.notes.set(FORCED_TYPE, "cgi-script");
        request.note_step("vhost_alias", conf.scripts.origin(), |request| {
            format!("VirtualScriptAlias, handler cgi-script: {}", request.mapped.filename)
        });
        return Flow::Ok;
    }
    let Some(map) = conf.documents.get().and_then(Option::as_ref).filter(|_| uri.starts_with('/')) else {
        return Flow::Declined;
    };
    let Some(directory) = map.directory(request) else { return Flow::Status(500) };
    request.mapped.filename = format!("{directory}{uri}");
    request.mapped.context = Some((String::new(), directory.clone()));
    request.mapped.document_root = Some(directory);
    request.note_step("vhost_alias", conf.documents.origin(), |request| {
        format!("VirtualDocumentRoot: {}", request.mapped.filename)
    });
    Flow::Ok
}

impl Map {
    /// The directory for a request. `None`: its name is too long, which is logged.
    fn directory(&self, request: &Request) -> Option<String> {
        let name = match self.by {
            By::Name => request.server_name().trim_matches(['[', ']']).to_string(),
            By::Address => http::address_text(request.local().ip()),
        };
        let directory = self.filled(&name, request.server_port());
        if directory.is_none() {
            request.log("vhost_alias", Level::Error, "AH10595: VirtualDocumentRoot expansion too large");
        }
        directory
    }

    fn filled(&self, name: &str, port: u16) -> Option<String> {
        let name = name.to_ascii_lowercase();
        let parts: Vec<&str> = name.splitn(PARTS_MAX, '.').collect();
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Port => out.push_str(&port.to_string()),
                Piece::Part { part, letters } => {
                    let text = part.of(parts.len()).map_or_else(|| "_".into(), |range| parts[range].join("."));
                    let bytes = http::text::to_bytes(&text);
                    if bytes.len() > PART_MAX {
                        return None;
                    }
                    let bytes = letters.of(bytes.len()).map_or(&b"_"[..], |range| &bytes[range]);
                    out.push_str(&http::text::from_bytes(bytes));
                }
            }
        }
        if out.ends_with('/') {
            out.pop();
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_as_apache_takes_them() {
        crate::testing::check(&[
            ("VirtualDocumentRoot rel/%0", "format string must be an absolute path, or 'none'"),
            ("VirtualDocumentRoot None", ""),
            ("VirtualDocumentRoot /a/%", "syntax error in format string"),
            ("VirtualDocumentRoot /a/%x", "syntax error in format string"),
            ("VirtualScriptAlias /a/%-x", "syntax error in format string"),
            ("VirtualDocumentRootIP /a/%1.", "syntax error in format string"),
            ("VirtualScriptAliasIP /a/%-1+.-2+/%%/%p/%0", ""),
        ]);
    }

    #[test]
    fn parts_of_names() {
        let filled = |map: &str, name: &str| {
            let pieces = Piece::parse(map).expect(map);
            Map { by: By::Name, pieces }.filled(name, 8080).expect(map)
        };
        for (map, want) in [
            ("/v/%0/", "/v/www.domain.example.com"),
            ("/v/%1/%2/%-1/%-2", "/v/www/domain/com/example"),
            ("/v/%2+/%-2+", "/v/domain.example.com/www.domain.example"),
            ("/v/%5/%-5/%4+", "/v/_/_/com"),
            ("/v/%3+/%2.1/%2.2/%2.3/%2", "/v/example.com/d/o/m/domain"),
            ("/v/%2.-1/%2.-2+/%2.4+/%2.9", "/v/n/domai/ain/_"),
            ("/%p/%%1", "/8080/%1"),
        ] {
            assert_eq!(filled(map, "www.Domain.example.com"), want, "{map}");
        }
    }
}

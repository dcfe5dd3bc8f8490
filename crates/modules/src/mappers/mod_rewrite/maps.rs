//! `RewriteMap`: values for keys.

pub(super) mod helper;
pub(super) mod program;
mod random;
pub(super) mod sql;
pub(super) mod text;

use std::io;
use std::sync::Arc;

use conf::{Level, Origin};
use http::text::{from_bytes, to_bytes};
use http::uri::{escape_path, unescape_lenient};
use server::{Flow, Request};

use self::program::Program;
use self::random::choice;
use self::sql::Sql;
use self::text::TextFile;
use super::trace::Trace;
use crate::aaa::dbm;

/// A map of `RewriteMap`, by the kind of its source.
#[derive(Debug)]
pub(super) enum Map {
    /// `txt:` and `rnd:`: a file of keys and values; with `random`, values are choices.
    Text { file: Arc<TextFile>, random: bool },
    /// `int:`: one of our own functions.
    Internal(Internal),
    /// `prg:`: a program that answers one key after the other.
    Program(Program),
    /// `dbm:`: a DBM file.
    Dbm(dbm::Named),
    /// `dbd:` and `fastdbd:`: a statement of mod_dbd.
    Sql(Sql),
}

/// The functions of `int:`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Internal {
    ToLower,
    ToUpper,
    Escape,
    Unescape,
}

pub(super) const INTERNAL: [(&str, Internal); 4] = [
    ("tolower", Internal::ToLower),
    ("toupper", Internal::ToUpper),
    ("escape", Internal::Escape),
    ("unescape", Internal::Unescape),
];

impl Map {
    /// The value of a key; `None`: there is none. `Err`: it could not be found out.
    pub(super) async fn look_up(
        &self,
        request: &Request,
        trace: Trace,
        name: &str,
        key: String,
        origin: &Origin,
    ) -> Result<Option<String>, Flow> {
        let (kind, value) = match self {
            Map::Internal(function) => ("", Some(function.apply(&key))),
            Map::Program(program) => {
                let answer = program.look_up(request, &key).await;
                ("", answer.map_err(|error| unanswered(request, name, &error, origin))?)
            }
            Map::Sql(sql) => return sql.look_up(request, trace, name, key, origin).await,
            Map::Dbm(file) => {
                let value = file.get(request, &[&key]).await;
                let value = value.map_err(|error| not_opened(request, file, &error, origin))?;
                ("[dbm]", value.filter(|value| !value.is_empty()))
            }
            Map::Text { file, random } => {
                let value = TextFile::get(file, &key).await;
                let value = value.map_err(|error| unreadable(request, &file.path, &error, origin))?;
                let value = value.filter(|value| !value.is_empty());
                trace.log(request, 5, None, || lookup_line(name, "[txt]", &key, value.as_deref()));
                if !random {
                    return Ok(value);
                }
                let chosen = value.map(|value| choice(&value).to_string());
                if let Some(chosen) = &chosen {
                    trace.log(request, 5, None, || format!("randomly chosen the subvalue `{chosen}'"));
                }
                return Ok(chosen.filter(|value| !value.is_empty()));
            }
        };
        trace.log(request, 5, None, || lookup_line(name, kind, &key, value.as_deref()));
        Ok(value)
    }
}

fn lookup_line(name: &str, kind: &str, key: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("map lookup OK: map={name}{kind} key={key} -> val={value}"),
        None => format!("map lookup FAILED: map={name}{kind} key={key}"),
    }
}

/// Refuses a request that depends on an unreadable map.
fn unreadable(request: &Request, path: &str, error: &io::Error, origin: &Origin) -> Flow {
    let text = format!(
        "AH00661: mod_rewrite: can't access text RewriteMap file {path}, so the line at {origin} cannot be evaluated"
    );
    request.log_os("rewrite", Level::Error, error, text);
    request.fails_closed()
}

/// Refuses a request that depends on an unreadable DBM file.
fn not_opened(request: &Request, file: &dbm::Named, error: &io::Error, origin: &Origin) -> Flow {
    let path = file.path.as_deref().unwrap_or_default();
    let what = match error.kind() {
        io::ErrorKind::NotFound => "AH00662: mod_rewrite: can't access DBM RewriteMap file",
        _ => "AH00656: mod_rewrite: can't open DBM RewriteMap",
    };
    request.log_os(
        "rewrite",
        Level::Error,
        error,
        format!("{what} {path}, so the line at {origin} cannot be evaluated"),
    );
    request.fails_closed()
}

/// Refuses a request that depends on a program that does not answer.
fn unanswered(request: &Request, name: &str, error: &io::Error, origin: &Origin) -> Flow {
    let text =
        format!("the program of RewriteMap {name} has not answered, so the line at {origin} cannot be evaluated");
    request.log_os("rewrite", Level::Error, error, text);
    request.fails_closed()
}

impl Internal {
    fn apply(self, key: &str) -> String {
        match self {
            Internal::ToLower => key.to_ascii_lowercase(),
            Internal::ToUpper => key.to_ascii_uppercase(),
            Internal::Escape => escape_path(key).into_owned(),
            Internal::Unescape => {
                let bytes = to_bytes(key);
                let bytes = unescape_lenient(&bytes);
                // In C a text ends with the first of these.
                let end = memchr::memchr(0, &bytes).unwrap_or(bytes.len());
                from_bytes(&bytes[..end]).into_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions() {
        assert_eq!(Internal::ToUpper.apply("aé"), "Aé");
        assert_eq!(Internal::Escape.apply("a b"), "a%20b");
        assert_eq!(Internal::Unescape.apply("a%20b%2fc%zz%00d"), "a b/c%zz");
        assert!(["a", "b"].contains(&choice("a|b")));
    }
}

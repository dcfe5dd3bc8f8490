//! `RewriteMap`: values for keys.

pub(super) mod program;
mod sql;
mod text;

use std::io;
use std::sync::Arc;

use conf::{Cmd, Level, Origin, Outcome};
use http::text::{from_bytes, to_bytes};
use http::uri::{escape_path, unescape_lenient};
use server::{Flow, Request};

use self::program::Program;
use self::sql::Sql;
use self::text::TextFile;
use super::RewriteServer;
use super::trace::Trace;
use crate::aaa::dbm;
use crate::database;

/// A map.
#[derive(Debug)]
pub(super) enum Map {
    /// A file of keys and values; with `random`, values are choices.
    Text { file: Arc<TextFile>, random: bool },
    /// One of our own functions.
    Internal(Internal),
    /// An external program.
    Program(Program),
    /// A DBM file.
    Dbm(dbm::Named),
    /// A database.
    Sql(Sql),
}

/// `int:`
#[derive(Clone, Copy, Debug)]
pub(super) enum Internal {
    ToLower,
    ToUpper,
    Escape,
    Unescape,
}

const INTERNAL: [(&str, Internal); 4] = [
    ("tolower", Internal::ToLower),
    ("toupper", Internal::ToUpper),
    ("escape", Internal::Escape),
    ("unescape", Internal::Unescape),
];

/// `RewriteMap`
pub(super) fn add(cmd: &mut Cmd<'_>, name: &str, source: &str, owner: Option<&str>) -> Outcome {
    let (kind, rest) = source.split_once(':').unwrap_or(("", source));
    let text = |cmd: &Cmd<'_>, path: &str, random| {
        let path = cmd.context.server_relative(path);
        if !cmd.context.system.exists(&path) {
            return Err(format!("RewriteMap: file for map {name} not found:{path}"));
        }
        Ok(Map::Text { file: Arc::new(TextFile::new(path)), random })
    };
    let map = match kind.to_ascii_lowercase().as_str() {
        "txt" => text(cmd, rest, false)?,
        "rnd" => text(cmd, rest, true)?,
        "int" => match INTERNAL.iter().find(|(known, _)| *known == rest) {
            Some((_, function)) => Map::Internal(*function),
            None => return Err(format!("RewriteMap: internal map not found:{rest}")),
        },
        kind @ ("dbd" | "fastdbd") => {
            if !database::is_loaded(cmd) {
                return Err("RewriteMap types dbd and fastdbd require mod_dbd!".into());
            }
            Map::Sql(Sql::new(database::prepare(cmd, "rewrite", rest), kind == "fastdbd"))
        }
        "prg" => Map::Program(Program::new(cmd, name, rest, owner)?),
        // As in Apache, this includes files whose names begin like that.
        _ if source.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("dbm")) => {
            Map::Dbm(named(cmd, name, source)?)
        }
        _ => text(cmd, source, false)?,
    };
    let origin = cmd.origin();
    let rules = &mut cmd.server.edit::<RewriteServer>().rules;
    rules.of_host |= cmd.place.virtual_host;
    rules.maps.insert(name.to_string(), (Arc::new(map), origin));
    Ok(())
}

/// `dbm:FILE`, or `dbm=TYPE:FILE`.
fn named(cmd: &Cmd<'_>, name: &str, source: &str) -> Result<dbm::Named, String> {
    let bad = || format!("RewriteMap: bad map:{source}");
    let (start, path) = source.split_once(':').ok_or_else(bad)?;
    let kind = match start.get(3..).unwrap_or_default() {
        "" => "default",
        rest => rest.strip_prefix('=').ok_or_else(bad)?,
    };
    let file = dbm::Named { path: Some(cmd.context.server_relative(path)), kind: kind.into() };
    let paths = file.paths().ok_or_else(|| format!("RewriteMap: dbm type {kind} is invalid"))?;
    match paths.iter().find(|path| !cmd.context.system.exists(path)) {
        Some(path) => Err(format!("RewriteMap: file for map {name} not found:{path}")),
        None => Ok(file),
    }
}

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
                let answer = program.ask(request, &key).await;
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

/// One of several values separated by `|`.
fn choice(value: &str) -> &str {
    choice_of(value.split('|').count()).and_then(|number| value.split('|').nth(number)).unwrap_or(value)
}

/// A random index below `count`; `None` if that is 0.
fn choice_of(count: usize) -> Option<usize> {
    match count {
        0 | 1 => count.checked_sub(1),
        _ => Some((u64::from_le_bytes(sys::random::bytes()) % count as u64) as usize),
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

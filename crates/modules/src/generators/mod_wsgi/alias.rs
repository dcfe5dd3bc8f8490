//! `WSGIScriptAlias`: which script has which URL paths.

use conf::pattern::{Captures, Flags, Regex, substitute};
use conf::words::words;
use conf::{Cmd, Outcome, Refusal};
use server::paths::MAPPED_MAX;
use server::{Flow, Request};

use super::settings::{APPLICATION_GROUP, CALLABLE_OBJECT, HANDLER, MOUNT, PROCESS_GROUP, ScriptAlias, WsgiServer};
use crate::mappers::mod_alias::file_path;
use crate::mappers::mod_alias::list::Matcher;

/// The note of a request that an alias leads to its script, which then needs no `ExecCGI`.
const ALIASED: &str = "alias-forced-type";

/// The options of the line, and the notes they set.
const OPTIONS: [(&str, &str); 3] =
    [("process-group", PROCESS_GROUP), ("application-group", APPLICATION_GROUP), ("callable-object", CALLABLE_OBJECT)];

pub(super) fn add(cmd: &mut Cmd<'_>, line: &str, pattern: bool) -> Outcome {
    let words = words(line);
    let [path, file, options @ ..] = &words[..] else {
        return Err("Location and target WSGI script not supplied.".into());
    };
    let mut notes = Vec::new();
    for (at, option) in options.iter().enumerate() {
        let known = option.split_once('=').and_then(|(name, value)| {
            let (_, note) = OPTIONS.iter().find(|(option, _)| *option == name)?;
            Some((*note, value.to_string()))
        });
        let known = known.ok_or_else(|| {
            Refusal::argument(at + 3, format!("Invalid option to WSGI script alias definition: {option}"))
        })?;
        notes.push(known);
    }
    let matcher = match pattern {
        false => Matcher::Prefix(path.clone()),
        true => Matcher::Pattern(
            Regex::new(path, Flags::default())
                .map_err(|error| Refusal::pattern(1, 0, &error, "Regular expression could not be compiled."))?,
        ),
    };
    let file = if pattern { file.clone() } else { cmd.context.server_relative(file) };
    let origin = cmd.origin();
    cmd.server.edit::<WsgiServer>().aliases.push(matcher, ScriptAlias { file, notes }, origin);
    Ok(())
}

/// Maps a request to the script of an alias.
pub(super) fn translate(request: &mut Request) -> Flow {
    let vhost = request.vhost;
    let mut captures = Captures::default();
    let (line, length) = match vhost.settings.get::<WsgiServer>().aliases.find(&request.data.uri, &mut captures) {
        Err((why, origin)) => return request.undecided("wsgi", &why, origin),
        Ok(None) => return Flow::Declined,
        Ok(Some(found)) => found,
    };
    let path = match &line.matcher {
        // The root is the application's first slash, too.
        Matcher::Prefix(prefix) if prefix == "/" => format!("{}{}", line.then.file, request.data.uri),
        Matcher::Prefix(_) => format!("{}{}", line.then.file, &request.data.uri[length..]),
        Matcher::Pattern(_) => {
            let mut path = String::new();
            match substitute(&mut path, &line.then.file, &request.data.uri, &captures, server::TEXT_MAX) {
                Err(why) => return request.undecided("wsgi", &why, &line.origin),
                // What the pattern leaves of the path follows the script, as it follows a prefix.
                Ok(()) => path + captures.span(0).and_then(|all| request.data.uri.get(all.end..)).unwrap_or_default(),
            }
        }
    };
    if path.len() > MAPPED_MAX {
        return request.cannot_map();
    }
    if let Matcher::Prefix(prefix) = &line.matcher {
        request.notes.set(MOUNT, prefix.clone());
    }
    request.mapped.handler = Some(HANDLER.into());
    request.notes.set(ALIASED, HANDLER);
    line.then.notes.iter().for_each(|(note, value)| request.notes.set(*note, value.clone()));
    request.mapped.filename = file_path(&request.server.language.server_root, &path);
    request.note_step("wsgi", Some(&line.origin), |request| {
        format!("WSGIScriptAlias, handler {HANDLER}: {}", request.mapped.filename)
    });
    Flow::Ok
}

/// Whether an alias led to the script.
pub(super) fn is_aliased(request: &Request) -> bool {
    request.notes.get(ALIASED) == Some(HANDLER)
}

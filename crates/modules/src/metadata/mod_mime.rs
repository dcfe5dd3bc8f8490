//! Metadata from a file's extensions: type, charset, encodings, languages, handler, filters.
//!
//! Apache manual: mod_mime. The walk over the extensions: its section "Files with Multiple
//! Extensions". Doubtful cases were measured on 2.4.71.

mod extensions;
mod types;

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use conf::directive::Args::{Flag, Iterate, Iterate2, Take1};
use conf::{
    Allowed, Cmd, Context, Directive, Error, Gathered, ModuleInfo, Origin, Outcome, Setting, SettingsMap, on_or_off,
    row, settings,
};
use server::PhaseHook::Now;
use server::module::finding::{Finding, Topic, Weight};
use server::{Draft, Flow, Hook, Module, Order, Phase, Request, Server, StartError};

use self::extensions::{Extensions, Trait};
use self::types::{Types, with_charset};
use crate::derived::Derived;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "mime_module", source: "mod_mime.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Check(prepare),
        Hook::OpenLogs(types_are_there),
        Hook::FileHandler(handler_of),
        Hook::Examine(examine),
        Hook::Phase(Phase::TypeChecker, Order::Middle, Now(find_type)),
    ],
};

const FILEINFO: Allowed = Allowed::FILEINFO;
const EXTENSIONS: &str = "one or more file extensions";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AddCharset", FILEINFO, Iterate2(|c, v, e| add(c, Trait::Charset, v, e)), "", "a charset (e.g., iso-2022-jp), followed by one or more file extensions"),
    row("AddEncoding", FILEINFO, Iterate2(|c, v, e| add(c, Trait::Encoding, v, e)), "", "an encoding (e.g., gzip), followed by one or more file extensions"),
    row("AddHandler", FILEINFO, Iterate2(|c, v, e| add(c, Trait::Handler, v, e)), "", "a handler name followed by one or more file extensions"),
    row("AddInputFilter", FILEINFO, Iterate2(|c, v, e| add(c, Trait::InputFilter, v, e)), "", "input filter name (or ; delimited names) followed by one or more file extensions"),
    row("AddLanguage", FILEINFO, Iterate2(|c, v, e| add(c, Trait::Language, v, e)), "", "a language (e.g., fr), followed by one or more file extensions"),
    row("AddOutputFilter", FILEINFO, Iterate2(|c, v, e| add(c, Trait::OutputFilter, v, e)), "", "output filter name (or ; delimited names) followed by one or more file extensions"),
    row("AddType", FILEINFO, Iterate2(|c, v, e| add(c, Trait::Type, v, e)), "", "a mime type followed by one or more file extensions"),
    row("DefaultLanguage", FILEINFO, Take1(|c, v| { let v = v.to_string(); c.set(|d: &mut MimeDir| &mut d.default_language, v) }), "", "language to use for documents with no other language file extension"),
    row("MultiviewsMatch", FILEINFO, Iterate(multiviews_match), "NegotiatedOnly", "NegotiatedOnly (default), Handlers and/or Filters, or Any"),
    row("RemoveCharset", FILEINFO, Iterate(|c, e| remove(c, Trait::Charset, e)), "", EXTENSIONS),
    row("RemoveEncoding", FILEINFO, Iterate(|c, e| remove(c, Trait::Encoding, e)), "", EXTENSIONS),
    row("RemoveHandler", FILEINFO, Iterate(|c, e| remove(c, Trait::Handler, e)), "", EXTENSIONS),
    row("RemoveInputFilter", FILEINFO, Iterate(|c, e| remove(c, Trait::InputFilter, e)), "", EXTENSIONS),
    row("RemoveLanguage", FILEINFO, Iterate(|c, e| remove(c, Trait::Language, e)), "", EXTENSIONS),
    row("RemoveOutputFilter", FILEINFO, Iterate(|c, e| remove(c, Trait::OutputFilter, e)), "", EXTENSIONS),
    row("RemoveType", FILEINFO, Iterate(|c, e| remove(c, Trait::Type, e)), "", EXTENSIONS),
    row("TypesConfig", Allowed::SERVER, Take1(|c, v| { let v = v.to_string(); c.server_set(|s: &mut MimeServer| &mut s.types_config, v) }), TYPES_CONFIG, "the MIME types config file"),
    row("ModMimeUsePathInfo", Allowed::SECTION, Flag(|c, on| c.set(|d: &mut MimeDir| &mut d.use_path_info, on)), on_or_off(USE_PATH_INFO), "Set to 'yes' to allow mod_mime to use path info for type checking"),
];

/// Whether it is on by default.
const USE_PATH_INFO: bool = false;

/// The default types file, relative to `ServerRoot`.
const TYPES_CONFIG: &str = "conf/mime.types";
/// The system's own, if none is configured and the default does not exist.
const SYSTEM_TYPES: &str = "/etc/mime.types";
/// The type of a directory: a name for handlers, which no client sees.
pub const DIRECTORY: &str = "httpd/unix-directory";

settings! {
    /// The module's settings of the server. Those of the main server count.
    pub struct MimeServer {
        types_config: Setting<String>,
        /// The parsed types file. `Err`: why the server cannot start.
        types: Derived<Option<Result<Arc<Types>, StartError>>>,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct MimeDir {
        extensions: Extensions,
        default_language: Setting<String>,
        multiviews: Gathered<Multiviews>,
        use_path_info: Setting<bool> = USE_PATH_INFO,
    }
}

/// Which further extensions a file may have, to be one of the variants of MultiViews.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Multiviews {
    any: bool,
    negotiated: bool,
    handlers: bool,
    filters: bool,
}

fn add(cmd: &mut Cmd<'_>, what: Trait, value: &str, extension: &str) -> Outcome {
    let origin = cmd.origin();
    cmd.dir.edit::<MimeDir>().extensions.add(what, value, extension, &origin);
    Ok(())
}

fn remove(cmd: &mut Cmd<'_>, what: Trait, extension: &str) -> Outcome {
    let origin = cmd.origin();
    cmd.dir.edit::<MimeDir>().extensions.remove(what, extension, &origin);
    Ok(())
}

fn multiviews_match(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    let mut value = cmd.dir.edit::<MimeDir>().multiviews.get().copied().unwrap_or_default();
    match word.to_ascii_lowercase().as_str() {
        "any" if value.negotiated || value.handlers || value.filters => {
            return Err("Any is incompatible with NegotiatedOnly, Filters and Handlers".into());
        }
        "negotiatedonly" if value.any || value.handlers || value.filters => {
            return Err("NegotiatedOnly is incompatible with Any, Filters and Handlers".into());
        }
        "filters" if value.any || value.negotiated => {
            return Err("Filters is incompatible with Any and NegotiatedOnly".into());
        }
        "handlers" if value.any || value.negotiated => {
            return Err("Handlers is incompatible with Any and NegotiatedOnly".into());
        }
        "any" => value.any = true,
        "negotiatedonly" => value.negotiated = true,
        "filters" => value.filters = true,
        "handlers" => value.handlers = true,
        _ => return Err(format!("Unrecognized option '{word}'").into()),
    }
    let origin = cmd.origin();
    *cmd.dir.edit::<MimeDir>().multiviews.edit(&origin) = value;
    Ok(())
}

fn prepare(draft: &mut Draft, context: &mut Context) -> Result<(), Error> {
    settle(draft);
    read_types(draft, context);
    Ok(())
}

/// Every section has to be merged with something, because `Remove…` acts on merging; and outside all sections, without
/// anything around, it never does.
fn settle(draft: &mut Draft) {
    let main_speaks = draft.main_dir.peek::<MimeDir>().is_some();
    draft.main_dir.edit::<MimeDir>().extensions.settle(false);
    for host in &mut draft.hosts {
        let alone = !main_speaks && host.dir.peek::<MimeDir>().is_some();
        host.merged_dir.edit::<MimeDir>().extensions.settle(alone);
    }
}

/// Reads the types. If they cannot be read, the server does not start, though the check of its configuration passes.
fn read_types(draft: &mut Draft, context: &Context) {
    let conf = draft.main.get::<MimeServer>();
    let mut path = context.server_relative(conf.types_config.get().map_or(TYPES_CONFIG, String::as_str));
    // A minimal configuration without Apache's files uses the system's types.
    if !conf.types_config.is_set() && !context.system.exists(&path) {
        path = SYSTEM_TYPES.to_string();
    }
    let types = context.system.read(&path).and_then(Types::parse).map(Arc::new).map_err(|error: io::Error| {
        StartError::of_system(&error, &format!("AH01597: could not open mime types config file {path}."))
    });
    draft.main.edit::<MimeServer>().types = Derived(Some(types));
}

/// The types of the types file.
fn file_types(server: &Server) -> Option<&Types> {
    server.main().settings.get::<MimeServer>().types.0.as_ref()?.as_deref().ok()
}

/// Whether the media types could be read. `Err`: why not, which prevents the start.
fn types_are_there(server: &Server) -> Result<(), StartError> {
    match &server.main().settings.get::<MimeServer>().types.0 {
        Some(Err(error)) => Err(error.clone()),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Reports what [`types_are_there`] would end a start with.
fn examine(server: &Server, found: &mut dyn FnMut(Finding)) {
    if let Err(error) = types_are_there(server) {
        found(Finding::new(Weight::Stops, Topic::Start, "TypesConfig", error.text));
    }
}

/// The metadata from the extensions of a name; for single values, the last one counts.
#[derive(Default)]
struct Findings<'a> {
    name: Option<&'a str>,
    /// The `AddType` line; `None` if the type comes from the types file.
    name_origin: Option<&'a Origin>,
    charset: Option<&'a str>,
    handler: Option<&'a str>,
    handler_origin: Option<&'a Origin>,
    encodings: Vec<&'a str>,
    languages: Vec<&'a str>,
    filters: Vec<&'a str>,
    input_filters: Vec<&'a str>,
}

impl<'a> Findings<'a> {
    fn of(name: &str, conf: &'a MimeDir, types: Option<&'a Types>) -> Findings<'a> {
        let mut found = Findings::default();
        for extension in Parts::of(name).extensions {
            let extension = lower(extension);
            let line = conf.extensions.get(&extension);
            let said = |what| line.and_then(|said| said.get(what));
            // An empty type was removed, together with that of `mime.types`: the extension then means nothing.
            let name = said(Trait::Type).or_else(|| types?.get(&extension)).filter(|name| !name.is_empty());
            if let Some(name) = name {
                found.name = Some(name);
                found.name_origin = line.and_then(|said| said.origin(Trait::Type));
            }
            found.charset = said(Trait::Charset).or(found.charset);
            if let Some(handler) = said(Trait::Handler) {
                found.handler = Some(handler);
                found.handler_origin = line.and_then(|said| said.origin(Trait::Handler));
            }
            found.encodings.extend(said(Trait::Encoding));
            found.languages.extend(said(Trait::Language));
            let filters =
                |what| said(what).into_iter().flat_map(|names| names.split(';')).filter(|name| !name.is_empty());
            found.filters.extend(filters(Trait::OutputFilter));
            found.input_filters.extend(filters(Trait::InputFilter));
        }
        found
    }
}

fn find_type(request: &mut Request) -> Flow {
    if request.mapped.stat.is_some_and(|meta| meta.is_dir()) {
        request.response.set_content_type(DIRECTORY);
        return Flow::Ok;
    }
    let (dir, server) = (request.dir.slots.clone(), request.server);
    let conf = dir.get::<MimeDir>();
    let found = Findings::of(&examined(request, conf), conf, file_types(server));
    if let Some(name) = found.name {
        let file = || server.main().settings.get::<MimeServer>().types_config.origin();
        let directive = if found.name_origin.is_some() { "AddType" } else { "TypesConfig" };
        request.note_step("mime", found.name_origin.or_else(file), |_| format!("{directive}: {name}"));
    }
    match (found.name, found.charset) {
        (None, _) => {}
        (Some(name), None) if !name.contains(';') => request.response.set_content_type(name.to_string()),
        (Some(name), charset) => request.response.set_content_type(with_charset(name, charset)),
    }
    if let Some(handler) = found.handler {
        request.mapped.handler = Some(handler.to_string().into());
        request.note_step("mime", found.handler_origin, |_| format!("AddHandler: {handler}"));
    }
    for encoding in found.encodings {
        match &mut request.response.content_encoding {
            Some(inner) => inner.extend([", ", encoding]),
            none => *none = Some(encoding.to_string()),
        }
    }
    request.response.content_languages.extend(found.languages.into_iter().map(str::to_string));
    if request.response.content_languages.is_empty() {
        request.response.content_languages.extend(conf.default_language.get().cloned());
    }
    request.response.output_filters.extend(found.filters.into_iter().map(str::to_string));
    request.mapped.input_filters.extend(found.input_filters.into_iter().map(str::to_string));
    if request.response.content_type().is_some() { Flow::Ok } else { Flow::Declined }
}

/// The handler for the extensions of a name under these settings.
fn handler_of<'a>(settings: &'a SettingsMap, name: &str) -> Option<&'a str> {
    Findings::of(name, settings.get::<MimeDir>(), None).handler
}

/// The parts of a file's name without a meaning, beginning with its first part: a variant's name must have been
/// requested with these. `None`: no part has a meaning. For mod_negotiation.
pub fn unclaimed(request: &Request) -> Option<Vec<String>> {
    let conf = request.dir::<MimeDir>();
    unclaimed_parts(conf, file_types(request.server), &examined(request, conf))
}

fn unclaimed_parts(conf: &MimeDir, types: Option<&Types>, name: &str) -> Option<Vec<String>> {
    let Parts { first, extensions } = Parts::of(name);
    let multiviews = conf.multiviews.get().copied().unwrap_or_default();
    let (mut claimed, mut rest) = (false, vec![first.to_string()]);
    for part in extensions {
        let extension = lower(part);
        let said = conf.extensions.get(&extension);
        let said = |what| said.is_some_and(|said| said.get(what).is_some());
        let known = said(Trait::Type)
            || types.is_some_and(|types| types.get(&extension).is_some())
            || [Trait::Charset, Trait::Language, Trait::Encoding].into_iter().any(said)
            || multiviews.handlers && said(Trait::Handler)
            || multiviews.filters && (said(Trait::InputFilter) || said(Trait::OutputFilter));
        if known || multiviews.any {
            claimed = true;
        } else {
            rest.push(part.to_string());
        }
    }
    claimed.then_some(rest)
}

/// The name to examine.
fn examined<'a>(request: &'a Request, conf: &MimeDir) -> Cow<'a, str> {
    let base = server::paths::base_name;
    match conf.use_path_info() && !request.mapped.path_info.is_empty() {
        true => Cow::Owned(base(&format!("{}{}", request.mapped.filename, request.mapped.path_info)).to_string()),
        false => Cow::Borrowed(base(&request.mapped.filename)),
    }
}

fn lower(extension: &str) -> Cow<'_, str> {
    match extension.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(extension.to_ascii_lowercase()),
        false => Cow::Borrowed(extension),
    }
}

/// A name split at its dots. Leading dots belong to the first part, which is never an extension.
struct Parts<'a, E> {
    first: &'a str,
    extensions: E,
}

impl<'a> Parts<'a, ()> {
    fn of(name: &'a str) -> Parts<'a, impl Iterator<Item = &'a str>> {
        let dots = name.len() - name.trim_start_matches('.').len();
        let end = memchr::memchr(b'.', &name.as_bytes()[dots..]).map_or(name.len(), |at| dots + at);
        Parts { first: &name[..end], extensions: name[end..].split('.').filter(|part| !part.is_empty()) }
    }
}

#[cfg(test)]
mod tests;

//! Types of files by their content, if their names have no meaning.
//!
//! Apache manual: mod_mime_magic. Doubtful cases were measured on 2.4.71.

mod guess;
mod rules;

use std::io::{self, Read as _};
use std::sync::Arc;

use conf::directive::Args::Take1;
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, row, settings};
use runtime::{Load, offload};
use server::paths::os_path;
use server::{Flow, Hook, Module, Order, Phase, PhaseHook, Request, Server, StartError};

use self::rules::Rules;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "mime_magic_module", source: "mod_mime_magic.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::OpenLogs(complain),
        // After mod_mime, whatever the order in which the modules are loaded.
        Hook::Phase(
            Phase::TypeChecker,
            Order::AfterMiddle(1),
            PhaseHook::Later { claims: has_no_type, run: |request| Box::pin(find_type(request)) },
        ),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("MimeMagicFile", Allowed::SERVER, Take1(set), "", "Path to MIME Magic file (in file(1) format)"),
];

/// How much of a file is examined, in bytes.
const HOWMANY: usize = 4096;

settings! {
    /// The module's settings of a server.
    pub struct MimeMagicServer { magic: Setting<Arc<Magic>> }
}

/// A file of rules, with the messages about it for the log.
#[derive(Debug)]
struct Magic {
    rules: Rules,
    complaints: Vec<String>,
}

fn set(cmd: &mut Cmd<'_>, file: &str) -> Outcome {
    let path = cmd.context.server_relative(file);
    let magic = match cmd.context.system.read(&path) {
        Ok(bytes) => {
            let mut complaints = Vec::new();
            let rules = Rules::parse(&bytes, &mut complaints);
            Magic { rules, complaints }
        }
        Err(error) => {
            let why = sys::describe(&error);
            let text = format!("{why}: AH01515: mod_mime_magic: can't read magic file {path}");
            Magic { rules: Rules::default(), complaints: vec![text] }
        }
    };
    cmd.server_set(|s: &mut MimeMagicServer| &mut s.magic, Arc::new(magic))
}

/// As in Apache, invalid rules do not prevent the start.
fn complain(server: &Server) -> Result<(), StartError> {
    let mut told: Vec<&Arc<Magic>> = Vec::new();
    for magic in server.hosts.iter().filter_map(|host| host.settings.get::<MimeMagicServer>().magic.get()) {
        if !told.iter().any(|known| Arc::ptr_eq(known, magic)) {
            magic.complaints.iter().for_each(|text| runtime::log!("mime_magic", Error, "{text}"));
            told.push(magic);
        }
    }
    Ok(())
}

fn has_no_type(request: &Request) -> bool {
    request.response.content_type().is_none()
        && request.mapped.stat.is_some_and(|meta| meta.is_file())
        && request.host::<MimeMagicServer>().magic.get().is_some_and(|magic| !magic.rules.is_empty())
}

async fn find_type(request: &mut Request) -> Flow {
    if of_revision(request).await {
        return Flow::Declined;
    }
    let Some(magic) = request.host::<MimeMagicServer>().magic.get().cloned() else { return Flow::Declined };
    let is_empty = request.mapped.stat.is_some_and(|meta| meta.size == 0);
    if is_empty {
        return take(request, "text/plain");
    }
    let path = request.mapped.filename.clone();
    let found = offload(Load::Wait, move || {
        let bytes = beginning(&path)?;
        Ok::<_, io::Error>(recognize(&magic.rules, &bytes))
    });
    match found.await {
        Ok(found) => {
            // As in Apache, also if the type stays unknown.
            if let Some(encoding) = found.encoding {
                request.response.content_encoding = Some(encoding.to_string());
            }
            found.text.map_or(Flow::Declined, |text| take(request, &text))
        }
        Err(error) => {
            let text = format!("AH01512: mod_mime_magic: can't read `{}'", request.mapped.filename);
            request.log_os("mime_magic", Level::Error, &error, text);
            Flow::Declined
        }
    }
}

fn beginning(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(os_path(path))?.take(HOWMANY as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What the beginning of a file tells.
struct Found {
    /// The result of the rules: a type, and perhaps an encoding after it.
    text: Option<String>,
    /// The encoding of the file itself.
    encoding: Option<&'static str>,
}

/// Looks at a file with this beginning; of a compressed one, first at its content.
fn recognize(rules: &Rules, bytes: &[u8]) -> Found {
    let of = |bytes: &[u8]| {
        // Apache appends a NUL, and counts it.
        let ended = [bytes, b"\0"].concat();
        rules.first(&ended).or_else(|| guess::guess(&ended))
    };
    let mut inner = Vec::new();
    if bytes.starts_with(b"\x1f\x8b") {
        // Faults further on do not matter.
        let _ = flate2::read::MultiGzDecoder::new(bytes).take(HOWMANY as u64).read_to_end(&mut inner);
    }
    // The NUL takes the place of the last byte of a content.
    let encoding = inner.pop().map(|_| "x-gzip");
    let of_content = (!inner.is_empty()).then(|| of(&inner)).flatten();
    Found { text: of_content.or_else(|| of(bytes)), encoding }
}

/// Takes a type, and perhaps an encoding after it, from the result of the rules.
fn take(request: &mut Request, text: &str) -> Flow {
    let mut words = text.split_ascii_whitespace();
    let Some(media_type) = words.next().filter(|word| word.find('/').is_some_and(|at| at > 0)) else {
        return Flow::Declined;
    };
    request.response.set_content_type(gateway::response::media_type(media_type));
    if let Some(encoding) = words.next() {
        request.response.content_encoding = Some(encoding.to_ascii_lowercase());
    }
    Flow::Ok
}

/// A file whose name ends with `@` and a number is a revision of another one, and has its type.
async fn of_revision(request: &mut Request) -> bool {
    let name = request.mapped.filename.trim_end_matches(|c: char| c.is_ascii_digit());
    let Some(name) = name.strip_suffix('@').filter(|_| name.len() < request.mapped.filename.len()) else {
        return false;
    };
    let name = name.to_string();
    let Some(found) = request.lookup_named(&name).await else { return false };
    let Some(text) = found.response.content_type() else { return false };
    request.response.set_content_type(text.to_string());
    request.response.content_encoding.clone_from(&found.response.content_encoding);
    request.response.content_languages.clone_from(&found.response.content_languages);
    true
}

//! Edits the bodies of responses and requests line by line: the filters `Sed`, which run scripts of a stream editor.
//!
//! Apache manual: mod_sed. The language is that of Apache's module, an old `sed` of System V, not that of POSIX or GNU.

mod machine;
mod pattern;
mod script;

use std::io;
use std::sync::Arc;

use conf::directive::Args::Take1;
use conf::{Allowed, Cmd, Directive, Level, Merge, ModuleInfo, Origin, Outcome, row, settings};
use http::text::to_bytes;
use server::{Body, Hook, InputBody, InputFilter, Module, OutputFilter, Rank, Request, RequestKind, Writer};

use self::machine::Machine;
use self::script::Script;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "sed_module", source: "mod_sed.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::NamedFilter(&OUTPUT), Hook::InputFilter(&BODIES)],
};

static OUTPUT: OutputFilter = OutputFilter {
    name: "SED",
    rank: Rank::RESOURCE,
    prepare: None,
    unmodified: None,
    apply: |request, body| Box::pin(edit_output(request, body)),
};

static BODIES: InputFilter = InputFilter { name: "SED", rank: Rank::RESOURCE, apply: edit_body };

const FILES: &str = "The commands `r` and `w` are refused: a filter reads and writes no files.";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("OutputSed", Allowed::SECTION, Take1(|c, v| add(c, v, |scripts| &mut scripts.output)), "", "Sed regular expression for Response").differs(FILES),
    row("InputSed", Allowed::SECTION, Take1(|c, v| add(c, v, |scripts| &mut scripts.input)), "", "Sed regular expression for Request").differs(FILES),
];

settings! {
    /// The module's settings of a section.
    pub struct SedDir {
        scripts: Scripts,
    }
}

/// The scripts of a section. A section that sets either one inherits neither.
#[derive(Clone, Debug, Default)]
struct Scripts {
    output: Option<Arc<Script>>,
    input: Option<Arc<Script>>,
    /// The lines that contributed to them.
    lines: Vec<Origin>,
}

impl Merge for Scripts {
    fn merge(base: &Self, add: &Self) -> Self {
        if add.lines.is_empty() { base.clone() } else { add.clone() }
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.lines.iter().for_each(see);
    }
}

/// Adds a line to a script of the section.
fn add(cmd: &mut Cmd<'_>, text: &str, which: fn(&mut Scripts) -> &mut Option<Arc<Script>>) -> Outcome {
    let origin = cmd.origin();
    let scripts = &mut cmd.dir.edit::<SedDir>().scripts;
    let script = Arc::make_mut(which(scripts).get_or_insert_default());
    script.add(&to_bytes(text)).map_err(|why| format!("Failed to compile sed expression. {why}"))?;
    scripts.lines.push(origin);
    Ok(())
}

async fn edit_output(request: &mut Request, body: Body) -> Body {
    request.asks_beyond_head();
    let dir = request.dir.slots.clone();
    let Some(script) = dir.get::<SedDir>().scripts.output.clone() else { return body };
    if matches!(body, Body::Empty) {
        return body;
    }
    request.response.headers_out.remove("Content-Length");
    let complain = complain(request);
    // A script that cannot begin is an error; one that fails on its way stops halfway.
    if let Err(why) = script.check() {
        complain(why);
        request.response.set_status(500);
        return Body::Empty;
    }
    server::written(|out| edit(complain, body.into_stream(), script, out)).await
}

fn edit_body(request: &mut Request, body: InputBody) -> InputBody {
    match request.dir::<SedDir>().scripts.input.clone() {
        Some(script) if matches!(request.kind, RequestKind::Main) => {
            let complain = complain(request);
            server::written_later(|out| edit(complain, body, script, out))
        }
        _ => body,
    }
}

/// Reports errors, when the request may no longer be available.
type Complain = Box<dyn Fn(String) + Send + Sync>;

fn complain(request: &Request) -> Complain {
    let speaker = request.speaker();
    Box::new(move |why| speaker.log("sed", Level::Error, format!("AH02998: {why}")))
}

/// Writes the edited body. A line is edited when there is more after it, so that the last one is known as such.
async fn edit(complain: Complain, mut source: InputBody, script: Arc<Script>, out: Writer) -> io::Result<()> {
    let fail = |why: String| {
        complain(why);
        io::Error::other("a script of mod_sed has failed")
    };
    script.check().map_err(fail)?;
    let mut machine = Machine::new(&script, &out);
    let mut is_whole = false;
    while let Some(piece) = source.next().await {
        let piece = piece?;
        let mut rest = &piece[..];
        // As in Apache, lines after the one at which the script quits are read and dropped.
        while !rest.is_empty() && !machine.has_quit() {
            if is_whole {
                machine.run(false).await.map_err(fail)?;
                is_whole = false;
                continue;
            }
            let end = memchr::memchr(b'\n', rest);
            machine.take(&rest[..end.unwrap_or(rest.len())]).map_err(fail)?;
            is_whole = end.is_some();
            rest = &rest[end.map_or(rest.len(), |end| end + 1)..];
        }
        machine.flush().await;
    }
    if (is_whole || machine.has_text()) && !machine.has_quit() {
        machine.run(true).await.map_err(fail)?;
    }
    machine.flush().await;
    Ok(())
}

#[cfg(test)]
mod tests;

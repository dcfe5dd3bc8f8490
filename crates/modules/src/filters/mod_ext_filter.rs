//! Answers that go through another program: output filters that the configuration defines.
//!
//! Apache manual: mod_ext_filter. The program is started and waited for as a script is.

use std::sync::Arc;

use conf::directive::Args::{Iterate, Raw};
use conf::values::atoi;
use conf::words::words;
use conf::{Allowed, Cmd, Directive, Keyed, Level, ModuleInfo, Outcome, Setting, settings};
use server::filters::{Link, Rank};
use server::{Body, Hook, Module, Request};

use crate::generators::exec;
use crate::row;

/// The module.
pub static MODULE: Module = Module {
    info: ModuleInfo { id: "ext_filter_module", source: "mod_ext_filter.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::FindFilter(find)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ExtFilterOptions", Allowed::SECTION, Iterate(set_option), "NoLogStderr", "valid options: LogStderr, NoLogStderr").differs("What a program complains of is always logged."),
    row("ExtFilterDefine", Allowed::GLOBAL, Raw(define), "", "Define an external filter").differs("Filters for the bodies of requests (`mode=input`) can be defined, and are never used."),
];

settings! {
    /// The module's settings of a server.
    pub struct ExtFilterServer {
        filters: Keyed<String, Arc<External>>,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct ExtFilterDir {
        /// `Onfail=remove`: without the filter where its program cannot be started.
        removes: Setting<bool>,
    }
}

/// A filter that is a program.
#[derive(Clone, Debug, Default)]
struct External {
    name: String,
    program: Vec<String>,
    is_input: bool,
    rank: u8,
    in_type: Option<String>,
    out_type: Option<String>,
    keeps_length: bool,
    enabled_by: Option<String>,
    disabled_by: Option<String>,
}

fn set_option(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    match word.to_ascii_lowercase().as_str() {
        "logstderr" | "nologstderr" => Ok(()),
        "onfail=remove" => cmd.set(|d: &mut ExtFilterDir| &mut d.removes, true),
        "onfail=abort" => cmd.set(|d: &mut ExtFilterDir| &mut d.removes, false),
        _ => Err(format!("Invalid ExtFilterOptions option: {word}")),
    }
}

fn define(cmd: &mut Cmd<'_>, rest: &str) -> Outcome {
    let (name, mut rest) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
    if name.is_empty() {
        return Err("Filter name not found".into());
    }
    let name = name.to_ascii_lowercase();
    if cmd.server.get::<ExtFilterServer>().filters.get(name.as_str()).is_some() {
        return Err(format!("ExtFilter {name} is already defined"));
    }
    let mut filter = External { name: name.clone(), rank: Rank::RESOURCE.0, ..External::default() };
    while !rest.trim_start().is_empty() {
        rest = rest.trim_start();
        if let Some(command) = strip(rest, "cmd=") {
            let (text, behind) = command_of(command)?;
            filter.program = words(text);
            if filter.program.is_empty() {
                return Err("cmd= parse error".into());
            }
            rest = behind;
            continue;
        }
        let (word, behind) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        rest = behind;
        if word.eq_ignore_ascii_case("preservescontentlength") {
            filter.keeps_length = true;
            continue;
        }
        let Some((key, value)) = word.split_once('=') else { return Err(format!("Unexpected parameter: `{word}'")) };
        let some = || Some(value.to_string());
        match key.to_ascii_lowercase().as_str() {
            "mode" => match value.to_ascii_lowercase().as_str() {
                "output" => filter.is_input = false,
                "input" => filter.is_input = true,
                _ => return Err(format!("Invalid mode: `{value}'")),
            },
            "ftype" => filter.rank = u8::try_from(atoi(value)).unwrap_or(Rank::RESOURCE.0),
            "enableenv" => filter.enabled_by = some(),
            "disableenv" => filter.disabled_by = some(),
            "intype" => filter.in_type = some(),
            "outtype" => filter.out_type = some(),
            _ => return Err(format!("Unexpected parameter: `{word}'")),
        }
    }
    cmd.server_put(|s: &mut ExtFilterServer| &mut s.filters, name, Arc::new(filter))
}

fn strip<'a>(text: &'a str, front: &str) -> Option<&'a str> {
    let start = text.get(..front.len())?;
    start.eq_ignore_ascii_case(front).then(|| &text[front.len()..])
}

/// A command, in quotes or up to a blank, and what stands behind it.
fn command_of(text: &str) -> Result<(&str, &str), String> {
    match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').ok_or_else(|| "Expected cmd= delimiter".into()),
        None if text.is_empty() || text.starts_with([' ', '\t']) => Err("Invalid cmd= parameter".into()),
        None => Ok(text.split_once([' ', '\t']).unwrap_or((text, ""))),
    }
}

fn find(request: &Request, name: &str) -> Option<(Rank, Link)> {
    let filter = request.host::<ExtFilterServer>().filters.get(name.to_ascii_lowercase().as_str())?;
    let filter = filter.clone();
    if filter.is_input {
        return None;
    }
    let rank = Rank(filter.rank);
    Some((rank, Box::new(move |request, body| Box::pin(run(request, body, filter)))))
}

async fn run(request: &mut Request, body: Body, filter: Arc<External>) -> Body {
    let lacks = |name: &String| !request.env.contains(name);
    if filter.enabled_by.as_ref().is_some_and(lacks) || !filter.disabled_by.as_ref().is_none_or(lacks) {
        return body;
    }
    let kind = request.answer.content_type().map(|kind| kind.split(';').next().unwrap_or_default().trim());
    if filter.in_type.as_deref().is_some_and(|wanted| kind != Some(wanted)) {
        return body;
    }
    let removes = request.dir::<ExtFilterDir>().removes.or(false);
    if filter.program.is_empty() {
        return body;
    }
    // What cannot be started leaves the body as it was only where nothing of it was used.
    if removes && !is_there(&filter.program[0]) {
        log_failure(request, &filter.name, "removing");
        return body;
    }
    match exec::filter(request, &filter.program, body).await {
        Ok(made) => {
            if let Some(kind) = &filter.out_type {
                request.answer.set_content_type(kind.clone());
            }
            if !filter.keeps_length {
                request.answer.headers_out.remove("Content-Length");
            }
            made
        }
        Err(()) => {
            log_failure(request, &filter.name, "aborting");
            request.answer.set_status(500);
            Body::Empty
        }
    }
}

fn is_there(program: &str) -> bool {
    server::paths::c_path(program).is_some_and(|path| sys::file::may_access(&path, true).is_ok())
}

fn log_failure(request: &Request, name: &str, what: &str) {
    request.log("ext_filter", Level::Error, format!("AH01467: can't initialise output filter {name}: {what}"));
}

#[cfg(test)]
mod tests {
    #[test]
    fn errors_as_apache_has_them() {
        crate::testing::check(&[
            ("ExtFilterDefine a mode=output cmd=\"/bin/cat -n\" intype=text/plain preservescontentlength", ""),
            ("ExtFilterDefine a cmd=/bin/cat\nExtFilterDefine A cmd=/bin/cat", "ExtFilter a is already defined"),
            ("ExtFilterDefine a mode=odd", "Invalid mode: `odd'"),
            ("ExtFilterDefine a odd", "Unexpected parameter: `odd'"),
            ("<Location />\nExtFilterOptions odd\n</Location>", "Invalid ExtFilterOptions option: odd"),
        ]);
    }
}

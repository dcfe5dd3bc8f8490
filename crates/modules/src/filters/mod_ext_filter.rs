//! Bodies of responses and requests that go through another program: filters defined in the configuration.
//!
//! Apache manual: mod_ext_filter. The program is started and supervised like a script.

use std::io;
use std::sync::Arc;

use conf::directive::Args::{Iterate, Raw};
use conf::values::atoi;
use conf::words::words;
use conf::{
    Allowed, Cmd, Directive, InArgument as _, Keyed, Level, ModuleInfo, Outcome, Refusal, Setting, row, settings,
};
use server::{Body, Hook, InputBody, InputLink, Module, Rank, Request, ResponseLink, Writer};

use crate::generators::exec;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "ext_filter_module", source: "mod_ext_filter.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::FindFilter(find), Hook::FindInputFilter(find_input)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ExtFilterOptions", Allowed::SECTION, Iterate(set_option), "NoLogStderr", "valid options: LogStderr, NoLogStderr").differs("A program's standard error is always logged."),
    row("ExtFilterDefine", Allowed::SERVER, Raw(define), "", "Define an external filter"),
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
        /// `Onfail=remove`: skip the filter if its program cannot be started.
        removes: Setting<bool>,
    }
}

/// `ExtFilterDefine`: a filter that sends bodies through a program.
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
        _ => Err(format!("Invalid ExtFilterOptions option: {word}").into()),
    }
}

fn define(cmd: &mut Cmd<'_>, rest: &str) -> Outcome {
    let (name, mut rest) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
    if name.is_empty() {
        return Err(Refusal::missing("Filter name not found"));
    }
    let name = name.to_ascii_lowercase();
    if cmd.server.get::<ExtFilterServer>().filters.get(name.as_str()).is_some() {
        return Err(Refusal::argument(1, format!("ExtFilter {name} is already defined")));
    }
    let mut filter = External { name: name.clone(), rank: Rank::RESOURCE.0, ..External::default() };
    let mut number = 1;
    while !rest.trim_start().is_empty() {
        rest = rest.trim_start();
        number += 1;
        let refused = |message: String| Err(Refusal::argument(number, message));
        if let Some(command) = strip(rest, "cmd=") {
            let (text, behind) = command_of(command).in_argument(number)?;
            filter.program = words(text);
            if filter.program.is_empty() {
                return refused("cmd= parse error".into());
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
        let Some((key, value)) = word.split_once('=') else {
            return refused(format!("Unexpected parameter: `{word}'"));
        };
        let some = || Some(value.to_string());
        match key.to_ascii_lowercase().as_str() {
            "mode" => match value.to_ascii_lowercase().as_str() {
                "output" => filter.is_input = false,
                "input" => filter.is_input = true,
                _ => return refused(format!("Invalid mode: `{value}'")),
            },
            "ftype" => filter.rank = u8::try_from(atoi(value)).unwrap_or(Rank::RESOURCE.0),
            "enableenv" => filter.enabled_by = some(),
            "disableenv" => filter.disabled_by = some(),
            "intype" => filter.in_type = some(),
            "outtype" => filter.out_type = some(),
            _ => return refused(format!("Unexpected parameter: `{word}'")),
        }
    }
    cmd.server_put(|s: &mut ExtFilterServer| &mut s.filters, name, Arc::new(filter))
}

fn strip<'a>(text: &'a str, front: &str) -> Option<&'a str> {
    let start = text.get(..front.len())?;
    start.eq_ignore_ascii_case(front).then(|| &text[front.len()..])
}

/// A command, in quotes or up to a blank, and the rest.
fn command_of(text: &str) -> Result<(&str, &str), String> {
    match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').ok_or_else(|| "Expected cmd= delimiter".into()),
        None if text.is_empty() || text.starts_with([' ', '\t']) => Err("Invalid cmd= parameter".into()),
        None => Ok(text.split_once([' ', '\t']).unwrap_or((text, ""))),
    }
}

fn find(request: &Request, name: &str) -> Option<(Rank, ResponseLink)> {
    let filter = definition(request, name, false)?;
    Some((Rank(filter.rank), Box::new(move |request, body| Box::pin(run(request, body, filter)))))
}

fn find_input(request: &Request, name: &str) -> Option<(Rank, InputLink)> {
    let filter = definition(request, name, true)?;
    Some((Rank(filter.rank), Box::new(move |request, body| run_input(request, body, filter))))
}

fn definition(request: &Request, name: &str, is_input: bool) -> Option<Arc<External>> {
    let filter = request.host::<ExtFilterServer>().filters.get(name.to_ascii_lowercase().as_str())?;
    (filter.is_input == is_input).then(|| filter.clone())
}

impl External {
    /// Whether the filter applies to a request, and to content of this type.
    fn is_for(&self, request: &Request, kind: Option<&str>) -> bool {
        let has = |name: &String| request.env.contains(name);
        let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim());
        let is_type = |wanted: &str| kind.is_some_and(|kind| kind.eq_ignore_ascii_case(wanted));
        self.enabled_by.as_ref().is_none_or(has)
            && !self.disabled_by.as_ref().is_some_and(has)
            && self.in_type.as_deref().is_none_or(is_type)
            && !self.program.is_empty()
    }

    /// A program that cannot be started leaves the body unchanged only if none of it was used.
    fn is_removed(&self, request: &Request, what: &str) -> bool {
        let removed = request.dir::<ExtFilterDir>().removes.value_or(false) && !is_there(&self.program[0]);
        if removed {
            self.complain(request, what, "removing");
        }
        removed
    }

    fn complain(&self, request: &Request, what: &str, consequence: &str) {
        let text = format!("{what} filter {}: {consequence}", self.name);
        request.log("ext_filter", Level::Error, text);
    }
}

const OUTPUT: &str = "AH01467: can't initialise output";
const INPUT: &str = "AH01470: can't initialise input";

async fn run(request: &mut Request, body: Body, filter: Arc<External>) -> Body {
    request.asks_beyond_head();
    if !filter.is_for(request, request.response.content_type()) || filter.is_removed(request, OUTPUT) {
        return body;
    }
    request.before_programs().await;
    match exec::filter(request, &filter.program, body).await {
        Ok(made) => {
            if let Some(kind) = &filter.out_type {
                request.response.set_content_type(kind.clone());
            }
            if !filter.keeps_length {
                request.response.headers_out.remove("Content-Length");
            }
            made
        }
        Err(gateway::NotStarted) => {
            filter.complain(request, OUTPUT, "aborting");
            request.response.set_status(500);
            Body::Empty
        }
    }
}

/// The program starts when the body is first read.
fn run_input(request: &mut Request, body: InputBody, filter: Arc<External>) -> InputBody {
    let kind = request.header("Content-Type").map(|kind| kind.into_owned());
    if !filter.is_for(request, kind.as_deref()) || filter.is_removed(request, INPUT) {
        return body;
    }
    let speaker = request.stand_in();
    server::written_later(|out| copy(speaker, body, filter, out))
}

async fn copy(mut request: Box<Request>, body: InputBody, filter: Arc<External>, out: Writer) -> io::Result<()> {
    let made = exec::filter(&mut request, &filter.program, Body::Stream(body)).await;
    let Ok(made) = made else {
        filter.complain(&request, INPUT, "aborting");
        return Err(io::Error::other("a program that is a filter cannot be started"));
    };
    let mut made = made.into_stream();
    while let Some(piece) = made.next().await {
        out.write(&piece?).await;
    }
    Ok(())
}

fn is_there(program: &str) -> bool {
    server::paths::c_path(program).is_some_and(|path| sys::file::may_access(&path, true).is_ok())
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

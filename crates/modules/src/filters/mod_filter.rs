//! Filters by condition: `AddOutputFilterByType`, and smart filters which choose among providers.
//!
//! Apache manual: mod_filter.

use std::sync::Arc;

use conf::directive::Args::{Iterate, Raw, Take2, Take12, Take23, Words};
use conf::expr::Expr;
use conf::values::{atoi, one_of};
use conf::words::words;
use conf::{
    Allowed, Cmd, Directive, InArgument as _, Keyed, Level, Merge, ModuleInfo, Origin, Outcome, Refusal, row, settings,
};
use server::module::with_infos;
use server::{Body, Hook, Module, Order, OutputFilter, Rank, Request, ResponseChain, evaluate};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "filter_module", source: "mod_filter.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::InsertFilters(Order::Middle, insert)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("FilterDeclare", Allowed::OPTIONS, Take12(declare), "", "filter-name [filter-type]"),
    row("FilterProvider", Allowed::OPTIONS, Raw(provider), "", "filter-name provider-name match-expression"),
    row("FilterChain", Allowed::OPTIONS, Iterate(chain), "", "list of filter names with optional [+-=!@]"),
    row("FilterTrace", Allowed::CONF, Take2(trace), "", "filter-name debug-level"),
    row("AddOutputFilterByType", Allowed::FILEINFO, Words(by_type), "", "output filter name followed by one or more content-types"),
    row("FilterProtocol", Allowed::OPTIONS, Take23(protocol), "", "filter-name [provider-name] protocol-args"),
];

settings! {
    /// The module's settings of a section.
    pub struct FilterConf {
        /// A filter redeclared in an inner section replaces the outer one of that name.
        smart: Keyed<String, Arc<Smart>>,
        chain: Names,
    }
}

/// `FilterDeclare`, `FilterProvider`: a filter that is one of several others, depending on the request.
#[derive(Clone)]
struct Smart {
    name: String,
    rank: Rank,
    /// The last declared one is asked first.
    providers: Vec<Provider>,
    protocol: Protocol,
    trace: bool,
}

#[derive(Clone)]
struct Provider {
    filter: &'static OutputFilter,
    when: When,
    protocol: Protocol,
}

#[derive(Clone, Debug)]
enum When {
    /// The media type is one of these.
    Types(Vec<String>),
    Expr(Arc<Expr>),
}

/// `FilterProtocol`: a filter's effect on fields that the server would otherwise keep.
#[derive(Clone, Copy, Debug, Default)]
struct Protocol {
    changes: bool,
    changes_length: bool,
    no_ranges: bool,
    no_proxy: bool,
    transforms: bool,
    no_cache: bool,
}

impl std::fmt::Debug for Smart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let providers = self.providers.iter().map(|one| (one.filter.name, &one.when));
        f.debug_map().entries(providers).finish()
    }
}

/// `FilterChain`: names in order; `reset` if nothing is inherited.
#[derive(Clone, Debug, Default)]
struct Names {
    reset: bool,
    names: Vec<String>,
    /// The lines that contributed to it.
    lines: Vec<Origin>,
}

impl Merge for Names {
    fn merge(base: &Self, add: &Self) -> Self {
        if add.reset {
            return add.clone();
        }
        Names {
            reset: base.reset,
            names: [&base.names[..], &add.names[..]].concat(),
            lines: [&base.lines[..], &add.lines[..]].concat(),
        }
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.lines.iter().for_each(see);
    }
}

fn declare(cmd: &mut Cmd<'_>, name: &str, place: Option<&str>) -> Outcome {
    let ranks = [
        ("CONTENT_SET", Rank::CONTENT_SET),
        ("PROTOCOL", Rank::PROTOCOL),
        ("CONNECTION", Rank::CONNECTION),
        ("NETWORK", Rank::NETWORK),
    ];
    let rank = place.and_then(|place| one_of(place, &ranks)).unwrap_or(Rank::RESOURCE);
    let smart =
        Smart { name: name.to_string(), rank, providers: Vec::new(), protocol: Protocol::default(), trace: false };
    cmd.put(|d: &mut FilterConf| &mut d.smart, name.to_string(), Arc::new(smart))
}

/// The filter of that name, declared here if this section has not done so.
fn smart<'a>(cmd: &'a mut Cmd<'_>, name: &str) -> Result<&'a mut Smart, Refusal> {
    if cmd.dir.get::<FilterConf>().smart.get(name).is_none() {
        declare(cmd, name, None)?;
    }
    declared(cmd, name).ok_or_else(|| format!("Undeclared smart filter {name}").into())
}

fn declared<'a>(cmd: &'a mut Cmd<'_>, name: &str) -> Option<&'a mut Smart> {
    let origin = cmd.origin();
    cmd.dir.edit::<FilterConf>().smart.edit(name, &origin).map(Arc::make_mut)
}

/// A filter of a loaded module; smart filters cannot be providers for each other.
fn registered(cmd: &Cmd<'_>, name: &str) -> Result<&'static OutputFilter, String> {
    let modules = with_infos(cmd.context.language.loaded());
    let mut filters = modules.iter().flat_map(|module| module.hooks).filter_map(|hook| match hook {
        Hook::NamedFilter(filter) => Some(*filter),
        _ => None,
    });
    let found = filters.find(|filter| filter.name.eq_ignore_ascii_case(name));
    found.ok_or_else(|| format!("Unknown filter provider {name}"))
}

fn add_provider(cmd: &mut Cmd<'_>, name: &str, provider: &str, when: When) -> Outcome {
    let filter = registered(cmd, provider).in_argument(2)?;
    let provider = Provider { filter, when, protocol: Protocol::default() };
    smart(cmd, name)?.providers.insert(0, provider);
    Ok(())
}

fn provider(cmd: &mut Cmd<'_>, rest: &str) -> Outcome {
    let words = words(rest);
    let [name, provider, condition] = &words[..] else {
        let message = format!("FilterProvider takes three arguments, {}", cmd.row.help);
        return Err(if words.len() > 3 { Refusal::surplus(4, message) } else { Refusal::missing(message) });
    };
    // As in Apache the name is checked first: of two mistakes it is the one reported.
    registered(cmd, provider).in_argument(2)?;
    let expr = Expr::parse_with(condition, cmd.expr_options()).map_err(|error| {
        Refusal::expression(3, 0, &error, format!("Error parsing FilterProvider expression:{error}"))
    })?;
    add_provider(cmd, name, provider, When::Expr(Arc::new(expr)))
}

fn by_type(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    const FEW: &str = "AddOutputFilterByType requires at least two arguments";
    let [names, types @ ..] = words else { return Err(Refusal::missing(FEW)) };
    if types.is_empty() {
        return Err(Refusal::missing(FEW));
    }
    for name in names.split(';').filter(|name| !name.is_empty()) {
        let smart = format!("BYTYPE:{name}");
        registered(cmd, name).in_argument(1)?;
        if cmd.dir.get::<FilterConf>().smart.get(&smart).is_none() {
            // Not recorded as a line of the chain: the effect of this line is in the provider, and lost with it.
            cmd.dir.edit::<FilterConf>().chain.names.push(smart.clone());
        }
        add_provider(cmd, &smart, name, When::Types(types.to_vec()))?;
    }
    Ok(())
}

fn chain(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    let origin = cmd.origin();
    let chain = &mut cmd.dir.edit::<FilterConf>().chain;
    if word.starts_with(['!', '=']) {
        *chain = Names { reset: true, ..Names::default() };
    }
    chain.lines.push(origin);
    let (sign, name) = match word.chars().next() {
        Some(sign @ ('+' | '@' | '-' | '!' | '=')) => (sign, &word[1..]),
        _ => ('+', word),
    };
    match sign {
        '@' => chain.names.insert(0, name.to_string()),
        '-' => chain.names.retain(|have| !have.eq_ignore_ascii_case(name)),
        '!' => {}
        _ => chain.names.push(name.to_string()),
    }
    Ok(())
}

fn trace(cmd: &mut Cmd<'_>, name: &str, level: &str) -> Outcome {
    let on = atoi(level) == 1;
    let smart = declared(cmd, name).ok_or_else(|| format!("Undeclared smart filter {name}")).in_argument(1)?;
    smart.trace = on;
    Ok(())
}

fn protocol(cmd: &mut Cmd<'_>, name: &str, second: &str, third: Option<&str>) -> Outcome {
    let smart = declared(cmd, name).ok_or("FilterProtocol: No such filter")?;
    let (field, text) = match third {
        None => (&mut smart.protocol, second),
        Some(text) => {
            let provider = smart.providers.iter_mut().find(|one| one.filter.name.eq_ignore_ascii_case(second));
            (&mut provider.ok_or("FilterProtocol: No such provider for this filter")?.protocol, text)
        }
    };
    *field = Protocol::default();
    for word in text.split([';', ',', ' ', '\t']) {
        match word.to_ascii_lowercase().as_str() {
            "change=yes" => (field.changes, field.changes_length) = (true, true),
            "change=1:1" => field.changes = true,
            "byteranges=no" => field.no_ranges = true,
            "proxy=no" => field.no_proxy = true,
            "proxy=transform" => field.transforms = true,
            "cache=no" => field.no_cache = true,
            _ => {}
        }
    }
    Ok(())
}

/// Whether a smart filter of the chain may be the filter with this name.
pub(crate) fn may_run(request: &Request, name: &str) -> bool {
    let conf = request.dir::<FilterConf>();
    let smart = conf.chain.names.iter().filter_map(|smart| conf.smart.get(smart.as_str()));
    smart.flat_map(|smart| &smart.providers).any(|provider| provider.filter.name == name)
}

/// Puts the smart filters of the chain into the chain of the response.
fn insert(request: &mut Request, links: &mut ResponseChain) {
    let dir = request.dir.slots.clone();
    let conf = dir.get::<FilterConf>();
    let mut range = None;
    for name in &conf.chain.names {
        let Some(smart) = conf.smart.get(name.as_str()) else {
            request.log("filter", Level::Warn, format!("AH01380: Unknown filter {name} not added"));
            continue;
        };
        let smart = smart.clone();
        // Ranges of the unfiltered content are useless; a provider that keeps the length restores them.
        if (smart.protocol.no_ranges || smart.protocol.changes_length) && range.is_none() {
            range = request.header("Range").map(|range| range.into_owned());
            if range.is_some() {
                request.headers_mut().remove("Range");
            }
        }
        let range = range.clone();
        links.add(smart.rank, Box::new(move |request, body| Box::pin(run(request, body, smart, range))));
    }
}

/// Runs a smart filter: the first matching provider does the work.
async fn run(request: &mut Request, body: Body, smart: Arc<Smart>, range: Option<String>) -> Body {
    if request.response.status() != 200 {
        return body;
    }
    if smart.trace && request.logs("filter", Level::Debug) {
        let name = &smart.name;
        request.log("filter", Level::Debug, format!("AH01375: {name}"));
        let length = body.length().map_or_else(|| "unknown".to_string(), |length| length.to_string());
        request.log("filter", Level::Debug, format!("AH01376: {name}: type: {}, length: {length}", kind(&body)));
    }
    if is_barred(request, smart.protocol) {
        return body;
    }
    // Found once: one line of AddOutputFilterByType may be a provider for each of many.
    let media_type = request.response.content_type().map(|text| text.find([';', ' ', '\t']).unwrap_or(text.len()));
    for provider in &smart.providers {
        if fits(request, &provider.when, media_type) && !is_barred(request, provider.protocol) {
            prepare(request, provider.protocol, range);
            return (provider.filter.apply)(request, body).await;
        }
    }
    body
}

fn kind(body: &Body) -> &'static str {
    match body {
        Body::Empty => "EOS",
        Body::Bytes(_) => "HEAP",
        Body::File(_) => "FILE",
        Body::Parts(_) => "BRIGADE",
        Body::Stream(_) => "PIPE",
    }
}

/// `media_type`: the length of the type in the content type.
fn fits(request: &mut Request, when: &When, media_type: Option<usize>) -> bool {
    match when {
        When::Types(types) => {
            let (Some(text), Some(end)) = (request.response.content_type(), media_type) else { return false };
            types.iter().any(|one| *one == text[..end])
        }
        When::Expr(expr) => match evaluate(request, expr) {
            Ok(fits) => fits,
            Err(error) => {
                request.log(
                    "filter",
                    Level::Warn,
                    format!("AH01379: Failed to evaluate provider condition: {error:?}"),
                );
                false
            }
        },
    }
}

/// Whether another server's response must not be changed.
fn is_barred(request: &Request, protocol: Protocol) -> bool {
    let proxied = request.handler_name().is_some_and(|handler| handler.starts_with("proxy-server"));
    let no_transform = || {
        let control = request.response.headers_out.get("Cache-Control").unwrap_or_default();
        control.to_ascii_lowercase().contains("no-transform")
    };
    proxied && (protocol.no_proxy || protocol.transforms && no_transform())
}

/// Changes the fields according to `FilterProtocol`.
fn prepare(request: &mut Request, protocol: Protocol, range: Option<String>) {
    let out = &mut request.response.headers_out;
    if protocol.changes {
        out.remove("Content-MD5");
        out.remove("ETag");
        if protocol.changes_length {
            out.remove("Content-Length");
        }
    }
    if protocol.no_cache {
        out.remove("Last-Modified");
        out.add("Cache-Control", "no-cache");
    }
    if protocol.no_ranges {
        out.set("Accept-Ranges", "none");
    } else if let Some(range) = range {
        request.headers_mut().set("Range", range);
    }
}

#[cfg(test)]
mod tests;

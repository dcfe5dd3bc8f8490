//! Explains how a request would be answered, and why: it goes through all phases, but nothing is sent and no script
//! runs, and a [`Trace`] records what happens. The line in effect is not computed a second time: it is the one that the
//! merged settings hold.

mod verdict;

use std::collections::{HashMap, HashSet};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use conf::directive::find_all;
use conf::{Directive, ModuleInfo, Node, Origin, SettingsMap};
use http::h1::framing::Framing;
use http::{Head, Parse};

use crate::exchange::{self, Received, Running};
use crate::message::body::{BodyError, BodySource, RequestBody};
use crate::message::fields::Fields;
use crate::message::head::RequestHead;
use crate::module::with_infos;
use crate::phases;
use crate::request::{Client, Request};
use crate::settings::core::options::Bits;
use crate::settings::core::{CoreDir, CoreServer};
use crate::settings::section::Section;
use crate::site::server::Server;
use crate::site::vhost::VirtualHost;
use crate::trace::MappedPath;
use crate::transport::endpoint::NoConnection;
use crate::transport::tls::session::Session;

pub use crate::explain::verdict::Verdict;
pub use crate::trace::{AccessLine, Met, Note, Reason, Step, Trace};

/// A hypothetical request.
#[derive(Clone, Debug)]
pub struct Question {
    /// The method of the request, such as `GET`.
    pub method: String,
    /// The path and query, as a client would send it.
    pub target: String,
    /// `Host`, with its port if it should have one; `None`: the client speaks HTTP/1.0, where the field is optional.
    pub host: Option<String>,
    /// Further fields.
    pub fields: Vec<(String, String)>,
    /// Its supposed origin.
    pub client: SocketAddr,
    /// The local address that it supposedly came to.
    pub local: SocketAddr,
}

/// How a hypothetical request was served: each step on its way, and the settings that applied to it.
pub struct Explanation {
    /// The request, at the point where its response would be made.
    pub request: Box<Request>,
    /// The steps on the way.
    pub steps: Vec<Step>,
    /// How many virtual hosts shared that address.
    pub candidates: usize,
    /// Whether the chosen host knows the requested name.
    pub named: bool,
    /// The module that makes the response, if one does.
    pub handler: Option<&'static str>,
    /// The requested path, and those it was redirected to inside the server, such as an error document's.
    pub paths: Vec<Settings>,
    /// The response would require waiting, for instance for a script: it was not begun.
    pub waits: bool,
    /// What the client gets, and why.
    pub verdict: Verdict,
}

/// The settings of a path.
pub struct Settings {
    /// The path, decoded, that these settings apply to.
    pub path: String,
    /// The parts of its settings in order of precedence, and conditional sections that were skipped.
    pub layers: Vec<ExplainedLayer>,
    /// The combined `Options` of all layers.
    pub options: Bits,
}

/// A part of the configuration: the server level, a section, or an `.htaccess` file.
#[derive(Clone)]
pub struct ExplainedLayer {
    /// `server level`, the line of a section, or the path of an `.htaccess` file.
    pub title: String,
    /// Its first line; `None` if it is not a section.
    pub origin: Option<Origin>,
    /// Why it was skipped, if it was.
    pub unmet: Option<&'static str>,
    /// Its lines, without those of inner sections that are layers of their own.
    pub lines: Vec<ExplainedLine>,
}

/// A directive of a layer, and whether it has an effect there.
#[derive(Clone)]
pub struct ExplainedLine {
    /// The row of the directive in its module's table.
    pub row: &'static Directive,
    /// The module that owns the directive.
    pub module: &'static ModuleInfo,
    /// The text after the name, as written.
    pub args: String,
    /// The sections around it that have no settings of their own (`<Limit GET>`), with a blank after each; mostly
    /// empty.
    pub within: String,
    /// The file and line where it stands.
    pub origin: Origin,
    /// Whether it applies, and why not.
    pub fate: Fate,
}

/// The effect of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The line applies.
    Holds,
    /// Another line applies instead, of the same directive or of one that writes to the same place.
    Lost,
    /// No setting comes from this line: the directive has no effect, or has already had it.
    Silent,
    /// In a section that was skipped.
    Unmet,
}

/// A request that is refused before its virtual host or any module sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The status.
    pub status: u16,
    /// Why.
    pub why: &'static str,
}

/// Explains requests to a server.
#[derive(Clone, Copy)]
pub struct Explainer {
    running: Running,
}

impl std::fmt::Debug for Explainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Explainer").finish_non_exhaustive()
    }
}

impl Explainer {
    /// For a server that lives as long as the process, as what its modules do for a request does then, too.
    pub fn new(server: &'static Server) -> Self {
        let hooks = Box::leak(Box::new(phases::hooks(&with_infos(server.infos()))));
        Self { running: Running { server, hooks } }
    }

    /// Explains a request.
    pub fn explain(self, question: &Question) -> Result<Explanation, Refused> {
        explain(self.running, question)
    }
}

fn explain(running: Running, question: &Question) -> Result<Explanation, Refused> {
    let server = running.server;
    let mut request = begin(running, question)?;
    let mut trace = Trace::default();
    let is_reached = trace.is_reached.clone();
    trace.note(Step::Path(request.data.unparsed_uri().into_owned(), "the request"));
    request.trace = Some(Box::new(trace));
    let waits = before_the_response(phases::process(&mut request), &is_reached).is_none();
    let mut trace = request.trace.take().unwrap_or_default();
    trace.hear();
    let last = MappedPath {
        path: request.data.uri.clone(),
        layers: std::mem::take(&mut trace.layers),
        settings: trace.cut_off.take().unwrap_or_else(|| request.dir.clone()),
    };
    let paths = trace.before.iter().chain([&last]).map(|mapped| settings(server, request.vhost, mapped)).collect();
    let handler = trace.handler();
    let verdict = verdict::of(&request, &trace.steps, waits.then_some(handler));
    Ok(Explanation {
        verdict,
        candidates: server.by_name.candidates(question.local),
        named: server.by_name.choose(question.local, request.data.hostname.as_deref()).1,
        handler,
        steps: trace.steps,
        paths,
        waits,
        request,
    })
}

/// So long it may take to find out what a response depends on, such as the client's name.
const WAIT_MAX: Duration = Duration::from_secs(8);

/// Waits for everything before the response. `None`: whoever makes that would have to be waited for and was not asked to, or the
/// time is over.
fn before_the_response<T>(work: impl Future<Output = T>, is_reached: &AtomicBool) -> Option<T> {
    let mut work = pin!(work);
    let before = poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if is_reached.load(Ordering::Relaxed) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    let limited = runtime::executor::timeout(WAIT_MAX, before);
    sys::block_on::block_on(limited, || ()).ok().and_then(Result::ok).flatten()
}

fn settings(server: &Server, vhost: &VirtualHost, mapped: &MappedPath) -> Settings {
    let mut layers = layers(server, vhost, &mapped.layers);
    let dir = &mapped.settings.slots;
    judge(layers.iter_mut().flat_map(|layer| &mut layer.lines), &[&vhost.settings, dir]);
    Settings { path: mapped.path.clone(), layers, options: dir.get::<CoreDir>().options.0.effective() }
}

fn begin(running: Running, question: &Question) -> Result<Box<Request>, Refused> {
    let Running { server, hooks } = running;
    let refused = |(status, why): (u16, &'static str)| Refused { status, why };
    let version = if question.host.is_some() { "1.1" } else { "1.0" };
    let mut text = format!("{} {} HTTP/{version}\r\n", question.method, question.target);
    let host = question.host.iter().map(|host| ("Host", host.as_str()));
    let fields = question.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in host.chain(fields) {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    let bytes = http::text::to_bytes(&text).into_owned();
    let mut head = Head::default();
    match Head::parse(&bytes, &server.main().plan.limits, &mut head) {
        Ok(Parse::Complete { .. }) => {}
        Ok(Parse::Partial) => return Err(refused((400, "it is an incomplete request"))),
        Err(error) => return Err(refused((error.status(), error.reason()))),
    }
    let framing = Framing::of(&head, &bytes).map_err(|error| refused((error.status(), error.reason())))?;
    let host = server.host_at(question.local, None).0;
    let is_encrypted = hooks.encryption.is_some_and(|encryption| (encryption.is_expected)(host));
    let session = is_encrypted.then(|| Session::usual(host.index, question.host.as_deref()));
    let client = Client::new(question.client, Arc::new(NoConnection { local: question.local, session }));
    let received = Received::whole(RequestHead::received(bytes, head));
    let (mut request, refusal) = exchange::request(running, &Arc::new(client), received);
    if let Some(refusal) = refusal {
        return Err(refused((refusal.status(request.data.head.version()), refusal.reason())));
    }
    if framing.has_body() {
        request.body = RequestBody::new(Box::new(Promised(framing)));
    }
    Ok(request)
}

/// An announced body that never comes.
struct Promised(Framing);

impl BodySource for Promised {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        Poll::Ready(Err(BodyError::Closed))
    }

    fn length(&self) -> Option<u64> {
        match self.0 {
            Framing::Length(length) => Some(length),
            Framing::None => Some(0),
            Framing::Chunked => None,
        }
    }

    fn is_done(&self) -> bool {
        false
    }

    fn trailers(&self) -> Fields {
        Fields::default()
    }
}

/// All parts of the request's settings.
fn layers(server: &Server, vhost: &VirtualHost, met: &[Met]) -> Vec<ExplainedLayer> {
    let infos = server.infos();
    let files = met.iter().filter_map(|met| match met {
        Met::File(_, nodes) => Some(&nodes[..]),
        Met::Section(_) | Met::Unmet(..) => None,
    });
    let texts: Vec<&[Node]> = std::iter::once(&server.tree[..]).chain(files).collect();
    let section = |origin: &Origin| {
        let node = texts.iter().find_map(|nodes| find(nodes, origin))?;
        let children = node.children.as_deref().unwrap_or_default();
        Some(layer(node.to_string(), Some(origin.clone()), children, infos))
    };
    let mut layers = vec![layer("server level".into(), None, &server.tree, infos)];
    layers.extend(vhost.origin.as_ref().and_then(section));
    layers.extend(met.iter().filter_map(|met| match met {
        Met::File(path, nodes) => Some(layer(path.clone(), None, nodes, infos)),
        Met::Section(origin) => section(origin),
        Met::Unmet(origin, why) => section(origin).map(|layer| layer.passed_over(why)),
    }));
    layers
}

/// The section that begins at a line.
fn find<'a>(nodes: &'a [Node], origin: &Origin) -> Option<&'a Node> {
    nodes.iter().filter(|node| node.is_section()).find_map(|node| {
        if node.origin == *origin { Some(node) } else { find(node.children.as_deref().unwrap_or_default(), origin) }
    })
}

fn layer(title: String, origin: Option<Origin>, nodes: &[Node], infos: &[&'static ModuleInfo]) -> ExplainedLayer {
    let mut lines = Vec::new();
    gather(nodes, infos, "", &mut lines);
    ExplainedLayer { title, origin, unmet: None, lines }
}

impl ExplainedLayer {
    fn passed_over(mut self, why: &'static str) -> ExplainedLayer {
        self.unmet = Some(why);
        self.lines.iter_mut().for_each(|line| line.fate = Fate::Unmet);
        self
    }
}

/// Sections that only restrict or combine their lines.
const TRANSPARENT: [&str; 5] = ["<Limit", "<LimitExcept", "<RequireAll", "<RequireAny", "<RequireNone"];

fn is_transparent(node: &Node) -> bool {
    TRANSPARENT.iter().any(|name| node.name.eq_ignore_ascii_case(name))
}

fn gather(nodes: &[Node], infos: &[&'static ModuleInfo], within: &str, lines: &mut Vec<ExplainedLine>) {
    for node in nodes {
        if let Some(children) = &node.children {
            if is_transparent(node) {
                gather(children, infos, &format!("{within}{node} "), lines);
            }
            continue;
        }
        let known = find_all(infos, &node.name).next();
        lines.extend(known.map(|(module, row)| ExplainedLine {
            row,
            module,
            args: node.args.clone(),
            within: within.to_string(),
            origin: node.origin.clone(),
            fate: Fate::Silent,
        }));
    }
}

/// The whole configuration, level by level in file order: the lines outside sections, and those of each section. A line
/// only loses to another one of the same level.
pub fn levels(server: &Server) -> Vec<ExplainedLayer> {
    let main = server.main();
    let mut settings: HashMap<Origin, Vec<&SettingsMap>> = HashMap::new();
    for vhost in &server.hosts {
        if let Some(origin) = &vhost.origin {
            settings.insert(origin.clone(), vec![&vhost.settings, &vhost.base.slots]);
        }
        let core = vhost.settings.get::<CoreServer>();
        let top = core.directories.iter().chain(core.locations.iter());
        top.for_each(|section| section_settings(section, &mut settings));
        inner_settings(&vhost.base.slots, &mut settings);
    }
    let mut levels = vec![layer("server level".into(), None, &server.tree, server.infos())];
    judge(levels[0].lines.iter_mut(), &[&main.settings, &main.base.slots]);
    inner_levels(&server.tree, "", server, &settings, &mut levels);
    levels
}

fn section_settings<'a>(section: &'a Section, settings: &mut HashMap<Origin, Vec<&'a SettingsMap>>) {
    if settings.insert(section.origin.clone(), vec![&section.layer.slots]).is_none() {
        inner_settings(&section.layer.slots, settings);
    }
}

fn inner_settings<'a>(slots: &'a SettingsMap, settings: &mut HashMap<Origin, Vec<&'a SettingsMap>>) {
    let core = slots.get::<CoreDir>();
    core.files.iter().chain(core.ifs.iter()).for_each(|section| section_settings(section, settings));
}

fn inner_levels(
    nodes: &[Node],
    around: &str,
    server: &Server,
    settings: &HashMap<Origin, Vec<&SettingsMap>>,
    levels: &mut Vec<ExplainedLayer>,
) {
    for node in nodes {
        let Some(children) = &node.children else { continue };
        if is_transparent(node) {
            inner_levels(children, around, server, settings, levels);
            continue;
        }
        let title = format!("{around}{node}");
        let mut level = layer(title.clone(), Some(node.origin.clone()), children, server.infos());
        match settings.get(&node.origin) {
            Some(settings) => judge(level.lines.iter_mut(), settings),
            // The module stores its section's content in its own way.
            None => level.lines.iter_mut().for_each(|line| line.fate = Fate::Holds),
        }
        levels.push(level);
        inner_levels(children, &format!("{title} "), server, settings, levels);
    }
}

/// Directives whose lines also replace those of other names.
const FAMILIES: [&[&str]; 11] = [
    &["SetEnv", "UnsetEnv", "PassEnv"],
    &["order", "allow", "deny", "Satisfy"],
    &["IndexIgnore", "IndexIgnoreReset"],
    &["CustomLog", "TransferLog"],
    &["AddCharset", "RemoveCharset"],
    &["AddEncoding", "RemoveEncoding"],
    &["AddHandler", "RemoveHandler"],
    &["AddInputFilter", "RemoveInputFilter"],
    &["AddLanguage", "RemoveLanguage"],
    &["AddOutputFilter", "RemoveOutputFilter"],
    &["AddType", "RemoveType"],
];

/// One name for all directives that write to the same place.
fn family(name: &'static str) -> &'static str {
    FAMILIES.iter().find(|names| names.contains(&name)).map_or(name, |names| names[0])
}

/// Finds the lines that apply: those that the settings still hold.
fn judge<'a>(lines: impl Iterator<Item = &'a mut ExplainedLine>, settings: &[&SettingsMap]) {
    let mut held: HashSet<Origin> = HashSet::new();
    for slots in settings {
        slots.origins(&mut |origin| {
            held.insert(origin.clone());
        });
    }
    let mut lines: Vec<&mut ExplainedLine> = lines.collect();
    let mut counted: HashSet<&str> = HashSet::new();
    for line in lines.iter_mut().filter(|line| held.contains(&line.origin)) {
        line.fate = Fate::Holds;
        counted.insert(family(line.row.name));
    }
    for line in lines.iter_mut().filter(|line| line.fate == Fate::Silent && counted.contains(family(line.row.name))) {
        line.fate = Fate::Lost;
    }
}

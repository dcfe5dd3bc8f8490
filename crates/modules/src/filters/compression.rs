//! What the modules that compress responses have in common: when they compress, which fields change, and what they note.

use conf::{Level, Merge, Origin, Setting};
use http::conditional::weak_match;
use server::fields::add_vary;
use server::{Body, Request};

use super::mod_deflate::coding::{Coder, Coding, Complain, Tell};

/// The change of a changed body's entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlterEtag {
    AddSuffix,
    NoChange,
    Remove,
}

impl AlterEtag {
    /// The words of `DeflateAlterETag` and the like.
    pub(super) const NAMES: [(&str, AlterEtag); 3] =
        [("AddSuffix", AlterEtag::AddSuffix), ("NoChange", AlterEtag::NoChange), ("Remove", AlterEtag::Remove)];
}

/// The names of the notes about sizes (`DeflateFilterNote` and the like).
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    ratio: Setting<String>,
    input: Setting<String>,
    output: Setting<String>,
}

impl Notes {
    /// Applies the words of a line: a kind and a name, or a name for the ratio. `Err` is an unknown kind.
    pub(super) fn set<'w>(&mut self, first: &'w str, second: Option<&str>, origin: &Origin) -> Result<(), &'w str> {
        let (kind, name) = second.map_or(("ratio", first), |second| (first, second));
        let field = match kind.to_ascii_lowercase().as_str() {
            "ratio" => &mut self.ratio,
            "input" => &mut self.input,
            "output" => &mut self.output,
            _ => return Err(kind),
        };
        field.set(name.to_string(), origin);
        Ok(())
    }

    /// Makes the notes of a response from its sizes before and after.
    pub(super) fn tell(&self) -> Tell {
        let names = [&self.input, &self.output, &self.ratio].map(|name| name.get().cloned());
        Box::new(move |taken, made| {
            let or_dash = |number: u64| if number > 0 { number.to_string() } else { "-".into() };
            let ratio = (made * 100).checked_div(taken).map_or("-".into(), |ratio| ratio.to_string());
            let values = [or_dash(taken), or_dash(made), ratio];
            names.clone().into_iter().zip(values).filter_map(|(name, value)| Some((name?, value))).collect()
        })
    }
}

impl Merge for Notes {
    fn merge(base: &Self, add: &Self) -> Self {
        Notes {
            ratio: Merge::merge(&base.ratio, &add.ratio),
            input: Merge::merge(&base.input, &add.input),
            output: Merge::merge(&base.output, &add.output),
        }
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        for name in [&self.ratio, &self.input, &self.output] {
            name.origins(see);
        }
    }
}

/// Why a response must not be compressed for any client.
pub(super) fn unfit(request: &Request, unless: &'static str) -> Option<&'static str> {
    if request.is_subrequest() {
        return Some("subrequest");
    }
    if request.response.status() == 204 {
        return Some("no content");
    }
    if request.env.contains(unless) {
        return Some(unless);
    }
    if request.response.headers_out.contains("Content-Range") {
        return Some("content-range");
    }
    let fields = [&request.response.headers_out, &request.response.err_headers_out]
        .map(|fields| fields.joined("Content-Encoding"));
    let mut encodings = fields.into_iter().flatten().chain(request.response.content_encoding.clone());
    let is_coded = |list: String| {
        list.split(',').map(str::trim).any(|one| !matches!(one, "" | "identity" | "7bit" | "8bit" | "binary"))
    };
    encodings.any(is_coded).then_some("content-encoding already set")
}

/// Whether a coding is accepted by name; as in Apache `*` does not count.
pub(super) fn accepts(accept: &str, coding: &str) -> bool {
    let is_it = |name: &[u8]| name.eq_ignore_ascii_case(coding.as_bytes());
    http::accept::preferences(accept.as_bytes()).find(|one| is_it(one.value)).is_some_and(|one| one.quality > 0)
}

/// Changes the fields that described the original body. `true`: the client already has the changed one, and the response
/// is 304.
pub(super) fn changed(request: &mut Request, etag: AlterEtag, suffix: &str) -> bool {
    for name in ["Content-Length", "Content-MD5"] {
        request.response.headers_out.remove(name);
        request.response.err_headers_out.remove(name);
    }
    let Some(tag) = request.response.headers_out.get("ETag") else { return false };
    match etag {
        AlterEtag::NoChange => return false,
        AlterEtag::Remove => {
            request.response.headers_out.remove("ETag");
            return false;
        }
        AlterEtag::AddSuffix => {}
    }
    let Some(open) = tag.strip_suffix('"').filter(|open| !open.is_empty()) else { return false };
    let tag = format!("{open}-{suffix}\"");
    request.response.headers_out.set("ETag", &*tag);
    let asks = request.response.status() == 200
        && !request.response.no_local_copy
        && matches!(&*request.data.method, "GET" | "HEAD");
    let known = asks
        .then(|| request.header_joined("If-None-Match"))
        .flatten()
        .is_some_and(|list| list.split(',').any(|have| weak_match(have.trim().as_bytes(), tag.as_bytes())));
    if known {
        request.response.set_status(304);
    }
    known
}

/// The decision about a response that a module may compress.
pub(super) enum Choice {
    /// The client gets it without compression.
    AsIs,
    /// The client has the compressed form in its cache: 304.
    Known,
    /// Compressed, with the corresponding fields.
    Coded,
}

/// Decides whether this client gets a response in a coding that its module always offers. `unless`: the variable that
/// forbids it.
pub(super) fn choose(
    request: &mut Request,
    module: &'static str,
    unless: &'static str,
    coding: &'static str,
    etag: AlterEtag,
) -> Choice {
    if let Some(reason) = unfit(request, unless) {
        request.log(module, Level::Trace1, format!("Not compressing ({reason})"));
        return Choice::AsIs;
    }
    // Set even if nothing is compressed: another client might get a different response.
    add_vary(&mut request.response.headers_out, "Accept-Encoding");
    if !request.header_joined("Accept-Encoding").is_some_and(|accept| accepts(&accept, coding)) {
        return Choice::AsIs;
    }
    request.response.content_encoding = None;
    request.response.headers_out.set("Content-Encoding", coding);
    match changed(request, etag, coding) {
        true => Choice::Known,
        false => Choice::Coded,
    }
}

/// Sends a body through a coder: as in Apache, one that fits into a single buffer is complete at once and has a length.
pub(super) async fn code(
    request: &mut Request,
    module: &'static str,
    body: Body,
    coder: Box<dyn Coder>,
    size: usize,
    tell: Tell,
) -> Body {
    let coding = Coding::new(body.into_stream(), coder, size, tell, complain(request, module));
    let mut coding = coding.flushing(request.response.flushes());
    match coding.start().await {
        Some(all) => {
            for (name, value) in server::BodyStream::notes(&coding) {
                request.notes.set(name, value);
            }
            Body::Bytes(all)
        }
        None => Body::Stream(Box::new(coding)),
    }
}

/// Writes to the error log, when the request may no longer be available.
fn complain(request: &Request, module: &'static str) -> Complain {
    let (server, client) = (request.vhost, request.client().peer);
    let is_on = !request.is_hypothetical() && request.logs(module, Level::Warn);
    Box::new(move |error| {
        if is_on {
            server.error_log.write(module, Level::Warn, &format!("[client {client}] {error}"));
        }
    })
}

//! From a request's path to the URL of a backend.

use conf::pattern::{Captures, substitute};
use conf::{Level, Origin};
use http::text::to_bytes;
use server::{Flow, MapUndecoded, NOCANON, NOENCODE, Request, TO_BACKEND};

use super::forward;
use super::interpolate::interpolated;
use super::scheme::Scheme;
use super::schemes::scheme;
use super::servlet;
use super::settings::{Mapping, Matcher, Pass, ProxyDir, ProxyServer};
use super::target::Target;
use crate::mappers::mod_alias::matched;

/// The note with the path of the socket.
pub(super) const SOCKET: &str = "uds_path";

/// `ProxyPass`: first that of the section, then those of the server in order.
pub(super) fn translate(request: &mut Request) -> Flow {
    if request.data.forward {
        request.mapped.handler = Some("proxy-server".into());
        return Flow::Ok;
    }
    if !request.data.uri.starts_with('/') {
        return Flow::Declined;
    }
    map_by(request, |pass| pass.mapping.is_none())
}

/// `ProxyPass` with `mapping`, before the path is decoded.
pub(super) static UNDECODED: MapUndecoded = MapUndecoded {
    is_wanted: |request| request.host::<ProxyServer>().maps_undecoded() && !request.data.forward,
    map: |request| map_by(request, |pass| pass.mapping.is_some()),
};

/// Maps the request by the first of these lines that applies.
fn map_by(request: &mut Request, is_one: fn(&Pass) -> bool) -> Flow {
    // Apache manual, mod_proxy, "ProxyPass".
    if request.env.contains("no-proxy") {
        return Flow::Declined;
    }
    let (slots, vhost) = (request.dir.slots.clone(), request.vhost);
    let (dir, server) = (slots.get::<ProxyDir>(), vhost.settings.get::<ProxyServer>());
    if let (Some(pass), Some(origin)) = (dir.pass.get(), dir.pass.origin())
        && is_one(pass)
        && let Some(flow) = pass_on(request, pass, origin)
    {
        return flow;
    }
    // The main server's lines are inherited, unless a virtual host disables that.
    let own_only = vhost.origin.is_some() && !server.inherit();
    if own_only && request.is_hypothetical() {
        note_left_out(request, server, is_one);
    }
    for (pass, origin) in server.passes.entries().iter().filter(|(pass, _)| is_one(pass) && (pass.in_host || !own_only))
    {
        if let Some(flow) = pass_on(request, pass, origin) {
            return flow;
        }
    }
    Flow::Declined
}

/// Notes the line of the main server that would map the request if the virtual host inherited it: in Apache it does.
fn note_left_out(request: &mut Request, server: &ProxyServer, is_one: fn(&Pass) -> bool) {
    let uri = &request.data.uri;
    let applies = |pass: &Pass| match &pass.matcher {
        Matcher::Prefix(prefix) if pass.mapping == Some(Mapping::Servlet) => servlet::matched(uri, prefix).is_some(),
        Matcher::Prefix(prefix) => matched(uri, prefix).is_some(),
        // What cannot be decided is not worth a note.
        Matcher::Pattern(regex) => matches!(regex.captures(uri, &mut Captures::default()), Ok(true)),
    };
    let lines = server.passes.entries();
    if let Some((_, line)) = lines.iter().find(|(pass, _)| is_one(pass) && !pass.in_host && applies(pass)) {
        let text = format!("ProxyPassInherit Off: ProxyPass of the main server ({line}) does not apply");
        request.note_step("proxy", server.inherit.origin(), |_| text);
    }
}

/// Maps the request, if the line applies; `Some`: no other line is tried.
fn pass_on(request: &mut Request, pass: &Pass, origin: &Origin) -> Option<Flow> {
    let mut captures = Captures::default();
    let is_servlet = pass.mapping == Some(Mapping::Servlet);
    let mut path_of_servlet = None;
    let length = match &pass.matcher {
        Matcher::Prefix(prefix) if is_servlet => {
            let (length, path) = servlet::matched(&request.data.uri, prefix)?;
            path_of_servlet = Some(path);
            Some(length)
        }
        Matcher::Prefix(prefix) => Some(matched(&request.data.uri, prefix)?),
        Matcher::Pattern(regex) => match regex.captures(&request.data.uri, &mut captures) {
            Err(why) => return Some(request.undecided("proxy", &why, origin)),
            Ok(false) => return None,
            Ok(true) => None,
        },
    };
    let Some(template) = &pass.url else {
        request.note_step("proxy", Some(origin), |_| "ProxyPass !: not proxied".into());
        return Some(Flow::Declined);
    };
    let template = match pass.interpolate && request.dir::<ProxyDir>().interpolate() {
        true => match interpolated(request, template) {
            Ok(template) => template,
            Err(why) => return Some(request.undecided("proxy", &why, origin)),
        },
        false => template.clone(),
    };
    // The client's original path can replace the decoded one if it matches, too, with the same prefix.
    let sent = pass.nocanon.then(|| request.data.unparsed_uri().into_owned());
    let mut raw = Captures::default();
    let mut length = length;
    let is_meant = match (&sent, &pass.matcher) {
        (None, _) => Ok(false),
        (Some(sent), Matcher::Prefix(prefix)) if is_servlet => {
            let matched = servlet::matched(sent.split('?').next().unwrap_or_default(), prefix);
            length = matched.as_ref().map(|(length, _)| *length).or(length);
            Ok(matched.is_some())
        }
        (Some(sent), Matcher::Prefix(prefix)) => Ok(matched(sent, prefix) == length),
        (Some(sent), Matcher::Pattern(regex)) => regex.captures(sent, &mut raw),
    };
    let sent = match is_meant {
        Ok(is_meant) => sent.filter(|_| is_meant),
        Err(why) => return Some(request.undecided("proxy", &why, origin)),
    };
    let (path, captures) = match &sent {
        Some(sent) => (sent.as_str(), &raw),
        None => (request.data.uri.as_str(), &captures),
    };
    let mut url = String::from(TO_BACKEND);
    match length {
        Some(length) => url.extend([&template, &path[length..]]),
        None => {
            if let Err(why) = substitute(&mut url, &template, path, captures, server::TEXT_MAX) {
                return Some(request.undecided("proxy", &why, origin));
            }
            if url[TO_BACKEND.len()..] == template {
                // The template contains no group: the whole path is appended.
                url.push_str(path);
            }
        }
    }
    if sent.is_some() {
        request.notes.set(NOCANON, "1");
    } else if pass.nocanon {
        let text = "the path that matched ProxyPass is not that of the client, so nocanon does not apply";
        request.log("proxy", Level::Debug, text);
    }
    if pass.mapping.is_some() {
        request.notes.set(NOENCODE, "1");
    }
    if let Some(path) = path_of_servlet {
        // Sections are about the path that the backend sees.
        request.data.uri = path;
    }
    request.mapped.filename = url;
    request.mapped.handler = Some("proxy-server".into());
    request.note_step("proxy", Some(origin), |request| {
        format!("ProxyPass: {}", request.mapped.backend_url().unwrap_or_default())
    });
    Some(Flow::Ok)
}

/// For proxied requests, `<Proxy>` sections apply instead of those about files.
pub(super) fn sections(request: &mut Request) -> Flow {
    let Some(url) = request.mapped.backend_url().map(str::to_string) else { return Flow::Declined };
    let vhost = request.vhost;
    for (section, origin) in vhost.settings.get::<ProxyServer>().sections.entries() {
        let is_met = match section.matcher.is_for(&url) {
            Ok(is_met) => is_met,
            Err(why) => return request.undecided("proxy", &why, origin),
        };
        if is_met {
            request.note_step("proxy", Some(origin), |_| "<Proxy>: its settings apply".into());
            request.enter(&section.layer);
        }
    }
    Flow::Ok
}

/// Escapes the path mapped by `ProxyPass`, and removes the socket from the URL.
pub(super) fn canonical(request: &mut Request) -> Flow {
    let Some(url) = request.mapped.backend_url() else { return Flow::Declined };
    if request.data.forward {
        return forward::check(request);
    }
    let Ok(mut target) = Target::parse(url) else {
        request.log("proxy", Level::Error, format!("AH01059: error parsing URL {url}: it is no URL of a backend"));
        return Flow::Status(400);
    };
    let Some(scheme) = scheme(request, &target.scheme) else { return Flow::Declined };
    if !request.notes.contains(NOCANON) {
        complete(request, &mut target, scheme);
    } else if !scheme.query && target.path.bytes().any(|byte| byte == b'?' || byte < b' ' || byte == 0x7f) {
        let text = format!("AH10414: To be forwarded path contains control characters or '?' ({})", target.path);
        request.log(scheme.module.trim_end_matches("_module"), Level::Error, text);
        return Flow::Status(403);
    }
    canonical_port(&mut target, scheme);
    if !target.path.starts_with('/') {
        target.path.insert(0, '/');
    }
    set(request, &target);
    (scheme.path)(request, &target);
    Flow::Ok
}

/// Escapes the path of a target, unless it was never decoded, and adds the request's query.
pub(super) fn complete(request: &Request, target: &mut Target, scheme: &Scheme) {
    if !request.notes.contains(NOENCODE) {
        target.path = escaped(&target.path);
    }
    if !target.path.starts_with('/') {
        target.path.insert(0, '/');
    }
    add_query(request, target, scheme);
}

/// Adds the request's query to the path of a target.
pub(super) fn add_query(request: &Request, target: &mut Target, scheme: &Scheme) {
    if let Some(args) = request.data.args.as_ref().filter(|_| scheme.query) {
        target.path.extend(["?", args]);
    }
}

/// Omits the protocol's default port.
pub(super) fn canonical_port(target: &mut Target, scheme: &Scheme) {
    target.port = target.port.filter(|port| *port != scheme.port);
}

/// Puts a request's target into its file name and notes.
pub(super) fn set(request: &mut Request, target: &Target) {
    request.mapped.filename = file_name(target);
    if let Some(socket) = &target.socket {
        request.notes.set(SOCKET, socket.clone());
    }
}

/// The file name that stands for a target.
pub(super) fn file_name(target: &Target) -> String {
    format!("{TO_BACKEND}{}", target.url())
}

/// Escapes a path like Apache for backends: letters, digits and ``~$-_.+!*'(),;:@&=/`` stay.
fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in to_bytes(path).iter() {
        match byte.is_ascii_alphanumeric() || b"~$-_.+!*'(),;:@&=/".contains(byte) {
            true => out.push(char::from(*byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

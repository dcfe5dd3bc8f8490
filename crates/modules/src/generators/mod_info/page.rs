//! The texts of the info page.

use std::fmt::Write as _;

use conf::Allowed;
use http::uri::escape_html;
use runtime::scoreboard::{self, Described};
use server::Request;
use server::core::CoreServer;

use super::entry::{Entry, InfoServer};
use super::{config, hooks};

/// A part of the page that a query selects by name.
type Part = fn(&mut String, &Request, &[Entry]);

const PARTS: [(&str, &str, Part); 5] = [
    ("config", "Configuration Files", configuration),
    ("server", "Server Settings", server),
    ("list", "Module List", list),
    ("hooks", "Active Hooks", all_hooks),
    ("providers", "Available Providers", |out, _, entries| hooks::providers(out, entries)),
];

/// The page that the query selects: all of it, a part, or a module.
pub(super) fn html(request: &Request) -> String {
    let entries = Entry::all(request.server);
    let mut out = String::with_capacity(16 * 1024);
    out.push_str(
        "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Transitional//EN\"\n\
         \"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd\">\n\
         <html xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n  <title>Server Information</title>\n</head>\n\
         <body><h1 style=\"text-align: center\">Apache Server Information</h1>\n",
    );
    match request.data.args.as_deref() {
        None => everything(&mut out, request, &entries),
        Some(query) => match PARTS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(query)) {
            Some((.., part)) => part(&mut out, request, &entries),
            None => {
                let named = entries.iter().find(|entry| entry.source.eq_ignore_ascii_case(query));
                named.into_iter().for_each(|entry| module(&mut out, request, entry));
            }
        },
    }
    let signature = request.signature();
    out.push_str(signature.strip_prefix("<hr>\n").unwrap_or(&signature));
    out.push_str("</body></html>\n");
    out
}

fn everything(out: &mut String, request: &Request, entries: &[Entry]) {
    out.push_str("<dl><dt><tt>Subpages:<br />");
    links(out, PARTS.iter().map(|(name, title, _)| (format!("?{name}"), *title)));
    out.push_str("</tt></dt></dl><hr /><dl><dt><tt>Sections:<br />");
    let first = [("modules", "Loaded Modules"), ("server", "Server Settings")].into_iter();
    let sections = first.chain(hooks::sections()).chain([("providers", "Providers")]);
    links(out, sections.map(|(anchor, title)| (format!("#{anchor}"), title)));
    out.push_str("</tt></dt></dl><hr /><h2><a name=\"modules\">Loaded Modules</a></h2><dl><dt><tt>");
    for Entry { source, .. } in entries {
        let _ = write!(out, "<a href=\"#{source}\">{source}</a>, ");
    }
    out.push_str("</tt></dt></dl><hr />");
    server(out, request, entries);
    all_hooks(out, request, entries);
    hooks::providers(out, entries);
    entries.iter().for_each(|entry| module(out, request, entry));
}

fn links<'a>(out: &mut String, links: impl Iterator<Item = (String, &'a str)>) {
    let links: Vec<String> = links.map(|(target, title)| format!("<a href=\"{target}\">{title}</a>")).collect();
    out.push_str(&links.join(", "));
}

fn list(out: &mut String, _: &Request, entries: &[Entry]) {
    out.push_str("<dl><dt>Server Module List</dt>");
    for Entry { source, .. } in entries {
        let _ = write!(out, "<dd>{source}</dd>");
    }
    out.push_str("</dl><hr />");
}

fn configuration(out: &mut String, request: &Request, _: &[Entry]) {
    out.push_str("<dl><dt><strong>Configuration:</strong>\n");
    config::write(out, request.server, |_| true);
    out.push_str("</dl><hr />");
}

fn all_hooks(out: &mut String, request: &Request, _: &[Entry]) {
    hooks::write(out, &server::module::with_infos(request.server.infos()));
}

fn server(out: &mut String, request: &Request, _: &[Entry]) {
    let core = request.host::<CoreServer>();
    let (timeout, keep_alive) = (core.timeout(), core.keep_alive_timeout());
    let mpm = request.server.infos().iter().find_map(|info| info.log_name().strip_prefix("mpm_")).unwrap_or_default();
    let threaded = if matches!(mpm, "worker" | "event") { "yes" } else { "no" };
    let daemons = scoreboard::snapshot(Described::Nobody).processes.len();
    out.push_str("<h2><a name=\"server\">Server Settings</a></h2><dl>");
    let identity = server::identity::get();
    if let Some(identity) = identity {
        let _ = write!(
            out,
            "<dt><strong>Server Version:</strong> <font size=\"+1\"><tt>{}</tt></font></dt>\n\
             <dt><strong>Server Built:</strong> <font size=\"+1\"><tt>{}</tt></font></dt>\n\
             <dt><strong>Module Magic Number:</strong> <tt>{}</tt></dt>\n",
            identity.version, identity.built, identity.magic
        );
    }
    let _ = write!(
        out,
        "<dt><strong>Hostname/port:</strong> <tt>{}:{}</tt></dt>\n\
         <dt><strong>Timeouts:</strong> <tt>connection: {} &nbsp;&nbsp; keep-alive: {}</tt></dt>\
         <dt><strong>MPM Name:</strong> <tt>{mpm}</tt></dt>\n\
         <dt><strong>MPM Information:</strong> <tt>Max Daemons: {daemons} Threaded: {threaded} Forked: yes</tt></dt>\n\
         <dt><strong>Server Architecture:</strong> <tt>{}-bit</tt></dt>\n\
         <dt><strong>Server Root:</strong> <tt>{}</tt></dt>\n",
        escape_html(&request.server_name()),
        request.server_port(),
        timeout.as_secs(),
        keep_alive.as_secs(),
        usize::BITS,
        escape_html(&request.server.language.server_root),
    );
    if let Some(file) = &request.server.file {
        let _ = writeln!(out, "<dt><strong>Config File:</strong> <tt>{}</tt></dt>", escape_html(file));
    }
    if let Some(identity) = identity {
        let _ = write!(
            out,
            "<dt><strong>Server Built With:</strong>\n<tt style=\"white-space: pre;\">\n{}</tt></dt>\n",
            escape_html(&identity.built_with)
        );
    }
    out.push_str("</dl><hr />");
}

fn module(out: &mut String, request: &Request, entry: &Entry) {
    let source = entry.source;
    let handles = if hooks::of_requests(entry).any(|phase| phase == "Content Handlers") { "yes" } else { "none" };
    let _ = write!(
        out,
        "<dl><dt><a name=\"{source}\"><strong>Module Name:</strong></a> <font size=\"+1\"><tt><a href=\"?{source}\">\
         {source}</a></tt></font></dt>\n<dt><strong>Content handlers:</strong> <tt> <em>{handles}</em></tt></dt>\
         <dt><strong>Configuration Phase Participation:</strong>\n"
    );
    names(out, participation(entry).into_iter());
    out.push_str("</dt><dt><strong>Request Phase Participation:</strong>\n");
    names(out, hooks::of_requests(entry));
    out.push_str("</dt>\n<dt><strong>Module Directives:</strong>");
    if entry.directives.is_empty() {
        out.push_str(" <tt>none</tt></dt>");
    } else {
        out.push_str("</dt>");
        for row in &entry.directives {
            let end = if row.name.starts_with('<') { "&gt;" } else { "" };
            let (name, help) = (escape_html(row.name), escape_html(row.help));
            let _ = writeln!(out, "<dd><tt>{name}{end} - <i>{help}</i></tt></dd>");
        }
        out.push_str("<dt><strong>Current Configuration:</strong></dt>\n");
        config::write(out, request.server, |node| entry.has_directive(&node.name));
    }
    if let Some(text) = request.host::<InfoServer>().texts.get(source) {
        // HTML, as the manual says.
        let _ = write!(out, "<dt><strong>Additional Information:</strong>\n</dt><dd>{text}</dd>");
    }
    out.push_str("</dl><hr />\n");
}

/// The kinds of a module's settings, by the contexts of its directives.
fn participation(entry: &Entry) -> Vec<&'static str> {
    let may_stand = |places: Allowed| entry.directives.iter().any(|row| row.allowed.meets(places));
    let mut phases = Vec::new();
    if may_stand(Allowed::IN_SECTION) {
        phases.extend(["Create Directory Config", "Merge Directory Configs"]);
    }
    if may_stand(Allowed::SERVER) {
        phases.extend(["Create Server Config", "Merge Server Configs"]);
    }
    phases
}

fn names<'a>(out: &mut String, names: impl Iterator<Item = &'a str>) {
    let names: Vec<String> = names.map(|name| format!("<tt>{name}</tt>")).collect();
    match names.is_empty() {
        true => out.push_str("<tt> <em>none</em></tt>"),
        false => out.push_str(&names.join(", ")),
    }
}

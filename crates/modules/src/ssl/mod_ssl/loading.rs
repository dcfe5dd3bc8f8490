//! Loads the certificates of all virtual hosts: when a server starts or reloads its configuration, and again while it
//! runs.

use std::sync::Arc;

use conf::Level;
use server::{Server, StartError, VirtualHost};

use super::certificates::{self, Loaded};
use super::context::{self, Context};
use super::pass_phrases::{self, PassPhrases};
use super::published::{Part, Published};
use super::settings::{SslServer, is_expected};
use super::{backends, clients, expiry, pair, stapling};

/// Makes the contexts of all virtual hosts. `Err`: why the configuration cannot be served.
pub(super) fn prepare(server: &Server) -> Result<(), String> {
    if !server.hosts.iter().any(is_expected) {
        return Ok(());
    }
    for host in server.hosts.iter().filter(|host| is_expected(host)) {
        refuse_what_is_missing(host)?;
    }
    let mut all = load(server)?;
    let parts = parts(server, &all);
    let published =
        Published::new(&parts).map_err(|error| format!("{}: memory for certificates", sys::describe(&error)))?;
    let published = Arc::new(published);
    let staples = stapling::memory(server);
    let staples = staples.map_err(|error| format!("{}: memory for OCSP responses", sys::describe(&error)))?;
    let mut clients = Vec::new();
    for (host, loaded) in &mut all {
        clients.push(clients::prepare(host, &mut loaded.notes)?);
    }
    let lists = clients::memory(server.hosts.len(), clients.iter().flatten());
    let lists = lists.map_err(|error| format!("{}: memory for revocation lists", sys::describe(&error)))?;
    for ((host, loaded), mut clients) in all.iter_mut().zip(clients) {
        if let (Some(clients), Some(lists)) = (&mut clients, &lists) {
            clients.follow(lists.clone());
        }
        let clients = clients.map(Arc::new);
        let part = &parts[host.index];
        let certified = pair::from_part(part).ok_or("certificates that were read cannot be read")?;
        let mut notes = std::mem::take(&mut loaded.notes);
        let staples = staples.clone().filter(|_| stapling::is_used(host));
        let pairs = (certified, published.clone());
        let (config, choice) = context::prepare(host, pairs, staples.clone(), clients.as_ref(), &mut notes)?;
        let (files, ends, published) = (std::mem::take(&mut loaded.files), part.ends.clone(), published.clone());
        let context = Context { config, clients, notes, files, ends, published, choice, staples };
        // A partial load by a check may be repeated in full, for a server that starts with this configuration.
        if !loaded.is_partial {
            context::fill(host, context);
        }
    }
    Ok(())
}

/// The command `reload-certificates`: [`reload`](fn@reload), with a failure in the log too.
pub(super) fn reload_on_command(server: &Server, json: bool) -> Result<String, String> {
    if json {
        return Err("reload-certificates: unexpected word '--json'".into());
    }
    reload(server).inspect_err(|why| runtime::log!("ssl", Error, "certificates were not read again: {why}"))
}

/// Reloads the configured certificates, and lets all children of a running server use them from the next handshakes on.
/// Runs in a process that the parent has forked and that may read the files. Returns a message about the result; `Err`:
/// a certificate cannot be used, and none was changed.
fn reload(server: &Server) -> Result<String, String> {
    let all = load(server)?;
    let parts = parts(server, &all);
    let contexts = server.hosts.iter().filter_map(|host| Some((host, context::of(host)?)));
    let hosts = contexts.filter_map(|(host, context)| Some((host, &**context.clients.as_ref()?)));
    let lists = clients::read_again(server.hosts.len(), hosts)?;
    published(server)?.publish(&parts).map_err(must_restart)?;
    let mut text = tell(&parts, all.len());
    if let Some(lists) = lists {
        lists.publish().map_err(must_restart)?;
        text += &format!("{} in effect\n", counted(lists.count, "revocation list"));
    }
    for (host, Loaded { notes, .. }) in &all {
        for (level, note) in notes.iter().filter(|(level, _)| *level <= Level::Warn) {
            host.log("ssl", *level, note);
            text += &format!("{note}\n");
        }
    }
    for one in expiry::all(server) {
        if let Some((_, warning)) = one.warning() {
            text += &format!("certificate {}:{} from {} {warning}\n", one.host, one.index, one.file);
        }
    }
    Ok(text)
}

/// The certificates that a process has published last, so that it need not read them all for each new one.
#[derive(Default)]
pub struct Reloader(Option<(u64, Vec<Part>)>);

impl Reloader {
    /// Reads the certificates anew like [`reload`](fn@reload), where only those of some virtual hosts have changed.
    pub fn reload(&mut self, server: &Server, has_changed: impl Fn(&VirtualHost) -> bool) -> Result<(), String> {
        let published = published(server)?;
        let known = self.0.take().filter(|(number, _)| *number == published.number());
        let (number, parts) = match known {
            Some((seen, mut parts)) => {
                let mut pass_phrases = PassPhrases::default();
                for host in server.hosts.iter().filter(|host| is_expected(host) && has_changed(host)) {
                    parts[host.index] = pair::to_part(&certificates::load(host, &mut pass_phrases)?.pairs);
                }
                (published.publish_after(seen, &parts).map_err(must_restart)?, parts)
            }
            None => (None, Vec::new()),
        };
        let (number, parts) = match number {
            Some(number) => (number, parts),
            // For the first time, or another process has published others meanwhile.
            None => {
                let parts = self::parts(server, &load(server)?);
                (published.publish(&parts).map_err(must_restart)?, parts)
            }
        };
        tell(&parts, server.hosts.iter().filter(|host| is_expected(host)).count());
        self.0 = Some((number, parts));
        Ok(())
    }
}

/// The memory for certificates that replace the initial ones.
fn published(server: &Server) -> Result<&Published, String> {
    let hosts = server.hosts.iter().filter(|host| is_expected(host));
    let mut contexts = hosts.filter_map(|host| context::of(host));
    let context = contexts.next().ok_or("no virtual host has certificates (SSLEngine)")?;
    Ok(&context.published)
}

fn must_restart(why: String) -> String {
    format!("{why}: restart the server gracefully")
}

/// Logs how many certificates are in effect, and returns the line.
fn tell(parts: &[Part], hosts: usize) -> String {
    let count: usize = parts.iter().map(|part| part.ends.len()).sum();
    let (certificates, hosts) = (counted(count, "certificate"), counted(hosts, "virtual host"));
    let text = format!("{certificates} of {hosts} in effect\n");
    runtime::log!("ssl", Notice, "certificates were read again: {}", text.trim_end());
    text
}

/// Writes notes from loading the certificates to the logs of the virtual hosts.
pub(super) fn log_notes(server: &Server) -> Result<(), StartError> {
    pass_phrases::has_started();
    for (level, note) in backends::notes(server) {
        server.main().log("ssl", level, &note);
    }
    for host in &server.hosts {
        if let Some(text) = strange_port(host) {
            server.main().log("ssl", Level::Warn, &text);
        }
        let context = context::of(host);
        for (level, note) in context.into_iter().flat_map(|context| &context.notes) {
            host.log("ssl", *level, note);
        }
    }
    Ok(())
}

/// Warns of a port that is the default of the other scheme.
fn strange_port(host: &VirtualHost) -> Option<String> {
    let name = host.log_name();
    match (is_expected(host), host.port?) {
        (true, 80) => Some(format!("AH01915: Init: ({name}) You configured HTTPS(443) on the standard HTTP(80) port!")),
        (false, 443) => {
            Some(format!("AH01916: Init: ({name}) You configured HTTP(80) on the standard HTTPS(443) port!"))
        }
        _ => None,
    }
}

fn load(server: &Server) -> Result<Vec<(&VirtualHost, Loaded)>, String> {
    let mut pass_phrases = PassPhrases::default();
    let hosts = server.hosts.iter().filter(|host| is_expected(host));
    hosts.map(|host| Ok((host, certificates::load(host, &mut pass_phrases)?))).collect()
}

/// The parts of the virtual hosts, at the index of each host.
fn parts(server: &Server, all: &[(&VirtualHost, Loaded)]) -> Vec<Part> {
    let mut parts = vec![Part::default(); server.hosts.len()];
    for (host, loaded) in all {
        parts[host.index] = pair::to_part(&loaded.pairs);
    }
    parts
}

/// Refuses a virtual host with an unsupported setting that cannot be ignored safely.
fn refuse_what_is_missing(host: &VirtualHost) -> Result<(), String> {
    let server = host.settings.get::<SslServer>();
    let (fips, srp) = (&server.fips, &server.srp_verifier_file);
    if let (true, Some(origin)) = (fips.value_or(false), fips.origin()) {
        return Err(format!("AH01885: Could not enable FIPS mode: SSLFIPS on at {origin} is not supported"));
    }
    match srp.origin() {
        Some(origin) => Err(format!("SSLSRPVerifierFile at {origin}: log-in by SRP is not supported")),
        None => Ok(()),
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

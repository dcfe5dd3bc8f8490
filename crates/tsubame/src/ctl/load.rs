//! `tsubame ctl load`: puts a bundle in the place of a machine's configuration, and the old one back if the server does
//! not serve with it.

mod probe;
mod wish;

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use mpm::settings::MpmSettings;

use self::wish::{What, Wish};
use super::client::{Endpoint, configured, connect, request, restart_at};
use crate::bundles::{Bundle, State, Store, missing, unusable};
use crate::cli::{self, Options};
use crate::config::{self, ConfigSource, Configured};
use crate::diagnosis::explanation;
use crate::diagnosis::preflight;
use crate::style::Style;

/// Runs `tsubame ctl load`. `Ok`: what was done; `Err`: why nothing has changed, or was changed back.
pub(super) fn run(options: &Options, has_socket: bool, words: &[String]) -> Result<String, String> {
    let wish = Wish::parse(words)?;
    if has_socket {
        return Err("load needs the options that the server was started with (-f, -d), and not --socket".into());
    }
    // A pipe may be slow: before the lock.
    let given = match &wish.what {
        What::File(file) => Some(Arc::new(read_bundle(file)?)),
        What::Rollback => None,
    };
    let store = Store::of(&cli::config_file(options));
    let of_store = |error: std::io::Error| format!("{}: {}", store.current().display(), sys::describe(&error));
    let _lock = store.lock().map_err(of_store)?.ok_or("another load is under way")?;
    let before = store.state().map_err(of_store)?;
    let (bundle, version) = match given {
        Some(bundle) => (Some(bundle), None),
        None => {
            let previous = before.previous.clone().ok_or("there is no earlier version")?;
            let bundle = previous.as_ref().map(|version| Bundle::open(&store.directory(version))).transpose()?;
            (bundle.map(Arc::new), Some(previous))
        }
    };
    let next = check(options, bundle.as_ref())?;
    let old = running(options)?;
    let current = match (&bundle, version) {
        (_, Some(version)) => version,
        (None, None) => None,
        (Some(bundle), None) => {
            store.clean().map_err(of_store)?;
            Some(store.unpack(bundle).map_err(of_store)?)
        }
    };
    let change = Change { store: &store, before: &before, wish: &wish, next: &next };
    let previous = if current == before.current { before.previous.clone() } else { Some(before.current.clone()) };
    let after = State { current, previous };
    let done = store.set(&after).map_err(of_store).and_then(|()| change.bring_into_effect(old.as_ref()));
    match done {
        Ok(text) => {
            // What is left takes room, and nothing else.
            let _ = store.clean();
            Ok(text)
        }
        Err(why) => Err(change.back(old.as_ref(), &why)),
    }
}

/// Reads a bundle from a file, or from standard input (`-`).
fn read_bundle(file: &Path) -> Result<Bundle, String> {
    let is_input = file == Path::new("-");
    let place = if is_input { "standard input".into() } else { file.display().to_string() };
    let mut bytes = Vec::new();
    let most = conf::read::TEXT_MAX as u64 + 1;
    let read = match is_input {
        true => std::io::stdin().lock().take(most).read_to_end(&mut bytes),
        false => std::fs::File::open(file).and_then(|file| file.take(most).read_to_end(&mut bytes)),
    };
    read.map_err(|error| format!("{place}: {}", sys::describe(&error)))?;
    Bundle::from_bytes(&bytes).map_err(|why| format!("{place}: {why}"))
}

/// Checks a configuration as this machine reads it, before anything is changed.
fn check(options: &Options, bundle: Option<&Arc<Bundle>>) -> Result<Configured, String> {
    let what = if bundle.is_some() { "the bundle" } else { "the earlier configuration" };
    let refused = |why: &str| format!("{what} cannot be used here, nothing has changed:\n{}", why.trim_end());
    let read = config::read(options, &ConfigSource::Exactly(bundle));
    // First of all: they may be why the configuration cannot be read, which would name only one of them.
    let root = match &read {
        Ok(configured) => &configured.loaded.server.language.server_root,
        Err(failed) => &failed.language.server_root,
    };
    let absent = bundle.map(|bundle| missing(root, &bundle.manifest.references)).unwrap_or_default();
    if !absent.is_empty() {
        return Err(refused(&absent.join("\n")));
    }
    let configured = read.map_err(|failed| {
        refused(&explanation::of(&failed.error, &(&*failed).into(), &options.program, Style::of_errors()))
    })?;
    let server = &configured.loaded.server;
    let children = preflight::can_start(options, &configured).map_err(|why| refused(&why))?;
    let references = bundle.map(|bundle| &*bundle.manifest.references).unwrap_or_default();
    let wrong = unusable(&server.language.server_root, references, children.as_ref());
    let stops = preflight::look(server).stops;
    let all: Vec<String> = wrong.into_iter().chain(stops.iter().map(ToString::to_string)).collect();
    if all.is_empty() { Ok(configured) } else { Err(refused(&all.join("\n"))) }
}

/// The server that runs with the configuration as it is now. `Err`: one that cannot be asked.
fn running(options: &Options) -> Result<Option<Endpoint>, String> {
    let endpoint = configured(options).map_err(|_| "the running server cannot be found, nothing has changed")?;
    let pid = endpoint.pid_file.as_deref().and_then(|file| mpm::pidfile::read(file).ok().flatten());
    match pid.filter(|pid| pid.exists()) {
        None => Ok(None),
        Some(_) => connect(&endpoint.socket).map(|_| Some(endpoint)),
    }
}

/// A change from one version to another.
struct Change<'a> {
    store: &'a Store,
    before: &'a State,
    wish: &'a Wish,
    next: &'a Configured,
}

impl Change<'_> {
    /// Restarts the server, and waits until it serves with the new version. `Err`: why it does not.
    fn bring_into_effect(&self, old: Option<&Endpoint>) -> Result<String, String> {
        let version = &self.next.loaded.server.version;
        let Some(old) = old else {
            return Ok(format!("version {version} is in place: no server runs, the next start uses it\n"));
        };
        self.restart(&[Some(old), self.endpoint().as_ref()])?;
        let endpoint = self.endpoint();
        let now = version_of(endpoint.as_ref().unwrap_or(old))?;
        if now != *version {
            return Err(format!("the server runs version {now}: was it started with another -f or -d?"));
        }
        if let Some(probe) = &self.wish.check {
            probe.wait(&self.next.loaded.server)?;
        }
        Ok(format!("version {version} is in effect\n"))
    }

    /// Puts back what was there before, and returns what to say.
    fn back(&self, old: Option<&Endpoint>, why: &str) -> String {
        let text = format!("{why}\nversion {} was not kept", self.next.loaded.server.version);
        if let Err(error) = self.store.set(self.before) {
            return format!("{text}, and the one before could not be put back: {}", sys::describe(&error));
        }
        if old.is_none() {
            return format!("{text}: the one before is in place");
        }
        match self.restart(&[self.endpoint().as_ref(), old]) {
            Ok(()) => format!("{text}: the one before is in effect again"),
            Err(why) => format!("{text}: the one before is in place, but the server has not restarted:\n{why}"),
        }
    }

    /// Restarts the server gracefully, at the first of these sockets where it listens.
    fn restart(&self, endpoints: &[Option<&Endpoint>]) -> Result<(), String> {
        let done = endpoints.iter().flatten().find_map(|endpoint| restart_at(endpoint, "graceful"));
        done.unwrap_or_else(|| Err("the server cannot be asked".into()))
    }

    /// Where the server listens once the new version is in effect.
    fn endpoint(&self) -> Option<Endpoint> {
        let settings = &self.next.loaded.server.main().settings;
        let pid_file = settings.get::<MpmSettings>().pid_file.get().map(Into::into);
        mpm::control::path(settings).map(|socket| Endpoint { socket, pid_file })
    }
}

/// The version that a server runs.
fn version_of(endpoint: &Endpoint) -> Result<String, String> {
    let words = ["status".to_string(), "--json".to_string()];
    let status: serde_json::Value =
        request(endpoint, &words).and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()))?;
    let version = status["configuration"]["version"].as_str();
    version.map(str::to_string).ok_or_else(|| "the server does not say which version it runs".into())
}

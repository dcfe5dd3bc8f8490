//! The configuration to tune, and copies of it with other settings. The original is never changed.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use super::httpd::{self, Flattener};
use super::nginx;
use super::space::{Candidate, EffectiveSettings, Mpm};
use crate::compare::{Language, Starter};
use crate::experiments::installation::{Installation, root_of};
use crate::experiments::profile::Profile;
use crate::experiments::site::{Account, Site};
use crate::experiments::subject;
use crate::experiments::workload::SMALL;
use crate::machine::error::{Context as _, Error, Result, read_text, write_anew, write_file};
use crate::machine::programs;
use crate::machine::scratch::Scratch;
use crate::tune::advise::decision::fragment;

/// A configuration, as it is.
#[derive(Debug)]
pub(super) struct Base {
    language: Language,
    text: String,
    pub(super) mpm: Mpm,
    /// The effect of its settings.
    pub(super) extent: EffectiveSettings,
    /// The directory of modules, if it loads any.
    modules: Option<PathBuf>,
    /// The directory of the copies.
    directory: PathBuf,
    /// The pid file, which nothing else uses.
    pid: PathBuf,
}

/// The name of copies. No wildcard includes a hidden file, and no other file has this name.
const PRESENT: &str = ".tsubame-lab-tune-present.conf";
const CANDIDATE: &str = ".tsubame-lab-tune-candidate.conf";

impl Base {
    /// Reads a configuration.
    ///
    /// # Errors
    /// The server refuses it, or uses a module that cannot be tuned.
    pub(super) fn read(starter: &Starter, file: &Path) -> Result<Self> {
        let file = std::path::absolute(file).context(|| format!("find {}", file.display()))?;
        starter.check(&file)?;
        let text = read_text(&file)?;
        let directory = starter.scratch().create("configuration")?;
        let pid = starter.scratch().create("running")?.join("pid");
        let language = starter.language();
        match language {
            Language::Nginx => {
                link(file.parent().unwrap_or(Path::new("/")), &directory)?;
                let processes = nginx::number(&text, "worker_processes");
                let settings = [
                    ("worker_processes", processes.or_else(|| Some(automatic(&text)))),
                    ("worker_connections", nginx::number(&text, "worker_connections")),
                ];
                let settings = settings.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
                let extent = EffectiveSettings::of(Mpm::Nginx, &settings.collect());
                Ok(Self { language, text, mpm: Mpm::Nginx, extent, modules: None, directory, pid })
            }
            Language::Httpd => {
                let told = programs::output_of(starter.program(), &["-V", "-f", &file.display().to_string()]);
                let told = told.unwrap_or_default();
                let text = Flattener::new(root_of(&told).unwrap_or("/").into()).flatten(&text);
                let found = httpd::loaded(&text);
                let mpm = found.mpm.or_else(|| mpm_of(&told)).ok_or_else(|| {
                    Error::new(format!(
                        "{} does not say which multi-processing module it runs",
                        starter.program().display()
                    ))
                    .advise("a LoadModule line for one")
                })?;
                let extent = EffectiveSettings::of(mpm, &httpd::settings(&text, mpm));
                Ok(Self { language, text, mpm, extent, modules: found.modules, directory, pid })
            }
        }
    }

    /// A copy with the current settings, or with others. It also differs from the original in lines that would disturb
    /// a running server.
    pub(super) fn write(&self, candidate: Option<Candidate>) -> Result<PathBuf> {
        let path = self.directory.join(if candidate.is_some() { CANDIDATE } else { PRESENT });
        let pid = self.pid.display().to_string();
        let text = match (self.language, candidate) {
            (Language::Nginx, _) => nginx::replaced(&self.text, &pid, candidate.map(|one| [one.children, one.threads])),
            (Language::Httpd, None) => format!("{}PidFile {pid}\n", self.text),
            (Language::Httpd, Some(candidate)) => {
                let lines = fragment(candidate.mpm.name(), &candidate.settings(""));
                let load = (candidate.mpm != self.mpm).then(|| self.load_line(candidate.mpm));
                format!("{}PidFile {pid}\n", httpd::replaced(&self.text, load.as_deref(), &lines))
            }
        };
        write_anew(&path, text)?;
        Ok(path)
    }

    /// Tsubame's modules are built in, and their files are never opened.
    fn load_line(&self, mpm: Mpm) -> String {
        let modules = self.modules.as_deref().unwrap_or(Path::new("modules"));
        let name = mpm.name();
        format!("LoadModule mpm_{name}_module {}/mod_mpm_{name}.so", modules.display())
    }
}

/// nginx resolves includes from the directory of its main file, so everything there is also linked beside the copies.
fn link(from: &Path, to: &Path) -> Result<()> {
    for entry in std::fs::read_dir(from).context(|| format!("read {}", from.display()))?.flatten() {
        if [PRESENT, CANDIDATE].iter().any(|own| entry.file_name() == *own) {
            continue;
        }
        let name = to.join(entry.file_name());
        std::os::unix::fs::symlink(entry.path(), &name).context(|| format!("link {}", name.display()))?;
    }
    Ok(())
}

/// The value of `worker_processes auto`, or the default.
fn automatic(text: &str) -> u64 {
    let is_auto = text.lines().any(|line| line.trim_start().starts_with("worker_processes"));
    if is_auto { std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64) } else { 1 }
}

/// The module in the output of `-V`.
fn mpm_of(told: &str) -> Option<Mpm> {
    Mpm::of(&told.lines().find_map(|line| line.strip_prefix("Server MPM:"))?.trim().to_ascii_lowercase())
}

/// Writes the configuration with which the laboratory measures this server, without any settings of its module, and
/// returns the path to request: for users without a configuration of their own.
pub(super) fn own(starter: &Starter, scratch: &Scratch) -> Result<(PathBuf, String)> {
    let name = starter.program().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (id, file) = match (starter.language(), name.as_str()) {
        (Language::Nginx, _) => ("nginx", "nginx.conf"),
        (_, "apache2" | "httpd") => ("apache-event", "httpd.conf"),
        _ => ("tsubame-event", "httpd.conf"),
    };
    let subject = subject::find(id).ok_or_else(|| Error::new(format!("there is no subject {id}")))?;
    let directory = scratch.create("site")?;
    let account = Account::choose();
    if let Some(account) = &account {
        std::os::unix::fs::chown(&directory, Some(account.uid), Some(account.gid))
            .context(|| format!("give {} to {}", directory.display(), account.user))?;
    }
    let documents = scratch.create("documents")?;
    write_file(documents.join(SMALL.name), SMALL.content())?;
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let site = Site {
        directory: directory.clone(),
        documents,
        addresses: vec![address.context(|| "find a free port".to_owned())?],
        profile: if id == "nginx" { Profile::Bare } else { Profile::Unconfigured },
        close: false,
        script: None,
        memory: None,
        descriptors: 0,
        account,
        identity: None,
        origins: None,
        many: None,
        apache: Installation::find(),
    };
    for file in (subject.recipe)(&site)?.files {
        write_file(directory.join(&file.name), &file.text)?;
    }
    Ok((directory.join(file), format!("/{}", SMALL.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_tells_its_module() {
        assert_eq!(mpm_of("Architecture: 64-bit\nServer MPM:     event\n"), Some(Mpm::Event));
        assert_eq!(mpm_of("Server MPM:     \n"), None);
    }
}

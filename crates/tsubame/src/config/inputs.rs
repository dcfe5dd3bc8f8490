//! What a configuration is read from: the command line, and files of this machine or of a bundle.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use conf::error::Phase;
use conf::{Error, Language, Level, Notice};
use modules::idle;
use server::{Failed, Sources};

use super::envvars;
use super::known::{KNOWN, UNSELECTED};
use crate::bundles::{Bundle, Files, Given, Places, Seen, Store, digest};
use crate::cli::{self, Options};

/// The configuration to read: a file, or a text of our own.
pub(crate) enum ConfigSource<'a> {
    /// The file that the command line names, or the bundle that was loaded in its place.
    File,
    /// That file even if a bundle was loaded, or this bundle in its place.
    Exactly(Option<&'a Arc<Bundle>>),
    /// Name, text and variables.
    Own(&'a str, &'a str, &'a [(&'a str, &'a str)]),
}

/// What a configuration was read from.
pub(crate) struct ReadSources {
    /// What decides about its version.
    pub(crate) given: Given,
    /// The paths of its files, by name.
    pub(crate) paths: BTreeMap<String, String>,
    /// The directories from which names are counted.
    pub(crate) places: Places,
    /// The bundle that it was read from.
    pub(crate) bundle: Option<Arc<Bundle>>,
    /// The directory of that bundle, if it was loaded.
    pub(crate) directory: Option<PathBuf>,
}

/// What a configuration will be read from.
pub(super) struct Inputs<'a> {
    options: &'a Options,
    text: &'a ConfigSource<'a>,
    /// The path of the main file.
    main: String,
    pub(super) files: Arc<Files>,
    bundle: Option<Arc<Bundle>>,
    directory: Option<PathBuf>,
}

impl<'a> Inputs<'a> {
    /// `Err`: a bundle was loaded, and cannot be read.
    pub(super) fn of(options: &'a Options, text: &'a ConfigSource<'a>) -> Result<Inputs<'a>, Box<Failed>> {
        let main = cli::config_file(options);
        let (bundle, directory) = match text {
            ConfigSource::Own(..) | ConfigSource::Exactly(None) => (None, None),
            ConfigSource::Exactly(Some(bundle)) => (Some((*bundle).clone()), None),
            ConfigSource::File => installed(&main).map_err(|why| failed(options, why))?.unzip(),
        };
        let files = Arc::new(Files::new(bundle.clone(), &main, &cli::server_root(options)));
        Ok(Inputs { options, text, main, files, bundle, directory })
    }

    /// Calls `read` with all that there is to read: the defines, and the texts.
    pub(super) fn with<T>(&self, keep_errors: bool, read: impl FnOnce(Language, &Sources<'_>) -> T) -> T {
        let Inputs { options, bundle, .. } = self;
        let root = cli::server_root(options);
        let mut language = Language::new(&KNOWN, &UNSELECTED, &root).with_idle(&idle::MODULES);
        let given = bundle.as_ref().map(|bundle| &bundle.manifest.given);
        for name in options.defines.iter().chain(given.into_iter().flat_map(|given| &given.defines)) {
            language.define(name, None);
        }
        if !matches!(self.text, ConfigSource::Own(..)) {
            envvars::read_beside(options, &self.main);
        }
        let (file, text) = match self.text {
            ConfigSource::File | ConfigSource::Exactly(_) => (Some(self.main.as_str()), None),
            ConfigSource::Own(name, text, variables) => {
                for (name, value) in *variables {
                    language.define(name, Some(value));
                }
                (None, Some((*name, *text)))
            }
        };
        let before = both(given.map(|given| &given.before), &options.before);
        let after = both(given.map(|given| &given.after), &options.after);
        let program = options.program.as_str();
        read(language, &Sources { program, before: &before, file, text, after: &after, keep_errors })
    }

    /// Says that the main file is not read, although the command line names it.
    pub(super) fn notice(&self) -> Option<Notice> {
        let (directory, main) = (self.directory.as_ref()?.display(), &self.main);
        let text = format!(
            "The bundle {directory} takes the place of {main} and of what it includes (tsubame ctl load --rollback)"
        );
        Some(Notice::new("core", Level::Notice, text))
    }

    /// What was read. `root` is `ServerRoot` at the end.
    pub(super) fn read(self, root: &str) -> ReadSources {
        let Inputs { options, text, main, files, bundle, directory } = self;
        let Seen { files, variables } = files.take_seen();
        let places = Places::new(&main, root);
        let paths = files.keys().map(|path| (places.name(path), path.clone())).collect();
        let given = match (&bundle, text) {
            (Some(bundle), _) => bundle.given(),
            (None, ConfigSource::Own(name, text, _)) => Given {
                main: (*name).into(),
                files: [((*name).to_string(), digest(text.as_bytes()))].into(),
                ..Given::default()
            },
            (None, _) => Given {
                main: places.name(&main),
                files: files.into_iter().map(|(path, digest)| (places.name(&path), digest)).collect(),
                defines: options.defines.iter().filter(|name| says_something(name)).cloned().collect(),
                variables,
                before: options.before.clone(),
                after: options.after.clone(),
            },
        };
        ReadSources { given, paths, places, bundle, directory }
    }
}

/// The bundle that was loaded in the place of this main file.
fn installed(main: &str) -> Result<Option<(Arc<Bundle>, PathBuf)>, String> {
    let store = Store::of(main);
    let state = store.state().map_err(|error| format!("{}: {}", store.current().display(), sys::describe(&error)))?;
    let Some(version) = state.current else { return Ok(None) };
    let directory = store.directory(&version);
    Ok(Some((Arc::new(Bundle::open(&directory)?), directory)))
}

fn failed(options: &Options, why: String) -> Box<Failed> {
    Box::new(Failed {
        error: Error::new(Phase::Read, format!("the bundle that was loaded cannot be read: {why}")),
        errors: Vec::new(),
        notices: Vec::new(),
        included: Vec::new(),
        ran: Vec::new(),
        language: Language::new(&KNOWN, &UNSELECTED, &cli::server_root(options)),
        tree: Vec::new(),
        hosts: Vec::new(),
        of_module: false,
    })
}

/// The lines of a bundle, and those of the command line that it lacks.
fn both(bundled: Option<&Vec<String>>, own: &[String]) -> Vec<String> {
    let bundled = bundled.map(Vec::as_slice).unwrap_or_default();
    bundled.iter().chain(own.iter().filter(|line| !bundled.contains(line))).cloned().collect()
}

/// Names for `-D` that say how the program runs, and nothing of what is served.
const NOT_SERVED: [&str; 4] = ["FOREGROUND", "NO_DETACH", "DEBUG", "ONE_PROCESS"];

/// Whether a name that the command line defines says something of the configuration.
pub(crate) fn says_something(name: &str) -> bool {
    !name.starts_with('-') && !name.starts_with("DUMP_") && !NOT_SERVED.contains(&name)
}

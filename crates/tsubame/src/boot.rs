//! Reads the configuration that the command line names.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use conf::{Language, Level, ModuleInfo, Notice, Origin, SettingsMap, Source};
use modules::arch::mod_unixd;
use modules::idle;
use mpm::Chosen;
use mpm::settings::MpmSettings;
use server::machine::Machine;
use server::{Failed, Loaded, Sources, load, read_only};
use sys::cred::{Identity, User};

use crate::cli::Options;
use crate::complaint;
use crate::envvars;
use crate::starting;
use crate::style::Style;
use crate::version::{self, CONFIG_FILES, PID_FILE, SERVER_ROOT};

/// Every module of the program.
static KNOWN: LazyLock<Vec<&'static ModuleInfo>> = LazyLock::new(|| {
    let mpms = [&mpm::tables::PREFORK, &mpm::tables::WORKER, &mpm::tables::EVENT, &mpm::tables::PERCORE];
    [&mpm::tables::CORE].into_iter().chain(server::known_infos()).chain(mpms).collect()
});
/// The modules without any `LoadModule` line: all of them, and one MPM.
static UNSELECTED: LazyLock<Vec<&'static ModuleInfo>> = LazyLock::new(|| {
    let others = KNOWN.iter().filter(|info| !info.id.starts_with("mpm_"));
    others.copied().chain([&mpm::tables::PERCORE]).collect()
});

/// Every module of the program, and the MPMs.
pub(crate) fn known() -> &'static [&'static ModuleInfo] {
    &KNOWN
}

/// A configuration that can run.
pub(crate) struct Configured {
    /// The server and what was read.
    pub(crate) loaded: Loaded,
    /// The MPM.
    pub(crate) mpm: Chosen,
}

/// The configuration to read: a file, or a text of our own.
pub(crate) enum Text<'a> {
    /// The file that the command line names.
    File,
    /// Name, text and variables.
    Own(&'a str, &'a str, &'a [(&'a str, &'a str)]),
}

/// The initial `ServerRoot`.
pub(crate) fn server_root(options: &Options) -> String {
    let given = options.server_root.as_deref().unwrap_or(SERVER_ROOT);
    conf::paths::join(&options.directory.to_string_lossy(), given)
}

/// The path of the main file.
pub(crate) fn config_file(options: &Options) -> String {
    let root = server_root(options);
    match &options.file {
        Some(file) => conf::paths::join(&root, file),
        None => {
            let candidates = CONFIG_FILES.map(|name| conf::paths::join(&root, name));
            let found = candidates.iter().find(|path| Path::new(path).exists());
            found.unwrap_or(&candidates[0]).clone()
        }
    }
}

/// Reads and resolves a configuration.
pub(crate) fn read(options: &Options, text: &Text<'_>) -> Result<Configured, Box<Failed>> {
    let (loaded, mpm) = read_with(options, text, false);
    match (loaded, mpm) {
        (Ok(loaded), Some(mpm)) => Ok(Configured { loaded, mpm }),
        (Ok(_), None) => unreachable!("a configuration that loaded was checked"),
        (Err(failed), _) => Err(failed),
    }
}

/// Reads and resolves as much as possible and continues after each error, for a report.
pub(crate) fn read_everything(options: &Options) -> Result<Loaded, Box<Failed>> {
    // With a file that lies elsewhere, nothing else is known to be wrong.
    read_with(options, &Text::File, misplaced(options).is_none()).0
}

fn read_with(options: &Options, text: &Text<'_>, keep_errors: bool) -> (Result<Loaded, Box<Failed>>, Option<Chosen>) {
    let chosen = std::cell::Cell::new(None);
    let loaded = with_sources(options, text, keep_errors, |language, sources| {
        load(Arc::new(Machine), language, sources, version::software, |draft, context| {
            let mpm = mpm::choose(context.language.loaded(), &options.program)?;
            if sources.file.is_some() && !draft.main.get::<MpmSettings>().pid_file.is_set() {
                let path = context.server_relative(PID_FILE);
                draft.main.edit::<MpmSettings>().pid_file.set(path, &built_in());
            }
            mpm::control::check(&draft.main)?;
            context.notices.extend(mpm.check(&draft.main, mpm::When::Start));
            context.notices.extend(idle::notice(&context.language));
            chosen.set(Some(mpm));
            Ok(())
        })
    });
    (loaded, chosen.take())
}

/// Checks whether a server can start with a configuration that is correct. `Err` says what prevents it.
pub(crate) fn check(options: &Options, configured: &Configured) -> Result<(), String> {
    configured.loaded.server.can_be_served()?;
    let settings = &configured.loaded.server.main().settings;
    identity(settings).map(drop).map_err(|message| message.replace("{program}", &options.program))
}

/// The user and group of the children if root starts the server. Without `User` they run as nobody: a child of a server
/// on the network never runs as root.
pub(crate) fn identity(settings: &SettingsMap) -> Result<Option<Identity>, String> {
    if !sys::cred::is_root() {
        return Ok(None);
    }
    let (user, group) = mod_unixd::identity(settings, &Machine)?;
    const NOBODY: u32 = 65534;
    let nobody = |id| if id == u32::MAX { NOBODY } else { id };
    let (uid, gid) = (nobody(user.id), nobody(group.id));
    if uid == 0 {
        return Err(
            "AH00526: User root: a web server whose children run as root is not started; name another user".into()
        );
    }
    let user = sys::cred::user_by_id(uid).ok().flatten().unwrap_or(User {
        name: String::new(),
        uid,
        gid,
        home: String::new(),
    });
    Ok(Some(Identity::new(&user, gid)))
}

/// Reads only enough to know the loaded modules; also returns the notices.
pub(crate) fn read_language(options: &Options) -> Result<(Language, Vec<Notice>), Box<Failed>> {
    with_sources(options, &Text::File, false, |language, sources| read_only(Arc::new(Machine), language, sources))
}

/// Calls `read` with what the command line names: the defines, and the text to read.
fn with_sources<T>(
    options: &Options,
    text: &Text<'_>,
    keep_errors: bool,
    read: impl FnOnce(Language, &Sources<'_>) -> T,
) -> T {
    let mut language = Language::new(&KNOWN, &UNSELECTED, &server_root(options)).with_idle(&idle::MODULES);
    for name in &options.defines {
        language.define(name, None);
    }
    let file = config_file(options);
    if matches!(text, Text::File) {
        envvars::read_beside(options, &file);
    }
    let (file, text) = match text {
        Text::File => (Some(file.as_str()), None),
        Text::Own(name, text, variables) => {
            for (name, value) in *variables {
                language.define(name, Some(value));
            }
            (None, Some((*name, *text)))
        }
    };
    let (program, before, after) = (options.program.as_str(), &options.before[..], &options.after[..]);
    read(language, &Sources { program, before, file, text, after, keep_errors })
}

/// The control socket and pid file of a configuration that cannot be applied. A server that was started with an earlier
/// version of it may still be running.
pub(crate) fn socket(failed: &Failed) -> Option<(PathBuf, PathBuf)> {
    let last = |name: &str| {
        let node = failed.tree.iter().rev().find(|node| node.name.eq_ignore_ascii_case(name))?;
        conf::words::words(&node.args).into_iter().next()
    };
    let path = |word: String| PathBuf::from(conf::paths::join(&failed.language.server_root, &word));
    if failed.tree.is_empty() {
        return None;
    }
    let pid_file = path(last("PidFile").unwrap_or_else(|| PID_FILE.into()));
    match last("ControlSocket") {
        Some(word) if word.eq_ignore_ascii_case("none") => None,
        Some(word) => Some((path(word), pid_file)),
        None => Some((mpm::control::beside(&pid_file), pid_file)),
    }
}

fn built_in() -> Origin {
    Origin { source: Arc::new(Source::new("built-in default")), line: 0 }
}

/// Writes the notices about the configuration to standard error, or to the `-E` file.
pub(crate) fn print_notices<'a>(options: &Options, notices: impl IntoIterator<Item = &'a Notice>) {
    let level = options.level.unwrap_or(Level::Warn);
    for notice in notices {
        if notice.level <= level || notice.level == Level::Notice {
            print(options, &line(notice));
        }
    }
}

/// A notice as Apache prints it before its log is open.
fn line(notice: &Notice) -> String {
    if notice.bare {
        return notice.text.clone();
    }
    let format = server::log::Format::standard();
    format.bare_line(notice.module, notice.level, &notice.text)
}

/// Writes a line to standard error, or to the `-E` file. A relative name starts at `ServerRoot`, as in Apache.
pub(crate) fn print(options: &Options, text: &str) {
    let file = options.errors.as_ref().and_then(|name| {
        let path = conf::paths::join(&server_root(options), name);
        std::fs::OpenOptions::new().create(true).append(true).open(path).ok()
    });
    match file {
        None => starting::print(text),
        Some(mut file) => {
            use std::io::Write;
            // There is no other place to report an error.
            let _ = writeln!(file, "{text}");
        }
    }
}

/// Reports why a configuration cannot run.
pub(crate) fn print_failure(options: &Options, failed: &Failed) {
    // Files that include each other are read repeatedly and repeat their notices.
    let repeats = |notice: &&Notice| notice.origin.as_ref().is_some_and(Origin::repeats);
    print_notices(options, failed.notices.iter().filter(|notice| !repeats(notice)));
    print(
        options,
        complaint::of(&failed.error, &failed.into(), &options.program, style(options)).trim_end_matches('\n'),
    );
    misplaced(options).iter().for_each(|advice| print(options, &complaint::note(&format!("help: {advice}"))));
}

/// Advice for a `-f` that names a file of the working directory: as in Apache, a relative one starts at `ServerRoot`.
pub(crate) fn misplaced(options: &Options) -> Option<String> {
    let here = options.directory.join(options.file.as_ref()?);
    let is_only_here = here.is_file() && !Path::new(&config_file(options)).exists();
    is_only_here.then(|| format!("-f starts at ServerRoot, {}: write -f {}", server_root(options), here.display()))
}

/// Reports the other errors of a configuration; the first was reported already.
pub(crate) fn print_other_errors(options: &Options, failed: &Failed) {
    if let Some(text) = complaint::of_others(options, &failed.error, style(options)) {
        print(options, text.trim_end_matches('\n'));
    }
}

/// The style for the output of [`print`].
fn style(options: &Options) -> Style {
    if options.errors.is_some() { Style(false) } else { Style::of_errors() }
}

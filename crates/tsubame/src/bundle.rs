//! `tsubame bundle`: writes a whole configuration into one file, for other machines (`tsubame ctl load`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use conf::System as _;
use lexopt::prelude::*;
use server::machine::Machine;
use sys::cred::Identity;

use crate::bundles::{Bundle, Manifest, digest, referenced};
use crate::cli::{self, CONFIGURATION, HelpPage, Options, Value, misuse, with, word};
use crate::config::{ConfigSource, Configured, ReadSources};
use crate::diagnosis::preflight;
use crate::diagnosis::print;
use crate::output;

/// The help page of `tsubame bundle`.
pub(crate) static PAGE: HelpPage = HelpPage {
    name: "bundle",
    purpose: "a whole configuration in one file, for other machines",
    usage: &["bundle {} -o FILE"],
    brief: &CONFIGURATION,
    text: "  tsubame bundle -f /etc/apache2/apache2.conf -o site.bundle
  scp site.bundle node2: && ssh node2 tsubame ctl -f /etc/apache2/apache2.conf load site.bundle
  tsubame bundle -f /etc/apache2/apache2.conf -o - | ssh node2 tsubame ctl -f /etc/apache2/apache2.conf load -

The bundle holds every file that a start reads, the names of -D, the lines of -C and -c, and the variables of the environment that
the configuration uses. Certificates, keys and files of users are only listed, certificates with their fingerprints: each machine
needs them already. The bundle may hold passwords, so only you can read it. It is a tar archive: `tar xOf FILE manifest.json` shows
what is in it. The same configuration makes the same bytes and the same version.
",
    column: 22,
    groups: &[(
        "Options",
        &[
            with(&["-o", "--output"], Value::File("file"), "the file to write, in place of an older one (-: standard output)"),
            word(&["-h", "--help"], "this page"),
        ],
    )],
    end: "\
Exit status:
  0  the bundle was written
  1  the configuration or the command line is wrong, or a file cannot be read or written
",
    misuse: 1,
};

/// Runs `tsubame bundle`.
pub(crate) fn run(program: &str, args: Vec<OsString>) -> ExitCode {
    let mut options = Options::new(program, &args);
    let file = match misuse::wish(program, &PAGE, read(&mut options, lexopt::Parser::from_args(args))) {
        Ok(file) => file,
        Err(code) => return code,
    };
    let configured = match print::read(&options, &ConfigSource::File) {
        Ok(configured) => configured,
        Err(code) => return code,
    };
    let made = preflight::can_start(&options, &configured).and_then(|children| make(&configured, children.as_ref()));
    match made.and_then(|bundle| write(&bundle, &file).map(|()| bundle)) {
        Ok(bundle) => {
            say(&summary(&bundle, &file), &file);
            ExitCode::SUCCESS
        }
        Err(why) => {
            output::complain(&format!("{program} bundle: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn read(options: &mut Options, mut parser: lexopt::Parser) -> Result<Option<PathBuf>, lexopt::Error> {
    let mut file = None;
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Short('o') | Long("output") => file = Some(PathBuf::from(parser.value()?)),
            Short(option) => cli::configuration_option(options, option, &mut parser)?,
            arg => return Err(arg.unexpected()),
        }
    }
    file.map(Some).ok_or_else(|| "-o FILE is missing: the bundle needs a name".into())
}

/// Makes a bundle of a configuration that was just read.
fn make(configured: &Configured, children: Option<&Identity>) -> Result<Bundle, String> {
    let ReadSources { given, paths, places, bundle, .. } = &configured.sources;
    let references = referenced(&configured.loaded.server, children)?;
    if let Some(bundle) = bundle {
        let manifest = Manifest { given: given.clone(), references, places: bundle.manifest.places.clone() };
        return Ok(Bundle { manifest, files: bundle.files.clone() });
    }
    let mut files = BTreeMap::new();
    for (name, path) in paths {
        let text = Machine.read(path).map_err(|error| format!("{path}: {}", sys::describe(&error)))?;
        if given.files.get(name) != Some(&digest(&text)) {
            return Err(format!("{path} has changed while it was read: try again"));
        }
        files.insert(name.clone(), Arc::new(text));
    }
    Ok(Bundle { manifest: Manifest { given: given.clone(), places: places.clone(), references }, files })
}

/// The name that stands for standard output.
const OUTPUT: &str = "-";

/// Writes a bundle, for its owner only. There is always the old file or the whole new one.
fn write(bundle: &Bundle, file: &Path) -> Result<(), String> {
    let bytes = bundle.to_bytes()?;
    // What this machine could not load is not written.
    Bundle::from_bytes(&bytes)?;
    if file == Path::new(OUTPUT) {
        let mut output = io::stdout().lock();
        if output.is_terminal() {
            return Err("a terminal cannot show a bundle: name a file, or a program after |".into());
        }
        let written = output.write_all(&bytes).and_then(|()| output.flush());
        return written.map_err(|error| format!("standard output: {}", sys::describe(&error)));
    }
    // Of /dev/null or /dev/stdout there would be nothing left.
    if std::fs::symlink_metadata(file).is_ok_and(|there| !there.is_file()) {
        let file = file.display();
        return Err(format!("{file} is there and no regular file: name another one, or - for standard output"));
    }
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    let written = write_new(Path::new(&unfinished), &bytes).and_then(|()| std::fs::rename(&unfinished, file));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&unfinished);
        format!("{}: {}", file.display(), sys::describe(&error))
    })
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Says what was written; the bundle itself may have standard output.
fn say(summary: &str, file: &Path) {
    match file == Path::new(OUTPUT) {
        true => output::complain(summary.trim_end()),
        false => output::print(summary),
    }
}

fn summary(bundle: &Bundle, file: &Path) -> String {
    let Manifest { given, references, .. } = &bundle.manifest;
    let count = |number: usize, one: &str, more: &str| format!("{number} {}", if number == 1 { one } else { more });
    let files = count(given.files.len(), "file", "files");
    let place = if file == Path::new(OUTPUT) { "bundle".into() } else { file.display().to_string() };
    let mut text = format!("{place}: version {}, {files}\n", given.version());
    if !references.is_empty() {
        text += "each machine needs these files already:\n";
    }
    for one in references {
        text += &format!("  {} {}\n", one.directive, one.path);
    }
    text
}

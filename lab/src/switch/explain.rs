//! Tsubame's own explanation of each request: which line decides, and whether a script would run.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::rc::Rc;

use serde::Deserialize;
use serde_json::json;

use super::ask::Ask;
use super::endpoints::Endpoints;
use super::tree::{Directive, Program, all, words};
use crate::machine::error::{Context as _, Error, Result};

/// An explanation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Explanation {
    /// The verdict, in a sentence.
    pub(crate) verdict: String,
    /// The line that decides, `FILE:LINE`.
    pub(crate) line: Option<String>,
    /// The module that makes the answer, or that would.
    pub(crate) module: Option<String>,
    /// Whether a script or another server would have to be asked for the answer.
    pub(crate) runs: bool,
    /// Whether `ProxyPassInherit Off` leaves out a line of the main server that would decide.
    pub(crate) leaves_out: bool,
}

/// What `tsubame explain --each` writes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    error: Option<String>,
    verdict: String,
    reason: Reason,
    answer: Made,
    notes: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reason {
    origin: Option<Line>,
    module: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Line {
    file: String,
    line: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Made {
    made_by: Option<String>,
    file: Option<PathBuf>,
    runs: bool,
}

/// Modules whose answers are not known beforehand, although no script makes them: safe methods are safe there.
const QUIET: [&str; 4] = ["dav", "mod_dav", "autoindex", "mod_autoindex"];

/// What inserts other pages into a listing.
const INSERTING: [&str; 2] = ["HeaderName", "ReadmeName"];

/// The most pages of a listing that are explained; a listing with more may do anything.
const INSERTED_MAX: usize = 64;

/// The most of an `.htaccess` file that is read, in bytes.
const ACCESS_FILE_MAX: u64 = 1024 * 1024;

/// A running `tsubame explain --each`; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Explainer {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last: Option<Rc<Explanation>>,
    /// The pages that the configuration inserts into listings, and the names of `.htaccess` files.
    inserted: BTreeSet<String>,
    access_files: Vec<String>,
}

impl Explanation {
    /// Whether a proxy passes the request on: to the live machine's servers of applications, or to other machines.
    pub(crate) fn asks_backend(&self) -> bool {
        self.runs && self.module.as_deref().is_some_and(|module| module.trim_start_matches("mod_").starts_with("proxy"))
    }
}

impl Explainer {
    /// Starts one for the administrator's own configuration.
    pub(crate) fn start(program: &Program, configuration: &Path, tree: &[Directive]) -> Result<Self> {
        let mut command = program.command(&["explain", "--each"], configuration);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().context(|| format!("start {}", program.path.display()))?;
        let output = process.stdout.take().ok_or_else(|| Error::new("tsubame explain has no output"))?;
        let inserting = all(tree).filter(|line| INSERTING.iter().any(|name| line.is(name)));
        let inserted = inserting.filter_map(|line| line.words().first().cloned()).collect();
        let named = all(tree).filter(|line| line.is("AccessFileName")).flat_map(Directive::words);
        let access_files = named.chain([".htaccess".to_owned()]).collect();
        let (input, output) = (process.stdin.take(), BufReader::new(output));
        Ok(Self { process, input, output, last: None, inserted, access_files })
    }

    /// Explains a request.
    ///
    /// # Errors
    /// The process has ended.
    pub(crate) fn explain(&mut self, ask: &Ask, endpoints: &Endpoints) -> Result<Rc<Explanation>> {
        let said = self.ask(ask, endpoints)?;
        let runs = match &said.answer.file {
            // A question that cannot be answered is not known to be harmless.
            _ if said.error.is_some() => true,
            Some(directory) if said.is_listing() => self.inserts_script(ask, endpoints, directory)?,
            _ => said.runs(),
        };
        let module = said.answer.made_by.or(said.reason.module);
        let explanation = Explanation {
            runs,
            verdict: said.error.unwrap_or(said.verdict),
            line: said.reason.origin.map(|origin| format!("{}:{}", origin.file, origin.line)),
            module,
            leaves_out: said.notes.iter().any(|note| note.starts_with("ProxyPassInherit Off:")),
        };
        // Neighbours in a log are often explained alike.
        let last = self.last.take().filter(|last| **last == explanation);
        let explanation = last.unwrap_or_else(|| Rc::new(explanation));
        self.last = Some(Rc::clone(&explanation));
        Ok(explanation)
    }

    /// Whether a script makes a page that is inserted into the listing of a directory.
    fn inserts_script(&mut self, ask: &Ask, endpoints: &Endpoints, directory: &Path) -> Result<bool> {
        let files = directory.ancestors().flat_map(|above| self.access_files.iter().map(|name| above.join(name)));
        let mut names: BTreeSet<String> = files.flat_map(|file| inserted_by(&file)).collect();
        names.extend(self.inserted.iter().cloned());
        if names.len() > INSERTED_MAX {
            return Ok(true);
        }
        let path = ask.target.split(|byte| *byte == b'?').next().unwrap_or_default();
        for name in names {
            let own = [path, if path.ends_with(b"/") { b"" } else { b"/" }, name.as_bytes()].concat();
            let target = if name.starts_with('/') { name.into_bytes() } else { own };
            let page = Ask { target, method: "GET".to_owned(), ..ask.clone() };
            if self.ask(&page, endpoints)?.runs() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What it says about a request.
    fn ask(&mut self, ask: &Ask, endpoints: &Endpoints) -> Result<Said> {
        let scheme = if ask.is_encrypted { "https" } else { "http" };
        let target = escaped(&ask.target);
        let host = ask.host.clone().unwrap_or_default();
        // A target in absolute form has its own host.
        let url = if target.starts_with('/') { format!("{scheme}://{host}{target}") } else { target };
        let headers: Vec<(&str, String)> = ask
            .fields
            .iter()
            .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value).into_owned()))
            .collect();
        let question = json!({
            "url": url,
            "method": ask.method,
            "host": host,
            "from": ask.client.map(|client| client.to_string()),
            "to": endpoints.original(ask.endpoint, ask.client),
            "headers": headers,
        });
        let mut exchange = || -> std::io::Result<String> {
            let input = self.input.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
            writeln!(input, "{question}")?;
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            Ok(line)
        };
        let line = exchange().context(|| "let tsubame explain a request".to_owned())?;
        serde_json::from_str(&line).context(|| "understand tsubame explain".to_owned())
    }
}

impl Said {
    fn module(&self) -> Option<&str> {
        self.answer.made_by.as_deref().or(self.reason.module.as_deref())
    }

    /// Whether it is about a listing, for which no script has to run, except for what is inserted.
    fn is_listing(&self) -> bool {
        self.answer.runs && self.module().is_some_and(|module| module.trim_start_matches("mod_") == "autoindex")
    }

    fn runs(&self) -> bool {
        self.answer.runs && !self.module().is_some_and(|module| QUIET.contains(&module))
    }
}

/// The pages that an `.htaccess` file inserts into listings.
fn inserted_by(file: &Path) -> Vec<String> {
    let mut text = Vec::new();
    // A pipe of that name would not end.
    if file.is_file()
        && let Ok(file) = File::open(file)
    {
        let _ = file.take(ACCESS_FILE_MAX).read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text).replace("\\\n", " ");
    let lines = text.lines().map(words);
    let inserting = lines.filter(|words| {
        words.first().is_some_and(|name| INSERTING.iter().any(|inserting| name.eq_ignore_ascii_case(inserting)))
    });
    inserting.filter_map(|words| words.get(1).cloned()).collect()
}

/// A target as text: bytes that are no ASCII are escaped, which means the same in a path.
fn escaped(target: &[u8]) -> String {
    let escape = |byte: &u8| if byte.is_ascii() { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    target.iter().map(escape).collect()
}

impl Drop for Explainer {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

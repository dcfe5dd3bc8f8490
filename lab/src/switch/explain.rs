//! Tsubame's own explanation of each request: which line decides, and whether a script would run.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::rc::Rc;

use serde::Deserialize;
use serde_json::json;

use super::ask::Ask;
use super::endpoints::Endpoints;
use super::tree::Program;
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
}

/// What `tsubame explain --each` writes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    error: Option<String>,
    verdict: String,
    reason: Reason,
    answer: Made,
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
    runs: bool,
}

/// Modules whose answers are not known beforehand, although no script makes them: safe methods are safe there.
const QUIET: [&str; 4] = ["dav", "mod_dav", "autoindex", "mod_autoindex"];

/// A running `tsubame explain --each`; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Explainer {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last: Option<Rc<Explanation>>,
}

impl Explainer {
    /// Starts one for the administrator's own configuration.
    pub(crate) fn start(program: &Program, configuration: &Path) -> Result<Self> {
        let mut command = program.command(&["explain", "--each"], configuration);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().context(|| format!("start {}", program.path.display()))?;
        let output = process.stdout.take().ok_or_else(|| Error::new("tsubame explain has no output"))?;
        Ok(Self { input: process.stdin.take(), output: BufReader::new(output), process, last: None })
    }

    /// Explains a request.
    ///
    /// # Errors
    /// The process has ended.
    pub(crate) fn explain(&mut self, ask: &Ask, endpoints: &Endpoints) -> Result<Rc<Explanation>> {
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
        let said: Said = serde_json::from_str(&line).context(|| "understand tsubame explain".to_owned())?;
        let module = said.answer.made_by.or(said.reason.module);
        let is_quiet = module.as_deref().is_some_and(|module| QUIET.contains(&module));
        let explanation = Explanation {
            // A question that cannot be answered is not known to be harmless.
            runs: (said.answer.runs && !is_quiet) || said.error.is_some(),
            verdict: said.error.unwrap_or(said.verdict),
            line: said.reason.origin.map(|origin| format!("{}:{}", origin.file, origin.line)),
            module,
        };
        // Neighbours in a log are often explained alike.
        let last = self.last.take().filter(|last| **last == explanation);
        let explanation = last.unwrap_or_else(|| Rc::new(explanation));
        self.last = Some(Rc::clone(&explanation));
        Ok(explanation)
    }
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

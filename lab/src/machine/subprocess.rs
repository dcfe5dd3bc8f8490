//! Processes that do a part of this program's work, if one process may not open enough files. A subprocess reads its
//! task from standard input, and writes its results to standard output, a line of JSON each time. It ends when its input
//! ends.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::machine::error::{Context as _, Error, Result};

/// A process of this program; dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Subprocess {
    process: Child,
    /// Runs as long as this exists.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Subprocess {
    /// Starts one that carries out a hidden command.
    pub(crate) fn start(hidden_command: &str) -> Result<Self> {
        let lab = std::env::current_exe().context(|| "find the laboratory's own program".to_owned())?;
        let mut command = Command::new(lab);
        command.arg(hidden_command).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().context(|| "start another process of the generator".to_owned())?;
        let output = process.stdout.take().ok_or_else(|| Error::new("a process of the generator has no pipe"))?;
        Ok(Self { input: process.stdin.take(), output: BufReader::new(output), process })
    }

    /// Sends a message. A process that does not listen has ended.
    pub(crate) fn send(&mut self, what: &impl Serialize) -> Result<()> {
        let told = self.input.as_mut().map_or(Ok(()), |input| write_message(input, what));
        told.map_err(|error| self.receive::<IgnoredAny>().err().unwrap_or(error))
    }

    /// Its input; dropping that ends it.
    pub(crate) fn take_input(&mut self) -> Option<ChildStdin> {
        self.input.take()
    }

    /// Its next message.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> Result<T> {
        match read_message(&mut self.output)? {
            Some(output) => Ok(output),
            None => {
                let status = self.process.wait().context(|| "wait for a process of the generator".to_owned())?;
                Err(Error::new(format!("a process of the generator ended too early ({status})")))
            }
        }
    }
}

impl Drop for Subprocess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends a message, on one line.
pub(crate) fn write_message(to: &mut impl Write, what: &impl Serialize) -> Result<()> {
    let mut send = || -> std::io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        to.write_all(&line)?;
        to.flush()
    };
    send().context(|| "talk to another process of the generator".to_owned())
}

/// The message on the next line; `None` at the end.
pub(crate) fn read_message<T: DeserializeOwned>(from: &mut impl BufRead) -> Result<Option<T>> {
    let mut line = String::new();
    let read_message = from.read_line(&mut line).context(|| "listen to another process of the generator".to_owned())?;
    let understood =
        || serde_json::from_str(&line).context(|| "understand another process of the generator".to_owned());
    if read_message == 0 { Ok(None) } else { understood().map(Some) }
}

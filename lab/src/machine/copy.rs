//! Copies of this program that do a part of its work, if one process may not open enough files. A copy reads its task
//! from standard input, and writes its results to standard output, a line of JSON each time. It ends when its input
//! ends.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::machine::error::{Context as _, Error, Result};

/// A copy; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Copy {
    process: Child,
    /// It runs as long as this exists.
    orders: Option<ChildStdin>,
    news: BufReader<ChildStdout>,
}

impl Copy {
    /// Starts one that carries out a hidden command.
    pub(crate) fn start(command: &str) -> Result<Self> {
        let lab = std::env::current_exe().context(|| "find the laboratory's own program".to_owned())?;
        let mut copy = Command::new(lab);
        copy.arg(command).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = copy.spawn().context(|| "start another process of the generator".to_owned())?;
        let news = process.stdout.take().ok_or_else(|| Error::new("a process of the generator has no pipe"))?;
        Ok(Self { orders: process.stdin.take(), news: BufReader::new(news), process })
    }

    /// Sends it an order. A copy that does not listen has ended.
    pub(crate) fn order(&mut self, what: &impl Serialize) -> Result<()> {
        let told = self.orders.as_mut().map_or(Ok(()), |orders| post(orders, what));
        told.map_err(|error| self.hear::<IgnoredAny>().err().unwrap_or(error))
    }

    /// Its input; dropping that ends it.
    pub(crate) fn take_orders(&mut self) -> Option<ChildStdin> {
        self.orders.take()
    }

    /// Its next message.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        match read(&mut self.news)? {
            Some(news) => Ok(news),
            None => {
                let status = self.process.wait().context(|| "wait for a process of the generator".to_owned())?;
                Err(Error::new(format!("a process of the generator ended too early ({status})")))
            }
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends a message, on one line.
pub(crate) fn post(to: &mut impl Write, what: &impl Serialize) -> Result<()> {
    let mut send = || -> std::io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        to.write_all(&line)?;
        to.flush()
    };
    send().context(|| "talk to another process of the generator".to_owned())
}

/// The message on the next line; `None` at the end.
pub(crate) fn read<T: DeserializeOwned>(from: &mut impl BufRead) -> Result<Option<T>> {
    let mut line = String::new();
    let read = from.read_line(&mut line).context(|| "listen to another process of the generator".to_owned())?;
    let understood =
        || serde_json::from_str(&line).context(|| "understand another process of the generator".to_owned());
    if read == 0 { Ok(None) } else { understood().map(Some) }
}

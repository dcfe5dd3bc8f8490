//! The servers behind a proxy during its measurement: on the load generator's core, outside the proxy's accounting, and
//! made to fail on demand.

use std::cell::RefCell;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::experiments::config::origin;
use crate::experiments::recipe::Backend;
use crate::experiments::site::{self, Site};
use crate::experiments::workload::Protocol;
use crate::load::client::Connector;
use crate::load::tls::Client;
use crate::machine::error::{Context as _, Error, Result, write_file};
use crate::machine::launch;
use crate::machine::procfs;
use crate::measure::server::await_file;

/// What an origin does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It serves.
    Well,
    /// It takes connections and requests, and does nothing.
    Halted,
    /// It is not there.
    Gone,
}

/// The running origins; dropping this ends them.
#[derive(Debug)]
pub(crate) struct Origins {
    members: RefCell<Vec<Member>>,
    addresses: Vec<SocketAddr>,
    /// The client for their status, if they speak TLS.
    client: Option<Client>,
}

impl Origins {
    /// Starts those of a site on `core`, and waits until they listen; `None` if it has none.
    pub(crate) fn start(site: &Site, core: usize) -> Result<Option<Self>> {
        let Some(origins) = &site.origins else { return Ok(None) };
        let mut members = Vec::new();
        for backend in origin::members(site, origins) {
            members.push(Member::start(backend, site, core)?);
        }
        Ok(Some(Self {
            members: RefCell::new(members),
            addresses: origins.addresses.clone(),
            client: client(origins)?,
        }))
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.addresses.len()
    }

    /// CPU time used so far by those that live.
    pub(crate) fn cpu(&self) -> Duration {
        self.members.borrow().iter().filter_map(|member| procfs::cpu_time(member.child.id())).sum()
    }

    /// The connections that they have accepted from others since their start.
    pub(crate) fn accepted(&self) -> Result<u64> {
        let mut all = 0;
        for (address, member) in self.addresses.iter().zip(&mut *self.members.borrow_mut()) {
            let mut connection = Connector::default().open_with(*address, self.client.as_ref())?;
            let response = connection.get(origin::STATUS, true)?;
            let text = String::from_utf8_lossy(&response.body);
            member.asked += 1;
            let accepted = accepted_in(&text)
                .ok_or_else(|| Error::new(format!("the origin's status is not understood: {}", text.trim())))?;
            all += accepted.saturating_sub(member.asked);
        }
        Ok(all)
    }

    /// Puts one of them into a condition, whatever its condition was.
    pub(crate) fn put(&self, number: usize, condition: Condition) -> Result<()> {
        match self.members.borrow_mut().get_mut(number) {
            Some(member) => member.put(condition),
            None => Err(Error::new(format!("there is no origin {number}"))),
        }
    }
}

fn client(origins: &site::Origins) -> Result<Option<Client>> {
    let tls = origins.identity.as_ref().and_then(|_| Protocol::Tls.tls());
    tls.map(|tls| tls.client()).transpose()
}

/// The number of accepted connections, from the text of nginx's `stub_status`.
fn accepted_in(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    lines.find(|line| line.starts_with("server accepts handled requests"))?;
    lines.next()?.split_whitespace().next()?.parse().ok()
}

/// One origin.
#[derive(Debug)]
struct Member {
    program: PathBuf,
    arguments: Vec<String>,
    directory: PathBuf,
    core: usize,
    child: Child,
    condition: Condition,
    /// How often its status was asked for, over a connection each.
    asked: u64,
}

impl Member {
    fn start(backend: Backend, site: &Site, core: usize) -> Result<Self> {
        let program = backend
            .program
            .locate(None)
            .map_err(|remedy| Error::new("the program that serves behind a proxy is not here").advise(remedy))?;
        let file = site.directory.join(&backend.file.name);
        write_file(&file, &backend.file.text)?;
        let arguments = [&backend.arguments[..], &[file.display().to_string()]].concat();
        let directory = site.directory.clone();
        let child = spawn(&program, &arguments, &directory, core)?;
        let condition = Condition::Well;
        // From here on it is ended if something fails.
        let mut member = Self { program, arguments, directory, core, child, condition, asked: 0 };
        await_file(&mut member.child, &backend.ready, site)?;
        Ok(member)
    }

    fn put(&mut self, condition: Condition) -> Result<()> {
        let from = std::mem::replace(&mut self.condition, condition);
        match (from, condition) {
            (Condition::Halted, Condition::Well) => self.signal(Signal::CONT),
            (Condition::Gone, Condition::Well) => {
                self.child = spawn(&self.program, &self.arguments, &self.directory, self.core)?;
                self.asked = 0;
                Ok(())
            }
            (Condition::Well, Condition::Halted) => self.signal(Signal::STOP),
            (Condition::Well | Condition::Halted, Condition::Gone) => self.end(),
            _ => Ok(()),
        }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).context(|| "signal an origin".to_owned())
    }

    /// One that stands still takes no other signal.
    fn end(&mut self) -> Result<()> {
        self.child.kill().and_then(|()| self.child.wait()).map(drop).context(|| "end an origin".to_owned())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Ends with the laboratory even while it stands still.
fn spawn(program: &Path, arguments: &[String], directory: &Path, core: usize) -> Result<Child> {
    let path = directory.join("origins.log");
    let output = File::options().create(true).append(true).open(&path);
    let output = output.context(|| format!("open {}", path.display()))?;
    let errors = output.try_clone().context(|| "share a log file".to_owned())?;
    let mut command = launch::command_to_kill(&[core], program)?;
    command.args(arguments).current_dir(directory).stdin(Stdio::null()).stdout(output).stderr(errors);
    command.spawn().context(|| format!("start {}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_tells_how_many_connections_it_has_accepted() {
        let text =
            "Active connections: 1 \nserver accepts handled requests\n 17 17 31 \nReading: 0 Writing: 1 Waiting: 0 \n";
        assert_eq!(accepted_in(text), Some(17));
        assert_eq!(accepted_in("<h1>Not Found</h1>"), None);
    }
}

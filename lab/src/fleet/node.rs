//! A node of a fleet: a tsubame in a network namespace and a control group of its own, and what can happen to it.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::group::{Capacity, Group, NODE};
use super::network::{self, Network};
use super::store;
use crate::experiments::site::Account;
use crate::machine::error::{Context as _, Error, Result, read_text, write_file};
use crate::machine::scratch::Scratch;
use crate::machine::script::{COUNT, HOG, HOLD_200};
use crate::machine::{interrupt, launch};
use crate::measure::server::last_words;

/// The port of every node.
pub(super) const PORT: u16 = 80;

/// The port at which a node answers agent checks.
pub(super) const AGENT_PORT: u16 = 9009;

/// How long a node may take to accept connections, or to end: its processor is a part of one.
const LIMIT: Duration = Duration::from_secs(20);

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(10);

/// How many programs take the memory of a node: 850 of 1024 MB.
const HOGS: usize = 5;

/// The small file that is requested beside the scripts.
pub(super) const FILE: (&str, &str) = ("small.txt", "a small file, 31 bytes in all.\n");

/// What all nodes share: the program, what they serve, and where they write.
#[derive(Debug)]
pub(super) struct Equipment {
    pub(super) program: PathBuf,
    scratch: Scratch,
    account: Option<Account>,
}

impl Equipment {
    /// Makes the file and the scripts.
    pub(super) fn make(program: PathBuf) -> Result<Self> {
        let equipment = Self { program, scratch: Scratch::new()?, account: Account::choose() };
        write_file(equipment.scratch.create("documents")?.join(FILE.0), FILE.1)?;
        let scripts = equipment.scratch.create("scripts")?;
        for script in [&HOLD_200, &COUNT, &HOG] {
            script.prepare(&scripts)?;
        }
        equipment.forget_counted()?;
        Ok(equipment)
    }

    /// The directory for the run's files.
    pub(super) fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// Begins to count posts anew.
    pub(super) fn forget_counted(&self) -> Result<()> {
        let path = self.counted_file();
        write_file(&path, "")?;
        self.give_away(&path)
    }

    /// The queries of the scripts that counted, one for each run on any node.
    pub(super) fn counted(&self) -> Result<String> {
        read_text(self.counted_file())
    }

    fn counted_file(&self) -> PathBuf {
        self.directory().join("scripts/counted")
    }

    /// Gives a file to the user that nodes change to.
    fn give_away(&self, path: &Path) -> Result<()> {
        let Some(account) = &self.account else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(account.uid), Some(account.gid))
            .context(|| format!("give {} to {}", path.display(), account.user))
    }

    /// The configuration of a node, which may count in the store of all of them.
    pub(super) fn configuration(&self, index: usize, has_store: bool) -> String {
        let account = self.account.as_ref().map(|account| (account.user, account.group));
        let own = node_directory(self.directory(), index);
        let counting = if has_store { counting(network::front_address(index)) } else { String::new() };
        configuration(self.directory(), &own, network::address(index), account) + &counting
    }
}

fn node_directory(scratch: &Path, index: usize) -> PathBuf {
    scratch.join(format!("node{}", index + 1))
}

/// A limit that clients never reach, for which every request asks the store.
fn counting(front: Ipv4Addr) -> String {
    let port = store::PORT;
    format!(
        "\
LoadModule socache_redis_module modules/mod_socache_redis.so
LoadModule client_limit_module modules/mod_client_limit.so
ClientLimitStore redis:{front}:{port}
<Location />
    ClientLimit 100000/h burst=100000 by=%{{HTTP:Host}}
</Location>
"
    )
}

fn configuration(scratch: &Path, own: &Path, ip: Ipv4Addr, account: Option<(&str, &str)>) -> String {
    let (scratch, own) = (scratch.display(), own.display());
    let account = account.map_or_else(String::new, |(user, group)| format!("User {user}\nGroup {group}\n"));
    format!(
        "\
ServerRoot {own}
ServerName {ip}
LoadModule mpm_percore_module modules/mod_mpm_percore.so
LoadModule authz_core_module modules/mod_authz_core.so
LoadModule alias_module modules/mod_alias.so
LoadModule cgi_module modules/mod_cgi.so
LoadModule agent_module modules/mod_agent.so
{account}Listen {ip}:{PORT}
AgentListen {ip}:{AGENT_PORT}
GracefulShutdownDelay 3s
PidFile {own}/httpd.pid
ErrorLog {own}/error.log
DocumentRoot {scratch}/documents
ScriptAlias /cgi-bin/ {scratch}/scripts/
<Directory />
    AllowOverride None
    Require all denied
</Directory>
<Directory {scratch}/documents>
    Require all granted
</Directory>
<Directory {scratch}/scripts>
    Require all granted
</Directory>
<Location /alive>
    SetHandler server-alive
    Require all granted
</Location>
"
    )
}

/// A running node; dropping this ends all its processes.
#[derive(Debug)]
pub(super) struct Node {
    equipment: Rc<Equipment>,
    network: Rc<Network>,
    index: usize,
    directory: PathBuf,
    group: Group,
    /// What the laboratory has started in it, and has to wait for.
    children: Vec<Child>,
}

impl Node {
    /// Starts one, and waits until it accepts connections.
    pub(super) fn start(
        equipment: &Rc<Equipment>,
        network: &Rc<Network>,
        index: usize,
        capacity: Capacity,
        has_store: bool,
    ) -> Result<Self> {
        let directory = equipment.scratch.create_anew(&format!("node{}", index + 1))?;
        equipment.give_away(&directory)?;
        write_file(directory.join("httpd.conf"), equipment.configuration(index, has_store))?;
        let group = Group::make(&format!("{NODE}{}", index + 1), capacity)?;
        let (equipment, network) = (equipment.clone(), network.clone());
        let mut node = Self { equipment, network, index, directory, group, children: Vec::new() };
        node.start_again()?;
        Ok(node)
    }

    /// Starts its server, which has ended, once more.
    pub(super) fn start_again(&mut self) -> Result<()> {
        let program = self.equipment.program.clone();
        self.run(&program, &["-DFOREGROUND"])?;
        let address = SocketAddr::from((network::address(self.index), PORT));
        let connects = || TcpStream::connect_timeout(&address, LIMIT).is_ok();
        let mut children = std::mem::take(&mut self.children);
        let mut has_ended = || children.iter_mut().all(|child| matches!(child.try_wait(), Ok(Some(_))));
        let outcome = self.until(|| connects() || has_ended(), "does not accept connections");
        let ended = has_ended();
        self.children = children;
        match outcome {
            Ok(()) if ended => {
                Err(Error::new(format!("node {} has ended{}", self.index + 1, last_words(&self.directory))))
            }
            outcome => outcome,
        }
    }

    /// Runs a program within the node, with the arguments that name its configuration if it is the server.
    fn run(&mut self, program: &Path, arguments: &[&str]) -> Result<()> {
        let output_path = self.directory.join("output.log");
        let open = || File::options().create(true).append(true).open(&output_path);
        let output = || open().context(|| format!("open {}", output_path.display()));
        let network = self.network.of_node(self.index);
        let mut command = launch::command_within(&network, &self.group.entrances(), program)?;
        if program == self.equipment.program {
            command.args(self.naming());
        }
        command.args(arguments).stdin(Stdio::null()).stdout(output()?).stderr(output()?);
        // A server ends by signalling its process group, which must not be ours.
        let child = command.process_group(0).spawn().context(|| format!("start {}", program.display()))?;
        self.children.push(child);
        Ok(())
    }

    fn naming(&self) -> [String; 4] {
        let path = |path: &Path| path.display().to_string();
        ["-d".to_owned(), path(&self.directory), "-f".to_owned(), path(&self.directory.join("httpd.conf"))]
    }

    /// Runs the program beside the server: `ctl drain`, `-k upgrade`.
    fn command(&self, before: &[&str], after: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.equipment.program);
        command.args(before).args(self.naming()).args(after).stdin(Stdio::null());
        let output = command.output().context(|| format!("run {}", self.equipment.program.display()))?;
        let said = || String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned();
        let what = [before, after].concat().join(" ");
        let failed = || Error::new(format!("`tsubame {what}` failed on node {}: {}", self.index + 1, said().trim()));
        output.status.success().then_some(()).ok_or_else(failed)
    }

    /// Kills all its processes at once.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.group.end();
        self.wait_for_children()
    }

    /// Stops all its processes where they stand.
    pub(super) fn freeze(&mut self) -> Result<()> {
        self.group.signal(Signal::STOP);
        Ok(())
    }

    /// Lets all its processes go on.
    pub(super) fn thaw(&mut self) -> Result<()> {
        self.group.signal(Signal::CONT);
        Ok(())
    }

    /// Pulls its cable out.
    pub(super) fn unplug(&mut self) -> Result<()> {
        self.network.plug(self.index, false)
    }

    /// Plugs its cable in.
    pub(super) fn plug(&mut self) -> Result<()> {
        self.network.plug(self.index, true)
    }

    /// Lets other programs take most of the memory. Each is small, so the kernel ends scripts before them.
    pub(super) fn let_hogs_in(&mut self) -> Result<()> {
        let hog = self.equipment.directory().join("scripts").join(HOG.name);
        (0..HOGS).try_for_each(|_| self.run(&hog, &[]))
    }

    /// Ends those programs.
    pub(super) fn end_hogs(&mut self) -> Result<()> {
        let hogs = self.children.split_off(self.children.len().saturating_sub(HOGS));
        let end =
            |mut hog: Child| hog.kill().and_then(|()| hog.wait()).map(drop).context(|| "end a program".to_owned());
        hogs.into_iter().try_for_each(end)
    }

    /// Asks that no new clients are sent.
    pub(super) fn drain(&mut self) -> Result<()> {
        self.command(&["ctl"], &["drain"])
    }

    /// Takes that back.
    pub(super) fn make_ready(&mut self) -> Result<()> {
        self.command(&["ctl"], &["ready"])
    }

    /// Asks the server to end gracefully.
    pub(super) fn stop_gracefully(&mut self) -> Result<()> {
        let text = read_text(self.directory.join("httpd.pid"))?;
        let pid = text.trim().parse().ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Error::new("the pid file has no number"))?;
        kill_process(pid, Signal::WINCH).context(|| "stop a node gracefully".to_owned())
    }

    /// Waits until the server has ended, and starts it again.
    pub(super) fn start_after_end(&mut self) -> Result<()> {
        self.wait_for_children()?;
        self.start_again()
    }

    /// Replaces the program with itself.
    pub(super) fn upgrade(&mut self) -> Result<()> {
        self.command(&[], &["-k", "upgrade"])
    }

    /// Nothing has to be undone.
    pub(super) fn leave(&mut self) -> Result<()> {
        Ok(())
    }

    fn wait_for_children(&mut self) -> Result<()> {
        let mut children = std::mem::take(&mut self.children);
        self.until(|| children.iter_mut().all(|child| matches!(child.try_wait(), Ok(Some(_)))), "does not end")
    }

    fn until(&self, mut is_so: impl FnMut() -> bool, what: &str) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while !is_so() {
            interrupt::check()?;
            if Instant::now() > deadline {
                let text = format!("node {} {what} after {LIMIT:?}", self.index + 1);
                return Err(Error::new(format!("{text}{}", last_words(&self.directory))));
            }
            std::thread::sleep(INTERVAL);
        }
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.group.end();
        for child in &mut self.children {
            let _ = child.wait();
        }
        // It may be out after a failure.
        let _ = self.plug();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_an_agent_and_a_delay() {
        let text = configuration(Path::new("/s"), Path::new("/s/node2"), network::address(1), Some(("u", "g")));
        for line in ["Listen 198.18.2.2:80", "AgentListen 198.18.2.2:9009", "GracefulShutdownDelay 3s", "User u"] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!configuration(Path::new("/s"), Path::new("/n"), network::address(0), None).contains("User"));
    }
}

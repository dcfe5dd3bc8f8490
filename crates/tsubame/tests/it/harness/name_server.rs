//! A name server of a test's own, which the system's resolver asks in the processes that are started by it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::harness::site::Site;

/// The answer for a name.
#[derive(Clone, Copy)]
pub enum Reply {
    /// There is no such name.
    None,
    /// The name of an address.
    Name(&'static str),
    /// The address of a name.
    Address(Ipv4Addr),
    /// The server cannot say (SERVFAIL).
    Failure,
    /// Nothing, until [`NameServer::speak`].
    Silence,
}

/// A running one; it ends with this value.
pub struct NameServer {
    socket: UdpSocket,
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
    by: Vec<String>,
}

struct State {
    replies: BTreeMap<String, Reply>,
    asked: Vec<String>,
    /// Unanswered questions.
    open: Vec<(Vec<u8>, SocketAddr)>,
}

/// The question for the name of the address that all clients of tests have.
pub const CLIENT: &str = "1.0.0.127.in-addr.arpa";

impl NameServer {
    /// Starts one with replies for names; all others are [`Reply::None`].
    pub fn start(site: &Site, replies: &[(&str, Reply)]) -> NameServer {
        let socket = UdpSocket::bind((site.ip, 53)).expect("the port of name servers");
        let replies = replies.iter().map(|(name, reply)| (name.to_string(), *reply)).collect();
        let state = Arc::new(Mutex::new(State { replies, asked: Vec::new(), open: Vec::new() }));
        let file = site.file("conf/resolv.conf", format!("nameserver {}\noptions timeout:30 attempts:1\n", site.ip));
        let hosts = site.file("conf/hosts", "");
        let mount = format!(
            "mount --bind {} /etc/resolv.conf && mount --bind {} /etc/hosts && exec \"$@\"",
            file.display(),
            hosts.display()
        );
        let by = ["unshare", "--mount", "sh", "-c", &mount, "sh"].map(str::to_string).to_vec();
        let (own, shared) = (socket.try_clone().expect("socket"), state.clone());
        let thread = Some(std::thread::spawn(move || answer_all(&own, &shared)));
        NameServer { socket, state, thread, by }
    }

    /// The command that makes a program ask this server.
    pub fn by(&self) -> Vec<String> {
        self.by.clone()
    }

    /// How often a name was asked for.
    pub fn count(&self, name: &str) -> usize {
        lock(&self.state).asked.iter().filter(|asked| *asked == name).count()
    }

    /// Changes the answer for a name, also for clients that have asked before.
    pub fn speak(&self, name: &str, reply: Reply) {
        let mut state = lock(&self.state);
        state.replies.insert(name.into(), reply);
        for (question, from) in std::mem::take(&mut state.open) {
            answer(&self.socket, &mut state, question, from);
        }
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let address = self.socket.local_addr().expect("address");
        // A packet that is no question ends the server.
        let _ = self.socket.send_to(b"", address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer_all(socket: &UdpSocket, state: &Mutex<State>) {
    let mut buffer = [0; 1024];
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        if length < 12 {
            return;
        }
        let mut state = lock(state);
        let name = name_in(&buffer[..length]).0;
        state.asked.push(name);
        answer(socket, &mut state, buffer[..length].to_vec(), from);
    }
}

/// The name that is asked for, and where the question ends (RFC 1035 section 4.1.2).
fn name_in(question: &[u8]) -> (String, usize) {
    let (mut at, mut labels) = (12, Vec::new());
    while question[at] != 0 {
        let length = usize::from(question[at]);
        labels.push(String::from_utf8_lossy(&question[at + 1..=at + length]).to_ascii_lowercase());
        at += length + 1;
    }
    (labels.join("."), at + 5)
}

fn answer(socket: &UdpSocket, state: &mut State, question: Vec<u8>, from: SocketAddr) {
    let (name, end) = name_in(&question);
    let kind = question[end - 3];
    let (code, data) = match state.replies.get(&name).copied().unwrap_or(Reply::None) {
        Reply::Silence => return state.open.push((question, from)),
        Reply::None => (3, None),
        Reply::Failure => (2, None),
        Reply::Address(address) => (0, Some(address.octets().to_vec()).filter(|_| kind == 1)),
        Reply::Name(name) => {
            let labels = name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
            (0, Some(labels.chain([0]).collect()).filter(|_| kind == 12))
        }
    };
    let mut answer = question[..2].to_vec();
    answer.extend([0x81, 0x80 | code, 0, 1, 0, u8::from(data.is_some()), 0, 0, 0, 0]);
    answer.extend(&question[12..end]);
    if let Some(data) = data {
        // The name is the question's; class IN, a minute to live.
        answer.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        answer.extend(data);
    }
    let _ = socket.send_to(&answer, from);
}

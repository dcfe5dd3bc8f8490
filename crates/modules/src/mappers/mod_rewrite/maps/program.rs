//! Maps that are programs: each gets a key per line and answers with a value per line.
//!
//! All children use the same program. It belongs to a helper process ([`helper`](super::helper)), in which a thread
//! queries it for one key after the other; a child sends that thread a key together with a socket for the answer, and
//! waits for it asynchronously.

use std::ffi::CString;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use conf::Cmd;
use runtime::executor::{Descriptor, sleep, timeout_at};
use server::Request;
use server::core::CoreServer;
use sys::cred::{Identity, group, user};
use sys::time::Instant;
use tokio::io::{AsyncRead, ReadBuf};

/// The longest key and the longest answer, in bytes.
pub(super) const TEXT_MAX: usize = 32 << 10;
/// How soon a child retries if its query did not fit into the queue: the kernel does not report when there is room.
const RETRY: Duration = Duration::from_millis(5);

/// The first byte of an answer.
pub(super) const VALUE: u8 = b'v';
pub(super) const NONE: u8 = b'n';
pub(super) const FAILED: u8 = b'f';

/// The program of a `prg:` map, as configured, and the sockets to the helper process that runs it.
#[derive(Debug)]
pub(in crate::mappers::mod_rewrite) struct Program {
    /// Its path, and its arguments.
    pub(super) words: Vec<CString>,
    pub(super) identity: Option<Identity>,
    /// The sockets for sending and receiving queries.
    pub(super) channel: OnceLock<(UnixDatagram, UnixDatagram)>,
}

impl Program {
    /// `prg:PATH ARGUMENTS`, with an optional `user:group`.
    pub(in crate::mappers::mod_rewrite) fn new(
        cmd: &Cmd<'_>,
        name: &str,
        line: &str,
        owner: Option<&str>,
    ) -> Result<Program, String> {
        let mut words = conf::words::argv(line);
        if words.is_empty() {
            words.push(String::new());
        }
        words[0] = cmd.context.server_relative(&words[0]);
        if !cmd.context.system.exists(&words[0]) {
            return Err(format!("RewriteMap: file for map {name} not found:{}", words[0]));
        }
        let words = words.iter().map(|word| CString::new(&*http::text::to_bytes(word)));
        let words = words.collect::<Result<_, _>>().map_err(|_| format!("RewriteMap: bad path to prg map: {line}"))?;
        let identity = owner.map(owned_by).transpose()?;
        Ok(Program { words, identity, channel: OnceLock::new() })
    }

    /// The program's value for a key; `None`: it answers `NULL`.
    pub(super) async fn look_up(&self, request: &Request, key: &str) -> io::Result<Option<String>> {
        let key = http::text::to_bytes(key).into_owned();
        // A line feed would make two keys of it.
        if key.contains(&b'\n') {
            return Ok(None);
        }
        if key.len() > TEXT_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the key is too long"));
        }
        let (questions, _) = self.channel.get().ok_or_else(|| io::Error::other("the program does not run"))?;
        let deadline = Instant::now() + request.host::<CoreServer>().timeout();
        let (own, theirs) = UnixStream::pair()?;
        own.set_nonblocking(true)?;
        let answer = timeout_at(deadline, async {
            // An empty packet would look like an end.
            let packet = [b"k".as_slice(), &key].concat();
            while let Err(error) = sys::local::send(questions, &packet, &[theirs.as_fd()]) {
                match error.kind() {
                    io::ErrorKind::WouldBlock => sleep(RETRY).await,
                    _ => return Err(error),
                }
            }
            drop(theirs);
            read_to_end(Descriptor::new(OwnedFd::from(own))?).await
        });
        let answer = answer.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        match answer.split_first() {
            Some((&VALUE, value)) => Ok(Some(http::text::from_bytes(value).into_owned())),
            Some((&NONE, _)) => Ok(None),
            Some((_, why)) => Err(io::Error::other(String::from_utf8_lossy(why).into_owned())),
            None => Err(io::Error::other("the process that queries it has ended")),
        }
    }
}

/// Reads everything, up to a limit.
async fn read_to_end(mut socket: Descriptor) -> io::Result<Vec<u8>> {
    let (mut all, mut piece) = (Vec::new(), vec![0; 4096]);
    while all.len() <= TEXT_MAX {
        let mut buffer = ReadBuf::new(&mut piece);
        poll_fn(|cx| Pin::new(&mut socket).poll_read(cx, &mut buffer)).await?;
        if buffer.filled().is_empty() {
            break;
        }
        all.extend_from_slice(buffer.filled());
    }
    Ok(all)
}

/// The user of a program: `user`, or `user:group`.
fn owned_by(owner: &str) -> Result<Identity, String> {
    let (name, of) = owner.split_once(':').map_or((owner, None), |(name, of)| (name, Some(of)));
    let unknown = |what: &str| format!("RewriteMap: no such {what} for the program: {owner}");
    let found = user(name).ok().flatten().ok_or_else(|| unknown("user"))?;
    let gid = match of {
        None => found.gid,
        Some(of) => group(of).ok().flatten().ok_or_else(|| unknown("group"))?,
    };
    Ok(Identity::new(&found, gid))
}

//! A cache in servers of memcached, `memcache:HOST[:PORT][,…]`.
//!
//! Apache manual: mod_socache_memcache; messages measured on 2.4.71. The protocol is memcached's text protocol
//! (`protocol.txt`), of which a few commands and their replies are needed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use conf::directive::Args::Take1;
use conf::{Allowed, Directive, ModuleInfo, Setting, row, settings};
use server::module::{ObjectCache, Opening, SharedCache};
use server::{Hook, Module, Waiting};

use super::object_servers::{Beginning, Servers, addresses, broken, check, length, line, name_of, set_time};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "socache_memcache_module",
        source: "mod_socache_memcache.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[Hook::SharedCache(&CACHE)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("MemcacheConnTTL", Allowed::SERVER, Take1(|c, v| set_time(c, v, |c, time| c.server_set(|s: &mut MemcacheServer| &mut s.ttl, time))), "15s", "TTL used for the connection with the memcache server(s)"),
];

static CACHE: SharedCache = SharedCache {
    names: &["memcache"],
    check: |list| check(list, PORT, "memcache"),
    is_remote: true,
    keeps_debts: false,
    open,
};

const PORT: u16 = 11211;
/// How long an idle connection is kept.
const TTL: Duration = Duration::from_secs(15);
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longer times of expiry are dates, in seconds (`protocol.txt`: 30 days).
const RELATIVE_MAX: u64 = 60 * 60 * 24 * 30;

settings! {
    /// The module's settings of a server.
    pub struct MemcacheServer {
        ttl: Setting<Duration> = TTL,
    }
}

fn open(opening: &Opening<'_>) -> io::Result<Arc<dyn ObjectCache>> {
    let list = addresses(opening.argument.unwrap_or_default(), PORT).ok_or(io::ErrorKind::InvalidInput)?;
    let ttl = opening.host.settings.get::<MemcacheServer>().ttl();
    Ok(Arc::new(Memcache(Servers::new(list, TIMEOUT, ttl, Beginning::default()))))
}

struct Memcache(Servers);

impl Memcache {
    /// Sends a command, and reads its reply.
    async fn command(&self, name: &str, command: &[u8]) -> io::Result<Reply> {
        match self.0.ask(name, command, reply).await? {
            Reply::TooLarge => Err(io::ErrorKind::FileTooLarge.into()),
            Reply::Error(why) => Err(self.0.broken(name, &why)),
            reply => Ok(reply),
        }
    }

    /// Stores an object with this command.
    async fn store(&self, verb: &str, key: &[u8], object: &[u8], lifetime: Duration) -> io::Result<Reply> {
        let name = name_of(key);
        let seconds = match lifetime.as_secs().max(1) {
            relative @ ..=RELATIVE_MAX => relative,
            longer => sys::time::realtime().as_secs().saturating_add(longer),
        };
        let mut command = format!("{verb} {name} 0 {seconds} {}\r\n", object.len()).into_bytes();
        command.extend(object);
        command.extend(b"\r\n");
        self.command(&name, &command).await
    }
}

impl ObjectCache for Memcache {
    fn get<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, io::Result<Option<Bytes>>> {
        Box::pin(async move {
            let name = name_of(key);
            match self.command(&name, format!("get {name}\r\n").as_bytes()).await? {
                Reply::None => Ok(None),
                Reply::Object(own, object) if own == name => Ok(Some(object)),
                _ => Err(broken("its answer to get is none")),
            }
        })
    }

    fn put<'a>(&'a self, key: &'a [u8], object: Bytes, lifetime: Duration) -> Waiting<'a, io::Result<()>> {
        Box::pin(async move { self.store("set", key, &object, lifetime).await.map(drop) })
    }

    fn replace<'a>(&'a self, key: &'a [u8], object: Bytes, lifetime: Duration) -> Waiting<'a, io::Result<bool>> {
        Box::pin(async move { Ok(self.store("replace", key, &object, lifetime).await? == Reply::Done) })
    }

    fn remove<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, io::Result<()>> {
        Box::pin(async move {
            let name = name_of(key);
            self.command(&name, format!("delete {name}\r\n").as_bytes()).await.map(drop)
        })
    }
}

/// A reply to one of our commands.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    /// To `set`, `replace` and `delete`.
    Done,
    /// To `replace`: there is no object to replace.
    NotStored,
    /// To `get`: there is no object.
    None,
    /// To `get`: the name of the object, and the object.
    Object(String, Bytes),
    /// To `set`: the object is larger than the server allows.
    TooLarge,
    /// Why the server refuses.
    Error(String),
}

fn reply(bytes: &[u8]) -> io::Result<Option<(Reply, usize)>> {
    const END: &[u8] = b"\r\nEND\r\n";
    let Some((text, rest)) = line(bytes)? else { return Ok(None) };
    let used = bytes.len() - rest.len();
    let reply = match text {
        b"STORED" | b"DELETED" | b"NOT_FOUND" => Reply::Done,
        b"NOT_STORED" => Reply::NotStored,
        b"END" => Reply::None,
        b"SERVER_ERROR object too large for cache" => Reply::TooLarge,
        _ => match text.strip_prefix(b"VALUE ") {
            Some(value) => {
                // The name, flags and the length.
                let words: Vec<&[u8]> = value.split(|byte| *byte == b' ').collect();
                let &[name, _, digits] = &words[..] else { return Err(broken("its object has no length")) };
                let length = length(digits)?;
                let Some(object) = rest.get(..length + END.len()) else { return Ok(None) };
                let (object, end) = object.split_at(length);
                if end != END {
                    return Err(broken("its object does not end where it says"));
                }
                let name = String::from_utf8_lossy(name).into_owned();
                let length = used + length + END.len();
                return Ok(Some((Reply::Object(name, Bytes::copy_from_slice(object)), length)));
            }
            None if text.ends_with(b"ERROR") || memchr::memmem::find(text, b"ERROR ").is_some() => {
                Reply::Error(String::from_utf8_lossy(text).escape_debug().to_string())
            }
            None => return Err(broken("its reply is not one of memcached")),
        },
    };
    Ok(Some((reply, used)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies() {
        let object = |text: &'static str| Reply::Object("k".into(), Bytes::from_static(text.as_bytes()));
        for (bytes, expected) in [
            ("STORED\r\n", Reply::Done),
            ("NOT_FOUND\r\n", Reply::Done),
            ("NOT_STORED\r\n", Reply::NotStored),
            ("END\r\n", Reply::None),
            ("VALUE k 0 0\r\n\r\nEND\r\n", object("")),
            ("VALUE k 0 4\r\na\r\nb\r\nEND\r\n", object("a\r\nb")),
            ("SERVER_ERROR object too large for cache\r\n", Reply::TooLarge),
            ("SERVER_ERROR out of memory\r\n", Reply::Error("SERVER_ERROR out of memory".into())),
            ("ERROR\r\n", Reply::Error("ERROR".into())),
        ] {
            assert_eq!(reply(bytes.as_bytes()).expect(bytes), Some((expected, bytes.len())));
            assert!((0..bytes.len()).all(|end| reply(&bytes.as_bytes()[..end]).expect(bytes).is_none()), "{bytes}");
        }
        let wrong =
            ["VALUE k 0 3\r\nabcd\r\nEND\r\n", "VALUE k 0 x\r\n", "VALUE k 0 16777217\r\n", "VALUE k\r\n", "x\r\n"];
        for wrong in wrong {
            assert!(reply(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(reply(&[b'E'; 2000]).is_err());
    }

    #[test]
    fn directives() {
        crate::testing::check(&[
            ("MemcacheConnTTL 10\nMemcacheConnTTL 0", ""),
            ("MemcacheConnTTL -5", "MemcacheConnTTL has wrong format"),
            ("MemcacheConnTTL 2h", "MemcacheConnTTL can only be 0 or up to one hour."),
        ]);
    }
}

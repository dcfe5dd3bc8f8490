//! A cache in servers of Redis, `redis:HOST[:PORT][,…]`.
//!
//! Apache manual: mod_socache_redis; messages measured on 2.4.71. The protocol is RESP, of which three commands and their
//! replies are needed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use conf::directive::Args::Take1;
use conf::{Allowed, Directive, ModuleInfo, Setting, row, settings};
use server::module::{ObjectCache, Opening, SharedCache};
use server::{Hook, Module, Waiting};

use super::object_servers::{Servers, addresses, broken, check, length, line, name_of, set_time};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "socache_redis_module",
        source: "mod_socache_redis.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[Hook::SharedCache(&CACHE)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("RedisConnPoolTTL", Allowed::SERVER, Take1(|c, v| set_time(c, v, |c, time| c.server_set(|s: &mut RedisServer| &mut s.ttl, time))), "15s", "TTL used for the connection pool with the Redis server(s)"),
    row("RedisTimeout", Allowed::SERVER, Take1(|c, v| set_time(c, v, |c, time| c.server_set(|s: &mut RedisServer| &mut s.timeout, time))), "5s", "R/W timeout used for the connection with the Redis server(s)").differs("Counts from the request to the end of the answer. `0` is the default; Apache can use no server then."),
];

static CACHE: SharedCache = SharedCache { names: &["redis"], check: |list| check(list, PORT, "redis"), open };

const PORT: u16 = 6379;
/// How long an idle connection is kept.
const TTL: Duration = Duration::from_secs(15);
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);

settings! {
    /// The module's settings of a server.
    pub struct RedisServer {
        ttl: Setting<Duration> = TTL,
        timeout: Setting<Duration> = TIMEOUT,
    }
}

fn open(opening: &Opening<'_>) -> io::Result<Arc<dyn ObjectCache>> {
    let list = addresses(opening.argument.unwrap_or_default(), PORT).ok_or(io::ErrorKind::InvalidInput)?;
    let conf = opening.host.settings.get::<RedisServer>();
    let timeout = Some(conf.timeout()).filter(|time| !time.is_zero()).unwrap_or(TIMEOUT);
    Ok(Arc::new(Redis(Servers::new(list, timeout, conf.ttl()))))
}

struct Redis(Servers);

impl Redis {
    /// Sends a command, and reads its reply.
    async fn command(&self, name: &str, words: &[&[u8]]) -> io::Result<Reply> {
        match self.0.ask(name, &command(words), reply).await? {
            Reply::Error(why) => Err(broken(&why)),
            reply => Ok(reply),
        }
    }
}

impl ObjectCache for Redis {
    fn get<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, io::Result<Option<Bytes>>> {
        Box::pin(async move {
            let name = name_of(key);
            match self.command(&name, &[b"GET", name.as_bytes()]).await? {
                Reply::Object(object) => Ok(object),
                _ => Err(broken("its answer to GET is none")),
            }
        })
    }

    fn put<'a>(&'a self, key: &'a [u8], object: Bytes, lifetime: Duration) -> Waiting<'a, io::Result<()>> {
        Box::pin(async move {
            let name = name_of(key);
            let milliseconds = lifetime.as_millis().max(1).to_string();
            self.command(&name, &[b"SET", name.as_bytes(), &object, b"PX", milliseconds.as_bytes()]).await.map(drop)
        })
    }

    fn remove<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, io::Result<()>> {
        Box::pin(async move {
            let name = name_of(key);
            self.command(&name, &[b"DEL", name.as_bytes()]).await.map(drop)
        })
    }
}

/// The bytes of a command: an array of its words.
fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend(format!("${}\r\n", word.len()).bytes());
        out.extend(*word);
        out.extend(b"\r\n");
    }
    out
}

/// A reply to one of our commands.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    /// To `SET`: it is done. To `DEL`: so many objects were removed.
    Done,
    /// To `GET`.
    Object(Option<Bytes>),
    /// Why the server refuses.
    Error(String),
}

fn reply(bytes: &[u8]) -> io::Result<Option<(Reply, usize)>> {
    let Some((text, rest)) = line(bytes)? else { return Ok(None) };
    let used = bytes.len() - rest.len();
    let reply = match text.split_first() {
        Some((b'+' | b':', _)) => Reply::Done,
        Some((b'-', why)) => Reply::Error(String::from_utf8_lossy(why).escape_debug().to_string()),
        Some((b'$', b"-1")) => Reply::Object(None),
        Some((b'$', digits)) => {
            let length = length(digits)?;
            let Some(object) = rest.get(..length + 2) else { return Ok(None) };
            let object = object.strip_suffix(b"\r\n").ok_or_else(|| broken("its object does not end where it says"))?;
            return Ok(Some((Reply::Object(Some(Bytes::copy_from_slice(object))), used + length + 2)));
        }
        _ => return Err(broken("its reply is not one of Redis")),
    };
    Ok(Some((reply, used)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_replies() {
        assert_eq!(command(&[b"GET", b"a\r\nb"]), b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n");
        let object = |text: &'static str| Reply::Object(Some(Bytes::from_static(text.as_bytes())));
        for (bytes, expected) in [
            ("+OK\r\n", Reply::Done),
            (":1\r\n", Reply::Done),
            ("$-1\r\n", Reply::Object(None)),
            ("$0\r\n\r\n", object("")),
            ("$4\r\na\r\nb\r\n", object("a\r\nb")),
            ("-ERR no\r\n", Reply::Error("ERR no".into())),
        ] {
            assert_eq!(reply(bytes.as_bytes()).expect(bytes), Some((expected, bytes.len())));
            assert!((0..bytes.len()).all(|end| reply(&bytes.as_bytes()[..end]).expect(bytes).is_none()), "{bytes}");
        }
        for wrong in
            ["$3\r\nabcd\r\n", "$-2\r\n", "$99999999999999999999\r\n", "$16777217\r\n", "*1\r\n", "\r\n", "$\r\n"]
        {
            assert!(reply(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(reply(&[b'+'; 2000]).is_err() && reply(&[b'+'; 1000]).is_ok());
    }

    #[test]
    fn directives() {
        crate::testing::check(&[
            ("RedisTimeout 500ms\nRedisConnPoolTTL 1h", ""),
            ("RedisTimeout x", "RedisTimeout has wrong format"),
            ("RedisConnPoolTTL 2h", "RedisConnPoolTTL can only be 0 or up to one hour."),
        ]);
    }
}

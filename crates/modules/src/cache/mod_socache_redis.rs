//! A cache in servers of Redis, `redis:HOST[:PORT][,…]`.
//!
//! Apache manual: mod_socache_redis; messages measured on 2.4.71. The protocol is RESP, of which a few commands and their
//! replies are needed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use conf::directive::Args::{Flag, Take1};
use conf::error::Phase;
use conf::{Allowed, Context, Directive, Error, ModuleInfo, Setting, on_or_off, row, settings};
use server::module::{Debit, ObjectCache, Opening, SharedCache, Spends};
use server::{Draft, Hook, Module, Waiting};
use upstream::TlsSettings;

use super::object_servers::{
    Beginning, Login, Servers, addresses, broken, check, length, line, name_of, number, set_time,
};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "socache_redis_module",
        source: "mod_socache_redis.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[Hook::SharedCache(&CACHE), Hook::Check(examine)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("RedisConnPoolTTL", Allowed::SERVER, Take1(|c, v| set_time(c, v, |c, time| c.server_set(|s: &mut RedisServer| &mut s.ttl, time))), "15s", "TTL used for the connection pool with the Redis server(s)"),
    row("RedisTimeout", Allowed::SERVER, Take1(|c, v| set_time(c, v, |c, time| c.server_set(|s: &mut RedisServer| &mut s.timeout, time))), "5s", "R/W timeout used for the connection with the Redis server(s)").differs("Counts from the request to the end of the answer. `0` is the default; Apache can use no server then."),
    row("RedisTLS", Allowed::GLOBAL, Flag(|c, on| c.server_set(|s: &mut RedisServer| &mut s.tls, on)), on_or_off(false), "Whether connections to Redis are encrypted"),
    row("RedisCACertificateFile", Allowed::GLOBAL, Take1(|c, v| { let file = c.context.server_relative(v); c.server_set(|s: &mut RedisServer| &mut s.ca_file, file) }), "", "The certificates of authorities (PEM) that Redis's certificate may come from; without this line, those that the system trusts"),
    row("RedisUser", Allowed::GLOBAL, Take1(|c, v| c.server_set(|s: &mut RedisServer| &mut s.user, v.to_string())), "", "The user of Redis (ACL) to log in as; without this line, the default user"),
    row("RedisPasswordFile", Allowed::GLOBAL, Take1(|c, v| { let file = c.context.server_relative(v); c.server_set(|s: &mut RedisServer| &mut s.password_file, file) }), "", "The file whose first line is the password for Redis"),
];

static CACHE: SharedCache = SharedCache {
    names: &["redis"],
    check: |list| check(list, PORT, "redis"),
    is_remote: true,
    keeps_debts: true,
    open,
};

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
        tls: Setting<bool> = false,
        ca_file: Setting<String>,
        user: Setting<String>,
        password_file: Setting<String>,
    }
}

/// What clients owe, in one step of the server, which has the one clock of the fleet. `KEYS`: the accounts. `ARGV`, four for each: the
/// time that a request costs, how far ahead a client may be that asks, both in microseconds; `1` if the request counts then, `2` if it
/// counts whatever the client owes, `3` if the time is given back, `0` if nothing changes; and `1` if nobody is asked after a refusal. The
/// reply: how far ahead the client was on each account.
const DEBIT: &str = "local t = redis.call('TIME') \
local now = t[1] * 1000000 + t[2] \
local all = {} \
for i, key in ipairs(KEYS) do \
local each, room, how = tonumber(ARGV[4 * i - 3]), tonumber(ARGV[4 * i - 2]), ARGV[4 * i - 1] \
local ahead = math.max((tonumber(redis.call('GET', key)) or 0) - now, 0) \
local paid = ahead \
if how == '2' or how == '1' and ahead <= room then paid = ahead + each elseif how == '3' then paid = math.max(ahead - each, 0) end \
if paid > 0 and paid ~= ahead then \
redis.call('SET', key, string.format('%.0f', now + paid), 'PX', string.format('%.0f', math.ceil(paid / 1000))) \
elseif paid ~= ahead then redis.call('DEL', key) end \
all[i] = ahead \
if ARGV[4 * i] == '1' and ahead > room then break end \
end \
return all";

fn open(opening: &Opening<'_>) -> io::Result<Arc<dyn ObjectCache>> {
    let list = addresses(opening.argument.unwrap_or_default(), PORT).ok_or(io::ErrorKind::InvalidInput)?;
    let conf = opening.host.settings.get::<RedisServer>();
    let timeout = Some(conf.timeout()).filter(|time| !time.is_zero()).unwrap_or(TIMEOUT);
    let beginning = beginning(opening.server.main().settings.get::<RedisServer>()).map_err(io::Error::other)?;
    Ok(Arc::new(Redis(Servers::new(list, timeout, conf.ttl(), beginning))))
}

/// Finds out whether connections can begin as the configuration says.
fn examine(draft: &mut Draft, _: &mut Context) -> Result<(), Error> {
    let conf = draft.main.get::<RedisServer>();
    let lost = [
        ("RedisCACertificateFile", conf.ca_file.origin(), "RedisTLS on", !conf.tls()),
        ("RedisUser", conf.user.origin(), "RedisPasswordFile", conf.password_file.get().is_none()),
    ];
    for (name, origin, other, is_lost) in lost {
        if let (Some(origin), true) = (origin, is_lost) {
            return Err(Error::at(Phase::Check, origin, format!("{name} has no effect without {other}")));
        }
    }
    let origin = conf.password_file.origin().or(conf.ca_file.origin());
    beginning(conf).map(drop).map_err(|why| match origin {
        Some(origin) => Error::at(Phase::Check, origin, why),
        None => Error::check(why),
    })
}

/// How connections begin. `Err`: what is wrong with a file.
fn beginning(conf: &RedisServer) -> Result<Beginning, String> {
    let tls = conf.tls().then(|| crate::trusted::client(conf.ca_file.get().map(String::as_str))).transpose();
    let tls = tls.map_err(|error| format!("RedisCACertificateFile {}", sys::describe(&error)))?;
    let tls = tls.map(|config| Arc::new(TlsSettings::new(config, Box::new(|_, _| Ok(())))));
    Ok(Beginning { tls, login: login(conf)? })
}

/// The command to log in with, if there is a password.
fn login(conf: &RedisServer) -> Result<Option<Login>, String> {
    let Some(file) = conf.password_file.get() else { return Ok(None) };
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("RedisPasswordFile {file}: {}", sys::describe(&error)))?;
    let password = text.lines().next().unwrap_or_default();
    if password.is_empty() {
        return Err(format!("RedisPasswordFile {file}: its first line is empty"));
    }
    let words = [Some("AUTH"), conf.user.get().map(String::as_str), Some(password)];
    let words: Vec<&[u8]> = words.into_iter().flatten().map(str::as_bytes).collect();
    Ok(Some(Login { command: command(&words), read: welcome }))
}

/// Reads the answer to `AUTH`.
fn welcome(bytes: &[u8]) -> io::Result<Option<((), usize)>> {
    match reply(bytes)? {
        None => Ok(None),
        Some((Reply::Done, used)) => Ok(Some(((), used))),
        Some((Reply::Error(why), _)) => Err(broken(&why)),
        Some(_) => Err(broken("its answer to AUTH is none")),
    }
}

struct Redis(Servers);

impl Redis {
    /// Sends a command, and reads its reply.
    async fn command(&self, name: &str, words: &[impl AsRef<[u8]>]) -> io::Result<Reply> {
        match self.0.ask(name, &command(words), reply).await? {
            Reply::Error(why) => Err(self.0.broken(name, &why)),
            reply => Ok(reply),
        }
    }

    /// Stores an object, under a condition if there is one.
    async fn store(&self, key: &[u8], object: &[u8], lifetime: Duration, only: Option<&[u8]>) -> io::Result<Reply> {
        let name = name_of(key);
        let milliseconds = lifetime.as_millis().max(1).to_string();
        let words =
            [Some(&b"SET"[..]), Some(name.as_bytes()), Some(object), Some(b"PX"), Some(milliseconds.as_bytes()), only];
        self.command(&name, &words.into_iter().flatten().collect::<Vec<_>>()).await
    }
}

impl ObjectCache for Redis {
    fn get<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, io::Result<Option<Bytes>>> {
        Box::pin(async move {
            let name = name_of(key);
            match self.command(&name, &[b"GET", name.as_bytes()]).await? {
                Reply::Object(object) => Ok(object),
                _ => Err(self.0.broken(&name, "its answer to GET is none")),
            }
        })
    }

    fn put<'a>(&'a self, key: &'a [u8], object: Bytes, lifetime: Duration) -> Waiting<'a, io::Result<()>> {
        Box::pin(async move { self.store(key, &object, lifetime, None).await.map(drop) })
    }

    fn replace<'a>(&'a self, key: &'a [u8], object: Bytes, lifetime: Duration) -> Waiting<'a, io::Result<bool>> {
        // Only if the key exists.
        Box::pin(async move { Ok(self.store(key, &object, lifetime, Some(b"XX")).await? == Reply::Done) })
    }

    fn remove<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, io::Result<()>> {
        Box::pin(async move {
            let name = name_of(key);
            self.command(&name, &[b"DEL", name.as_bytes()]).await.map(drop)
        })
    }

    // A request whose answer was lost with an old connection is sent again: somebody may pay twice for it, never less than once.
    fn debit<'a>(&'a self, debits: &'a [Debit]) -> Waiting<'a, io::Result<Vec<Duration>>> {
        Box::pin(async move {
            let names: Vec<String> = debits.iter().map(|debit| name_of(debit.key.as_bytes())).collect();
            let accounts: Vec<(&String, &Debit)> = names.iter().zip(debits).collect();
            let mut all = Vec::new();
            // Accounts beside each other that are on the same server are one question.
            for part in accounts.chunk_by(|(one, _), (next, _)| self.0.place(one) == self.0.place(next)) {
                let Reply::Numbers(ahead) = self.command(part[0].0, &debit_words(part)).await? else {
                    return Err(self.0.broken(part[0].0, "its answer to EVAL is none"));
                };
                if ahead.is_empty() || ahead.len() > part.len() {
                    return Err(self.0.broken(part[0].0, "its answer to EVAL is about other accounts"));
                }
                all.extend(ahead.iter().copied().map(Duration::from_micros));
                let last = part[ahead.len() - 1].1;
                if last.is_final && all.last().is_some_and(|ahead| *ahead > last.room) {
                    break;
                }
            }
            Ok(all)
        })
    }
}

/// The words of the command for these accounts of one server.
fn debit_words(accounts: &[(&String, &Debit)]) -> Vec<Vec<u8>> {
    let word = |text: &str| text.as_bytes().to_vec();
    let mut words = vec![word("EVAL"), word(DEBIT), word(&accounts.len().to_string())];
    words.extend(accounts.iter().map(|(name, _)| word(name)));
    for (_, debit) in accounts {
        let how = match debit.spends {
            Spends::Nothing => "0",
            Spends::IfAllowed => "1",
            Spends::Always => "2",
            Spends::Returns => "3",
        };
        let [each, room] = [debit.each, debit.room].map(|time| word(&time.as_micros().to_string()));
        words.extend([each, room, word(how), word(if debit.is_final { "1" } else { "0" })]);
    }
    words
}

/// The bytes of a command: an array of its words.
fn command(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        out.extend(format!("${}\r\n", word.len()).bytes());
        out.extend(word);
        out.extend(b"\r\n");
    }
    out
}

/// A reply to one of our commands.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    /// To `SET` and `AUTH`: it is done.
    Done,
    /// To `DEL`: so many objects were removed.
    Number(u64),
    /// To `EVAL`: what the script returns.
    Numbers(Vec<u64>),
    /// To `GET`; none also to `SET` whose condition does not hold.
    Object(Option<Bytes>),
    /// Why the server refuses.
    Error(String),
}

fn reply(bytes: &[u8]) -> io::Result<Option<(Reply, usize)>> {
    let Some((text, rest)) = line(bytes)? else { return Ok(None) };
    let used = bytes.len() - rest.len();
    let reply = match text.split_first() {
        Some((b'+', _)) => Reply::Done,
        Some((b':', digits)) => Reply::Number(number(digits).ok_or_else(|| broken("its number is none"))?),
        Some((b'-', why)) => Reply::Error(kind_of_error(why)),
        Some((b'*', digits)) => {
            return numbers(number(digits).ok_or_else(|| broken("its number is none"))?, rest, used);
        }
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

/// The rest of a reply with so many numbers, of which `used` bytes are read.
fn numbers(count: u64, mut rest: &[u8], mut used: usize) -> io::Result<Option<(Reply, usize)>> {
    let mut all = Vec::new();
    for _ in 0..count {
        let Some((text, next)) = line(rest)? else { return Ok(None) };
        let one = text.strip_prefix(b":").and_then(number).ok_or_else(|| broken("its reply is not one of Redis"))?;
        all.push(one);
        used += rest.len() - next.len();
        rest = next;
    }
    Ok(Some((Reply::Numbers(all), used)))
}

/// The first word of an error, which is its kind. What follows may repeat what was sent, passwords and sessions too.
fn kind_of_error(text: &[u8]) -> String {
    let kind: String =
        text.iter().take_while(|byte| byte.is_ascii_uppercase()).take(32).copied().map(char::from).collect();
    format!("it answers with the error {}", if kind.is_empty() { "of no kind" } else { &kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_replies() {
        assert_eq!(command(&[&b"GET"[..], b"a\r\nb"]), b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n");
        let object = |text: &'static str| Reply::Object(Some(Bytes::from_static(text.as_bytes())));
        for (bytes, expected) in [
            ("+OK\r\n", Reply::Done),
            (":1\r\n", Reply::Number(1)),
            ("*2\r\n:1\r\n:20\r\n", Reply::Numbers(vec![1, 20])),
            ("*0\r\n", Reply::Numbers(vec![])),
            ("$-1\r\n", Reply::Object(None)),
            ("$0\r\n\r\n", object("")),
            ("$4\r\na\r\nb\r\n", object("a\r\nb")),
            ("-ERR no\r\n", Reply::Error("it answers with the error ERR".into())),
            ("-no\r\n", Reply::Error("it answers with the error of no kind".into())),
        ] {
            assert_eq!(reply(bytes.as_bytes()).expect(bytes), Some((expected, bytes.len())));
            assert!((0..bytes.len()).all(|end| reply(&bytes.as_bytes()[..end]).expect(bytes).is_none()), "{bytes}");
        }
        for wrong in [
            "$3\r\nabcd\r\n",
            "$-2\r\n",
            "$99999999999999999999\r\n",
            "$16777217\r\n",
            "*x\r\n",
            "*1\r\n+OK\r\n",
            "*1\r\n*1\r\n:1\r\n",
            "\r\n",
            "$\r\n",
            ":\r\n",
            ":-1\r\n",
        ] {
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
            ("RedisTLS on\nRedisCACertificateFile ca.pem\nRedisUser tsubame\nRedisPasswordFile redis.password", ""),
        ]);
    }
}

//! Caches of small objects that all children share (Apache manual, "Shared Object Cache in Apache HTTP Server").
//!
//! A module offers a [kind](SharedCache), a directive [names](NamedCache) a cache of that kind, and whoever has the directive
//! stores and finds objects in [it](ObjectCache). A cache may forget anything at any time, and may be out of reach: that only
//! costs time.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use sys::cred::Identity;

use crate::request::flow::Waiting;
use crate::site::server::Server;
use crate::site::vhost::VirtualHost;

/// The largest object that a cache takes or returns, in bytes: a request may have to hold one in memory. A cache may set a
/// lower limit of its own.
pub const OBJECT_MAX: usize = 16 << 20;

/// A cache of objects under keys. Keys of different users of a cache begin differently.
pub trait ObjectCache: Send + Sync {
    /// The object under a key, unless it has expired or was forgotten. `Err`: the cache is out of reach.
    fn get<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, io::Result<Option<Bytes>>>;

    /// Stores an object under a key, for a while. `Err` of the kind `FileTooLarge`: there is no room for such an object.
    fn put<'a>(&'a self, key: &'a [u8], object: Bytes, lifetime: Duration) -> Waiting<'a, io::Result<()>>;

    /// Stores an object in the place of the one under a key. `false`: there is none any more, and nothing was stored.
    fn replace<'a>(&'a self, key: &'a [u8], object: Bytes, lifetime: Duration) -> Waiting<'a, io::Result<bool>> {
        Box::pin(async move {
            match self.get(key).await? {
                Some(_) => self.put(key, object, lifetime).await.map(|()| true),
                None => Ok(false),
            }
        })
    }

    /// Removes the object under a key, if there is one.
    fn remove<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, io::Result<()>>;

    /// What is owed on each of these accounts, as the generic cell rate algorithm counts: how far the moment lies ahead at which
    /// everything that was asked is paid for. Then spends, in the same step. All of it is one question; it ends with the first account
    /// that [refuses for good](Debit::is_final), and the others are left alone. Only caches that
    /// [keep debts](SharedCache::keeps_debts) can.
    fn debit<'a>(&'a self, _debits: &'a [Debit]) -> Waiting<'a, io::Result<Vec<Duration>>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }

    /// Watches the object that is under a key now. `None`: there is none, or that would have to be asked of others each time.
    fn watch(&self, _key: &[u8]) -> Option<Unchanged> {
        None
    }
}

/// What is asked of somebody's account.
#[derive(Clone, Debug)]
pub struct Debit {
    /// The key of the account.
    pub key: String,
    /// What one request costs.
    pub each: Duration,
    /// How far ahead somebody may be whose request is allowed.
    pub room: Duration,
    /// Whether the request counts.
    pub spends: Spends,
    /// If somebody is too far ahead here, the accounts after this one are not asked.
    pub is_final: bool,
}

/// When a request counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spends {
    /// Never: this is a look.
    Nothing,
    /// If it is allowed.
    IfAllowed,
    /// Whatever is owed already: it has happened.
    Always,
    /// It has not happened after all: gives the cost back.
    Returns,
}

/// Whether the object under a key is the one that it was: not another one, and not forgotten.
pub type Unchanged = Box<dyn Fn() -> bool + Send + Sync>;

/// A kind of cache that a module offers.
pub struct SharedCache {
    /// Its names in directives.
    pub names: &'static [&'static str],
    /// Checks the part after `NAME:`; `None` if there is no colon. `Err` is the message of a syntax error.
    pub check: fn(Option<&str>) -> Result<(), String>,
    /// Whether it is a server of its own, which several machines may share.
    pub is_remote: bool,
    /// Whether such a cache also counts what somebody owes: [`ObjectCache::debit`].
    pub keeps_debts: bool,
    /// Opens a cache, in the parent, before there are children. One that was opened with the same argument by the same user
    /// of an earlier configuration may go on.
    pub open: fn(&Opening<'_>) -> io::Result<Arc<dyn ObjectCache>>,
}

/// What a cache is opened with.
pub struct Opening<'a> {
    /// The name of its user, such as `cache-socache`.
    pub user: &'static str,
    /// The part of the directive after `NAME:`.
    pub argument: Option<&'a str>,
    /// The server, and its host with the directive.
    pub server: &'a Server,
    /// The host with the settings that hold.
    pub host: &'a VirtualHost,
    /// The user of the children, if that is another one than the parent's.
    pub children: Option<&'a Identity>,
}

/// A cache that a directive names, `KIND` or `KIND:ARGUMENT`. Clones are the same cache.
#[derive(Clone)]
pub struct NamedCache {
    kind: &'static SharedCache,
    argument: Option<String>,
    opened: Arc<OnceLock<Arc<dyn ObjectCache>>>,
}

impl fmt::Debug for NamedCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedCache").field(&self.kind.names).field(&self.argument).finish()
    }
}

impl NamedCache {
    /// Reads the argument of a directive. `Err`: what is wrong with it, or the name of a kind that is not `known`.
    pub fn read(
        text: &str,
        mut known: impl Iterator<Item = &'static SharedCache>,
    ) -> Result<Result<NamedCache, String>, &str> {
        let (name, argument) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let Some(kind) = known.find(|kind| kind.names.contains(&name)) else { return Err(name) };
        Ok((kind.check)(argument).map(|()| NamedCache::new(kind, argument)))
    }

    /// A cache of this kind.
    pub fn new(kind: &'static SharedCache, argument: Option<&str>) -> NamedCache {
        NamedCache { kind, argument: argument.map(str::to_string), opened: Arc::default() }
    }

    /// As a directive names it.
    pub fn name(&self) -> String {
        let kind = self.kind.names.first().copied().unwrap_or_default();
        self.argument.as_deref().map_or_else(|| kind.to_string(), |argument| format!("{kind}:{argument}"))
    }

    /// Whether several machines may share it.
    pub fn is_remote(&self) -> bool {
        self.kind.is_remote
    }

    /// Whether it counts what somebody owes.
    pub fn keeps_debts(&self) -> bool {
        self.kind.keeps_debts
    }

    /// Opens it, unless that was done for another host.
    pub fn open(
        &self,
        user: &'static str,
        server: &Server,
        host: &VirtualHost,
        children: Option<&Identity>,
    ) -> io::Result<()> {
        if self.opened.get().is_none() {
            let argument = self.argument.as_deref();
            let cache = (self.kind.open)(&Opening { user, argument, server, host, children })?;
            // The parent has one thread.
            let _ = self.opened.set(cache);
        }
        Ok(())
    }

    /// The cache, once it is open.
    pub fn get(&self) -> Option<&dyn ObjectCache> {
        self.opened.get().map(|cache| &**cache)
    }

    /// The same, for work that outlives a request.
    pub fn shared(&self) -> Option<Arc<dyn ObjectCache>> {
        self.opened.get().cloned()
    }
}

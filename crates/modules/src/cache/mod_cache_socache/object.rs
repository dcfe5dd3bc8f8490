//! A response as an object: its head, and its body behind that.
//!
//! Under the key of a response there is the response, or a list of the fields by which it varies: it is then under another key,
//! made of those fields and the first key.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use server::module::ObjectCache;

use crate::cache::entry::Entry;
use crate::cache::format::{Head, Layout, Stored, encode_variants, varies_by};
use crate::cache::storage::{Draft, Job, Place};

/// What precedes every key: Apache's name for this user of a cache.
pub(super) const USER: &str = "cache-socache";
/// The beginning of a name among those of the fields that is none: it makes the variants of one list different from those of
/// another. Once a list is removed, nobody finds its variants again. No field has such a name.
const SALT: &str = "~";

/// The key of an object, for the key of a response.
pub(super) fn name(key: &[u8]) -> Vec<u8> {
    [USER.as_bytes(), b":", key].concat()
}

/// The key of the response to a request with these values of the fields that it varies by.
pub(super) fn variant<'a>(names: &[String], key: &[u8], value: impl Fn(&str) -> Option<Cow<'a, str>>) -> Vec<u8> {
    let mut all = Vec::new();
    for name in names {
        all.extend(http::text::to_bytes(name).iter());
        all.extend(http::text::to_bytes(&value(name).unwrap_or_default()).iter());
    }
    all.extend(key);
    name(&all)
}

/// Stores responses in a cache of objects.
#[derive(Clone)]
pub(super) struct Keeper {
    pub(super) cache: Arc<dyn ObjectCache>,
    pub(super) key: Vec<u8>,
    /// The largest object, in bytes.
    pub(super) max_size: usize,
    pub(super) lifetime: Duration,
}

impl Keeper {
    /// Stores a response.
    async fn keep(self, entry: Entry, body: &[u8]) -> io::Result<()> {
        let Keeper { cache, key, max_size, lifetime } = self;
        let (vary, expire) = (entry.fields.joined("Vary"), entry.expire);
        let asked = entry.asked.clone();
        let mut object = Stored { key: key.clone(), entry, identity: None }.encode(Layout::Object);
        object.extend(body);
        if object.len() > max_size {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let own = name(&key);
        let Some(vary) = vary else { return put(&*cache, &own, object, lifetime).await };
        let list = match cache.get(&own).await?.as_deref().and_then(|bytes| Head::decode(Layout::Object, bytes)) {
            Some((Head::Variants(names), _)) if is_list_of(&names, &vary) => names,
            _ => {
                let mut names = varies_by(&vary);
                names.push(format!("{SALT}{:016x}", sys::random::number()));
                names
            }
        };
        let variant = variant(&list, &key, |name| asked.joined(name).map(Into::into));
        put(&*cache, &variant, object, lifetime).await?;
        put(&*cache, &own, encode_variants(Layout::Object, &list, expire), lifetime).await
    }
}

/// Whether a list is one of these fields.
fn is_list_of(names: &[String], vary: &str) -> bool {
    names.iter().filter(|name| !name.starts_with(SALT)).eq(&varies_by(vary))
}

/// Stores an object. If that fails, an older one must not stay in its place.
async fn put(cache: &dyn ObjectCache, key: &[u8], object: Vec<u8>, lifetime: Duration) -> io::Result<()> {
    let stored = cache.put(key, object.into(), lifetime).await;
    if stored.is_err() {
        // A cache that is out of reach cannot do that either.
        let _ = cache.remove(key).await;
    }
    stored
}

/// A response on its way into an object.
pub(super) struct ObjectDraft {
    pub(super) keeper: Keeper,
    pub(super) entry: Entry,
    /// The length of the whole body, if it is known.
    pub(super) expected: Option<u64>,
    pub(super) body: Vec<u8>,
}

impl Draft for ObjectDraft {
    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.body.len() + piece.len() > self.keeper.max_size {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.body.extend(piece);
        Ok(())
    }

    fn commit(self: Box<Self>) -> Job {
        let ObjectDraft { keeper, mut entry, expected, body } = *self;
        let length = body.len() as u64;
        Box::pin(async move {
            if !entry.header_only {
                if expected.is_some_and(|expected| expected != length) {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                entry.fields.set("Content-Length", length.to_string());
            }
            keeper.keep(entry, &body).await
        })
    }
}

/// A response in an object.
pub(super) struct StoredObject {
    pub(super) keeper: Keeper,
    /// Its own key.
    pub(super) name: Vec<u8>,
    /// The fields that it varies by.
    pub(super) vary: Option<String>,
    pub(super) body: Bytes,
}

impl Place for StoredObject {
    fn refresh(self: Box<Self>, entry: Entry) -> Job {
        // It would not be found where it is.
        if entry.fields.joined("Vary") != self.vary {
            return self.remove();
        }
        Box::pin(async move { self.keeper.keep(entry, &self.body).await })
    }

    fn remove(self: Box<Self>) -> Job {
        Box::pin(async move { self.keeper.cache.remove(&self.name).await })
    }
}

//! A cache in shared memory, `shmcb:FILE(BYTES)`.
//!
//! Apache manual: mod_socache_shmcb; messages measured on 2.4.71.

mod ring;

use std::collections::HashMap;
use std::future::ready;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use conf::ModuleInfo;
use conf::values::strtol;
use server::module::{ObjectCache, Opening, SharedCache, Unchanged};
use server::{Hook, Module, Waiting};

use self::ring::Ring;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "socache_shmcb_module", source: "mod_socache_shmcb.c", linked: false, directives: &[] },
    hooks: &[Hook::SharedCache(&CACHE)],
};

static CACHE: SharedCache =
    SharedCache { names: &["shmcb", "default"], check, is_remote: false, keeps_debts: false, open };

/// The size unless the argument says another one, in bytes.
const SIZE: u64 = 512_000;
/// The smallest useful size, in bytes.
const SIZE_MIN: u64 = 8192;
/// Positions in the cache are numbers of 32 bits.
const SIZE_LIMIT: u64 = u32::MAX as u64;

fn check(argument: Option<&str>) -> Result<(), String> {
    let argument = argument.unwrap_or_default();
    let fail = |why: &str| Err(format!("Invalid argument: {why}"));
    let Some((_, size)) = argument.rsplit_once('(') else {
        return if argument.ends_with(')') { fail("no opening parenthesis") } else { Ok(()) };
    };
    let Some(size) = size.strip_suffix(')') else {
        return fail("no closing parenthesis or cache size missing after pathname with parenthesis");
    };
    let size = size.trim_start();
    let digits = size.strip_prefix(['-', '+']).unwrap_or(size);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return fail("cache size not numerical");
    }
    // A negative size wraps around, like an unsigned number.
    let size = strtol(size) as u64;
    match size {
        ..SIZE_MIN => fail(&format!("size has to be >= {SIZE_MIN} bytes")),
        SIZE_LIMIT.. => fail(&format!("size has to be < {SIZE_LIMIT} bytes on this platform")),
        _ => Ok(()),
    }
}

/// The size that a checked argument names.
fn size(argument: Option<&str>) -> u64 {
    let named = argument.and_then(|argument| argument.rsplit_once('(')?.1.strip_suffix(')'));
    named.map_or(SIZE, |size| strtol(size.trim_start()) as u64)
}

/// Memory that was opened, by its user and argument: a reload keeps it, with its content.
type Opened = HashMap<(&'static str, String), Arc<Ring>>;

fn open(opening: &Opening<'_>) -> io::Result<Arc<dyn ObjectCache>> {
    static OPENED: Mutex<Option<Opened>> = Mutex::new(None);
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let all = opened.get_or_insert_default();
    // What no configuration uses any more goes, once the one before this has ended.
    all.retain(|_, ring| Arc::strong_count(ring) > 1);
    let name = (opening.user, opening.argument.unwrap_or_default().to_string());
    let ring = match all.get(&name) {
        Some(ring) => ring.clone(),
        None => {
            let ring = Arc::new(Ring::new(size(opening.argument))?);
            all.insert(name, ring.clone());
            ring
        }
    };
    Ok(Arc::new(Shmcb(ring)))
}

/// The memory as a cache: nothing has to wait for it.
struct Shmcb(Arc<Ring>);

impl ObjectCache for Shmcb {
    fn get<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, io::Result<Option<Bytes>>> {
        Box::pin(ready(Ok(self.0.get(key).map(Bytes::from))))
    }

    fn put<'a>(&'a self, key: &'a [u8], object: Bytes, lifetime: Duration) -> Waiting<'a, io::Result<()>> {
        let is_stored = self.0.put(key, &object, lifetime.as_secs());
        Box::pin(ready(if is_stored { Ok(()) } else { Err(io::ErrorKind::FileTooLarge.into()) }))
    }

    fn remove<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, io::Result<()>> {
        self.0.remove(key);
        Box::pin(ready(Ok(())))
    }

    fn watch(&self, key: &[u8]) -> Option<Unchanged> {
        Ring::watch(self.0.clone(), key)
    }
}

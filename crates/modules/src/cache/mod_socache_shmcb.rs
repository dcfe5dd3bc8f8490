//! A cache in shared memory, `shmcb:FILE(BYTES)`.
//!
//! Apache manual: mod_socache_shmcb; messages measured on 2.4.71.

use conf::ModuleInfo;
use conf::values::strtol;
use server::module::SharedCache;
use server::{Hook, Module};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "socache_shmcb_module", source: "mod_socache_shmcb.c", linked: false, directives: &[] },
    hooks: &[Hook::SharedCache(&CACHE)],
};

static CACHE: SharedCache = SharedCache { names: &["shmcb", "default"], check };

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

//! A proxy's announcement of its client (PROXY protocol) is parsed the same however it is split, and never consumes
//! what follows it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use server::{Announced, Hook, PrefaceOutcome};

fuzz_target!(|data: &[u8]| {
    let whole = said(data);
    let pieces = (1..=data.len()).find_map(|end| said(&data[..end]));
    assert_eq!(pieces, whole);
    if let Some(Some((_, length))) = whole {
        assert!(length <= data.len());
        assert_eq!(said(&data[..length]), whole);
    }
});

/// The announced client and the length of the announcement in bytes; `Some(None)` if it is malformed.
fn said(bytes: &[u8]) -> Option<Option<(Announced, usize)>> {
    let hooks = modules::MODULES.iter().flat_map(|module| module.hooks);
    let preface = hooks.filter_map(|hook| if let Hook::Preface(preface) = hook { Some(preface) } else { None }).next();
    match (preface.expect("mod_remoteip").read)(bytes)? {
        PrefaceOutcome::Announced(announced, length) => Some(Some((announced, length))),
        PrefaceOutcome::Broken(..) => Some(None),
    }
}

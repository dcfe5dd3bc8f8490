//! Records of FastCGI and frames of runtimes are read the same however they arrive, by whichever process.
//!
//! An input is a byte that chooses the protocol, the size of the pieces, and the bytes of a backend.

#![no_main]

use gateway::protocol::{Protocol, fuzzing};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, piece], bytes)) = data.split_first_chunk() else { return };
    let protocol = if choice & 1 == 0 { Protocol::FastCgi } else { Protocol::Runtime };
    fuzzing::frames(protocol, bytes, piece.into());
});

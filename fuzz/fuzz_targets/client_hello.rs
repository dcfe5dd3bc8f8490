//! The beginning of a TLS connection is read the same however it arrives.
//!
//! An input is the size of the pieces, and the bytes of a client.

#![no_main]

use libfuzzer_sys::fuzz_target;
use server::tls::fuzzing;

fuzz_target!(|data: &[u8]| {
    let Some((piece, bytes)) = data.split_first() else { return };
    fuzzing::client_hello(bytes, (*piece).into());
});

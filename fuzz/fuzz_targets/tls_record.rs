//! Only records that were sealed with our keys are opened, and they are what was sealed.
//!
//! An input is a byte that chooses the cipher, a place and a change, and the content of a record or a record.

#![no_main]

use libfuzzer_sys::fuzz_target;
use server::tls::fuzzing;

fuzz_target!(|data: &[u8]| fuzzing::record(data));

//! A body in XML, and an `If` field, are read or refused, and elements that were read can be stored and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modules::dav::fuzzing;

fuzz_target!(|data: &[u8]| fuzzing::dav(data));

//! An authority's answer is read or refused, and demands no pause that lets certificates expire.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modules::md::mod_md::fuzzing;

fuzz_target!(|data: &[u8]| fuzzing::acme(data));

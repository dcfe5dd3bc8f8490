//! A form has as many fields as it says, and no more text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modules::aaa::fuzzing;

fuzz_target!(|data: &[u8]| fuzzing::form(data));

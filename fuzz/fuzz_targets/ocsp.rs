//! A responder's answer is read or refused, and never counts without a signature.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modules::ssl::mod_ssl::fuzzing;

fuzz_target!(|data: &[u8]| fuzzing::ocsp(data));

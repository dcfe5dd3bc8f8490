//! A directory's messages, filters and URLs are read to their end and no further.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modules::ldap::fuzzing;

fuzz_target!(|data: &[u8]| fuzzing::ldap(data));

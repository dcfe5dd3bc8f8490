//! A log format is compiled, or refused with a message.

#![no_main]

use http::text::from_bytes;
use libfuzzer_sys::fuzz_target;
use modules::loggers::mod_log_config::fuzzing;

fuzz_target!(|data: &[u8]| {
    if let Err(message) = fuzzing::format(&from_bytes(data)) {
        assert!(!message.is_empty());
    }
});

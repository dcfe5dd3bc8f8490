//! A page with server-side includes is taken apart the same however it arrives.
//!
//! An input is the size of the pieces, and the page.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modules::filters::mod_include::fuzzing;

fuzz_target!(|data: &[u8]| {
    let Some((piece, page)) = data.split_first() else { return };
    fuzzing::ssi(page, (*piece).into());
});

//! House-keeping tasks.

#![forbid(unsafe_code)]

fn main() {}

//! The laboratory.

#![forbid(unsafe_code)]

fn main() {}

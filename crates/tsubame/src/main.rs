//! The tsubame binary.

#![forbid(unsafe_code)]

fn main() {}

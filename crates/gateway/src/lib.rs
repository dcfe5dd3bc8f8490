//! What runs scripts: environment, spawn, replies.

#![forbid(unsafe_code)]

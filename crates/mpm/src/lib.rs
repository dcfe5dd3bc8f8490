//! Multi-processing modules: supervisor, policy, listeners, prefork, percore.

#![forbid(unsafe_code)]

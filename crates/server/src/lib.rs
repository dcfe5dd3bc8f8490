//! The server: connection stages, requests, hooks, sections, virtual hosts.

#![forbid(unsafe_code)]

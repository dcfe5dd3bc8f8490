//! HTTP/1.1 messages without I/O.

#![forbid(unsafe_code)]

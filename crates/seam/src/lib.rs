//! What an MPM and the server know of each other: stages, scoreboard, log.

#![forbid(unsafe_code)]

//! Runs a real server (parent and children) with a trivial service, and treats it as administrators and clients do.
//!
//! The program calls itself: with `TSUBAME_TEST_MPM` in the environment it is the server, otherwise it runs the tests.

#![forbid(unsafe_code)]

mod cases;
mod executor;
mod faults;
mod harness;
mod server;
#[path = "../../../tsubame/tests/it/harness/wait.rs"]
mod wait;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::var_os(server::MPM).is_some() {
        return server::main();
    }
    harness::run(cases::ALL.iter().chain(faults::ALL).chain(executor::ALL))
}

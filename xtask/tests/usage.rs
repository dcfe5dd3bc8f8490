//! The program as it is called. `.ci/run` uses the one that this test has built.

#![forbid(unsafe_code)]

use std::process::Command;

#[test]
fn an_unknown_task_is_answered_with_the_known_ones() {
    for arguments in [&[][..], &["tidyy"], &["tidy", "now"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().expect("run xtask");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.starts_with("Usage: cargo xtask TASK"), "{arguments:?}: {text}");
    }
}

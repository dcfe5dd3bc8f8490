//! Completion of the command line, as shells do it.

use std::process::Command;

/// Bash's completions for these words, the last of which is being typed.
fn offered(words: &[&str]) -> Vec<String> {
    let script = format!(
        "source <({} completions bash)\nCOMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1))\n_tsubame\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        env!("CARGO_BIN_EXE_tsubame")
    );
    let output = Command::new("bash").args(["-c", &script, "bash"]).args(words).output().expect("bash");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect()
}

#[test]
fn bash_knows_commands_and_options() {
    assert_eq!(offered(&["tsubame", "ch"]), ["check"]);
    assert_eq!(offered(&["tsubame", "-k", "graceful"]), ["graceful", "graceful-stop"]);
    assert_eq!(offered(&["tsubame", "ctl", "reload"]), ["reload-certificates"]);
    assert_eq!(offered(&["tsubame", "ctl", "-f", "x", "stat"]), ["status"]);
    assert_eq!(offered(&["tsubame", "explain", "--h"]), ["--host", "--header"]);
    assert_eq!(offered(&["tsubame", "check", "--no"]), ["--no-files"]);
    assert_eq!(offered(&["tsubame", "completions", ""]), ["bash", "zsh", "fish"]);
}

#[test]
fn there_are_three_shells() {
    let run = |words: &[&str]| Command::new(env!("CARGO_BIN_EXE_tsubame")).args(words).output().expect("run");
    for (shell, part) in [("bash", "complete -o default"), ("zsh", "#compdef tsubame"), ("fish", "complete -c tsubame")]
    {
        let output = run(&["completions", shell]);
        assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains(part), "{shell}");
    }
    let output = run(&["completions", "csh"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("'csh' is none of the shells: bash, zsh, fish"), "{text}");
}

//! Checks whether a file can run as a CGI script.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The maximum length of the first line in bytes: the kernel reads no more.
const FIRST_LINE_MAX: u64 = 256;

/// Why a file cannot run, and what to do. `sure`: it is meant to run, whatever it contains.
pub(super) fn fault(path: &Path, meta: &Metadata, sure: bool) -> Option<(String, String)> {
    let begin = beginning(path)?;
    let is_script = begin.starts_with(b"#!");
    let is_program = begin.starts_with(b"\x7fELF");
    let is_executable = meta.permissions().mode() & 0o111 != 0;
    if !(sure || is_script || is_program || is_executable) {
        return None;
    }
    if !is_executable {
        return Some(("It is not executable.".into(), format!("chmod +x {}", path.display())));
    }
    if is_program {
        return None;
    }
    if !is_script {
        let text = "It does not begin with #! and the path of an interpreter.";
        return Some((text.into(), "#!/bin/sh, #!/usr/bin/perl ... as its first line".into()));
    }
    let line = begin.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if line.ends_with(b"\r") {
        let text = "Its first line ends with a carriage return, which becomes a part of the interpreter's name.";
        return Some((text.into(), format!("sed -i 's/\\r$//' {}", path.display())));
    }
    let interpreter = String::from_utf8_lossy(&line[2..]);
    let interpreter = interpreter.split_whitespace().next().unwrap_or_default();
    if !Path::new(interpreter).exists() {
        let text = format!("Its interpreter {interpreter} does not exist.");
        return Some((text, format!("Install {interpreter}, or name another one")));
    }
    None
}

fn beginning(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FIRST_LINE_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

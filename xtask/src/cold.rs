//! Measures how long a build takes in a fresh clone of the repository.

use std::process::Stdio;
use std::time::Instant;

use crate::tree::{cargo, root};

/// Builds into an empty directory, and prints how long that took and what took the time.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let release = match args {
        [] => false,
        [only] if only == "--release" => true,
        _ => return Err("Usage: cargo xtask cold [--release]".into()),
    };
    let packages = packages()?;
    let target = root().join("target/cold");
    let _ = std::fs::remove_dir_all(&target);
    let mut build = cargo();
    build.arg("build").arg("--target-dir").arg(&target).args(release.then_some("--release"));
    let began = Instant::now();
    let status = build.stdin(Stdio::null()).status().map_err(|error| format!("cargo build: {error}"))?;
    let seconds = began.elapsed().as_secs_f64();
    let _ = std::fs::remove_dir_all(&target);
    if !status.success() {
        return Err("the build failed".into());
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let profile = if release { "release" } else { "debug" };
    println!("cold {profile} build: {seconds:.1} s on {cores} cores, {packages} packages");
    Ok(())
}

/// The number of packages in the server.
fn packages() -> Result<usize, String> {
    let mut tree = cargo();
    tree.args(["tree", "--package", "tsubame", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"]);
    let output = tree.output().map_err(|error| format!("cargo tree: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    lines.sort_unstable();
    lines.dedup();
    Ok(lines.len())
}

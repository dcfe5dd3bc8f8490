//! Runs the fuzz targets briefly, on the toolchain that builds the server.
//!
//! cargo-fuzz needs a nightly toolchain, mostly for the address sanitizer, but our targets have no `unsafe` code of
//! their own to check. The rest is coverage instrumentation, which the stable compiler has.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::docs::infos;
use crate::tree::{cargo, root};

/// The instrumentation that libFuzzer needs: coverage of edges, and traces of comparisons.
const INSTRUMENTATION: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// The default time for each target, in seconds.
const SECONDS: u32 = 15;
/// The seed of libFuzzer's random numbers if the number of inputs is given. The inputs are then the same every time, so
/// that a result depends only on the change. `--seconds` looks for new inputs.
const SEED: u32 = 1;
/// The maximum length of an input, in bytes. Longer ones find nothing new and take longer.
const INPUT_MAX: u32 = 4096;
/// The time limit for one input, in seconds, and the memory limit for all, in MB.
const TIMEOUT: u32 = 10;
const MEMORY: u32 = 2048;

/// When a target ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Seconds(u32),
    /// After this number of inputs, the same every time.
    Runs(u32),
}

/// Builds all targets and runs the named ones, or all.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (until, named) = arguments(args)?;
    let targets = if named.is_empty() { targets()? } else { named };
    let began = Instant::now();
    let built = build()?;
    println!("fuzz: built in {:.0} s", began.elapsed().as_secs_f64());
    for target in targets {
        fuzz(&built, &target, until)?;
    }
    Ok(())
}

fn arguments(args: &[String]) -> Result<(Until, Vec<String>), String> {
    let (mut until, mut named) = (Until::Seconds(SECONDS), Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || {
            let value = args.next().and_then(|value| value.parse().ok()).filter(|number| *number > 0);
            value.ok_or(format!("{arg} takes a number"))
        };
        match arg.as_str() {
            "--seconds" => until = Until::Seconds(number()?),
            "--runs" => until = Until::Runs(number()?),
            name if !name.starts_with('-') => named.push(name.to_string()),
            _ => return Err("Usage: cargo xtask fuzz [--seconds N | --runs N] [TARGET ...]".into()),
        }
    }
    Ok((until, named))
}

/// The names of all targets: the files in `fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>, String> {
    let dir = root().join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let names =
        entries.filter_map(|entry| Path::new(&entry.ok()?.file_name()).file_stem()?.to_str().map(str::to_string));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// Builds the targets; returns the directory that contains them.
fn build() -> Result<PathBuf, String> {
    let host = host()?;
    let target_dir = root().join("fuzz/target");
    let mut command = cargo();
    command.args(["build", "--release", "--bins", "--manifest-path", "fuzz/Cargo.toml"]);
    // With an explicit target, cargo does not apply the flags to build scripts, which do not run under libFuzzer.
    command.args(["--target", &host, "--target-dir"]).arg(&target_dir);
    command.env("CARGO_ENCODED_RUSTFLAGS", INSTRUMENTATION.join("\x1f")).env_remove("RUSTFLAGS");
    let status = command.stdin(Stdio::null()).status().map_err(|error| format!("cargo build: {error}"))?;
    if !status.success() {
        return Err("the fuzz targets do not build (libFuzzer needs a C++ compiler: g++ or clang++)".into());
    }
    Ok(target_dir.join(host).join("release"))
}

/// The target triple of this machine.
fn host() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().map_err(|error| format!("rustc -vV: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_string).ok_or_else(|| "rustc -vV names no host".into())
}

/// Runs a target. New inputs are kept in `fuzz/corpus`, failing ones in `fuzz/artifacts`.
fn fuzz(built: &Path, target: &str, until: Until) -> Result<(), String> {
    let home = root().join("fuzz");
    let directory = |name: &str| -> Result<PathBuf, String> {
        let path = home.join(name).join(target);
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    };
    let (corpus, artifacts) = (directory("corpus")?, directory("artifacts")?);
    let mut command = Command::new(built.join(target));
    match until {
        Until::Seconds(seconds) => command.arg(format!("-max_total_time={seconds}")),
        Until::Runs(runs) => command.arg(format!("-runs={runs}")).arg(format!("-seed={SEED}")).arg("-shuffle=0"),
    };
    command.arg(format!("-max_len={INPUT_MAX}"));
    command.arg(format!("-timeout={TIMEOUT}")).arg(format!("-rss_limit_mb={MEMORY}"));
    command.arg(format!("-artifact_prefix={}/", artifacts.display())).arg("-print_final_stats=1");
    if target == "conf" {
        let words = home.join("target/conf.dict");
        std::fs::write(&words, dictionary()).map_err(|error| format!("{}: {error}", words.display()))?;
        command.arg(format!("-dict={}", words.display()));
    }
    command.arg(&corpus);
    let seeds = home.join("seeds").join(target);
    if seeds.is_dir() {
        command.arg(&seeds);
    }
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{target}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let from = said.lines().count().saturating_sub(60);
        let tail: Vec<&str> = said.lines().skip(from).collect();
        return Err(format!("{}\nfuzz: {target} failed; the input is in fuzz/artifacts/{target}", tail.join("\n")));
    }
    let runs = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let last = said.lines().rev().find(|line| line.contains(" cov: ")).unwrap_or_default();
    let coverage = last.split(" cov: ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("?");
    let seconds = began.elapsed().as_secs();
    println!("fuzz: {target}: {} inputs in {seconds} s, {coverage} edges", runs.unwrap_or("?").trim());
    Ok(())
}

/// The words of the configuration language, in libFuzzer's format.
fn dictionary() -> String {
    let mut out = String::new();
    for row in infos().iter().flat_map(|info| info.directives) {
        let escaped = row.name.replace('\\', "\\\\").replace('"', "\\\"");
        out.push_str(&format!("\"{escaped} \"\n"));
        if let Some(name) = escaped.strip_prefix('<') {
            out.push_str(&format!("\"</{name}>\\x0a\"\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        let read = |args: &[&str]| arguments(&args.iter().map(|arg| arg.to_string()).collect::<Vec<_>>());
        assert_eq!(read(&[]), Ok((Until::Seconds(SECONDS), vec![])));
        assert_eq!(read(&["--seconds", "3", "uri"]), Ok((Until::Seconds(3), vec!["uri".to_string()])));
        assert_eq!(read(&["--runs", "70"]), Ok((Until::Runs(70), vec![])));
        assert!(read(&["--seconds"]).is_err() && read(&["--seconds", "0"]).is_err() && read(&["-x"]).is_err());
    }

    #[test]
    fn the_dictionary_closes_sections() {
        let words = dictionary();
        assert!(words.contains("\"<Directory \"\n\"</Directory>\\x0a\"\n"));
    }
}

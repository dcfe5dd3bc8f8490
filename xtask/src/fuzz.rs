//! Runs the fuzz targets briefly, on the toolchain that builds the server.
//!
//! cargo-fuzz needs a nightly toolchain, mostly for the address sanitizer, but our targets have no `unsafe` code of
//! their own to check. The rest is coverage instrumentation, which the stable compiler has. Our own crates alone are
//! instrumented: the libraries are those that the tests have built already.

mod corpus;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::docs::infos::infos;
use crate::tree::{cargo, root, target_dir};

/// The variable that asks this program to compile a crate, with instrumentation if the crate is ours: what Cargo calls
/// a wrapper of rustc.
const WRAPPER: &str = "TSUBAME_FUZZ_COMPILES";
/// The instrumentation that libFuzzer needs: coverage of edges. Cargo does not know of these flags, so a change of them reaches
/// the crates that change after it.
const INSTRUMENTATION: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
];
/// Traces of comparisons, in addition, by which new inputs are found. They take more than half of the time that an input takes.
const COMPARES: &str = "-Cllvm-args=-sanitizer-coverage-trace-compares";

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

/// The most time for a number of inputs, in seconds: no target makes the others wait.
const RUNS_SECONDS: u32 = 1;

/// What to do with a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    /// Look for new inputs, for this number of seconds.
    Seconds(u32),
    /// Replay the corpus, then try this number of inputs, the same every time.
    Runs(u32),
    /// Reduce the corpus and what was found since to the inputs that reach something that no other reaches.
    Minimize,
}

/// Builds all targets and runs the named ones, or all.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (task, named) = arguments(args)?;
    let targets = if named.is_empty() { targets()? } else { named };
    let began = Instant::now();
    let built = build(task)?;
    println!("fuzz: built in {:.0} s", began.elapsed().as_secs_f64());
    let (inputs, failed) = side_by_side(&targets, |target| match task {
        Task::Minimize => minimize(&built, target).map(|()| 0),
        _ => fuzz(&built, target, task),
    });
    if task != Task::Minimize {
        println!("fuzz: {inputs} inputs in all");
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// Works on the targets, one for each core at a time. Returns the number of inputs, and the targets that failed.
fn side_by_side(targets: &[String], work: impl Fn(&str) -> Result<u64, String> + Sync) -> (u64, Vec<&str>) {
    let (queue, results) = (Mutex::new(targets.iter()), Mutex::new((0, Vec::new())));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let worker = || {
        while let Some(target) = next() {
            let done = work(target);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            match done {
                Ok(count) => results.0 += count,
                Err(why) => {
                    eprintln!("{why}");
                    results.1.push(target.as_str());
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(worker);
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn arguments(args: &[String]) -> Result<(Task, Vec<String>), String> {
    let (mut task, mut named) = (Task::Seconds(SECONDS), Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || {
            let value = args.next().and_then(|value| value.parse().ok()).filter(|number| *number > 0);
            value.ok_or(format!("{arg} takes a number"))
        };
        match arg.as_str() {
            "--seconds" => task = Task::Seconds(number()?),
            "--runs" => task = Task::Runs(number()?),
            "--minimize" => task = Task::Minimize,
            name if !name.starts_with('-') => named.push(name.to_string()),
            _ => return Err("Usage: cargo xtask fuzz [--seconds N | --runs N | --minimize] [TARGET ...]".into()),
        }
    }
    Ok((task, named))
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
fn build(task: Task) -> Result<PathBuf, String> {
    let target_dir = target_dir();
    let wrapper = std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))?;
    let mut command = cargo();
    command.args(["build", "--bins", "--manifest-path", "fuzz/Cargo.toml", "--target-dir"]).arg(&target_dir);
    command
        .env("RUSTC_WRAPPER", wrapper)
        .env(WRAPPER, if matches!(task, Task::Runs(_)) { "edges" } else { "compares" });
    let status = command.stdin(Stdio::null()).status().map_err(|error| format!("cargo build: {error}"))?;
    if !status.success() {
        return Err("the fuzz targets do not build (libFuzzer needs a C++ compiler: g++ or clang++)".into());
    }
    Ok(target_dir.join("debug"))
}

/// Compiles a crate if [`build`] has asked Cargo to let this program do that. `args`: rustc and its arguments.
pub(crate) fn compile_if_asked(args: &[String]) -> Option<ExitCode> {
    let traces = std::env::var_os(WRAPPER)? == "compares";
    let (rustc, args) = args.split_first()?;
    let is_ours = std::env::var("CARGO_PKG_NAME").is_ok_and(|name| name.starts_with("tsubame-"));
    let mut command = Command::new(rustc);
    command.args(args);
    if is_ours {
        command.args(INSTRUMENTATION).args(traces.then_some(COMPARES));
    }
    Some(match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{rustc}: {error}");
            ExitCode::FAILURE
        }
    })
}

/// Runs a target. The number of inputs. New ones that reach something are kept in `fuzz/target/corpus`, failing ones in
/// `fuzz/artifacts`.
fn fuzz(built: &Path, target: &str, task: Task) -> Result<u64, String> {
    let artifacts = directory("artifacts", target)?;
    let mut command = libfuzzer(built, target)?;
    match task {
        Task::Seconds(seconds) => command.arg(format!("-max_total_time={seconds}")),
        _ => command.arg(format!("-max_total_time={RUNS_SECONDS}")).arg(format!("-seed={SEED}")).arg("-shuffle=0"),
    };
    if let Task::Runs(runs) = task {
        command.arg(format!("-runs={runs}"));
    }
    command.arg(format!("-artifact_prefix={}/", artifacts.display())).arg("-print_final_stats=1");
    if target == "conf" {
        let words = root().join("fuzz/target/conf.dict");
        std::fs::write(&words, dictionary()).map_err(|error| format!("{}: {error}", words.display()))?;
        command.arg(format!("-dict={}", words.display()));
    }
    command.args(inputs(target)?);
    let began = Instant::now();
    let said = finished(command, target)?;
    let count = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let count: u64 = count
        .and_then(|count| count.trim().parse().ok())
        .ok_or(format!("{target} does not tell how many inputs it had"))?;
    let last = said.lines().rev().find(|line| line.contains(" cov: ")).unwrap_or_default();
    let coverage = last.split(" cov: ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("?");
    println!("fuzz: {target}: {count} inputs in {} s, {coverage} edges", began.elapsed().as_secs());
    Ok(count)
}

/// Writes the smallest corpus that reaches what all known inputs reach.
fn minimize(built: &Path, target: &str) -> Result<(), String> {
    let inputs = inputs(target)?;
    let fewer = directory("target/minimized", target)?;
    std::fs::remove_dir_all(&fewer).map_err(|error| format!("{}: {error}", fewer.display()))?;
    let fewer = directory("target/minimized", target)?;
    let mut command = libfuzzer(built, target)?;
    command.arg("-set_cover_merge=1").arg(&fewer).args(inputs);
    finished(command, target)?;
    let count = corpus::pack(&fewer, &packed(target))?;
    println!("fuzz: {target}: {count} inputs");
    Ok(())
}

/// A target with the limits of an input.
fn libfuzzer(built: &Path, target: &str) -> Result<Command, String> {
    let mut command = Command::new(built.join(target));
    command.arg(format!("-max_len={INPUT_MAX}"));
    command.arg(format!("-timeout={TIMEOUT}")).arg(format!("-rss_limit_mb={MEMORY}"));
    command.stdin(Stdio::null());
    Ok(command)
}

/// What a target printed, if it succeeded.
fn finished(mut command: Command, target: &str) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{target}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let from = said.lines().count().saturating_sub(60);
    let tail: Vec<&str> = said.lines().skip(from).collect();
    Err(format!("{}\nfuzz: {target} failed; the input is in fuzz/artifacts/{target}", tail.join("\n")))
}

/// The directories with a target's inputs: the corpus, to which new ones are added, and the seeds.
fn inputs(target: &str) -> Result<Vec<PathBuf>, String> {
    let corpus = directory("target/corpus", target)?;
    corpus::unpack(&packed(target), &corpus)?;
    let seeds = root().join("fuzz/seeds").join(target);
    Ok(std::iter::once(corpus).chain(seeds.is_dir().then_some(seeds)).collect())
}

/// The file with the corpus of a target.
fn packed(target: &str) -> PathBuf {
    root().join("fuzz/corpus").join(format!("{target}.txt"))
}

/// A directory of a target below `fuzz`, made if it is not there.
fn directory(name: &str, target: &str) -> Result<PathBuf, String> {
    let path = root().join("fuzz").join(name).join(target);
    std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
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
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn arguments_are_read() {
        let read = |args: &[&str]| arguments(&args.iter().map(|arg| arg.to_string()).collect::<Vec<_>>());
        assert_eq!(read(&[]), Ok((Task::Seconds(SECONDS), vec![])));
        assert_eq!(read(&["--seconds", "3", "uri"]), Ok((Task::Seconds(3), vec!["uri".to_string()])));
        assert_eq!(read(&["--runs", "70"]), Ok((Task::Runs(70), vec![])));
        assert_eq!(read(&["--minimize"]), Ok((Task::Minimize, vec![])));
        assert!(read(&["--seconds"]).is_err() && read(&["--seconds", "0"]).is_err() && read(&["-x"]).is_err());
    }

    /// What the tests have built would be built again in another version.
    #[test]
    fn the_targets_have_the_versions_of_the_server() {
        let packages = |name: &str| -> BTreeSet<String> {
            let text = std::fs::read_to_string(root().join(name)).expect(name);
            text.split("[[package]]\n").skip(1).map(|package| package.lines().take(2).collect()).collect()
        };
        let (own, all) = (packages("fuzz/Cargo.lock"), packages("Cargo.lock"));
        let others: Vec<&String> = own.difference(&all).collect();
        let allowed = |package: &&String| {
            ["arbitrary", "libfuzzer-sys", "tsubame-fuzz"].iter().any(|name| package.contains(name))
        };
        let advice = "copy Cargo.lock to fuzz/Cargo.lock and run `cargo xtask fuzz`";
        assert!(!own.is_empty() && others.iter().all(allowed), "{advice}: {others:?}");
    }

    #[test]
    fn the_dictionary_closes_sections() {
        let words = dictionary();
        assert!(words.contains("\"<Directory \"\n\"</Directory>\\x0a\"\n"));
    }
}

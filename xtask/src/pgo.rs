//! `cargo xtask pgo`: the programs of a package, compiled with the profile of a load, and laid out by one.
//!
//! A request runs a little code in many places of a large program. The compiler does not know which: it is told by a profile what
//! runs often (profile-guided optimization, PGO), so it makes that fast and the rest small. Then LLVM's BOLT moves what runs to
//! one place: a server whose caches are cold, as those of a process under prefork are at each request, waits for every line of
//! code. The [load] is made here, so the profiles are always those of the program in the package.

mod load;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use self::load::Site;
use crate::tree::{cargo, target_dir};

/// The names under which distributions install BOLT, newest first, and the package that Debian has it in.
const BOLT: [&str; 4] = ["llvm-bolt", "llvm-bolt-22", "llvm-bolt-21", "llvm-bolt-20"];
const BOLT_PACKAGE: &str = "bolt-22";
/// The modules of processes that serve the load. Each has code of its own.
const MPMS: [&str; 4] = ["prefork", "worker", "event", "percore"];

/// Builds the programs, and says where they are.
pub(crate) fn run() -> Result<(), String> {
    println!("{}", build()?.display());
    Ok(())
}

/// Builds the programs as packages hold them. Returns the directory that they are in.
pub(crate) fn build() -> Result<PathBuf, String> {
    let directory = target_dir().join("pgo");
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let built = target_dir().join("dist/tsubame-lab");
    succeed(cargo().args(["build", "--profile", "dist", "--package", "tsubame-lab"]))?;
    let lab = directory.join("tsubame-lab");
    fs::copy(&built, &lab).map_err(|error| format!("{}: {error}", built.display()))?;
    let compiler = Compiler::new()?;
    let program = directory.join("tsubame");
    let bolt = BOLT.into_iter().find_map(find);
    let (compiled, site, answers) = compile(&directory, &compiler, lab, bolt.is_some())?;
    match bolt {
        Some(bolt) => lay_out(&bolt, &compiled, &program, &site, &answers)?,
        None => {
            fs::copy(&compiled, &program).map_err(|error| format!("{}: {error}", compiled.display()))?;
            eprintln!("The code is not laid out: llvm-bolt is not here. {}", install(BOLT_PACKAGE));
        }
    }
    for option in ["-l", "-L"] {
        let said = |program: &Path| Command::new(program).arg(option).output().map(|output| output.stdout);
        match (said(&compiled), said(&program)) {
            (Ok(one), Ok(other)) if one == other => {}
            _ => return Err(format!("the program says something else to {option} once its code is laid out")),
        }
    }
    Ok(directory)
}

fn install(package: &str) -> String {
    format!("To get it: apt-get install --no-install-recommends {package}")
}

/// Compiles the server with the profile of a load. `is_laid_out`: what it is compiled to is for BOLT. Returns the program, the site
/// of the load, and the program's answers.
fn compile(
    directory: &Path,
    compiler: &Compiler,
    lab: PathBuf,
    is_laid_out: bool,
) -> Result<(PathBuf, Site, Vec<String>), String> {
    // BOLT has to know what refers to what it moves.
    let mut flags = if is_laid_out { vec!["-Clink-arg=-Wl,--emit-relocs"] } else { Vec::new() };
    let Some(merge) = compiler.profdata() else {
        let package = format!("llvm-{}", compiler.llvm);
        eprintln!(
            "The compiler gets no profile: llvm-profdata of LLVM {} is not here. {}",
            compiler.llvm,
            install(&package)
        );
        let program = compiler.server(directory.join("plain"), &flags)?;
        let site = Site::new(lab)?;
        let answers = site.serve(&program, MPMS[0], &[])?;
        return Ok((program, site, answers));
    };
    let instrumented = compiler.server(directory.join("instrumented"), &["-Cprofile-generate"])?;
    let site = Site::new(lab)?;
    // With `%m` the file is made at the end, by the user that the server has become.
    let to = [("LLVM_PROFILE_FILE", site.path("run/%p-%m.profraw"))];
    let mut answers = Vec::new();
    for mpm in MPMS {
        eprintln!("A load for the compiler's profile: {mpm}");
        answers = same_answers(answers, site.serve(&instrumented, mpm, &to)?)?;
    }
    let profile = directory.join("compiler.profdata");
    let profiles = site.profiles("profraw", MPMS.len())?;
    succeed(Command::new(merge).args(["merge", "-o"]).arg(&profile).args(profiles))?;
    let with_profile = format!("-Cprofile-use={}", profile.display());
    flags.push(&with_profile);
    let program = compiler.server(directory.join("compiled"), &flags)?;
    let answers = same_answers(answers, site.serve(&program, MPMS[0], &[])?)?;
    Ok((program, site, answers))
}

/// Lays out the code of a program, and writes the result to `to`. It must give these answers.
fn lay_out(bolt: &Path, program: &Path, to: &Path, site: &Site, answers: &[String]) -> Result<(), String> {
    let instrumented = to.with_file_name("instrumented-by-bolt");
    let profile = format!("--instrumentation-file={}", site.path("run/profile"));
    succeed(bolt_quietly(bolt, program, &instrumented).args([
        "-instrument",
        "--instrumentation-file-append-pid",
        &profile,
    ]))?;
    let mut answers = answers.to_vec();
    for mpm in MPMS {
        eprintln!("A load for BOLT's profile: {mpm}");
        answers = same_answers(answers, site.serve(&instrumented, mpm, &[])?)?;
    }
    let profile = to.with_file_name("bolt.fdata");
    let merged = fs::File::create(&profile).map_err(|error| format!("{}: {error}", profile.display()))?;
    let mut merge = Command::new(bolt.with_file_name("merge-fdata"));
    let profiles = site.profiles("fdata", MPMS.len())?;
    succeed(merge.args(profiles).stdout(merged).stderr(Stdio::null()))?;
    let mut layout = bolt_quietly(bolt, program, to);
    layout.arg(format!("-data={}", profile.display()));
    layout.args(["-reorder-blocks=ext-tsp", "-reorder-functions=cdsort", "-icf=1"]);
    succeed(layout.args(["-split-functions", "-split-all-cold", "-split-eh"]))?;
    same_answers(answers, site.serve(to, MPMS[0], &[])?)?;
    Ok(())
}

/// The compiler that cargo uses.
struct Compiler {
    /// Where it is installed.
    root: PathBuf,
    /// The machine that it compiles for.
    target: String,
    /// The major version of its LLVM: only tools of that version know its profiles.
    llvm: String,
}

impl Compiler {
    fn new() -> Result<Compiler, String> {
        let say = |arguments: &[&str]| {
            let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
            let output = Command::new(rustc).args(arguments).output().map_err(|error| format!("rustc: {error}"))?;
            Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_string())
        };
        let about = say(&["-vV"])?;
        let value = |name: &str| {
            let line = about.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::to_string).ok_or_else(|| format!("rustc -vV does not say its {name}"))
        };
        let (target, llvm) = (value("host: ")?, value("LLVM version: ")?);
        let llvm = llvm.split('.').next().unwrap_or_default().to_string();
        Ok(Compiler { root: say(&["--print", "sysroot"])?.into(), target, llvm })
    }

    /// The program that merges profiles: that of rustup's `llvm-tools`, or the distribution's.
    fn profdata(&self) -> Option<PathBuf> {
        let own = self.root.join("lib/rustlib").join(&self.target).join("bin/llvm-profdata");
        Some(own).filter(|own| own.exists()).or_else(|| find(&format!("llvm-profdata-{}", self.llvm)))
    }

    /// Builds the server, all of it with these flags beside those of whoever builds, in a directory of its own.
    fn server(&self, directory: PathBuf, flags: &[&str]) -> Result<PathBuf, String> {
        let theirs = std::env::var("RUSTFLAGS").unwrap_or_default();
        let all: Vec<&str> = theirs.split_whitespace().chain(flags.iter().copied()).collect();
        let mut build = cargo();
        // With a target named, the flags are not for what runs while it is built.
        build.args(["build", "--profile", "dist", "--package", "tsubame", "--target", &self.target]);
        build.arg("--target-dir").arg(&directory);
        succeed(build.env("CARGO_ENCODED_RUSTFLAGS", all.join("\u{1f}")))?;
        Ok(directory.join(&self.target).join("dist/tsubame"))
    }
}

/// The real place of a program in `PATH`, whose companions lie beside it.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find_map(|file| file.canonicalize().ok())
}

/// BOLT, which says much about programs that are not its own.
fn bolt_quietly(bolt: &Path, from: &Path, to: &Path) -> Command {
    let mut command = Command::new(bolt);
    command.arg(from).arg("-o").arg(to).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed")) }
}

/// The new answers, which must be those of before, if there are any.
fn same_answers(before: Vec<String>, now: Vec<String>) -> Result<Vec<String>, String> {
    match before.iter().zip(&now).find(|(before, now)| before != now) {
        None => Ok(now),
        Some((before, now)) => Err(format!("an earlier program answered:\n{before}\nand this one answers:\n{now}")),
    }
}

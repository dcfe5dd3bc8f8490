//! House-keeping tasks: `cargo xtask tidy`, `docs`, `book`, `deb`, `pgo`, `fuzz` and `cold`.

#![forbid(unsafe_code)]

mod book;
mod cold;
mod deb;
mod docs;
mod finding;
mod fuzz;
mod pgo;
mod tidy;
mod tree;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask TASK

  tidy                            check the house rules (CONTRIBUTING.md)
  docs                            write the pages of docs/ that are made from the tables and --help
  book                            make a site of the documents, with mdBook
  deb [--programs DIR]            build a Debian package (target/debian); of programs that are in DIR already, one that is not packed
  pgo                             build the programs of a package, the server with the profile of a load (target/pgo)
  fuzz [--seconds N | --runs N] [TARGET ...]
                                  build the fuzz targets on the stable toolchain and run each for N seconds (15), or with N
                                  inputs that are the same every time
  cold [--release]                measure a build with an empty target directory
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(status) = fuzz::compile_if_asked(&args) {
        return status;
    }
    let done = match args.first().map(String::as_str) {
        Some("tidy") if args.len() == 1 => tidy::run(),
        Some("docs") if args.len() == 1 => docs::run(),
        Some("book") if args.len() == 1 => book::run(),
        Some("deb") => deb::run(&args[1..]),
        Some("pgo") if args.len() == 1 => pgo::run(),
        Some("fuzz") => fuzz::run(&args[1..]),
        Some("cold") => cold::run(&args[1..]),
        _ => Err(USAGE.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{}", message.trim_end());
            ExitCode::FAILURE
        }
    }
}

//! `tsubame check`: reports on a whole configuration and the files that it names.
//!
//! The same code reads the configuration for a server; here it continues after each error. The check executes nothing
//! that the configuration names, binds no port and needs no root privileges.

mod disk;
mod errors;
mod hosts;
mod json;
mod lines;
mod mistakes;
mod report;
mod scripts;
mod text;

use std::ffi::OsString;
use std::process::ExitCode;

use lexopt::prelude::*;
use server::{Loaded, Server};

use self::report::{Read, Report};
use crate::cli::{self, CONFIGURATION, HelpPage, Options, Value, misuse, with, word};
use crate::config;
use crate::diagnosis::preflight::{self, Obstacle, Preflight};
use crate::output;
use crate::style::Style;
use server::module::finding::{Finding, Topic, Weight};

/// The help page of `tsubame check`.
pub(crate) static PAGE: HelpPage = HelpPage {
    name: "check",
    purpose: "everything that is wrong with a configuration, in one report",
    usage: &["check {} [options]"],
    brief: &CONFIGURATION,
    text: "  tsubame check -f /etc/apache2/apache2.conf

It goes on after the first error. The report covers missing modules and directives with what to write instead, what would stop
the start, lines without effect, duplicates, sections that never match, certificates, logs, and the .htaccess files and scripts
in the directories that you serve. It starts nothing and changes no file.
",
    column: 22,
    groups: &[(
        "Options",
        &[
            word(&["--all"], "show every line that has no effect or differs from Apache, not only the names"),
            word(&["--no-files"], "skip the directories that you serve"),
            with(&["--directories"], Value::Any("N"), "look at no more than N of them (100000)"),
            word(&["--json"], "print JSON"),
            word(&["-h", "--help"], "this page"),
        ],
    )],
    end: "\
Exit status:
  0  it would start, and serve as Apache does
  1  it would start, but a feature would be lost
  2  it would not start, or the command line is wrong
",
    misuse: 2,
};

/// The options of the command line.
#[derive(Debug)]
struct Query {
    all: bool,
    no_files: bool,
    /// The maximum number of directories to examine.
    directories: usize,
    json: bool,
}

/// Runs `tsubame check`.
pub(crate) fn run(program: &str, args: Vec<OsString>) -> ExitCode {
    let mut options = Options::new(program, &args);
    let query = match misuse::wish(program, &PAGE, read(&mut options, lexopt::Parser::from_args(args))) {
        Ok(query) => query,
        Err(code) => return code,
    };
    let report = report(&options, &query);
    if query.json {
        output::print(&json::of(&report));
    } else {
        output::print(&text::of(&report, query.all, Style::of_output()));
    }
    report.verdict().exit_code()
}

fn read(options: &mut Options, mut parser: lexopt::Parser) -> Result<Option<Query>, lexopt::Error> {
    let mut query = Query { all: false, no_files: false, directories: disk::DIRECTORIES_MAX, json: false };
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("all") => query.all = true,
            Long("no-files") => query.no_files = true,
            Long("directories") => query.directories = parser.value()?.parse()?,
            Long("json") => query.json = true,
            Short(option) => cli::configuration_option(options, option, &mut parser)?,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(query))
}

fn report(options: &Options, query: &Query) -> Report {
    let mut report = Report::new(cli::config_file(options));
    match config::read_everything(options) {
        Ok(loaded) => examine(&mut report, &options.program, query, loaded),
        Err(failed) => {
            errors::notices(&mut report, &failed.notices, &failed.tree);
            errors::all(&mut report, failed.errors.iter().chain([&failed.error]), &(&*failed).into(), &options.program);
            let mut errors = report.findings.iter_mut().filter(|found| found.topic == Topic::Syntax);
            if let (Some(advice), Some(found)) = (cli::misplaced(options), errors.next()) {
                found.instead = Some(advice);
            }
            report.read.files = failed.included.len();
        }
    }
    report.finish();
    report
}

fn examine(report: &mut Report, program: &str, query: &Query, loaded: Loaded) {
    errors::all(report, loaded.errors.iter(), &(&loaded).into(), program);
    let Loaded { server, included, notices, errors: wrong } = loaded;
    report.read = Read { files: included.len(), hosts: server.hosts.len() - 1, ..Read::default() };
    errors::notices(report, &notices, &server.tree);
    server::module::examine(&server, &mut |found| report.add(found));
    obstacles(report, &server, program, wrong.is_empty());
    lines::all(report, &server, &wrong);
    hosts::all(report, &server);
    mistakes::all(report, &server);
    if !query.no_files {
        disk::all(report, &server, query.directories);
    }
}

/// Reports what prevents a configuration from being served. Lines that a wrong one hides may not be missing.
fn obstacles(report: &mut Report, server: &Server, program: &str, is_correct: bool) {
    for text in server.obstacles() {
        report.stops(Topic::Start, "start", &text);
    }
    if let Err(text) = config::identity(&server.main().settings, program) {
        report.stops(Topic::Start, "User", &text);
    }
    let Preflight { stops, doubts } = preflight::look(server);
    for Obstacle { text, help, .. } in stops.into_iter().filter(|obstacle| is_correct || !obstacle.is_absence) {
        let is_said = |found: &Finding| match found.topic {
            Topic::Log => text.contains(&found.subject),
            Topic::Start => found.message == text,
            _ => false,
        };
        if !report.findings.iter().any(is_said) {
            report.add(Finding { instead: help, ..Finding::new(Weight::Stops, Topic::Start, "start", text) });
        }
    }
    for text in doubts {
        report.add(Finding::new(Weight::Harmless, Topic::Start, "start", text).instead("start it as root"));
    }
}

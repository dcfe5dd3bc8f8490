//! Presents a run: tables on the terminal, report.md for the documentation, report.html for people, setup.txt for
//! repeating it.

mod absences;
mod article;
mod comparison;
pub(crate) mod doubts;
mod figures;
mod html;
mod limit;
mod setup;
pub(crate) mod summary;
mod tables;
pub(crate) mod targets;
mod verdict;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::experiments::experiment::Experiment;
use crate::machine::error::{Result, write_file};
use crate::measure::results::Results;
use crate::report::summary::Summary;
use crate::report::targets::State;
use crate::screen::style;
use crate::screen::table::Table;
use crate::screen::text::counted;
use absences::absences;
use comparison::Comparison;
use setup::setup;
use tables::workload_table;

/// The options of `report`.
#[derive(Args)]
pub(crate) struct ReportOptions {
    /// A directory written by `run ... --out`
    pub(crate) dir: PathBuf,
}

/// Writes report.md, report.html and setup.txt for results that were kept earlier.
pub(crate) fn rewrite(directory: &Path) -> Result<()> {
    let results = Results::load(directory)?;
    write(&results, directory)?;
    print(&results);
    Ok(())
}

/// Writes report.md, report.html and setup.txt.
pub(crate) fn write(results: &Results, directory: &Path) -> Result<()> {
    write_file(directory.join("report.md"), markdown(results))?;
    write_file(directory.join("report.html"), html::page(results))?;
    write_file(directory.join("setup.txt"), setup(results))
}

/// Prints everything that matters on standard output.
pub(crate) fn print(results: &Results) {
    let summary = Summary::of(results);
    let experiment = results.experiment();
    for workload in experiment.workloads {
        if let Some(table) = workload_table(&summary, workload) {
            say_line!("\n{} — {}", style::heading(workload.id), workload.title);
            say!("{}", table.to_screen());
        }
    }
    print_articles(&[results]);
    print_targets(experiment, &summary);
    print_list("Reasons to doubt these figures", &doubts(results, &summary));
    print_list("Not measured", &absences(results));
    say_line!("");
}

/// Prints the articles' figures beside those of these runs; nothing where no article printed any.
pub(crate) fn print_articles(runs: &[&Results]) {
    let mut all = runs.iter().flat_map(|results| comparison::comparison(results, &Summary::of(results))).peekable();
    if all.peek().is_some() {
        say_line!("\n{}", style::heading(comparison::HEADING));
    }
    for Comparison { published, tables, notes } in all {
        say_line!("\n{}\nThe article: {}. {}", style::heading(published.title), published.machine, published.here);
        for (name, table) in tables {
            say_line!("\n{name}");
            say!("{}", table.to_screen());
        }
        notes.iter().for_each(|note| say_line!("  {note}"));
    }
}

fn print_targets(experiment: &Experiment, summary: &Summary<'_>) {
    if targets::of(experiment).is_empty() {
        return;
    }
    say_line!("\n{}", style::heading("Targets"));
    let mut not_measured = 0;
    for target in targets::of(experiment) {
        let Some(verdict) = targets::judge(target, summary) else {
            not_measured += 1;
            continue;
        };
        let word = match verdict.state {
            State::Met => style::good("met   "),
            State::Missed => style::bad("missed"),
            State::Open => style::doubtful("open  "),
        };
        say_line!("  {word}  {}: {}", target.text, verdict.measured);
    }
    if not_measured > 0 {
        say_line!("  {not_measured} of {} not measured", targets::of(experiment).len());
    }
}

fn print_list(heading: &str, items: &[String]) {
    if !items.is_empty() {
        say_line!("\n{}", style::heading(heading));
    }
    for item in items {
        say_line!("  {} {item}", style::doubtful("!"));
    }
}

fn doubts(results: &Results, summary: &Summary<'_>) -> Vec<String> {
    doubts::doubts(results, summary).iter().map(ToString::to_string).collect()
}

fn markdown(results: &Results) -> String {
    let summary = Summary::of(results);
    let experiment = results.experiment();
    let (host, id) = (&results.host, experiment.id);
    let mut text = format!(
        "# {}\n\n\
         Measured {} by `tsubame-lab run {id}`: {} of {} s, on {} ({}, {}, Linux {}). \
         Measure it on your own machine: `cargo run --release -p tsubame-lab -- run {id} --out DIR`.\n\n",
        experiment.title,
        results.started,
        counted(results.rounds.into(), "round"),
        results.seconds,
        host.cpu,
        counted(host.cores as u64, "core"),
        host.system,
        host.kernel
    );
    let all = doubts::doubts(results, &summary);
    text += &markdown_list("Reasons to doubt these figures", &doubts(results, &summary));
    text += &markdown_articles(results, &summary);
    if let Some(table) = targets::table(experiment, &summary) {
        text += &format!("## Targets\n\n{}", table.to_markdown());
    }
    for workload in experiment.workloads {
        if let Some(table) = workload_table(&summary, workload) {
            text += &format!("\n## `{}`: {}\n\n", workload.id, workload.title);
            let here: Vec<String> = all
                .iter()
                .filter_map(|doubt| doubt.concerning(Some(workload)))
                .map(|doubt| doubt.to_string())
                .collect();
            here.iter().for_each(|doubt| text += &format!("> To doubt: {doubt}\n>\n"));
            text += &format!("{}{}", if here.is_empty() { "" } else { "\n" }, table.to_markdown());
        }
    }
    text += &format!("\n## Method\n\n{}\n\nCPU time was read from: {}.\n\n", experiment.method, results.accounting);
    text += &markdown_list("Not measured", &absences(results));
    text += "## Versions\n\n";
    let mut versions = Table::new(2, &["subject", "version"]);
    for subject in &results.subjects {
        let version = subject.version.as_deref().unwrap_or("not here");
        versions.push(vec![subject.title.clone(), version.to_owned()]);
    }
    versions.push(vec!["load generator".to_owned(), host.generator.clone()]);
    text += &versions.to_markdown();
    text += "\nRaw data: `results.json` and `raw.csv`; exact configurations and the machine: `setup.txt`.\n";
    text
}

fn markdown_articles(results: &Results, summary: &Summary<'_>) -> String {
    let all = comparison::comparison(results, summary);
    if all.is_empty() {
        return String::new();
    }
    let mut text = format!("## {}\n\n{}\n", comparison::HEADING, comparison::EXPLANATION);
    for Comparison { published, tables, notes } in all {
        text += &format!("\n### {}\n\nThe article: {}. {}\n", published.title, published.machine, published.here);
        for (name, table) in tables {
            text += &format!("\n{name}:\n\n{}", table.to_markdown());
        }
        let notes: String = notes.iter().map(|note| format!("- {note}\n")).collect();
        text += &if notes.is_empty() { notes } else { format!("\n{notes}") };
    }
    text + "\n"
}

fn markdown_list(heading: &str, items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let lines: String = items.iter().map(|item| format!("- {}\n", item.replace('\n', " "))).collect();
    format!("## {heading}\n\n{lines}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::profile::Profile;
    use crate::measure::results::Failure;
    use crate::measure::results::{SubjectRecord, example};

    fn results() -> Results {
        let mut results = example::empty();
        for round in 1..=3 {
            results.samples.extend([
                example::load("keepalive", "floor", 100, round, 100_000),
                example::load("keepalive", "tsubame-percore", 100, round, 90_000),
                example::load("keepalive", "h2o", 100, round, 60_000),
            ]);
        }
        results.samples.push(example::memory("idle", "nginx", 10_000, 1024, 6144));
        results.subjects.push(SubjectRecord {
            id: "caddy".to_owned(),
            title: "caddy".to_owned(),
            version: None,
            absent: Some("apt-get install caddy".to_owned()),
            configurations: Vec::new(),
        });
        results
    }

    #[test]
    fn the_document_has_ratios_targets_and_absences() {
        let text = markdown(&results());
        for expected in [
            "| Tsubame percore | 90 000 | 0 % | 0.90 | 1.50 (1.50–1.50) | 90 000 | 1.00 | 2.00 | 0 | 1.0 |",
            "| subject | req per CPU-s | spread | × floor | × h2o |",
            "| keep-alive: percore ≥ 0.85 × the floor | met | 0.90 (0.90–0.90) × floor (bare epoll loop) |",
            "| nginx | 2 | 1.0 | 6.0 | 0.51 | 0 |",
            "- caddy: apt-get install caddy",
        ] {
            assert!(text.contains(expected), "{expected}\nis not in\n{text}");
        }
        assert!(!text.contains("`file16k`:") && !text.contains("not measured"), "{text}");
    }

    #[test]
    fn equal_failures_are_reported_once() {
        let mut results = example::empty();
        for (connections, reason) in [(100, "no such module"), (300, "no such module"), (300, "it ended")] {
            results.failures.push(Failure {
                workload: "cgi-static".to_owned(),
                subject: "apache-event".to_owned(),
                profile: Profile::Cgid,
                connections,
                round: 1,
                reason: reason.to_owned(),
            });
        }
        let expected = [
            "cgi-static/100 Apache event, mod_cgid, 2 times in all: no such module",
            "cgi-static/300 Apache event, mod_cgid, 1 time in all: it ended",
        ];
        assert_eq!(absences(&results), expected);
    }

    #[test]
    fn an_article_stands_beside_its_repetition_only() {
        assert!(!markdown(&results()).contains(comparison::HEADING));
        let mut results = results();
        results.experiment = "cgi-mpm".to_owned();
        for round in 1..=3 {
            for (subject, profile, requests) in
                [("apache-worker", Profile::Cgid, 500), ("apache-prefork", Profile::Cgi, 1000)]
            {
                let sample = example::load("cgi-mpm", subject, 300, round, requests);
                results.samples.push(crate::measure::results::Sample { profile, ..sample });
            }
        }
        let text = markdown(&results);
        for expected in [
            "| worker with mod_cgid, 300 clients | 1 774 | 1.00 | 500 | 1.00 | – | – |",
            "| prefork with mod_cgi, 300 clients | 3 292 | 1.86 | 1 000 | 2.00 (2.00–2.00) | – | – |",
            "| prefork with mod_cgi, 1 000 clients | 3 258 | 1.84 | – | – | – | – |",
            "- worker with mod_cgid, 300 clients: 155 requests failed in the article",
            "- prefork with mod_cgi, 300 clients: Tsubame prefork, mod_cgi is not measured in this run",
        ] {
            assert!(text.contains(expected), "{expected}\nis not in\n{text}");
        }
    }

    #[test]
    fn doubts_stand_above_the_figures() {
        let mut results = results();
        results.rounds = 1;
        let text = markdown(&results);
        assert!(text.find("only one round").unwrap() < text.find("## Targets").unwrap());
    }
}

//! report.html: one self-contained page. Every element is closed, so that XML parsers can read it too.

use super::absences::absences;
use super::comparison::{self, Comparison};
use super::figures::{concurrency, latencies, picture, time_plots};
use super::limit::limit;
use super::setup::setup;
use super::tables::{cores_table, workload_table};
use super::targets;
use super::verdict::verdict;
use crate::experiments::workload::Workload;
use crate::measure::results::Results;
use crate::page::html;
use crate::report::doubts::{self, Doubt};
use crate::report::summary::{Summary, title};
use crate::screen::table::{Table, escape};
use crate::screen::text::counted;

/// The whole page.
pub(super) fn page(results: &Results) -> String {
    let summary = Summary::of(results);
    let (experiment, host) = (results.experiment(), &results.host);
    let doubts = doubts::doubts(results, &summary);
    let measured = || experiment.workloads.iter().filter(|workload| !summary.rows(workload).is_empty());
    let rounds = counted(results.rounds.into(), "round");
    let verdict = html::doubted(&verdict(experiment, &summary), doubts.len());
    let when = format!("{}, {rounds} of {} s", results.started, results.seconds);
    let mut text = html::begin(experiment.title, &verdict, &when, host);
    text += &doubt_list(&doubts, None);
    text += "<div class=\"plots\">\n";
    measured().for_each(|workload| text += &picture(&summary, workload, &doubt_link(&doubts, workload)));
    text += "</div>\n<p class=\"soft\">Bars show medians and thin lines 95 % intervals (Student's, of the logarithms). One round \
             has no interval; a line without an end goes on beyond the drawing. Tsubame is filled, floors are dashed. Point at a figure \
             to read its values.</p>\n";
    text += &articles(results, &summary, &doubts);
    if let Some(table) = targets::table(experiment, &summary) {
        text += &format!("<h2>Targets</h2>\n{}", table.to_html());
    }
    measured().for_each(|workload| text += &section(&summary, workload, &doubts));
    text += &format!(
        "<h2>Method</h2>\n<p>{}</p>\n<p>CPU time was read from: {}.</p>\n",
        emphasised(experiment.method),
        escape(&results.accounting.to_string())
    );
    text += &html::list("Not measured", &absences(results));
    text += &versions(results);
    text += &format!(
        "<details><summary>Exact configurations</summary><pre>{}</pre></details>\n\
         <p>Raw data beside this page: <a href=\"results.json\">results.json</a>, <a href=\"raw.csv\">raw.csv</a>, \
         <a href=\"setup.txt\">setup.txt</a>, <a href=\"report.md\">report.md</a>.</p>\n</body></html>\n",
        escape(&setup(results))
    );
    text
}

/// The article's figures, beside the same here.
fn articles(results: &Results, summary: &Summary<'_>, doubts: &[Doubt]) -> String {
    let all = comparison::comparison(results, summary);
    if all.is_empty() {
        return String::new();
    }
    let mut text = format!("<h2>{}</h2>\n<p>{}</p>\n", escape(comparison::HEADING), escape(comparison::EXPLANATION));
    for Comparison { published, tables, notes } in all {
        text += &format!("<h3>{}</h3>\n", escape(published.title));
        text += &format!("<p>The article: {}. {}</p>\n", escape(published.machine), escape(published.here));
        published.workloads().for_each(|workload| text += &doubt_link(doubts, workload));
        for (name, table) in tables {
            text += &format!("<p class=\"caption\">{}</p>\n{}", escape(&name), table.to_html());
        }
        text += &html::unordered("soft", &notes);
    }
    text
}

/// One workload: its doubts, its table, its plots.
fn section(summary: &Summary<'_>, workload: &'static Workload, doubts: &[Doubt]) -> String {
    let mut text = format!("<h2 id=\"{0}\"><code>{0}</code>: {1}</h2>\n", workload.id, escape(workload.title));
    text += &doubt_list(doubts, Some(workload));
    text += &workload_table(summary, workload).map_or(String::new(), |table| table.to_html());
    text +=
        &format!("<div class=\"plots\">\n{}{}</div>\n", concurrency(summary, workload), latencies(summary, workload));
    text += &limits(summary, workload);
    text += &time_plots(summary, workload);
    let cores = cores_table(summary, workload);
    text + &cores.map_or(String::new(), |table| {
        format!("<details><summary>What cores did meanwhile, as sar has it</summary>\n{}</details>\n", table.to_html())
    })
}

/// What limited each.
fn limits(summary: &Summary<'_>, workload: &'static Workload) -> String {
    let mut table = Table::new(3, &["subject", "connections", "limited by"]);
    for (entry, connections, cell) in summary.rows(workload) {
        if let Some(limit) = limit(workload, cell) {
            table.push(vec![title(entry), connections.to_string(), limit]);
        }
    }
    if table.is_empty() {
        String::new()
    } else {
        format!("<h3>What limited it</h3>\n<div class=\"narrow\">{}</div>\n", table.to_html())
    }
}

/// The reasons to doubt a workload's figures, or all figures.
fn doubt_list(doubts: &[Doubt], workload: Option<&Workload>) -> String {
    let items = doubts.iter().filter_map(|doubt| doubt.concerning(workload)).map(|doubt| doubt.to_string());
    html::reasons(&items.collect::<Vec<_>>())
}

/// A link to the reasons to doubt a workload's figures.
fn doubt_link(doubts: &[Doubt], workload: &Workload) -> String {
    match doubts.iter().filter(|doubt| doubt.concerning(Some(workload)).is_some()).count() {
        0 => String::new(),
        many => format!(
            "<p class=\"doubt\"><a href=\"#{}\">{} to doubt these figures</a></p>\n",
            workload.id,
            counted(many as u64, "reason")
        ),
    }
}

fn versions(results: &Results) -> String {
    let mut table = Table::new(2, &["subject", "version"]);
    for subject in &results.subjects {
        table.push(vec![subject.title.clone(), subject.version.clone().unwrap_or("not here".to_owned())]);
    }
    table.push(vec!["load generator".to_owned(), results.host.generator.clone()]);
    format!("<h2>Versions</h2>\n{}", table.to_html())
}

/// Markdown's `**` and `*` and backquotes of the methods, as elements.
fn emphasised(text: &str) -> String {
    let mut text = escape(text);
    for (mark, tag) in [("**", "strong"), ("*", "em"), ("`", "code")] {
        let parts: Vec<&str> = text.split(mark).collect();
        let is_paired = parts.len() % 2 == 1;
        let wrap = |(index, part): (usize, &&str)| match index % 2 == 1 && is_paired {
            true => format!("<{tag}>{part}</{tag}>"),
            false => (*part).to_owned(),
        };
        text = parts.iter().enumerate().map(wrap).collect();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::results::example;

    fn results() -> Results {
        let mut results = example::empty();
        for round in 1..=3 {
            for connections in [100, 1000] {
                results.samples.push(example::load("sweep", "tsubame-percore", connections, round, 40_000));
            }
            results.samples.push(example::load("keepalive", "floor", 100, round, 100_000));
            results.samples.push(example::load("keepalive", "tsubame-percore", 100, round, 54_321));
            results.samples.push(example::load("keepalive", "h2o", 100, round, 20_000 * u64::from(round)));
        }
        results.samples.push(example::memory("idle", "nginx", 10_000, 1024, 6144));
        results
    }

    /// Parses the page as XML, in which every element must be closed; returns the names of its elements.
    fn elements(page: &str) -> Vec<String> {
        use quick_xml::events::Event;
        let mut reader = quick_xml::Reader::from_str(page);
        let (mut names, mut open) = (Vec::new(), 0);
        loop {
            let event = reader.read_event().expect("well-formed");
            open += match event {
                Event::Start(_) => 1,
                Event::End(_) => -1,
                _ => 0,
            };
            match event {
                Event::Start(tag) | Event::Empty(tag) => {
                    names.push(String::from_utf8(tag.name().as_ref().to_vec()).expect("a name"));
                }
                Event::Eof => break,
                _ => (),
            }
        }
        assert_eq!(open, 0);
        names
    }

    #[test]
    fn the_page_is_well_formed_and_loads_nothing() {
        let page = page(&results());
        let names = elements(&page);
        assert!(!names.iter().any(|name| ["script", "img", "link", "iframe"].contains(&name.as_str())), "{names:?}");
        assert!(names.iter().any(|name| name == "polyline"));
        let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://") && !elsewhere.contains("url("));
    }

    #[test]
    fn the_page_begins_with_its_verdict() {
        let page = page(&results());
        let verdict =
            "</h1>\n<p class=\"verdict\">Beside the best of the others, Tsubame is undecided in 1 of 1 comparison; of ";
        assert!(page.contains(verdict), "{page}");
        assert!(page.contains(", but there are 2 reasons to doubt that.</p>"), "{page}");
    }

    /// A drawing of another scale would have letters of another size.
    #[test]
    fn drawings_are_not_scaled() {
        let page = page(&results());
        let drawings = page.match_indices("<svg xmlns=").map(|(at, _)| &page[at..at + 200]);
        let mut count = 0;
        for drawing in drawings {
            let width = drawing.split('"').skip_while(|part| !part.ends_with(" width=")).nth(1).expect("a width");
            assert!(
                drawing.contains(&format!(" viewBox=\"0 0 {width} ")) && !drawing.contains("font-size"),
                "{drawing}"
            );
            count += 1;
        }
        assert!(count > 3 && !html::STYLE.contains("svg { width"), "{count}");
    }

    #[test]
    fn every_workload_has_its_plot_with_the_measured_figures() {
        let page = page(&results());
        for id in ["keepalive", "sweep", "idle"] {
            assert!(
                page.contains(&format!("<a href=\"#{id}\">")) && page.contains(&format!("<h2 id=\"{id}\">")),
                "{id}"
            );
        }
        for expected in [
            "Tsubame percore: 54 321 requests per CPU-second, 95 % interval from 54 321 to 54 321",
            "h2o: 40 000 requests per CPU-second, 95 % interval from 9 141 to 144 482",
            "Tsubame percore: 1 000 connections, 40 000 requests/s",
            "Tsubame percore: 2 ms, 99 % of requests",
            "CPU of the server, of a core: 0.2 s, 90 % in use",
            "answers: 0.25 s, 1 234 answers/s",
            "p99 of latency: 0.5 s, 2 ms",
            "nginx: 6 MB, one round, no interval",
        ] {
            assert!(page.contains(expected), "{expected}");
        }
        assert_eq!(page.matches("class=\"picture\"").count(), 3);
    }

    /// Chromium lays the page out in a frame of 375 px and says how wide it became.
    #[test]
    fn nobody_has_to_scroll_sideways_on_a_telephone() {
        const CHROMIUM: &str = "/usr/bin/chromium";
        if !std::path::Path::new(CHROMIUM).exists() {
            warn_line!("not tested: there is no {CHROMIUM}");
            return;
        }
        let scratch = crate::machine::scratch::Scratch::new().expect("a directory");
        std::fs::write(scratch.path().join("report.html"), page(&results())).expect("a page");
        let frame = "<iframe src='report.html' width='375' height='600' style='border:0' onload='document.body.title = \
                     this.contentDocument.documentElement.scrollWidth'></iframe>";
        let outer = scratch.path().join("frame.html");
        std::fs::write(&outer, frame).expect("a frame");
        let shown = std::process::Command::new(CHROMIUM)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .args(["--disable-background-networking", "--allow-file-access-from-files", "--virtual-time-budget=5000"])
            .arg(format!("--user-data-dir={}", scratch.path().join("browser").display()))
            .arg("--dump-dom")
            .arg(format!("file://{}", outer.display()))
            .env("HOME", scratch.path())
            .output()
            .expect("chromium");
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let title = shown.split_once("<body title=\"").and_then(|(_, rest)| rest.split_once('"'));
        let width: u32 = title.and_then(|(width, _)| width.parse().ok()).unwrap_or_else(|| panic!("{shown}"));
        assert!((300..=375).contains(&width), "{width} px");
    }

    #[test]
    fn a_doubt_stands_at_the_figure_that_it_concerns() {
        let page = page(&results());
        let (above, at) = page.split_once("<h2 id=\"keepalive\">").unwrap();
        assert!(!above.contains("rounds differ"));
        let (keepalive, after) = at.split_once("<h2 id=").unwrap();
        assert!(keepalive.contains("rounds differ by more than 10 %: h2o"));
        assert!(!after.contains("rounds differ"));
    }
}

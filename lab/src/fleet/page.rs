//! report.html of a run of the fleet: the verdict, pictures, both tables, the configurations.

use super::capacity::ARRANGEMENTS;
use super::report::{self, Verdict};
use super::results::{Capacity, Results};
use crate::machine::stats::{interval, median};
use crate::page::html;
use crate::page::plot::{self, Bar};
use crate::screen::table::escape;
use crate::screen::text::counted;

/// A figure of an arrangement: its name, which is better, and its value.
type Picture = (&'static str, &'static str, fn(&Capacity) -> f64);

const PICTURES: [Picture; 3] = [
    ("scripts/s", "more is better", |round| round.scripts_per_second),
    ("scripts p99 ms", "less is better", |round| round.script_ms[1]),
    ("files p99 ms", "less is better", |round| round.file_ms[1]),
];

/// The whole page.
pub(super) fn page(results: &Results) -> String {
    let Results { started, rounds, seconds, host, tsubame, haproxy, .. } = results;
    let when = format!("{started}, {} of {seconds} s", counted((*rounds).into(), "round"));
    let verdicts = report::verdicts(results);
    let mut text = html::begin("Several machines as one", &sentence(&verdicts), &when, host);
    text += &html::list("What failed, and what was not measured", &report::reasons(results));
    if !results.capacities.is_empty() {
        text += "<div class=\"plots\">\n";
        PICTURES.iter().for_each(|picture| text += &drawn(results, picture));
        text += "</div>\n<p class=\"soft\">Bars show medians and thin lines 95 % intervals (Student's, of the logarithms). One round \
                 has no interval. Point at a figure to read its values.</p>\n";
    }
    for (heading, table) in report::tables(results) {
        text += &format!("<h2>{heading}</h2>\n{}", table.to_html());
    }
    let targets =
        verdicts.iter().map(|Verdict { is_met, text }| format!("{}: {text}", if *is_met { "met" } else { "missed" }));
    text += &html::list("Targets", &targets.collect::<Vec<_>>());
    text + &format!(
        "<h2>Versions</h2>\n<p>{}; {}</p>\n\
         <details><summary>Exact configurations</summary><pre>{}</pre></details>\n\
         <p>Raw data beside this page: <a href=\"results.json\">results.json</a>, <a href=\"raw.csv\">raw.csv</a>, \
         <a href=\"setup.txt\">setup.txt</a>, <a href=\"report.md\">report.md</a>.</p>\n</body></html>\n",
        escape(tsubame),
        escape(haproxy),
        escape(&results.setup())
    )
}

fn sentence(verdicts: &[Verdict]) -> String {
    let met = verdicts.iter().filter(|verdict| verdict.is_met).count();
    match verdicts.len() {
        0 => "What was measured has no targets.".to_owned(),
        all => format!("{met} of {} met.", counted(all as u64, "target")),
    }
}

/// A bar for each arrangement that was measured; those with agents are highlighted.
fn drawn(results: &Results, (name, better, value): &Picture) -> String {
    let bars = ARRANGEMENTS.iter().filter_map(|arrangement| {
        let rounds = results.capacities.iter().filter(|capacity| capacity.arrangement == arrangement.id);
        let values: Vec<f64> = rounds.map(value).collect();
        let class = if arrangement.has_agent { "own" } else { "" };
        Some(Bar { name: arrangement.id.to_owned(), value: median(&values)?, interval: interval(&values), class })
    });
    format!(
        "<figure><h3>{name}</h3>\n{}<figcaption>{better}</figcaption></figure>\n",
        plot::bars(name, name, &bars.collect::<Vec<_>>())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::report::tests::results;

    #[test]
    fn a_page_has_pictures_tables_and_targets() {
        let text = page(&results());
        for part in [
            "<h3>scripts p99 ms</h3>",
            "<title>equal-leastconn-agent: 11 scripts/s, one round, no interval</title>",
            "<h2>Capacity</h2>",
            "<h2>Failures</h2>",
            "3 of 7 targets met.",
            "<li>missed: drained",
            "frozen: GETs that failed: 3 × 503",
            "href=\"raw.csv\"",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut reader = quick_xml::Reader::from_str(&text);
        while reader.read_event().expect("every element is closed") != quick_xml::events::Event::Eof {}
    }
}

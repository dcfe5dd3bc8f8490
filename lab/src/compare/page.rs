//! The results of a comparison, as a page for a browser.

use super::{FIGURES, Side, table, verdict};
use crate::machine::host::{self, Host};
use crate::machine::stats::{interval, median};
use crate::page::html;
use crate::page::html::doubted;
use crate::page::plot::{self, Bar};
use crate::screen::table::escape;
use crate::screen::text::counted;

/// The whole page; `load` is the load in words.
pub(super) fn written(sides: &[Side<'_>; 2], rounds: u32, load: &str, doubts: &[String]) -> String {
    let [a, b] = sides.each_ref().map(|side| side.name);
    let when = format!("{}, {} with {load}", host::now(), counted(rounds.into(), "round"));
    let verdict = doubted(&verdict(sides), doubts.len());
    let mut page = html::begin(&format!("A: {a}, B: {b}"), &verdict, &when, &Host::observe());
    page += &html::reasons(doubts);
    page += "<h2>Figures</h2>\n<div class=\"plots\">\n";
    (0..FIGURES.len()).for_each(|at| page += &picture(sides, at));
    page += "</div>\n<p class=\"soft\">Bars show medians and thin lines 95 % intervals (Student's, of the logarithms). Point at a \
             figure to read its values.</p>\n";
    page + &table(sides, ["A", "B"]).to_html() + &html::end()
}

/// A figure of both; nothing if it is not known.
fn picture(sides: &[Side<'_>; 2], at: usize) -> String {
    let (name, more_is_better, _) = FIGURES[at];
    let bar = |(name, side): (&str, &Side<'_>)| {
        let rounds = &side.rounds[at];
        Some(Bar { name: name.to_owned(), value: median(rounds)?, interval: interval(rounds), class: "" })
    };
    let bars: Vec<Bar> = ["A", "B"].into_iter().zip(sides).filter_map(bar).collect();
    if bars.is_empty() {
        return String::new();
    }
    let better = if more_is_better { "more is better" } else { "less is better" };
    format!(
        "<figure><h3>{}</h3>\n{}<figcaption>{better}</figcaption></figure>\n",
        escape(name),
        plot::bars(name, name, &bars)
    )
}

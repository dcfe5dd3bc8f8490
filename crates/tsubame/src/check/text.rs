//! The report as text: first the verdict, then what prevents the start, what would be lost, and what is harmless.

use std::path::Path;

use conf::Origin;
use modules::manual::Loss;

use super::report::{Report, Verdict};
use crate::diagnosis::excerpt::marked;
use crate::style::{Page, Style};
use server::module::finding::{Finding, Topic, Weight};

/// The maximum line width, in columns; longer words are not broken.
const WIDTH: usize = 80;
/// The maximum number of places to list; the rest are counted.
const PLACES_MAX: usize = 3;

pub(super) fn of(report: &Report, all: bool, style: Style) -> String {
    let mut out = Page::default();
    head(&mut out, report, style);
    // Most configuration files are below the directory of the main file.
    let base = Path::new(&report.file).parent().map_or_else(String::new, |dir| format!("{}/", dir.display()));
    for (weight, title) in
        [(Weight::Stops, "Stops the start"), (Weight::Loses, "Loses a feature"), (Weight::Harmless, "Harmless")]
    {
        let of_weight: Vec<&Finding> = report.findings.iter().filter(|finding| finding.weight == weight).collect();
        let (details, shown): (Vec<&Finding>, Vec<&Finding>) =
            of_weight.into_iter().partition(|finding| finding.topic.is_detail() && !all);
        if shown.is_empty() && details.is_empty() {
            continue;
        }
        writeln!(out);
        writeln!(out, "{}", style.bold(title.to_uppercase()));
        let mut topic = None;
        for finding in shown {
            if topic != Some(finding.topic) {
                topic = Some(finding.topic);
                writeln!(out);
                writeln!(out, "{}", style.bold(finding.topic.title()));
            }
            item(&mut out, finding, &base, style);
        }
        summary(&mut out, &details, style);
    }
    out.finish()
}

fn head(out: &mut Page, report: &Report, style: Style) {
    let (stops, loses) = (report.count(Weight::Stops), report.count(Weight::Loses));
    let harmless = match report.count(Weight::Harmless) {
        0 => String::new(),
        count => format!(" ({} below)", number(count, "harmless remark", "harmless remarks")),
    };
    let verdict = match report.verdict() {
        Verdict::Starts => style.good(format!("Would start, and serve as Apache does{harmless}.")),
        Verdict::StartsWithLosses => {
            style.bad(format!("Would start, but {} would be lost{harmless}.", number(loses, "feature", "features")))
        }
        Verdict::DoesNotStart => {
            style.bad(format!("Would not start: {}{harmless}.", number(stops, "reason", "reasons")))
        }
    };
    wrapped(out, "", &verdict);
    let read = &report.read;
    let mut what = format!(
        "{}: {}, {}",
        report.file,
        number(read.files, "file", "files"),
        number(read.hosts, "virtual host", "virtual hosts")
    );
    if read.directories > 0 {
        let files = number(read.access_files, ".htaccess file", ".htaccess files");
        what += &format!("; {files} in {}", number(read.directories, "directory", "directories"));
    }
    wrapped(out, "", &format!("{what}."));
    for limit in &report.limits {
        wrapped(out, "", &format!("Not everything was looked at: {limit}."));
    }
}

fn number(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn item(out: &mut Page, finding: &Finding, base: &str, style: Style) {
    let at = |origin: &Origin| origin.to_string().strip_prefix(base).map_or(origin.to_string(), str::to_string);
    let mut places: Vec<String> = finding.places.iter().take(PLACES_MAX).map(at).collect();
    if finding.places.len() > PLACES_MAX {
        places.push(format!("and {} more", finding.places.len() - PLACES_MAX));
    }
    let subject = match finding.weight {
        Weight::Stops | Weight::Loses => style.bad(&finding.subject),
        Weight::Harmless => finding.subject.clone(),
    };
    let places = places.join(", ");
    if finding.subject.len() + places.len() + 4 <= WIDTH || places.is_empty() {
        let gap = if places.is_empty() { "" } else { "  " };
        writeln!(out, "  {subject}{gap}{}", style.dim(&places));
    } else {
        writeln!(out, "  {subject}");
        wrapped(out, "      ", &places);
    }
    if let Some(excerpt) = &finding.excerpt {
        marked(out, "    ", excerpt, style);
    }
    let does = finding.does.as_deref().map_or_else(String::new, sentence);
    let loss = finding.loss.map_or("", warning);
    for line in format!("{does}{}{loss}", finding.message).lines() {
        wrapped(out, "      ", line);
    }
    if let Some(instead) = &finding.instead {
        wrapped(out, "    → ", instead);
    }
}

/// Whether the loss matters, as a sentence with a leading space.
fn warning(loss: Loss) -> &'static str {
    match loss {
        Loss::Nothing => " You lose nothing without it.",
        Loss::Speed => " Without it the same answers come, only later.",
        Loss::Feature => " Without it this feature is missing.",
        Loss::Protection => " Do not just remove it: it keeps something closed that would be open then.",
    }
}

/// A description as a sentence, with a trailing space.
fn sentence(text: &str) -> String {
    let mut chars = text.trim_end_matches('.').chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}. ", chars.as_str())
}

/// Writes the subjects of the details, grouped by topic.
fn summary(out: &mut Page, details: &[&Finding], style: Style) {
    for topic in [Topic::WithoutEffect, Topic::Differs] {
        let mut names: Vec<String> =
            details.iter().filter(|finding| finding.topic == topic).map(|finding| finding.subject.clone()).collect();
        names.dedup();
        if names.is_empty() {
            continue;
        }
        writeln!(out);
        writeln!(out, "{} {}", style.bold(topic.title()), style.dim("(--all says more)"));
        wrapped(out, "  ", &names.join(", "));
    }
}

/// Writes text wrapped to [`WIDTH`]. The first line begins with `begin`, the others with the same number of spaces.
fn wrapped(out: &mut Page, begin: &str, text: &str) {
    let width = begin.chars().count();
    let (mut line, mut used) = (begin.to_string(), width);
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > width && used + 1 + length > WIDTH {
            writeln!(out, "{line}");
            (line, used) = (" ".repeat(width), width);
        }
        if used > width {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    writeln!(out, "{line}");
}

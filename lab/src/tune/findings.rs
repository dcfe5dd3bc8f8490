//! The results of a search, as text, as a page, and for other programs.

use std::path::Path;

use serde::Serialize;

use super::memory::Memory;
use super::search::Evaluation;
use super::space::{Candidate, EffectiveSettings};
use super::surface::{Surface, surfaces};
use super::trial::{Goal, Measurement};
use super::verdict::{Outcome, Proof};
use crate::machine::error::{Context as _, Result, write_file};
use crate::machine::host::{self, Host};
use crate::page::html;
use crate::page::html::doubted;
use crate::screen::style;
use crate::screen::table::{Table, escape};
use crate::screen::text::figure;

/// How many of the best are listed.
const LISTED: usize = 5;

/// The results.
#[derive(Serialize)]
pub(super) struct Findings {
    pub(super) server: String,
    pub(super) load: String,
    pub(super) goal: Goal,
    pub(super) host: Host,
    /// The servers' cores.
    pub(super) server_cores: Vec<usize>,
    pub(super) present: EffectiveSettings,
    pub(super) memory: Option<Memory>,
    /// How many workers like the current ones the memory can hold.
    pub(super) memory_bound: Option<u64>,
    /// The best first, those dropped early last.
    pub(super) tried: Vec<Evaluation>,
    /// Settings that could have made the machine swap.
    pub(super) too_large: Vec<Candidate>,
    pub(super) proof: Option<Proof>,
    pub(super) outcome: Outcome,
    pub(super) verdict: String,
    pub(super) reasons: Vec<String>,
    pub(super) fragment: Option<String>,
    pub(super) doubts: Vec<String>,
    /// The table of the proof.
    #[serde(skip)]
    pub(super) compared: Option<Table>,
}

impl Findings {
    /// The best of the settings, if any could be measured.
    pub(super) fn best(&self) -> Option<&Evaluation> {
        self.tried.iter().find(|tried| tried.setting.is_some() && tried.figure(self.goal).is_some())
    }

    fn surfaces(&self) -> Vec<Surface<'_>> {
        surfaces(&self.tried, &self.too_large, self.goal, self.best().and_then(|best| best.setting))
    }

    /// The results for a terminal.
    pub(super) fn to_text(&self) -> String {
        let verdict = match self.outcome {
            Outcome::Change => style::good(&self.verdict),
            Outcome::Keep => style::heading(&self.verdict),
            Outcome::Open => style::doubtful(&self.verdict),
        };
        let mut out = format!("{verdict}\n");
        for reason in &self.reasons {
            out += &format!("  {reason}\n");
        }
        for surface in self.surfaces() {
            out += &format!("\n{}", surface.to_text());
        }
        out += "  * the best  ! something failed\n";
        out += &format!("\n{}\n{}", style::heading("The best, and the present settings"), self.list().to_screen());
        if let Some(compared) = &self.compared {
            out += &format!("\n{}\n{}", style::heading("Measured in turn"), compared.to_screen());
        }
        if let Some(fragment) = &self.fragment {
            out += &format!("\n{}\n{fragment}", style::heading("In place of the present settings"));
        }
        out.push('\n');
        for doubt in &self.doubts {
            out += &format!("  {} {doubt}\n", style::doubtful("!"));
        }
        out
    }

    /// The best, and the current settings.
    fn list(&self) -> Table {
        let headers = [
            "settings",
            "come to",
            "lets in",
            "per second",
            "per CPU-second",
            "p50 ms",
            "p99 ms",
            "memory MB",
            "failed",
            "waited in vain",
        ];
        let mut table = Table::new(2, &headers);
        let measured = self.tried.iter().filter_map(|tried| Some((tried, tried.measurements.last()?)));
        let (present, found): (Vec<_>, Vec<_>) = measured.partition(|(tried, _)| tried.setting.is_none());
        for (tried, last) in found.into_iter().take(LISTED).chain(present) {
            table.push(row(tried, last));
        }
        table
    }

    /// The results for a browser.
    fn page(&self) -> String {
        let mut text = html::begin(
            &format!("Settings for {}", self.server),
            &doubted(&self.verdict, self.doubts.len()),
            &format!("{}, {}", host::now(), self.load),
            &self.host,
        );
        text += &html::reasons(&self.doubts);
        text += &html::list("Why", &self.reasons);
        text += "<h2>What was tried</h2>\n";
        for surface in self.surfaces() {
            text += &format!(
                "<figure class=\"surface\"><h3>{}</h3>\n{}</figure>\n",
                escape(&surface.title),
                surface.to_svg()
            );
        }
        text += &format!(
            "<p class=\"soft\">The figure in each cell is: {}. The best has a star and a frame, an exclamation mark says that \
             something failed. Point at a cell to read everything about it. Every cell was measured briefly; the \
             better half was measured again for twice as long, and so on.</p>\n",
            escape(self.goal.name())
        );
        text += &format!("<h2>The best, and the present settings</h2>\n{}", self.list().to_html());
        if let Some(compared) = &self.compared {
            text += &format!("<h2>Measured in turn</h2>\n{}", compared.to_html());
        }
        if let Some(fragment) = &self.fragment {
            text += &format!("<h2>In place of the present settings</h2>\n<pre>{}</pre>\n", escape(fragment));
        }
        text + "<p>All measurements: <a href=\"tune.json\">tune.json</a>.</p>\n</body></html>\n"
    }

    /// The results in a form for other programs.
    pub(super) fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).context(|| "write the findings as JSON".to_owned())
    }

    /// Writes tune.html, tune.json, and fragment.conf if there is one.
    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory).context(|| format!("create {}", directory.display()))?;
        write_file(directory.join("tune.html"), self.page())?;
        write_file(directory.join("tune.json"), self.to_json()?)?;
        let fragment = directory.join("fragment.conf");
        match &self.fragment {
            Some(text) => write_file(fragment, text),
            // A fragment from an earlier search would be mistaken for one of this search.
            None => {
                let _ = std::fs::remove_file(fragment);
                Ok(())
            }
        }
    }
}

fn row(tried: &Evaluation, last: &Measurement) -> Vec<String> {
    let shown = |value: Option<f64>| value.map_or("–".to_owned(), figure);
    vec![
        tried.name(),
        tried.comes_to.to_string(),
        tried.comes_to.connections.map_or("–".to_owned(), |open| open.to_string()),
        figure(last.per_second),
        shown(last.per_cpu_second),
        figure(last.p50_ms),
        figure(last.p99_ms),
        shown(last.memory_mb),
        last.failures.to_string(),
        last.starved.to_string(),
    ]
}

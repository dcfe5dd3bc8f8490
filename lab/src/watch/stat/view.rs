//! The display of lines: headers, colours, panels without room; and the CSV file.

use std::io::IsTerminal as _;

use rustix::termios::tcgetwinsize;

use super::form::{Digits, Form, Formatted};
use super::group::TOTAL;
use super::options::StatOptions;
use super::panel::{Panel, Value};
use crate::screen::style;

/// dstat's colours, from the smallest unit to the largest; zero is dark.
const COLOURS: [&str; 6] = ["31", "33", "32", "34", "36", "37"];
const DARK: &str = "90";
const TITLE: &str = "34";

/// The settings of the display.
#[derive(Debug)]
pub(super) struct View {
    panels: Vec<Panel>,
    is_colourful: bool,
    is_terminal: bool,
    repeats: bool,
    digits: Digits,
}

impl View {
    pub(super) fn new(options: &StatOptions, panels: &[Panel]) -> Self {
        Self {
            panels: panels.to_vec(),
            is_colourful: options.color || (!options.nocolor && style::is_wanted(&std::io::stdout())),
            is_terminal: std::io::stdout().is_terminal(),
            repeats: !options.noheaders,
            digits: match (options.integer, options.float) {
                (true, _) => Digits::None,
                (_, true) => Digits::Always,
                _ => Digits::Usual,
            },
        }
    }

    /// The text of a line, with a header if one is due.
    pub(super) fn text(&self, line: u64, values: &[Vec<Value>], missed: u32) -> String {
        let window = tcgetwinsize(std::io::stdout()).ok().filter(|_| self.is_terminal);
        let (rows, columns) = window.map_or((0, usize::MAX), |size| (u64::from(size.ws_row), usize::from(size.ws_col)));
        let shown = self.fitting(columns);
        let mut out = String::new();
        // A header at the top of each screen.
        let every = rows.saturating_sub(3);
        if line == 0 || (self.repeats && every > 0 && line.is_multiple_of(every)) {
            out.push_str(&self.header(shown));
        }
        for (at, panel) in self.panels[..shown].iter().enumerate() {
            out.push_str(&self.separator(at, "|"));
            let cells = panel.group.columns.iter().zip(&values[at]).map(|(column, value)| self.cell(column.1, value));
            out.push_str(&cells.collect::<Vec<_>>().join(" "));
        }
        if shown < self.panels.len() {
            out.push('>');
        }
        if missed > 0 {
            out.push_str(&format!("  missed {missed} ticks"));
        }
        out.push('\n');
        out
    }

    /// How many panels fit into this many columns.
    fn fitting(&self, columns: usize) -> usize {
        let mut used = 0;
        let has_room = |panel: &&Panel| {
            used += width(panel) + 1;
            used <= columns.saturating_add(1)
        };
        self.panels.iter().take_while(has_room).count().max(1)
    }

    /// The separator between two panels; those of the same group belong together.
    fn separator(&self, at: usize, usual: &str) -> String {
        let Some(before) = at.checked_sub(1) else { return String::new() };
        let is_same = self.panels[before].group.id == self.panels[at].group.id;
        self.paint(TITLE, if is_same && usual == "|" { ":" } else { usual })
    }

    fn header(&self, shown: usize) -> String {
        let (mut titles, mut names) = (String::new(), String::new());
        for (at, panel) in self.panels[..shown].iter().enumerate() {
            titles.push_str(&self.separator(at, " "));
            titles.push_str(&self.paint(TITLE, &centred(&title(panel), width(panel), '-')));
            names.push_str(&self.separator(at, "|"));
            let columns = panel.group.columns.iter().map(|column| centred(column.0, column.1.width(), ' '));
            names.push_str(&self.paint(TITLE, &columns.collect::<Vec<_>>().join(" ")));
        }
        let more = if shown < self.panels.len() { ">" } else { "" };
        format!("{titles}{more}\n{names}{more}\n")
    }

    fn cell(&self, form: Form, value: &Value) -> String {
        let Formatted { text, magnitude } = match value {
            Value::Number(number) => form.write(*number, self.digits),
            Value::Text(text) => {
                Formatted { text: format!("{text:<width$}", width = form.width()), magnitude: Some(5) }
            }
        };
        self.paint(magnitude.map_or(DARK, |magnitude| COLOURS[magnitude.min(COLOURS.len() - 1)]), &text)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.is_colourful { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// The first lines of the CSV file: author, groups, columns. dstat's has as many.
    pub(super) fn csv_header(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let command: Vec<String> = std::env::args().collect();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (mut groups, mut names) = (Vec::new(), Vec::new());
        for panel in &self.panels {
            groups.push(quoted(&panel.group.csv.replace("{}", &panel.part)));
            groups.extend(panel.group.columns.iter().skip(1).map(|_| String::new()));
            names.extend(panel.group.columns.iter().map(|column| quoted(column.0)));
        }
        let lines = [
            quoted(concat!("tsubame-lab stat ", env!("CARGO_PKG_VERSION"), " CSV output, as that of dstat 0.8.0")),
            format!(
                "{},{},,,,{},{}",
                quoted("Author:"),
                quoted("the laboratory of Tsubame"),
                quoted("URL:"),
                quoted("")
            ),
            format!(
                "{},{},,,,{},{}",
                quoted("Host:"),
                quoted(&host),
                quoted("User:"),
                quoted(&std::env::var("USER").unwrap_or_default())
            ),
            format!(
                "{},{},,,,{},{}",
                quoted("Cmdline:"),
                quoted(&command.join(" ")),
                quoted("Date:"),
                quoted(&crate::machine::host::now())
            ),
            groups.join(","),
            names.join(","),
        ];
        lines.map(|line| line + "\n").concat()
    }
}

/// A line of the CSV file.
pub(super) fn csv(values: &[Vec<Value>]) -> String {
    let cells = values.iter().flatten().map(|value| match value {
        Value::Number(number) => format!("{number:.3}"),
        Value::Text(text) => text.clone(),
    });
    cells.collect::<Vec<_>>().join(",") + "\n"
}

fn width(panel: &Panel) -> usize {
    let columns = panel.group.columns;
    columns.iter().map(|column| column.1.width() + 1).sum::<usize>() - 1
}

/// The title of a panel, with dashes for blanks; that of a core contains its number.
fn title(panel: &Panel) -> String {
    let part = match panel.group.id {
        super::group::Id::Cpu if panel.part != TOTAL => format!("cpu{}", panel.part),
        _ => panel.part.clone(),
    };
    let title = match panel.group.id {
        super::group::Id::Cpu if panel.part != TOTAL => format!("{part} usage"),
        _ => panel.group.title.replace("{}", &part),
    };
    let title: String = title.chars().take(width(panel)).collect();
    title.replace(' ', "-")
}

/// Centred as dstat's language does it: between two places, the left one if the width is even.
fn centred(text: &str, width: usize, fill: char) -> String {
    let room = width.saturating_sub(text.chars().count());
    let left = room / 2 + (room & width & 1);
    let filled = |count: usize| fill.to_string().repeat(count);
    format!("{}{text}{}", filled(left), filled(room - left))
}

#[cfg(test)]
mod tests {
    use super::super::group::{Group, Id, Layout};
    use super::*;

    fn view(ids: &[Id], layout: Layout) -> View {
        let panel = |id: &Id| Panel { group: Group::of(*id, layout).unwrap(), part: TOTAL.to_owned() };
        let panels = ids.iter().map(panel).collect();
        View { panels, is_colourful: false, is_terminal: false, repeats: true, digits: Digits::Usual }
    }

    const ARTICLE: [Id; 7] = [Id::Cpu, Id::Memory, Id::Swap, Id::Disk, Id::Load, Id::Network, Id::Requests];

    /// The headers are those in the article that `run memory` repeats.
    #[test]
    fn headers_are_those_of_dstat() {
        let expected = "\
----total-cpu-usage---- ------memory-usage----- ----swap--- -dsk/total- ---load-avg--- -net/total- --io/total-
usr sys idl wai hiq siq| used  buff  cach  free| used  free| read  writ| 1m   5m  15m | recv  send| read  writ
";
        assert_eq!(view(&ARTICLE, Layout::Old).header(7), expected);
        let expected = "\
--total-cpu-usage-- ------memory-usage----- ---procs--- ---paging-- ---system-- --epoch---
usr sys idl wai stl| used  free  buff  cach|run blk new|  in   out | int   csw |  epoch   
";
        let ids = [Id::Cpu, Id::Memory, Id::Processes, Id::Page, Id::System, Id::Epoch];
        assert_eq!(view(&ids, Layout::New).header(6), expected);
    }

    #[test]
    fn lines_are_those_of_dstat() {
        let mib = 1048576.0;
        let numbers = |numbers: &[f64]| numbers.iter().map(|number| Value::Number(*number)).collect::<Vec<_>>();
        let values = [
            numbers(&[3.0, 33.0, 0.0, 64.0, 0.0, 0.0]),
            numbers(&[298.0 * mib, 112.0 * 1024.0, 8088.0 * 1024.0, 686.0 * mib]),
            numbers(&[178.0 * mib, 3918.0 * mib]),
            numbers(&[12.0 * mib, 825.0 * mib]),
            numbers(&[4.32, 1.03, 0.40]),
            numbers(&[2210.0, 1158.0]),
            numbers(&[653.0, 3424.0]),
        ];
        let view = view(&ARTICLE, Layout::Old);
        let text = view.text(1, &values, 4);
        assert_eq!(
            text,
            "  3  33   0  64   0   0| 298M  112k 8088k  686M| 178M 3918M|  12M  825M|4.32 1.03 0.40|2210B 1158B| 653  3424   \
             missed 4 ticks\n"
        );
        assert_eq!(view.text(0, &values, 0).lines().count(), 3, "the first line has a header");
        assert_eq!(csv(&values[4..5]), "4.320,1.030,0.400\n");
        assert_eq!(view.csv_header().lines().count(), 6);
        assert_eq!((view.fitting(23), view.fitting(46), view.fitting(47)), (1, 1, 2));
    }
}

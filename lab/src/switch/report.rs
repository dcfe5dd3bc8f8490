//! The report: for a terminal, for programs, and for a browser.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::ask::NUMBER_FIELD;
use super::comparison::Compared;
use super::cost::Cost;
use super::difference::{Difference, What, shape};
use super::findings::{Count, Example, Finding};
use super::meant;
use super::pair::Pair;
use super::private::Redirection;
use super::reading::Misread;
use super::reduce::anonymous;
use super::sources::{Busiest, Collected};
use crate::machine::error::{Context as _, Result};
use crate::screen::style;
use crate::screen::text::{counted, grouped};

/// A request that is sent later than this behind its time is worth a note.
const LATE: Duration = Duration::from_millis(500);

/// Everything that was found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The versions of both.
    servers: [String; 2],
    asked: Count,
    same: Count,
    findings: Vec<Told>,
    /// Findings that were too many to keep apart.
    dropped: u64,
    misread: Vec<Misread>,
    /// What Apache itself answers differently when it is asked twice, and how many requests have that.
    varying: BTreeMap<String, u64>,
    /// Requests that were not asked, by reason.
    not_asked: BTreeMap<String, Count>,
    log_lines: u64,
    cost: Option<Cost>,
    busiest: Option<Busiest>,
    redirections: Vec<Redirection>,
    notes: Vec<String>,
}

/// A finding, for the report.
#[derive(Debug, Serialize)]
struct Told {
    /// The entry of the list of differences; none if nothing explains it.
    meant: Option<&'static str>,
    /// How many requests show it, and how many lines of logs they stand for.
    shown_by: Count,
    differences: Vec<[String; 3]>,
    /// The line that decides, and what Tsubame says about the request.
    line: Option<String>,
    verdict: String,
    /// The shortest request, and some others.
    request: String,
    requests: Vec<String>,
    source: String,
    /// Its bytes, and both answers' heads.
    sent: String,
    apache: String,
    tsubame: String,
    /// What they wrote into their error logs.
    errors: [String; 2],
    /// Where the reason may be, if nothing explains the finding.
    hint: Option<&'static str>,
    /// A nameless case to send to the authors, if nothing explains the finding.
    case: Option<String>,
}

impl Report {
    /// Gathers everything.
    pub(crate) fn new(
        servers: [String; 2],
        compared: Compared,
        cost: Option<Cost>,
        collected: &Collected,
        pair: &Pair,
        misread: Vec<Misread>,
    ) -> Self {
        let Compared { findings, varying, lines, latest, otherwise, example, unread, given_up, .. } = compared;
        let mut not_asked: BTreeMap<String, Count> =
            collected.unsendable.iter().map(|(why, count)| (why.told().to_owned(), *count)).collect();
        if collected.scripts.requests > 0 {
            not_asked.insert("would run a script or ask a backend (--scripts)".to_owned(), collected.scripts);
        }
        let mut notes = collected.notes.clone();
        if latest > LATE {
            notes.push(format!(
                "Requests were sent up to {:.1} s late: the servers did not keep up with the pace",
                latest.as_secs_f64()
            ));
        }
        notes.extend(given_up.iter().map(|(place, count)| {
            let requests = count.requests;
            format!("{place}: {requests} requests more were not sent, because answers there came too late (--timeout)")
        }));
        notes.extend(unread.iter().map(|log| {
            format!("{log}: this log is not compared: the configuration takes {NUMBER_FIELD}, by which its lines are told apart, out of requests")
        }));
        if let Some(example) = example {
            notes.push(format!(
                "Apache answers {} with another status here than its log has, such as {example}: something of the live server is not here",
                shown(otherwise)
            ));
        }
        if !pair.knows_clients {
            notes.push(
                "Without mod_remoteip, or with RemoteIP lines in the configuration, all clients are at the loopback address, so what depends on it is not compared"
                    .into(),
            );
        }
        Self {
            servers,
            cost,
            busiest: collected.busiest,
            asked: findings.asked,
            same: findings.same,
            dropped: findings.dropped,
            findings: findings.sorted().into_iter().map(told).collect(),
            misread,
            varying: varying.into_iter().map(|(what, count): (What, u64)| (what.to_string(), count)).collect(),
            not_asked,
            log_lines: lines,
            redirections: pair.redirections.iter().cloned().collect(),
            notes,
        }
    }

    /// How many findings nothing explains, with lines that are read differently.
    pub(crate) fn unexplained(&self) -> usize {
        self.findings.iter().filter(|finding| finding.meant.is_none()).count() + self.misread.len()
    }

    /// How many findings there are.
    pub(crate) fn all(&self) -> usize {
        self.findings.len() + self.misread.len()
    }

    /// For programs.
    pub(crate) fn json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).context(|| "write the report as JSON".to_owned())
    }

    /// For a terminal.
    pub(crate) fn text(&self) -> String {
        let mut out = format!("{}\n\n", style::heading(&self.verdict()));
        for (number, finding) in self.findings.iter().enumerate() {
            finding.write(number + 1, &mut out);
        }
        if let Some(cost) = &self.cost {
            let _ = writeln!(out, "{}\n{}", style::heading(&cost.verdict()), cost.table().to_screen());
            out.extend(self.about_cost().iter().map(|line| format!("  {line}\n")));
            out.push('\n');
        }
        let mut section = |heading: &str, lines: Vec<String>| {
            if !lines.is_empty() {
                let _ = writeln!(out, "{}", style::heading(heading));
                out.extend(lines.iter().map(|line| format!("  {}\n", printable(line))));
                out.push('\n');
            }
        };
        let misread = self.misread.iter().map(|one| {
            let side = |text: &Option<String>| text.clone().unwrap_or_else(|| "nothing".to_owned());
            format!("{}: Apache reads {}, Tsubame {}", one.line, side(&one.apache), side(&one.tsubame))
        });
        section("Read differently", misread.collect());
        let not_asked = self.not_asked.iter().map(|(why, count)| format!("{} {why}", shown(*count)));
        section("Not asked", not_asked.collect());
        let varying = self.varying.iter().map(|(what, count)| format!("{what}: in {}", counted(*count, "request")));
        section("Left out, because Apache answers differently when it is asked twice", varying.collect());
        let redirections = self.redirections.iter().map(|one| format!("{}: {}", one.directive, one.instead));
        section("Both servers wrote to a directory of their own", redirections.collect());
        section("Notes", self.notes.clone());
        out
    }

    /// The verdict, in a sentence or two.
    fn verdict(&self) -> String {
        let Self { asked, same, .. } = self;
        let differ = asked.requests - same.requests;
        let mut text =
            format!("{} asked, {} answered alike", counted(asked.requests, "request"), grouped(same.requests as f64));
        if asked.lines > 0 {
            let _ =
                write!(text, " ({} of {} lines of the logs)", grouped(same.lines as f64), grouped(asked.lines as f64));
        }
        let reasons = counted(self.findings.len() as u64, "reason");
        match (differ, self.all()) {
            (0, 0) => text + ".",
            (0, _) => format!("{text}; what else differs has {reasons}, {} unexplained.", self.unexplained()),
            _ => format!("{text}; {differ} differ, for {reasons}, {} of them unexplained.", self.unexplained()),
        }
    }

    /// What the figures of the cost are about, what they mean for the busiest minute, and reasons to doubt them.
    fn about_cost(&self) -> Vec<String> {
        let Some(cost) = &self.cost else { return Vec::new() };
        let [own, all] = cost.lines;
        let share = format!("{} of {} lines", grouped(own as f64), grouped(all as f64));
        let mut told = vec![format!(
            "Measured with the requests of {share}, in proportion; the figures of the first round are cold."
        )];
        told.extend(self.busiest.iter().flat_map(|busiest| cost.needed(busiest)));
        told.extend(cost.doubts.iter().cloned());
        told
    }

    /// For a browser.
    pub(crate) fn page(&self) -> String {
        use crate::machine::host::{self, Host};
        use crate::page::html;
        use crate::screen::table::{Table, escape};
        let [apache, tsubame] = &self.servers;
        let when = format!("{}, {apache} beside {tsubame}", host::now());
        let mut page = html::begin("Before the switch", &self.verdict(), &when, &Host::observe());
        for finding in &self.findings {
            let _ = write!(page, "<h2>{}</h2>\n<p>{}</p>\n", escape(&finding.heading()), escape(&finding.about()));
            let mut table = Table::new(3, &["what", "Apache", "Tsubame"]);
            finding.differences.iter().for_each(|row| table.push(row.to_vec()));
            page += &table.to_html();
            let _ = writeln!(page, "<pre>{}</pre>\n<div class=\"sides\">", escape(finding.sent.trim_end()));
            for (name, text) in [("Apache", &finding.apache), ("Tsubame", &finding.tsubame)] {
                let _ = writeln!(page, "<div><h3>{name}</h3>\n<pre>{}</pre></div>", escape(text));
            }
            page += "</div>\n";
            if let Some(case) = &finding.case {
                let _ = writeln!(
                    page,
                    "<details><summary>A nameless case to send</summary><pre>{}</pre></details>",
                    escape(case)
                );
            }
        }
        if let Some(cost) = &self.cost {
            let _ = write!(page, "<h2>Cost</h2>\n<p>{}</p>\n{}", escape(&cost.verdict()), cost.table().to_html());
            page += &html::unordered("list", &self.about_cost());
        }
        let lines = |counts: &BTreeMap<String, Count>| -> Vec<String> {
            counts.iter().map(|(why, count)| format!("{} {why}", shown(*count))).collect()
        };
        page += &html::list("Not asked", &lines(&self.not_asked));
        let redirections: Vec<String> =
            self.redirections.iter().map(|one| format!("{}: {}", one.directive, one.instead)).collect();
        page += &html::list("Redirected", &redirections);
        page + &html::list("Notes", &self.notes) + &html::end()
    }
}

impl Told {
    /// What differs, in a line.
    fn heading(&self) -> String {
        let kind = match self.meant {
            Some(_) => "meant",
            None => "unexplained",
        };
        let whats: Vec<&str> = self.differences.iter().map(|[what, ..]| what.as_str()).collect();
        format!("{kind}: {}, in {}", whats.join(", "), shown(self.shown_by))
    }

    /// Where it comes from.
    fn about(&self) -> String {
        let entry = self.meant.map(|entry| format!("docs/differences.md: {entry}. ")).unwrap_or_default();
        // The verdict often names the line itself, with a shorter path.
        let is_named = |line: &&String| line.rsplit('/').next().is_some_and(|end| self.verdict.contains(end));
        let line = self.line.as_ref().filter(|line| !is_named(line));
        let line = line.map(|line| format!(" ({line})")).unwrap_or_default();
        let hint = self.hint.map(|hint| format!(" {hint}.")).unwrap_or_default();
        format!("{entry}Tsubame: {}{line}. Shortest request from {}.{hint}", self.verdict, self.source)
    }

    fn write(&self, number: usize, out: &mut String) {
        let heading = format!("{number}. {}", self.heading());
        let heading = if self.meant.is_some() { heading } else { style::bad(&heading) };
        let _ = writeln!(out, "{heading}\n   {}\n   {}", printable(&self.request), printable(&self.about()));
        for [what, apache, tsubame] in &self.differences {
            let [apache, tsubame] = [apache, tsubame].map(|text| printable(text));
            let _ = writeln!(out, "   {what}\n     Apache   {apache}\n     Tsubame  {tsubame}");
        }
        let [apache, tsubame] = &self.errors;
        if apache != tsubame {
            let shown = |text: &str| printable(text.lines().next().unwrap_or("nothing"));
            let _ = writeln!(out, "   error log\n     Apache   {}\n     Tsubame  {}", shown(apache), shown(tsubame));
        }
        out.push('\n');
    }
}

/// A text for a terminal: what clients and scripts say never is a command to it.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() { out.extend(char.escape_unicode()) } else { out.push(char) }
    }
    out
}

/// Requests, and the lines they stand for.
fn shown(count: Count) -> String {
    let requests = counted(count.requests, "request");
    match count.lines {
        0 => requests,
        lines => format!("{requests} ({})", counted(lines, "line")),
    }
}

fn told(finding: Finding) -> Told {
    let Finding { entry, explanation, requests, weight, examples } = finding;
    let shown = examples.iter().map(|example| example.ask.shown()).collect();
    let example = examples.into_iter().next();
    let differences = example.iter().flat_map(|example| &example.differences);
    let differences = differences.map(|one| [one.what.to_string(), one.apache.clone(), one.tsubame.clone()]).collect();
    let of = |pick: fn(&Example) -> String| example.as_ref().map(pick).unwrap_or_default();
    Told {
        meant: entry,
        shown_by: Count { requests, lines: weight },
        differences,
        line: explanation.line.clone(),
        verdict: explanation.verdict.clone(),
        request: of(|one| one.ask.shown()),
        requests: shown,
        source: of(|one| one.source.to_string()),
        sent: of(|one| String::from_utf8_lossy(&one.ask.bytes(None)).into_owned()),
        apache: of(|one| head(&one.apache)),
        tsubame: of(|one| head(&one.tsubame)),
        errors: example.as_ref().map(|one| one.errors.clone()).unwrap_or_default(),
        hint: meant::hint(&explanation).filter(|_| entry.is_none()),
        case: example.as_ref().filter(|_| entry.is_none()).map(case),
    }
}

/// A case for the authors: the request without names, what differs, and which messages are in the error logs. Bodies are not
/// shown.
fn case(example: &Example) -> String {
    let sent = String::from_utf8_lossy(&anonymous(&example.ask).bytes(None)).into_owned();
    let host = example.ask.host.as_deref().filter(|host| !host.is_empty());
    let nameless = |text: &str| host.map_or_else(|| text.to_owned(), |host| text.replace(host, "www.example.org"));
    let mut text = sent;
    if !example.ask.body.is_empty() {
        text.push('\n');
    }
    for Difference { what, apache, tsubame } in &example.differences {
        let (apache, tsubame) = match what {
            What::Body | What::AccessLog => ("…".to_owned(), "…".to_owned()),
            What::Field(name) if name == "set-cookie" => (cookie_shapes(apache), cookie_shapes(tsubame)),
            _ => (nameless(apache), nameless(tsubame)),
        };
        let _ = writeln!(text, "{what}: Apache: {apache}; Tsubame: {tsubame}");
    }
    for (name, errors) in
        ["Apache", "Tsubame"].into_iter().zip(&example.errors).filter(|(_, errors)| !errors.is_empty())
    {
        let _ = writeln!(text, "{name}'s error log: {}", errors.lines().map(code).collect::<Vec<_>>().join(", "));
    }
    text
}

/// Cookies without their values.
fn cookie_shapes(cookies: &str) -> String {
    cookies.split(" | ").map(shape).collect::<Vec<_>>().join(" | ")
}

/// The module and the number of a message, without the paths and users that it names.
fn code(message: &str) -> String {
    let is_code = |word: &&str| word.starts_with('[') || word.starts_with("AH");
    message.split_whitespace().take(2).filter(is_code).collect::<Vec<_>>().join(" ")
}

/// The most of a body that the report shows, in characters.
const BODY_SHOWN: usize = 2000;

/// An answer as it was compared.
fn head(told: &super::difference::Told) -> String {
    let mut text = format!("{} {}\n", told.answer.status, told.answer.reason);
    for (name, values) in &told.plain.fields {
        text.extend(values.iter().map(|value| format!("{name}: {value}\n")));
    }
    let body = String::from_utf8_lossy(&told.plain.body);
    text + "\n" + body.chars().take(BODY_SHOWN).collect::<String>().as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_commands_a_terminal() {
        assert_eq!(printable("a\u{1b}[31m\u{9b}1m\u{7f}é"), "a\\u{1b}[31m\\u{9b}1m\\u{7f}é");
    }

    #[test]
    fn messages_are_shown_to_others_without_names() {
        let message = "[auth_basic:error] AH01617: user bob: authentication failure for \"/secret\"";
        assert_eq!(code(message), "[auth_basic:error] AH01617:");
        assert_eq!(code("[x:error] bob said"), "[x:error]");
        assert_eq!(cookie_shapes("id=secret; path=/ | b=secret; secure"), "id=…; path=/ | b=…; secure");
    }
}

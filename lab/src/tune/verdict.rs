//! The conclusion of a search and its proof, in sentences and as lines of a configuration.

use serde::Serialize;

use super::memory::Memory;
use super::search::Evaluation;
use super::space::{EffectiveSettings, Mpm};
use super::trial::Goal;
use crate::compare::{FIGURES, Side};
use crate::machine::stats::ratio;
use crate::screen::text::counted;
use crate::tune::advise::decision::fragment;

/// The best settings and the current ones, measured in turn.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Proof {
    pub(super) rounds: u32,
    pub(super) figures: Vec<Figure>,
    /// Failures of the best settings, and of the current ones.
    pub(super) failures: [u64; 2],
    pub(super) starved: [u64; 2],
    /// The improvement factor, and its 95 % interval.
    pub(super) gain: Option<f64>,
    pub(super) bounds: Option<[f64; 2]>,
}

/// The rounds of one figure.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    name: &'static str,
    found: Vec<f64>,
    present: Vec<f64>,
}

/// The recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// The best settings are better.
    Change,
    /// The current ones are as good, or better.
    Keep,
    /// Not proved.
    Open,
}

impl Proof {
    pub(super) fn of([found, present]: &[Side<'_>; 2], rounds: u32, goal: Goal) -> Self {
        let at = goal.row();
        let (one, other) = match goal.wants_more() {
            true => (&found.rounds[at], &present.rounds[at]),
            false => (&present.rounds[at], &found.rounds[at]),
        };
        let gain = ratio(one, other);
        let figures = FIGURES.iter().enumerate().map(|(at, (name, ..))| Figure {
            name,
            found: found.rounds[at].clone(),
            present: present.rounds[at].clone(),
        });
        Self {
            rounds,
            figures: figures.collect(),
            failures: [found.failures, present.failures],
            starved: [found.starved, present.starved],
            gain: gain.map(|gain| gain.middle),
            bounds: gain.and_then(|gain| gain.bounds),
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        let is_flawed = [0, 1].map(|side| self.failures[side] + self.starved[side] > 0);
        match (is_flawed, self.bounds) {
            ([false, true], _) => Outcome::Change,
            ([true, false], _) => Outcome::Keep,
            (_, Some([low, _])) if low > 1.0 => Outcome::Change,
            (_, Some(_)) => Outcome::Keep,
            (_, None) => Outcome::Open,
        }
    }

    /// The verdict, in a sentence.
    pub(super) fn describe(&self, best: EffectiveSettings, goal: Goal) -> String {
        let (Some(gain), Some([low, high])) = (self.gain, self.bounds) else {
            return format!(
                "Nothing is proved, because one round is not enough: the best that was found comes to {best}."
            );
        };
        let how = match goal {
            Goal::P99 => format!("a p99 that is {gain:.2} times as short as that of the present settings"),
            _ => format!("{gain:.2} times the {} of the present settings", goal.name()),
        };
        let certainty = format!("between {low:.2} and {high:.2} in 95 of 100 cases");
        let [bad, present_bad] = [0, 1].map(|side| self.failures[side] + self.starved[side]);
        match self.outcome() {
            Outcome::Change if bad == 0 && present_bad > 0 => format!(
                "{} serves everybody, while {} requests failed and {} clients waited in vain with the present settings; it has {how} ({certainty}).",
                capital(&best.to_string()),
                self.failures[1],
                self.starved[1]
            ),
            Outcome::Change => format!("{} has {how} ({certainty}).", capital(&best.to_string())),
            _ if high < 1.0 => {
                format!("Keep the present settings: the best that was found, {best}, has {how} ({certainty}).")
            }
            _ if bad > 0 && present_bad == 0 => format!(
                "Keep the present settings: with the best that was found, {best}, {} requests failed and {} clients waited in vain.",
                self.failures[0], self.starved[0]
            ),
            _ => format!(
                "Keep the present settings, they are as good: the best that was found, {best}, has {how} ({certainty})."
            ),
        }
    }
}

/// The result, and its circumstances.
pub(super) struct Case<'c> {
    pub(super) best: &'c Evaluation,
    pub(super) present: EffectiveSettings,
    pub(super) clients: u64,
    pub(super) cores: u64,
    pub(super) memory: Option<Memory>,
    /// The load, in words.
    pub(super) load: &'c str,
}

impl Case<'_> {
    /// Why the settings are better, if the numbers explain it.
    pub(super) fn reasons(&self) -> Vec<String> {
        let (best, present) = (self.best.comes_to, self.present);
        let mut reasons = vec![format!("It comes to {best}; the present settings come to {present}.")];
        if let Some(open) = best.connections.filter(|open| *open < self.clients) {
            let few = if open == 1 { "one connection".to_owned() } else { format!("{open} connections") };
            reasons.push(format!(
                "It lets in at most {few} at a time. The other {} of this load wait in the kernel's queue, where they cost nothing: \
                 this is admission control.",
                self.clients - open
            ));
        }
        if present.first < present.children && best.first == best.children {
            reasons.push("Nothing is started or ended under load; the present settings start and end children as the load comes and goes.".to_owned());
        }
        if best.workers() * 2 <= present.workers() && best.mpm != Mpm::Nginx {
            reasons.push(format!(
                "{} instead of up to {} take turns on {}, so less time is lost in switching between them.",
                counted(best.workers(), "worker"),
                present.workers(),
                counted(self.cores, "core")
            ));
        }
        reasons
    }

    /// The danger of few workers when responses are slow, though those of this load were fast.
    pub(super) fn stops(&self) -> Option<String> {
        let best = self.best.comes_to;
        let has_number = !matches!(best.mpm, Mpm::Nginx | Mpm::Percore);
        let workers = best.workers();
        (has_number && workers < FEW_WORKERS).then(|| {
            format!(
                "{} at once stop a site with these settings: with scripts, backends or a slow disk, load a page that needs \
                 them, or ask for more workers (--least-workers)",
                counted(workers, "slow request")
            )
        })
    }

    /// The lines to write, with their reasons and doubts above.
    pub(super) fn fragment(&self, proof: &Proof, goal: Goal, doubts: &[String]) -> Option<String> {
        let setting = self.best.setting?;
        let bound = self.memory.map(|memory| memory.bound(setting.threads));
        let why = match bound.filter(|_| setting.mpm != Mpm::Nginx) {
            Some(bound) => format!("the memory can hold {bound} such workers"),
            None => "how many workers the memory can hold is not known: it could not be read".to_owned(),
        };
        let mut out = String::new();
        let verdict = proof.describe(self.best.comes_to, goal);
        let head = [format!("Found by tsubame-lab tune for this load: {}.", self.load), verdict];
        // A later reader has other current settings: these.
        let told = head
            .iter()
            .chain(&self.reasons())
            .map(|text| text.replace("present settings", "settings before"))
            .collect::<Vec<_>>();
        let doubts = doubts.iter().map(|doubt| format!("! {}", capital(doubt)));
        for line in told.into_iter().chain(doubts).flat_map(|text| wrapped(&text)) {
            out += &format!("# {line}\n");
        }
        out.push('\n');
        Some(out + &fragment(setting.mpm.name(), &setting.settings(&why)))
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// Fewer workers than this are few for a site with more than files.
const FEW_WORKERS: u64 = 64;

/// The width of comments, in characters.
const WIDTH: usize = 98;

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(last) = lines.last_mut() else { break };
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::space::Candidate;

    fn proof(bounds: Option<[f64; 2]>, failures: [u64; 2]) -> Proof {
        Proof { rounds: 5, figures: Vec::new(), failures, starved: [0; 2], gain: Some(1.5), bounds }
    }

    fn found() -> Evaluation {
        Evaluation::new(Candidate { mpm: Mpm::Event, children: 1, threads: 2, factor: None })
    }

    #[test]
    fn a_verdict_needs_bounds_that_do_not_contain_1() {
        let cases = [
            (
                Some([1.2, 1.8]),
                [0, 0],
                Outcome::Change,
                "1 process with 2 workers has 1.50 times the answers per second",
            ),
            (Some([0.9, 1.8]), [0, 0], Outcome::Keep, "they are as good"),
            (Some([0.5, 0.8]), [0, 0], Outcome::Keep, "Keep the present settings: the best that was found"),
            (Some([1.2, 1.8]), [3, 0], Outcome::Keep, "3 requests failed"),
            (Some([0.9, 1.1]), [0, 3], Outcome::Change, "serves everybody"),
            (None, [0, 0], Outcome::Open, "Nothing is proved"),
        ];
        for (bounds, failures, outcome, text) in cases {
            let proof = proof(bounds, failures);
            let told = proof.describe(found().comes_to, Goal::Rate);
            assert_eq!(proof.outcome(), outcome, "{told}");
            assert!(told.contains(text), "{told}");
        }
    }

    #[test]
    fn admission_control_is_reported_with_its_numbers() {
        let best = found();
        let present = EffectiveSettings::of(Mpm::Event, &Default::default());
        let case = Case { best: &best, present, clients: 100, cores: 2, memory: None, load: "100 connections" };
        let reasons = case.reasons().join("\n");
        assert!(
            reasons.contains("comes to 1 process with 2 workers; the present settings come to 3 to 16 processes"),
            "{reasons}"
        );
        assert!(reasons.contains("at most 6 connections at a time. The other 94"), "{reasons}");
        let text = case.stops().unwrap();
        assert!(text.starts_with("2 slow requests at once stop"), "{text}");
        let text = case.fragment(&proof(Some([1.2, 1.8]), [0, 0]), Goal::Rate, &[text]).unwrap();
        assert!(text.contains("\n# ! 2 slow requests at once stop a site"), "{text}");
        assert!(text.contains("\nThreadsPerChild 2\n") && text.contains("\nMaxRequestWorkers 2\n"), "{text}");
        let (head, _) = text.split_once("\n\n").unwrap();
        assert!(head.lines().all(|line| line.starts_with("# ") && line.chars().count() <= 100), "{text}");
        assert!(!head.contains("present"), "once it is in place, it is the present one: {text}");
    }
}

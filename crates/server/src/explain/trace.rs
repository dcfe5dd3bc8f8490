//! What happened to a request, for who asks why ([`explain`](crate::explain)). Requests of clients have none.

use std::sync::{Mutex, PoisonError};

use conf::{Level, Node, Origin};

use crate::config::merge::Merged;
use crate::request::flow::Flow;

/// The name of the phase in which the answer is made.
pub(crate) const HANDLER: &str = "handler";

/// The record of a request.
#[derive(Debug, Default)]
pub struct Trace {
    /// What has a part in its settings, in the order in which it was merged.
    pub layers: Vec<Met>,
    /// The same of the paths that it was for before: those of error documents and other redirects came after them.
    pub(crate) before: Vec<Mapped>,
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// What had been merged where the configuration could not be read on.
    pub(crate) cut_off: Option<Merged>,
    /// Messages of the error log: they are noted here instead of being written. Who logs may only read the request.
    said: Mutex<Vec<Step>>,
}

/// A part of the configuration that a request has met.
#[derive(Clone, Debug)]
pub enum Met {
    /// The section that begins here.
    Section(Origin),
    /// An `.htaccess` file: its path and its lines.
    File(String, Vec<Node>),
    /// The conditional section that begins here was passed over, and why.
    Unmet(Origin, &'static str),
}

/// A path that a request was for.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) path: String,
    pub(crate) layers: Vec<Met>,
    /// The settings that came of them.
    pub(crate) settings: Merged,
}

/// A line of an access file.
#[derive(Clone, Debug)]
pub struct AccessLine {
    /// How many sections are around it.
    pub depth: usize,
    /// The directive, or the first line of a section.
    pub text: String,
    /// Its number.
    pub number: u32,
    /// What is wrong with it, or why it is passed over.
    pub objection: Option<String>,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Step {
    /// The path that is looked at from now on, and why.
    Path(String, &'static str),
    /// No access file is looked for in a directory, because of this line.
    NoAccessFile(String, Option<Origin>),
    /// An access file is looked for in a directory, and there is none.
    MissingAccessFile(String),
    /// An access file was read: its path, its lines, and the first error, because of which none of them counts.
    AccessFile(String, Vec<AccessLine>, Option<String>),
    /// A module decided a phase: the phase, the module, and the status if that ends the request.
    Decided(&'static str, &'static str, Option<u16>),
    /// A module's own words, and the line that they are about.
    Note(&'static str, String, Option<Origin>),
    /// A message of the error log.
    Said(String, Level, String),
    /// What a look-up went through whose result became the request's own.
    Adopted(Vec<Step>),
}

impl Trace {
    pub(crate) fn decided(&mut self, phase: &'static str, module: &'static str, flow: Flow) {
        self.hear();
        match flow {
            Flow::Declined => {}
            Flow::Ok => self.steps.push(Step::Decided(phase, module, None)),
            Flow::Status(status) => self.steps.push(Step::Decided(phase, module, Some(status))),
        }
    }

    /// The module that made the answer, or would.
    pub(crate) fn handler(&self) -> Option<&'static str> {
        self.steps.iter().rev().find_map(|step| match step {
            Step::Decided(HANDLER, module, _) => Some(*module),
            _ => None,
        })
    }

    pub(crate) fn note(&mut self, step: Step) {
        self.hear();
        self.steps.push(step);
    }

    /// A message that would have been written now.
    pub(crate) fn say(&self, module: &str, level: Level, text: &str) {
        let step = Step::Said(module.to_string(), level, text.to_string());
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push(step);
    }

    /// Puts the messages where they belong among the steps.
    pub(crate) fn hear(&mut self) {
        self.steps.append(self.said.get_mut().unwrap_or_else(PoisonError::into_inner));
    }

    /// The request goes on for another path.
    pub(crate) fn redirected(&mut self, from: String, settings: Merged, to: String, why: &'static str) {
        let settings = self.cut_off.take().unwrap_or(settings);
        self.before.push(Mapped { path: from, layers: std::mem::take(&mut self.layers), settings });
        self.note(Step::Path(to, why));
    }

    /// The path is mapped from the beginning: what was met on the way to another one does not count.
    pub(crate) fn begin(&mut self) {
        self.layers.clear();
    }

    /// What went to the error log because of a look-up whose result is not the request's own.
    pub(crate) fn overhear(&mut self, mut found: Trace) {
        found.hear();
        self.steps.extend(found.steps.into_iter().filter(|step| matches!(step, Step::Said(..))));
    }

    /// Goes on as what a look-up found.
    pub(crate) fn adopt(&mut self, mut found: Trace) {
        found.hear();
        self.layers = found.layers;
        self.note(Step::Adopted(found.steps));
    }
}

//! The record of a request's way, for [`explain`](crate::explain). Real requests have none.

use std::sync::{Mutex, PoisonError};

use conf::{Level, Node, Origin};

use crate::config::merge::Merged;
use crate::request::flow::Flow;

/// The name of the phase in which the answer is made.
pub(crate) const HANDLER: &str = "handler";

/// The record of a request.
#[derive(Debug, Default)]
pub struct Trace {
    /// The parts of its settings, in the order of merging.
    pub layers: Vec<Met>,
    /// The same for its earlier paths: redirects and error documents led from them to this one.
    pub(crate) before: Vec<Mapped>,
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// The settings merged up to the point where the configuration became unreadable.
    pub(crate) cut_off: Option<Merged>,
    /// Messages for the error log: recorded here instead of written. Code that logs may only read the request.
    said: Mutex<Vec<Step>>,
}

/// A part of the configuration that applied to a request.
#[derive(Clone, Debug)]
pub enum Met {
    /// The section that begins here.
    Section(Origin),
    /// An `.htaccess` file: its path and its lines.
    File(String, Vec<Node>),
    /// The conditional section that begins here was skipped, and why.
    Unmet(Origin, &'static str),
}

/// A former path of a request.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) path: String,
    pub(crate) layers: Vec<Met>,
    /// The settings for it.
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
    /// What is wrong with it, or why it is skipped.
    pub objection: Option<String>,
}

/// A step.
#[derive(Clone, Debug)]
pub enum Step {
    /// The current path from now on, and why.
    Path(String, &'static str),
    /// No access file is looked up in a directory, because of this line.
    NoAccessFile(String, Option<Origin>),
    /// An access file was looked up in a directory, and there is none.
    MissingAccessFile(String),
    /// An access file was read: its path, its lines, and the first error, which invalidates all of them.
    AccessFile(String, Vec<AccessLine>, Option<String>),
    /// A module decided a phase: the phase, the module, and the status if that ends the request.
    Decided(&'static str, &'static str, Option<u16>),
    /// A module's own note, and the line it is about.
    Note(&'static str, String, Option<Origin>),
    /// A message of the error log.
    Said(String, Level, String),
    /// The steps of a look-up whose result became the request's own.
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

    /// The module that made the answer, or would make it.
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

    /// Records a message that would have been written.
    pub(crate) fn say(&self, module: &str, level: Level, text: &str) {
        let step = Step::Said(module.to_string(), level, text.to_string());
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push(step);
    }

    /// Inserts the messages in their places among the steps.
    pub(crate) fn hear(&mut self) {
        self.steps.append(self.said.get_mut().unwrap_or_else(PoisonError::into_inner));
    }

    /// The request continues with another path.
    pub(crate) fn redirected(&mut self, from: String, settings: Merged, to: String, why: &'static str) {
        let settings = self.cut_off.take().unwrap_or(settings);
        self.before.push(Mapped { path: from, layers: std::mem::take(&mut self.layers), settings });
        self.note(Step::Path(to, why));
    }

    /// Mapping begins again: parts met on the way to another path do not count.
    pub(crate) fn begin(&mut self) {
        self.layers.clear();
    }

    /// Adds error log messages of a look-up whose result is not the request's own.
    pub(crate) fn overhear(&mut self, mut found: Trace) {
        found.hear();
        self.steps.extend(found.steps.into_iter().filter(|step| matches!(step, Step::Said(..))));
    }

    /// Continues with the result of a look-up.
    pub(crate) fn adopt(&mut self, mut found: Trace) {
        found.hear();
        self.layers = found.layers;
        self.note(Step::Adopted(found.steps));
    }
}

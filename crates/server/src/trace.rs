//! The record of a request's way, for [`explain`](crate::explain). Real requests have none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use conf::{Level, Node, Origin};

use crate::settings::merge::Merged;

/// The name of the phase in which the response is made.
pub(crate) const HANDLER: &str = "handler";
/// Why a request goes on for the path of an error document.
pub(crate) const ERROR_DOCUMENT: &str = "the error document";

/// The record of a request.
#[derive(Debug, Default)]
pub struct Trace {
    /// The parts of its settings, in the order of merging.
    pub layers: Vec<Met>,
    /// The parts of the settings of its earlier paths: redirects and error documents led from them to this one.
    pub(crate) before: Vec<MappedPath>,
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// The settings merged up to the point where the configuration became unreadable.
    pub(crate) cut_off: Option<Merged>,
    /// The handler is known, and was not run, as this is no real request: nothing else will happen. Subrequests share the
    /// flag.
    pub(crate) is_reached: Arc<AtomicBool>,
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
pub(crate) struct MappedPath {
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

/// Something that happened to the request on its way.
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
    /// A module's own note.
    Note(Note),
    /// Why the request ends with a status.
    Reason(Reason),
    /// A message of the error log.
    Logged(String, Level, String),
    /// The steps of a subrequest whose result became the request's own.
    Adopted(Vec<Step>),
}

/// What a module says of a request.
#[derive(Clone, Debug)]
pub struct Note {
    /// The module.
    pub module: &'static str,
    /// What it says.
    pub text: String,
    /// The line that it is about.
    pub origin: Option<Origin>,
    /// The line changes what becomes of the request; `false`: it was looked at and passed over.
    pub counts: bool,
}

/// Why a request ends as it does. Put together it reads `cause (origin) effect`.
#[derive(Clone, Debug)]
pub struct Reason {
    /// The status; 0 where somebody chooses it who was not asked.
    pub status: u16,
    /// The module that decided.
    pub module: String,
    /// The directive at `origin`, or a fact where there is none.
    pub cause: String,
    /// The line that is to blame.
    pub origin: Option<Origin>,
    /// What follows from it; may be empty.
    pub effect: String,
}

impl Trace {
    /// The record of a subrequest.
    pub(crate) fn of_lookup(&self) -> Trace {
        Trace { is_reached: self.is_reached.clone(), ..Trace::default() }
    }

    /// Goes no further, as the response would have to be waited for.
    pub(crate) fn reached(&self) {
        self.is_reached.store(true, Ordering::Relaxed);
    }

    /// A module decided a phase; `status`: the one with which that ends the request.
    pub(crate) fn decided(&mut self, phase: &'static str, module: &'static str, status: Option<u16>) {
        self.note(Step::Decided(phase, module, status));
    }

    /// The module that made the response, or would make it.
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
    pub(crate) fn message(&self, module: &str, level: Level, text: &str) {
        self.note_later(Step::Logged(module.to_string(), level, text.to_string()));
    }

    /// Notes what somebody says who may only read the request.
    pub(crate) fn note_later(&self, step: Step) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push(step);
    }

    /// Inserts the messages in their places among the steps.
    pub(crate) fn hear(&mut self) {
        self.steps.append(self.said.get_mut().unwrap_or_else(PoisonError::into_inner));
    }

    /// The request continues with another path.
    pub(crate) fn redirected(&mut self, from: String, settings: Merged, to: String, why: &'static str) {
        let settings = self.cut_off.take().unwrap_or(settings);
        self.before.push(MappedPath { path: from, layers: std::mem::take(&mut self.layers), settings });
        self.note(Step::Path(to, why));
    }

    /// Mapping begins again: parts met on the way to another path do not count.
    pub(crate) fn begin(&mut self) {
        self.layers.clear();
    }

    /// Adds error log messages of a subrequest whose result is not the request's own.
    pub(crate) fn overhear(&mut self, mut found: Trace) {
        found.hear();
        self.steps.extend(found.steps.into_iter().filter(|step| matches!(step, Step::Logged(..) | Step::Reason(_))));
    }

    /// Continues with the result of a subrequest.
    pub(crate) fn adopt(&mut self, mut found: Trace) {
        found.hear();
        self.layers = found.layers;
        self.note(Step::Adopted(found.steps));
    }
}

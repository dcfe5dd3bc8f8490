//! Reports errors and warnings of the configuration reader.

use conf::error::PROGRAM;
use conf::words::next_word;
use conf::{Cause, Error, Level, Node, Notice};

use super::report::Report;
use crate::diagnosis::context::ErrorContext;
use crate::diagnosis::errors::{finding, missing_log};
use crate::diagnosis::names::{name_at, named};
use crate::diagnosis::variables::define;
use server::module::finding::{Finding, Topic, Weight};

/// Reports the errors of the configuration. Each of them prevents the start. `program` is the name the server was called
/// by.
pub(super) fn all<'a>(
    report: &mut Report,
    errors: impl Iterator<Item = &'a Error>,
    known: &ErrorContext<'_>,
    program: &str,
) {
    for error in errors {
        let mut found = finding(error, Weight::Stops, Topic::Directive, known);
        let obeyed = known.ran.iter().find(|ran| Some(&ran.origin) == error.origin.as_ref());
        if let Some(ran) = obeyed.filter(|_| found.topic == Topic::Syntax) {
            found.subject = named(&next_word(&mut ran.text.as_str()));
        }
        if let Some(reason) = &error.reason {
            found.message = format!("{}; {reason}", found.message.trim_end_matches('.'));
        }
        found.message = found.message.replace(PROGRAM, program);
        report.add(found);
    }
}

/// Reports the notices that `-t` prints while the configuration is read.
pub(super) fn notices(report: &mut Report, notices: &[Notice], tree: &[Node]) {
    for notice in notices.iter().filter(|notice| notice.level <= Level::Warn) {
        report.add(match &notice.cause {
            Some(Cause::NoLogDirectory(directory)) => missing_log(directory, &notice.text),
            _ => warning(notice, tree),
        });
    }
}

/// The finding for a notice.
fn warning(notice: &Notice, tree: &[Node]) -> Finding {
    let text = notice.text.trim_end();
    let name = notice.origin.as_ref().and_then(|origin| name_at(tree, origin));
    let (weight, topic, subject) = match &notice.cause {
        Some(Cause::NoHandler) => (Weight::Loses, Topic::Handler, "handler"),
        Some(Cause::NoPhp) => (Weight::Loses, Topic::Handler, "php"),
        Some(Cause::NoDocumentRoot) => (Weight::Loses, Topic::Warning, "DocumentRoot"),
        Some(Cause::UndefinedVariable(_)) => (Weight::Loses, Topic::Warning, "variable"),
        Some(Cause::NoServerName) => (Weight::Harmless, Topic::Warning, "ServerName"),
        _ => (Weight::Harmless, Topic::Warning, name.as_deref().unwrap_or(notice.module)),
    };
    let mut found = Finding::new(weight, topic, subject, text);
    found.places.extend(notice.origin.clone());
    if let Some(Cause::UndefinedVariable(variable)) = &notice.cause {
        found.instead = Some(define(variable));
    }
    found
}

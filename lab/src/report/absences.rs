//! What a run did not measure, and why.

use crate::experiments::experiment::find_workload;
use crate::experiments::profile::Entry;
use crate::experiments::subject;
use crate::measure::results::{Failure, Results};
use crate::report::summary::place;
use crate::screen::text::counted;

/// Missing subjects and failures: where first, how often for the same reason, and the reason.
pub(super) fn absences(results: &Results) -> Vec<String> {
    let absent =
        results.subjects.iter().filter_map(|subject| Some(format!("{}: {}", subject.title, subject.absent.as_ref()?)));
    let mut items: Vec<String> = absent.collect();
    let is_alike = |one: &Failure, other: &Failure| {
        (&one.subject, one.profile, &one.reason) == (&other.subject, other.profile, &other.reason)
    };
    for (index, failure) in results.failures.iter().enumerate() {
        let told = results.failures[..index].iter().any(|earlier| is_alike(earlier, failure));
        let Some(place) = place_of(failure).filter(|_| !told) else {
            continue;
        };
        let times = results.failures.iter().filter(|other| is_alike(other, failure)).count();
        items.push(format!("{place}, {} in all: {}", counted(times as u64, "time"), failure.reason));
    }
    items
}

fn place_of(failure: &Failure) -> Option<String> {
    let entry = Entry { subject: subject::find(&failure.subject)?.id, profile: failure.profile };
    Some(place(find_workload(&failure.workload)?, entry, failure.connections))
}

//! Fields of a request's head of which nothing counts but which patterns they match: `BrowserMatch` asks no more of a browser's
//! name, and there are thousands of them.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use conf::pattern::{MatchError, Regex};
use http::KnownField;

use crate::message::head::RequestHead;

/// The most outcomes that a head records. A field of which more is asked counts with its value.
const OUTCOMES_MAX: usize = 64;

/// A field that can be asked for matches, and for nothing else. The head records the answers, so a request with another value may be
/// a [repeat](crate::exchange::repeat) if the answers are the same.
#[derive(Debug)]
pub struct TestedField {
    head: Arc<RequestHead>,
    field: KnownField,
    value: String,
}

/// Whether a field has matched a pattern.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    field: KnownField,
    regex: Arc<Regex>,
    is_match: bool,
}

/// What a head records of its tested fields.
#[derive(Debug, Default)]
pub(crate) struct Outcomes(Mutex<Vec<Outcome>>);

impl TestedField {
    /// A field of a head. `None`: it is not there, which is recorded.
    pub(crate) fn of(head: &Arc<RequestHead>, field: KnownField) -> Option<TestedField> {
        match value(head, field) {
            Some(value) => Some(TestedField { value: value.into_owned(), head: head.clone(), field }),
            None => {
                head.asks(field);
                None
            }
        }
    }

    /// Whether a pattern occurs in the field, whose values are joined by `", "`.
    ///
    /// # Errors
    /// The pattern gives up.
    pub fn matches(&self, regex: &Arc<Regex>) -> Result<bool, MatchError> {
        let answer = regex.is_match(&self.value);
        let outcome = answer.as_ref().ok().map(|is_match| Outcome {
            field: self.field,
            regex: regex.clone(),
            is_match: *is_match,
        });
        if !outcome.is_some_and(|outcome| self.head.outcomes().add(outcome)) {
            self.head.asks(self.field);
        }
        answer
    }
}

impl Outcomes {
    /// Adds one; `false` if there are too many.
    fn add(&self, outcome: Outcome) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = all.len() < OUTCOMES_MAX;
        if has_room {
            all.push(outcome);
        }
        has_room
    }

    pub(crate) fn get(&self) -> Vec<Outcome> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Outcome {
    pub(crate) fn is_match(&self) -> bool {
        self.is_match
    }
}

/// Whether the fields of a head match as those of another one did.
pub(crate) fn are_alike(outcomes: &[Outcome], head: &RequestHead) -> bool {
    let mut last = None;
    outcomes.iter().all(|Outcome { field, regex, is_match }| {
        let (_, value) = match last.take().filter(|(known, _)| known == field) {
            Some(same) => last.insert(same),
            None => last.insert((*field, value(head, *field))),
        };
        value.as_ref().is_some_and(|value| regex.is_match(value) == Ok(*is_match))
    })
}

/// All values of a field, without a record.
fn value(head: &RequestHead, field: KnownField) -> Option<Cow<'_, str>> {
    let (table, text) = head.parts();
    Some(match table.combined(text, field)? {
        Cow::Borrowed(bytes) => http::text::from_bytes(bytes),
        Cow::Owned(bytes) => Cow::Owned(http::text::from_bytes(&bytes).into_owned()),
    })
}

#[cfg(test)]
mod tests {
    use conf::pattern::Flags;
    use http::Version;
    use http::h1::head::Parts;
    use http::name::FieldSet;

    use super::*;

    fn head(agents: &[&str]) -> Arc<RequestHead> {
        let parts = Parts { method: b"GET", target: b"/", authority: None, version: Version::Http11 };
        let fields = agents.iter().map(|agent| (&b"User-Agent"[..], agent.as_bytes()));
        Arc::new(RequestHead::assembled(&parts, fields))
    }

    #[test]
    fn heads_with_the_same_outcomes_are_alike() {
        let [mozilla, java] =
            ["Mozilla/4", "^Java"].map(|pattern| Arc::new(Regex::new(pattern, Flags::default()).expect("a pattern")));
        let asked = head(&["Mozilla/4.0 (a)"]);
        let field = TestedField::of(&asked, KnownField::UserAgent).expect("a field");
        assert_eq!((field.matches(&mozilla), field.matches(&java)), (Ok(true), Ok(false)));
        assert_eq!(asked.asked(), FieldSet::default());
        let outcomes = asked.outcomes().get();
        let table = [
            (&["Mozilla/4.7 (b)"][..], true),
            (&["x", "Mozilla/4"], true),
            (&["Mozilla/5"], false),
            (&["Java Mozilla/4"], false),
            (&[], false),
        ];
        for (agents, want) in table {
            assert_eq!(are_alike(&outcomes, &head(agents)), want, "{agents:?}");
        }
        assert!(are_alike(&[], &head(&[])));
        // One question too many: then the value counts.
        (2..OUTCOMES_MAX).for_each(|_| assert_eq!(field.matches(&java), Ok(false)));
        assert_eq!(asked.asked(), FieldSet::default());
        assert_eq!(field.matches(&java), Ok(false));
        assert_eq!(asked.asked(), FieldSet::of(Some(KnownField::UserAgent)));
        let without = head(&[]);
        assert!(TestedField::of(&without, KnownField::UserAgent).is_none());
        assert_eq!(without.asked(), FieldSet::of(Some(KnownField::UserAgent)));
    }
}

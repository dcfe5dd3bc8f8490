//! Why a line is refused: what a directive's function returns, with the part of the line at fault.

use crate::error::{Cause, Error, Phase};
use crate::excerpt::Spot;
use crate::expr::ExprError;
use crate::pattern::PatternError;
use crate::source::Origin;
use crate::words::words;

/// Why a directive's function refuses its line. A plain text converts to a refusal that blames all arguments.
#[derive(Clone, Debug)]
pub struct Refusal(Box<Parts>);

/// The parts of a refusal. They lie on the heap: sections nest, and each level has room for a refusal on the stack.
#[derive(Clone, Debug)]
struct Parts {
    message: String,
    /// The part at fault; `None`: all arguments.
    spot: Option<Spot>,
    reason: Option<Box<str>>,
    advice: Option<Box<str>>,
    cause: Option<Box<Cause>>,
}

/// The result of a directive's function.
pub type Outcome = Result<(), Refusal>;

impl Refusal {
    /// Blames one argument, counted from 1. `message` is Apache's.
    pub fn argument(number: usize, message: impl Into<String>) -> Refusal {
        Refusal::from(message.into()).at(Spot::Word(number))
    }

    /// Blames the arguments from this one on, counted from 1: there are too many.
    pub fn surplus(number: usize, message: impl Into<String>) -> Refusal {
        Refusal::from(message.into()).at(Spot::From(number))
    }

    /// Blames the end of the line, where an argument is missing.
    pub fn missing(message: impl Into<String>) -> Refusal {
        Refusal::from(message.into()).at(Spot::End)
    }

    /// Blames the place in a regular expression where PCRE2 stopped, and says why. The pattern is argument `number`
    /// without its first `before` bytes.
    pub fn pattern(number: usize, before: usize, error: &PatternError, message: impl Into<String>) -> Refusal {
        let refusal = Refusal::from(message.into()).at(Spot::Byte(number, before + error.offset()));
        refusal.reason(Some(format!("in the regular expression: {error}")))
    }

    /// Blames the token of an expression at which the parser stopped. The expression is argument `number` without its
    /// first `before` bytes.
    pub fn expression(number: usize, before: usize, error: &ExprError, message: impl Into<String>) -> Refusal {
        let byte = |at: usize| u32::try_from(before + at).unwrap_or(u32::MAX);
        let spot = Spot::Bytes(number, byte(error.place.start), byte(error.place.end));
        Refusal::from(message.into()).at(spot)
    }

    /// The refusal with another part of the line at fault.
    #[must_use]
    pub fn at(self, spot: Spot) -> Refusal {
        self.with(|parts| parts.spot = Some(spot))
    }

    /// The refusal with a part of the line at fault, unless it names one already.
    #[must_use]
    pub fn or_at(self, spot: Spot) -> Refusal {
        self.with(|parts| parts.spot = parts.spot.or(Some(spot)))
    }

    /// The refusal of arguments that stand behind `number` others.
    #[must_use]
    pub fn behind(self, number: usize) -> Refusal {
        self.with(|parts| parts.spot = Some(parts.spot.unwrap_or(Spot::From(1)).behind(number)))
    }

    /// The refusal with another message, made from its own.
    #[must_use]
    pub fn reworded(self, message: impl FnOnce(&str) -> String) -> Refusal {
        self.with(|parts| parts.message = message(&parts.message))
    }

    /// The refusal with what to write instead.
    #[must_use]
    pub fn advice(self, advice: Option<String>) -> Refusal {
        self.with(|parts| parts.advice = advice.map(Into::into))
    }

    /// The refusal with its cause.
    #[must_use]
    pub fn because(self, cause: Cause) -> Refusal {
        self.with(|parts| parts.cause = Some(Box::new(cause)))
    }

    /// The refusal with the reason that Apache's message leaves out.
    #[must_use]
    pub(crate) fn reason(self, reason: Option<String>) -> Refusal {
        self.with(|parts| parts.reason = reason.map(Into::into))
    }

    fn with(mut self, change: impl FnOnce(&mut Parts)) -> Refusal {
        change(&mut self.0);
        self
    }

    /// The message, in Apache's words.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The error of a line whose arguments are the text `arguments`. A file that the command line names has no such
    /// line.
    pub(crate) fn error(self, phase: Phase, origin: Option<&Origin>, arguments: &str) -> Error {
        let Parts { message, spot, reason, advice, cause } = *self.0;
        let spot = spot.unwrap_or_else(|| match words(arguments).len() {
            0 => Spot::Word(0),
            1 => Spot::Word(1),
            _ => Spot::From(1),
        });
        Error { phase, message, origin: origin.cloned(), spot, reason, advice, cause }
    }
}

impl From<String> for Refusal {
    fn from(message: String) -> Refusal {
        Refusal(Box::new(Parts { message, spot: None, reason: None, advice: None, cause: None }))
    }
}

impl From<&str> for Refusal {
    fn from(message: &str) -> Refusal {
        Refusal::from(message.to_string())
    }
}

/// Says which argument an error is about.
pub trait InArgument<T> {
    /// Blames argument `number`, counted from 1, unless the error names a part of the line already.
    ///
    /// # Errors
    /// The error, as a refusal.
    fn in_argument(self, number: usize) -> Result<T, Refusal>;
}

impl<T, E: Into<Refusal>> InArgument<T> for Result<T, E> {
    fn in_argument(self, number: usize) -> Result<T, Refusal> {
        self.map_err(|error| error.into().or_at(Spot::Word(number)))
    }
}

/// Why a line cannot be applied, or reading cannot go on: the line is refused, or a line inside of it has an error.
#[derive(Debug)]
pub enum Failure {
    /// The line itself is refused.
    Refused(Refusal),
    /// An error that knows its line.
    Inner(Box<Error>),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure::Refused(refusal)
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Refused(message.into())
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Failure {
        Failure::Refused(message.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Inner(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Flags, Regex};

    fn spot(refusal: Refusal, arguments: &str) -> Spot {
        refusal.error(Phase::Apply, None, arguments).spot
    }

    #[test]
    fn the_part_at_fault() {
        let text = || Refusal::from("wrong");
        for (refusal, arguments, want) in [
            (text(), "", Spot::Word(0)),
            (text(), "a", Spot::Word(1)),
            (text(), "a b", Spot::From(1)),
            (Refusal::argument(2, "wrong"), "a b", Spot::Word(2)),
            (Refusal::surplus(3, "wrong"), "a b c d", Spot::From(3)),
            (Refusal::missing("wrong"), "a", Spot::End),
            (text().behind(1), "a b", Spot::From(2)),
            (Refusal::argument(2, "wrong").behind(2), "a b c d", Spot::Word(4)),
        ] {
            assert_eq!(spot(refusal, arguments), want, "{arguments}");
        }
    }

    #[test]
    fn the_first_to_know_the_argument_decides() {
        let of = |result: Result<(), Refusal>| spot(result.in_argument(2).unwrap_err(), "a b c");
        assert_eq!(of(Err("wrong".into())), Spot::Word(2));
        assert_eq!(of(Err(Refusal::argument(3, "wrong"))), Spot::Word(3));
        assert_eq!(Err::<(), _>("wrong").in_argument(1).unwrap_err().message(), "wrong");
    }

    #[test]
    fn a_pattern_and_an_expression() {
        let error = Regex::new("a[", Flags::default()).err().unwrap();
        let error = Refusal::pattern(1, 1, &error, "Regex could not be compiled").error(Phase::Apply, None, "!a[ b");
        assert_eq!(error.spot, Spot::Byte(1, 3));
        assert_eq!(
            error.reason.as_deref(),
            Some("in the regular expression: missing terminating ] for character class at offset 2")
        );
        let error = crate::expr::Expr::parse("%{FOO} == 'x'").unwrap_err();
        assert_eq!(spot(Refusal::expression(2, 5, &error, error.to_string()), ""), Spot::Bytes(2, 7, 10));
    }
}

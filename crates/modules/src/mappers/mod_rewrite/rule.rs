//! A rule and its conditions, parsed from their lines.

use std::sync::Arc;

use conf::Origin;
use conf::expr::Expr;
use conf::pattern::{Captures, MatchError, Regex};

use super::flags::{Flags, Given};
use super::template::{Part, Template};

/// `RewriteRule`
#[derive(Debug)]
pub(super) struct Rule {
    /// As written, without `!`.
    pub(super) pattern: String,
    pub(super) regex: Regex,
    pub(super) conditions: Vec<Arc<Condition>>,
    /// As written, except for a `?` at its end.
    pub(super) output: String,
    pub(super) substitution: Template,
    pub(super) given: Given,
    /// Whether anything refers to groups of the pattern.
    pub(super) has_references: bool,
    /// Whether anything refers to groups of a condition.
    pub(super) refers_to_conditions: bool,
    pub(super) origin: Origin,
}

/// `RewriteCond`
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) input: Template,
    /// As written, with its operator.
    pub(super) pattern: String,
    pub(super) test: Test,
    pub(super) negated: bool,
    pub(super) no_case: bool,
    /// `OR`
    pub(super) or_next: bool,
    /// `NV`
    pub(super) no_vary: bool,
    pub(super) origin: Origin,
}

/// What a condition demands of its input: the kind of a file, a comparison, a pattern.
#[derive(Debug)]
pub(super) enum Test {
    Regular,
    NonEmpty,
    Directory,
    Executable,
    Link,
    /// `-U`
    Url,
    /// `-F`
    Subrequest,
    /// `<`, `=` and the like: the input is compared as a text.
    Text(Operator, String),
    /// `-lt`, `-eq` and the like: the input is compared as a number.
    Number(Operator, i32),
    Pattern(Regex),
    Expr(Box<Expr>),
}

/// The comparison of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl Operator {
    pub(super) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Equal => order.is_eq(),
            Operator::GreaterOrEqual => order.is_ge(),
            Operator::Greater => order.is_gt(),
        }
    }
}

impl Rule {
    /// Whether the pattern matches a path. Fills `captures` if anything refers to it.
    pub(super) fn matches(&self, path: &str, captures: &mut Captures) -> Result<bool, MatchError> {
        let found = match self.has_references {
            true => self.regex.captures(path, captures)?,
            false => self.regex.is_match(path)?,
        };
        Ok(found != self.given.flags.any(Flags::NEGATED))
    }

    /// Finds the groups that are referred to: the others need not be stored.
    #[must_use]
    pub(super) fn with_references(mut self) -> Rule {
        self.has_references = self.refers(&|part| matches!(part, Part::Rule(_)));
        self.refers_to_conditions = self.refers(&|part| matches!(part, Part::Condition(_)));
        self
    }

    fn refers(&self, is_such: &impl Fn(&Part) -> bool) -> bool {
        let own = [Some(&self.substitution), self.given.media_type.as_ref(), self.given.handler.as_ref()];
        let mut all = own.into_iter().flatten().chain(&self.given.env).chain(&self.given.cookies);
        all.any(|text| text.any(is_such)) || self.conditions.iter().any(|one| one.input.any(is_such))
    }
}

//! A rule and its conditions, as their lines say them.

use std::sync::Arc;

use conf::Origin;
use conf::expr::Expr;
use conf::pattern::{Captures, MatchError, Regex};
use memchr::memmem;

use super::template::{Part, Template};

/// `RewriteRule`
#[derive(Debug)]
pub(super) struct Rule {
    /// As written, without `!`.
    pub(super) pattern: String,
    pub(super) regex: Regex,
    /// What is seen of a path without asking the expression.
    pub(super) glance: Glance,
    pub(super) conditions: Vec<Arc<Condition>>,
    /// As written, but for a `?` at its end.
    pub(super) output: String,
    pub(super) substitution: Template,
    pub(super) flags: Flags,
    /// The status of a redirect, or of the answer.
    pub(super) status: u16,
    /// `E`
    pub(super) env: Vec<Template>,
    /// `CO`
    pub(super) cookies: Vec<Template>,
    /// `T`
    pub(super) media_type: Option<Template>,
    /// `H`
    pub(super) handler: Option<Template>,
    /// `S`
    pub(super) skip: usize,
    /// How often `N` may begin again.
    pub(super) rounds: i32,
    /// `B=` and `BNE=`
    pub(super) escapes: Option<String>,
    pub(super) no_escapes: Option<String>,
    /// Something refers to groups of the pattern.
    pub(super) has_references: bool,
    /// Something refers to groups of a condition.
    pub(super) refers_to_conditions: bool,
    pub(super) origin: Origin,
}

/// A set of flags that say yes or no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(pub(super) u32);

impl Flags {
    pub(super) const CHAIN: Flags = Flags(1);
    pub(super) const REDIRECT: Flags = Flags(1 << 1);
    pub(super) const PROXY: Flags = Flags(1 << 2);
    pub(super) const PASS_THROUGH: Flags = Flags(1 << 3);
    pub(super) const LAST: Flags = Flags(1 << 4);
    pub(super) const NEXT: Flags = Flags(1 << 5);
    pub(super) const END: Flags = Flags(1 << 6);
    pub(super) const NO_CASE: Flags = Flags(1 << 7);
    pub(super) const NO_ESCAPE: Flags = Flags(1 << 8);
    pub(super) const NO_SUBREQUEST: Flags = Flags(1 << 9);
    pub(super) const NEGATED: Flags = Flags(1 << 10);
    /// Nothing is substituted.
    pub(super) const AS_IS: Flags = Flags(1 << 11);
    /// The answer is a status.
    pub(super) const STATUS: Flags = Flags(1 << 12);
    pub(super) const ESCAPE: Flags = Flags(1 << 13);
    pub(super) const NO_PLUS: Flags = Flags(1 << 14);
    pub(super) const ESCAPE_CONTROLS: Flags = Flags(1 << 15);
    pub(super) const QUERY_APPEND: Flags = Flags(1 << 16);
    pub(super) const QUERY_DISCARD: Flags = Flags(1 << 17);
    pub(super) const QUERY_LAST: Flags = Flags(1 << 18);
    /// There is no query behind it.
    pub(super) const QUERY_NONE: Flags = Flags(1 << 19);
    pub(super) const DISCARD_PATH_INFO: Flags = Flags(1 << 20);
    pub(super) const UNSAFE_PREFIX: Flags = Flags(1 << 21);
    pub(super) const UNSAFE_QUESTION: Flags = Flags(1 << 22);

    /// Whether one of those is in it.
    pub(super) const fn any(self, others: Flags) -> bool {
        self.0 & others.0 != 0
    }

    pub(super) const fn and(self, others: Flags) -> Flags {
        Flags(self.0 | others.0)
    }
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

/// What a condition asks.
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
    /// Compared as texts.
    Text(Operator, String),
    /// Compared as numbers.
    Number(Operator, i32),
    Pattern(Regex),
    Expr(Box<Expr>),
}

/// How two values compare.
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
    /// Whether the pattern says that this rule is about a path. `captures` is filled if something refers to it.
    pub(super) fn matches(&self, path: &str, captures: &mut Captures) -> Result<bool, MatchError> {
        let found = match &self.glance {
            // A dot matches no line's end.
            Glance::Everything if !self.has_references && !path.contains('\n') => true,
            Glance::Begins(text) if !path.starts_with(text.as_str()) => false,
            Glance::Holds(finder) if finder.find(path.as_bytes()).is_none() => false,
            _ if self.has_references => self.regex.captures(path, captures)?,
            _ => self.regex.is_match(path)?,
        };
        Ok(found != self.flags.any(Flags::NEGATED))
    }

    /// Finds out which groups something refers to: the others need not be remembered.
    #[must_use]
    pub(super) fn with_references(mut self) -> Rule {
        self.has_references = self.refers(&|part| matches!(part, Part::Rule(_)));
        self.refers_to_conditions = self.refers(&|part| matches!(part, Part::Condition(_)));
        self
    }

    fn refers(&self, is_such: &impl Fn(&Part) -> bool) -> bool {
        let own = [Some(&self.substitution), self.media_type.as_ref(), self.handler.as_ref()];
        let mut all = own.into_iter().flatten().chain(&self.env).chain(&self.cookies);
        all.any(|text| text.any(is_such)) || self.conditions.iter().any(|one| one.input.any(is_such))
    }
}

/// What is seen of a path without asking a regular expression: most rules are about something else.
#[derive(Debug)]
pub(super) enum Glance {
    /// Nothing.
    Unknown,
    /// Everything matches.
    Everything,
    /// What matches begins with this.
    Begins(String),
    /// What matches holds this.
    Holds(Box<memmem::Finder<'static>>),
}

impl Glance {
    pub(super) fn of(pattern: &str) -> Glance {
        if matches!(pattern, "" | "^" | ".*" | "^.*" | "^.*$" | "(.*)" | "^(.*)$") {
            return Glance::Everything;
        }
        let (first, longest) = texts(pattern).unwrap_or_default();
        match pattern.starts_with('^') {
            true if !first.is_empty() => Glance::Begins(first),
            _ if longest.len() > 1 => Glance::Holds(Box::new(memmem::Finder::new(&longest).into_owned())),
            _ => Glance::Unknown,
        }
    }
}

/// Plain texts that stand in everything that a pattern matches: that at its beginning, and the longest one. `None`: there may be
/// another way to match, or another meaning of letters.
fn texts(pattern: &str) -> Option<(String, String)> {
    if pattern.contains('|') || pattern.contains("(?") || pattern.contains("(*") {
        return None;
    }
    let (mut first, mut longest, mut text) = (None, String::new(), String::new());
    let mut depth = 0_u32;
    let mut chars = pattern.strip_prefix('^').unwrap_or(pattern).chars().peekable();
    loop {
        let next = chars.next();
        let plain = match next {
            Some('\\') => match chars.next()? {
                escaped if escaped.is_ascii_punctuation() => Some(escaped),
                'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'b' | 'B' => None,
                // A number, a property, a quotation: what follows may be a part of it.
                _ => return None,
            },
            Some('[') => {
                // A bracket in first place is one of the characters.
                let mut is_first = true;
                chars.next_if_eq(&'^');
                loop {
                    match chars.next()? {
                        '\\' => drop(chars.next()?),
                        '[' => return None,
                        ']' if !is_first => break,
                        _ => {}
                    }
                    is_first = false;
                }
                None
            }
            Some('(') => {
                depth += 1;
                None
            }
            Some(')') => {
                depth = depth.checked_sub(1)?;
                None
            }
            Some('.' | '*' | '+' | '?' | '{' | '}' | '^' | '$') | None => None,
            Some(plain) => Some(plain),
        };
        if next == Some('{') {
            // How often: not a text.
            while chars.next()? != '}' {}
        }
        let kept = plain.filter(|_| depth == 0 && !matches!(chars.peek(), Some('*' | '?' | '{')));
        text.extend(kept);
        if kept.is_none() || chars.peek() == Some(&'+') {
            let ended = std::mem::take(&mut text);
            first.get_or_insert_with(|| ended.clone());
            if ended.len() > longest.len() {
                longest = ended;
            }
        }
        if next.is_none() {
            return Some((first.unwrap_or_default(), longest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::texts;

    #[test]
    fn texts_of_patterns() {
        let table = [
            ("^/old/page$", "/old/page", "/old/page"),
            (r"^index\.php$", "index.php", "index.php"),
            ("^/a/(.*)/long$", "/a/", "/long"),
            ("^/ab?c", "/a", "/a"),
            ("^/ab+cde", "/ab", "/ab"),
            ("^/ab{2}cde", "/a", "cde"),
            (r"^/a\d/b", "/a", "/a"),
            (r"/item-7(\d*)\.html$", "/item-7", "/item-7"),
            ("^(a)bc", "", "bc"),
            ("^[^]a]bc", "", "bc"),
            ("x", "x", "x"),
            ("", "", ""),
        ];
        for (pattern, first, longest) in table {
            assert_eq!(texts(pattern), Some((first.into(), longest.into())), "{pattern}");
        }
        for pattern in ["^/a|^/b", "^(?i)/a", r"^\Q/a", r"/\x41bc", "[[:alpha:]]x", "a(?#b)c", r"(a)\1b"] {
            assert_eq!(texts(pattern), None, "{pattern}");
        }
    }
}

//! Evaluates an expression tree for a request.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use super::names::{Access, FileTest, Function, UnaryOp, Variable};
use super::text;
use super::tree::{Comparison, Condition, Expr, List, StringExpr, Word};
use crate::fnmatch::fnmatch;
use crate::ip::parse_address;
use crate::pattern::{Captures, MatchError, Regex, TooLong};

/// The data that an expression reads from the server: one request, its connection, and the file system.
///
/// Names of headers and variables are passed as written in the expression; header names ignore case. A variable without
/// a value is the empty string.
pub trait Subject {
    /// The value of a variable.
    ///
    /// # Errors
    /// [`EvalError::Unknown`] if the value cannot be determined.
    fn variable(&self, variable: Variable) -> Result<Cow<'_, str>, EvalError>;
    /// A header of the request.
    fn header_in(&self, name: &str) -> Option<Cow<'_, str>>;
    /// A header of the response, including those set for error responses.
    fn header_out(&self, name: &str) -> Option<Cow<'_, str>>;
    /// A note of the request.
    fn note(&self, name: &str) -> Option<Cow<'_, str>>;
    /// A variable of the request's environment (`SetEnv` and similar directives).
    fn request_env(&self, name: &str) -> Option<Cow<'_, str>>;
    /// A variable of the server's own environment.
    fn process_env(&self, name: &str) -> Option<Cow<'_, str>>;
    /// Whether a file passes a test.
    fn file_test(&self, test: FileTest, path: &str) -> bool;
    /// The contents of a file of at most [`MAX_FILE_SIZE`] bytes.
    ///
    /// # Errors
    /// See [`FileError`].
    fn file_contents(&self, path: &str) -> Result<String, FileError>;
    /// The size of a regular file, 0 if there is none.
    fn file_size(&self, path: &str) -> u64;
    /// Whether a subrequest would be allowed; `None` if this is unknown, or known only after a wait.
    fn access(&self, access: Access, target: &str) -> Option<bool>;
    /// The address of the client.
    fn client_address(&self) -> Option<IpAddr>;
    /// Notes a request header that a condition depends on, for `Vary`.
    fn note_vary(&self, header: &str);
    /// A variable of mod_ssl, by its whole name; called only if the expression was parsed with
    /// [`Options::ssl`](super::tree::Options::ssl).
    fn ssl_variable(&self, _name: &str) -> Cow<'_, str> {
        Cow::Borrowed("")
    }
    /// The values of an extension of the client certificate; called only if the expression was parsed with
    /// [`Options::ssl`](super::tree::Options::ssl).
    fn peer_extensions(&self, _oid: &str) -> Vec<String> {
        Vec::new()
    }
}

/// The largest file that `file()` reads, and the longest text that an expression makes: 10 MiB.
pub const MAX_FILE_SIZE: u64 = 10 * 1024 * 1024;

/// Why `file()` could not read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileError {
    /// The file cannot be opened.
    Open,
    /// Larger than [`MAX_FILE_SIZE`].
    TooLarge,
    /// The file cannot be read.
    Read,
}

/// Why an expression has no value. Apache logs the error, and treats a condition as false.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvalError {
    /// `file()` failed for that path.
    File(FileError, String),
    /// PCRE2 gave up on a regular expression.
    Regex(MatchError),
    /// The result of a subrequest for that path is unknown, or would need a wait, which an expression cannot do.
    Subrequest(String),
    /// The value of a variable cannot be determined, for this reason.
    Unknown(String),
}

impl EvalError {
    /// Whether the result is unknown, so that an access that depends on it must be refused.
    pub fn is_undecided(&self) -> bool {
        matches!(self, EvalError::Regex(_) | EvalError::Subrequest(_) | EvalError::Unknown(_))
    }
}

impl fmt::Display for EvalError {
    /// Apache's text after `Evaluation of expression from ... failed:`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(FileError::Open, path) => write!(f, "Cannot open file {path}"),
            Self::File(FileError::TooLarge, path) => write!(f, "File {path} too large"),
            Self::File(FileError::Read, path) => write!(f, "Cannot read from file {path}"),
            Self::Regex(why) => why.fmt(f),
            Self::Unknown(why) => f.write_str(why),
            Self::Subrequest(path) => write!(f, "a subrequest for {path} is not possible here"),
        }
    }
}

impl std::error::Error for EvalError {}

/// The state that an evaluation leaves: the captures `$0` ... `$9`.
///
/// Most directives use a fresh one for each expression; those that use the groups afterwards (the value of
/// `SetEnvIfExpr`) keep it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Eval {
    source: String,
    captures: Captures,
}

impl Eval {
    /// Makes a state without captures.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The text of a group of the last match that had groups.
    #[must_use]
    pub fn capture(&self, group: usize) -> &str {
        self.captures.get(group, &self.source).unwrap_or_default()
    }

    /// The subject of that match and the positions of its groups, for [`substitute`](crate::pattern::substitute).
    #[must_use]
    pub fn captures(&self) -> (&str, &Captures) {
        (&self.source, &self.captures)
    }

    /// Matches, and keeps the captures if the pattern has groups: a pattern without groups must not change them.
    fn regex(&mut self, regex: &Regex, subject: Cow<'_, str>) -> Result<bool, EvalError> {
        if regex.groups() == 0 {
            return regex.is_match(&subject).map_err(EvalError::Regex);
        }
        let matched = regex.captures(&subject, &mut self.captures);
        self.source.clear();
        self.source.push_str(&subject);
        matched.map_err(EvalError::Regex)
    }
}

impl Expr {
    /// Evaluates the condition.
    ///
    /// # Errors
    /// See [`EvalError`].
    pub fn eval(&self, subject: &dyn Subject, eval: &mut Eval) -> Result<bool, EvalError> {
        let mut walk = Walk { subject, eval, vary: true };
        walk.condition(&self.root)
    }
}

impl StringExpr {
    /// Evaluates the string. Does not note its request headers for `Vary`: 2.4 does that for conditions only.
    ///
    /// # Errors
    /// See [`EvalError`].
    pub fn eval<'a>(&'a self, subject: &'a dyn Subject, eval: &mut Eval) -> Result<Cow<'a, str>, EvalError> {
        let mut walk = Walk { subject, eval, vary: false };
        walk.word(&self.root)
    }
}

struct Walk<'a, 'e> {
    subject: &'a dyn Subject,
    eval: &'e mut Eval,
    vary: bool,
}

impl<'a> Walk<'a, '_> {
    fn condition(&mut self, condition: &'a Condition) -> Result<bool, EvalError> {
        Ok(match condition {
            Condition::Constant(value) => *value,
            Condition::Not(inner) => !self.condition(inner)?,
            Condition::Any(conditions) => {
                for condition in conditions {
                    if self.condition(condition)? {
                        return Ok(true);
                    }
                }
                false
            }
            Condition::All(conditions) => {
                for condition in conditions {
                    if !self.condition(condition)? {
                        return Ok(false);
                    }
                }
                true
            }
            Condition::CompareText(comparison, left, right) => {
                let (left, right) = self.operands(left, right)?;
                comparison.holds(left.as_bytes(), right.as_bytes())
            }
            Condition::CompareNumbers(comparison, left, right) => {
                let (left, right) = self.operands(left, right)?;
                comparison.holds(text::integer(&left), text::integer(&right))
            }
            Condition::CompareBySize(comparison, left, right) => {
                let (left, right) = self.operands(left, right)?;
                comparison.holds((left.len(), left), (right.len(), right))
            }
            Condition::Regex { subject, regex, negated } => {
                let subject = self.word(subject)?;
                self.eval.regex(regex, subject)? != *negated
            }
            Condition::In(word, list) => self.is_in(word, list)?,
            Condition::Unary(operator, word) => {
                let word = self.word(word)?;
                self.unary(*operator, &word)?
            }
            Condition::ClientIn(subnet) => {
                self.subject.client_address().is_some_and(|address| subnet.contains(address))
            }
            Condition::AddressIn(word, subnet) => {
                parse_address(&self.word(word)?).is_some_and(|address| subnet.contains(address))
            }
            Condition::Wildcard(word, pattern, flags) => {
                let (word, pattern) = self.operands(word, pattern)?;
                fnmatch(&pattern, &word, *flags)
            }
        })
    }

    /// Evaluates the words on both sides of an operator. Apache evaluates the right one first, which shows in the order
    /// of `Vary`.
    fn operands(&mut self, left: &'a Word, right: &'a Word) -> Result<(Cow<'a, str>, Cow<'a, str>), EvalError> {
        let right = self.word(right)?;
        Ok((self.word(left)?, right))
    }

    /// Whether a list contains a word. Apache searches the list from its end, which shows in `Vary`.
    fn is_in(&mut self, word: &'a Word, list: &'a List) -> Result<bool, EvalError> {
        let needle = self.word(word)?;
        match list {
            List::Words(words) => {
                for word in words.iter().rev() {
                    if self.word(word)? == needle {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            List::PeerExtensions(oid) => {
                let values = self.subject.peer_extensions(&self.word(oid)?);
                Ok(values.iter().any(|value| **value == needle))
            }
        }
    }

    fn unary(&self, operator: UnaryOp, word: &str) -> Result<bool, EvalError> {
        Ok(match operator {
            UnaryOp::Empty => word.is_empty(),
            UnaryOp::NotEmpty => !word.is_empty(),
            UnaryOp::Truth => {
                let false_words = ["", "0", "off", "no", "false"];
                !false_words.iter().any(|w| w.eq_ignore_ascii_case(word))
            }
            UnaryOp::File(test) => self.subject.file_test(test, word),
            UnaryOp::Access(access) => {
                let allowed = self.subject.access(access, word);
                return allowed.ok_or_else(|| EvalError::Subrequest(word.to_string()));
            }
        })
    }

    fn word(&mut self, word: &'a Word) -> Result<Cow<'a, str>, EvalError> {
        let fits = |length: usize| {
            TooLong::check(length, MAX_FILE_SIZE as usize).map_err(|why| EvalError::Unknown(why.to_string()))
        };
        Ok(match word {
            Word::Text(text) => Cow::Borrowed(text),
            Word::Variable(variable) => self.subject.variable(*variable)?,
            Word::RequestHeader(name) => self.request_header(name),
            Word::Ssl(name) => self.subject.ssl_variable(name),
            Word::BackReference(group) => Cow::Owned(self.eval.capture(usize::from(*group)).to_owned()),
            Word::Call(function, argument) => {
                let argument = self.word(argument)?;
                let result = self.call(*function, argument)?;
                // Calls of calls could make a text longer again and again.
                fits(result.len())?;
                result
            }
            Word::Concat(words) => {
                let mut joined = String::new();
                for word in words {
                    let word = self.word(word)?;
                    fits(joined.len() + word.len())?;
                    joined.push_str(&word);
                }
                Cow::Owned(joined)
            }
        })
    }

    /// A header of the request. Notes it for `Vary`, except `Host`, which selects the resource anyway.
    fn request_header(&self, name: &str) -> Cow<'a, str> {
        if self.vary && !name.eq_ignore_ascii_case("Host") {
            self.subject.note_vary(name);
        }
        self.subject.header_in(name).unwrap_or_default()
    }

    fn call(&self, function: Function, argument: Cow<'a, str>) -> Result<Cow<'a, str>, EvalError> {
        let subject = self.subject;
        Ok(match function {
            Function::OsEnv => subject.process_env(&argument).unwrap_or_default(),
            Function::Env => subject
                .note(&argument)
                .or_else(|| subject.request_env(&argument))
                .or_else(|| subject.process_env(&argument))
                .unwrap_or_default(),
            Function::ReqEnv => subject.request_env(&argument).unwrap_or_default(),
            Function::Note => subject.note(&argument).unwrap_or_default(),
            Function::Req => self.request_header(&argument),
            Function::ReqNoVary => subject.header_in(&argument).unwrap_or_default(),
            Function::Resp => subject.header_out(&argument).unwrap_or_default(),
            Function::ToLower => Cow::Owned(argument.to_ascii_lowercase()),
            Function::ToUpper => Cow::Owned(argument.to_ascii_uppercase()),
            Function::Escape => Cow::Owned(text::escape(&argument)),
            Function::Unescape => Cow::Owned(text::unescape(&argument)),
            Function::Base64 => Cow::Owned(text::base64(&argument)),
            Function::Unbase64 => Cow::Owned(text::unbase64(&argument)),
            Function::Md5 => Cow::Owned(text::md5(&argument)),
            Function::Sha1 => Cow::Owned(text::sha1(&argument)),
            Function::Ldap => Cow::Owned(text::escape_ldap(&argument)),
            Function::FileSize => Cow::Owned(subject.file_size(&argument).to_string()),
            Function::File => Cow::Owned(
                subject.file_contents(&argument).map_err(|error| EvalError::File(error, argument.into_owned()))?,
            ),
        })
    }
}

impl Comparison {
    fn holds<T: Ord>(self, left: T, right: T) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

//! Conditions: `if`, `elif`, `else`, `endif`.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use conf::Level;
use conf::expr::{Expr, ExprError, Options};
use conf::pattern::{Captures, Flags, Regex};
use server::Writer;

use super::legacy::{self, Comparison, Condition, Side};
use super::page::{Conditions, Groups, Logged, Page};
use super::scan::Argument;
use super::settings::IncludeDir;

/// How many expressions a child caches, and the longest of them, in bytes.
const KNOWN_MAX: usize = 256;
const KNOWN_LENGTH: usize = 1024;

/// Expressions of recent pages: parsing one costs several times as much as evaluating it.
static KNOWN: Mutex<Option<HashMap<String, Arc<Expr>>>> = Mutex::new(None);

impl Page {
    pub(super) async fn begin_if(&mut self, arguments: Vec<Argument>, out: &Writer) -> io::Result<()> {
        let wrong = self.wrong_condition(&arguments, ["AH01352", "AH01353", "AH01354", "AH01355"]);
        if !self.conditions.is_printing {
            if arguments.len() != 1 {
                self.log(Level::Warn, &wrong.unwrap_or_default());
            }
            self.conditions.depth += 1;
            return Ok(());
        }
        if let Some(wrong) = wrong {
            self.log(Level::Error, &wrong);
            self.undecided(out).await;
            return Ok(());
        }
        self.conditions.has_failed = false;
        self.conditions.depth = 0;
        self.decide(arguments, out).await;
        Ok(())
    }

    pub(super) async fn elif(&mut self, arguments: Vec<Argument>, out: &Writer) -> io::Result<()> {
        let wrong = self.wrong_condition(&arguments, ["AH01356", "AH01357", "AH01358", "AH01359"]);
        if self.conditions.depth > 0 {
            if arguments.len() != 1 {
                self.log(Level::Warn, &wrong.unwrap_or_default());
            }
            return Ok(());
        }
        if let Some(wrong) = wrong {
            self.log(Level::Error, &wrong);
            self.undecided(out).await;
            return Ok(());
        }
        if self.conditions.is_decided {
            self.conditions.is_printing = false;
            return Ok(());
        }
        self.decide(arguments, out).await;
        Ok(())
    }

    /// The error in a condition's arguments: too many, none, a wrong one, one without a value.
    fn wrong_condition(&self, arguments: &[Argument], numbers: [&str; 4]) -> Option<String> {
        let file = self.file();
        let [many, none, other, empty] = numbers;
        match arguments {
            [] => Some(format!("{none}: missing expr argument for if element in {file}")),
            [Argument { name: Some(name), value }] => match value {
                _ if name != "expr" => Some(format!("{other}: unknown parameter \"{name}\" to tag if in {file}")),
                Some(_) => None,
                None if empty == "AH01359" => Some(format!("{empty}: missing expr in elif statement: {file}")),
                None => Some(format!("{empty}: missing expr value for if element in {file}")),
            },
            _ => Some(format!("{many}: too many arguments for if element in {file}")),
        }
    }

    /// The value of a condition is unknown: nothing is sent up to the next branch that holds, and no `else` counts.
    async fn undecided(&mut self, out: &Writer) {
        out.write(&http::text::to_bytes(&self.error)).await;
        let Conditions { is_printing, is_decided, has_failed, .. } = &mut self.conditions;
        (*is_printing, *is_decided, *has_failed) = (false, false, true);
    }

    /// Evaluates the condition in the one argument.
    async fn decide(&mut self, arguments: Vec<Argument>, out: &Writer) {
        let text = arguments.into_iter().find_map(|one| one.value).unwrap_or_default();
        let holds = match self.own.dir::<IncludeDir>().legacy() {
            true => self.holds_legacy(&text).await,
            false => self.holds(&text).await,
        };
        match holds {
            Ok(true) => (self.conditions.is_printing, self.conditions.is_decided) = (true, true),
            Ok(false) => (self.conditions.is_printing, self.conditions.is_decided) = (false, false),
            Err(Logged { .. }) => self.undecided(out).await,
        }
    }

    pub(super) async fn otherwise(&mut self, arguments: &[Argument], out: &Writer) -> io::Result<()> {
        if self.takes_none(arguments, "AH01360", "else") || self.conditions.depth > 0 {
            if self.conditions.depth == 0 {
                self.fail(out).await;
            }
            return Ok(());
        }
        if !self.conditions.has_failed {
            self.conditions.is_printing = !self.conditions.is_decided;
            self.conditions.is_decided = true;
        }
        Ok(())
    }

    pub(super) async fn endif(&mut self, arguments: &[Argument], out: &Writer) -> io::Result<()> {
        let has_some = self.takes_none(arguments, "AH01361", "endif");
        if self.conditions.depth > 0 {
            self.conditions.depth -= 1;
        } else if has_some {
            out.write(&http::text::to_bytes(&self.error)).await;
        } else {
            self.conditions = Conditions::default();
        }
        Ok(())
    }

    /// Reports arguments of an element that takes none.
    fn takes_none(&self, arguments: &[Argument], number: &str, element: &str) -> bool {
        if !arguments.is_empty() {
            let level = if self.conditions.depth == 0 { Level::Error } else { Level::Warn };
            self.log(level, &format!("{number}: {element} directive does not take tags in {}", self.file()));
        }
        !arguments.is_empty()
    }

    async fn holds(&mut self, text: &str) -> Result<bool, Logged> {
        let expr = self.parsed(text).map_err(|why| {
            self.refuse(&format!("AH01337: Could not parse expr \"{text}\" in {}: {why}", self.file()))
        })?;
        self.variables.complete().await;
        self.variables.find_out_those_in(&self.own, text).await;
        self.renew_environment();
        let found = server::evaluate_waiting(&mut self.own, &expr).await;
        if let Ok((_, eval)) = &found
            && let (subject, captures) = eval.captures()
            && !captures.is_empty()
        {
            let groups = Groups {
                subject: subject.to_string(),
                captures: captures.clone(),
                // As in Apache, there is only `$0`, because the pattern is unknown.
                count: 0,
                pattern: "(null)".into(),
            };
            self.groups = Some(groups);
        }
        found.map(|(holds, _)| holds).map_err(|why| {
            self.refuse(&format!("AH01338: Could not evaluate expr \"{text}\" in {}: {why}", self.file()))
        })
    }

    fn parsed(&self, text: &str) -> Result<Arc<Expr>, ExprError> {
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(expr) = known().as_ref().and_then(|all| all.get(text)) {
            return Ok(expr.clone());
        }
        let ssl = self.own.server.has_module("ssl_module");
        let options = Options { restricted: true, page: true, ssl, ..Options::default() };
        let expr = Arc::new(Expr::parse_with(text, options)?);
        if text.len() <= KNOWN_LENGTH {
            let mut known = known();
            let all = known.get_or_insert_default();
            if all.len() >= KNOWN_MAX {
                all.clear();
            }
            all.insert(text.to_string(), expr.clone());
        }
        Ok(expr)
    }

    async fn holds_legacy(&mut self, text: &str) -> Result<bool, Logged> {
        let condition = legacy::parse(text).map_err(|fault| self.refuse(&fault.message(text, self.file())))?;
        match condition {
            Some(condition) => self.legacy(&condition, text).await,
            None => Ok(false),
        }
    }

    /// Evaluates a condition of Apache 2.2.
    async fn legacy(&mut self, condition: &Condition, whole: &str) -> Result<bool, Logged> {
        let invalid = |page: &Page, number: &str| {
            Err(page.refuse(&format!("{number}: Invalid expression \"{whole}\" in file {}", page.file())))
        };
        match condition {
            Condition::Text(text) => Ok(!self.expand(text, false).await?.is_empty()),
            // Only a comparison may contain one.
            Condition::Regex(_) => invalid(self, "AH03188"),
            Condition::Not(None) => Ok(false),
            Condition::Not(Some(inner)) => Ok(!Box::pin(self.legacy(inner, whole)).await?),
            Condition::Group(None) => Ok(true),
            Condition::Group(Some(inner)) => Box::pin(self.legacy(inner, whole)).await,
            Condition::And(Some(left), Some(right)) | Condition::Or(Some(left), Some(right)) => {
                let is_or = matches!(condition, Condition::Or(..));
                match Box::pin(self.legacy(left, whole)).await? {
                    left if left == is_or => Ok(left),
                    _ => Box::pin(self.legacy(right, whole)).await,
                }
            }
            Condition::And(..) | Condition::Or(..) => invalid(self, "AH01332"),
            Condition::Compare(how, left, right) => match self.compare(*how, left, right).await? {
                Some(holds) => Ok(holds),
                None => invalid(self, if is_equality(*how) { "AH01333" } else { "AH01334" }),
            },
            Condition::Access(target) => match target.as_deref() {
                Some(Condition::Text(target)) => {
                    let target = self.expand(target, false).await?;
                    let found = self.own.lookup_link(&target).await;
                    if found.response.status() >= 400 {
                        let text = format!(
                            "AH01336: mod_include: The tested subrequest -A \"{target}\" returned an error code."
                        );
                        self.log(Level::Debug, &text);
                    }
                    Ok(found.response.status() == 200)
                }
                _ => {
                    let text = format!(
                        "AH01335: Invalid expression \"{whole}\" in file {}: Token '-A' must be followed by a URI string.",
                        self.file()
                    );
                    Err(self.refuse(&text))
                }
            },
        }
    }

    /// `None`: these cannot be compared.
    async fn compare(&mut self, how: Comparison, left: &Side, right: &Side) -> Result<Option<bool>, Logged> {
        let Some(Condition::Text(left)) = left.as_deref() else { return Ok(None) };
        let (right, is_regex) = match right.as_deref() {
            Some(Condition::Text(right)) => (right, false),
            Some(Condition::Regex(right)) if is_equality(how) => (right, true),
            _ => return Ok(None),
        };
        let (left, right) = (self.expand(left, false).await?, self.expand(right, false).await?);
        if is_regex {
            return Ok(Some(self.matches(left, right)? == (how == Comparison::Equal)));
        }
        let order = http::text::to_bytes(&left).cmp(&http::text::to_bytes(&right));
        Ok(Some(match how {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }))
    }

    /// Whether a pattern matches; as in Apache, an invalid one does. `Err`: that cannot be decided.
    fn matches(&mut self, subject: String, pattern: String) -> Result<bool, Logged> {
        let Ok(regex) = Regex::new(&pattern, Flags::default()) else {
            self.log(Level::Error, &format!("AH02667: unable to compile pattern \"{pattern}\""));
            return Ok(true);
        };
        let mut captures = Captures::default();
        match regex.captures(&subject, &mut captures) {
            Ok(found) => {
                self.groups = Some(Groups { subject, captures, count: regex.groups(), pattern });
                Ok(found)
            }
            Err(why) => Err(self.refuse(&why.to_string())),
        }
    }
}

fn is_equality(how: Comparison) -> bool {
    matches!(how, Comparison::Equal | Comparison::NotEqual)
}

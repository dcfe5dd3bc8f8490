//! The conditions of a rule.

use std::cmp::Ordering;

use conf::pattern::Captures;
use conf::values::atoi;
use http::text::to_bytes;
use server::Flow;
use server::paths::c_path;
use sys::file::Meta;

use super::expand::{decided, may_look_up};
use super::pass::Pass;
use super::rule::{Condition, Rule, Test};

impl Pass<'_> {
    /// Whether all conditions hold; one is enough among those joined by `OR`.
    pub(super) async fn conditions(&mut self, rule: &Rule) -> Result<bool, Flow> {
        let mut conditions = rule.conditions.iter();
        while let Some(mut condition) = conditions.next() {
            let holds = self.holds(condition, rule).await?;
            if condition.no_vary {
                self.vary_now.clear();
            }
            if condition.or_next && !holds {
                self.vary_now.clear();
                continue;
            }
            if !holds {
                return Ok(false);
            }
            while let (true, Some(next)) = (condition.or_next, conditions.as_slice().first()) {
                condition = next;
                conditions.next();
            }
            self.keep_vary();
        }
        Ok(true)
    }

    async fn holds(&mut self, condition: &Condition, rule: &Rule) -> Result<bool, Flow> {
        if let Test::Expr(_) = condition.test {
            let holds = self.expression(condition).await?;
            self.judged(condition, "(null)", holds, rule);
            return Ok(holds);
        }
        let input = self.expand(&condition.input, None, &condition.origin).await?.text;
        let found = match &condition.test {
            Test::Regular => self.stat(&input).is_some_and(|meta| meta.is_file()),
            Test::NonEmpty => self.stat(&input).is_some_and(|meta| meta.is_file() && meta.size > 0),
            Test::Directory => self.stat(&input).is_some_and(|meta| meta.is_dir()),
            Test::Executable => self.stat(&input).is_some_and(|meta| meta.is_executable()),
            Test::Link => {
                c_path(&input).is_some_and(|path| sys::file::lstat(&path).is_ok_and(|meta| meta.is_symlink()))
            }
            Test::Url => self.is_served(&input, condition).await?,
            Test::Subrequest => self.is_file_served(&input, condition).await?,
            Test::Text(operator, text) => {
                let (a, b) = (to_bytes(&input), to_bytes(text));
                operator.holds(if condition.no_case { ignoring_case(&a, &b) } else { by_length(&a, &b) })
            }
            Test::Number(operator, number) => operator.holds(atoi(&input).cmp(number)),
            Test::Pattern(regex) => {
                let mut captures = Captures::default();
                let wanted = !condition.negated && rule.refers_to_conditions;
                let found = if wanted { regex.captures(&input, &mut captures) } else { regex.is_match(&input) };
                let found = found.map_err(|why| self.request.undecided("rewrite", &why, &condition.origin))?;
                if wanted && found {
                    self.of_condition.set(&input, &captures);
                }
                found
            }
            Test::Expr(_) => false,
        };
        let holds = found != condition.negated;
        self.judged(condition, &input, holds, rule);
        Ok(holds)
    }

    /// Logs the result of a condition.
    fn judged(&mut self, condition: &Condition, input: &str, holds: bool, rule: &Rule) {
        let case = if condition.no_case { " [NC]" } else { "" };
        let pattern = &condition.pattern;
        self.trace(4, |_| {
            let result = if holds { "matched" } else { "not-matched" };
            format!("RewriteCond: input='{input}' pattern='{pattern}'{case} => {result}")
        });
        if self.request.is_hypothetical() {
            let result = if holds { "holds" } else { "does not hold" };
            let text = match condition.test {
                Test::Expr(_) => format!("RewriteCond expr {pattern} {result}, for RewriteRule {}", rule.pattern),
                _ => format!("RewriteCond '{input}' {pattern}{case} {result}, for RewriteRule {}", rule.pattern),
            };
            // The line that counts is the rule's.
            self.request.note_passed_over("rewrite", Some(&condition.origin), |_| text);
        }
    }

    async fn expression(&mut self, condition: &Condition) -> Result<bool, Flow> {
        let Test::Expr(expr) = &condition.test else { return Ok(false) };
        let vary = self.request.response.headers_out.get("Vary").map(str::to_string);
        let found = server::evaluate_waiting(self.request, expr).await;
        if condition.no_vary {
            let fields = &mut self.request.response.headers_out;
            match vary {
                Some(vary) => fields.set("Vary", vary),
                None => fields.remove("Vary"),
            }
        }
        // Whatever keeps it from being decided: its result is unknown.
        let (found, eval) = found.map_err(|why| self.request.undecided("rewrite", &why, &condition.origin))?;
        if found && !condition.negated {
            let (subject, captures) = eval.captures();
            self.of_condition.set(subject, captures);
        }
        Ok(found != condition.negated)
    }

    /// The metadata at a path. Those of the request's own file are fresh.
    fn stat(&self, path: &str) -> Option<Meta> {
        match &self.mapped {
            Some((mapped, meta)) if mapped == path => *meta,
            _ => sys::file::stat(&c_path(path)?).ok(),
        }
    }

    /// `-U`: whether the client may access a URL.
    async fn is_served(&mut self, path: &str, condition: &Condition) -> Result<bool, Flow> {
        if path.is_empty() || !may_look_up(self.request) {
            return Ok(false);
        }
        let found = self.request.lookup_link(path).await;
        let status = found.response.status();
        self.trace_apart(5, |_| format!("RewriteCond URI (-U check: path={path} -> status={status}"));
        decided(self.request, &found, path, &condition.origin)?;
        Ok(status < 400)
    }

    /// `-F`: whether the client may access a file.
    async fn is_file_served(&mut self, path: &str, condition: &Condition) -> Result<bool, Flow> {
        if path.is_empty() || !may_look_up(self.request) {
            return Ok(false);
        }
        let Some(found) = self.request.lookup_named(path).await else { return Ok(false) };
        let (status, file) = (found.response.status(), &found.mapped.filename);
        self.trace_apart(5, |_| format!("RewriteCond file (-F check: path={path} -> file={file} status={status}"));
        decided(self.request, &found, path, &condition.origin)?;
        // If its own rules lead elsewhere, there is no file of that name.
        Ok(status < 300 && c_path(file).is_some_and(|path| sys::file::stat(&path).is_ok()))
    }
}

/// The longer text is the greater one.
fn by_length(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

fn ignoring_case(a: &[u8], b: &[u8]) -> Ordering {
    a.iter().map(u8::to_ascii_lowercase).cmp(b.iter().map(u8::to_ascii_lowercase))
}

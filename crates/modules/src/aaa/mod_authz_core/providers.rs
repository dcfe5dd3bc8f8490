//! The kinds of `Require` that need no other module: `all`, `env`, `method`, `expr`.

use std::sync::Arc;

use conf::expr::{EvalError, Expr};
use conf::words::words;
use conf::{Cmd, Level, Origin, Refusal};
use server::Request;
use server::authz::AuthzCheck::{Either, Now};
use server::authz::{AuthzProvider, Parsed, Verdict};

use crate::aaa::in_require_line;

pub(super) static ALL: AuthzProvider =
    AuthzProvider { name: "all", parse: parse_all, check: Now(|_, all| granted_if(all, |yes: &bool| *yes)) };
pub(super) static ENV: AuthzProvider =
    AuthzProvider { name: "env", parse: |_, names| Ok(Arc::new(words(names))), check: Now(is_in_environment) };
pub(super) static METHOD: AuthzProvider = AuthzProvider { name: "method", parse: parse_methods, check: Now(is_method) };
pub(super) static EXPR: AuthzProvider = AuthzProvider {
    name: "expr",
    parse: parse_expr,
    check: Either {
        waits: looks_up,
        now: holds,
        later: |request, condition| Box::pin(holds_later(request, condition)),
    },
};

/// Fails closed: arguments of an unexpected type cannot be judged.
fn granted_if<T: 'static>(arguments: &Parsed, yes: impl FnOnce(&T) -> bool) -> Verdict {
    match arguments.downcast_ref::<T>().map(yes) {
        Some(true) => Verdict::Granted,
        Some(false) => Verdict::Denied,
        None => Verdict::Error,
    }
}

fn parse_all(_: &mut Cmd<'_>, text: &str) -> Result<Parsed, Refusal> {
    match conf::values::one_of(text, &[("granted", true), ("denied", false)]) {
        Some(granted) => Ok(Arc::new(granted)),
        None => Err("Argument for 'Require all' must be 'granted' or 'denied'".into()),
    }
}

fn is_in_environment(request: &mut Request, names: &Parsed) -> Verdict {
    granted_if(names, |names: &Vec<String>| names.iter().any(|name| request.env.contains(name)))
}

fn parse_methods(cmd: &mut Cmd<'_>, text: &str) -> Result<Parsed, Refusal> {
    let methods = words(text);
    let known = cmd.context.language.kept.get::<server::core::Methods>();
    match methods.iter().position(|name| !known.knows(name)) {
        Some(at) => Err(Refusal::argument(at + 1, format!("Invalid Method '{}'", methods[at]))),
        None => Ok(Arc::new(methods)),
    }
}

/// `GET` and `HEAD` are equivalent.
fn is_method(request: &mut Request, methods: &Parsed) -> Verdict {
    let one = |name: &str| if name == "HEAD" { "GET".to_string() } else { name.to_string() };
    let own = one(&request.data.method);
    granted_if(methods, |methods: &Vec<String>| methods.iter().any(|name| one(name) == own))
}

/// The expression of a line `Require expr`.
struct Condition {
    expr: Expr,
    /// Whether it depends on the user.
    asks_for_user: bool,
    /// Whether it looks something up.
    looks_up: bool,
    origin: Origin,
}

fn parse_expr(cmd: &mut Cmd<'_>, text: &str) -> Result<Parsed, Refusal> {
    let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let text = quoted.unwrap_or(text);
    let expr = Expr::parse_with(text, cmd.expr_options()).map_err(|why| in_require_line(&why))?;
    let asks_for_user = text.to_ascii_uppercase().contains("REMOTE_USER");
    Ok(Arc::new(Condition { looks_up: expr.looks_up(), expr, asks_for_user, origin: cmd.origin() }))
}

fn looks_up(condition: &Parsed) -> bool {
    condition.downcast_ref::<Condition>().is_some_and(|condition| condition.looks_up)
}

fn holds(request: &mut Request, condition: &Parsed) -> Verdict {
    let Some(condition) = condition.downcast_ref::<Condition>() else { return Verdict::Error };
    let holds = server::evaluate(request, &condition.expr);
    condition.verdict(request, holds)
}

async fn holds_later(request: &mut Request, condition: &Parsed) -> Verdict {
    let Some(condition) = condition.downcast_ref::<Condition>() else { return Verdict::Error };
    let holds = server::evaluate_waiting(request, &condition.expr).await.map(|(holds, _)| holds);
    condition.verdict(request, holds)
}

impl Condition {
    fn verdict(&self, request: &Request, holds: Result<bool, EvalError>) -> Verdict {
        match holds {
            Ok(true) => Verdict::Granted,
            // The condition might hold for a user who has logged in.
            Ok(false) if self.asks_for_user => Verdict::DeniedNoUser,
            Ok(false) => Verdict::Denied,
            Err(why) => {
                request.not_evaluated("authz_core", &why, &self.origin);
                let text = format!("AH02320: Error evaluating expression in 'Require expr': {why}");
                request.log("authz_core", Level::Error, text);
                Verdict::Error
            }
        }
    }
}

//! Custom messages in the error log, at a chosen moment of a request.
//!
//! Apache manual: mod_log_debug. Doubtful cases were measured on 2.4.71.

use std::sync::Arc;

use conf::directive::Args::Take123;
use conf::expr::{Expr, StringExpr};
use conf::values::one_of;
use conf::{
    Allowed, Cmd, Directive, InArgument as _, Level, Listed, ModuleInfo, Outcome, Refusal, SettingsMap, row, settings,
};
use server::PhaseHook::Now;
use server::{Flow, Handler, HandlerResult, Hook, Module, Order, Phase, Request};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "log_debug_module", source: "mod_log_debug.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(
            Phase::Translate,
            Order::First,
            Now(|request| {
                // For the first moment no section applies yet.
                let vhost = request.vhost;
                log_messages_of(request, Moment::Quick, &vhost.base.slots);
                log_messages(request, Moment::BeforeTranslate);
                log_messages(request, Moment::Translate);
                Flow::Declined
            }),
        ),
        Hook::Phase(Phase::MapToStorage, Order::First, Now(|request| at(request, Moment::Map))),
        Hook::Phase(Phase::AccessChecker, Order::First, Now(|request| at(request, Moment::Access))),
        Hook::Phase(Phase::AccessCheckerEx, Order::First, Now(|request| at(request, Moment::AccessEx))),
        Hook::Phase(Phase::CheckUser, Order::First, Now(|request| at(request, Moment::User))),
        Hook::Phase(Phase::AuthChecker, Order::First, Now(|request| at(request, Moment::Auth))),
        Hook::Phase(Phase::TypeChecker, Order::First, Now(|request| at(request, Moment::Type))),
        Hook::Phase(Phase::Fixups, Order::First, Now(|request| at(request, Moment::Fixups))),
        Hook::InsertFilters(Order::First, |request, _| log_messages(request, Moment::Filters)),
        Hook::Handler(
            Order::First,
            Handler::Now(|request| {
                log_messages(request, Moment::Handler);
                HandlerResult::Declined
            }),
        ),
        Hook::Log(Order::First, |request| log_messages(request, Moment::Log)),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("LogMessage", Allowed::CONF, Take123(add), "", "Log a debug message to the error log if this config block is used for  a request"),
];

/// When a message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Log,
    Quick,
    Handler,
    BeforeTranslate,
    Translate,
    Map,
    Fixups,
    Type,
    Access,
    AccessEx,
    Filters,
    User,
    Auth,
    /// All of them.
    All,
}

const MOMENTS: [(&str, Moment); 14] = [
    ("log_transaction", Moment::Log),
    ("quick_handler", Moment::Quick),
    ("handler", Moment::Handler),
    ("pre_translate_name", Moment::BeforeTranslate),
    ("translate_name", Moment::Translate),
    ("map_to_storage", Moment::Map),
    ("fixups", Moment::Fixups),
    ("type_checker", Moment::Type),
    ("check_access", Moment::Access),
    ("check_access_ex", Moment::AccessEx),
    ("insert_filter", Moment::Filters),
    ("check_authn", Moment::User),
    ("check_authz", Moment::Auth),
    ("all", Moment::All),
];

settings! {
    /// The messages of a section.
    pub struct LogDebugDir { messages: Listed<Arc<Message>> }
}

#[derive(Debug)]
struct Message {
    text: StringExpr,
    moment: Moment,
    condition: Option<Expr>,
}

fn add(cmd: &mut Cmd<'_>, text: &str, second: Option<&str>, third: Option<&str>) -> Outcome {
    let options = cmd.expr_options();
    let parsed = StringExpr::parse_with(text, options)
        .map_err(|why| format!("Could not parse message expression '{text}': {why}"))
        .in_argument(1)?;
    let mut message = Message { text: parsed, moment: Moment::Log, condition: None };
    for (argument, number) in [second, third].into_iter().flatten().zip(2..) {
        let begins = |with: &str| argument.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
        if begins("hook=") {
            let name = &argument[5..];
            message.moment =
                one_of(name, &MOMENTS).ok_or_else(|| format!("Invalid hook name: {name}")).in_argument(number)?;
        } else if begins("expr=") {
            let text = &argument[5..];
            let expr = Expr::parse_with(text, options).map_err(|error| {
                Refusal::expression(number, 5, &error, format!("Could not parse expression '{text}': {error}"))
            });
            message.condition = Some(expr?);
        } else {
            return Err(Refusal::argument(number, format!("Invalid argument {argument}")));
        }
    }
    cmd.push(|d: &mut LogDebugDir| &mut d.messages, Arc::new(message))
}

fn at(request: &mut Request, moment: Moment) -> Flow {
    log_messages(request, moment);
    Flow::Declined
}

fn log_messages(request: &mut Request, moment: Moment) {
    if !request.dir::<LogDebugDir>().messages.is_empty() {
        let slots = request.dir.slots.clone();
        log_messages_of(request, moment, &slots);
    }
}

fn log_messages_of(request: &mut Request, moment: Moment, slots: &SettingsMap) {
    for (message, origin) in slots.get::<LogDebugDir>().messages.entries() {
        if message.moment != moment && message.moment != Moment::All {
            continue;
        }
        match message.condition.as_ref().map(|expr| server::evaluate(request, expr)) {
            None | Some(Ok(true)) => {}
            Some(Ok(false)) => continue,
            Some(Err(why)) => {
                request.not_evaluated("log_debug", &why, origin);
                request.log("log_debug", Level::Error, format!("AH00640: Can't evaluate condition: {why}"));
                continue;
            }
        }
        match server::evaluate_string(request, &message.text) {
            Err(why) => {
                request.not_evaluated("log_debug", &why, origin);
                request.log("log_debug", Level::Error, format!("AH00641: Can't evaluate message expression: {why}"));
            }
            Ok(text) if request.logs("log_debug", Level::Debug) => {
                let name = MOMENTS.iter().find(|(_, known)| *known == moment).map_or("", |(name, _)| name);
                let line = format!("{text} ({name} hook, {origin})");
                request.log("log_debug", Level::Info, line);
            }
            Ok(text) => request.log("log_debug", Level::Info, text),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn lines_as_apache_takes_them() {
        check(&[
            ("LogMessage x hook=none", "Invalid hook name: none"),
            ("LogMessage x what=none", "Invalid argument what=none"),
            ("LogMessage x HOOK=All expr=true", ""),
            ("LogMessage %{nn}", "Could not parse message expression '%{nn}': Variable 'nn' does not exist"),
        ]);
    }
}

//! `Require` and the sections that combine it.
//!
//! Apache manual: mod_authz_core, "Authorization Containers".

mod providers;
mod rules;

use std::sync::Arc;

use conf::directive::Args::{Flag, Raw, Section, Take1};
use conf::words::next_word;
use conf::{
    Allowed, Cmd, Context, Directive, Error, Failure, InArgument as _, Keyed, Level, Listed, Merge, ModuleInfo, Origin,
    Outcome, Refusal, Setting, SettingsMap, Spot, on_or_off, row, settings,
};
use server::PhaseHook::{Later, Now};
use server::authz::{AuthzProvider, Verdict};
use server::module::find_authz;
use server::{Draft, Flow, Hook, Layer, Module, Order, Phase, Request};

use self::rules::{Check, Combination, Group, Node, Refusals, Require};
use super::denied_thing;
use super::mod_authn_core::auth_type;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "authz_core_module", source: "mod_authz_core.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Check(check_rules),
        Hook::Phase(Phase::AccessCheckerEx, Order::Last, Now(|request| decide_now(request, false))),
        Hook::Phase(
            Phase::AccessCheckerEx,
            Order::Last,
            Later { claims: waits, run: |request| Box::pin(decide(request, false)) },
        ),
        Hook::Phase(Phase::AuthChecker, Order::Last, Now(|request| decide_now(request, true))),
        Hook::Phase(
            Phase::AuthChecker,
            Order::Last,
            Later { claims: waits, run: |request| Box::pin(decide(request, true)) },
        ),
        Hook::Authz(&providers::ALL),
        Hook::Authz(&providers::ENV),
        Hook::Authz(&providers::METHOD),
        Hook::Authz(&providers::EXPR),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("<AuthzProviderAlias", Allowed::GLOBAL, Section(alias), "", "container for grouping an authorization provider's directives under a provider alias"),
    row("Require", Allowed::AUTH, Raw(require), "", "specifies authorization directives which one must pass (or not) for a request to suceeed"),
    row("<RequireAll", Allowed::AUTH, Section(|c, rest| container(c, rest, Combination::All)), "", "container for grouping authorization directives of which none must fail and at least one must pass for a request to succeed"),
    row("<RequireAny", Allowed::AUTH, Section(|c, rest| container(c, rest, Combination::Any)), "", "container for grouping authorization directives of which one must pass for a request to succeed"),
    row("<RequireNone", Allowed::AUTH, Section(|c, rest| container(c, rest, Combination::None)), "", "container for grouping authorization directives of which none must pass for a request to succeed"),
    row("AuthMerging", Allowed::AUTH, Take1(set_merging), "Off", "controls how a <Directory>, <Location>, or similar directive's authorization directives are combined with those of its predecessor"),
    row("AuthzSendForbiddenOnFailure", Allowed::AUTH, Flag(|c, on| c.set(|d: &mut AuthzDir| &mut d.forbidden, on)), on_or_off(FORBIDDEN), "Controls if an authorization failure should result in a '403 FORBIDDEN' response instead of the HTTP-conforming '401 UNAUTHORIZED'"),
];

/// Whether it is on by default.
const FORBIDDEN: bool = false;

settings! {
    /// The module's settings of a section.
    pub struct AuthzDir {
        wanted: Wanted,
        forbidden: Setting<bool> = FORBIDDEN,
    }
}

settings! {
    /// Errors in sections as a whole; reported once everything was read.
    pub struct Complaints {
        texts: Listed<String>,
    }
}

settings! {
    /// Aliases for kinds of `Require`, for later lines.
    pub struct Aliases {
        named: Keyed<String, Check>,
    }
}

/// `AuthMerging`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merging {
    Off,
    And,
    Or,
}

/// The requirements of a section, and how they combine with those of the outer sections.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    merging: Option<(Merging, Origin)>,
    rules: Option<Arc<Group>>,
}

impl Merge for Wanted {
    /// Inner rules replace outer ones, unless `AuthMerging` of the inner section combines them.
    fn merge(base: &Self, add: &Self) -> Self {
        let kind = match add.merging.as_ref().map(|(merging, _)| merging) {
            None if add.rules.is_none() => return base.clone(),
            None | Some(Merging::Off) => return add.clone(),
            Some(Merging::And) => Combination::MergedAll,
            Some(Merging::Or) => Combination::MergedAny,
        };
        let rules = match (&base.rules, &add.rules) {
            (Some(outer), Some(inner)) => {
                let mut both = Group::new(kind);
                both.push(Node::group(outer.clone()));
                both.push(Node::group(inner.clone()));
                Some(Arc::new(both))
            }
            (outer, inner) => inner.clone().or_else(|| outer.clone()),
        };
        Wanted { merging: add.merging.clone(), rules }
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.merging.iter().for_each(|(_, origin)| see(origin));
        self.rules.iter().for_each(|rules| rules.origins(see));
    }
}

/// Whether the rules of these settings keep anybody out; `None`: there are no rules.
pub(crate) fn restricts(settings: &SettingsMap) -> Option<bool> {
    let rules = settings.get::<AuthzDir>().wanted.rules.as_ref()?;
    Some(!rules.lets_all_in())
}

impl AuthzDir {
    /// The first line that lets some clients in and others not.
    pub(crate) fn distinguishes(&self) -> Option<&Origin> {
        self.wanted.rules.as_ref()?.distinguishes()
    }
}

fn set_merging(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("Off", Merging::Off), ("And", Merging::And), ("Or", Merging::Or)];
    let merging = conf::values::one_of(value, &table).ok_or("AuthMerging must be one of: Off | And | Or")?;
    cmd.dir.edit::<AuthzDir>().wanted.merging = Some((merging, cmd.node.origin.clone()));
    Ok(())
}

/// `Require [not] NAME [arguments]`.
fn require(cmd: &mut Cmd<'_>, line: &str) -> Outcome {
    let mut rest = line;
    let mut name = next_word(&mut rest);
    let negated = name.eq_ignore_ascii_case("not");
    let number = 1 + usize::from(negated);
    if negated {
        name = next_word(&mut rest);
    }
    let alias = cmd.context.language.kept.get::<Aliases>().named.get(&name).cloned();
    let check = match alias {
        Some(Check { bare: Some(why), .. }) if !rest.trim().is_empty() => {
            return Err(Refusal::surplus(number + 1, why));
        }
        Some(check) => check,
        None => {
            let provider = provider(cmd, &name).in_argument(number)?;
            parse(cmd, provider, rest, None).map_err(|refusal| refusal.behind(number))?
        }
    };
    let node = Node::require(Require {
        text: format!("{name} {rest}").trim_end().to_string(),
        origin: cmd.origin(),
        limited: cmd.place.limited.clone(),
        check,
    });
    let group = group(cmd);
    if negated && !group.kind().wants_all() {
        let message = format!("negative Require directive has no effect in {} directive", group.kind().name());
        return Err(Refusal::argument(1, message));
    }
    group.push(if negated { node.negate() } else { node });
    Ok(())
}

fn provider(cmd: &Cmd<'_>, name: &str) -> Result<&'static AuthzProvider, String> {
    find_authz(cmd.context.language.loaded(), name).ok_or_else(|| format!("Unknown Authz provider: {name}"))
}

fn parse(
    cmd: &mut Cmd<'_>,
    provider: &'static AuthzProvider,
    arguments: &str,
    layer: Option<Layer>,
) -> Result<Check, Refusal> {
    Ok(Check { provider, arguments: (provider.parse)(cmd, arguments)?, layer, bare: None })
}

/// The group that a line joins: the innermost container, or the section's own group, of which any is enough.
fn group<'a>(cmd: &'a mut Cmd<'_>) -> &'a mut Group {
    let rules = &mut cmd.dir.edit::<AuthzDir>().wanted.rules;
    Arc::make_mut(rules.get_or_insert_with(|| Arc::new(Group::new(Combination::Any))))
}

/// `<RequireAll>`, `<RequireAny>`, `<RequireNone>`.
fn container(cmd: &mut Cmd<'_>, argument: &str, kind: Combination) -> Result<(), Failure> {
    let name = cmd.row.name;
    if !argument.is_empty() {
        return Err(format!("{name}> directive doesn't take additional arguments").into());
    }
    let rules = |cmd: &mut Cmd<'_>, new| std::mem::replace(&mut cmd.dir.edit::<AuthzDir>().wanted.rules, new);
    let outer = rules(cmd, Some(Arc::new(Group::new(kind))));
    let mut place = cmd.inner_place(Allowed::AUTH, None);
    place.allowed = Allowed::AUTH;
    let children = cmd.node.children.as_deref().unwrap_or_default();
    conf::apply(children, cmd.server, cmd.dir, &place, cmd.context)?;
    let inner = rules(cmd, outer).filter(|inner| !inner.parts().is_empty());
    let Some(inner) = inner else {
        return Err(format!("{name}> directive contains no authorization directives").into());
    };
    if inner.is_only_negative() {
        let text = format!("AH01624: {name}> directive contains only negative authorization directives");
        cmd.server_push(|s: &mut Complaints| &mut s.texts, text)?;
    }
    let group = group(cmd);
    match kind {
        Combination::None if !group.kind().wants_all() => {
            return Err(format!("{name}> directive has no effect in {} directive", group.kind().name()).into());
        }
        // "None of these" inside an "all" is each of these, negated.
        Combination::None => inner.parts().iter().for_each(|node| group.push(node.clone().negate())),
        _ => group.push(Node::group(inner)),
    }
    Ok(())
}

/// `<AuthzProviderAlias ip NAME "arguments">`.
fn alias(cmd: &mut Cmd<'_>, argument: &str) -> Result<(), Failure> {
    let mut rest = argument;
    let (base, name, arguments) = (next_word(&mut rest), next_word(&mut rest), next_word(&mut rest));
    if base.is_empty() || name.is_empty() {
        return Err(Refusal::missing("<AuthzProviderAlias> directive requires additional arguments").into());
    }
    if !rest.is_empty() {
        let text = format!(
            "AH10142: When several arguments ({arguments} {rest}...) are passed to a <AuthzProviderAlias directive, \
             they must be enclosed in quotation marks.  Otherwise, only the first one is taken into account"
        );
        cmd.context.note("authz_core", Level::Warn, text);
    }
    let mut dir = SettingsMap::default();
    let place = cmd.inner_place(Allowed::SECTION.or(Allowed::AUTH), None);
    cmd.apply_children(None, &mut dir, &place)?;
    let provider = provider(cmd, &base).in_argument(1)?;
    let check = parse(cmd, provider, &arguments, Some(Layer::new(dir))).map_err(|refusal| {
        let refusal = refusal.reworded(|why| format!("Can't parse 'Require {base} {arguments}': {why}"));
        refusal.at(Spot::Word(3))
    })?;
    cmd.context.language.kept.edit::<Aliases>().named.set(name, check, &cmd.node.origin);
    Ok(())
}

/// Names a kind of `Require`, for later lines; `why` is the error for lines with further arguments.
pub(super) fn define(cmd: &mut Cmd<'_>, name: &str, provider: &'static AuthzProvider, layer: Layer, why: &'static str) {
    let origin = cmd.origin();
    let check = Check { provider, arguments: Arc::new(()), layer: Some(layer), bare: Some(why) };
    cmd.context.language.kept.edit::<Aliases>().named.set(name.to_string(), check, &origin);
}

fn check_rules(draft: &mut Draft, _: &mut Context) -> Result<(), Error> {
    match draft.servers().find_map(|server| server.get::<Complaints>().texts.iter().next()) {
        Some(text) => Err(Error::check(text.clone())),
        None => Ok(()),
    }
}

/// Whether the rules may have to wait. Rules that never wait are a plain function call.
fn waits(request: &Request) -> bool {
    request.dir::<AuthzDir>().wanted.rules.as_ref().is_some_and(|rules| rules.waits())
}

/// Decides by rules that never wait; once before authentication, and if that is not enough, again with a user.
fn decide_now(request: &mut Request, has_logged_in: bool) -> Flow {
    if waits(request) {
        return Flow::Declined;
    }
    let slots = request.dir.slots.clone();
    let conf = slots.get::<AuthzDir>();
    let Some(rules) = &conf.wanted.rules else { return without_rules(request) };
    let mut refusals = Refusals::new();
    let verdict = rules::decide_now(rules, request, &mut refusals);
    let flow = flow_of(verdict, request, conf, has_logged_in);
    note_refusals(request, verdict, &refusals);
    flow
}

/// Decides about access by rules that may wait: for a look-up, a database, a name server.
async fn decide(request: &mut Request, has_logged_in: bool) -> Flow {
    let slots = request.dir.slots.clone();
    let conf = slots.get::<AuthzDir>();
    let Some(rules) = &conf.wanted.rules else { return without_rules(request) };
    let mut refusals = Refusals::new();
    let verdict = rules::decide(rules, request, &mut refusals).await;
    let flow = flow_of(verdict, request, conf, has_logged_in);
    note_refusals(request, verdict, &refusals);
    flow
}

fn without_rules(request: &mut Request) -> Flow {
    match auth_type(request) {
        Ok(None) => {
            request.log("authz_core", Level::Debug, "AH01628: authorization result: granted (no directives)");
            Flow::Ok
        }
        Ok(Some(_)) => {
            let text = "AH01627: AuthType configured with no corresponding authorization directives";
            request.log("authz_core", Level::Error, text);
            Flow::Status(500)
        }
        Err(_) => Flow::Status(500),
    }
}

fn flow_of(verdict: Verdict, request: &mut Request, conf: &AuthzDir, has_logged_in: bool) -> Flow {
    match verdict {
        Verdict::Granted => Flow::Ok,
        Verdict::DeniedNoUser if !has_logged_in => Flow::Declined,
        Verdict::DeniedNoUser => {
            let text = format!("AH01629: authorization failure (no authenticated user): {}", request.data.uri);
            request.log("authz_core", Level::Error, text);
            try_again(request)
        }
        Verdict::Denied | Verdict::Neutral | Verdict::Unknown
            if !has_logged_in || request.login.auth_type.is_none() =>
        {
            denied(request)
        }
        Verdict::Denied | Verdict::Neutral | Verdict::Unknown => {
            let user = request.login.user.as_deref().unwrap_or_default();
            let text = format!("AH01631: user {user}: authorization failure for \"{}\": ", request.data.uri);
            request.log("authz_core", Level::Error, text);
            if conf.forbidden() { Flow::Status(403) } else { try_again(request) }
        }
        // The code that could not decide has logged why.
        Verdict::Error => request.fails_closed(),
    }
}

/// Says which line keeps a request out. Of lines that all must hold it is the last one that was asked.
fn note_refusals(request: &Request, verdict: Verdict, refusals: &Refusals) {
    let Some((line, origin)) = refusals.last().filter(|_| verdict != Verdict::Granted) else { return };
    let (forbids, lets) = match refusals.len() - 1 {
        0 => ("forbids".into(), "does not let".into()),
        1 => ("and another line forbid".into(), "and another line do not let".into()),
        count => (format!("and {count} other lines forbid"), format!("and {count} other lines do not let")),
    };
    let effect = match (&request.login.user, verdict) {
        (None, Verdict::DeniedNoUser) => "asks for a user, and the request names none".into(),
        (Some(user), _) => format!("{lets} {user} in"),
        _ if line == "Require all denied" || line.starts_with("Require not ") => {
            format!("{forbids} {}", denied_thing(request))
        }
        _ => format!("{lets} {} in", request.client().ip()),
    };
    for status in [401, 403] {
        request.note_reason(status, "authz_core", Some(origin), |_| (line.clone(), effect.clone()));
    }
}

fn denied(request: &Request) -> Flow {
    let text = format!("AH01630: client denied by server configuration: {}", denied_thing(request));
    request.log("authz_core", Level::Error, text);
    Flow::Status(403)
}

/// Asks the client to log in as another user.
fn try_again(request: &mut Request) -> Flow {
    if let Ok(Some(name)) = auth_type(request) {
        request.note_auth_failure(&name);
    }
    Flow::Status(401)
}

#[cfg(test)]
mod tests;

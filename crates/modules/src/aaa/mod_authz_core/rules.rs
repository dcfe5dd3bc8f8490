//! The requirements for a request: `Require` lines in groups of which all, any, or none must hold.

use std::fmt;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use conf::ip::Networks;
use conf::{Level, Limited, Origin};
use server::authz::{AuthzProvider, Parsed, Verdict};
use server::{Layer, Request};

use super::providers::ALL;

/// How the parts of a group are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Combination {
    /// `<RequireAll>`.
    All,
    /// `<RequireAny>`, or a section without containers.
    Any,
    /// `<RequireNone>`.
    None,
    /// Outer and inner rules under `AuthMerging And`.
    MergedAll,
    /// Outer and inner rules under `AuthMerging Or`.
    MergedAny,
}

impl Combination {
    /// Whether all parts must hold: only then does a negative one have an effect.
    pub(super) fn wants_all(self) -> bool {
        matches!(self, Combination::All | Combination::MergedAll)
    }

    /// The name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Combination::All => "<RequireAll>",
            Combination::Any => "<RequireAny>",
            Combination::None => "<RequireNone>",
            Combination::MergedAll => "AuthMerging All",
            Combination::MergedAny => "AuthMerging Any",
        }
    }
}

/// A kind of `Require` line with its arguments, and the settings that an alias adds.
#[derive(Clone)]
pub(super) struct Check {
    pub(super) provider: &'static AuthzProvider,
    pub(super) arguments: Parsed,
    pub(super) layer: Option<Layer>,
    /// The error for a line with arguments, if the provider takes none.
    pub(super) bare: Option<&'static str>,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.provider.name)
    }
}

/// A `Require` line: the check that it asks for, and the methods that it applies to.
#[derive(Clone, Debug)]
pub(super) struct Require {
    /// The text after `Require` or `Require not`.
    pub(super) text: String,
    pub(super) origin: Origin,
    /// The `<Limit>` around it.
    pub(super) limited: Option<Arc<Limited>>,
    pub(super) check: Check,
}

/// A line or a group inside a group, perhaps negated.
#[derive(Clone, Debug)]
pub(super) struct Node {
    negated: bool,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Require(Arc<Require>),
    Group(Arc<Group>),
}

impl Node {
    pub(super) fn require(require: Require) -> Node {
        Node { negated: false, what: What::Require(Arc::new(require)) }
    }

    pub(super) fn group(group: Arc<Group>) -> Node {
        Node { negated: false, what: What::Group(group) }
    }

    pub(super) fn negate(self) -> Node {
        Node { negated: !self.negated, ..self }
    }

    /// Whether it applies to a request with this method.
    fn covers(&self, method: &str) -> bool {
        match &self.what {
            What::Require(require) => require.limited.as_ref().is_none_or(|limited| limited.covers(method)),
            What::Group(group) => group.parts.iter().any(|part| part.covers(method)),
        }
    }

    /// The networks of a line that asks for the client's address and for nothing else.
    fn networks(&self) -> Option<&Networks> {
        match &self.what {
            What::Require(require) if require.limited.is_none() && require.check.layer.is_none() => {
                require.check.arguments.downcast_ref()
            }
            _ => None,
        }
    }

    /// Whether it is `Require all granted`, for every method.
    fn grants_all(&self) -> bool {
        match &self.what {
            What::Require(require) if require.limited.is_none() && !self.negated => {
                std::ptr::eq(require.check.provider, &ALL) && require.check.arguments.downcast_ref() == Some(&true)
            }
            _ => false,
        }
    }

    /// Whether it lets every request in.
    fn lets_all_in(&self) -> bool {
        match &self.what {
            What::Require(_) => self.grants_all(),
            What::Group(group) => !self.negated && group.lets_all_in(),
        }
    }

    /// The name in messages.
    fn name(&self) -> String {
        match &self.what {
            What::Require(require) => format!("Require {}{}", if self.negated { "not " } else { "" }, require.text),
            What::Group(group) => group.kind.name().to_string(),
        }
    }
}

/// Parts in a row each of which decides by the client's address, so that one look decides for all of them.
#[derive(Clone, Debug)]
struct Run {
    parts: Range<usize>,
    networks: Networks,
}

impl Run {
    fn verdict(&self, request: &Request, all: bool) -> Verdict {
        let is_there = self.networks.contains(request.client().peer.ip());
        let says = if is_there { Verdict::Granted } else { Verdict::Denied };
        if all { negated(says) } else { says }
    }
}

/// Parts, and how they are combined.
#[derive(Clone, Debug)]
pub(super) struct Group {
    kind: Combination,
    parts: Vec<Node>,
    runs: Vec<Run>,
    /// Whether it may have to wait.
    waits: bool,
    /// Its first line lets every request in, and no other is asked.
    grants_all: bool,
}

impl Group {
    pub(super) fn new(kind: Combination) -> Group {
        Group { kind, parts: Vec::new(), runs: Vec::new(), waits: false, grants_all: false }
    }

    pub(super) fn kind(&self) -> Combination {
        self.kind
    }

    pub(super) fn parts(&self) -> &[Node] {
        &self.parts
    }

    pub(super) fn push(&mut self, part: Node) {
        self.waits |= match &part.what {
            What::Require(require) => require.check.provider.check.waits(&require.check.arguments),
            What::Group(group) => group.waits,
        };
        // The first match decides: that of a negative line where all must hold, and that of a positive one elsewhere.
        if let Some(networks) = part.networks().filter(|_| part.negated == self.kind.wants_all()) {
            let at = self.parts.len();
            match self.runs.last_mut().filter(|run| run.parts.end == at) {
                Some(run) => {
                    run.parts.end += 1;
                    run.networks.add_all(networks);
                }
                None => self.runs.push(Run { parts: at..at + 1, networks: networks.clone() }),
            }
        }
        self.grants_all |= self.parts.is_empty() && self.kind == Combination::Any && part.grants_all();
        self.parts.push(part);
    }

    /// Whether they let every request in.
    pub(super) fn lets_all_in(&self) -> bool {
        match self.kind {
            Combination::All | Combination::MergedAll => self.parts.iter().all(Node::lets_all_in),
            Combination::Any | Combination::MergedAny => self.parts.iter().any(Node::lets_all_in),
            Combination::None => false,
        }
    }

    /// Whether a decision by these rules may have to wait.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// Passes on the origins of all lines.
    /// The first line that lets some clients in and others not.
    pub(super) fn distinguishes(&self) -> Option<&Origin> {
        self.parts.iter().find_map(|part| match &part.what {
            What::Require(require) => (require.check.provider.name != ALL.name).then_some(&require.origin),
            What::Group(group) => group.distinguishes(),
        })
    }

    pub(super) fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        for part in &self.parts {
            match &part.what {
                What::Require(require) => see(&require.origin),
                What::Group(group) => group.origins(see),
            }
        }
    }

    /// Whether nothing in it can ever grant access.
    pub(super) fn is_only_negative(&self) -> bool {
        self.parts.iter().all(|part| part.negated)
    }
}

/// The lines that did not let a request in, in the order in which they were asked; kept only where somebody asks why.
pub(super) type Refusals = Vec<(String, Origin)>;

/// Decides by the rules of a section.
pub(super) async fn decide(rules: &Arc<Group>, request: &mut Request, refusals: &mut Refusals) -> Verdict {
    let node = Node::group(rules.clone());
    match passed_over(&node, request, true) {
        Some(verdict) => verdict,
        None => concluded(&node, evaluate(rules, request, refusals).await, request),
    }
}

/// Decides by rules that never wait. Rules that would have to are an error: access is refused.
pub(super) fn decide_now(rules: &Arc<Group>, request: &mut Request, refusals: &mut Refusals) -> Verdict {
    // The rule of most sites. A question, and a debug log, are about each line.
    if rules.grants_all && !request.is_hypothetical() && !request.logs("authz_core", Level::Debug) {
        return Verdict::Granted;
    }
    match pin!(decide(rules, request, refusals)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(verdict) => verdict,
        // Fails closed.
        Poll::Pending => Verdict::Error,
    }
}

/// Asks the parts of a group.
async fn evaluate(group: &Group, request: &mut Request, refusals: &mut Refusals) -> Verdict {
    let all = group.kind.wants_all();
    let mut verdict = Verdict::Neutral;
    // A question, and a debug log, are about each line: then each is asked.
    let one_by_one = request.is_hypothetical() || request.logs("authz_core", Level::Debug);
    let mut runs = if one_by_one { &[] } else { group.runs.as_slice() };
    let mut at = 0;
    while let Some(part) = group.parts.get(at) {
        let run = runs.first().filter(|run| run.parts.start == at);
        runs = &runs[usize::from(run.is_some())..];
        at = run.map_or(at + 1, |run| run.parts.end);
        let says = match (run, passed_over(part, request, all), &part.what) {
            (Some(run), _, _) => run.verdict(request, all),
            (None, Some(verdict), _) => verdict,
            (None, None, What::Require(require)) => {
                let says = concluded(part, check(&require.check, request).await, request);
                if says != Verdict::Granted && request.is_hypothetical() {
                    refusals.push((part.name(), require.origin.clone()));
                }
                says
            }
            (None, None, What::Group(group)) => {
                concluded(part, Box::pin(evaluate(group, request, refusals)).await, request)
            }
        };
        verdict = combined(all, verdict, says);
        // No later part can change this.
        if verdict == Verdict::Error || verdict == if all { Verdict::Denied } else { Verdict::Granted } {
            break;
        }
    }
    verdict
}

/// The verdict of a part for other methods, among parts of which all, or any, must hold.
fn passed_over(node: &Node, request: &Request, among_all: bool) -> Option<Verdict> {
    if node.covers(&request.data.method) {
        return None;
    }
    let verdict = if among_all { Verdict::Granted } else { Verdict::Neutral };
    log(request, "AH01625", node, verdict, " (directive limited to other methods)");
    Some(verdict)
}

/// The verdict of a part whose inside has this verdict.
fn concluded(node: &Node, verdict: Verdict, request: &Request) -> Verdict {
    if matches!((&node.what, verdict), (What::Group(_), Verdict::Error)) {
        return verdict;
    }
    let verdict = if node.negated { negated(verdict) } else { verdict };
    log(request, "AH01626", node, verdict, "");
    verdict
}

async fn check(check: &Check, request: &mut Request) -> Verdict {
    let outside = check.layer.as_ref().map(|layer| request.enter(layer));
    let verdict = check.provider.check.ask(request, &check.arguments).await;
    outside.into_iter().for_each(|outside| request.leave(outside));
    verdict
}

/// The verdict of a group after `so_far` and the verdict of its next part.
fn combined(all: bool, so_far: Verdict, next: Verdict) -> Verdict {
    use Verdict::{Denied, DeniedNoUser, Error, Granted, Neutral, Unknown};
    match (so_far, next) {
        (Error, _) | (_, Error) => Error,
        (known, Neutral) | (Neutral, known) => known,
        (Denied, _) | (_, Denied) if all => Denied,
        (Granted, Granted) => Granted,
        (Granted, _) | (_, Granted) if !all => Granted,
        (Unknown, _) | (_, Unknown) if all => Unknown,
        // A user may still change the outcome.
        (DeniedNoUser, _) | (_, DeniedNoUser) => DeniedNoUser,
        (Unknown, _) | (_, Unknown) => Unknown,
        (Denied | Granted, _) => Denied,
    }
}

/// A negative part can only refuse: if it does not match, it has no opinion.
fn negated(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Granted => Verdict::Denied,
        Verdict::Denied | Verdict::DeniedNoUser | Verdict::Neutral => Verdict::Neutral,
        Verdict::Unknown | Verdict::Error => verdict,
    }
}

fn log(request: &Request, number: &str, node: &Node, verdict: Verdict, why: &str) {
    if !request.logs("authz_core", Level::Debug) {
        return;
    }
    let verdict = match verdict {
        Verdict::Granted => "granted",
        Verdict::Denied => "denied",
        Verdict::DeniedNoUser => "denied (no authenticated user yet)",
        Verdict::Neutral => "neutral",
        Verdict::Unknown => "unknown",
        Verdict::Error => "error",
    };
    let text = format!("{number}: authorization result of {}: {verdict}{why}", node.name());
    request.log("authz_core", Level::Debug, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_combine_as_in_apache() {
        use Verdict::{Denied, DeniedNoUser, Error, Granted, Neutral, Unknown};
        for (all, parts, want) in [
            (true, &[Granted, Granted][..], Granted),
            (true, &[Granted, Denied], Denied),
            (true, &[DeniedNoUser, Granted], DeniedNoUser),
            (true, &[DeniedNoUser, Denied], Denied),
            (true, &[Granted, DeniedNoUser], DeniedNoUser),
            (true, &[Neutral, Granted], Granted),
            (true, &[Neutral, Neutral], Neutral),
            (true, &[Granted, Error], Error),
            (false, &[Denied, Granted], Granted),
            (false, &[DeniedNoUser, Granted], Granted),
            (false, &[Denied, DeniedNoUser], DeniedNoUser),
            (false, &[DeniedNoUser, Denied], DeniedNoUser),
            (false, &[Denied, Neutral], Denied),
            (false, &[Neutral, Neutral], Neutral),
            (false, &[Denied, Error], Error),
            (true, &[Granted, Unknown], Unknown),
            (true, &[Unknown, Granted], Unknown),
            (true, &[Unknown, Neutral], Unknown),
            (true, &[Unknown, Denied], Denied),
            (true, &[DeniedNoUser, Unknown], Unknown),
            (false, &[Unknown, Granted], Granted),
            (false, &[Unknown, Denied], Unknown),
            (false, &[Denied, Unknown], Unknown),
            (false, &[Unknown, DeniedNoUser], DeniedNoUser),
            (false, &[Unknown, Error], Error),
        ] {
            let got = parts.iter().fold(Neutral, |so_far, next| combined(all, so_far, *next));
            assert_eq!(got, want, "{all} {parts:?}");
        }
        for (verdict, want) in
            [(Granted, Denied), (Denied, Neutral), (DeniedNoUser, Neutral), (Unknown, Unknown), (Error, Error)]
        {
            assert_eq!(negated(verdict), want);
        }
    }
}

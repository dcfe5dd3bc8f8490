//! The phases in which modules handle a request, and how their hooks are called (see [`Hook`](crate::Hook)).

use crate::request::Request;
use crate::request::flow::Flow;
use crate::request::hooks::{Hooks, Of, PhaseHook};

/// A phase: its name for people, and its hooks.
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) hooks: fn(&Hooks) -> &[Of<PhaseHook>],
}

pub(crate) const POST_READ: Phase = Phase { name: "request read", hooks: |hooks| &hooks.post_read };
pub(crate) const TRANSLATE: Phase = Phase { name: "URL to file", hooks: |hooks| &hooks.translate };
pub(crate) const MAP_TO_STORAGE: Phase = Phase { name: "sections", hooks: |hooks| &hooks.map_to_storage };
pub(crate) const HEADER_PARSER: Phase = Phase { name: "header", hooks: |hooks| &hooks.header_parser };
pub(crate) const ACCESS_CHECKER: Phase = Phase { name: "access by host", hooks: |hooks| &hooks.access_checker };
pub(crate) const ACCESS_CHECKER_EX: Phase =
    Phase { name: "access without a user", hooks: |hooks| &hooks.access_checker_ex };
pub(crate) const CHECK_USER: Phase = Phase { name: "authentication", hooks: |hooks| &hooks.check_user };
pub(crate) const AUTH_CHECKER: Phase = Phase { name: "authorization", hooks: |hooks| &hooks.auth_checker };
pub(crate) const TYPE_CHECKER: Phase = Phase { name: "type", hooks: |hooks| &hooks.type_checker };
pub(crate) const FIXUPS: Phase = Phase { name: "fixups", hooks: |hooks| &hooks.fixups };

/// Runs all hooks; the first status ends it.
pub(crate) async fn all(request: &mut Request, phase: &Phase) -> Result<(), Flow> {
    for hook in (phase.hooks)(request.hooks) {
        if let Flow::Status(status) = ask(request, phase, hook).await {
            return Err(Flow::Status(status));
        }
    }
    Ok(())
}

/// Runs hooks until one does not decline.
pub(crate) async fn first(request: &mut Request, phase: &Phase) -> Flow {
    for hook in (phase.hooks)(request.hooks) {
        let flow = ask(request, phase, hook).await;
        if flow != Flow::Declined {
            return flow;
        }
    }
    Flow::Declined
}

async fn ask(request: &mut Request, phase: &Phase, Of { module, hook }: &Of<PhaseHook>) -> Flow {
    let flow = match hook {
        PhaseHook::Now(run) => run(request),
        PhaseHook::Later { claims, run } if claims(request) => run(request).await,
        PhaseHook::Later { .. } => Flow::Declined,
    };
    if let Some(trace) = &mut request.trace {
        trace.decided(phase.name, module, flow);
    }
    flow
}

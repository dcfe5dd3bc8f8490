//! Runs the hooks of a phase: all of them, or until one decides.

use crate::request::Request;
use crate::request::flow::Flow;
use crate::request::hooks::{ModuleHook, PhaseHook};
use crate::request::phase::Phase;

/// Runs all hooks of a phase. `Err`: one has ended the request, and the rest did not run.
pub(crate) async fn run_all(request: &mut Request, phase: Phase) -> Result<(), Flow> {
    for hook in request.hooks.of(phase) {
        if let Flow::Status(status) = run_hook(request, phase, hook).await {
            return Err(Flow::Status(status));
        }
    }
    Ok(())
}

/// Runs the hooks of a phase until one does not decline.
pub(crate) async fn run_until_decided(request: &mut Request, phase: Phase) -> Flow {
    for hook in request.hooks.of(phase) {
        let flow = run_hook(request, phase, hook).await;
        if flow != Flow::Declined {
            return flow;
        }
    }
    Flow::Declined
}

async fn run_hook(request: &mut Request, phase: Phase, ModuleHook { module, hook }: &ModuleHook<PhaseHook>) -> Flow {
    let flow = match hook {
        PhaseHook::Now(run) => run(request),
        PhaseHook::Later { claims, run } if claims(request) => {
            request.asks_beyond_head();
            run(request).await
        }
        PhaseHook::Recording { claims, run } if claims(request) => run(request).await,
        PhaseHook::Later { .. } | PhaseHook::Recording { .. } => Flow::Declined,
    };
    if let Some(trace) = &mut request.trace {
        match flow {
            Flow::Declined => trace.hear(),
            Flow::Ok => trace.decided(phase.name(), module, None),
            Flow::Status(status) => trace.decided(phase.name(), module, Some(status)),
        }
    }
    flow
}

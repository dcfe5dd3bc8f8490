//! Responses with a limited rate: the output filter `RATE_LIMIT`.
//!
//! Apache manual: mod_ratelimit. A slow response waits like one to a slow client: under event and percore it costs no
//! worker, whereas Apache sleeps in one.

use conf::values::atoi;
use conf::{Level, ModuleInfo};
use server::{Body, Hook, Module, OutputFilter, Rank, RateLimit, Request};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "ratelimit_module", source: "mod_ratelimit.c", linked: false, directives: &[] },
    hooks: &[Hook::Repeatable, Hook::NamedFilter(&RATE_LIMIT)],
};

static RATE_LIMIT: OutputFilter = OutputFilter {
    name: "RATE_LIMIT",
    rank: Rank(Rank::PROTOCOL.0 + 3),
    prepare: None,
    unmodified: None,
    apply: |request, body| Box::pin(std::future::ready(limit(request, body))),
};

/// The unit of the variables, in bytes.
const UNIT: i32 = 1024;

fn limit(request: &mut Request, body: Body) -> Body {
    let Some(rate) = request.env.get("rate-limit").filter(|_| !request.is_subrequest()) else { return body };
    let bytes = |text: &str| u32::try_from(atoi(text).wrapping_mul(UNIT)).ok().filter(|bytes| *bytes > 0);
    let Some(bytes_per_second) = bytes(rate) else {
        let text = format!("AH03488: rl: disabling: rate-limit = {rate} (too high?)");
        request.log("ratelimit", Level::Info, text);
        return body;
    };
    let burst = request.env.get("rate-initial-burst").map_or(0, |burst| match bytes(burst) {
        Some(burst) => burst,
        None => {
            let text = format!("AH03489: rl: disabling burst: rate-initial-burst = {burst} (too high?)");
            request.log("ratelimit", Level::Info, text);
            0
        }
    });
    request.response.rate_limit = Some(RateLimit { bytes_per_second, burst });
    body
}

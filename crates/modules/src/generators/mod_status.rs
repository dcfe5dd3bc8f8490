//! The status page: what the server and each of its workers are doing.
//!
//! Apache manual: mod_status. The page is Apache's, line for line, since tools read it; a script makes it live ([`live`]).

mod certificates;
mod live;
mod number;
mod page;
mod past;
mod pools;
mod scripts;
mod workers;

use conf::ModuleInfo;
use conf::values::strtol;
use gateway::backend::stats::PoolStats;
use gateway::gate::GateStatus;
use runtime::scoreboard::{self, ChildState, Described, Snapshot, State};
use server::core::CoreServer;
use server::{Body, Handler, HandlerResult, Hook, Module, Order, Request};

use crate::ssl::mod_ssl::{self, Expiry};

/// The module. Its directives are the core's, as in Apache.
pub static MODULE: Module = Module {
    info: ModuleInfo { id: "status_module", source: "mod_status.c", linked: false, directives: &[] },
    hooks: &[Hook::Handler(Order::Middle, Handler::Now(handler))],
};

fn handler(request: &mut Request) -> HandlerResult {
    if !matches!(request.handler_name(), Some("server-status" | "application/x-httpd-status")) {
        return HandlerResult::Declined;
    }
    if !matches!(&*request.asked.method, "GET" | "HEAD") {
        return HandlerResult::Declined;
    }
    let query = request.asked.args.as_deref().unwrap_or_default();
    if let Some((media_type, text)) = live::file(query) {
        request.account.watches = true;
        request.answer.set_content_type(media_type);
        request.answer.headers_out.set("Cache-Control", "no-cache");
        return HandlerResult::Body(Body::text(text));
    }
    match query {
        "live" => return event(request),
        "live.past" => return history(request),
        _ => {}
    }
    let wish = Wish::of(query);
    if let Some(seconds) = wish.refresh {
        request.answer.headers_out.set("Refresh", seconds.to_string());
    }
    request.answer.set_content_type(match wish.short {
        true => "text/plain; charset=ISO-8859-1",
        false => "text/html; charset=ISO-8859-1",
    });
    let board = scoreboard::snapshot(if wish.short { Described::Nobody } else { Described::All });
    let facts = Facts::of(request, &board);
    let text = match wish.short {
        true => page::short(&facts, &board),
        false => page::html(&facts, &board, &wish, &request.signature()),
    };
    HandlerResult::Body(Body::Bytes(http::text::to_bytes(&text).into_owned().into()))
}

/// Answers the live page's request for a snapshot, which comes each second. Keep-alive is disabled if a connection
/// would hold a worker meanwhile.
fn event(request: &mut Request) -> HandlerResult {
    request.account.watches = true;
    let text = live::latest(|| {
        let mut board = scoreboard::snapshot(Described::Busy);
        live::leave_out(&mut board, &format!("{} {} ", request.asked.method, request.asked.unparsed_uri()));
        live::event(&Facts::of(request, &board), &board)
    });
    request.answer.set_content_type("text/event-stream");
    request.answer.headers_out.set("Cache-Control", "no-store");
    if !is_async(&mpm_of(request)) {
        request.env.set("nokeepalive", "1");
    }
    HandlerResult::Body(Body::Bytes(text))
}

/// Answers with the last ten minutes, for a live page that starts.
fn history(request: &mut Request) -> HandlerResult {
    request.account.watches = true;
    request.answer.set_content_type("application/json");
    request.answer.headers_out.set("Cache-Control", "no-store");
    let moments = scoreboard::get().map(|board| board.history()).unwrap_or_default();
    HandlerResult::Body(Body::Bytes(past::history(&moments).into()))
}

/// The parameters of the query; words count anywhere in it.
#[derive(Debug, PartialEq, Eq)]
struct Wish {
    refresh: Option<i64>,
    no_table: bool,
    short: bool,
}

impl Wish {
    fn of(query: &str) -> Wish {
        let refresh = query.split_once("refresh").map(|(_, rest)| {
            let seconds = rest.strip_prefix('=').map_or(0, strtol);
            if seconds < 1 { 10 } else { seconds }
        });
        Wish { refresh, no_table: query.contains("notable"), short: query.contains("auto") }
    }
}

/// The facts on the page besides the scoreboard.
struct Facts {
    name: String,
    via: String,
    version: String,
    mpm: String,
    /// Connections wait without a worker.
    is_async: bool,
    built: String,
    /// Microseconds since 1970.
    now: u64,
    load: [f64; 3],
    /// `ExtendedStatus`
    extended: bool,
    /// `SeeRequestTail`
    tail: bool,
    uptime: u64,
    totals: Totals,
    gate: GateStatus,
    pools: Vec<PoolStats>,
    certificates: Vec<Expiry>,
}

impl Facts {
    fn of(request: &Request, board: &Snapshot) -> Facts {
        let core = request.server.main().settings.get::<CoreServer>();
        let mpm = mpm_of(request);
        let now = u64::try_from(sys::time::realtime().as_micros()).unwrap_or(u64::MAX);
        let identity = server::identity::get();
        Facts {
            name: request.server_name().into_owned(),
            via: request.client.local().ip().to_canonical().to_string(),
            version: identity.map_or_else(|| request.server.software.clone(), |identity| identity.version.clone()),
            is_async: is_async(&mpm),
            mpm,
            built: identity.map_or_else(String::new, |identity| identity.built.clone()),
            now,
            load: sys::time::load().unwrap_or_default(),
            extended: core.extended_status(),
            tail: core.see_request_tail(),
            uptime: now.saturating_sub(board.restarted) / 1_000_000,
            totals: Totals::of(board),
            gate: gateway::gate::status().unwrap_or_default(),
            pools: gateway::backend::stats::pools(),
            certificates: mod_ssl::expiries(request.server),
        }
    }
}

/// The name of the multi-processing module, as in `prefork`.
pub(super) fn mpm_of(request: &Request) -> String {
    let name = |info: &&ModuleInfo| Some(info.log_name().strip_prefix("mpm_")?.to_string());
    request.server.infos().iter().find_map(name).unwrap_or_default()
}

/// Whether connections wait without a worker.
fn is_async(mpm: &str) -> bool {
    matches!(mpm, "event" | "percore")
}

/// Sums over all children.
#[derive(Debug, Default, PartialEq)]
struct Totals {
    accesses: u64,
    kilobytes: u64,
    /// Milliseconds.
    duration: u64,
    /// Hundredths of seconds: user, system, the same of scripts.
    cpu: [u64; 4],
    busy: usize,
    graceful: usize,
    idle: usize,
}

impl Totals {
    fn of(board: &Snapshot) -> Totals {
        let mut totals = Totals::default();
        let mut cpu = [board.ended_user, board.ended_system, 0, 0];
        let (mut bytes, mut duration) = (0, 0);
        for process in &board.processes {
            totals.accesses += process.accesses;
            bytes += process.bytes;
            duration += process.duration;
            if process.pid == 0 {
                continue;
            }
            cpu.iter_mut().zip(process.cpu).for_each(|(sum, own)| *sum += own);
            let counts = Counts::of(process);
            totals.busy += counts.busy;
            totals.graceful += counts.graceful;
            if process.generation == board.generation && process.life != ChildState::Quiescing {
                totals.idle += counts.idle;
            }
        }
        totals.kilobytes = bytes / 1024;
        totals.duration = duration / 1000;
        totals.cpu = cpu.map(|micros| micros / 10_000);
        totals
    }
}

/// The workers of a child, by their state. Where requests need no workers, each request counts as a busy one, and there
/// are as many idle ones as busy ones: programs that read Apache's page compare the two, and must not see a limit.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    busy: usize,
    graceful: usize,
    idle: usize,
}

impl Counts {
    fn of(process: &scoreboard::Process) -> Counts {
        let mut counts = Counts::default();
        for worker in &process.workers {
            match worker.state {
                State::Ready => counts.idle += 1,
                State::Graceful => counts.graceful += 1,
                State::Dead | State::Starting | State::IdleCleanup => {}
                _ => counts.busy += 1,
            }
        }
        if let Some(unlisted) = process.unlisted {
            let served = if process.life == ChildState::Quiescing { &mut counts.graceful } else { &mut counts.busy };
            *served += usize::try_from(unlisted).unwrap_or(usize::MAX);
            counts.idle = counts.idle.max(counts.busy);
        }
        counts
    }
}

/// A text of a client or of the configuration as a text of the page.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests;

//! The status page: what the server and each of its workers are doing.
//!
//! Apache manual: mod_status. The page is Apache's, line for line, since tools read it; a script makes it live ([`live`]).

mod balancers;
mod certificates;
mod facts;
mod live;
mod number;
mod page;
mod past;
mod pools;
mod scripts;
mod workers;

use conf::ModuleInfo;
use runtime::scoreboard::{self, Described};
use server::{Body, Handler, HandlerResult, Hook, Module, Order, Request};

pub(super) use self::facts::mpm_of;
use self::facts::{Facts, is_async};
use self::page::Wish;

/// The module. Its directives are the core's, as in Apache.
pub static MODULE: Module = Module {
    info: ModuleInfo { id: "status_module", source: "mod_status.c", linked: false, directives: &[] },
    hooks: &[Hook::Repeatable, Hook::Handler(Order::Middle, Handler::Now(handler))],
};

fn handler(request: &mut Request) -> HandlerResult {
    if !matches!(request.handler_name(), Some("server-status" | "application/x-httpd-status")) {
        return HandlerResult::Declined;
    }
    if !matches!(&*request.data.method, "GET" | "HEAD") {
        return HandlerResult::Declined;
    }
    let query = request.data.args.as_deref().unwrap_or_default();
    if let Some((media_type, text)) = live::file(query) {
        request.account.watches = true;
        request.response.set_content_type(media_type);
        request.response.headers_out.set("Cache-Control", "no-cache");
        return HandlerResult::Body(Body::text(text));
    }
    match query {
        "live" => return event(request),
        "live.past" => return history(request),
        _ => {}
    }
    let wish = Wish::of(query);
    if let Some(seconds) = wish.refresh {
        request.response.headers_out.set("Refresh", seconds.to_string());
    }
    request.response.set_content_type(match wish.short {
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
        live::leave_out(&mut board, &format!("{} {} ", request.data.method, request.data.unparsed_uri()));
        live::event(&Facts::of(request, &board), &board)
    });
    request.response.set_content_type("text/event-stream");
    request.response.headers_out.set("Cache-Control", "no-store");
    if !is_async(&mpm_of(request)) {
        request.env.set("nokeepalive", "1");
    }
    HandlerResult::Body(Body::Bytes(text))
}

/// Answers with the last ten minutes, for a live page that starts.
fn history(request: &mut Request) -> HandlerResult {
    request.account.watches = true;
    request.response.set_content_type("application/json");
    request.response.headers_out.set("Cache-Control", "no-store");
    let moments = scoreboard::get().map(|board| board.history()).unwrap_or_default();
    HandlerResult::Body(Body::Bytes(past::history(&moments).into()))
}

#[cfg(test)]
mod tests;

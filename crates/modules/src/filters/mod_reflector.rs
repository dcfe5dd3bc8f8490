//! The body of a request as its response, through the output filters: the handler `reflector`.
//!
//! Apache manual: mod_reflector.

use bytes::Bytes;
use conf::directive::Args::Take12;
use conf::{Allowed, Cmd, Directive, Listed, ModuleInfo, Outcome, row, settings};
use server::{Body, BodyStream, Handler, HandlerResult, Hook, InputBody, Module, Order, Piece, Request, Waiting};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "reflector_module", source: "mod_reflector.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::Handler(Order::Middle, REFLECTOR)],
};

const REFLECTOR: Handler =
    Handler::Later { claims: |request| request.handler_name() == Some("reflector"), check: prepare, run: reflect };

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ReflectorHeader", Allowed::OPTIONS, Take12(add_header), "", "Header to reflect back in the response, with an optional new name."),
];

settings! {
    /// The module's settings of a section.
    pub struct ReflectorDir {
        headers: Listed<(String, String)>,
    }
}

fn add_header(cmd: &mut Cmd<'_>, from: &str, to: Option<&str>) -> Outcome {
    let origin = cmd.origin();
    let pair = (from.to_string(), to.unwrap_or(from).to_string());
    cmd.dir.edit::<ReflectorDir>().headers.push(pair, &origin);
    Ok(())
}

/// Sets the fields of the response. `Some`: there is no body to reflect.
fn prepare(request: &mut Request) -> Option<HandlerResult> {
    if request.data.method != "POST" {
        let traces = request.allowed_methods().ends_with(",TRACE");
        request.response.err_headers_out.set("Allow", if traces { "OPTIONS,POST,TRACE" } else { "OPTIONS,POST" });
        let is_hypothetical = request.data.method == "OPTIONS";
        return Some(if is_hypothetical { HandlerResult::Body(Body::Empty) } else { HandlerResult::Status(405) });
    }
    let now = http::date::http_date(sys::time::realtime_coarse().as_secs() as i64);
    request.response.headers_out.set("Last-Modified", String::from_utf8_lossy(&now));
    request.response.headers_out.set("Accept-Ranges", request.accept_ranges());
    if let Some(kind) = request.header("Content-Type").map(|kind| kind.into_owned()) {
        request.response.set_content_type(kind);
    }
    let dir = request.dir.slots.clone();
    for (from, to) in dir.get::<ReflectorDir>().headers.iter() {
        if let Some(value) = request.header_joined(from).map(|value| value.into_owned()) {
            request.response.headers_out.set(to.clone(), value);
        }
    }
    request.body.is_none().then_some(HandlerResult::Body(Body::Empty))
}

/// The response begins with the first piece of the body: a body that cannot be read at all is an error.
fn reflect(request: &mut Request) -> Waiting<'_, HandlerResult> {
    Box::pin(async move {
        let length = request.body.length();
        match request.body.read().await {
            Ok(None) => HandlerResult::Body(Body::Empty),
            Ok(first) => {
                let rest = request.body.stream();
                HandlerResult::Body(Body::Stream(Box::new(Reflection { first, rest, length })))
            }
            Err(error) => HandlerResult::Status(error.status()),
        }
    })
}

/// The body of a request on its way back.
struct Reflection {
    first: Option<Bytes>,
    rest: InputBody,
    length: Option<u64>,
}

impl BodyStream for Reflection {
    fn next(&mut self) -> Piece<'_> {
        match self.first.take() {
            Some(first) => Box::pin(std::future::ready(Some(Ok(first)))),
            None => self.rest.next(),
        }
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}

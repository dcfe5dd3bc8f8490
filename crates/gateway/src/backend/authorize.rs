//! Applications that decide whether a request is allowed (FastCGI specification, section 6.3).

use std::sync::Arc;

use conf::Level;
use server::{Fields, Request, RequestBody, ScriptUse};
use upstream::RemoteServer;

use super::call::{BackendCall, Head, StderrMessages};
use super::class::EncodedClass;
use super::remote::{RemoteCall, RemoteProtocol};
use super::run::PoolCall;
use crate::caller::Caller;
use crate::env;
use crate::protocol::Protocol;
use crate::protocol::fastcgi::Role;
use crate::response::{self, ResponseHeader};
use crate::script::Script;

/// The prefix of fields that become variables for the handler of the request.
const VARIABLE: &str = "Variable-";
/// The variables that such an application does not get: it does not handle the request.
const WITHHELD: [&str; 9] = [
    "CONTENT_LENGTH",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "SCRIPT_NAME",
    "HTTP_KEEP_ALIVE",
    "HTTP_TE",
    "HTTP_TRAILER",
    "HTTP_TRANSFER_ENCODING",
    "HTTP_UPGRADE",
];

/// The verdict of an application on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The application lets the request pass.
    Allowed,
    /// Refused: the status of the response.
    Refused(u16),
    /// There is no verdict, because there is no response: the status.
    Failed(u16),
}

/// Asks an application of the class. `variables` are its variables besides those of the request.
pub async fn authorize(
    request: &mut Request,
    caller: &Caller,
    class: &EncodedClass,
    head: &Head,
    stderr: StderrMessages,
    variables: &[(&str, &str)],
) -> Verdict {
    request.before_programs().await;
    let handler_state = HandlerState::of(request);
    let header = request_verdict(request, caller, class, head, stderr, variables).await;
    handler_state.verdict(request, caller, header)
}

/// Asks a server that already runs.
pub async fn authorize_at(
    request: &mut Request,
    caller: &Caller,
    server: &RemoteServer,
    protocol: &'static RemoteProtocol,
    stderr: StderrMessages,
    variables: &[(&str, &str)],
) -> Verdict {
    request.before_programs().await;
    let handler_state = HandlerState::of(request);
    let kind = &server.kind();
    let call = RemoteCall { caller, server, kind, protocol, head: &AUTHORIZER, stderr, attempt: None };
    let header = request_verdict_at(request, call, variables).await;
    handler_state.verdict(request, caller, header)
}

/// The body and variables that are for the handler of the request, not for an application that is asked before it.
struct HandlerState {
    body: RequestBody,
    env: Fields,
    cost: Option<Arc<ScriptUse>>,
}

impl HandlerState {
    fn of(request: &mut Request) -> HandlerState {
        let body = std::mem::take(&mut request.body);
        HandlerState { body, env: request.env.clone(), cost: request.account.script.take() }
    }

    /// Puts them back, and returns the meaning of the response.
    fn verdict(self, request: &mut Request, caller: &Caller, header: Result<ResponseHeader, u16>) -> Verdict {
        (request.body, request.env, request.account.script) = (self.body, self.env, self.cost);
        match header {
            Ok(header) => judge(request, header, caller),
            Err(status) => Verdict::Failed(status),
        }
    }
}

async fn request_verdict(
    request: &mut Request,
    caller: &Caller,
    class: &EncodedClass,
    head: &Head,
    stderr: StderrMessages,
    variables: &[(&str, &str)],
) -> Result<ResponseHeader, u16> {
    let bytes = request_bytes(request, head, variables, true).await?;
    // An authorizer only decides, so asking again is safe for any request.
    let call =
        PoolCall { call: BackendCall { caller, head, stderr, tunnel: None }, class, may_repeat: true, span: None };
    let script = call.begin(request, bytes).await?;
    read_response(request, script, caller).await
}

async fn request_verdict_at(
    request: &mut Request,
    call: RemoteCall<'_>,
    variables: &[(&str, &str)],
) -> Result<ResponseHeader, u16> {
    let bytes = request_bytes(request, call.head, variables, false).await?;
    let script = call.begin(request, bytes).await?;
    read_response(request, script, call.caller).await
}

/// The head of a question to a FastCGI application.
pub const AUTHORIZER: Head = Head::FastCgi(Role::Authorizer);

/// The bytes to send to an application.
async fn request_bytes(
    request: &mut Request,
    head: &Head,
    variables: &[(&str, &str)],
    keep: bool,
) -> Result<Vec<u8>, u16> {
    env::add(request).await;
    if head.protocol() == Protocol::FastCgi {
        WITHHELD.iter().for_each(|name| request.env.remove(name));
        request.env.set("HTTP_CONNECTION", "close");
    }
    for (name, value) in variables {
        request.env.set(name.to_string(), value.to_string());
    }
    head.bytes(request, keep).map_err(|_| 500)
}

async fn read_response(request: &mut Request, script: Script, caller: &Caller) -> Result<ResponseHeader, u16> {
    let (mut script, header) = response::read_header(request, script, caller).await?;
    // The rest of its output is for nobody.
    if let Err(event) = script.drain(request).await {
        return Err(script.fail(request, event));
    }
    Ok(header)
}

/// The meaning of a header: 200 is yes, everything else is no.
fn judge(request: &mut Request, mut header: ResponseHeader, caller: &Caller) -> Verdict {
    let status = header.status.take().map_or(Some(200), |text| text.trim().get(..3)?.parse().ok());
    let (variables, others): (Vec<_>, Vec<_>) = std::mem::take(&mut header.fields)
        .into_iter()
        .partition(|(name, _)| name.get(..VARIABLE.len()).is_some_and(|start| start.eq_ignore_ascii_case(VARIABLE)));
    let is_allowed = status == Some(200) && header.location.is_none();
    let location = header.location.take().filter(|_| status.is_some_and(|status| (300..400).contains(&status)));
    let header = ResponseHeader { fields: others, location, ..ResponseHeader::default() };
    if let Err(status) = response::apply(request, header, caller.module, true) {
        return Verdict::Failed(status);
    }
    if is_allowed {
        for (name, value) in variables {
            request.env.set(name[VARIABLE.len()..].to_string(), value);
        }
        return Verdict::Allowed;
    }
    request.log(
        caller.module,
        Level::Debug,
        format!("an application answers {status:?} for {}, which is a refusal", request.data.uri),
    );
    Verdict::Refused(status.filter(|status| (300..600).contains(status)).unwrap_or(401))
}

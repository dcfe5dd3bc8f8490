//! Applications that say whether a request is allowed (FastCGI specification, section 6.3).

use conf::Level;
use server::Request;

use super::run::{TRIES, begin, no_backend};
use super::{Class, Head, Lease};
use crate::caller::Caller;
use crate::protocol::fastcgi::Role;
use crate::reply::Reply;
use crate::script::conversation::Speech;
use crate::{answer, env, respond};

/// Fields whose names begin like this are variables for what handles the request.
const VARIABLE: &str = "Variable-";
/// The variables that such an application does not get: it does not handle the request.
const NOT_TOLD: [&str; 9] = [
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

/// What an application says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is allowed.
    Allowed,
    /// It is not: the status of the answer.
    Refused(u16),
    /// Nothing: there is no answer of it, and this is the status.
    Failed(u16),
}

/// Asks an application of the class. `told` is what it gets besides the variables of the request.
pub async fn authorize(
    request: &mut Request,
    caller: &Caller,
    class: &Class,
    speech: Speech,
    told: &[(&str, &str)],
) -> Verdict {
    // The body is for what handles the request, and so are its variables.
    let (body, own) = (std::mem::take(&mut request.body), request.env.clone());
    let cost = request.account.script.take();
    let verdict = ask(request, caller, class, speech, told).await;
    (request.body, request.env, request.account.script) = (body, own, cost);
    match verdict {
        Ok(reply) => judge(request, reply, caller),
        Err(status) => Verdict::Failed(status),
    }
}

async fn ask(
    request: &mut Request,
    caller: &Caller,
    class: &Class,
    speech: Speech,
    told: &[(&str, &str)],
) -> Result<Reply, u16> {
    env::add(request).await;
    NOT_TOLD.iter().for_each(|name| request.env.remove(name));
    request.env.set("HTTP_CONNECTION", "close");
    for (name, value) in told {
        request.env.set(name.to_string(), value.to_string());
    }
    let head = Head::FastCgi(Role::Authorizer);
    let bytes = head.bytes(request, true).map_err(|_| 500_u16)?;
    let mut tries = 1;
    let script = loop {
        let (lease, stream) = match Lease::of(class).await {
            Ok(got) => got,
            Err(none) => return Err(no_backend(request, caller, class, none)),
        };
        let again = lease.served > 0 && tries < TRIES;
        match begin(request, &head, stream, Some(lease), bytes.clone(), caller, speech).await {
            Ok(script) => break script,
            Err(failure) if failure.lost && again => tries += 1,
            Err(failure) => {
                request.log(caller.module, failure.level, failure.text);
                return Err(failure.status);
            }
        }
    };
    let (mut script, reply) = respond::header(request, script, caller).await?;
    // What it says besides is for nobody.
    if let Err(event) = script.drain(request).await {
        return Err(script.fail(request, event));
    }
    Ok(reply)
}

/// What a header means: 200 is yes, everything else is no.
fn judge(request: &mut Request, mut reply: Reply, caller: &Caller) -> Verdict {
    let status = reply.status.take().map_or(Some(200), |text| text.trim().get(..3)?.parse().ok());
    let (variables, others): (Vec<_>, Vec<_>) = std::mem::take(&mut reply.fields)
        .into_iter()
        .partition(|(name, _)| name.get(..VARIABLE.len()).is_some_and(|start| start.eq_ignore_ascii_case(VARIABLE)));
    let is_allowed = status == Some(200) && reply.location.is_none();
    let location = reply.location.take().filter(|_| status.is_some_and(|status| (300..400).contains(&status)));
    let reply = Reply { fields: others, location, ..Reply::default() };
    let name = request.mapped.filename.clone();
    if let Err(status) = answer::apply(request, reply, caller.module, &name) {
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
        format!("an application answers {status:?} for {}, which is no", request.asked.uri),
    );
    Verdict::Refused(status.filter(|status| (300..600).contains(status)).unwrap_or(401))
}

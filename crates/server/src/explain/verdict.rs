//! What a request comes to, and why. Nothing is worked out here: the reason is the one that was noted where the status was
//! decided, or what the error log has of it.

use conf::Level;

use crate::request::{Request, TO_BACKEND};
use crate::trace::{ERROR_DOCUMENT, HANDLER, Note, Reason, Step};

/// What the client gets, and why.
#[derive(Debug)]
pub struct Verdict {
    /// The status; `None`: a script or another server chooses it, and was not asked.
    pub status: Option<u16>,
    /// Why.
    pub reason: Reason,
    /// The error that the response stands for, where the status is another one.
    pub instead_of: Option<Reason>,
    /// The path of the error document that is the response's page.
    pub page: Option<String>,
}

/// Of a request at its end. `waits`: it came no further than to the module that would have to make the response, or not even there.
pub(super) fn of(request: &Request, steps: &[Step], waits: Option<Option<&str>>) -> Verdict {
    let mut all = Vec::new();
    flatten(steps, &mut all);
    let document = all.iter().position(|step| matches!(step, Step::Path(_, ERROR_DOCUMENT)));
    let error = document.and_then(|_| first_error(request));
    let status = match waits {
        None => Some(request.response.status()),
        // The listing of a directory that can be read.
        Some(Some("autoindex")) => error.or(Some(request.response.status())),
        // A script may say another one, and seldom does.
        Some(_) => error,
    };
    let before = &all[..document.unwrap_or(all.len())];
    let reason = match status {
        // Before the handler, a program or another server may be asked whether the request is let in.
        None => why(before, 0).unwrap_or_else(|| to_be_made(request, waits.flatten())),
        Some(status) => why(before, status)
            .or_else(|| document.and_then(|at| why(&all[at..], status)))
            .unwrap_or_else(|| made(request, handler(&all), status)),
    };
    // The core sends nobody elsewhere, unless an error document is at another server.
    let is_elsewhere = status == Some(302) && reason.module == "core";
    let hidden = error.or_else(|| decided(before).filter(|_| is_elsewhere)).filter(|error| Some(*error) != status);
    let page = document.filter(|_| status == error).map(|_| request.data.uri.clone());
    Verdict { status, reason, instead_of: hidden.and_then(|error| why(before, error)), page }
}

/// Steps of subrequests among those of the request.
fn flatten<'a>(steps: &'a [Step], all: &mut Vec<&'a Step>) {
    for step in steps {
        match step {
            Step::Adopted(inner) => flatten(inner, all),
            step => all.push(step),
        }
    }
}

/// The error that led to an error document.
fn first_error(request: &Request) -> Option<u16> {
    let all = std::iter::successors(request.previous(), |previous| previous.before.as_ref());
    all.map(|previous| previous.status).filter(|status| *status >= 400).last()
}

/// The last status that a module ended the request with.
fn decided(steps: &[&Step]) -> Option<u16> {
    steps.iter().rev().find_map(|step| match step {
        Step::Decided(_, _, status) => *status,
        _ => None,
    })
}

/// Why the steps ended with this status.
fn why(steps: &[&Step], status: u16) -> Option<Reason> {
    let decider = steps.iter().rev().find_map(|step| match step {
        Step::Decided(phase, module, Some(with)) if *with == status => Some((*phase, *module)),
        _ => None,
    });
    let is_by = |module: &str| decider.is_none_or(|(_, decider)| decider == module);
    let fact = |module: &str, text: String| Reason {
        status,
        module: module.to_string(),
        cause: text,
        origin: None,
        effect: String::new(),
    };
    let noted = steps.iter().rev().find_map(|step| match step {
        Step::Reason(reason) if reason.status == status => Some(reason.clone()),
        Step::Logged(module, level, text) if status >= 400 && *level <= Level::Error && is_by(module) => {
            Some(fact(module, without_number(text)))
        }
        _ => None,
    });
    let (phase, module) = match (noted, decider) {
        (Some(reason), _) => return Some(reason),
        (None, None) => return None,
        (None, Some(decider)) => decider,
    };
    let own_words = steps.iter().rev().find_map(|step| match step {
        Step::Logged(who, level, text) if who == module && *level <= Level::Info => {
            Some(fact(module, without_number(text)))
        }
        Step::Note(Note { module: who, text, origin, counts: true }) if *who == module => {
            Some(Reason { origin: origin.clone(), ..fact(module, text.clone()) })
        }
        _ => None,
    });
    Some(own_words.unwrap_or_else(|| fact(module, format!("decided by mod_{module} in the phase \"{phase}\""))))
}

/// The text of a message without its number in Apache (`AH01630: `), which may have a system error in front of it.
fn without_number(text: &str) -> String {
    let number = text.match_indices("AH").find(|(at, _)| {
        let digits = text.as_bytes().get(at + 2..at + 7);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_digit)) && text[at + 7..].starts_with(": ")
    });
    number.map_or_else(|| text.to_string(), |(at, _)| format!("{}{}", &text[..at], &text[at + 9..]))
}

/// The module that made the response.
fn handler<'a>(steps: &[&'a Step]) -> &'a str {
    let last = steps.iter().rev().find_map(|step| match step {
        Step::Decided(HANDLER, module, _) => Some(*module),
        _ => None,
    });
    last.unwrap_or("core")
}

/// The URL of another server that makes the response.
fn backend(request: &Request) -> Option<&str> {
    let mapped = &request.mapped;
    mapped.backend_url().or_else(|| mapped.handler.as_deref()?.strip_prefix(TO_BACKEND))
}

/// What a response is made of that nobody refused, and by whom.
fn made(request: &Request, module: &str, status: u16) -> Reason {
    let handler = request.mapped.handler.as_deref().filter(|name| !name.is_empty());
    let what = match (module, &*request.data.method, handler) {
        ("core", "OPTIONS", _) => "the methods that are allowed".into(),
        ("core", "TRACE", _) => "the request as it was sent".into(),
        ("autoindex", ..) => format!("a listing of {}", request.mapped.filename),
        _ if request.mapped.stat.is_some() => request.mapped.filename.clone(),
        (_, _, Some(name)) => format!("the handler {name}"),
        _ => request.data.uri.clone(),
    };
    // The listing of a directory gets its own type when it is made.
    let kind = request.response.content_type().filter(|kind| *kind != "httpd/unix-directory");
    let kind = kind.map_or_else(String::new, |kind| format!(", {kind}"));
    let cause = format!("{what}{kind}, by {}", by(module));
    Reason { status, module: module.to_string(), cause, origin: None, effect: String::new() }
}

/// What would make the response, and was not asked to.
fn to_be_made(request: &Request, module: Option<&str>) -> Reason {
    let reason = |cause: &str, effect| {
        let module = module.unwrap_or("core").to_string();
        Reason { status: 0, module, cause: cause.to_string(), origin: None, effect }
    };
    let Some(by) = module.map(by) else {
        let text = "the answer depends on something that takes too long to find out: see the last step";
        return reason(text, String::new());
    };
    match backend(request) {
        Some(url) => reason(&format!("{by} would ask {url}, which chooses the status"), String::new()),
        None => reason(&format!("{by} would run {}, which chooses the status", request.mapped.filename), String::new()),
    }
}

fn by(module: &str) -> String {
    if module == "core" { "the default handler".into() } else { format!("mod_{module}") }
}

#[cfg(test)]
mod tests {
    use super::without_number;

    #[test]
    fn numbers_of_messages_are_left_out() {
        assert_eq!(without_number("AH01630: client denied: /x"), "client denied: /x");
        assert_eq!(without_number("(13)Permission denied: AH00132: no: /x"), "(13)Permission denied: no: /x");
        assert_eq!(without_number("AHA: nothing handles php"), "AHA: nothing handles php");
    }
}

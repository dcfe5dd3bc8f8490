//! FastCGI applications that decide about access: the common part of mod_fcgid and mod_fastcgi.

use conf::{Allowed, Cmd, Level, Outcome, Setting, settings};
use gateway::backend::{AUTHORIZER, Class, Verdict, authorize};
use gateway::{Caller, StderrMessages};
use server::{Flow, Request};

use super::arguments::check_accessible;
use crate::aaa::mod_auth_basic::{challenge_of, credentials};
use crate::aaa::mod_authn_core::auth_type;

/// Whether an application's refusal is final by default.
pub(super) const AUTHORITATIVE: bool = true;

settings! {
    /// The applications that decide about access to a section, and whether their refusal is final.
    pub struct Checkers {
        authenticator: Setting<String>,
        authenticator_decides: Setting<bool> = AUTHORITATIVE,
        authorizer: Setting<String>,
        authorizer_decides: Setting<bool> = AUTHORITATIVE,
        access_checker: Setting<String>,
        access_checker_decides: Setting<bool> = AUTHORITATIVE,
    }
}

/// What an application is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Authenticates the user by the password.
    Authenticator,
    /// Authorizes the user.
    Authorizer,
    /// Decides by the origin of the request.
    AccessChecker,
}

impl Check {
    /// Its name in messages, and for the application.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Check::Authenticator => ("Authenticator", "AUTHENTICATOR"),
            Check::Authorizer => ("Authorizer", "AUTHORIZER"),
            Check::AccessChecker => ("Access checker", "ACCESS_CHECKER"),
        }
    }

    fn application(self, dir: &Checkers) -> Option<&String> {
        match self {
            Check::Authenticator => dir.authenticator.get(),
            Check::Authorizer => dir.authorizer.get(),
            Check::AccessChecker => dir.access_checker.get(),
        }
    }
}

/// Takes the path of an application, which must exist.
pub(super) fn set(cmd: &mut Cmd<'_>, check: Check, path: &str) -> Outcome {
    let path = cmd.context.server_relative(path);
    check_accessible(cmd, check.names().0, &path)?;
    match check {
        Check::Authenticator => cmd.set(|dir: &mut Checkers| &mut dir.authenticator, path),
        Check::Authorizer => cmd.set(|dir: &mut Checkers| &mut dir.authorizer, path),
        Check::AccessChecker => cmd.set(|dir: &mut Checkers| &mut dir.access_checker, path),
    }
}

/// Takes whether its refusal is final.
pub(super) fn set_decides(cmd: &mut Cmd<'_>, check: Check, on: bool) -> Outcome {
    match check {
        Check::Authenticator => cmd.set(|dir: &mut Checkers| &mut dir.authenticator_decides, on),
        Check::Authorizer => cmd.set(|dir: &mut Checkers| &mut dir.authorizer_decides, on),
        Check::AccessChecker => cmd.set(|dir: &mut Checkers| &mut dir.access_checker_decides, on),
    }
}

/// Whether an application makes this check.
pub(super) fn is_asked(request: &Request, check: Check) -> bool {
    check.application(request.dir::<Checkers>()).is_some()
}

/// The way a module runs the application with this path.
pub(super) type Run = fn(&Request, &str) -> Option<(Class, Caller, StderrMessages)>;

/// Asks the application that makes the check.
pub(super) async fn check(request: &mut Request, check: Check, run: Run) -> Flow {
    let slots = request.dir.slots.clone();
    let dir = slots.get::<Checkers>();
    let Some(path) = check.application(dir) else { return Flow::Declined };
    let decides = match check {
        Check::Authenticator => dir.authenticator_decides(),
        Check::Authorizer => dir.authorizer_decides(),
        Check::AccessChecker => dir.access_checker_decides(),
    };
    let mut told = vec![("FCGI_APACHE_ROLE", check.names().1)];
    let password;
    if check == Check::Authenticator {
        let name = match auth_type(request) {
            Ok(Some(name)) if name.eq_ignore_ascii_case("Basic") => name,
            _ => return Flow::Declined,
        };
        request.login.auth_type = Some(name);
        let Some((user, secret)) = credentials(request) else {
            challenge_of(request);
            return Flow::Status(401);
        };
        request.login.user = Some(user);
        password = secret;
        told.push(("REMOTE_PASSWD", &password));
    }
    let Some((class, caller, stderr)) = run(request, path) else { return Flow::Status(500) };
    let would =
        |_: &Request| (format!("mod_{} would ask {path}, which decides about access", caller.module), String::new());
    request.note_reason(0, caller.module, None, would);
    match authorize(request, &caller, &class.encoded(), &AUTHORIZER, stderr, &told).await {
        Verdict::Allowed => Flow::Ok,
        // A failure never grants access.
        Verdict::Failed(status) => Flow::Status(status),
        Verdict::Refused(_) if !decides => Flow::Declined,
        Verdict::Refused(status) => {
            let text = format!("{} {path} refuses {} with status {status}", check.names().0, request.data.uri);
            request.log(caller.module, Level::Error, text);
            if status == 401 && request.response.err_headers_out.get("WWW-Authenticate").is_none() {
                challenge_of(request);
            }
            Flow::Status(status)
        }
    }
}

/// The hooks of a module that has such applications.
macro_rules! hooks {
    ($check:ident, $run:path) => {
        server::PhaseHook::Later {
            claims: |request| {
                crate::generators::fastcgi_auth::is_asked(request, crate::generators::fastcgi_auth::Check::$check)
            },
            run: |request| {
                Box::pin(crate::generators::fastcgi_auth::check(
                    request,
                    crate::generators::fastcgi_auth::Check::$check,
                    $run,
                ))
            },
        }
    };
}
pub(super) use hooks;

/// The contexts in which an access-checking application may be named.
pub(super) const ACCESS: Allowed = Allowed::FILEINFO;

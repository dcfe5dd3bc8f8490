//! Scripts that decide about access: `WSGIAccessScript`, `WSGIAuthUserScript` and `WSGIAuthGroupScript`.
//!
//! A script defines `allow_access`, `check_password` or `groups_for_user`. Whatever goes wrong with it refuses the request.

use std::sync::Arc;

use conf::words::words;
use conf::{Cmd, Level, Outcome, Refusal, Setting, settings};
use gateway::Caller;
use gateway::backend::{Class, Head, Verdict, authorize};
use server::authz::{Authn, AuthnProvider, AuthzCheck, AuthzProvider, Parsed, Verdict as Right};
use server::core::CoreServer;
use server::{Flow, Request};

use super::pool::Application;
use super::settings::{STDERR, TIMEOUT_MESSAGE};

/// The variable in which a script names the user otherwise than the client does.
const USER: &str = "WSGI_USER";

/// A script, and the application group whose processes run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    file: String,
    application_group: String,
}

settings! {
    /// The scripts that decide about access to a section.
    pub struct Checkers {
        pub(super) access: Setting<Script>,
        pub(super) users: Setting<Script>,
        pub(super) groups: Setting<Script>,
    }
}

/// Sets one of the scripts.
pub(super) fn set(cmd: &mut Cmd<'_>, line: &str, field: fn(&mut Checkers) -> &mut Setting<Script>) -> Outcome {
    let words = words(line);
    let [file, options @ ..] = &words[..] else {
        return Err(Refusal::missing(format!("{} needs the path of a script", cmd.node.name)));
    };
    let mut script = Script { file: cmd.context.server_relative(file), application_group: String::new() };
    for (at, option) in options.iter().enumerate() {
        match option.split_once('=') {
            Some(("application-group", name)) => script.application_group = name.to_string(),
            _ => return Err(Refusal::argument(at + 2, format!("Invalid option of {}: {option}", cmd.node.name))),
        }
    }
    cmd.set(field, script)
}

/// `AuthBasicProvider wsgi`
pub(super) static PASSWORDS: AuthnProvider = AuthnProvider {
    name: "wsgi",
    check: |request, user, password| Box::pin(check_password(request, user, password)),
    realm_hash: None,
};

/// `Require wsgi-group`
pub(super) static GROUPS: AuthzProvider = AuthzProvider {
    name: "wsgi-group",
    parse: |_, names| Ok(Arc::new(words(names))),
    check: AuthzCheck::Later(|request, names| Box::pin(is_member(request, names))),
};

/// Whether a script decides by the origin of the request.
pub(super) fn is_asked(request: &Request) -> bool {
    request.dir::<Checkers>().access.is_set()
}

/// Asks the script that decides by the origin of the request.
pub(super) async fn check_access(request: &mut Request) -> Flow {
    let Some(script) = request.dir::<Checkers>().access.get().cloned() else { return Flow::Declined };
    let host = request.client_name().map_or_else(|| request.client().ip().to_string(), str::to_string);
    match ask(request, &script, "allow_access", &[("host", &host)]).await {
        Verdict::Allowed => Flow::Ok,
        Verdict::Refused(404) => Flow::Declined,
        Verdict::Refused(_) | Verdict::Failed(_) => {
            let text = format!("Client denied by server configuration: '{}'.", request.mapped.filename);
            request.log("wsgi", Level::Error, text);
            Flow::Status(403)
        }
    }
}

async fn check_password(request: &mut Request, user: &str, password: &str) -> Authn {
    let Some(script) = request.dir::<Checkers>().users.get().cloned() else {
        request.log("wsgi", Level::Error, "Location of WSGI user authentication script not provided.");
        return Authn::Error;
    };
    match ask(request, &script, "check_password", &[("user", user), ("password", password)]).await {
        Verdict::Allowed => {
            if let Some(name) = request.env.get(USER).map(str::to_string) {
                request.env.remove(USER);
                request.login.user = Some(name);
            }
            Authn::Granted
        }
        Verdict::Refused(404) => Authn::UserNotFound,
        Verdict::Refused(403) => Authn::Denied,
        Verdict::Refused(_) | Verdict::Failed(_) => Authn::Error,
    }
}

async fn is_member(request: &mut Request, names: &Parsed) -> Right {
    let Some(user) = request.login.user.clone() else { return Right::DeniedNoUser };
    let Some(names) = names.downcast_ref::<Vec<String>>() else { return Right::Error };
    let Some(script) = request.dir::<Checkers>().groups.get().cloned() else {
        request.log("wsgi", Level::Error, "Location of WSGI group authorization script not provided.");
        return Right::Denied;
    };
    let groups = names.join("\n");
    match ask(request, &script, "groups_for_user", &[("user", &user), ("groups", &groups)]).await {
        Verdict::Allowed => Right::Granted,
        Verdict::Refused(_) | Verdict::Failed(_) => {
            let text = format!(
                "Authorization of user '{user}' to access '{}' failed. User is not a member of designated groups.",
                request.data.uri
            );
            request.log("wsgi", Level::Error, text);
            Right::Denied
        }
    }
}

/// Calls a function of a script. The fields are what only this call is told.
async fn ask(
    request: &mut Request,
    script: &Script,
    function: &'static str,
    fields: &[(&'static str, &str)],
) -> Verdict {
    // The protocol would leave the zero byte out, and the script would decide about somebody else.
    if fields.iter().any(|(_, value)| value.contains('\0')) {
        return Verdict::Failed(400);
    }
    let application = Application::of_script(request, &script.application_group);
    let mut call = application.call(request, None, function, &script.file);
    fields.iter().for_each(|(name, value)| call.add(name, value));
    let Some(class) = application.class_of(request.vhost, &script.file, None) else { return Verdict::Failed(500) };
    // The script may be an application, too, whose processes come and go otherwise.
    let class = Class { name: format!("wsgi access|{} {}", script.application_group, script.file), ..class };
    let caller = Caller::new("wsgi", &TIMEOUT_MESSAGE, request.host::<CoreServer>().timeout());
    let would =
        |_: &Request| (format!("mod_wsgi would ask {}, which decides about access", script.file), String::new());
    request.note_reason(0, caller.module, None, would);
    let path_info = request.mapped.path_info.clone();
    authorize(request, &caller, &class.encoded(), &Head::Runtime(call), STDERR, &[("PATH_INFO", &path_info)]).await
}

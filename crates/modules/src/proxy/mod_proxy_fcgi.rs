//! FastCGI to servers that already run, such as PHP-FPM.
//!
//! Apache manual: mod_proxy_fcgi. The variables of each case were measured on 2.4.71.

use std::sync::Arc;

use conf::directive::Args::{Take1, Take23};
use conf::expr::{Eval, Expr, StringExpr};
use conf::{
    Allowed, Cmd, Directive, InArgument as _, Level, Listed, ModuleInfo, Origin, Outcome, Refusal, Setting, row,
    settings,
};
use gateway::StderrMessages;
use gateway::backend::Head;
use gateway::backend::remote::RemoteProtocol;
use gateway::protocol::fastcgi::Role;
use http::text::{from_bytes, to_bytes};
use server::{HandlerResult, Module, Request, evaluate_keeping, evaluate_string_keeping};

use super::mod_proxy::{BackendProtocol, Destination, Scheme, Target, prepare, respond};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "proxy_fcgi_module", source: "mod_proxy_fcgi.c", linked: false, directives: DIRECTIVES },
    hooks: &[],
};

/// `fcgi://`, for mod_proxy.
pub(super) const SCHEME: Scheme = Scheme {
    name: "fcgi",
    module: "proxy_fcgi_module",
    port: 8000,
    query: false,
    reuse: false,
    upgrade: None,
    path: set_path_info,
    handler: Some(|request, destination| Box::pin(handle(request, destination))),
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ProxyFCGIBackendType", Allowed::FILEINFO, Take1(set_type), "FPM", "Specify the type of FastCGI server: 'Generic', 'FPM'"),
    row("ProxyFCGISetEnvIf", Allowed::FILEINFO, Take23(add_variable), "", "expr-condition env-name expr-value"),
];

settings! {
    /// The module's settings of a section.
    pub struct ProxyFcgiDir {
        generic: Setting<bool> = false,
        variables: Listed<Arc<Variable>>,
    }
}

/// `ProxyFCGISetEnvIf`
#[derive(Debug)]
struct Variable {
    condition: Expr,
    name: String,
    /// `None`: it is removed.
    value: Option<StringExpr>,
}

static PROTOCOL: RemoteProtocol = RemoteProtocol {
    name: "FCGI",
    unconnected: |name| format!("AH01079: failed to make connection to backend: {name}"),
    failed: |name| format!("AH01075: Error dispatching request to {name}"),
    status: 503,
    status_line: false,
};

const STDERR: StderrMessages =
    StderrMessages { text: |_, line| format!("AH01071: Got error '{line}'"), level: |_| Some(Level::Error) };

fn set_type(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let generic = match value.to_ascii_lowercase().as_str() {
        "generic" => true,
        "fpm" => false,
        _ => return Err("ProxyFCGIBackendType requires one of the following arguments: 'GENERIC', 'FPM'".into()),
    };
    cmd.set(|d: &mut ProxyFcgiDir| &mut d.generic, generic)
}

fn add_variable(cmd: &mut Cmd<'_>, condition: &str, name: &str, value: Option<&str>) -> Outcome {
    let options = cmd.expr_options();
    let parsed = Expr::parse_with(condition, options);
    let condition = parsed.map_err(|error| {
        Refusal::expression(1, 0, &error, format!("Could not parse expression \"{condition}\": {error}"))
    })?;
    let (name, value) = match name.strip_prefix('!') {
        Some(name) => (name, None),
        None => {
            let text = value.unwrap_or_default();
            let value = StringExpr::parse_with(text, options)
                .map_err(|why| format!("Could not parse expression \"{text}\": {why}"))
                .in_argument(3)?;
            (name, Some(value))
        }
    };
    let variable = Arc::new(Variable { condition, name: name.to_string(), value });
    cmd.push(|d: &mut ProxyFcgiDir| &mut d.variables, variable)
}

/// The variable `proxy-fcgi-pathinfo`: the part of the path that is `PATH_INFO`.
fn set_path_info(request: &mut Request, target: &Target) {
    let Some(how) = request.env.get("proxy-fcgi-pathinfo").map(str::to_ascii_lowercase) else { return };
    let path = &target.path;
    let dot = match how.as_str() {
        // `full` needs a look at the disk, when the variables are made.
        "full" => return,
        "first-dot" => path.find('.'),
        "last-dot" => path.rfind('.'),
        "unescape" => {
            request.mapped.path_info = unescaped(path);
            return;
        }
        _ => {
            request.mapped.path_info = path.clone();
            return;
        }
    };
    if let Some(slash) = dot.and_then(|dot| path[dot..].find('/').map(|slash| dot + slash)) {
        request.mapped.path_info = unescaped(&path[slash..]);
    }
}

fn unescaped(path: &str) -> String {
    from_bytes(&http::uri::unescape_lenient(&to_bytes(path))).into_owned()
}

async fn handle(request: &mut Request, destination: Arc<Destination>) -> HandlerResult {
    let full = request.env.get("proxy-fcgi-pathinfo").is_some_and(|how| how.eq_ignore_ascii_case("full"));
    if full {
        let found = request.lookup_named(&unescaped(&destination.target.path)).await;
        if let Some(found) = found {
            request.mapped.filename.clone_from(&found.mapped.filename);
            request.mapped.path_info.clone_from(&found.mapped.path_info);
        }
    } else if request.dir::<ProxyFcgiDir>().generic() {
        // PHP-FPM removes the rest itself, and recognises the server by it.
        request.mapped.filename.clone_from(&destination.target.path);
    }
    if let Err(answer) = prepare(request, "proxy_fcgi").await {
        return answer;
    }
    if let Err(status) = set_variables(request) {
        return HandlerResult::Status(status);
    }
    let how = BackendProtocol {
        module: "proxy_fcgi",
        head: Head::FastCgi(Role::Responder),
        protocol: &PROTOCOL,
        stderr: STDERR,
    };
    respond(request, &destination, &how).await
}

/// `ProxyFCGISetEnvIf`, whose conditions see the results of earlier ones.
fn set_variables(request: &mut Request) -> Result<(), u16> {
    let slots = request.dir.slots.clone();
    for (variable, origin) in slots.get::<ProxyFcgiDir>().variables.entries() {
        set_variable(request, variable, origin)?;
    }
    Ok(())
}

fn set_variable(request: &mut Request, variable: &Variable, origin: &Origin) -> Result<(), u16> {
    let mut eval = Eval::default();
    let holds = evaluate_keeping(request, &variable.condition, &mut eval);
    let value = holds.and_then(|holds| match (&variable.value, holds) {
        (_, false) => Ok(None),
        (None, true) => Ok(Some(None)),
        (Some(value), true) => evaluate_string_keeping(request, value, &mut eval).map(|text| Some(Some(text))),
    });
    match value {
        Ok(Some(Some(text))) => request.env.set(variable.name.clone(), text),
        Ok(Some(None)) => request.env.remove(&variable.name),
        Ok(None) => {}
        Err(why) => {
            request.not_evaluated("proxy_fcgi", &why, origin);
            return Err(500);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn lines_as_apache_takes_them() {
        check(&[
            ("ProxyFCGIBackendType fpm", ""),
            (
                "ProxyFCGIBackendType x",
                "ProxyFCGIBackendType requires one of the following arguments: 'GENERIC', 'FPM'",
            ),
            ("ProxyFCGISetEnvIf true !A", ""),
            ("ProxyFCGISetEnvIf true A %{REQUEST_URI}", ""),
            (
                "ProxyFCGISetEnvIf true",
                "ProxyFCGISetEnvIf takes two or three arguments, expr-condition env-name expr-value",
            ),
        ]);
    }
}

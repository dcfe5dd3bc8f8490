//! The data of a request that expressions can access.

use std::borrow::Cow;
use std::cell::RefCell;
use std::net::IpAddr;

use conf::expr::{Access, Eval, EvalError, Expr, FileError, FileTest, MAX_FILE_SIZE, StringExpr, Subject, Variable};
use http::date::Civil;

use crate::message::fields::add_vary;
use crate::paths::{c_path, os_path};
use crate::phases::subrequest::at_once;
use crate::request::{Request, RequestKind};

/// Evaluates a condition, and adds the fields of the request that decided it to `Vary`.
pub fn evaluate(request: &mut Request, expr: &Expr) -> Result<bool, EvalError> {
    evaluate_keeping(request, expr, &mut Eval::new())
}

/// Like [`evaluate`], but `eval` keeps the groups of the last match.
pub fn evaluate_keeping(request: &mut Request, expr: &Expr, eval: &mut Eval) -> Result<bool, EvalError> {
    let asked = OfRequest::new(request, None);
    let result = expr.eval(&asked, eval);
    let vary = asked.vary.into_inner();
    note_deciding(request, vary);
    result
}

/// Like [`evaluate`], but subrequests in the condition (`-U`, `-F`) may wait; also returns the groups of the last match.
pub async fn evaluate_waiting(request: &mut Request, expr: &Expr) -> Result<(bool, Eval), EvalError> {
    // The condition is evaluated again with each result, until it needs no more.
    let mut answers = Vec::new();
    loop {
        let mut eval = Eval::new();
        let asked = OfRequest::new(request, Some(&answers));
        let result = expr.eval(&asked, &mut eval);
        let (vary, missing) = (asked.vary.into_inner(), asked.missing.into_inner());
        match missing {
            Some((access, target)) if answers.len() < LOOKUPS_MAX => {
                let answer = Box::pin(look_up(request, access, &target)).await;
                answers.push((access, target, answer));
            }
            _ => {
                note_deciding(request, vary);
                return result.map(|holds| (holds, eval));
            }
        }
    }
}

/// The most subrequests of one condition.
const LOOKUPS_MAX: usize = 100;

/// Adds request fields that decided something to `Vary`.
fn note_deciding(request: &mut Request, vary: Vec<String>) {
    // A log's condition does not change the response, which has gone out and may go out again.
    if request.account.sent.head.is_some() {
        return;
    }
    for name in vary {
        add_vary(&mut request.response.headers_out, &name);
    }
}

/// Whether the client may access a target. `None`: unknown.
async fn look_up(request: &Request, access: Access, target: &str) -> Option<bool> {
    let found = match access {
        Access::Url => request.lookup_link(target).await,
        Access::File => match request.lookup_named(target).await {
            Some(found) => found,
            None => return Some(false),
        },
    };
    let is_found = access == Access::Url || found.mapped.stat.is_some_and(|meta| meta.is_file());
    (!found.is_undecided()).then(|| is_found && found.response.status() < 400)
}

/// Evaluates a text.
pub fn evaluate_string(request: &Request, expr: &StringExpr) -> Result<String, EvalError> {
    evaluate_string_keeping(request, expr, &mut Eval::new())
}

/// Like [`evaluate_string`], but `$1` in the text refers to the groups in `eval`.
pub fn evaluate_string_keeping(request: &Request, expr: &StringExpr, eval: &mut Eval) -> Result<String, EvalError> {
    if let Some(text) = expr.constant() {
        return Ok(text.to_string());
    }
    expr.eval(&OfRequest::new(request, None), eval).map(Cow::into_owned)
}

/// The targets looked up, and whether the client may access them, if that is known.
type Answers = [(Access, String, Option<bool>)];

struct OfRequest<'a> {
    request: &'a Request,
    vary: RefCell<Vec<String>>,
    /// The results so far, if subrequests may wait.
    answers: Option<&'a Answers>,
    /// The next target to look up.
    missing: RefCell<Option<(Access, String)>>,
}

impl<'a> OfRequest<'a> {
    fn new(request: &'a Request, answers: Option<&'a Answers>) -> OfRequest<'a> {
        OfRequest { request, vary: RefCell::default(), answers, missing: RefCell::default() }
    }
}

impl Subject for OfRequest<'_> {
    fn variable(&self, variable: Variable) -> Result<Cow<'_, str>, EvalError> {
        value(self.request, variable)
    }

    fn header_in(&self, name: &str) -> Option<Cow<'_, str>> {
        self.request.header_joined(name)
    }

    fn header_out(&self, name: &str) -> Option<Cow<'_, str>> {
        let request = self.request;
        // The media type becomes a field when the head goes out, as in Apache; until then `%{CONTENT_TYPE}` shows it.
        if name.eq_ignore_ascii_case("Content-Type") && request.account.sent.head.is_some() {
            return request.response.content_type().map(Cow::Borrowed);
        }
        request.response.headers_out.get(name).or_else(|| request.response.err_headers_out.get(name)).map(Cow::Borrowed)
    }

    fn note(&self, name: &str) -> Option<Cow<'_, str>> {
        self.request.notes.get(name).map(Cow::Borrowed)
    }

    fn request_env(&self, name: &str) -> Option<Cow<'_, str>> {
        self.request.env_value(name).map(Cow::Borrowed)
    }

    fn process_env(&self, name: &str) -> Option<Cow<'_, str>> {
        self.request.server.system.env(name).map(Cow::Owned)
    }

    fn file_test(&self, test: FileTest, path: &str) -> bool {
        self.request.asks_beyond_head();
        let Some(os) = c_path(path) else { return false };
        match test {
            FileTest::Link => sys::file::lstat(&os).is_ok_and(|meta| meta.is_symlink()),
            _ => sys::file::stat(&os).is_ok_and(|meta| match test {
                FileTest::Exists => true,
                FileTest::Directory => meta.is_dir(),
                FileTest::Regular => meta.is_file(),
                FileTest::NonEmpty => meta.is_file() && meta.size > 0,
                FileTest::Executable => meta.is_executable(),
                FileTest::Link => false,
            }),
        }
    }

    fn file_contents(&self, path: &str) -> Result<String, FileError> {
        self.request.asks_beyond_head();
        let meta = std::fs::metadata(os_path(path)).map_err(|_| FileError::Open)?;
        if meta.len() > MAX_FILE_SIZE {
            return Err(FileError::TooLarge);
        }
        let bytes = std::fs::read(os_path(path)).map_err(|_| FileError::Read)?;
        Ok(http::text::from_bytes(&bytes).into_owned())
    }

    fn file_size(&self, path: &str) -> u64 {
        self.request.asks_beyond_head();
        let meta = c_path(path).and_then(|os| sys::file::stat(&os).ok());
        meta.filter(|meta| meta.is_file()).map_or(0, |meta| meta.size)
    }

    fn access(&self, access: Access, target: &str) -> Option<bool> {
        // A subrequest for its own target would recurse for ever.
        if matches!(&self.request.kind, RequestKind::Subrequest { asker, .. } if **asker == *self.request.data.uri) {
            return Some(false);
        }
        let Some(answers) = self.answers else { return at_once(look_up(self.request, access, target)).flatten() };
        let known = answers.iter().find(|(of, path, _)| *of == access && path == target);
        if known.is_none() {
            *self.missing.borrow_mut() = Some((access, target.to_string()));
        }
        known.and_then(|(_, _, answer)| *answer)
    }

    fn client_address(&self) -> Option<IpAddr> {
        Some(self.request.client().peer.ip().to_canonical())
    }

    fn ssl_variable(&self, name: &str) -> Cow<'_, str> {
        self.request.variable(name).unwrap_or_default().into()
    }

    fn peer_extensions(&self, oid: &str) -> Vec<String> {
        self.request.asks_beyond_head();
        self.request.hooks.extensions.map(|read| read(self.request, oid)).unwrap_or_default()
    }

    fn note_vary(&self, header: &str) {
        self.vary.borrow_mut().push(header.to_string());
    }
}

fn value(request: &Request, variable: Variable) -> Result<Cow<'_, str>, EvalError> {
    let seconds = || request.time().as_secs() as i64;
    let local = || {
        let now = seconds();
        Civil::of(now + i64::from(sys::time::local_offset(now)))
    };
    // A repeat looks at a file as a whole, and at a directory not at all.
    let stat = || {
        request.mapped.stat.inspect(|meta| {
            if meta.is_dir() {
                request.asks_beyond_head()
            }
        })
    };
    let two = |number: u32| Cow::Owned(format!("{number:02}"));
    let text = |value: Option<&str>| value.map_or(Cow::Borrowed(""), |value| Cow::Owned(value.to_string()));
    Ok(match variable {
        Variable::TimeYear => format!("{:04}", local().year).into(),
        Variable::TimeMon => two(local().month),
        Variable::TimeDay => two(local().day),
        Variable::TimeHour => two(local().second_of_day / 3600),
        Variable::TimeMin => two(local().second_of_day / 60 % 60),
        Variable::TimeSec => two(local().second_of_day % 60),
        Variable::TimeWday => local().day_of_week().to_string().into(),
        Variable::Time => {
            let Civil { year, month, day, second_of_day, .. } = local();
            let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
            format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}").into()
        }
        Variable::ServerSoftware => Cow::Borrowed(&request.server.software),
        Variable::ApiVersion => "20120211:142".into(),
        Variable::RequestMethod => Cow::Borrowed(&request.data.method),
        Variable::RequestScheme => request.vhost.scheme.into(),
        Variable::RequestUri | Variable::DocumentUri => Cow::Borrowed(&request.data.uri),
        Variable::RequestFilename | Variable::ScriptFilename => Cow::Borrowed(&request.mapped.filename),
        Variable::RemoteHost => request.client_host()?.into(),
        Variable::RemoteAddr => request.client().ip().into(),
        Variable::ConnRemoteAddr => request.client().connection().ip().into(),
        Variable::RemoteIdent => "".into(),
        Variable::RemoteUser => text(request.login.user.as_deref()),
        Variable::RemotePort => request.client().peer.port().to_string().into(),
        Variable::ServerAdmin => request.vhost.admin.as_deref().unwrap_or(http::NO_ADMIN).into(),
        Variable::ServerName => request.server_name(),
        Variable::ServerPort => request.server_port().to_string().into(),
        Variable::ServerProtocol => request.protocol().into(),
        Variable::PathInfo => Cow::Borrowed(&request.mapped.path_info),
        Variable::QueryString => text(request.data.args.as_deref()),
        Variable::IsSubreq => if request.is_subrequest() { "true" } else { "false" }.into(),
        Variable::DocumentRoot => Cow::Borrowed(request.document_root()),
        Variable::AuthType => text(request.login.auth_type.as_deref()),
        Variable::TheRequest => request.request_line().into(),
        Variable::ContentType => text(request.response.content_type()),
        Variable::Handler => text(request.handler_name()),
        Variable::RequestLogId => text(request.log_id()),
        Variable::ScriptUser => stat().map_or_else(String::new, |meta| meta.uid.to_string()).into(),
        Variable::ScriptGroup => stat().map_or_else(String::new, |meta| meta.gid.to_string()).into(),
        Variable::LastModified => match stat() {
            Some(meta) => {
                let date = http::date::http_date((meta.mtime / 1_000_000_000) as i64);
                String::from_utf8_lossy(&date).into_owned().into()
            }
            None => "".into(),
        },
        Variable::ContextPrefix => text(request.mapped.context.as_ref().map(|(prefix, _)| prefix.as_str())),
        Variable::ContextDocumentRoot => match &request.mapped.context {
            Some((_, root)) => Cow::Borrowed(root),
            None => Cow::Borrowed(request.document_root()),
        },
        Variable::RequestStatus => request.response.status().to_string().into(),
        Variable::Https => if request.is_secure() { "on" } else { "off" }.into(),
        Variable::Http2 => if request.data.version == http::Version::Http2 { "on" } else { "off" }.into(),
        Variable::Ipv6 => if request.client().peer.ip().to_canonical().is_ipv6() { "on" } else { "off" }.into(),
        Variable::ConnLogId => request.client().log_id().unwrap_or_default().into(),
    })
}

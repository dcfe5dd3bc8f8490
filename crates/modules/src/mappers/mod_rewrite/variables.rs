//! `%{NAME}` in a text, and its value.

use std::borrow::Cow;

use server::Request;

/// The part between the braces.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Variable {
    /// `ENV:NAME`: a note, a variable of the request, or one of the process.
    Env(String),
    /// `HTTP:NAME`, and variables that are fields of the request.
    Field(String),
    /// `LA-U:NAME`: the future value of the variable for the current URL.
    AheadUrl(Box<Ahead>),
    /// `LA-F:NAME`: the same for the file.
    AheadFile(Box<Ahead>),
    Known(ServerVariable),
    /// `SSL:NAME`: mod_ssl's variables of the connection.
    OfTls(String),
    /// An unknown name, or one without its module: the value is empty.
    Nothing,
}

/// `LA-U:NAME`, `LA-F:NAME`: a variable whose value a subrequest finds out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    pub(super) variable: Variable,
    pub(super) name: String,
}

/// A variable with a fixed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub(super) enum ServerVariable {
    Time, TimeYear, TimeMon, TimeDay, TimeHour, TimeMin, TimeSec, TimeWday,
    Ipv6, Https, IsSubreq, PathInfo, AuthType, ServerName, RemoteAddr, ServerAddr, TheRequest, ApiVersion, ServerPort,
    RemoteHost, RemotePort, RemoteUser, ScriptUser, ScriptGroup, RequestUri, RemoteIdent, QueryString, ServerAdmin,
    DocumentRoot, ContextPrefix, ContextDocumentRoot, RequestMethod, RequestScheme, RequestFilename, ServerProtocol,
    ServerSoftware, ConnRemoteAddr,
}

#[rustfmt::skip]
const KNOWN: [(&str, ServerVariable); 38] = [
    ("TIME", ServerVariable::Time), ("TIME_YEAR", ServerVariable::TimeYear), ("TIME_MON", ServerVariable::TimeMon), ("TIME_DAY", ServerVariable::TimeDay),
    ("TIME_HOUR", ServerVariable::TimeHour), ("TIME_MIN", ServerVariable::TimeMin), ("TIME_SEC", ServerVariable::TimeSec),
    ("TIME_WDAY", ServerVariable::TimeWday), ("IPV6", ServerVariable::Ipv6), ("HTTPS", ServerVariable::Https), ("IS_SUBREQ", ServerVariable::IsSubreq),
    ("PATH_INFO", ServerVariable::PathInfo), ("AUTH_TYPE", ServerVariable::AuthType), ("SERVER_NAME", ServerVariable::ServerName),
    ("REMOTE_ADDR", ServerVariable::RemoteAddr), ("SERVER_ADDR", ServerVariable::ServerAddr), ("THE_REQUEST", ServerVariable::TheRequest),
    ("API_VERSION", ServerVariable::ApiVersion), ("SERVER_PORT", ServerVariable::ServerPort), ("REMOTE_HOST", ServerVariable::RemoteHost),
    ("REMOTE_PORT", ServerVariable::RemotePort), ("REMOTE_USER", ServerVariable::RemoteUser), ("SCRIPT_USER", ServerVariable::ScriptUser),
    ("SCRIPT_GROUP", ServerVariable::ScriptGroup), ("REQUEST_URI", ServerVariable::RequestUri), ("REMOTE_IDENT", ServerVariable::RemoteIdent),
    ("QUERY_STRING", ServerVariable::QueryString), ("SERVER_ADMIN", ServerVariable::ServerAdmin), ("DOCUMENT_ROOT", ServerVariable::DocumentRoot),
    ("CONTEXT_PREFIX", ServerVariable::ContextPrefix), ("CONTEXT_DOCUMENT_ROOT", ServerVariable::ContextDocumentRoot),
    ("REQUEST_METHOD", ServerVariable::RequestMethod), ("REQUEST_SCHEME", ServerVariable::RequestScheme),
    ("REQUEST_FILENAME", ServerVariable::RequestFilename), ("SCRIPT_FILENAME", ServerVariable::RequestFilename),
    ("SERVER_PROTOCOL", ServerVariable::ServerProtocol), ("SERVER_SOFTWARE", ServerVariable::ServerSoftware),
    ("CONN_REMOTE_ADDR", ServerVariable::ConnRemoteAddr),
];

/// Variables that are fields of the request.
const FIELDS: [(&str, &str); 7] = [
    ("HTTP_HOST", "Host"),
    ("HTTP_ACCEPT", "Accept"),
    ("HTTP_COOKIE", "Cookie"),
    ("HTTP_REFERER", "Referer"),
    ("HTTP_FORWARDED", "Forwarded"),
    ("HTTP_USER_AGENT", "User-Agent"),
    ("HTTP_PROXY_CONNECTION", "Proxy-Connection"),
];

impl Variable {
    /// Parses a name; every text is valid.
    pub(super) fn parse(name: &str) -> Variable {
        // The position of the colon determines the possible meanings.
        match name.as_bytes().iter().position(|byte| *byte == b':') {
            Some(at @ 3..=4) => {
                let (kind, inner) = (&name[..at], &name[at + 1..]);
                let ahead = || Box::new(Ahead { variable: Variable::parse(inner), name: inner.to_string() });
                match kind.to_ascii_uppercase().as_str() {
                    _ if inner.is_empty() => Variable::Nothing,
                    "ENV" => Variable::Env(inner.to_string()),
                    "HTTP" => Variable::Field(inner.to_string()),
                    "LA-U" => Variable::AheadUrl(ahead()),
                    "LA-F" => Variable::AheadFile(ahead()),
                    "SSL" if inner.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("SSL_")) => {
                        Variable::OfTls(inner.to_string())
                    }
                    "SSL" => Variable::parse(inner),
                    _ => Variable::Nothing,
                }
            }
            _ => {
                let find = |(known, _): &&(&str, ServerVariable)| known.eq_ignore_ascii_case(name);
                let field = FIELDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
                match (KNOWN.iter().find(find), field) {
                    (Some((_, known)), _) => Variable::Known(*known),
                    (None, Some((_, field))) => Variable::Field((*field).to_string()),
                    (None, None) => Variable::Nothing,
                }
            }
        }
    }
}

/// The value for a request. `Err`: it is unknown.
pub(super) fn value(request: &Request, known: ServerVariable) -> Result<Cow<'_, str>, String> {
    let text =
        |value: &'_ Option<String>| value.as_deref().map_or(Cow::Borrowed(""), |text| Cow::Owned(text.to_string()));
    let context = request.mapped.context.as_ref();
    Ok(match known {
        ServerVariable::Time
        | ServerVariable::TimeYear
        | ServerVariable::TimeMon
        | ServerVariable::TimeDay
        | ServerVariable::TimeHour
        | ServerVariable::TimeMin
        | ServerVariable::TimeSec
        | ServerVariable::TimeWday => time(known).into(),
        ServerVariable::Ipv6 => if request.client().peer.ip().to_canonical().is_ipv6() { "on" } else { "off" }.into(),
        ServerVariable::Https => if request.is_secure() { "on" } else { "off" }.into(),
        ServerVariable::IsSubreq => if request.is_subrequest() { "true" } else { "false" }.into(),
        ServerVariable::PathInfo => Cow::Borrowed(&request.mapped.path_info),
        ServerVariable::AuthType => text(&request.login.auth_type),
        ServerVariable::ServerName => request.server_name(),
        ServerVariable::RemoteAddr | ServerVariable::ConnRemoteAddr => request.client().ip().into(),
        ServerVariable::ServerAddr => http::address_text(request.local().ip()).into(),
        ServerVariable::TheRequest => request.request_line().into(),
        ServerVariable::ApiVersion => "20120211:142".into(),
        ServerVariable::ServerPort => request.server_port().to_string().into(),
        ServerVariable::RemoteHost => request.client_host().map_err(|why| why.to_string())?.into(),
        ServerVariable::RemotePort => request.client().peer.port().to_string().into(),
        ServerVariable::RemoteUser => text(&request.login.user),
        // The user database is queried beside the event loop.
        ServerVariable::ScriptUser | ServerVariable::ScriptGroup => "".into(),
        ServerVariable::RequestUri => Cow::Borrowed(&request.data.uri),
        ServerVariable::RemoteIdent => "".into(),
        ServerVariable::QueryString => text(&request.data.args),
        ServerVariable::ServerAdmin => request.vhost.admin.as_deref().unwrap_or(http::NO_ADMIN).into(),
        ServerVariable::DocumentRoot => Cow::Borrowed(request.document_root()),
        ServerVariable::ContextPrefix => context.map_or("", |(prefix, _)| prefix.as_str()).into(),
        ServerVariable::ContextDocumentRoot => context.map_or(request.document_root(), |(_, root)| root).into(),
        ServerVariable::RequestMethod => Cow::Borrowed(&request.data.method),
        ServerVariable::RequestScheme => request.vhost.scheme.into(),
        ServerVariable::RequestFilename => Cow::Borrowed(&request.mapped.filename),
        ServerVariable::ServerProtocol => request.protocol().into(),
        ServerVariable::ServerSoftware => Cow::Borrowed(&request.server.software),
    })
}

/// The current time, in the local zone.
fn time(known: ServerVariable) -> String {
    let now = sys::time::realtime().as_secs() as i64;
    let offset = sys::time::local_offset(now);
    // `21/Nov/2026:20:38:24 +0000`
    let date = http::date::log_date(now, offset);
    let part = |range: std::ops::Range<usize>| String::from_utf8_lossy(&date[range]).into_owned();
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = || format!("{:02}", MONTHS.chunks(3).position(|name| *name == date[3..6]).unwrap_or(0) + 1);
    match known {
        ServerVariable::TimeYear => part(7..11),
        ServerVariable::TimeMon => month(),
        ServerVariable::TimeDay => part(0..2),
        ServerVariable::TimeHour => part(12..14),
        ServerVariable::TimeMin => part(15..17),
        ServerVariable::TimeSec => part(18..20),
        ServerVariable::TimeWday => ((now + i64::from(offset)).div_euclid(86_400) + 4).rem_euclid(7).to_string(),
        _ => [part(7..11), month(), part(0..2), part(12..14), part(15..17), part(18..20)].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let table = [
            ("request_uri", Variable::Known(ServerVariable::RequestUri)),
            ("SCRIPT_FILENAME", Variable::Known(ServerVariable::RequestFilename)),
            ("HTTP_HOST", Variable::Field("Host".into())),
            ("HTTP:X-y", Variable::Field("X-y".into())),
            ("env:x", Variable::Env("x".into())),
            ("ENV:", Variable::Nothing),
            ("SSL:X", Variable::Nothing),
            ("ssl:SSL_CIPHER", Variable::OfTls("SSL_CIPHER".into())),
            ("UNIQUE_ID", Variable::Nothing),
            ("", Variable::Nothing),
            ("a:b", Variable::Nothing),
        ];
        for (name, want) in table {
            assert_eq!(Variable::parse(name), want, "{name}");
        }
        assert!(
            matches!(Variable::parse("LA-U:REMOTE_USER"), Variable::AheadUrl(ahead) if ahead.name == "REMOTE_USER")
        );
    }
}

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
    Known(Known),
    /// `SSL:NAME`: mod_ssl's variables of the connection.
    OfTls(String),
    /// An unknown name, or one without its module: the value is empty.
    Nothing,
}

/// A variable of a look-up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    pub(super) variable: Variable,
    pub(super) name: String,
}

/// A variable with a fixed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub(super) enum Known {
    Time, TimeYear, TimeMon, TimeDay, TimeHour, TimeMin, TimeSec, TimeWday,
    Ipv6, Https, IsSubreq, PathInfo, AuthType, ServerName, RemoteAddr, ServerAddr, TheRequest, ApiVersion, ServerPort,
    RemoteHost, RemotePort, RemoteUser, ScriptUser, ScriptGroup, RequestUri, RemoteIdent, QueryString, ServerAdmin,
    DocumentRoot, ContextPrefix, ContextDocumentRoot, RequestMethod, RequestScheme, RequestFilename, ServerProtocol,
    ServerSoftware, ConnRemoteAddr,
}

#[rustfmt::skip]
const KNOWN: [(&str, Known); 38] = [
    ("TIME", Known::Time), ("TIME_YEAR", Known::TimeYear), ("TIME_MON", Known::TimeMon), ("TIME_DAY", Known::TimeDay),
    ("TIME_HOUR", Known::TimeHour), ("TIME_MIN", Known::TimeMin), ("TIME_SEC", Known::TimeSec),
    ("TIME_WDAY", Known::TimeWday), ("IPV6", Known::Ipv6), ("HTTPS", Known::Https), ("IS_SUBREQ", Known::IsSubreq),
    ("PATH_INFO", Known::PathInfo), ("AUTH_TYPE", Known::AuthType), ("SERVER_NAME", Known::ServerName),
    ("REMOTE_ADDR", Known::RemoteAddr), ("SERVER_ADDR", Known::ServerAddr), ("THE_REQUEST", Known::TheRequest),
    ("API_VERSION", Known::ApiVersion), ("SERVER_PORT", Known::ServerPort), ("REMOTE_HOST", Known::RemoteHost),
    ("REMOTE_PORT", Known::RemotePort), ("REMOTE_USER", Known::RemoteUser), ("SCRIPT_USER", Known::ScriptUser),
    ("SCRIPT_GROUP", Known::ScriptGroup), ("REQUEST_URI", Known::RequestUri), ("REMOTE_IDENT", Known::RemoteIdent),
    ("QUERY_STRING", Known::QueryString), ("SERVER_ADMIN", Known::ServerAdmin), ("DOCUMENT_ROOT", Known::DocumentRoot),
    ("CONTEXT_PREFIX", Known::ContextPrefix), ("CONTEXT_DOCUMENT_ROOT", Known::ContextDocumentRoot),
    ("REQUEST_METHOD", Known::RequestMethod), ("REQUEST_SCHEME", Known::RequestScheme),
    ("REQUEST_FILENAME", Known::RequestFilename), ("SCRIPT_FILENAME", Known::RequestFilename),
    ("SERVER_PROTOCOL", Known::ServerProtocol), ("SERVER_SOFTWARE", Known::ServerSoftware),
    ("CONN_REMOTE_ADDR", Known::ConnRemoteAddr),
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
                let find = |(known, _): &&(&str, Known)| known.eq_ignore_ascii_case(name);
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
pub(super) fn value(request: &Request, known: Known) -> Result<Cow<'_, str>, String> {
    let text =
        |value: &'_ Option<String>| value.as_deref().map_or(Cow::Borrowed(""), |text| Cow::Owned(text.to_string()));
    let context = request.mapped.context.as_ref();
    Ok(match known {
        Known::Time
        | Known::TimeYear
        | Known::TimeMon
        | Known::TimeDay
        | Known::TimeHour
        | Known::TimeMin
        | Known::TimeSec
        | Known::TimeWday => time(known).into(),
        Known::Ipv6 => if request.client.peer.ip().to_canonical().is_ipv6() { "on" } else { "off" }.into(),
        Known::Https => if request.client.is_secure() { "on" } else { "off" }.into(),
        Known::IsSubreq => if request.is_subrequest() { "true" } else { "false" }.into(),
        Known::PathInfo => Cow::Borrowed(&request.mapped.path_info),
        Known::AuthType => text(&request.login.auth_type),
        Known::ServerName => request.server_name(),
        Known::RemoteAddr | Known::ConnRemoteAddr => request.client.ip().into(),
        Known::ServerAddr => request.client.local().ip().to_canonical().to_string().into(),
        Known::TheRequest => request.request_line().into(),
        Known::ApiVersion => "20120211:142".into(),
        Known::ServerPort => request.server_port().to_string().into(),
        Known::RemoteHost => request.client_host().map_err(|why| why.to_string())?.into(),
        Known::RemotePort => request.client.peer.port().to_string().into(),
        Known::RemoteUser => text(&request.login.user),
        // The user database is queried beside the event loop.
        Known::ScriptUser | Known::ScriptGroup => "".into(),
        Known::RequestUri => Cow::Borrowed(&request.asked.uri),
        Known::RemoteIdent => "".into(),
        Known::QueryString => text(&request.asked.args),
        Known::ServerAdmin => request.vhost.admin.as_deref().unwrap_or(http::NO_ADMIN).into(),
        Known::DocumentRoot => Cow::Borrowed(request.document_root()),
        Known::ContextPrefix => context.map_or("", |(prefix, _)| prefix.as_str()).into(),
        Known::ContextDocumentRoot => context.map_or(request.document_root(), |(_, root)| root).into(),
        Known::RequestMethod => Cow::Borrowed(&request.asked.method),
        Known::RequestScheme => request.vhost.scheme.into(),
        Known::RequestFilename => Cow::Borrowed(&request.mapped.filename),
        Known::ServerProtocol => request.protocol().into(),
        Known::ServerSoftware => Cow::Borrowed(&request.server.software),
    })
}

/// The current time, in the local zone.
fn time(known: Known) -> String {
    let now = sys::time::realtime().as_secs() as i64;
    let offset = sys::time::local_offset(now);
    // `21/Nov/2026:20:38:24 +0000`
    let date = http::date::log_date(now, offset);
    let part = |range: std::ops::Range<usize>| String::from_utf8_lossy(&date[range]).into_owned();
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = || format!("{:02}", MONTHS.chunks(3).position(|name| *name == date[3..6]).unwrap_or(0) + 1);
    match known {
        Known::TimeYear => part(7..11),
        Known::TimeMon => month(),
        Known::TimeDay => part(0..2),
        Known::TimeHour => part(12..14),
        Known::TimeMin => part(15..17),
        Known::TimeSec => part(18..20),
        Known::TimeWday => ((now + i64::from(offset)).div_euclid(86_400) + 4).rem_euclid(7).to_string(),
        _ => [part(7..11), month(), part(0..2), part(12..14), part(15..17), part(18..20)].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let table = [
            ("request_uri", Variable::Known(Known::RequestUri)),
            ("SCRIPT_FILENAME", Variable::Known(Known::RequestFilename)),
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

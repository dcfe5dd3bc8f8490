//! The names that an expression may use, and their meanings.

use crate::fnmatch::Flags;

/// A variable whose value the server knows; `%{NAME}`.
///
/// Request headers that have a variable (`HTTP_HOST` and so on) are not included: the [`Subject`](crate::expr::Subject)
/// gets them as headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the variable of that name in the manual")]
pub enum Variable {
    TimeYear,
    TimeMon,
    TimeDay,
    TimeHour,
    TimeMin,
    TimeSec,
    TimeWday,
    Time,
    ServerSoftware,
    ApiVersion,
    RequestMethod,
    RequestScheme,
    RequestUri,
    RequestFilename,
    RemoteHost,
    RemoteIdent,
    RemoteUser,
    RemoteAddr,
    RemotePort,
    ServerAdmin,
    ServerName,
    ServerPort,
    ServerProtocol,
    ScriptFilename,
    PathInfo,
    QueryString,
    IsSubreq,
    DocumentRoot,
    AuthType,
    TheRequest,
    ContentType,
    Handler,
    RequestLogId,
    ScriptUser,
    ScriptGroup,
    DocumentUri,
    LastModified,
    ContextPrefix,
    ContextDocumentRoot,
    RequestStatus,
    Https,
    Ipv6,
    ConnLogId,
    ConnRemoteAddr,
    Http2,
}

/// A function from string to string; `name(word)` or `%{name:string}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Function {
    /// `osenv`: a variable of the process environment.
    OsEnv,
    /// `env`: a note, else a variable of the request, else of the process environment.
    Env,
    /// `reqenv`: a variable of the request (`SetEnv` and similar directives).
    ReqEnv,
    /// `note`: a note of the request.
    Note,
    /// `req` and `http`: a header of the request, added to `Vary`.
    Req,
    /// `req_novary`: a header of the request, not added to `Vary`.
    ReqNoVary,
    /// `resp`: a header of the response.
    Resp,
    /// `tolower`: in lower case.
    ToLower,
    /// `toupper`: in upper case.
    ToUpper,
    /// `escape`: with `%xx` for characters that a path cannot contain.
    Escape,
    /// `unescape`: with `%xx` decoded, except `%2f`; empty if that is impossible.
    Unescape,
    /// `base64`.
    Base64,
    /// `unbase64`.
    Unbase64,
    /// `md5`: in hexadecimal.
    Md5,
    /// `sha1`: in hexadecimal.
    Sha1,
    /// `ldap`: escaped for a distinguished name and for a filter.
    Ldap,
    /// `file`: the contents of a file.
    File,
    /// `filesize`: the size of a file, 0 if there is none.
    FileSize,
}

/// A test of a file: `-e` and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileTest {
    /// `-e`: it exists.
    Exists,
    /// `-d`: it is a directory.
    Directory,
    /// `-f`: it is a regular file.
    Regular,
    /// `-s`: it is a regular file and not empty.
    NonEmpty,
    /// `-L`, `-h`: it is a symbolic link.
    Link,
    /// `-x`: it has an executable bit.
    Executable,
}

/// A test with a subrequest: `-F`, `-U` or `-A`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// `-F`: the file exists and the client may have it.
    File,
    /// `-U`, `-A`: the client may have the URL.
    Url,
}

/// An operator on one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnaryOp {
    /// `-z`
    Empty,
    /// `-n`
    NotEmpty,
    /// `-T`: neither empty nor `0`, `off`, `false`, `no`.
    Truth,
    File(FileTest),
    Access(Access),
}

/// The meaning of `%{NAME}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VariableKind {
    Known(Variable),
    RequestHeader(&'static str),
}

/// The variable of that name, in any case.
pub(super) fn variable(name: &str) -> Option<VariableKind> {
    let header = lookup(&HEADER_VARIABLES, name).map(VariableKind::RequestHeader);
    header.or_else(|| lookup(&VARIABLES, name).map(VariableKind::Known))
}

/// The function of that name, in any case.
pub(super) fn function(name: &str) -> Option<Function> {
    lookup(&FUNCTIONS, name)
}

/// The unary operator of that letter.
pub(super) fn unary(name: &str) -> Option<UnaryOp> {
    Some(match name {
        "z" => UnaryOp::Empty,
        "n" => UnaryOp::NotEmpty,
        "T" => UnaryOp::Truth,
        "e" => UnaryOp::File(FileTest::Exists),
        "d" => UnaryOp::File(FileTest::Directory),
        "f" => UnaryOp::File(FileTest::Regular),
        "s" => UnaryOp::File(FileTest::NonEmpty),
        "L" | "h" => UnaryOp::File(FileTest::Link),
        "x" => UnaryOp::File(FileTest::Executable),
        "F" => UnaryOp::Access(Access::File),
        "U" | "A" => UnaryOp::Access(Access::Url),
        _ => return None,
    })
}

/// How the binary operator of that name, in any case, compares with a shell pattern.
pub(super) fn wildcard(name: &str) -> Option<Flags> {
    let operators = [("strmatch", Flags::PLAIN), ("strcmatch", Flags::IGNORE_CASE), ("fnmatch", Flags::PATHNAME)];
    lookup(&operators, name)
}

/// Whether mod_ssl provides the variable of that name.
pub(super) fn is_ssl(name: &str) -> bool {
    let prefix = name.as_bytes().get(..4);
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(b"SSL_"))
}

fn lookup<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    let entry = table.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    entry.map(|(_, value)| *value)
}

const HEADER_VARIABLES: [(&str, &str); 7] = [
    ("HTTP_USER_AGENT", "User-Agent"),
    ("HTTP_PROXY_CONNECTION", "Proxy-Connection"),
    ("HTTP_REFERER", "Referer"),
    ("HTTP_COOKIE", "Cookie"),
    ("HTTP_FORWARDED", "Forwarded"),
    ("HTTP_HOST", "Host"),
    ("HTTP_ACCEPT", "Accept"),
];

const VARIABLES: [(&str, Variable); 45] = [
    ("TIME_YEAR", Variable::TimeYear),
    ("TIME_MON", Variable::TimeMon),
    ("TIME_DAY", Variable::TimeDay),
    ("TIME_HOUR", Variable::TimeHour),
    ("TIME_MIN", Variable::TimeMin),
    ("TIME_SEC", Variable::TimeSec),
    ("TIME_WDAY", Variable::TimeWday),
    ("TIME", Variable::Time),
    ("SERVER_SOFTWARE", Variable::ServerSoftware),
    ("API_VERSION", Variable::ApiVersion),
    ("REQUEST_METHOD", Variable::RequestMethod),
    ("REQUEST_SCHEME", Variable::RequestScheme),
    ("REQUEST_URI", Variable::RequestUri),
    ("REQUEST_FILENAME", Variable::RequestFilename),
    ("REMOTE_HOST", Variable::RemoteHost),
    ("REMOTE_IDENT", Variable::RemoteIdent),
    ("REMOTE_USER", Variable::RemoteUser),
    ("REMOTE_ADDR", Variable::RemoteAddr),
    ("REMOTE_PORT", Variable::RemotePort),
    ("SERVER_ADMIN", Variable::ServerAdmin),
    ("SERVER_NAME", Variable::ServerName),
    ("SERVER_PORT", Variable::ServerPort),
    ("SERVER_PROTOCOL", Variable::ServerProtocol),
    ("SCRIPT_FILENAME", Variable::ScriptFilename),
    ("PATH_INFO", Variable::PathInfo),
    ("QUERY_STRING", Variable::QueryString),
    ("IS_SUBREQ", Variable::IsSubreq),
    ("DOCUMENT_ROOT", Variable::DocumentRoot),
    ("AUTH_TYPE", Variable::AuthType),
    ("THE_REQUEST", Variable::TheRequest),
    ("CONTENT_TYPE", Variable::ContentType),
    ("HANDLER", Variable::Handler),
    ("REQUEST_LOG_ID", Variable::RequestLogId),
    ("SCRIPT_USER", Variable::ScriptUser),
    ("SCRIPT_GROUP", Variable::ScriptGroup),
    ("DOCUMENT_URI", Variable::DocumentUri),
    ("LAST_MODIFIED", Variable::LastModified),
    ("CONTEXT_PREFIX", Variable::ContextPrefix),
    ("CONTEXT_DOCUMENT_ROOT", Variable::ContextDocumentRoot),
    ("REQUEST_STATUS", Variable::RequestStatus),
    ("HTTPS", Variable::Https),
    ("IPV6", Variable::Ipv6),
    ("CONN_LOG_ID", Variable::ConnLogId),
    ("CONN_REMOTE_ADDR", Variable::ConnRemoteAddr),
    ("HTTP2", Variable::Http2),
];

const FUNCTIONS: [(&str, Function); 19] = [
    ("osenv", Function::OsEnv),
    ("env", Function::Env),
    ("resp", Function::Resp),
    ("req", Function::Req),
    ("http", Function::Req),
    ("note", Function::Note),
    ("reqenv", Function::ReqEnv),
    ("req_novary", Function::ReqNoVary),
    ("tolower", Function::ToLower),
    ("toupper", Function::ToUpper),
    ("escape", Function::Escape),
    ("unescape", Function::Unescape),
    ("file", Function::File),
    ("filesize", Function::FileSize),
    ("base64", Function::Base64),
    ("unbase64", Function::Unbase64),
    ("sha1", Function::Sha1),
    ("md5", Function::Md5),
    ("ldap", Function::Ldap),
];

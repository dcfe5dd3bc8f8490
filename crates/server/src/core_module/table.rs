//! The directives of core.c, http_core.c, mod_so.c, mod_version.c, mod_watchdog.c and mod_macro.c. tidy: table

use conf::directive::Args::{Flag, Iterate, OnRead, Raw, Section, Take1, Take2, Take12, Words};
use conf::{Allowed, Directive, ModuleInfo, OnRead as Run, on_or_off, row, shown};

use super::{limits, mutex, overrides, protocol, response, sections, set};
use crate::files::static_file;
use crate::module::hook::{Hook, Module, Order};
use crate::phases::translate;
use crate::request::hooks::PhaseHook;
use crate::request::phase::Phase;
use crate::settings::core::{CoreDir, CoreServer, DOCUMENT_ROOT, Methods, defaults};

const SERVER: Allowed = Allowed::SERVER;
const GLOBAL: Allowed = Allowed::GLOBAL;
const ANY: Allowed = Allowed::ANY;
const NOTHING_KEPT: Allowed = Allowed::NOTHING_KEPT;
const CONF: Allowed = Allowed::CONF;
const FILEINFO: Allowed = Allowed::FILEINFO;

/// The core module.
pub static CORE: Module = Module {
    info: ModuleInfo { id: "core_module", source: "core.c", linked: true, directives: CORE_DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(Phase::Translate, Order::ReallyLast, PhaseHook::Now(translate::document_root)),
        Hook::Phase(Phase::Fixups, Order::ReallyFirst, PhaseHook::Now(translate::overrides)),
        Hook::Handler(Order::ReallyLast, static_file::AFTER_BODY),
        Hook::Handler(Order::ReallyLast, static_file::HANDLER),
    ],
};

/// Persistent connections.
pub static HTTP_CORE: Module = Module {
    info: ModuleInfo { id: "http_module", source: "http_core.c", linked: true, directives: HTTP_DIRECTIVES },
    hooks: &[],
};

/// `LoadModule`.
pub static SO: Module = Module {
    info: ModuleInfo { id: "so_module", source: "mod_so.c", linked: true, directives: SO_DIRECTIVES },
    hooks: &[],
};

/// `<IfVersion>`.
pub static VERSION: Module = Module {
    info: ModuleInfo { id: "version_module", source: "mod_version.c", linked: true, directives: VERSION_DIRECTIVES },
    hooks: &[],
};

/// Runs periodic jobs for other modules; none uses it here.
pub static WATCHDOG: Module = Module {
    info: ModuleInfo { id: "watchdog_module", source: "mod_watchdog.c", linked: true, directives: WATCHDOG_DIRECTIVES },
    hooks: &[Hook::Mutex("watchdog-callback")],
};

/// `<Macro>`.
pub static MACRO: Module = Module {
    info: ModuleInfo { id: "macro_module", source: "mod_macro.c", linked: false, directives: MACRO_DIRECTIVES },
    hooks: &[],
};

const FLUSHED: &str = "A response is sent as soon as it is there; nothing is collected, so nothing has to be flushed.";
const OF_SCRIPTS: &str =
    "It applies only to scripts, from their first instruction on; if it cannot be set, the script is not started.";

#[rustfmt::skip]
const CORE_DIRECTIVES: &[Directive] = &[
    row("<Directory", SERVER, Section(sections::directory), "", "Container for directives affecting resources located in the specified directories"),
    row("<Location", SERVER, Section(sections::location), "", "Container for directives affecting resources accessed through the specified URL paths"),
    row("<VirtualHost", GLOBAL, Section(sections::virtual_host), "", "Container to map directives to a particular virtual host, takes one or more host addresses"),
    row("<Files", ANY, Section(sections::files), "", "Container for directives affecting files matching specified patterns"),
    row("<Limit", Allowed::AUTH.or(Allowed::LIMIT), Section(sections::limit), "", "Container for authentication directives when accessed using specified HTTP methods"),
    row("<LimitExcept", Allowed::AUTH.or(Allowed::LIMIT), Section(sections::limit), "", "Container for authentication directives to be applied when any HTTP method other than those specified is used to access the resource"),
    row("<IfModule", ANY, OnRead(Run::IfModule), "", "Container for directives based on existence of specified modules"),
    row("<IfDefine", ANY, OnRead(Run::IfDefine), "", "Container for directives based on existence of command line defines"),
    row("<IfFile", ANY, OnRead(Run::IfFile), "", "Container for directives based on existence of files on disk"),
    row("<IfDirective", ANY, OnRead(Run::IfDirective), "", "Container for directives based on existence of named directive"),
    row("<IfSection", ANY, OnRead(Run::IfSection), "", "Container for directives based on existence of named section"),
    row("<DirectoryMatch", SERVER, Section(sections::directory), "", "Container for directives affecting resources located in the specified directories"),
    row("<LocationMatch", SERVER, Section(sections::location), "", "Container for directives affecting resources accessed through the specified URL paths"),
    row("<FilesMatch", ANY, Section(sections::files), "", "Container for directives affecting files matching specified patterns"),
    row("AddDefaultCharset", FILEINFO, Take1(response::default_charset), "Off", "The name of the default charset to add to any Content-Type without one or 'Off' to disable"),
    row("AcceptPathInfo", FILEINFO, Take1(response::accept_path_info), "Default", "Set to on or off for PATH_INFO to be accepted by handlers, or default for the per-handler preference"),
    row("Define", CONF, OnRead(Run::Define), "", "Define a variable, optionally to a value.  Same as passing -D to the command line."),
    row("UnDefine", CONF, OnRead(Run::UnDefine), "", "Undefine the existence of a variable. Undo a Define."),
    row("Error", ANY, Raw(set::error), "", "Generate error message from within configuration"),
    row("<If", ANY, Section(sections::condition), "", "Container for directives to be conditionally applied"),
    row("<ElseIf", ANY, Section(sections::condition), "", "Container for directives to be conditionally applied"),
    row("<Else", ANY, Section(sections::condition), "", "Container for directives to be conditionally applied"),
    row("AccessFileName", SERVER, Words(set::access_file_name), defaults::ACCESS_FILE_NAME, "Name(s) of per-directory config files (default: .htaccess)"),
    row("DocumentRoot", SERVER, Take1(set::document_root), DOCUMENT_ROOT, "Root directory of the document tree"),
    row("ErrorDocument", FILEINFO, Take2(response::error_document), "", "Change responses for HTTP errors"),
    row("AllowOverride", Allowed::SECTION, Raw(overrides::allow_override), "None", "Controls what groups of directives can be configured by per-directory config files"),
    row("AllowOverrideList", Allowed::SECTION, Words(overrides::allow_override_list), "None", "Controls what individual directives can be configured by per-directory config files"),
    row("Options", Allowed::OPTIONS, Raw(overrides::options), "FollowSymLinks", "Set a number of attributes for a given directory"),
    row("DefaultType", FILEINFO, Take1(response::default_type), "none", "the default media type for otherwise untyped files (DEPRECATED)").without_effect("As in Apache 2.4, which also warns of anything except none."),
    row("FileETag", FILEINFO, Raw(response::file_etag), "MTime Size", "Specify components used to construct a file's ETag"),
    row("EnableMMAP", FILEINFO, Take1(|c, v| set::on_off(c, |d: &mut CoreDir| &mut d.mmap, v)), "On", "Controls whether memory-mapping may be used to read files").without_effect("Files are not mapped into memory: the server reads small ones, and the kernel sends the others."),
    row("EnableSendfile", FILEINFO, Take1(|c, v| set::on_off(c, |d: &mut CoreDir| &mut d.sendfile, v)), "Off", "Controls whether sendfile may be used to transmit files").without_effect("The kernel always sends files that are not small and pass no filter (sendfile)."),
    row("ReadBufferSize", CONF, Take1(limits::read_buffer_size), "8192", "Size (in bytes) of the memory buffers used to read data").without_effect("The sizes of buffers are fixed."),
    row("FlushMaxThreshold", SERVER, Take1(limits::flush_max_threshold), "65535", "Maximum threshold above which pending data are flushed to the network").without_effect(FLUSHED),
    row("FlushMaxPipelined", SERVER, Take1(limits::flush_max_pipelined), "5", "Maximum number of pipelined responses (pending) above which they are flushed to the network").without_effect(FLUSHED),
    row("Protocol", SERVER, Take1(set::ignored), "", "Set the Protocol for httpd to use.").without_effect("A socket's protocol is that of its Listen line."),
    row("AcceptFilter", GLOBAL, Take2(protocol::accept_filter), "http data", "Set the Accept Filter to use for a protocol"),
    row("Port", SERVER, Raw(|_, _| Err("Port was replaced with Listen in Apache 2.0".into())), "", "Port was replaced with Listen in Apache 2.0"),
    row("HostnameLookups", CONF, Take1(set::hostname_lookups), defaults::HOSTNAME_LOOKUPS.shown(), "\"on\" to enable, \"off\" to disable reverse DNS lookups, or \"double\" to enable double-reverse DNS lookups").differs("A name is looked up once per connection, at the start of the first request, and no request waits for it longer than 5 s."),
    row("ServerAdmin", SERVER, Take1(|c, v| { let v = v.to_string(); c.server_set(|s: &mut CoreServer| &mut s.server_admin, v) }), http::NO_ADMIN, "The email address of the server administrator"),
    row("ServerName", SERVER, Take1(set::server_name), "", "The hostname and port of the server"),
    row("ServerSignature", ANY, Take1(response::signature), defaults::SIGNATURE.shown(), "En-/disable server signature (on|off|email)"),
    row("ServerRoot", GLOBAL, OnRead(Run::ServerRoot), "/etc/apache2", "Common directory of server-related files (logs, confs, etc.)"),
    row("DefaultRuntimeDir", GLOBAL, OnRead(Run::DefaultRuntimeDir), "logs", "Common directory for run-time files (shared memory, locks, etc.)").differs("It is created if it is missing and the directory above it exists."),
    row("ErrorLog", SERVER, Take1(set::error_log), "logs/error_log", "The filename of the error log"),
    row("ErrorLogFormat", SERVER, Take12(set::error_log_format), "", "Format string for the ErrorLog").differs("Formats for connections and requests are checked, but not used."),
    row("ServerAlias", SERVER, Words(set::server_alias), "", "A name or names alternately used to access the server"),
    row("ServerPath", SERVER, Take1(|c, v| { let v = v.to_string(); c.server_set(|s: &mut CoreServer| &mut s.server_path, v) }), "", "The pathname the server can be reached at").without_effect("Virtual hosts are not chosen by path; that was for clients that send no Host."),
    row("Timeout", SERVER, Take1(protocol::timeout), shown!(defaults::TIMEOUT.as_secs()), "Timeout duration (sec)"),
    row("ContentDigest", Allowed::OPTIONS, Flag(|c, on| c.set(|d: &mut CoreDir| &mut d.content_digest, on)), "Off", "whether or not to send a Content-MD5 header with each request").without_effect("Content-MD5 is not sent: HTTP has dropped it (RFC 7231 appendix B)."),
    row("UseCanonicalName", CONF, Take1(set::canonical_name), defaults::CANONICAL_NAME.shown(), "How to work out the ServerName : Port when constructing URLs").differs("DNS means the configured name, with the port of the request: nothing is looked up."),
    row("UseCanonicalPhysicalPort", CONF, Take1(|c, v| set::on_off(c, |d: &mut CoreDir| &mut d.canonical_physical_port, v)), on_or_off(defaults::CANONICAL_PHYSICAL_PORT), "Whether to use the physical Port when constructing URLs"),
    row("Include", CONF, OnRead(Run::Include), "", "Name(s) of the config file(s) to be included; fails if the wildcard does not match at least one file"),
    row("IncludeOptional", CONF, OnRead(Run::IncludeOptional), "", "Name or pattern of the config file(s) to be included; ignored if the file does not exist or the pattern does not match any files"),
    row("LogLevel", CONF, Iterate(set::log_level), "warn", "Level of verbosity in error logging"),
    row("NameVirtualHost", SERVER, Take1(set::name_virtual_host), "", "A numeric IP address:port, or the name of a host").without_effect("As in Apache 2.4, with the same warning."),
    row("ServerTokens", GLOBAL, Take1(set::server_tokens), "Full", "Determine tokens displayed in the Server: header - Min(imal), Major, Minor, Prod(uctOnly), OS, or Full").differs("The name is Tsubame, with its own version."),
    row("LimitRequestLine", SERVER, Take1(limits::limit_line), shown!(defaults::LIMIT_REQUEST_LINE), "Limit on maximum size of an HTTP request line"),
    row("LimitRequestFieldsize", SERVER, Take1(limits::limit_field_size), shown!(defaults::LIMIT_REQUEST_FIELD_SIZE), "Limit on maximum size of an HTTP request header field"),
    row("LimitRequestFields", SERVER, Take1(limits::limit_fields), shown!(defaults::LIMIT_REQUEST_FIELDS), "Limit (0 = unlimited) on max number of header fields in a request message").differs("0 means 65534."),
    row("LimitRequestBody", ANY, Take1(limits::limit_body), shown!(defaults::LIMIT_REQUEST_BODY), "Limit (in bytes) on maximum size of request message body"),
    row("LimitXMLRequestBody", ANY, Take1(limits::limit_xml_body), "1000000", "Limit (in bytes) on maximum size of an XML-based request body"),
    row("Mutex", GLOBAL, Words(mutex::set), "default", "mutex (or \"default\") and mechanism").without_effect("The server needs no system mutexes; -DDUMP_RUN_CFG shows the setting."),
    row("MaxRanges", CONF, Take1(|c, v| limits::ranges(c, |d: &mut CoreDir| &mut d.max_ranges, defaults::MAX_RANGES, v)), shown!(defaults::MAX_RANGES), "Maximum number of Ranges in a request before returning the entire resource, or 0 for unlimited"),
    row("MaxRangeOverlaps", CONF, Take1(|c, v| limits::ranges(c, |d: &mut CoreDir| &mut d.max_range_overlaps, defaults::MAX_RANGE_OVERLAPS, v)), shown!(defaults::MAX_RANGE_OVERLAPS), "Maximum number of overlaps in Ranges in a request before returning the entire resource, or 0 for unlimited"),
    row("MaxRangeReversals", CONF, Take1(|c, v| limits::ranges(c, |d: &mut CoreDir| &mut d.max_range_reversals, defaults::MAX_RANGE_REVERSALS, v)), shown!(defaults::MAX_RANGE_REVERSALS), "Maximum number of reversals in Ranges in a request before returning the entire resource, or 0 for unlimited"),
    row("RLimitCPU", ANY, Take12(|c, a, b| limits::rlimit(c, |d: &mut CoreDir| &mut d.rlimit_cpu, a, b)), "", "Soft/hard limits for max CPU usage in seconds").differs(OF_SCRIPTS),
    row("RLimitMEM", ANY, Take12(|c, a, b| limits::rlimit(c, |d: &mut CoreDir| &mut d.rlimit_mem, a, b)), "", "Soft/hard limits for max memory usage per process").differs(OF_SCRIPTS),
    row("RLimitNPROC", ANY, Take12(|c, a, b| limits::rlimit(c, |d: &mut CoreDir| &mut d.rlimit_nproc, a, b)), "", "soft/hard limits for max number of processes per uid").differs(OF_SCRIPTS),
    row("RegexDefaultOptions", GLOBAL, Words(set::regex_options), "DOTALL DOLLAR_ENDONLY", "default options for regexes (prefixed by '+' to add, '-' to del)").without_effect("Regular expressions always have DOTALL and DOLLAR_ENDONLY."),
    row("LimitInternalRecursion", SERVER, Take12(limits::internal_recursion), shown!(defaults::INTERNAL_RECURSION), "maximum recursion depth of internal redirects and subrequests"),
    row("CGIPassAuth", Allowed::AUTH, Flag(|c, on| c.set(|d: &mut CoreDir| &mut d.cgi_pass_auth, on)), on_or_off(defaults::CGI_PASS_AUTH), "Controls whether HTTP authorization headers, normally hidden, will be passed to scripts"),
    row("CGIVar", FILEINFO, Take2(response::cgi_var), "", "Controls how some CGI variables are set"),
    row("QualifyRedirectURL", FILEINFO, Flag(|c, on| c.set(|d: &mut CoreDir| &mut d.qualify_redirect_url, on)), on_or_off(defaults::QUALIFY_REDIRECT_URL), "Controls whether the REDIRECT_URL environment variable is fully qualified"),
    row("StrictHostCheck", SERVER, Flag(|c, on| c.server_set(|s: &mut CoreServer| &mut s.strict_host_check, on)), on_or_off(defaults::STRICT_HOST_CHECK), "Controls whether a hostname match is required"),
    row("ForceType", FILEINFO, Take1(response::force_type), "", "a mime type that overrides other configured type"),
    row("SetHandler", FILEINFO, Take1(response::set_handler), "", "a handler name that overrides any other configured handler"),
    row("SetOutputFilter", FILEINFO, Take1(|c, v| response::filters(c, |d: &mut CoreDir| &mut d.output_filters, v)), "", "filter (or ; delimited list of filters) to be run on the request content"),
    row("SetInputFilter", FILEINFO, Take1(|c, v| response::filters(c, |d: &mut CoreDir| &mut d.input_filters, v)), "", "filter (or ; delimited list of filters) to be run on the request body"),
    row("AllowEncodedSlashes", SERVER, Take1(protocol::encoded_slashes), defaults::ENCODED_SLASHES.shown(), "Allow URLs containing '/' encoded as '%2F'").differs("A path that leaves the root when it is decoded is invalid (400); Apache answers 404."),
    row("ExtendedStatus", GLOBAL, Flag(|c, on| c.server_set(|s: &mut CoreServer| &mut s.extended_status, on)), "On with mod_status", "\"On\" to track extended status information, \"Off\" to disable"),
    row("SeeRequestTail", GLOBAL, Flag(|c, on| c.server_set(|s: &mut CoreServer| &mut s.see_request_tail, on)), on_or_off(defaults::SEE_REQUEST_TAIL), "For extended status, \"On\" to see the last 63 chars of the request line, \"Off\" (default) to see the first 63"),
    row("TraceEnable", SERVER, Take1(protocol::trace), defaults::TRACE.shown(), "'on' (default), 'off' or 'extended' to trace request body content").differs("TRACE is answered with the request as it came: fields of the same name are not joined, and the length is sent."),
    row("MergeTrailers", SERVER, Flag(|c, on| c.server_set(|s: &mut CoreServer| &mut s.merge_trailers, on)), "Off", "merge request trailers into request headers or not").without_effect("Trailers are never merged into the fields of the head; the access log shows them."),
    row("Protocols", SERVER, Iterate(protocol::protocols), "http/1.1", "Controls which protocols are allowed").differs("HTTP/2 (h2, h2c) needs mod_http2, and HTTP/1.1 is spoken even if it is not named; other names are ignored."),
    row("ProtocolsHonorOrder", SERVER, Take1(protocol::protocols_honor_order), "On", "'off' (default) or 'on' to respect given order of protocols, by default the client specified order determines selection"),
    row("HttpProtocolOptions", SERVER, Iterate(protocol::protocol_options), "Strict LenientMethods Allow0.9", "'Allow0.9' or 'Require1.0' (default); 'RegisteredMethods' or 'LenientMethods' (default); 'Unsafe' or 'Strict' (default). Sets HTTP acceptance rules").differs("HTTP/0.9 is not spoken, even with Allow0.9; the 501 of RegisteredMethods lists all methods in Allow."),
    row("RegisterHttpMethod", GLOBAL, Iterate(|c, v| { Methods::add(c, v); Ok(()) }), "", "Registers non-standard HTTP methods"),
    row("MergeSlashes", SERVER, Flag(|c, on| c.server_set(|s: &mut CoreServer| &mut s.merge_slashes, on)), on_or_off(defaults::MERGE_SLASHES), "Controls whether consecutive slashes in the URI path are merged"),
];

#[rustfmt::skip]
const HTTP_DIRECTIVES: &[Directive] = &[
    row("KeepAliveTimeout", SERVER, Take1(protocol::keep_alive_timeout), shown!(defaults::KEEP_ALIVE_TIMEOUT.as_secs()), "Keep-Alive timeout duration (sec)").differs("While clients wait for room, event closes connections that were idle for a tenth of a second; a child that is ending keeps to the timeout, except at a graceful stop."),
    row("MaxKeepAliveRequests", SERVER, Take1(protocol::max_keep_alive_requests), shown!(defaults::MAX_KEEP_ALIVE_REQUESTS), "Maximum number of Keep-Alive requests per connection, or 0 for infinite"),
    row("KeepAlive", SERVER, Flag(|c, on| c.server_set(|s: &mut CoreServer| &mut s.keep_alive, on)), on_or_off(defaults::KEEP_ALIVE), "Whether persistent connections should be On or Off"),
];

#[rustfmt::skip]
const SO_DIRECTIVES: &[Directive] = &[
    row("LoadModule", SERVER, OnRead(Run::LoadModule), "", "a module name and the name of a shared object file to load it from").differs("It selects a module that is built in; its file is not looked at. Without any such line every module is there."),
    row("LoadFile", SERVER, OnRead(Run::LoadFile), "", "shared object file or library to load into the server at runtime").without_effect("Nothing is loaded from files."),
];

#[rustfmt::skip]
const VERSION_DIRECTIVES: &[Directive] = &[
    row("<IfVersion", NOTHING_KEPT, OnRead(Run::IfVersion), "", "a comparison operator, a version (and a delimiter)"),
];

#[rustfmt::skip]
const WATCHDOG_DIRECTIVES: &[Directive] = &[
    row("WatchdogInterval", GLOBAL, Take1(set::watchdog_interval), "1", "Watchdog interval in seconds").without_effect("No module works at intervals."),
];

#[rustfmt::skip]
const MACRO_DIRECTIVES: &[Directive] = &[
    row("<Macro", NOTHING_KEPT, OnRead(Run::Macro), "", "Beginning of a macro definition section."),
    row("Use", NOTHING_KEPT, OnRead(Run::Use), "", "Use of a macro."),
    row("UndefMacro", NOTHING_KEPT, OnRead(Run::UndefMacro), "", "Remove a macro definition."),
    row("MacroIgnoreEmptyArgs", NOTHING_KEPT, OnRead(Run::MacroIgnoreEmptyArgs), "", "Globally ignore warnings about empty arguments.").without_effect("The warnings appear all the same."),
    row("MacroIgnoreBadNesting", NOTHING_KEPT, OnRead(Run::MacroIgnoreBadNesting), "", "Globally ignore warnings about bad nesting.").without_effect("There is no such warning: the server looks at a macro's contents only when it is used, and then a section must be whole."),
];

//! The settings of the core module, which works without any other module.

pub mod etag;
pub mod options;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use conf::expr::StringExpr;
use conf::{
    Allowed, Cmd, Gathered, Keyed, Listed, Merge, Origin, Own, Setting, Settings, SettingsMap, on_or_off, settings,
};

use crate::log::LogLevels;
use crate::settings::core::etag::FileETag;
use crate::settings::section::Section;

/// A setting that is off, on, or something in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the keywords")]
pub enum Tri {
    Off,
    On,
    Other,
}

impl Tri {
    /// The word for a default in a table of directives. The third value's word differs from directive to directive.
    pub(crate) const fn shown(self) -> &'static str {
        match self {
            Tri::Off => on_or_off(false),
            Tri::On => on_or_off(true),
            Tri::Other => panic!("it has no word"),
        }
    }
}

/// A custom response for a status.
#[derive(Clone, Debug)]
pub enum ErrorDocument {
    /// The server's own page.
    Default,
    /// A text instead of the page.
    Text(Arc<StringExpr>),
    /// A path of this server: an internal redirect.
    Path(Arc<StringExpr>),
    /// A URL: the client is sent there.
    Url(Arc<StringExpr>),
}

/// `SetHandler`.
#[derive(Clone, Debug)]
pub enum HandlerName {
    /// A name; `None` for `none`.
    Name(Option<String>),
    /// An expression whose value is the name.
    Expr(Arc<StringExpr>),
}

/// `AllowOverride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    /// The allowed classes; empty for None.
    pub classes: Allowed,
    /// The allowed options.
    pub options: crate::settings::core::options::Bits,
    /// `Nonfatal=Override` or `All`.
    pub skip_forbidden: bool,
    /// `Nonfatal=Unknown` or `All`.
    pub skip_unknown: bool,
}

/// None.
impl Default for Override {
    fn default() -> Override {
        Override {
            classes: Allowed::NONE,
            options: crate::settings::core::options::Bits::MAX,
            skip_forbidden: false,
            skip_unknown: false,
        }
    }
}

/// The default of `DocumentRoot`.
pub const DOCUMENT_ROOT: &str = "/var/www/html";

/// `ServerName`.
#[derive(Clone, Debug, Default)]
pub struct ServerName {
    /// The scheme of our own URLs is https: a proxy in front of us encrypts the connections.
    pub https: bool,
    /// The name.
    pub name: String,
    /// The port, if given.
    pub port: Option<u16>,
}

/// `ServerTokens`: how much the `Server` field reveals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the keywords")]
pub enum Tokens {
    Prod,
    Major,
    Minor,
    Min,
    Os,
    Full,
}

/// A virtual host as written, before it is merged with the main server.
#[derive(Clone, Debug)]
pub struct HostDraft {
    /// The addresses of its `<VirtualHost>` line.
    pub addresses: Vec<HostAddress>,
    /// Its server settings.
    pub server: SettingsMap,
    /// Its settings outside sections.
    pub dir: SettingsMap,
    /// The port of the main server's name, if that has been read yet.
    pub main_port: Option<u16>,
}

/// An address of a `<VirtualHost>` line. `None` means any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostAddress {
    /// The IP address.
    pub ip: Option<std::net::IpAddr>,
    /// The port.
    pub port: Option<u16>,
}

/// The defaults, for the fields below and for the table of directives.
pub(crate) mod defaults {
    use std::time::Duration;

    use crate::settings::core::Tri;

    pub(crate) const ACCESS_FILE_NAME: &str = ".htaccess";
    pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
    pub(crate) const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);
    pub(crate) const MAX_KEEP_ALIVE_REQUESTS: u32 = 100;
    pub(crate) const LIMIT_REQUEST_LINE: usize = 8190;
    pub(crate) const LIMIT_REQUEST_FIELD_SIZE: usize = 8190;
    pub(crate) const LIMIT_REQUEST_FIELDS: usize = 100;
    pub(crate) const LIMIT_REQUEST_BODY: u64 = 1 << 30;
    pub(crate) const INTERNAL_RECURSION: u32 = 10;
    pub(crate) const MAX_RANGES: u32 = 200;
    pub(crate) const MAX_RANGE_OVERLAPS: u32 = 20;
    pub(crate) const MAX_RANGE_REVERSALS: u32 = 20;
    pub(crate) const ENCODED_SLASHES: Tri = Tri::Off;
    pub(crate) const TRACE: Tri = Tri::On;
    pub(crate) const SIGNATURE: Tri = Tri::Off;
    pub(crate) const CANONICAL_NAME: Tri = Tri::Off;
    pub(crate) const HOSTNAME_LOOKUPS: Tri = Tri::Off;
    pub(crate) const CANONICAL_PHYSICAL_PORT: bool = false;
    pub(crate) const CGI_PASS_AUTH: bool = false;
    pub(crate) const QUALIFY_REDIRECT_URL: bool = false;
    pub(crate) const STRICT_HOST_CHECK: bool = false;
    pub(crate) const SEE_REQUEST_TAIL: bool = false;
    pub(crate) const MERGE_SLASHES: bool = true;
    pub(crate) const KEEP_ALIVE: bool = true;
}

settings! {
    /// The core's settings of a server or virtual host.
    pub struct CoreServer {
        pub virtual_hosts: Listed<HostDraft>,
        pub directories: Listed<Arc<Section>>,
        pub locations: Listed<Arc<Section>>,
        pub document_root: Setting<String>,
        pub server_name: Setting<ServerName>,
        pub server_aliases: Listed<String>,
        pub server_path: Setting<String>,
        pub server_admin: Setting<String>,
        /// Its connections are encrypted: set by the module that does that.
        pub encrypted: Setting<bool>,
        pub error_log: Setting<String>,
        pub error_log_format: Setting<String>,
        pub log_level: LogLevels,
        pub access_file_names: Setting<Vec<String>>,
        pub timeout: Setting<Duration> = defaults::TIMEOUT,
        pub keep_alive: Setting<bool> = defaults::KEEP_ALIVE,
        pub keep_alive_timeout: Setting<Duration> = defaults::KEEP_ALIVE_TIMEOUT,
        pub max_keep_alive_requests: Setting<u32> = defaults::MAX_KEEP_ALIVE_REQUESTS,
        pub limit_request_line: Setting<usize> = defaults::LIMIT_REQUEST_LINE,
        pub limit_request_field_size: Setting<usize> = defaults::LIMIT_REQUEST_FIELD_SIZE,
        pub limit_request_fields: Setting<usize> = defaults::LIMIT_REQUEST_FIELDS,
        pub trace: Setting<Tri> = defaults::TRACE,
        pub encoded_slashes: Own<Tri> = defaults::ENCODED_SLASHES,
        pub merge_slashes: Setting<bool> = defaults::MERGE_SLASHES,
        pub merge_trailers: Setting<bool>,
        pub strict: Setting<bool>,
        pub registered_methods: Setting<bool>,
        pub allow_0_9: Setting<bool>,
        pub strict_host_check: Setting<bool> = defaults::STRICT_HOST_CHECK,
        pub internal_recursion: Setting<(u32, u32)> = (defaults::INTERNAL_RECURSION, defaults::INTERNAL_RECURSION),
        pub protocols: Gathered<Vec<String>>,
        pub protocols_honor_order: Setting<bool> = true,
        pub server_tokens: Setting<Tokens>,
        pub extended_status: Setting<bool> = true,
        pub see_request_tail: Setting<bool> = defaults::SEE_REQUEST_TAIL,
        pub mutexes: Keyed<String, Mutex>,
    }
}

settings! {
    /// The methods that the configuration adds, anywhere: requests may use them at every virtual host.
    pub struct Methods {
        pub added: Listed<String>,
    }
}

settings! {
    /// The core's settings of a section.
    pub struct CoreDir {
        pub files: Listed<Arc<Section>>,
        pub ifs: Listed<Arc<Section>>,
        pub options: Plain<crate::settings::core::options::Options>,
        pub allow_override: Setting<Override>,
        pub allow_override_list: Setting<Arc<HashSet<String>>>,
        pub error_documents: Keyed<u16, ErrorDocument>,
        pub handler: Setting<HandlerName>,
        pub force_type: Setting<Option<String>>,
        pub output_filters: Setting<Vec<String>>,
        pub input_filters: Setting<Vec<String>>,
        pub default_charset: Setting<Option<String>>,
        pub accept_path_info: Setting<Option<bool>>,
        pub etag: FileETag,
        pub sendfile: Setting<bool>,
        pub mmap: Setting<bool>,
        pub content_digest: Setting<bool>,
        pub signature: Setting<Tri> = defaults::SIGNATURE,
        pub canonical_name: Setting<Tri> = defaults::CANONICAL_NAME,
        pub canonical_physical_port: Setting<bool> = defaults::CANONICAL_PHYSICAL_PORT,
        pub hostname_lookups: Setting<Tri> = defaults::HOSTNAME_LOOKUPS,
        pub log_level: LogLevels,
        pub limit_request_body: Setting<u64> = defaults::LIMIT_REQUEST_BODY,
        pub limit_xml_request_body: Setting<u64>,
        pub max_ranges: Setting<Option<u32>> = Some(defaults::MAX_RANGES),
        pub max_range_overlaps: Setting<Option<u32>> = Some(defaults::MAX_RANGE_OVERLAPS),
        pub max_range_reversals: Setting<Option<u32>> = Some(defaults::MAX_RANGE_REVERSALS),
        pub read_buffer_size: Setting<usize>,
        pub cgi_pass_auth: Setting<bool> = defaults::CGI_PASS_AUTH,
        pub cgi_vars: Keyed<String, String>,
        pub qualify_redirect_url: Setting<bool> = defaults::QUALIFY_REDIRECT_URL,
        pub rlimit_cpu: Setting<Rlimit>,
        pub rlimit_mem: Setting<Rlimit>,
        pub rlimit_nproc: Setting<Rlimit>,
    }
}

impl CoreServer {
    /// The allowed protocols, the preferred ones first (`Protocols`).
    pub fn protocols(&self) -> impl Iterator<Item = &str> {
        let named = self.protocols.get().map_or(&[][..], |named| &named[..]);
        let default = if named.is_empty() { Some("http/1.1") } else { None };
        named.iter().map(String::as_str).chain(default)
    }

    /// Whether this protocol is allowed.
    pub fn speaks(&self, protocol: &str) -> bool {
        self.protocols().any(|one| one == protocol)
    }
}

impl Methods {
    /// Whether a method is one of Apache's or was added (`RegisterHttpMethod`, `<Limit>`, `Script`).
    pub fn knows(&self, method: &str) -> bool {
        http::method::is_registered(method.as_bytes()) || self.added.iter().any(|added| added == method)
    }

    /// Adds a method.
    pub fn add(cmd: &mut Cmd<'_>, method: &str) {
        let origin = cmd.origin();
        cmd.context.language.kept.edit::<Methods>().added.push(method.to_string(), &origin);
    }
}

/// A soft limit, and a hard one if it differs; `None` is `max`.
pub type Rlimit = (Option<u64>, Option<Option<u64>>);

/// A field whose own type defines how it merges.
#[derive(Clone, Debug, Default)]
pub struct Plain<T>(pub T);

impl<T: Merge> Merge for Plain<T> {
    fn merge(base: &Self, add: &Self) -> Self {
        Plain(T::merge(&base.0, &add.0))
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.0.origins(see);
    }
}

/// A `Mutex` line for one kind of lock.
#[derive(Clone, Debug)]
pub struct Mutex {
    pub(crate) mechanism: Mechanism,
    pub(crate) dir: Option<String>,
    pub(crate) omit_pid: bool,
}

/// How to lock, in the spelling of the dump.
pub(crate) type Mechanism = &'static str;

/// The list of sections of one kind in `slots`.
pub(crate) fn listed<S: Settings>(slots: &SettingsMap, field: fn(&S) -> &Listed<Arc<Section>>) -> Vec<Arc<Section>> {
    field(slots.get::<S>()).iter().cloned().collect()
}

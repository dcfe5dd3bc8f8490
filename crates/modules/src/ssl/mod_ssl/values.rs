//! The types of the module's settings.

use conf::Origin;

/// A file, and the line that names it.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct NamedFile {
    pub path: String,
    pub origin: Origin,
}

/// Where a pass phrase comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassPhrase {
    /// Somebody types it.
    Builtin,
    /// A program that is asked for all of them, by its command line.
    Pipe(String),
    /// A program that is started for each, by its file.
    Program(String),
}

/// When random numbers are to be seeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the keywords")]
pub enum SeedTime {
    Startup,
    Connect,
}

/// What random numbers are to be seeded from. The system's own are always enough; the lines are checked and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeedSource {
    /// The process itself.
    Builtin,
    /// A file, and how many bytes of it; 0: all.
    File(String, u32),
    /// What a program writes, and how many bytes of it; 0: all.
    Program(String, u32),
}

/// A line of `SSLRandomSeed`.
pub type Seed = (SeedTime, SeedSource);

/// A cache that all children share: its kind, and what that kind is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// As in `SharedCache::names`.
    pub kind: String,
    /// What stands behind the colon.
    pub argument: Option<String>,
}

/// `SSLVHostSNIPolicy`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the keywords")]
pub enum SniPolicy {
    Strict,
    Secure,
    AuthOnly,
    Insecure,
}

impl SniPolicy {
    /// Its keyword.
    pub fn name(self) -> &'static str {
        match self {
            SniPolicy::Strict => "strict",
            SniPolicy::Secure => "secure",
            SniPolicy::AuthOnly => "authonly",
            SniPolicy::Insecure => "insecure",
        }
    }
}

/// A set of versions of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocols(pub u8);

impl Protocols {
    /// The two that are spoken here.
    pub const TLS12: Protocols = Protocols(4);
    /// See [`TLS12`](Self::TLS12).
    pub const TLS13: Protocols = Protocols(8);
    /// Those of a server that says nothing.
    pub const DEFAULT: Protocols = Protocols(15);

    /// The names with their versions; SSL 3 is known to be none.
    pub const NAMES: [(&str, Protocols); 6] = [
        ("SSLv3", Protocols(0)),
        ("TLSv1", Protocols(1)),
        ("TLSv1.1", Protocols(2)),
        ("TLSv1.2", Protocols(4)),
        ("TLSv1.3", Protocols(8)),
        ("all", Protocols(15)),
    ];
}

/// What is asked of a client's (or, by a proxy, a server's) certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the keywords")]
pub enum Verify {
    None,
    Optional,
    Require,
    OptionalNoCa,
}

/// Which certificates of a chain are checked for having been revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateCheck {
    /// Which.
    pub depth: CheckDepth,
    /// Of a certificate about which nothing is known nothing bad is thought.
    pub unknown_is_good: bool,
}

/// How far up a chain is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the keywords")]
pub enum CheckDepth {
    None,
    Leaf,
    Chain,
}

/// What stands in front of a word of `SSLOptions`: a word without sign ends what was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Sign {
    None,
    Plus,
    Minus,
}

/// A word of `SSLOptions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the keywords")]
pub enum SslOption {
    StdEnvVars,
    ExportCertData,
    FakeBasicAuth,
    StrictRequire,
    OptRenegotiate,
    LegacyDnStringFormat,
}

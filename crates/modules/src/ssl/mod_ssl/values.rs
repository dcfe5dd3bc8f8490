//! The types of the module's settings.

use conf::Origin;

/// A file, and the line that names it.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct NamedFile {
    pub path: String,
    pub origin: Origin,
}

/// The source of pass phrases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassPhrase {
    /// The administrator types them.
    Builtin,
    /// A program that answers all questions, given by its command line.
    Pipe(String),
    /// A program started once for each pass phrase, given by its file.
    Program(String),
}

/// When to seed the random number generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the keywords")]
pub enum SeedTime {
    Startup,
    Connect,
}

/// The source of random seeds. The system's own randomness always suffices; these lines are checked and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeedSource {
    /// The process itself.
    Builtin,
    /// A file, and how many of its bytes to use; 0: all.
    File(String, u32),
    /// The output of a program, and how many of its bytes to use; 0: all.
    Program(String, u32),
}

/// A line of `SSLRandomSeed`.
pub type Seed = (SeedTime, SeedSource);

/// A cache that all children share: its kind and the argument for that kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// As in `SharedCache::names`.
    pub kind: String,
    /// The text after the colon.
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
    /// The keyword.
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
    /// TLS 1.2. Only it and [`TLS13`](Self::TLS13) are supported.
    pub const TLS12: Protocols = Protocols(4);
    /// TLS 1.3. See [`TLS12`](Self::TLS12).
    pub const TLS13: Protocols = Protocols(8);
    /// The default of a server without `SSLProtocol`.
    pub const DEFAULT: Protocols = Protocols(15);

    /// The names with their versions; SSL 3 is a known name without a version.
    pub const NAMES: [(&str, Protocols); 6] = [
        ("SSLv3", Protocols(0)),
        ("TLSv1", Protocols(1)),
        ("TLSv1.1", Protocols(2)),
        ("TLSv1.2", Protocols(4)),
        ("TLSv1.3", Protocols(8)),
        ("all", Protocols(15)),
    ];
}

/// The requirement on a client's (or, for a proxy, a server's) certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the keywords")]
pub enum Verify {
    None,
    Optional,
    Require,
    OptionalNoCa,
}

/// The check of certificates for revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateCheck {
    /// The part of the chain that is checked.
    pub depth: CheckDepth,
    /// Accepts a certificate whose status is unknown.
    pub unknown_is_good: bool,
}

/// How much of a chain is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the keywords")]
pub enum CheckDepth {
    None,
    Leaf,
    Chain,
}

/// The sign before a word of `SSLOptions`: a word without a sign discards the words before it.
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

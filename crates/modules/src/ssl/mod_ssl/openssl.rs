//! `SSLOpenSSLConfCmd`: the supported commands of OpenSSL's configuration (SSL_CONF_cmd(3)), and the unsupported ones.

use rustls::SignatureScheme;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::kx_group;

use super::SslServer;
use super::values::Protocols;

/// The combined effect of a virtual host's commands. `None`: not set.
#[derive(Default)]
pub(super) struct Commands {
    /// The remaining versions.
    pub(super) versions: Option<Protocols>,
    /// `CipherString`
    pub(super) tls12: Option<String>,
    /// `Ciphersuites`
    pub(super) tls13: Option<String>,
    /// `Groups`, in the order of preference.
    pub(super) groups: Option<Vec<&'static dyn SupportedKxGroup>>,
    /// `SignatureAlgorithms`
    pub(super) schemes: Option<Vec<SignatureScheme>>,
    /// Names that OpenSSL knows and this server does not support, each with its command and line.
    pub(super) missing: Vec<String>,
}

/// Key exchange groups by OpenSSL's names, case-insensitive. `None`: not supported here.
const GROUPS: &[(&[&str], Option<&'static dyn SupportedKxGroup>)] = &[
    (&["X25519"], Some(kx_group::X25519)),
    (&["P-256", "prime256v1", "secp256r1"], Some(kx_group::SECP256R1)),
    (&["P-384", "secp384r1"], Some(kx_group::SECP384R1)),
    (&["X25519MLKEM768"], Some(kx_group::X25519MLKEM768)),
    (&["SecP256r1MLKEM768"], Some(kx_group::SECP256R1MLKEM768)),
    (&["MLKEM768"], Some(kx_group::MLKEM768)),
    (&["MLKEM1024"], Some(kx_group::MLKEM1024)),
    (&["P-521", "secp521r1", "X448", "P-224", "secp224r1", "P-192", "secp192r1", "secp256k1"], None),
    (&["brainpoolP256r1", "brainpoolP384r1", "brainpoolP512r1", "SecP384r1MLKEM1024"], None),
    (&["ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"], None),
];

/// Signature schemes by OpenSSL's names, case-insensitive. An empty list: not supported here.
const SCHEMES: &[(&[&str], &[SignatureScheme])] = {
    use SignatureScheme as S;
    &[
        (&["ECDSA+SHA256", "ecdsa_secp256r1_sha256"], &[S::ECDSA_NISTP256_SHA256]),
        (&["ECDSA+SHA384", "ecdsa_secp384r1_sha384"], &[S::ECDSA_NISTP384_SHA384]),
        (&["ECDSA+SHA512", "ecdsa_secp521r1_sha512"], &[S::ECDSA_NISTP521_SHA512]),
        (&["ed25519"], &[S::ED25519]),
        (&["RSA-PSS+SHA256", "PSS+SHA256", "rsa_pss_rsae_sha256"], &[S::RSA_PSS_SHA256]),
        (&["RSA-PSS+SHA384", "PSS+SHA384", "rsa_pss_rsae_sha384"], &[S::RSA_PSS_SHA384]),
        (&["RSA-PSS+SHA512", "PSS+SHA512", "rsa_pss_rsae_sha512"], &[S::RSA_PSS_SHA512]),
        (&["RSA+SHA256", "rsa_pkcs1_sha256"], &[S::RSA_PKCS1_SHA256]),
        (&["RSA+SHA384", "rsa_pkcs1_sha384"], &[S::RSA_PKCS1_SHA384]),
        (&["RSA+SHA512", "rsa_pkcs1_sha512"], &[S::RSA_PKCS1_SHA512]),
        (&["ed448", "rsa_pss_pss_sha256", "rsa_pss_pss_sha384", "rsa_pss_pss_sha512"], &[]),
        (&["RSA+SHA1", "ECDSA+SHA1", "rsa_pkcs1_sha1", "ecdsa_sha1", "RSA+SHA224", "ECDSA+SHA224"], &[]),
        (&["DSA+SHA1", "DSA+SHA224", "DSA+SHA256", "DSA+SHA384", "DSA+SHA512"], &[]),
    ]
};

/// Reads the commands of a virtual host; `versions` are those of `SSLProtocol`. `Err` is a message for the log.
pub(super) fn read(server: &SslServer, host: &str, versions: Protocols) -> Result<Commands, String> {
    let mut commands = Commands::default();
    for ((name, value), origin) in server.openssl_commands.entries() {
        let failed =
            |why: &str| format!("AH02407: \"SSLOpenSSLConfCmd {name} {value}\" failed for {host} ({origin}): {why}");
        let mut missing = Vec::new();
        match name.to_ascii_lowercase().as_str() {
            "minprotocol" => {
                let first = version(value).ok_or_else(|| failed("there is no such version"))?;
                let known = commands.versions.unwrap_or(versions).0;
                commands.versions = Some(Protocols(known & !first.saturating_sub(1)));
            }
            "maxprotocol" => {
                let last = version(value).ok_or_else(|| failed("there is no such version"))?;
                let known = commands.versions.unwrap_or(versions).0;
                let all = if last == 0 { u8::MAX } else { last | last.wrapping_sub(1) };
                commands.versions = Some(Protocols(known & all));
            }
            "cipherstring" => commands.tls12 = Some(value.clone()),
            "ciphersuites" => commands.tls13 = Some(value.clone()),
            "groups" | "curves" => {
                let groups = found(value, GROUPS, &mut missing).map_err(|why| failed(&why))?;
                let groups: Vec<_> = groups.into_iter().flatten().collect();
                if groups.is_empty() {
                    return Err(failed("none of these is offered here"));
                }
                commands.groups = Some(groups);
            }
            "signaturealgorithms" => {
                let schemes = found(value, SCHEMES, &mut missing).map_err(|why| failed(&why))?.concat();
                if schemes.is_empty() {
                    return Err(failed("none of these is offered here"));
                }
                commands.schemes = Some(schemes);
            }
            _ => return Err(failed("this OpenSSL command is not supported")),
        }
        commands.missing.extend(missing.iter().map(|one| format!("{name} {one} at {origin}")));
    }
    Ok(commands)
}

/// The bit of a version. The name `None` means no limit: 0.
fn version(name: &str) -> Option<u8> {
    if name.eq_ignore_ascii_case("None") {
        return Some(0);
    }
    let mut names = Protocols::NAMES.iter().filter(|(known, _)| *known != "all");
    names.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, bit)| bit.0)
}

/// The values for the names in a list with colons; names without a value go to `missing`. `Err`: a name unknown to
/// OpenSSL.
fn found<'a, T: Copy + Emptiness>(
    list: &'a str,
    table: &[(&[&str], T)],
    missing: &mut Vec<&'a str>,
) -> Result<Vec<T>, String> {
    let mut values = Vec::new();
    for name in list.split(':').filter(|name| !name.is_empty()) {
        // A question mark makes an unknown name acceptable.
        let (name, may_be_unknown) = name.strip_prefix('?').map_or((name, false), |name| (name, true));
        let known = table.iter().find(|(names, _)| names.iter().any(|one| one.eq_ignore_ascii_case(name)));
        match known {
            Some((_, value)) if value.is_empty() => missing.push(name),
            Some((_, value)) => values.push(*value),
            None if may_be_unknown => {}
            None => return Err(format!("{name} is not known")),
        }
    }
    Ok(values)
}

/// A value that may be empty, which means unsupported.
trait Emptiness {
    fn is_empty(&self) -> bool;
}

impl<T> Emptiness for Option<T> {
    fn is_empty(&self) -> bool {
        self.is_none()
    }
}

impl<T> Emptiness for &[T] {
    fn is_empty(&self) -> bool {
        <[T]>::is_empty(self)
    }
}

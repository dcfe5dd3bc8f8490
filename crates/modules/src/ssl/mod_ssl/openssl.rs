//! `SSLOpenSSLConfCmd`: the supported commands of OpenSSL's configuration (SSL_CONF_cmd(3)), and the unsupported ones.

use rustls::SignatureScheme;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::kx_group;

use super::settings::SslServer;
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
    /// `Options`: whether tickets are issued, and whether the server's order of suites counts.
    pub(super) tickets: Option<bool>,
    pub(super) own_order: Option<bool>,
    /// `NumTickets`
    pub(super) ticket_count: Option<usize>,
    /// Names that OpenSSL knows and this server does not offer, each with its command and line.
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

/// The words of `Options`: what they do here.
#[derive(Clone, Copy)]
enum Word {
    /// Has its effect.
    Tickets,
    OwnOrder,
    /// What it asks for is always so, or is about something that there is not: renegotiation, suites with CBC or with keys
    /// of finite fields, compression, old clients' faults, the kernel's encryption.
    Moot,
    /// Asks for something that there is not, and that a client could notice.
    Missing,
}

/// The words of `Options`, case-insensitive.
const OPTIONS: &[(&str, Word)] = {
    use Word::{Missing, Moot, OwnOrder, Tickets};
    &[
        ("SessionTicket", Tickets),
        ("ServerPreference", OwnOrder),
        ("PrioritizeChaCha", Missing),
        ("PreferNoDHEKEX", Missing),
        ("AllowNoDHEKEX", Moot),
        ("AntiReplay", Moot),
        ("Bugs", Moot),
        ("CANames", Moot),
        ("Compression", Moot),
        ("DHSingle", Moot),
        ("ECDHSingle", Moot),
        ("EmptyFragments", Moot),
        ("EncryptThenMac", Moot),
        ("ExtendedMasterSecret", Moot),
        ("IgnoreUnexpectedEOF", Moot),
        ("KTLS", Moot),
        ("KTLSTxZerocopySendfile", Moot),
        ("MiddleboxCompat", Moot),
        ("NoRenegotiation", Moot),
        ("NoResumptionOnRenegotiation", Moot),
        ("RxCertificateCompression", Moot),
        ("StrictCertCheck", Moot),
        ("TxCertificateCompression", Moot),
        ("UnsafeLegacyRenegotiation", Moot),
        ("UnsafeLegacyServerConnect", Moot),
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
            "protocol" => {
                let known = commands.versions.unwrap_or(Protocols::DEFAULT).0;
                commands.versions = Some(protocol(value, known).map_err(|why| failed(&why))?);
            }
            "options" => commands.options(value, &mut missing).map_err(|why| failed(&why))?,
            "numtickets" => commands.ticket_count = Some(value.parse().map_err(|_| failed("it is not a number"))?),
            // OpenSSL has chosen by itself since 1.1.0.
            "ecdhparameters" if is_automatic(value) => {}
            // No suite needs them.
            "dhparameters" => {}
            "groups" | "curves" | "ecdhparameters" => {
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

/// Whether a value of `ECDHParameters` leaves the choice to the library.
fn is_automatic(value: &str) -> bool {
    let value = value.strip_prefix('+').unwrap_or(value);
    ["automatic", "auto", "onfail"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// The versions that a list such as `-ALL,TLSv1.2` leaves of the known ones.
fn protocol(list: &str, mut known: u8) -> Result<Protocols, String> {
    for word in list.split(',').map(str::trim) {
        let (is_on, name) = signed(word);
        let bits = match name.eq_ignore_ascii_case("ALL") {
            true => Protocols::DEFAULT.0,
            false if name.eq_ignore_ascii_case("SSLv2") => 0,
            false => version(name).ok_or_else(|| format!("{name} is not known"))?,
        };
        known = if is_on { known | bits } else { known & !bits };
    }
    Ok(Protocols(known))
}

/// A word that a sign turns on or off.
fn signed(word: &str) -> (bool, &str) {
    match word.strip_prefix('-') {
        Some(name) => (false, name),
        None => (true, word.strip_prefix('+').unwrap_or(word)),
    }
}

impl Commands {
    /// `Options`. `Err`: a word unknown to OpenSSL.
    fn options<'a>(&mut self, list: &'a str, missing: &mut Vec<&'a str>) -> Result<(), String> {
        for word in list.split(',').map(str::trim) {
            let (is_on, name) = signed(word);
            let known = OPTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            match known.ok_or_else(|| format!("{name} is not known"))?.1 {
                Word::Tickets => self.tickets = Some(is_on),
                Word::OwnOrder => self.own_order = Some(is_on),
                Word::Missing if is_on => missing.push(name),
                Word::Missing | Word::Moot => {}
            }
        }
        Ok(())
    }
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
    // A slash ends a group of equals, an asterisk asks for a key share in advance.
    for name in list.split([':', '/']).map(|name| name.trim_start_matches('*')).filter(|name| !name.is_empty()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(lines: &[(&str, &str)]) -> Result<Commands, String> {
        let mut server = SslServer::default();
        for (name, value) in lines {
            let line = ((*name).to_string(), (*value).to_string());
            let origin = conf::Origin { source: std::sync::Arc::new(conf::source::Source::new("f")), line: 1 };
            server.openssl_commands.push(line, &origin);
        }
        read(&server, "host", Protocols::DEFAULT)
    }

    #[test]
    fn words_as_openssl_reads_them() {
        for (name, value, error) in [
            ("ECDHParameters", "Automatic", ""),
            ("ecdhparameters", "+automatic", ""),
            ("ECDHParameters", "secp384r1", ""),
            ("ECDHParameters", "secp999r1", "secp999r1 is not known"),
            ("Groups", "?unknown:*X25519/P-256", ""),
            ("DHParameters", "/etc/dh.pem", ""),
            ("Options", "-SessionTicket,ServerPreference", ""),
            ("Options", "NoSuchOption", "NoSuchOption is not known"),
            ("NumTickets", "x", "it is not a number"),
            ("Protocol", "-ALL,TLSv1.9", "TLSv1.9 is not known"),
            ("VerifyMode", "Peer", "this OpenSSL command is not supported"),
        ] {
            let found = commands(&[(name, value)]).err().unwrap_or_default();
            assert!(found.ends_with(error) && found.is_empty() == error.is_empty(), "{name} {value}: {found}");
        }
    }

    #[test]
    fn what_they_do() {
        let found =
            commands(&[("Options", "-SessionTicket, +ServerPreference"), ("NumTickets", "0")]).expect("commands");
        assert_eq!((found.tickets, found.own_order, found.ticket_count), (Some(false), Some(true), Some(0)));
        let found = commands(&[("Options", "PrioritizeChaCha,Bugs")]).expect("commands");
        assert_eq!(found.missing.len(), 1);
        for (list, bits) in [("-ALL,TLSv1.2", 4), ("ALL,-TLSv1.3", 7), ("TLSv1.3", 15)] {
            let found = commands(&[("Protocol", list)]).expect("commands");
            assert_eq!(found.versions, Some(Protocols(bits)), "{list}");
        }
        let found = commands(&[("ECDHParameters", "prime256v1")]).expect("commands");
        assert_eq!(found.groups.map(|groups| groups.len()), Some(1));
    }
}

//! The functions that implement the directives.

use std::sync::Arc;

use conf::expr::Expr;
use conf::values::{atoi, one_of};
use conf::words::{next_word, words};
use conf::{Cmd, InArgument as _, Level, Outcome, Refusal};
use server::module::{NamedCache, shared_caches};

use super::paths::{Field, in_section};
use super::settings::{SslDir, SslProxy, SslServer};
use super::values::{
    Cache, CertificateCheck, CheckDepth, PassPhrase, Protocols, SeedSource, SeedTime, Sign, SniPolicy, SslOption,
    Verify,
};

/// `SSLEngine`
pub(super) fn engine(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let on = match conf::values::on_off(value) {
        Some(on) => on,
        None if value.eq_ignore_ascii_case("optional") => {
            cmd.context.note("ssl", Level::Notice, "AH10510: 'SSLEngine optional' is no longer supported");
            return Ok(());
        }
        None => return Err("Argument must be On or Off".into()),
    };
    cmd.server_set(|s: &mut SslServer| &mut s.engine, on)
}

/// `SSLFIPS`
pub(super) fn fips(cmd: &mut Cmd<'_>, on: bool) -> Outcome {
    if cmd.server.get::<SslServer>().fips.get().is_some_and(|before| *before != on) {
        return Err("Conflicting SSLFIPS options, cannot be both On and Off".into());
    }
    cmd.server_set(|s: &mut SslServer| &mut s.fips, on)
}

/// `SSLCompression`: only `off` is supported.
pub(super) fn compression(_: &mut Cmd<'_>, on: bool) -> Outcome {
    if on {
        return Err("This version of OpenSSL does not have any compression methods available, cannot enable \
                    SSLCompression."
            .into());
    }
    Ok(())
}

/// `SSLCryptoDevice`: there are no devices, so only the values that name none are accepted.
pub(super) fn crypto_device(_: &mut Cmd<'_>, value: &str) -> Outcome {
    match one_of(value, &[("builtin", ()), ("dynamic", ())]) {
        Some(()) => Ok(()),
        None => Err("SSLCryptoDevice: Invalid argument; must be one of: 'builtin' (none), 'dynamic' (Dynamic engine \
                     loading support)"
            .into()),
    }
}

/// `SSLPassPhraseDialog`
pub(super) fn pass_phrase(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let source = if value.eq_ignore_ascii_case("builtin") {
        PassPhrase::Builtin
    } else if let Some(file) = value.strip_prefix("exec:").filter(|file| !file.is_empty()) {
        let path = cmd.context.server_relative(file);
        if !cmd.context.system.exists(&path) {
            return Err(format!("SSLPassPhraseDialog: file '{path}' does not exist").into());
        }
        PassPhrase::Program(path)
    } else if let Some(command) = value.strip_prefix('|').filter(|command| !command.is_empty()) {
        PassPhrase::Pipe(command.to_string())
    } else {
        return Err("SSLPassPhraseDialog: Invalid argument".into());
    };
    cmd.server_set(|s: &mut SslServer| &mut s.pass_phrase, source)
}

/// `SSLRandomSeed`
pub(super) fn random_seed(cmd: &mut Cmd<'_>, time: &str, source: &str, bytes: Option<&str>) -> Outcome {
    let Some(time) = one_of(time, &[("startup", SeedTime::Startup), ("connect", SeedTime::Connect)]) else {
        return Err(Refusal::argument(1, format!("SSLRandomSeed: invalid context: `{time}'")));
    };
    let count = u32::try_from(atoi(bytes.unwrap_or_default()));
    let file = |path: &str| {
        let path = cmd.context.server_relative(path);
        if !cmd.context.system.exists(&path) {
            return Err(Refusal::argument(2, format!("SSLRandomSeed: source path '{path}' does not exist")));
        }
        Ok((path, count.map_err(|_| "SSLRandomSeed: invalid number of bytes specified").in_argument(3)?))
    };
    let behind = |prefix| source.strip_prefix(prefix).filter(|rest: &&str| !rest.is_empty());
    let source = if source.eq_ignore_ascii_case("builtin") {
        if bytes.is_some() {
            let message = "SSLRandomSeed: byte specification not allowed for builtin seed source";
            return Err(Refusal::surplus(3, message));
        }
        SeedSource::Builtin
    } else if behind("egd:").is_some() {
        let message = format!(
            "Invalid SSLRandomSeed entropy source `{source}': This version of OpenSSL does not support the Entropy \
             Gathering Daemon (EGD)."
        );
        return Err(Refusal::argument(2, message));
    } else if let Some(path) = behind("exec:") {
        let (path, count) = file(path)?;
        SeedSource::Program(path, count)
    } else {
        let (path, count) = file(behind("file:").unwrap_or(source))?;
        SeedSource::File(path, count)
    };
    cmd.server_push(|s: &mut SslServer| &mut s.random_seeds, (time, source))
}

/// `SSLVHostSNIPolicy`
pub(super) fn sni_policy(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let all = [SniPolicy::Strict, SniPolicy::Secure, SniPolicy::AuthOnly, SniPolicy::Insecure];
    let Some(policy) = one_of(value, &all.map(|policy| (policy.name(), policy))) else {
        return Err(format!("Invalid SSLVhostSNIPolicy argument '{value}'").into());
    };
    cmd.server_set(|s: &mut SslServer| &mut s.sni_policy, policy)
}

/// `SSLSessionCache`
pub(super) fn session_cache(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let none = one_of(value, &[("none", ()), ("nonenotnull", ())]).is_some();
    let cache = if none { None } else { Some(shared_cache(cmd, value, "session", ".")?) };
    cmd.server_set(|s: &mut SslServer| &mut s.session_cache, cache)
}

/// `SSLStaplingCache`
pub(super) fn stapling_cache(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    shared_cache(cmd, value, "stapling", "")?;
    let cache = NamedCache::read(value, shared_caches(cmd.context.language.loaded()))
        .map_err(|name| format!("SSLStaplingCache: '{name}' is no cache"))??;
    cmd.server_set(|s: &mut SslServer| &mut s.stapling_cache, cache)
}

/// Parses `KIND` or `KIND:ARGUMENT`. One of Apache's two messages has no full stops.
fn shared_cache(cmd: &Cmd<'_>, value: &str, what: &str, stop: &str) -> Result<Cache, String> {
    let (kind, argument) = value.split_once(':').map_or((value, None), |(kind, argument)| (kind, Some(argument)));
    let loaded = cmd.context.language.loaded();
    let Some(cache) = shared_caches(loaded).find(|cache| cache.names.contains(&kind)) else {
        let known: Vec<&str> = shared_caches(loaded).flat_map(|cache| cache.names).copied().collect();
        return Err(format!(
            "{}: '{kind}' {what} cache not supported (known names: {}){stop} Maybe you need to load the appropriate \
             socache module (mod_socache_{kind}?){stop}",
            cmd.row.name,
            known.join(",")
        ));
    };
    (cache.check)(argument).map_err(|why| format!("{}: {why}", cmd.row.name))?;
    Ok(Cache { kind: kind.to_string(), argument: argument.map(str::to_string) })
}

/// `SSLCipherSuite`
pub(super) fn cipher_suite(cmd: &mut Cmd<'_>, first: &str, second: Option<&str>) -> Outcome {
    match suites(first, second)? {
        (true, _) if in_section(cmd) => Err("TLSv1.3 ciphers cannot be set inside a directory context".into()),
        (true, suites) => cmd.server_set(|s: &mut SslServer| &mut s.tls13_cipher_suites, suites),
        (false, suites) => cmd.set(|d: &mut SslDir| &mut d.cipher_suites, suites),
    }
}

/// `SSLProxyCipherSuite`
pub(super) fn proxy_cipher_suite(cmd: &mut Cmd<'_>, first: &str, second: Option<&str>) -> Outcome {
    match suites(first, second)? {
        (true, suites) => cmd.set(|p: &mut SslProxy| &mut p.tls13_cipher_suites, suites),
        (false, suites) => cmd.set(|p: &mut SslProxy| &mut p.cipher_suites, suites),
    }
}

/// Parses the arguments: whether they are for TLS 1.3, and the suites.
fn suites(first: &str, second: Option<&str>) -> Result<(bool, String), Refusal> {
    match (first, second) {
        (suites, None) | ("SSL", Some(suites)) => Ok((false, suites.to_string())),
        ("TLSv1.3", Some(suites)) => Ok((true, suites.to_string())),
        (protocol, Some(_)) => Err(Refusal::argument(1, format!("protocol '{protocol}' not supported"))),
    }
}

/// Parses `SSLProtocol`: a word with a sign adds or removes a version, one without a sign replaces the words before it.
pub(super) fn protocols(cmd: &mut Cmd<'_>, line: &str) -> Result<Protocols, Refusal> {
    let mut set = Protocols::default();
    for (word, number) in words(line).iter().zip(1..) {
        let (sign, name) = signed(word);
        if name.eq_ignore_ascii_case("SSLv2") {
            if sign == Sign::Minus {
                continue;
            }
            return Err(Refusal::argument(number, "SSLProtocol: SSLv2 is no longer supported"));
        }
        let Some(named) = one_of(name, &Protocols::NAMES) else {
            return Err(Refusal::argument(number, format!("{}: Illegal protocol '{name}'", cmd.row.name)));
        };
        if named == Protocols::default() && sign != Sign::Minus {
            return Err(Refusal::argument(number, "SSLv3 not supported by this version of OpenSSL"));
        }
        match sign {
            Sign::Minus => set.0 &= !named.0,
            Sign::Plus => set.0 |= named.0,
            Sign::None => {
                if set != Protocols::default() {
                    let text = format!(
                        "AH02532: {}: Protocol '{name}' overrides already set parameter(s). Check if a +/- prefix is \
                         missing.",
                        cmd.row.name
                    );
                    cmd.context.note("ssl", Level::Warn, text);
                }
                set = named;
            }
        }
    }
    Ok(set)
}

/// `SSLOptions`
pub(super) fn options(cmd: &mut Cmd<'_>, line: &str) -> Outcome {
    const NAMES: [(&str, SslOption); 6] = [
        ("StdEnvVars", SslOption::StdEnvVars),
        ("ExportCertData", SslOption::ExportCertData),
        ("FakeBasicAuth", SslOption::FakeBasicAuth),
        ("StrictRequire", SslOption::StrictRequire),
        ("OptRenegotiate", SslOption::OptRenegotiate),
        ("LegacyDNStringFormat", SslOption::LegacyDnStringFormat),
    ];
    for (word, number) in words(line).iter().zip(1..) {
        let (sign, name) = signed(word);
        let Some(option) = one_of(name, &NAMES) else {
            return Err(Refusal::argument(number, format!("SSLOptions: Illegal option '{name}'")));
        };
        cmd.push(|d: &mut SslDir| &mut d.options, (sign, option))?;
    }
    Ok(())
}

fn signed(word: &str) -> (Sign, &str) {
    match word.as_bytes().first() {
        Some(b'+') => (Sign::Plus, &word[1..]),
        Some(b'-') => (Sign::Minus, &word[1..]),
        _ => (Sign::None, word),
    }
}

/// `SSLVerifyClient` and `SSLProxyVerify`
pub(super) fn verify(cmd: &mut Cmd<'_>, value: &str) -> Result<Verify, String> {
    let table = [
        ("none", Verify::None),
        ("off", Verify::None),
        ("optional", Verify::Optional),
        ("require", Verify::Require),
        ("on", Verify::Require),
        ("optional_no_ca", Verify::OptionalNoCa),
    ];
    one_of(value, &table).ok_or_else(|| invalid(cmd, value))
}

/// `SSLVerifyClient`
pub(super) fn verify_client(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let value = verify(cmd, value)?;
    if in_section(cmd) && !cmd.place.htaccess {
        cmd.server_push(|s: &mut SslServer| &mut s.verify_in_sections, value)?;
    }
    cmd.set(|d: &mut SslDir| &mut d.verify_client, value)
}

/// `SSLVerifyDepth`
pub(super) fn verify_depth(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let value = depth(cmd, value)?;
    if in_section(cmd) && !cmd.place.htaccess {
        cmd.server_push(|s: &mut SslServer| &mut s.depths_in_sections, value)?;
    }
    cmd.set(|d: &mut SslDir| &mut d.verify_depth, value)
}

/// `SSLVerifyDepth` and `SSLProxyVerifyDepth`
pub(super) fn depth(cmd: &mut Cmd<'_>, value: &str) -> Result<u32, String> {
    u32::try_from(atoi(value)).map_err(|_| invalid(cmd, value))
}

/// `SSLCARevocationCheck` and `SSLProxyCARevocationCheck`
pub(super) fn revocation(cmd: &mut Cmd<'_>, line: &str) -> Result<CertificateCheck, Refusal> {
    let table = [("none", CheckDepth::None), ("leaf", CheckDepth::Leaf), ("chain", CheckDepth::Chain)];
    certificate_check(cmd, line, &table, "no_crl_for_cert_ok")
}

/// `SSLOCSPEnable`
pub(super) fn ocsp_enable(cmd: &mut Cmd<'_>, line: &str) -> Outcome {
    let table = [("off", CheckDepth::None), ("leaf", CheckDepth::Leaf), ("on", CheckDepth::Chain)];
    let value = certificate_check(cmd, line, &table, "no_ocsp_for_cert_ok")?;
    cmd.server_set(|s: &mut SslServer| &mut s.ocsp_enable, value)
}

fn certificate_check(
    cmd: &Cmd<'_>,
    line: &str,
    table: &[(&str, CheckDepth)],
    flag: &str,
) -> Result<CertificateCheck, Refusal> {
    let mut rest = line;
    let first = next_word(&mut rest);
    let depth = one_of(&first, table).ok_or_else(|| invalid(cmd, &first)).in_argument(1)?;
    let flags = words(rest);
    match flags.iter().position(|word| !word.eq_ignore_ascii_case(flag)) {
        Some(at) => Err(Refusal::argument(at + 2, invalid(cmd, &flags[at]))),
        None => Ok(CertificateCheck { depth, unknown_is_good: !flags.is_empty() }),
    }
}

fn invalid(cmd: &Cmd<'_>, value: &str) -> String {
    format!("{}: Invalid argument '{value}'", cmd.row.name)
}

/// `SSLSessionCacheTimeout`
pub(super) fn cache_timeout(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let seconds = u32::try_from(atoi(value)).map_err(|_| "SSLSessionCacheTimeout: Invalid argument")?;
    cmd.server_set(|s: &mut SslServer| &mut s.cache_timeout, seconds)
}

/// Sets a number of seconds.
pub(super) fn seconds(cmd: &mut Cmd<'_>, field: Field<SslServer, u32>, value: &str) -> Outcome {
    let seconds = u32::try_from(atoi(value)).map_err(|_| format!("{}: invalid argument", cmd.row.name))?;
    cmd.server_set(field, seconds)
}

/// `SSLRenegBufferSize`
pub(super) fn renegotiation_buffer(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let size = u32::try_from(atoi(value)).map_err(|_| format!("Invalid size for SSLRenegBufferSize: {value}"))?;
    cmd.set(|d: &mut SslDir| &mut d.renegotiation_buffer, size)
}

/// Sets a text, without any check.
pub(super) fn text(cmd: &mut Cmd<'_>, field: Field<SslServer, String>, value: &str) -> Outcome {
    cmd.server_set(field, value.to_string())
}

/// `SSLRequire`
pub(super) fn require(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let options = conf::expr::Options { ssl_require: true, ..cmd.expr_options() };
    let expr = Expr::parse_with(text, options).map_err(|why| format!("SSLRequire: {why}"))?;
    cmd.push(|d: &mut SslDir| &mut d.requires, (Arc::new(expr), text.into()))
}

/// `SSLOCSPProxyURL`
pub(super) fn ocsp_proxy_url(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    if !is_url(value) {
        return Err(format!("SSLOCSPProxyURL: Cannot parse URL {value}").into());
    }
    text(cmd, |s| &mut s.ocsp_proxy_url, value)
}

/// Whether APR would parse a text as a URL: the scheme is a word, brackets are closed, the port is a number.
fn is_url(text: &str) -> bool {
    let rest = match text.find([':', '/']) {
        Some(colon) if text.as_bytes()[colon] == b':' => {
            let scheme = &text[..colon];
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
            if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(is_word) {
                return false;
            }
            &text[colon + 1..]
        }
        _ => text,
    };
    let Some(rest) = rest.strip_prefix("//") else { return true };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = match host.strip_prefix('[').map(|rest| rest.split_once(']')) {
        None => host.split_once(':').map_or("", |(_, port)| port),
        Some(Some((_, port))) => port.strip_prefix(':').unwrap_or(port),
        Some(None) => return false,
    };
    port.is_empty() || conf::values::number(port).is_some()
}

/// `SSLLog` and `SSLLogLevel`, which Apache has removed; their help says so.
pub(super) fn removed(cmd: &mut Cmd<'_>, _: &str) -> Outcome {
    Err(cmd.row.help.into())
}

#[cfg(test)]
mod tests {
    use super::super::{SslDir, SslServer};
    use super::*;

    #[test]
    fn urls() {
        for good in
            ["http://proxy:80/", "http://[::1]:8/", "a:b", "http:", "http://u:p@a:1/", "/a:b", "1abc", "http://a:/"]
        {
            assert!(is_url(good), "{good}");
        }
        for bad in ["://", ":", "//a:b", "http://[::1/", "http://[::1]:x/", "1http://a", "http://a:1x/", "a_b:c"] {
            assert!(!is_url(bad), "{bad}");
        }
    }

    /// The resulting settings, which no message shows.
    #[test]
    fn resulting_settings() {
        let applied = crate::testing::apply(
            "SSLProtocol all -SSLv3 -TLSv1.1\nSSLOptions +StdEnvVars\nSSLSessionCache shmcb:x(9000)\nSSLVerifyDepth 4294967297\n\
             SSLCertificateFile pkcs11:a\nSSLCertificateFile pkcs11:b\nSSLOCSPEnable leaf no_ocsp_for_cert_ok",
        );
        let applied = applied.expect("lines");
        let server = applied.server.get::<SslServer>();
        assert_eq!(server.protocols.get(), Some(&Protocols(1 | 4 | 8)));
        let cache = Cache { kind: "shmcb".into(), argument: Some("x(9000)".into()) };
        assert_eq!(server.session_cache.get(), Some(&Some(cache)));
        let files = server.certificate_files.get().into_iter().flatten().map(|file| file.path.as_str());
        assert_eq!(files.collect::<Vec<_>>(), ["pkcs11:a", "pkcs11:b"]);
        let leaf = CertificateCheck { depth: CheckDepth::Leaf, unknown_is_good: true };
        assert_eq!(server.ocsp_enable.get(), Some(&leaf));
        let dir = applied.dir.get::<SslDir>();
        assert_eq!(dir.verify_depth.get(), Some(&1), "the upper half is lost");
        assert_eq!(dir.options.iter().collect::<Vec<_>>(), [&(Sign::Plus, SslOption::StdEnvVars)]);
        assert!(crate::testing::apply("SSLEngine optional").expect("a line").notices.len() == 1);
    }
}

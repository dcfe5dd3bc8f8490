//! Connections to directories, and the cache of their answers.
//!
//! Apache manual: mod_ldap.

use std::time::Duration;

use conf::directive::Args::{Flag, Take1, Take123};
use conf::values::{atoi, duration, number, one_of, strtol};
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Refusal, Setting, on_or_off, row, settings};
use server::{Handler, Hook, Module, Order, Request, Server};

use super::cache::{COMPARES, SEARCHES, secret};
use super::status;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "ldap_module", source: "util_ldap.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Mutex("ldap-cache"),
        Hook::Start(prepare),
        Hook::Handler(Order::Middle, Handler::Now(status::handler)),
    ],
};

const ONE_TABLE: &str = "The number is for all URLs together. An entry of more than about 450 bytes is not remembered.";
const PLAIN: &str = "Connections to directories are not encrypted: a line that asks for it is refused.";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("LDAPSharedCacheSize", Allowed::GLOBAL, Take1(|c, v| { let bytes = u64::try_from(strtol(v)).unwrap_or(u64::MAX); c.server_set(|s: &mut LdapServer| &mut s.bytes, bytes) }), "500000", "Set the size of the shared memory cache (in bytes). Use 0 to disable the shared memory cache. (default: 500000)").differs("More than 1 GB counts as 1 GB."),
    row("LDAPSharedCacheFile", Allowed::GLOBAL, Take1(|_, _| Ok(())), "", "Set the file name for the shared memory cache.").without_effect("The cache is memory that all children share; there is no file."),
    row("LDAPCacheEntries", Allowed::GLOBAL, Take1(|c, v| { let count = entries(v); c.server_set(|s: &mut LdapServer| &mut s.found, count) }), "1024", "Set the maximum number of entries that are possible in the LDAP search cache. Use 0 or -1 to disable the search cache (default: 1024)").differs(ONE_TABLE),
    row("LDAPCacheTTL", Allowed::GLOBAL, Take1(|c, v| { let time = seconds(v); c.server_set(|s: &mut LdapServer| &mut s.found_for, time) }), "600", "Set the maximum time (in seconds) that an item can be cached in the LDAP search cache. Use 0 for no limit. (default 600)"),
    row("LDAPOpCacheEntries", Allowed::GLOBAL, Take1(|c, v| { let count = entries(v); c.server_set(|s: &mut LdapServer| &mut s.compared, count) }), "1024", "Set the maximum number of entries that are possible in the LDAP compare cache. Use 0 or -1 to disable the compare cache (default: 1024)").differs(ONE_TABLE),
    row("LDAPOpCacheTTL", Allowed::GLOBAL, Take1(|c, v| { let time = seconds(v); c.server_set(|s: &mut LdapServer| &mut s.compared_for, time) }), "600", "Set the maximum time (in seconds) that an item is cached in the LDAP operation cache. Use 0 for no limit. (default: 600)"),
    row("LDAPTrustedGlobalCert", Allowed::GLOBAL, Take123(check_global), "", "Takes three arguments; the first argument is the cert type of the second argument, one of CA_DER, CA_BASE64, CA_CERT7_DB, CA_SECMOD, CERT_DER, CERT_BASE64, CERT_KEY3_DB, CERT_NICKNAME, KEY_DER, or KEY_BASE64. The second argument specifes the file and/or directory containing the trusted CA certificates (and global client certs for Netware) used to validate the LDAP server. The third argument is an optional passphrase if applicable.").without_effect(PLAIN),
    row("LDAPTrustedClientCert", Allowed::AUTH, Take123(check_client), "", "Takes three arguments: the first argument is the certificate type of the second argument, one of CA_DER, CA_BASE64, CA_CERT7_DB, CA_SECMOD, CERT_DER, CERT_BASE64, CERT_KEY3_DB, CERT_NICKNAME, KEY_DER, or KEY_BASE64. The second argument specifies the file and/or directory containing the client certificate, or certificate ID used to validate this LDAP client.  The third argument is an optional passphrase if applicable.").without_effect(PLAIN),
    row("LDAPTrustedMode", Allowed::SERVER, Take1(|c, v| refuse_tls(c, v, "LDAPTrustedMode setting")), "NONE", "Specify the type of security that should be applied to an LDAP connection. One of; NONE, SSL or STARTTLS.").differs("Encrypted connections (`SSL`, `STARTTLS`) are refused."),
    row("LDAPVerifyServerCert", Allowed::GLOBAL, Flag(|_, _| Ok(())), on_or_off(true), "Set to 'ON' requires that the server certificate be verified before a secure LDAP connection can be establish.  Default 'ON'").without_effect(PLAIN),
    row("LDAPConnectionTimeout", Allowed::GLOBAL, Take1(|c, v| { let time = atoi(v); c.server_set(|s: &mut LdapServer| &mut s.connect, time) }), "10", "Specify the LDAP socket connection timeout in seconds (default: 10)").differs("It is the time for each host of a list. Without a number, or with one that is not positive, it is 10 seconds."),
    row("LDAPReferrals", Allowed::AUTH, Take1(set_chase), "on", "Choose whether referrals are chased ['ON'|'OFF'|'DEFAULT'].  Default 'ON'"),
    row("LDAPReferralHopLimit", Allowed::AUTH, Take1(set_hops), "5", "Limit the number of referral hops that LDAP can follow. (Integer value, Consult LDAP SDK documentation for applicability and defaults"),
    row("LDAPLibraryDebug", Allowed::GLOBAL, Take1(|_, _| Ok(())), "", "Enable debugging in LDAP SDK (Default: off, values: SDK specific").without_effect("No library is used. `LogLevel ldap:trace5` logs the queries."),
    row("LDAPTimeout", Allowed::GLOBAL, Take1(set_timeout), "60", "Specify the LDAP bind/search timeout in seconds (0 = no limit). Default: 60").differs("No limit means an hour."),
    row("LDAPConnectionPoolTTL", Allowed::SERVER, Take1(set_idle), "-1", "Specify the maximum amount of time a bound connection can sit idle and still be considered valid for reuse(0 = no pool, -1 = no limit, n = time in seconds). Default: -1"),
    row("LDAPRetries", Allowed::GLOBAL, Take1(set_retries), "3", "Specify the number of times a failed LDAP operation should be retried (0 = no retries). Default: 3").differs("At most 10 times."),
    row("LDAPRetryDelay", Allowed::GLOBAL, Take1(set_delay), "0", "Specify the delay between retries of a failed LDAP operation (0 = no delay). Default: 0"),
];

settings! {
    /// The module's settings of the server.
    pub struct LdapServer {
        bytes: Setting<u64> = 500_000,
        found: Setting<u64> = 1024,
        found_for: Setting<u64> = 600,
        compared: Setting<u64> = 1024,
        compared_for: Setting<u64> = 600,
        connect: Setting<i32> = CONNECT,
        operation: Setting<u64> = 60,
        retries: Setting<u32> = 3,
        delay: Setting<Duration>,
        idle: Setting<Option<Duration>>,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct LdapDir {
        chase: Setting<Chase>,
        hops: Setting<u32> = 5,
    }
}

/// `LDAPReferrals`: whether to query the directories that an answer names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chase {
    /// No.
    Off,
    /// With the identity of the query.
    #[default]
    On,
    /// Anonymously.
    Default,
}

/// The limits of a request's queries.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) connect: Duration,
    pub(super) operation: Duration,
    pub(super) retries: u32,
    pub(super) delay: Duration,
    /// How long a connection may be idle, if there is a limit; zero: none is kept.
    pub(super) idle: Option<Duration>,
    pub(super) found_for: u64,
    pub(super) compared_for: u64,
    pub(super) chase: Chase,
    pub(super) hops: u32,
}

impl Limits {
    pub(super) fn is_pooled(&self) -> bool {
        self.idle != Some(Duration::ZERO)
    }

    /// How long a search may take, for the directory.
    pub(super) fn seconds(&self) -> i32 {
        i32::try_from(self.operation.as_secs()).unwrap_or(i32::MAX)
    }
}

/// The limits of this request's queries.
pub(super) fn limits(request: &Request) -> Limits {
    let main = request.server.main().settings.get::<LdapServer>();
    let host = request.host::<LdapServer>();
    let dir = request.dir::<LdapDir>();
    let connect = u64::try_from(main.connect()).ok().filter(|seconds| *seconds > 0).unwrap_or(CONNECT as u64);
    Limits {
        connect: Duration::from_secs(connect),
        operation: Duration::from_secs(match main.operation() {
            0 => LONGEST,
            seconds => seconds.min(LONGEST),
        }),
        retries: main.retries(),
        delay: main.delay.get().copied().unwrap_or_default(),
        idle: host.idle.get().copied().flatten(),
        found_for: main.found_for(),
        compared_for: main.compared_for(),
        chase: dir.chase.get().copied().unwrap_or_default(),
        hops: dir.hops(),
    }
}

/// The default time for a directory to accept a connection, in seconds.
const CONNECT: i32 = 10;
/// The most time it may take to answer, whatever is configured.
const LONGEST: u64 = 3600;
const RETRIES_MAX: i64 = 10;
const BYTES_MAX: u64 = 1 << 30;

/// Runs in the parent, so that all children share it.
fn prepare(server: &Server) -> Result<(), String> {
    let settings = server.main().settings.get::<LdapServer>();
    // Each table gets half of the memory.
    let bytes = settings.bytes().min(BYTES_MAX) / 2;
    secret();
    SEARCHES.prepare(settings.found(), bytes).and_then(|()| COMPARES.prepare(settings.compared(), bytes)).map_err(
        |error| format!("AH01315: LDAP cache: could not create shared memory segment: {}", sys::describe(&error)),
    )
}

fn entries(text: &str) -> u64 {
    u64::try_from(strtol(text)).unwrap_or(0)
}

fn seconds(text: &str) -> u64 {
    u64::try_from(strtol(text)).unwrap_or(0)
}

fn set_timeout(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let seconds = number(text).ok_or("Timeout not numerical")?;
    let seconds = u64::try_from(seconds).map_err(|_| "Timeout must be non-negative")?;
    cmd.server_set(|s: &mut LdapServer| &mut s.operation, seconds)
}

fn set_retries(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let count = strtol(text);
    if count < 0 {
        return Err("LDAPRetries must be >= 0".into());
    }
    cmd.server_set(|s: &mut LdapServer| &mut s.retries, count.min(RETRIES_MAX) as u32)
}

fn set_delay(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let time = duration(text, Duration::from_secs(1)).ok_or("LDAPRetryDelay has wrong format")?;
    cmd.server_set(|s: &mut LdapServer| &mut s.delay, time)
}

fn set_idle(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let time = match text.strip_prefix('-') {
        // Any negative time means no limit.
        Some(rest) => duration(rest, Duration::from_secs(1)).map(|_| None),
        None => duration(text, Duration::from_secs(1)).map(Some),
    };
    let time = time.ok_or("LDAPConnectionPoolTTL has wrong format")?;
    cmd.server_set(|s: &mut LdapServer| &mut s.idle, time)
}

fn set_chase(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let chase = one_of(text, &[("on", Chase::On), ("off", Chase::Off), ("default", Chase::Default)]);
    let chase = chase.ok_or("LDAPReferrals must be 'on', 'off', or 'default'")?;
    cmd.set(|d: &mut LdapDir| &mut d.chase, chase)
}

fn set_hops(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let hops = u32::try_from(strtol(text)).ok().filter(|hops| *hops > 0);
    let hops = hops.ok_or(
        "LDAPReferralHopLimit must be greater than zero (Use 'LDAPReferrals Off' to disable referral chasing)",
    )?;
    cmd.set(|d: &mut LdapDir| &mut d.hops, hops)
}

/// Refuses settings that require encryption, since there is none: a password that should be protected must not be sent
/// in the clear.
pub(crate) fn refuse_tls(cmd: &Cmd<'_>, mode: &str, what: &str) -> Outcome {
    let is = |names: &[&str]| names.iter().any(|name| mode.eq_ignore_ascii_case(name));
    if is(&["NONE"]) {
        return Ok(());
    }
    if is(&["SSL", "TLS", "STARTTLS"]) {
        return Err(format!("{}: {UNENCRYPTED}", cmd.row.name).into());
    }
    Err(format!("Invalid {what}: must be one of NONE, SSL, or TLS/STARTTLS").into())
}

/// Why a directory cannot be reached over TLS.
pub(crate) const UNENCRYPTED: &str = "encrypted connections to directories (ldaps://, SSL, STARTTLS) are not supported yet, and the server does not \
     fall back to clear text";

const TYPES: [&str; 10] = [
    "CA_DER",
    "CA_BASE64",
    "CA_CERT7_DB",
    "CA_SECMOD",
    "CERT_DER",
    "CERT_BASE64",
    "CERT_KEY3_DB",
    "CERT_NICKNAME",
    "KEY_DER",
    "KEY_BASE64",
];
/// The types allowed only for the server as a whole.
const GLOBAL: [&str; 5] = ["CA_DER", "CA_BASE64", "CA_CERT7_DB", "CA_SECMOD", "CERT_KEY3_DB"];

fn check_global(cmd: &mut Cmd<'_>, kind: &str, file: Option<&str>, _: Option<&str>) -> Outcome {
    let Some(known) = TYPES.iter().find(|known| known.eq_ignore_ascii_case(kind)) else {
        let types = TYPES.join(", ");
        let message = format!("The certificate type {kind} is not recognised. It should be one of {types}");
        return Err(Refusal::argument(1, message));
    };
    check_file(cmd, known, file, "AH01304: LDAP: Could not open SSL trusted certificate authority file", "global")
}

fn check_client(cmd: &mut Cmd<'_>, kind: &str, file: Option<&str>, _: Option<&str>) -> Outcome {
    const PFX: [&str; 2] = ["CERT_PFX", "KEY_PFX"];
    let Some(known) = TYPES.iter().chain(&PFX).find(|known| known.eq_ignore_ascii_case(kind)) else {
        let message = format!(
            "The certificate type \"{kind}\" is not recognised. It should be one of CA_DER, CA_BASE64, CERT_DER, \
             CERT_BASE64, CERT_NICKNAME, CERT_PFX, KEY_DER, KEY_BASE64, KEY_PFX"
        );
        return Err(Refusal::argument(1, message));
    };
    if GLOBAL.contains(known) && !known.starts_with("CA_DER") && !known.starts_with("CA_BASE64") {
        return Err(format!(
            "The certificate type \"{kind}\" is only valid within a LDAPTrustedGlobalCert directive. Only CA_DER, \
             CA_BASE64, CERT_DER, CERT_BASE64, CERT_NICKNAME, KEY_DER, and KEY_BASE64 may be used."
        )
        .into());
    }
    check_file(cmd, known, file, "AH01306: LDAP: Could not open SSL client certificate file", "client")
}

fn check_file(cmd: &mut Cmd<'_>, kind: &str, file: Option<&str>, message: &str, what: &str) -> Outcome {
    let Some(file) = file else { return Err("Certificate type was not specified.".into()) };
    let path = cmd.context.server_relative(file);
    if kind != "CERT_NICKNAME" && !cmd.context.system.exists(&path) {
        cmd.context.note("ldap", Level::Error, format!("{message} - {path}"));
        return Err(format!("Invalid {what} certificate file path").into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn directives() {
        let inside = |line: &str| format!("<Location />\n{line}\n</Location>");
        crate::testing::check(&[
            (
                "LDAPSharedCacheSize 1\nLDAPSharedCacheFile x\nLDAPCacheEntries -1\nLDAPCacheTTL x\nLDAPOpCacheEntries 0",
                "",
            ),
            ("LDAPTrustedMode none\nLDAPVerifyServerCert off\nLDAPConnectionTimeout x\nLDAPLibraryDebug 7", ""),
            ("LDAPTrustedMode x", "Invalid LDAPTrustedMode setting: must be one of NONE, SSL, or TLS/STARTTLS"),
            (
                "LDAPTrustedMode TLS",
                "LDAPTrustedMode: encrypted connections to directories (ldaps://, SSL, STARTTLS) are not supported \
                 yet, and the server does not fall back to clear text",
            ),
            ("LDAPTimeout -1", "Timeout must be non-negative"),
            ("LDAPTimeout 5x", "Timeout not numerical"),
            ("LDAPRetries -1", "LDAPRetries must be >= 0"),
            ("LDAPRetries x\nLDAPRetryDelay 1ms\nLDAPConnectionPoolTTL 5min\nLDAPConnectionPoolTTL -2", ""),
            ("LDAPRetryDelay -1", "LDAPRetryDelay has wrong format"),
            ("LDAPConnectionPoolTTL x", "LDAPConnectionPoolTTL has wrong format"),
            (&inside("LDAPReferrals Default\nLDAPReferralHopLimit 3"), ""),
            (&inside("LDAPReferrals maybe"), "LDAPReferrals must be 'on', 'off', or 'default'"),
            (
                &inside("LDAPReferralHopLimit 0"),
                "LDAPReferralHopLimit must be greater than zero (Use 'LDAPReferrals Off' to disable referral chasing)",
            ),
            (
                "LDAPTrustedGlobalCert BOGUS /x",
                "The certificate type BOGUS is not recognised. It should be one of CA_DER, CA_BASE64, CA_CERT7_DB, \
                 CA_SECMOD, CERT_DER, CERT_BASE64, CERT_KEY3_DB, CERT_NICKNAME, KEY_DER, KEY_BASE64",
            ),
            ("LDAPTrustedGlobalCert CA_BASE64 /none", "Invalid global certificate file path"),
            (
                &inside("LDAPTrustedClientCert CA_SECMOD /none"),
                "The certificate type \"CA_SECMOD\" is only valid within a LDAPTrustedGlobalCert directive. Only CA_DER, \
                 CA_BASE64, CERT_DER, CERT_BASE64, CERT_NICKNAME, KEY_DER, and KEY_BASE64 may be used.",
            ),
            (&inside("LDAPTrustedClientCert KEY_PFX /none"), "Invalid client certificate file path"),
        ]);
    }
}

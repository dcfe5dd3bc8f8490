//! The variables `SSL_*`: facts about a request's connection and the certificates of both ends.
//!
//! Apache manual: mod_ssl, "Environment Variables". Each value was compared with that of 2.4.71.

use std::cell::OnceCell;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use server::fields::Value;
use server::{Flow, Request, Session};
use x509_parser::asn1_rs::Any;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use super::notation::{date, decimal, serial};
use super::settings::SslDir;
use super::values::SslOption;
use super::{clients, names, suites};

const DAY: i64 = 24 * 60 * 60;

type OfConnection = for<'f, 'r> fn(&'f Facts<'r>) -> Option<String>;
type OfCertificate = for<'f, 'r> fn(&'f Facts<'r>, &'f X509Certificate<'r>) -> Option<String>;
type OfName = fn(&GeneralName<'_>) -> Option<String>;

/// Variables that do not depend on a connection.
const LIBRARY: &[(&str, &str)] = &[
    ("VERSION_INTERFACE", "mod_ssl/2.4.71"),
    ("VERSION_LIBRARY", "rustls/0.23"),
    ("VERSION_LIBRARY_INTERFACE", "rustls/0.23"),
];

/// Variables of a connection, without the prefix `SSL_`.
const CONNECTION: &[(&str, OfConnection)] = &[
    ("PROTOCOL", |facts| Some(suites::version_name(facts.session.version).into())),
    ("SECURE_RENEG", |_| Some("true".into())),
    ("COMPRESS_METHOD", |_| Some("NULL".into())),
    ("CIPHER", |facts| Some(suites::describe(facts.session.suite).0.into())),
    ("CIPHER_EXPORT", |_| Some("false".into())),
    ("CIPHER_USEKEYSIZE", |facts| Some(suites::describe(facts.session.suite).1.to_string())),
    ("CIPHER_ALGKEYSIZE", |facts| Some(suites::describe(facts.session.suite).1.to_string())),
    ("SESSION_ID", |facts| Some(names::hex(&facts.session.id).to_ascii_lowercase())),
    ("SESSION_RESUMED", |facts| Some(if facts.session.is_resumed { "Resumed" } else { "Initial" }.into())),
    ("TLS_SNI", |facts| facts.session.server_name.as_deref().map(str::to_string)),
    ("CLIENT_VERIFY", |facts| Some(clients::outcome(facts.request, facts.session))),
];

/// Variables of a certificate, without the prefix `SSL_SERVER_` or `SSL_CLIENT_`.
const CERTIFICATE: &[(&str, OfCertificate)] = &[
    ("M_VERSION", |_, one| Some((one.version().0 + 1).to_string())),
    ("M_SERIAL", |_, one| Some(serial(one.raw_serial()))),
    ("V_START", |_, one| Some(date(one.validity().not_before))),
    ("V_END", |_, one| Some(date(one.validity().not_after))),
    ("V_REMAIN", |_, one| Some(days_left(one.validity().not_after))),
    ("S_DN", |facts, one| Some(facts.written(one.subject()))),
    ("I_DN", |facts, one| Some(facts.written(one.issuer()))),
    ("A_KEY", |_, one| Some(algorithm(&one.public_key().algorithm.algorithm.to_id_string()))),
    ("A_SIG", |_, one| Some(algorithm(&one.signature_algorithm.algorithm.to_id_string()))),
    ("CERT", |_, one| Some(pem(one.as_raw()))),
    ("CERT_RFC4523_CEA", |_, one| {
        let issuer = names::rfc2253(one.issuer());
        Some(format!("{{ serialNumber {}, issuer rdnSequence:\"{issuer}\" }}", decimal(one.raw_serial())))
    }),
];

/// Variables that `SSLOptions +StdEnvVars` exports, besides the components of names and alternative names.
const STANDARD_VARIABLES: &[&str] = &[
    "SSL_VERSION_INTERFACE",
    "SSL_VERSION_LIBRARY",
    "SSL_PROTOCOL",
    "SSL_SECURE_RENEG",
    "SSL_COMPRESS_METHOD",
    "SSL_CIPHER",
    "SSL_CIPHER_EXPORT",
    "SSL_CIPHER_USEKEYSIZE",
    "SSL_CIPHER_ALGKEYSIZE",
    "SSL_CLIENT_VERIFY",
    "SSL_CLIENT_M_VERSION",
    "SSL_CLIENT_M_SERIAL",
    "SSL_CLIENT_V_START",
    "SSL_CLIENT_V_END",
    "SSL_CLIENT_V_REMAIN",
    "SSL_CLIENT_S_DN",
    "SSL_CLIENT_I_DN",
    "SSL_CLIENT_A_KEY",
    "SSL_CLIENT_A_SIG",
    "SSL_CLIENT_CERT_RFC4523_CEA",
    "SSL_SERVER_M_VERSION",
    "SSL_SERVER_M_SERIAL",
    "SSL_SERVER_V_START",
    "SSL_SERVER_V_END",
    "SSL_SERVER_S_DN",
    "SSL_SERVER_I_DN",
    "SSL_SERVER_A_KEY",
    "SSL_SERVER_A_SIG",
    "SSL_SESSION_ID",
    "SSL_SESSION_RESUMED",
];

/// The value of an `SSL_*` variable.
pub(super) fn find(request: &Request, name: &str) -> Option<String> {
    match Facts::of(request) {
        Some(facts) => facts.named(name),
        None => of_library(after_prefix(name, "SSL_")?),
    }
}

fn of_library(name: &str) -> Option<String> {
    let found = LIBRARY.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| (*value).into())
}

/// The value of a variable of any module.
pub(super) fn any(request: &Request, name: &str) -> Option<String> {
    let options = conf::expr::Options { ssl: true, ..conf::expr::Options::default() };
    let expr = conf::expr::StringExpr::parse_with(&format!("%{{{name}}}"), options).ok()?;
    server::evaluate_string(request, &expr).ok().filter(|value| !value.is_empty())
}

/// Exports `HTTPS`, the name of SNI and the variables selected by `SSLOptions` to the environment.
pub(super) fn into_environment(request: &mut Request) -> Flow {
    let Some(named) = request.named() else { return Flow::Declined };
    let dir = request.dir::<SslDir>();
    let more = if dir.options.is_empty() { Vec::new() } else { optional_variables(request) };
    request.env.set("HTTPS", Value::Static("on"));
    if let Some(name) = named.server_name {
        request.env.set("SSL_TLS_SNI", name);
    }
    for (name, value) in more {
        request.env.set(name, value);
    }
    Flow::Declined
}

/// The variables that `SSLOptions` adds.
fn optional_variables(request: &Request) -> Vec<(String, String)> {
    let Some(facts) = Facts::of(request) else { return Vec::new() };
    let (options, mut all) = (request.dir::<SslDir>(), Vec::new());
    if options.has(SslOption::StdEnvVars) {
        for (prefix, certificate) in [("SSL_SERVER_", facts.server()), ("SSL_CLIENT_", facts.client())] {
            let Some(certificate) = certificate else { continue };
            for (which, name) in [("S_DN_", certificate.subject()), ("I_DN_", certificate.issuer())] {
                let parts = names::components(name).into_iter();
                all.extend(parts.map(|(part, value)| (format!("{prefix}{which}{part}"), value)));
            }
            for (kind, _) in ALTERNATIVE_NAMES {
                let values = alternative_names(certificate, kind).into_iter().enumerate();
                all.extend(values.map(|(index, value)| (format!("{prefix}SAN_{kind}_{index}"), value)));
            }
        }
        let values = STANDARD_VARIABLES.iter().filter_map(|name| Some(((*name).to_string(), facts.named(name)?)));
        all.extend(values.filter(|(_, value)| !value.is_empty()));
    }
    if options.has(SslOption::ExportCertData) {
        for (name, certificate) in [("SSL_SERVER_CERT", facts.server()), ("SSL_CLIENT_CERT", facts.client())] {
            all.push((name.into(), certificate.map(|one| pem(one.as_raw())).unwrap_or_default()));
        }
        let chain = facts.session.client_chain.iter().skip(1).enumerate();
        all.extend(chain.map(|(index, one)| (format!("SSL_CLIENT_CERT_CHAIN_{index}"), pem(one))));
    }
    all
}

/// The source of the variables. Parses certificates on first use.
struct Facts<'r> {
    request: &'r Request,
    session: &'r Session,
    server: OnceCell<Option<X509Certificate<'r>>>,
    client: OnceCell<Option<X509Certificate<'r>>>,
}

impl<'r> Facts<'r> {
    /// `None`: the connection is not encrypted.
    fn of(request: &'r Request) -> Option<Facts<'r>> {
        let session = request.session()?;
        Some(Facts { request, session, server: OnceCell::new(), client: OnceCell::new() })
    }

    fn server(&self) -> Option<&X509Certificate<'r>> {
        let shown = || self.session.certificate.as_ref()?.cert.first();
        self.server.get_or_init(|| clients::parse(shown()?)).as_ref()
    }

    fn client(&self) -> Option<&X509Certificate<'r>> {
        self.client.get_or_init(|| clients::parse(self.session.client_chain.first()?)).as_ref()
    }

    /// The value of a variable.
    fn named(&self, name: &str) -> Option<String> {
        let name = after_prefix(name, "SSL_")?;
        of_library(name).or_else(|| self.find(name))
    }

    fn find(&self, name: &str) -> Option<String> {
        if let Some((_, value)) = CONNECTION.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            return value(self);
        }
        if let Some(number) = after_prefix(name, "CLIENT_CERT_CHAIN_") {
            let number: usize = number.parse().ok()?;
            return self.session.client_chain.get(number.checked_add(1)?).map(|one| pem(one));
        }
        let (certificate, name) = match after_prefix(name, "SERVER_") {
            Some(rest) => (self.server()?, rest),
            None => (self.client()?, after_prefix(name, "CLIENT_")?),
        };
        if let Some((_, value)) = CERTIFICATE.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            return value(self, certificate);
        }
        if let Some(part) = after_prefix(name, "S_DN_") {
            return names::component(certificate.subject(), part);
        }
        if let Some(part) = after_prefix(name, "I_DN_") {
            return names::component(certificate.issuer(), part);
        }
        let (kind, index) = after_prefix(name, "SAN_")?.rsplit_once('_')?;
        alternative_names(certificate, kind).into_iter().nth(index.parse().ok()?)
    }

    /// A distinguished name in the format selected by `SSLOptions`.
    fn written(&self, name: &x509_parser::x509::X509Name<'_>) -> String {
        match self.request.dir::<SslDir>().has(SslOption::LegacyDnStringFormat) {
            true => names::one_line(name),
            false => names::rfc2253(name),
        }
    }
}

/// The rest of a name after a prefix, which is compared without regard to case.
fn after_prefix<'n>(name: &'n str, prefix: &str) -> Option<&'n str> {
    let is_there = name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    is_there.then(|| &name[prefix.len()..])
}

/// The values of an extension of the client's certificate as texts (`PeerExtList`).
pub(super) fn peer_extensions(request: &Request, asked: &str) -> Vec<String> {
    let Some(facts) = Facts::of(request) else { return Vec::new() };
    let Some(certificate) = facts.client() else { return Vec::new() };
    let asked = if asked.eq_ignore_ascii_case("nsComment") { "2.16.840.1.113730.1.13" } else { asked };
    let found = certificate.extensions().iter().filter(|one| one.oid.to_id_string() == asked);
    found.filter_map(|one| extension_text(one.value)).collect()
}

/// The text of an extension that consists of one string.
fn extension_text(value: &[u8]) -> Option<String> {
    let (_, any) = Any::from_der(value).ok()?;
    let is_shown = matches!(any.tag().0, 12 | 22 | 26 | 30);
    is_shown.then(|| names::string(any.tag().0, any.data, false))
}

/// The kinds of alternative names, and how to read them from a certificate.
const ALTERNATIVE_NAMES: &[(&str, OfName)] = &[
    ("Email", |name| match name {
        GeneralName::RFC822Name(text) => Some((*text).into()),
        _ => None,
    }),
    ("DNS", |name| match name {
        GeneralName::DNSName(text) => Some((*text).into()),
        _ => None,
    }),
    ("OTHER_msUPN", |name| other_name(name, "1.3.6.1.4.1.311.20.2.3")),
    ("OTHER_dnsSRV", |name| other_name(name, "1.3.6.1.5.5.7.8.7")),
];

fn alternative_names(certificate: &X509Certificate<'_>, kind: &str) -> Vec<String> {
    let Some((_, read)) = ALTERNATIVE_NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(kind)) else {
        return Vec::new();
    };
    let names = certificate.subject_alternative_name().ok().flatten();
    names.map(|names| names.value.general_names.iter().filter_map(read).collect()).unwrap_or_default()
}

/// The string of an otherName of this type (RFC 5280, 4.2.1.6).
fn other_name(name: &GeneralName<'_>, wanted: &str) -> Option<String> {
    let GeneralName::OtherName(kind, value) = name else { return None };
    if kind.to_id_string() != wanted {
        return None;
    }
    let (_, explicit) = Any::from_der(value).ok()?;
    let (_, string) = Any::from_der(explicit.data).ok()?;
    Some(names::string(string.tag().0, string.data, false))
}

/// The number of days left.
fn days_left(end: ASN1Time) -> String {
    let now = sys::time::realtime().as_secs().cast_signed();
    ((end.timestamp() - now) / DAY).max(0).to_string()
}

/// A certificate in PEM (RFC 7468).
fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// OpenSSL's long name for an algorithm.
fn algorithm(oid: &str) -> String {
    const NAMES: &[(&str, &str)] = &[
        ("1.2.840.113549.1.1.1", "rsaEncryption"),
        ("1.2.840.113549.1.1.5", "sha1WithRSAEncryption"),
        ("1.2.840.113549.1.1.10", "rsassaPss"),
        ("1.2.840.113549.1.1.11", "sha256WithRSAEncryption"),
        ("1.2.840.113549.1.1.12", "sha384WithRSAEncryption"),
        ("1.2.840.113549.1.1.13", "sha512WithRSAEncryption"),
        ("1.2.840.10045.2.1", "id-ecPublicKey"),
        ("1.2.840.10045.4.1", "ecdsa-with-SHA1"),
        ("1.2.840.10045.4.3.2", "ecdsa-with-SHA256"),
        ("1.2.840.10045.4.3.3", "ecdsa-with-SHA384"),
        ("1.2.840.10045.4.3.4", "ecdsa-with-SHA512"),
        ("1.3.101.112", "ED25519"),
        ("1.3.101.113", "ED448"),
    ];
    NAMES.iter().find(|(known, _)| *known == oid).map_or("UNKNOWN", |(_, name)| name).into()
}

//! The functions that implement the directives.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use conf::values::{number, one_of};
use conf::words::words;
use conf::{Allowed, Cmd, Failure, InArgument as _, Outcome, Refusal, Setting, SettingsMap};

use super::acme::LETS_ENCRYPT;
use super::domains::{DefinedDomains, Definition};
use super::keys::{KeyKind, RSA_MAX};
use super::settings::MdServer;
use super::values::{Names, RenewMode, RequireHttps, Span, time};

/// The setting that a directive sets.
type Field<T> = fn(&mut MdServer) -> &mut Setting<T>;

/// The authorities that can be given by name.
const AUTHORITIES: [(&str, &str); 4] = [
    ("LetsEncrypt", LETS_ENCRYPT),
    ("LetsEncrypt-Test", "https://acme-staging-v02.api.letsencrypt.org/directory"),
    ("Buypass", "https://api.buypass.com/acme/directory"),
    ("Buypass-Test", "https://api.test4.buypass.no/acme/directory"),
];
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const SET: &str = "<MDomainSet";
const NO_NAMES: &str = "needs at least one domain name";
const NO_DURATION: &str = "unrecognized duration format";

fn in_set(cmd: &Cmd<'_>) -> bool {
    cmd.place
        .enclosing
        .last()
        .is_some_and(|section| section.eq_ignore_ascii_case(SET) || section.eq_ignore_ascii_case("<MDomain"))
}

fn not_in_set(cmd: &Cmd<'_>) -> Outcome {
    if in_set(cmd) { Err(format!("{} is not allowed inside an '{SET}' context", cmd.row.name).into()) } else { Ok(()) }
}

fn only_in_set(cmd: &Cmd<'_>) -> Outcome {
    if in_set(cmd) {
        Ok(())
    } else {
        Err(format!("{} is only valid inside a '{SET}' context, not here", cmd.row.name).into())
    }
}

/// Sets a text of a server or domain.
pub(super) fn text(cmd: &mut Cmd<'_>, field: Field<String>, value: &str) -> Outcome {
    cmd.server_set(field, value.to_string())
}

/// Sets a text that only the server has.
pub(super) fn global_text(cmd: &mut Cmd<'_>, field: Field<String>, value: &str) -> Outcome {
    not_in_set(cmd)?;
    text(cmd, field, value)
}

pub(super) fn on_off(cmd: &mut Cmd<'_>, field: Field<bool>, value: &str) -> Outcome {
    let on = parse_on_off(value)?;
    cmd.server_set(field, on)
}

pub(super) fn global_on_off(cmd: &mut Cmd<'_>, field: Field<bool>, value: &str) -> Outcome {
    not_in_set(cmd)?;
    on_off(cmd, field, value)
}

/// Checks the value of a directive without effect.
pub(super) fn any_on_off(_: &mut Cmd<'_>, value: &str) -> Outcome {
    parse_on_off(value)?;
    Ok(())
}

fn parse_on_off(value: &str) -> Result<bool, String> {
    conf::values::on_off(value)
        .ok_or_else(|| format!("unknown '{value}', supported parameter values are 'on' and 'off'"))
}

pub(super) fn span(cmd: &mut Cmd<'_>, field: Field<Span>, value: &str) -> Outcome {
    let span = Span::parse(value).map_err(|why| format!("{} {why}", cmd.row.name))?;
    cmd.server_set(field, span)
}

/// Checks the value of a directive without effect.
pub(super) fn any_span(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    Span::parse(value).map_err(|why| format!("{} {why}", cmd.row.name))?;
    Ok(())
}

/// `MDomain`
pub(super) fn domain(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    not_in_set(cmd)?;
    define(cmd, words, SettingsMap::default())
}

/// `<MDomainSet>`
pub(super) fn domain_set(cmd: &mut Cmd<'_>, argument: &str) -> Result<(), Failure> {
    if argument.trim().is_empty() {
        return Err(format!("{SET} > section must specify a unique domain name").into());
    }
    let mut own = SettingsMap::default();
    let place = cmd.inner_place(Allowed::SERVER, None);
    let mut dir = SettingsMap::default();
    cmd.apply_children(Some(&mut own), &mut dir, &place)?;
    Ok(define(cmd, &words(argument), own)?)
}

/// Adds a domain with these names and the settings inside its section.
fn define(cmd: &mut Cmd<'_>, words: &[String], mut own: SettingsMap) -> Outcome {
    let mut names: Vec<String> = Vec::new();
    let inside: Vec<String> = own.get::<Members>().names.iter().cloned().collect();
    for word in words {
        match members_auto(word) {
            Some(auto) => own.edit::<MdServer>().members_auto.set(auto, &cmd.node.origin),
            None => names.push(word.to_ascii_lowercase()),
        }
    }
    if names.is_empty() {
        return Err(NO_NAMES.into());
    }
    names.extend(inside);
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let origin = cmd.origin();
    cmd.context.language.kept.edit::<DefinedDomains>().all.push(Arc::new(Definition { names, own }), &origin);
    Ok(())
}

conf::settings! {
    /// The names inside a `<MDomainSet>`.
    pub struct Members {
        names: conf::Listed<String>,
    }
}

fn members_auto(word: &str) -> Option<bool> {
    one_of(word, &[("auto", true), ("manual", false)])
}

/// `MDMember` and `MDMembers`
pub(super) fn members(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    if !in_set(cmd) {
        let [word] = words else { return only_in_set(cmd) };
        let auto = members_auto(word).ok_or(r#"unknown value, use "auto|manual""#)?;
        return cmd.server_set(|s: &mut MdServer| &mut s.members_auto, auto);
    }
    for word in words {
        match members_auto(word) {
            Some(auto) => cmd.server_set(|s: &mut MdServer| &mut s.members_auto, auto)?,
            None => cmd.server_push(|m: &mut Members| &mut m.names, word.to_ascii_lowercase())?,
        }
    }
    Ok(())
}

/// `MDCertificateAuthority`
pub(super) fn authorities(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    let url = |(word, number): (&String, usize)| {
        if let Some(url) = one_of(word, &AUTHORITIES) {
            return Ok(url.to_string());
        }
        check_scheme(word).map(|()| word.clone()).map_err(|why| {
            let known = AUTHORITIES.map(|(name, _)| name).join(" ");
            let message = format!(
                "The CA name '{word}' is not known and it is not a URL either ({why}). Known CA names are: {known}."
            );
            Refusal::argument(number, message)
        })
    };
    let urls = words.iter().zip(1..).map(url).collect::<Result<Vec<_>, _>>()?;
    cmd.server_set(|s: &mut MdServer| &mut s.authorities, urls)
}

/// Checks that a URL is one of HTTP.
fn check_scheme(url: &str) -> Result<(), &'static str> {
    let (scheme, _) = url.split_once(':').ok_or("missing uri scheme")?;
    match ["http", "https"].iter().any(|known| known.eq_ignore_ascii_case(scheme)) {
        true => Ok(()),
        false => Err("uri scheme must be http or https"),
    }
}

/// `MDCAChallenges`
pub(super) fn challenges(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    cmd.server_set(|s: &mut MdServer| &mut s.challenges, words.to_vec())
}

/// `MDRenewMode` and `MDDriveMode`
pub(super) fn renew_mode(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let modes = [
        ("auto", RenewMode::Auto),
        ("automatic", RenewMode::Auto),
        ("always", RenewMode::Always),
        ("manual", RenewMode::Manual),
        ("stick", RenewMode::Manual),
    ];
    let mode = one_of(value, &modes).ok_or_else(|| format!("unknown MDDriveMode {value}"))?;
    cmd.server_set(|s: &mut MdServer| &mut s.renew_mode, mode)
}

/// `MDPortMap`
pub(super) fn port_map(cmd: &mut Cmd<'_>, first: &str, second: Option<&str>) -> Outcome {
    not_in_set(cmd)?;
    for map in std::iter::once(first).chain(second) {
        let (outside, inside) = map.split_once(':').ok_or("no ':' after first port number")?;
        let field: Field<Option<u16>> = match outside {
            "http" | "80" => |s| &mut s.http_port,
            "https" | "443" => |s| &mut s.https_port,
            _ if number(outside).is_some() => return Err("mapped port number must be 80 or 443".into()),
            _ => return Err("no ':' after first port number".into()),
        };
        let port = match inside {
            "-" => None,
            port => match port.parse() {
                Ok(port @ 1..) => Some(port),
                _ => return Err("invalid number for port map, must be in ]0,65535]".into()),
            },
        };
        cmd.server_set(field, port)?;
    }
    Ok(())
}

/// `MDPrivateKeys`
pub(super) fn private_keys(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    let mut kinds: Vec<KeyKind> = Vec::new();
    let mut rest = words.iter().zip(1..).peekable();
    if words.is_empty() {
        return Err(Refusal::missing("needs to specify the private key type"));
    }
    while let Some((word, number)) = rest.next() {
        let kind = if word.eq_ignore_ascii_case("Default") {
            if words.len() > 1 {
                return Err(Refusal::surplus(2, "'Default' allows no other parameter"));
            }
            KeyKind::DEFAULT
        } else if word.eq_ignore_ascii_case("RSA") {
            let bits = rest.next_if(|(next, _)| conf::values::number(next).is_some());
            KeyKind::Rsa(bits.map_or(Ok(2048), |(bits, number)| rsa_bits(bits).in_argument(number))?)
        } else if let Some(bits) = word.to_ascii_lowercase().strip_prefix("rsa") {
            KeyKind::Rsa(rsa_bits(bits).in_argument(number)?)
        } else {
            let unknown = || format!("'{word}' is not a supported kind of key: RSA, secp256r1, secp384r1, secp521r1");
            KeyKind::curve(word).ok_or_else(unknown).in_argument(number)?
        };
        let is_same = |other: &KeyKind| matches!((other, kind), (KeyKind::Rsa(_), KeyKind::Rsa(_))) || *other == kind;
        if kinds.iter().any(is_same) {
            let name = if matches!(kind, KeyKind::Rsa(_)) { "RSA" } else { word };
            return Err(Refusal::argument(number, format!("two keys of type '{name}' are not possible.")));
        }
        kinds.push(kind);
    }
    cmd.server_set(|s: &mut MdServer| &mut s.private_keys, kinds)
}

fn rsa_bits(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(bits @ 2048..=RSA_MAX) => Ok(bits),
        Ok(bits) if bits > RSA_MAX => Err(format!("{bits} is too large for an RSA key length: {RSA_MAX} is the most.")),
        _ => Err("must be 2048 or higher in order to be considered safe.".into()),
    }
}

/// `MDHttpProxy`
pub(super) fn http_proxy(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    not_in_set(cmd)?;
    check_scheme(value)?;
    text(cmd, |s| &mut s.http_proxy, value)
}

/// `MDRequireHttps`
pub(super) fn require_https(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    if !in_set(cmd)
        && let Some(section) = cmd.place.enclosing.last().filter(|_| !cmd.place.allowed.meets(Allowed::SERVER))
    {
        return Err(cmd.cannot_occur(&format!("{section}> section")));
    }
    if cmd.place.htaccess {
        return Err(cmd.cannot_occur("htaccess files"));
    }
    let modes =
        [("off", RequireHttps::Off), ("temporary", RequireHttps::Temporary), ("permanent", RequireHttps::Permanent)];
    let mode = one_of(value, &modes)
        .ok_or_else(|| format!("unknown '{value}', supported parameter values are 'temporary' and 'permanent'"))?;
    cmd.server_set(|s: &mut MdServer| &mut s.require_https, mode)
}

/// `MDChallengeDns01Version`
pub(super) fn dns01_version(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    not_in_set(cmd)?;
    let version = one_of(value, &[("1", 1), ("2", 2)]).ok_or("Only versions `1` and `2` are supported")?;
    cmd.server_set(|s: &mut MdServer| &mut s.dns01_version, version)
}

/// `MDCertificateFile` and `MDCertificateKeyFile`
pub(super) fn own_file(
    cmd: &mut Cmd<'_>,
    field: fn(&mut MdServer) -> &mut conf::Listed<String>,
    value: &str,
) -> Outcome {
    only_in_set(cmd)?;
    let path = cmd.context.server_relative(value);
    cmd.server_push(field, path)
}

/// `MDActivationDelay`
pub(super) fn activation_delay(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    not_in_set(cmd)?;
    time(value, DAY).map(|_| ()).ok_or_else(|| NO_DURATION.into())
}

/// `MDCACertificateFile`
pub(super) fn ca_file(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let file = (!value.eq_ignore_ascii_case("none")).then(|| cmd.context.server_relative(value));
    cmd.server_set(|s: &mut MdServer| &mut s.ca_file, file)
}

/// `MDExternalAccountBinding`
pub(super) fn account_binding(cmd: &mut Cmd<'_>, first: &str, second: Option<&str>) -> Outcome {
    let binding = match second {
        Some(key) => Some((first.to_string(), key.to_string())),
        None if first.eq_ignore_ascii_case("none") => None,
        None => Some(read_binding(cmd, first)?),
    };
    cmd.server_set(|s: &mut MdServer| &mut s.account_binding, binding)
}

/// Reads an account binding from a JSON file.
fn read_binding(cmd: &Cmd<'_>, file: &str) -> Result<(String, String), String> {
    let (name, path) = (cmd.row.name, cmd.context.server_relative(file));
    if !cmd.context.system.exists(&path) {
        return Err(format!("{name}: file not found: {path}"));
    }
    let text = cmd.context.system.read(&path).ok();
    let json: Option<serde_json::Value> = text.and_then(|text| serde_json::from_slice(&text).ok());
    let json = json.ok_or_else(|| format!("{name}: error reading JSON file {path}"))?;
    let part = |key: &str| {
        let missing = || format!("{name}: JSON does not contain '{key}' element in file {path}");
        json[key].as_str().map(str::to_string).ok_or_else(missing)
    };
    Ok((part("kid")?, part("hmac")?))
}

/// `MDRetryDelay`
pub(super) fn retry_delay(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    not_in_set(cmd)?;
    let delay = time(value, SECOND).ok_or(NO_DURATION)?;
    if delay.is_zero() {
        return Err("minimum delay must be greater than 0".into());
    }
    cmd.server_set(|s: &mut MdServer| &mut s.retry_delay, delay)
}

/// `MDRetryFailover`
pub(super) fn retry_failover(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    not_in_set(cmd)?;
    match value.parse() {
        Ok(count @ 1..) => cmd.server_set(|s: &mut MdServer| &mut s.retry_failover, count),
        _ => Err("invalid argument, must be a number > 0".into()),
    }
}

/// `MDStoreLocks`
pub(super) fn store_locks(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    not_in_set(cmd)?;
    match conf::values::on_off(value).is_some() || time(value, SECOND).is_some() {
        true => Ok(()),
        false => Err("neither 'on', 'off' or a duration specified".into()),
    }
}

/// `MDMatchNames`
pub(super) fn match_names(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    not_in_set(cmd)?;
    let names = one_of(value, &[("all", Names::All), ("servernames", Names::ServerNames)])
        .ok_or("invalid argument, must be a 'all' or 'servernames'")?;
    cmd.server_set(|s: &mut MdServer| &mut s.match_names, names)
}

/// `MDInitialDelay`
pub(super) fn initial_delay(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    not_in_set(cmd)?;
    let delay = time(value, SECOND).ok_or(NO_DURATION)?;
    if value.starts_with('-') {
        return Err("initial delay must not be negative".into());
    }
    cmd.server_set(|s: &mut MdServer| &mut s.initial_delay, delay)
}

/// `MDCheckInterval`
pub(super) fn check_interval(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    not_in_set(cmd)?;
    let interval = time(value, SECOND).ok_or(NO_DURATION)?;
    if interval < SECOND {
        return Err("check interval cannot be less than one second".into());
    }
    cmd.server_set(|s: &mut MdServer| &mut s.check_interval, interval)
}

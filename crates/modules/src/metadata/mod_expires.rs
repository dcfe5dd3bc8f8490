//! How long a response may be cached: `Expires` and `Cache-Control: max-age`, by media type.
//!
//! Apache manual: mod_expires. Doubtful cases were measured on 2.4.71.

use conf::directive::Args::{Flag, Take1, Take2};
use conf::values::atoi;
use conf::words::next_word;
use conf::{Allowed, Cmd, Directive, InArgument as _, Keyed, ModuleInfo, Outcome, Setting, on_or_off, row, settings};
use server::{Hook, Module, Order, Request, ResponseHook};

use crate::metadata::periods;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "expires_module", source: "mod_expires.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::ResponseFields(Order::Middle, ResponseHook::Now(set_fields))],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ExpiresActive", Allowed::INDEXES, Flag(set_active), on_or_off(ACTIVE), "Limited to 'on' or 'off'"),
    row("ExpiresByType", Allowed::INDEXES, Take2(set_by_type), "", "a MIME type followed by an expiry date code"),
    row("ExpiresDefault", Allowed::INDEXES, Take1(set_default), "", "an expiry date code"),
];

/// Whether fields are set by default.
const ACTIVE: bool = false;

settings! {
    /// The module's settings of a section.
    pub struct ExpiresDir {
        active: Setting<bool> = ACTIVE,
        default: Setting<Expiry>,
        /// By media type, in lower case.
        by_type: Keyed<String, Expiry>,
        /// Whether the innermost level has an entry for all types of a kind (`text/*`): such entries of outer levels
        /// count only then.
        wildcards: Setting<bool> = false,
    }
}

/// An expiry: so many seconds after a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expiry {
    since: Since,
    seconds: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Access,
    Modification,
}

/// Every line of the module records for its level whether there are wildcards.
fn level(cmd: &mut Cmd<'_>, wildcard: bool) {
    let origin = cmd.origin();
    let wildcards = &mut cmd.dir.edit::<ExpiresDir>().wildcards;
    wildcards.set(wildcard || wildcards.value_or(false), &origin);
}

fn set_active(cmd: &mut Cmd<'_>, on: bool) -> Outcome {
    level(cmd, false);
    cmd.set(|d: &mut ExpiresDir| &mut d.active, on)
}

fn set_by_type(cmd: &mut Cmd<'_>, media_type: &str, code: &str) -> Outcome {
    let (_, sub) = media_type.rsplit_once('/').ok_or("Invalid mimetype: should contain a slash").in_argument(1)?;
    level(cmd, sub == "*");
    let expiry = Expiry::parse(code).map_err(|why| format!("'ExpiresByType {media_type} {code}': {why}"));
    let expiry = expiry.in_argument(2)?;
    cmd.put(|d: &mut ExpiresDir| &mut d.by_type, media_type.to_ascii_lowercase(), expiry)
}

fn set_default(cmd: &mut Cmd<'_>, code: &str) -> Outcome {
    level(cmd, false);
    let expiry = Expiry::parse(code).map_err(|why| format!("'ExpiresDefault {code}': {why}"))?;
    cmd.set(|d: &mut ExpiresDir| &mut d.default, expiry)
}

impl Expiry {
    /// `A60`, `M60`, or `access plus 1 month 2 days`.
    fn parse(code: &str) -> Result<Expiry, String> {
        // As in Apache a capital alone selects the short form: `Access plus 1 day` is `A` without a number.
        for (letter, since) in [('A', Since::Access), ('M', Since::Modification)] {
            if let Some(number) = code.strip_prefix(letter) {
                return Ok(Expiry { since, seconds: atoi(number) });
            }
        }
        let mut rest = code;
        let base = next_word(&mut rest);
        let since = match base.bytes().next().map(|first| first.to_ascii_lowercase()) {
            Some(b'n' | b'a') => Since::Access,
            Some(b'm') => Since::Modification,
            _ => return Err(format!("bad expires code, unrecognised <base> '{base}'")),
        };
        let seconds = periods::seconds(rest).map_err(|fault| match fault {
            periods::Fault::NoNumber(word) => format!("bad expires code, numeric value expected <num> '{word}'"),
            periods::Fault::NoUnit => "bad expires code, missing <type>".into(),
            periods::Fault::UnknownUnit(word) => format!("bad expires code, unrecognised <type>'{word}'"),
        })?;
        Ok(Expiry { since, seconds })
    }
}

/// Redirects have the fields, too; errors do not, nor do answers with an expiry of their own.
fn set_fields(request: &mut Request, _: bool) {
    let dir = request.dir.slots.clone();
    let conf = dir.get::<ExpiresDir>();
    if !conf.active() || request.response.status() >= 400 {
        return;
    }
    let has_expires =
        request.response.err_headers_out.contains("Expires") || request.response.headers_out.contains("Expires");
    let Some(expiry) = conf.of(request.response.content_type()).filter(|_| !has_expires) else { return };
    let now = request.time().as_micros() as i64;
    let base = match (expiry.since, request.mapped.stat) {
        (Since::Access, _) => now,
        (Since::Modification, Some(meta)) => (meta.mtime / 1000) as i64,
        (Since::Modification, None) => return,
    };
    // As in Apache, the calculation uses microseconds: a fraction may make the age a second shorter.
    let expires = (base + i64::from(expiry.seconds) * 1_000_000).max(now);
    let out = &mut request.response.headers_out;
    out.merge("Cache-Control", &format!("max-age={}", (expires - now) / 1_000_000));
    let date = http::date::http_date(expires.div_euclid(1_000_000));
    out.set("Expires", String::from_utf8_lossy(&date));
}

impl ExpiresDir {
    fn of(&self, media_type: Option<&str>) -> Option<Expiry> {
        let by_type = media_type.and_then(|text| {
            let bare = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            let wildcard = || bare.split_once('/').and_then(|(kind, _)| self.by_type.get(&format!("{kind}/*")));
            self.by_type.get(&bare).or_else(|| if self.wildcards() { wildcard() } else { None })
        });
        by_type.or(self.default.get()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_as_apache_takes_them() {
        crate::testing::check(&[
            ("ExpiresActive maybe", "ExpiresActive must be On or Off"),
            ("ExpiresByType text A1", "Invalid mimetype: should contain a slash"),
            (
                "ExpiresByType text/html tomorrow",
                "'ExpiresByType text/html tomorrow': bad expires code, unrecognised <base> 'tomorrow'",
            ),
            (
                "ExpiresDefault \"access plus one day\"",
                "'ExpiresDefault access plus one day': bad expires code, numeric value expected <num> 'one'",
            ),
            ("ExpiresDefault \"access 1\"", "'ExpiresDefault access 1': bad expires code, missing <type>"),
            (
                "ExpiresDefault \"access 1 eon\"",
                "'ExpiresDefault access 1 eon': bad expires code, unrecognised <type>'eon'",
            ),
            ("ExpiresDefault", "ExpiresDefault takes one argument, an expiry date code"),
        ]);
    }

    #[test]
    fn codes() {
        let of = |code| Expiry::parse(code).map(|expiry| (expiry.since, expiry.seconds));
        for (code, since, seconds) in [
            ("A60", Since::Access, 60),
            ("M-5x", Since::Modification, -5),
            ("Access plus 1 day", Since::Access, 0),
            ("now plus 1 year 2 months 3 weeks 4 days 5 hours 6 minutes 7 seconds", Since::Access, 38_898_367),
            ("modification 2 M 1 s", Since::Modification, 0),
            ("access", Since::Access, 0),
            ("access plus 100 years", Since::Access, -1_141_367_296),
        ] {
            match code {
                "modification 2 M 1 s" => assert!(of(code).is_err(), "minutes and months need two letters"),
                _ => assert_eq!(of(code), Ok((since, seconds)), "{code}"),
            }
        }
    }
}

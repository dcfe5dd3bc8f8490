//! The flags in brackets after a rule or a condition.

use conf::values::atoi;

use super::template::Template;

/// Splits the flags, and passes on each name with the value after its `=`.
pub(super) fn each(text: &str, mut take: impl FnMut(&str, &str) -> Result<(), String>) -> Result<(), String> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or("bad flag delimiters")?;
    for flag in inner.split(',') {
        let flag = flag.trim_ascii();
        let (key, value) = flag.split_once('=').unwrap_or((flag, ""));
        take(key, value)?;
    }
    Ok(())
}

/// The flags in brackets after a rule, with their values.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) flags: Flags,
    /// The status of a redirect, or of the response.
    pub(super) status: u16,
    /// `E`
    pub(super) env: Vec<Template>,
    /// `CO`
    pub(super) cookies: Vec<Template>,
    /// `T`
    pub(super) media_type: Option<Template>,
    /// `H`
    pub(super) handler: Option<Template>,
    /// `S`
    pub(super) skip: usize,
    /// How often `N` may restart.
    pub(super) rounds: i32,
    /// `B=` and `BNE=`
    pub(super) escapes: Option<String>,
    pub(super) no_escapes: Option<String>,
}

/// A set of boolean flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(pub(super) u32);

impl Flags {
    pub(super) const CHAIN: Flags = Flags(1);
    pub(super) const REDIRECT: Flags = Flags(1 << 1);
    pub(super) const PROXY: Flags = Flags(1 << 2);
    pub(super) const PASS_THROUGH: Flags = Flags(1 << 3);
    pub(super) const LAST: Flags = Flags(1 << 4);
    pub(super) const NEXT: Flags = Flags(1 << 5);
    pub(super) const END: Flags = Flags(1 << 6);
    pub(super) const NO_CASE: Flags = Flags(1 << 7);
    pub(super) const NO_ESCAPE: Flags = Flags(1 << 8);
    pub(super) const NO_SUBREQUEST: Flags = Flags(1 << 9);
    pub(super) const NEGATED: Flags = Flags(1 << 10);
    /// There is no substitution.
    pub(super) const AS_IS: Flags = Flags(1 << 11);
    /// The response is a status.
    pub(super) const STATUS: Flags = Flags(1 << 12);
    pub(super) const ESCAPE: Flags = Flags(1 << 13);
    pub(super) const NO_PLUS: Flags = Flags(1 << 14);
    pub(super) const ESCAPE_CONTROLS: Flags = Flags(1 << 15);
    pub(super) const QUERY_APPEND: Flags = Flags(1 << 16);
    pub(super) const QUERY_DISCARD: Flags = Flags(1 << 17);
    pub(super) const QUERY_LAST: Flags = Flags(1 << 18);
    /// The URL has no query.
    pub(super) const QUERY_NONE: Flags = Flags(1 << 19);
    pub(super) const DISCARD_PATH_INFO: Flags = Flags(1 << 20);
    pub(super) const UNSAFE_PREFIX: Flags = Flags(1 << 21);
    pub(super) const UNSAFE_QUESTION: Flags = Flags(1 << 22);

    /// Whether it contains any of those.
    pub(super) const fn any(self, others: Flags) -> bool {
        self.0 & others.0 != 0
    }

    /// The flags of both sets.
    pub(super) const fn or(self, others: Flags) -> Flags {
        Flags(self.0 | others.0)
    }
}

/// The boolean flags, by both of their names.
const PLAIN: [(&str, &str, Flags); 19] = [
    ("bnp", "backrefernoplus", Flags::NO_PLUS),
    ("bctls", "bctls", Flags::ESCAPE_CONTROLS.or(Flags::ESCAPE)),
    ("c", "chain", Flags::CHAIN),
    ("dpi", "discardpath", Flags::DISCARD_PATH_INFO),
    ("d", "d", Flags::DISCARD_PATH_INFO),
    ("end", "end", Flags::END),
    ("l", "last", Flags::LAST),
    ("ne", "noescape", Flags::NO_ESCAPE),
    ("ns", "nosubreq", Flags::NO_SUBREQUEST),
    ("nc", "nocase", Flags::NO_CASE),
    ("p", "proxy", Flags::PROXY),
    ("pt", "passthrough", Flags::PASS_THROUGH),
    ("qsa", "qsappend", Flags::QUERY_APPEND),
    ("qsd", "qsdiscard", Flags::QUERY_DISCARD),
    ("qsl", "qslast", Flags::QUERY_LAST),
    ("unsafeallow3f", "unsafeallow3f", Flags::UNSAFE_QUESTION),
    ("unsafeprefixstat", "unsafeprefixstat", Flags::UNSAFE_PREFIX),
    // Windows has paths on other machines; there are none here.
    ("unc", "unc", Flags(0)),
    ("b", "backrefescaping", Flags::ESCAPE),
];

impl Given {
    /// `rounds`: the default limit of `N`.
    pub(super) fn new(rounds: i32) -> Given {
        Given {
            flags: Flags::default(),
            status: 302,
            env: Vec::new(),
            cookies: Vec::new(),
            media_type: None,
            handler: None,
            skip: 0,
            rounds,
            escapes: None,
            no_escapes: None,
        }
    }

    /// Adds the flag `key`, with the value after its `=`. `Err`: the message that it is invalid.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Result<(), String> {
        let lower = key.to_ascii_lowercase();
        let given = || (!value.is_empty()).then(|| value.to_string());
        if let Some((_, _, flags)) = PLAIN.iter().find(|(short, long, _)| lower == *short || lower == *long) {
            self.flags = self.flags.or(*flags);
            if flags == &Flags::ESCAPE {
                self.escapes = given().or(self.escapes.take());
            }
            return Ok(());
        }
        match lower.as_str() {
            "bne" => match given() {
                Some(list) => self.no_escapes = Some(list),
                None => return Err("flag 'BNE' wants a list of characters (i.e. [BNE=...])".into()),
            },
            "co" | "cookie" => self.cookies.push(Template::parse(value)),
            "e" | "env" => self.env.push(Template::parse(value)),
            "f" | "forbidden" => self.respond(403),
            "g" | "gone" => self.respond(410),
            "h" | "handler" => self.handler = Some(Template::parse(value)),
            "n" | "next" => {
                self.flags = self.flags.or(Flags::NEXT);
                if !value.is_empty() {
                    self.rounds = atoi(value);
                }
            }
            "r" | "redirect" => return self.redirect(value),
            "s" | "skip" => self.skip = usize::try_from(atoi(value)).unwrap_or(0),
            "t" | "type" => self.media_type = Some(Template::parse(value)),
            // Apache accepts any word with this initial.
            other if other.starts_with('d') => {}
            _ => return Err(format!("unknown flag '{key}'")),
        }
        Ok(())
    }

    /// The rule makes this status the response, without a substitution.
    fn respond(&mut self, status: u16) {
        self.flags = self.flags.or(Flags::STATUS).or(Flags::AS_IS);
        self.status = status;
    }

    /// `R`, perhaps with a status.
    fn redirect(&mut self, value: &str) -> Result<(), String> {
        self.flags = self.flags.or(Flags::REDIRECT);
        self.status = match value.to_ascii_lowercase().as_str() {
            "" => return Ok(()),
            "permanent" => 301,
            "temp" => 302,
            "seeother" => 303,
            digits if digits.starts_with(|c: char| c.is_ascii_digit()) => {
                let status = u16::try_from(atoi(digits)).ok().filter(|status| http::status::is_known(*status));
                let status = status.ok_or_else(|| format!("invalid HTTP response code '{value}' for flag 'R'"))?;
                if !(300..400).contains(&status) {
                    self.respond(status);
                }
                status
            }
            // Any other word counts as the default status of redirects.
            _ => 302,
        };
        Ok(())
    }
}

//! The parameters of a listing, with the client's own from the query: `?C=M;O=D;F=2;V=1;P=*.txt`.

use http::text::{from_bytes, to_bytes};
use http::uri::{escape_path, unescape_lenient};
use server::Request;

use super::options::{Bits, FANCY, IGNORE_CLIENT, NO_SORTING, TABLE, VERSION_SORT};
use super::settings::{IndexDir, Key};

/// What a listing shows and in which order: the configuration's choice, and the client's.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) options: Bits,
    pub(super) key: Key,
    pub(super) ascending: bool,
    /// The pattern that names must match to be shown.
    pub(super) pattern: Option<String>,
    /// The parameters that the column links must repeat.
    pub(super) suffix: String,
}

impl Query {
    /// Reads the configuration, and the query if the client may choose.
    pub(super) fn of(request: &Request, conf: &IndexDir) -> Query {
        let (ascending, key) = conf.order.value_or((true, Key::Name));
        let options = conf.options.effective();
        let mut query = Query { options, key, ascending, pattern: None, suffix: String::new() };
        if options & IGNORE_CLIENT != 0 {
            query.options |= NO_SORTING;
        } else {
            query.read(request.data.args.as_deref().unwrap_or_default());
        }
        query
    }

    /// Reads up to the first part that is not understood.
    fn read(&mut self, args: &str) {
        let (mut format, mut version, mut prefix, mut pattern) = (String::new(), String::new(), "", String::new());
        for part in args.split(['&', ';']) {
            match part.split_once('=') {
                Some(("C", "N")) => self.key = Key::Name,
                Some(("C", "M")) => self.key = Key::Date,
                Some(("C", "S")) => self.key = Key::Size,
                Some(("C", "D")) => self.key = Key::Description,
                Some(("O", "A")) => self.ascending = true,
                Some(("O", "D")) => self.ascending = false,
                Some(("F", value @ ("0" | "1" | "2"))) => {
                    self.options = match value {
                        "0" => self.options & !(FANCY | TABLE),
                        "1" => (self.options | FANCY) & !TABLE,
                        _ => self.options | FANCY | TABLE,
                    };
                    format = format!(";F={value}");
                }
                Some(("V", value @ ("0" | "1"))) => {
                    self.options = match value {
                        "0" => self.options & !VERSION_SORT,
                        _ => self.options | VERSION_SORT,
                    };
                    version = format!(";V={value}");
                }
                Some(("P", "")) => self.pattern = None,
                Some(("P", value)) => {
                    self.pattern = unescape(value);
                    if let Some(wanted) = &self.pattern {
                        prefix = ";P=";
                        pattern = escape_path(wanted).into_owned();
                    }
                }
                _ => break,
            }
        }
        self.suffix = format!("{format}{version}{prefix}{pattern}");
    }
}

/// Removes the escapes of a pattern; a pattern with a bad escape, a slash or a NUL is invalid.
fn unescape(value: &str) -> Option<String> {
    let raw = to_bytes(value);
    let complete = raw.iter().enumerate().all(|(at, byte)| {
        *byte != b'%' || raw.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    });
    let escaped_slash = raw.to_ascii_lowercase().windows(3).any(|three| three == b"%2f");
    let bytes = unescape_lenient(&raw);
    (complete && !escaped_slash && !bytes.contains(&0)).then(|| from_bytes(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries() {
        let read = |args: &str| {
            let options = FANCY;
            let mut query = Query { options, key: Key::Name, ascending: true, pattern: None, suffix: String::new() };
            query.read(args);
            let order = if query.ascending { 'A' } else { 'D' };
            (format!("{}{order}", query.key.letter()), query.options, query.pattern.unwrap_or_default(), query.suffix)
        };
        let want =
            |key: &str, options, pattern: &str, suffix: &str| (key.into(), options, pattern.into(), suffix.into());
        assert_eq!(read(""), want("NA", FANCY, "", ""));
        assert_eq!(read("C=M;O=D"), want("MD", FANCY, "", ""));
        assert_eq!(read("C=S&O=D&F=2"), want("SD", FANCY | TABLE, "", ";F=2"));
        assert_eq!(read("V=1;F=0;P=*.t%78t"), want("NA", VERSION_SORT, "*.txt", ";F=0;V=1;P=*.txt"));
        assert_eq!(read("C=X;O=D"), want("NA", FANCY, "", ""));
        assert_eq!(read("O=D;nonsense;C=M"), want("ND", FANCY, "", ""));
        assert_eq!(read("P=%zz;C=M"), want("MA", FANCY, "", ""));
        assert_eq!(read("P=a%2fb"), want("NA", FANCY, "", ""));
    }
}

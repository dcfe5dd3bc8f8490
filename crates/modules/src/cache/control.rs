//! `Cache-Control` and `Pragma`, of requests and responses (RFC 9111 section 5.2, RFC 5861).

/// What the two fields say. Unknown directives are ignored, and so are those whose value is no number where one belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Control {
    /// There is a field `Cache-Control`.
    pub(crate) is_there: bool,
    /// There is a field `Pragma`.
    pub(crate) pragma: bool,
    pub(crate) no_cache: bool,
    /// `no-cache="Field"`
    pub(crate) no_cache_fields: bool,
    pub(crate) no_store: bool,
    pub(crate) no_transform: bool,
    pub(crate) only_if_cached: bool,
    pub(crate) public: bool,
    pub(crate) private: bool,
    /// `private="Field"`
    pub(crate) private_fields: bool,
    pub(crate) must_revalidate: bool,
    pub(crate) proxy_revalidate: bool,
    /// An unsafe request has made the response invalid; no field says that.
    pub(crate) invalidated: bool,
    /// `max-stale`, with or without a value.
    pub(crate) max_stale: bool,
    pub(crate) max_stale_value: Option<i64>,
    pub(crate) max_age: Option<i64>,
    pub(crate) min_fresh: Option<i64>,
    pub(crate) s_maxage: Option<i64>,
    pub(crate) stale_while_revalidate: Option<i64>,
    pub(crate) stale_if_error: Option<i64>,
}

/// The longest time that a directive can name, in seconds (RFC 9111 section 1.2.2).
const SECONDS_MAX: i64 = 1 << 31;

impl Control {
    /// Reads the values of both fields.
    pub(crate) fn of(cache_control: Option<&str>, pragma: Option<&str>) -> Control {
        let mut control = Control { is_there: cache_control.is_some(), pragma: pragma.is_some(), ..Control::default() };
        control.no_cache =
            directives(pragma.unwrap_or_default()).any(|(name, _)| name.eq_ignore_ascii_case("no-cache"));
        for (name, value) in directives(cache_control.unwrap_or_default()) {
            control.take(&name.to_ascii_lowercase(), value.as_deref());
        }
        control
    }

    fn take(&mut self, name: &str, value: Option<&str>) {
        let number = || value.and_then(seconds);
        let set = |place: &mut Option<i64>| *place = number().or(*place);
        match name {
            "no-cache" if value.is_some() => self.no_cache_fields = true,
            "no-cache" => self.no_cache = true,
            "no-store" => self.no_store = true,
            "no-transform" => self.no_transform = true,
            "only-if-cached" => self.only_if_cached = true,
            "public" => self.public = true,
            "private" if value.is_some() => self.private_fields = true,
            "private" => self.private = true,
            "must-revalidate" => self.must_revalidate = true,
            "proxy-revalidate" => self.proxy_revalidate = true,
            "max-stale" if value.is_none() => (self.max_stale, self.max_stale_value) = (true, None),
            "max-stale" if number().is_some() => (self.max_stale, self.max_stale_value) = (true, number()),
            "max-age" => set(&mut self.max_age),
            "min-fresh" => set(&mut self.min_fresh),
            "s-maxage" => set(&mut self.s_maxage),
            "stale-while-revalidate" => set(&mut self.stale_while_revalidate),
            "stale-if-error" => set(&mut self.stale_if_error),
            _ => {}
        }
    }

    /// Whether a stale response must not be used at all, whatever went wrong.
    pub(crate) fn forbids_stale(&self) -> bool {
        self.must_revalidate || self.proxy_revalidate
    }
}

/// The names of fields that `no-cache="…"` and `private="…"` keep out of a shared cache.
pub(crate) fn kept_out(cache_control: &str) -> Vec<String> {
    let names = directives(cache_control).filter_map(|(name, value)| {
        let lists = name.eq_ignore_ascii_case("no-cache") || name.eq_ignore_ascii_case("private");
        value.filter(|_| lists)
    });
    let names: Vec<String> = names.collect();
    let each = names.iter().flat_map(|list| list.split([',', ' ', '\t']));
    each.filter(|name| !name.is_empty()).map(str::to_string).collect()
}

/// A number of seconds in a field. One that is too large is the largest.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().map_or(SECONDS_MAX, |number: i64| number.min(SECONDS_MAX)))
}

/// The directives of a field: names, and values without quotes. As in Apache, what comes after a mistake does not count.
fn directives(text: &str) -> impl Iterator<Item = (&str, Option<String>)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find(|at: char| !is_token(at)).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        if name.is_empty() {
            return None;
        }
        let (value, behind) = match behind.strip_prefix('=') {
            None => (None, behind),
            Some(behind) => {
                let (value, behind) = argument(behind);
                (Some(value), behind)
            }
        };
        let behind = behind.trim_start_matches([' ', '\t']);
        rest = behind.strip_prefix(',').unwrap_or("");
        Some((name, value)).filter(|_| behind.is_empty() || behind.starts_with(','))
    })
}

/// The value at the beginning, and what comes after it.
fn argument(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|at: char| !is_token(at)).unwrap_or(text.len());
        return (text[..end].to_string(), &text[end..]);
    };
    let (mut value, mut all) = (String::new(), quoted.char_indices());
    while let Some((place, at)) = all.next() {
        match at {
            '"' => return (value, &quoted[place + 1..]),
            '\\' => value.extend(all.next().map(|(_, escaped)| escaped)),
            _ => value.push(at),
        }
    }
    (value, "")
}

fn is_token(at: char) -> bool {
    at.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_responses_and_requests() {
        let of = |text| Control { is_there: false, ..Control::of(Some(text), None) };
        let none = Control::default();
        for (text, control) in [
            ("", none),
            ("max-age=5", Control { max_age: Some(5), ..none }),
            ("Max-Age=\"5\" , PUBLIC", Control { max_age: Some(5), public: true, ..none }),
            ("max-age=-1, max-age=5x, max-age", none),
            ("max-age=99999999999999999999", Control { max_age: Some(SECONDS_MAX), ..none }),
            ("max-stale", Control { max_stale: true, ..none }),
            ("max-stale=7", Control { max_stale: true, max_stale_value: Some(7), ..none }),
            ("no-cache=\"Set-Cookie\"", Control { no_cache_fields: true, ..none }),
            ("private, no-cache", Control { private: true, no_cache: true, ..none }),
            ("no-store max-age=5", none),
            ("unknown=\"a,b\\\"c\", no-store", Control { no_store: true, ..none }),
            (
                "stale-while-revalidate=3, stale-if-error=4",
                Control { stale_while_revalidate: Some(3), stale_if_error: Some(4), ..none },
            ),
        ] {
            assert_eq!(of(text), control, "{text}");
        }
        assert!(Control::of(None, Some("x, no-cache")).no_cache);
        assert_eq!(kept_out("private=\"A, b\", no-cache=C, no-cache, x=\"d\""), ["A", "b", "C"]);
    }
}

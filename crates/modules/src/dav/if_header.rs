//! The `If` field: the required states of resources (RFC 4918, section 10.4).

use super::failure::Failure;

/// The scheme of this server's lock tokens.
pub(super) const SCHEME: &str = "opaquelocktoken:";

/// One list of states, for one resource, or for any in the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct States {
    /// The decoded URL path, without a slash at its end.
    pub(super) uri: Option<String>,
    pub(super) all: Vec<State>,
}

/// A state, and whether the resource must not be in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) not: bool,
    pub(super) kind: Condition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// Has this entity tag.
    Tag(String),
    /// Locked with the token of this UUID.
    Lock(String),
    /// Some other state, which never holds.
    Unknown,
}

/// Parses the field.
pub(super) fn parse(field: &str) -> Result<Vec<States>, Failure> {
    let unclosed = "Invalid If-header: unclosed \"<\" or unexpected tagged-list production.";
    let (mut lists, mut uri, mut rest) = (Vec::new(), None, field.trim());
    // Either all lists name resources, or none does.
    let mut is_tagged = None;
    while let Some(first) = rest.chars().next() {
        match first {
            '<' => {
                let end = rest.find('>').filter(|_| is_tagged != Some(false));
                let end = end.ok_or_else(|| Failure::numbered(400, 104, unclosed))?;
                uri = Some(path(&rest[1..end])?);
                is_tagged = Some(true);
                rest = &rest[end + 1..];
            }
            '(' => {
                is_tagged.get_or_insert(false);
                let (all, behind) = states(&rest[1..])?;
                lists.push(States { uri: uri.clone(), all });
                rest = behind;
            }
            ' ' | '\t' => rest = &rest[1..],
            odd => {
                let code = u32::from(odd);
                let text = format!("Invalid \"If:\" header: Unexpected character encountered (0x{code:02x}, '{odd}').");
                return Err(Failure::numbered(400, 102, text));
            }
        }
    }
    Ok(lists)
}

/// The states up to the closing bracket, and the rest.
fn states(text: &str) -> Result<(Vec<State>, &str), Failure> {
    let unclosed = || Failure::numbered(400, 103, "Invalid If-header: unclosed \"(\".");
    let (mut all, mut not, mut rest) = (Vec::new(), false, text);
    loop {
        let first = rest.chars().next().ok_or_else(unclosed)?;
        let closing = match first {
            ')' => return Ok((all, &rest[1..])),
            '<' => '>',
            '[' => ']',
            'N' | 'n' if rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("not")) => {
                if std::mem::replace(&mut not, true) {
                    let text = "Invalid \"If:\" header: Multiple \"not\" entries for the same state.";
                    return Err(Failure::numbered(400, 101, text));
                }
                rest = &rest[3..];
                continue;
            }
            ' ' | '\t' => {
                rest = &rest[1..];
                continue;
            }
            odd => {
                let code = u32::from(odd);
                let text = format!("Invalid \"If:\" header: Unexpected character encountered (0x{code:02x}, '{odd}').");
                return Err(Failure::numbered(400, 102, text));
            }
        };
        let end = rest.find(closing).ok_or_else(unclosed)?;
        let kind = match first {
            '[' => Condition::Tag(rest[1..end].to_string()),
            _ => token(&rest[1..end])?.map_or(Condition::Unknown, Condition::Lock),
        };
        all.push(State { not: std::mem::take(&mut not), kind });
        rest = &rest[end + 1..];
    }
}

/// The UUID of a lock token; `None`: it has another scheme, and is no token of this server.
pub(super) fn token(text: &str) -> Result<Option<String>, Failure> {
    let Some(uuid) = text.strip_prefix(SCHEME) else { return Ok(None) };
    let is_uuid = uuid.len() == 36
        && uuid.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    if !is_uuid {
        let text = "The opaquelocktoken has an incorrect format and could not be parsed.";
        return Err(Failure::numbered(400, 404, text));
    }
    Ok(Some(uuid.to_ascii_lowercase()))
}

/// The decoded path of a URL. As in Apache, the server's name is ignored: a proxy in front may have another name.
fn path(url: &str) -> Result<String, Failure> {
    let path = match url.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => rest.find('/').map_or("/", |at| &rest[at..]),
        _ => url,
    };
    if !path.starts_with('/') {
        return Err(Failure::numbered(400, 104, "Invalid URI in tagged If-header."));
    }
    let bytes = http::text::to_bytes(path);
    let decoded = http::uri::unescape_lenient(&bytes);
    let decoded = http::text::from_bytes(&decoded).into_owned();
    Ok(bare(&decoded).to_string())
}

/// A path without trailing slashes.
pub(super) fn bare(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => "/",
        bare => bare,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "31dfa0a6-9a3a-487e-a53d-b031054658ab";

    fn shown(field: &str) -> String {
        match parse(field) {
            Err(failure) => format!("{} {}", failure.status, failure.reason()),
            Ok(lists) => {
                let one = |list: &States| {
                    let states = list.all.iter().map(|state| {
                        let not = if state.not { "!" } else { "" };
                        match &state.kind {
                            Condition::Tag(tag) => format!("{not}{tag}"),
                            Condition::Lock(uuid) => format!("{not}{}", &uuid[..4]),
                            Condition::Unknown => format!("{not}?"),
                        }
                    });
                    format!("{}({})", list.uri.as_deref().unwrap_or(""), states.collect::<Vec<_>>().join(" "))
                };
                lists.iter().map(one).collect()
            }
        }
    }

    #[test]
    fn fields_as_apache_takes_them() {
        let upper = UUID.to_ascii_uppercase();
        let rows = [
            ("", ""),
            ("()", "()"),
            (&format!("(<{SCHEME}{UUID}>)"), "(31df)"),
            (&format!("(Not <{SCHEME}{upper}> [\"a)b\"]) (not <DAV:no-lock>[W/\"x\"])"), "(!31df \"a)b\")(!? W/\"x\")"),
            ("<http://h:1/a%20b/> ([\"x\"])(<u>) </c> (<v>)", "/a b(\"x\")/a b(?)/c(?)"),
            ("<http://h> (<v>)", "/(?)"),
            ("garbage", "400 Invalid \"If:\" header: Unexpected character encountered (0x67, 'g')."),
            ("(x)", "400 Invalid \"If:\" header: Unexpected character encountered (0x78, 'x')."),
            ("(<u>", "400 Invalid If-header: unclosed \"(\"."),
            ("(<u", "400 Invalid If-header: unclosed \"(\"."),
            ("(not not <u>)", "400 Invalid \"If:\" header: Multiple \"not\" entries for the same state."),
            ("(<u>) </a> (<u>)", "400 Invalid If-header: unclosed \"<\" or unexpected tagged-list production."),
            ("<a> (<u>)", "400 Invalid URI in tagged If-header."),
            (&format!("(<{SCHEME}x>)"), "400 The opaquelocktoken has an incorrect format and could not be parsed."),
        ];
        for (field, want) in rows {
            assert_eq!(shown(field), want, "{field}");
        }
    }
}

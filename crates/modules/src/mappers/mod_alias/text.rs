//! Prefixes, file names and redirect targets as texts.

use http::uri::escape_path;

/// The length of the part of `uri` that matches `fake`. Any number of slashes matches any number of slashes; the match
/// ends at the end of a part, unless `fake` ends with a slash.
pub(crate) fn matched(uri: &str, fake: &str) -> Option<usize> {
    let (uri, fake) = (uri.as_bytes(), fake.as_bytes());
    let skip = |text: &[u8], at: usize| at + text[at..].iter().take_while(|b| **b == b'/').count();
    let (mut u, mut f) = (0, 0);
    while f < fake.len() {
        if uri.get(u) != Some(&fake[f]) {
            return None;
        }
        (u, f) = if fake[f] == b'/' { (skip(uri, u), skip(fake, f)) } else { (u + 1, f + 1) };
    }
    let whole = fake.ends_with(b"/") || matches!(uri.get(u), None | Some(b'/'));
    (u > 0 && whole).then_some(u)
}

/// Escapes a URL made from variables or groups, up to its query, which stays unchanged. As in APR's `apr_uri_unparse`,
/// default ports are omitted and passwords masked.
pub(super) fn escape_target(target: &str) -> String {
    let end = target.find(['?', '#']).unwrap_or(target.len());
    let (location, rest) = target.split_at(end);
    let escaped = escape_path(&shown(location)).into_owned();
    // `?a#b` stays; in `#b?a` everything is fragment.
    escaped + rest
}

fn shown(location: &str) -> String {
    let Some((scheme, rest)) = location.split_once("://").filter(|(scheme, _)| !scheme.contains('/')) else {
        return location.to_string();
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let port = match scheme.to_ascii_lowercase().as_str() {
        "http" => ":80",
        "https" => ":443",
        "ftp" => ":21",
        _ => ":",
    };
    let host = host.strip_suffix(port).unwrap_or(host);
    let user = user.map_or_else(String::new, |user| match user.split_once(':') {
        Some((name, _)) => format!("{name}:XXXXXXXX@"),
        None => format!("{user}@"),
    });
    format!("{scheme}://{user}{host}{path}")
}

/// A path relative to `ServerRoot`, normalised; keeps a slash at its end.
pub(crate) fn file_path(root: &str, path: &str) -> String {
    let mut parts = path.split('/');
    let is_absolute = parts.next() == Some("");
    // An empty last part is the slash at the end.
    let is_clean = is_absolute && parts.rev().skip(1).all(|part| !matches!(part, "" | "." | ".."));
    if is_clean && !path.ends_with("/.") && !path.ends_with("/..") {
        return path.to_string();
    }
    let mut out = conf::paths::join(root, path);
    if path.ends_with('/') && !out.ends_with('/') {
        out.push('/');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_as_apache_matches_them() {
        let table = [
            ("/i/a", "/i/", Some(3)),
            ("/i", "/i/", None),
            ("/jx", "/j", None),
            ("/j", "/j", Some(2)),
            ("/j/a", "/j", Some(2)),
            ("/j//a", "/j/", Some(4)),
            ("/j/a", "/j//", Some(3)),
            ("/j/a", "//j", Some(2)),
            ("/x", "/", Some(1)),
            ("/x", "", None),
            ("x", "/", None),
        ];
        for (uri, fake, want) in table {
            assert_eq!(matched(uri, fake), want, "{uri} {fake}");
        }
    }

    #[test]
    fn files_of_aliases() {
        let table = [
            ("/a/b", "/a/b"),
            ("/a/b/", "/a/b/"),
            ("/a//b", "/a/b"),
            ("/a/./x//../b", "/a/b"),
            ("ext/loc/../", "/root/ext/"),
            ("ext", "/root/ext"),
            ("/", "/"),
            ("/a/..", "/"),
        ];
        for (path, want) in table {
            assert_eq!(file_path("/root", path), want, "{path}");
        }
    }

    #[test]
    fn targets_of_patterns_as_captured() {
        let table = [
            ("http://u:pw@h.example:80/aabc?q=abc#abc", "http://u:XXXXXXXX@h.example/aabc?q=abc#abc"),
            ("http://h/aa b??q=a b?#a b?", "http://h/aa%20b??q=a b?#a b?"),
            ("https://h.example:443/%x", "https://h.example/%25x"),
            ("http://h.example:81/", "http://h.example:81/"),
            ("http:/x/y", "http:/x/y"),
            ("/x ya b", "/x%20ya%20b"),
            ("ftp://h/q;type=a", "ftp://h/q;type=a"),
            ("/n#f", "/n#f"),
        ];
        for (target, want) in table {
            assert_eq!(escape_target(target), want);
        }
    }
}

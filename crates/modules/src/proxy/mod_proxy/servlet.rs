//! `mapping=servlet`: paths as a servlet container sees them, without the parameters of their segments (`/a;b=c/d` is `/a/d`), so that
//! `/x/..;/y` is `/y` here as it is there.
//!
//! Apache manual: mod_proxy, `ProxyPass`. Which part goes to the backend was measured on 2.4.71.

/// A segment of a path that is neither empty nor a dot segment, once its parameters are gone.
struct Segment<'p> {
    name: &'p str,
    /// Where its name ends in the path.
    end: usize,
    /// Where the path goes on behind the segment before: it may begin with segments that do not count.
    start: usize,
}

/// Matches a path that is not decoded with that of a line. Returns the length of the part that matches, and the path as a
/// servlet container sees it.
pub(super) fn matched(path: &str, prefix: &str) -> Option<(usize, String)> {
    if !path.starts_with('/') || !prefix.starts_with('/') {
        return None;
    }
    let (segments, ends_with_slash) = segments(path)?;
    let mut wanted = prefix.split('/').filter(|name| !name.is_empty());
    let depth =
        segments.iter().map_while(|one| Some((one, wanted.next()?))).take_while(|(one, name)| one.name == *name);
    let depth = depth.count();
    let is_directory = prefix.ends_with('/');
    let names = prefix.split('/').filter(|name| !name.is_empty()).count();
    if depth < names || is_directory && depth == segments.len() && !ends_with_slash {
        return None;
    }
    let mut length = match (segments.get(depth), depth.checked_sub(1).map(|last| &segments[last])) {
        // The last segment of the line goes on with its parameters.
        (Some(_), Some(last)) if !is_directory && path[last.end..].starts_with(';') => last.end,
        (Some(next), _) => next.start,
        (None, _) => path.len(),
    };
    if !is_directory && path[..length].ends_with('/') {
        length -= 1;
    }
    let mut seen: String = segments.iter().flat_map(|one| ["/", one.name]).collect();
    if ends_with_slash {
        seen.push('/');
    }
    Some((length, seen))
}

/// The segments that count, and whether a slash comes behind them. `None`: the path leads above the root.
fn segments(path: &str) -> Option<(Vec<Segment<'_>>, bool)> {
    let (mut all, mut ends_with_slash) = (Vec::<Segment<'_>>::new(), true);
    let (mut at, mut behind) = (1, Some(1));
    while at < path.len() {
        let end = path[at..].find('/').map_or(path.len(), |length| at + length);
        let name = path[at..end].split(';').next().unwrap_or_default();
        ends_with_slash = true;
        match name {
            "" | "." => {}
            ".." => {
                all.pop()?;
                behind = None;
            }
            name => {
                let start = behind.unwrap_or(at);
                let slashes = path[start..].bytes().take_while(|byte| *byte == b'/').count();
                all.push(Segment { name, end: at + name.len(), start: start + slashes });
                ends_with_slash = end < path.len();
                behind = Some(end + 1);
            }
        }
        at = end + 1;
    }
    Some((all, ends_with_slash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_as_apache_maps_them() {
        for (path, prefix, want) in [
            ("/s/path", "/s/path", Some(("", "/s/path"))),
            ("/s;a=b/path;c/x;d", "/s/path", Some((";c/x;d", "/s/path/x"))),
            ("/s/path/.;/x", "/s/path", Some(("/.;/x", "/s/path/x"))),
            ("/s/path/a/..;/b", "/s/path", Some(("/b", "/s/path/b"))),
            ("/s/path/..;/x", "/s/path", None),
            ("/s/path/;a/secret", "/s/path", Some(("/;a/secret", "/s/path/secret"))),
            ("/s/path;x/", "/s/path", Some(("/", "/s/path/"))),
            ("/s/path;x", "/s/path", Some(("", "/s/path"))),
            ("/s/pathx", "/s/path", None),
            ("/s", "/s/path", None),
            ("/t;a/x", "/t/", Some(("x", "/t/x"))),
            ("/t/;a/x", "/t/", Some((";a/x", "/t/x"))),
            ("/t;", "/t/", None),
            ("/t/", "/t/", Some(("", "/t/"))),
            ("/x/..;a/t/y", "/t/", Some(("y", "/t/y"))),
            ("/..;/t/y", "/t/", None),
            ("/a;b", "/", Some(("a;b", "/a"))),
            ("/", "/", Some(("", "/"))),
        ] {
            let seen = matched(path, prefix);
            let seen = seen.as_ref().map(|(length, seen)| (&path[*length..], seen.as_str()));
            assert_eq!(seen, want, "{path} {prefix}");
        }
    }
}

//! URLs of backends: `fcgi://host:port/path`, or `unix:/path/of.sock|fcgi://name/path`.

use std::borrow::Cow;

/// The URL of a backend, in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The path of the Unix socket, if the URL names one.
    pub(crate) socket: Option<String>,
    /// In lower case.
    pub(crate) scheme: String,
    /// In lower case; an IPv6 address has its brackets.
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    /// The part after host and port: empty, or beginning with a slash. In a line of `ProxyPassMatch`, it may begin with a group (`$1`).
    pub(crate) path: String,
}

/// Why a text is not such a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidTarget {
    /// `unix:` without a path, or without a URL after it.
    Socket,
    /// Not an absolute URL.
    Relative,
    /// Its host or port is invalid.
    Authority,
}

impl Target {
    pub(crate) fn parse(text: &str) -> Result<Target, InvalidTarget> {
        let (socket, url) = match text.get(..5).filter(|start| start.eq_ignore_ascii_case("unix:")) {
            None => (None, text),
            Some(_) => match text[5..].split_once('|') {
                None => return Err(InvalidTarget::Relative),
                // `unix://path` is also used.
                Some((path, url)) if path.starts_with('/') && url.contains(':') => {
                    (Some(format!("/{}", path.trim_start_matches('/'))), url)
                }
                Some((path, url)) if !path.is_empty() && url.contains(':') => (Some(path.to_string()), url),
                Some(_) => return Err(InvalidTarget::Socket),
            },
        };
        // Behind a socket, the host is only a name: it may be missing (`fcgi://`), and so may its slashes (`fcgi:`).
        let short = || url.split_once(':').filter(|_| socket.is_some());
        let (scheme, rest) = url.split_once("://").or_else(short).ok_or(InvalidTarget::Relative)?;
        let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        if scheme.is_empty() || !scheme.bytes().all(is_scheme) {
            return Err(InvalidTarget::Relative);
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let digits = authority.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (host, port) = match authority[..authority.len() - digits].strip_suffix(':') {
            Some(host) if digits > 0 => {
                let port = authority[authority.len() - digits..].parse().ok().filter(|port| *port != 0);
                (host, Some(port.ok_or(InvalidTarget::Authority)?))
            }
            Some(host) => (host, None),
            None => (authority, None),
        };
        let host = if host.is_empty() && socket.is_some() { "localhost" } else { host };
        let is_number = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() || host.contains([' ', '@', '?', '#']) || host.contains(':') && !is_number {
            return Err(InvalidTarget::Authority);
        }
        Ok(Target {
            socket,
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_ascii_lowercase(),
            port,
            path: path.to_string(),
        })
    }

    /// Parses the URL of `ProxyPassMatch`: groups may follow the port (`http://host:8080$1`), and belong to the path. If they are the
    /// port (`http://host:$1/`), they belong to the host.
    pub(super) fn parse_with_groups(text: &str) -> Result<Target, InvalidTarget> {
        let authority = text.find("://").map_or(0, |at| at + "://".len());
        let end = text[authority..].find('/').map_or(text.len(), |at| authority + at);
        let port = text[authority..end].rfind(':').map_or(end, |at| authority + at);
        let Some(group) = groups(&text[port..end]).next().map(|at| port + at) else { return Target::parse(text) };
        let mut target = Target::parse(&[&text[..group], &text[end..]].concat())?;
        match text[..group].ends_with(':') {
            true => target.host.extend([":", &text[group..end]]),
            false => target.path.insert_str(0, &text[group..end]),
        }
        Ok(target)
    }

    /// `host`, or `host:port` if there is a port.
    pub(crate) fn authority(&self) -> Cow<'_, str> {
        self.port.map_or_else(|| self.host.as_str().into(), |port| format!("{}:{port}", self.host).into())
    }

    /// The URL, without the socket.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority(), self.path)
    }

    /// The length of scheme, host and port, in bytes.
    pub(super) fn server_length(&self) -> usize {
        self.scheme.len() + self.authority().len()
    }

    /// Whether the URL contains groups of a regular expression (`$1`).
    pub(super) fn has_groups(&self) -> bool {
        groups(&self.host).chain(groups(&self.path)).next().is_some()
    }

    /// The URL of the server.
    pub(crate) fn server(&self) -> String {
        match &self.socket {
            Some(path) => format!("unix:{path}|{}://{}", self.scheme, self.authority()),
            None => format!("{}://{}", self.scheme, self.authority()),
        }
    }

    /// The URL as the configuration has it.
    pub(crate) fn name(&self) -> String {
        match &self.socket {
            Some(path) => format!("unix:{path}|{}", self.url()),
            None => self.url(),
        }
    }

    /// Whether a request for `other` goes to this one: its URL begins with this one, possibly with any text for `$1`
    /// and the like, and it has the same socket, if this one has a socket.
    pub(crate) fn covers(&self, other: &Target) -> bool {
        if self.scheme != other.scheme || self.socket.is_some() && self.socket != other.socket {
            return false;
        }
        if groups(&self.host).next().is_some() {
            return begins(&other.url(), &self.url());
        }
        self.host == other.host && self.port == other.port && begins(&other.path, &self.path)
    }
}

/// Whether a path, or a URL, begins with this one, at a slash; if this one contains groups, whether it is of that form.
fn begins(path: &str, with: &str) -> bool {
    match between_groups(with)[..] {
        [with] => path
            .strip_prefix(with.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || with.is_empty()),
        [first, ref middle @ .., last] => {
            let rest = path.strip_prefix(first).and_then(|rest| rest.strip_suffix(last));
            let in_order = |rest| middle.iter().try_fold(rest, |rest: &str, part| Some(rest.split_once(*part)?.1));
            rest.and_then(in_order).is_some()
        }
        [] => false,
    }
}

/// Where the groups of a regular expression (`$1`) are in a text.
fn groups(text: &str) -> impl Iterator<Item = usize> {
    let is_group = |pair: &[u8]| pair[0] == b'$' && pair[1].is_ascii_digit();
    text.as_bytes().windows(2).enumerate().filter(move |(_, pair)| is_group(pair)).map(|(at, _)| at)
}

/// The texts before, between and after the groups in a path.
fn between_groups(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for at in groups(path) {
        parts.push(&path[start..at]);
        start = at + 2;
    }
    parts.push(&path[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_backends() {
        let parts = |text| Target::parse(text).map(|t| (t.socket.clone(), t.url()));
        let some = |text: &str| Some(text.to_string());
        let table = [
            ("fcgi://h", Ok((None, "fcgi://h".to_string()))),
            ("FCGI://H:9000/a/b", Ok((None, "fcgi://h:9000/a/b".into()))),
            ("fcgi://[::1]:9000", Ok((None, "fcgi://[::1]:9000".into()))),
            ("unix:/run/a.sock|fcgi://localhost", Ok((some("/run/a.sock"), "fcgi://localhost".into()))),
            ("unix:///run/a.sock|fcgi://localhost/x", Ok((some("/run/a.sock"), "fcgi://localhost/x".into()))),
            ("unix:a.sock|fcgi://localhost", Ok((some("a.sock"), "fcgi://localhost".into()))),
            ("unix:/x|fcgi://", Ok((some("/x"), "fcgi://localhost".into()))),
            ("unix:/x|fcgi:", Ok((some("/x"), "fcgi://localhost".into()))),
            ("unix:/x|fcgi:///a/b", Ok((some("/x"), "fcgi://localhost/a/b".into()))),
            ("unix:/x|fcgi:/a/b", Ok((some("/x"), "fcgi://localhost/a/b".into()))),
            ("unix:/x|fcgi", Err(InvalidTarget::Socket)),
            ("unix:|fcgi://x", Err(InvalidTarget::Socket)),
            ("unix:/x", Err(InvalidTarget::Relative)),
            ("foo", Err(InvalidTarget::Relative)),
            ("/foo", Err(InvalidTarget::Relative)),
            ("://h", Err(InvalidTarget::Relative)),
            ("$1://h", Err(InvalidTarget::Relative)),
            ("fcgi://", Err(InvalidTarget::Authority)),
            ("fcgi:///x", Err(InvalidTarget::Authority)),
            ("fcgi://h:99999", Err(InvalidTarget::Authority)),
            ("fcgi://h:0", Err(InvalidTarget::Authority)),
            ("fcgi://::1", Err(InvalidTarget::Authority)),
        ];
        for (text, want) in table {
            assert_eq!(parts(text), want, "{text}");
        }
    }

    #[test]
    fn which_worker_a_url_is_for() {
        let table = [
            ("fcgi://h", "fcgi://h/srv/x", true),
            ("fcgi://h/", "fcgi://h/srv/x", true),
            ("fcgi://h/srv", "fcgi://h/srv/x", true),
            ("fcgi://h/srv", "fcgi://h/srvx", false),
            ("fcgi://h", "fcgi://h:1/x", false),
            ("fcgi://h", "scgi://h/x", false),
            ("unix:/a|fcgi://h", "unix:/a|fcgi://h/x", true),
            ("unix:/a|fcgi://h", "unix:/b|fcgi://h/x", false),
            ("fcgi://h", "unix:/b|fcgi://h/x", true),
            ("fcgi://h/srv/$1", "fcgi://h/srv/a/b.php", true),
            ("fcgi://h/srv/$1", "fcgi://h/other/b.php", false),
            ("fcgi://h/$1/b/$2.php", "fcgi://h/a/b/c.php", true),
            ("fcgi://h/$1/b/$2.php", "fcgi://h/a/c/c.php", false),
            ("fcgi://h/$1$2.php", "fcgi://h/a.txt", false),
            ("fcgi://h/$x", "fcgi://h/$x/a", true),
            ("fcgi://h:1$1", "fcgi://h:1/a", true),
            ("fcgi://h:1$1", "fcgi://h:1", true),
            ("fcgi://h:1$1/b", "fcgi://h:1/a/b", true),
            ("fcgi://h:1$1", "fcgi://h:2/a", false),
            ("fcgi://$1.h/b", "fcgi://a.h/b", true),
            ("fcgi://$1.h/b", "fcgi://a.g/b", false),
            ("fcgi://h$1", "fcgi://h/a", true),
            ("fcgi://h:$1/a/$2", "fcgi://h:8/a/b", true),
            ("fcgi://h:$1/a/$2", "fcgi://h:8/b", false),
        ];
        for (worker, url, want) in table {
            let parse = |text| Target::parse_with_groups(text).expect("a URL");
            assert_eq!(parse(worker).covers(&parse(url)), want, "{worker} {url}");
        }
    }
}

//! Families of URLs: requests whose paths differ only in numbers and in what is deep in the tree of paths.
//!
//! A family that was seen once stays, and one for which there is no room belongs to a wider one from the begin, so each path
//! belongs to the same family in all of the logs. In the end, the rare ones join wider ones.

use std::collections::HashMap;

use super::cell::Counts;

/// How many parts of a path a family has at most.
const DEPTH: usize = 3;

/// What is shown of a part of a path that is longer, in bytes.
const PART: usize = 40;

/// From this length on, digits of a hexadecimal number are an identifier.
const ID: usize = 8;

/// The most families within the next wider one; more of them are one. Addresses that nobody links to are many.
const WITHIN_MAX: usize = 200;

/// The most families, which bounds the memory: each has some ten kilobytes.
const FAMILIES_MAX: usize = 4000;

/// A family with fewer requests in all windows says nothing, and joins a wider one.
const RARE: u64 = 40;

/// What stands for all that has no family of its own.
const OTHERS: &str = "*";

/// A family.
#[derive(Debug, Default)]
pub(super) struct Family {
    /// The host, without port, in lower case; empty if it is not known.
    pub(super) host: String,
    /// The path with `#` for numbers and `*` for what differs.
    pub(super) path: String,
    pub(super) counts: Counts,
    /// How many families are directly within this one.
    pub(super) within: usize,
    /// The next wider one; the widest is its own.
    pub(super) wider: usize,
}

impl Family {
    /// The name for people.
    pub(super) fn name(&self) -> String {
        match self.host.is_empty() && self.path == OTHERS {
            true => "others".to_owned(),
            false => format!("{}{}", self.host, self.path),
        }
    }
}

/// All families; the first one is of what has none.
#[derive(Debug)]
pub(super) struct Families {
    all: Vec<Family>,
    known: HashMap<Box<str>, usize>,
    /// The name at hand.
    name: String,
}

impl Families {
    /// No request was seen yet.
    pub(super) fn new() -> Self {
        let others = Family { path: OTHERS.to_owned(), ..Family::default() };
        Self { all: vec![others], known: HashMap::new(), name: String::new() }
    }

    /// What is counted of the requests of the family of this target.
    pub(super) fn counts(&mut self, host: &str, target: &[u8]) -> &mut Counts {
        let mut name = std::mem::take(&mut self.name);
        name.clear();
        write_host(host, &mut name);
        let host_length = name.len();
        write_path(target, &mut name);
        let index = match self.known.get(name.as_str()) {
            Some(index) => *index,
            None => self.find(&name[..host_length], &name[host_length..]),
        };
        self.name = name;
        &mut self.all[index].counts
    }

    /// The family of a name: a new one if there is room, or else the next wider one.
    fn find(&mut self, host: &str, path: &str) -> usize {
        let name = format!("{host}{path}");
        if let Some(index) = self.known.get(name.as_str()) {
            return *index;
        }
        let wider = wider(path).map_or(0, |path| self.find(host, &path));
        if self.all.len() >= FAMILIES_MAX || self.all[wider].within >= WITHIN_MAX {
            return wider;
        }
        self.all[wider].within += 1;
        let index = self.all.len();
        self.all.push(Family { host: host.to_owned(), path: path.to_owned(), wider, ..Family::default() });
        self.known.insert(name.into(), index);
        index
    }

    /// The families with requests in these windows. The rare ones are joined.
    pub(super) fn finish(mut self, windows: &[usize]) -> Vec<Family> {
        // A wider one is always older.
        for index in (1..self.all.len()).rev() {
            let family = &mut self.all[index];
            if family.counts.requests(windows) < RARE {
                let (counts, wider) = (std::mem::take(&mut family.counts), family.wider);
                self.all[wider].counts.join(counts);
            }
        }
        self.all.retain(|family| family.counts.requests(windows) > 0);
        self.all
    }
}

/// A host without its port, in lower case. What cannot be in a name of a host becomes `?`.
fn write_host(host: &str, out: &mut String) {
    const HOST: usize = 100;
    let bare = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(host, _)| host);
    let is_plain = |char: &char| char.is_ascii_alphanumeric() || "-._:[]".contains(*char);
    let chars = bare.chars().take(HOST).map(|char| if is_plain(&char) { char.to_ascii_lowercase() } else { '?' });
    out.extend(chars);
}

/// The path of the narrowest family of a target.
fn write_path(target: &[u8], out: &mut String) {
    let path = path_of(target);
    if !path.starts_with(b"/") {
        // `OPTIONS *`, or nonsense.
        out.push('*');
        return;
    }
    let mut parts = path[1..].split(|byte| *byte == b'/').peekable();
    let mut depth = 0;
    while let Some(part) = parts.next() {
        out.push('/');
        if depth == DEPTH {
            let name = parts.last().unwrap_or(part);
            out.push('*');
            extension(name).into_iter().for_each(|extension| out.push_str(extension));
            return;
        }
        write_part(part, out);
        depth += 1;
    }
}

/// The path of a target: not its scheme and host, its query, or the parameters of its session.
pub(super) fn path_of(target: &[u8]) -> &[u8] {
    let end = target.iter().position(|byte| matches!(byte, b'?' | b'#' | b';')).unwrap_or(target.len());
    let path = &target[..end];
    let scheme = path.windows(3).position(|window| window == b"://").filter(|_| !path.starts_with(b"/"));
    match scheme {
        None => path,
        Some(at) => {
            let rest = &path[at + 3..];
            rest.iter().position(|byte| *byte == b'/').map_or(b"/", |slash| &rest[slash..])
        }
    }
}

/// A part of a path: numbers become `#`, and so do long identifiers.
fn write_part(part: &[u8], out: &mut String) {
    let (stem, ending) = match extension(part) {
        Some(ending) => (&part[..part.len() - ending.len()], ending),
        None => (part, ""),
    };
    let is_hexadecimal = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
    let is_id = stem.len() >= ID && stem.iter().all(is_hexadecimal) && stem.iter().any(u8::is_ascii_digit);
    if is_id {
        out.push('#');
    } else if stem.len() > PART {
        out.push('~');
    } else {
        for byte in stem {
            match byte {
                b'0'..=b'9' if out.ends_with('#') => {}
                b'0'..=b'9' => out.push('#'),
                // These stand for something else.
                b'*' | b'~' => out.push('?'),
                graphic if graphic.is_ascii_graphic() => out.push(char::from(*graphic)),
                _ => out.push('?'),
            }
        }
    }
    out.push_str(ending);
}

/// `.html` at the end of a name.
fn extension(name: &[u8]) -> Option<&str> {
    const LETTERS: std::ops::RangeInclusive<usize> = 2..=6;
    let dot = name.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0)?;
    let ending = &name[dot..];
    let is_ending = LETTERS.contains(&ending.len())
        && ending[1..].iter().all(u8::is_ascii_alphanumeric)
        && ending.iter().any(u8::is_ascii_alphabetic);
    std::str::from_utf8(ending).ok().filter(|_| is_ending)
}

/// The path of the next wider family; none if that is of all hosts: `/a/b/c.png`, `/a/b/*.png`, `/a/*`, `/*`.
fn wider(path: &str) -> Option<String> {
    let (directory, name) = path.rsplit_once('/')?;
    if name.starts_with('*') {
        let (above, _) = directory.rsplit_once('/')?;
        return Some(format!("{above}/*"));
    }
    Some(format!("{directory}/*{}", extension(name.as_bytes()).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::watch::cell::Line;

    fn path(target: &str) -> String {
        let mut out = String::new();
        write_path(target.as_bytes(), &mut out);
        out
    }

    #[test]
    fn paths_have_families() {
        for (target, expected) in [
            ("/", "/"),
            ("/index.html?a=b", "/index.html"),
            ("/shop/item/12345", "/shop/item/#"),
            ("/shop/page-12-of-30", "/shop/page-#-of-#"),
            ("/a/", "/a/"),
            ("/a/b/c/", "/a/b/c/*"),
            ("/a/b/c/d/e/photo.jpg", "/a/b/c/*.jpg"),
            ("/a/b/c/d/e/photo", "/a/b/c/*"),
            ("/user/5f3a9c1e77aa/x", "/user/#/x"),
            ("/f/123e4567-e89b-12d3-a456-426614174000.pdf", "/f/#.pdf"),
            ("/deadbeef", "/deadbeef"),
            ("/v1.2/x", "/v#.#/x"),
            ("http://other/a?x", "/a"),
            ("http://other", "/"),
            ("*", "*"),
            ("/\u{e9}*~", "/????"),
            ("/a;jsessionid=123", "/a"),
            ("/.htaccess", "/.htaccess"),
        ] {
            assert_eq!(path(target), expected, "{target}");
        }
        assert_eq!(path(&format!("/{}.css", "x".repeat(500))), "/~.css");
    }

    #[test]
    fn wider_families_end_at_the_host() {
        let chain = |path: &str| std::iter::successors(wider(path), |path| wider(path)).collect::<Vec<_>>();
        assert_eq!(chain("/a/b/c.png"), ["/a/b/*.png", "/a/*", "/*"]);
        assert_eq!(chain("/a/b/c/*.png"), ["/a/b/*", "/a/*", "/*"]);
        assert_eq!(chain("/a/"), ["/a/*", "/*"]);
        assert_eq!(chain("/"), ["/*"]);
        assert_eq!(chain("*"), Vec::<String>::new());
    }

    #[test]
    fn hosts_are_plain() {
        let host = |text: &str| {
            let mut out = String::new();
            write_host(text, &mut out);
            out
        };
        assert_eq!(
            [host("WWW.example.org:443"), host("a/b\"c"), host("[::1]:80")],
            ["www.example.org", "a?b?c", "[::1]"]
        );
        assert_eq!(host(&"a".repeat(70_000)).len(), 100);
    }

    fn add(families: &mut Families, host: &str, target: &str, times: usize) {
        for _ in 0..times {
            families.counts(host, target.as_bytes()).add(0, &Line { status: Some(200), ..Line::default() });
        }
    }

    #[test]
    fn rare_families_join_wider_ones() {
        let mut families = Families::new();
        for (target, times) in
            [("/a/x.png", 100), ("/a/y.png", 30), ("/a/z.png", 20), ("/b/c", 3), ("/", 50), ("/d", 39)]
        {
            add(&mut families, "h", target, times);
        }
        add(&mut families, "i", "/e", 2);
        let names: Vec<(String, u64)> =
            families.finish(&[0]).iter().map(|family| (family.name(), family.counts.requests(&[0]))).collect();
        let expected = [("others", 2), ("h/*", 42), ("h/a/*.png", 50), ("h/a/x.png", 100), ("h/", 50)];
        let mut sorted = names.clone();
        sorted.sort();
        let mut expected = expected.map(|(name, count)| (name.to_owned(), count));
        expected.sort();
        assert_eq!(sorted, expected);
    }

    #[test]
    fn families_are_bounded() {
        let mut families = Families::new();
        add(&mut families, "h", "/known", 50);
        for first in 0..300_u32 {
            for second in 0..100_u32 {
                // Letters, as numbers are one family.
                let word =
                    |number: u32| format!("{:x}", number + 0xa0_0000).replace(|char: char| char.is_ascii_digit(), "g");
                add(&mut families, &format!("host{first}"), &format!("/{}x{second:b}", word(second)), 1);
                add(&mut families, "h", &format!("/{}{}/y", word(first), "z".repeat(second as usize / 3)), 1);
            }
        }
        assert!(families.all.len() <= FAMILIES_MAX && families.known.len() < FAMILIES_MAX);
        let all = families.finish(&[0]);
        assert_eq!(all.iter().map(|family| family.counts.requests(&[0])).sum::<u64>(), 60_050);
        assert!(all.iter().any(|family| family.name() == "h/known"));
    }
}

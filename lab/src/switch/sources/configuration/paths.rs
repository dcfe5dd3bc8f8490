//! Requests about paths of URLs: what leads elsewhere, and how directories are shown.

use super::line::{Line, Wanted};
use super::scope::paths_of;
use crate::switch::sources::pattern::Pattern;
use crate::switch::sources::walk::encoded;

/// The most directories with `.htaccess` that are asked for one line.
const OVERRIDDEN_MAX: usize = 12;
/// The most names of users that are asked for.
const USERS_MAX: usize = 3;

/// A line about a path and what is below.
pub(super) fn prefix(line: &Line<'_>) -> Vec<Wanted> {
    if line.first() == "~" {
        return pattern(line);
    }
    let Some(path) = line.words.iter().find(|word| word.starts_with('/')) else {
        return line.in_scope("reaches the path");
    };
    let path = encoded(path.replace(['*', '?'], "x").as_bytes());
    let bare = path.trim_end_matches('/');
    let mut wanted = vec![
        line.get(&path, "reaches the path"),
        line.get(&format!("{bare}/"), "the path with a slash"),
        line.get(&format!("{bare}/no-such-name"), "below the path"),
        line.get(&format!("{bare}/no/such/name.html?a=b"), "far below the path"),
        line.get(&format!("{path}?a=b&c=%20d"), "the path with a query"),
        line.get(&path, "the path, HEAD").method("HEAD"),
        line.get(&path, "the path, HTTP/1.0").old().host(None),
        line.get(&format!("/{path}"), "the path with two slashes"),
    ];
    if !bare.is_empty() {
        let shorter = &bare[..bare.len() - 1];
        wanted.push(line.get(bare, "the path without a slash"));
        wanted.push(line.get(&format!("{bare}x"), "just misses the path"));
        wanted.push(line.get(if shorter.is_empty() { "/" } else { shorter }, "just misses the path"));
        wanted.push(line.get(&bare.to_ascii_uppercase(), "the path in upper case"));
    }
    let below = line.ground.entries().filter(|(url, _)| url.starts_with(&format!("{bare}/")));
    wanted.extend(below.take(3).map(|(url, _)| line.get(&url, "a file below the path")));
    wanted
}

/// A line about paths that a regular expression matches.
pub(super) fn pattern(line: &Line<'_>) -> Vec<Wanted> {
    let is_status = |word: &&String| word.parse::<u16>().is_ok();
    let is_word = |word: &&String| ["permanent", "temp", "seeother", "gone", "~"].contains(&word.as_str());
    let expression = line.words.iter().find(|word| !is_status(word) && !is_word(word));
    let Some(pattern) = expression.and_then(|text| Pattern::read(text)) else { return Vec::new() };
    let mut wanted = Vec::new();
    for path in paths_of(&pattern) {
        wanted.push(line.get(&path, "matches the pattern"));
        wanted.push(line.get(&format!("{path}?a=b"), "matches the pattern, with a query"));
        wanted.push(line.get(&path, "matches the pattern, HEAD").method("HEAD"));
        wanted.extend(pattern.near(&path).map(|near| line.get(&near, "just misses the pattern")));
    }
    let files = line.ground.entries().filter(|(url, _)| pattern.is_found(url)).take(2);
    wanted.extend(files.map(|(url, _)| line.get(&url, "a file that matches the pattern")));
    wanted
}

/// A line about how directories are listed.
pub(super) fn listing(line: &Line<'_>) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for path in directories(line, false) {
        wanted.push(line.get(&path, "a directory without an index"));
        for (query, what) in [
            ("C=M;O=D", "sorted by time"),
            ("C=S;O=A", "sorted by size"),
            ("C=N;O=D", "sorted backwards"),
            ("F=0", "as a plain list"),
            ("F=2", "as a table"),
            ("V=1;P=*a*", "some of it"),
        ] {
            wanted.push(line.get(&path, what).query(query));
        }
    }
    wanted
}

/// A line about what stands for a directory.
pub(super) fn index(line: &Line<'_>) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for (has_index, what) in [(true, "a directory with an index"), (false, "a directory without an index")] {
        for path in directories(line, has_index) {
            wanted.push(line.get(&path, what));
            wanted.extend(without_slash(line, &path));
            let names = line.words.iter().filter(|name| !name.starts_with('/'));
            wanted
                .extend(names.map(|name| line.get(&format!("{path}{}", encoded(name.as_bytes())), "an index itself")));
        }
    }
    wanted
}

/// Requests for a directory that lead to its slash.
fn without_slash(line: &Line<'_>, path: &str) -> Vec<Wanted> {
    let bare = path.trim_end_matches('/');
    if bare.is_empty() {
        return Vec::new();
    }
    vec![
        line.get(bare, "a directory without its slash"),
        line.get(bare, "a directory without its slash, with a query").query("a=b"),
        line.get(bare, "a directory without its slash, by another name").host(Some("no-such-name.example:81")),
        line.get(bare, "a directory without its slash, HTTP/1.0").old().host(None),
    ]
}

/// A line about what redirections say.
pub(super) fn redirected(line: &Line<'_>) -> Vec<Wanted> {
    let inside = line.ground.entries().filter(|(url, entry)| entry.is_directory && line.scope.has(url, entry));
    inside.map(|(url, _)| url).take(2).flat_map(|url| without_slash(line, &url)).collect()
}

/// `AcceptPathInfo`.
pub(super) fn behind(line: &Line<'_>) -> Vec<Wanted> {
    let file = line.file();
    ["/extra", "/", "/a/b.html?c=d"].map(|rest| line.get(&format!("{file}{rest}"), "something behind a file")).into()
}

/// `AllowOverride`: directories with an `.htaccess` file.
pub(super) fn overridden(line: &Line<'_>) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    let access =
        line.ground.entries().filter(|(url, entry)| entry.name() == b".htaccess" && line.scope.has(url, entry));
    for (url, _) in access.take(OVERRIDDEN_MAX) {
        let directory = &url[..=url.rfind('/').unwrap_or(0)];
        wanted.push(line.get(directory, "a directory with .htaccess"));
        wanted.push(line.get(&format!("{directory}no-such-name"), "what is not there, beside .htaccess"));
        wanted.push(line.get(&url, "the file .htaccess"));
        let files = line.ground.entries().filter(|(own, entry)| {
            !entry.is_directory && *own != url && own.strip_prefix(directory).is_some_and(|rest| !rest.contains('/'))
        });
        wanted.extend(files.take(2).map(|(own, _)| line.get(&own, "a file beside .htaccess")));
    }
    wanted
}

/// `CheckSpelling`: names with a letter too many, too few, or in the other case.
pub(super) fn misspelled(line: &Line<'_>) -> Vec<Wanted> {
    let file = line.file();
    let at = file.rfind('/').map_or(0, |slash| slash + 1);
    let (directory, name) = file.split_at(at);
    let Some(first) = name.chars().next().filter(char::is_ascii_alphanumeric) else { return Vec::new() };
    let names = [format!("{first}{name}"), name[1..].to_owned(), name.to_ascii_uppercase(), format!("x{name}y")];
    names.map(|name| line.get(&format!("{directory}{name}"), "a misspelled name")).into()
}

/// `SSLRequireSSL`: what it covers, without TLS.
pub(super) fn without_tls(line: &Line<'_>) -> Vec<Wanted> {
    let places = line.in_scope("over TLS");
    let twins: Vec<Wanted> = places.iter().filter_map(|place| line.twin(place)).collect();
    places.into_iter().chain(twins).collect()
}

/// `FallbackResource`.
pub(super) fn fallback(line: &Line<'_>) -> Vec<Wanted> {
    let directory = line.directory();
    let mut wanted = line.in_scope("what is there");
    wanted.push(line.get(&format!("{directory}no-such-name"), "what is not there"));
    wanted.push(line.get(&format!("{directory}no/such/name?a=b"), "what is far from there"));
    wanted
}

/// `Options`.
pub(super) fn options(line: &Line<'_>) -> Vec<Wanted> {
    let links = line.ground.entries().filter(|(url, entry)| entry.is_link && line.scope.has(url, entry)).take(2);
    let mut wanted: Vec<Wanted> = links.map(|(url, _)| line.get(&url, "a symbolic link")).collect();
    wanted.extend(listing(line));
    if line.words.iter().any(|word| word.to_ascii_lowercase().ends_with("multiviews")) {
        wanted.extend(super::content::negotiation(line));
    }
    wanted
}

/// `MergeSlashes`.
pub(super) fn slashes(line: &Line<'_>) -> Vec<Wanted> {
    line.in_scope("two slashes").into_iter().map(|wanted| Wanted { ask: doubled(wanted.ask), ..wanted }).collect()
}

fn doubled(mut ask: crate::switch::ask::Ask) -> crate::switch::ask::Ask {
    ask.change_name(|name| format!("/{name}"));
    ask
}

/// `UserDir`.
pub(super) fn users(line: &Line<'_>) -> Vec<Wanted> {
    let homes = line.ground.mounts.iter().filter(|mount| mount.url.starts_with("/~")).take(USERS_MAX);
    let mut wanted: Vec<Wanted> = homes
        .flat_map(|mount| {
            let bare = mount.url.trim_end_matches('/');
            [
                line.get(&mount.url, "a user"),
                line.get(bare, "a user without a slash"),
                line.get(&format!("{}no-such-name", mount.url), "what a user does not have"),
            ]
        })
        .collect();
    for (path, what) in
        [("/~root/", "root"), ("/~no-such-user/", "no user"), ("/~", "nobody"), ("/~/", "nobody, with a slash")]
    {
        wanted.push(line.get(path, what));
    }
    wanted
}

/// Two directories in scope, with or without an index.
fn directories(line: &Line<'_>, has_index: bool) -> Vec<String> {
    let inside =
        line.ground.entries().filter(|(url, entry)| entry.is_directory && entry.is_open && line.scope.has(url, entry));
    let own = line.words.iter().filter(|_| line.directive.is("DirectoryIndex")).map(String::as_str);
    let names: Vec<&str> = ["index.html", "index.htm", "index.php"].into_iter().chain(own).collect();
    let has = |url: &str| {
        let names: Vec<String> = names.iter().map(|name| format!("{url}{}", encoded(name.as_bytes()))).collect();
        line.ground.entries().any(|(own, _)| names.contains(&own))
    };
    inside.map(|(url, _)| url).filter(|url| has(url) == has_index).take(2).collect()
}

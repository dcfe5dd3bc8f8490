//! Requests about what files are sent as: types, languages, codings, fields of the answer.

use super::line::{Line, Wanted};
use crate::switch::sources::walk::Entry;

/// The most ranges that are asked for, so that the field is not too long.
const RANGES_MAX: usize = 300;

/// How clients say what coding they take.
const CODINGS: [(Option<&str>, &str); 7] = [
    (Some("gzip"), "compressed by gzip"),
    (Some("br"), "compressed by brotli"),
    (Some("gzip, deflate, br, zstd"), "compressed, as browsers ask"),
    (Some("gzip;q=0, *"), "compressed, but not by gzip"),
    (Some("identity"), "not compressed"),
    (Some(""), "no coding"),
    (None, "nothing about codings"),
];

/// A line that says something about all that its section covers.
pub(super) fn scope(line: &Line<'_>) -> Vec<Wanted> {
    let mut wanted = line.in_scope("reaches the section");
    wanted.push(line.get(line.file(), "reaches the section, HEAD").method("HEAD"));
    wanted.push(line.get(line.file(), "not modified").with("If-Modified-Since", "Thu, 01 Jan 2099 00:00:00 GMT"));
    wanted.push(line.get(line.file(), "not modified").with("If-None-Match", "*"));
    wanted.push(line.get(&format!("{}no-such-name", line.directory()), "what is not there"));
    let outside = line.ground.entries().find(|(url, entry)| entry.is_open && !line.scope.has(url, entry));
    wanted.extend(outside.map(|(url, _)| line.get(&url, "just misses the section")));
    wanted
}

/// A line about extensions: the words with a file of that extension.
pub(super) fn extension(line: &Line<'_>) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for extension in &line.words {
        let extension = extension.trim_start_matches('.');
        let has = |entry: &Entry| {
            String::from_utf8_lossy(entry.name()).split('.').skip(1).any(|own| own.eq_ignore_ascii_case(extension))
        };
        for path in line.scope.files(line.ground, has).iter().take(1) {
            wanted.push(line.get(path, "has the extension"));
            wanted.push(line.get(path, "has the extension, HEAD").method("HEAD"));
            wanted.push(line.get(&format!("{path}/extra"), "something behind the file"));
        }
    }
    wanted
}

/// The same with what clients say about codings.
pub(super) fn encoded(line: &Line<'_>) -> Vec<Wanted> {
    extension(line).into_iter().flat_map(with_codings).collect()
}

/// A line about compression.
pub(super) fn compression(line: &Line<'_>) -> Vec<Wanted> {
    let types = ["html", "css", "js", "json", "xml", "txt", "svg", "png"];
    let files = types.iter().filter_map(|extension| {
        line.scope
            .files(line.ground, |entry| entry.is_open && entry.size > 0 && entry.extension() == Some(extension))
            .into_iter()
            .next()
    });
    let mut wanted: Vec<Wanted> = files.map(|path| line.get(&path, "a file")).flat_map(with_codings).collect();
    wanted.extend(line.in_scope("reaches the section").into_iter().flat_map(with_codings));
    wanted
}

fn with_codings(wanted: Wanted) -> impl Iterator<Item = Wanted> {
    CODINGS.iter().map(move |(coding, what)| match coding {
        Some(coding) => wanted.clone().with("Accept-Encoding", coding).about(what),
        None => wanted.clone().about(what),
    })
}

/// A line about a language.
pub(super) fn language(line: &Line<'_>) -> Vec<Wanted> {
    let mut wanted = extension(line);
    let language = line.first();
    let files: Vec<Wanted> = wanted.iter().take(1).cloned().collect();
    for file in files {
        let mut bare = file.clone();
        bare.ask.change_name(|name| name.split('.').take(2).collect::<Vec<_>>().join("."));
        for one in [file, bare] {
            wanted.push(one.clone().with("Accept-Language", language).about("the language that is asked for"));
            wanted.push(one.with("Accept-Language", "xx").about("not the language that is asked for"));
        }
    }
    wanted
}

/// A line about which of several files is the best one.
pub(super) fn negotiation(line: &Line<'_>) -> Vec<Wanted> {
    let is_variant = |entry: &Entry| {
        entry.name().iter().filter(|byte| **byte == b'.').count() > 1 && !entry.name().starts_with(b".")
    };
    let mut places: Vec<Wanted> = Vec::new();
    for path in line.scope.files(line.ground, is_variant) {
        for parts in [1, 2] {
            let mut wanted = line.get(&path, "");
            wanted.ask.change_name(|name| name.split('.').take(parts).collect::<Vec<_>>().join("."));
            places.push(wanted);
        }
    }
    places.extend(line.in_scope("").into_iter().take(1));
    let languages = line.words.iter().filter(|word| word.len() < 12 && !word.contains(['+', '/'])).map(String::as_str);
    let accepted: Vec<&str> =
        ["*", "xx", "de;q=0.5, en;q=0.8", "en-US,fr"].into_iter().chain(languages).take(10).collect();
    let mut wanted = Vec::new();
    for place in places {
        wanted.push(place.clone().about("no language"));
        wanted.push(place.clone().with("Accept", "image/png").about("a type that is not there"));
        wanted.push(place.clone().with("Accept-Encoding", "gzip").about("compressed by gzip"));
        let asked = |language: &&str| place.clone().with("Accept-Language", language).about("a language");
        wanted.extend(accepted.iter().map(asked));
    }
    wanted
}

/// A line about what a file is called when it is asked for again.
pub(super) fn conditional(line: &Line<'_>) -> Vec<Wanted> {
    let mut wanted = line.in_scope("reaches the section");
    for (name, value) in
        [("If-None-Match", "\"other\""), ("If-None-Match", "*"), ("If-Match", "*"), ("Range", "bytes=0-0,2-2")]
    {
        wanted.push(line.get(line.file(), "asked again").with(name, value));
    }
    wanted
}

/// Lines about how many ranges may be asked for.
pub(super) fn ranges(line: &Line<'_>) -> Vec<Wanted> {
    let limit = line.first().parse().unwrap_or(200).clamp(1, RANGES_MAX);
    let apart = |count: usize| -> String {
        let ranges: Vec<String> = (0..count).map(|at| format!("{}-{}", at * 3, at * 3)).collect();
        ranges.join(",")
    };
    let backwards = |count: usize| -> String {
        let ranges: Vec<String> = (0..count).rev().map(|at| format!("{}-{}", at * 3, at * 3)).collect();
        ranges.join(",")
    };
    let overlapping = |count: usize| vec!["0-5"; count].join(",");
    let mut wanted = Vec::new();
    for count in [limit - 1, limit, limit + 1, limit + 2] {
        for ranges in [apart(count), backwards(count), overlapping(count)] {
            let range = format!("bytes={ranges}");
            wanted.push(line.get(line.file(), "about as many ranges as may be").with("Range", &range));
        }
    }
    wanted
}

/// A line about what files without a known extension are.
pub(super) fn magic(line: &Line<'_>) -> Vec<Wanted> {
    let files = line.scope.files(line.ground, |entry| entry.extension().is_none() && !entry.name().starts_with(b"."));
    files.iter().map(|path| line.get(path, "a file without an extension")).collect()
}

/// `SetHandler`: the handlers that show the server have queries of their own.
pub(super) fn handler(line: &Line<'_>) -> Vec<Wanted> {
    let queries: &[&str] = match line.first().to_ascii_lowercase().as_str() {
        "server-status" => &["auto", "notable", "refresh=5", "auto&refresh=5"],
        "server-info" => &["config", "list", "server", "hooks", "providers", "mod_alias.c"],
        "balancer-manager" => &["xml=1"],
        _ => &[],
    };
    let mut wanted = scope(line);
    wanted.extend(queries.iter().map(|query| line.get(line.place(), "with a query").query(query)));
    wanted
}

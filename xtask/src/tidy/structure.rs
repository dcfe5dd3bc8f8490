//! Checks that the files of a crate stand on each other in one direction: no loop of folders, and no circle of more than
//! two files.
//!
//! An arrow leads from a file to the file that *defines* what the first one names: re-exports (`pub use`) are followed,
//! for they would hide most circles. Tests may name what they like. Only names count, so the call of a method is no arrow:
//! a type whose methods are spread over several files can hide a circle.

mod graph;
mod names;
mod resolve;

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::tree::Tree;

use graph::circles;
use resolve::{Arrow, Crate, Source};

/// The rooms of a crate, which are its folders and the files beside them, from the ground up: a file uses its own room and
/// those before it. What is not in the list stands above.
const ROOMS: &[(&str, &[&str])] = &[
    ("runtime", &["scoreboard", "log", "log_levels", "recent", "service", "executor"]),
    (
        "server",
        &[
            "paths",
            "message",
            "log",
            "settings",
            "transport",
            "trace",
            "site",
            "request",
            "module",
            "files",
            "load",
            "phases",
            "exchange",
            "protocol",
            "explain",
            "core_module",
        ],
    ),
    (
        "gateway",
        &[
            "environment",
            "env",
            "owners",
            "command",
            "script_log",
            "body_buffer",
            "gate",
            "caller",
            "process",
            "daemon",
            "script",
            "response",
            "protocol",
            "backend",
        ],
    ),
    (
        "lab",
        &[
            "machine",
            "screen",
            "load",
            "page",
            "frontends",
            "experiments",
            "measure",
            "report",
            "compare",
            "tune",
            "watch",
        ],
    ),
];

/// Circles that stay, because taking them apart would make the code worse: the crate, a file in the circle, the number
/// of its files, and why.
const KEPT: &[(&str, &str, usize, &str)] = &[];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let crates = Crate::all(tree);
    crates.iter().flat_map(|(name, krate)| findings(name, krate)).collect()
}

fn findings(name: &str, krate: &Crate<'_>) -> Vec<Finding> {
    let arrows = krate.arrows();
    let mut findings = file_circles(name, krate, &arrows);
    findings.extend(folder_loops(krate, &arrows));
    findings.extend(upward(name, krate, &arrows));
    findings.extend(missing_rooms(name, krate));
    findings
}

fn file_circles(name: &str, krate: &Crate<'_>, arrows: &[Arrow]) -> Vec<Finding> {
    let edges = arrows.iter().map(|arrow| (arrow.from, arrow.to));
    let found = circles(krate.files.len(), edges).into_iter().filter(|circle| circle.len() > 2);
    let is_kept = |circle: &Vec<usize>| {
        let has = |path: &str| circle.iter().any(|&file| krate.files[file].path.ends_with(path));
        KEPT.iter().any(|(krate, file, size, _)| *krate == name && circle.len() <= *size && has(file))
    };
    let report = |circle: Vec<usize>| {
        let inside = arrows.iter().filter(|arrow| circle.contains(&arrow.from) && circle.contains(&arrow.to));
        let arrows: Vec<String> = inside.map(|arrow| krate.describe(arrow)).collect();
        let what = format!("a circle of {} files:\n    {}", circle.len(), arrows.join("\n    "));
        let advice = "move what they share to a file below them all";
        Finding::error(krate.files[circle[0]].path, 1, what, advice)
    };
    found.filter(|circle| !is_kept(circle)).map(report).collect()
}

fn folder_loops(krate: &Crate<'_>, arrows: &[Arrow]) -> Vec<Finding> {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &krate.files {
        let next = folders.len();
        folders.entry(file.folder()).or_insert(next);
    }
    let folder = |file: usize| folders[krate.files[file].folder()];
    let between = arrows.iter().filter(|arrow| folder(arrow.from) != folder(arrow.to));
    let between: Vec<&Arrow> = between.filter(|arrow| !krate.files[arrow.to].folder().is_empty()).collect();
    let edges = between.iter().map(|arrow| (folder(arrow.from), folder(arrow.to)));
    let report = |circle: Vec<usize>| {
        let names = folders.iter().filter(|(_, number)| circle.contains(number));
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        let inside = between.iter().filter(|arrow| circle.contains(&folder(arrow.from)));
        let inside = inside.filter(|arrow| circle.contains(&folder(arrow.to)));
        let lines: Vec<String> = inside.map(|arrow| krate.describe(arrow)).collect();
        let what = format!("a loop of folders, {}:\n    {}", names.join(", "), lines.join("\n    "));
        Finding::error(&krate.root, 1, what, "decide which folder stands below, and move what it needs down to it")
    };
    // Two files beside the folders may know each other.
    let is_folder = |number: &usize| {
        let inside = |file: &&Source<'_>| folders[file.folder()] == *number;
        krate.files.iter().filter(inside).nth(1).is_some()
    };
    let loops = circles(folders.len(), edges).into_iter().filter(|circle| circle.iter().any(is_folder));
    loops.map(report).collect()
}

fn upward(name: &str, krate: &Crate<'_>, arrows: &[Arrow]) -> Vec<Finding> {
    let Some((_, rooms)) = ROOMS.iter().find(|(krate, _)| *krate == name) else { return Vec::new() };
    let height = |file: usize| {
        let folder = krate.files[file].folder();
        rooms.iter().position(|room| *room == folder).unwrap_or(rooms.len())
    };
    let up = arrows.iter().filter(|arrow| height(arrow.to) > height(arrow.from));
    let report = |arrow: &Arrow| {
        let (from, to) = (krate.files[arrow.from].folder(), krate.files[arrow.to].folder());
        let advice = format!("{name} is laid out from the ground up: {}", rooms.join(", "));
        let what = format!("{from} uses {to}, which stands above it: {}", krate.describe(arrow));
        Finding::error(krate.files[arrow.from].path, arrow.line, what, advice)
    };
    up.map(report).collect()
}

/// Rooms that were listed here, and have been renamed or removed since: their files would stand above all others.
fn missing_rooms(name: &str, krate: &Crate<'_>) -> Vec<Finding> {
    let Some((_, rooms)) = ROOMS.iter().find(|(krate, _)| *krate == name) else { return Vec::new() };
    let missing = rooms.iter().filter(|room| krate.files.iter().all(|file| file.folder() != **room));
    let report = |room: &&str| {
        let what = format!("the layout of {name} has a room `{room}`, and the crate has none");
        Finding::error(&krate.root, 1, what, "name it as its folder is named, or take it out of the list")
    };
    missing.map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(files: &[(&str, &str)]) -> Vec<String> {
        let first = |finding: Finding| finding.what.lines().next().unwrap_or_default().to_string();
        check(&Tree::of(files)).into_iter().map(first).collect()
    }

    #[test]
    fn two_files_may_know_each_other_and_three_may_not() {
        let root = ("crates/a/src/lib.rs", "mod x; mod y; mod z;");
        let y = ("crates/a/src/y.rs", "use crate::x::X; pub struct Y;");
        let x = ("crates/a/src/x.rs", "use crate::y::Y; pub struct X;");
        assert_eq!(whats(&[root, x, y]), [""; 0]);
        let y = ("crates/a/src/y.rs", "pub struct Y(super::z::Z);");
        let z = ("crates/a/src/z.rs", "use super::x; pub struct Z(x::X);");
        assert_eq!(whats(&[root, x, y, z]), ["a circle of 3 files:"]);
    }

    #[test]
    fn re_exports_hide_nothing() {
        let root = ("crates/a/src/lib.rs", "pub mod b; pub mod c; pub use b::One;");
        let face = ("crates/a/src/b.rs", "mod one; pub use one::*;");
        let one = ("crates/a/src/b/one.rs", "use crate::c::Two; pub struct One;");
        let c = ("crates/a/src/c.rs", "mod two; pub use two::Two;");
        let two = ("crates/a/src/c/two.rs", "use crate::One; pub struct Two;");
        assert_eq!(whats(&[root, face, one, c, two]), ["a loop of folders, b, c:"]);
        let two = ("crates/a/src/c/two.rs", "#[cfg(test)]\nuse crate::One;\npub struct Two;");
        assert_eq!(whats(&[root, face, one, c, two]), [""; 0]);
    }

    #[test]
    fn private_imports_lead_to_what_they_name() {
        let root = ("crates/a/src/lib.rs", "mod b; mod c;");
        let face = ("crates/a/src/b.rs", "mod one; mod two; use crate::c::Three; use one::One; use two::Two;");
        let one = ("crates/a/src/b/one.rs", "use super::Three; pub struct One;");
        let two = ("crates/a/src/b/two.rs", "use super::{One, Three}; pub struct Two;");
        let c = ("crates/a/src/c.rs", "pub struct Three;");
        assert_eq!(whats(&[root, face, one, two, c]), [""; 0]);
    }

    #[test]
    fn a_face_that_defines_nothing_is_in_no_circle() {
        let root = ("crates/a/src/lib.rs", "mod b;");
        let face = ("crates/a/src/b.rs", "mod one; mod two; pub use one::One; pub use two::Two;");
        let one = ("crates/a/src/b/one.rs", "use super::Two; pub struct One;");
        let two = ("crates/a/src/b/two.rs", "pub struct Two;");
        assert_eq!(whats(&[root, face, one, two]), [""; 0]);
        let face = ("crates/a/src/b.rs", "mod one; mod two; pub use one::One; pub use two::Two; pub struct Three;");
        let two = ("crates/a/src/b/two.rs", "use super::Three; pub struct Two;");
        assert_eq!(whats(&[root, face, one, two]), ["a circle of 3 files:"]);
    }
}

//! The settings in a directory without a request for it, `.htaccess` files included: for a report about a whole
//! configuration.
//!
//! `phases::walk` does the same for a request; here nothing is cached, nothing is logged, and an error in a file is one
//! line of a report instead of the end.

use std::collections::HashSet;
use std::io;

use conf::{Error, Errors, Notice, Origin, SettingsMap};

use crate::files::htaccess::{self, SIZE_MAX};
use crate::paths::{c_path, join};
use crate::settings::merge::{Layer, Merged};
use crate::settings::section::{Matcher, Section};
use crate::site::htaccess_cache::OverrideRules;
use crate::site::server::Server;
use crate::site::vhost::VirtualHost;

/// What the check finds out about a directory.
pub struct Surveyed {
    /// Its settings.
    merged: Merged,
    /// Its access file, if it has one.
    pub file: Option<AccessFile>,
}

/// An access file.
pub struct AccessFile {
    /// Where it is.
    pub path: String,
    /// Ignored here: `AllowOverride None`.
    pub passed_over: bool,
    /// Why it cannot be read.
    pub unreadable: Option<String>,
    /// All errors in its lines.
    pub errors: Vec<Error>,
    /// Notices about them.
    pub notices: Vec<Notice>,
    /// Its lines.
    pub tree: Vec<conf::Node>,
}

impl Surveyed {
    /// The settings.
    pub fn settings(&self) -> &SettingsMap {
        &self.merged.slots
    }
}

/// The settings above the root of a virtual host's files.
pub fn above_all(host: &VirtualHost) -> Surveyed {
    Surveyed { merged: host.base.shared_base(), file: None }
}

/// The settings in the directory `dir`, whose name ends with a slash, inside the one `above` it.
pub fn enter(server: &Server, host: &VirtualHost, above: &Surveyed, dir: &str) -> Surveyed {
    let path = &dir[..dir.len() - 1];
    let depth = crate::settings::section::components(path);
    let mut merged = above.merged.clone();
    for section in host.directories.iter().filter(|section| section.depth() == depth && section.is_directory(path)) {
        merged = server.merger.merge(&merged, &section.layer);
    }
    let Some(path) = find(host, dir) else { return Surveyed { merged, file: None } };
    let mut file = AccessFile {
        path,
        passed_over: false,
        unreadable: None,
        errors: Vec::new(),
        notices: Vec::new(),
        tree: Vec::new(),
    };
    if !htaccess::is_wanted(merged.slots.get()) {
        file.passed_over = true;
        return Surveyed { merged, file: Some(file) };
    }
    let slots = examine(server, dir, &OverrideRules::of(merged.slots.get()), &mut file);
    let merged = server.merger.merge(&merged, &Layer::new(slots));
    Surveyed { merged, file: Some(file) }
}

/// The lines of a host's `<Directory>` sections, by which directories may differ from those of another host.
pub fn rules(host: &VirtualHost) -> Vec<u32> {
    host.directories.iter().map(|section| section.layer.id).collect()
}

/// Sections without any effective line in any host: a later one for at least the same paths replaces all of them. Each
/// with the later one.
pub fn replaced_sections(server: &Server) -> Vec<(Origin, Origin)> {
    let mut found: Vec<(Origin, Origin)> = Vec::new();
    let mut count = HashSet::new();
    for host in &server.hosts {
        for (sections, below) in [(&host.directories, false), (&host.locations, true)] {
            for (i, section) in sections.iter().enumerate() {
                let mut later = sections[i + 1..].iter();
                match later.find(|later| covers(later, section, below) && replaces(later, section)) {
                    Some(winner) if found.iter().all(|(lost, _)| *lost != section.origin) => {
                        found.push((section.origin.clone(), winner.origin.clone()));
                    }
                    Some(_) => {}
                    None => {
                        count.insert(section.origin.clone());
                    }
                }
            }
        }
    }
    found.retain(|(lost, _)| !count.contains(lost));
    found
}

/// Whether a section covers all paths of another one, by their plain paths. `below`: including paths below its own.
fn covers(later: &Section, section: &Section, below: bool) -> bool {
    match (&later.matcher, &section.matcher) {
        (Matcher::Path(later), Matcher::Path(path)) => {
            later == path
                || below
                    && path
                        .strip_prefix(later.as_str())
                        .is_some_and(|rest| later.ends_with('/') || rest.starts_with('/'))
        }
        _ => false,
    }
}

/// Whether a later section replaces everything in a section.
fn replaces(later: &Section, section: &Section) -> bool {
    let mut own = HashSet::new();
    section.layer.slots.origins(&mut |origin| {
        own.insert(origin.clone());
    });
    let mut left = false;
    SettingsMap::merge(&section.layer.slots, &later.layer.slots).origins(&mut |origin| left |= own.contains(origin));
    !own.is_empty() && !left
}

/// The first access file in a directory.
fn find(host: &VirtualHost, dir: &str) -> Option<String> {
    host.access_file_names.iter().map(|name| join(dir, name)).find(|path| {
        // For a report, a file that cannot be examined counts as present.
        c_path(path).is_some_and(|os| !matches!(sys::file::stat(&os), Err(error) if is_missing(&error)))
    })
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The settings in a file, and its errors.
fn examine(server: &Server, dir: &str, rules: &OverrideRules, file: &mut AccessFile) -> SettingsMap {
    let mut slots = SettingsMap::default();
    let bytes = match htaccess::fetch(&file.path) {
        Ok(bytes) => bytes,
        Err(error) => {
            file.unreadable = Some(sys::describe(&error).to_string());
            return slots;
        }
    };
    if bytes.len() as u64 >= SIZE_MAX {
        file.unreadable = Some(format!("it is larger than {SIZE_MAX} bytes"));
        return slots;
    }
    let (tree, place, mut context) = htaccess::read_tree(server, &file.path, dir, bytes, rules, Errors::all());
    // Errors are kept; the one that ends the reading is one too many.
    if let Ok(tree) = tree {
        let _ = conf::apply(&tree, &mut SettingsMap::default(), &mut slots, &place, &mut context);
        file.tree = tree;
    }
    file.errors = context.errors.kept().to_vec();
    file.notices = context.notices;
    slots
}

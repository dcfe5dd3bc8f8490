//! Finds the file that defines what a path names.

use std::collections::{BTreeMap, HashMap};

use super::names::Names;
use crate::tree::Tree;

/// A crate: its files, and the module that each of them is.
pub(super) struct Crate<'t> {
    /// The file that the crate begins with.
    pub(super) root: String,
    pub(super) files: Vec<Source<'t>>,
    modules: HashMap<Vec<String>, usize>,
}

/// A file of a crate.
pub(super) struct Source<'t> {
    /// In the repository.
    pub(super) path: &'t str,
    module: Vec<String>,
    names: Names,
}

/// Something that a file names, and that another file defines. Files are numbers.
#[derive(Debug)]
pub(super) struct Arrow {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The line of the first one in the file, counted from 1.
    pub(super) line: usize,
    name: String,
}

/// How far re-exports are followed.
const FOLLOWED_MAX: usize = 16;

impl Source<'_> {
    /// The folder of the crate that the file is in, or the file's own name beside them; empty for the crate's root.
    pub(super) fn folder(&self) -> &str {
        self.module.first().map_or("", String::as_str)
    }
}

impl<'t> Crate<'t> {
    /// The crates of the repository, by name.
    pub(super) fn all(tree: &'t Tree) -> BTreeMap<&'t str, Crate<'t>> {
        let mut crates: BTreeMap<&str, Crate<'_>> = BTreeMap::new();
        for (file, rust) in tree.rust().filter(|(file, _)| !file.is_test()) {
            let Some((root, inside)) = file.path.split_once("/src/") else { continue };
            let mut module: Vec<String> = inside.trim_end_matches(".rs").split('/').map(str::to_string).collect();
            let is_root = module.len() == 1 && matches!(module[0].as_str(), "lib" | "main");
            if is_root || module.last().is_some_and(|last| last == "mod") {
                module.pop();
            }
            let name = file.krate();
            let krate = crates.entry(name).or_insert_with(|| Crate {
                root: format!("{root}/src"),
                files: Vec::new(),
                modules: HashMap::new(),
            });
            krate.modules.entry(module.clone()).or_insert(krate.files.len());
            krate.files.push(Source { path: &file.path, module, names: Names::of(rust) });
        }
        crates
    }

    /// Every arrow between two files, once.
    pub(super) fn arrows(&self) -> Vec<Arrow> {
        let mut arrows: BTreeMap<(usize, usize), Arrow> = BTreeMap::new();
        for (from, source) in self.files.iter().enumerate() {
            let imports = source.names.imports.iter().map(|import| (&import.path, import.line));
            for (path, line) in imports.chain(source.names.paths.iter().map(|(path, line)| (path, *line))) {
                for to in self.definitions(&source.module, path, FOLLOWED_MAX) {
                    if to != from {
                        let arrow = || Arrow { from, to, line, name: path.join("::") };
                        arrows.entry((from, to)).or_insert_with(arrow);
                    }
                }
            }
        }
        arrows.into_values().collect()
    }

    /// An arrow as text.
    pub(super) fn describe(&self, arrow: &Arrow) -> String {
        let (from, to) = (self.files[arrow.from].path, self.files[arrow.to].path);
        format!("{from}:{} uses {} of {to}", arrow.line, arrow.name)
    }

    /// The files that define what `path` names in `module`: none for what is not of this crate, and for a module as
    /// such, since only what is used of it counts.
    fn definitions(&self, module: &[String], path: &[String], followed: usize) -> Vec<usize> {
        let Some((mut at, rest)) = self.start(module, path, followed) else { return Vec::new() };
        let mut rest = &rest[..];
        while let Some((name, after)) = rest.split_first() {
            let child: Vec<String> = at.iter().chain([name]).cloned().collect();
            if self.modules.contains_key(&child) {
                (at, rest) = (child, after);
                continue;
            }
            return self.member(&at, rest, followed);
        }
        Vec::new()
    }

    /// The module at which a path begins, and the segments after it.
    fn start(&self, module: &[String], path: &[String], followed: usize) -> Option<(Vec<String>, Vec<String>)> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some((Vec::new(), rest.to_vec())),
            "self" => Some((module.to_vec(), rest.to_vec())),
            "super" => {
                let supers = path.iter().take_while(|segment| *segment == "super").count();
                Some((module[..module.len().checked_sub(supers)?].to_vec(), path[supers..].to_vec()))
            }
            name => {
                let names = &self.files[*self.modules.get(module)?].names;
                if names.children.contains(first) {
                    return Some((module.to_vec(), path.to_vec()));
                }
                // A name of an import: what it stands for, then the rest.
                let import = names.imports.iter().find(|import| import.alias == name && import.path[0] != name)?;
                let whole: Vec<String> = import.path.iter().chain(rest).cloned().collect();
                followed.checked_sub(1).and_then(|followed| self.start(module, &whole, followed))
            }
        }
    }

    /// The files that define the name at the beginning of `rest` in the module `at`.
    fn member(&self, at: &[String], rest: &[String], followed: usize) -> Vec<usize> {
        let Some(&file) = self.modules.get(at) else { return Vec::new() };
        let (name, names) = (&rest[0], &self.files[file].names);
        if names.items.contains(name) || followed == 0 {
            return vec![file];
        }
        // A module's private imports are there for the modules below it.
        if let Some(import) = names.imports.iter().find(|import| import.alias == *name && import.path[0] != *name) {
            let whole: Vec<String> = import.path.iter().chain(&rest[1..]).cloned().collect();
            return self.definitions(at, &whole, followed - 1);
        }
        let globs = names.imports.iter().filter(|import| import.is_public && import.alias == "*");
        for glob in globs {
            let mut whole = glob.path.clone();
            whole.pop();
            whole.extend(rest.iter().cloned());
            let found = self.definitions(at, &whole, followed - 1);
            if !found.is_empty() {
                return found;
            }
        }
        // A name that a macro makes belongs to the file. Exported macros appear at the root, wherever they stand.
        if at.is_empty() { Vec::new() } else { vec![file] }
    }
}

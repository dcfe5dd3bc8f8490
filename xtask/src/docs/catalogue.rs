//! Joins Apache's directives and ours by name.

use std::collections::{BTreeMap, HashMap};

use conf::{Allowed, Directive, ModuleInfo, Remark};

use super::infos::title;
use modules::manual::{DIRECTIVES, Fact};

/// A directive name, with everything known about it.
pub(super) struct Entry {
    /// The spelling of the manual, or else of our table; a section has its brackets.
    pub(super) name: String,
    /// The anchor of its heading. A repeated heading has a number appended (`MDomain`, `<MDomain>`).
    pub(super) anchor: String,
    /// Our rows, with the names of their modules; empty if it is refused.
    pub(super) rows: Vec<(String, &'static Directive)>,
    /// Apache's descriptions; empty if only we have it.
    pub(super) facts: Vec<&'static Fact>,
}

/// The state of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Does something.
    Implemented,
    /// Accepted by some module, and does nothing.
    WithoutEffect,
    /// An error.
    Refused,
}

/// All entries in alphabetical order.
pub(super) fn entries(infos: &[&'static ModuleInfo]) -> Vec<Entry> {
    let mut entries: BTreeMap<(String, bool), Entry> = BTreeMap::new();
    let mut named = |name: &str, add: &dyn Fn(&mut Entry)| {
        let bare = name.trim_matches(['<', '>']);
        let section = bare.len() < name.len();
        let name = if section { format!("<{bare}>") } else { bare.to_string() };
        let key = (bare.to_ascii_lowercase(), section);
        add(entries.entry(key).or_insert(Entry { name, anchor: String::new(), rows: Vec::new(), facts: Vec::new() }));
    };
    for fact in DIRECTIVES.iter() {
        named(fact.name, &|entry| entry.facts.push(fact));
    }
    for info in infos {
        for row in info.directives {
            named(row.name, &|entry| entry.rows.push((title(info), row)));
        }
    }
    let mut headings: HashMap<String, usize> = HashMap::new();
    let mut entries: Vec<Entry> = entries.into_values().collect();
    for entry in entries.iter_mut().filter(|entry| !entry.rows.is_empty()) {
        let words = entry.name.trim_matches(['<', '>']).to_ascii_lowercase();
        let before = headings.entry(words.clone()).and_modify(|count| *count += 1).or_insert(0);
        entry.anchor = if *before == 0 { words } else { format!("{words}-{before}") };
    }
    entries
}

/// Rows that are allowed in other places than Apache's directive of that name.
pub(super) fn contradictions(entries: &[Entry]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in entries.iter().filter(|entry| entry.name != IN_HOSTS_ONLY) {
        for (module, row) in &entry.rows {
            let ours = (context(row.allowed), class(row.allowed));
            let places = |fact: &Fact| fact.context.trim_end_matches(",proxy").to_string();
            let theirs = entry.facts.iter().map(|fact| (places(fact), fact.class.to_string()));
            if let Some(theirs) = theirs.into_iter().find(|theirs| *theirs != ours) {
                let name = &entry.name;
                found.push(format!("{module}: {name}: {} ({}), in Apache {} ({})", ours.0, ours.1, theirs.0, theirs.1));
            }
        }
    }
    found
}

/// A directive that only its function, not its row, restricts to virtual hosts, in Apache as here.
const IN_HOSTS_ONLY: &str = "ServerAlias";

impl Entry {
    pub(super) fn state(&self) -> State {
        let idle = |row: &Directive| matches!(row.remark, Some(Remark::WithoutEffect(_)));
        match &self.rows[..] {
            [] => State::Refused,
            rows if rows.iter().all(|(_, row)| idle(row)) => State::WithoutEffect,
            _ => State::Implemented,
        }
    }

    /// Whether Apache's manual documents it.
    pub(super) fn documented(&self) -> bool {
        self.facts.iter().any(|fact| !fact.undocumented)
    }

    /// A link to its section in `docs/directives.md`; its plain name if it has none.
    pub(super) fn link(&self, page: &str) -> String {
        match self.state() {
            State::Refused => prose(&self.name),
            _ => format!("[{}]({page}#{})", prose(&self.name), self.anchor),
        }
    }
}

/// Where a row is allowed, in the words of [`Fact::context`].
pub(super) fn context(allowed: Allowed) -> String {
    let server = allowed.meets(Allowed::AT_SERVER_LEVEL);
    let places = [
        (server, "server"),
        (server && !allowed.global_only(), "vhost"),
        (allowed.meets(Allowed::IN_SECTION), "directory"),
        (allowed.meets(Allowed::ANY), "htaccess"),
    ];
    places.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect::<Vec<_>>().join(",")
}

/// The class that `AllowOverride` must permit, in the words of [`Fact::class`].
pub(super) fn class(allowed: Allowed) -> String {
    match allowed.phrases().1 {
        None => String::new(),
        Some(when) => when.strip_prefix("includes ").map_or("All".into(), |classes| classes.replace(" or ", ",")),
    }
}

/// Code in a page; also works in a table cell.
pub(super) fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

/// Prose in a page; also works in a table cell.
pub(super) fn prose(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '[' | ']' | '`' | '<' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// A remark of ours in a page; also works in a table cell. Text between two backquotes is code.
pub(super) fn remark(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(i, part)| if i % 2 == 0 { prose(part) } else { format!("`{part}`") }).collect()
}

#[cfg(test)]
mod tests {

    use std::collections::BTreeSet;

    use conf::Args;

    use super::super::infos::infos;
    use super::*;
    use conf::row;

    #[test]
    fn remarks_have_code() {
        assert_eq!(remark("As <b>, `a_b=<c>`, _d_."), "As \\<b>, `a_b=<c>`, \\_d\\_.");
    }

    #[test]
    fn places_are_those_of_apache() {
        assert_eq!(contradictions(&entries(&infos())), [""; 0]);
    }

    #[test]
    fn a_place_that_is_not_apaches_is_reported() {
        static FACE: ModuleInfo = ModuleInfo {
            id: "dir_module",
            source: "mod_dir.c",
            linked: false,
            directives: &[
                row("DirectoryIndex", Allowed::OPTIONS, Args::Flag(|_, _| Ok(())), "", ""),
                row("DirectorySlash", Allowed::INDEXES, Args::Flag(|_, _| Ok(())), "", ""),
                row("ServerRoot", Allowed::SERVER, Args::Flag(|_, _| Ok(())), "", ""),
            ],
        };
        let found = contradictions(&entries(&[&FACE]));
        let class = "mod_dir: DirectoryIndex: server,vhost,directory,htaccess (Options), in Apache \
                     server,vhost,directory,htaccess (Indexes)";
        assert_eq!(found, [class, "mod_dir: ServerRoot: server,vhost (), in Apache server ()"]);
    }

    #[test]
    fn every_name_has_an_anchor_of_its_own() {
        let mut seen = BTreeSet::new();
        let entries = entries(&infos());
        for entry in entries.iter().filter(|entry| !entry.rows.is_empty()) {
            assert!(seen.insert(&entry.anchor), "two directives have the anchor {}", entry.anchor);
        }
    }
}

//! What Apache httpd 2.4.71 has: facts about its directives and modules, from two tables in `xtask/data`.

use std::sync::LazyLock;

/// A directive of Apache's, as a page of its manual describes it.
#[derive(Debug)]
pub(super) struct Fact {
    /// As the manual writes it; of a section with its brackets.
    pub(super) name: &'static str,
    /// The page it stands on: that of its module, `core`, or `mpm_common`.
    pub(super) module: &'static str,
    /// The manual says nothing of it; only `apache2 -L` does.
    pub(super) undocumented: bool,
    /// Where it may stand: `server`, `vhost`, `directory`, `htaccess` and `proxy`, with commas.
    pub(super) context: &'static str,
    /// The class that `AllowOverride` must have, in `.htaccess`.
    pub(super) class: &'static str,
    /// The first version that had it; empty where the manual does not say.
    pub(super) since: &'static str,
    /// What is typed behind the name.
    pub(super) syntax: &'static str,
}

/// A page of the manual about a module.
#[derive(Debug)]
pub(super) struct Page {
    /// `mod_dir`; `core`, `mpm_common`, and the MPMs without `mpm_`.
    pub(super) name: &'static str,
    /// `dir_module`; empty for `core` and `mpm_common`, which are none.
    pub(super) identifier: &'static str,
    /// Base, Extension, Experimental …
    pub(super) status: &'static str,
    /// The first version that had it; empty where the manual does not say.
    pub(super) since: &'static str,
}

/// Every directive, sorted by name. A name that two modules have stands twice.
pub(super) static DIRECTIVES: LazyLock<Vec<Fact>> = LazyLock::new(|| {
    rows(include_str!("../../data/apache-directives.tsv"))
        .map(|[name, module, status, context, class, since, _default, syntax]| Fact {
            name,
            module,
            undocumented: status == "undocumented",
            context,
            class,
            since,
            syntax,
        })
        .collect()
});

/// Every page about a module, sorted by name.
pub(super) static MODULES: LazyLock<Vec<Page>> = LazyLock::new(|| {
    rows(include_str!("../../data/apache-modules.tsv"))
        .map(|[name, identifier, status, since]| Page { name, identifier, status, since })
        .collect()
});

/// The lines of a table, without comments. Cells that are missing are empty.
fn rows<const N: usize>(text: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut cells = line.split('\t');
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The numbers are those of the manual: 731 descriptions on 132 pages, two of them of `HeartbeatStorage`.
    #[test]
    fn the_tables_are_complete() {
        let documented = || DIRECTIVES.iter().filter(|fact| !fact.undocumented);
        let names: BTreeSet<String> = documented().map(|fact| fact.name.to_ascii_lowercase()).collect();
        assert_eq!((documented().count(), names.len(), MODULES.len()), (731, 730, 132));
        assert_eq!(DIRECTIVES.len() - documented().count(), 13);
    }

    #[test]
    fn the_cells_are_in_their_columns() {
        let pages: BTreeSet<&str> = MODULES.iter().map(|page| page.name).collect();
        for fact in DIRECTIVES.iter() {
            assert!(pages.contains(fact.module), "{fact:?}");
            let place = |word: &str| ["server", "vhost", "directory", "htaccess", "proxy"].contains(&word);
            assert!(fact.context.split(',').all(place), "{fact:?}");
            assert!(fact.class.is_empty() || fact.context.contains("htaccess"), "{fact:?}");
            assert!(fact.since.chars().all(|c| c.is_ascii_digit() || c == '.'), "{fact:?}");
        }
    }
}

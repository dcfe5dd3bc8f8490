//! The directives and modules of Apache httpd 2.4.71, and third-party ones: facts from the tables in `data`. Pages and
//! reports are made from them; no request needs them.

use std::sync::LazyLock;

use conf::ModuleInfo;
pub use server::module::finding::Loss;

/// The loss that a word in the tables names.
fn loss_of(cell: &str) -> Option<Loss> {
    match cell {
        "no" => Some(Loss::Nothing),
        "speed" => Some(Loss::Speed),
        "feature" => Some(Loss::Feature),
        "protection" => Some(Loss::Protection),
        _ => None,
    }
}

/// A directive of Apache's, as a page of its manual describes it.
#[derive(Debug)]
pub struct Fact {
    /// The manual's spelling; a section includes its brackets.
    pub name: &'static str,
    /// Its page: that of its module, `core`, or `mpm_common`.
    pub module: &'static str,
    /// Missing in the manual; only `apache2 -L` lists it.
    pub undocumented: bool,
    /// Its contexts: `server`, `vhost`, `directory`, `htaccess` and `proxy`, separated by commas.
    pub context: &'static str,
    /// The class that `AllowOverride` must have, in `.htaccess`.
    pub class: &'static str,
    /// The first version with it; empty if the manual does not say.
    pub since: &'static str,
    /// The arguments.
    pub syntax: &'static str,
    /// Its purpose, if none of our tables has it.
    pub purpose: &'static str,
    /// The loss without it, if that differs from the loss of its module.
    loss: Option<Loss>,
}

/// A page of the manual about a module.
#[derive(Debug)]
pub struct Page {
    /// `mod_dir`; `core`, `mpm_common`, and the MPMs without `mpm_`.
    pub name: &'static str,
    /// `dir_module`; empty for `core` and `mpm_common`, which have none.
    pub identifier: &'static str,
    /// Base, Extension, Experimental …
    pub status: &'static str,
    /// The first version with it; empty if the manual does not say.
    pub since: &'static str,
    /// Its purpose, if we do not have it.
    pub purpose: &'static str,
    /// The loss without it, if we do not have it.
    pub loss: Option<Loss>,
    /// What to do without it; empty if its lines only have to be removed.
    pub instead: &'static str,
    /// What it would do where nothing asks for it, if we do not have it.
    pub alone: Option<Alone>,
    /// The directives that ask for nothing, separated by commas, if we do not have it.
    pub tunes: &'static str,
}

/// What a module that we do not have would do where no directive, handler, provider or filter asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// Nothing: its `LoadModule` line changes nothing.
    Idle,
    /// What the server does itself.
    There,
    /// Something that would be missed.
    Acts,
}

impl Alone {
    /// The word in the tables.
    fn of(cell: &str) -> Option<Alone> {
        match cell {
            "idle" => Some(Alone::Idle),
            "there" => Some(Alone::There),
            "acts" => Some(Alone::Acts),
            _ => None,
        }
    }
}

/// A module outside Apache's own.
#[derive(Debug)]
pub struct Other {
    /// Its common name.
    pub name: &'static str,
    /// Its identifiers in `LoadModule`, separated by commas.
    pub(crate) identifiers: &'static str,
    /// The prefixes of its directives, in lower case, separated by commas.
    prefixes: &'static str,
    /// Its purpose.
    pub purpose: &'static str,
    /// What to do without it.
    pub instead: &'static str,
    /// The loss without it.
    pub loss: Option<Loss>,
    /// What it would do where nothing asks for it, if it comes with Apache's source.
    pub alone: Option<Alone>,
}

/// A directive that Apache 2.4 no longer has.
#[derive(Debug)]
pub struct Removed {
    /// The name.
    pub name: &'static str,
    /// The last version with it.
    pub last: &'static str,
    /// Its former purpose.
    pub purpose: &'static str,
    /// What to write instead.
    pub instead: &'static str,
    /// The loss if the line is only removed.
    pub loss: Option<Loss>,
}

/// Every directive, sorted by name. A name that two modules use occurs twice.
pub static DIRECTIVES: LazyLock<Vec<Fact>> = LazyLock::new(|| {
    rows(include_str!("../data/apache-directives.tsv"))
        .map(|[name, module, status, context, class, since, _default, syntax, purpose, loss]| Fact {
            name,
            module,
            undocumented: status == "undocumented",
            context,
            class,
            since,
            syntax,
            purpose,
            loss: loss_of(loss),
        })
        .collect()
});

/// Every page about a module, sorted by name.
pub static MODULES: LazyLock<Vec<Page>> = LazyLock::new(|| {
    rows(include_str!("../data/apache-modules.tsv"))
        .map(|[name, identifier, status, since, purpose, loss, instead, alone, tunes]| Page {
            name,
            identifier,
            status,
            since,
            purpose,
            loss: loss_of(loss),
            instead,
            alone: Alone::of(alone),
            tunes,
        })
        .collect()
});

/// Modules outside Apache's own.
pub static OTHERS: LazyLock<Vec<Other>> = LazyLock::new(|| {
    rows(include_str!("../data/other-modules.tsv"))
        .map(|[name, identifiers, prefixes, purpose, instead, loss, alone]| Other {
            name,
            identifiers,
            prefixes,
            purpose,
            instead,
            loss: loss_of(loss),
            alone: Alone::of(alone),
        })
        .collect()
});

/// Directives that Apache 2.4 no longer has.
pub static REMOVED: LazyLock<Vec<Removed>> = LazyLock::new(|| {
    rows(include_str!("../data/removed-directives.tsv"))
        .map(|[name, last, purpose, instead, loss]| Removed { name, last, purpose, instead, loss: loss_of(loss) })
        .collect()
});

impl Other {
    /// The module with that identifier.
    pub fn with_identifier(id: &str) -> Option<&'static Other> {
        OTHERS.iter().find(|other| other.identifiers.split(',').any(|have| have == id))
    }

    /// The module with that source file: `mod_x.c`.
    pub fn with_source(name: &str) -> Option<&'static Other> {
        OTHERS.iter().find(|other| {
            name.strip_suffix(".c") == Some(other.name) || other.identifiers.split(',').any(|have| have == name)
        })
    }

    /// The module that probably has a directive of that name: `CASCookie` is mod_auth_cas's, `CaseFilter` is not.
    pub fn with_directive(name: &str) -> Option<&'static Other> {
        let name = name.trim_start_matches('<');
        let lower = name.to_ascii_lowercase();
        // A prefix ends before a capital, or is all capitals; an all-lower-case name has no such boundary.
        let begins = |prefix: &str| {
            let Some((word, rest)) = name.split_at_checked(prefix.len()).filter(|_| lower.starts_with(prefix)) else {
                return false;
            };
            let small = |c: char| c.is_ascii_lowercase();
            name == lower || prefix.ends_with('_') || !rest.starts_with(small) || !word.contains(small)
        };
        OTHERS.iter().find(|other| !other.prefixes.is_empty() && other.prefixes.split(',').any(begins))
    }
}

impl Fact {
    /// The page of its module.
    pub fn page(&self) -> Option<&'static Page> {
        MODULES.iter().find(|page| page.name == self.module)
    }

    /// The loss without it, if we do not have it.
    pub fn loss(&self) -> Option<Loss> {
        self.loss.or_else(|| self.page()?.loss)
    }
}

/// Apache's description of a directive, by its name in a configuration: a section without its last bracket.
pub fn directive(name: &str) -> Option<&'static Fact> {
    let bare = |name: &str| name.trim_end_matches('>').to_ascii_lowercase();
    let wanted = bare(name);
    DIRECTIVES.iter().find(|fact| bare(fact.name) == wanted)
}

/// Why a directive is refused: for its own reason, or that of its module.
pub fn refusal(fact: &Fact, infos: &[&'static ModuleInfo]) -> &'static str {
    let single = REFUSED.iter().find(|(names, _)| names.contains(&fact.name));
    let there = fact.page().is_some_and(|page| page.info(infos).is_some());
    match single {
        Some((_, why)) => why,
        None if there => "the module does not have it",
        None => missing(fact.module),
    }
}

impl Page {
    /// Our module of that name.
    pub fn info(&self, infos: &[&'static ModuleInfo]) -> Option<&'static ModuleInfo> {
        infos.iter().copied().find(|info| info.id == self.identifier)
    }
}

/// Why a module is missing.
pub fn missing(module: &str) -> &'static str {
    let reason = MISSING.iter().find(|(beginnings, _)| beginnings.iter().any(|name| module.starts_with(name)));
    reason.map_or(NOT_BUILT_IN, |(_, why)| why)
}

const NOT_BUILT_IN: &str = "not built in";
const ELSEWHERE: &str = "for another operating system";

/// Refused directives of existing modules.
const REFUSED: &[(&[&str], &str)] = &[
    (&["CGIMapExtension", "ScriptInterpreterSource", "StartThreads", "UNCList"], ELSEWHERE),
    (&["MDCertificateMonitor"], "Apache 2.4.71 knows it only as MDCertificateCheck"),
    (&["GprofDir"], "Apache has it only where it was built for profiling"),
    (&["EnableExceptionHook"], "Apache has it only where it was built for debugging"),
];

/// The prefixes of missing modules.
const MISSING: &[(&[&str], &str)] = &[
    (&["mod_isapi", "mod_nw_ssl", "mod_privileges", "mpm_netware", "mpm_winnt", "mpmt_os2"], ELSEWHERE),
    (
        &["mod_proxy_fdpass"],
        "no client's connection is handed to another program (Apache 2.4.71 refuses the URL for it, too: `fd:///PATH`)",
    ),
    (&["mod_proxy_ftp"], "only HTTP, WebSockets, AJP, FastCGI, SCGI and uwsgi are proxied"),
    (&["mod_lua"], "there is no Lua"),
    (&["mod_systemd"], "the server notifies systemd itself"),
    (&["mod_echo", "mod_example"], "a demonstration of Apache's own interface"),
];

/// The lines of a table, without comments. Missing cells are empty.
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

//! Examines the directories that are served: their `.htaccess` files, and the scripts in them.

use std::collections::{BTreeSet, HashSet};
use std::fs::Metadata;
use std::io::{IsTerminal, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use conf::words::words;
use conf::{Cause, Level, Node, Origin, SettingsMap};
use server::core::{CoreDir, HandlerName, options};
use server::module::handler_of_file;
use server::survey::{self, AccessFile, Surveyed};
use server::{Server, VirtualHost};
use sys::time::Instant;

use super::report::Report;
use super::{lines, mistakes, scripts};
use crate::diagnosis::context::ErrorContext;
use crate::diagnosis::errors::finding;
use server::module::finding::{Finding, Topic, Weight};

/// The maximum number of directories to examine, unless the user asks for more.
pub(super) const DIRECTORIES_MAX: usize = 100_000;
/// The maximum number of files to examine in them.
const FILES_MAX: usize = 2_000_000;
/// The maximum time for the walk.
const TIME_MAX: Duration = Duration::from_secs(60);
/// How often the progress bar on a terminal is updated.
const BAR_EVERY: Duration = Duration::from_millis(100);

/// Examines all document roots, and the directories of `Alias`, `ScriptAlias` and the like.
pub(super) fn all(report: &mut Report, server: &Server, directories_max: usize) {
    let aliases = aliases(server, &server.tree, None);
    let script_roots = aliases.iter().filter(|alias| alias.for_scripts).map(|alias| alias.target.as_str()).collect();
    let mut walk = Walk {
        report,
        server,
        script_roots,
        seen: HashSet::new(),
        directories_max,
        file_count: 0,
        php: Php::new(&server.tree),
        has_scripts_in_files: is_exec_cgi_in_files(&server.tree, false),
        bar: Bar::new(),
        begin: Instant::now(),
    };
    let mut roots: Vec<(&str, &VirtualHost)> = Vec::new();
    for host in &server.hosts {
        let aliases = aliases.iter().filter(|alias| alias.host == host.origin.as_ref());
        let aliased = aliases.map(|alias| alias.target.as_str());
        for root in std::iter::once(host.document_root.as_str()).chain(aliased) {
            // Hosts with the same sections yield the same findings for a directory.
            let is_seen = |(other, by): &(&str, &VirtualHost)| {
                Path::new(root).starts_with(other) && survey::rules(by) == survey::rules(host)
            };
            if Path::new(root).is_dir() && !roots.iter().any(is_seen) {
                roots.push((root, host));
            }
        }
    }
    let share = 1.0 / roots.len().max(1) as f64;
    for (root, host) in roots {
        walk.seen.clear();
        walk.root(host, root, share);
    }
    walk.bar.clear();
    let Php { first, count, .. } = walk.php;
    if let Some(first) = first {
        let others = match count {
            1 => String::new(),
            _ => format!(" There are {} more such files.", count - 1),
        };
        let message = format!("No handler runs it: its source is sent to anybody who asks.{others}");
        let found = Finding::new(Weight::Loses, Topic::Handler, &first, message);
        report.add(found.instead("Write `<FilesMatch \\.php$>` with a SetHandler for PHP: docs/php.md has both ways"));
    }
}

/// PHP files that no handler runs.
struct Php {
    /// Whether any line says what happens to such files: then nothing is certain.
    is_handled: bool,
    first: Option<String>,
    count: usize,
}

impl Php {
    fn new(tree: &[Node]) -> Php {
        Php { is_handled: speaks_of_php(tree), first: None, count: 0 }
    }
}

/// Directives that say what happens to a file.
const HANDLING: [&str; 16] = [
    "<Files",
    "<FilesMatch",
    "<If",
    "<LocationMatch",
    "Action",
    "AddHandler",
    "AddType",
    "FastCgiExternalServer",
    "FastCgiServer",
    "FcgidWrapper",
    "ForceType",
    "ProxyPass",
    "ProxyPassMatch",
    "RedirectMatch",
    "RewriteRule",
    "SetHandler",
];

fn speaks_of_php(nodes: &[Node]) -> bool {
    nodes.iter().any(|node| {
        let is_handling = HANDLING.iter().any(|name| node.name.eq_ignore_ascii_case(name));
        // A rule that only names a PHP file maps to it; one that passes it on or refuses it handles it.
        let is_mapping = node.name.eq_ignore_ascii_case("RewriteRule")
            && !words(&node.args).get(2).is_some_and(|flags| {
                flags
                    .trim_matches(['[', ']'])
                    .split(',')
                    .any(|flag| ["P", "F", "G"].contains(&flag) || flag.starts_with("H="))
            });
        is_handling && !is_mapping && node.args.to_ascii_lowercase().contains("php")
            || speaks_of_php(node.children.as_deref().unwrap_or_default())
    })
}

/// Whether scripts are allowed in a section that the walk does not enter.
fn is_exec_cgi_in_files(nodes: &[Node], inside: bool) -> bool {
    const SECTIONS: [&str; 5] = ["<Files", "<FilesMatch", "<If", "<Location", "<LocationMatch"];
    nodes.iter().any(|node| {
        let is_section = SECTIONS.iter().any(|name| node.name.eq_ignore_ascii_case(name));
        let is_meant = inside && node.name.eq_ignore_ascii_case("Options");
        is_meant && node.args.to_ascii_lowercase().contains("execcgi")
            || is_exec_cgi_in_files(node.children.as_deref().unwrap_or_default(), inside || is_section)
    })
}

/// A directory outside the document roots.
struct Alias<'a> {
    /// The virtual host with the alias; `None` for the main server.
    host: Option<&'a Origin>,
    target: String,
    for_scripts: bool,
}

/// The directives that map URLs outside the document roots: whether to scripts, and whether the target may contain
/// groups of a pattern.
const ALIASES: [(&str, bool, bool); 4] = [
    ("Alias", false, false),
    ("ScriptAlias", true, false),
    ("AliasMatch", false, true),
    ("ScriptAliasMatch", true, true),
];

/// Collects the targets of such lines. For a target with groups it is the directory before the first group, as the rest
/// depends on the request.
fn aliases<'a>(server: &Server, nodes: &'a [Node], host: Option<&'a Origin>) -> Vec<Alias<'a>> {
    let mut found = Vec::new();
    for node in nodes {
        let alias = ALIASES.into_iter().find(|(name, ..)| node.name.eq_ignore_ascii_case(name));
        if let Some((_, for_scripts, has_groups)) = alias
            && let Some(target) = words(&node.args).last()
        {
            let path = conf::paths::join(&server.language.server_root, target);
            let fixed = match path.split_once('$').filter(|_| has_groups) {
                Some((before, _)) => before.rsplit_once('/').map_or("", |(directory, _)| directory),
                None => path.trim_end_matches('/'),
            };
            // An empty prefix would mean the root of the file system, which is never intended.
            if !fixed.is_empty() {
                found.push(Alias { host, target: fixed.to_string(), for_scripts });
            }
        }
        let is_host = node.name.eq_ignore_ascii_case("<VirtualHost");
        let host = if is_host { Some(&node.origin) } else { host };
        found.extend(aliases(server, node.children.as_deref().unwrap_or_default(), host));
    }
    found
}

struct Walk<'a> {
    report: &'a mut Report,
    server: &'a Server,
    script_roots: BTreeSet<&'a str>,
    /// Directories of this root that were visited, so that links do not cause loops.
    seen: HashSet<(u64, u64)>,
    directories_max: usize,
    file_count: usize,
    php: Php,
    /// Whether a `<Files>` or `<Location>` section allows scripts.
    has_scripts_in_files: bool,
    bar: Bar,
    begin: Instant,
}

impl Walk<'_> {
    /// Descends to a root, then walks everything below it.
    fn root(&mut self, host: &VirtualHost, root: &str, share: f64) {
        let mut here = survey::above_all(host);
        for (at, _) in format!("{root}/").match_indices('/') {
            here = self.enter(host, &here, &format!("{}/", &root[..at]));
        }
        let mut left = Vec::new();
        self.directory(root, here, share, &mut left);
        while let Some((dir, above, share)) = left.pop() {
            if let Some(limit) = self.limit() {
                self.report.limits.insert(limit);
                return;
            }
            let here = self.enter(host, &above, &format!("{dir}/"));
            self.directory(&dir, here, share, &mut left);
        }
    }

    fn limit(&self) -> Option<String> {
        if self.report.read.directories >= self.directories_max {
            return Some(format!("there are more than {} directories", self.directories_max));
        }
        if self.file_count >= FILES_MAX {
            return Some(format!("there are more than {FILES_MAX} files"));
        }
        (self.begin.elapsed() >= TIME_MAX).then(|| format!("it took more than {} seconds", TIME_MAX.as_secs()))
    }

    fn enter(&mut self, host: &VirtualHost, above: &Surveyed, dir: &str) -> Surveyed {
        let here = survey::enter(self.server, host, above, dir);
        if let Some(file) = &here.file {
            self.access_file(file);
        }
        here
    }

    fn access_file(&mut self, file: &AccessFile) {
        self.report.read.access_files += 1;
        let found = |weight, message: String| Finding::new(weight, Topic::AccessFile, &file.path, message);
        if file.passed_over {
            let text = "It is not read here: AllowOverride None.";
            let directory = file.path.rsplit_once('/').map_or("/", |(directory, _)| directory);
            let instead = format!("To have it read: `AllowOverride All` in <Directory {directory}>");
            return self.report.add(found(Weight::Harmless, text.into()).instead(instead));
        }
        if let Some(why) = &file.unreadable {
            return self
                .report
                .add(found(Weight::Loses, format!("Requests are refused, as it cannot be read: {why}.")));
        }
        let infos = self.server.infos();
        let known = ErrorContext { tree: &file.tree, ran: &self.server.ran, loaded: infos, notices: &[] };
        for error in &file.errors {
            let (message, cause) = (&error.message, error.cause());
            let mut finding = finding(error, Weight::Loses, Topic::AccessFile, &known);
            if !matches!(cause, Some(Cause::UnknownDirective(_) | Cause::UnknownModule(_))) {
                let row = conf::directive::find(infos, finding.subject.trim_end_matches('>')).map(|(_, row)| row);
                if let Some(class) =
                    row.and_then(|row| row.allowed.phrases().1).filter(|_| cause == Some(&Cause::NotAllowed))
                {
                    finding.instead = class.strip_prefix("includes ").map(|class| format!("AllowOverride {class}"));
                }
                finding.message = format!("{}. Requests here are answered with 500.", message.trim_end_matches('.'));
            } else {
                finding.message += " Requests here are answered with 500.";
            }
            self.report.add(finding);
        }
        for notice in file.notices.iter().filter(|notice| notice.level <= Level::Warn) {
            let mut finding = found(Weight::Harmless, notice.text.trim_end().to_string());
            finding.places.extend(notice.origin.clone());
            self.report.add(finding);
        }
        lines::remarks(self.report, self.server, &file.tree);
        mistakes::of_access_file(self.report, &file.tree);
        self.php.is_handled |= speaks_of_php(&file.tree);
    }

    /// Examines the files of a directory and adds its subdirectories to `left`, the first one at the end.
    fn directory(&mut self, dir: &str, here: Surveyed, share: f64, left: &mut Vec<(String, Rc<Surveyed>, f64)>) {
        self.report.read.directories += 1;
        let mut below = self.files(dir, &here);
        below.sort_unstable_by(|one, other| other.cmp(one));
        let share = share / below.len().max(1) as f64;
        if below.is_empty() {
            self.bar.moved(share, self.report.read.directories);
        }
        let here = Rc::new(here);
        left.extend(below.into_iter().map(|dir| (dir, here.clone(), share)));
    }

    /// Examines the files of a directory; returns its subdirectories.
    fn files(&mut self, dir: &str, here: &Surveyed) -> Vec<String> {
        let path = server::paths::os_path(dir);
        let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
        let is_aliased = self.script_roots.contains(dir);
        let (mut below, mut is_refused) = (Vec::new(), false);
        for entry in entries.flatten() {
            self.file_count += 1;
            // For a link, the target counts.
            let Ok(meta) = std::fs::metadata(entry.path()) else { continue };
            let name = http::text::from_bytes(std::os::unix::ffi::OsStrExt::as_bytes(&*entry.file_name())).into_owned();
            if meta.is_dir() {
                if self.seen.insert((meta.dev(), meta.ino())) {
                    below.push(server::paths::join(dir, &name));
                }
            } else if meta.is_file() && !name.starts_with('.') {
                self.script(&entry.path(), &name, &meta, here.settings(), is_aliased);
                self.php(&entry.path(), &name, here.settings());
                is_refused |= !is_aliased && is_script_name(self.server, here.settings(), &name);
            }
        }
        if is_refused && !runs_scripts(here.settings()) && !self.has_scripts_in_files {
            let text = "Options does not allow ExecCGI here: requests for the scripts are answered with 403.";
            let found = Finding::new(Weight::Loses, Topic::Script, dir, text);
            self.report.add(found.instead(format!("Write `Options +ExecCGI` in <Directory {dir}>")));
        }
        below
    }

    fn php(&mut self, path: &Path, name: &str, settings: &SettingsMap) {
        let is_php = [".php", ".phtml"].iter().any(|end| name.ends_with(end));
        let is_handled = || {
            let set = matches!(
                settings.get::<CoreDir>().handler.get(),
                Some(HandlerName::Name(Some(_)) | HandlerName::Expr(_))
            );
            set || handler_of_file(self.server.infos(), settings, name).is_some()
        };
        if is_php && !self.php.is_handled && !is_handled() {
            self.php.first.get_or_insert_with(|| path.display().to_string());
            self.php.count += 1;
        }
    }

    fn script(&mut self, path: &Path, name: &str, meta: &Metadata, settings: &SettingsMap, is_aliased: bool) {
        let is_named = runs_scripts(settings) && is_script_name(self.server, settings, name);
        if !(is_aliased || is_named) {
            return;
        }
        if let Some((fault, instead)) = scripts::fault(path, meta, is_named) {
            let subject = path.display().to_string();
            self.report.add(Finding::new(Weight::Loses, Topic::Script, &subject, fault).instead(instead));
        }
    }
}

fn runs_scripts(settings: &SettingsMap) -> bool {
    settings.get::<CoreDir>().options.0.effective() & options::EXEC_CGI != 0
}

/// Whether mod_cgi handles a file of this name.
fn is_script_name(server: &Server, settings: &SettingsMap, name: &str) -> bool {
    let set = match settings.get::<CoreDir>().handler.get() {
        Some(HandlerName::Name(Some(name))) => Some(name.as_str()),
        Some(HandlerName::Name(None) | HandlerName::Expr(_)) => return false,
        None => handler_of_file(server.infos(), settings, name),
    };
    set.is_some_and(|handler| handler.eq_ignore_ascii_case("cgi-script"))
}

/// The progress bar on a terminal.
struct Bar {
    shown: bool,
    done: f64,
    last: Instant,
}

impl Bar {
    fn new() -> Bar {
        Bar { shown: std::io::stderr().is_terminal(), done: 0.0, last: Instant::now() }
    }

    /// Adds a completed share of the work.
    fn moved(&mut self, share: f64, directories: usize) {
        const WIDTH: usize = 40;
        self.done += share;
        if !self.shown || self.last.elapsed() < BAR_EVERY {
            return;
        }
        self.last = Instant::now();
        let full = ((self.done * WIDTH as f64) as usize).min(WIDTH);
        let bar = format!("{}{}", "#".repeat(full), ".".repeat(WIDTH - full));
        // Nothing is lost if the bar cannot be drawn.
        let _ = write!(std::io::stderr(), "\r[{bar}] {directories} directories");
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

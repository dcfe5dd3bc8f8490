//! Mistakes that Apache accepts in silence: the configuration is correct, and does not do what it seems to.
//!
//! Each check is one function over all lines. A check says nothing where it is not sure: a report that is wrong once is not
//! read again.

mod access;
mod listed;
mod logs;
mod numbers;
mod paths;
mod rewrite;
mod shadows;
mod unheard;

use conf::words::words;
use conf::{Node, Origin};
use server::Server;

use super::report::{Finding, Report, Topic, Weight};

/// The checks, in the order of the report.
const CHECKS: [fn(&Config<'_>, &mut Report); 15] = [
    numbers::without_digits,
    logs::unknown_nicknames,
    access::no_name,
    access::missing_password_files,
    access::rules_of_mixed_kinds,
    listed::certificates_without_engine,
    listed::unknown_filters,
    paths::missing_targets,
    paths::missing_error_pages,
    paths::missing_sockets,
    rewrite::slash_in_a_directory,
    rewrite::engine_is_off,
    shadows::never_reached,
    unheard::conditions_without_a_rule,
    unheard::nobody_listens,
];

/// Runs all checks.
pub(super) fn all(report: &mut Report, server: &Server) {
    let config = Config::of(server);
    CHECKS.iter().for_each(|check| check(&config, report));
}

/// Checks the lines of an `.htaccess` file on their own.
pub(super) fn of_access_file(report: &mut Report, tree: &[Node]) {
    let mut lines = Vec::new();
    collect(tree, &mut Vec::new(), true, &mut lines);
    lines.iter().for_each(|line| rewrite::slash(line, report));
}

/// All lines of a configuration.
struct Config<'a> {
    server: &'a Server,
    lines: Vec<Line<'a>>,
}

/// A line, with the sections around it.
struct Line<'a> {
    node: &'a Node,
    /// The outermost section first.
    within: Vec<&'a Node>,
    /// Whether it stands in an `.htaccess` file.
    in_access_file: bool,
}

impl<'a> Config<'a> {
    fn of(server: &'a Server) -> Config<'a> {
        let mut lines = Vec::new();
        collect(&server.tree, &mut Vec::new(), false, &mut lines);
        Config { server, lines }
    }

    /// The lines of a directive.
    fn named(&self, name: &'static str) -> impl Iterator<Item = &Line<'a>> {
        self.lines.iter().filter(move |line| line.is(name))
    }
}

fn collect<'a>(nodes: &'a [Node], within: &mut Vec<&'a Node>, in_access_file: bool, lines: &mut Vec<Line<'a>>) {
    for node in nodes {
        lines.push(Line { node, within: within.clone(), in_access_file });
        if let Some(children) = &node.children {
            within.push(node);
            collect(children, within, in_access_file, lines);
            within.pop();
        }
    }
}

impl Line<'_> {
    fn is(&self, name: &str) -> bool {
        self.node.name.eq_ignore_ascii_case(name)
    }

    fn words(&self) -> Vec<String> {
        words(&self.node.args)
    }

    /// The line of the virtual host around it.
    fn host(&self) -> Option<&Origin> {
        self.within.iter().find(|node| node.name.eq_ignore_ascii_case("<VirtualHost")).map(|node| &node.origin)
    }

    /// Whether it stands in a section of this kind.
    fn is_in(&self, section: &str) -> bool {
        self.within.iter().any(|node| node.name.eq_ignore_ascii_case(section))
    }

    /// Whether it stands outside all sections but `<VirtualHost>`.
    fn is_at_server_level(&self) -> bool {
        self.within.iter().all(|node| node.name.eq_ignore_ascii_case("<VirtualHost"))
    }

    /// A finding about it.
    fn finding(&self, weight: Weight, topic: Topic, message: impl Into<String>) -> Finding {
        Finding::new(weight, topic, &self.node.name, message).at(&self.node.origin)
    }
}

/// Whether a word holds something that only a request or the environment knows.
fn is_variable(word: &str) -> bool {
    word.contains(['$', '%'])
}

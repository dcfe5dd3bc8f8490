//! The lines of a configuration, each with the sections around it.

use conf::words::words;
use conf::{Node, Origin};
use server::Server;

use server::module::finding::{Finding, Topic, Weight};

/// All lines of a configuration.
pub(super) struct Config<'a> {
    pub(super) server: &'a Server,
    pub(super) lines: Vec<Line<'a>>,
}

/// A line, with the sections around it.
pub(super) struct Line<'a> {
    pub(super) node: &'a Node,
    /// The sections around the line, the outermost first.
    pub(super) within: Vec<&'a Node>,
    /// Whether it stands in an `.htaccess` file.
    pub(super) in_access_file: bool,
}

impl<'a> Config<'a> {
    pub(super) fn of(server: &'a Server) -> Config<'a> {
        let mut lines = Vec::new();
        collect(&server.tree, &mut Vec::new(), false, &mut lines);
        Config { server, lines }
    }

    /// The lines of a directive.
    pub(super) fn named(&self, name: &'static str) -> impl Iterator<Item = &Line<'a>> {
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

/// The lines of an `.htaccess` file.
pub(super) fn lines_of_access_file(tree: &[Node]) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    collect(tree, &mut Vec::new(), true, &mut lines);
    lines
}

impl Line<'_> {
    pub(super) fn is(&self, name: &str) -> bool {
        self.node.name.eq_ignore_ascii_case(name)
    }

    pub(super) fn words(&self) -> Vec<String> {
        words(&self.node.args)
    }

    /// The line of the virtual host around it.
    pub(super) fn host(&self) -> Option<&Origin> {
        self.within.iter().find(|node| node.name.eq_ignore_ascii_case("<VirtualHost")).map(|node| &node.origin)
    }

    /// Whether it stands in a section of this kind.
    pub(super) fn is_in(&self, section: &str) -> bool {
        self.within.iter().any(|node| node.name.eq_ignore_ascii_case(section))
    }

    /// Whether it stands outside all sections but `<VirtualHost>`.
    pub(super) fn is_at_server_level(&self) -> bool {
        self.within.iter().all(|node| node.name.eq_ignore_ascii_case("<VirtualHost"))
    }

    /// A finding about it.
    pub(super) fn finding(&self, weight: Weight, topic: Topic, message: impl Into<String>) -> Finding {
        Finding::new(weight, topic, &self.node.name, message).at(&self.node.origin)
    }
}

/// Whether a word holds something that only a request or the environment knows.
pub(super) fn is_variable(word: &str) -> bool {
    word.contains(['$', '%'])
}

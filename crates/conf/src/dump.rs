//! Walks through a configuration in order to show it: `-t -DDUMP_CONFIG` in the format of Apache's mod_info, and
//! mod_info itself.

use std::fmt::Write as _;

use crate::directive::{ModuleInfo, find};
use crate::tree::Node;

/// A directive or section that a walk visits.
#[derive(Clone, Copy, Debug)]
pub struct Stop<'a> {
    /// The directive or section itself.
    pub node: &'a Node,
    /// Its name, spelled as in its module's table; for a section, with its `<`.
    pub name: &'a str,
    /// How many sections enclose it.
    pub depth: usize,
}

/// A step of a walk, in file order.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The file changes: the following steps are in this one.
    File(&'a str),
    /// A directive, or an empty section.
    Directive(Stop<'a>),
    /// The start of a section that is not empty.
    Open(Stop<'a>),
    /// The end of that section.
    Close(Stop<'a>),
}

/// Walks through a tree. Leaves out directives that are not wanted, and sections that contain nothing else.
pub fn walk<'a>(
    nodes: &'a [Node],
    modules: &[&'static ModuleInfo],
    wanted: impl Fn(&Node) -> bool,
    see: impl FnMut(Step<'a>),
) {
    Walk { modules, wanted, see, file: "", unseen: Vec::new() }.level(nodes, 0);
}

/// Prints the whole tree as text.
pub fn dump_config(nodes: &[Node], modules: &[&'static ModuleInfo]) -> String {
    let mut out = String::new();
    walk(
        nodes,
        modules,
        |_| true,
        |step| {
            let _ = match step {
                Step::File(file) => writeln!(out, "# In file: {file}"),
                Step::Directive(Stop { node, name, depth }) | Step::Open(Stop { node, name, depth }) => {
                    let indent = "  ".repeat(depth);
                    let blank = if node.args.is_empty() { "" } else { " " };
                    writeln!(out, "{indent}#{:>4}:\n{indent}{name}{blank}{}", node.origin.line, node.args)
                }
                Step::Close(Stop { name, depth, .. }) => writeln!(out, "{}</{}>", "  ".repeat(depth), &name[1..]),
            };
        },
    );
    out
}

struct Walk<'a, 'm, Wanted, See> {
    modules: &'m [&'static ModuleInfo],
    wanted: Wanted,
    see: See,
    file: &'a str,
    /// The enclosing sections that have not been shown yet, outermost first, each with its depth.
    unseen: Vec<(&'a Node, usize)>,
}

impl<'a, Wanted: Fn(&Node) -> bool, See: FnMut(Step<'a>)> Walk<'a, '_, Wanted, See> {
    fn level(&mut self, nodes: &'a [Node], depth: usize) {
        for node in nodes {
            match node.children.as_ref().filter(|children| !children.is_empty()) {
                Some(children) => {
                    self.unseen.push((node, depth));
                    self.level(children, depth + 1);
                    // A directive shown inside has emptied the list.
                    if self.unseen.pop().is_none() {
                        self.show(node, depth, Step::Close);
                    }
                }
                None if (self.wanted)(node) => {
                    for (section, depth) in std::mem::take(&mut self.unseen) {
                        self.show(section, depth, Step::Open);
                    }
                    self.show(node, depth, Step::Directive);
                }
                None => {}
            }
        }
    }

    fn show(&mut self, node: &'a Node, depth: usize, step: fn(Stop<'a>) -> Step<'a>) {
        let file = node.origin.file();
        if self.file != file {
            self.file = file;
            (self.see)(Step::File(file));
        }
        let name = find(self.modules, &node.name).map_or(node.name.as_str(), |(_, row)| row.name);
        (self.see)(step(Stop { node, name, depth }));
    }
}

//! Walking through a configuration for those who show it: `-t -DDUMP_CONFIG` in the form of Apache's mod_info, and
//! mod_info itself.

use std::fmt::Write as _;

use crate::directive::{ModuleInfo, find};
use crate::tree::Node;

/// A directive or section on a walk.
#[derive(Clone, Copy, Debug)]
pub struct Stop<'a> {
    /// What stands there.
    pub node: &'a Node,
    /// Its name, spelled as in the table of its module; of a section with its `<`.
    pub name: &'a str,
    /// How many sections it stands in.
    pub depth: usize,
}

/// What a walk comes by, in file order.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// What follows stands in another file than what was before.
    File(&'a str),
    /// A directive, or a section with nothing inside.
    Directive(Stop<'a>),
    /// A section with something inside.
    Open(Stop<'a>),
    /// The end of that section.
    Close(Stop<'a>),
}

/// Walks through a tree. Directives that are not wanted are left out, and so are sections in which there is nothing else.
pub fn walk<'a>(
    nodes: &'a [Node],
    modules: &[&'static ModuleInfo],
    wanted: impl Fn(&Node) -> bool,
    see: impl FnMut(Step<'a>),
) {
    Walk { modules, wanted, see, file: "", unseen: Vec::new() }.level(nodes, 0);
}

/// The whole tree as text.
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
    /// The sections around the present one of which nothing was seen yet, outermost first, each with its depth.
    unseen: Vec<(&'a Node, usize)>,
}

impl<'a, Wanted: Fn(&Node) -> bool, See: FnMut(Step<'a>)> Walk<'a, '_, Wanted, See> {
    fn level(&mut self, nodes: &'a [Node], depth: usize) {
        for node in nodes {
            match node.children.as_ref().filter(|children| !children.is_empty()) {
                Some(children) => {
                    self.unseen.push((node, depth));
                    self.level(children, depth + 1);
                    // Whatever is seen inside takes all of them away.
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

//! `-t -DDUMP_CONFIG`: the tree as text, in the form of Apache's mod_info (contract.md 14).

use std::fmt::Write as _;

use crate::directive::{Face, find};
use crate::tree::Node;

/// The whole tree. Names that a module has are spelled as in its table.
pub fn dump_config(nodes: &[Node], modules: &[&'static Face]) -> String {
    let mut out = String::new();
    let mut file = String::new();
    dump(nodes, modules, 0, &mut file, &mut out);
    out
}

fn dump(nodes: &[Node], modules: &[&'static Face], depth: usize, file: &mut String, out: &mut String) {
    let indent = "  ".repeat(depth);
    for node in nodes {
        if node.origin.file() != file {
            *file = node.origin.file().to_string();
            let _ = writeln!(out, "{indent}# In file: {file}");
        }
        let _ = writeln!(out, "{indent}#{:>4}:", node.origin.line);
        let blank = if node.args.is_empty() { "" } else { " " };
        let name = find(modules, &node.name).map_or(node.name.as_str(), |(_, row)| row.name);
        let _ = writeln!(out, "{indent}{name}{blank}{}", node.args);
        if let Some(children) = node.children.as_ref().filter(|children| !children.is_empty()) {
            dump(children, modules, depth + 1, file, out);
            let _ = writeln!(out, "{indent}</{}>", &name[1..]);
        }
    }
}

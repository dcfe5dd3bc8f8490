//! The names of directives, as messages write them.

use conf::{Node, Origin};

/// A name as it is usually written: a section with both brackets. Long nonsense is truncated.
pub(crate) fn named(name: &str) -> String {
    const MAX: usize = 60;
    let end = name.char_indices().nth(MAX).map_or(name.len(), |(end, _)| end);
    let more = if end < name.len() { "…" } else { "" };
    let close = if name.starts_with('<') && !name.ends_with('>') { ">" } else { "" };
    format!("{}{more}{close}", &name[..end])
}

/// The name of the directive at a line.
pub(crate) fn name_at(nodes: &[Node], origin: &Origin) -> Option<String> {
    nodes.iter().find_map(|node| {
        if node.origin == *origin {
            return Some(named(&node.name));
        }
        name_at(node.children.as_deref().unwrap_or_default(), origin)
    })
}

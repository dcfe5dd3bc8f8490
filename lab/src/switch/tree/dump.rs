//! Reads what `-DDUMP_CONFIG` prints.

use std::sync::Arc;

use super::directive::{Directive, Origin};

/// The tree of a dump. Lines that belong to no directive (messages of the server) are passed over.
///
/// The indentation says what is inside a section: Apache prints no end of a section that has nothing in it.
pub(super) fn tree(text: &str) -> Vec<Directive> {
    let mut levels: Vec<Vec<Directive>> = vec![Vec::new()];
    let mut file: Arc<str> = "".into();
    let mut line = None;
    for row in text.lines() {
        let content = row.trim_start_matches(' ');
        let depth = (row.len() - content.len()) / 2;
        if let Some(name) = content.strip_prefix("# In file: ") {
            file = name.into();
        } else if let Some(number) = numbered(content) {
            // A number up to four digits is padded with blanks, behind the `#`.
            line = Some(number);
        } else if let Some(number) = line.take() {
            close(&mut levels, depth);
            if depth >= levels.len() {
                continue;
            }
            levels[depth].push(directive(content, Origin { file: Arc::clone(&file), line: number }));
            levels.push(Vec::new());
        }
    }
    close(&mut levels, 0);
    levels.swap_remove(0)
}

/// Gives all directives that are deeper than `depth` to the sections they are in.
fn close(levels: &mut Vec<Vec<Directive>>, depth: usize) {
    while levels.len() > depth + 1 {
        let inside = levels.pop().unwrap_or_default();
        let owner = levels.last_mut().and_then(|level| level.last_mut());
        if let Some(children) = owner.and_then(|owner| owner.children.as_mut()) {
            children.extend(inside);
        }
    }
}

/// The number in `#  12:`.
fn numbered(content: &str) -> Option<u32> {
    content.strip_prefix('#')?.strip_suffix(':')?.trim_start().parse().ok()
}

fn directive(content: &str, origin: Origin) -> Directive {
    let (content, children) = match content.strip_prefix('<') {
        Some(section) => (section.strip_suffix('>').unwrap_or(section), Some(Vec::new())),
        None => (content, None),
    };
    let (name, arguments) = content.split_once(char::is_whitespace).unwrap_or((content, ""));
    Directive { name: name.to_owned(), arguments: arguments.trim().to_owned(), origin, children }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::tree::all;

    #[test]
    fn sections_hold_what_is_indented() {
        let text = "\
AH00558: apache2: could not\n\
# In file: /a.conf\n#  87:\nTimeout 300\n#  90:\n<Directory />\n  #  91:\n  Require all denied\n  #  92:\n  <Limit PUT>\n\
    #  93:\n    Require user a\n  </Limit>\n</Directory>\n# 100:\n<Location \"/empty\">\n# In file: /b.conf\n#12345:\n\
AcceptPathInfo\n";
        let tree = tree(text);
        let shown: Vec<String> = all(&tree)
            .map(|one| format!("{} {} {} {}", one.origin, one.name, one.arguments, one.inside().len()))
            .collect();
        assert_eq!(
            shown,
            [
                "/a.conf:87 Timeout 300 0",
                "/a.conf:90 Directory / 2",
                "/a.conf:91 Require all denied 0",
                "/a.conf:92 Limit PUT 1",
                "/a.conf:93 Require user a 0",
                "/a.conf:100 Location \"/empty\" 0",
                "/b.conf:12345 AcceptPathInfo  0",
            ]
        );
        assert!(tree[2].children.is_some(), "an empty section is one");
    }
}

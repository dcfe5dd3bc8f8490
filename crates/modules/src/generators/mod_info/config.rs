//! The configuration as read, in HTML.

use std::fmt::Write as _;

use conf::Node;
use conf::dump::{Step, Stop, walk};
use http::uri::escape_html;
use server::Server;

/// The wanted directives, with the sections around them.
pub(super) fn write(out: &mut String, server: &Server, wanted: impl Fn(&Node) -> bool) {
    walk(&server.tree, server.infos(), wanted, |step| {
        // Writing to a String cannot fail.
        let _ = match step {
            Step::File(file) => writeln!(out, "<dd><tt><strong>In file: {}</strong></tt></dd>", escape_html(file)),
            Step::Directive(Stop { node, name, depth }) => {
                place(out, &node.origin.line.to_string(), depth);
                writeln!(out, "{} <i>{}</i></tt></dd>", escape_html(name), escape_html(&node.args))
            }
            Step::Open(Stop { node, name, depth }) => {
                place(out, &node.origin.line.to_string(), depth);
                writeln!(out, "{} {}</tt></dd>", escape_html(name), escape_html(&node.args))
            }
            Step::Close(Stop { name, depth, .. }) => {
                place(out, "", depth);
                write!(out, "&lt;/{}&gt;</tt></dd>", escape_html(&name[1..]))
            }
        };
    });
}

/// A line number in four columns, and the indentation after it.
fn place(out: &mut String, number: &str, depth: usize) {
    const BLANK: &str = "&nbsp;";
    let before = BLANK.repeat(4usize.saturating_sub(number.len()));
    let _ = write!(out, "<dd><tt>{before}{number}:{}", BLANK.repeat(1 + 2 * depth));
}

//! `docs/man/tsubame.8`: the manual page, from `--help` and the tables.

use std::fmt::Write as _;

use conf::Face;

use super::title;

/// The page.
pub(super) fn page(help: &str, faces: &[&'static Face]) -> Result<String, String> {
    let (name, lines) = help.split_once('\n').ok_or("tsubame --help says nothing")?;
    let (program, purpose) = name.split_once(": ").ok_or("tsubame --help does not begin with `tsubame: ...`")?;
    let mut out = String::from(".\\\" Made by `cargo xtask docs`.\n");
    let _ = writeln!(out, ".TH TSUBAME 8 \"\" \"Tsubame {}\" \"System administration\"", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(out, ".SH NAME\n{program} \\- {}", escape(purpose));
    out.push_str(SYNOPSIS);
    options(&mut out, lines);
    out.push_str(SIGNALS);
    directives(&mut out, faces);
    out.push_str(END);
    Ok(out)
}

const SYNOPSIS: &str = "\
.SH SYNOPSIS
.nf
.B tsubame
[\\fB\\-\\-port\\fR \\fIN\\fR] [\\fIdirectory\\fR]
.B tsubame
[\\fB\\-d\\fR \\fIdirectory\\fR] [\\fB\\-f\\fR \\fIfile\\fR] [\\fB\\-D\\fR \\fIname\\fR] \
[\\fB\\-C\\fR \\fIdirective\\fR] [\\fB\\-c\\fR \\fIdirective\\fR]
        [\\fB\\-k start\\fR|\\fBstop\\fR|\\fBrestart\\fR|\\fBgraceful\\fR|\\fBgraceful\\-stop\\fR] \
[\\fB\\-t\\fR] [\\fB\\-S\\fR] [\\fB\\-M\\fR] [\\fB\\-X\\fR]
.fi
.SH DESCRIPTION
Without any of httpd's options a small demonstration site, or the given directory, is served from an embedded
configuration. With them the command line is that of Apache httpd 2.4. Called as
.B httpd
or
.B apache2
the program says that name in its messages, and has only httpd's options.
";

const SIGNALS: &str = "\
.SH SIGNALS
Sent to the parent process, whose number is in the file that
.B PidFile
names.
.TP
.BR TERM ,\\ INT ,\\ QUIT
Ends all children, then the server.
.TP
.B WINCH
Accepts nothing more, finishes the open requests, ends.
.TP
.B HUP
Reads the configuration, ends all children, starts new ones.
.TP
.B USR1
Reads the configuration and starts new children; the old ones finish their requests first.
.PP
A configuration with errors changes nothing: the server says so in its error log and goes on with the old one.
";

const END: &str = "\
.SH FILES
.TP
.I /etc/apache2/apache2.conf
The configuration, when none is named.
.SH EXIT STATUS
0 when all went well, 1 otherwise.
.SH SEE ALSO
.BR apache2 (8)
";

/// The text of `--help`: headings, lines of options, and lines to be shown as they are.
fn options(out: &mut String, help: &str) {
    let mut verbatim = false;
    let mut heading = String::new();
    for line in help.lines() {
        let text = line.trim();
        let item = text.split_once(':').filter(|(term, _)| is_term(term));
        if verbatim && (text.is_empty() || item.is_some() || !line.starts_with(' ')) {
            out.push_str(".fi\n");
            verbatim = false;
        }
        if text.is_empty() {
            continue;
        }
        if !line.starts_with(' ') && text.ends_with(':') {
            heading = text.trim_end_matches(':').to_uppercase();
            let _ = writeln!(out, ".SH {}", escape(&heading));
        } else if let Some((term, meaning)) = item {
            if term.starts_with('-') && heading != "OPTIONS" {
                heading = "OPTIONS".into();
                out.push_str(".SH OPTIONS\n");
            }
            let _ = writeln!(out, ".TP\n.B {}\n{}", escape(term.trim()), escape(meaning.trim()));
        } else if line.starts_with(' ') {
            if !verbatim {
                out.push_str(".PP\n.nf\n");
                verbatim = true;
            }
            let _ = writeln!(out, "{}", escape(text));
        } else {
            let _ = writeln!(out, "{}", escape(text));
        }
    }
    if verbatim {
        out.push_str(".fi\n");
    }
}

/// Whether what stands before a colon is an option, or a list of names.
fn is_term(term: &str) -> bool {
    let names = |c: char| c.is_ascii_uppercase() || matches!(c, '_' | ',' | ' ');
    term.starts_with('-') || term.chars().all(names)
}

fn directives(out: &mut String, faces: &[&'static Face]) {
    out.push_str(".SH DIRECTIVES\nThe directives of each module; their arguments are in docs/directives.md and Apache's manual.\n");
    let mut last = String::new();
    for face in faces.iter().filter(|face| !face.directives.is_empty()) {
        let mut names: Vec<String> = face
            .directives
            .iter()
            .map(|row| if row.name.starts_with('<') { format!("{}>", row.name) } else { row.name.into() })
            .collect();
        names.sort_by_key(|name| name.trim_start_matches('<').to_ascii_lowercase());
        let title = title(face);
        let head = if title == last { ".PP".to_string() } else { format!(".TP\n.B {}", escape(&title)) };
        let _ = writeln!(out, "{head}\n{}", escape(&names.join(", ")));
        last = title;
    }
}

/// Text that roff takes as it is.
fn escape(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('"', "\\(dq");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_becomes_sections_and_items() {
        let help = "tsubame: a web server\n\nA look:\n  tsubame .  now\n\n  -f file : read \\file\n\nNames:\n  A, B_C : both\n";
        let page = page(help, &[]).expect("it has a name");
        assert!(page.contains(".SH NAME\ntsubame \\- a web server\n"));
        assert!(
            page.contains(".SH A LOOK\n.PP\n.nf\ntsubame .  now\n.fi\n.SH OPTIONS\n.TP\n.B \\-f file\nread \\efile\n")
        );
        assert!(page.contains(".SH NAMES\n.TP\n.B A, B_C\nboth\n"));
    }

    #[test]
    fn no_line_is_a_command_by_chance() {
        assert_eq!(escape(".htaccess"), "\\&.htaccess");
    }
}

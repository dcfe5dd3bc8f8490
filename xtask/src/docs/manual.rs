//! Writes manual pages from `--help`: `docs/man/tsubame.8`, which also has the tables, and the pages of subcommands.

use std::fmt::Write as _;

use conf::ModuleInfo;

use super::infos::title;

/// The page of a program or subcommand: the roff text `before`, the text of `--help`, and the roff text `behind`. The
/// first line of `--help` must be `NAME: PURPOSE`; the page of a subcommand has a hyphen in its name.
pub(super) fn page(help: &str, before: &str, behind: &str) -> Result<String, String> {
    let (first, lines) = help.split_once('\n').ok_or("--help says nothing")?;
    let (program, purpose) = first.split_once(": ").ok_or("--help does not begin with `NAME: PURPOSE`")?;
    let name = program.replace(' ', "-");
    let mut out = String::from(".\\\" Made by `cargo xtask docs`.\n");
    let (title, version) = (escape(&name.to_uppercase()), env!("CARGO_PKG_VERSION"));
    let _ = writeln!(out, ".TH {title} 8 \"\" \"Tsubame {version}\" \"System administration\"");
    let _ = writeln!(out, ".SH NAME\n{} \\- {}", escape(&name), escape(purpose));
    out.push_str(before);
    options(&mut out, lines);
    out.push_str(behind);
    Ok(out)
}

/// The page of the server itself.
pub(super) fn server(help: &str, infos: &[&'static ModuleInfo]) -> Result<String, String> {
    let mut behind = String::from(SERVER);
    directives(&mut behind, infos);
    behind.push_str(SEE_ALSO);
    page(help, SYNOPSIS, &behind)
}

const SYNOPSIS: &str = "\
.SH SYNOPSIS
.nf
\\fBtsubame\\fR [\\fB\\-\\-port\\fR \\fIN\\fR] [\\fIdirectory\\fR]
\\fBtsubame\\fR [\\fB\\-d\\fR \\fIdirectory\\fR] [\\fB\\-f\\fR \\fIfile\\fR] [\\fB\\-D\\fR \\fIname\\fR] \
[\\fB\\-C\\fR \\fIdirective\\fR] [\\fB\\-c\\fR \\fIdirective\\fR]
        [\\fB\\-k start\\fR|\\fBstop\\fR|\\fBrestart\\fR|\\fBgraceful\\fR|\\fBgraceful\\-stop\\fR|\\fBupgrade\\fR] \
[\\fB\\-t\\fR] [\\fB\\-S\\fR] [\\fB\\-M\\fR] [\\fB\\-X\\fR]
\\fBtsubame check\\fR|\\fBexplain\\fR|\\fBctl\\fR|\\fBcompletions\\fR ...
.fi
.SH DESCRIPTION
Without any of httpd's options a small demonstration site, or the given directory, is served from an embedded
configuration. With them the command line is that of Apache httpd 2.4. Called as
.B httpd
or
.B apache2
the program says that name in its messages, and has only httpd's options.
";

/// The text after the options, in roff.
pub(super) const CHECK: &str = include_str!("manual/check.roff");
pub(super) const CTL: &str = include_str!("manual/ctl.roff");
pub(super) const BUNDLE: &str = include_str!("manual/bundle.roff");
pub(super) const CACHE: &str = include_str!("manual/cache.roff");
pub(super) const EXPLAIN: &str = include_str!("manual/explain.roff");
const SERVER: &str = include_str!("manual/tsubame.roff");
const SEE_ALSO: &str = "\
.SH SEE ALSO
.BR tsubame\\-bundle (8),
.BR tsubame\\-cache (8),
.BR tsubame\\-check (8),
.BR tsubame\\-ctl (8),
.BR tsubame\\-explain (8),
.BR tsubame\\-lab (1),
.BR apache2 (8)
";

/// Writes the text of `--help` as roff: usage, headings, paragraphs, lines of options, and lines to show verbatim.
fn options(out: &mut String, help: &str) {
    let (mut verbatim, mut after_blank, mut heading) = (false, false, "");
    let mut lines = help.lines().peekable();
    while let Some(line) = lines.next() {
        let text = line.trim();
        if let Some(usage) = line.strip_prefix("Usage: ") {
            let _ = writeln!(out, ".SH SYNOPSIS\n.nf\n{}", escape(usage));
            (verbatim, heading) = (true, "SYNOPSIS");
            continue;
        }
        let item = item(text);
        if verbatim && (text.is_empty() || item.is_some() || !line.starts_with(' ')) {
            out.push_str(".fi\n");
            verbatim = false;
        }
        if text.is_empty() {
            after_blank = true;
            continue;
        }
        // A paragraph may end its first line with a colon too.
        let heads = !line.starts_with(' ') && lines.peek().is_some_and(|next| next.starts_with(' '));
        let title = text.strip_suffix(':').filter(|_| heads);
        if heading == "SYNOPSIS" && !verbatim && title.is_none() && item.is_none() {
            (heading, after_blank) = ("DESCRIPTION", false);
            out.push_str(".SH DESCRIPTION\n");
        }
        if let Some(title) = title {
            let (title, remark) = title.split_once(" (").unwrap_or((title, ""));
            let _ = writeln!(out, ".SH {}", escape(&title.to_uppercase()));
            if !remark.is_empty() {
                let _ = writeln!(out, "{}", escape(remark.trim_end_matches(')')));
            }
            heading = title;
        } else if let Some((term, meaning)) = item {
            if term.starts_with('-') && after_blank && heading != "OPTIONS" {
                heading = "OPTIONS";
                out.push_str(".SH OPTIONS\n");
            }
            let _ = writeln!(out, ".TP\n.B {}\n{}", escape(term), escape(meaning));
        } else if line.starts_with(' ') {
            if !verbatim {
                out.push_str(".PP\n.nf\n");
                verbatim = true;
            }
            let _ = writeln!(out, "{}", escape(text));
        } else {
            let break_before = if after_blank { ".PP\n" } else { "" };
            let _ = writeln!(out, "{break_before}{}", escape(text));
        }
        after_blank = false;
    }
    if verbatim {
        out.push_str(".fi\n");
    }
}

/// Splits an option, an exit status, or a list of names, from its meaning. A colon separates them, or two spaces after an
/// option and a status.
fn item(text: &str) -> Option<(&str, &str)> {
    let name = |c: char| c.is_ascii_uppercase() || matches!(c, '_' | ',' | ' ');
    let (term, meaning) = match text.chars().next()? {
        '-' => text.split_once("  ").or_else(|| text.split_once(':'))?,
        '0'..='9' => text.split_once("  ")?,
        _ => text.split_once(':').filter(|(term, _)| term.chars().all(name))?,
    };
    Some((term.trim(), meaning.trim_start_matches([' ', ':'])))
}

fn directives(out: &mut String, infos: &[&'static ModuleInfo]) {
    out.push_str(".SH DIRECTIVES\nThe directives of each module; what they take is in docs/directives.md.\n");
    let mut last = String::new();
    for info in infos.iter().filter(|info| !info.directives.is_empty()) {
        let mut names: Vec<String> = info
            .directives
            .iter()
            .map(|row| if row.name.starts_with('<') { format!("{}>", row.name) } else { row.name.into() })
            .collect();
        names.sort_by_key(|name| name.trim_start_matches('<').to_ascii_lowercase());
        let title = title(info);
        let head = if title == last { ".PP".to_string() } else { format!(".TP\n.B {}", escape(&title)) };
        let _ = writeln!(out, "{head}\n{}", escape(&names.join(", ")));
        last = title;
    }
}

/// Escapes text so that roff prints it unchanged.
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
        let page = server(help, &[]).expect("it has a name");
        assert!(page.contains(".SH NAME\ntsubame \\- a web server\n"));
        assert!(
            page.contains(".SH A LOOK\n.PP\n.nf\ntsubame .  now\n.fi\n.SH OPTIONS\n.TP\n.B \\-f file\nread \\efile\n")
        );
        assert!(page.contains(".SH NAMES\n.TP\n.B A, B_C\nboth\n"));
    }

    #[test]
    fn a_subcommand_has_a_page_of_its_own() {
        let help = "demo look: looks\n\nUsage: demo look [-a] URL\n       demo look -b\n\nIt looks:\ntwice.\n\nOptions:\n  \
                    -a            at all\n  --field 'A: B'  a field\n\nInstead (of all):\n  --b  b\n\nExit status:\n  0  good\n";
        let page = page(help, "", "").expect("it has a name");
        let (_, text) = page.split_once(".TH DEMO\\-LOOK 8 ").expect("a title");
        let want = "\n.SH NAME\ndemo\\-look \\- looks\n.SH SYNOPSIS\n.nf\ndemo look [\\-a] URL\ndemo look \\-b\n.fi\n\
                    .SH DESCRIPTION\nIt looks:\ntwice.\n.SH OPTIONS\n.TP\n.B \\-a\nat all\n.TP\n.B \\-\\-field 'A: B'\na field\n\
                    .SH INSTEAD\nof all\n.TP\n.B \\-\\-b\nb\n.SH EXIT STATUS\n.TP\n.B 0\ngood\n";
        assert!(text.ends_with(want), "{text}");
    }

    #[test]
    fn no_line_is_a_command_by_chance() {
        assert_eq!(escape(".htaccess"), "\\&.htaccess");
    }
}

//! The manual page of the laboratory, made from the tables of its command line.

use std::io::{self, Write as _};

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::cli::Cli;
use crate::frontends::load::scenario;
use crate::machine::error::{Context as _, Result};

/// What the tables do not say, in roff.
const REST: &str = "\
.SH EXIT STATUS
.TP
.B 0
It did what you asked.
.TP
.B 1
It could not; standard error says why.
.TP
.B 2
The command line is wrong.
.SH FILES
.TP
.I report.html, report.md, setup.txt, results.json, raw.csv
Files that a run leaves in the directory of
.BR \\-\\-out .
.SH EXAMPLES
How fast is this page, with 50 clients, for ten seconds?
.PP
.RS
.EX
tsubame\\-lab load \\-c 50 \\-d 10 http://127.0.0.1:8080/
.EE
.RE
.PP
Is the new configuration faster than the old one?
.PP
.RS
.EX
tsubame\\-lab compare \\-\\- old.conf new.conf
.EE
.RE
.SH SEE ALSO
.BR tsubame (8),
.BR ab (1)
";

/// Prints the page: the program, then the options of each command.
pub(crate) fn print() -> Result<()> {
    let text = page().context(|| "make the manual page".into())?;
    say_line!("{}", text.trim_end());
    Ok(())
}

fn page() -> io::Result<String> {
    let command = Cli::command();
    let mut out = Vec::new();
    let man = Man::new(command.clone()).section("1").manual("User commands");
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        section(&mut out, sub)?;
    }
    // Its first line is a heading, and what follows is a list in columns.
    let steps = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (heading, steps) = steps.split_once('\n').unwrap_or_default();
    writeln!(out, ".SH {}\n.nf\n{}\n.fi", heading.trim_end_matches(':').to_uppercase(), steps.replace('-', "\\-"))?;
    out.extend(REST.bytes());
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// A command: what it does, the commands below it, and its options under their headings.
fn section(out: &mut Vec<u8>, command: &Command) -> io::Result<()> {
    let purpose = |command: &Command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        format!("{}.", about.trim_end_matches('.').replace('-', "\\-"))
    };
    let name = command.get_name();
    writeln!(out, ".SH {}\n{}", name.to_uppercase(), purpose(command))?;
    for below in command.get_subcommands() {
        writeln!(out, ".TP\n.B {name} {}\n{}", below.get_name(), purpose(below))?;
    }
    let mut options = Vec::new();
    Man::new(command.clone().disable_help_flag(true)).render_options_section(&mut options)?;
    let options = String::from_utf8_lossy(&options).replacen(".SH OPTIONS\n", "", 1).replace("\n.SH ", "\n.SS ");
    out.extend(options.bytes());
    if name == "load" { scenarios(out) } else { Ok(()) }
}

/// The lines of the files of `load --scenario`.
fn scenarios(out: &mut Vec<u8>) -> io::Result<()> {
    let escaped = |text: &str| text.replace('-', "\\-").replace(' ', "\\ ");
    writeln!(out, ".SS Lines of a scenario")?;
    for (line, meaning) in scenario::LINES {
        writeln!(out, ".TP\n\\fB{}\\fR\n{}", escaped(line), meaning.replace('-', "\\-"))?;
    }
    let rules = scenario::RULES.replace("\n\n", "\n.PP\n");
    writeln!(out, ".PP\n{}", rules.replace('-', "\\-").replace('\'', "\\(aq"))
}

//! Applies a tree: finds each directive in the tables, checks its place, parses its words, calls its function.

use crate::allowed::Allowed;
use crate::arguments::{help, section_argument, take, until_empty};
use crate::context::DirectiveContext;
use crate::directive::{Args, Cmd, Context};
use crate::error::{Cause, Error, Level, Phase};
use crate::excerpt::Spot;
use crate::refusal::{Failure, InArgument as _, Refusal};
use crate::settings::SettingsMap;
use crate::tree::Node;
use crate::values;

/// Applies directives in order. [`Context::errors`] decides whether an error ends it or is kept.
pub fn apply(
    nodes: &[Node],
    server: &mut SettingsMap,
    dir: &mut SettingsMap,
    place: &DirectiveContext,
    context: &mut Context,
) -> Result<(), Error> {
    for node in nodes {
        let (rows, said) = (context.language.directives(&node.name), context.notices.len());
        if rows.is_empty() {
            unknown(node, place, context).or_else(|error| go_on(node, place, context, error))?;
        }
        for row in rows {
            let mut cmd = Cmd { node, row, server, dir, place, context };
            if let Err(failure) = apply_line(&mut cmd) {
                meet(node, place, context, failure)?;
            }
        }
        // Notices of lines inside a section already have their origin.
        for notice in &mut context.notices[said..] {
            notice.origin.get_or_insert_with(|| node.origin.clone());
        }
    }
    Ok(())
}

/// Applies a line with the function of one of its rows.
fn apply_line(cmd: &mut Cmd<'_>) -> Result<(), Failure> {
    if allowed(cmd)? { invoke(cmd) } else { Ok(()) }
}

/// Keeps an error of a line, or returns it if it ends the reading.
fn meet(node: &Node, place: &DirectiveContext, context: &mut Context, failure: Failure) -> Result<(), Error> {
    match failure {
        Failure::Refused(refusal) => {
            let error = refusal.error(Phase::Apply, Some(&node.origin), &node.args);
            go_on(node, place, context, error)
        }
        Failure::Inner(error) => context.errors.meet(*error),
    }
}

/// Keeps an error, or returns it if it ends the reading. The contents of a faulty section were not applied yet: applies
/// them now, without effect and allowed in any context, to find the errors inside.
fn go_on(node: &Node, place: &DirectiveContext, context: &mut Context, error: Error) -> Result<(), Error> {
    context.errors.meet(error)?;
    let Some(children) = &node.children else { return Ok(()) };
    let mut inside = place.clone();
    inside.enclosing.push(node.name.clone());
    inside.allowed = Allowed::AT_SERVER_LEVEL.or(Allowed::IN_SECTION);
    apply(children, &mut SettingsMap::default(), &mut SettingsMap::default(), &inside, context)
}

impl Cmd<'_> {
    /// Applies the contents of this section to `dir` (and `server`, for a virtual host).
    pub fn apply_children(
        &mut self,
        server: Option<&mut SettingsMap>,
        dir: &mut SettingsMap,
        place: &DirectiveContext,
    ) -> Result<(), Error> {
        let children = self.node.children.as_deref().unwrap_or_default();
        apply(children, server.unwrap_or(self.server), dir, place, self.context)
    }
}

fn unknown(node: &Node, place: &DirectiveContext, context: &mut Context) -> Result<(), Error> {
    if place.skip_unknown {
        let text = format!(
            "AH02296: Unknown directive {} perhaps misspelled or defined by a module not included in the server \
             configuration",
            node.name.to_ascii_lowercase()
        );
        context.note("core", Level::Warn, text);
        return Ok(());
    }
    let message = format!(
        "Invalid command '{}', perhaps misspelled or defined by a module not included in the server configuration",
        node.name
    );
    let error = Error::at(Phase::Apply, &node.origin, message).of(Spot::Word(0));
    Err(error.because(Cause::UnknownDirective(node.name.clone())))
}

/// Whether the directive is allowed here; `Ok(false)` skips it.
fn allowed(cmd: &mut Cmd<'_>) -> Result<bool, Refusal> {
    let (row, place) = (cmd.row, cmd.place);
    let listed = || place.list.as_ref().is_some_and(|list| list.contains(&row.name.to_ascii_lowercase()));
    if !row.allowed.meets(place.allowed) && !listed() {
        if place.skip_forbidden {
            let text = format!("AH02295: {} in .htaccess forbidden by AllowOverride", row.name);
            cmd.context.note("core", Level::Warn, text);
            return Ok(false);
        }
        let message = match place.enclosing.last() {
            Some(section) => format!("{} not allowed in {section}> context", row.name),
            None => format!("{} not allowed here", row.name),
        };
        return Err(Refusal::from(message).at(Spot::Word(0)).because(Cause::NotAllowed));
    }
    if row.allowed.global_only() && place.virtual_host {
        return Err(cmd.cannot_occur("<VirtualHost> section"));
    }
    Ok(true)
}

fn invoke(cmd: &mut Cmd<'_>) -> Result<(), Failure> {
    let row = cmd.row;
    let line = &cmd.node.args;
    let name = row.name;
    let word = |words: &[String], i: usize| words.get(i).cloned().unwrap_or_default();
    match &row.args {
        Args::None(set) => {
            if !line.is_empty() {
                return Err(Refusal::surplus(1, format!("{name} takes no arguments")).into());
            }
            set(cmd)
        }
        Args::Take1(set) => set(cmd, &take(row, line, &[1])?[0]),
        Args::Take2(set) => {
            let words = take(row, line, &[2])?;
            set(cmd, &words[0], &words[1])
        }
        Args::Take12(set) => {
            let words = take(row, line, &[1, 2])?;
            set(cmd, &words[0], words.get(1).map(String::as_str))
        }
        Args::Take3(set) => {
            let words = take(row, line, &[3])?;
            set(cmd, &words[0], &words[1], &words[2])
        }
        Args::Take23(set) => {
            let words = take(row, line, &[2, 3])?;
            set(cmd, &words[0], &words[1], words.get(2).map(String::as_str))
        }
        Args::Take123(set) => {
            let words = take(row, line, &[1, 2, 3])?;
            set(cmd, &words[0], words.get(1).map(String::as_str), words.get(2).map(String::as_str))
        }
        Args::Take13(set) => {
            let words = take(row, line, &[1, 3])?;
            set(cmd, &words[0], words.get(1).map(String::as_str), words.get(2).map(String::as_str))
        }
        Args::Iterate(set) => {
            let words = until_empty(line);
            if words.is_empty() {
                return Err(Refusal::missing(format!("{name} requires at least one argument{}", help(row))).into());
            }
            words.iter().zip(1..).try_for_each(|(word, number)| set(cmd, word).in_argument(number))
        }
        Args::Iterate2(set) => {
            let words = until_empty(line);
            if words.len() < 2 {
                return Err(Refusal::missing(format!("{name} requires at least two arguments{}", help(row))).into());
            }
            words[1..].iter().zip(2..).try_for_each(|(second, number)| set(cmd, &words[0], second).in_argument(number))
        }
        Args::Flag(set) => {
            let words = crate::words::words(line);
            match values::on_off(&word(&words, 0)) {
                Some(on) => set(cmd, on),
                None => return Err(Refusal::argument(1, format!("{name} must be On or Off")).into()),
            }
        }
        Args::Words(set) => set(cmd, &crate::words::words(line)),
        Args::Raw(set) => set(cmd, line),
        Args::Section(set) => {
            let argument = section_argument(name, line)?;
            return set(cmd, argument);
        }
        // Reached only if a module lists it twice; the reader has already run it.
        Args::OnRead(_) => Ok(()),
    }
    .map_err(Failure::Refused)
}

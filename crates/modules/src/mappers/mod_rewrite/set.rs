//! The functions of the directives, and their errors.

use std::sync::Arc;

use conf::expr::Expr;
use conf::pattern::{self, Regex};
use conf::values::atoi;
use conf::{Cmd, DirectiveContext, InArgument as _, Level, Outcome, Refusal};

use super::flags::{self, Flags, Given};
use super::maps::program::Program;
use super::maps::sql::Sql;
use super::maps::text::TextFile;
use super::maps::{INTERNAL, Map};
use super::rule::{Condition, Operator, Rule, Test};
use super::rules::{Choices, Rules};
use super::settings::{RewriteDir, RewriteServer};
use super::template::Template;
use crate::aaa::dbm;
use crate::database;

/// The default limit of `N`.
const ROUNDS: i32 = 32_000;

/// The directory of a section's rules, in Apache's form; `None`: the line is outside sections.
pub(super) fn directory(place: &DirectiveContext) -> Option<String> {
    const CONDITIONAL: [&str; 3] = ["<if", "<elseif", "<else"];
    const NAMED: [&str; 7] =
        ["<directory", "<directorymatch", "<location", "<locationmatch", "<files", "<filesmatch", "<proxy"];
    let mut names = place.enclosing.iter().rev().map(|name| name.to_ascii_lowercase());
    let innermost = names.find(|name| CONDITIONAL.contains(&name.as_str()) || NAMED.contains(&name.as_str()));
    if innermost.is_some_and(|name| CONDITIONAL.contains(&name.as_str())) {
        return Some("*If/".into());
    }
    place.path.as_ref().map(|path| if path.ends_with('/') { path.to_string() } else { format!("{path}/") })
}

/// The rules that a line belongs to: the server's, or the section's.
fn rules<'a>(cmd: &'a mut Cmd<'_>) -> &'a mut Rules {
    // A virtual host with any of these directives has rules of its own, even without any rule.
    let directory = directory(cmd.place);
    let server = cmd.server.edit::<RewriteServer>();
    server.rules.of_host |= cmd.place.virtual_host;
    match directory {
        None => &mut server.rules,
        Some(directory) => {
            let rules = &mut cmd.dir.edit::<RewriteDir>().rules;
            rules.directory = Some(directory.into());
            rules
        }
    }
}

pub(super) fn engine(cmd: &mut Cmd<'_>, on: bool) -> Outcome {
    let origin = cmd.origin();
    // Outside sections it applies to both: the server's own rules, and sections without a setting.
    rules(cmd).engine.set(on, &origin);
    cmd.dir.edit::<RewriteDir>().rules.engine.set(on, &origin);
    Ok(())
}

pub(super) fn options(cmd: &mut Cmd<'_>, words: &str) -> Outcome {
    let mut choices = Choices::default();
    for word in words.split_ascii_whitespace() {
        if word.get(..13).is_some_and(|start| start.eq_ignore_ascii_case("MaxRedirects=")) {
            let text = "AH00664: RewriteOptions: MaxRedirects option has been removed in favor of the global \
                        LimitInternalRecursion directive and will be ignored.";
            cmd.context.note("rewrite", Level::Warn, text);
            continue;
        }
        let known = Choices::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        let (_, choice) = known.ok_or_else(|| format!("RewriteOptions: unknown option '{word}'"))?;
        choices = choices.or(*choice);
    }
    let origin = cmd.origin();
    rules(cmd).choose(choices, &origin);
    if directory(cmd.place).is_none() {
        cmd.dir.edit::<RewriteDir>().rules.choose(choices, &origin);
    }
    Ok(())
}

pub(super) fn base(cmd: &mut Cmd<'_>, url: &str) -> Outcome {
    match url {
        _ if directory(cmd.place).is_none() => {
            return Err("RewriteBase: only valid in per-directory config files".into());
        }
        "" => return Err("RewriteBase: empty URL not allowed".into()),
        url if !url.starts_with('/') => return Err("RewriteBase: argument is not a valid URL".into()),
        _ => {}
    }
    let origin = cmd.origin();
    rules(cmd).base.set(url.into(), &origin);
    Ok(())
}

pub(super) fn condition(cmd: &mut Cmd<'_>, line: &str) -> Outcome {
    let [input, pattern, flags] =
        arguments(line).ok_or_else(|| format!("RewriteCond: bad argument line '{}'", line.trim_start()))?;
    let (mut no_case, mut or_next, mut no_vary) = (false, false, false);
    if let Some(flags) = flags {
        flags::each(flags, |key, _| {
            match key.to_ascii_lowercase().as_str() {
                "nocase" | "nc" => no_case = true,
                "ornext" | "or" => or_next = true,
                "novary" | "nv" => no_vary = true,
                _ => return Err(format!("unknown flag '{key}'")),
            }
            Ok(())
        })
        .map_err(|why| format!("RewriteCond: {why}"))
        .in_argument(3)?;
    }
    let (input, pattern) = (input.unwrap_or_default(), pattern.unwrap_or_default());
    let (mut negated, bare) = match pattern.strip_prefix('!') {
        Some(bare) => (true, bare),
        None => (false, pattern),
    };
    let (test, behind) = match test(input, bare, &mut negated) {
        Some(found) => found,
        None if input.eq_ignore_ascii_case("expr") => {
            let place = if cmd.place.htaccess { " in htaccess context" } else { "" };
            let expr = Expr::parse_with(bare, cmd.expr_options())
                .map_err(|why| format!("RewriteCond: cannot compile expression{place} \"{bare}\" {why}"))
                .in_argument(2)?;
            (Test::Expr(Box::new(expr)), bare)
        }
        None => (Test::Pattern(compile(cmd, (2, usize::from(negated)), bare, no_case)?), bare),
    };
    if no_case && !matches!(test, Test::Pattern(_) | Test::Text(..)) {
        let at = cmd.origin();
        let text = format!(
            "AH00665: RewriteCond: NoCase option for non-regex pattern '{behind}' is not supported and will be ignored. \
             ({}:{})",
            at.file(),
            at.line
        );
        cmd.context.note("rewrite", Level::Warn, text);
        no_case = false;
    }
    let condition = Condition {
        input: Template::parse(input),
        pattern: pattern.to_string(),
        test,
        negated,
        no_case,
        or_next,
        no_vary,
        origin: cmd.origin(),
    };
    rules(cmd).pending.push(Arc::new(condition));
    Ok(())
}

/// A test other than a regular expression, and the part after its operator.
fn test<'a>(input: &str, pattern: &'a str, negated: &mut bool) -> Option<(Test, &'a str)> {
    if input.eq_ignore_ascii_case("expr") || pattern.len() < 2 {
        return None;
    }
    let file = match pattern {
        "-f" => Some(Test::Regular),
        "-s" => Some(Test::NonEmpty),
        "-d" => Some(Test::Directory),
        "-x" => Some(Test::Executable),
        "-h" | "-l" | "-L" => Some(Test::Link),
        "-U" => Some(Test::Url),
        "-F" => Some(Test::Subrequest),
        _ => None,
    };
    if let Some(test) = file {
        return Some((test, pattern));
    }
    // `-ne` is the negation of `-eq`.
    const NUMBERS: [(&str, Operator, bool); 6] = [
        ("-lt", Operator::Less, false),
        ("-le", Operator::LessOrEqual, false),
        ("-gt", Operator::Greater, false),
        ("-ge", Operator::GreaterOrEqual, false),
        ("-eq", Operator::Equal, false),
        ("-ne", Operator::Equal, true),
    ];
    for (name, operator, inverted) in NUMBERS {
        if let Some(behind) = pattern.strip_prefix(name).filter(|behind| !behind.is_empty()) {
            *negated ^= inverted;
            return Some((Test::Number(operator, atoi(behind)), behind));
        }
    }
    const TEXTS: [(&str, Operator); 5] = [
        (">=", Operator::GreaterOrEqual),
        (">", Operator::Greater),
        ("<=", Operator::LessOrEqual),
        ("<", Operator::Less),
        ("=", Operator::Equal),
    ];
    let (operator, behind) =
        TEXTS.into_iter().find_map(|(name, operator)| Some((operator, pattern.strip_prefix(name)?)))?;
    let behind = if operator == Operator::Equal && behind == "\"\"" { "" } else { behind };
    Some((Test::Text(operator, behind.to_string()), behind))
}

pub(super) fn rule(cmd: &mut Cmd<'_>, line: &str) -> Outcome {
    let [pattern, output, flags] =
        arguments(line).ok_or_else(|| format!("RewriteRule: bad argument line '{}'", line.trim_start()))?;
    let (pattern, output) = (pattern.unwrap_or_default(), output.unwrap_or_default());
    let mut given = Given::new(ROUNDS);
    if let Some(flags) = flags {
        let taken = flags::each(flags, |key, value| given.take(key, value));
        taken.map_err(|why| format!("RewriteRule: {why}")).in_argument(3)?;
    }
    let pattern = match pattern.strip_prefix('!') {
        Some(bare) => {
            given.flags = given.flags.or(Flags::NEGATED);
            bare
        }
        None => pattern,
    };
    let before = usize::from(given.flags.any(Flags::NEGATED));
    let regex = compile(cmd, (1, before), pattern, given.flags.any(Flags::NO_CASE))?;
    if output == "-" {
        given.flags = given.flags.or(Flags::AS_IS);
    }
    let output = ending(output, &mut given.flags);
    let origin = cmd.origin();
    let rules = rules(cmd);
    let rule = Rule {
        pattern: pattern.to_string(),
        regex,
        conditions: std::mem::take(&mut rules.pending),
        output: output.to_string(),
        substitution: Template::parse(output),
        given,
        has_references: false,
        refers_to_conditions: false,
        origin: origin.clone(),
    }
    .with_references();
    rules.list.push((Arc::new(rule), origin));
    Ok(())
}

/// A `?` at the end of a substitution removes the query; with `QSA` it only leaves nothing to append to.
fn ending<'a>(output: &'a str, flags: &mut Flags) -> &'a str {
    match output.strip_suffix('?') {
        Some(_) if flags.any(Flags::QUERY_APPEND) => {
            *flags = flags.or(Flags::QUERY_LAST);
            output
        }
        Some(before) => {
            *flags = flags.or(Flags::QUERY_NONE);
            before
        }
        None => {
            if flags.any(Flags::QUERY_DISCARD) && !output.contains('?') {
                *flags = flags.or(Flags::QUERY_NONE);
            }
            output
        }
    }
}

/// Compiles a pattern: argument `number` without its first `before` bytes.
fn compile(cmd: &Cmd<'_>, (number, before): (usize, usize), pattern: &str, no_case: bool) -> Result<Regex, Refusal> {
    let flags = if no_case { pattern::Flags::ignoring_case() } else { pattern::Flags::default() };
    Regex::new(pattern, flags).map_err(|error| {
        let message = format!("{}: cannot compile regular expression '{pattern}'", cmd.row.name);
        Refusal::pattern(number, before, &error, message)
    })
}

/// Two or three arguments. They are parsed differently from those of other directives: a backslash stays, and only
/// keeps a blank in its word. Anything after the third is ignored.
fn arguments(line: &str) -> Option<[Option<&str>; 3]> {
    let mut rest = line.trim_start();
    let mut found = [None; 3];
    for (number, place) in found.iter_mut().enumerate() {
        if number == 2 && rest.is_empty() {
            break;
        }
        let (word, behind) = argument(rest);
        // The first one must have an end.
        if number == 0 && behind.is_none() {
            return None;
        }
        *place = Some(word);
        rest = behind.unwrap_or_default().trim_start();
    }
    Some(found)
}

/// The next argument, and the part after the character that ends it.
fn argument(text: &str) -> (&str, Option<&str>) {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let text = if quote.is_some() { &text[1..] } else { text };
    let is_end = |c: char| quote.map_or(c.is_ascii_whitespace(), |quote| c == quote);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if is_end(c) {
            return (&text[..at], Some(&text[at + 1..]));
        }
        if c == '\\' && chars.peek().is_some_and(|(_, next)| next.is_ascii_whitespace()) {
            chars.next();
        }
    }
    (text, None)
}

/// `RewriteMap`
pub(super) fn add_map(cmd: &mut Cmd<'_>, name: &str, source: &str, owner: Option<&str>) -> Outcome {
    let (kind, rest) = source.split_once(':').unwrap_or(("", source));
    let text = |cmd: &Cmd<'_>, path: &str, random| {
        let path = cmd.context.server_relative(path);
        if !cmd.context.system.exists(&path) {
            return Err(Refusal::argument(2, format!("RewriteMap: file for map {name} not found:{path}")));
        }
        Ok(Map::Text { file: Arc::new(TextFile::new(path)), random })
    };
    let map = match kind.to_ascii_lowercase().as_str() {
        "txt" => text(cmd, rest, false)?,
        "rnd" => text(cmd, rest, true)?,
        "int" => match INTERNAL.iter().find(|(known, _)| *known == rest) {
            Some((_, function)) => Map::Internal(*function),
            None => return Err(Refusal::argument(2, format!("RewriteMap: internal map not found:{rest}"))),
        },
        kind @ ("dbd" | "fastdbd") => {
            if !database::is_loaded(cmd) {
                return Err(Refusal::argument(2, "RewriteMap types dbd and fastdbd require mod_dbd!"));
            }
            Map::Sql(Sql::new(database::prepare(cmd, "rewrite", rest), kind == "fastdbd"))
        }
        "prg" => Map::Program(Program::new(cmd, name, rest, owner).in_argument(2)?),
        // As in Apache, this includes files whose names begin like that.
        _ if source.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("dbm")) => {
            Map::Dbm(dbm_file(cmd, name, source).in_argument(2)?)
        }
        _ => text(cmd, source, false)?,
    };
    let origin = cmd.origin();
    let rules = &mut cmd.server.edit::<RewriteServer>().rules;
    rules.of_host |= cmd.place.virtual_host;
    rules.maps.insert(name.to_string(), (Arc::new(map), origin));
    Ok(())
}

/// `dbm:FILE`, or `dbm=TYPE:FILE`.
fn dbm_file(cmd: &Cmd<'_>, name: &str, source: &str) -> Result<dbm::Named, String> {
    let bad = || format!("RewriteMap: bad map:{source}");
    let (start, path) = source.split_once(':').ok_or_else(bad)?;
    let kind = match start.get(3..).unwrap_or_default() {
        "" => "default",
        rest => rest.strip_prefix('=').ok_or_else(bad)?,
    };
    let file = dbm::Named { path: Some(cmd.context.server_relative(path)), kind: kind.into() };
    let paths = file.paths().ok_or_else(|| format!("RewriteMap: dbm type {kind} is invalid"))?;
    match paths.iter().find(|path| !cmd.context.system.exists(path)) {
        Some(path) => Err(format!("RewriteMap: file for map {name} not found:{path}")),
        None => Ok(file),
    }
}

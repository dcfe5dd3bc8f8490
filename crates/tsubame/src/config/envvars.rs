//! Debian's `envvars`: a shell file beside the main file of a configuration, whose variables the configuration needs. Apache
//! gets them from `apache2ctl`; a program that is called directly lacks them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Once;

use crate::cli::{self, Options};
use crate::messages;

/// The name of the file.
const NAME: &str = "envvars";
/// How the names of its variables begin.
const OURS: &str = "APACHE_";

/// Reads the file beside `main`, if variables of it are not set, and says so. Nothing of it is executed.
pub(crate) fn read_beside(options: &Options, main: &str) {
    static ONCE: Once = Once::new();
    // Under a name of httpd, the program does what httpd does.
    if !cli::is_httpd_name(&options.program) {
        ONCE.call_once(|| {
            if let Some((file, variables)) = missing(main) {
                let names: Vec<&str> = variables.keys().map(String::as_str).collect();
                messages::print(
                    options,
                    &format!("{file} was read for variables that are not set: {}", names.join(", ")),
                );
                server::machine::supply(variables);
            }
        });
    }
}

/// The path of the file, and the variables in it that the environment lacks.
fn missing(main: &str) -> Option<(String, BTreeMap<String, String>)> {
    let directory = Path::new(main).parent()?;
    let path = directory.join(NAME);
    if !path.is_file() {
        return None;
    }
    // `/etc/apache2-NAME` is another instance, with files of its own.
    let instance = directory.file_name()?.to_str()?.strip_prefix("apache2-");
    let suffix = instance.map_or_else(String::new, |name| format!("-{name}"));
    let text = std::fs::read_to_string(&path).ok()?;
    let environment = |name: &str| std::env::var(name).ok();
    let mut variables = assignments(&text, &suffix, &environment);
    variables.retain(|name, _| name.starts_with(OURS) && environment(name).is_none());
    (!variables.is_empty()).then(|| (path.display().to_string(), variables))
}

/// The plain assignments of a shell file, outside conditions. Lines that would have to be executed are left out.
fn assignments(text: &str, suffix: &str, environment: &dyn Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let mut known = BTreeMap::from([("SUFFIX".to_string(), suffix.to_string())]);
    let mut inside = 0usize;
    for line in text.lines().map(str::trim) {
        match line.split_whitespace().next() {
            Some("if" | "case") => inside += 1,
            Some("fi" | "esac") => inside = inside.saturating_sub(1),
            _ if inside == 0 => {
                let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
                if let Some((name, value)) = line.split_once('=')
                    && !name.is_empty()
                    && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                    && let Some(value) = word(value, &|name| known.get(name).cloned().or_else(|| environment(name)))
                {
                    known.insert(name.to_string(), value);
                }
            }
            _ => {}
        }
    }
    known.remove("SUFFIX");
    known
}

/// The first word of a shell's line, with its variables replaced. `None`: it takes a shell to know it.
fn word(text: &str, value: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let (mut out, mut rest, mut quote) = (String::new(), text, None);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\'' | '"' if quote.is_none() => quote = Some(c),
            _ if quote == Some(c) => quote = None,
            '$' if quote != Some('\'') => {
                let braced = rest.strip_prefix('{');
                let name = braced.unwrap_or(rest);
                let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
                let (name, after) = name.split_at(end);
                if name.is_empty() {
                    return None;
                }
                rest = if braced.is_some() { after.strip_prefix('}')? } else { after };
                out += &value(name).unwrap_or_default();
            }
            '`' | '\\' if quote != Some('\'') => return None,
            ' ' | '\t' | ';' | '&' | '|' | '#' if quote.is_none() => break,
            _ => out.push(c),
        }
    }
    quote.is_none().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_assignments_are_read() {
        let text = "unset HOME\n# a comment\nif [ x != y ] ; then\n\tSUFFIX=\"-z\"\nelse\n\tSUFFIX=\nfi\n\
            export APACHE_RUN_USER=www-data # who\nexport APACHE_RUN_DIR=/var/run/apache2$SUFFIX\n\
            A='$B c'\nexport APACHE_X=\"${A} d\"; export LANG\nAPACHE_Y=$(date)\nAPACHE_Z=`date`\n\
            export APACHE_LOG=${HOME:-x}\nAPACHE_HOME=$HOME\nAPACHE_OPEN='x\n";
        let environment = |name: &str| (name == "HOME").then(|| "/home/joe".to_string());
        let found = assignments(text, "-two", &environment);
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            found,
            [
                ("A", "$B c"),
                ("APACHE_HOME", "/home/joe"),
                ("APACHE_RUN_DIR", "/var/run/apache2-two"),
                ("APACHE_RUN_USER", "www-data"),
                ("APACHE_X", "$B c d"),
            ]
        );
    }
}

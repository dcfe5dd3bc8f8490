//! `<Macro>` and `Use`: lines with parameters, replaced as text (Apache manual, mod_macro).

use crate::read::input::{Input, Stop};
use crate::source::Origin;
use crate::words::{next_word, words};

/// A defined macro.
#[derive(Debug)]
pub(crate) struct Macro {
    /// The name, in lower case.
    pub(crate) name: String,
    parameters: Vec<String>,
    lines: Vec<String>,
    defined: Origin,
}

/// Reads the body of `<Macro NAME PARAMETER…>`. Also returns warnings about its parameters.
pub(super) fn define(head: &str, origin: &Origin, input: &mut Input) -> Result<(Macro, Vec<String>), Stop> {
    let mut parameters = words(head);
    if parameters.is_empty() {
        return Err("<Macro> macro definition: name not specified".into());
    }
    let name = parameters.remove(0).to_ascii_lowercase();
    if let Some(bad) = parameters.iter().find(|p| p.is_empty() || p.as_str() == "$") {
        return Err(format!("macro '{name}': empty or bare parameter name '{bad}'").into());
    }
    let mut warnings = Vec::new();
    for (i, parameter) in parameters.iter().enumerate() {
        if parameters[..i].contains(parameter) {
            return Err(format!("argument name conflict in macro '{name}': '{parameter}' is given twice").into());
        }
        if parameter.starts_with("${") {
            warnings.push(format!("macro '{name}': parameter '{parameter}' looks like a config variable"));
        }
    }
    Ok((Macro { name, parameters, lines: body(input)?, defined: origin.clone() }, warnings))
}

/// Reads the lines up to the closing `</Macro>`: keeps empty ones, drops comments.
fn body(input: &mut Input) -> Result<Vec<String>, Stop> {
    let mut lines = Vec::new();
    let mut depth = 0usize;
    while let Some((_, line)) = input.next_or_blank()? {
        let mut rest = line.as_str();
        let word = next_word(&mut rest).to_ascii_lowercase();
        match word.as_str() {
            "</macro>" if depth == 0 => return Ok(lines),
            "</macro>" => depth -= 1,
            "<macro" => depth += 1,
            _ => {}
        }
        lines.push(line);
    }
    Err("expected token not found: </Macro>".into())
}

impl Macro {
    /// The text with the parameters replaced, and warnings about the values.
    pub(crate) fn expand(&self, values: &[String], line_max: usize) -> Result<(Vec<u8>, Vec<String>), String> {
        if values.len() != self.parameters.len() {
            let (given, wanted) = (values.len(), self.parameters.len());
            return Err(format!("{} used with {given} arguments instead of {wanted}", self.definition()));
        }
        let warnings = self.parameters.iter().zip(values).filter(|(_, value)| value.is_empty());
        let warnings = warnings.map(|(name, _)| format!("macro '{}': empty value for '{name}'", self.name)).collect();
        let mut text = Vec::new();
        for line in &self.lines {
            let line = self.replace(line, values, line_max);
            if line.len() > line_max || text.len() > super::TEXT_MAX {
                let name = &self.name;
                return Err(format!("with its values the text of macro '{name}' becomes too long"));
            }
            text.extend_from_slice(&http::text::to_bytes(&line));
            text.push(b'\n');
        }
        Ok((text, warnings))
    }

    /// Replaces parameters in a line; where several match, the longest one. Stops when it is longer than `line_max`.
    fn replace(&self, line: &str, values: &[String], line_max: usize) -> String {
        let mut out = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(c) = rest.chars().next()
            && out.len() <= line_max
        {
            let here = self.parameters.iter().zip(values).filter(|(name, _)| rest.starts_with(name.as_str()));
            match here.max_by_key(|(name, _)| name.len()) {
                Some((name, value)) => {
                    if name.starts_with('@') {
                        out.push_str(&format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")));
                    } else {
                        out.push_str(value);
                    }
                    rest = &rest[name.len()..];
                }
                None => {
                    out.push(c);
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
        out
    }

    /// The text that messages and dumps show instead of a file name.
    pub(crate) fn title(&self, used: &Origin) -> String {
        format!("{} used on line {} of \"{}\"", self.definition(), used.line, used.file())
    }

    /// Whether a place is in this macro's own text, directly or through other macros.
    pub(crate) fn contains(&self, place: &Origin) -> bool {
        let definition = self.definition();
        let mut around = std::iter::successors(Some(place), |place| place.source.included_from.as_ref());
        around.any(|place| place.file().starts_with(&definition))
    }

    fn definition(&self) -> String {
        format!("macro '{}' (defined on line {} of \"{}\")", self.name, self.defined.line, self.defined.file())
    }
}

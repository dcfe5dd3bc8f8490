//! A macro: lines with parameters, which `Use` replaces as text (Apache manual, mod_macro).

use crate::source::Origin;

/// A macro, ready to be used.
#[derive(Debug)]
pub(crate) struct Macro {
    /// The name, in lower case.
    pub(crate) name: String,
    pub(crate) parameters: Vec<String>,
    pub(crate) lines: Vec<String>,
    pub(crate) defined: Origin,
}

impl Macro {
    /// The text with the parameters replaced, and warnings about the values. An error if it, or a line of it, becomes too
    /// long.
    pub(crate) fn expand(
        &self,
        values: &[String],
        line_max: usize,
        text_max: usize,
    ) -> Result<(Vec<u8>, Vec<String>), String> {
        if values.len() != self.parameters.len() {
            let (given, wanted) = (values.len(), self.parameters.len());
            return Err(format!("{} used with {given} arguments instead of {wanted}", self.definition()));
        }
        let warnings = self.parameters.iter().zip(values).filter(|(_, value)| value.is_empty());
        let warnings = warnings.map(|(name, _)| format!("macro '{}': empty value for '{name}'", self.name)).collect();
        let mut text = Vec::new();
        for line in &self.lines {
            let line = self.replace(line, values, line_max);
            if line.len() > line_max || text.len() > text_max {
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

//! Reads `<Macro>` sections.

use crate::error::Cause;
use crate::excerpt::Spot;
use crate::macros::Macro;
use crate::read::input::Input;
use crate::refusal::{Failure, Refusal};
use crate::source::Origin;
use crate::words::{next_word, words};

/// Reads the body of `<Macro NAME PARAMETER…>`. Also returns warnings about its parameters.
pub(super) fn define(head: &str, origin: &Origin, input: &mut Input) -> Result<(Macro, Vec<String>), Failure> {
    let mut parameters = words(head);
    if parameters.is_empty() {
        return Err(Refusal::missing("<Macro> macro definition: name not specified").into());
    }
    let name = parameters.remove(0).to_ascii_lowercase();
    if let Some(at) = parameters.iter().position(|p| p.is_empty() || p.as_str() == "$") {
        let message = format!("macro '{name}': empty or bare parameter name '{}'", parameters[at]);
        return Err(Refusal::argument(at + 2, message).into());
    }
    let mut warnings = Vec::new();
    for (i, parameter) in parameters.iter().enumerate() {
        if parameters[..i].contains(parameter) {
            let message = format!("argument name conflict in macro '{name}': '{parameter}' is given twice");
            return Err(Refusal::argument(i + 2, message).into());
        }
        if parameter.starts_with("${") {
            warnings.push(format!("macro '{name}': parameter '{parameter}' looks like a config variable"));
        }
    }
    Ok((Macro { name, parameters, lines: body(input)?, defined: origin.clone() }, warnings))
}

/// Reads the lines up to the closing `</Macro>`: keeps empty ones, drops comments.
fn body(input: &mut Input) -> Result<Vec<String>, Failure> {
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
    let missing = Refusal::from("expected token not found: </Macro>").at(Spot::Line);
    Err(missing.because(Cause::EndTag("</Macro".to_string())).into())
}

//! `tsubame explain --each`: many questions, one after the other, for programs that ask about whole logs.

use std::io::{BufRead, Read as _, Write};
use std::sync::Arc;

use serde_json::{Value, json};
use server::Server;
use server::explain::Explainer;

use super::{Query, json as written, question};

/// The most bytes of a question: a head as large as a server accepts, and its names.
const QUESTION_MAX: u64 = 256 * 1024;

/// Answers each line of the input, a JSON object, with a line of JSON. A line that is no question gets its `error`.
///
/// # Errors
/// The input cannot be read, or nobody reads the output.
pub(super) fn answer(server: Arc<Server>, mut input: impl BufRead, mut output: impl Write) -> std::io::Result<()> {
    // Requests borrow the server for the lifetime of the process.
    let server: &'static Server = Box::leak(Box::new(server));
    let explainer = Explainer::new(server);
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.by_ref().take(QUESTION_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        // What is beyond the limit belongs to this question: it must not be taken for the next one.
        let is_whole = line.ends_with(b"\n") || (line.len() as u64) < QUESTION_MAX;
        let answer = match is_whole {
            true => one(server, explainer, &line),
            false => {
                input.skip_until(b'\n')?;
                Err(format!("a question has at most {QUESTION_MAX} bytes"))
            }
        };
        let answer = answer.unwrap_or_else(|why| json!({ "error": why }));
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
}

fn one(server: &Server, explainer: Explainer, line: &[u8]) -> Result<Value, String> {
    let asked: Value =
        serde_json::from_slice(line).map_err(|error| format!("a question is a line of JSON: {error}"))?;
    let text = |name: &str| asked.get(name).and_then(Value::as_str).map(str::to_string);
    let parse = |name: &str| text(name).map(|value| (value, name.to_string()));
    let wrong = |(value, name): &(String, String)| format!("{name}: {value} is no address");
    let from = parse("from").map(|from| from.0.parse().map_err(|_| wrong(&from))).transpose()?;
    let to = parse("to").map(|to| to.0.parse().map_err(|_| wrong(&to))).transpose()?;
    let pair = |field: &Value| Some((field.get(0)?.as_str()?.to_string(), field.get(1)?.as_str()?.to_string()));
    let fields = asked.get("headers").and_then(Value::as_array).into_iter().flatten();
    let fields: Option<Vec<(String, String)>> = fields.map(pair).collect();
    let query = Query {
        url: Some(text("url").ok_or("url is missing")?),
        method: text("method"),
        host: text("host"),
        fields: fields.ok_or("headers are pairs of name and value")?,
        from,
        to,
        ..Query::default()
    };
    let question = question(&query, server)?;
    Ok(match explainer.explain(&question) {
        Ok(explanation) => written::brief(&explanation),
        Err(refused) => written::brief_of_refused(&refused),
    })
}

//! Writes an explanation as JSON.

use conf::Origin;
use serde_json::{Value, json};
use server::explain::{
    AccessLine, ExplainedLayer, ExplainedLine, Explanation, Fate, Note, Question, Reason, Refused, Settings, Step,
};

use super::directives::{self, EffectiveDirective};
use super::verdict;

pub(super) fn of(
    question: &Question,
    doubt: Option<&str>,
    explanation: &Explanation,
    paths: &[(&Settings, Vec<EffectiveDirective<'_>>)],
) -> String {
    let request = &explanation.request;
    let vhost = request.vhost;
    let value = json!({
        "never_arrives": doubt,
        "verdict": verdict::lines(explanation).join("; "),
        "reason": reason(&explanation.verdict.reason),
        "request": asked(question),
        "virtual_host": {
            "name": vhost.name,
            "origin": vhost.origin.as_ref().map(origin),
            "candidates": explanation.candidates,
            "by_name": explanation.named,
        },
        "steps": explanation.steps.iter().map(step).collect::<Vec<_>>(),
        "answer": answer(explanation),
        "paths": paths.iter().map(path).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

/// A request that is refused before there is anything to explain: the same keys, without those that have no value.
pub(super) fn of_refused(question: &Question, doubt: Option<&str>, Refused { status, why }: &Refused) -> String {
    let value = json!({
        "never_arrives": doubt,
        "verdict": format!("{status}: {why}"),
        "reason": { "module": "core", "cause": why, "origin": Value::Null, "effect": "" },
        "request": asked(question),
        "virtual_host": Value::Null,
        "steps": [],
        "answer": { "status": status, "made_by": Value::Null, "runs": false },
        "paths": [],
    });
    format!("{value:#}\n")
}

/// The verdict, its reason, what the modules note, and the answer, without the rest of the way there.
pub(super) fn brief(explanation: &Explanation) -> Value {
    let vhost = explanation.request.vhost;
    let notes = explanation.steps.iter().filter_map(|step| match step {
        Step::Note(note) if note.counts => Some(&note.text),
        _ => None,
    });
    json!({
        "verdict": verdict::lines(explanation).join("; "),
        "reason": reason(&explanation.verdict.reason),
        "virtual_host": { "name": vhost.name, "origin": vhost.origin.as_ref().map(origin) },
        "notes": notes.collect::<Vec<_>>(),
        "answer": answer(explanation),
    })
}

/// The same of a request that is refused before there is anything to explain.
pub(super) fn brief_of_refused(Refused { status, why }: &Refused) -> Value {
    json!({
        "verdict": format!("{status}: {why}"),
        "reason": { "module": "core", "cause": why, "origin": Value::Null, "effect": "" },
        "virtual_host": Value::Null,
        "notes": [],
        "answer": { "status": status, "made_by": Value::Null, "runs": false },
    })
}

fn answer(explanation: &Explanation) -> Value {
    let request = &explanation.request;
    json!({
        "file": request.mapped.filename,
        "exists": request.mapped.stat.is_some(),
        "path_info": request.mapped.path_info,
        "type": request.response.content_type(),
        "handler": request.mapped.handler,
        "made_by": explanation.handler,
        "status": if explanation.waits { Value::Null } else { request.response.status().into() },
        "runs": explanation.waits,
        "location": request.response.headers_out.get("Location"),
    })
}

fn asked(question: &Question) -> Value {
    json!({
        "method": question.method,
        "target": question.target,
        "host": question.host,
        "client": question.client.ip().to_string(),
        "server": question.local.to_string(),
    })
}

fn reason(Reason { module, cause, origin: at, effect, .. }: &Reason) -> Value {
    json!({ "module": module, "cause": cause, "origin": at.as_ref().map(origin), "effect": effect })
}

fn path((of, directives): &(&Settings, Vec<EffectiveDirective<'_>>)) -> Value {
    json!({
        "path": of.path,
        "layers": of.layers.iter().map(layer).collect::<Vec<_>>(),
        "directives": directives.iter().map(effective_directive).collect::<Vec<_>>(),
    })
}

/// A line, with the lines that included it.
pub(crate) fn origin(at: &Origin) -> Value {
    let included: Vec<String> = at.chain().map(ToString::to_string).collect();
    json!({ "file": at.file(), "line": at.line, "included_from": included })
}

fn layer(layer: &ExplainedLayer) -> Value {
    json!({
        "title": layer.title,
        "origin": layer.origin.as_ref().map(origin),
        "lines": layer.lines.len(),
        "passed_over": layer.unmet,
    })
}

fn effective_directive(said: &EffectiveDirective<'_>) -> Value {
    let lines = |wanted: fn(Fate) -> bool| -> Vec<Value> {
        said.lines.iter().filter(|(_, line)| wanted(line.fate)).map(|(layer, line)| of_line(layer, line)).collect()
    };
    json!({
        "name": said.row.name,
        "module": said.module.id,
        "default": said.row.default,
        "remark": directives::remark(said.row),
        "in_effect": lines(|fate| fate == Fate::Holds),
        "not_in_effect": lines(|fate| fate != Fate::Holds),
        "result": said.result,
    })
}

fn of_line(layer: &str, line: &ExplainedLine) -> Value {
    json!({
        "value": line.args,
        "within": line.within.trim_end(),
        "layer": layer,
        "origin": origin(&line.origin),
        "fate": directives::fate(line),
    })
}

fn step(step: &Step) -> Value {
    match step {
        Step::Path(path, why) => json!({ "step": "path", "path": path, "why": why }),
        Step::NoAccessFile(directory, why) => {
            json!({ "step": "no access file", "directory": directory, "origin": why.as_ref().map(origin) })
        }
        Step::MissingAccessFile(directory) => json!({ "step": "missing access file", "directory": directory }),
        Step::AccessFile(path, lines, wrong) => {
            let line = |line: &AccessLine| {
                let AccessLine { depth, text, number, objection } = line;
                json!({ "line": number, "depth": depth, "text": text, "objection": objection })
            };
            let lines: Vec<Value> = lines.iter().map(line).collect();
            json!({ "step": "access file", "path": path, "lines": lines, "used": wrong.is_none(), "error": wrong })
        }
        Step::Decided(phase, module, status) => {
            json!({ "step": "decided", "phase": phase, "module": module, "status": status })
        }
        Step::Note(Note { module, text, origin: at, .. }) => {
            json!({ "step": "note", "module": module, "text": text, "origin": at.as_ref().map(origin) })
        }
        Step::Reason(why) => json!({ "step": "reason", "status": why.status, "reason": reason(why) }),
        Step::Logged(module, level, text) => {
            json!({ "step": "log", "module": module, "level": level.name(), "text": text })
        }
        Step::Adopted(steps) => json!({ "step": "look-up", "steps": steps.iter().map(self::step).collect::<Vec<_>>() }),
    }
}

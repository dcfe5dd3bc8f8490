//! The functions of the directives about responses. Messages are Apache's (measured on 2.4.71).

use std::sync::Arc;

use conf::expr::StringExpr;
use conf::values::{atoi, one_of};
use conf::words::words;
use conf::{Cmd, Level, Outcome, Refusal, Setting};

use crate::settings::core::{CoreDir, ErrorDocument, HandlerName, Tri};

pub(super) fn default_charset(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let charset = match value.to_ascii_lowercase().as_str() {
        "off" => None,
        "on" => Some("iso-8859-1".to_string()),
        _ => Some(value.to_string()),
    };
    cmd.set(|d: &mut CoreDir| &mut d.default_charset, charset)
}

pub(super) fn accept_path_info(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("on", Some(true)), ("off", Some(false)), ("default", None)];
    let value = one_of(value, &table).ok_or("AcceptPathInfo must be set to on, off or default")?;
    cmd.set(|d: &mut CoreDir| &mut d.accept_path_info, value)
}

pub(super) fn error_document(cmd: &mut Cmd<'_>, code: &str, text: &str) -> Outcome {
    let known = u16::try_from(atoi(code)).ok().filter(|code| !http::status::reason(*code).is_empty());
    let code = known.ok_or_else(|| Refusal::argument(1, format!("Unsupported HTTP response code {code}")))?;
    let text = text.to_string();
    let options = cmd.expr_options();
    let expr = |text: &str| {
        StringExpr::parse_with(text, options)
            .map(Arc::new)
            .map_err(|why| Refusal::argument(2, format!("Cannot parse expression in ErrorDocument: {why}")))
    };
    let is_text = text.contains(char::is_whitespace);
    let document = if !is_text && text.eq_ignore_ascii_case("default") {
        ErrorDocument::Default
    } else if !is_text && text.starts_with('/') {
        ErrorDocument::Path(expr(&text)?)
    } else if !is_text && is_url(&text) {
        if code == 401 {
            let text = format!(
                "AH00113: {} cannot use a full URL in a 401 ErrorDocument directive --- ignoring!",
                cmd.node.origin
            );
            cmd.context.note("core", Level::Notice, text);
            return Ok(());
        }
        ErrorDocument::Url(expr(&text)?)
    } else {
        ErrorDocument::Text(expr(&text)?)
    };
    cmd.put(|d: &mut CoreDir| &mut d.error_documents, code, document)
}

/// Whether a text begins with a scheme.
pub fn is_url(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, rest)| {
        !scheme.is_empty()
            && !rest.is_empty()
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    })
}

pub(super) fn default_type(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    if !value.eq_ignore_ascii_case("none") {
        let at = &cmd.node.origin;
        let text = format!("AH00117: Ignoring deprecated use of DefaultType in line {} of {}.", at.line, at.file());
        cmd.context.note("core", Level::Warn, text);
    }
    Ok(())
}

pub(super) fn file_etag(cmd: &mut Cmd<'_>, rest: &str) -> Outcome {
    let origin = cmd.origin();
    cmd.dir.edit::<CoreDir>().etag.apply(&words(rest), &origin)
}

pub(super) fn signature(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("off", Tri::Off), ("on", Tri::On), ("email", Tri::Other)];
    let value = one_of(value, &table).ok_or("ServerSignature: use one of: off | on | email")?;
    cmd.set(|d: &mut CoreDir| &mut d.signature, value)
}

pub(super) fn cgi_var(cmd: &mut Cmd<'_>, name: &str, rule: &str) -> Outcome {
    if name != "REQUEST_URI" {
        return Err(Refusal::argument(1, format!("Unrecognized CGI variable: \"{name}\"")));
    }
    if !matches!(rule, "current-uri" | "original-uri") {
        return Err(Refusal::argument(2, "Valid rules for REQUEST_URI are 'current-uri' and 'original-uri'"));
    }
    cmd.put(|d: &mut CoreDir| &mut d.cgi_vars, name.to_string(), rule.to_string())
}

pub(super) fn force_type(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let value = (!value.eq_ignore_ascii_case("none")).then(|| value.to_ascii_lowercase());
    cmd.set(|d: &mut CoreDir| &mut d.force_type, value)
}

pub(super) fn set_handler(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let handler = if value.eq_ignore_ascii_case("none") {
        HandlerName::Name(None)
    } else if value.contains("%{") {
        let expr = StringExpr::parse_with(value, cmd.expr_options())
            .map_err(|why| format!("Can't parse expression : {why}"))?;
        HandlerName::Expr(Arc::new(expr))
    } else {
        let loaded = cmd.context.language.loaded();
        crate::module::handler_checks(loaded).try_for_each(|check| check(value))?;
        HandlerName::Name(Some(value.to_string()))
    };
    cmd.set(|d: &mut CoreDir| &mut d.handler, handler)
}

pub(super) fn filters(cmd: &mut Cmd<'_>, field: fn(&mut CoreDir) -> &mut Setting<Vec<String>>, value: &str) -> Outcome {
    let names = value.split(';').filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("none"));
    let names = names.map(str::to_string).collect();
    cmd.set(field, names)
}

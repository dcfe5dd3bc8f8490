//! The functions of the core's limits. Messages are Apache's (measured on 2.4.71).

use conf::values::{atoi, number, strtol};
use conf::{Cmd, Outcome, Refusal, Setting};

use crate::settings::core::{CoreDir, CoreServer, Rlimit};

/// Parses a number that fits C's `unsigned`.
fn unsigned(value: &str) -> Result<u32, String> {
    let number = number(value.trim_start()).and_then(|n| u32::try_from(n).ok());
    // The brackets are Apache's.
    number.ok_or_else(|| format!("parameter must be a number between 0 and (4294967295U)): {value}"))
}

pub(super) fn read_buffer_size(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let size = unsigned(value)? as usize;
    cmd.set(|d: &mut CoreDir| &mut d.read_buffer_size, size)
}

pub(super) fn flush_max_threshold(_: &mut Cmd<'_>, value: &str) -> Outcome {
    unsigned(value)?;
    Ok(())
}

pub(super) fn flush_max_pipelined(_: &mut Cmd<'_>, value: &str) -> Outcome {
    match number(value.trim_start()).filter(|n| (-1..=i64::from(i32::MAX)).contains(n)) {
        Some(_) => Ok(()),
        None => Err(format!("parameter must be a number between -1 and (2147483647): {value}").into()),
    }
}

/// Parses a lenient number that must not be negative; the message contains the directive's name.
fn limit(cmd: &Cmd<'_>, value: &str, zero: &str) -> Result<usize, String> {
    let name = cmd.row.name;
    usize::try_from(atoi(value)).map_err(|_| format!("{name} \"{value}\" must be a non-negative integer{zero}"))
}

pub(super) fn limit_line(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let size = limit(cmd, value, "")?;
    cmd.server_set(|s: &mut CoreServer| &mut s.limit_request_line, size)
}

pub(super) fn limit_field_size(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let size = limit(cmd, value, "")?;
    cmd.server_set(|s: &mut CoreServer| &mut s.limit_request_field_size, size)
}

pub(super) fn limit_fields(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let count = limit(cmd, value, " (0 = no limit)")?;
    cmd.server_set(|s: &mut CoreServer| &mut s.limit_request_fields, count)
}

pub(super) fn limit_body(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let size = number(value.trim_start()).and_then(|n| u64::try_from(n).ok()).ok_or_else(|| match strtol(value) {
        i64::MIN | i64::MAX => "LimitRequestBody argument is not parsable.",
        _ => "LimitRequestBody requires a non-negative integer.",
    })?;
    cmd.set(|d: &mut CoreDir| &mut d.limit_request_body, size)
}

pub(super) fn limit_xml_body(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    /// The longest text that Apache can still escape: every character may become six, plus an end.
    const MOST: u64 = u64::MAX / 6 - 1;
    let size = u64::try_from(strtol(value)).map_err(|_| "LimitXMLRequestBody requires a non-negative integer.")?;
    if size > MOST {
        return Err(format!("LimitXMLRequestBody must not exceed {MOST}").into());
    }
    cmd.set(|d: &mut CoreDir| &mut d.limit_xml_request_body, size)
}

pub(super) fn ranges(
    cmd: &mut Cmd<'_>,
    field: fn(&mut CoreDir) -> &mut Setting<Option<u32>>,
    default: u32,
    value: &str,
) -> Outcome {
    let limit = match value.to_ascii_lowercase().as_str() {
        "none" => Some(0),
        "default" => Some(default),
        "unlimited" => None,
        _ => match u32::try_from(atoi(value)) {
            Ok(0) | Err(_) => {
                return Err(
                    format!("{} requires 'none', 'default', 'unlimited' or a positive integer", cmd.row.name).into()
                );
            }
            Ok(n) => Some(n),
        },
    };
    cmd.set(field, limit)
}

pub(super) fn rlimit(
    cmd: &mut Cmd<'_>,
    field: fn(&mut CoreDir) -> &mut Setting<Rlimit>,
    soft: &str,
    hard: Option<&str>,
) -> Outcome {
    // As in C, a negative number is a large one; -1 is no limit at all.
    let parse = |text: &str| (!text.eq_ignore_ascii_case("max")).then(|| strtol(text) as u64);
    cmd.set(field, (parse(soft), hard.map(parse)))
}

pub(super) fn internal_recursion(cmd: &mut Cmd<'_>, redirects: &str, lookups: Option<&str>) -> Outcome {
    let positive = |text: &str, number: usize| {
        let n = u32::try_from(atoi(text)).ok().filter(|n| *n > 0);
        n.ok_or_else(|| Refusal::argument(number, "The recursion limit must be greater than zero."))
    };
    let first = positive(redirects, 1)?;
    let second = lookups.map_or(Ok(first), |text| positive(text, 2))?;
    cmd.server_set(|s: &mut CoreServer| &mut s.internal_recursion, (first, second))
}

//! How long a client may take to send its request.
//!
//! Apache manual: mod_reqtimeout. The connection applies [`ReadTimeouts`], which this module sets for every server once
//! it is loaded.

use std::sync::Arc;
use std::time::Duration;

use conf::directive::Args::Raw;
use conf::values::atoi;
use conf::words::words;
use conf::{
    Allowed, Cmd, Context, Directive, Error, ModuleInfo, Origin, Outcome, Setting, SettingsMap, Source, row, settings,
};
use server::{Draft, Hook, Module, ReadTimeout, ReadTimeouts};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "reqtimeout_module", source: "mod_reqtimeout.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Check(fill)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("RequestReadTimeout", Allowed::SERVER, Raw(set), "handshake=0 header=20-40,MinRate=500 body=20,MinRate=500", "Set various timeout parameters for TLS handshake and/or reading request headers and body"),
];

settings! {
    /// The module's settings of a server; `None` is without limit.
    pub struct ReqTimeout {
        pub handshake: Setting<Option<ReadTimeout>>,
        pub header: Setting<Option<ReadTimeout>>,
        pub body: Setting<Option<ReadTimeout>>,
    }
}

const HEADER: ReadTimeout =
    ReadTimeout { first: Duration::from_secs(20), most: Some(Duration::from_secs(40)), rate: 500 };
const BODY: ReadTimeout = ReadTimeout { first: Duration::from_secs(20), most: None, rate: 500 };

fn set(cmd: &mut Cmd<'_>, rest: &str) -> Outcome {
    let origin = cmd.origin();
    for word in words(rest) {
        let Some((stage, value)) = word.split_once('=') else {
            return Err("Invalid RequestReadTimeout parameter. Parameter must be in the form 'key=value'".into());
        };
        let conf = cmd.server.edit::<ReqTimeout>();
        let field = match stage.to_ascii_lowercase().as_str() {
            "handshake" => Ok(&mut conf.handshake),
            "header" => Ok(&mut conf.header),
            "body" => Ok(&mut conf.body),
            _ => Err("Unknown RequestReadTimeout parameter".to_string()),
        };
        let (field, limit) = field
            .and_then(|field| Ok((field, parse(value)?)))
            .map_err(|error| format!("RequestReadTimeout: {stage}={value}: {error}"))?;
        field.set(limit, &origin);
    }
    Ok(())
}

/// `20`, `20,MinRate=500`, `20-40,MinRate=500`; 0 is without limit.
fn parse(value: &str) -> Result<Option<ReadTimeout>, String> {
    const RATE: &str = ",minrate=";
    let Some(at) = value.to_ascii_lowercase().find(RATE) else {
        if value.contains('-') {
            return Err("Must set MinRate option if using timeout range".into());
        }
        return Ok(limit(seconds(value)?, None, 0));
    };
    let (span, rate) = (&value[..at], seconds(&value[at + RATE.len()..])?);
    if rate == 0 {
        return Err("Minimum data rate must be larger than 0".into());
    }
    let (first, most) = match span.split_once('-') {
        None => (seconds(span)?, 0),
        Some((first, most)) => {
            let most = seconds(most)?;
            (seconds(first)?, most)
        }
    };
    if most != 0 && first >= most {
        return Err("Maximum timeout must be larger than initial timeout".into());
    }
    Ok(limit(first, Some(most).filter(|most| *most != 0), rate))
}

fn limit(first: u32, most: Option<u32>, rate: u32) -> Option<ReadTimeout> {
    let seconds = |count: u32| Duration::from_secs(count.into());
    (first > 0).then(|| ReadTimeout { first: seconds(first), most: most.map(seconds), rate })
}

/// A non-negative number; the messages are those of Apache's parser.
fn seconds(text: &str) -> Result<u32, String> {
    let digits = text.trim_start().trim_start_matches(['-', '+']);
    let end = digits.bytes().take_while(u8::is_ascii_digit).count();
    if end == 0 {
        return Err(format!("Value '{text}' not numerical"));
    }
    if end < digits.len() {
        return Err(format!("Cannot parse '{}'", &digits[end..]));
    }
    u32::try_from(atoi(text)).map_err(|_| "Value must be non-negative".into())
}

fn fill(draft: &mut Draft, _: &mut Context) -> Result<(), Error> {
    fill_one(&mut draft.main);
    draft.hosts.iter_mut().for_each(|host| fill_one(&mut host.server));
    Ok(())
}

fn fill_one(server: &mut SettingsMap) {
    let default = Origin { source: Arc::new(Source::new("built-in default")), line: 0 };
    let conf = server.get::<ReqTimeout>();
    let of = |setting: &Setting<Option<ReadTimeout>>, or: ReadTimeout| {
        (setting.value_or(Some(or)), setting.origin().unwrap_or(&default).clone())
    };
    let (header, body) = (of(&conf.header, HEADER), of(&conf.body, BODY));
    let handshake = conf.handshake.clone();
    let limits = server.edit::<ReadTimeouts>();
    limits.header.set(header.0, &header.1);
    limits.body.set(body.0, &body.1);
    limits.handshake = handshake;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{apply, check};

    #[test]
    fn errors_as_apache_has_them() {
        check(&[
            ("RequestReadTimeout", ""),
            ("RequestReadTimeout header=20,MinRate=500 body=20,MinRate=500 handshake=5", ""),
            (
                "RequestReadTimeout header",
                "Invalid RequestReadTimeout parameter. Parameter must be in the form 'key=value'",
            ),
            ("RequestReadTimeout foo=1", "RequestReadTimeout: foo=1: Unknown RequestReadTimeout parameter"),
            ("RequestReadTimeout header=x", "RequestReadTimeout: header=x: Value 'x' not numerical"),
            ("RequestReadTimeout header=", "RequestReadTimeout: header=: Value '' not numerical"),
            ("RequestReadTimeout header=5x", "RequestReadTimeout: header=5x: Cannot parse 'x'"),
            (
                "RequestReadTimeout header=-5",
                "RequestReadTimeout: header=-5: Must set MinRate option if using timeout range",
            ),
            (
                "RequestReadTimeout header=20-10,MinRate=500",
                "RequestReadTimeout: header=20-10,MinRate=500: Maximum timeout must be larger than initial timeout",
            ),
            (
                "RequestReadTimeout header=20-40,minrate=0",
                "RequestReadTimeout: header=20-40,minrate=0: Minimum data rate must be larger than 0",
            ),
            (
                "RequestReadTimeout HEADER=20-40,MinRate=-5",
                "RequestReadTimeout: HEADER=20-40,MinRate=-5: Value must be non-negative",
            ),
            (
                "RequestReadTimeout header=20-,MinRate=5",
                "RequestReadTimeout: header=20-,MinRate=5: Value '' not numerical",
            ),
            (
                "<Location />\nRequestReadTimeout header=4\n</Location>",
                "RequestReadTimeout not allowed in <Location> context",
            ),
        ]);
    }

    #[test]
    fn limits_hold_without_any_directive() {
        let filled = |lines: &str| {
            let mut server = apply(lines).unwrap().server;
            fill_one(&mut server);
            let limits = server.get::<ReadTimeouts>();
            (limits.header.value_or(None), limits.body.value_or(None))
        };
        assert_eq!(filled(""), (Some(HEADER), Some(BODY)));
        assert_eq!(filled("RequestReadTimeout header=0"), (None, Some(BODY)));
        let ten = ReadTimeout { first: Duration::from_secs(10), most: None, rate: 0 };
        assert_eq!(filled("RequestReadTimeout body=10"), (Some(HEADER), Some(ten)));
        let ranged = ReadTimeout { first: Duration::from_secs(5), most: Some(Duration::from_secs(9)), rate: 100 };
        assert_eq!(filled("RequestReadTimeout header=5-9,MinRate=100"), (Some(ranged), Some(BODY)));
    }
}

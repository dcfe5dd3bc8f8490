//! The functions of the directives about protocols and connections. Messages are Apache's (measured on 2.4.71).

use std::time::Duration;

use conf::values::{atoi, duration, one_of, seconds};
use conf::{Cmd, Outcome, Setting};

use crate::settings::core::{CoreServer, Tri};

pub(super) fn accept_filter(cmd: &mut Cmd<'_>, protocol: &str, filter: &str) -> Outcome {
    let (protocol, filter) = (protocol.to_ascii_lowercase(), filter.to_string());
    cmd.server.edit::<runtime::AcceptFilters>().filters.set(protocol, filter, &cmd.node.origin);
    Ok(())
}

pub(super) fn timeout(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let value = seconds(value);
    cmd.server_set(|s: &mut CoreServer| &mut s.timeout, value)
}

pub(super) fn encoded_slashes(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("on", Tri::On), ("off", Tri::Off), ("nodecode", Tri::Other)];
    let value = one_of(value, &table).ok_or("AllowEncodedSlashes must be On, Off or NoDecode")?;
    cmd.server_set(|s: &mut CoreServer| &mut s.encoded_slashes.0, value)
}

pub(super) fn trace(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("on", Tri::On), ("off", Tri::Off), ("extended", Tri::Other)];
    let value = one_of(value, &table).ok_or("TraceEnable must be one of 'on', 'off', or 'extended'")?;
    cmd.server_set(|s: &mut CoreServer| &mut s.trace, value)
}

pub(super) fn protocols(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    cmd.server.edit::<CoreServer>().protocols.edit(&cmd.node.origin).push(name.to_string());
    Ok(())
}

pub(super) fn protocols_honor_order(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let value = conf::values::on_off(value).ok_or("ProtocolsHonorOrder must be 'on' or 'off'")?;
    cmd.server_set(|s: &mut CoreServer| &mut s.protocols_honor_order, value)
}

pub(super) fn protocol_options(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    let (field, on): (fn(&mut CoreServer) -> &mut Setting<bool>, bool) = match word.to_ascii_lowercase().as_str() {
        "allow0.9" => (|s| &mut s.allow_0_9, true),
        "require1.0" => (|s| &mut s.allow_0_9, false),
        "strict" => (|s| &mut s.strict, true),
        "unsafe" => (|s| &mut s.strict, false),
        "registeredmethods" => (|s| &mut s.registered_methods, true),
        "lenientmethods" => (|s| &mut s.registered_methods, false),
        _ => {
            return Err("HttpProtocolOptions accepts 'Unsafe' or 'Strict' (default), 'RegisteredMethods' or \
                        'LenientMethods' (default), and 'Require1.0' or 'Allow0.9' (default)"
                .into());
        }
    };
    cmd.server_set(field, on)
}

pub(super) fn keep_alive_timeout(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let value = duration(value, Duration::from_secs(1)).ok_or("KeepAliveTimeout has wrong format")?;
    cmd.server_set(|s: &mut CoreServer| &mut s.keep_alive_timeout, value)
}

pub(super) fn max_keep_alive_requests(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let count = u32::try_from(atoi(value)).unwrap_or(0);
    cmd.server_set(|s: &mut CoreServer| &mut s.max_keep_alive_requests, count)
}

//! Files at the speed of a modem.
//!
//! Apache manual: mod_dialup. A slow response waits like one to a slow client: under event and percore it costs no
//! worker.

use conf::directive::Args::Take1;
use conf::values::one_of;
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, Setting, row, settings};
use server::{Hook, Module, Order, RateLimit, Request, ResponseChain};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "dialup_module", source: "mod_dialup.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::InsertFilters(Order::Middle, slow_down)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ModemStandard", Allowed::SECTION, Take1(set_standard), "", "Modem Standard to.. simulate. Must be one of: 'V.21', 'V.26bis', 'V.32', 'V.34', or 'V.92'").differs("Half of a second's bytes are sent each half second; Apache 2.4.71 sends a second's bytes and then nothing for a long time."),
];

/// Bytes per second (measured; an eighth of the standard's bits).
const STANDARDS: [(&str, u32); 5] = [("V.21", 12), ("V.26bis", 300), ("V.32", 1200), ("V.34", 3600), ("V.92", 7000)];

settings! {
    /// The module's settings of a section.
    pub struct DialupConf {
        bytes_per_second: Setting<u32>,
    }
}

fn set_standard(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let rate = one_of(value, &STANDARDS).ok_or("mod_dialup: Unknown Modem Standard specified.")?;
    cmd.set(|d: &mut DialupConf| &mut d.bytes_per_second, rate)
}

/// Files only: scripts and generated pages have their own speed.
fn slow_down(request: &mut Request, _: &mut ResponseChain) {
    if matches!(request.mapped.handler.as_deref(), None | Some("default-handler"))
        && let Some(rate) = request.dir::<DialupConf>().bytes_per_second.get()
    {
        request.response.rate_limit = Some(RateLimit { bytes_per_second: *rate, burst: 0 });
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn errors_as_apache_has_them() {
        let wrong = "ModemStandard takes one argument, Modem Standard to.. simulate. Must be one of: 'V.21', 'V.26bis', \
                     'V.32', 'V.34', or 'V.92'";
        crate::testing::check(&[
            ("<Location />\nModemStandard v.26BIS\n</Location>", ""),
            ("<Location />\nModemStandard V.90\n</Location>", "mod_dialup: Unknown Modem Standard specified."),
            ("<Location />\nModemStandard\n</Location>", wrong),
            ("ModemStandard V.21", "ModemStandard not allowed here"),
        ]);
    }
}

//! Children that do not all end at the same time: each draws its number of connections from a range.
//!
//! A module beside Apache's own (`mod_bumpy_life.c`). The children follow [`BumpyLife`]; the code that replaces
//! children handles the limit.

use conf::directive::Args::Take1;
use conf::error::Phase;
use conf::values::number;
use conf::{Allowed, Cmd, Context, Directive, Error, ModuleInfo, Outcome, Setting, row};
use runtime::BumpyLife;
use server::{Draft, Hook, Module};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "bumpy_life_module", source: "mod_bumpy_life.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Check(check)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("MaxRequestsPerChildMin", Allowed::GLOBAL, Take1(|c, v| set(c, v, |s| &mut s.min)), "", "The smallest number of connections after which a child is replaced").syntax("number"),
    row("MaxRequestsPerChildMax", Allowed::GLOBAL, Take1(|c, v| set(c, v, |s| &mut s.max)), "", "The largest number of connections after which a child is replaced, if it is above the smallest").syntax("number"),
];

fn set(cmd: &mut Cmd<'_>, value: &str, field: fn(&mut BumpyLife) -> &mut Setting<u64>) -> Outcome {
    match number(value).and_then(|count| u64::try_from(count).ok()) {
        Some(count @ 1..) => cmd.server_set(field, count),
        _ => Err(format!("{}: '{value}' is not a number of connections above 0", cmd.row.name).into()),
    }
}

/// Errors that only both lines together can have.
fn check(draft: &mut Draft, _: &mut Context) -> Result<(), Error> {
    let conf = draft.main.get::<BumpyLife>();
    match (conf.min.get(), conf.max.get()) {
        (Some(min), Some(max)) if max < min => {
            let message = format!("MaxRequestsPerChildMax {max} is less than MaxRequestsPerChildMin {min}");
            Err(Error { origin: conf.max.origin().cloned(), ..Error::new(Phase::Apply, message) })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_and_places() {
        crate::testing::check(&[
            ("MaxRequestsPerChildMin 150\nMaxRequestsPerChildMax 200", ""),
            ("MaxRequestsPerChildMin 0", "MaxRequestsPerChildMin: '0' is not a number of connections above 0"),
            ("MaxRequestsPerChildMax many", "MaxRequestsPerChildMax: 'many' is not a number of connections above 0"),
            (
                "<Location />\nMaxRequestsPerChildMin 1\n</Location>",
                "MaxRequestsPerChildMin not allowed in <Location> context",
            ),
        ]);
    }
}

//! dstat's format of numbers: few characters, followed by the unit. Pure.

/// The kind of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Percent, in three characters.
    Percent,
    /// Bytes, in whole units.
    Bytes,
    /// Bytes, with as many digits as there is room for.
    Memory,
    /// A count, in whole units.
    Count,
    /// A count, with as many digits as there is room for.
    Rate,
    /// A load average.
    Load,
    /// A small number, in three characters.
    Few,
    /// A text of this many characters.
    Text(usize),
}

/// The user's choice: numbers without decimals, or with them everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Digits {
    #[default]
    Usual,
    None,
    Always,
}

/// A formatted number, and the size of its unit: dstat's colours distinguish units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Formatted {
    pub(super) text: String,
    /// 0 for the smallest unit; `None` for nothing at all.
    pub(super) magnitude: Option<usize>,
}

impl Form {
    pub(super) fn width(self) -> usize {
        match self {
            Form::Percent | Form::Few => 3,
            Form::Load => 4,
            Form::Bytes | Form::Memory | Form::Count | Form::Rate => 5,
            Form::Text(width) => width,
        }
    }

    /// The factor between two units, and their names; a space stands for a unit without a name.
    fn units(self) -> Option<(f64, &'static [u8])> {
        match self {
            Form::Bytes | Form::Memory => Some((1024.0, b"BkMGTPE")),
            Form::Count | Form::Rate => Some((1000.0, b" kMGTPE")),
            Form::Percent | Form::Few | Form::Load | Form::Text(_) => None,
        }
    }

    /// A share of this is one step of colour.
    fn step(self) -> f64 {
        match self {
            Form::Percent => 34.0,
            Form::Few => 10.0,
            _ => 0.5,
        }
    }

    pub(super) fn write(self, value: f64, digits: Digits) -> Formatted {
        let width = self.width();
        let room = if self.units().is_some() { width - 1 } else { width };
        if value < 0.0 || !value.is_finite() {
            return Formatted { text: format!("{:>width$}", "-"), magnitude: None };
        }
        let base = self.units().map_or(1000.0, |(base, _)| base);
        let whole = match digits {
            Digits::Usual => matches!(self, Form::Percent | Form::Bytes | Form::Count),
            Digits::None => true,
            Digits::Always => false,
        };
        let (number, unit) = if whole { shortened(value, room, base) } else { pointed(value, room, base) };
        let is_nothing = value.round() == 0.0 && (whole || number == "0");
        let mut text = format!("{number:>room$}");
        if let Some((_, names)) = self.units() {
            let name = names.get(unit).copied().filter(|_| value.round() != 0.0).unwrap_or(b' ');
            text.push(char::from(name));
        }
        let magnitude = if self.units().is_some() { unit } else { (value / self.step()) as usize };
        Formatted { text, magnitude: (!is_nothing).then_some(magnitude) }
    }
}

/// The number in the smallest unit that fits.
fn shortened(mut value: f64, room: usize, base: f64) -> (String, usize) {
    for unit in 0.. {
        let text = format!("{:.0}", round(value, 0));
        if text.len() <= room {
            return (text, unit);
        }
        value /= base;
    }
    (String::new(), 0)
}

/// The same with as many decimals as there is room for.
fn pointed(mut value: f64, room: usize, base: f64) -> (String, usize) {
    if value == 0.0 {
        return ("0".to_owned(), 0);
    }
    for unit in 0.. {
        let whole = format!("{:.0}", round(value, 4).trunc());
        if whole.len() <= room {
            let most = (room - whole.len()).saturating_sub(1);
            let mut pointed = (1..=most).rev().map(|digits| format!("{value:.digits$}"));
            let text = pointed.find(|text| text.len() <= room);
            return (text.unwrap_or_else(|| format!("{:.0}", round(value, 0))), unit);
        }
        value /= base;
    }
    (String::new(), 0)
}

/// Rounds halves to the even neighbour, as dstat's language does.
fn round(value: f64, digits: i32) -> f64 {
    let factor = 10_f64.powi(digits);
    (value * factor).round_ties_even() / factor
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(form: Form, value: f64) -> String {
        form.write(value, Digits::Usual).text
    }

    /// Numbers as dstat 0.8.0 wrote them.
    #[test]
    fn numbers_fit_and_have_units() {
        let table = [
            (Form::Percent, 50.4, " 50"),
            (Form::Percent, 100.0, "100"),
            (Form::Bytes, 0.0, "   0 "),
            (Form::Bytes, 60.0, "  60B"),
            (Form::Bytes, 8746.0, "8746B"),
            (Form::Bytes, 2301.0 * 1024.0, "2301k"),
            (Form::Bytes, 35.0 * 1024.0 * 1024.0, "  35M"),
            (Form::Bytes, 4096.0 * 1024.0 * 1024.0, "4096M"),
            (Form::Memory, 926.0 * 1024.0 * 1024.0, " 926M"),
            (Form::Memory, 12.2 * 1024.0 * 1024.0 * 1024.0, "12.2G"),
            (Form::Memory, 9.87 * 1024.0 * 1024.0 * 1024.0, "9.87G"),
            (Form::Memory, 80.0 * 1024.0, "80.0k"),
            (Form::Count, 872.0, " 872 "),
            (Form::Count, 25_400.0, "  25k"),
            (Form::Rate, 24.2, "24.2 "),
            (Form::Rate, 0.32, "0.32 "),
            (Form::Rate, 114.0, " 114 "),
            (Form::Rate, 0.0, "   0 "),
            (Form::Load, 4.46, "4.46"),
            (Form::Load, 16.0, "16.0"),
            (Form::Load, 0.0, "   0"),
            (Form::Few, 1.0, "1.0"),
            (Form::Few, 101.0, "101"),
            (Form::Few, 0.0, "  0"),
        ];
        for (form, value, expected) in table {
            assert_eq!(usual(form, value), expected, "{form:?} {value}");
        }
        assert_eq!(Form::Memory.write(1432.0 * 1048576.0, Digits::None).text, "1432M");
        assert_eq!(Form::Load.write(4.46, Digits::None).text, "   4");
        assert_eq!(usual(Form::Bytes, -1.0), "    -");
    }

    #[test]
    fn units_have_magnitudes() {
        let magnitude = |form: Form, value| form.write(value, Digits::Usual).magnitude;
        assert_eq!(magnitude(Form::Bytes, 0.0), None);
        assert_eq!(magnitude(Form::Bytes, 60.0), Some(0));
        assert_eq!(magnitude(Form::Bytes, 1e6), Some(1));
        assert_eq!(magnitude(Form::Percent, 10.0), Some(0));
        assert_eq!(magnitude(Form::Percent, 70.0), Some(2));
    }
}

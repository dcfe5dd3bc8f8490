//! `Options` and `AllowOverride`: sets of names with their own ways to merge (Apache manual, core, `Options`,
//! `AllowOverride`).

use conf::nearest_name;
use conf::{Allowed, Merge, Origin, Outcome, Refusal};

/// A set of options, as bits.
pub type Bits = u32;

/// `Indexes`: list a directory without an index file.
pub const INDEXES: Bits = 1;
/// Server-side includes.
pub const INCLUDES: Bits = 2;
/// `FollowSymLinks`.
pub const SYM_LINKS: Bits = 4;
/// `ExecCGI`.
pub const EXEC_CGI: Bits = 8;
/// Server-side includes may run commands.
pub const INC_WITH_EXEC: Bits = 16;
/// `SymLinksIfOwnerMatch`.
pub const SYM_OWNER: Bits = 32;
/// `MultiViews`.
pub const MULTI: Bits = 64;
/// `All`: everything except MultiViews.
pub const ALL: Bits = INDEXES | INCLUDES | INC_WITH_EXEC | SYM_LINKS | EXEC_CGI;
/// The default without any `Options`.
pub const DEFAULT: Bits = SYM_LINKS;

/// `Options` of one level: an absolute set, or changes to the inherited one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The set, if it was absolute.
    pub set: Option<Bits>,
    /// `+` names.
    pub add: Bits,
    /// `-` names.
    pub remove: Bits,
    /// The lines that contributed to it.
    lines: Vec<Origin>,
}

impl Options {
    /// The set in effect.
    pub fn effective(&self) -> Bits {
        (self.set.unwrap_or(DEFAULT) & !self.remove) | self.add
    }

    /// The last line that had a part in it.
    pub fn origin(&self) -> Option<&Origin> {
        self.lines.last()
    }

    /// Applies the line at `origin`. `may` are the options allowed here (`AllowOverride Options=`).
    pub fn apply(&mut self, words: &[String], may: Bits, origin: &Origin) -> Outcome {
        if words.first().is_some_and(|word| !word.starts_with(['+', '-'])) {
            self.lines.clear();
        }
        self.lines.push(origin.clone());
        self.read(words, may)
    }

    fn read(&mut self, words: &[String], may: Bits) -> Outcome {
        // After `All` or `None`, names with and without a sign may be mixed; after a sign every name needs one.
        let (mut after_all, mut signed) = (false, false);
        for (i, word) in words.iter().enumerate() {
            let refused = |message: String| Err(Refusal::argument(i + 1, message));
            let (sign, name) = match word.chars().next() {
                Some(sign @ ('+' | '-')) => (Some(sign), &word[1..]),
                _ => (None, word.as_str()),
            };
            let mixed = if sign.is_some() { i > 0 && !signed && !after_all } else { signed };
            if mixed {
                return refused("Either all Options must start with + or -, or no Option may.".into());
            }
            signed |= sign.is_some();
            let lower = name.to_ascii_lowercase();
            let bits = match lower.as_str() {
                "indexes" => INDEXES,
                "includes" => INCLUDES | INC_WITH_EXEC,
                "includesnoexec" => INCLUDES,
                "followsymlinks" => SYM_LINKS,
                "symlinksifownermatch" => SYM_OWNER,
                "execcgi" => EXEC_CGI,
                "multiviews" => MULTI,
                "runscripts" => MULTI | EXEC_CGI,
                "none" | "all" if i > 0 => return refused(format!("'Options {name}' must be the first Option given.")),
                "none" | "all" if signed => {
                    return refused(format!("You may not use 'Options +{name}' or 'Options -{name}'."));
                }
                "none" => 0,
                "all" => ALL,
                _ => return Err(illegal(i + 1, name)),
            };
            after_all |= matches!(lower.as_str(), "none" | "all");
            if bits & !may != 0 {
                return refused(format!("Option {name} not allowed here"));
            }
            match sign {
                Some('+') => self.plus(&lower, bits),
                Some(_) => self.minus(bits),
                None if i == 0 => self.begin(bits),
                None => self.set = Some(self.set.unwrap_or(0) | bits),
            }
        }
        Ok(())
    }

    /// Starts an absolute set, which cancels earlier ones.
    fn begin(&mut self, bits: Bits) {
        (self.set, self.add, self.remove) = (Some(bits), 0, 0);
    }

    fn plus(&mut self, lower: &str, bits: Bits) {
        self.add |= bits;
        self.remove &= !bits;
        if lower == "includesnoexec" {
            // Naming it withdraws the right to run commands.
            self.remove |= INC_WITH_EXEC;
            self.add &= !INC_WITH_EXEC;
        }
        if let Some(set) = &mut self.set {
            *set = (*set & !self.remove) | self.add;
        }
    }

    fn minus(&mut self, bits: Bits) {
        let bits = if bits & INCLUDES != 0 { bits | INC_WITH_EXEC } else { bits };
        self.remove |= bits;
        self.add &= !bits;
        if let Some(set) = &mut self.set {
            *set &= !bits;
        }
    }
}

impl Merge for Options {
    fn merge(base: &Self, add: &Self) -> Self {
        if add.set.is_some() {
            return add.clone();
        }
        Options {
            set: base.set.map(|set| (set & !add.remove) | add.add),
            add: (base.add & !add.remove) | add.add,
            remove: (base.remove & !add.add) | add.remove,
            lines: [&base.lines[..], &add.lines[..]].concat(),
        }
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.lines.iter().for_each(see);
    }
}

/// The options that are one bit each.
const NAMES: [(Bits, &str); 6] = [
    (INDEXES, "Indexes"),
    (SYM_LINKS, "FollowSymLinks"),
    (SYM_OWNER, "SymLinksIfOwnerMatch"),
    (EXEC_CGI, "ExecCGI"),
    (MULTI, "MultiViews"),
    (INC_WITH_EXEC, "Includes"),
];

/// Refuses argument `number`, which is no option.
pub(crate) fn illegal(number: usize, name: &str) -> Refusal {
    let known = NAMES.iter().map(|(_, name)| *name).chain(["IncludesNOEXEC", "All", "None"]);
    let near = nearest_name(known, name.trim_start_matches(['+', '-']));
    let refusal = Refusal::argument(number, format!("Illegal option {name}"));
    refusal.advice(near.map(|near| format!("Did you mean {near}?")))
}

/// A set, as an `Options` line with only that.
pub fn names(bits: Bits) -> String {
    let without_exec = bits & INCLUDES != 0 && bits & INC_WITH_EXEC == 0;
    let names = NAMES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name);
    let names: Vec<&str> = names.chain(without_exec.then_some("IncludesNOEXEC")).collect();
    if names.is_empty() { "None".into() } else { names.join(" ") }
}

/// The names of `AllowOverride`'s classes.
pub const CLASSES: [(&str, Allowed); 7] = [
    ("Limit", Allowed::LIMIT),
    ("FileInfo", Allowed::FILEINFO),
    ("AuthConfig", Allowed::AUTH),
    ("Indexes", Allowed::INDEXES),
    ("Options", Allowed::OPTIONS),
    ("None", Allowed::NONE),
    ("All", Allowed::ANY),
];

/// The bits of an option named in `AllowOverride Options=…`.
pub fn option_bits(name: &str) -> Option<Bits> {
    let mut options = Options::default();
    let word = [name.to_string()];
    options.read(&word, Bits::MAX).ok()?;
    options.set.filter(|_| !name.starts_with(['+', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Options {
        let mut options = Options::default();
        for line in line.split(';') {
            let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
            options.read(&words, Bits::MAX).unwrap();
        }
        options
    }

    #[test]
    fn merging_as_captured() {
        let ssi = INCLUDES | INC_WITH_EXEC;
        let cases: &[(&[&str], Bits)] = &[
            (&["", ""], SYM_LINKS),
            (&["None"], 0),
            (&["Indexes FollowSymLinks", "None"], 0),
            (&["Indexes FollowSymLinks", "+ExecCGI"], INDEXES | SYM_LINKS | EXEC_CGI),
            (&["Indexes FollowSymLinks", "-Indexes +Includes"], SYM_LINKS | ssi),
            (&["Indexes FollowSymLinks", "ExecCGI", "+Indexes"], INDEXES | EXEC_CGI),
            (&["All"], ALL),
            (&["All", "-ExecCGI"], ALL & !EXEC_CGI),
            (&["None", "+Indexes", "-Indexes +ExecCGI"], EXEC_CGI),
            (&["Indexes", "Includes", "+FollowSymLinks"], ssi | SYM_LINKS),
            (&["+Indexes"], INDEXES | SYM_LINKS),
            (&["-FollowSymLinks"], 0),
            (&["Includes", "-IncludesNOEXEC"], 0),
            (&["IncludesNOEXEC"], INCLUDES),
            (&["IncludesNOEXEC", "+Includes"], ssi),
            (&["Includes", "IncludesNOEXEC"], INCLUDES),
            (&["Includes", "+IncludesNOEXEC"], INCLUDES),
            (&["MultiViews Indexes", "+ExecCGI"], MULTI | INDEXES | EXEC_CGI),
            (&["All -Indexes"], ALL & !INDEXES),
            (&["All MultiViews"], ALL | MULTI),
            (&["None Indexes +ExecCGI"], INDEXES | EXEC_CGI),
            (&["Indexes;"], INDEXES),
        ];
        for (levels, want) in cases {
            let all = levels.iter().fold(Options::default(), |base, line| Options::merge(&base, &options(line)));
            assert_eq!(all.effective(), *want, "{levels:?}");
        }
    }

    #[test]
    fn errors_as_captured() {
        let cases = [
            ("Indexes +FollowSymLinks", "Either all Options must start with + or -, or no Option may."),
            ("+Indexes FollowSymLinks", "Either all Options must start with + or -, or no Option may."),
            ("Index", "Illegal option Index"),
            ("Indexes None", "'Options None' must be the first Option given."),
            ("+Indexes None", "Either all Options must start with + or -, or no Option may."),
            ("All +MultiViews Indexes", "Either all Options must start with + or -, or no Option may."),
            ("+None", "You may not use 'Options +None' or 'Options -None'."),
        ];
        for (line, want) in cases {
            let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
            let refusal = Options::default().read(&words, Bits::MAX).unwrap_err();
            assert_eq!(refusal.message(), want, "{line}");
        }
    }
}

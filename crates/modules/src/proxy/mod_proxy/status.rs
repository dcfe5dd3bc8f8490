//! The status of a backend, as letters of the parameter `status` and as words of the status pages.

use std::fmt::Write as _;

/// What is the case for a backend: a set of [`FLAGS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status(u64);

/// Something that may be the case: its letter, and its word on the pages.
struct Flag(Status, char, &'static str);

impl Status {
    /// It counts as reachable, whatever happens.
    pub(crate) const IGNORES_ERRORS: Status = Status(1);
    /// It gets the requests of its sessions only.
    pub(crate) const DRAINING: Status = Status(1 << 1);
    /// It gets no requests.
    pub(crate) const DISABLED: Status = Status(1 << 2);
    /// It gets no requests.
    pub(crate) const STOPPED: Status = Status(1 << 3);
    /// It could not be reached.
    pub(crate) const IN_ERROR: Status = Status(1 << 4);
    /// It gets requests while no other member can.
    pub(crate) const STANDBY: Status = Status(1 << 5);
    /// It takes the place of a member that cannot get requests.
    pub(crate) const SPARE: Status = Status(1 << 6);
    /// It has failed its health checks.
    pub(crate) const UNHEALTHY: Status = Status(1 << 7);
    /// It gets no requests with one of these.
    const UNUSABLE: Status = Status(Status::DISABLED.0 | Status::STOPPED.0 | Status::IN_ERROR.0 | Status::UNHEALTHY.0);

    /// Whether all of these are the case.
    pub(crate) fn has(self, other: Status) -> bool {
        self.0 & other.0 == other.0
    }

    /// All of these except those.
    pub(super) fn without(self, other: Status) -> Status {
        Status(self.0 & !other.0)
    }

    /// All of these and those.
    pub(super) fn with(self, other: Status) -> Status {
        Status(self.0 | other.0)
    }

    /// Whether requests may go there.
    pub(crate) fn is_usable(self) -> bool {
        self.0 & Status::UNUSABLE.0 == 0
    }

    /// The status in a word of shared memory.
    pub(crate) fn from_bits(bits: u64) -> Status {
        Status(bits)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// The change that letters mean: `S`, `+S` and `-S`. `None`: there is no such letter.
    pub(super) fn change(letters: &str) -> Option<Change> {
        let (mut change, mut sets) = (Change::default(), true);
        for letter in letters.chars() {
            match letter {
                '+' => sets = true,
                '-' => sets = false,
                _ => {
                    let flag = FLAGS.iter().find(|flag| flag.1 == letter.to_ascii_uppercase())?;
                    let one =
                        if sets { Change { set: flag.0.0, unset: 0 } } else { Change { set: 0, unset: flag.0.0 } };
                    change = change.then(one);
                }
            }
        }
        Some(change)
    }

    /// All flags with their letters and words, in the order of the pages.
    pub(crate) fn flags() -> impl Iterator<Item = (Status, char, &'static str)> {
        FLAGS.iter().map(|Flag(status, letter, word)| (*status, *letter, *word))
    }

    /// The words of the status pages, each followed by a space, as in Apache.
    pub(crate) fn words(self) -> String {
        let mut words = String::from("Init ");
        for (_, _, word) in Status::flags().filter(|(status, ..)| self.has(*status)) {
            // Writing into a string never fails.
            let _ = write!(words, "{word} ");
        }
        if self.is_usable() {
            words.push_str("Ok ");
        }
        words
    }
}

const FLAGS: [Flag; 8] = [
    Flag(Status::IGNORES_ERRORS, 'I', "Ign"),
    Flag(Status::DRAINING, 'N', "Drn"),
    Flag(Status::DISABLED, 'D', "Dis"),
    Flag(Status::STOPPED, 'S', "Stop"),
    Flag(Status::IN_ERROR, 'E', "Err"),
    Flag(Status::STANDBY, 'H', "Stby"),
    Flag(Status::SPARE, 'R', "Spar"),
    Flag(Status::UNHEALTHY, 'C', "HcFl"),
];

/// What becomes, and what no longer is, the case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    set: u64,
    unset: u64,
}

impl Change {
    /// This change, and then another one.
    pub(super) fn then(self, later: Change) -> Change {
        Change { set: self.set & !later.unset | later.set, unset: self.unset & !later.set | later.unset }
    }

    /// The status that it makes of one.
    pub(crate) fn of(self, status: Status) -> Status {
        Status(status.0 & !self.unset | self.set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_words() {
        let words = |letters| Status::change(letters).map(|change| change.of(Status::default()).words());
        assert_eq!(words("").as_deref(), Some("Init Ok "));
        assert_eq!(words("+H").as_deref(), Some("Init Stby Ok "));
        assert_eq!(words("SE-E").as_deref(), Some("Init Stop "));
        assert_eq!(words("d+n").as_deref(), Some("Init Drn Dis "));
        assert_eq!(words("x"), None);
    }
}

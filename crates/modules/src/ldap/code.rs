//! The results of operations, with OpenLDAP's numbers and names.

/// A result code of RFC 4511, or a negative one for errors on this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) i32);

impl Code {
    pub(crate) const SUCCESS: Code = Code(0);
    pub(crate) const COMPARE_FALSE: Code = Code(5);
    pub(crate) const COMPARE_TRUE: Code = Code(6);
    pub(crate) const SIZE_LIMIT: Code = Code(4);
    pub(crate) const REFERRAL: Code = Code(10);
    pub(crate) const NO_SUCH_ATTRIBUTE: Code = Code(16);
    pub(crate) const CONSTRAINT_VIOLATION: Code = Code(19);
    pub(crate) const NO_SUCH_OBJECT: Code = Code(32);
    pub(crate) const INAPPROPRIATE_AUTH: Code = Code(48);
    pub(crate) const INVALID_CREDENTIALS: Code = Code(49);
    pub(crate) const INSUFFICIENT_ACCESS: Code = Code(50);
    pub(crate) const OTHER: Code = Code(80);
    /// There is no connection, or no longer.
    pub(crate) const SERVER_DOWN: Code = Code(-1);
    /// The answer is invalid, or too long.
    pub(crate) const DECODING_ERROR: Code = Code(-4);
    pub(crate) const TIMEOUT: Code = Code(-5);
    pub(crate) const FILTER_ERROR: Code = Code(-7);
    /// Too many others are asking.
    pub(crate) const TOO_MANY: Code = Code(-1000);

    /// Whether it means neither yes nor no: the answer is unknown.
    pub(crate) fn is_unsure(self) -> bool {
        const INVALID: [Code; 3] = [Code(17), Code(21), Code(34)];
        let known = [Code::COMPARE_TRUE, Code::COMPARE_FALSE, Code::NO_SUCH_ATTRIBUTE, Code::NO_SUCH_OBJECT];
        !known.contains(&self) && !INVALID.contains(&self)
    }

    /// Its name in messages.
    pub(crate) fn text(self) -> &'static str {
        let known = TEXTS.iter().find(|(code, _)| *code == self.0);
        known.map_or("Unknown error", |(_, text)| text)
    }
}

const TEXTS: &[(i32, &str)] = &[
    (0, "Success"),
    (1, "Operations error"),
    (2, "Protocol error"),
    (3, "Time limit exceeded"),
    (4, "Size limit exceeded"),
    (5, "Compare False"),
    (6, "Compare True"),
    (7, "Authentication method not supported"),
    (8, "Strong(er) authentication required"),
    (9, "Partial results and referral received"),
    (10, "Referral"),
    (11, "Administrative limit exceeded"),
    (12, "Critical extension is unavailable"),
    (13, "Confidentiality required"),
    (14, "SASL bind in progress"),
    (16, "No such attribute"),
    (17, "Undefined attribute type"),
    (18, "Inappropriate matching"),
    (19, "Constraint violation"),
    (20, "Type or value exists"),
    (21, "Invalid syntax"),
    (32, "No such object"),
    (33, "Alias problem"),
    (34, "Invalid DN syntax"),
    (36, "Alias dereferencing problem"),
    (48, "Inappropriate authentication"),
    (49, "Invalid credentials"),
    (50, "Insufficient access"),
    (51, "Server is busy"),
    (52, "Server is unavailable"),
    (53, "Server is unwilling to perform"),
    (54, "Loop detected"),
    (64, "Naming violation"),
    (65, "Object class violation"),
    (80, "Internal (implementation specific) error"),
    (-1, "Can't contact LDAP server"),
    (-4, "Decoding error"),
    (-5, "Timed out"),
    (-7, "Bad search filter"),
    (-1000, "Too many requests are asking already"),
];

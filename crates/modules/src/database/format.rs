//! Statements in the form of the configuration: `%s`, `%lld` and the like stand for values.
//!
//! Letters and types as in apr_dbd_prepare; measured on apr-util 1.6.3.

use super::connection::Driver;

/// A statement in the database's own form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Native {
    pub(super) sql: String,
    /// The types of the values for PostgreSQL.
    pub(super) types: Vec<&'static str>,
}

/// The letters after `%`, and their types, the longer ones first.
const TYPES: [(&str, &str); 22] = [
    ("hhd", "smallint"),
    ("hhu", "smallint"),
    ("hd", "smallint"),
    ("hu", "smallint"),
    ("lld", "bigint"),
    ("llu", "bigint"),
    ("ld", "bigint"),
    ("lu", "bigint"),
    ("lf", "double precision"),
    ("pDt", "text"),
    ("pDi", "time"),
    ("pDd", "date"),
    ("pDa", "timestamp"),
    ("pDs", "timestamp"),
    ("pDz", "timestamp with time zone"),
    ("pDb", "bytea"),
    ("pDc", "text"),
    ("pDn", "varchar"),
    ("d", "integer"),
    ("u", "integer"),
    ("f", "real"),
    ("s", "varchar"),
];

/// Turns a statement of the configuration into the database's own form.
pub(super) fn native(driver: Driver, text: &str) -> Native {
    let mut native = Native { sql: String::with_capacity(text.len() + 8), types: Vec::new() };
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('%') {
        native.sql.push_str(before);
        let known = TYPES.iter().find(|(letters, _)| behind.starts_with(letters));
        let (length, kind) = match known {
            Some((letters, kind)) => (letters.len(), *kind),
            // Any other letter stands for a text.
            None if behind.starts_with(|c: char| c.is_ascii_alphabetic()) => (1, "varchar"),
            None => {
                native.sql.push('%');
                rest = behind.strip_prefix('%').unwrap_or(behind);
                continue;
            }
        };
        native.types.push(kind);
        match driver {
            Driver::Sqlite => native.sql.push('?'),
            Driver::Postgres => native.sql.push_str(&format!("${}", native.types.len())),
        }
        rest = &behind[length..];
    }
    native.sql.push_str(rest);
    native
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters() {
        for (text, sqlite, postgres, types) in [
            ("a = %s and b=%d", "a = ? and b=?", "a = $1 and b=$2", &["varchar", "integer"][..]),
            ("%lld%lu%f", "???", "$1$2$3", &["bigint", "bigint", "real"]),
            ("like 'x%%' 5 % 2 %", "like 'x%' 5 % 2 %", "like 'x%' 5 % 2 %", &[]),
            ("%pDz,%pDt,%x", "?,?,?", "$1,$2,$3", &["timestamp with time zone", "text", "varchar"]),
            ("%%s%é", "%s%é", "%s%é", &[]),
            ("", "", "", &[]),
        ] {
            let want = |sql: &str| Native { sql: sql.into(), types: types.to_vec() };
            assert_eq!(native(Driver::Sqlite, text), want(sqlite), "{text}");
            assert_eq!(native(Driver::Postgres, text), want(postgres), "{text}");
        }
    }
}

//! An expression is compiled or refused with a message, the place of a fault lies in the text, and an evaluation ends.
//!
//! An input is a byte of options and the expression. The request of the evaluation says as little as possible, and
//! repeats names as values.

#![no_main]

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use conf::expr::{
    Access, Eval, EvalError, Expr, ExprError, FileError, FileTest, Options, StringExpr, Subject, Variable,
};
use http::text::from_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((options, text)) = data.split_first() else { return };
    let text = from_bytes(text);
    let is_set = |bit: u8| options & bit != 0;
    let options = Options { restricted: is_set(1), ssl_require: is_set(2), page: is_set(4), ssl: is_set(8), health: is_set(16) };
    match Expr::parse_with(&text, options) {
        Ok(expr) => {
            let (first, again) = (expr.eval(&Request, &mut Eval::new()), expr.eval(&Request, &mut Eval::new()));
            assert_eq!(first.is_ok(), again.is_ok());
            let _ = expr.looks_up();
        }
        Err(error) => check(&error, &text),
    }
    match StringExpr::parse_with(&text, options) {
        Ok(expr) => {
            let value = expr.eval(&Request, &mut Eval::new()).map(Cow::into_owned);
            if let (Some(constant), Ok(value)) = (expr.constant(), value) {
                assert_eq!(constant, value);
            }
        }
        Err(error) => check(&error, &text),
    }
});

/// An error says something about a part of the text.
fn check(error: &ExprError, text: &str) {
    assert!(!error.message.is_empty());
    assert!(text.get(error.place.clone()).is_some());
}

struct Request;

impl Subject for Request {
    fn variable(&self, _: Variable) -> Result<Cow<'_, str>, EvalError> {
        Ok(Cow::Borrowed("/a/b.html"))
    }

    fn header_in(&self, name: &str) -> Option<Cow<'_, str>> {
        Some(Cow::Owned(name.to_string()))
    }

    fn header_out(&self, name: &str) -> Option<Cow<'_, str>> {
        (name.len() > 3).then(|| Cow::Owned(format!("{name}, a, b")))
    }

    fn note(&self, _: &str) -> Option<Cow<'_, str>> {
        None
    }

    fn request_env(&self, name: &str) -> Option<Cow<'_, str>> {
        (name.len() > 1).then_some(Cow::Borrowed("1"))
    }

    fn process_env(&self, _: &str) -> Option<Cow<'_, str>> {
        None
    }

    fn file_test(&self, _: FileTest, path: &str) -> bool {
        path.starts_with('/')
    }

    fn file_contents(&self, path: &str) -> Result<String, FileError> {
        Ok(path.to_string())
    }

    fn file_size(&self, path: &str) -> u64 {
        path.len() as u64
    }

    fn access(&self, _: Access, target: &str) -> Option<bool> {
        (target.len() > 1).then_some(true)
    }

    fn client_address(&self) -> Option<IpAddr> {
        Some(Ipv4Addr::LOCALHOST.into())
    }

    fn note_vary(&self, _: &str) {}
}

//! Expressions: the conditions of `<If>`, `Require expr`, `Header ... expr=` and the strings of
//! `ErrorDocument`, `SetHandler` or `Header set X "expr=..."`.
//!
//! An expression is parsed once, when the configuration is read; names of variables and functions, networks and regular
//! expressions are resolved then. At request time, an [`Eval`] walks it and asks a [`Subject`] for data that only the
//! server has.
//!
//! Source: Apache manual, "Expressions in Apache HTTP Server" (expr); doubtful cases and all error
//! texts measured on 2.4.71.

mod eval;
mod lex;
mod names;
mod parse;
mod text;
mod tree;

pub use self::eval::{Eval, EvalError, FileError, MAX_FILE_SIZE, Subject};
pub use self::names::{Access, FileTest, Variable};
pub use self::parse::ExprError;
pub use self::tree::{Expr, Options, StringExpr};

#[cfg(test)]
mod tests;

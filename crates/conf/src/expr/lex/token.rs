//! Tokens, and their names in Apache's messages.

use crate::expr::tree::Comparison;

/// The smallest meaningful part of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::expr) enum Token {
    End,
    True,
    False,
    Error(String),
    Digit(String),
    Id(String),
    Text(String),
    Regex {
        pattern: String,
        ignore_case: bool,
    },
    BackReference(u8),
    Unary(String),
    Binary(String),
    StringBegin,
    StringEnd,
    VariableBegin,
    VariableEnd,
    Numeric(Comparison),
    Textual(Comparison),
    Match,
    NoMatch,
    In,
    Concat,
    Or,
    And,
    Not,
    /// One of `(){},:`.
    Sign(char),
}

impl Token {
    /// The token's name in Apache's messages.
    pub(in crate::expr) fn name(&self) -> String {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let name = match self {
            Self::End => "$end",
            Self::True => "T_TRUE",
            Self::False => "T_FALSE",
            Self::Error(_) => "T_ERROR",
            Self::Digit(_) => "T_DIGIT",
            Self::Id(_) => "T_ID",
            Self::Text(_) => "T_STRING",
            Self::Regex { ignore_case, .. } if *ignore_case => "T_REGEX_I",
            Self::Regex { .. } => "T_REGEX",
            Self::BackReference(_) => "T_REGEX_BACKREF",
            Self::Unary(_) => "T_OP_UNARY",
            Self::Binary(_) => "T_OP_BINARY",
            Self::StringBegin => "T_STR_BEGIN",
            Self::StringEnd => "T_STR_END",
            Self::VariableBegin => "T_VAR_BEGIN",
            Self::VariableEnd => "T_VAR_END",
            Self::Numeric(Equal) => "T_OP_EQ",
            Self::Numeric(NotEqual) => "T_OP_NE",
            Self::Numeric(Less) => "T_OP_LT",
            Self::Numeric(LessOrEqual) => "T_OP_LE",
            Self::Numeric(Greater) => "T_OP_GT",
            Self::Numeric(GreaterOrEqual) => "T_OP_GE",
            Self::Textual(Equal) => "T_OP_STR_EQ",
            Self::Textual(NotEqual) => "T_OP_STR_NE",
            Self::Textual(Less) => "T_OP_STR_LT",
            Self::Textual(LessOrEqual) => "T_OP_STR_LE",
            Self::Textual(Greater) => "T_OP_STR_GT",
            Self::Textual(GreaterOrEqual) => "T_OP_STR_GE",
            Self::Match => "T_OP_REG",
            Self::NoMatch => "T_OP_NRE",
            Self::In => "T_OP_IN",
            Self::Concat => "T_OP_CONCAT",
            Self::Or => "T_OP_OR",
            Self::And => "T_OP_AND",
            Self::Not => "T_OP_NOT",
            Self::Sign(c) => return format!("'{c}'"),
        };
        name.to_owned()
    }
}

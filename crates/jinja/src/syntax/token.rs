//! Tokens.

use crate::value::{Str, Value};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    VariableBegin,
    VariableEnd,
    BlockBegin,
    BlockEnd,
    Name,
    String,
    Integer,
    Float,
    /// A sign of one to three characters, held in the token's text.
    Operator(&'static str),
    End,
}

/// A token and the line it begins on.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub line: u32,
    pub kind: Kind,
    /// The text of data, a name or a string.
    pub text: Str,
    /// The value of a number.
    pub value: Value,
}

/// The operators, longest first, so that `**` is not read as two `*`.
pub(crate) const OPERATORS: &[&str] = &[
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".",
    ":", "|", ",", ";",
];

impl Kind {
    /// Names the kind as Jinja's errors do.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Kind::Data => "template data / text",
            Kind::VariableBegin => "begin of print statement",
            Kind::VariableEnd => "end of print statement",
            Kind::BlockBegin => "begin of statement block",
            Kind::BlockEnd => "end of statement block",
            Kind::Name => "name",
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Float => "float",
            Kind::Operator(sign) => sign,
            Kind::End => "end of template",
        }
    }
}

impl Token {
    /// Names the token as Jinja's errors do.
    pub(crate) fn describe(&self) -> String {
        if self.kind == Kind::Name { self.text.to_string() } else { self.kind.describe().to_string() }
    }

    /// Returns whether this is the name.
    pub(crate) fn is_name(&self, name: &str) -> bool {
        self.kind == Kind::Name && &*self.text == name
    }

    /// Returns whether this is the sign.
    pub(crate) fn is(&self, sign: &str) -> bool {
        matches!(self.kind, Kind::Operator(have) if have == sign)
    }
}

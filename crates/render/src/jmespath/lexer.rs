//! From the text of an expression to tokens.

use jinja::{Error, State, Value};

use python::json;

/// The kinds of tokens, named as in error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    And,
    Colon,
    Comma,
    Current,
    Dot,
    Eof,
    Eq,
    Expref,
    Filter,
    Flatten,
    Gt,
    Gte,
    Lbrace,
    Lbracket,
    Literal,
    Lparen,
    Lt,
    Lte,
    Ne,
    Not,
    Number,
    Or,
    Pipe,
    QuotedIdentifier,
    Rbrace,
    Rbracket,
    Rparen,
    Star,
    UnquotedIdentifier,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::And => "and",
            Kind::Colon => "colon",
            Kind::Comma => "comma",
            Kind::Current => "current",
            Kind::Dot => "dot",
            Kind::Eof => "eof",
            Kind::Eq => "eq",
            Kind::Expref => "expref",
            Kind::Filter => "filter",
            Kind::Flatten => "flatten",
            Kind::Gt => "gt",
            Kind::Gte => "gte",
            Kind::Lbrace => "lbrace",
            Kind::Lbracket => "lbracket",
            Kind::Literal => "literal",
            Kind::Lparen => "lparen",
            Kind::Lt => "lt",
            Kind::Lte => "lte",
            Kind::Ne => "ne",
            Kind::Not => "not",
            Kind::Number => "number",
            Kind::Or => "or",
            Kind::Pipe => "pipe",
            Kind::QuotedIdentifier => "quoted_identifier",
            Kind::Rbrace => "rbrace",
            Kind::Rbracket => "rbracket",
            Kind::Rparen => "rparen",
            Kind::Star => "star",
            Kind::UnquotedIdentifier => "unquoted_identifier",
        }
    }

    /// Returns the binding power: how strongly the token binds its left operand.
    pub(super) fn power(self) -> u8 {
        match self {
            Kind::Pipe => 1,
            Kind::Or => 2,
            Kind::And => 3,
            Kind::Eq | Kind::Ne | Kind::Gt | Kind::Gte | Kind::Lt | Kind::Lte => 5,
            Kind::Flatten => 9,
            Kind::Star => 20,
            Kind::Filter => 21,
            Kind::Dot => 40,
            Kind::Not => 45,
            Kind::Lbrace => 50,
            Kind::Lbracket => 55,
            Kind::Lparen => 60,
            _ => 0,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) value: Value,
    /// The position of the first character, counted in characters.
    pub(super) start: usize,
}

pub(super) fn tokens(expression: &str) -> Result<Vec<Token>, Error> {
    let mut lexer = Lexer { expression, chars: expression.chars().collect(), at: 0, tokens: Vec::new() };
    while let Some(letter) = lexer.peek() {
        lexer.token(letter)?;
    }
    let end = lexer.at;
    lexer.push(Kind::Eof, Value::str(""), end);
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    expression: &'a str,
    chars: Vec<char>,
    at: usize,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn push(&mut self, kind: Kind, value: Value, start: usize) {
        self.tokens.push(Token { kind, value, start });
    }

    fn text(&self, from: usize, to: usize) -> String {
        self.chars[from..to.min(self.chars.len())].iter().collect()
    }

    fn failure(&self, what: &str, at: usize) -> Error {
        let space = " ".repeat(at);
        Error::value_error(format!("Bad jmespath expression: {what}:\n{}\n{space}^", self.expression))
    }

    fn token(&mut self, letter: char) -> Result<(), Error> {
        let start = self.at;
        match letter {
            ' ' | '\t' | '\n' | '\r' => self.at += 1,
            '.' => self.sign(Kind::Dot, 1),
            '*' => self.sign(Kind::Star, 1),
            ']' => self.sign(Kind::Rbracket, 1),
            ',' => self.sign(Kind::Comma, 1),
            ':' => self.sign(Kind::Colon, 1),
            '@' => self.sign(Kind::Current, 1),
            '(' => self.sign(Kind::Lparen, 1),
            ')' => self.sign(Kind::Rparen, 1),
            '{' => self.sign(Kind::Lbrace, 1),
            '}' => self.sign(Kind::Rbrace, 1),
            '[' => match self.chars.get(start + 1) {
                Some(']') => self.sign(Kind::Flatten, 2),
                Some('?') => self.sign(Kind::Filter, 2),
                _ => self.sign(Kind::Lbracket, 1),
            },
            '|' => self.either('|', Kind::Or, Kind::Pipe),
            '&' => self.either('&', Kind::And, Kind::Expref),
            '<' => self.either('=', Kind::Lte, Kind::Lt),
            '>' => self.either('=', Kind::Gte, Kind::Gt),
            '!' => self.either('=', Kind::Ne, Kind::Not),
            '=' => self.equals()?,
            'a'..='z' | 'A'..='Z' | '_' => {
                let end = self.end_of(|letter| letter.is_ascii_alphanumeric() || letter == '_');
                let name = self.text(start, end);
                self.at = end;
                self.push(Kind::UnquotedIdentifier, Value::str(name), start);
            }
            '0'..='9' | '-' => self.number()?,
            '\'' => {
                let text = self.until('\'')?.replace("\\'", "'");
                self.push(Kind::Literal, Value::str(text), start);
            }
            '`' => self.literal()?,
            '"' => self.quoted()?,
            other => return Err(self.failure(&format!("Unknown token {other}"), start)),
        }
        Ok(())
    }

    fn sign(&mut self, kind: Kind, length: usize) {
        let (start, text) = (self.at, self.text(self.at, self.at + length));
        self.at += length;
        self.push(kind, Value::str(text), start);
    }

    fn either(&mut self, second: char, double: Kind, single: Kind) {
        match self.chars.get(self.at + 1) {
            Some(next) if *next == second => self.sign(double, 2),
            _ => self.sign(single, 1),
        }
    }

    fn equals(&mut self) -> Result<(), Error> {
        if self.chars.get(self.at + 1) == Some(&'=') {
            self.sign(Kind::Eq, 2);
            return Ok(());
        }
        Err(self.failure("Unknown token '='", self.at))
    }

    fn end_of(&self, belongs: impl Fn(char) -> bool) -> usize {
        let mut end = self.at + 1;
        while self.chars.get(end).is_some_and(|letter| belongs(*letter)) {
            end += 1;
        }
        end
    }

    fn number(&mut self) -> Result<(), Error> {
        let start = self.at;
        let end = self.end_of(|letter| letter.is_ascii_digit());
        let text = self.text(start, end);
        // A lone minus sign.
        let Ok(number) = text.parse::<value::BigInt>() else {
            return Err(self.failure(&format!("Unknown token '{text}'"), start));
        };
        self.at = end;
        self.push(Kind::Number, Value::int(number), start);
        Ok(())
    }

    /// Reads up to a delimiter that has no backslash before it, and steps over it.
    fn until(&mut self, delimiter: char) -> Result<String, Error> {
        let start = self.at;
        let mut text = String::new();
        self.at += 1;
        while self.peek() != Some(delimiter) {
            if self.peek() == Some('\\') {
                text.push('\\');
                self.at += 1;
            }
            let Some(letter) = self.peek() else {
                return Err(self.failure(&format!("Unclosed {delimiter} delimiter"), start));
            };
            text.push(letter);
            self.at += 1;
        }
        self.at += 1;
        Ok(text)
    }

    /// JSON between back quotes; what is not JSON is a text.
    fn literal(&mut self) -> Result<(), Error> {
        let start = self.at;
        let text = self.until('`')?.replace("\\`", "`");
        let read = json::loads(&text).or_else(|_| json::loads(&format!("\"{}\"", text.trim_start())));
        let Ok(value) = read else { return Err(self.failure(&format!("Bad token {text}"), start)) };
        self.push(Kind::Literal, crate::convert::seen(&value), start);
        Ok(())
    }

    fn quoted(&mut self) -> Result<(), Error> {
        let start = self.at;
        let text = format!("\"{}\"", self.until('"')?);
        match json::loads(&text) {
            Ok(value) => self.push(Kind::QuotedIdentifier, crate::convert::seen(&value), start),
            // The library shows only the first part of Python's JSON error.
            Err(why) => return Err(self.failure(why.split(':').next().unwrap_or_default(), start)),
        }
        Ok(())
    }
}

/// A token in a message: its text, or its value as Python prints it.
pub(super) fn token_text(state: &mut State, token: &Token) -> Result<String, Error> {
    state.str(&token.value)
}

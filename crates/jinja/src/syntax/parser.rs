//! The parser: its token stream, its errors, and what both halves share.

use std::collections::VecDeque;

use super::lexer::Lexer;
use super::token::{Kind, Token};
use super::tree::{Expr, ExprKind, Stmt, StmtKind};
use crate::env::Environment;
use crate::error::{Error, ErrorKind};
use crate::python::repr_str;
use crate::run::on_new_stack;
use crate::value::Str;

/// The deepest nesting of expressions and statements. Python's own limit depends on its stack; this one is listed in
/// COMPATIBILITY.md.
const MAX_NESTING: u32 = 150;

/// The number of nested levels after which parsing continues on a new stack.
const NESTING_PER_STACK: u32 = 25;

pub(super) struct Parser<'a> {
    pub env: &'a Environment,
    lexer: Lexer<'a>,
    name: Option<Str>,
    pub current: Token,
    pushed: VecDeque<Token>,
    nesting: u32,
    /// The deepest nesting so far, chains of operators included.
    pub deepest: u32,
    pub tag_stack: Vec<Str>,
    end_stack: Vec<&'static [&'static str]>,
    pub last_identifier: u32,
}

/// Parses a template; returns whether it is so deep that it needs a large stack.
pub(crate) fn parse(env: &Environment, name: Option<Str>, source: &str) -> Result<(Vec<Stmt>, bool), Error> {
    let lexer = Lexer::new(&env.syntax, name.clone(), source);
    let current = Token { line: 1, kind: Kind::End, text: "".into(), value: Default::default() };
    let mut parser = Parser {
        env,
        lexer,
        name,
        current,
        pushed: VecDeque::new(),
        nesting: 0,
        deepest: 0,
        tag_stack: Vec::new(),
        end_stack: Vec::new(),
        last_identifier: 0,
    };
    parser.advance()?;
    let body = parser.subparse(&[])?;
    // Shallow templates, nearly all, are compiled and run without starting a thread.
    Ok((body, parser.deepest >= NESTING_PER_STACK))
}

impl Parser<'_> {
    pub fn fail<T>(&self, message: impl Into<String>, line: u32) -> Result<T, Error> {
        Err(Error::syntax(ErrorKind::Syntax, message, self.name.clone(), line))
    }

    pub fn fail_assertion<T>(&self, message: impl Into<String>, line: u32) -> Result<T, Error> {
        Err(Error::syntax(ErrorKind::TemplateAssertion, message, self.name.clone(), line))
    }

    /// Advances by one token and returns the previous one.
    pub fn advance(&mut self) -> Result<Token, Error> {
        let next = match self.pushed.pop_front() {
            Some(token) => token,
            None => self.lexer.next()?,
        };
        let mut left = std::mem::replace(&mut self.current, next);
        if self.current.kind == Kind::End {
            // The end has the line of the last token.
            self.current.line = if left.kind == Kind::End && left.line == 0 { 1 } else { left.line };
        }
        if left.line == 0 {
            left.line = 1;
        }
        Ok(left)
    }

    /// Returns the token after the current one.
    pub fn look(&mut self) -> Result<&Token, Error> {
        if self.pushed.is_empty() {
            let token = self.lexer.next()?;
            self.pushed.push_back(token);
        }
        self.pushed.front().ok_or_else(|| Error::runtime("no token"))
    }

    pub fn skip_name(&mut self, name: &str) -> Result<bool, Error> {
        let found = self.current.is_name(name);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub fn skip(&mut self, sign: &str) -> Result<bool, Error> {
        let found = self.current.is(sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn unexpected<T>(&self, expected: &str) -> Result<T, Error> {
        if self.current.kind == Kind::End {
            return self
                .fail(format!("unexpected end of template, expected {}.", repr_str(expected)), self.current.line);
        }
        let got = repr_str(&self.current.describe());
        self.fail(format!("expected token {}, got {got}", repr_str(expected)), self.current.line)
    }

    pub fn expect_kind(&mut self, kind: Kind) -> Result<Token, Error> {
        if self.current.kind != kind {
            return self.unexpected(kind.describe());
        }
        self.advance()
    }

    pub fn expect(&mut self, sign: &'static str) -> Result<Token, Error> {
        self.expect_kind(Kind::Operator(sign))
    }

    pub fn expect_name(&mut self, name: &str) -> Result<Token, Error> {
        if !self.current.is_name(name) {
            return self.unexpected(name);
        }
        self.advance()
    }

    /// Runs a part of the parser one level deeper.
    pub fn nested<T: Send>(&mut self, part: impl FnOnce(&mut Self) -> Result<T, Error> + Send) -> Result<T, Error> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            // Each level takes several frames here, and more when the tree is compiled, run and dropped.
            return self.fail("the template is nested too deeply", self.current.line);
        }
        self.deepest = self.deepest.max(self.nesting);
        let deep = self.nesting.is_multiple_of(NESTING_PER_STACK);
        let result = if deep { on_new_stack(|| part(self)) } else { part(self) };
        self.nesting -= 1;
        result
    }

    /// Fails at an unexpected end of the template (`name` is none) or at an unknown tag.
    pub fn fail_unfinished<T>(&self, name: Option<&str>, line: u32) -> Result<T, Error> {
        let looking =
            self.end_stack.last().map(|tags| tags.iter().map(|tag| repr_str(tag)).collect::<Vec<_>>().join(" or "));
        let mut message = match name {
            None => "Unexpected end of template.".to_string(),
            Some(name) => format!("Encountered unknown tag {}.", repr_str(name)),
        };
        if let Some(looking) = looking {
            // Tells a tag in the wrong place from one that does not exist: Jinja words the two differently.
            let expected = name.is_some_and(|name| self.end_stack.iter().any(|tags| tags.contains(&name)));
            if expected {
                message.push_str(&format!(
                    " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for \
                     {looking}."
                ));
            } else {
                message.push_str(&format!(" Jinja was looking for the following tags: {looking}."));
            }
        }
        if let Some(tag) = self.tag_stack.last() {
            message.push_str(&format!(" The innermost block that needs to be closed is {}.", repr_str(tag)));
        }
        self.fail(message, line)
    }

    /// Parses the body of a tag up to one of the `end` tags, which becomes the current token.
    pub fn statements(&mut self, end: &'static [&'static str], drop_end: bool) -> Result<Vec<Stmt>, Error> {
        // Jinja allows a colon as in Python: `{% if x: %}`.
        self.skip(":")?;
        self.expect_kind(Kind::BlockEnd)?;
        let body = self.nested(|this| this.subparse(end))?;
        if self.current.kind == Kind::End {
            self.end_stack.push(end);
            let failed = self.fail_unfinished(None, self.current.line);
            self.end_stack.pop();
            return failed;
        }
        if drop_end {
            self.advance()?;
        }
        Ok(body)
    }

    fn subparse(&mut self, end: &'static [&'static str]) -> Result<Vec<Stmt>, Error> {
        if !end.is_empty() {
            self.end_stack.push(end);
        }
        let mut body = Vec::new();
        let mut data: Vec<Expr> = Vec::new();
        while self.current.kind != Kind::End {
            match self.current.kind {
                Kind::Data => {
                    let token = self.advance()?;
                    data.push(Expr { line: token.line, kind: ExprKind::Data(token.text) });
                }
                Kind::VariableBegin => {
                    self.advance()?;
                    data.push(self.tuple(true, false)?);
                    self.expect_kind(Kind::VariableEnd)?;
                }
                _ => {
                    flush(&mut data, &mut body);
                    self.expect_kind(Kind::BlockBegin)?;
                    if self.current.kind == Kind::Name && end.contains(&&*self.current.text) {
                        self.end_stack.pop();
                        return Ok(body);
                    }
                    body.extend(self.statement()?);
                    self.expect_kind(Kind::BlockEnd)?;
                }
            }
        }
        flush(&mut data, &mut body);
        if !end.is_empty() {
            self.end_stack.pop();
        }
        Ok(body)
    }
}

fn flush(data: &mut Vec<Expr>, body: &mut Vec<Stmt>) {
    if let Some(first) = data.first() {
        let line = first.line;
        body.push(Stmt { line, kind: StmtKind::Output(std::mem::take(data)) });
    }
}

//! The half of the parser for expressions.

use super::parser::Parser;
use super::token::{Kind, Token};
use super::tree::{Args, Expr, ExprKind};
use crate::error::Error;
use crate::python::{BinOp, CmpOp, repr_str};
use crate::value::{Str, Value};

type Parsed = Result<Expr, Error>;

fn expr(line: u32, kind: ExprKind) -> Expr {
    Expr { line, kind }
}

impl Parser<'_> {
    /// Parses an expression; `conditions` allows a trailing `if … else …`.
    pub fn expression(&mut self, conditions: bool) -> Parsed {
        self.nested(|this| if conditions { this.condition() } else { this.or() })
    }

    fn condition(&mut self) -> Parsed {
        let mut line = self.current.line;
        let mut first = self.or()?;
        // Jinja chains these: `a if b if c` is legal.
        while self.skip_name("if")? {
            let test = self.or()?;
            let other = if self.skip_name("else")? { Some(Box::new(self.nested(Self::condition)?)) } else { None };
            first = expr(line, ExprKind::Cond(Box::new(test), Box::new(first), other));
            line = self.current.line;
        }
        Ok(first)
    }

    fn or(&mut self) -> Parsed {
        let mut line = self.current.line;
        let (mut left, mut count) = (self.and()?, 0);
        while self.skip_name("or")? {
            count += 1;
            self.chain(count)?;
            let right = self.and()?;
            left = expr(line, ExprKind::Or(Box::new(left), Box::new(right)));
            line = self.current.line;
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed {
        let mut line = self.current.line;
        let (mut left, mut count) = (self.not()?, 0);
        while self.skip_name("and")? {
            count += 1;
            self.chain(count)?;
            let right = self.not()?;
            left = expr(line, ExprKind::And(Box::new(left), Box::new(right)));
            line = self.current.line;
        }
        Ok(left)
    }

    /// Counts one more operator of a chain; fails beyond 250, because chains become deep trees.
    fn chain(&mut self, count: u32) -> Result<(), Error> {
        self.deepest = self.deepest.max(count);
        // The tree of a long chain is as deep as the chain is long. Running it and dropping it recurse.
        if count > 250 {
            return self.fail("the template is nested too deeply", self.current.line);
        }
        Ok(())
    }

    fn not(&mut self) -> Parsed {
        if self.current.is_name("not") {
            let line = self.advance()?.line;
            let inner = self.nested(Self::not)?;
            return Ok(expr(line, ExprKind::Not(Box::new(inner))));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Parsed {
        let mut line = self.current.line;
        let first = self.sum()?;
        let mut others = Vec::new();
        loop {
            // `not` after an operand belongs to `not in`; any other use is left to the caller, who reports it.
            let not_in = self.current.is_name("not") && self.look()?.is_name("in");
            let op = match self.current.kind {
                Kind::Operator("==") => CmpOp::Eq,
                Kind::Operator("!=") => CmpOp::Ne,
                Kind::Operator("<") => CmpOp::Lt,
                Kind::Operator("<=") => CmpOp::Le,
                Kind::Operator(">") => CmpOp::Gt,
                Kind::Operator(">=") => CmpOp::Ge,
                Kind::Name if &*self.current.text == "in" => CmpOp::In,
                Kind::Name if not_in => {
                    self.advance()?;
                    CmpOp::NotIn
                }
                _ => break,
            };
            self.advance()?;
            others.push((op, self.sum()?));
            line = self.current.line;
        }
        if others.is_empty() {
            return Ok(first);
        }
        Ok(expr(line, ExprKind::Compare(Box::new(first), others)))
    }

    fn sum(&mut self) -> Parsed {
        let mut line = self.current.line;
        let (mut left, mut count) = (self.concat()?, 0);
        loop {
            let op = match self.current.kind {
                Kind::Operator("+") => BinOp::Add,
                Kind::Operator("-") => BinOp::Sub,
                _ => return Ok(left),
            };
            count += 1;
            self.chain(count)?;
            self.advance()?;
            let right = self.concat()?;
            left = expr(line, ExprKind::Binary(op, Box::new(left), Box::new(right)));
            line = self.current.line;
        }
    }

    fn concat(&mut self) -> Parsed {
        let line = self.current.line;
        let first = self.product()?;
        if !self.current.is("~") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.skip("~")? {
            parts.push(self.product()?);
        }
        Ok(expr(line, ExprKind::Concat(parts)))
    }

    fn product(&mut self) -> Parsed {
        let mut line = self.current.line;
        let (mut left, mut count) = (self.power()?, 0);
        loop {
            let op = match self.current.kind {
                Kind::Operator("*") => BinOp::Mul,
                Kind::Operator("/") => BinOp::Div,
                Kind::Operator("//") => BinOp::FloorDiv,
                Kind::Operator("%") => BinOp::Mod,
                _ => return Ok(left),
            };
            count += 1;
            self.chain(count)?;
            self.advance()?;
            let right = self.power()?;
            left = expr(line, ExprKind::Binary(op, Box::new(left), Box::new(right)));
            line = self.current.line;
        }
    }

    fn power(&mut self) -> Parsed {
        let mut line = self.current.line;
        // Unlike Python, Jinja groups powers from the left and binds signs more tightly: `2 ** 3 ** 2` is 64, `-2 ** 2`
        // is 4.
        let (mut left, mut count) = (self.unary(true)?, 0);
        while self.skip("**")? {
            count += 1;
            self.chain(count)?;
            let right = self.unary(true)?;
            left = expr(line, ExprKind::Binary(BinOp::Pow, Box::new(left), Box::new(right)));
            line = self.current.line;
        }
        Ok(left)
    }

    fn unary(&mut self, with_filter: bool) -> Parsed {
        let line = self.current.line;
        let node = if self.skip("-")? {
            let inner = self.nested(|this| this.unary(false))?;
            expr(line, ExprKind::Neg(Box::new(inner)))
        } else if self.skip("+")? {
            let inner = self.nested(|this| this.unary(false))?;
            expr(line, ExprKind::Pos(Box::new(inner)))
        } else {
            self.primary(false)?
        };
        let node = self.postfix(node)?;
        // A filter applies to the signed value: `-1|abs` is 1. So it must not be parsed inside the sign.
        if with_filter { self.filters_and_tests(node) } else { Ok(node) }
    }

    /// Parses a name or a literal; `name.attr` too if `namespaces`.
    pub fn primary(&mut self, namespaces: bool) -> Parsed {
        let token = self.current.clone();
        let line = token.line;
        match token.kind {
            Kind::Name => {
                self.advance()?;
                Ok(expr(
                    line,
                    match &*token.text {
                        // Jinja takes both spellings, and reads these names as literals even where they are assigned
                        // to.
                        "true" | "True" => ExprKind::Const(Value::Bool(true)),
                        "false" | "False" => ExprKind::Const(Value::Bool(false)),
                        "none" | "None" => ExprKind::Const(Value::None),
                        _ if namespaces && self.current.is(".") => {
                            self.advance()?;
                            let attr = self.expect_kind(Kind::Name)?;
                            ExprKind::NamespaceRef(token.text, attr.text)
                        }
                        _ => ExprKind::Name(token.text),
                    },
                ))
            }
            Kind::String => {
                self.advance()?;
                let mut text = token.text;
                while self.current.kind == Kind::String {
                    // Adjacent literals are one, as in Python.
                    text = format!("{text}{}", self.advance()?.text).into();
                }
                Ok(expr(line, ExprKind::Const(Value::Str(text))))
            }
            Kind::Integer | Kind::Float => {
                self.advance()?;
                Ok(expr(line, ExprKind::Const(token.value)))
            }
            Kind::Operator("(") => {
                self.advance()?;
                let inner = self.tuple(true, true)?;
                self.expect(")")?;
                Ok(inner)
            }
            Kind::Operator("[") => self.list(),
            Kind::Operator("{") => self.dict(),
            _ => self.fail(format!("unexpected {}", repr_str(&token.describe())), line),
        }
    }

    fn is_tuple_end(&self) -> bool {
        matches!(self.current.kind, Kind::VariableEnd | Kind::BlockEnd | Kind::Operator(")"))
    }

    /// Parses an expression, or several separated by commas as a tuple.
    pub fn tuple(&mut self, conditions: bool, parentheses: bool) -> Parsed {
        self.tuple_of(parentheses, |this| this.expression(conditions))
    }

    /// Parses one item or a tuple of items.
    pub fn tuple_of(&mut self, parentheses: bool, mut item: impl FnMut(&mut Self) -> Parsed + Send) -> Parsed {
        let mut line = self.current.line;
        let mut items = Vec::new();
        let mut is_tuple = false;
        loop {
            if !items.is_empty() {
                self.expect(",")?;
            }
            if self.is_tuple_end() {
                break;
            }
            items.push(self.nested(&mut item)?);
            if !self.current.is(",") {
                break;
            }
            is_tuple = true;
            line = self.current.line;
        }
        if !is_tuple {
            if let Some(one) = items.pop() {
                return Ok(one);
            }
            // Only parentheses make an empty tuple; `{{ }}` is an error.
            if !parentheses {
                let got = repr_str(&self.current.describe());
                return self.fail(format!("Expected an expression, got {got}"), self.current.line);
            }
        }
        Ok(expr(line, ExprKind::Tuple(items)))
    }

    fn list(&mut self) -> Parsed {
        let line = self.expect("[")?.line;
        let mut items = Vec::new();
        while !self.current.is("]") {
            if !items.is_empty() {
                self.expect(",")?;
            }
            if self.current.is("]") {
                break;
            }
            items.push(self.expression(true)?);
        }
        self.expect("]")?;
        Ok(expr(line, ExprKind::List(items)))
    }

    fn dict(&mut self) -> Parsed {
        let line = self.expect("{")?.line;
        let mut items = Vec::new();
        while !self.current.is("}") {
            if !items.is_empty() {
                self.expect(",")?;
            }
            if self.current.is("}") {
                break;
            }
            let key = self.expression(true)?;
            self.expect(":")?;
            items.push((key, self.expression(true)?));
        }
        self.expect("}")?;
        Ok(expr(line, ExprKind::Dict(items)))
    }

    fn postfix(&mut self, mut node: Expr) -> Parsed {
        let mut count = 0;
        loop {
            count += 1;
            self.chain(count)?;
            node = match self.current.kind {
                Kind::Operator("." | "[") => self.subscript(node)?,
                Kind::Operator("(") => self.call(node)?,
                _ => return Ok(node),
            };
        }
    }

    fn filters_and_tests(&mut self, mut node: Expr) -> Parsed {
        let mut count = 0;
        loop {
            count += 1;
            self.chain(count)?;
            node = match self.current.kind {
                Kind::Operator("|") => match self.filter(Some(node), false)? {
                    Some(filtered) => filtered,
                    None => return self.fail("expected a filter", self.current.line),
                },
                Kind::Name if &*self.current.text == "is" => self.test(node)?,
                Kind::Operator("(") => self.call(node)?,
                _ => return Ok(node),
            };
        }
    }

    fn subscript(&mut self, node: Expr) -> Parsed {
        let token = self.advance()?;
        let node = Box::new(node);
        if token.is(".") {
            let attr = self.advance()?;
            return match attr.kind {
                Kind::Name => Ok(expr(token.line, ExprKind::Attr(node, attr.text))),
                // `a.0` looks up the item 0.
                Kind::Integer => {
                    let index = expr(attr.line, ExprKind::Const(attr.value));
                    Ok(expr(token.line, ExprKind::Item(node, Box::new(index))))
                }
                _ => self.fail("expected name or number", attr.line),
            };
        }
        let mut items = Vec::new();
        while !self.current.is("]") {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(self.nested(Self::subscribed)?);
        }
        self.expect("]")?;
        // `a[]` is the empty tuple and `a[1, 2]` a pair, as Jinja parses them.
        let index = match items.len() {
            1 => items.remove(0),
            _ => expr(token.line, ExprKind::Tuple(items)),
        };
        Ok(expr(token.line, ExprKind::Item(node, Box::new(index))))
    }

    fn subscribed(&mut self) -> Parsed {
        let line = self.current.line;
        let start = if self.skip(":")? {
            None
        } else {
            let node = self.expression(true)?;
            if !self.skip(":")? {
                return Ok(node);
            }
            Some(Box::new(node))
        };
        let at_end = |this: &Self| this.current.is("]") || this.current.is(",");
        let mut stop = None;
        if !self.current.is(":") && !at_end(self) {
            stop = Some(Box::new(self.expression(true)?));
        }
        let mut step = None;
        if self.skip(":")? && !at_end(self) {
            step = Some(Box::new(self.expression(true)?));
        }
        Ok(expr(line, ExprKind::Slice(start, stop, step)))
    }

    fn call_args(&mut self) -> Result<Args, Error> {
        let open = self.expect("(")?;
        let mut args = Args::default();
        let mut comma = false;
        let invalid = |this: &Self, ok: bool| -> Result<(), Error> {
            if ok { Ok(()) } else { this.fail("invalid syntax for function call expression", open.line) }
        };
        while !self.current.is(")") {
            if comma {
                self.expect(",")?;
                // A trailing comma is allowed.
                if self.current.is(")") {
                    break;
                }
            }
            if self.current.is("*") {
                invalid(self, args.dyn_args.is_none() && args.dyn_kwargs.is_none())?;
                self.advance()?;
                args.dyn_args = Some(Box::new(self.expression(true)?));
            } else if self.current.is("**") {
                invalid(self, args.dyn_kwargs.is_none())?;
                self.advance()?;
                args.dyn_kwargs = Some(Box::new(self.expression(true)?));
            } else if self.current.kind == Kind::Name && self.look()?.is("=") {
                invalid(self, args.dyn_kwargs.is_none())?;
                let key = self.advance()?.text;
                self.advance()?;
                args.kwargs.push((key, self.expression(true)?));
            } else {
                // Stricter than Python: nothing by position may follow `*args` or a keyword.
                let plain = args.dyn_args.is_none() && args.dyn_kwargs.is_none() && args.kwargs.is_empty();
                invalid(self, plain)?;
                args.args.push(self.expression(true)?);
            }
            comma = true;
        }
        self.expect(")")?;
        Ok(args)
    }

    fn call(&mut self, node: Expr) -> Parsed {
        let line = self.current.line;
        let args = self.call_args()?;
        Ok(expr(line, ExprKind::Call(Box::new(node), args)))
    }

    fn dotted_name(&mut self) -> Result<(Token, Str), Error> {
        let token = self.expect_kind(Kind::Name)?;
        let mut name = token.text.clone();
        // Filters and tests may have dotted names, such as `ansible.builtin.x`; they are looked up as a whole.
        while self.skip(".")? {
            name = format!("{name}.{}", self.expect_kind(Kind::Name)?.text).into();
        }
        Ok((token, name))
    }

    /// Parses a chain of filters; `inline` means that the first has no `|` before it.
    pub fn filter(&mut self, mut node: Option<Expr>, mut inline: bool) -> Result<Option<Expr>, Error> {
        let mut count = 0;
        while self.current.is("|") || inline {
            count += 1;
            self.chain(count)?;
            if !inline {
                self.advance()?;
            }
            let (token, name) = self.dotted_name()?;
            let args = if self.current.is("(") { self.call_args()? } else { Args::default() };
            node = Some(expr(token.line, ExprKind::Filter(node.map(Box::new), name, args)));
            inline = false;
        }
        Ok(node)
    }

    fn test(&mut self, node: Expr) -> Parsed {
        let line = self.advance()?.line;
        let negated = self.skip_name("not")?;
        let (_, name) = self.dotted_name()?;
        // `x is defined or y`: these words end the test and are not its argument.
        let is_end = ["else", "or", "and"].iter().any(|name| self.current.is_name(name));
        let args = match self.current.kind {
            Kind::Operator("(") => self.call_args()?,
            Kind::Name | Kind::String | Kind::Integer | Kind::Float | Kind::Operator("[" | "{") if !is_end => {
                if self.current.is_name("is") {
                    return self.fail("You cannot chain multiple tests with is", self.current.line);
                }
                let arg = self.nested(|this| {
                    let arg = this.primary(false)?;
                    this.postfix(arg)
                })?;
                Args { args: vec![arg], ..Args::default() }
            }
            _ => Args::default(),
        };
        let node = expr(line, ExprKind::Test(Box::new(node), name, args));
        Ok(if negated { expr(line, ExprKind::Not(Box::new(node))) } else { node })
    }
}

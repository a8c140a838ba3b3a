//! Parses tokens by precedence.

use jinja::{Error, ErrorKind, State, Value};

use super::lexer::{Kind, Token, token_text, tokens};
use super::tree::{Node, Shape, Tree};

/// Expressions nested deeper are refused, where Python ends with a recursion error.
const MAX_DEPTH: u32 = 150;

/// Binding powers below this one end a projection.
const PROJECTION_STOP: u8 = 10;

/// Reads an expression.
pub(super) fn parse(state: &mut State, expression: &str) -> Result<Tree, Error> {
    if expression.is_empty() {
        return Err(Error::value_error("Invalid JMESPath expression: cannot be empty."));
    }
    let mut parser = Parser { state, expression, tokens: tokens(expression)?, at: 0, depth: 0 };
    let tree = parser.expression(0)?;
    if parser.kind() != Kind::Eof {
        let token = parser.token(0);
        let text = token_text(parser.state, &token)?;
        return Err(parser.failure(&token, &format!("Unexpected token: {text}")));
    }
    Ok(tree)
}

struct Parser<'a> {
    state: &'a mut State,
    expression: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
}

type Parsed = Result<Tree, Error>;

impl Parser<'_> {
    fn token(&self, ahead: usize) -> Token {
        // The last token is the end, and nothing steps over it without an error.
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)].clone()
    }

    fn kind(&self) -> Kind {
        self.token(0).kind
    }

    fn step(&mut self) -> Token {
        let token = self.token(0);
        self.at += 1;
        token
    }

    fn failure(&mut self, token: &Token, what: &str) -> Error {
        let text = match token_text(self.state, token) {
            Ok(text) => text,
            Err(error) => return error,
        };
        let (column, kind, expression) = (token.start, token.kind.name().to_uppercase(), self.expression);
        let space = " ".repeat(column + 1);
        Error::value_error(format!(
            "{what}: Parse error at column {column}, token \"{text}\" ({kind}), for expression:\n\"{expression}\"\n{space}^"
        ))
    }

    fn incomplete(&self) -> Error {
        let space = " ".repeat(self.expression.chars().count() + 1);
        let expression = self.expression;
        Error::value_error(format!("Invalid jmespath expression: Incomplete expression:\n\"{expression}\"\n{space}^"))
    }

    fn unexpected(&mut self, expected: &str) -> Error {
        let token = self.token(0);
        if token.kind == Kind::Eof {
            return self.incomplete();
        }
        self.failure(&token, &format!("Expecting: {expected}, got: {}", token.kind.name()))
    }

    fn invalid(&mut self, token: &Token) -> Error {
        self.failure(token, "invalid token")
    }

    fn expect(&mut self, kind: Kind) -> Result<(), Error> {
        if self.kind() != kind {
            return Err(self.unexpected(kind.name()));
        }
        self.at += 1;
        Ok(())
    }

    fn expression(&mut self, power: u8) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(too_deep());
        }
        let first = self.step();
        let mut left = self.begin(&first)?;
        while power < self.kind().power() {
            let token = self.step();
            left = self.go_on(left, &token)?;
            // A chain of operators grows to the left without recursion here, but is visited recursively later.
            if left.depth > MAX_DEPTH {
                return Err(too_deep());
            }
        }
        self.depth -= 1;
        Ok(left)
    }

    /// Parses an expression that begins with the token.
    fn begin(&mut self, token: &Token) -> Parsed {
        Ok(match token.kind {
            Kind::Literal => Tree::new(Node::Literal(token.value.clone())),
            Kind::UnquotedIdentifier => Tree::shaped(Node::Field(token.value.clone()), Shape::Name),
            Kind::QuotedIdentifier => {
                if self.kind() == Kind::Lparen {
                    // The library reports column 0 here.
                    let paren = Token { start: 0, ..self.token(0) };
                    return Err(self.failure(&paren, "Quoted identifier not allowed for function names."));
                }
                Tree::shaped(Node::Field(token.value.clone()), Shape::Name)
            }
            Kind::Star if self.kind() == Kind::Rbracket => Tree::new(Node::Values(Tree::current(), Tree::current())),
            Kind::Star => Tree::new(Node::Values(Tree::current(), self.projected(Kind::Star.power())?)),
            Kind::Filter => self.filter(Tree::current())?,
            Kind::Flatten => self.flatten(Tree::current())?,
            Kind::Lbrace => self.map()?,
            Kind::Lbracket => self.bracket()?,
            Kind::Lparen => {
                let inner = self.expression(0)?;
                self.expect(Kind::Rparen)?;
                inner
            }
            Kind::Not => Tree::new(Node::Not(self.expression(Kind::Not.power())?)),
            Kind::Current => Tree::current(),
            Kind::Expref => Tree::new(Node::Expression(self.expression(0)?)),
            Kind::Eof => return Err(self.incomplete()),
            _ => return Err(self.invalid(token)),
        })
    }

    /// Parses what follows an expression, beginning with the token.
    fn go_on(&mut self, left: Tree, token: &Token) -> Parsed {
        let power = token.kind.power();
        Ok(match token.kind {
            Kind::Dot if self.kind() == Kind::Star => {
                self.at += 1;
                Tree::new(Node::Values(left, self.projected(power)?))
            }
            Kind::Dot => {
                let right = self.behind_dot(power)?;
                left.join(right, Shape::Path)
            }
            Kind::Pipe => left.join(self.expression(power)?, Shape::Piped),
            Kind::Or => left.join(self.expression(power)?, Shape::Either),
            Kind::And => left.join(self.expression(power)?, Shape::Both),
            Kind::Eq | Kind::Ne | Kind::Gt | Kind::Gte | Kind::Lt | Kind::Lte => {
                Tree::new(Node::Compare(token.kind, left, self.expression(power)?))
            }
            Kind::Lparen => self.call(left)?,
            Kind::Filter => self.filter(left)?,
            Kind::Flatten => self.flatten(left)?,
            Kind::Lbracket => self.indexed(left)?,
            _ => return Err(self.invalid(token)),
        })
    }

    /// Parses the part that is applied to each item of a projection.
    fn projected(&mut self, power: u8) -> Parsed {
        match self.kind() {
            kind if kind.power() < PROJECTION_STOP => Ok(Tree::current()),
            Kind::Lbracket | Kind::Filter => self.expression(power),
            Kind::Dot => {
                self.at += 1;
                self.behind_dot(power)
            }
            _ => {
                let token = self.token(0);
                Err(self.failure(&token, "syntax error"))
            }
        }
    }

    fn behind_dot(&mut self, power: u8) -> Parsed {
        match self.kind() {
            Kind::QuotedIdentifier | Kind::UnquotedIdentifier | Kind::Star => self.expression(power),
            Kind::Lbracket => {
                self.at += 1;
                self.list()
            }
            Kind::Lbrace => {
                self.at += 1;
                self.map()
            }
            kind => {
                let allowed = "['quoted_identifier', 'unquoted_identifier', 'lbracket', 'lbrace']";
                let token = self.token(0);
                Err(self.failure(&token, &format!("Expecting: {allowed}, got: {}", kind.name())))
            }
        }
    }

    fn flatten(&mut self, left: Tree) -> Parsed {
        let right = self.projected(Kind::Flatten.power())?;
        Ok(Tree::new(Node::Projection(Tree::new(Node::Flatten(left)), right)))
    }

    fn filter(&mut self, left: Tree) -> Parsed {
        let condition = self.expression(0)?;
        self.expect(Kind::Rbracket)?;
        let right = if self.kind() == Kind::Flatten { Tree::current() } else { self.projected(Kind::Filter.power())? };
        Ok(Tree::new(Node::Filter(left, right, condition)))
    }

    /// A bracket at the beginning: an index, a slice, `[*]` or a list.
    fn bracket(&mut self) -> Parsed {
        match (self.kind(), self.token(1).kind) {
            (Kind::Number | Kind::Colon, _) => self.index(Tree::current()),
            (Kind::Star, Kind::Rbracket) => {
                self.at += 2;
                Ok(Tree::new(Node::Projection(Tree::current(), self.projected(Kind::Star.power())?)))
            }
            _ => self.list(),
        }
    }

    /// Parses a bracket after an expression: an index, a slice or `[*]`.
    fn indexed(&mut self, left: Tree) -> Parsed {
        if !matches!(self.kind(), Kind::Number | Kind::Colon) {
            self.expect(Kind::Star)?;
            self.expect(Kind::Rbracket)?;
            return Ok(Tree::new(Node::Projection(left, self.projected(Kind::Star.power())?)));
        }
        if left.shape == Shape::Indexed {
            // A slice that follows an index is not a projection.
            let (right, _) = self.index_or_slice()?;
            return Ok(left.join(right, Shape::Indexed));
        }
        self.index(left)
    }

    fn index(&mut self, left: Tree) -> Parsed {
        let (right, is_slice) = self.index_or_slice()?;
        let found = Tree::shaped(Node::Chain(vec![left, right]), Shape::Indexed);
        if !is_slice {
            return Ok(found);
        }
        Ok(Tree::new(Node::Projection(found, self.projected(Kind::Star.power())?)))
    }

    fn index_or_slice(&mut self) -> Result<(Tree, bool), Error> {
        if self.kind() == Kind::Colon || self.token(1).kind == Kind::Colon {
            return Ok((self.slice()?, true));
        }
        let index = self.step().value;
        self.expect(Kind::Rbracket)?;
        Ok((Tree::new(Node::Index(index)), false))
    }

    fn slice(&mut self) -> Parsed {
        let mut parts = [None, None, None];
        let mut part = 0;
        while self.kind() != Kind::Rbracket {
            let token = self.token(0);
            match token.kind {
                Kind::Colon if part < 2 => part += 1,
                Kind::Number => parts[part] = Some(token.value),
                _ => return Err(self.failure(&token, "syntax error")),
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(Tree::new(Node::Slice(parts)))
    }

    fn list(&mut self) -> Parsed {
        let mut items = vec![self.expression(0)?];
        while self.kind() != Kind::Rbracket {
            self.expect(Kind::Comma)?;
            items.push(self.expression(0)?);
        }
        self.at += 1;
        Ok(Tree::new(Node::List(items)))
    }

    fn map(&mut self) -> Parsed {
        let mut entries = Vec::new();
        loop {
            if !matches!(self.kind(), Kind::QuotedIdentifier | Kind::UnquotedIdentifier) {
                return Err(self.unexpected("['quoted_identifier', 'unquoted_identifier']"));
            }
            let name = self.step().value;
            self.expect(Kind::Colon)?;
            entries.push((name, self.expression(0)?));
            match self.kind() {
                Kind::Comma => self.at += 1,
                Kind::Rbrace => {
                    self.at += 1;
                    return Ok(Tree::new(Node::Map(entries)));
                }
                // A comma may be left out.
                _ => {}
            }
        }
    }

    fn call(&mut self, left: Tree) -> Parsed {
        let Node::Field(name) = &*left.node else {
            // The token before the parenthesis.
            let before = self.tokens[self.at.saturating_sub(2)].clone();
            let text = token_text(self.state, &before)?;
            return Err(self.failure(&before, &format!("Invalid function name '{text}'")));
        };
        let name: Value = name.clone();
        let mut args = Vec::new();
        while self.kind() != Kind::Rparen {
            args.push(self.expression(0)?);
            // A comma may be left out, and may end the arguments.
            if self.kind() == Kind::Comma {
                self.at += 1;
            }
        }
        self.at += 1;
        Ok(Tree::new(Node::Call(name, args)))
    }
}

fn too_deep() -> Error {
    Error::new(ErrorKind::Recursion, "maximum recursion depth exceeded")
}

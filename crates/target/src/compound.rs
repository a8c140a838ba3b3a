//! Compound targets: words of every type, joined by `and`, `or`, `not` and parentheses.
//!
//! Salt turns the words into a Python expression and evaluates that: on the minion with `True` and `False`, on the master with
//! sets of ids. Both give the same result, except that the master tolerates two things: it closes parentheses left open at the
//! end, and `not` applies only to the next word or parenthesis.

/// Words that are operators.
pub(crate) const OPERATORS: [&str; 5] = ["and", "or", "not", "(", ")"];

/// The side that evaluates, which decides which errors are tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Minion,
    Master,
}

/// An expression over atoms, which are numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    Atom(usize),
    Not(Box<Expression>),
    And(Vec<Expression>),
    Or(Vec<Expression>),
    /// `( )`, an empty tuple in Python: false.
    Nothing,
    /// A word followed by a parenthesis, in Python a call of something that is not callable: an error when it is reached.
    Call,
}

/// The parts of a word of a compound target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term<'a> {
    pub engine: Option<char>,
    pub delimiter: Option<char>,
    pub pattern: &'a str,
}

// All letters of Salt's own pattern, `R` for range included, so that such a word is an error and not a glob.
const ENGINES: &str = "GPIJLNSERTM";
const ENGINES_WITH_DELIMITER: &str = "GPIJ";

/// Splits a word such as `G@os:Debian` or `I|@a|b`. One without an engine is a glob.
pub(crate) fn parse_word(word: &str) -> Term<'_> {
    let plain = Term { engine: None, delimiter: None, pattern: word };
    // As in Salt's pattern for words, the dot does not match a newline.
    if word.strip_suffix('\n').unwrap_or(word).contains('\n') {
        return plain;
    }
    let mut letters = word.chars();
    let Some(engine) = letters.next().filter(|letter| ENGINES.contains(*letter)) else { return plain };
    let after = letters.as_str();
    if ENGINES_WITH_DELIMITER.contains(engine)
        && let Some(delimiter) = letters.next()
        // A delimiter first: `G@@x` is a path with the delimiter `@`, as Salt's pattern reads it.
        && let Some(pattern) = letters.as_str().strip_prefix('@').filter(|pattern| !pattern.is_empty())
    {
        return Term { engine: Some(engine), delimiter: Some(delimiter), pattern };
    }
    match after.strip_prefix('@').filter(|pattern| !pattern.is_empty()) {
        Some(pattern) => Term { engine: Some(engine), delimiter: None, pattern },
        None => plain,
    }
}

/// A classified word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    And,
    Or,
    Not,
    Open,
    Close,
    Atom(usize),
}

impl Token {
    pub fn operator(word: &str) -> Option<Token> {
        let tokens = [Token::And, Token::Or, Token::Not, Token::Open, Token::Close];
        OPERATORS.iter().position(|operator| *operator == word).map(|place| tokens[place].clone())
    }
}

/// The reasons why tokens are not a valid expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The reason.
    pub reason: &'static str,
    /// The index of the token where the fault was noticed; `None` at the end.
    pub at: Option<usize>,
}

/// Parses tokens as Python would.
pub(crate) fn parse(tokens: Vec<Token>, side: Side) -> Result<Expression, Fault> {
    let (mut tokens, origins) = with_implied_and(tokens)?;
    // Minions leave an open bracket to Python, which refuses the expression.
    if side == Side::Master {
        close_brackets(&mut tokens);
    }
    let mut parser = Parser { tokens, place: 0, depth: 0, side };
    let found = parser.or().and_then(|expression| match parser.peek() {
        None => Ok(expression),
        Some(Token::Close) => Err("unexpected right parenthesis"),
        Some(_) => Err("missing operator between two words"),
    });
    found.map_err(|reason| Fault { reason, at: origins.get(parser.place).copied() })
}

/// Checks the start, and inserts an `and` before a `not` that follows a word. Also returns the original index of each token.
fn with_implied_and(tokens: Vec<Token>) -> Result<(Vec<Token>, Vec<usize>), Fault> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    let mut origins = Vec::with_capacity(tokens.len());
    for (place, token) in tokens.into_iter().enumerate() {
        let wrong = |reason| Err(Fault { reason, at: Some(place) });
        match (&token, out.last()) {
            // Salt checks only the beginning of an expression and of a bracket; everything else is left to Python's
            // parser.
            (Token::And | Token::Or | Token::Close, None) => return wrong("expression begins with an operator"),
            (Token::And | Token::Or, Some(Token::Open)) => return wrong("operator after an opening bracket"),
            // `web* not web1` means `web* and not web1`.
            (Token::Not, Some(Token::Atom(_) | Token::Close | Token::Not)) => {
                out.push(Token::And);
                origins.push(place);
            }
            _ => {}
        }
        out.push(token);
        origins.push(place);
    }
    Ok((out, origins))
}

fn close_brackets(tokens: &mut Vec<Token>) {
    let mut open = 0_usize;
    for token in tokens.iter() {
        match token {
            Token::Open => open += 1,
            Token::Close => open = open.saturating_sub(1),
            _ => {}
        }
    }
    tokens.extend(std::iter::repeat_n(Token::Close, open));
}

/// How deep parentheses may nest; Python's own parser stops at about the same depth.
const DEPTH_LIMIT: usize = 90;

struct Parser {
    tokens: Vec<Token>,
    place: usize,
    depth: usize,
    side: Side,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.place)
    }

    fn take(&mut self, token: Token) -> bool {
        let found = self.peek() == Some(&token);
        self.place += usize::from(found);
        found
    }

    fn or(&mut self) -> Result<Expression, &'static str> {
        let mut parts = vec![self.and()?];
        while self.take(Token::Or) {
            parts.push(self.and()?);
        }
        Ok(join(parts, Expression::Or))
    }

    fn and(&mut self) -> Result<Expression, &'static str> {
        let mut parts = vec![self.not()?];
        while self.take(Token::And) {
            parts.push(self.not()?);
        }
        Ok(join(parts, Expression::And))
    }

    fn not(&mut self) -> Result<Expression, &'static str> {
        if !self.take(Token::Not) {
            return self.primary();
        }
        Ok(Expression::Not(Box::new(self.primary()?)))
    }

    fn primary(&mut self) -> Result<Expression, &'static str> {
        let first = self.atom()?;
        let mut called = false;
        while self.peek() == Some(&Token::Open) {
            self.atom()?;
            called = true;
        }
        match (called, self.side) {
            (false, _) => Ok(first),
            (true, Side::Minion) => Ok(Expression::Call),
            // On the master the words become sets, and a set cannot be called.
            (true, Side::Master) => Err("missing operator before a bracket"),
        }
    }

    fn atom(&mut self) -> Result<Expression, &'static str> {
        match self.peek().cloned() {
            Some(Token::Atom(number)) => {
                self.place += 1;
                Ok(Expression::Atom(number))
            }
            Some(Token::Open) => {
                self.place += 1;
                self.bracket()
            }
            Some(_) => Err("operator where a word should be"),
            None => Err("expression ends too early"),
        }
    }

    fn bracket(&mut self) -> Result<Expression, &'static str> {
        if self.take(Token::Close) {
            // `False and ()` is valid Python; the operators of sets do not take a tuple.
            return if self.side == Side::Minion { Ok(Expression::Nothing) } else { Err("empty brackets") };
        }
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            // A separate bound: the stack of a thread here is smaller than Python's limit would allow.
            return Err("brackets nest too deep");
        }
        let inside = self.or()?;
        self.depth -= 1;
        if self.take(Token::Close) { Ok(inside) } else { Err("missing right parenthesis") }
    }
}

fn join(mut parts: Vec<Expression>, kind: fn(Vec<Expression>) -> Expression) -> Expression {
    match parts.len() {
        1 => parts.remove(0),
        _ => kind(parts),
    }
}

impl Expression {
    /// Evaluates from left to right with short-circuiting; `None` if it reaches an [`Expression::Call`].
    pub fn evaluate(&self, atom: &mut dyn FnMut(usize) -> bool, not: &dyn Fn(bool) -> bool) -> Option<bool> {
        match self {
            Expression::Atom(number) => Some(atom(*number)),
            Expression::Not(inner) => Some(not(inner.evaluate(atom, not)?)),
            Expression::And(parts) => {
                for part in parts {
                    // Short-circuiting is visible: a call in a part that is not reached is not an error in Python.
                    if !part.evaluate(atom, not)? {
                        return Some(false);
                    }
                }
                Some(true)
            }
            Expression::Or(parts) => {
                for part in parts {
                    if part.evaluate(atom, not)? {
                        return Some(true);
                    }
                }
                Some(false)
            }
            Expression::Nothing => Some(false),
            Expression::Call => None,
        }
    }
}

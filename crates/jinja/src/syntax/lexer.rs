//! From text to tokens.

use crate::error::{Error, ErrorKind};
use crate::python::text::is_space;
use crate::value::{BigInt, Str, Value};

use super::strings::unescape;
use super::token::{Kind, OPERATORS, Token};

/// The delimiters of tags and the handling of whitespace around them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syntax {
    /// Begins a statement: `{%`.
    pub block_start: String,
    /// Ends a statement: `%}`.
    pub block_end: String,
    /// Begins a printed expression: `{{`.
    pub variable_start: String,
    /// Ends a printed expression: `}}`.
    pub variable_end: String,
    /// Begins a comment: `{#`.
    pub comment_start: String,
    /// Ends a comment: `#}`.
    pub comment_end: String,
    /// Begins a line that is a statement.
    pub line_statement_prefix: Option<String>,
    /// Begins a comment up to the end of the line.
    pub line_comment_prefix: Option<String>,
    /// Removes the first newline after a statement.
    pub trim_blocks: bool,
    /// Removes the space before a statement if nothing else precedes it on the line.
    pub lstrip_blocks: bool,
    /// Keeps the newline at the end of a template.
    pub keep_trailing_newline: bool,
    /// The text that replaces each newline of a template.
    pub newline_sequence: String,
}

impl Default for Syntax {
    fn default() -> Self {
        Syntax {
            block_start: "{%".into(),
            block_end: "%}".into(),
            variable_start: "{{".into(),
            variable_end: "}}".into(),
            comment_start: "{#".into(),
            comment_end: "#}".into(),
            line_statement_prefix: None,
            line_comment_prefix: None,
            trim_blocks: false,
            lstrip_blocks: false,
            keep_trailing_newline: false,
            newline_sequence: "\n".into(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Begin {
    Block,
    Comment,
    LineComment,
    LineStatement,
    Raw,
    Variable,
}

/// The start of a tag: its kind, its first byte, the byte after the sign, and the whitespace control (`-`, `+` or a
/// space).
struct Tag {
    begin: Begin,
    at: usize,
    end: usize,
    control: char,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Block,
    Variable,
    Line,
}

/// A lexer over one text. It produces tokens on demand, so that an early error of the parser wins over a later one
/// here.
pub(crate) struct Lexer<'a> {
    syntax: &'a Syntax,
    name: Option<Str>,
    source: String,
    at: usize,
    line: u32,
    inside: Option<Inside>,
    balance: Vec<char>,
    line_starting: bool,
    /// The delimiters in order of preference: longest first.
    rules: Vec<(Begin, String)>,
    queue: std::collections::VecDeque<Token>,
}

fn newlines(text: &str) -> u32 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u32
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(syntax: &'a Syntax, name: Option<Str>, source: &str) -> Self {
        let mut text =
            // Jinja normalizes newlines first. Most templates contain no `\r` and are not copied for it.
            if source.contains('\r') { source.replace("\r\n", "\n").replace('\r', "\n") } else { source.into() };
        if !syntax.keep_trailing_newline && text.ends_with('\n') {
            // One newline only: a blank line at the end survives.
            text.pop();
        }
        let mut rules = vec![
            (Begin::Comment, syntax.comment_start.clone()),
            (Begin::Block, syntax.block_start.clone()),
            (Begin::Variable, syntax.variable_start.clone()),
        ];
        if let Some(prefix) = &syntax.line_statement_prefix {
            rules.push((Begin::LineStatement, prefix.clone()));
        }
        if let Some(prefix) = &syntax.line_comment_prefix {
            rules.push((Begin::LineComment, prefix.clone()));
        }
        // Longest first; among equals the name of Jinja's rule decides, backwards.
        let order = |begin: &Begin| match begin {
            Begin::Variable => 4,
            Begin::LineStatement => 3,
            Begin::LineComment => 2,
            Begin::Comment => 1,
            Begin::Block | Begin::Raw => 0,
        };
        rules.sort_by_key(|(begin, sign)| std::cmp::Reverse((sign.chars().count(), order(begin))));
        Lexer {
            syntax,
            name,
            source: text,
            at: 0,
            line: 1,
            inside: None,
            balance: Vec::new(),
            line_starting: true,
            rules,
            queue: Default::default(),
        }
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(Error::syntax(ErrorKind::Syntax, message, self.name.clone(), self.line))
    }

    fn push(&mut self, line: u32, kind: Kind, text: &str) {
        self.queue.push_back(Token { line, kind, text: text.into(), value: Value::None });
    }

    /// Returns the next token; after the end, `End` on every call.
    pub(crate) fn next(&mut self) -> Result<Token, Error> {
        loop {
            if let Some(token) = self.queue.pop_front() {
                return Ok(token);
            }
            // The end of the text also ends a line statement, which must be emitted first.
            if self.at >= self.source.len() && self.inside != Some(Inside::Line) {
                return Ok(Token { line: self.line, kind: Kind::End, text: "".into(), value: Value::None });
            }
            match self.inside {
                None => self.data()?,
                Some(inside) => self.tag_token(inside)?,
            }
        }
    }

    fn rest(&self) -> &str {
        &self.source[self.at..]
    }

    /// Finds the first tag at or after the current place.
    fn find_tag(&self) -> Option<Tag> {
        let line_rules = self.syntax.line_statement_prefix.is_some() || self.syntax.line_comment_prefix.is_some();
        let starts = [&self.syntax.block_start, &self.syntax.variable_start, &self.syntax.comment_start];
        // Most text is not a tag: compare single bytes before whole signs. Line prefixes may follow spaces and are
        // looked for everywhere.
        let first = starts.map(|sign| sign.as_bytes().first().copied().unwrap_or(0));
        let mut from = self.at;
        while from < self.source.len() {
            if !line_rules {
                from += self.source.as_bytes()[from..].iter().position(|byte| first.contains(byte))?;
            }
            if let Some(tag) = self.tag_at(from) {
                return Some(tag);
            }
            from += self.source[from..].chars().next().map_or(1, char::len_utf8);
        }
        None
    }

    fn tag_at(&self, at: usize) -> Option<Tag> {
        let rest = &self.source[at..];
        // Jinja's pattern tries `raw` before all other tags.
        if let Some(after) = rest.strip_prefix(self.syntax.block_start.as_str())
            && let Some(raw) = self.raw_begin(after)
        {
            let control = after.chars().next().filter(|char| matches!(char, '-' | '+')).unwrap_or(' ');
            return Some(Tag { begin: Begin::Raw, at, end: self.source.len() - raw.len(), control });
        }
        for (begin, sign) in &self.rules {
            let after = match begin {
                Begin::LineStatement => {
                    // Only spaces may precede a line statement on its line.
                    if at > 0 && !self.source[..at].ends_with('\n') {
                        continue;
                    }
                    rest.trim_start_matches([' ', '\t', '\x0b']).strip_prefix(sign.as_str())
                }
                Begin::LineComment => {
                    let before = self.source[..at].chars().next_back();
                    // A line comment takes the spaces before it along, so it must begin where they begin.
                    if !before.is_none_or(|char| char == '\n' || !is_space(char)) {
                        continue;
                    }
                    rest.trim_start_matches(|char| is_space(char) && char != '\n' && char != '\r')
                        .strip_prefix(sign.as_str())
                }
                _ => rest.strip_prefix(sign.as_str()),
            };
            let Some(after) = after else { continue };
            let control = after.chars().next().filter(|char| matches!(char, '-' | '+'));
            let end = self.source.len() - after.len() + control.map_or(0, char::len_utf8);
            return Some(Tag { begin: *begin, at, end, control: control.unwrap_or(' ') });
        }
        None
    }

    /// Matches the rest of `{% raw %}` and returns the text after it.
    fn raw_begin<'t>(&self, after: &'t str) -> Option<&'t str> {
        let after = after.strip_prefix(['-', '+']).unwrap_or(after);
        let after = after.trim_start_matches(is_space).strip_prefix("raw")?.trim_start_matches(is_space);
        if let Some(stripped) =
            after.strip_prefix('-').and_then(|rest| rest.strip_prefix(self.syntax.block_end.as_str()))
        {
            return Some(stripped.trim_start_matches(is_space));
        }
        after.strip_prefix(self.syntax.block_end.as_str())
    }

    /// Emits the text before a tag, without the whitespace that the tag strips, and counts its lines.
    fn text_before(&mut self, text_end: usize, control: char, is_variable: bool) {
        let text = self.source[self.at..text_end].to_string();
        let mut kept = text.as_str();
        if control == '-' {
            kept = text.trim_end_matches(is_space);
        } else if control != '+' && self.syntax.lstrip_blocks && !is_variable {
            let line = text.rfind('\n').map_or(0, |at| at + 1);
            // Only if there are nothing but spaces between the start of the line and the tag. `line_starting` is true
            // if this text begins a line.
            if (line > 0 || self.line_starting) && line < text.len() && text[line..].chars().all(is_space) {
                kept = &text[..line];
            }
        }
        if !kept.is_empty() {
            let data = self.newline_sequence(kept);
            self.push(self.line, Kind::Data, &data);
        }
        self.line += newlines(&text);
    }

    fn newline_sequence(&self, text: &str) -> String {
        if self.syntax.newline_sequence == "\n" {
            text.into()
        } else {
            text.replace('\n', &self.syntax.newline_sequence)
        }
    }

    fn data(&mut self) -> Result<(), Error> {
        let Some(tag) = self.find_tag() else {
            let data = self.newline_sequence(self.rest());
            self.push(self.line, Kind::Data, &data);
            self.line += newlines(self.rest());
            self.at = self.source.len();
            return Ok(());
        };
        self.text_before(tag.at, tag.control, tag.begin == Begin::Variable);
        let sign = self.source[tag.at..tag.end].to_string();
        let (line, start) = (self.line, tag.end);
        self.line += newlines(&sign);
        self.line_starting = sign.ends_with('\n');
        self.at = start;
        match tag.begin {
            Begin::Comment => self.comment()?,
            Begin::Raw => self.raw()?,
            Begin::LineComment => {
                let end = self.rest().find('\n').unwrap_or(self.rest().len());
                self.at += end;
                self.line_starting = false;
            }
            Begin::Variable => {
                self.push(line, Kind::VariableBegin, &sign);
                self.inside = Some(Inside::Variable);
            }
            Begin::Block => {
                self.push(line, Kind::BlockBegin, &sign);
                self.inside = Some(Inside::Block);
            }
            Begin::LineStatement => {
                self.push(line, Kind::BlockBegin, &sign);
                self.inside = Some(Inside::Line);
            }
        }
        Ok(())
    }

    /// Matches the end of a block or comment at byte `at`; returns the byte after it and the whitespace it strips.
    fn block_end(&self, at: usize, sign: &str) -> Option<usize> {
        let rest = &self.source[at..];
        let total = self.source.len();
        if let Some(after) = rest.strip_prefix('+').and_then(|rest| rest.strip_prefix(sign)) {
            return Some(total - after.len());
        }
        if let Some(after) = rest.strip_prefix('-').and_then(|rest| rest.strip_prefix(sign)) {
            return Some(total - after.trim_start_matches(is_space).len());
        }
        let after = rest.strip_prefix(sign)?;
        let trimmed = if self.syntax.trim_blocks { after.strip_prefix('\n').unwrap_or(after) } else { after };
        Some(total - trimmed.len())
    }

    fn comment(&mut self) -> Result<(), Error> {
        let sign = self.syntax.comment_end.clone();
        let mut from = self.at;
        let end = loop {
            let Some(found) = self.source[from..].find(&sign) else {
                if self.rest().is_empty() {
                    return Ok(());
                }
                return self.fail("Missing end of comment tag");
            };
            // The sign for space control is before the end.
            let at = from + found;
            let control = self.source[self.at..at].ends_with(['-', '+']);
            if let Some(end) = self.block_end(if control { at - 1 } else { at }, &sign) {
                break end;
            }
            from = at + 1;
        };
        let text = self.source[self.at..end].to_string();
        self.line += newlines(&text);
        self.line_starting = text.ends_with('\n');
        self.at = end;
        Ok(())
    }

    fn raw(&mut self) -> Result<(), Error> {
        let mut from = self.at;
        loop {
            let Some(found) = self.source[from..].find(self.syntax.block_start.as_str()) else {
                if self.rest().is_empty() {
                    return Ok(());
                }
                return self.fail("Missing end of raw directive");
            };
            let at = from + found;
            let after = &self.source[at + self.syntax.block_start.len()..];
            let control = after.chars().next().filter(|char| matches!(char, '-' | '+')).unwrap_or(' ');
            let inner = after.strip_prefix(['-', '+']).unwrap_or(after).trim_start_matches(is_space);
            if let Some(inner) = inner.strip_prefix("endraw") {
                let inner = inner.trim_start_matches(is_space);
                let place = self.source.len() - inner.len();
                let sign = self.syntax.block_end.clone();
                if let Some(end) = self.block_end(place, &sign) {
                    self.text_before(at, control, false);
                    let taken = self.source[at..end].to_string();
                    self.line += newlines(&taken);
                    self.line_starting = taken.ends_with('\n');
                    self.at = end;
                    return Ok(());
                }
            }
            from = at + 1;
            // The start of a block may be configured to any text, so the next byte may be inside a character.
            while !self.source.is_char_boundary(from) {
                from += 1;
            }
        }
    }

    fn tag_token(&mut self, inside: Inside) -> Result<(), Error> {
        // Inside brackets an end sign belongs to the expression: `{{ {'a': {}}}}`.
        if self.balance.is_empty() && self.tag_end(inside) {
            return Ok(());
        }
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            self.inside = None;
            return Ok(());
        };
        if is_space(first) {
            let len = rest.len() - rest.trim_start_matches(is_space).len();
            self.advance(len);
            return Ok(());
        }
        // Floats before integers: `1.5` must not become `1` and `.5`.
        if let Some(len) = float_len(rest, self.source[..self.at].ends_with('.')) {
            let text = rest[..len].replace('_', "");
            let value = Value::Float(text.parse().unwrap_or(f64::INFINITY));
            self.value_token(Kind::Float, len, value);
            return Ok(());
        }
        if let Some((len, radix)) = integer_len(rest) {
            let digits = rest[if radix == 10 { 0 } else { 2 }..len].replace('_', "");
            let value = BigInt::parse_bytes(digits.as_bytes(), radix).map_or(Value::Int(0), Value::int);
            self.value_token(Kind::Integer, len, value);
            return Ok(());
        }
        if is_word(first) {
            let len = rest.find(|char| !is_word(char)).unwrap_or(rest.len());
            let name = rest[..len].to_string();
            if !is_identifier(&name) {
                return self.fail("Invalid character in identifier");
            }
            self.push(self.line, Kind::Name, &name);
            self.at += len;
            return Ok(());
        }
        // Names come before strings because Jinja's rules are in this order; no prefix such as `r''` exists.
        if let Some(len) = string_len(rest) {
            let inner = &rest[1..len - 1];
            let (text, lines) = (inner.to_string(), newlines(inner));
            match unescape(&self.newline_sequence(&text)) {
                Ok(value) => self.push(self.line, Kind::String, &value),
                Err(reason) => return self.fail(reason),
            }
            self.at += len;
            self.line += lines;
            return Ok(());
        }
        let Some(sign) = OPERATORS.iter().find(|sign| rest.starts_with(**sign)) else {
            // Jinja reports the character's position in the whole template.
            let place = crate::python::text::char_count(&self.source[..self.at]);
            let char = crate::python::repr_str(&first.to_string());
            return self.fail(format!("unexpected char {char} at {place}"));
        };
        self.operator(sign)
    }

    fn value_token(&mut self, kind: Kind, len: usize, value: Value) {
        let text = self.rest()[..len].into();
        self.queue.push_back(Token { line: self.line, kind, text, value });
        self.at += len;
    }

    fn advance(&mut self, len: usize) {
        self.line += newlines(&self.source[self.at..self.at + len]);
        self.at += len;
    }

    fn tag_end(&mut self, inside: Inside) -> bool {
        let line = self.line;
        let (kind, end) = match inside {
            Inside::Block => (Kind::BlockEnd, self.block_end(self.at, &self.syntax.block_end)),
            Inside::Variable => {
                let sign = self.syntax.variable_end.as_str();
                let rest = self.rest();
                // Unlike a block, an expression has no `+` at its end.
                let stripped = rest.strip_prefix('-').and_then(|rest| rest.strip_prefix(sign));
                let after = stripped.map(|rest| rest.trim_start_matches(is_space)).or_else(|| rest.strip_prefix(sign));
                (Kind::VariableEnd, after.map(|after| self.source.len() - after.len()))
            }
            Inside::Line => (Kind::BlockEnd, self.line_end()),
        };
        let Some(end) = end else { return false };
        self.push(line, kind, "");
        let taken = end - self.at;
        self.line_starting = self.source[self.at..end].ends_with('\n');
        self.advance(taken);
        self.inside = None;
        true
    }

    /// Returns the end of a line statement: whitespace up to a newline or the end of the text.
    fn line_end(&self) -> Option<usize> {
        let rest = self.rest();
        let space = rest.len() - rest.trim_start_matches(is_space).len();
        match rest[..space].rfind('\n') {
            // A line statement may be the last line without a newline.
            _ if space == rest.len() => Some(self.source.len()),
            Some(newline) => Some(self.at + newline + 1),
            None => None,
        }
    }

    fn operator(&mut self, sign: &'static str) -> Result<(), Error> {
        match sign {
            "{" => self.balance.push('}'),
            "(" => self.balance.push(')'),
            "[" => self.balance.push(']'),
            "}" | ")" | "]" => match self.balance.pop() {
                // Brackets are balanced here already; Jinja's lexer does it to find the end of the tag.
                None => return self.fail(format!("unexpected '{sign}'")),
                Some(expected) if !sign.starts_with(expected) => {
                    return self.fail(format!("unexpected '{sign}', expected '{expected}'"));
                }
                Some(_) => {}
            },
            _ => {}
        }
        self.push(self.line, Kind::Operator(sign), sign);
        self.at += sign.len();
        Ok(())
    }
}

fn is_word(char: char) -> bool {
    // Wider than an identifier: what starts like a word is read as one and then refused as a whole.
    char == '_' || char.is_alphanumeric() || unicode_ident::is_xid_continue(char)
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|char| char == '_' || unicode_ident::is_xid_start(char))
        && chars.all(unicode_ident::is_xid_continue)
}

/// Returns the length of a run of digits, which single underscores may group.
fn digits_len(text: &str, digit: impl Fn(u8) -> bool) -> usize {
    let bytes = text.as_bytes();
    let mut len = 0;
    while bytes.get(len).is_some_and(|byte| digit(*byte))
        || (len > 0 && bytes.get(len) == Some(&b'_') && bytes.get(len + 1).is_some_and(|byte| digit(*byte)))
    {
        len += 1;
    }
    len
}

fn float_len(text: &str, after_dot: bool) -> Option<usize> {
    // `a.1.2` are two lookups, not one float.
    if after_dot {
        return None;
    }
    let digit = |byte: u8| byte.is_ascii_digit();
    let whole = digits_len(text, digit);
    if whole == 0 {
        return None;
    }
    let mut len = whole;
    let fraction = text[len..].strip_prefix('.').map_or(0, |rest| digits_len(rest, digit));
    if fraction > 0 {
        len += 1 + fraction;
    }
    if let Some(rest) = text[len..].strip_prefix(['e', 'E']) {
        let sign = usize::from(rest.starts_with(['+', '-']));
        let exponent = digits_len(&rest[sign..], digit);
        if exponent > 0 {
            return Some(len + 1 + sign + exponent);
        }
    }
    (fraction > 0).then_some(len)
}

fn integer_len(text: &str) -> Option<(usize, u32)> {
    let bytes = text.as_bytes();
    let first = *bytes.first().filter(|byte| byte.is_ascii_digit())?;
    if first == b'0' {
        let radix = match bytes.get(1).map(u8::to_ascii_lowercase) {
            Some(b'b') => 2,
            Some(b'o') => 8,
            Some(b'x') => 16,
            _ => 10,
        };
        if radix != 10 {
            let rest = text[2..].strip_prefix('_').unwrap_or(&text[2..]);
            let digits = digits_len(rest, |byte| (byte as char).is_digit(radix));
            if digits > 0 {
                return Some((text.len() - rest.len() + digits, radix));
            }
        }
        // Python has no octal `010`. The zero is one number, and the parser then refuses the next.
        return Some((digits_len(text, |byte| byte == b'0'), 10));
    }
    Some((digits_len(text, |byte| byte.is_ascii_digit()), 10))
}

/// Returns the length of a string literal with its quotes; `None` if it is not closed.
fn string_len(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|char| matches!(char, '\'' | '"'))? as u8;
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match *byte {
            // Whatever is escaped cannot end the literal; what it means is decided later.
            b'\\' => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

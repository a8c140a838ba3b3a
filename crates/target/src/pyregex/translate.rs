//! Translates Python's pattern syntax to that of the Rust crates.

/// The engine the result is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Plain,
    Fancy,
}

/// A pattern in Rust's syntax.
pub(super) struct Translated {
    /// Flags for the whole pattern, such as `(?i)`; may be empty.
    pub flags: String,
    /// The pattern without them.
    pub body: String,
    /// True if it needs the engine with look-around.
    pub fancy: bool,
    /// True if it has a `$` that is not a line end.
    pub has_dollar: bool,
}

/// How deep groups may nest.
// The engines recurse over groups when they compile.
const DEPTH_LIMIT: usize = 200;

pub(super) fn translate(pattern: &str, mode: Mode) -> Result<Translated, String> {
    let mut reader = Reader::new(pattern, mode);
    reader.leading_flags()?;
    reader.pattern()?;
    if !reader.scopes.is_empty() {
        return Err("missing ), unterminated subpattern".into());
    }
    let flags = reader.global.rust();
    Ok(Translated { flags, body: reader.out, fancy: reader.fancy, has_dollar: reader.has_dollar })
}

#[derive(Clone, Copy, Default)]
struct Flags {
    ascii: bool,
    ignore_case: bool,
    multi_line: bool,
    dot_all: bool,
    verbose: bool,
}

impl Flags {
    fn set(&mut self, letter: char, on: bool) -> Result<(), String> {
        match letter {
            'a' => self.ascii = on,
            'i' => self.ignore_case = on,
            'm' => self.multi_line = on,
            's' => self.dot_all = on,
            'x' => self.verbose = on,
            // Unicode is the default for text in Python 3; the flag only undoes an `a` before it.
            'u' if on => self.ascii = false,
            'L' => return Err("bad inline flags: cannot use 'L' flag with a str pattern".into()),
            _ => return Err(format!("unknown flag {letter:?}")),
        }
        Ok(())
    }

    /// White space and comments of verbose patterns are dropped here, so Rust never gets `x`.
    fn rust(self) -> String {
        let mut letters = String::new();
        for (on, letter) in [(self.ignore_case, 'i'), (self.multi_line, 'm'), (self.dot_all, 's')] {
            if on {
                letters.push(letter);
            }
        }
        if letters.is_empty() { letters } else { format!("(?{letters})") }
    }
}

/// The item before the position, for the rules of repetition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    Atom,
    Repeat,
}

struct Reader {
    letters: Vec<char>,
    place: usize,
    out: String,
    mode: Mode,
    fancy: bool,
    has_dollar: bool,
    global: Flags,
    flags: Flags,
    /// The flags to restore when the open groups close.
    scopes: Vec<Flags>,
    /// The number of numbered groups so far.
    groups: usize,
    last: Last,
}

impl Reader {
    fn new(pattern: &str, mode: Mode) -> Self {
        Reader {
            letters: pattern.chars().collect(),
            place: 0,
            out: String::with_capacity(pattern.len() + 8),
            mode,
            fancy: false,
            has_dollar: false,
            global: Flags::default(),
            flags: Flags::default(),
            scopes: Vec::new(),
            groups: 0,
            last: Last::Nothing,
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.place + ahead).copied()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek(0)?;
        self.place += 1;
        Some(letter)
    }

    fn looking_at(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(ahead, letter)| self.peek(ahead) == Some(letter))
    }

    /// Parses `(?im)` at the very start, the only place where Python accepts flags for the whole pattern.
    fn leading_flags(&mut self) -> Result<(), String> {
        while let Some(end) = self.flag_group() {
            for place in self.place + 2..end {
                self.global.set(self.letters[place], true)?;
            }
            self.place = end + 1;
        }
        self.flags = self.global;
        Ok(())
    }

    /// Returns the position of the closing parenthesis if `(?letters)` starts here.
    fn flag_group(&self) -> Option<usize> {
        if !self.looking_at("(?") {
            return None;
        }
        let start = self.place + 2;
        let end = (start..self.letters.len()).find(|&at| !self.letters[at].is_ascii_alphabetic())?;
        (end > start && self.letters[end] == ')').then_some(end)
    }

    fn pattern(&mut self) -> Result<(), String> {
        while let Some(letter) = self.next() {
            match letter {
                _ if self.flags.verbose && letter.is_ascii_whitespace() => {}
                '#' if self.flags.verbose => while self.next().is_some_and(|letter| letter != '\n') {},
                '\\' => self.escape()?,
                '[' => self.set()?,
                '(' => self.open()?,
                ')' => self.close()?,
                '*' | '+' | '?' => self.repeat(&letter.to_string())?,
                '{' => self.braces()?,
                '$' => self.dollar(),
                '|' => self.push_as("|", Last::Nothing),
                '^' => self.push_as("^", Last::Nothing),
                '.' => self.push_as(".", Last::Atom),
                _ => self.literal(letter),
            }
        }
        Ok(())
    }

    fn push_as(&mut self, text: &str, last: Last) {
        self.out.push_str(text);
        self.last = last;
    }

    fn literal(&mut self, letter: char) {
        push_literal(&mut self.out, letter);
        self.last = Last::Atom;
    }

    fn dollar(&mut self) {
        match (self.flags.multi_line, self.mode) {
            (true, _) => self.out.push('$'),
            // Exact for texts without a final newline. `has_dollar` sends the others to the second engine.
            (false, Mode::Plain) => self.out.push_str("\\z"),
            (false, Mode::Fancy) => self.out.push_str("(?=\\n?\\z)"),
        }
        self.has_dollar |= !self.flags.multi_line;
        self.last = Last::Nothing;
    }

    // === repetition ===

    fn repeat(&mut self, operator: &str) -> Result<(), String> {
        match self.last {
            Last::Nothing => return Err("nothing to repeat".into()),
            // Rust would accept `a**`, Python refuses it.
            Last::Repeat => return Err("multiple repeat".into()),
            Last::Atom => {}
        }
        self.out.push_str(operator);
        match self.peek(0) {
            Some('?') => {
                self.place += 1;
                self.out.push('?');
            }
            Some('+') => {
                self.place += 1;
                self.out.push('+');
                self.fancy = true;
            }
            _ => {}
        }
        self.last = Last::Repeat;
        Ok(())
    }

    /// `{2}`, `{2,}`, `{,3}` and `{2,3}` repeat; any other brace is a brace.
    fn braces(&mut self) -> Result<(), String> {
        let Some((low, high, end)) = self.bounds() else {
            self.literal('{');
            return Ok(());
        };
        self.place = end;
        let low = if low.is_empty() { "0".to_owned() } else { low };
        match high {
            None => self.repeat(&format!("{{{low}}}")),
            Some(high) if high.is_empty() => self.repeat(&format!("{{{low},}}")),
            Some(high) => self.repeat(&format!("{{{low},{high}}}")),
        }
    }

    fn bounds(&self) -> Option<(String, Option<String>, usize)> {
        let inside: String = self.letters[self.place..].iter().take_while(|letter| **letter != '}').collect();
        let end = self.place + inside.chars().count() + 1;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if end > self.letters.len() {
            return None;
        }
        match inside.split_once(',') {
            Some((low, high)) if digits(low) && digits(high) => Some((low.into(), Some(high.into()), end)),
            None if !inside.is_empty() && digits(&inside) => Some((inside, None, end)),
            _ => None,
        }
    }

    // === groups ===

    fn open(&mut self) -> Result<(), String> {
        if self.scopes.len() >= DEPTH_LIMIT {
            return Err(format!("groups nest deeper than {DEPTH_LIMIT}"));
        }
        let outer = self.flags;
        if self.peek(0) != Some('?') {
            self.out.push('(');
            self.groups += 1;
        } else if !self.extension()? {
            return Ok(());
        }
        self.scopes.push(outer);
        self.last = Last::Nothing;
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        self.flags = self.scopes.pop().ok_or("unbalanced parenthesis")?;
        self.push_as(")", Last::Atom);
        Ok(())
    }

    /// Parses what follows `(`, and returns whether a group was opened.
    fn extension(&mut self) -> Result<bool, String> {
        for (start, needs_fancy) in
            [("?:", false), ("?=", true), ("?!", true), ("?<=", true), ("?<!", true), ("?>", true)]
        {
            if self.looking_at(start) {
                self.place += start.len();
                self.fancy |= needs_fancy;
                self.out.push('(');
                self.out.push_str(start);
                return Ok(true);
            }
        }
        if self.looking_at("?#") {
            while self.next().ok_or("missing ), unterminated comment")? != ')' {}
            return Ok(false);
        }
        if self.looking_at("?P") {
            self.place += 2;
            return self.named();
        }
        if self.looking_at("?(") {
            self.place += 2;
            return self.conditional();
        }
        self.place += 1;
        self.scoped_flags()
    }

    fn named(&mut self) -> Result<bool, String> {
        match self.next() {
            Some('<') => {
                let name = self.name('>')?;
                self.out.push_str(&format!("(?P<{name}>"));
                self.groups += 1;
                Ok(true)
            }
            Some('=') => {
                let name = self.name(')')?;
                self.out.push_str(&format!("(?P={name})"));
                self.fancy = true;
                self.last = Last::Atom;
                Ok(false)
            }
            Some(other) => Err(format!("unknown extension ?P{other}")),
            None => Err("unexpected end of pattern".into()),
        }
    }

    fn name(&mut self, end: char) -> Result<String, String> {
        let mut name = String::new();
        loop {
            match self.next() {
                Some(letter) if letter == end => break,
                Some(letter) => name.push(letter),
                None => return Err(format!("missing {end}, unterminated name")),
            }
        }
        let good = |letter: char| letter == '_' || letter.is_alphanumeric();
        if name.is_empty() || name.starts_with(|letter: char| letter.is_numeric()) || !name.chars().all(good) {
            return Err(format!("bad character in group name {name:?}"));
        }
        Ok(name)
    }

    /// `(?(1)yes|no)`.
    fn conditional(&mut self) -> Result<bool, String> {
        let mut name = String::new();
        while let Some(letter) = self.next().filter(|letter| *letter != ')') {
            name.push(letter);
        }
        if name.is_empty() || !name.chars().all(|letter| letter == '_' || letter.is_alphanumeric()) {
            return Err(format!("bad character in group name {name:?}"));
        }
        let number = name.bytes().all(|byte| byte.is_ascii_digit());
        if number && !(1..=self.groups).contains(&name.parse().unwrap_or(0)) {
            return Err(format!("invalid group reference {name}"));
        }
        self.out.push_str(&if number { format!("(?({name})") } else { format!("(?(<{name}>)") });
        self.fancy = true;
        Ok(true)
    }

    /// `(?i:…)`, `(?-i:…)`.
    fn scoped_flags(&mut self) -> Result<bool, String> {
        let (mut on, mut seen) = (true, String::new());
        loop {
            match self.next() {
                Some(':') if !seen.is_empty() => break,
                Some(')') if !seen.is_empty() => {
                    return Err("global flags not at the start of the expression".into());
                }
                Some('-') if on => {
                    on = false;
                    seen.push('-');
                }
                Some(letter) if letter.is_ascii_alphabetic() => {
                    self.flags.set(letter, on)?;
                    if matches!(letter, 'i' | 'm' | 's') {
                        seen.push(letter);
                    } else if seen.is_empty() {
                        seen.push(' ');
                    }
                }
                Some(other) => return Err(format!("unknown extension ?{seen}{other}")),
                None => return Err("unexpected end of pattern".into()),
            }
        }
        let seen = seen.trim().trim_end_matches('-');
        self.out.push_str(&format!("(?{seen}:"));
        Ok(true)
    }

    // === escapes ===

    fn escape(&mut self) -> Result<(), String> {
        let letter = self.next().ok_or("bad escape (end of pattern)")?;
        match letter {
            'A' => self.push_as("\\A", Last::Nothing),
            // Python's `\Z` is the very end; in other dialects it may be before a final newline.
            'Z' => self.push_as("\\z", Last::Nothing),
            'b' | 'B' => {
                let text = format!("\\{letter}");
                self.push_as(&if self.flags.ascii { format!("(?-u:{text})") } else { text }, Last::Nothing);
            }
            '1'..='9' => return self.reference(letter),
            _ => match self.class(letter) {
                Some(class) => self.push_as(&format!("[{class}]"), Last::Atom),
                None => {
                    let letter = self.character(letter)?;
                    self.literal(letter);
                }
            },
        }
        Ok(())
    }

    /// A reference such as `\1`, unless three octal digits make it a character.
    fn reference(&mut self, first: char) -> Result<(), String> {
        let octal = |letter: Option<char>| letter.is_some_and(|letter| ('0'..='7').contains(&letter));
        // Python's rule: three octal digits are a character, fewer are a reference.
        if octal(Some(first)) && octal(self.peek(0)) && octal(self.peek(1)) {
            let letter = self.octal(first)?;
            self.literal(letter);
            return Ok(());
        }
        let mut number = first.to_string();
        if let Some(letter) = self.peek(0).filter(char::is_ascii_digit) {
            self.place += 1;
            number.push(letter);
        }
        self.out.push_str(&format!("(?:\\{number})"));
        self.fancy = true;
        self.last = Last::Atom;
        Ok(())
    }

    /// Returns the inside of the set for `\d` and similar classes.
    fn class(&self, letter: char) -> Option<&'static str> {
        Some(match (letter, self.flags.ascii) {
            ('d', false) => r"\d",
            ('D', false) => r"\D",
            ('w', false) => r"\w",
            ('W', false) => r"\W",
            ('s', false) => r"\s\x1c-\x1f",
            ('S', false) => r"\S--[\x1c-\x1f]",
            ('d', true) => "0-9",
            ('D', true) => "[^0-9]",
            ('w', true) => "0-9A-Za-z_",
            ('W', true) => "[^0-9A-Za-z_]",
            ('s', true) => r"\t-\r\x20",
            ('S', true) => r"[^\t-\r\x20]",
            _ => return None,
        })
    }

    /// Returns the character of an escape.
    fn character(&mut self, letter: char) -> Result<char, String> {
        Ok(match letter {
            'a' => '\x07',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'x' => self.hex(2)?,
            'u' => self.hex(4)?,
            'U' => self.hex(8)?,
            '0' => self.octal('0')?,
            _ if letter.is_ascii_alphanumeric() => return Err(format!("bad escape \\{letter}")),
            _ => letter,
        })
    }

    fn hex(&mut self, digits: usize) -> Result<char, String> {
        let text: String = (0..digits).map_while(|_| self.next()).collect();
        let good = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let code = if good { u32::from_str_radix(&text, 16).ok() } else { None };
        code.and_then(char::from_u32).ok_or_else(|| format!("incomplete or bad escape with {text:?}"))
    }

    fn octal(&mut self, first: char) -> Result<char, String> {
        let mut code = first.to_digit(8).unwrap_or(0);
        for _ in 0..2 {
            let Some(digit) = self.peek(0).and_then(|letter| letter.to_digit(8)) else { break };
            self.place += 1;
            code = code * 8 + digit;
        }
        if code > 0o377 {
            return Err("octal escape value outside of range 0-0o377".into());
        }
        char::from_u32(code).ok_or_else(|| "bad octal escape".into())
    }

    // === sets ===

    fn set(&mut self) -> Result<(), String> {
        self.out.push('[');
        if self.peek(0) == Some('^') {
            self.place += 1;
            self.out.push('^');
        }
        let mut first = true;
        loop {
            let letter = self.next().ok_or("unterminated character set")?;
            if letter == ']' && !first {
                break;
            }
            first = false;
            self.set_item(letter)?;
        }
        self.push_as("]", Last::Atom);
        Ok(())
    }

    fn set_item(&mut self, letter: char) -> Result<(), String> {
        let low = match self.member(letter)? {
            Member::Class(class) => {
                self.out.push_str(class);
                None
            }
            Member::Letter(low) => Some(low),
        };
        // A dash before the closing bracket is a literal one.
        let ranged = self.peek(0) == Some('-') && self.peek(1).is_some_and(|letter| letter != ']');
        match (low, ranged) {
            (None, true) => Err("bad character range".into()),
            (None, false) => Ok(()),
            (Some(low), false) => {
                push_literal(&mut self.out, low);
                Ok(())
            }
            (Some(low), true) => self.range(low),
        }
    }

    fn range(&mut self, low: char) -> Result<(), String> {
        self.place += 1;
        let letter = self.next().ok_or("unterminated character set")?;
        let Member::Letter(high) = self.member(letter)? else {
            return Err("bad character range".into());
        };
        if high < low {
            return Err(format!("bad character range {low}-{high}"));
        }
        push_literal(&mut self.out, low);
        self.out.push('-');
        push_literal(&mut self.out, high);
        Ok(())
    }

    fn member(&mut self, letter: char) -> Result<Member, String> {
        if letter != '\\' {
            return Ok(Member::Letter(letter));
        }
        let letter = self.next().ok_or("bad escape (end of pattern)")?;
        if let Some(class) = self.class(letter) {
            // Nested brackets separate a set difference from the members beside it.
            return Ok(Member::Class(match class {
                r"\S--[\x1c-\x1f]" => r"[\S--[\x1c-\x1f]]",
                class => class,
            }));
        }
        Ok(Member::Letter(match letter {
            // Inside a set `\b` is a backspace, not a word boundary.
            'b' => '\x08',
            '1'..='7' => self.octal(letter)?,
            _ => self.character(letter)?,
        }))
    }
}

enum Member {
    Letter(char),
    Class(&'static str),
}

/// Writes a literal character, inside a set or outside.
fn push_literal(out: &mut String, letter: char) {
    if letter.is_ascii_alphanumeric() || !letter.is_ascii() || letter == '_' {
        out.push(letter);
    } else {
        // Every other ASCII character is escaped: some mean more to Rust than to Python, such as `&&` and `~~` in a
        // set.
        out.push_str(&format!("\\x{:02x}", letter as u32));
    }
}

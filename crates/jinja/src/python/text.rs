//! Characters as Python counts and classifies them.

use std::sync::LazyLock;

use regex::Regex;

fn class(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|_| unreachable!("the pattern is constant"))
}

// Rust's standard library has no general categories; the regex crate carries Unicode's tables.
static PRINTABLE: LazyLock<Regex> = LazyLock::new(|| class(r"^[^\p{C}\p{Z}]$"));
static CASED: LazyLock<Regex> =
    LazyLock::new(|| class(r"^[\p{Lu}\p{Ll}\p{Lt}\p{Other_Lowercase}\p{Other_Uppercase}]$"));
static LETTER: LazyLock<Regex> = LazyLock::new(|| class(r"^\p{L}$"));
static DECIMAL: LazyLock<Regex> = LazyLock::new(|| class(r"^\p{Nd}$"));
static TITLE: LazyLock<Regex> = LazyLock::new(|| class(r"^\p{Lt}$"));

fn matches(class: &Regex, char: char) -> bool {
    class.is_match(char.encode_utf8(&mut [0; 4]))
}

/// Counts characters.
pub(crate) fn char_count(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// Returns the character at an index.
pub(crate) fn char_at(text: &str, index: usize) -> Option<char> {
    if text.is_ascii() { text.as_bytes().get(index).map(|byte| *byte as char) } else { text.chars().nth(index) }
}

/// Returns the byte at which the character with an index begins; the end if there is none.
pub(crate) fn byte_of(text: &str, index: usize) -> usize {
    if text.is_ascii() {
        return index.min(text.len());
    }
    text.char_indices().nth(index).map_or(text.len(), |(byte, _)| byte)
}

/// Returns whether `repr()` prints the character as it is.
pub(crate) fn is_printable(char: char) -> bool {
    match char {
        ' '..='~' => true,
        char if char.is_ascii() => false,
        char => matches(&PRINTABLE, char),
    }
}

/// Returns whether the character is a space to `str.isspace()` and `str.strip()`.
pub(crate) fn is_space(char: char) -> bool {
    // The four separators are spaces to Python but not to Unicode's property White_Space.
    char.is_whitespace() || ('\x1c'..='\x1f').contains(&char)
}

/// Returns whether the character ends a line for `str.splitlines()`.
pub(crate) fn is_line_end(char: char) -> bool {
    // More than the newlines that Jinja's lexer counts: line numbers come from there, not from here.
    matches!(char, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns whether the character has a case.
pub(crate) fn is_cased(char: char) -> bool {
    if char.is_ascii() { char.is_ascii_alphabetic() } else { matches(&CASED, char) }
}

/// Returns whether the character is upper case or title case.
pub(crate) fn is_upper(char: char) -> bool {
    char.is_uppercase()
}

/// Returns whether the character is in title case.
pub(crate) fn is_title(char: char) -> bool {
    !char.is_ascii() && matches(&TITLE, char)
}

/// Returns whether `str.isalpha()` takes the character for a letter.
pub(crate) fn is_alpha(char: char) -> bool {
    if char.is_ascii() { char.is_ascii_alphabetic() } else { matches(&LETTER, char) }
}

/// Returns whether `str.isdecimal()` takes the character for a digit.
pub(crate) fn is_decimal(char: char) -> bool {
    if char.is_ascii() { char.is_ascii_digit() } else { matches(&DECIMAL, char) }
}

/// Returns whether `str.isdigit()` takes the character for a digit.
pub(crate) fn is_digit(char: char) -> bool {
    is_decimal(char)
        || matches!(char, '²' | '³' | '¹' | '\u{1369}'..='\u{1371}' | '\u{19da}' | '⁰' | '⁴'..='⁹' | '₀'..='₉'
            | '①'..='⑨' | '⑴'..='⑼' | '⒈'..='⒐' | '⓪' | '⓵'..='⓽' | '⓿' | '❶'..='❾' | '➀'..='➈' | '➊'..='➒')
}

/// Returns whether `str.isnumeric()` takes the character for a number.
pub(crate) fn is_numeric(char: char) -> bool {
    is_digit(char) || (!char.is_ascii() && char.is_numeric())
}

/// Returns the value of a decimal digit of any script.
pub(crate) fn decimal_value(char: char) -> Option<u32> {
    if char.is_ascii() {
        return char.to_digit(10);
    }
    // Decimal digits of a script are ten characters in order; the run begins at a multiple found by walking back.
    if !is_decimal(char) {
        return None;
    }
    let mut zero = char as u32;
    while zero > 0 && char as u32 - zero < 10 && char::from_u32(zero - 1).is_some_and(is_decimal) {
        zero -= 1;
    }
    Some((char as u32 - zero) % 10)
}

/// Splits at line ends as `str.splitlines()`.
pub(crate) fn split_lines(text: &str, keep: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let (mut start, mut chars) = (0, text.char_indices().peekable());
    while let Some((at, char)) = chars.next() {
        if !is_line_end(char) {
            continue;
        }
        let mut end = at + char.len_utf8();
        if char == '\r' && chars.peek().is_some_and(|(_, next)| *next == '\n') {
            chars.next();
            end += 1;
        }
        lines.push(if keep { &text[start..end] } else { &text[start..at] });
        start = end;
    }
    if start < text.len() {
        lines.push(&text[start..]);
    }
    lines
}

/// Makes the first character upper case and the others lower case.
pub(crate) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return String::new() };
    let mut out: String = title_char(first);
    out.push_str(&chars.as_str().to_lowercase());
    out
}

/// Returns a character in title case.
pub(crate) fn title_char(char: char) -> String {
    match char {
        // Rust knows upper and lower case only; these are all letters whose title case differs from both.
        'ß' => "Ss".to_string(),
        'ﬀ'..='ﬆ' => {
            let upper: String = char.to_uppercase().collect();
            let mut chars = upper.chars();
            chars.next().into_iter().chain(chars.flat_map(char::to_lowercase)).collect()
        }
        'Ǆ' | 'ǅ' | 'ǆ' => "ǅ".to_string(),
        'Ǉ' | 'ǈ' | 'ǉ' => "ǈ".to_string(),
        'Ǌ' | 'ǋ' | 'ǌ' => "ǋ".to_string(),
        'Ǳ' | 'ǲ' | 'ǳ' => "ǲ".to_string(),
        char => char.to_uppercase().collect(),
    }
}

//! Python's `re`: finding and replacing.

use fancy_regex::{Captures, Regex, RegexBuilder};

/// More steps than any sane pattern takes on a text.
const BACKTRACKS: usize = 10_000_000;

/// Compiles a pattern; `ignore_case` and `multi_line` are Python's flags of these names.
///
/// # Errors
/// The error in the pattern.
pub fn compile(pattern: &str, ignore_case: bool, multi_line: bool) -> Result<Regex, String> {
    let flags = match (ignore_case, multi_line) {
        (true, true) => "(?im)",
        (true, false) => "(?i)",
        (false, true) => "(?m)",
        (false, false) => "",
    };
    let translated = targeting::python_pattern(&format!("{flags}{pattern}"))?;
    RegexBuilder::new(&translated).backtrack_limit(BACKTRACKS).build().map_err(|error| error.to_string())
}

/// Returns the groups of a match, or the whole match if the pattern has no groups.
pub fn groups<'t>(regex: &Regex, found: &Captures<'t, str>) -> Vec<Option<&'t str>> {
    let text = |number: usize| found.get(number).map(|part| part.as_str());
    if regex.captures_len() <= 1 {
        return vec![text(0)];
    }
    (1..regex.captures_len()).map(text).collect()
}

/// Finds a match, anywhere or at the start alone.
///
/// # Errors
/// When the pattern takes too many steps.
pub fn find<'t>(regex: &Regex, text: &'t str, at_start: bool) -> Result<Option<Captures<'t, str>>, String> {
    let found = regex.captures(text).map_err(|error| error.to_string())?;
    // If the leftmost match starts later, none starts at the beginning.
    Ok(found.filter(|found| !at_start || found.get(0).is_some_and(|whole| whole.start() == 0)))
}

/// A part of a replacement.
enum Part {
    Text(String),
    Group(usize),
    Named(String),
}

/// Replaces all matches, with `\1`, `\g<1>`, `\g<name>` and `\n` in the replacement, as `re.sub()` does.
///
/// # Errors
/// The error in the replacement, or that the pattern takes too many steps.
pub fn replace(regex: &Regex, text: &str, replacement: &str) -> Result<String, String> {
    let parts = template(regex, replacement)?;
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for found in regex.captures_iter(text) {
        let found = found.map_err(|error| error.to_string())?;
        let Some(whole) = found.get(0) else { continue };
        out.push_str(&text[done..whole.start()]);
        for part in &parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Group(number) => out.push_str(found.get(*number).map_or("", |part| part.as_str())),
                Part::Named(name) => out.push_str(found.name(name).map_or("", |part| part.as_str())),
            }
        }
        done = whole.end();
    }
    out.push_str(&text[done..]);
    Ok(out)
}

fn template(regex: &Regex, replacement: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut letters = replacement.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        if letter != '\\' {
            literal.push(letter);
            continue;
        }
        let Some((_, sign)) = letters.next() else {
            return Err(format!("bad escape (end of pattern) at position {at}"));
        };
        let part = match sign {
            'g' => Some(group_name(regex, &mut letters)?),
            '1'..='9' => {
                let mut number = sign.to_digit(10).unwrap_or(0) as usize;
                if let Some(digit) = letters.peek().and_then(|(_, next)| next.to_digit(10)) {
                    letters.next();
                    number = number * 10 + digit as usize;
                }
                Some(Part::Group(known(regex, number)?))
            }
            '0' => {
                literal.push('\0');
                None
            }
            // Python keeps unknown escapes of signs and refuses those of letters, to be able to give them a meaning.
            sign if !sign.is_ascii_alphabetic() && sign != '\\' => {
                literal.extend(['\\', sign]);
                None
            }
            sign => {
                literal.push(escape(sign).ok_or_else(|| format!("bad escape \\{sign} at position {at}"))?);
                None
            }
        };
        if let Some(part) = part {
            parts.push(Part::Text(std::mem::take(&mut literal)));
            parts.push(part);
        }
    }
    parts.push(Part::Text(literal));
    Ok(parts)
}

fn known(regex: &Regex, number: usize) -> Result<usize, String> {
    if number < regex.captures_len() { Ok(number) } else { Err(format!("invalid group reference {number}")) }
}

fn group_name(regex: &Regex, letters: &mut std::iter::Peekable<std::str::CharIndices>) -> Result<Part, String> {
    if letters.next().is_none_or(|(_, letter)| letter != '<') {
        return Err("missing <".to_owned());
    }
    let mut name = String::new();
    loop {
        match letters.next() {
            Some((_, '>')) => break,
            Some((_, letter)) => name.push(letter),
            None => return Err("missing >, unterminated name".to_owned()),
        }
    }
    if let Ok(number) = name.parse() {
        return known(regex, number).map(Part::Group);
    }
    if regex.capture_names().flatten().any(|known| known == name) {
        return Ok(Part::Named(name));
    }
    Err(format!("unknown group name '{name}'"))
}

fn escape(sign: char) -> Option<char> {
    Some(match sign {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        '\\' => '\\',
        _ => return None,
    })
}

/// Writes a text so that it matches itself, as `re.escape()` does.
pub fn quoted(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        if "()[]{}?*+-|^$\\.&~# \t\n\r\u{b}\u{c}".contains(letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_are_pythons() {
        let regex = compile(r"(\w)(?P<rest>\w*)", false, false).unwrap();
        assert_eq!(replace(&regex, "ab cd", r"\g<rest>\1").unwrap(), "ba dc");
        assert_eq!(replace(&regex, "ab", r"x\ny$1").unwrap(), "x\ny$1");
        for (text, error) in [
            (r"\3", "invalid group reference 3"),
            (r"\q", "bad escape \\q at position 0"),
            (r"\g<no>", "unknown group name 'no'"),
            ("\\", "bad escape (end of pattern) at position 0"),
        ] {
            assert_eq!(replace(&regex, "ab", text).unwrap_err(), error);
        }
    }

    #[test]
    fn groups_or_the_whole_are_found() {
        let regex = compile("^(.*)BC(.*)$", true, false).unwrap();
        let found = find(&regex, "abcd", true).unwrap().unwrap();
        assert_eq!(groups(&regex, &found), [Some("a"), Some("d")]);
        let regex = compile("b.", false, false).unwrap();
        assert!(find(&regex, "abc", true).unwrap().is_none());
        let found = find(&regex, "abc", false).unwrap().unwrap();
        assert_eq!(groups(&regex, &found), [Some("bc")]);
        assert_eq!(quoted("a.b c"), "a\\.b\\ c");
    }
}

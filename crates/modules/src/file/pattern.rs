//! Searching and replacing with Python's regular expressions.

use exec::{Error, Result};
use fancy_regex::{Captures, Regex};
use value::Value;

// LOCALE and UNICODE have no letter: text is always Unicode here, which is Python's default as well.
/// The flags of Python's `re`, by name, number and letter.
const FLAGS: [(&str, i64, &str); 6] = [
    ("IGNORECASE", 2, "i"),
    ("LOCALE", 4, ""),
    ("MULTILINE", 8, "m"),
    ("DOTALL", 16, "s"),
    ("UNICODE", 32, ""),
    ("VERBOSE", 64, "x"),
];

/// `re.MULTILINE`, the default of `file.replace` and `file.search`.
pub const MULTILINE: i64 = 8;

/// Returns the sum of flags given as letters, as `file.psed` takes them.
pub fn letters(given: &str) -> Result<i64> {
    given.chars().try_fold(0, |sum, letter| {
        let number = match letter {
            'I' => 2,
            'L' => 4,
            'M' => 8,
            'S' => 16,
            'U' => 32,
            'X' => 64,
            _ => return Err(Error::execution(format!("Invalid re flag given: {letter}"))),
        };
        Ok(sum | number)
    })
}

/// Returns the sum of flags given as a number, a name or a list of names.
pub fn flags(given: &Value) -> Result<i64> {
    let named = |name: &Value| -> Result<i64> {
        let upper = name.to_string().to_uppercase();
        // `re.I` and the other short names of Python are accepted too.
        let fits = |(long, _, _): &&(&str, i64, &str)| *long == upper || (upper.len() == 1 && long.starts_with(&upper));
        let found =
            FLAGS.iter().find(fits).map(|(_, number, _)| *number).or((upper == "A" || upper == "ASCII").then_some(256));
        found.ok_or_else(|| Error::execution(format!("Invalid re flag given: {name}")))
    };
    match given {
        Value::Int(number) => Ok(*number),
        Value::Str(text) if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit()) => {
            text.parse().map_err(|_| Error::execution(format!("Invalid re flag given: {text}")))
        }
        name @ Value::Str(_) => named(name),
        Value::List(names) => names.iter().try_fold(0, |sum, name| Ok(sum | named(name)?)),
        other => Err(Error::execution(format!(
            "Invalid re flags: \"{other}\", must be given either as a single flag string, a list of strings, as an \
             integer, or as an re flag"
        ))),
    }
}

/// Compiles a pattern with the sum of its flags.
pub fn compile(pattern: &str, flags: i64) -> Result<Regex> {
    let letters: String =
        FLAGS.iter().filter(|(_, number, _)| flags & number != 0).map(|(_, _, letter)| *letter).collect();
    // The flags go into the pattern, where the regex engine reads them for all of it.
    let prefix = if letters.is_empty() { String::new() } else { format!("(?{letters})") };
    let wrong = |reason: String| Error::Other(format!("invalid regular expression '{pattern}': {reason}"));
    let translated = targeting::python_pattern(&format!("{prefix}{pattern}")).map_err(wrong)?;
    Regex::new(&translated).map_err(|error| wrong(error.to_string()))
}

/// A part of a replacement.
enum Part {
    Text(String),
    Group(usize),
    Named(String),
}

/// A replacement in Python's syntax: `\1`, `\g<name>`, `\n`.
pub struct Template(Vec<Part>);

impl Template {
    /// A replacement without escapes.
    pub fn literal(text: &str) -> Self {
        Template(vec![Part::Text(text.to_owned())])
    }

    /// Reads a replacement.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(place) = rest.find('\\') {
            plain.push_str(&rest[..place]);
            let (part, used) = escape(&rest[place + 1..])?;
            match part {
                // Text around an escape is collected, so that most templates are a single part.
                Part::Text(text) => plain.push_str(&text),
                group => parts.extend([Part::Text(std::mem::take(&mut plain)), group]),
            }
            rest = &rest[place + 1 + used..];
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        Ok(Template(parts))
    }

    fn expand(&self, captures: &Captures<'_, str>) -> Result<String> {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                // An optional group that took no part is empty; one that does not exist is an error.
                Part::Group(number) if *number >= captures.len() => {
                    return Err(Error::Other(format!("invalid group reference {number}")));
                }
                Part::Group(number) => out.push_str(captures.get(*number).map_or("", |group| group.as_str())),
                Part::Named(name) => out.push_str(captures.name(name).map_or("", |group| group.as_str())),
            }
        }
        Ok(out)
    }
}

/// Parses the part behind a backslash, and returns its number of bytes.
fn escape(rest: &str) -> Result<(Part, usize)> {
    let Some(first) = rest.chars().next() else { return Err(Error::Other("bad escape (end of pattern)".into())) };
    let text = |text: &str| Part::Text(text.to_owned());
    Ok(match first {
        'g' => {
            let name = rest[1..].strip_prefix('<').and_then(|inside| inside.split_once('>')).map(|(name, _)| name);
            let name = name.ok_or_else(|| Error::Other("missing < or > of a group name".into()))?;
            (name.parse().map_or_else(|_| Part::Named(name.to_owned()), Part::Group), name.len() + 3)
        }
        '0' => (text("\0"), 1),
        '1'..='9' => {
            // Python reads at most two digits; three would be an octal escape.
            let digits = rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
            (Part::Group(rest[..digits].parse().unwrap_or(0)), digits)
        }
        'n' => (text("\n"), 1),
        'r' => (text("\r"), 1),
        't' => (text("\t"), 1),
        'a' => (text("\x07"), 1),
        'b' => (text("\x08"), 1),
        'f' => (text("\x0c"), 1),
        'v' => (text("\x0b"), 1),
        '\\' => (text("\\"), 1),
        // Python refuses unknown letters and keeps other signs with their backslash.
        letter if letter.is_ascii_alphabetic() => return Err(Error::Other(format!("bad escape \\{letter}"))),
        other => (Part::Text(format!("\\{other}")), other.len_utf8()),
    })
}

/// Replaces up to `count` matches (all for 0) and returns the new text and how many there were. As in Python an empty
/// match may follow another match, but not an empty one at the same place.
pub fn replace(regex: &Regex, template: &Template, text: &str, count: usize) -> Result<(String, usize)> {
    let (mut out, mut copied, mut found, mut from) = (String::with_capacity(text.len()), 0, 0, 0);
    let mut last_empty = None;
    while from <= text.len() && (count == 0 || found < count) {
        let captures = regex.captures_from_pos(text, from).map_err(|error| Error::Other(error.to_string()))?;
        let Some(captures) = captures else { break };
        let Some(whole) = captures.get(0) else { break };
        let (start, end) = (whole.start(), whole.end());
        // One letter on: at the same place the empty match would be found forever.
        if start == end && last_empty == Some(start) {
            from = start + text[start..].chars().next().map_or(1, char::len_utf8);
            last_empty = None;
            continue;
        }
        out.push_str(&text[copied..start]);
        out.push_str(&template.expand(&captures)?);
        (copied, from, found) = (end, end, found + 1);
        last_empty = (start == end).then_some(end);
    }
    out.push_str(&text[copied..]);
    Ok((out, found))
}

/// Returns whether a pattern matches anywhere.
pub fn is_match(regex: &Regex, text: &str) -> Result<bool> {
    regex.is_match(text).map_err(|error| Error::Other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    fn sub(pattern: &str, template: &str, text: &str, count: usize) -> (String, usize) {
        let template = Template::parse(template).unwrap();
        replace(&compile(pattern, MULTILINE).unwrap(), &template, text, count).unwrap()
    }

    #[test]
    fn replacements_follow_python() {
        assert_eq!(sub("^a(.)$", r"<\1\g<1>>\n", "ab\nac\n", 0), ("<bb>\n\n<cc>\n\n".into(), 2));
        assert_eq!(sub("(?P<x>a)", r"\g<x>\\\.", "aa", 1), (r"a\\.a".into(), 1));
        assert_eq!(sub("z", "", "a", 0), ("a".into(), 0));
        // Since Python 3.7 an empty match may directly follow another match.
        assert_eq!(sub("x*", "-", "abxd", 0), ("-a-b--d-".into(), 5));
        // MULTILINE changes `^` and `$`, but not `\Z`.
        assert_eq!(sub(r"b\Z", "c", "b\nb", 0), ("b\nc".into(), 1));
        assert!(Template::parse(r"\q").is_err());
        let missing = Template::parse(r"\2").unwrap();
        assert!(replace(&compile("a", 0).unwrap(), &missing, "a", 0).is_err());
    }

    #[test]
    fn flags_come_as_numbers_and_names() {
        assert_eq!(flags(&Value::Int(8)).unwrap(), 8);
        assert_eq!(flags(&"multiline".into()).unwrap(), 8);
        assert_eq!(flags(&list!["I", "DOTALL"]).unwrap(), 18);
        assert!(flags(&"what".into()).is_err());
        assert!(is_match(&compile("A.b", 18).unwrap(), "a\nB").unwrap());
    }
}

//! Foreign text in pages: ids, tags, returns. Whoever wrote it, it stays text, and what controls a terminal or changes the order of
//! letters is shown.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};
use value::Value;
use value::escape::is_command;

/// The longest line that is shown whole, in letters.
const LONGEST_LINE: usize = 2000;

/// The longest output that is shown whole, in bytes.
pub const LONGEST_OUTPUT: usize = 256 << 10;

/// Returns whether a letter is shown as its number: it controls something, or nobody can see it.
fn is_hidden(letter: char) -> bool {
    is_command(letter) || matches!(letter, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2060}'..='\u{2065}' | '\u{feff}')
}

/// Shows a text within a line.
pub fn inline(text: &str) -> Markup {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        push(&mut out, letter, matches!(letter, '\n' | '\t'));
    }
    PreEscaped(out)
}

/// Shows a text with its own lines, such as the comment of a state.
pub fn lines(text: &str) -> Markup {
    let mut out = String::with_capacity(text.len());
    for line in text.trim_end().split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        for letter in line.strip_suffix('\r').filter(|_| !end.is_empty()).unwrap_or(line).chars() {
            push(&mut out, letter, false);
        }
        out.push_str(end);
    }
    html! { span.lines { (PreEscaped(out)) } }
}

/// Shows a short text within a line; a longer one is cut.
pub fn brief(text: &str, most: usize) -> Markup {
    match text.char_indices().nth(most) {
        Some((end, _)) => html! { (inline(&text[..end])) "…" },
        None => inline(text),
    }
}

/// Returns a text for an attribute, with escapes for what would not be seen.
pub fn attribute(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match is_hidden(letter) || letter == '\n' || letter == '\t' {
            true => number(&mut out, letter),
            false => out.push(letter),
        }
    }
    out
}

fn push(out: &mut String, letter: char, as_number: bool) {
    match letter {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '"' => out.push_str("&quot;"),
        letter if as_number || is_hidden(letter) => {
            out.push_str("<span class=\"ctl\">");
            number(out, letter);
            out.push_str("</span>");
        }
        letter => out.push(letter),
    }
}

fn number(out: &mut String, letter: char) {
    // Writing into a string cannot fail.
    let _ = match letter as u32 {
        code @ 0..=0xff => write!(out, "\\x{code:02x}"),
        code => write!(out, "\\u{code:04x}"),
    };
}

/// Shows the output of a program: colours of a terminal become colours of the page, long lines are cut.
pub fn output(text: &str) -> Markup {
    let mut out = String::with_capacity(text.len());
    let mut colour: Option<u8> = None;
    for (number, line) in text.lines().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        colour = one_line(&mut out, line, colour);
    }
    if colour.is_some() {
        out.push_str("</span>");
    }
    PreEscaped(out)
}

fn one_line(out: &mut String, line: &str, mut colour: Option<u8>) -> Option<u8> {
    let mut rest = line;
    let mut letters = 0;
    while let Some(letter) = rest.chars().next() {
        if let Some((next, length)) = escape_sequence(rest) {
            if colour.is_some() {
                out.push_str("</span>");
            }
            colour = next;
            if let Some(colour) = colour {
                let _ = write!(out, "<span class=\"a{colour}\">");
            }
            rest = &rest[length..];
            continue;
        }
        if letters == LONGEST_LINE {
            let _ = write!(out, "<span class=\"ctl\">… {} more letters</span>", rest.chars().count());
            break;
        }
        push(out, letter, false);
        letters += 1;
        rest = &rest[letter.len_utf8()..];
    }
    colour
}

/// Reads a colour of a terminal (`ESC [ 31 m`). Returns it, `None` for no colour, and the length in bytes.
fn escape_sequence(text: &str) -> Option<(Option<u8>, usize)> {
    let numbers = text.strip_prefix("\x1b[")?;
    let length = numbers.bytes().take(16).position(|byte| byte == b'm')?;
    let numbers = &numbers[..length];
    if !numbers.bytes().all(|byte| byte.is_ascii_digit() || byte == b';') {
        return None;
    }
    let known = |code: &u8| matches!(code, 1 | 30..=37 | 90..=97);
    let colour = numbers.split(';').filter_map(|code| code.parse().ok()).rfind(known);
    Some((colour, length + 3))
}

/// Returns the beginning of an output that is short enough to show, and whether that is all.
pub fn bounded(text: &str) -> (&str, bool) {
    if text.len() <= LONGEST_OUTPUT {
        return (text, true);
    }
    (&text[..text.floor_char_boundary(LONGEST_OUTPUT)], false)
}

/// Writes a return as people read it: texts as they are, all else as YAML.
pub fn readable(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        // Such as what went wrong when states were rendered.
        Value::List(items) if has_lines(items) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n").trim_end().to_owned()
        }
        other => {
            let style = yaml::Style { sort_keys: false, width: 120, ..yaml::Style::from(yaml::Flow::Block) };
            let text = yaml::dump_with(other, style).unwrap_or_else(|error| error.to_string());
            text.trim_end().trim_end_matches("\n...").to_owned()
        }
    }
}

/// Returns whether a list has nothing but texts, of which one has several lines.
fn has_lines(items: &[Value]) -> bool {
    let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    texts.is_some_and(|texts| texts.iter().any(|text| text.contains('\n')))
}

/// Writes the arguments of a function in one line.
pub fn arguments(arguments: &[Value]) -> String {
    let mut parts = Vec::new();
    for argument in arguments {
        match argument {
            Value::Map(map) if map.get("__kwarg__").is_some_and(Value::truthy) => {
                let named = map.iter().filter(|(name, _)| name.as_str() != Some("__kwarg__"));
                parts.extend(named.map(|(name, value)| format!("{name}={}", one(value))));
            }
            other => parts.push(one(other)),
        }
    }
    parts.join(" ")
}

fn one(value: &Value) -> String {
    match value {
        Value::Str(text) if !text.is_empty() && !text.contains([' ', '"', '\'']) => text.clone(),
        Value::Str(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

/// Writes a part of a path.
pub fn in_path(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Writes a number with separators of thousands.
pub fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn foreign_text_stays_text() {
        for (text, shown) in [
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("a\u{202e}b", "a<span class=\"ctl\">\\u202e</span>b"),
            ("a\0\n", "a<span class=\"ctl\">\\x00</span><span class=\"ctl\">\\x0a</span>"),
            ("\"&'", "&quot;&amp;'"),
            ("größe", "größe"),
        ] {
            assert_eq!(inline(text).0, shown);
        }
        assert_eq!(attribute("a\u{202e}\x1b\n"), "a\\u202e\\x1b\\x0a");
        let shown = lines("a\r\n\t<b>\x1b\rc\n\n").0;
        let escaped = "<span class=\"ctl\">\\x1b</span><span class=\"ctl\">\\x0d</span>";
        assert_eq!(shown, format!("<span class=\"lines\">a\n\t&lt;b&gt;{escaped}c</span>"));
        assert_eq!(brief("größe", 3).0, "grö…");
    }

    #[test]
    fn colours_of_terminals_are_shown_and_nothing_else() {
        assert_eq!(output("\x1b[0;31mred\x1b[0m <b>").0, "<span class=\"a31\">red</span> &lt;b&gt;");
        assert_eq!(output("\x1b[32ma\nb").0, "<span class=\"a32\">a\nb</span>");
        assert_eq!(output("\x1b[2J").0, "<span class=\"ctl\">\\x1b</span>[2J");
        assert_eq!(output("\x1b[38;5;1\"><script>m").0.matches('<').count(), 2);
        assert_eq!(output("\x1b[999999999m").0, "");
    }

    #[test]
    fn long_lines_and_outputs_are_cut() {
        let shown = output(&"é".repeat(LONGEST_LINE + 7)).0;
        assert!(shown.ends_with("<span class=\"ctl\">… 7 more letters</span>"));
        let long = "é".repeat(LONGEST_OUTPUT);
        assert_eq!(bounded(&long).0.len(), LONGEST_OUTPUT);
        assert!(!bounded(&long).1 && bounded("short").1);
    }

    #[test]
    fn values_are_readable() {
        assert_eq!(readable(&"a\nb".into()), "a\nb");
        assert_eq!(readable(&true.into()), "true");
        assert_eq!(readable(&list!["failed:\n  line", "more"]), "failed:\n  line\nmore");
        assert_eq!(readable(&map! { "b" => 1, "a" => list![2] }.into()), "b: 1\na:\n- 2");
        let with_names = [Value::from("nginx"), "a b".into(), map! { "test" => true, "__kwarg__" => true }.into()];
        assert_eq!(arguments(&with_names), "nginx \"a b\" test=True");
        assert_eq!(in_path("a/b?é"), "a%2Fb%3F%C3%A9");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
    }
}

//! Slots: arguments that name execution functions to be called just before the state runs.

use exec::{Bound, Call, Context, Error, Result};
use value::{Map, Value};

const MARK: &str = "__slot__:";

/// Replaces slots in the arguments of a state: in strings, list items, map values, and values of maps in lists.
pub fn fill(ctx: &Context, bound: &mut Bound) -> Result<()> {
    for value in bound.values.iter_mut() {
        fill_value(ctx, value, 0)?;
    }
    for (_, value) in bound.kwargs.iter_mut() {
        fill_value(ctx, value, 0)?;
    }
    Ok(())
}

/// Replaces slots in the arguments of a call.
pub fn fill_call(ctx: &Context, call: &mut Call) -> Result<()> {
    for value in &mut call.args {
        fill_value(ctx, value, 0)?;
    }
    for (_, value) in call.kwargs.iter_mut() {
        fill_value(ctx, value, 0)?;
    }
    Ok(())
}

/// `depth` counts the enclosing containers. As in Salt, a list may contain maps, but a map no containers.
fn fill_value(ctx: &Context, value: &mut Value, depth: u8) -> Result<()> {
    match value {
        Value::Str(text) if text.starts_with(MARK) => *value = evaluate(ctx, text)?,
        Value::List(items) if depth == 0 => {
            for item in items {
                fill_value(ctx, item, 1)?;
            }
        }
        Value::Map(map) if depth < 2 => {
            for (_, item) in map.iter_mut().filter(|(_, item)| item.as_str().is_some()) {
                fill_value(ctx, item, 2)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Evaluates a slot. A malformed slot is left unchanged.
fn evaluate(ctx: &Context, slot: &str) -> Result<Value> {
    let left = || Value::from(slot);
    let Some(text) = slot.strip_prefix(MARK).and_then(|rest| rest.split_once(':')) else {
        tracing::warn!("Malformed slot: {slot}");
        return Ok(left());
    };
    let ("salt", text) = text else {
        tracing::warn!("Malformed slot: {slot}: only execution modules can be called, as in \"__slot__:salt:\"");
        return Ok(left());
    };
    let parsed = parse(text).map_err(|why| Error::Other(format!("{why} in the slot {slot}")))?;
    // The permissions of the minion hold here too: an SLS file could otherwise call functions that are disabled.
    let Some(parsed) = parsed.filter(|parsed| ctx.agent.registry().find_permitted(&parsed.fun).is_ok()) else {
        tracing::warn!("Malformed slot: {slot}: it should be a function call, as in test.arg('arg', kw='kwarg')");
        return Ok(left());
    };
    let mut answer = ctx.call_permitted(&parsed.fun, parsed.call)?;
    let (path, appended) = tail(text);
    if let Some(path) = path {
        answer = answer.traverse(path, ".").cloned().unwrap_or_default();
    }
    if let Some(appended) = appended {
        match &mut answer {
            Value::Str(text) => text.push_str(appended),
            _ => tracing::error!("Ignoring slot append, slot result is not a string"),
        }
    }
    Ok(answer)
}

/// Returns the path into the result and the string to append, as in `….a.b ~ /more`.
fn tail(text: &str) -> (Option<&str>, Option<&str>) {
    let (call, appended) = match text.split_once('~') {
        Some((call, appended)) => (call, Some(unquote(appended.trim()))),
        None => (text, None),
    };
    let after = call.rfind(')').map_or("", |end| &call[end + 1..]);
    (after.split_once('.').map(|(_, path)| path.trim()), appended)
}

fn unquote(text: &str) -> &str {
    let quoted = |quote| text.len() >= 2 && text.starts_with(quote) && text.ends_with(quote);
    if quoted('"') || quoted('\'') { &text[1..text.len() - 1] } else { text }
}

#[derive(Debug, PartialEq)]
struct Parsed {
    fun: String,
    call: Call,
}

/// Parses `module.function(arg, key=value)`. All arguments are strings.
fn parse(text: &str) -> std::result::Result<Option<Parsed>, &'static str> {
    let mut tokens = tokens(text)?.into_iter();
    let mut fun = String::new();
    loop {
        match tokens.next() {
            Some(token) if token.is_mark('(') => break,
            Some(token) => fun.push_str(&token.text),
            None => return Ok(None),
        }
    }
    if fun.is_empty() {
        return Ok(None);
    }
    let (mut call, mut word, mut has_word, mut key) = (Call::default(), String::new(), false, None::<String>);
    let mut brackets = Vec::new();
    for token in tokens {
        let mark = token.mark();
        match mark {
            Some(open @ ('[' | '{' | '(')) => brackets.push(open),
            Some(end @ (',' | ')')) if brackets.is_empty() => {
                match key.take() {
                    Some(key) => drop(call.kwargs.insert(key, std::mem::take(&mut word))),
                    None if has_word => call.args.push(std::mem::take(&mut word).into()),
                    None => {}
                }
                has_word = false;
                if end == ')' {
                    return Ok(Some(Parsed { fun, call }));
                }
                continue;
            }
            Some(close @ (']' | '}' | ')')) => {
                let open = match close {
                    ']' => '[',
                    '}' => '{',
                    _ => '(',
                };
                if brackets.pop() != Some(open) {
                    return Ok(None);
                }
            }
            Some('=') if brackets.is_empty() => {
                key = Some(std::mem::take(&mut word));
                has_word = false;
                continue;
            }
            _ => {}
        }
        word.push_str(&token.text);
        has_word = true;
    }
    Ok(None)
}

#[derive(Debug, PartialEq)]
struct Token {
    text: String,
    quoted: bool,
}

impl Token {
    fn mark(&self) -> Option<char> {
        let mut letters = self.text.chars();
        let first = letters.next()?;
        (!self.quoted && letters.next().is_none()).then_some(first)
    }

    fn is_mark(&self, mark: char) -> bool {
        self.mark() == Some(mark)
    }
}

/// Splits into words, quoted strings and single other characters, as a shell's lexer does.
fn tokens(text: &str) -> std::result::Result<Vec<Token>, &'static str> {
    let mut found = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\r' | '\n' => {}
            // Salt splits the text with Python's `shlex`, which knows comments.
            '#' => while letters.next_if(|letter| *letter != '\n').is_some() {},
            letter if is_word(letter) || matches!(letter, '"' | '\'' | '\\') => {
                let mut token = Token { text: String::new(), quoted: false };
                let mut next = Some(letter);
                while let Some(letter) = next {
                    match letter {
                        '"' | '\'' => {
                            token.quoted = true;
                            quoted(&mut letters, letter, &mut token.text)?;
                        }
                        '\\' => token.text.push(letters.next().ok_or("No escaped character")?),
                        letter => token.text.push(letter),
                    }
                    next = letters.next_if(|letter| is_word(*letter) || matches!(letter, '"' | '\'' | '\\'));
                }
                found.push(token);
            }
            other => found.push(Token { text: other.into(), quoted: false }),
        }
    }
    Ok(found)
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || ('ß'..='þ').contains(&letter)
}

fn quoted(
    letters: &mut impl Iterator<Item = char>,
    quote: char,
    text: &mut String,
) -> std::result::Result<(), &'static str> {
    loop {
        match letters.next().ok_or("No closing quotation")? {
            letter if letter == quote => return Ok(()),
            '\\' => {
                let next = letters.next().ok_or("No escaped character")?;
                // As in a shell, a backslash between quotes escapes only the quote and itself.
                if next != quote && next != '\\' {
                    text.push('\\');
                }
                text.push(next);
            }
            letter => text.push(letter),
        }
    }
}

/// Splits an entry of `unless` or `onlyif` into `fun`, `args` and keyword arguments.
pub fn call_of(entry: &Map) -> Option<(String, Call)> {
    let mut kwargs = entry.clone();
    let fun = kwargs.remove("fun")?.to_string();
    let args = kwargs.remove("args").map(|args| args.into_list().unwrap_or_default()).unwrap_or_default();
    kwargs.remove("get_return");
    Some((fun, Call { args, kwargs }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    fn parsed(text: &str) -> Option<(String, Value, Map)> {
        parse(text).unwrap().map(|parsed| (parsed.fun, parsed.call.args.into(), parsed.call.kwargs))
    }

    #[test]
    fn calls_are_read() {
        assert_eq!(parsed("test.arg()"), Some(("test.arg".into(), list![], map! {})));
        let args = list!["a b", "x/y", "[1,2]"];
        assert_eq!(
            parsed("test.arg('a b', x/y, [1, 2], k=\"v\", n = 5)"),
            Some(("test.arg".into(), args, map! { "k" => "v", "n" => "5" }))
        );
        assert_eq!(parsed("test.arg('it\\'s')"), Some(("test.arg".into(), list!["it's"], map! {})));
        assert_eq!(parsed("test.arg(a b)"), Some(("test.arg".into(), list!["ab"], map! {})));
        for wrong in ["test.arg", "test.arg(", "(a)", "test.arg([)", ""] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
        assert_eq!(parse("test.arg('a"), Err("No closing quotation"));
    }

    #[test]
    fn what_follows_a_call_is_a_path_and_a_text() {
        assert_eq!(tail("a.b(c.d)"), (None, None));
        assert_eq!(tail("a.b(c).d.e"), (Some("d.e"), None));
        assert_eq!(tail("a.b(c).d ~ /x"), (Some("d"), Some("/x")));
        assert_eq!(tail("a.b(c) ~ ' x'"), (None, Some(" x")));
    }
}

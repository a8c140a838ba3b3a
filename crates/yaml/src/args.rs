//! Command-line arguments, which Salt parses as YAML with exceptions.

use value::{Map, Value};

use crate::{UNNAMED, load};

/// Parses one argument: a number, a list in brackets, a map in braces, `True`, `None`, or the string itself.
///
/// Everything that is not clearly one of the former stays a string: digits with underscores, anything with a tab or a line break, a
/// text before a `#`, a map without braces, and whatever YAML refuses.
///
/// ```
/// use saltern_yaml::args::parse_cli_arg;
/// assert_eq!(parse_cli_arg("[1, two]").to_string(), "[1, 'two']");
/// assert_eq!(parse_cli_arg("1_000").to_string(), "1_000");
/// assert_eq!(parse_cli_arg("key: value").to_string(), "key: value");
/// ```
pub fn parse_cli_arg(arg: &str) -> Value {
    let trimmed = python_strip(arg);
    let underscored = arg.contains('_') && trimmed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    // Each of these would lose its text in YAML: blank text and `---` load as null, `1_000` as 1000, and libyaml folds
    // tabs and line breaks.
    if matches!(trimmed, "" | "---" | "...") || underscored || arg.contains(['\t', '\r', '\n']) {
        return arg.into();
    }
    // Not YAML's word for null, but the one that people who know Python type.
    if arg == "None" {
        return Value::Null;
    }
    match load(arg, UNNAMED) {
        Ok(value) if keeps_meaning(arg, &value) => value,
        _ => arg.into(),
    }
}

fn keeps_meaning(arg: &str, value: &Value) -> bool {
    let commented = arg.contains('#');
    match value {
        // A comment would be lost from a string; other types are used as parsed.
        Value::Str(_) | Value::Null if commented => false,
        _ if commented => true,
        // `salt web1 test.echo 'note: done'` must not turn into a map.
        Value::Map(_) => arg.starts_with('{'),
        Value::List(_) => arg.starts_with('['),
        // YAML takes these signs for the start of a block and of a tag, and loads an empty value.
        Value::Str(text) => !(text.is_empty() && matches!(arg, "|" | "!")),
        Value::Null => arg != "!",
        Value::Bool(_) | Value::Int(_) | Value::BigInt(_) | Value::Float(_) => true,
        // Salt returns the original text for types that it does not know.
        Value::Bytes(_) | Value::DateTime(_) | Value::Constant(_) => false,
    }
}

/// Python's `str.strip()`: Unicode white space and the four separators of ASCII.
fn python_strip(text: &str) -> &str {
    text.trim_matches(|letter: char| letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter))
}

/// Splits an argument of the form `name=value`; `None` for any other.
///
/// A name begins with a letter or an underscore and continues with letters, digits, `.` and `-`. If the value begins with `=` or
/// contains a line break, the whole is a positional argument.
pub fn parse_kwarg(arg: &str) -> Option<(&str, &str)> {
    let (name, rest) = arg.split_once('=')?;
    let mut letters = name.chars();
    let first = letters.next()?;
    let word = |letter: char| letter == '_' || letter.is_alphanumeric();
    // The letters of any script, like `\w` in Python.
    let named = word(first) && !first.is_numeric() && letters.all(|letter| word(letter) || matches!(letter, '.' | '-'));
    // Python's `$` allows one line break at the very end, which is then not part of the value.
    let value = rest.strip_suffix('\n').unwrap_or(rest);
    (named && !rest.starts_with('=') && !value.contains('\n')).then_some((name, value))
}

/// Parses the arguments of a function, positional and named ones, each like [`parse_cli_arg`].
///
/// With `no_parse`, the named arguments in that list stay strings.
pub fn parse_input<'a>(args: impl IntoIterator<Item = &'a str>, no_parse: &[&str]) -> (Vec<Value>, Map) {
    let mut positional = Vec::new();
    let mut named = Map::new();
    for arg in args {
        match parse_kwarg(arg) {
            Some((name, text)) if no_parse.contains(&name) => drop(named.insert(name, text)),
            Some((name, text)) => drop(named.insert(name, parse_cli_arg(text))),
            None => positional.push(parse_cli_arg(arg)),
        }
    }
    (positional, named)
}

/// Joins arguments into the single list that a job carries: job ids as strings, the named ones last in a marked map.
pub fn condition_input(positional: Vec<Value>, named: Map) -> Vec<Value> {
    let mut list: Vec<Value> = positional
        .into_iter()
        .map(|arg| match arg {
            // A job id is all digits. As a number it would lose its meaning for the functions that look jobs up.
            Value::Int(_) | Value::BigInt(_) if is_jid(&arg.to_string()) => Value::from(arg.to_string()),
            other => other,
        })
        .collect();
    if !named.is_empty() {
        let mut marked = Map::with_capacity(named.len() + 1);
        // The marker distinguishes this map from one that is itself an argument.
        marked.insert("__kwarg__", true);
        marked.update(named);
        list.push(marked.into());
    }
    list
}

/// Returns whether a number has the length of a job id, 20 characters; as in Salt, a sign counts as one.
fn is_jid(digits: &str) -> bool {
    digits.len() == 20
}

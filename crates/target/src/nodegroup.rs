//! Node groups: names of compound expressions, which may refer to each other.

use value::{Map, Value};

use crate::Error;
use crate::compound::OPERATORS;

/// More words than any sane expression has. Groups that repeat each other could produce any number.
pub(crate) const WORD_LIMIT: usize = 10_000;

/// Returns the words of a compound target that the group means.
///
/// A definition is a string or a list of words; words `N@name` are replaced by that group in parentheses. A plain list of names
/// becomes one word `L@`, a list with regular expressions one word `E@`. As in Salt, a nested group that is unknown or contains
/// itself is left out after an error is logged.
pub fn expand_nodegroup(name: &str, groups: &Map) -> Result<Vec<String>, Error> {
    let (words, left_out) = expand_noting(name, groups)?;
    for error in left_out {
        tracing::error!("{error}");
    }
    Ok(words)
}

/// Returns the words, and what is wrong with the nested groups that are left out.
fn expand_noting(name: &str, groups: &Map) -> Result<(Vec<String>, Vec<Error>), Error> {
    let mut expansion = Expansion { groups, open: Vec::new(), left: WORD_LIMIT, left_out: Vec::new() };
    let words = expansion.expand(name)?;
    Ok((words, expansion.left_out))
}

/// An expansion, with a limit: groups that name each other twice double with each level.
struct Expansion<'a> {
    groups: &'a Map,
    /// The groups around the current word, from the outermost.
    open: Vec<String>,
    /// How many words it may still have.
    left: usize,
    left_out: Vec<Error>,
}

impl Expansion<'_> {
    fn expand(&mut self, name: &str) -> Result<Vec<String>, Error> {
        let error = |reason| Error::Nodegroup { name: name.to_owned(), reason };
        if self.open.iter().any(|outer| outer == name) {
            return Err(error("illegal nested nodegroup"));
        }
        let words = words(self.groups.get(name).ok_or_else(|| error("unknown nodegroup"))?)
            .ok_or_else(|| error("neither a string nor a list"))?;
        self.open.push(name.to_owned());
        let mut expanded = false;
        let mut out = Vec::with_capacity(words.len() + 2);
        for word in &words {
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                return Err(Error::TooExpensive);
            }
            match nested_name(word) {
                Some(inner) => {
                    expanded = true;
                    match self.expand(inner) {
                        Ok(inner) => out.extend(inner),
                        Err(Error::TooExpensive) => return Err(Error::TooExpensive),
                        Err(error) => self.left_out.push(error),
                    }
                }
                None => out.push(word.clone()),
            }
        }
        self.open.pop();
        // A group that names no other keeps its words without brackets, as in Salt.
        if !expanded && self.open.is_empty() {
            return Ok(plain_words(&words).unwrap_or(words));
        }
        if !out.is_empty() {
            out.insert(0, "(".into());
            out.push(")".into());
        }
        match plain_words(&words) {
            Some(joined) if !self.open.is_empty() => Ok(joined),
            _ => Ok(out),
        }
    }
}

fn words(definition: &Value) -> Option<Vec<String>> {
    match definition {
        Value::Str(text) => Some(text.split_whitespace().map(str::to_owned).collect()),
        Value::List(items) => Some(items.iter().map(Value::to_string).collect()),
        _ => None,
    }
}

fn nested_name(word: &str) -> Option<&str> {
    word.strip_prefix("N@").filter(|name| !name.is_empty())
}

/// Joins words without operators, wildcards and engines: to a list of ids, or to a regular expression.
fn plain_words(words: &[String]) -> Option<Vec<String>> {
    let special = |word: &String| {
        let engine =
            word.as_bytes().first().is_some_and(u8::is_ascii_uppercase) && word.as_bytes().get(1) == Some(&b'@');
        OPERATORS.contains(&word.as_str()) || word.contains('*') || engine
    };
    if words.iter().any(special) {
        return None;
    }
    // Any sign of an expression turns the whole list into one, joined with commas. That is of little use, but it is
    // what Salt does.
    let regex = words.iter().any(|word| word.contains(['(', '[', '{', '\\', '?', '}', ']', ')']));
    let engine = if regex { "E@" } else { "L@" };
    Some(vec![format!("{engine}{}", words.join(","))])
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn doubling_groups_are_refused() {
        let mut groups: Map =
            (0..40).map(|n| (format!("g{n}"), Value::from(format!("N@g{0} N@g{0}", n + 1)))).collect();
        groups.update(map! { "g40" => "web1" });
        assert_eq!(expand_nodegroup("g0", &groups), Err(Error::TooExpensive));
        assert_eq!(expand_nodegroup("g40", &groups), Ok(vec!["L@web1".to_owned()]));
    }

    #[test]
    fn nested_groups_that_are_left_out_are_named() {
        let groups = map! { "x" => "web1 or N@nope", "loop" => "web1 or N@inner", "inner" => "web2 or N@loop" };
        let left_out = |name| {
            let (_, left_out) = expand_noting(name, &groups).unwrap();
            left_out.iter().map(Error::to_string).collect::<Vec<_>>()
        };
        assert_eq!(left_out("x"), ["failed nodegroup expansion of 'nope': unknown nodegroup"]);
        assert_eq!(left_out("loop"), ["failed nodegroup expansion of 'loop': illegal nested nodegroup"]);
    }
}

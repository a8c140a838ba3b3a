//! Compares the output of two sides.

use serde_json::Value;

/// Replaces what differs from run to run by stable words: job ids, and the given texts.
pub fn stable(text: &str, words: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (from, to) in words {
        text = text.replace(from, to);
    }
    replace_jids(&text)
}

fn replace_jids(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut digits = String::new();
    // The additional character ends a number at the end of the text.
    for symbol in text.chars().chain(['\0']) {
        if symbol.is_ascii_digit() {
            digits.push(symbol);
            continue;
        }
        // Exactly 20 digits: a shorter number may be a value that must not differ.
        out.push_str(if digits.len() == 20 { "JID" } else { &digits });
        digits.clear();
        if symbol != '\0' {
            out.push(symbol);
        }
    }
    out
}

/// Lists the paths at which two values differ, as `path: left | right`; missing keys are named.
pub fn differences(left: &Value, right: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", left, right, &mut found);
    found
}

fn compare(path: &str, left: &Value, right: &Value, found: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(l), Value::Object(r)) => {
            for (key, value) in l {
                let path = format!("{path}/{key}");
                match r.get(key) {
                    Some(other) => compare(&path, value, other, found),
                    None => found.push(format!("{path}: {value} | missing")),
                }
            }
            found.extend(
                r.iter().filter(|(key, _)| !l.contains_key(*key)).map(|(k, v)| format!("{path}/{k}: missing | {v}")),
            );
        }
        _ if left == right => (),
        _ => found.push(format!("{path}: {left} | {right}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn jids_become_a_word_and_other_numbers_stay() {
        assert_eq!(stable("jid 20240229131415123456, 42 of /tmp/x", &[("/tmp/x", "ROOT")]), "jid JID, 42 of ROOT");
        assert_eq!(stable("20240229131415123456", &[]), "JID");
    }

    #[test]
    fn differences_name_the_path_and_both_sides() {
        let left = json!({"a": 1, "b": {"c": [1], "only": true}});
        let right = json!({"a": 1, "b": {"c": [2]}, "new": null});
        let expected = ["/b/c: [1] | [2]", "/b/only: true | missing", "/new: missing | null"];
        assert_eq!(differences(&left, &right), expected);
    }
}

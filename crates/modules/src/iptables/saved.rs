//! Reading what `iptables-save` prints.

use exec::{Error, Result};
use value::{Map, Value, map};

use python::shlex as words;

/// The long names of options.
fn long_name(option: &str) -> Option<&str> {
    Some(match option {
        "-A" => "append",
        "-D" => "delete",
        "-I" => "insert",
        "-R" => "replace",
        "-L" => "list",
        "-F" => "flush",
        "-Z" => "zero",
        "-N" => "new-chain",
        "-X" => "delete-chain",
        "-P" => "policy",
        "-E" => "rename-chain",
        "-p" => "protocol",
        "-s" => "source",
        "-d" => "destination",
        "-j" => "jump",
        "-g" => "goto",
        "-i" => "in-interface",
        "-o" => "out-interface",
        "-f" => "fragment",
        "-c" => "set-counters",
        "-m" => "match",
        "--sport" | "--source-port" => "source_port",
        "--dport" | "--destination-port" => "destination_port",
        "--sports" => "source-ports",
        "--dports" => "destination-ports",
        "--src-cc" => "source-country",
        "--dst-cc" => "destination-country",
        // The names are the ones Salt shows, which is why some keep dashes and others have underscores.
        long => return long.strip_prefix("--").filter(|name| !name.is_empty() && !name.contains(' ')),
    })
}

fn is_option(word: &str) -> bool {
    word.starts_with('-')
}

/// Splits a rule into its options, each with all its values. A negation becomes a part of the value: `! -s 10.0.0.1`
/// has the value "! 10.0.0.1".
fn options(words: &[String]) -> Map {
    let mut found = Map::new();
    let mut place = 0;
    while place < words.len() {
        // iptables-save writes the mark in front of the option.
        let negated = words[place] == "!" && words.get(place + 1).is_some_and(|next| is_option(next));
        let option = &words[place + usize::from(negated)];
        if !is_option(option) {
            place += 1;
            continue;
        }
        place += 1 + usize::from(negated);
        let mut value: Vec<&str> = if negated { vec!["!"] } else { Vec::new() };
        while let Some(word) = words.get(place).filter(|word| *word != "!" && !is_option(word)) {
            value.push(word);
            place += 1;
        }
        // An option may occur several times, so every value is a list.
        if let Some(name) = long_name(option)
            && let Value::List(values) = found.entry_or_insert_with(name, || Value::List(Vec::new()))
        {
            values.push(value.join(" ").into());
        }
    }
    found
}

fn broken(line: &str) -> Error {
    Error::execution(format!("failed to read the line '{line}' of the saved rules"))
}

/// A line such as ":INPUT ACCEPT [10:1200]".
fn chain(line: &str) -> Result<(String, Map)> {
    let [name, policy, counters, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err(broken(line));
    };
    let (packets, bytes) = counters.split_once(':').ok_or_else(|| broken(line))?;
    let plain = |text: &str| text.replace(['[', ']'], "");
    let entry = map! {
        "policy" => policy,
        "packet count" => plain(packets),
        "byte count" => plain(bytes),
        "rules" => Vec::<Value>::new(),
        "rules_comment" => Map::new(),
    };
    Ok((name.replace(':', ""), entry))
}

fn add_rule(table: &mut Map, line: &str) -> Result<()> {
    let words = words::split(line).map_err(|_| broken(line))?;
    let mut rule = options(&words);
    let first = |name: &str, rule: &Map| rule.get(name).and_then(|list| Some(list.as_list()?.first()?.to_string()));
    let chain = first("append", &rule).ok_or_else(|| broken(line))?;
    rule.remove("append");
    let entry = table.get_mut(&chain).and_then(Value::as_map_mut).ok_or_else(|| broken(line))?;
    if let (Some(comment), Some(comments)) =
        // States find a rule by its comment.
        (first("comment", &rule), entry.get_mut("rules_comment").and_then(Value::as_map_mut))
    {
        comments.insert(comment.trim_matches('"'), rule.clone());
    }
    if let Some(Value::List(rules)) = entry.get_mut("rules") {
        rules.push(rule.into());
    }
    Ok(())
}

/// Reads the output of `iptables-save`: tables with their chains, their policy, counters and rules.
///
/// # Errors
/// When a line is none that iptables prints.
pub fn parsed(text: &str) -> Result<Map> {
    let mut found = Map::new();
    let mut table = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name.replace('*', "");
            found.insert(table.as_str(), Map::new());
            continue;
        }
        // The other lines are comments with the date, and COMMIT.
        if !line.starts_with(':') && !line.starts_with("-A") {
            continue;
        }
        let table = found.get_mut(&table).and_then(Value::as_map_mut).ok_or_else(|| broken(line))?;
        if line.starts_with(':') {
            let (name, entry) = chain(line)?;
            table.insert(name, entry);
        } else {
            add_rule(table, line)?;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_file_is_named_by_its_line() {
        for (text, line) in [
            ("-A INPUT -j DROP", "-A INPUT -j DROP"),
            ("*filter\n:INPUT ACCEPT", ":INPUT ACCEPT"),
            ("*filter\n-A INPUT -j DROP\n", "-A INPUT -j DROP"),
            ("*filter\n:I - [0:0]\n-A I --comment \"x\n", "-A I --comment \"x"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert_eq!(error, format!("failed to read the line '{line}' of the saved rules"));
        }
    }

    #[test]
    fn an_option_without_value_has_an_empty_one() {
        let words: Vec<String> = ["-A", "I", "!", "-f", "--syn"].map(str::to_owned).into();
        let lists = |text: &str| value::list![text];
        let found = map! { "append" => lists("I"), "fragment" => lists("!"), "syn" => lists("") };
        assert_eq!(options(&words), found);
    }
}

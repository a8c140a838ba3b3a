//! What is odd about entries: patterns that mean more or less than they seem to, and what a master of Salt reads otherwise.

use std::collections::BTreeSet;

use targeting::PyRegex;
use value::{Map, Value};

use crate::RunnerContext;

/// The functions and modules that a master knows.
#[derive(Debug, Default)]
pub struct FunctionNames {
    /// The execution functions, by their full name.
    pub functions: BTreeSet<String>,
    /// The runners, by their full name.
    pub runners: BTreeSet<String>,
    /// The wheel functions, by their full name.
    pub wheel: BTreeSet<String>,
}

impl FunctionNames {
    /// Returns those that a program has.
    pub fn of(ctx: &RunnerContext) -> Self {
        fn names<C>(modules: &[&exec::Module<C>]) -> BTreeSet<String> {
            let names =
                modules.iter().flat_map(|module| module.functions.iter().map(|known| (module.name, known.name)));
            names.map(|(module, function)| format!("{module}.{function}")).collect()
        }
        FunctionNames {
            functions: names(ctx.catalogue.modules),
            runners: names(ctx.tables.runners),
            wheel: names(ctx.tables.wheel),
        }
    }
}

/// The most functions that a warning names.
const NAMED: usize = 3;

/// Words after an `@` that are no modules.
const WORDS: [&str; 5] = ["runner", "runners", "wheel", "wheels", "events"];

/// Returns warnings about the part of a backend as it is in the configuration, or about `publisher_acl`. `place` is its name.
pub fn warnings(place: &str, part: &Map, known: &FunctionNames) -> Vec<String> {
    let mut found = Vec::new();
    for (user, entries) in part {
        let user = user.to_string();
        if user.starts_with('^') {
            continue;
        }
        let mut warn = |text: String| found.push(format!("{place}: {text}"));
        about_user(&user, &mut warn);
        match entries {
            Value::List(entries) => entries.iter().for_each(|entry| about_entry(&user, entry, known, &mut warn)),
            Value::Map(map) => {
                warn(format!(
                    "'{user}' has a map, which is read as a list with an entry for each key; Salt grants its keys"
                ));
                let parts = map.iter().map(|(key, value)| Map::from_iter([(key.clone(), value.clone())]).into());
                parts.for_each(|entry: Value| about_entry(&user, &entry, known, &mut warn));
            }
            single => about_entry(&user, single, known, &mut warn),
        }
    }
    found
}

fn about_user(user: &str, warn: &mut impl FnMut(String)) {
    let is_glob = |text: &str| text.contains(['*', '?', '[']);
    match user.strip_suffix('%') {
        Some(group) if is_glob(group) => {
            warn(format!("'{user}' is the exact name of a group: patterns mean nothing there"));
        }
        Some(_) => {}
        None if user == "*" => {}
        None if is_glob(user) || user.contains(['|', '+', '(', '^', '$', '\\']) => {
            warn(format!("'{user}' is a pattern for names, which a master of Salt compares the wrong way round"));
        }
        None if user.contains('.') => {
            warn(format!("'{user}' also means names with another character in place of each dot; write \\. for a dot"));
        }
        None => {}
    }
}

fn about_entry(user: &str, entry: &Value, known: &FunctionNames, warn: &mut impl FnMut(String)) {
    let (key, conditions) = match entry {
        Value::Str(text) => match text.strip_prefix('@') {
            Some(module) => return about_module(user, module, known, warn),
            None => return about_pattern(user, text, &[&known.functions], "", warn),
        },
        Value::Map(map) => match map.iter().next() {
            Some((Value::Str(key), conditions)) if map.len() == 1 => (key.as_str(), conditions),
            // The start of the master, and this runner, say already that it grants nothing.
            _ => return,
        },
        _ => return,
    };
    if key.starts_with("ldap(") {
        warn(format!("'{key}' of '{user}' is the name of no minion: directories are not searched for minions"));
    }
    let patterns = conditions.as_list().unwrap_or(std::slice::from_ref(conditions));
    let patterns = patterns.iter().filter_map(|condition| match condition {
        Value::Map(map) => map.text_keys().next(),
        other => other.as_str(),
    });
    let (functions, module) = match key.strip_prefix('@') {
        Some(module) => {
            about_module(user, module, known, warn);
            // Below `@module`, the name of the function is alone.
            let whole = WORDS.contains(&module);
            (vec![&known.runners, &known.wheel], if whole { String::new() } else { format!("{module}.") })
        }
        None => (vec![&known.functions], String::new()),
    };
    for pattern in patterns {
        about_pattern(user, pattern, &functions, &module, warn);
    }
}

fn about_module(user: &str, module: &str, known: &FunctionNames, warn: &mut impl FnMut(String)) {
    let is_known = |name: &String| name.split_once('.').is_some_and(|(known, _)| known == module);
    if !WORDS.contains(&module) && !known.runners.iter().chain(&known.wheel).any(is_known) {
        warn(format!("'@{module}' of '{user}' is no module of runners or wheel functions, so it grants nothing"));
    }
}

/// Warns of a pattern that is no pattern, and of one that looks like the name of a function and means others, too.
fn about_pattern(user: &str, pattern: &str, all: &[&BTreeSet<String>], module: &str, warn: &mut impl FnMut(String)) {
    if pattern.is_empty() {
        return;
    }
    let Ok(regex) = PyRegex::new(pattern) else {
        return warn(format!("'{pattern}' of '{user}' is no regular expression, so it grants nothing"));
    };
    let names = || all.iter().copied().flatten().filter_map(|name| name.strip_prefix(module));
    // Without this, each `test.*` would be worth a warning.
    let literal = pattern.replace("\\.", ".");
    if !names().any(|name| name == literal) {
        return;
    }
    let mut others: Vec<&str> = names().filter(|name| *name != literal && regex.is_match(name)).collect();
    // A runner and a wheel function may have one name.
    others.sort_unstable();
    others.dedup();
    if !others.is_empty() {
        let more = if others.len() > NAMED { ", …" } else { "" };
        let named = others.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        warn(format!("'{pattern}' of '{user}' also means {named}{more}; end it with $ if it should not"));
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    fn found(part: Map) -> Vec<String> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let known = FunctionNames {
            functions: names(&["pkg.install", "service.restart", "test.ping", "test.pingx", "test.version"]),
            runners: names(&["jobs.list_job", "jobs.list_jobs", "jobs.list_jobs_filter"]),
            wheel: names(&["key.list", "key.list_all"]),
        };
        warnings("file", &part, &known)
    }

    #[test]
    fn entries_that_say_what_they_mean_are_not_named() {
        let part = map! {
            "^filename" => "x.*(",
            "fred" => list![
                "test.*", "test\\.ping$", "pkg.install", "@jobs", "@runner",
                map! { "web*" => list!["pkg.*"] }, map! { "@wheel" => list!["key.list$"] },
            ],
            "*" => list![], "ops%" => list![".*"],
        };
        assert_eq!(found(part), Vec::<String>::new());
    }

    #[test]
    fn names_without_an_end_mean_more() {
        let part = map! {
            "fred" => list!["test\\.ping", map! { "@jobs" => list!["list_job"] }, map! { "@wheel" => "key.list" }, "test.(", "@jbos"],
        };
        let expected = [
            "file: 'test\\.ping' of 'fred' also means test.pingx; end it with $ if it should not",
            "file: 'list_job' of 'fred' also means list_jobs, list_jobs_filter; end it with $ if it should not",
            "file: 'key.list' of 'fred' also means key.list_all; end it with $ if it should not",
            "file: 'test.(' of 'fred' is no regular expression, so it grants nothing",
            "file: '@jbos' of 'fred' is no module of runners or wheel functions, so it grants nothing",
        ];
        assert_eq!(found(part), expected);
    }

    #[test]
    fn users_are_patterns_and_groups_are_none() {
        let part = map! {
            "dev*" => list![], "a|b" => list![], "john.doe" => list![], "adm*%" => list![],
            "w" => map! { "ldap(ou=x)" => list!["test.ping"] },
        };
        let expected = [
            "file: 'dev*' is a pattern for names, which a master of Salt compares the wrong way round",
            "file: 'a|b' is a pattern for names, which a master of Salt compares the wrong way round",
            "file: 'john.doe' also means names with another character in place of each dot; write \\. for a dot",
            "file: 'adm*%' is the exact name of a group: patterns mean nothing there",
            "file: 'w' has a map, which is read as a list with an entry for each key; Salt grants its keys",
            "file: 'ldap(ou=x)' of 'w' is the name of no minion: directories are not searched for minions",
            "file: 'test.ping' of 'w' also means test.pingx; end it with $ if it should not",
        ];
        assert_eq!(found(part), expected);
    }
}

//! "Did you mean …?": finds the nearest known name for an unknown one.
//!
//! Hints go to standard error only, beside Salt's texts, which scripts parse.

use std::collections::BTreeSet;

use value::Value;
pub use value::near::nearest;

/// Returns the sentence.
pub fn did_you_mean(name: &str) -> String {
    format!("Did you mean '{name}'?")
}

/// The largest number of hints in one run.
const MOST: usize = 5;

/// Collects hints about unknown functions, states and arguments from the returns of minions.
#[derive(Default)]
pub struct Hints {
    seen: BTreeSet<String>,
    said: BTreeSet<String>,
}

impl Hints {
    /// Searches what a minion returned.
    pub fn look(&mut self, value: &Value) {
        match value {
            _ if self.said.len() >= MOST => {}
            Value::Str(text)
                // Both bounds keep the cost small: thousands of minions may return large texts.
                if self.seen.len() < 1000 && is_about_names(text) && self.seen.insert(text.to_string()) =>
            {
                self.said.extend(of_text(text));
            }
            Value::List(items) => items.iter().for_each(|item| self.look(item)),
            Value::Map(map) => map.values().for_each(|item| self.look(item)),
            _ => {}
        }
    }

    /// Prints the hints.
    pub fn say(&self) {
        for hint in &self.said {
            rt::complain!("{hint}");
        }
    }
}

fn is_about_names(text: &str) -> bool {
    text.len() < 10_000
        && ["is not available", "' was not found", "invalid keyword argument", "keyword arguments are not valid"]
            .iter()
            .any(|part| text.contains(part))
}

/// Returns a hint for a text of a minion, if it is one of Salt's about an unknown name.
pub fn of_text(text: &str) -> Option<String> {
    let state = between(text, "State '", "' was not found in SLS");
    if let Some(name) = state.or_else(|| between(text, "Specified state '", "' was not found")) {
        return nearest(name, functions(states::ALL).iter().map(String::as_str)).map(|near| about(name, near));
    }
    if let Some((names, full)) = state_keywords(text) {
        return of_keywords(&names, full, states::ALL);
    }
    if let Some((names, full)) = call_keywords(text) {
        return of_keywords(&names, full, modules::ALL);
    }
    let name = text.strip_prefix('\'')?.split_once("' is not available").map(|(name, _)| name)?;
    nearest(name, functions(modules::ALL).iter().map(String::as_str)).map(|near| about(name, near))
}

/// Returns a hint for the name of a function that this program does not know.
pub fn of_function(name: &str, known: &[String]) -> Option<String> {
    nearest(name, known.iter().map(String::as_str)).map(|near| about(name, near))
}

fn about(name: &str, near: &str) -> String {
    // Names come from minions; nothing but text may reach the terminal.
    let name = value::escape::for_terminal(name);
    format!("'{name}' is not known. {}", did_you_mean(near))
}

/// Returns the full names of all functions of some modules.
pub fn functions(tables: &[&exec::Module]) -> Vec<String> {
    let of = |table: &&exec::Module| {
        let name = table.name;
        table.functions.iter().map(move |function| format!("{name}.{}", function.name)).collect::<Vec<_>>()
    };
    tables.iter().flat_map(of).collect()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after)?.0)
}

/// Returns a hint for the first of some keywords that is like one of a function's.
fn of_keywords(names: &[&str], full: &str, tables: &[&exec::Module]) -> Option<String> {
    let (module, function) = full.split_once('.')?;
    let function = tables.iter().find(|table| table.name == module)?.function(function)?;
    let known = || function.params.iter().map(|param| param.name);
    names.iter().find_map(|name| nearest(name, known()).map(|near| about(name, near)))
}

/// Takes the names and the function out of "'x' and 'y' are invalid keyword arguments for 'file.absent'", a state's text.
fn state_keywords(text: &str) -> Option<(Vec<&str>, &str)> {
    let one = text.split_once(" is an invalid keyword argument for '");
    let (before, after) = one.or_else(|| text.split_once(" are invalid keyword arguments for '"))?;
    // Every second part is in quotes.
    Some((before.split('\'').skip(1).step_by(2).collect(), after.split_once('\'')?.0))
}

/// Takes the names and the function out of "ERROR executing 'test.sleep': The following keyword arguments are not valid:
/// x=1, y=2".
fn call_keywords(text: &str) -> Option<(Vec<&str>, &str)> {
    let (function, names) = text.strip_prefix("ERROR executing '")?.split_once("': ")?;
    let names = names.strip_prefix("The following keyword arguments are not valid: ")?;
    Some((names.split(", ").filter_map(|pair| Some(pair.split_once('=')?.0)).collect(), function))
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn salts_texts_about_unknown_names_get_a_hint() {
        for (text, hint) in [
            ("'test.pingg' is not available.", "'test.pingg' is not known. Did you mean 'test.ping'?"),
            (
                "State 'pkg.instaled' was not found in SLS 'web'\nReason: 'pkg.instaled' is not available.\n",
                "'pkg.instaled' is not known. Did you mean 'pkg.installed'?",
            ),
            ("Specified state 'tset.nop' was not found", "'tset.nop' is not known. Did you mean 'test.nop'?"),
            ("'shel' is an invalid keyword argument for 'user.present'", "'shel' is not known. Did you mean 'shell'?"),
            (
                "'xyzzy' and 'shel' are invalid keyword arguments for 'user.present'",
                "'shel' is not known. Did you mean 'shell'?",
            ),
            (
                "ERROR executing 'test.sleep': The following keyword arguments are not valid: xyzzy=1, lenght=2",
                "'lenght' is not known. Did you mean 'length'?",
            ),
        ] {
            assert_eq!(of_text(text).as_deref(), Some(hint));
        }
        assert_eq!(of_text("'foo.bar' is not available."), None);
        assert_eq!(of_text("all is well"), None);
    }

    #[test]
    fn results_are_looked_through_and_each_hint_is_said_once() {
        let mut hints = Hints::default();
        let text = "'test.pingg' is not available.";
        hints.look(&map! { "a" => list![text, "fine"], "b" => text }.into());
        assert_eq!(hints.said.len(), 1);
        hints.look(&"'\u{1b}[2Jtest.ping' is not available.".into());
        assert!(hints.said.iter().all(|hint| !hint.contains('\u{1b}')));
    }
}

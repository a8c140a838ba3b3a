//! "Did you mean …?": finds the nearest known name for an unknown one.
//!
//! Hints go to standard error only, beside Salt's texts, which scripts parse.

use std::collections::BTreeSet;

use value::Value;

/// Returns the most similar name, if any is similar enough.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong; short names are like everything.
    let allowed = (name.chars().count() / 3).clamp(1, 3);
    let near = known.into_iter().filter(|other| *other != name && other.len().abs_diff(name.len()) <= 3);
    // Swapped letters count once, since they are the most common slip.
    let far = near.map(|other| (strsim::damerau_levenshtein(name, other), other));
    // Of several that are equally near, always the same one.
    far.filter(|(distance, _)| *distance <= allowed).min().map(|(_, other)| other)
}

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
            eprintln!("{hint}");
        }
    }
}

fn is_about_names(text: &str) -> bool {
    text.len() < 10_000
        && ["is not available", "' was not found", "invalid keyword argument"].iter().any(|part| text.contains(part))
}

/// Returns a hint for a text of a minion, if it is one of Salt's about an unknown name.
pub fn of_text(text: &str) -> Option<String> {
    let state = between(text, "State '", "' was not found in SLS");
    if let Some(name) = state.or_else(|| between(text, "Specified state '", "' was not found")) {
        return nearest(name, functions(states::ALL).iter().map(String::as_str)).map(|near| about(name, near));
    }
    if let Some((name, full)) = keyword(text) {
        let module = full.split_once('.').map(|(module, _)| module)?;
        let function = full.split_once('.').map(|(_, function)| function)?;
        // A state first: Salt's text about an argument names `file.managed` for either.
        let mut tables = states::ALL.iter().chain(modules::ALL).filter(|table| table.name == module);
        let function = tables.find_map(|table| table.function(function))?;
        return nearest(name, function.params.iter().map(|param| param.name)).map(|near| about(name, near));
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
    let name = value::shown::for_terminal(name);
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

/// Takes the name and the function out of "'x' is an invalid keyword argument for 'file.managed'".
fn keyword(text: &str) -> Option<(&str, &str)> {
    let (before, after) = text.split_once(" is an invalid keyword argument for '")?;
    let name = before.trim_end_matches('\'').rsplit('\'').next()?;
    Some((name, after.split_once('\'')?.0))
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_strangers_are_not() {
        let known = ["test.ping", "test.echo", "cmd.run", "state.apply"];
        assert_eq!(nearest("test.pin", known), Some("test.ping"));
        assert_eq!(nearest("tset.ping", known), Some("test.ping"));
        assert_eq!(nearest("foo.bar", known), None);
        assert_eq!(nearest("test.ping", known), None);
    }

    #[test]
    fn salts_texts_about_unknown_names_get_a_hint() {
        for (text, hint) in [
            ("'test.pingg' is not available.", "'test.pingg' is not known. Did you mean 'test.ping'?"),
            (
                "State 'pkg.instaled' was not found in SLS 'web'\nReason: 'pkg.instaled' is not available.\n",
                "'pkg.instaled' is not known. Did you mean 'pkg.installed'?",
            ),
            ("Specified state 'tset.nop' was not found", "'tset.nop' is not known. Did you mean 'test.nop'?"),
            (
                "'sorce' is an invalid keyword argument for 'file.managed'",
                "'sorce' is not known. Did you mean 'source'?",
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

//! Functions that call another function, which their arguments name.
//!
//! Whoever may call `test.*` is meant to have nothing dangerous, but `test.try cmd.run cmd=id` would be a root shell.

use value::{Map, Value};

/// A function that calls another one.
struct Caller {
    name: &'static str,
    /// The keyword arguments that name the other function: the first one that is there counts.
    keywords: &'static [&'static str],
    /// The place of the argument among positional ones.
    place: usize,
}

const CALLERS: [Caller; 4] = [
    Caller { name: "test.try", keywords: &["module"], place: 0 },
    Caller { name: "test.cross_test", keywords: &["func"], place: 0 },
    Caller { name: "mine.send", keywords: &["mine_function", "name"], place: 0 },
    // Its argument holds any number of functions with their arguments, so it is never a text.
    Caller { name: "mine.update", keywords: &["mine_functions"], place: 1 },
];

/// What a call runs besides the function itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Indirect {
    /// Nothing.
    Nothing,
    /// This function.
    Function(String),
    /// Something that cannot be told from the arguments.
    Unknown,
}

/// Returns what a call runs besides the function itself. `unread` are the names of keyword arguments whose values only the
/// minion reads.
pub(crate) fn called_by(function: &str, positional: &[Value], named: &Map, unread: &[&str]) -> Indirect {
    let Some(caller) = CALLERS.iter().find(|caller| caller.name == function) else { return Indirect::Nothing };
    // Minions of different releases read names beyond ASCII differently.
    if unread.iter().any(|name| !name.is_ascii() || caller.keywords.contains(name)) {
        return Indirect::Unknown;
    }
    let by_keyword = caller.keywords.iter().find_map(|keyword| named.get(keyword));
    match by_keyword.or_else(|| positional.get(caller.place)) {
        None | Some(Value::Null) => Indirect::Nothing,
        // What that one calls would have to be looked for in its arguments, and so on.
        Some(Value::Str(name)) if !CALLERS.iter().any(|caller| *name == *caller.name) => {
            Indirect::Function(name.to_string())
        }
        Some(_) => Indirect::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn the_function_that_is_called_is_found_in_each_form() {
        let function = |name: &str| Indirect::Function(name.to_owned());
        let positional = |function: &str, arguments: Value| {
            called_by(function, arguments.as_list().unwrap_or_default(), &Map::new(), &[])
        };
        assert_eq!(positional("test.try", list!["cmd.run"]), function("cmd.run"));
        assert_eq!(positional("test.cross_test", list!["cmd.run", list!["id"]]), function("cmd.run"));
        assert_eq!(positional("mine.send", list!["network.ip_addrs", "eth0"]), function("network.ip_addrs"));
        assert_eq!(positional("test.ping", list!["cmd.run"]), Indirect::Nothing);
        assert_eq!(positional("test.try", list![]), Indirect::Nothing);
        assert_eq!(positional("mine.update", list![true]), Indirect::Nothing);
        assert_eq!(positional("mine.update", list![true, list!["cmd.run"]]), Indirect::Unknown);
        let named = |function: &str, named: Map| called_by(function, &["label".into()], &named, &[]);
        assert_eq!(named("test.try", map! { "module" => "cmd.run" }), function("cmd.run"));
        assert_eq!(named("mine.send", map! { "mine_function" => "cmd.run", "name" => "x" }), function("cmd.run"));
        assert_eq!(named("mine.update", map! { "mine_functions" => map! { "x" => list!["id"] } }), Indirect::Unknown);
    }

    #[test]
    fn what_only_the_minion_reads_and_chains_are_unknown() {
        assert_eq!(called_by("test.try", &[], &Map::new(), &["module"]), Indirect::Unknown);
        assert_eq!(called_by("test.try", &[], &Map::new(), &["m\u{f6}dule"]), Indirect::Unknown);
        let chain = list!["test.cross_test", list!["cmd.run", list!["id"]]];
        let chain = called_by("test.cross_test", chain.as_list().unwrap(), &Map::new(), &[]);
        assert_eq!(chain, Indirect::Unknown);
        let number = called_by("test.try", &[7.into()], &Map::new(), &[]);
        assert_eq!(number, Indirect::Unknown);
    }
}

//! The documentation of runners and wheel functions.

use std::sync::LazyLock;

use regex::Regex;
use targeting::fnmatch;
use value::Map;

use crate::Module;

/// Returns the documentation of the functions of a table by name, sorted.
///
/// `wanted` is empty for all, a module (`jobs`), a function (`jobs.active`), or a shell glob with `*`.
pub fn docs(modules: &[&Module], wanted: &str) -> Map {
    let mut found = Map::new();
    for module in modules {
        for function in module.functions {
            let name = format!("{}.{}", module.name, function.name);
            if is_wanted(&name, wanted) {
                found.insert(name, plain(function.doc));
            }
        }
    }
    found
}

fn is_wanted(name: &str, wanted: &str) -> bool {
    match wanted {
        "" => true,
        glob if glob.contains('*') => fnmatch(name, glob),
        exact if exact == name => true,
        // `jobs` means all of `jobs.*`, but `job` must not mean `jobs.active`.
        module => name.strip_prefix(module).is_some_and(|rest| module.ends_with('.') || rest.starts_with('.')),
    }
}

/// Returns a text as Python programs write documentation: on separate lines, indented.
pub fn raw(doc: &str) -> String {
    let mut text = String::from("\n");
    for line in doc.lines() {
        if !line.is_empty() {
            text.push_str("    ");
        }
        text.push_str(line);
        text.push('\n');
    }
    text.push_str("    ");
    text
}

/// The same, without marks for typesetting.
fn plain(doc: &str) -> String {
    static CODE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r" *\.\. code-block:: \S+\n{1,2}").ok());
    let text = raw(doc);
    // The expression is constant. If it ever failed to compile, documentation with marks is better than a panic.
    match &*CODE {
        Some(code) => code.replace_all(&text, "").into_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RUNNERS;

    #[test]
    fn names_are_chosen_as_by_salt() {
        let names = |wanted: &str| docs(RUNNERS, wanted).text_keys().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(names("jobs.active"), ["jobs.active"]);
        assert!(names("jobs").iter().all(|name| name.starts_with("jobs.")) && names("jobs").len() > 5);
        assert_eq!(names("*.active"), ["jobs.active"]);
        assert!(names("job").is_empty());
        assert!(names("").len() > names("jobs").len());
    }

    #[test]
    fn marks_are_taken_out() {
        assert_eq!(plain("One.\n\n.. code-block:: bash\n\n    salt-run x"), "\n    One.\n\n        salt-run x\n    ");
    }
}

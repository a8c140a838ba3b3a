//! The documentation of runners and wheel functions.

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
                found.insert(name, exec::docstring(function.doc));
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
}

//! Names of functions as labels of metrics.
//!
//! Minions and users can send any name, and each label stays on the page until the master ends. So only functions that
//! exist become labels.

use std::collections::HashSet;

use exec::{Catalogue, Module};
use value::Value;

/// The label of jobs with several functions.
const SEVERAL: &str = "several";

/// The label of functions that Saltern does not have, such as those of Python modules on Salt minions.
const OTHER: &str = "other";

/// The labels that exist.
#[derive(Debug)]
pub struct FunctionLabels(HashSet<String>);

impl FunctionLabels {
    /// Returns the labels of all execution functions, for all systems.
    pub fn of(catalogue: Catalogue) -> Self {
        let functions = |module: &&'static Module| {
            let name = module.name;
            module.functions.iter().map(move |function| format!("{name}.{}", function.name))
        };
        FunctionLabels(catalogue.modules.iter().flat_map(functions).collect())
    }

    /// Returns the label for the function of a job.
    pub fn label(&self, fun: Option<&Value>) -> &str {
        match fun {
            Some(Value::Str(fun)) => self.0.get(&**fun).map_or(OTHER, String::as_str),
            Some(Value::List(_)) => SEVERAL,
            _ => OTHER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_that_exist_become_labels() {
        let labels = FunctionLabels::of(Catalogue { modules: modules::ALL, states: &[] });
        let of = ["test.ping", "service.offline", "test.pong", "x\ny"].map(|fun| labels.label(Some(&fun.into())));
        assert_eq!(of, ["test.ping", "service.offline", "other", "other"]);
        let several = labels.label(Some(&value::list!["test.ping", "evil"]));
        assert_eq!([several, labels.label(None)], ["several", "other"]);
    }
}

//! All functions that a program has, whether or not they work on this machine.

use value::Map;

use crate::python::{Folders, Kind};
use crate::{Limits, Module, Registry};

/// The execution and state modules of a program. The program hands it to the master, the minion and the runners, which
/// therefore do not depend on the modules themselves.
#[derive(Clone, Copy, Default)]
pub struct Catalogue {
    /// The execution modules. Of several with one name the first that works on the machine is taken.
    pub modules: &'static [&'static Module],
    /// The state modules, likewise.
    pub states: &'static [&'static Module],
}

impl Catalogue {
    /// Returns the execution functions of a machine with these grains, within the limits of these options
    /// (`disable_modules`, `whitelist_modules`) and with the modules that the option `providers` names.
    pub fn registry(&self, grains: &Map, opts: &Map, providers: &Map) -> Registry {
        let python = Folders::of(opts, Kind::Modules);
        Registry::limited(self.modules, grains, Limits::of_modules(opts), providers).with_python(python)
    }

    /// Returns the state functions of a machine with these grains, within the limits of these options (`disable_states`,
    /// `whitelist_state_modules`).
    pub fn state_registry(&self, grains: &Map, opts: &Map) -> Registry {
        let python = Folders::of(opts, Kind::States);
        Registry::limited(self.states, grains, Limits::of_states(opts), &Map::new()).with_python(python)
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn errors_of_calls_name_the_python_file_of_the_same_kind() {
        let place = tempfile::tempdir().unwrap();
        let file = |inside: &str| place.path().join("extmods").join(inside).display().to_string();
        for inside in ["states/door.py", "modules/window.py"] {
            std::fs::create_dir_all(std::path::Path::new(&file(inside)).parent().unwrap()).unwrap();
            std::fs::write(file(inside), "").unwrap();
        }
        let opts = map! { "cachedir" => place.path().display().to_string() };
        let states = Catalogue::default().state_registry(&Map::new(), &opts);
        let modules = Catalogue::default().registry(&Map::new(), &opts, &Map::new());
        let error = |registry: &Registry, fun: &str| registry.find(fun).err().unwrap().0;
        for (registry, fun, inside) in
            [(&states, "door.open", "states/door.py"), (&modules, "window.open", "modules/window.py")]
        {
            let expected = format!(
                "'{fun}' is not available. {fun} is a custom Python module ({}); Saltern does not run Python yet.",
                file(inside)
            );
            assert_eq!(error(registry, fun), expected);
        }
        assert_eq!(error(&states, "window.open"), "'window.open' is not available.", "an execution module is no state");
        assert_eq!(error(&modules, "door.open"), "'door.open' is not available.");
    }
}

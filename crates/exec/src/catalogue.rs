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

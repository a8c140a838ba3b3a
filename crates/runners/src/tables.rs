//! The tables in which functions are looked up.

use crate::{Function, Kind, Module, NoSuchFunction};

/// All runners and wheel functions. A [`RunnerContext`](crate::RunnerContext) carries them, because some functions call
/// others by name.
pub struct Tables {
    /// The runners.
    pub runners: &'static [&'static Module],
    /// The wheel functions.
    pub wheel: &'static [&'static Module],
}

impl Tables {
    /// Finds a function by name.
    ///
    /// # Errors
    /// When there is none, in Salt's words.
    pub fn find(&self, kind: Kind, fun: &str) -> Result<&'static Function, NoSuchFunction> {
        let modules = match kind {
            Kind::Runner => self.runners,
            Kind::Wheel => self.wheel,
        };
        let (module, name) = fun.split_once('.').unwrap_or((fun, ""));
        let module = modules.iter().find(|known| known.name == module);
        let function = module.and_then(|module| module.functions.iter().find(|known| known.name == name));
        function.copied().ok_or_else(|| NoSuchFunction(fun.to_owned()))
    }
}

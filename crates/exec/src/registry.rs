//! Finding functions by name.

use std::collections::BTreeMap;

use value::Map;

use crate::{Call, Context, Error, Function, Module, Result, bind};

/// All modules, and which of them work on this machine.
#[derive(Default)]
pub struct Registry {
    modules: BTreeMap<&'static str, &'static Module>,
    /// Modules that do not work here, with the reason.
    absent: BTreeMap<&'static str, String>,
}

/// Why a name leads to no function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl Registry {
    /// Takes up the modules that work on a machine with these grains. Of several modules with one name the first
    /// that works is taken (the package managers are all `pkg`). `disabled` holds names the option
    /// `disable_modules` turns off.
    pub fn new(modules: &[&'static Module], grains: &Map, disabled: &[String]) -> Self {
        let mut registry = Registry::default();
        for module in modules {
            if registry.modules.contains_key(module.name) || disabled.iter().any(|name| name == module.name) {
                continue;
            }
            match (module.virtual_)(grains) {
                Ok(()) => {
                    registry.absent.remove(module.name);
                    registry.modules.insert(module.name, module);
                }
                Err(reason) => drop(registry.absent.entry(module.name).or_insert(reason)),
            }
        }
        registry
    }

    /// The same, with what the option `providers` says: of modules with one name (`pkg`, `service`) the one Salt calls so
    /// (`aptpkg`) is taken, whatever the grains are. Names nobody knows are warned of and change nothing.
    pub fn with_providers(modules: &[&'static Module], grains: &Map, disabled: &[String], providers: &Map) -> Self {
        let mut registry = Registry::new(modules, grains, disabled);
        for (name, wanted) in providers {
            let (name, wanted) = (name.to_string(), wanted.to_string());
            let found = modules.iter().find(|module| module.name == name && module.provider == Some(wanted.as_str()));
            match found {
                Some(_) if disabled.contains(&name) => {}
                Some(module) => {
                    registry.absent.remove(module.name);
                    registry.modules.insert(module.name, module);
                }
                None => tracing::warn!("the option 'providers' names '{wanted}' for '{name}', which is not there"),
            }
        }
        registry
    }

    /// Returns the function under a name such as `cmd.run`, or the reason there is none, in Salt's words.
    pub fn find(&self, fun: &str) -> std::result::Result<&'static Function, Unavailable> {
        let (module, name) = fun.split_once('.').unwrap_or((fun, ""));
        let found = self.modules.get(module).and_then(|module| module.functions.iter().find(|f| f.name == name));
        found.copied().ok_or_else(|| Unavailable(self.reason(fun, module)))
    }

    /// Goes through the modules that work, by name.
    pub fn modules(&self) -> impl Iterator<Item = &'static Module> {
        self.modules.values().copied()
    }

    /// Goes through the modules that do not work here, by name, with the reason.
    pub fn absent(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.absent.iter().map(|(name, reason)| (*name, reason.as_str()))
    }

    /// Calls a function by name within a job.
    pub async fn call(&self, ctx: &Context, fun: &str, call: Call) -> Result<value::Value> {
        let function = self.find(fun).map_err(|why| Error::NotAvailable(why.0))?;
        let bound = bind(function, call, &ctx.job.published())?;
        (function.call)(ctx, bound).await
    }

    fn reason(&self, fun: &str, module: &str) -> String {
        match self.absent.get(module) {
            Some(reason) => format!("'{module}' __virtual__ returned False: {reason}"),
            None => format!("'{fun}' is not available."),
        }
    }
}

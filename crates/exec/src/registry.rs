//! Finding functions by name.

use std::collections::BTreeMap;

use value::Map;

use crate::{Call, Context, Error, Function, Module, Result, bind};

/// All modules, and which of them work on this machine.
#[derive(Default)]
pub struct Registry {
    modules: BTreeMap<&'static str, &'static Module>,
    /// Others of the same name that work as well, which have what the first has not.
    others: BTreeMap<&'static str, Vec<&'static Module>>,
    /// Modules that do not work here, with the reason.
    absent: BTreeMap<&'static str, String>,
}

/// Why a name leads to no function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl Registry {
    /// Takes up the modules that work on a machine with these grains. Of several modules with one name the first
    /// that works is taken (the package managers are all `pkg`); as in Salt, functions it lacks are those of the next ones
    /// (`service.offline` in a container). `disabled` holds names the option `disable_modules` turns off.
    pub fn new(modules: &[&'static Module], grains: &Map, disabled: &[String]) -> Self {
        let mut registry = Registry::default();
        for module in modules {
            if disabled.iter().any(|name| name == module.name) {
                continue;
            }
            let known = registry.modules.contains_key(module.name);
            match (module.virtual_)(grains) {
                Ok(()) if known => registry.others.entry(module.name).or_default().push(module),
                Err(_) if known => {}
                Ok(()) => {
                    registry.absent.remove(module.name);
                    registry.modules.insert(module.name, module);
                }
                Err(reason) => drop(registry.absent.entry(module.name).or_insert(reason)),
            }
        }
        registry
    }

    /// The same, with what the option `providers` says: of modules with one name (`pkg`, `service`) only the one Salt calls so
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
                    registry.others.remove(module.name);
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
        let mut named = self.modules.get(module).into_iter().chain(self.others.get(module).into_iter().flatten());
        let found = named.find_map(|module| module.function(name));
        found.ok_or_else(|| Unavailable(self.reason(fun, module)))
    }

    /// Goes through all functions, each with the name of its module, by the latter.
    pub fn functions(&self) -> impl Iterator<Item = (&'static str, &'static Function)> {
        self.modules.values().flat_map(|first| {
            let others = self.others.get(first.name).into_iter().flatten();
            let more = others.flat_map(|other| other.functions).filter(|more| first.function(more.name).is_none());
            first.functions.iter().chain(more).map(|function| (first.name, *function))
        })
    }

    /// Goes through the modules that work, by name, the first of each.
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

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    const fn function(name: &'static str, doc: &'static str) -> Function {
        Function {
            name,
            doc,
            params: &[],
            varargs: None,
            kwargs: None,
            out: None,
            call: |_, _| Box::pin(async { Ok(value::Value::Null) }),
        }
    }

    static START: Function = function("start", "of scripts");
    static ALSO_START: Function = function("start", "of units");
    static OFFLINE: Function = function("offline", "of units");
    static SCRIPTS: Module = Module::new("service", "", &[&START]).provided_by("scripts");
    static UNITS: Module = Module::new("service", "", &[&OFFLINE, &ALSO_START])
        .only_if(|grains| if grains.contains_key("units") { Ok(()) } else { Err("no units".into()) })
        .provided_by("units");
    static ALL: [&Module; 2] = [&SCRIPTS, &UNITS];

    fn docs(registry: &Registry) -> Vec<(&str, &str)> {
        registry.functions().map(|(_, function)| (function.name, function.doc)).collect()
    }

    #[test]
    fn what_the_first_of_a_name_lacks_the_next_has() {
        let both = Registry::new(&ALL, &map! { "units" => true }, &[]);
        assert_eq!(docs(&both), [("start", "of scripts"), ("offline", "of units")]);
        assert_eq!(both.find("service.start").unwrap().doc, "of scripts");
        assert_eq!(both.find("service.offline").unwrap().doc, "of units");
        let one = Registry::new(&ALL, &Map::new(), &[]);
        assert_eq!(one.find("service.offline").err().unwrap().0, "'service.offline' is not available.");
    }

    #[test]
    fn who_names_a_provider_gets_that_one_alone() {
        let grains = map! { "units" => true };
        let chosen = |name: &str| Registry::with_providers(&ALL, &grains, &[], &map! { "service" => name });
        assert_eq!(docs(&chosen("scripts")), [("start", "of scripts")]);
        assert_eq!(docs(&chosen("units")), [("offline", "of units"), ("start", "of units")]);
    }
}

//! Finds functions by name.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use value::{Map, Value};

use crate::Limits;
use crate::function::{Function, Module};
use crate::python::Folders;

/// All modules whose functions get one kind of context, and which of them work on this machine. What works may change while the minion runs, when a package
/// brings the program a module needs: see [`Registry::refresh`].
pub struct Registry<C: 'static> {
    /// All modules, in the order in which they are tried.
    all: Vec<&'static Module<C>>,
    /// The option `providers`.
    providers: Map,
    limits: Limits,
    /// The folders of custom Python modules, which are not run.
    python: Folders,
    /// The grains at the last refresh.
    grains: RwLock<Arc<Map>>,
    tables: RwLock<Arc<Tables<C>>>,
}

/// The modules that work.
struct Tables<C: 'static> {
    modules: BTreeMap<&'static str, &'static Module<C>>,
    /// Others of the same name that work as well, which have what the first has not.
    others: BTreeMap<&'static str, Vec<&'static Module<C>>>,
    /// Modules that do not work here, with the reason.
    absent: BTreeMap<&'static str, String>,
}

/// The reason why a function is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl<C> Default for Tables<C> {
    fn default() -> Self {
        Tables { modules: BTreeMap::new(), others: BTreeMap::new(), absent: BTreeMap::new() }
    }
}

impl<C> Tables<C> {
    fn new(modules: &[&'static Module<C>], grains: &Map) -> Self {
        let mut tables = Tables::default();
        for module in modules {
            let known = tables.modules.contains_key(module.name);
            match (module.virtual_)(grains) {
                // The first that works wins. A later one only provides what it lacks.
                Ok(()) if known => tables.others.entry(module.name).or_default().push(module),
                Err(_) if known => {}
                Ok(()) => {
                    tables.absent.remove(module.name);
                    tables.modules.insert(module.name, module);
                }
                // One reason is enough for all variants of a name.
                Err(reason) => drop(tables.absent.entry(module.name).or_insert(reason)),
            }
        }
        tables
    }

    fn with_providers(modules: &[&'static Module<C>], grains: &Map, providers: &Map) -> Self {
        let mut tables = Tables::new(modules, grains);
        for (name, wanted) in providers {
            let (name, wanted) = (name.to_string(), wanted.to_string());
            let found = modules.iter().find(|module| module.name == name && module.provider == Some(wanted.as_str()));
            if let Some(module) = found {
                tables.absent.remove(module.name);
                // As in Salt, a chosen provider stands alone: mixing it with others could use two tools for one thing.
                tables.others.remove(module.name);
                tables.modules.insert(module.name, module);
            }
        }
        tables
    }

    fn find(&self, module: &str, name: &str) -> Option<&'static Function<C>> {
        let mut named = self.modules.get(module).into_iter().chain(self.others.get(module).into_iter().flatten());
        named.find_map(|module| module.function(name))
    }

    fn reason(&self, fun: &str, module: &str) -> String {
        match self.absent.get(module) {
            Some(reason) => format!("'{module}' __virtual__ returned False: {reason}"),
            None => format!("'{fun}' is not available."),
        }
    }
}

impl<C> Default for Registry<C> {
    fn default() -> Self {
        Registry::new(&[], &Map::new())
    }
}

impl<C> Registry<C> {
    /// Returns a registry of the modules that work on a machine with these grains. Of several modules with one name,
    /// the first
    /// that works is used (the package managers are all `pkg`); as in Salt, the next ones provide functions that it
    /// lacks
    /// (`service.offline` in a container).
    pub fn new(modules: &[&'static Module<C>], grains: &Map) -> Self {
        Registry::limited(modules, grains, Limits::default(), &Map::new())
    }

    /// Like [`Registry::new`], with limits and the option `providers`: of several modules with one name (`pkg`,
    /// `service`) only the
    /// one with Salt's name for it (`aptpkg`) is used, whatever the grains are. Unknown names are logged and ignored.
    pub fn limited(modules: &[&'static Module<C>], grains: &Map, limits: Limits, providers: &Map) -> Self {
        for (name, wanted) in providers {
            let (name, wanted) = (name.to_string(), wanted.to_string());
            // Compared with all modules, because a provider that does not work now may work later.
            if !modules.iter().any(|module| module.name == name && module.provider == Some(wanted.as_str())) {
                tracing::warn!("the option 'providers' names '{wanted}' for '{name}', which is not there");
            }
        }
        let all: Vec<&'static Module<C>> =
            modules.iter().filter(|module| limits.enable(module.name, module.provider)).copied().collect();
        let tables = Tables::with_providers(&all, grains, providers);
        Registry {
            all,
            providers: providers.clone(),
            limits,
            python: Folders::default(),
            grains: RwLock::new(Arc::new(grains.clone())),
            tables: RwLock::new(Arc::new(tables)),
        }
    }

    /// Sets the folders of custom Python modules, which errors about missing functions mention.
    pub fn with_python(self, python: Folders) -> Self {
        Registry { python, ..self }
    }

    /// Returns a sentence about a missing function that is defined in a custom Python module; empty if it is not.
    pub fn python_hint(&self, fun: &str) -> String {
        self.python.hint(fun)
    }

    /// Determines again which modules work, with these grains: programs may have been installed or removed.
    pub fn refresh(&self, grains: &Map) {
        *self.grains.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(grains.clone());
        self.look_again();
    }

    fn look_again(&self) -> Arc<Tables<C>> {
        let grains = self.grains.read().unwrap_or_else(PoisonError::into_inner).clone();
        // Replaced as a whole, so that no reader sees half of the new tables.
        let tables = Arc::new(Tables::with_providers(&self.all, &grains, &self.providers));
        *self.tables.write().unwrap_or_else(PoisonError::into_inner) = tables.clone();
        tables
    }

    fn tables(&self) -> Arc<Tables<C>> {
        // Callers keep the tables that they began with, and iterate over them without the lock.
        self.tables.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the function under a name such as `cmd.run`, or the reason there is none, in Salt's words. A module that
    /// did not work at the last check is checked again, as a new job of Salt does.
    pub fn find(&self, fun: &str) -> std::result::Result<&'static Function<C>, Unavailable> {
        let (module, name) = fun.split_once('.').unwrap_or((fun, ""));
        let mut tables = self.tables();
        // A state may just have installed the package. Only then are the tables built again, because each test may look
        // for programs.
        if tables.absent.contains_key(module) && self.works_now(module) {
            tables = self.look_again();
        }
        tables.find(module, name).ok_or_else(|| Unavailable(tables.reason(fun, module) + &self.python.hint(fun)))
    }

    /// Finds a function that is named from outside: by a job, a template, a state's arguments or a configured call. What
    /// our own code calls by a name it has itself is found with [`Registry::find`]: as in Salt, a permitted module may use
    /// the others.
    pub fn find_permitted(&self, fun: &str) -> std::result::Result<&'static Function<C>, Unavailable> {
        let module = fun.split('.').next().unwrap_or_default();
        if !self.permits(module) {
            let only = value::python::repr(&self.limits.only.iter().map(String::as_str).collect::<Value>());
            tracing::error!(
                "Failed to load function {fun} because its module ({module}) is not in the whitelist: {only}"
            );
            // The same words as for a function that does not exist; only the log names the reason.
            return Err(Unavailable(format!("'{fun}' is not available.")));
        }
        self.find(fun)
    }

    /// Returns whether the functions of a module may be named from outside.
    pub fn permits(&self, module: &str) -> bool {
        let tables = self.tables();
        let provider = tables.modules.get(module).and_then(|module| module.provider);
        self.limits.permit(module, provider)
    }

    fn works_now(&self, name: &str) -> bool {
        let grains = self.grains.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.all.iter().any(|module| module.name == name && (module.virtual_)(&grains).is_ok())
    }

    /// Iterates over all functions with the names of their modules, sorted by these.
    pub fn functions(&self) -> impl Iterator<Item = (&'static str, &'static Function<C>)> {
        let tables = self.tables();
        let of = |first: &&'static Module<C>| {
            let others = tables.others.get(first.name).into_iter().flatten();
            // Functions of the first module hide the functions of the same name in the others, as for a call.
            let more = others.flat_map(|other| other.functions).filter(|more| first.function(more.name).is_none());
            first.functions.iter().chain(more).map(|function| (first.name, *function)).collect::<Vec<_>>()
        };
        tables.modules.values().flat_map(of).collect::<Vec<_>>().into_iter()
    }

    /// Iterates over the modules that work, sorted by name. Of several with one name, only the first is included.
    pub fn modules(&self) -> impl Iterator<Item = &'static Module<C>> {
        self.tables().modules.values().copied().collect::<Vec<_>>().into_iter()
    }

    /// Iterates over the names of the modules that do not work here, sorted, each with the reason.
    pub fn absent(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.tables().absent.iter().map(|(name, reason)| (*name, reason.clone())).collect::<Vec<_>>().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;
    use crate::{Body, Function, Module, Registry};

    const fn function(name: &'static str, doc: &'static str) -> Function {
        Function {
            name,
            doc,
            params: &[],
            varargs: None,
            kwargs: None,
            out: None,
            body: Body::Plain(|_, _| Ok(Value::Null)),
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
        let both = Registry::new(&ALL, &map! { "units" => true });
        assert_eq!(docs(&both), [("start", "of scripts"), ("offline", "of units")]);
        assert_eq!(both.find("service.start").unwrap().doc, "of scripts");
        assert_eq!(both.find("service.offline").unwrap().doc, "of units");
        let one = Registry::new(&ALL, &Map::new());
        assert_eq!(one.find("service.offline").err().unwrap().0, "'service.offline' is not available.");
    }

    #[test]
    fn who_names_a_provider_gets_that_one_alone() {
        let grains = map! { "units" => true };
        let chosen = |name: &str| Registry::limited(&ALL, &grains, Limits::default(), &map! { "service" => name });
        assert_eq!(docs(&chosen("scripts")), [("start", "of scripts")]);
        assert_eq!(docs(&chosen("units")), [("offline", "of units"), ("start", "of units")]);
    }

    fn limited(disabled: &[&str], only: &[&str]) -> Registry {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let limits = Limits { disabled: owned(disabled), only: owned(only) };
        Registry::limited(&[&SCRIPTS, &UNITS, &COMMANDS], &map! { "units" => true }, limits, &Map::new())
    }

    static RUN: Function = function("run", "");
    static COMMANDS: Module = Module::new("cmd", "", &[&RUN]);

    #[test]
    fn a_disabled_module_does_not_exist_under_either_name() {
        for name in ["cmd", "cmdmod"] {
            let registry = limited(&[name], &[]);
            let reason = "'cmd.run' is not available.";
            assert_eq!(registry.find("cmd.run").err().unwrap().0, reason, "disabled as {name}");
            assert_eq!(registry.find_permitted("cmd.run").err().unwrap().0, reason);
            assert!(registry.modules().all(|module| module.name != "cmd"));
            assert!(registry.find("service.start").is_ok());
        }
        assert_eq!(docs(&limited(&["scripts", "cmd"], &[])), [("offline", "of units"), ("start", "of units")]);
        assert!(docs(&limited(&["service", "cmd"], &[])).is_empty());
    }

    #[test]
    fn a_whitelist_holds_for_names_from_outside_only() {
        for (name, permitted) in [("service", true), ("scripts", true), ("cmd", false), ("units", false)] {
            let registry = limited(&[], &[name]);
            assert_eq!(registry.find_permitted("service.start").is_ok(), permitted, "whitelist {name}");
            // Modules build on each other; a whitelist of `service` must not break what `service` itself calls.
            assert!(registry.find("service.start").is_ok(), "our own calls stay free");
        }
        for name in ["cmd", "cmdmod"] {
            let registry = limited(&[], &[name]);
            assert!(registry.find_permitted("cmd.run").is_ok(), "whitelist {name}");
            assert_eq!(registry.find_permitted("service.start").err().unwrap().0, "'service.start' is not available.");
        }
        assert!(limited(&[], &[]).find_permitted("cmd.run").is_ok(), "no whitelist forbids nothing");
    }

    /// Simulates a program that a package installs.
    static INSTALLED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    static QUERY: Function = function("query", "");
    static LATE: Module = Module::new("late", "", &[&QUERY]).only_if(|_| {
        let there = INSTALLED.load(std::sync::atomic::Ordering::Relaxed);
        if there { Ok(()) } else { Err("no program".into()) }
    });

    #[test]
    fn what_comes_while_the_minion_runs_is_found() {
        let registry = Registry::new(&[&LATE], &Map::new());
        let missing = registry.find("late.query").err().unwrap();
        assert_eq!(missing.0, "'late' __virtual__ returned False: no program");
        assert_eq!(registry.absent().collect::<Vec<_>>(), [("late", "no program".to_owned())]);
        INSTALLED.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(registry.functions().count(), 0, "nobody has asked for it yet");
        assert_eq!(registry.find("late.query").unwrap().name, "query");
        assert_eq!(registry.find("late.other").err().unwrap().0, "'late.other' is not available.");
        assert_eq!((registry.functions().count(), registry.absent().count()), (1, 0));
        INSTALLED.store(false, std::sync::atomic::Ordering::Relaxed);
        registry.refresh(&Map::new());
        assert!(registry.find("late.query").is_err());
    }

    #[test]
    fn other_grains_bring_other_modules() {
        let registry = Registry::new(&[&UNITS], &Map::new());
        assert!(registry.find("service.offline").is_err());
        registry.refresh(&map! { "units" => true });
        assert!(registry.find("service.offline").is_ok());
    }
}

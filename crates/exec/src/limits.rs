//! Which modules an operator has turned off, and which are the only ones that may be called from outside.

use value::{Map, Value};

use crate::Module;

/// What the configuration forbids of one kind of modules. A module is named as it is called (`pkg`) or as Salt's file is
/// (`aptpkg`).
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Modules that do not exist, for nobody (`disable_modules`, `disable_states`).
    pub disabled: Vec<String>,
    /// The only modules that may be named from outside: by a job, a template or a state. Empty for all
    /// (`whitelist_modules`, `whitelist_state_modules`).
    pub only: Vec<String>,
}

/// Files of Salt whose module is called by another name and of which we have one variant: the name and the files.
const FILES: &[(&str, &[&str])] = &[
    ("acl", &["linux_acl"]),
    ("cmd", &["cmdmod"]),
    ("debconf", &["debconfmod"]),
    ("group", &["groupadd"]),
    ("ini", &["ini_manage"]),
    ("kernelpkg", &["kernelpkg_linux_apt", "kernelpkg_linux_yum"]),
    ("locale", &["localemod"]),
    ("log", &["logmod"]),
    ("pip", &["pip_state"]),
    ("random", &["mod_random"]),
    ("salt", &["saltmod"]),
    ("shadow", &["linux_shadow"]),
    ("sys", &["sysmod"]),
    ("sysctl", &["linux_sysctl"]),
    ("user", &["useradd"]),
    ("virtualenv", &["virtualenv_mod"]),
    ("x509", &["x509_v2"]),
];

impl Limits {
    /// The limits of execution modules in these options.
    pub fn of_modules(opts: &Map) -> Self {
        Limits { disabled: names(opts.get("disable_modules")), only: names(opts.get("whitelist_modules")) }
    }

    /// The limits of state modules in these options.
    pub fn of_states(opts: &Map) -> Self {
        Limits { disabled: names(opts.get("disable_states")), only: names(opts.get("whitelist_state_modules")) }
    }

    /// Says whether the module is not turned off.
    pub fn enable(&self, module: &Module) -> bool {
        !named(&self.disabled, module.name, module.provider)
    }

    /// Says whether a module may be named from outside.
    pub fn permit(&self, name: &str, provider: Option<&str>) -> bool {
        self.only.is_empty() || named(&self.only, name, provider)
    }
}

/// Reads a list of names; text stands for a list of one, as everywhere in our configuration.
fn names(option: Option<&Value>) -> Vec<String> {
    match option {
        Some(Value::List(names)) => names.iter().map(Value::to_string).collect(),
        Some(Value::Str(name)) if !name.is_empty() => vec![name.clone()],
        _ => Vec::new(),
    }
}

fn named(list: &[String], name: &str, provider: Option<&str>) -> bool {
    let files = FILES.iter().find(|(module, _)| *module == name).map_or(&[][..], |(_, files)| files);
    list.iter().any(|entry| entry == name || Some(entry.as_str()) == provider || files.contains(&entry.as_str()))
}

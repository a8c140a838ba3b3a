//! The options that disable modules, or restrict which may be called from outside.

use value::{Map, Value};

/// The restrictions on one kind of modules. A module is named as it is called (`pkg`) or as Salt's file is
/// (`aptpkg`).
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Modules that do not exist, not even for other modules (`disable_modules`, `disable_states`).
    pub disabled: Vec<String>,
    /// The only modules that may be named from outside: by a job, a template or a state. Empty for all
    /// (`whitelist_modules`, `whitelist_state_modules`).
    pub only: Vec<String>,
}

/// Names of modules that Saltern has in one variant only, each with the names of Salt's files. Salt compares the
/// options with file names, but operators write either.
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

    /// Returns whether a module is enabled.
    pub fn enable(&self, name: &str, provider: Option<&str>) -> bool {
        !named(&self.disabled, name, provider)
    }

    /// Returns whether a module may be named from outside.
    pub fn permit(&self, name: &str, provider: Option<&str>) -> bool {
        // Without the option, everything that is not disabled is permitted.
        self.only.is_empty() || named(&self.only, name, provider)
    }
}

/// Reads a list of names. As in the whole configuration, a text is a list of one.
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

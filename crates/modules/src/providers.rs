//! The names of Salt's module files for the modules here: state trees compare them to tell service managers apart.

use exec::Module;

/// Modules of which there is one each, under a name that is not that of Salt's file: the module and the file.
const RENAMED: &[(&str, &str)] = &[
    ("cmd", "cmdmod"),
    ("group", "groupadd"),
    ("ini", "ini_manage"),
    ("locale", "localemod"),
    ("log", "logmod"),
    ("random", "mod_random"),
    ("shadow", "linux_shadow"),
    ("sys", "minion"),
    ("sysctl", "linux_sysctl"),
    ("user", "useradd"),
    ("virtualenv", "virtualenv_mod"),
];

/// Returns the name of Salt's file, without its ending.
pub fn file_of(module: &'static Module) -> &'static str {
    let renamed = || RENAMED.iter().find(|(name, _)| *name == module.name).map(|(_, file)| *file);
    module.provider.or_else(renamed).unwrap_or(module.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{pkg, service};

    #[test]
    fn modules_are_told_by_the_file_that_provides_them() {
        let files = [&service::systemd::MODULE, &pkg::apt::MODULE, &pkg::yum::MODULE, &crate::cmd::MODULE];
        assert_eq!(files.map(file_of), ["systemd_service", "aptpkg", "yumpkg", "cmdmod"]);
    }
}

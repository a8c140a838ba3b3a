//! Which of Salt's files a module of ours stands for: state trees ask for it to tell service managers apart.

use exec::Module;

use crate::{pkg, service};

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

/// Modules that share a name with others, of which a machine has one.
const CHOSEN: &[(&Module, &str)] = &[
    (&pkg::apk::MODULE, "apkpkg"),
    (&pkg::apt::MODULE, "aptpkg"),
    (&pkg::pacman::MODULE, "pacmanpkg"),
    (&pkg::yum::MODULE, "yumpkg"),
    (&pkg::zypper::MODULE, "zypperpkg"),
    (&service::openrc::MODULE, "gentoo_service"),
    (&service::red_hat::MODULE, "rh_service"),
    (&service::systemd::MODULE, "systemd_service"),
    (&service::sysv::MODULE, "debian_service"),
];

/// Returns the name of Salt's file, without its ending.
pub fn file_of(module: &'static Module) -> &'static str {
    if let Some((_, file)) = CHOSEN.iter().find(|(chosen, _)| std::ptr::eq(*chosen, module)) {
        return file;
    }
    RENAMED.iter().find(|(name, _)| *name == module.name).map_or(module.name, |(_, file)| file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_told_by_the_file_that_provides_them() {
        let files = [&service::systemd::MODULE, &pkg::apt::MODULE, &pkg::yum::MODULE, &crate::cmd::MODULE];
        assert_eq!(files.map(file_of), ["systemd_service", "aptpkg", "yumpkg", "cmdmod"]);
    }
}

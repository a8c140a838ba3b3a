//! Execution modules, one file per Salt module name.
//!
//! The file name is the Salt name, with an underscore where Rust wants the word for itself (`match_.rs`). What several
//! modules share is in [`util`].

pub mod accounts;
pub mod acl;
pub mod aliases;
pub mod alternatives;
pub mod apache;
pub mod archive;
pub mod at;
pub mod beacons;
pub mod cmd;
pub mod config;
pub mod cp;
pub mod cron;
pub mod data;
pub mod debconf;
pub mod defaults;
pub mod dig;
pub mod disk;
pub mod dnsutil;
pub mod environ;
pub mod event;
pub mod file;
pub mod fileclient;
pub mod firewalld;
pub mod git;
pub mod grains;
pub mod group;
pub mod hashutil;
pub mod hosts;
pub mod http;
pub mod ini;
pub mod ip;
pub mod iptables;
pub mod jinja;
pub mod kernelpkg;
pub mod key;
pub mod keyboard;
pub mod kmod;
pub mod locale;
pub mod logrotate;
pub mod logs;
pub mod lowpkg;
pub mod match_;
pub mod mine;
pub mod minion;
pub mod mount;
pub mod network;
pub mod nftables;
pub mod out;
mod packages;
pub mod pillar;
pub mod pip;
pub mod pkg;
pub mod pkg_resource;
pub mod postgres;
mod providers;
pub mod ps;
pub mod publish;
pub mod rabbitmq;
pub mod random;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod replay;
pub mod salt_version;
pub mod saltern;
pub mod saltutil;
pub mod schedule;
pub mod selinux;
pub mod service;
pub mod shadow;
#[cfg(test)]
mod signatures;
pub mod slsutil;
pub mod ssh;
pub mod state;
pub mod status;
pub mod subprocess;
pub mod sys;
pub mod sysctl;
pub mod sysfs;
pub mod system;
pub mod temp;
pub mod templates;
pub mod test;
pub mod text;
pub mod timezone;
pub mod user;
pub mod util;
pub mod virtualenv;
pub mod webutil;
pub mod x509;

/// All modules. Of several with the same name, the first one that loads on this machine is used.
pub static ALL: &[&exec::Module] = &[
    // In alphabetical order.
    &acl::MODULE,
    &aliases::MODULE,
    &alternatives::MODULE,
    &apache::MODULE,
    &apache::debian::MODULE,
    &apache::suse::MODULE,
    &archive::MODULE,
    &at::MODULE,
    &beacons::MODULE,
    &cmd::MODULE,
    &config::MODULE,
    &cp::MODULE,
    &cron::MODULE,
    &data::MODULE,
    &debconf::MODULE,
    &defaults::MODULE,
    &dig::MODULE,
    &disk::MODULE,
    &dnsutil::MODULE,
    &environ::MODULE,
    &event::MODULE,
    &file::MODULE,
    &firewalld::MODULE,
    &git::MODULE,
    &grains::MODULE,
    &group::MODULE,
    &hashutil::MODULE,
    &hosts::MODULE,
    &http::MODULE,
    &ini::MODULE,
    &ip::debian::MODULE,
    &ip::redhat::MODULE,
    &iptables::MODULE,
    &jinja::MODULE,
    &kernelpkg::MODULE,
    &key::MODULE,
    &keyboard::MODULE,
    &kmod::MODULE,
    &locale::MODULE,
    &logs::MODULE,
    &logrotate::MODULE,
    &lowpkg::dpkg::MODULE,
    &lowpkg::rpm::MODULE,
    &match_::MODULE,
    &mine::MODULE,
    &minion::MODULE,
    &mount::MODULE,
    &network::MODULE,
    &nftables::MODULE,
    &out::MODULE,
    &pillar::MODULE,
    &pip::MODULE,
    &pkg::apt::MODULE,
    &pkg::yum::MODULE,
    &pkg::zypper::MODULE,
    &pkg::apk::MODULE,
    &pkg::pacman::MODULE,
    &pkg_resource::MODULE,
    &postgres::MODULE,
    &ps::MODULE,
    &publish::MODULE,
    &rabbitmq::MODULE,
    &random::MODULE,
    &salt_version::MODULE,
    &saltern::MODULE,
    &saltutil::MODULE,
    &schedule::MODULE,
    &selinux::MODULE,
    &service::openrc::MODULE,
    &service::sysv::MODULE,
    &service::red_hat::MODULE,
    &service::systemd::MODULE,
    &shadow::MODULE,
    &slsutil::MODULE,
    &ssh::MODULE,
    &state::MODULE,
    &status::MODULE,
    &sys::MODULE,
    &sysctl::MODULE,
    &sysfs::MODULE,
    &system::MODULE,
    &temp::MODULE,
    &test::MODULE,
    &timezone::MODULE,
    &user::MODULE,
    &virtualenv::MODULE,
    &webutil::MODULE,
    &x509::MODULE,
];

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    /// Every `MODULE` static of the crate, by its file.
    fn declared(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                declared(&path, found);
            } else if std::fs::read_to_string(&path).unwrap().contains("\npub static MODULE: Module") {
                found.push(path);
            }
        }
    }

    /// `src/pkg/apt.rs` is `pkg::apt`, `src/cmd/mod.rs` is `cmd`.
    fn rust_path(file: &Path, root: &Path) -> String {
        let inside = file.strip_prefix(root).unwrap().with_extension("");
        // A folder's `mod.rs` is the module itself.
        let parts: Vec<_> = inside.iter().map(|part| part.to_str().unwrap()).filter(|part| *part != "mod").collect();
        parts.join("::")
    }

    #[test]
    fn no_module_is_forgotten_in_the_list() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let list = std::fs::read_to_string(root.join("lib.rs")).unwrap();
        let mut files = Vec::new();
        declared(&root, &mut files);
        assert!(!files.is_empty());
        for file in files {
            // A module that is not listed compiles without a warning, and its functions are missing at run time.
            let entry = format!("&{}::MODULE,", rust_path(&file, &root));
            assert!(list.contains(&entry), "{} is not in ALL: add `{entry}`", file.display());
        }
    }

    #[test]
    fn the_list_and_the_functions_are_in_alphabetical_order() {
        let names: Vec<_> = super::ALL.iter().map(|module| module.name).collect();
        assert!(names.is_sorted(), "ALL is not in order: {names:?}");
        for module in super::ALL {
            let names: Vec<_> = module.functions.iter().map(|function| function.name).collect();
            assert!(names.is_sorted(), "the functions of {} are not in order: {names:?}", module.name);
        }
    }

    /// Functions of Salt that are left out on purpose.
    const LEFT_OUT: &[&str] = &[];

    /// Functions whose signature differs from Salt's on purpose.
    const DIFFERENT: &[&str] = &[];

    /// The argument specifications real Salt 3008.5 printed (`salt-call --local sys.argspec 'test.*'` and so on).
    #[test]
    fn signatures_are_those_of_salt() {
        // Recorded with SHELL=/bin/bash, which is the default of an argument.
        let recorded = include_str!("../testdata/argspec-3008.json");
        let recorded = recorded.replace(r#""/bin/bash""#, &format!("{:?}", super::cmd::default_shell()));
        let recorded: value::Value = serde_json::from_str(&recorded).unwrap();
        let recorded = recorded.into_map().unwrap();
        let mut wrong = Vec::new();
        for (name, salt) in &recorded {
            let name = name.as_str().unwrap();
            let (module, function) = name.split_once('.').unwrap();
            // The recording holds all of Salt's modules, this crate only some.
            let Some(module) = super::ALL.iter().find(|ours| ours.name == module) else { continue };
            match module.functions.iter().find(|ours| ours.name == function) {
                Some(ours) => {
                    let ours = value::Value::from(super::sys::specification(ours));
                    if ours != *salt && !DIFFERENT.contains(&name) {
                        wrong.push(format!("{name}\n  ours {ours}\n  Salt {salt}"));
                    }
                }
                None if LEFT_OUT.contains(&name) => {}
                None => wrong.push(format!("{name} is missing")),
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn every_function_is_documented_with_an_example() {
        for module in super::ALL {
            for function in module.functions {
                let name = format!("{}.{}", module.name, function.name);
                assert!(function.doc.contains("CLI Example:"), "{name} has no example");
                assert!(function.doc.contains(&name), "the example of {name} does not call it");
            }
        }
    }
}

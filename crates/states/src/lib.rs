//! State modules, one folder or file per Salt module name: `file.managed` is `file/managed.rs`.
//!
//! A state function is an execution function (`#[function]`) that returns a map of `name`, `result`, `changes` and
//! `comment`; [`Ret`] makes it. [`exec::Context::is_test`] returns whether it may change anything. `mod_watch`,
//! `mod_aggregate` and `mod_init` are ordinary functions of their modules.

pub mod acl;
pub mod alias;
pub mod alternatives;
pub mod apache;
pub mod archive;
pub mod at;
pub mod beacon;
pub mod blockdev;
pub mod cmd;
pub mod cron;
pub mod debconf;
pub mod disk;
pub mod environ;
pub mod event;
pub mod file;
pub mod firewall;
pub mod firewalld;
pub mod git;
pub mod grains;
pub mod group;
pub mod host;
pub mod http;
pub mod ini;
pub mod iptables;
pub mod kmod;
pub mod locale;
pub mod logrotate;
pub mod r#loop;
pub mod module;
pub mod mount;
pub mod network;
pub mod nftables;
pub mod pip;
pub mod pkg;
pub mod pkgrepo;
pub mod postgres;
pub mod process;
pub mod rabbitmq;
#[cfg(test)]
mod replay;
mod ret;
pub mod saltmod;
pub mod saltutil;
pub mod schedule;
pub mod selinux;
pub mod service;
#[cfg(test)]
mod signatures;
pub mod ssh_auth;
pub mod ssh_known_hosts;
pub mod stateconf;
pub mod status;
pub mod support;
pub mod sysctl;
pub mod sysfs;
pub mod test;
pub mod timezone;
pub mod user;
pub mod virtualenv;
pub mod x509;

pub use ret::Ret;

/// All state modules. Of several with one name the first that works on the machine is taken.
pub static ALL: &[&exec::Module] = &[
    // In alphabetical order.
    &acl::MODULE,
    &alias::MODULE,
    &alternatives::MODULE,
    &apache::MODULE,
    &apache::conf::MODULE,
    &apache::module::MODULE,
    &apache::site::MODULE,
    &archive::MODULE,
    &at::MODULE,
    &beacon::MODULE,
    &blockdev::MODULE,
    &cmd::MODULE,
    &cron::MODULE,
    &debconf::MODULE,
    &disk::MODULE,
    &environ::MODULE,
    &event::MODULE,
    &file::MODULE,
    &firewall::MODULE,
    &firewalld::MODULE,
    &git::MODULE,
    &grains::MODULE,
    &group::MODULE,
    &host::MODULE,
    &http::MODULE,
    &ini::MODULE,
    &iptables::MODULE,
    &kmod::MODULE,
    &locale::MODULE,
    &logrotate::MODULE,
    &r#loop::MODULE,
    &module::MODULE,
    &mount::MODULE,
    &network::MODULE,
    &nftables::MODULE,
    &pip::MODULE,
    &pkg::MODULE,
    &pkgrepo::MODULE,
    &postgres::database::MODULE,
    &postgres::extension::MODULE,
    &postgres::group::MODULE,
    &postgres::initdb::MODULE,
    &postgres::language::MODULE,
    &postgres::privileges::MODULE,
    &postgres::schema::MODULE,
    &postgres::tablespace::MODULE,
    &postgres::user::MODULE,
    &process::MODULE,
    &rabbitmq::cluster::MODULE,
    &rabbitmq::plugin::MODULE,
    &rabbitmq::policy::MODULE,
    &rabbitmq::upstream::MODULE,
    &rabbitmq::user::MODULE,
    &rabbitmq::vhost::MODULE,
    &saltmod::MODULE,
    &saltutil::MODULE,
    &schedule::MODULE,
    &selinux::MODULE,
    &service::MODULE,
    &ssh_auth::MODULE,
    &ssh_known_hosts::MODULE,
    &stateconf::MODULE,
    &status::MODULE,
    &sysctl::MODULE,
    &sysfs::MODULE,
    &test::MODULE,
    &timezone::MODULE,
    &user::MODULE,
    &virtualenv::MODULE,
    &x509::MODULE,
];

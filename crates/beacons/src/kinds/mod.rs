//! The beacons by their Salt names.

mod cert_info;
mod diskusage;
mod inotify;
mod journald;
mod load;
mod log;
mod network_info;
mod network_settings;
mod pkg;
mod ps;
mod salt_monitor;
mod service;
mod sh;
mod status;
mod usage;

use crate::Kind;

/// All beacons in alphabetical order.
pub static KINDS: &[Kind] = &[
    cert_info::KIND,
    diskusage::KIND,
    inotify::KIND,
    journald::KIND,
    load::KIND,
    log::KIND,
    usage::MEMUSAGE,
    network_info::KIND,
    network_settings::KIND,
    pkg::KIND,
    ps::KIND,
    salt_monitor::KIND,
    service::KIND,
    sh::KIND,
    status::KIND,
    usage::SWAPUSAGE,
];

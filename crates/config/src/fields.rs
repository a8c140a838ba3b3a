//! The typed fields of the settings and the options they hold.

use crate::{common, master, minion};

/// Returns the typed fields of both daemons with the options they hold, for the test that looks for their readers.
pub fn typed_fields() -> Vec<(&'static str, &'static str)> {
    [
        master::MasterPaths::FIELDS,
        master::MasterNetwork::FIELDS,
        master::MasterKeys::FIELDS,
        master::Access::FIELDS,
        master::JobSettings::FIELDS,
        master::EventSettings::FIELDS,
        master::ClientSettings::FIELDS,
        minion::LinkSettings::FIELDS,
        minion::MinionPaths::FIELDS,
        minion::MinionNetwork::FIELDS,
        minion::Trust::FIELDS,
        minion::Login::FIELDS,
        minion::MinionJobs::FIELDS,
        minion::GrainSettings::FIELDS,
        common::Log::FIELDS,
        common::Keepalive::FIELDS,
        common::Output::FIELDS,
        common::FileSettings::FIELDS,
        common::PillarSettings::FIELDS,
    ]
    .concat()
}

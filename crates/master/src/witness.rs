//! What a witness refuses: a member of the set that votes, and serves no minions (`cluster_role: witness`).

use config::{ClusterRole, Master};

/// What minions, or those who look after them, are told.
pub const NO_SIGN_IN: &str = "this master is the witness of a set (cluster_role) and serves no minions: take it out of the option \
                              master of the minion";

/// What programs that publish are told.
pub const NO_JOBS: &str =
    "this master is the witness of a set (cluster_role) and has no minions: publish the job on another master";

/// Returns whether these are the options of a witness.
pub fn is_witness(config: &Master) -> bool {
    config.cluster.as_ref().is_some_and(|cluster| cluster.role == ClusterRole::Witness)
}

//! What operators decided about keys: whoever deletes a key, and knows all that others decided about it, has it deleted on all masters.

use std::time::Duration;

use crate::cluster::Cluster;
use crate::ledger::{LOSS_WINDOW, Ledger, RECOVERY};

/// A decision of an operator about a key, by its file.
#[derive(Clone, Debug)]
pub struct KeyDecision {
    /// The id.
    pub id: String,
    /// The master on which the file was changed.
    pub master: String,
    /// When.
    pub at: Duration,
    /// The key was deleted.
    pub deleted: bool,
}

/// Returns which deleted keys are still on masters that have heard of it, in words.
pub fn wrongs(cluster: &Cluster, ledger: &Ledger, decisions: &[KeyDecision]) -> Vec<String> {
    let now = cluster.sim.elapsed();
    let last = decisions
        .iter()
        .enumerate()
        .filter(|(place, one)| one.deleted && decisions[place + 1..].iter().all(|later| later.id != one.id));
    let mut wrongs = Vec::new();
    for (place, deletion) in last {
        let earlier = decisions[..place].iter().filter(|one| one.id == deletion.id);
        // What was decided by a member that lost its disk or was removed may have come back since, or never have been told.
        // A deletion that looks like a part of a loss is undone when the lost keys are restored. So is one of the last file in a
        // directory, if the master stops before the deletion counts. A master that has reported a loss announces no deletions
        // until an operator decides.
        let stays = !ledger.lost_since(&deletion.master, Duration::ZERO, now)
            && !ledger.decided_removed(&deletion.master, deletion.at)
            && !ledger.died(&deletion.master, deletion.at, deletion.at + LOSS_WINDOW)
            && !ledger.is_silent(&deletion.master, &cluster.ear.lost_keys(&deletion.master), deletion.at)
            && !ledger.counts_as_wiped(&deletion.master, deletion.at);
        if !stays || !earlier.clone().all(|one| must_know(ledger, one, &deletion.master, deletion.at)) {
            continue;
        }
        for master in cluster.masters() {
            let state = cluster.key_state(&master, &deletion.id);
            let is_calm = ledger.calm(&master, &deletion.master, now.saturating_sub(RECOVERY), now);
            let may_have_forgotten = master == deletion.master && ledger.was_removed_since(&master, deletion.at);
            if !state.is_empty() && is_calm && !may_have_forgotten && must_know(ledger, deletion, &master, now) {
                let KeyDecision { id, master: by, at, .. } = deletion;
                wrongs.push(format!(
                    "{now:?}: the key of {id} is in {state:?} on {master}, but {by} deleted it at {at:?}"
                ));
            }
        }
    }
    wrongs
}

/// Returns whether a master must know of a decision at a time.
fn must_know(ledger: &Ledger, decision: &KeyDecision, master: &str, at: Duration) -> bool {
    // A vanished file counts as deleted after a while.
    let decided = decision.at + LOSS_WINDOW;
    decision.master == master && decided <= at || ledger.were_linked(&decision.master, master, decided, at)
}

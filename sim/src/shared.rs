//! What masters of a set must have in common after a storm.

use wire::MinionId;

use crate::cluster::Cluster;
use crate::operator::Job;

/// The ids whose keys operators decide about, and of which no minion is there.
const DECIDED: usize = 4;

/// Returns what is not the same on all masters, in words.
pub fn differences(cluster: &Cluster, jobs: &[Job]) -> Vec<String> {
    let mut wrongs = Vec::new();
    let ids = (0..DECIDED).map(|number| format!("old{number}")).chain(cluster.minions());
    for id in ids {
        let states: Vec<_> = cluster.masters().iter().map(|master| cluster.key_state(master, &id)).collect();
        if states.iter().any(|state| *state != states[0]) {
            wrongs.push(format!("the key of {id} differs between masters: {states:?}"));
        }
    }
    let scheduled = cluster.minions().into_iter().flat_map(|minion| {
        let jobs = cluster.ear.scheduled(&minion);
        jobs.into_iter().map(move |(jid, _)| (jid, minion.clone()))
    });
    let published = jobs.iter().flat_map(|job| job.targets.iter().map(|minion| (job.jid.clone(), minion.clone())));
    for (jid, minion) in published.chain(scheduled) {
        let with = cluster.masters().into_iter().filter(|master| has_return(cluster, master, &jid, &minion));
        let with: Vec<String> = with.collect();
        if !with.is_empty() && with.len() != cluster.plan.masters {
            wrongs.push(format!("the return of {minion} for job {jid} is on {with:?} only"));
        }
    }
    wrongs
}

fn has_return(cluster: &Cluster, master: &str, jid: &str, minion: &str) -> bool {
    let Ok(id) = MinionId::new(minion) else { return false };
    matches!(cluster.jobs(master).return_of(jid, &id), Ok(Some(_)))
}

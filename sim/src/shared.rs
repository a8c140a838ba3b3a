//! What masters of a set must have in common after a storm.

use share::{Class, Index as _};
use store::share::ShareFile;
use value::Value;
use wire::MinionId;

use crate::cluster::{Cluster, WITNESS};
use crate::operator::Job;

/// The classes of records that a witness gets.
const WITNESSED: [Class; 2] = [Class::Members, Class::Keys];

/// The ids whose keys operators decide about, and of which no minion is there.
const DECIDED: usize = 4;

/// Returns what is not the same on all masters, in words.
pub fn differences(cluster: &Cluster, jobs: &[Job]) -> Vec<String> {
    let mut wrongs = Vec::new();
    let ids = (0..DECIDED).map(|number| format!("old{number}")).chain(cluster.minions());
    for id in ids {
        let states: Vec<_> = cluster.members().iter().map(|master| cluster.key_state(master, &id)).collect();
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
        let found: Vec<_> =
            cluster.masters().into_iter().filter_map(|master| found(cluster, master, &jid, &minion)).collect();
        let with: Vec<&str> = found.iter().map(|(master, _)| master.as_str()).collect();
        if !with.is_empty() && with.len() != cluster.plan.masters {
            wrongs.push(format!("the return of {minion} for job {jid} is on {with:?} only"));
        }
        if found.iter().any(|(_, value)| *value != found[0].1) {
            wrongs.push(format!("the return of {minion} for job {jid} differs between masters: {found:?}"));
        }
    }
    wrongs
}

/// Returns whether all masters have a return.
pub fn is_on_all(cluster: &Cluster, jid: &str, minion: &str) -> bool {
    cluster.masters().into_iter().all(|master| found(cluster, master, jid, minion).is_some())
}

fn found(cluster: &Cluster, master: String, jid: &str, minion: &str) -> Option<(String, Value)> {
    let id = MinionId::new(minion).ok()?;
    let returned = cluster.jobs(&master).return_of(jid, &id).ok()??;
    Some((master, returned.value))
}

/// Returns in which classes the records of members differ. The programs must not run any more.
pub fn record_differences(cluster: &Cluster) -> Vec<String> {
    let files: Vec<(String, ShareFile)> = cluster
        .members()
        .into_iter()
        .map(|member| {
            let file = ShareFile::open(&cluster.path(&member).join("cache"));
            (member, file.expect("the program has ended"))
        })
        .collect();
    let mut wrongs = Vec::new();
    for class in Class::ALL {
        let has = |member: &str| member != WITNESS || WITNESSED.contains(&class);
        let sums: Vec<_> = files
            .iter()
            .filter(|(member, _)| has(member))
            .map(|(member, file)| (member, file.root(class, 0)))
            .collect();
        if sums.iter().any(|(_, sum)| *sum != sums[0].1) {
            wrongs.push(format!("the records of the class {class:?} differ between members: {sums:?}"));
        }
    }
    wrongs
}

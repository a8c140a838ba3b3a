//! What members of a set send each other while nothing happens.

use std::time::Duration;

use crate::cluster::Cluster;

/// Bytes between members that were counted at some time.
pub struct Traffic {
    at: Duration,
    pairs: Vec<(String, String, u64)>,
}

impl Traffic {
    /// Counts what each two members have sent each other so far.
    pub fn count(cluster: &Cluster) -> Traffic {
        let members = cluster.members();
        let pairs =
            members.iter().enumerate().flat_map(|(place, one)| members[..place].iter().map(move |two| (one, two)));
        let sent = |(one, two): (&String, &String)| {
            let bytes = cluster.sim.sent(one, two) + cluster.sim.sent(two, one);
            (one.clone(), two.clone(), bytes)
        };
        Traffic { at: cluster.sim.elapsed(), pairs: pairs.map(sent).collect() }
    }

    /// Returns how many bytes a second each two members have sent each other since an earlier count.
    pub fn since(&self, earlier: &Traffic) -> Vec<(String, u64)> {
        let seconds = (self.at - earlier.at).as_secs().max(1);
        let both = self.pairs.iter().zip(&earlier.pairs);
        both.map(|((one, two, now), (_, _, before))| (format!("{two} and {one}"), (now - before) / seconds)).collect()
    }
}

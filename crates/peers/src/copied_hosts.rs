//! Two hosts with one member key, such as a copied machine. Opens no socket and reads no clock.
//!
//! Each run of a program has another boot. A member that restarts has another boot than before and never comes back with the
//! earlier one. So whoever comes back with it runs beside the member that is linked, and is refused: if each were taken in turn,
//! the link would break every few seconds.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use share::Node;

/// The maximum number of boots of a member that are remembered.
const MOST_BOOTS: usize = 16;

/// The runs of members that were linked, and where: nothing is known of that over the bus, where `A` is `()`.
pub struct CopiedHosts<A = IpAddr>(BTreeMap<Node, Runs<A>>);

struct Runs<A> {
    boot: u64,
    /// Where the latest run is.
    address: A,
    /// The boots before it, the latest last.
    earlier: VecDeque<u64>,
}

impl<A> Default for CopiedHosts<A> {
    fn default() -> Self {
        CopiedHosts(BTreeMap::new())
    }
}

impl<A: Copy> CopiedHosts<A> {
    /// Notes the run of a member with which it is linked now.
    pub fn linked(&mut self, node: Node, boot: u64, address: A) {
        let runs = self.0.entry(node).or_insert_with(|| Runs { boot, address, earlier: VecDeque::new() });
        if runs.boot != boot {
            runs.earlier.push_back(runs.boot);
            if runs.earlier.len() > MOST_BOOTS {
                runs.earlier.pop_front();
            }
        }
        (runs.boot, runs.address) = (boot, address);
    }

    /// Returns where a member is linked that runs on another host at the same time: a later run has taken the place of this one.
    pub fn runs_elsewhere(&self, node: Node, boot: u64) -> Option<A> {
        let runs = self.0.get(&node)?;
        (runs.boot != boot && runs.earlier.contains(&boot)).then_some(runs.address)
    }

    /// Forgets a node that was removed from the set.
    pub fn forget(&mut self, node: Node) {
        self.0.remove(&node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Node = Node([1; 8]);

    #[test]
    fn a_run_that_comes_back_after_a_later_one_is_of_a_copied_host_and_a_restart_is_not() {
        let (here, there) = ("10.0.0.2".parse().unwrap(), "10.0.0.3".parse().unwrap());
        let mut hosts = CopiedHosts::<IpAddr>::default();
        hosts.linked(NODE, 1, here);
        assert_eq!(hosts.runs_elsewhere(NODE, 1), None);
        assert_eq!(hosts.runs_elsewhere(NODE, 2), None, "it may have restarted");
        hosts.linked(NODE, 2, there);
        assert_eq!(hosts.runs_elsewhere(NODE, 1), Some(there));
        assert_eq!((hosts.runs_elsewhere(NODE, 2), hosts.runs_elsewhere(NODE, 3)), (None, None));
        hosts.linked(NODE, 1, here);
        assert_eq!((hosts.runs_elsewhere(NODE, 1), hosts.runs_elsewhere(NODE, 2)), (None, Some(here)));
        (10..100).for_each(|boot| hosts.linked(NODE, boot, here));
        assert_eq!(hosts.0[&NODE].earlier.len(), MOST_BOOTS);
        hosts.forget(NODE);
        assert_eq!(hosts.runs_elsewhere(NODE, 98), None);
    }
}

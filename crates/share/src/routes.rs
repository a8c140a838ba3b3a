//! Routes: which member delivers a job to which of its targets.

use std::collections::BTreeMap;

use crate::{Node, Presence, owner};

/// The targets of a job by who delivers it. Each target is in exactly one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes<T> {
    /// Connected to the member that publishes the job.
    pub own: Vec<T>,
    /// Connected to another member, which delivers the job: "yours".
    pub yours: BTreeMap<Node, Vec<T>>,
    /// Connected nowhere. Each member offers them the job when they come to it.
    pub rest: Vec<T>,
}

impl<T: AsRef<str> + Ord> Routes<T> {
    /// Returns the routes of a job from the member whose presence this is. Targets that are named twice count once.
    ///
    /// A target that is connected to this member gets the job from it, for that is the shortest way. Of several other members
    /// the owner of minion and job delivers it, so that they share the work.
    pub fn of(jid: &str, targets: impl IntoIterator<Item = T>, presence: &Presence) -> Routes<T> {
        let mut targets: Vec<T> = targets.into_iter().collect();
        targets.sort_unstable();
        targets.dedup_by(|one, other| one.as_ref() == other.as_ref());
        let mut routes = Routes { own: Vec::new(), yours: BTreeMap::new(), rest: Vec::new() };
        for target in targets {
            let id = target.as_ref();
            // Although another member may have it as well: one hop less, and the return comes here.
            if presence.is_here(id) {
                routes.own.push(target);
                continue;
            }
            match owner(id, jid, presence.members_of(id)) {
                Some(member) => routes.yours.entry(member).or_default().push(target),
                None => routes.rest.push(target),
            }
        }
        routes
    }

    /// Returns whether a member must get the job as a publication. The others get its load as a record only.
    pub fn concerns(&self, member: Node) -> bool {
        !self.rest.is_empty() || self.yours.contains_key(&member)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::Message;
    use crate::message::{Here, HereChange};

    fn node(number: u8) -> Node {
        Node([number; 8])
    }

    fn of(ids: &[&str]) -> Here {
        Here { change: HereChange::All, ids: ids.iter().map(|id| (*id).to_owned()).collect() }
    }

    #[test]
    fn own_minions_first_then_those_of_others_then_the_rest() {
        let mut presence = Presence::new(node(1));
        presence.came("hot");
        presence.hear(node(2), of(&["hot", "web2"])).expect("valid");
        presence.hear(node(3), of(&["hot", "web3"])).expect("valid");
        let routes = Routes::of("20260101000000000000", ["web3", "off", "hot", "web2", "hot"], &presence);
        assert_eq!(routes.own, ["hot"]);
        assert_eq!(routes.yours, [(node(2), vec!["web2"]), (node(3), vec!["web3"])].into());
        assert_eq!(routes.rest, ["off"]);
        assert!(routes.concerns(node(4)), "a target that is away may come to any member");

        let routes = Routes::of("20260101000000000000", ["web2"], &presence);
        assert!(routes.concerns(node(2)) && !routes.concerns(node(3)));
        presence.down(node(2));
        assert_eq!(Routes::of("20260101000000000000", ["web2"], &presence).rest, ["web2"]);
    }

    #[test]
    fn each_target_has_exactly_one_place_and_gets_the_job_from_a_member_that_it_is_connected_to() {
        for seed in 0..300 {
            let mut random = StdRng::seed_from_u64(seed);
            let mut presence = Presence::new(node(0));
            let ids: Vec<String> = (0..60).map(|number| format!("web{number}")).collect();
            let mut some = |part: u32| -> Vec<&str> {
                ids.iter().filter(|_| random.random_ratio(part, 10)).map(String::as_str).collect()
            };
            some(3).into_iter().for_each(|id| presence.came(id));
            (1..5).for_each(|number| presence.hear(node(number), of(&some(3))).expect("valid"));
            some(1).into_iter().for_each(|id| presence.went(id));
            let targets = some(7);
            let routes = Routes::of("20260101000000000000", targets.iter().copied(), &presence);

            let yours = routes.yours.values().flatten();
            let mut all: Vec<&str> = routes.own.iter().chain(yours).chain(&routes.rest).copied().collect();
            all.sort_unstable();
            let wanted: BTreeSet<&str> = targets.iter().copied().collect();
            assert_eq!(all, wanted.into_iter().collect::<Vec<_>>(), "seed {seed}");
            assert!(routes.own.iter().all(|id| presence.is_here(id)));
            for (member, ids) in &routes.yours {
                assert!(ids.iter().all(|id| !presence.is_here(id) && presence.members_of(id).contains(member)));
            }
            assert!(routes.rest.iter().all(|id| presence.members_of(id).is_empty()));
        }
    }

    #[test]
    fn a_fleet_of_100_000_minions_over_five_members_gets_a_job_once_wherever_it_is_published() {
        const EACH: usize = 20_000;
        let mut members = [1, 2, 3, 4, 5].map(|number| Presence::new(node(number)));
        let ids: Vec<String> = (0..5 * EACH).map(|number| format!("web{number:06}.example.org")).collect();
        ids.iter().zip((0..5).cycle()).for_each(|(id, member)| members[member].came(id));
        members.iter_mut().for_each(|member| drop(member.take_changes()));
        let told = members.each_ref().map(|member| (member.me(), member.sum(), Message::Here(member.all()).encode()));
        for (from, sum, message) in &told {
            assert!(message.len() < 128 * 1024, "{EACH} minions in {} bytes", message.len());
            for member in members.iter_mut().filter(|member| member.me() != *from) {
                let Ok(Some(Message::Here(here))) = Message::decode(message) else { panic!("a list of minions") };
                member.hear(*from, here).expect("valid");
                assert!(member.agrees(*from, sum.digest()));
            }
        }

        let jid = "20260101000000000000";
        for member in &members {
            let routes = Routes::of(jid, ids.iter().map(String::as_str), member);
            assert_eq!((routes.own.len(), routes.yours.len(), routes.rest.len()), (EACH, 4, 0));
            let delivered = routes.yours.values().chain([&routes.own]).flatten().collect::<BTreeSet<_>>();
            assert_eq!(delivered.len(), ids.len(), "each by one member");
        }
        // One member dies, and the minions that come to another one get the job from it.
        let gone = members[4].me();
        members[0].down(gone);
        ids.iter().skip(4).step_by(10).for_each(|id| members[0].came(id));
        let routes = Routes::of(jid, ids.iter().map(String::as_str), &members[0]);
        assert_eq!((routes.own.len(), routes.rest.len()), (EACH + EACH / 2, EACH / 2));
        assert!(!routes.yours.contains_key(&gone) && routes.concerns(gone));
    }
}

//! How the masters are followed: all, or one at a time in some order.

use std::time::Duration;

use config::MasterType;
use rt::Rt;
use tracing::warn;

use super::failover_policy::{Failback, Place, Rules, distribute, shuffle};
use crate::masters::is_one_at_a_time;

/// How the masters are followed.
#[derive(Clone, Debug)]
pub enum Plan {
    /// All at the same time.
    All,
    /// One at a time, tried in this order.
    One(Rules, Vec<Place>),
}

/// The interval of checks of the preferred master without `master_failback_interval` and `master_alive_interval`.
const FAILBACK_EVERY: Duration = Duration::from_secs(30);

/// Returns how this number of masters is followed. The list is shuffled here, once, if the options say so.
pub fn plan(config: &config::Minion, masters: usize, rt: &Rt) -> Plan {
    if !is_one_at_a_time(config, masters) {
        return Plan::All;
    }
    let links = &config.links;
    let distributed = links.master_type == MasterType::Distributed;
    let mut order: Vec<Place> = (0..masters).map(Place).collect();
    if distributed {
        order = distribute(&config.id, order);
    }
    if links.random_master || links.master_shuffle {
        // The first of a distributed list is the one that the id chooses, that of a failback list the preferred one:
        // both keep their place.
        shuffle(&mut order, distributed || links.master_failback, |bound| rt.below(bound));
    }
    let every = [links.master_failback_interval, links.master_alive_interval, FAILBACK_EVERY];
    let every = every.into_iter().find(|every| !every.is_zero()).unwrap_or(FAILBACK_EVERY);
    let jitter = rt.between(Duration::ZERO, every.min(FAILBACK_EVERY));
    let healthy = links.master_failback_healthy;
    let rules = Rules {
        failback: links.master_failback.then_some(Failback { every, healthy, jitter }),
        wait: (config.login.acceptance_wait_time, config.login.acceptance_wait_time_max),
        tries: u32::try_from(links.master_tries).ok().filter(|tries| *tries > 0),
    };
    Plan::One(rules, order)
}

/// Warns about options that do not do what their names suggest, in Salt's words.
pub fn warn_of_misunderstandings(config: &config::Minion, masters: usize) {
    let links = &config.links;
    if links.master_shuffle {
        warn!("Use of 'master_shuffle' detected. 'master_shuffle' is deprecated in favor of 'random_master'.");
    }
    if links.master_type == MasterType::Distributed && masters < 2 {
        warn!("master_type = distributed needs more than 1 master.");
    }
    if masters == 1 && (links.random_master || links.master_shuffle) {
        warn!("random_master is True but there is only one master specified. Ignoring.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::{SeededRandom, TokioNet, WallClock};
    use value::{Map, list, map};

    const SECOND: Duration = Duration::from_secs(1);

    fn config(options: Map) -> config::Minion {
        let mut all = map! { "id" => "web1", "master" => list!["a", "b", "c"], "master_type" => "failover" };
        all.update(options);
        config::Minion::from_options(all).unwrap()
    }

    fn rt() -> Rt {
        Rt::new(TokioNet, WallClock, SeededRandom::new(3))
    }

    fn one(options: Map) -> (Rules, Vec<usize>) {
        match plan(&config(options), 3, &rt()) {
            Plan::One(rules, order) => (rules, order.into_iter().map(|place| place.0).collect()),
            Plan::All => panic!("all are followed"),
        }
    }

    #[test]
    fn one_is_followed_at_a_time_if_there_are_several_and_the_type_says_so() {
        assert_eq!(one(map! {}).1, [0, 1, 2]);
        // The same order as in Salt, so that minions of both spread alike.
        assert_eq!(one(map! { "master_type" => "distributed" }).1, [2, 0, 1], "the checksum of web1 says 2");
        for kind in ["str", "failover", "distributed"] {
            let alone = plan(&config(map! { "master_type" => kind, "master" => "a" }), 1, &rt());
            assert!(matches!(alone, Plan::All), "{kind}");
        }
        assert!(matches!(plan(&config(map! { "master_type" => "str" }), 3, &rt()), Plan::All));
    }

    #[test]
    fn a_shuffled_list_keeps_its_first_if_that_is_gone_back_to() {
        let orders = |options: Map| -> Vec<Vec<usize>> {
            let config = config(options);
            let rt = rt();
            let order = |_| match plan(&config, 3, &rt) {
                Plan::One(_, order) => order.into_iter().map(|place| place.0).collect(),
                Plan::All => Vec::new(),
            };
            (0..50).map(order).collect()
        };
        assert!(orders(map! { "random_master" => true }).iter().any(|order| order[0] != 0));
        // Failback returns to the first of the list, which a shuffle must not change.
        let kept = orders(map! { "master_shuffle" => true, "master_failback" => true });
        assert!(kept.iter().all(|order| order[0] == 0) && kept.iter().any(|order| order[1] == 2));
    }

    #[test]
    fn the_preferred_master_is_looked_at_as_often_as_the_options_say() {
        let every = |options: Map| one(options).0.failback.map(|failback| failback.every.as_secs());
        assert_eq!(every(map! {}), None);
        assert_eq!(every(map! { "master_failback" => true }), Some(30));
        assert_eq!(every(map! { "master_failback" => true, "master_alive_interval" => 7 }), Some(7));
        let both = map! { "master_failback" => true, "master_alive_interval" => 7, "master_failback_interval" => 9 };
        let failback = one(both).0.failback.unwrap();
        assert_eq!((failback.every, failback.healthy), (9 * SECOND, 10 * SECOND));
        assert!(failback.jitter <= 9 * SECOND);
        let settled = map! { "master_failback" => true, "master_failback_healthy" => 2.5 };
        assert_eq!(one(settled).0.failback.unwrap().healthy, Duration::from_millis(2500));
    }

    #[test]
    fn rounds_and_their_waits_are_those_of_the_options() {
        let (rules, _) =
            one(map! { "master_tries" => 3, "acceptance_wait_time" => 4, "acceptance_wait_time_max" => 20 });
        assert_eq!((rules.tries, rules.wait), (Some(3), (4 * SECOND, 20 * SECOND)));
        assert_eq!(one(map! {}).0.tries, None);
    }
}

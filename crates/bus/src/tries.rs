//! When a node is greeted again that did not become a link. Opens no socket and reads no clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use share::Node;

/// The shortest pause.
const SHORTEST: Duration = Duration::from_millis(500);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(5);

/// Nodes that are remembered.
const MOST: usize = 1_000;

/// The nodes that were greeted in vain.
#[derive(Default)]
pub(crate) struct Tries(BTreeMap<Node, Try>);

struct Try {
    next: Instant,
    pause: Duration,
}

impl Tries {
    /// Returns whether a node may be greeted now, and notes that it is.
    pub fn may_begin(&mut self, node: Node, now: Instant) -> bool {
        let known = self.0.get(&node);
        if known.is_some_and(|known| now < known.next) {
            return false;
        }
        let pause = known.map_or(SHORTEST, |known| (known.pause * 2).min(LONGEST));
        if self.0.len() >= MOST
            && !self.0.contains_key(&node)
            && let Some(oldest) = self.0.iter().min_by_key(|(_, known)| known.next).map(|(node, _)| *node)
        {
            self.0.remove(&oldest);
        }
        self.0.insert(node, Try { next: now + pause, pause });
        true
    }

    /// Forgets a node that is linked.
    pub fn forget(&mut self, node: Node) {
        self.0.remove(&node);
    }

    /// Forgets all: something has changed.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_a_link_or_a_change() {
        let (mut tries, start, node) = (Tries::default(), Instant::now(), Node([1; 8]));
        let begun = |tries: &mut Tries, seconds: u64| {
            let times = (0..seconds * 10).map(|tenth| start + Duration::from_millis(tenth * 100));
            times.filter(|now| tries.may_begin(node, *now)).count()
        };
        assert_eq!(begun(&mut tries, 30), 9);
        tries.forget(node);
        assert!(tries.may_begin(node, start) && !tries.may_begin(node, start));
        tries.clear();
        assert!(tries.may_begin(node, start));
        (0..3_000u64).for_each(|number| _ = tries.may_begin(Node(number.to_be_bytes()), start));
        assert!(tries.0.len() <= MOST);
    }
}

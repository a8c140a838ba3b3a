//! How many records members have sent each other.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Class;

/// Which way records went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From other members to this one.
    Received,
    /// From this member to others, once for each of them.
    Sent,
}

impl Way {
    /// Both.
    pub const ALL: [Way; 2] = [Way::Received, Way::Sent];

    /// Returns the name, as metrics show it.
    pub fn name(self) -> &'static str {
        match self {
            Way::Received => "received",
            Way::Sent => "sent",
        }
    }
}

/// One more than the highest number of a class.
const CLASSES: usize = 11;

/// Counts records by class and way since the start. Any thread may read it.
#[derive(Debug, Default)]
pub struct RecordCounts([[AtomicU64; CLASSES]; 2]);

impl RecordCounts {
    fn at(&self, way: Way, class: Class) -> &AtomicU64 {
        &self.0[way as usize][usize::from(class.number())]
    }

    pub(crate) fn add(&self, way: Way, class: Class) {
        self.at(way, class).fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many records of a class went this way.
    pub fn get(&self, way: Way, class: Class) -> u64 {
        self.at(way, class).load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_and_way_has_a_count_of_its_own() {
        let counts = RecordCounts::default();
        for class in Class::ALL {
            (0..class.number()).for_each(|_| counts.add(Way::Sent, class));
        }
        counts.add(Way::Received, Class::Claim);
        for class in Class::ALL {
            assert_eq!(counts.get(Way::Sent, class), u64::from(class.number()));
            assert_eq!(counts.get(Way::Received, class), u64::from(class == Class::Claim));
        }
    }
}

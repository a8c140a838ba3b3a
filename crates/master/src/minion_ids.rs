//! Minions that have ids and no data, for tests of targets.

use std::sync::Arc;

use targeting::MinionData;
use value::Map;

/// The ids of accepted minions.
pub struct Ids(pub Vec<String>);

impl Ids {
    /// Creates minions with these ids.
    pub fn of(ids: &[&str]) -> Self {
        Ids(ids.iter().map(|id| (*id).to_owned()).collect())
    }
}

impl MinionData for Ids {
    fn accepted(&self) -> Vec<String> {
        self.0.clone()
    }

    fn cached(&self) -> Vec<String> {
        Vec::new()
    }

    fn grains(&self, _: &str) -> Option<Arc<Map>> {
        None
    }

    fn pillar(&self, _: &str) -> Option<Arc<Map>> {
        None
    }
}

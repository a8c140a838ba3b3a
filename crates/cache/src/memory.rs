//! Values that were read from a server, for `memcache_expire_seconds`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use value::Map;

use crate::Place;

/// The values in memory.
pub(crate) struct Memory {
    life: Duration,
    most: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    values: HashMap<Place, (Instant, Option<Arc<Map>>)>,
    /// No value expires before.
    expires: Option<Instant>,
}

impl Memory {
    /// A life of zero holds nothing.
    pub(crate) fn new(life: Duration, most: usize) -> Self {
        Memory { life, most: if life.is_zero() { 0 } else { most }, held: Mutex::default() }
    }

    /// Returns what was read, unless it has expired. The outer `None` means that the server must be asked.
    pub(crate) fn get(&self, place: &Place, now: Instant) -> Option<Option<Arc<Map>>> {
        if self.most == 0 {
            return None;
        }
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.values.get(place).filter(|(expires, _)| *expires > now).map(|(_, map)| map.clone())
    }

    /// Holds a value. With too many of them it is not held: a target over more minions than that reads them in the same
    /// order each time, so replacing the oldest would never find one.
    pub(crate) fn put(&self, place: Place, map: Option<Arc<Map>>, now: Instant) {
        if self.most == 0 {
            return;
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let held = &mut *held;
        if held.values.len() >= self.most && held.expires.is_some_and(|expires| expires <= now) {
            held.values.retain(|_, (expires, _)| *expires > now);
            held.expires = held.values.values().map(|(expires, _)| *expires).min();
        }
        let expires = now + self.life;
        if held.values.len() < self.most || held.values.contains_key(&place) {
            held.values.insert(place, (expires, map));
            held.expires = Some(held.expires.map_or(expires, |earlier| earlier.min(expires)));
        }
    }

    /// Removes a value.
    pub(crate) fn forget(&self, place: &Place) {
        if self.most > 0 {
            self.held.lock().unwrap_or_else(PoisonError::into_inner).values.remove(place);
        }
    }

    /// Removes all values of a bank and the banks below it.
    pub(crate) fn forget_bank(&self, bank: &str) {
        if self.most > 0 {
            let below = format!("{bank}/");
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.values.retain(|place, _| place.bank != bank && !place.bank.starts_with(&below));
        }
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn values_are_held_until_they_expire_and_never_too_many() {
        let (memory, start) = (Memory::new(Duration::from_secs(10), 2), Instant::now());
        let (a, b, c) = (Place::new("grains", "a"), Place::new("grains", "b"), Place::new("mine", "c"));
        let map = Some(Arc::new(map! { "x" => 1 }));
        memory.put(a.clone(), map.clone(), start);
        memory.put(b.clone(), None, start);
        memory.put(c.clone(), None, start);
        assert_eq!(memory.get(&a, start), Some(map));
        assert_eq!(memory.get(&b, start), Some(None));
        assert_eq!(memory.get(&c, start), None, "there is no room");
        let later = start + Duration::from_secs(10);
        assert_eq!(memory.get(&a, later), None);
        memory.put(c.clone(), None, later);
        assert_eq!(memory.get(&c, later), Some(None));
        memory.forget_bank("mine");
        assert_eq!(memory.get(&c, later), None);
    }

    #[test]
    fn without_a_life_nothing_is_held() {
        let (memory, now) = (Memory::new(Duration::ZERO, 9), Instant::now());
        memory.put(Place::new("grains", "a"), None, now);
        assert_eq!(memory.get(&Place::new("grains", "a"), now), None);
    }
}

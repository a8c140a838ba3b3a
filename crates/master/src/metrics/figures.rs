//! Counters and histograms for many threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::text::Page;

/// The upper bounds of the buckets, in milliseconds.
const ENDS: [f64; 12] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 100.0, 500.0, 2500.0, 10000.0];

/// The largest number of names in a metric; later ones are counted as `other`.
const NAMES: usize = 200;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts one.
    pub fn count(&self) {
        self.add(1);
    }

    /// Counts several.
    pub fn add(&self, number: u64) {
        // Relaxed: no other memory depends on the number.
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Numbers by name. Callers pass known names only; the limit is a second safeguard.
#[derive(Debug, Default)]
pub struct Named(Mutex<BTreeMap<String, u64>>);

impl Named {
    /// Counts one under a name.
    pub fn count(&self, name: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = all.get_mut(name) {
            *number += 1;
        } else {
            let name = if all.len() < NAMES { name } else { "other" };
            // As above: no name that is passed today is longer.
            *all.entry(name.chars().take(100).collect()).or_default() += 1;
        }
    }

    /// Returns all names with their numbers.
    pub fn all(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A histogram of durations.
#[derive(Debug, Default)]
pub struct Times {
    buckets: [AtomicU64; ENDS.len()],
    count: AtomicU64,
    microseconds: AtomicU64,
}

impl Times {
    /// Notes a duration.
    pub fn note(&self, took: Duration) {
        let milliseconds = took.as_secs_f64() * 1000.0;
        if let Some(bucket) = ENDS.iter().position(|end| milliseconds <= *end) {
            // Only in its own bucket; the sums are made when somebody reads.
            self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        self.microseconds.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the mean duration.
    pub fn mean(&self) -> Duration {
        Duration::from_micros(self.microseconds.load(Ordering::Relaxed) / self.count().max(1))
    }

    /// Adds the histogram to a page, after its header.
    pub fn write(&self, page: &mut Page, name: &str, labels: &[(&str, &str)]) {
        let (bucket, mut below) = (format!("{name}_bucket"), 0);
        let mut line = |end: &str, count: u64| {
            let all: Vec<(&str, &str)> = labels.iter().copied().chain([("le", end)]).collect();
            page.sample(&bucket, &all, count);
        };
        for (end, count) in ENDS.iter().zip(&self.buckets) {
            // Prometheus expects cumulative buckets.
            below += count.load(Ordering::Relaxed);
            line(&end.to_string(), below);
        }
        let count = self.count();
        line("+Inf", count);
        page.sample(&format!("{name}_sum"), labels, self.microseconds.load(Ordering::Relaxed) as f64 / 1000.0);
        page.sample(&format!("{name}_count"), labels, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_outside_have_a_bound() {
        let named = Named::default();
        for number in 0..1000 {
            named.count(&format!("fun{number}"));
        }
        named.count("fun7");
        let all = named.all();
        assert_eq!((all.len(), all["fun7"], all["other"]), (NAMES + 1, 2, 800));
    }

    #[test]
    fn buckets_count_what_is_below() {
        let times = Times::default();
        for milliseconds in [1, 3, 20_000] {
            times.note(Duration::from_millis(milliseconds));
        }
        let mut page = Page::default();
        times.write(&mut page, "took", &[("cmd", "x")]);
        let page = page.finish();
        for line in ["took_bucket{cmd=\"x\",le=\"1\"} 1", "le=\"5\"} 2", "le=\"+Inf\"} 3", "took_count{cmd=\"x\"} 3"] {
            assert!(page.contains(line), "{line} in {page}");
        }
        assert_eq!(times.mean(), Duration::from_micros(20_004_000 / 3));
    }
}

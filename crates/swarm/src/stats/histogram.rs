//! Times, counted in ranges that are about three per cent wide.

use std::time::Duration;

use serde::Serialize;

/// Ranges between a power of two and the next.
// A range is at most 1/32 of its lower end wide, hence three per cent.
const STEPS: u64 = 32;

/// Counts of times. The size is at most about eight kilobytes, however many times were counted.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    ranges: Vec<u32>,
    count: u64,
    sum: u128,
    least: u64,
    most: u64,
}

/// A summary of many times, in milliseconds. All fields are zero if nothing was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The number of times.
    pub count: u64,
    /// The shortest.
    pub least: f64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest.
    pub most: f64,
}

impl Summary {
    /// Returns the summary of the same times, each longer by a duration.
    pub(crate) fn later(self, by: Duration) -> Self {
        let later = |time: f64| ((time + by.as_secs_f64() * 1000.0) * 1000.0).round() / 1000.0;
        Summary {
            count: self.count,
            least: later(self.least),
            mean: later(self.mean),
            p50: later(self.p50),
            p90: later(self.p90),
            p99: later(self.p99),
            most: later(self.most),
        }
    }
}

impl Histogram {
    /// Counts a time.
    pub fn record(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let range = range_of(micros);
        // Grows on demand: most histograms hold only times below a second.
        if self.ranges.len() <= range {
            self.ranges.resize(range + 1, 0);
        }
        self.ranges[range] = self.ranges[range].saturating_add(1);
        self.least = if self.count == 0 { micros } else { self.least.min(micros) };
        self.most = self.most.max(micros);
        self.count += 1;
        self.sum += u128::from(micros);
    }

    /// Returns the number of counted times.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the quantile `part`, from 0 to 1; `None` if nothing was counted. The minimum and the maximum are exact.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let last = self.count.checked_sub(1)?;
        let rank = (part.clamp(0.0, 1.0) * last as f64).round() as u64;
        let micros = match rank {
            0 => self.least,
            rank if rank == last => self.most,
            rank => self.at(rank).clamp(self.least, self.most),
        };
        Some(Duration::from_micros(micros))
    }

    /// Returns the middle of the range that contains the time of this rank.
    fn at(&self, rank: u64) -> u64 {
        let mut before = 0;
        for (range, count) in self.ranges.iter().enumerate() {
            before += u64::from(*count);
            if before > rank {
                return middle_of(range);
            }
        }
        self.most
    }

    /// Returns the summary.
    pub fn summary(&self) -> Summary {
        let at = |part| self.quantile(part).map_or(0.0, |time| time.as_secs_f64() * 1000.0);
        let mean = if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 / 1000.0 };
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        Summary {
            count: self.count,
            least: round(at(0.0)),
            mean: round(mean),
            p50: round(at(0.5)),
            p90: round(at(0.9)),
            p99: round(at(0.99)),
            most: round(at(1.0)),
        }
    }
}

fn range_of(micros: u64) -> usize {
    if micros < STEPS {
        return micros as usize;
    }
    // Below `STEPS` each value has its own range. Above, each power of two has `STEPS` ranges, and the leading six bits
    // of the value select one.
    let octave = u64::from(micros.ilog2() - STEPS.ilog2());
    ((octave + 1) * STEPS + (micros >> octave) - STEPS) as usize
}

fn middle_of(range: usize) -> u64 {
    let range = range as u64;
    if range < STEPS {
        return range;
    }
    let octave = range / STEPS - 1;
    let from = (range % STEPS + STEPS) << octave;
    from + (1 << octave) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        times.into_iter().for_each(|micros| histogram.record(Duration::from_micros(micros)));
        histogram
    }

    #[test]
    fn ranges_follow_each_other_without_gaps() {
        let mut last = range_of(0);
        for micros in 1..100_000 {
            let range = range_of(micros);
            assert!(range == last || range == last + 1, "{micros}");
            last = range;
        }
        assert!(range_of(u64::MAX) < 2000);
    }

    #[test]
    fn the_middle_of_a_range_is_near_its_values() {
        for micros in [0, 1, 31, 32, 33, 1000, 65_535, 1_000_000, 3_600_000_000] {
            let middle = middle_of(range_of(micros));
            assert!(middle.abs_diff(micros) as f64 <= micros as f64 * 0.03, "{micros}: {middle}");
        }
    }

    #[test]
    fn quantiles_are_right_within_three_per_cent_and_the_ends_exact() {
        let histogram = of((1..=1000).map(|milli| milli * 1000));
        let near = |part, wanted: f64| {
            let found = histogram.quantile(part).unwrap().as_secs_f64() * 1000.0;
            assert!((found - wanted).abs() <= wanted * 0.03, "{part}: {found}");
        };
        near(0.5, 500.0);
        near(0.99, 990.0);
        let summary = histogram.summary();
        assert_eq!((summary.count, summary.least, summary.most, summary.mean), (1000, 1.0, 1000.0, 500.5));
    }

    #[test]
    fn empty_and_single_histograms_have_quantiles() {
        assert_eq!(of([]).quantile(0.5), None);
        assert_eq!(of([]).summary(), Summary::default());
        assert_eq!(of([70]).quantile(0.99), Some(Duration::from_micros(70)));
    }
}

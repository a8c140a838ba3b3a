//! The printed table.

use std::fmt;

/// The unit of a row.
#[derive(Debug, Clone, Copy)]
pub enum Unit {
    /// Durations.
    Milliseconds,
    /// Memory.
    Mebibytes,
    /// Throughput.
    MebibytesPerSecond,
    /// Requests.
    PerSecond,
    /// Counted things.
    Number,
}

/// The goal of a row.
#[derive(Debug, Clone, Copy)]
enum Goal {
    Nothing,
    /// Ours times this is at most theirs.
    TimesLess(f64),
    /// Ours is at least theirs times this.
    TimesMore(f64),
    /// Ours is below this.
    Below(f64),
    /// Ours is at most 3 % slower or larger than the earlier version.
    NotWorse {
        more_is_better: bool,
    },
}

/// The part by which a row may differ from an earlier version: measurements of the same program differ by as much.
const NOISE: f64 = 1.03;

/// A row: both sides and the goal.
pub struct Row {
    what: &'static str,
    unit: Unit,
    real: f64,
    ours: f64,
    wanted: Goal,
}

impl Row {
    /// A row of medians.
    pub fn new(what: &'static str, unit: Unit, real: &[f64], ours: &[f64]) -> Self {
        Self { what, unit, real: median(real), ours: median(ours), wanted: Goal::Nothing }
    }

    /// Requires that ours takes at most 1/`times` of theirs.
    pub fn faster(mut self, times: f64) -> Self {
        self.wanted = Goal::TimesLess(times);
        self
    }

    /// Demands that ours does at least `times` as much as theirs.
    pub fn more(mut self, times: f64) -> Self {
        self.wanted = Goal::TimesMore(times);
        self
    }

    /// Demands that ours is below a limit.
    pub fn below(mut self, limit: f64) -> Self {
        self.wanted = Goal::Below(limit);
        self
    }

    fn ratio(&self) -> f64 {
        match self.wanted {
            Goal::TimesMore(_) | Goal::NotWorse { more_is_better: true } => self.ours / self.real,
            _ => self.real / self.ours,
        }
    }

    fn reached(&self) -> bool {
        match self.wanted {
            Goal::Nothing => true,
            Goal::TimesLess(times) | Goal::TimesMore(times) => self.ratio() >= times,
            // Not `!(ours >= limit)`: a missing measurement is NaN and must count as a miss.
            Goal::Below(limit) => self.ours < limit,
            Goal::NotWorse { .. } => self.ratio() * NOISE >= 1.0,
        }
    }

    fn compared_with_earlier_version(&mut self) {
        let more_is_better = matches!(self.unit, Unit::MebibytesPerSecond | Unit::PerSecond);
        self.wanted = Goal::NotWorse { more_is_better };
    }
}

/// All rows.
pub struct Table {
    real: String,
    ours: String,
    rows: Vec<Row>,
}

impl Table {
    /// An empty table for two sides.
    pub fn new(real: &str, ours: &str) -> Self {
        Self { real: real.to_owned(), ours: ours.to_owned(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Replaces the goal of each row for a comparison with an earlier version of Saltern: at most 3 % worse.
    pub fn compare_with_earlier_version(&mut self) {
        self.rows.iter_mut().for_each(Row::compared_with_earlier_version);
    }

    /// Returns the number of rows that miss their goal.
    pub fn misses(&self) -> usize {
        self.rows.iter().filter(|row| !row.reached()).count()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {:<44} | {:>14} | {:>14} | {:>8} | {:<20} |", "what", self.real, self.ours, "ratio", "wanted")?;
        writeln!(f, "|{:-<46}|{:->16}|{:->16}|{:->10}|{:-<22}|", "", "", "", "", "")?;
        for row in &self.rows {
            let wanted = match row.wanted {
                Goal::Nothing => String::new(),
                Goal::TimesLess(times) | Goal::TimesMore(times) => format!("{times:.0} times"),
                Goal::Below(limit) => format!("below {limit:.0}"),
                Goal::NotWorse { .. } => "at most 3 % worse".to_owned(),
            };
            let wanted = format!("{wanted}{}", if row.reached() { "" } else { ", MISSED" });
            let digits = if matches!(row.wanted, Goal::NotWorse { .. }) { 2 } else { 1 };
            let (real, ours) = (with_unit(row.real, row.unit), with_unit(row.ours, row.unit));
            writeln!(f, "| {:<44} | {real:>14} | {ours:>14} | {:>8.digits$} | {wanted:<20} |", row.what, row.ratio())?;
        }
        Ok(())
    }
}

fn with_unit(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Milliseconds => format!("{value:.1} ms"),
        Unit::Mebibytes => format!("{value:.1} MiB"),
        Unit::MebibytesPerSecond => format!("{value:.0} MiB/s"),
        Unit::PerSecond => format!("{value:.1} /s"),
        Unit::Number => format!("{value:.0}"),
    }
}

/// The middle of the samples.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_ignore_a_straggler() {
        assert_eq!(median(&[3.0, 1.0, 100.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), 3.0);
    }

    #[test]
    fn rows_know_whether_they_reach_what_is_wanted() {
        let row = |real, ours| Row::new("x", Unit::Milliseconds, &[real], &[ours]);
        assert!(row(100.0, 5.0).faster(20.0).reached());
        assert!(!row(99.0, 5.0).faster(20.0).reached());
        assert!(row(10.0, 100.0).more(10.0).reached());
        assert!(!row(10.0, 1000.0).below(1000.0).reached());
        assert!(!row(10.0, f64::NAN).below(1000.0).reached());
    }

    #[test]
    fn a_version_may_be_three_percent_worse_than_an_earlier_one() {
        let reached = |unit, earlier, ours| {
            let mut row = Row::new("x", unit, &[earlier], &[ours]).faster(20.0);
            row.compared_with_earlier_version();
            row.reached()
        };
        assert!(reached(Unit::Milliseconds, 100.0, 102.0));
        assert!(!reached(Unit::Milliseconds, 100.0, 104.0));
        assert!(reached(Unit::MebibytesPerSecond, 100.0, 98.0));
        assert!(!reached(Unit::MebibytesPerSecond, 100.0, 96.0));
        assert!(!reached(Unit::Milliseconds, 100.0, f64::NAN));
    }
}

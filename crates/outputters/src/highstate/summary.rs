//! The summary below the states of a minion.

use ::value::{Map, Value};

use super::super::WrongShape;
use super::super::settings::Settings;

/// The longest label, `Succeeded`.
const LABEL_WIDTH: usize = 9;

/// The counts.
#[derive(Default)]
pub struct Counts {
    /// The results by type, in order of appearance.
    results: Vec<(Value, usize)>,
    /// States with warnings that were shown.
    pub warnings: usize,
    /// States with changes.
    pub changes: usize,
    /// The total duration of sequential states in milliseconds.
    serial: f64,
    /// The longest duration of the parallel states in milliseconds.
    parallel: f64,
}

impl Counts {
    /// Counts an entry of `states` equal states.
    pub fn add(&mut self, result: &Value, states: usize, state: &Map) -> Result<(), WrongShape> {
        match self.results.iter_mut().find(|(known, _)| known == result) {
            Some((_, count)) => *count += states,
            None => self.results.push((result.clone(), states)),
        }
        let duration = duration(state.get("duration"))?;
        if state.contains_key("__parallel__") {
            // Parallel states overlap, so only the longest counts for the total.
            self.parallel = self.parallel.max(duration);
        } else {
            self.serial += duration;
        }
        Ok(())
    }

    fn of(&self, result: &Value) -> usize {
        self.results.iter().find(|(known, _)| known == result).map_or(0, |(_, count)| *count)
    }

    fn total(&self) -> usize {
        self.results.iter().map(|(_, count)| count).sum()
    }

    /// Returns the lines of the summary.
    pub fn summary(&self, host: &str, settings: &Settings) -> Vec<String> {
        let colors = &settings.colors;
        let end = &colors.end;
        let widest = self.results.iter().map(|(_, count)| *count).chain((self.warnings > 0).then_some(self.warnings));
        let widest = widest.map(|count| count.to_string().len()).max().unwrap_or(0);
        let width = LABEL_WIDTH + widest + 2;
        let rule = "-".repeat(width);
        let count = |label: &str, text: String| format!("{label}: {text:>room$}", room = width - label.len() - 2);
        // In test mode a change that would be made counts as a success.
        let good = self.of(&true.into()) + self.of(&Value::Null);
        let failed = self.of(&false.into());
        let failed_color = if failed > 0 { &colors.red } else { &colors.cyan };

        let mut lines = vec![format!("{}\nSummary for {host}\n{rule}{end}", colors.cyan)];
        lines.push(format!("{}{}{end}{}", colors.green, count("Succeeded", good.to_string()), self.remarks(settings)));
        lines.push(format!("{failed_color}{}{end}", count("Failed", failed.to_string())));
        if settings.state_output_pct && self.total() > 0 {
            let percent = |part: usize| Value::from((part as f64 / self.total() as f64 * 10000.0).round() / 100.0);
            lines.push(format!("{}{}{end}", colors.green, count("Success %", percent(good).to_string())));
            lines.push(format!("{failed_color}{}{end}", count("Failure %", percent(failed).to_string())));
        }
        if self.warnings > 0 {
            lines.push(format!("{}{}{end}", colors.light_red, count("Warnings", self.warnings.to_string())));
        }
        lines.push(format!("{}{rule}\nTotal states run: {:>room$}{end}", colors.cyan, self.total(), room = width - 7));
        if settings.state_output_profile {
            lines.push(format!("{}{}{end}", colors.cyan, self.run_time(width)));
        }
        lines
    }

    /// Returns how many of the successful ones changed something or would.
    fn remarks(&self, settings: &Settings) -> String {
        let colors = &settings.colors;
        let end = &colors.end;
        let mut remarks = Vec::new();
        let unchanged = self.of(&Value::Null);
        if unchanged > 0 {
            remarks.push(format!("{}unchanged={unchanged}{end}", colors.light_yellow));
        }
        if self.changes > 0 {
            remarks.push(format!("{}changed={}{end}", colors.green, self.changes));
        }
        if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join(", ")) }
    }

    fn run_time(&self, width: usize) -> String {
        let time = self.serial + self.parallel;
        let (time, unit) = if time > 999.0 { (time / 1000.0, "s") } else { (time, "ms") };
        format!("Total run time: {:>room$} {unit}", format!("{time:.3}"), room = width - 5)
    }
}

/// Parses a duration: a number, or a string with a number and perhaps ` ms`. Anything else counts as zero.
fn duration(value: Option<&Value>) -> Result<f64, WrongShape> {
    let Some(value) = value else { return Ok(0.0) };
    if let Some(number) = value.as_f64() {
        return Ok(number);
    }
    let text = value.as_str().ok_or(WrongShape)?;
    let number = text.split(" ms").next().unwrap_or(text).trim();
    // A summary with a wrong time is better than none.
    Ok(number.parse().unwrap_or_else(|_| {
        tracing::error!("Cannot parse a float from duration {text}");
        0.0
    }))
}

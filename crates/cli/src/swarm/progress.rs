//! The output of `saltern swarm`: a line that is kept up to date, and a summary at the end.

use std::cell::Cell;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use swarm::{Counts, Report, Summary};

/// A line on standard error. Nothing is drawn if that is not a terminal.
pub struct Line {
    bar: ProgressBar,
    before: Cell<(Instant, Counts)>,
}

impl Line {
    /// Returns the line for making keys, which appears only if some must be made.
    pub fn of_keys() -> KeyLine {
        KeyLine(ProgressBar::no_length().with_style(style("making keys, once: {pos}/{len} |{bar:40}| {eta} left")))
    }

    /// Returns the line for the running swarm.
    pub fn of_swarm(minions: usize) -> Self {
        let bar = ProgressBar::new(minions as u64).with_style(style("|{bar:20}| {msg}"));
        Line { bar, before: Cell::new((Instant::now(), Counts::default())) }
    }

    /// Updates the line.
    pub fn swarm(&self, counts: &Counts) {
        let (since, before) = self.before.replace((Instant::now(), *counts));
        self.bar.set_position(counts.connected);
        let minions = self.bar.length().unwrap_or_default();
        self.bar.set_message(message(minions, &before, counts, since.elapsed().as_secs_f64()));
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// The line while keys are made.
pub struct KeyLine(ProgressBar);

impl KeyLine {
    /// Updates how many keys are made.
    pub fn keys(&self, done: usize, all: usize) {
        self.0.set_length(all as u64);
        self.0.set_position(done as u64);
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// Returns the counts as one line of JSON.
pub fn json_line(counts: &Counts) -> String {
    let fields = [
        ("begun", counts.begun),
        ("signed_in", counts.signed_in),
        ("ready", counts.ready),
        ("connected", counts.connected),
        ("away", counts.away),
        ("sign_ins", counts.sign_ins),
        ("heard", counts.heard),
        ("returns", counts.returns),
        ("answered", counts.answered),
        ("errors", counts.errors),
    ];
    let fields: Vec<String> = fields.iter().map(|(name, number)| format!("\"{name}\":{number}")).collect();
    format!("{{{}}}\n", fields.join(","))
}

fn message(minions: u64, before: &Counts, now: &Counts, seconds: f64) -> String {
    let rate = |before: u64, now: u64| (now - before) as f64 / seconds.max(0.001);
    format!(
        "{}/{minions} connected, {} away · sign-ins {} ({:.0}/s) · returns {} ({:.0}/s) · errors {}",
        now.connected,
        now.away,
        now.sign_ins,
        rate(before.sign_ins, now.sign_ins),
        now.returns,
        rate(before.returns, now.returns),
        now.errors,
    )
}

/// Returns the results in a few lines.
pub fn summary(report: &Report) -> String {
    let sign_in = &report.sign_in;
    let all = match sign_in.all_after_seconds {
        Some(seconds) => format!("all after {seconds:.1} s"),
        None => format!(
            "{} of {}, the last after {:.1} s",
            report.counts.signed_in, report.minions, sign_in.last_after_seconds
        ),
    };
    let mut out = format!("signed in: {all}, {:.0} per second; {}\n", sign_in.per_second, times(&sign_in.first));
    if let Some(rsa) = &sign_in.rsa {
        out.push_str(&format!(
            "sign-ins: at most {} within a second; RSA alone would let the {} processors here do {:.0} first ones for master \
             and minions, {:.0} of minions that know the master\n",
            sign_in.per_second_peak, rsa.speed.processors, rsa.first_per_second, rsa.again_per_second
        ));
    }
    out.push_str(&format!(
        "returns: {} of {} jobs, at most {} within a second; {}\n",
        report.counts.returns,
        report.jobs_seen,
        report.returns_per_second_peak,
        times(&report.answered)
    ));
    if let Some(job) = report.jobs.iter().rfind(|job| job.since_published.is_some()) {
        let returns = job.since_published.unwrap_or_default();
        out.push_str(&format!(
            "{} {}: returns of {} minions since it was published; {}\n",
            job.fun,
            job.jid,
            returns.count,
            times(&returns)
        ));
    }
    for request in &report.requests {
        out.push_str(&format!("request {:?}: {}; {}\n", request.request, request.took.count, times(&request.took)));
    }
    for error in &report.errors {
        out.push_str(&format!("failed {:?}, {}: {} ({})\n", error.request, error.kind, error.count, error.last));
    }
    if let Some(watched) = &report.watched {
        let (files, threads) = watched.peak_files_and_threads();
        out.push_str(&format!(
            "watched: {:.1} s of processor time; at most {} MiB resident, {} MiB proportional, {files} files, {threads} threads\n",
            watched.cpu_seconds(),
            watched.peak_rss() >> 20,
            watched.peak_pss() >> 20,
        ));
    }
    out
}

fn times(summary: &Summary) -> String {
    format!(
        "{:.1} ms at the least, half {:.1}, 99 % {:.1}, at the most {:.1}",
        summary.least, summary.p50, summary.p99, summary.most
    )
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a template of ours is well formed").progress_chars("## ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_rates_since_the_last_look() {
        let before = Counts { sign_ins: 10, returns: 5, ..Counts::default() };
        let now = Counts { sign_ins: 30, returns: 15, connected: 7, ..Counts::default() };
        let told = message(8, &before, &now, 2.0);
        assert_eq!(told, "7/8 connected, 0 away · sign-ins 30 (10/s) · returns 15 (5/s) · errors 0");
    }

    #[test]
    fn lines_of_json_are_json() {
        let line = json_line(&Counts { returns: 4, ..Counts::default() });
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((read["returns"].as_i64(), read["connected"].as_i64()), (Some(4), Some(0)));
    }

    #[test]
    fn templates_are_well_formed() {
        Line::of_swarm(1).clear();
        Line::of_keys().clear();
    }
}

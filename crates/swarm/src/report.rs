//! The results of a swarm, as JSON.

use std::time::Duration;

use serde::Serialize;

use crate::rsa::{Operations, RsaSpeed};
use crate::stats::{Counts, Job, Request, Stats, Summary};
use crate::watch::{Peaks, Sample, Watch};

/// Everything that was counted and timed. Times are in milliseconds unless their name says otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The number of minions that were to start.
    pub minions: usize,
    /// When it started, in seconds since 1970.
    pub began_at: f64,
    /// Seconds from the start to this report.
    pub seconds: f64,
    /// The state of the swarm at the end.
    pub counts: Counts,
    /// Statistics of sign-ins.
    pub sign_in: SignInReport,
    /// From the receipt of a job to the acknowledged return, for all jobs.
    pub answered: Summary,
    /// The number of received jobs.
    pub jobs_seen: u64,
    /// Acknowledged returns per second, averaged over the whole time.
    pub returns_per_second: f64,
    /// The peak of acknowledged returns within one second.
    pub returns_per_second_peak: u64,
    /// The latest jobs, oldest first.
    pub jobs: Vec<JobReport>,
    /// Requests by type.
    pub requests: Vec<RequestReport>,
    /// Failures by request and type.
    pub errors: Vec<ErrorReport>,
    /// The resources that the watched processes used.
    pub watched: Option<WatchReport>,
    /// One entry per second, or per several seconds of a long run.
    pub timeline: Vec<Moment>,
}

/// Statistics of sign-ins.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SignInReport {
    /// Seconds from the start until all minions had signed in; none if some have not.
    pub all_after_seconds: Option<f64>,
    /// Seconds from the start until the last first sign-in.
    pub last_after_seconds: f64,
    /// First sign-ins per second, until the last one.
    pub per_second: f64,
    /// The peak of sign-ins within one second, first and repeated ones.
    pub per_second_peak: u64,
    /// From a minion's first attempt to its keys.
    pub first: Summary,
    /// The cost of RSA alone on this machine, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rsa: Option<RsaReport>,
}

/// The cost of RSA alone on this machine, of master and minions together.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RsaReport {
    /// The cost of one operation.
    #[serde(flatten)]
    pub speed: RsaSpeed,
    /// First sign-ins per second, of minions that do not know the master's key yet, with nothing but RSA.
    pub first_per_second: f64,
    /// The same for minions that know the key.
    pub again_per_second: f64,
}

impl From<RsaSpeed> for RsaReport {
    fn from(speed: RsaSpeed) -> Self {
        let per_second = |operations| rounded(speed.sign_ins_per_second(operations));
        RsaReport {
            speed,
            first_per_second: per_second(Operations::FIRST),
            again_per_second: per_second(Operations::AGAIN),
        }
    }
}

/// The returns of a job.
#[derive(Clone, Debug, Serialize)]
pub struct JobReport {
    /// Its id.
    pub jid: String,
    /// Its function.
    pub fun: String,
    /// Seconds from the start until the first minion received it.
    pub at_seconds: f64,
    /// From its first receipt to each receipt.
    pub heard: Summary,
    /// The number of minions whose target matched.
    pub meant: u64,
    /// From a minion's receipt to its acknowledged return.
    pub answered: Summary,
    /// From the first receipt to each acknowledged return.
    pub since_first: Summary,
    /// From the publication to each acknowledged return, if the publication's time is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_published: Option<Summary>,
}

/// Requests of a type.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RequestReport {
    /// The type.
    pub request: Request,
    /// Answered requests per second, averaged over the whole time.
    pub per_second: f64,
    /// From sending to the decrypted answer.
    pub took: Summary,
    /// Bytes of files.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes: u64,
}

/// Failures of a type.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorReport {
    /// The request.
    pub request: Request,
    /// The type of failure.
    pub kind: &'static str,
    /// The number of failures.
    pub count: u64,
    /// The message of the latest one.
    pub last: String,
}

/// The resources that the watched processes and their children used.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WatchReport {
    /// At the end.
    pub(crate) last: Sample,
    /// The peak of each.
    pub(crate) peak: Peaks,
}

impl WatchReport {
    /// Processor time since the first sample, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        self.last.cpu_seconds
    }

    /// The peak of resident memory in bytes.
    pub fn peak_rss(&self) -> u64 {
        self.peak.rss_bytes
    }

    /// The peak of proportional memory in bytes.
    pub fn peak_pss(&self) -> u64 {
        self.peak.pss_bytes
    }

    /// The peaks of open files and threads.
    pub fn peak_files_and_threads(&self) -> (u64, u64) {
        (self.peak.files, self.peak.threads)
    }
}

/// A sample of a swarm.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Moment {
    /// Seconds after the start.
    pub at_seconds: f64,
    /// The state of the swarm.
    #[serde(flatten)]
    pub counts: Counts,
    /// The state of the watched processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) watched: Option<Sample>,
}

/// Samples of a swarm, one per second, or fewer in a long run.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    moments: Vec<Moment>,
    /// The number of seconds of each entry.
    every: u32,
    skipped: u32,
    /// The peaks of returns and of sign-ins within a second.
    pub(crate) peak: u64,
    pub(crate) sign_in_peak: u64,
    returns: u64,
    sign_ins: u64,
}

/// The maximum number of samples.
const MOMENTS: usize = 3600;

impl Timeline {
    /// Adds the sample of a second.
    pub(crate) fn push(&mut self, at: Duration, counts: Counts, watched: Option<Sample>) {
        // Before any sample is skipped: peaks are per second, also in a run whose timeline has become coarser.
        self.peak = self.peak.max(counts.returns - self.returns);
        self.returns = counts.returns;
        self.sign_in_peak = self.sign_in_peak.max(counts.sign_ins - self.sign_ins);
        self.sign_ins = counts.sign_ins;
        self.skipped += 1;
        if self.skipped < self.every {
            return;
        }
        self.skipped = 0;
        self.moments.push(Moment { at_seconds: rounded(at.as_secs_f64()), counts, watched });
        // Every other sample goes and the interval doubles, so the memory and the report stay bounded however long the
        // run is.
        if self.moments.len() == MOMENTS {
            let mut place = 0;
            self.moments.retain(|_| {
                place += 1;
                place % 2 == 0
            });
            self.every = self.every.max(1) * 2;
        }
    }

    pub(crate) fn moments(&self) -> &[Moment] {
        &self.moments
    }
}

impl Report {
    pub(crate) fn new(minions: usize, stats: &Stats, timeline: &Timeline, watch: Option<&Watch>) -> Self {
        // At least a millisecond: JSON has no infinity for a rate in a run that has just begun.
        let seconds = stats.began.elapsed().as_secs_f64().max(0.001);
        let counts = stats.now();
        let last = stats.last_signed_in().as_secs_f64();
        let jobs = stats.jobs();
        Report {
            minions,
            began_at: stats.began_at,
            seconds: rounded(seconds),
            counts,
            sign_in: SignInReport {
                all_after_seconds: stats.all_signed_in().map(|time| time.as_secs_f64()),
                last_after_seconds: last,
                per_second: rounded(counts.signed_in as f64 / last.max(0.001)),
                per_second_peak: timeline.sign_in_peak,
                first: stats.first_sign_ins(),
                rsa: None,
            },
            answered: jobs.answered.summary(),
            jobs_seen: jobs.seen,
            returns_per_second: rounded(counts.returns as f64 / seconds),
            returns_per_second_peak: timeline.peak,
            jobs: jobs.each().map(|job| job_report(job, stats)).collect(),
            requests: requests(stats, seconds),
            errors: errors(stats),
            watched: watch.map(|watch| WatchReport { last: watch.latest(), peak: watch.peaks() }),
            timeline: timeline.moments().to_vec(),
        }
    }

    /// Returns the report as JSON text.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a report is nothing but numbers and texts");
        text.push('\n');
        text
    }

    /// Returns how often a request failed with this type of failure.
    pub fn errors_of(&self, request: Request, kind: &str) -> u64 {
        let found = self.errors.iter().find(|error| error.request == request && error.kind == kind);
        found.map_or(0, |error| error.count)
    }
}

fn job_report(job: &Job, stats: &Stats) -> JobReport {
    JobReport {
        jid: job.jid.clone(),
        fun: job.fun.clone(),
        at_seconds: (job.first_heard - stats.began).as_secs_f64(),
        heard: job.heard.summary(),
        meant: job.meant,
        answered: job.answered.summary(),
        since_first: job.since_first.summary(),
        // Histograms keep no single times. The whole summary is shifted by the delay between publication and first
        // receipt.
        since_published: job.published.map(|at| job.since_first.summary().later(job.first_heard - at)),
    }
}

fn requests(stats: &Stats, seconds: f64) -> Vec<RequestReport> {
    let requests = stats.requests();
    let told = requests.iter().map(|(request, of)| RequestReport {
        request: *request,
        per_second: rounded(of.took.count() as f64 / seconds),
        took: of.took.summary(),
        bytes: of.bytes,
    });
    told.collect()
}

fn errors(stats: &Stats) -> Vec<ErrorReport> {
    let failures = stats.failures();
    let told = failures.iter().map(|((request, kind), failure)| ErrorReport {
        request: *request,
        kind,
        count: failure.count,
        last: failure.last.clone(),
    });
    told.collect()
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_timeline_gets_coarser_and_keeps_its_peak() {
        let mut timeline = Timeline::default();
        for second in 1..=10_000_u64 {
            let returns = second * 10 + if second >= 500 { 90 } else { 0 };
            timeline.push(
                Duration::from_secs(second),
                Counts { returns, sign_ins: returns / 2, ..Counts::default() },
                None,
            );
        }
        let moments = timeline.moments();
        assert!(moments.len() < MOMENTS && moments.len() >= MOMENTS / 2, "{}", moments.len());
        assert!(moments.is_sorted_by(|a, b| a.at_seconds < b.at_seconds));
        assert!(moments.last().unwrap().at_seconds >= 9_990.0);
        assert_eq!((timeline.peak, timeline.sign_in_peak), (100, 50));
    }

    #[tokio::test]
    async fn a_report_has_the_numbers_by_name() {
        let stats = Stats::new(10);
        stats.answered(Request::SignIn, Duration::from_millis(2));
        stats.first_sign_in(Duration::from_millis(3), 1);
        stats.failed(Request::Return, "timeout", "no answer".into());
        stats.jobs().heard("7", "test.ping", true);
        stats.jobs().returned("7", Duration::from_millis(4));
        let report = Report::new(1, &stats, &Timeline::default(), None);
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["counts"]["signed_in"], 1);
        assert_eq!(json["requests"][0]["request"], "sign_in");
        assert_eq!(json["jobs"][0]["answered"]["p50"], 4.0);
        assert_eq!(json["errors"][0]["last"], "no answer");
        assert_eq!(report.errors_of(Request::Return, "timeout"), 1);
    }
}

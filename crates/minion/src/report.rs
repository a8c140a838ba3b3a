//! The report that a minion writes to a file after SIGUSR1.

use std::fmt::Write as _;
use std::time::SystemTime;

use crate::masters::Masters;

/// Describes the masters, the running jobs, and what waits.
pub fn of(masters: &Masters) -> String {
    let machine = &masters.machine;
    let now = machine.rt.now();
    let ago = |then: SystemTime| now.duration_since(then).unwrap_or_default().as_secs();
    let mut text = format!("minion {}\n", machine.id);
    for status in masters.statuses(None) {
        let ip = status.ip.map_or_else(|| "no address".to_owned(), |ip| ip.to_string());
        let heard = status.last_heard.map_or_else(|| "never".to_owned(), |then| format!("{} s ago", ago(then)));
        let _ = writeln!(
            text,
            "master {} ({ip}): {} {} for {} s, heard {heard}, {} jobs, {} returns waiting",
            status.address,
            status.role.word(),
            status.state.word(),
            ago(status.since),
            status.jobs,
            status.returns_waiting,
        );
    }
    let running = machine.running.list_all(now);
    let _ = writeln!(text, "running jobs: {}", running.len());
    for job in running {
        let part = |name: &str| job.load.get(name).map(ToString::to_string).unwrap_or_default();
        // Arguments may hold passwords.
        let _ = writeln!(text, "job {}: {} (process {}) for {} s", job.jid(), part("fun"), part("pid"), ago(job.since));
    }
    let _ = writeln!(text, "jobs and returns at work: {}", machine.tasks.len());
    let _ = writeln!(text, "listeners on the event bus: {}", machine.bus.subscribers());
    text
}

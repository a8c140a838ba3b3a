//! A description of a running minion's work, for the file that SIGUSR1 makes it write.

use std::fmt::Write as _;
use std::time::SystemTime;

use crate::world::World;

/// The masters, the running jobs, what waits.
pub fn of(world: &World) -> String {
    let now = world.rt.now();
    let ago = |then: SystemTime| now.duration_since(then).unwrap_or_default().as_secs();
    let mut text = format!("minion {}\n", world.id);
    for status in world.statuses(None) {
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
    let running = world.running_jobs();
    let _ = writeln!(text, "running jobs: {}", running.len());
    for job in running {
        let part = |name: &str| job.load.get(name).map(ToString::to_string).unwrap_or_default();
        // Arguments may hold passwords.
        let _ = writeln!(text, "job {}: {} (process {}) for {} s", job.jid(), part("fun"), part("pid"), ago(job.since));
    }
    let _ = writeln!(text, "jobs and returns at work: {}", world.tasks.len());
    let _ = writeln!(text, "listeners on the event bus: {}", world.bus.subscribers());
    text
}

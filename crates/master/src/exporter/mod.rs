//! The master's metrics, for Prometheus and for people (`salt-run saltern.status`).
//!
//! Names and labels of Salt's own exporter are kept (`salt_…`); all others begin with `saltern_`.

mod process;
pub mod serve;

use std::time::Duration;

use value::{Map, map};

use crate::Shared;
use crate::metrics::Metrics;
use crate::metrics::figures::Named;
use crate::metrics::text::{Kind, Page};
use process::Process;

/// The values that are read on request.
struct Now {
    connected: usize,
    /// How many of them are Salt minions.
    stock: usize,
    connections: usize,
    queued: usize,
    longest_queue: usize,
    waiting: usize,
    accepted: usize,
    process: Process,
}

impl Now {
    fn of(shared: &Shared) -> Self {
        let subscribers = shared.publisher.subscribers();
        let queues = || subscribers.iter().map(|subscriber| subscriber.queued);
        let connected = shared.presence.connected(&subscribers);
        Now {
            stock: shared.presence.count_stock(&connected),
            connected: connected.len(),
            connections: subscribers.len(),
            queued: queues().sum(),
            longest_queue: queues().max().unwrap_or_default(),
            waiting: shared.stores.jobs.waiting(),
            accepted: shared.stores.accepted_ids().len(),
            process: Process::now(),
        }
    }
}

/// Returns the page for Prometheus. Lists the key files, so do not call it from an async task.
pub fn page(shared: &Shared) -> String {
    let (metrics, now, mut page) = (&shared.metrics, Now::of(shared), Page::default());
    let help = "Minions that listen to this master: those of Salt, and those of Saltern.";
    page.metric("saltern_minions_connected", Kind::Gauge, help);
    page.sample("saltern_minions_connected", &[("kind", "salt")], now.stock);
    page.sample("saltern_minions_connected", &[("kind", "saltern")], now.connected - now.stock);
    page.single("saltern_minions_accepted", Kind::Gauge, "Minions whose keys are accepted.", now.accepted);
    page.single("saltern_subscribers", Kind::Gauge, "Connections that get publications.", now.connections);
    page.single("saltern_queued_publications", Kind::Gauge, "Publications that wait for slow subscribers.", now.queued);
    let help = "Connections on both ports.";
    page.single("saltern_connections", Kind::Gauge, help, transport::connections());
    let help = "Connections that were closed at once, since the limit of open files allows no more.";
    page.single("saltern_connections_refused_total", Kind::Counter, help, transport::refused_connections());
    let help = "Publications that wait for the slowest subscriber.";
    page.single("saltern_longest_queue", Kind::Gauge, help, now.longest_queue);
    let help = "Publications that a full queue did not take at once.";
    page.single("saltern_publications_delayed_total", Kind::Counter, help, metrics.slow.get());
    named(&mut page, "salt_auth_attempts_total", "Minion authentication attempts.", "result", &metrics.sign_ins);
    page.metric("saltern_sign_in_milliseconds", Kind::Histogram, "From the arrival of a sign-in to its answer.");
    metrics.sign_in_times.write(&mut page, "saltern_sign_in_milliseconds", &[]);
    requests(&mut page, metrics);
    named(&mut page, "salt_jobs_published_total", "Jobs published to minions.", "fun", &metrics.published);
    named(&mut page, "salt_jobs_completed_total", "Returns received from minions.", "fun", &metrics.completed);
    page.metric("saltern_return_store_milliseconds", Kind::Histogram, "How long it took to store a return.");
    metrics.store_times.write(&mut page, "saltern_return_store_milliseconds", &[]);
    let help = "Returns that could not be stored.";
    page.single("saltern_returns_not_stored_total", Kind::Counter, help, metrics.not_stored.get());
    if let Some(copies) = shared.outgoing.as_ref().and_then(crate::outgoing::Outgoing::copies) {
        let help = "Returns that were acknowledged although no other master of the set had stored them.";
        page.single("saltern_returns_alone_total", Kind::Counter, help, copies.alone());
    }
    let help = "Bytes of the job cache that are in its journal only.";
    page.single("saltern_job_cache_journal_bytes", Kind::Gauge, help, now.waiting);
    let drift = metrics.drift.all();
    if !drift.is_empty() {
        page.metric(
            "saltern_drift",
            Kind::Gauge,
            "Masters of the set that differ from this one for a minute or longer.",
        );
        for (kind, masters) in drift {
            page.sample("saltern_drift", &[("kind", kind)], masters);
        }
    }
    let leases = metrics.leases.all();
    if !leases.is_empty() {
        page.metric(
            "saltern_lease_held",
            Kind::Gauge,
            "Whether this master runs an entry of the schedule for the set.",
        );
        for (name, is_held) in leases {
            page.sample("saltern_lease_held", &[("name", &name)], u8::from(is_held));
        }
    }
    metrics.set.write(&mut page);
    process(&mut page, &now.process);
    page.finish()
}

fn named(page: &mut Page, name: &str, help: &str, label: &str, figures: &Named) {
    page.metric(name, Kind::Counter, help);
    for (value, number) in figures.all() {
        page.sample(name, &[(label, &value)], number);
    }
}

fn requests(page: &mut Page, metrics: &Metrics) {
    let used = || metrics.requests.iter().filter(|(_, times)| times.count() > 0);
    page.metric("salt_master_requests_handled_total", Kind::Counter, "Requests handled by the master.");
    for (command, times) in used() {
        page.sample("salt_master_requests_handled_total", &[("cmd", command)], times.count());
    }
    let help = "How long requests took, by command.";
    page.metric("salt_master_requests_duration_milliseconds", Kind::Histogram, help);
    for (command, times) in used() {
        times.write(page, "salt_master_requests_duration_milliseconds", &[("cmd", command)]);
    }
    let help = "Requests without a known command, or that could not be opened.";
    page.single("saltern_requests_refused_total", Kind::Counter, help, metrics.refused.get());
}

fn process(page: &mut Page, process: &Process) {
    page.single("process_resident_memory_bytes", Kind::Gauge, "Memory of the master.", process.memory);
    page.single("process_cpu_seconds_total", Kind::Counter, "Processor time of the master.", process.cpu);
    page.single("process_open_fds", Kind::Gauge, "Open files and connections.", process.open_files);
    page.single("process_max_fds", Kind::Gauge, "As many may be open (max_open_files).", process.most_files);
    page.single("process_threads", Kind::Gauge, "Threads of the master.", process.threads);
}

/// Returns the same metrics for people. Lists the key files, so do not call it from an async task.
pub fn status(shared: &Shared) -> Map {
    let (metrics, now) = (&shared.metrics, Now::of(shared));
    let milliseconds = |took: Duration| (took.as_secs_f64() * 1e5).round() / 100.0;
    let numbers = |named: &Named| named.all().into_iter().collect::<Map>();
    let used = metrics.requests.iter().filter(|(_, times)| times.count() > 0);
    let requests: Map = used
        .map(|(command, times)| (*command, map! { "count" => times.count(), "mean_ms" => milliseconds(times.mean()) }))
        .collect();
    let per_minion = now.process.memory / (now.connected.max(1) as u64) / 1024;
    map! {
        "running_seconds" => metrics.started.elapsed().as_secs(),
        "minions" => map! { "accepted" => now.accepted, "connected" => now.connected, "of_salt" => now.stock },
        "sign_ins" => map! { "results" => numbers(&metrics.sign_ins), "mean_ms" => milliseconds(metrics.sign_in_times.mean()) },
        "requests" => requests,
        "requests_refused" => metrics.refused.get(),
        "jobs_published" => numbers(&metrics.published),
        "returns" => map! {
            "by_function" => numbers(&metrics.completed), "store_mean_ms" => milliseconds(metrics.store_times.mean()),
            "not_stored" => metrics.not_stored.get(), "journal_bytes" => now.waiting,
        },
        "connections" => map! { "open" => transport::connections(), "refused" => transport::refused_connections() },
        "publications" => map! {
            "subscribers" => now.connections, "queued" => now.queued, "longest_queue" => now.longest_queue,
            "delayed" => metrics.slow.get(),
        },
        "process" => map! {
            "memory_mib" => now.process.memory >> 20, "memory_kib_per_minion" => per_minion,
            "cpu_seconds" => (now.process.cpu * 100.0).round() / 100.0, "open_files" => now.process.open_files,
            "max_open_files" => now.process.most_files, "threads" => now.process.threads,
        },
    }
}

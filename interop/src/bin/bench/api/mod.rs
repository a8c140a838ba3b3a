//! `cargo xtask bench api`: the real salt-api and ours under load, each beside its own master.
//!
//! Both masters have Saltern's minions, so that the rows compare master and salt-api alone.

mod load;
mod side;
mod streams;

use anyhow::Result;
use interop::{Salt, Sandbox};

use crate::table::{Row, Table, Unit};
use side::Numbers;

/// Measures both sides, one after the other.
pub fn bench(sandbox: &Sandbox, real: &Salt, ours: &Salt) -> Result<Table> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let our = side::measure(sandbox, ours, "ours", &runtime)?;
    let their = side::measure(sandbox, real, "real", &runtime)?;
    runtime.shutdown_background();
    Ok(rows(real, ours, &their, &our))
}

fn rows(real: &Salt, ours: &Salt, their: &Numbers, our: &Numbers) -> Table {
    let mut table = Table::new(real.name(), ours.name());
    for (kind, (their, our)) in load::KINDS.iter().zip(their.loads.iter().zip(&our.loads)) {
        table.add(Row::new(kind.name, Unit::PerSecond, &[their.rate], &[our.rate]).more(20.0));
        table.add(Row::new("  the slowest of a hundred", Unit::Milliseconds, &[their.p99], &[our.p99]));
    }
    let memory = |what, get: fn(&Numbers) -> f64| Row::new(what, Unit::Mebibytes, &[get(their)], &[get(our)]);
    table.add(memory("salt-api: idle memory (PSS)", |numbers| numbers.idle).faster(10.0));
    table.add(memory("salt-api: memory after these requests", |numbers| numbers.loaded).faster(10.0));
    table.add(memory("salt-api: memory with 500 streams", |numbers| numbers.streaming).faster(10.0));
    let open = |numbers: &Numbers| [numbers.streams.open as f64];
    table.add(Row::new("  streams that did open", Unit::Number, &open(their), &open(our)));
    let (theirs, own) = (their.streams.events, our.streams.events);
    table.add(Row::new("events at 500 streams, per second", Unit::PerSecond, &[theirs], &[own]).more(20.0));
    table
}

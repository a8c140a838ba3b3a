//! A running beacon.

use std::sync::Arc;
use std::time::Duration;

use beacons::{Found, Kind, Watcher};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};
use value::{Map, Value, map};

use super::Beacons;
use crate::machine::Machine;

/// Reports of the kernel within this time become one batch of events.
const BATCH: Duration = Duration::from_millis(100);

/// Checks the beacon whenever something may have changed, until stopped.
pub async fn watch(beacons: Arc<Beacons>, kind: &'static Kind, name: String, config: Value, stop: CancellationToken) {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = watch_for_ever(&beacons, kind, &name, &config) => {}
    }
}

async fn watch_for_ever(beacons: &Beacons, kind: &'static Kind, name: &str, config: &Value) {
    let is_on = |option: &str| beacons::option(config, option).is_some_and(|value| value.truthy());
    let interval =
        beacons::option(config, "interval").and_then(|value| value.as_f64()).filter(|seconds| *seconds > 0.0);
    // An interval that no timer can hold counts as none.
    let interval = interval.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let pause = interval.unwrap_or_else(|| beacons.machine().config.jobs.loop_interval.max(Duration::from_secs(1)));
    let mut watcher = (kind.watch)(config);
    // With an interval the first look is after it, as in Salt.
    let mut at_once = interval.is_none();
    loop {
        if !std::mem::take(&mut at_once) {
            wait(watcher.as_mut(), interval.is_none(), pause).await;
        }
        if is_on("disable_during_state_run") && runs_states(beacons.machine()) {
            info!("Closing beacon {name}. State run in progress.");
            // As in Salt, the beacon is closed: what it noticed before the state run is not reported.
            watcher = (kind.watch)(config);
            tokio::time::sleep(pause).await;
            at_once = true;
            continue;
        }
        let found = watcher.look(&beacons.context()).await;
        let good = found.is_ok();
        tell(beacons.machine(), kind, name, found);
        if good && is_on("run_once") {
            debug!("the beacon {name} has run once");
            return beacons.change(|options| super::manage::enable(options, name, false));
        }
    }
}

/// Waits until the kernel reports a change, if the beacon supports that, or until `pause` has passed.
async fn wait(watcher: &mut dyn Watcher, by_word: bool, pause: Duration) {
    match watcher.ready().filter(|_| by_word) {
        Some(ready) => {
            ready.await;
            // The first of many changes wakes us; the others are collected with it.
            tokio::time::sleep(BATCH).await;
        }
        None => tokio::time::sleep(pause).await,
    }
}

fn runs_states(machine: &Machine) -> bool {
    machine.running.list().iter().any(|job| job.load.get_str("fun").is_some_and(|fun| fun.starts_with("state")))
}

/// Fires the findings on the minion's bus, from which they go to each connected master.
fn tell(machine: &Machine, kind: &Kind, name: &str, found: Found) {
    let tag = format!("salt/beacon/{}/{name}/", machine.id);
    let events: Vec<Value> = match found {
        Ok(found) => found.into_iter().map(|data| event(&tag, machine.id.as_str(), kind, data).into()).collect(),
        Err(reason) => {
            error!("Unable to start {name} beacon, {reason}");
            vec![map! { "tag" => tag, "error" => reason, "data" => Map::new(), "beacon_name" => kind.name }.into()]
        }
    };
    if events.is_empty() {
        return;
    }
    if let Err(reason) = machine.bus.fire("__beacons_return", map! { "beacons" => events }) {
        warn!("the events of the beacon {name} were not fired: {reason}");
    }
}

fn event(tag: &str, id: &str, kind: &Kind, mut data: Map) -> Map {
    let end = data.remove("tag").map(|end| end.to_string()).unwrap_or_default();
    if !data.contains_key("id") {
        data.insert("id", id);
    }
    map! { "tag" => format!("{tag}{end}"), "data" => data, "beacon_name" => kind.name }
}

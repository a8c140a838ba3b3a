//! Reports connected and lost links, to programs on this host and to the master.

use std::sync::Arc;

use tracing::warn;
use value::{Map, map};

use crate::ctime::ctime;
use crate::jobs::Jobs;
use crate::machine::Machine;
use crate::masters::Link;
use crate::missed;

/// Reports a lost link on the minion's bus.
pub fn disconnected(machine: &Machine, link: &Link) {
    fire(machine, "__master_disconnected", link);
}

/// Reports a new connection on the minion's bus, and the first one of a link to its master.
pub fn connected(jobs: &Arc<Jobs>, link: &Arc<Link>) {
    let machine = &jobs.machine;
    fire(machine, "__master_connected", link);
    machine.rt.spawn(missed::ask(jobs.clone(), link.clone()));
    let again = link.note_started();
    if again && link.settings.transport != transport::Kind::Tcp {
        return;
    }
    let (inside, link) = (machine.clone(), link.clone());
    machine.spawn(async move { fire_start(&inside, &link).await });
}

fn fire(machine: &Machine, tag: &str, link: &Link) {
    let data = map! { "master" => link.settings.address.host.as_str() };
    if let Err(reason) = machine.bus.fire(tag, data) {
        warn!("an event was not fired: {reason}");
    }
}

async fn fire_start(machine: &Machine, link: &Link) {
    let id = machine.id.as_str();
    let text = format!("Minion {id} started at {}", ctime(machine.rt.now()));
    let wanted = &machine.config.login.start_event_grains;
    let grains = machine.grains();
    let mut tags = vec![format!("salt/minion/{id}/start")];
    if machine.config.login.enable_legacy_startup_events {
        tags.insert(0, "minion_start".to_owned());
    }
    for tag in tags {
        let mut load = machine.event_load(&tag, text.as_str().into());
        if !wanted.is_empty() {
            let sent = wanted.iter().filter_map(|name| Some((name.as_str(), grains.get(name)?.clone())));
            load.insert("grains", sent.collect::<Map>());
        }
        link.tell(load).await;
    }
}

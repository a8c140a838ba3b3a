//! The masters: one link each, sharing only the machine.
//!
//! This module defines links and connects to masters; the module `follow` keeps the links connected.

mod connect;
mod ended;
mod func;
mod link;
mod pillar;
mod policy;
mod settings;
mod sign_in;
mod trust;

pub use connect::{CONNECT, open_channel, ping, reachable, resolve, subscribe, target};
pub use ended::{Ended, FULL, REJECTION};
pub use func::masters as named;
pub use link::{Link, new_links};
pub use pillar::ask_pillar;
pub use policy::{AcceptanceWait, Backoff};
pub use settings::{LinkSettings, is_one_at_a_time, links};
pub use sign_in::{sign_in_apart, sign_in_once};

use std::sync::Arc;

use exec::MasterStatus;
use futures_util::future::select_all;
use tokio::sync::Notify;
use value::Map;

use crate::machine::Machine;

/// All masters of the minion.
pub struct Masters {
    /// The machine.
    pub machine: Arc<Machine>,
    /// The links, in the configured order.
    pub links: Vec<Arc<Link>>,
    /// Woken when a master has accepted the key for which the minion had waited: that master has no mine of it.
    pub accepted: Notify,
    /// In a `salt-call`: the status that the running minion reported.
    told: Option<Vec<MasterStatus>>,
}

impl Masters {
    /// Creates the masters of these links.
    pub fn new(machine: Arc<Machine>, links: Vec<Arc<Link>>) -> Self {
        Masters { machine, links, accepted: Notify::new(), told: None }
    }

    /// Creates the masters in a `salt-call`. `told` is the status that the running minion reported.
    pub fn beside_minion(machine: Arc<Machine>, links: Vec<Arc<Link>>, told: Option<Vec<MasterStatus>>) -> Self {
        Masters { machine, links, accepted: Notify::new(), told }
    }

    /// Waits until a master is connected, unless there is none or the caller does not wait for one (`at_once`).
    pub async fn first_live(&self, at_once: bool) {
        if !self.links.is_empty() && !at_once {
            select_all(self.links.iter().map(|link| Box::pin(link.live()))).await;
        }
    }

    /// Returns the master for functions that the minion runs by itself, such as scheduled jobs: the first connected one
    /// in the configured order, or the first if none is connected.
    pub fn first(&self) -> Option<&Arc<Link>> {
        self.links.iter().find(|link| link.is_live()).or(self.links.first())
    }

    /// Sends a request to every connected master, independently. Returns whether any is connected.
    pub fn tell_all(&self, load: &Map) -> bool {
        let live: Vec<_> = self.links.iter().filter(|link| link.channel().is_some()).cloned().collect();
        let any = !live.is_empty();
        for link in live {
            let load = load.clone();
            self.machine.spawn(async move { link.tell(load).await });
        }
        any
    }

    /// Returns the status of all masters; `asking` is the master whose job requests them.
    pub fn statuses(&self, asking: Option<&Link>) -> Vec<MasterStatus> {
        let asks = |address: &str| asking.is_some_and(|link| link.address() == address);
        match &self.told {
            Some(told) => {
                let status = |told: &MasterStatus| MasterStatus { asking: asks(&told.address), ..told.clone() };
                told.iter().map(status).collect()
            }
            None => self.links.iter().map(|link| link.status(asks(&link.address()))).collect(),
        }
    }
}

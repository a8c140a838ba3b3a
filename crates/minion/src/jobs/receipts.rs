//! Reports to masters which held jobs have arrived and started. Several are sent in one request, since they often
//! arrive together.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::debug;
use value::{Map, Value};
use wire::loads::{ReceivedJobs, Texts};
use wire::msgpack::Decode;

use crate::machine::Machine;
use crate::masters::Link;

/// How long a receipt waits for others.
const GATHER: Duration = Duration::from_millis(3);

/// Timeout for an answer. Without one the job starts anyway, because the master has published it.
const PATIENCE: Duration = Duration::from_secs(3);

/// Receipts that wait to be sent.
#[derive(Default)]
pub struct Receipts {
    waiting: Mutex<Vec<Receipt>>,
}

struct Receipt {
    link: Arc<Link>,
    jid: String,
    /// Receives whether the job may start; `None` for a job that has started.
    may_begin: Option<oneshot::Sender<bool>>,
}

impl Receipts {
    /// Tells a master that a job arrived. Returns whether it should still start.
    pub async fn confirm(self: &Arc<Self>, machine: &Arc<Machine>, link: &Arc<Link>, jid: &str) -> bool {
        let (may_begin, answer) = oneshot::channel();
        self.add(machine, Receipt { link: link.clone(), jid: jid.to_owned(), may_begin: Some(may_begin) });
        tokio::time::timeout(PATIENCE + GATHER, answer).await.ok().and_then(Result::ok).unwrap_or(true)
    }

    /// Tells a master that a job has started.
    pub fn begun(self: &Arc<Self>, machine: &Arc<Machine>, link: &Arc<Link>, jid: &str) {
        self.add(machine, Receipt { link: link.clone(), jid: jid.to_owned(), may_begin: None });
    }

    fn add(self: &Arc<Self>, machine: &Arc<Machine>, receipt: Receipt) {
        let first = {
            let mut waiting = self.waiting();
            waiting.push(receipt);
            waiting.len() == 1
        };
        // The first of a batch starts the timer; the others join it.
        if first {
            let (receipts, sending) = (self.clone(), machine.clone());
            machine.spawn(async move {
                tokio::time::sleep(GATHER).await;
                receipts.send_all(&sending);
            });
        }
    }

    fn send_all(&self, machine: &Machine) {
        // Taken in one step: a receipt that is added now starts a batch of its own.
        let mut waiting = std::mem::take(&mut *self.waiting());
        while let Some(link) = waiting.first().map(|receipt| receipt.link.clone()) {
            let (now, later) = waiting.into_iter().partition(|receipt| Arc::ptr_eq(&receipt.link, &link));
            waiting = later;
            machine.spawn(send(link, now));
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Receipt>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn send(link: Arc<Link>, receipts: Vec<Receipt>) {
    let named = |arrived: bool| -> Texts {
        let of = receipts.iter().filter(|receipt| receipt.may_begin.is_some() == arrived);
        of.map(|receipt| receipt.jid.as_str()).collect()
    };
    let request = ReceivedJobs { received: named(true), started: named(false), extra: Map::new() };
    let Some(channel) = link.channel() else { return };
    let answer = match channel.request(request.into_map(), Some(PATIENCE), Decode::Default).await {
        Ok(answer) => answer,
        Err(reason) => {
            debug!(master = %link.settings.address, "receipts were not sent: {reason}");
            return;
        }
    };
    let gone = answer.get("gone").and_then(Value::as_list).unwrap_or_default();
    for receipt in receipts {
        if let Some(may_begin) = receipt.may_begin {
            // Nobody waits any more for an answer that took too long.
            let _ = may_begin.send(!gone.iter().any(|jid| jid.as_str() == Some(&receipt.jid)));
        }
    }
}

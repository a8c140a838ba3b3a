//! What JetStream does for this member: it grants leases (`granted`) and keeps decisions (`kept`).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bus::BusState;
use config::Cluster;
use crypto::MemberKey;
use leases::{JetStreamBucket, Keep};
use peers::members::LeaseSource;
use rt::Rt;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::granted::{Found, Grants, Taking};
use super::kept::{KeepProof, Keeping, Unkept};
use super::lease_proof::LeaseProof;
use super::settings::Settings;
use super::worker::{Work, Worker};
use crate::Error;

/// A connection for JetStream alone, so that no message between members stands in the way of leases.
pub struct JetStream {
    client: async_nats::Client,
    /// The name of the set, as in subjects.
    set: String,
    found: Found,
    /// What is kept is sealed with this and with the member key.
    seal: Option<(KeepProof, MemberKey)>,
    unkept: Arc<Unkept>,
}

impl JetStream {
    /// Connects to the servers of the bus, if the options name some. `records` is the file of the shared records.
    ///
    /// # Errors
    /// When the options cannot be used. That no server answers is no error.
    pub async fn connect(
        cluster: &Cluster,
        settings: &Settings,
        key: &MemberKey,
        records: &Path,
    ) -> Result<Option<JetStream>, Error> {
        let Some(options) = &cluster.bus else { return Ok(None) };
        let told = AtomicBool::new(false);
        let tell = move |state| {
            // What the servers deny is never answered, and without this line looks as if they were not there.
            if let BusState::Trouble(words) = state
                && words.to_lowercase().contains("permissions violation")
                && !told.swap(true, Ordering::Relaxed)
            {
                warn!("the login of cluster_bus_credentials may not use JetStream: {words} (see docs/jetstream.md)");
            }
        };
        let connected = bus::connect(options, cluster.heartbeat, tell).await;
        let client = connected.map_err(|error| Error::NotSharing(crate::chain(&error)))?;
        let set = bus::encoded(&cluster.id);
        let seal = KeepProof::new(settings.credentials()).map(|proof| (proof, key.clone()));
        Ok(Some(JetStream { client, set, found: Found::beside(records), seal, unkept: Arc::default() }))
    }

    /// Has the worker note what is to be kept, before it decides anything.
    pub fn prepare(&self, owner: &mut Worker) {
        if self.seal.is_some() {
            owner.keep(self.unkept.clone());
        }
        if owner.settings.grants == Grants::IfThere && self.found.is_noted() {
            owner.take_leases(LeaseSource::JetStream);
        }
    }

    /// Takes leases and keeps decisions until the master stops. What is returned ends when the leases are given back.
    pub fn start(
        self,
        owner: &Worker,
        worker: &Sender<Work>,
        rt: &Rt,
        stop: &CancellationToken,
    ) -> Option<JoinHandle<()>> {
        let (members, set, sealed) = (owner.members.clone(), self.set.clone(), self.seal.clone());
        let blocking = rt.clone();
        let proof = async move {
            let (proof, key) = sealed.ok_or("nothing proves that this master belongs to the set")?;
            let made = blocking.blocking(move || LeaseProof::new(&proof, &set, key, members)).await;
            made.map_err(|failure| failure.to_string()).flatten()
        };
        if let Some((proof, key)) = self.seal {
            let (keep, set) = (Keep::new(self.client.clone(), &self.set), self.set.clone());
            let keeping = Keeping { keep, proof, set, key, unkept: self.unkept, worker: worker.clone() };
            rt.spawn(keeping.run(rt.clone(), stop.clone()));
        }
        let leases = owner.once.leases.granted.as_ref()?.leases.clone();
        let bucket = JetStreamBucket::new(self.client, &self.set, owner.settings.cluster_lease_time());
        let (grants, worker, stop) = (owner.settings.grants, worker.clone(), stop.clone());
        Some(rt.spawn(Taking { leases, bucket, grants, found: self.found, worker, stop }.run(proof)))
    }
}

//! Several masters as one set: starts the links to the other members, and keeps the copies of what they share equal.
//!
//! Everything here is off without `cluster_id`. `worker` owns the model of the crate `share`, which decides; `actions` carries out
//! what it wants; `carrier` takes messages to the other members; `keys` compares key files with decisions, and `watch` tells when files change; `members` answers the carrier;
//! `commands` answers the runner `saltern`; `earlier` forgets member keys that this host had before it met others; `presence` knows
//! which minions are connected to which member, and `forward` has members deliver each other's jobs; `events` sends them events;
//! `drift` compares what is not shared, such as files and access control;
//! `once` decides which member runs what the set does once, by votes of the list in the file `voters` or as JetStream grants it
//! (`granted`, started by `jetstream`), and `kept` has JetStream keep what was decided for a master that meets nobody; `named` does so for programs,
//! and `held` stops runs whose lease is lost; `lease_sources` knows how each member takes leases; `lease_proof` tells the values of members in the lease bucket from those of
//! others, and `belonging` knows whether others take this master for a member; `restart` begins again after a bug; `room` waits for
//! room on the disk before the start;
//! `outgoing` takes what requests write to the job cache and the data cache, `jobs`, `data` and `tokens` make records of it and write
//! those of others to the caches, and `catch_up` shares what a crash or a full disk has left.

mod actions;
mod announced;
mod belonging;
mod carrier;
mod catch_up;
mod commands;
mod data;
mod drift;
mod earlier;
mod events;
mod figures;
mod forward;
mod granted;
mod held;
mod jetstream;
mod jobs;
mod kept;
mod keys;
mod lease_proof;
mod lease_sources;
mod log;
mod lost;
mod members;
mod named;
mod once;
mod pace;
mod presence;
mod restart;
pub mod room;
mod settings;
mod slots;
mod tokens;
mod unwritten;
mod voters;
mod watch;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ::keys::{KeyStore, SignInChanges};
use rt::Rt;
use share::event_copies::EventCopies;
use share::member::Role;
use share::{Class, Key, Model, Node, State};
use store::share::ShareFile;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::set_clock::Clock;
use carrier::SetCarrier;
use drift::DriftInbox;
use events::EventInbox;
use figures::Figures;
use forward::Inbox;
use jetstream::JetStream;
use jobs::Caches;
use members::MemberBook;
use presence::Fleet;
use settings::Settings;
use unwritten::{Tracked, Unwritten};
use watch::KeyWatch;
use worker::{Work, Worker};

use crate::other_masters::OtherMasters;
use crate::outgoing::Outgoing;
use crate::outgoing::key_log::{self, KeyLog};
use crate::set_requests::SetHandle;
use crate::{Error, Shared, Stores};

/// How many things may wait for the worker.
const QUEUE: usize = 4_096;

/// A running master that shares.
pub struct Sharing {
    others: SetLinks,
    handle: SetHandle,
    task: JoinHandle<()>,
    /// Takes the leases that servers grant.
    taken: Option<JoinHandle<()>>,
    stop: CancellationToken,
}

/// Takes jobs to the other members, and knows their minions.
#[derive(Clone)]
pub struct SetLinks {
    rt: Rt,
    node: Node,
    worker: mpsc::Sender<Work>,
    links: Arc<SetCarrier>,
    members: Arc<MemberBook>,
    fleet: Arc<Fleet>,
    held: Arc<held::Held>,
    copies: Arc<Mutex<EventCopies>>,
}

/// What a master that shares notes before it makes directories and answers requests.
pub struct Before {
    /// Where it notes what it does with keys at sign-ins.
    pub signed_in: Arc<SignInChanges>,
    /// The directories of keys that were there. Keys that are missing in others are lost and not deleted.
    directories: Vec<State>,
}

/// Returns what is noted before the start, if the master shares.
pub fn before_start(config: &config::Master, store: &KeyStore) -> Option<Before> {
    let shares = config.cluster.is_some();
    shares.then(|| Before { signed_in: Arc::default(), directories: keys::directories(store) })
}

/// Opens what takes the jobs and data that this master writes, if it shares them, and returns the files that name what an earlier
/// run has not shared.
///
/// # Errors
/// When the directory of the shared records cannot be written.
pub fn outgoing(stores: &Stores) -> Result<(Option<Outgoing>, Vec<PathBuf>), Error> {
    let opened = Outgoing::open(&stores.config, &stores.data);
    let opened = opened.map_err(|error| Error::NotSharing(error.to_string()))?;
    Ok(opened.map_or((None, Vec::new()), |(outgoing, left_over)| (Some(outgoing), left_over)))
}

/// Starts to share, if the options say so. `left_over` are the files that [`outgoing`] returned.
///
/// # Errors
/// When an option, the member key, the copy of the shared records or the port cannot be used.
pub async fn start(
    shared: &Arc<Shared>,
    before: Option<Before>,
    left_over: Vec<PathBuf>,
) -> Result<Option<Sharing>, Error> {
    let (config, rt) = (&shared.stores.config, &shared.stores.rt);
    let (Some(cluster), Some(before)) = (&config.cluster, before) else { return Ok(None) };
    let Before { signed_in, directories } = before;
    let settings = Settings::new(cluster, &shared.stores).await?;
    let key = ::keys::MemberKeyPath::of_master(config).load_or_create()?;
    let node = Node::of_key(&key.public());
    let fingerprint = crypto::fingerprint(&key.public(), crypto::HashType::Sha256);
    tracing::info!("the member key of this master has the fingerprint {fingerprint}");
    let cachedir = config.paths.cachedir.clone();
    let opened = rt.blocking(move || open(&cachedir, node));
    let opened = opened.await.map_err(|failure| Error::NotSharing(failure.to_string()))?;
    let (records, unwritten, arriving, arrived) = opened?;
    let jetstream = JetStream::connect(cluster, &settings, &key, records.path()).await?;
    let (last, unwritten, arriving) = (records.last_time(), Arc::new(unwritten), Arc::new(arriving));
    let records = Tracked::new(records, unwritten.clone(), arriving.clone());
    let caches = Caches::new(arriving, arrived.into_iter().collect(), left_over);
    let own = worker::own_member(&settings, key.public());
    let (worker, work) = mpsc::channel(QUEUE);
    let (handle, questions) = SetHandle::channel();
    let member_key = key.clone();
    let model = Model::new(key, records, settings.model, last);
    let clock = Arc::new(Clock::new(model.clock(), rt.clone()));
    let clock = shared.clock.get_or_init(|| clock).clone();
    let book = Arc::new(MemberBook::new(worker.clone(), settings.model.shared, Some(clock.clone())));
    if let Some(source) = settings.grants.source(cluster.once).filter(|_| settings.role != Role::Reader) {
        book.take_leases(source);
    }
    let (fleet, (inbox, jobs)) = (Arc::new(Fleet::new(node)), Inbox::new());
    let (event_inbox, arriving) = EventInbox::new();
    let (drift, drift_news) = DriftInbox::new();
    let around = (clock, caches, fleet.clone(), inbox.clone(), event_inbox.clone(), drift.clone());
    let mut owner = Worker::new(model, shared.clone(), settings, book.clone(), signed_in, unwritten, around);
    jetstream.iter().for_each(|jetstream| jetstream.prepare(&mut owner));
    // Watched before the files are compared, so that no change is missed.
    let watch = KeyWatch::new(rt, shared.stores.keys.store());
    let started = rt.blocking(move || {
        owner.start(own, &directories);
        owner
    });
    let mut owner = started.await.map_err(|failure| Error::NotSharing(failure.to_string()))?;
    let held = owner.once.held.clone();
    let (counts, notes) = (owner.model.counts(), owner.notes.clone());
    let (links, reports) = SetCarrier::start(rt.clone(), &owner.settings, member_key, book.clone()).await?;
    let links = Arc::new(links);
    links.set_addresses(&owner.addresses(&book.all()));
    owner.link(links.clone());
    let stop = CancellationToken::new();
    let taken = jetstream.and_then(|jetstream| jetstream.start(&owner, &worker, rt, &stop));
    let task = rt.spawn(worker::run(owner, work, questions, reports, watch, stop.clone()));
    let figures = Figures { rt: rt.clone(), node, links: links.clone(), members: book.clone(), counts, notes };
    shared.metrics.set.set(Box::new(figures));
    let others = SetLinks { rt: rt.clone(), node, worker, links, members: book, fleet, held, copies: Arc::default() };
    rt.spawn(presence::watch(shared.clone(), others.worker.clone(), stop.clone()));
    rt.spawn(drift::run(shared.clone(), others.clone(), drift, drift_news, stop.clone()));
    rt.spawn(forward::run(shared.clone(), others.clone(), inbox, jobs, stop.clone()));
    let patterns = cluster.events.clone();
    rt.spawn(events::run(shared.clone(), others.clone(), patterns, event_inbox, arriving, stop.clone()));
    Ok(Some(Sharing { others, handle, task, taken, stop }))
}

/// What lies on the disk of a member: the records, the keys that are not written yet, and the log of what is arriving with its content.
type OnDisk = (ShareFile, Unwritten, KeyLog, Vec<(Class, Key)>);

fn open(cachedir: &Path, node: Node) -> Result<OnDisk, Error> {
    let mut records = ShareFile::open(cachedir)?;
    earlier::forget_unmet(&mut records, node)?;
    let unwritten = Unwritten::open(records.path().with_file_name("unwritten"))?;
    let arriving = KeyLog::open(records.path().with_file_name("arriving")).map_err(not_sharing)?;
    let arrived = key_log::read(arriving.path(), 0, 4 * jobs::MOST_UNWRITTEN).map_err(not_sharing)?.0;
    Ok((records, unwritten, arriving, arrived))
}

fn not_sharing(error: std::io::Error) -> Error {
    Error::NotSharing(error.to_string())
}

impl Sharing {
    /// Returns what takes requests of programs to it.
    pub fn handle(&self) -> SetHandle {
        self.handle.clone()
    }

    /// Returns what takes jobs to other members.
    pub fn others(&self) -> Arc<dyn OtherMasters> {
        Arc::new(self.others.clone())
    }

    /// Says goodbye to the other members, and ends.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Some(Err(error)) = futures_util::future::OptionFuture::from(self.taken).await {
            tracing::error!("what takes leases failed: {error}");
        }
        self.others.links.stop().await;
        // What it began is written.
        if let Err(error) = self.task.await {
            tracing::error!("sharing failed: {error}");
        }
    }
}

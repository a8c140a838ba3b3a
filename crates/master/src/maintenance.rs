//! Periodic tasks of a master: rotates keys, cleans up, fires presence events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use event::Filter;
use keys::{DropFile, LiveKeys};
use rt::Rt;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};
use value::{Map, Value, map};
use wire::MinionId;

use crate::watch::DropFileWatch;
use crate::{Shared, channel_keys::Sessions, goodbye, renewal};

/// The tag of Salt's events about keys. Minions may fire longer ones that begin with it, such as `salt/keys`.
pub const KEY_TAG: &str = "salt/key";

/// Does what is due at each `loop_interval`, and urgent work at once, until told to stop.
pub async fn run(shared: Arc<Shared>, sessions: Arc<Sessions>, stop: CancellationToken) {
    let config = &shared.stores.config;
    // A timer with an interval of zero panics.
    let pause = config.jobs.loop_interval.max(Duration::from_secs(1));
    let mut tick = tokio::time::interval(pause);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Other processes such as `salt-key` change keys, too, and report it on the bus.
    let mut keys = shared.bus.subscribe(Filter::prefix(KEY_TAG));
    let mut drop_file = DropFileWatch::new(&shared.stores.rt, &config.paths.cachedir);
    let mut present = BTreeSet::new();
    let life = config.keys.publish_session;
    let mut rotation = Instant::now() + life.max(Duration::from_secs(1));
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            event = keys.next() => if let Some(event) = event && event.tag() == KEY_TAG {
                forget(&shared, &sessions, event.data()).await;
            },
            () = drop_file.changed() => {}
            () = tokio::time::sleep_until(rotation), if !life.is_zero() => {
                rotation = Instant::now() + life;
                rotate(&shared, Reason::Age(&stop)).await;
            }
            _ = tick.tick() => {
                clean(&shared).await;
                announce_presence(&shared, &mut present);
            }
        }
        if asked_to_rotate(&shared).await {
            // The age counts from here.
            rotation = Instant::now() + life;
            // The wish for a new key comes from the deletion of a minion's.
            rotate(&shared, Reason::LockOut).await;
        }
    }
}

/// Logs the accepted keys that cannot be parsed. Their minions are refused as if another key was accepted.
pub fn report_corrupt_keys(keys: &LiveKeys) {
    match keys.corrupt() {
        Ok(corrupt) => {
            for path in corrupt {
                error!(
                    "{} holds no RSA public key: the minion cannot sign in until it is deleted or replaced",
                    path.display()
                );
            }
        }
        Err(reason) => error!("failed to look for keys that cannot be used: {}", crate::chain(&reason)),
    }
}

/// Ends the session of a minion whose key was removed.
async fn forget(shared: &Arc<Shared>, sessions: &Sessions, event: &Map) {
    if !matches!(event.get_str("act"), Some("delete" | "rejected" | "denied")) {
        return;
    }
    let Some(id) = event.get_str("id").and_then(|id| MinionId::new(id).ok()) else { return };
    // The event may be older than a new key, and then the session is the new one's.
    if shared.stores.accepted_ids().contains(&id) {
        return;
    }
    goodbye::announce_removal(shared, &id).await;
    sessions.forget_minion(&id);
    shared.presence.forget(&id);
    shared.publisher.forget(&id);
}

async fn asked_to_rotate(shared: &Arc<Shared>) -> bool {
    let (cachedir, id) = (shared.stores.config.paths.cachedir.clone(), shared.stores.config.id.clone());
    // The file is removed before the key is replaced: a wish in between counts.
    let taken = blocking(&shared.stores.rt, move || keys::take_rotation_request(&cachedir, &id)).await;
    match taken {
        Some(Ok(DropFile::Request)) => {
            info!("Found dropfile with the wish for a new key, rotating");
            true
        }
        Some(Ok(DropFile::WrongMode)) => {
            error!("Found dropfile with incorrect permissions, ignoring...");
            false
        }
        Some(Err(failure)) => {
            warn!("failed to look for the drop file: {}", crate::chain(&failure));
            false
        }
        Some(Ok(DropFile::Nothing)) | None => false,
    }
}

/// Why the key of publications is replaced.
enum Reason<'a> {
    /// It has reached its age limit. The token stops the gradual replacement.
    Age(&'a CancellationToken),
    /// A minion must no longer be able to read publications.
    LockOut,
}

/// Creates a new key of publications.
async fn rotate(shared: &Arc<Shared>, reason: Reason<'_>) {
    info!("Rotating master AES key");
    match reason {
        Reason::Age(stop) => renewal::by_age(shared, stop).await,
        Reason::LockOut => renewal::at_once(shared).await,
    }
    // Salt's event, with its tag without a prefix.
    shared.fire("key", map! { "rotate_aes_key" => true });
    // In Salt, the ping makes minions sign in at once, and not at the next job.
    if shared.stores.config.keys.ping_on_rotate {
        debug!("Pinging all connected minions due to key rotation");
        let (shared, rt) = (shared.clone(), &shared.stores.rt);
        blocking(rt, move || crate::jobs::publish::publish_for_master(&shared, ping(&shared))).await;
    }
}

fn ping(shared: &Shared) -> Map {
    map! {
        "fun" => "test.ping", "arg" => Value::List(Vec::new()), "tgt" => "*", "tgt_type" => "glob", "ret" => "",
        "user" => shared.users.master_user(),
    }
}

async fn clean(shared: &Arc<Shared>) {
    let (shared, rt) = (shared.clone(), &shared.stores.rt);
    blocking(rt, move || {
        let (stores, now) = (&shared.stores, shared.stores.rt.now());
        let keep = stores.config.jobs.keep_jobs_seconds;
        // As in Salt, zero keeps jobs for ever.
        if !keep.is_zero() {
            report("old jobs", stores.jobs.clean(keep, now).map(drop));
            report("notes of who published", stores.publish_auth.clean(keep, now));
        }
        report("expired tokens", stores.tokens.clean(now).map(drop));
        shared.logins.owners.forget_expired(now);
        // Somebody may have deleted files of tokens.
        if let Some(outgoing) = &shared.outgoing {
            outgoing.tokens();
        }
        update_files(&shared);
        let accepted = u64::try_from(stores.accepted_ids().len()).unwrap_or(u64::MAX);
        daemon::check_open_files(accepted, stores.config.network.max_open_files);
        give_memory_back();
    })
    .await;
}

/// Returns memory to the system that the allocator has kept after large requests.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the allocator's only way to give memory back; it takes no pointer")]
fn give_memory_back() {
    // SAFETY: malloc_trim may be called at any time from any thread.
    unsafe { nix::libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn give_memory_back() {}

fn update_files(shared: &Shared) {
    match shared.stores.files.update_roots() {
        Ok(Some(update))
            if !update.is_empty() && shared.stores.config.raw.get("fileserver_events").is_some_and(Value::truthy) =>
        {
            shared.fire("salt/fileserver/roots/update", update.to_event());
        }
        Ok(_) => {}
        Err(failure) => warn!("failed to update the file server: {}", crate::chain(&failure)),
    }
}

fn report(what: &str, outcome: store::Result<()>) {
    if let Err(failure) = outcome {
        warn!("failed to remove {what}: {}", crate::chain(&failure));
    }
}

/// Fires events about which minions are connected, and which have connected or disconnected since the last call
/// (`presence_events`).
fn announce_presence(shared: &Shared, before: &mut BTreeSet<MinionId>) {
    if !shared.stores.config.events.presence_events {
        return;
    }
    let now: BTreeSet<MinionId> = shared.connected().into_iter().collect();
    let ids = |ids: Vec<&MinionId>| Value::List(ids.into_iter().map(Value::from).collect());
    let (new, lost) = (now.difference(before).collect::<Vec<_>>(), before.difference(&now).collect::<Vec<_>>());
    if !new.is_empty() || !lost.is_empty() {
        shared.fire("salt/presence/change", map! { "new" => ids(new), "lost" => ids(lost) });
    }
    shared.fire("salt/presence/present", map! { "present" => ids(now.iter().collect()) });
    *before = now;
}

async fn blocking<T: Send + 'static>(rt: &Rt, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let outcome = rt.blocking(work).await;
    outcome.inspect_err(|failure| error!("maintenance failed: {failure}")).ok()
}

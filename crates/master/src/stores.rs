//! The data that a master keeps on disk. Works without a running master: `salt-run` uses it, too.

use cache::{Cache, Part};
use config::Master;
use exec::Catalogue;
use files::{FileServer, Inbox};
use keys::{Bank, KeyStore, LiveKeys};
use rt::Rt;
use std::sync::Arc;
use std::time::Duration;
use store::Layout;
use store::jobs::JobCache;
use store::publish_auth::PublishAuth;
use store::sessions::SessionKeys;
use store::tokens::TokenStore;
use targeting::{Checker, Expected, MinionData, Needs, ReadAhead, TargetType, Unavailable};
use value::{Map, Value};
use wire::MinionId;

use crate::Error;

/// The master's files, and the options that concern them.
pub struct Stores {
    /// The options.
    pub config: Arc<Master>,
    /// Clock, randomness, network.
    pub rt: Rt,
    /// The minions' keys.
    pub keys: LiveKeys,
    /// Jobs and their returns.
    pub jobs: JobCache,
    /// Grains, pillar and mine of minions.
    pub data: Arc<Cache>,
    /// Tokens of users.
    pub tokens: TokenStore,
    /// Session keys of minions.
    pub sessions: SessionKeys,
    /// The minion that published each job.
    pub publish_auth: PublishAuth,
    /// The file server.
    pub files: FileServer,
    /// Files that minions push.
    pub inbox: Inbox,
    /// The functions that pillar files and runners may call.
    pub catalogue: Catalogue,
    /// Compiles pillar.
    pub pillar: pillar::Compiler,
    /// The repositories of the pillar.
    pub git_pillar: Arc<pillar::GitExternal>,
}

impl Stores {
    /// Opens everything below the configured directories.
    ///
    /// # Errors
    /// When an option has a value that cannot be used.
    pub fn open(config: Master, rt: Rt, catalogue: Catalogue) -> Result<Self, Error> {
        let cachedir = config.paths.cachedir.clone();
        let layout = Layout::default();
        let hash = config.keys.hash_type.parse().map_err(|_| Error::option("hash_type", &config.keys.hash_type))?;
        let git_pillar = Arc::new(pillar::GitExternal::of_master(&config)?);
        Ok(Stores {
            keys: LiveKeys::new(KeyStore::of_master(&config)),
            jobs: JobCache::of_master(&cachedir, hash, &config.jobs.master_job_cache),
            data: Arc::new(Cache::of_master(&config)?),
            tokens: TokenStore::new(&config.paths.token_dir, layout),
            sessions: SessionKeys::new(&cachedir, session_life(config.keys.publish_session)),
            publish_auth: PublishAuth::new(&cachedir),
            files: FileServer::new(&config.files, &config.raw, &cachedir)?,
            inbox: Inbox::new(&config.files, &cachedir),
            catalogue,
            pillar: pillar::Compiler::new(&config)?
                .with_world(pillar::world(catalogue, &config.raw))
                .with_external(git_pillar.clone()),
            git_pillar,
            config: Arc::new(config),
            rt,
        })
    }

    /// Returns the checker of targets and permissions.
    pub fn checker(&self) -> Checker<'_> {
        Checker::new(self, &self.config.nodegroups, self.config.jobs.minion_data_cache)
    }

    /// Returns the targets of a publication: accepted minions that match, and ids of a list that are not accepted. An
    /// invalid expression matches no minion.
    pub fn expect(&self, target: &Value, kind: TargetType, delimiter: &str) -> Expected {
        self.checker().expect(target, kind, delimiter).unwrap_or_else(|error| {
            log_unreadable_target(target, kind, &error);
            Expected::default()
        })
    }

    /// Returns the ids of accepted minions.
    pub fn accepted_ids(&self) -> Vec<MinionId> {
        match self.keys.list() {
            Ok(listing) => listing.ids(Bank::Accepted).to_vec(),
            Err(error) => {
                tracing::error!("failed to list the keys of minions: {error}");
                Vec::new()
            }
        }
    }
}

/// Logs that a target matches nobody, because it cannot be read or matched.
pub fn log_unreadable_target(target: &Value, kind: TargetType, error: &targeting::Error) {
    let target = target.to_string();
    // The expression comes from a client and may be as large as a request.
    let target = value::escape::brief(&target, 1024);
    tracing::error!("Failed matching available minions with {kind} pattern: {target}: {error}");
}

/// Returns the lifetime of a session key. If it were zero, each request would need a new key.
fn session_life(configured: Duration) -> Duration {
    configured.max(Duration::from_secs(1))
}

/// Reads cached data. Unreadable data is treated as absent, and logged.
fn cached(what: &str, id: &str, read: impl FnOnce(&MinionId) -> cache::Result<Option<Arc<Map>>>) -> Option<Arc<Map>> {
    let id = MinionId::new(id).ok()?;
    read(&id).unwrap_or_else(|error| {
        if !error.is_logged() {
            tracing::warn!(minion = %id, "failed to read the cached {what} of {id}: {error}");
        }
        None
    })
}

impl MinionData for Stores {
    fn accepted(&self) -> Vec<String> {
        self.accepted_ids().into_iter().map(String::from).collect()
    }

    fn cached(&self) -> Vec<String> {
        self.data.ids().unwrap_or_else(|error| {
            if !error.is_logged() {
                tracing::warn!("failed to list the minion data cache: {error}");
            }
            Vec::new()
        })
    }

    fn grains(&self, id: &str) -> Option<Arc<Map>> {
        cached("grains", id, |id| self.data.grains(id))
    }

    fn pillar(&self, id: &str) -> Option<Arc<Map>> {
        cached("pillar", id, |id| self.data.pillar(id))
    }

    fn batch(&self) -> Option<usize> {
        self.data.batch()
    }

    fn read_ahead(&self, ids: &[&str], needs: Needs) -> Result<ReadAhead, Unavailable> {
        let read = |part: Part| {
            self.data.read(part, ids).map_err(|error| {
                if !error.is_logged() {
                    tracing::warn!("failed to read the cached {} of minions: {error}", part.name());
                }
                Unavailable
            })
        };
        let grains = needs.grains.then(|| read(Part::Grains)).transpose()?;
        Ok(ReadAhead { grains, pillar: needs.pillar.then(|| read(Part::Pillar)).transpose()? })
    }
}

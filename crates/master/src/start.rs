//! Opens everything a master needs, in an order in which nothing is open too early: keys before ports, and ports before
//! the sockets by which local programs see that the master is running.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use channel::server::{Identity, MasterKeySignature, Server, Settings};
use config::{IpcMode, Master};
use event::{Bus, Endpoints, FormChoice, PlaceholderSocket, ServeOptions};
use keys::{MasterKeyOptions, MasterKeys};
use rt::Rt;
use tokio::sync::mpsc::Receiver;
use transport::{Introduction, RequestServer};
use wire::Command;
use wire::loads::{Abilities, Ability};

use crate::bounds::{WAITING_OF_ALL, WAITING_OF_ONE};
use crate::channel_keys::{Keys, Sessions};
use crate::presence::Presence;
use crate::{Error, LocalKeys, Shared, Start, Stores, Users, listen, plugins};

/// A master that has opened everything, but does not answer requests yet.
pub struct Started {
    pub shared: Arc<Shared>,
    pub sessions: Arc<Sessions>,
    pub requests: RequestServer,
    pub introductions: Option<Receiver<Introduction>>,
    pub drained: Option<Receiver<u64>>,
    pub bus: event::Server,
    pub returner_task: Option<crate::returner_queue::ReturnerTask>,
    pub placeholders: Vec<PlaceholderSocket>,
    /// What it needs to share, if it does.
    pub before_sharing: Option<crate::sharing::Before>,
    /// Files that name jobs and returns that an earlier run has not shared.
    pub left_over: Vec<PathBuf>,
}

/// Opens everything.
pub async fn start(from: Start, rt: Rt) -> Result<Started, Error> {
    let Start { config, keys: local_keys, keeper, catalogue } = from;
    plugins::warn(&config);
    warn_of_old_envelopes(&config);
    make_directories(&config)?;
    let stores = Arc::new(Stores::open(config, rt.clone(), catalogue)?);
    let config = &stores.config;
    let before_sharing = crate::sharing::before_start(config, stores.keys.store());
    stores.keys.store().prepare()?;
    let signed_in = before_sharing.as_ref().map(|before| before.signed_in.clone());
    let (keys, sessions) = (Arc::new(Keys::new(stores.clone(), signed_in)), Arc::new(Sessions::new(stores.clone())));
    // Before the ports: without its key, a master must not look alive.
    let channel = Server::new(settings(config, &rt)?, identity(config)?, keys.clone(), sessions.clone(), rt.clone());
    let users = Users::new(config, local_keys.unwrap_or_else(|| LocalKeys::prepare(config, &rt)));
    let logins = crate::logins::Logins::new(config, keeper)?;
    logins.renew_computers(&rt);
    let listed_users = !config.access.publisher_acl.is_empty() || !config.access.external_auth.is_empty();
    close_directories(config, listed_users);
    if listed_users {
        let_others_through(&[&config.paths.cachedir, &config.paths.sock_dir]);
    }
    let (requests, mut publisher) = listen::open(config, &rt).await?;
    // After the ports: a second master fails before it replaces the sockets of the first.
    let bus = Bus::new(rt, config.network.max_event_size);
    let served = event::serve(&bus, &endpoints(config), serve_options(config)?).await?;
    let placeholders = placeholders(config)?;
    let introductions = publisher.introductions();
    let drained = publisher.drained();
    let (outgoing, left_over) = crate::sharing::outgoing(&stores)?;
    let (returner_queue, returner_task) = crate::returner_queue::ReturnerQueue::new(&stores.config, &stores.rt);
    let shared = Arc::new(Shared {
        returner_queue,
        bus,
        channel: Arc::new(channel),
        presence: Presence::new(publisher.proven().clone()),
        publisher,
        open_jobs: crate::open_jobs::OpenJobs::new(&stores.config),
        order: crate::open_jobs::PublicationOrder::default(),
        announced: Default::default(),
        bounds: crate::bounds::Bounds::new(&stores.config),
        peers_waiting: crate::pool::Pool::of_requests(WAITING_OF_ONE, WAITING_OF_ALL),
        metrics: crate::metrics::Metrics::new(Command::ALL.iter().map(|command| command.name()), catalogue),
        users,
        logins,
        fleet_memory: Default::default(),
        sharing: Default::default(),
        others: Default::default(),
        clock: Default::default(),
        outgoing,
        jids: Mutex::default(),
        stores: stores.clone(),
    });
    // The keys exist before the shared state and must ask it who is connected.
    keys.attach(&shared);
    // Before any minion is connected, since the first ones ask for missed jobs.
    shared.open_jobs.restore(&stores);
    tracing::info!("Listening for requests on {}", requests.address());
    tracing::info!("Listening for subscribers on {}", shared.publisher.address());
    Ok(Started {
        shared,
        sessions,
        requests,
        introductions,
        drained,
        bus: served,
        returner_task,
        placeholders,
        before_sharing,
        left_over,
    })
}

fn make_directories(config: &Master) -> Result<(), Error> {
    let paths = &config.paths;
    let cached = ["jobs", "minions", "proc", "sessions", "syndics"].map(|name| paths.cachedir.join(name));
    let own = [paths.cachedir.clone(), paths.sock_dir.clone(), paths.token_dir.clone()];
    for directory in own.iter().chain(&cached) {
        store::disk::make_directory(directory)?;
    }
    Ok(())
}

/// Closes the directories that an earlier release, or Salt, left open. Users with permissions can still reach their
/// key and the bus.
fn close_directories(config: &Master, listed_users: bool) {
    let paths = &config.paths;
    let passages = [&paths.cachedir, &paths.sock_dir].map(|directory| (directory, listed_users));
    for (directory, through) in passages.into_iter().chain([(&paths.token_dir, false)]) {
        if let Err(error) = store::disk::close_to_others(directory, through) {
            tracing::warn!("{}", crate::chain(&error));
        }
    }
}

/// Lets users in `publisher_acl` traverse these directories, because their key and the bus are below.
fn let_others_through(directories: &[&Path]) {
    // Only passing, not listing: names of other files stay hidden.
    const THROUGH: u32 = 0o001;
    for directory in directories {
        let changed = std::fs::metadata(directory).and_then(|found| {
            let mode = found.permissions().mode();
            match mode & THROUGH {
                0 => rt::owned::set_mode(directory, mode & 0o7777 | THROUGH),
                _ => Ok(()),
            }
        });
        if let Err(error) = changed {
            let path = directory.display();
            tracing::warn!("Unable to set traversal permissions on {path} for publisher_acl users: {error}");
        }
    }
}

/// Warns about old protocol versions, which do not authenticate all requests.
fn warn_of_old_envelopes(config: &Master) {
    let least = config.keys.minimum_auth_version;
    if least < wire::envelope::CURRENT_VERSION {
        tracing::warn!(
            "minimum_auth_version is {least}: every accepted minion can read all that is said to minions of releases before \
             3006.12 and 3007.4, send returns and grains in their names, and send their requests again. Set it to 3 when \
             they are upgraded"
        );
    }
}

fn settings(config: &Master, rt: &Rt) -> Result<Settings, Error> {
    let keys = &config.keys;
    let algorithm = &keys.publish_signing_algorithm;
    let mut abilities = Abilities::all(config.raw.get_str("id").unwrap_or_default(), rt.nonce());
    // Minions would then refuse every unsigned publication.
    if !keys.sign_pub_messages {
        abilities = abilities.without(Ability::SignedPublications);
    }
    Ok(Settings {
        minimum_auth_version: keys.minimum_auth_version,
        request_server_ttl: i64::try_from(keys.request_server_ttl.as_secs()).unwrap_or(i64::MAX),
        publish_session: keys.publish_session,
        publish_port: config.network.publish_port,
        sign_pub_messages: keys.sign_pub_messages,
        publish_signing_algorithm: algorithm
            .parse()
            .map_err(|_| Error::option("publish_signing_algorithm", algorithm))?,
        abilities,
    })
}

fn identity(config: &Master) -> Result<Identity, Error> {
    let options = MasterKeyOptions::from(config);
    let keys = MasterKeys::load(&options)?;
    let signature = match (options.master_sign_pubkey, options.master_use_pubkey_signature) {
        (false, _) => MasterKeySignature::None,
        (true, false) => {
            let pair = options.sign_path()?.load_or_create(options.sign_options())?;
            MasterKeySignature::by(pair.private().clone())
        }
        (true, true) => match keys.pub_sig(crypto::Signature::default())? {
            Some(text) => MasterKeySignature::Stored(text),
            None => MasterKeySignature::None,
        },
    };
    let public_text = crypto::clean_key(keys.pair().public_text());
    Ok(Identity { key: keys.pair().private().clone(), public_text, signature })
}

fn endpoints(config: &Master) -> Endpoints {
    let network = &config.network;
    match network.ipc_mode {
        IpcMode::Ipc => Endpoints::master(&config.paths.sock_dir),
        IpcMode::Tcp => {
            Endpoints::tcp(network.tcp_master_pub_port, network.tcp_master_pull_port, network.ipv6.unwrap_or(false))
        }
    }
}

fn serve_options(config: &Master) -> Result<ServeOptions, Error> {
    let form = match config.raw.get_str("ipc_event_format") {
        Some(name) => name.parse().map_err(|_| Error::option("ipc_event_format", name))?,
        None => FormChoice::Auto,
    };
    let write_buffer = usize::try_from(config.network.ipc_write_buffer).unwrap_or(usize::MAX);
    Ok(ServeOptions { form, write_buffer })
}

/// Creates files that programs of Salt look for before they send anything.
fn placeholders(config: &Master) -> Result<Vec<PlaceholderSocket>, Error> {
    if config.network.ipc_mode == IpcMode::Tcp {
        return Ok(Vec::new());
    }
    let place = |name: &str| {
        let path = Path::join(&config.paths.sock_dir, name);
        PlaceholderSocket::create(&path).map_err(|source| Error::Socket { path, source })
    };
    ["publish_pull.ipc", "workers.ipc"].into_iter().map(place).collect()
}

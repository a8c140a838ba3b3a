//! What the options say about sharing.

use std::net::SocketAddr;
use std::time::Duration;

use config::{Cluster, Master};
use crypto::MemberKey;
use keys::{MasterKeyOptions, MasterKeys};
use links::{Credentials, Options, Secret};
use rt::Rt;
use share::member::Role;
use share::{Class, Classes};

use crate::{Error, listen};

/// The classes of records that are shared. All others come later.
const SHARED: [Class; 2] = [Class::Members, Class::Keys];

/// The settings of a master that shares.
pub struct Settings {
    pub cluster_id: String,
    /// The name of this member.
    pub name: String,
    pub role: Role,
    /// Where other members may be found.
    pub peers: Vec<String>,
    /// How others reach this member, if not as they see it.
    pub addresses: Vec<String>,
    pub model: share::Settings,
    listen: SocketAddr,
    credentials: Credentials,
    heartbeat: Duration,
    queue: usize,
}

impl Settings {
    /// Takes the options, and reads the keys that prove to others that this master belongs to the set.
    pub async fn new(cluster: &Cluster, config: &Master, rt: &Rt) -> Result<Settings, Error> {
        let texts = |all: &[config::MasterAddress]| all.iter().map(ToString::to_string).collect();
        let keep_jobs = config.jobs.keep_jobs_seconds.as_millis() as u64;
        Ok(Settings {
            cluster_id: cluster.id.clone(),
            name: MasterKeyOptions::from(config).short_id().to_owned(),
            role: Role::Master,
            peers: texts(&cluster.peers),
            addresses: texts(&cluster.addresses),
            model: share::Settings {
                keep_jobs,
                keep_tombstones: cluster.tombstones.as_millis() as u64,
                shared: shared_classes(),
            },
            listen: listen::address(config, rt, cluster.pool_port).await?,
            credentials: credentials(cluster, config)?,
            heartbeat: cluster.heartbeat,
            queue: cluster.queue_size,
        })
    }

    /// Returns the settings of the links.
    pub fn links(&self, key: MemberKey) -> Options {
        Options {
            cluster_id: self.cluster_id.clone(),
            name: self.name.clone(),
            role: self.role,
            key,
            listen: self.listen,
            addresses: self.addresses.clone(),
            credentials: self.credentials.clone(),
            heartbeat: self.heartbeat,
            queue: self.queue,
        }
    }
}

/// Returns the classes of records that this master shares.
pub fn shared_classes() -> Classes {
    let others: Vec<Class> = Class::ALL.into_iter().filter(|class| !SHARED.contains(class)).collect();
    Classes::without(&others)
}

/// With a secret nothing else counts, so no key is read then.
fn credentials(cluster: &Cluster, config: &Master) -> Result<Credentials, Error> {
    if let Some(secret) = &cluster.secret {
        return Ok(Credentials { secret: Some(Secret::new(secret.expose())), ..Credentials::default() });
    }
    let options = MasterKeyOptions::from(config);
    let master_key = Some(MasterKeys::load(&options)?.pair().private().clone());
    let sign_key = match options.master_sign_pubkey && options.sign_path()?.private().is_file() {
        true => Some(options.sign_path()?.load_or_create(options.sign_options())?.private().clone()),
        false => None,
    };
    Ok(Credentials { master_key, sign_key, ..Credentials::default() })
}

//! What the options say about sharing.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use config::{Cluster, ClusterRole, Master};
use crypto::MemberKey;
use keys::{MasterKeyOptions, MasterKeys};
use links::Options;
use peers::credentials::{Credentials, KeyFingerprint, Secret};
use rt::Rt;
use share::member::Role;
use share::votes::{LeaseStart, OncePolicy};
use share::{Class, Classes, Node};

use super::granted::Grants;
use crate::outgoing::{shares_data, shares_jobs};
use crate::{Error, Stores, listen};

/// The classes of records that are always shared.
const SHARED: [Class; 4] = [Class::Members, Class::Keys, Class::Token, Class::Claim];

/// Those that are shared if jobs are kept in a cache of this master.
const JOBS: [Class; 4] = [Class::Job, Class::Expected, Class::Return, Class::End];

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
    /// The operator has said how others reach this member.
    pub has_addresses: bool,
    /// A secret proves that a master belongs to the set.
    pub has_secret: bool,
    pub model: share::Settings,
    /// Who does what the set does once, if the members decide.
    pub once: OncePolicy,
    /// The servers of the bus, if masters are not linked with each other.
    pub bus: Option<config::bus::Bus>,
    /// Who decides on that.
    pub grants: Grants,
    /// The option `cluster_lease_time`, in milliseconds.
    pub lease_time: u64,
    listen: SocketAddr,
    credentials: Credentials,
    heartbeat: Duration,
    queue: usize,
}

impl Settings {
    /// Takes the options, and reads the keys that prove to others that this master belongs to the set.
    pub async fn new(cluster: &Cluster, stores: &Stores) -> Result<Settings, Error> {
        let (config, rt) = (&stores.config, &stores.rt);
        let texts = |all: &[config::MasterAddress]| all.iter().map(ToString::to_string).collect();
        if cluster.return_copies > 1 && !shares_jobs(config) {
            return Err(Error::NotSharing(
                "the option cluster_return_copies can be 2 only if this master keeps jobs itself (job_cache, ext_job_cache, \
                 master_job_cache): no other master gets the returns else"
                    .to_owned(),
            ));
        }
        let keep_jobs = config.jobs.keep_jobs_seconds.as_millis() as u64;
        let listen = listen::address(&cluster.interface, config, rt, cluster.pool_port).await?;
        Ok(Settings {
            cluster_id: cluster.id.clone(),
            name: MasterKeyOptions::from(&**config).short_id().to_owned(),
            role: match cluster.role {
                ClusterRole::Master => Role::Master,
                ClusterRole::Witness => Role::Witness,
                ClusterRole::Reader => Role::Reader,
            },
            peers: texts(&cluster.peers),
            addresses: match cluster.addresses.is_empty() {
                // On a bus nobody dials anybody.
                true if cluster.bus.is_some() => Vec::new(),
                true => own_addresses(listen),
                false => texts(&cluster.addresses),
            },
            has_addresses: !cluster.addresses.is_empty(),
            has_secret: cluster.secret.is_some(),
            model: share::Settings {
                keep_jobs,
                keep_tombstones: cluster.tombstones.as_millis() as u64,
                shared: shared_classes(stores, cluster.role),
            },
            once: super::once::policy(cluster.once),
            bus: cluster.bus.clone(),
            grants: Grants::of(cluster),
            lease_time: cluster.lease_time.as_millis() as u64,
            listen,
            credentials: credentials(cluster, config)?,
            heartbeat: cluster.heartbeat,
            queue: cluster.queue_size,
        })
    }

    /// Returns how the leases of this member start. `last` is the highest time of its stamps, `members` the number of members that it
    /// knows, `now` the time for its stamps.
    pub fn lease_start(&self, me: Node, last: u64, members: u64, now: u64, rt: &Rt) -> LeaseStart {
        // A member that has no stamps yet begins at the present as well: rounds of others far ahead of its own would not count.
        let is_newcomer = members <= 1 && (!self.peers.is_empty() || self.bus.is_some());
        let (round, seed) = (last.max(now << 16), rt.below(u64::MAX));
        // Members that vote beside what servers grant would grant it twice.
        let policy = if self.grants == Grants::Members { self.once } else { OncePolicy::Off };
        LeaseStart { me, policy, lease_time: self.lease_time, saved: None, is_newcomer, round, seed }
    }

    /// Returns the option `cluster_lease_time`.
    pub fn cluster_lease_time(&self) -> Duration {
        Duration::from_millis(self.lease_time)
    }

    /// Returns what proves to others that this master belongs to the set.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
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

    /// Returns the settings of this member on the bus.
    pub fn on_bus(&self, key: MemberKey, servers: &config::bus::Bus) -> bus::Options {
        bus::Options {
            cluster_id: self.cluster_id.clone(),
            name: self.name.clone(),
            role: self.role,
            key,
            addresses: self.addresses.clone(),
            credentials: self.credentials.clone(),
            heartbeat: self.heartbeat,
            queue: self.queue,
            servers: servers.shown(),
        }
    }
}

/// Returns the classes of records that this master shares. The tokens of a reader are its own.
fn shared_classes(stores: &Stores, role: ClusterRole) -> Classes {
    let (jobs, data) = (shares_jobs(&stores.config), shares_data(&stores.config, &stores.data));
    let is_shared = |class: &Class| match class {
        Class::Token if role == ClusterRole::Reader => false,
        Class::Data => data,
        class => SHARED.contains(class) || jobs && JOBS.contains(class),
    };
    let others: Vec<Class> = Class::ALL.into_iter().filter(|class| !is_shared(class)).collect();
    Classes::without(&others)
}

/// Returns where others may find this host, if nothing else is said: by its own name, and at the address of the option `interface`.
fn own_addresses(listen: SocketAddr) -> Vec<String> {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    // By this name each host finds itself.
    let name = name.filter(|name| !name.is_empty() && name != "localhost" && !name.starts_with("localhost."));
    let name = name.map(|name| format!("{name}:{}", listen.port()));
    // Where others see this master may be another interface, on which nothing listens.
    let interface = Some(listen).filter(|listen| !listen.ip().is_unspecified());
    name.into_iter().chain(interface.map(|listen| listen.to_string())).collect()
}

/// What documents show as a secret: whoever copies it has none.
const EXAMPLES: [&str; 2] = ["at least twenty characters", "put the output of openssl rand -hex 32 here"];

/// The least number of different characters of a secret. The output of `openssl rand -hex 32` has 14 or more.
const LEAST_DIFFERENT: usize = 10;

/// The least number of letters of a secret that has only one run of letters.
const LEAST_RUN: usize = 24;

/// Returns why a secret is refused. Whoever answers at an address in `cluster_peers` gets a proof by which it can try secrets
/// as fast as its processors compute hashes.
fn weakness(secret: &str) -> Option<&'static str> {
    let different: BTreeSet<char> = secret.chars().collect();
    let runs = secret.split(|character: char| !character.is_alphabetic()).filter(|run| !run.is_empty());
    // A word that is repeated is no second one.
    let runs: BTreeSet<String> = runs.map(str::to_lowercase).collect();
    let one_run = runs.len() <= 1 && runs.iter().all(|run| run.chars().count() < LEAST_RUN);
    match () {
        () if EXAMPLES.contains(&secret) => Some("it is an example that everybody can read"),
        () if different.len() < LEAST_DIFFERENT => Some("it has fewer than ten different characters"),
        () if one_run => Some("it has no more than one word before and after digits"),
        () => None,
    }
}

/// With a secret nothing else counts, so no key is read then.
fn credentials(cluster: &Cluster, config: &Master) -> Result<Credentials, Error> {
    let pinned = cluster.pinned.iter().copied().map(KeyFingerprint::from).collect();
    if let Some(secret) = &cluster.secret {
        if let Some(weakness) = weakness(secret.expose()) {
            return Err(Error::NotSharing(format!(
                "the option cluster_secret can be guessed: {weakness}. Use the output of 'openssl rand -hex 32'"
            )));
        }
        return Ok(Credentials { secret: Some(Secret::new(secret.expose())), pinned, ..Credentials::default() });
    }
    let options = MasterKeyOptions::from(config);
    let master_key = Some(MasterKeys::load(&options)?.pair().private().clone());
    let sign_key = match options.master_sign_pubkey && options.sign_path()?.private().is_file() {
        true => Some(options.sign_path()?.load_or_create(options.sign_options())?.private().clone()),
        false => None,
    };
    Ok(Credentials { secret: None, master_key, sign_key, pinned })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_that_listens_on_one_interface_is_looked_for_there() {
        let found = |listen: &str| own_addresses(listen.parse().unwrap());
        assert_eq!(found("10.0.0.1:4600").last().map(String::as_str), Some("10.0.0.1:4600"));
        assert_eq!(found("[fd00::1]:4600").last().map(String::as_str), Some("[fd00::1]:4600"));
        for all in ["0.0.0.0:4600", "[::]:4600"] {
            assert!(!found(all).contains(&all.to_owned()), "{all}");
        }
    }

    #[test]
    fn secrets_that_can_be_guessed_are_refused() {
        for weak in [
            "at least twenty characters",
            "password123password123",
            "Password-2026/password-2027",
            "aaaaaaaaaaaaaaaaaaaaaaaa",
            "passwordpasswordpassword",
            "saltproduction20261126!",
            "12345678901234567890123",
        ] {
            assert!(weakness(weak).is_some(), "{weak}");
        }
        for strong in [
            "5b0f9a2c7e41d836a1f0c9b2e87d4365f2a19c08b7e6d5430918273645aefbcd",
            "qLk3vTz8+Yw1Rb6NhJ0sXg==",
            "kquzvhwtyexbmrgaljdnpocfis",
            "four words that nobody knows",
        ] {
            assert_eq!(weakness(strong), None, "{strong}");
        }
    }
}

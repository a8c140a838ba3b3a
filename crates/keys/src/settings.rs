//! Key settings from the configuration.

use std::time::Duration;

use config::{Master, Minion};
use value::Value;

use crate::{
    AdmissionOptions, AutoKeyOptions, KeyError, KeyStore, ManagerOptions, MasterKeyOptions, Owner, PairOptions,
    PairPath, PendingLimits,
};

impl KeyStore {
    /// The keys of a master's minions: in `pki_dir`, in a cluster in `cluster_pki_dir`.
    pub fn of_master(settings: &Master) -> Self {
        // A master outside a cluster ignores the directory, as Salt does.
        let dir = settings.cluster.as_ref().map_or(&settings.paths.pki_dir, |cluster| &cluster.pki_dir);
        KeyStore::new(dir, Owner::of_user(&settings.user))
    }
}

impl From<&Master> for MasterKeyOptions {
    fn from(settings: &Master) -> Self {
        let keys = &settings.keys;
        MasterKeyOptions {
            pki_dir: settings.paths.pki_dir.clone(),
            id: settings.id.clone(),
            owner: Owner::of_user(&settings.user),
            keysize: keys.keysize,
            key_pass: keys.key_pass.clone(),
            master_sign_pubkey: keys.master_sign_pubkey,
            master_sign_key_name: keys.master_sign_key_name.clone(),
            signing_key_pass: keys.signing_key_pass.clone(),
            master_use_pubkey_signature: keys.master_use_pubkey_signature,
            master_pubkey_signature: keys.master_pubkey_signature.clone(),
        }
    }
}

impl From<&Master> for AutoKeyOptions {
    fn from(settings: &Master) -> Self {
        let minutes = settings.keys.autosign_timeout;
        AutoKeyOptions {
            auto_accept: settings.keys.auto_accept,
            decides: decides(settings),
            autosign_file: settings.paths.autosign_file.clone(),
            autoreject_file: settings.paths.autoreject_file.clone(),
            autosign_grains_dir: settings.paths.autosign_grains_dir.clone(),
            autosign_timeout: (minutes > 0).then(|| Duration::from_secs(minutes.saturating_mul(60))),
            permissive_pki_access: settings.paths.permissive_pki_access,
            user: settings.user.clone(),
        }
    }
}

impl From<&Master> for AdmissionOptions {
    fn from(settings: &Master) -> Self {
        AdmissionOptions {
            open_mode: settings.keys.open_mode && decides(settings),
            max_minions: limit(settings.keys.max_minions),
            max_pending: PendingLimits {
                all: limit(settings.keys.max_pending_keys),
                per_address: limit(settings.keys.max_pending_keys_per_address),
            },
            minimum_key_bits: settings.keys.minimum_key_bits,
        }
    }
}

/// Returns whether this master may accept and reject keys when minions sign in.
fn decides(settings: &Master) -> bool {
    settings.cluster.as_ref().is_none_or(|cluster| cluster.refuses_key_decisions().is_none())
}

/// Converts a limit of Salt's options, where 0 means no limit.
fn limit(most: usize) -> Option<usize> {
    Some(most).filter(|most| *most > 0)
}

impl TryFrom<&Master> for ManagerOptions {
    type Error = KeyError;

    fn try_from(settings: &Master) -> Result<Self, KeyError> {
        let keys = &settings.keys;
        let option = |name, value: &str| KeyError::Option { name, value: value.to_owned() };
        let algorithm = &keys.publish_signing_algorithm;
        Ok(ManagerOptions {
            master: MasterKeyOptions::from(settings),
            cachedir: settings.paths.cachedir.clone(),
            hash_type: keys.hash_type.parse().map_err(|_| option("hash_type", &keys.hash_type))?,
            rotate_aes_key: keys.rotate_aes_key,
            preserve_minion_cache: keys.preserve_minion_cache,
            preserve_minions: settings.raw.get("preserve_minions").is_some_and(Value::truthy),
            publish_signing_algorithm: algorithm.parse().map_err(|_| option("publish_signing_algorithm", algorithm))?,
        })
    }
}

impl PairPath {
    /// A minion's own pair: `minion.pem` and `minion.pub` in its `pki_dir`.
    pub fn of_minion(settings: &Minion) -> Self {
        PairPath { directory: settings.paths.pki_dir.clone(), name: "minion".to_owned() }
    }
}

impl PairOptions<'static> {
    /// The options of a minion's own pair.
    pub fn of_minion(settings: &Minion) -> Self {
        PairOptions { bits: settings.trust.keysize, passphrase: None, owner: Owner::of_user(&settings.user) }
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn options_get_their_meaning() {
        let settings = Master::from_options(map! {
            "root_dir" => "/tmp/x", "pki_dir" => "/tmp/x/pki", "id" => "salt_master", "user" => "root",
            "autosign_timeout" => 5, "max_minions" => 7,
            "hash_type" => "md5",
        })
        .unwrap();
        assert_eq!(MasterKeyOptions::from(&settings).short_id(), "salt");
        assert_eq!(KeyStore::of_master(&settings).dir(), std::path::Path::new("/tmp/x/pki"));
        assert_eq!(AutoKeyOptions::from(&settings).autosign_timeout, Some(Duration::from_secs(300)));
        assert_eq!(AdmissionOptions::from(&settings).max_minions, Some(7));
        assert_eq!(ManagerOptions::try_from(&settings).unwrap().hash_type, crypto::HashType::Md5);
    }

    #[test]
    fn zero_is_no_limit_and_nonsense_is_named() {
        let mut settings = Master::from_options(map! {
            "root_dir" => "/tmp/x", "autosign_timeout" => 0, "max_minions" => 0,
            "max_pending_keys" => 0,
        })
        .unwrap();
        assert_eq!(AutoKeyOptions::from(&settings).autosign_timeout, None);
        let admission = AdmissionOptions::from(&settings);
        assert_eq!((admission.max_minions, admission.max_pending.all), (None, None));
        assert_eq!((admission.max_pending.per_address, admission.minimum_key_bits), (Some(2_000), 2048));
        settings.keys.hash_type = "rot13".to_owned();
        let error = ManagerOptions::try_from(&settings).unwrap_err().to_string();
        assert!(error.contains("hash_type") && error.contains("rot13"), "{error}");
    }
}

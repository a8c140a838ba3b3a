//! The minion's id and key pair.

use std::sync::Arc;

use channel::client::MinionIdentity;
use keys::{PairOptions, PairPath};
use rt::Rt;
use wire::MinionId;

use crate::Error;

/// Returns the minion's id.
///
/// # Errors
/// When it is not usable.
pub fn id(config: &config::Minion) -> Result<MinionId, Error> {
    MinionId::new(config.id.as_str()).map_err(|error| Error::Id(error.to_string()))
}

/// Reads `minion.pem` and `minion.pub`, and creates them first if there are none.
///
/// # Errors
/// When the key pair can neither be read nor created.
pub async fn load(rt: &Rt, config: &config::Minion, id: MinionId) -> Result<Arc<MinionIdentity>, Error> {
    let (directory, bits) = (config.paths.pki_dir.clone(), config.trust.keysize);
    let failed = |doing: &'static str, reason: String| Error::Key {
        doing,
        path: config.paths.pki_dir.join("minion.pem").display().to_string(),
        reason,
    };
    let loading = rt.blocking(move || {
        store::disk::make_directory(&directory).map_err(|error| error.to_string())?;
        let pair = PairPath::new(directory, "minion").map_err(|error| error.to_string())?;
        let options = PairOptions { bits, passphrase: None, owner: keys::Owner::NOBODY };
        pair.load_or_create(options).map_err(|error| error.to_string())
    });
    let loaded = loading.await.map_err(|error| failed("read", error.to_string()))?;
    let pair = loaded.map_err(|reason| failed("read or make", reason))?;
    Ok(Arc::new(MinionIdentity::new(id, pair.private().clone())))
}

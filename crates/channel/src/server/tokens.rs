//! A cache of verified tokens.
//!
//! The token in each request is the word `salt`, encrypted with the minion's private key. The padding is not random, so
//! the same key always gives the same token. A verified token need not be verified again while the key is the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crypto::PublicKey;
use wire::MinionId;

/// The last valid token of each minion, with the key it was valid for.
#[derive(Default)]
pub struct VerifiedTokens(Mutex<KeysByMinion>);

type KeysByMinion = HashMap<MinionId, (Arc<PublicKey>, Vec<u8>)>;

impl VerifiedTokens {
    /// Returns whether the token proves that the sender has the private half of the key.
    pub fn verify(&self, id: &MinionId, key: &Arc<PublicKey>, token: &[u8]) -> bool {
        // The key is compared by identity: an exchanged key is another object, and its old token counts no more.
        let known = self.lock().get(id).is_some_and(|(known, good)| Arc::ptr_eq(known, key) && good == token);
        if known {
            return true;
        }
        let good = key.verify_tok(token);
        // Only valid ones are stored: strangers cannot fill the memory, and each minion has at most one.
        if good {
            self.lock().insert(id.clone(), (key.clone(), token.to_vec()));
        }
        good
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, KeysByMinion> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

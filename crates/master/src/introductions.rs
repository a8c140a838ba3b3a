//! Verifies introductions, in which subscribers over tcp say who they are.
//!
//! An introduction has no time and no nonce, so an attacker who has seen one can replay it. It names a connection, and
//! does not prove the address of the minion.

use std::sync::Arc;

use channel::server::Generation;
use tokio::sync::mpsc::Receiver;
use tracing::debug;
use transport::Introduction;
use value::Value;
use wire::MinionId;
use wire::envelope::Envelope;
use wire::msgpack::Decode;

use crate::Shared;

/// Names the connections of subscribers whose introduction is valid.
pub async fn attend(shared: Arc<Shared>, mut introductions: Receiver<Introduction>) {
    while let Some(introduction) = introductions.recv().await {
        let (shared, rt) = (shared.clone(), shared.stores.rt.clone());
        // Looking for the key may read a file.
        let checked = rt.blocking(move || {
            let peer = introduction.peer;
            match check(&shared, &introduction) {
                Ok(id) => introduction.accept(id),
                Err(reason) => debug!(%peer, "a subscriber stays unknown: {reason}"),
            }
        });
        // A panic concerns that subscriber alone.
        let _ = checked.await;
    }
}

/// Checks an introduction: a frame encrypted with the key of publications, with the id and its token.
fn check(shared: &Shared, introduction: &Introduction) -> Result<MinionId, String> {
    let Ok(Envelope::Sealed(sealed)) = &introduction.envelope else { return Err("it said something else".into()) };
    let aes = shared.channel.aes();
    let open = |key: Arc<Generation>| key.crypticle().open(&sealed.load, None, Decode::Default);
    // A subscriber may have connected just before the key changed.
    let opened = open(aes.current()).or_else(|failure| aes.previous().map_or(Err(failure), open));
    let load = opened.map_err(|error| error.to_string())?;
    let id = MinionId::try_from(load.get("id").unwrap_or(&Value::Null)).map_err(|error| error.to_string())?;
    let public = shared.stores.keys.accepted_key(&id).map_err(|error| error.to_string())?;
    let token = load.get("tok").and_then(Value::as_bytes);
    match public.zip(token) {
        // The key of publications is known to all minions; only the token proves which one this is.
        Some((public, token)) if public.verify_tok(token) => Ok(id),
        _ => Err(format!("{id} did not prove its key")),
    }
}

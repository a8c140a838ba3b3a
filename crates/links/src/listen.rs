//! Listening: takes connections, and bounds those of strangers.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rt::{Connection, Listener};

use crate::handshake::meet;
use crate::hub::Hub;
use crate::welcome::welcome;
use peers::failed::{Failed, PATIENCE};

/// The pause after an error that concerns the listener, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes connections for ever.
pub(crate) async fn accept(hub: Arc<Hub>, listener: Box<dyn Listener>) {
    loop {
        match listener.accept().await {
            Ok(connection) => {
                let address = connection.peer.ip();
                // Closed without a word: nothing is computed for whoever is one too many.
                if let Some(place) = Place::take(&hub, address) {
                    hub.rt.spawn(answer(place, connection));
                }
            }
            Err(error) => {
                tracing::warn!("failed to accept a connection of another master: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn answer(place: Place, connection: Connection) {
    let (hub, address) = (&place.hub, connection.peer);
    let linked = async {
        let met = meet(hub, connection, None, |_| {}).await?;
        hub.reserve(address.ip());
        welcome(hub, met).await
    };
    match tokio::time::timeout(PATIENCE, linked).await.unwrap_or(Err(Failed::Slow)) {
        Ok(()) | Err(Failed::Linked | Failed::Myself) => {}
        Err(failed) => hub.answered_in_vain(address.ip(), &failed),
    }
}

/// The place of a stranger among those that are served. It is free again when this is dropped.
struct Place {
    hub: Arc<Hub>,
    address: IpAddr,
}

impl Place {
    fn take(hub: &Arc<Hub>, address: IpAddr) -> Option<Place> {
        hub.enter(address).then(|| Place { hub: hub.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.hub.leave(self.address);
    }
}

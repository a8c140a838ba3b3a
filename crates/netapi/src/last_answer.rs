//! Whether the master answered a moment ago.

use tokio::time::Instant;

/// Whether the master answered, and when.
#[derive(Default)]
pub struct LastAnswer(pub tokio::sync::Mutex<Option<(Instant, bool)>>);

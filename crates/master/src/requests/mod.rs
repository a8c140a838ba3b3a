//! The requests that the master answers: one file per subject. [`commands`] has the handler of each command; [`wire::command`]
//! says what holds for all requests with it.

mod alive;
mod answer_room;
mod commands;
mod contained;
mod dispatch;
mod event;
mod fair_queue;
mod file;
pub mod functions;
mod guarded;
mod held;
mod lifo_queue;
mod mine;
mod missed;
mod opts;
mod peer;
mod peer_return;
mod pillar;
pub(crate) mod publish;
mod refusals;
mod resources;
mod return_;
mod revoke;
mod sharing;
mod sign_in;
mod status;
mod syndic;
mod token;
mod work_queue;

pub use dispatch::Dispatcher;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use value::{Map, Value};
use wire::MinionId;
use wire::loads::LoadError;

use crate::Shared;
use crate::logins::Login;

/// A request after decryption. `id` is the minion that sent it, as reliably as its release authenticates requests.
pub struct MasterRequest {
    /// The master.
    pub shared: Arc<Shared>,
    /// The minion. `None` for programs on this host, and for requests of old releases without a token.
    pub id: Option<MinionId>,
    /// The nonce of an encrypted request.
    pub nonce: Option<String>,
    /// The result of the login that the request asked for.
    pub login: Option<Login>,
    /// The fields.
    pub load: Map,
}

/// The result of a request.
pub enum Answer {
    /// This value; encrypted for minions, unencrypted for programs.
    Value(Value),
    /// This value, unencrypted even for a minion.
    Plain(Value),
    /// A pillar, encrypted for its minion alone.
    Pillar(Map),
    /// A value that is not available yet.
    Later(BoxFuture<'static, Value>),
    /// A value that is not available yet, and that nobody needs once the sender has gone.
    WhileAwaited(BoxFuture<'static, Value>),
    /// No answer, so that the sender retries.
    Silence,
}

impl<T: Into<Value>> From<T> for Answer {
    fn from(value: T) -> Self {
        Answer::Value(value.into())
    }
}

/// Handles one request. May block.
type Handler = fn(MasterRequest) -> Answer;

/// Reads the fields of a request. What is wrong with them is only logged: each command has its own answer to such a request.
fn read<T>(load: Map, from_map: fn(Map) -> Result<T, LoadError>) -> Option<T> {
    from_map(load).inspect_err(|error| tracing::debug!("a request is malformed: {error}")).ok()
}

/// Returns the empty map, Salt's answer to a request that it does not understand.
fn nothing() -> Answer {
    Map::new().into()
}

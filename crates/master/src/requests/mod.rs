//! What the master is asked: one file per request, the tables in [`sealed`] and [`clear`].

mod alive;
mod answer_room;
mod awaiting;
mod clear;
mod contained;
mod dispatch;
mod event;
mod fair_queue;
mod file;
pub mod functions;
mod held;
mod identified;
mod latest;
mod line;
mod mine;
mod missed;
mod opts;
mod peer;
mod peer_return;
mod pillar;
mod pool;
mod publish;
mod refusals;
mod resources;
mod return_;
mod revoke;
mod sealed;
mod sign_in;
mod status;
mod syndic;
mod token;

pub use dispatch::Dispatcher;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use value::{Map, Value};
use wire::MinionId;

use crate::Shared;

/// A request after decryption. `id` is the minion that sent it, as far as its release proves that.
pub struct Ask {
    /// The master.
    pub shared: Arc<Shared>,
    /// The minion. Absent for programs on this host, and for minions of old releases in requests without a token.
    pub id: Option<MinionId>,
    /// The nonce of an encrypted request.
    pub nonce: Option<String>,
    /// The fields.
    pub load: Map,
}

/// What a request comes to.
pub enum Answer {
    /// This value; sealed for minions, readable otherwise.
    Value(Value),
    /// This value, readable even for a minion.
    Plain(Value),
    /// A pillar, encrypted for its minion alone.
    Pillar(Map),
    /// A value that takes its time.
    Later(BoxFuture<'static, Value>),
    /// None: the sender is to try again.
    Silence,
}

impl<T: Into<Value>> From<T> for Answer {
    fn from(value: T) -> Self {
        Answer::Value(value.into())
    }
}

/// Handles one request. Called where it may block on the disk.
type Handler = fn(Ask) -> Answer;

/// The names of all commands.
pub fn commands() -> impl Iterator<Item = &'static str> {
    clear::TABLE.iter().chain(sealed::TABLE).map(|(name, _)| *name)
}

/// Finds the handler of a command.
fn handler(table: &[(&str, Handler)], cmd: &str) -> Option<Handler> {
    table.iter().find(|(name, _)| *name == cmd).map(|(_, handler)| *handler)
}

/// The empty map, Salt's answer to what it does not understand.
fn nothing() -> Answer {
    Map::new().into()
}

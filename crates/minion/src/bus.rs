//! The minion's own event bus: its addresses, and requests to the minion over it.

use std::time::Duration;

use event::{Endpoints, Filter, Remote, RemoteError};
use tracing::debug;
use value::Map;

use crate::Error;
use crate::machine::Machine;

/// Returns the address of the bus; with `ipc_mode: tcp`, the first pair of ports.
pub fn endpoints(config: &config::Minion) -> Endpoints {
    if config.network.ipc_mode == config::IpcMode::Tcp {
        return tcp(config, (config.network.tcp_pub_port.of(0), config.network.tcp_pull_port.of(0)));
    }
    let id = config.raw.get_str("hash_id").unwrap_or(&config.id);
    let kind = config.trust.hash_type.parse().unwrap_or_default();
    Endpoints::minion(&config.paths.sock_dir, &crypto::socket_hash(id, kind))
}

fn tcp(config: &config::Minion, (publish, pull): (u16, u16)) -> Endpoints {
    Endpoints::tcp(publish, pull, config.network.ipv6 == Some(true))
}

/// Returns all addresses of the bus. There is only one bus, for which the first pair of ports would be enough, but
/// programs that follow Salt's tutorials expect a pair of ports for each further master.
pub fn all_endpoints(config: &config::Minion, masters: usize) -> Result<Vec<Endpoints>, Error> {
    if config.network.ipc_mode != config::IpcMode::Tcp {
        return Ok(vec![endpoints(config)]);
    }
    let pairs = config.network.bus_ports(masters).map_err(Error::Ports)?;
    Ok(pairs.into_iter().map(|pair| tcp(config, pair)).collect())
}

/// The result of a request to the running minion.
pub enum QuestionOutcome {
    /// The answer.
    Answered(Map),
    /// There was no answer in time.
    Late,
    /// No minion is running.
    NoMinion,
}

/// Fires an event on the bus of the running minion, in this or another process, and waits for the answer.
///
/// # Errors
/// When the event is too large for the bus.
pub async fn ask(
    machine: &Machine,
    tag: &str,
    data: Map,
    answer: &str,
    patience: Duration,
) -> exec::Result<Option<Map>> {
    Ok(match question(machine, tag, data, answer, patience).await? {
        QuestionOutcome::Answered(answer) => Some(answer),
        QuestionOutcome::Late | QuestionOutcome::NoMinion => None,
    })
}

/// Does the same as [`ask`], and returns why there is no answer.
///
/// # Errors
/// When the event is too large for the bus.
pub async fn question(
    machine: &Machine,
    tag: &str,
    data: Map,
    answer: &str,
    patience: Duration,
) -> exec::Result<QuestionOutcome> {
    if machine.is_minion() {
        // Subscribed before the question is fired.
        let mut answers = machine.bus.subscribe(Filter::prefix(answer));
        machine.bus.fire(tag, data).map_err(|error| exec::Error::execution(error.to_string()))?;
        let answer = answers.next_within(patience).await;
        return Ok(answer.map_or(QuestionOutcome::Late, |event| QuestionOutcome::Answered(event.data().clone())));
    }
    Ok(match tokio::time::timeout(patience, ask_remote(machine, tag, data, answer)).await {
        Ok(Ok(answer)) => QuestionOutcome::Answered(answer),
        Ok(Err(reason)) => {
            debug!("there is no minion to ask: {reason}");
            QuestionOutcome::NoMinion
        }
        Err(_) => QuestionOutcome::Late,
    })
}

/// How long the bus of the running minion may take to accept an event.
const FIRE_PATIENCE: Duration = Duration::from_secs(5);

/// Fires an event on the bus of the running minion, in this or another process. Returns whether there is one.
///
/// # Errors
/// When the event is too large for the bus.
pub async fn fire(machine: &Machine, tag: &str, data: Map) -> exec::Result<bool> {
    // On our own bus as well: a function may be waiting for the event in this process.
    machine.bus.fire(tag, data.clone()).map_err(|error| exec::Error::execution(error.to_string()))?;
    if machine.is_minion() {
        return Ok(true);
    }
    let mut remote = Remote::new(machine.rt.clone(), endpoints(&machine.config));
    match tokio::time::timeout(FIRE_PATIENCE, remote.fire(tag, data)).await {
        Ok(Ok(())) => Ok(true),
        Ok(Err(reason)) => {
            debug!("there is no minion to hear of {tag}: {reason}");
            Ok(false)
        }
        Err(_) => Ok(false),
    }
}

async fn ask_remote(machine: &Machine, tag: &str, data: Map, answer: &str) -> Result<Map, RemoteError> {
    let mut remote = Remote::new(machine.rt.clone(), endpoints(&machine.config));
    let mut answers = remote.listen(Filter::prefix(answer)).await?;
    remote.fire(tag, data).await?;
    Ok(answers.next().await?.data().clone())
}

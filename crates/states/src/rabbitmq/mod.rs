//! States of the message broker RabbitMQ: `rabbitmq_user`, `rabbitmq_vhost` and so on, one file each.

pub mod cluster;
pub mod plugin;
pub mod policy;
pub mod upstream;
pub mod user;
pub mod vhost;

use exec::{Error, Result};
use value::{Map, Value};

use crate::Ret;
use crate::support::{caught, needs};

/// Checks that the functions of RabbitMQ are available.
fn installed(_grains: &Map) -> std::result::Result<(), String> {
    needs(&["rabbitmqctl"], "Command not found: rabbitmqctl")
}

/// Turns Salt's own errors into a failed result. Other errors are passed on.
fn failed(ret: Ret, error: Error) -> Result<Ret> {
    Ok(ret.fail(format!("Error: {}", caught(error)?.text)))
}

/// Takes the comment from the answer of a function, or fails with its error.
fn with_answer(ret: Ret, answer: &Value, name: &str) -> Ret {
    match answer.get("Error") {
        Some(error) => ret.fail(error.clone()),
        None => ret.ok(answer.get(name).cloned().unwrap_or_else(|| "".into())),
    }
}

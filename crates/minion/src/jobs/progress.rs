//! Reports parts of a result to the master before the return.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use value::{Value, map};

use crate::machine::Machine;
use crate::masters::Link;

/// How long the return of a job waits for events about parts of its result.
pub const LAST_PARTS: Duration = Duration::from_secs(2);

/// Fires an event at the master for each part of a result, in order, until the job ends.
pub async fn tell_progress(
    machine: Arc<Machine>,
    link: Arc<Link>,
    jid: String,
    mut parts: mpsc::UnboundedReceiver<Value>,
) {
    let mut number = 0;
    while let Some(part) = parts.recv().await {
        let (number, data) = match state_number(&part) {
            Some(run) => (run, part),
            None => {
                number += 1;
                (number - 1, map! { "return" => part }.into())
            }
        };
        let tag = format!("salt/job/{jid}/prog/{}/{number}", machine.id);
        let mut load = machine.event_load(&tag, data);
        // Only this master gets it. Masters of a set tell this by the missing prefix, and send it to the others.
        load.remove("pretag");
        link.tell(load).await;
    }
}

/// Returns the number of a state in its run, if this part is the result of one: `ret` and, as `len`, how many there are.
fn state_number(part: &Value) -> Option<i64> {
    part.get("len")?;
    part.get("ret")?.get("__run_num__")?.as_i64()
}

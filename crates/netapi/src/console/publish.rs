//! Jobs in batches. The console does not wait for their end, as a program that uses `local_batch` does.

use value::Map;

use super::view::View;
use crate::bus;
use crate::failure::Failure;
use crate::low::{self, Work};

/// Begins a job in batches, which this program goes on with. Returns its id when the first batch is published; `None` if no minion
/// answers.
///
/// # Errors
/// 403 when the user may not; when the size of batches cannot be read, the session has ended, or the master does not answer.
pub async fn in_batches(view: &View<'_>, mut command: Map, size: &str) -> Result<Option<String>, Failure> {
    command.insert("client", "local_batch");
    command.insert("batch", size);
    let (link, token) = (&view.api.link, view.caller.session.token.as_str());
    let clients = &view.api.options.clients;
    let mut command = low::read(command, Some(token), clients, "").map_err(super::view::forbidden_client)?;
    let jid = link.new_jid();
    if let Work::Batch(job, _) = &mut command.work {
        job.jid.clone_from(&jid);
    }
    // Before the job: its first event may come before anybody listens.
    let mut events = link.bus.subscribe().await?;
    let (api, name) = (view.api.clone(), jid.clone());
    let mut batches = view.api.spawn(async move {
        let ended = api.link.run(command).await;
        if let Err(failure) = &ended {
            tracing::warn!("the batches of the job {name} have ended early: {}", failure.message);
        }
        ended
    });
    let published = format!("salt/job/{jid}/new");
    loop {
        tokio::select! {
            biased;
            ended = &mut batches => return match ended {
                Ok(Ok(answers)) => Ok((!answers.is_empty()).then_some(jid)),
                Ok(Err(failure)) => Err(view.refused(failure).await?),
                Err(error) => {
                    tracing::error!("a job in batches has failed: {error}");
                    Err(Failure::unexpected())
                }
            },
            event = bus::next(&mut events) => match event {
                Some(event) if event.tag() == published => return Ok(Some(jid)),
                Some(_) => {}
                None => return Err(Failure::no_master()),
            },
        }
    }
}

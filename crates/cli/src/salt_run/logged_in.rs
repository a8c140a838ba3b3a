//! `salt-run -a`: runs a runner in the master, as the user who has logged in.

use std::time::Duration;

use client::{Error, LocalClient, Started};
use exec::Call;
use rt::Rt;
use runners::Outcome;
use value::{Map, Value};

use super::{Session, announce_tag, exit_code};
use crate::exit_codes;
use crate::login::{self, Plan};

/// How long to wait for a result, as in Salt.
const LIMIT: Duration = Duration::from_secs(300);

enum RunOutcome {
    /// The event with the result.
    Finished(Map),
    /// The runner, which goes on without this program.
    LeftRunning(Started),
}

/// Runs the function of a session.
pub(super) async fn run(session: &Session, plan: Plan, call: Call) -> anyhow::Result<u8> {
    let mut client = LocalClient::new(Rt::real(), client::settings::from_config(&session.ctx.config));
    match ask(session, &mut client, plan, call).await {
        Ok(RunOutcome::Finished(data)) => {
            let outcome = outcome(data);
            session.show(&outcome)?;
            Ok(exit_code(&outcome))
        }
        Ok(RunOutcome::LeftRunning(started)) => {
            announce_tag(&started.tag);
            Ok(exit_codes::OK)
        }
        Err(error @ (Error::Refused(_) | Error::Runner(_))) => {
            if !session.quiet {
                outputters::display(&error.to_string().into(), Some("nested"), &session.settings, 0)?;
            }
            if is_about_token(&error)
                && let Some(hint) = login::about_kept_token(&session.options, &session.ctx.config)
            {
                rt::complain!("{hint}, unless it lacks the permission");
            }
            Ok(exit_codes::GENERIC)
        }
        Err(error) => Err(error.into()),
    }
}

async fn ask(session: &Session, client: &mut LocalClient, plan: Plan, call: Call) -> Result<RunOutcome, Error> {
    let proof = login::proof_for_functions(plan, client).await?;
    client.set_proof(proof);
    if session.flag("async") {
        return client.start_runner(&session.function, call.args, call.kwargs).await.map(RunOutcome::LeftRunning);
    }
    let mut bus = client.listen_to_runners().await?;
    let started = client.start_runner(&session.function, call.args, call.kwargs).await?;
    client.runner_result(&mut bus, &started, LIMIT).await.map(RunOutcome::Finished)
}

/// Returns whether the master refused a token. As in Salt, its text is the same for a token that may not do this.
pub fn is_about_token(error: &Error) -> bool {
    matches!(error, Error::Refused(text) if text.contains("type \"token\""))
}

fn outcome(data: Map) -> Outcome {
    Outcome {
        ret: data.get("return").cloned().unwrap_or_default(),
        success: data.get("success").is_some_and(Value::truthy),
        retcode: data.get("retcode").and_then(Value::as_i64),
        // As in Salt, only the result itself can choose its outputter.
        out: None,
        data,
    }
}

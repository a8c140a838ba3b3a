//! `saltern wheel`: runs a wheel function in this process, for a minion on the master's host (`saltutil.wheel`).
//!
//! It reads its command line like `salt-run` and prints the whole event of the result as JSON, as a caller of Salt's
//! wheel client gets it. Salt has no such program.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use exec::Call;
use rt::Rt;
use runners::{Events, Kind, Request, RunnerContext, TABLES};
use value::Map;
use yaml::args::parse_input;

use crate::args::{self, Program};
use crate::catalogue::CATALOGUE;
use crate::prepare::{self, OnMaster};
use crate::{exit_codes, log_setup};

/// Runs the function that the words name.
pub fn main(words: Vec<String>) -> ExitCode {
    match ready(words).and_then(|prepared| run(prepared).map_err(|error| value::error::chain(error.as_ref()))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            rt::complain!("{}", value::escape::for_terminal(&text));
            ExitCode::from(exit_codes::GENERIC)
        }
    }
}

fn ready(words: Vec<String>) -> Result<OnMaster, String> {
    let parsed = args::parse(Program::SaltRun, words).map_err(|stop| format!("wrong command line: {stop:?}"))?;
    let prepared = prepare::on_master_as_client(Program::SaltRun, parsed);
    // The error has been printed already.
    let prepared = prepared.map_err(|_| "the master's configuration cannot be used".to_owned())?;
    log_setup::on_master(Program::SaltRun, &prepared.config);
    Ok(prepared)
}

fn run(prepared: OnMaster) -> Result<()> {
    let OnMaster { config, options, arguments } = prepared;
    let (function, words) = arguments.split_first().context("no function is given")?;
    // Before the user is changed and a job id is taken.
    TABLES.find(Kind::Wheel, function)?;
    let (args, kwargs) = parse_input(words.iter().map(String::as_str), &[]);
    daemon::switch_user(&config.user)?;
    let runtime = prepare::small_runtime().context("failed to start")?;
    let event = runtime.block_on(result(Arc::new(config), function, Call { args, kwargs }));
    Ok(outputters::display(&event.into(), Some("json"), &prepare::output_settings(&options), 0)?)
}

async fn result(config: Arc<config::Master>, function: &str, call: Call) -> Map {
    let events = Events::of_master(&config, Rt::real());
    let ctx = RunnerContext::new(config, Rt::real(), events, &TABLES, CATALOGUE);
    let (jid, user) = (runners::new_jid(&ctx).await, client::user::request_user());
    // The caller gets the result directly, so it need not be stored.
    let request = Request { store: false, ..Request::new(Kind::Wheel, function, call, jid, user) };
    runners::run(&ctx, request).await.data
}

//! `salt`: runs functions on minions and prints what they return.

mod batch;
mod docs;
mod hold;
pub mod job;
mod printer;
mod progress;
mod silence;
mod summary;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use client::{Error, LocalClient, Ticket};
use outputters::Settings;
use rt::Rt;
use value::{Map, Value};

use crate::args::{Parsed, Program};
use crate::prepare::{self, OnMaster};
use crate::terminal::{print, usage_error};
use crate::{args, exit_codes, hint, log_setup, login};
use job::{Incomplete, Job};
use printer::Printer;
pub use printer::Silence;
pub use silence::{MasterFiles, NOT_CONNECTED};

/// Runs the program.
pub fn main(parsed: Parsed) -> ExitCode {
    let about_config = parsed.settings.get("config_dump").is_some_and(Value::truthy);
    let few = parsed.arguments.len() <= 1;
    let enough = ["doc", "preview_target"].iter().any(|name| parsed.settings.get(name).is_some_and(Value::truthy));
    if few && !enough && !about_config {
        // Salt prints the help and then the error as well.
        print(&args::help::help(Program::Salt, 80));
    }
    let hold_asked = parsed.given.contains(&"job_hold");
    let prepared = match prepare::on_master_as_client(Program::Salt, parsed) {
        Ok(prepared) => prepared,
        Err(code) => return code,
    };
    log_setup::on_master(Program::Salt, &prepared.config);
    if about_config {
        return dump_config(&prepared);
    }
    if let Err(text) = login::check(&prepared.options) {
        return usage_error(Program::Salt, &text);
    }
    let job = match Job::new(&prepared.options, &prepared.arguments) {
        Ok(job) => job,
        Err(Incomplete::Usage(text)) => return usage_error(Program::Salt, &text),
        Err(missing) => {
            let text = missing.to_string();
            rt::complain!("{}", text.strip_suffix('\n').unwrap_or(&text));
            return ExitCode::from(missing.code());
        }
    };
    let hold = match hold::wished(&prepared.options, hold_asked) {
        Ok(hold) => hold,
        Err(error) => return usage_error(Program::Salt, &error.to_string()),
    };
    match run(prepared, job, hold) {
        Ok(code) => ExitCode::from(code),
        Err(error) => prepare::fail(Program::Salt, &error),
    }
}

/// Prints the configuration, without the flags of this run.
fn dump_config(prepared: &OnMaster) -> ExitCode {
    let source = config::Source { path: prepared.config.paths.conf_file.clone() };
    let load = config::LoadOptions { program: Program::Salt.name().into(), ..config::LoadOptions::default() };
    match config::Master::load(&source, &load) {
        Ok(mut plain) => {
            plain.raw.remove("config_dir");
            print(&yaml::dump(&plain.raw.into(), yaml::Flow::Block));
            ExitCode::SUCCESS
        }
        Err(error) => prepare::fail(Program::Salt, &error.into()),
    }
}

fn run(prepared: OnMaster, mut job: Job, hold: Duration) -> Result<u8> {
    if let Err(error) = job::resolve_nodegroups(&mut job, &prepared.config.nodegroups) {
        let file = prepared.config.paths.conf_file.display();
        let targeting::Error::Nodegroup { name, .. } = &error else { return Err(error.into()) };
        outputters::print_line(&format!("Node group {name} unavailable in {file}"))?;
        let known = prepared.config.nodegroups.keys().filter_map(Value::as_str);
        match hint::nearest(name, known) {
            Some(near) => rt::complain!("{error}. {}", hint::did_you_mean(near)),
            None => rt::complain!("{error}"),
        }
        return Ok(exit_codes::GENERIC);
    }
    // Before Ctrl-C is a matter of the runtime.
    let plan = match login::plan(&prepared.options, &prepared.config) {
        Ok(plan) => plan,
        Err(error) => return error.downcast::<login::Failed>().and_then(|failed| failed.print()),
    };
    let runtime = prepare::small_runtime().context("failed to start")?;
    let interrupted = Arc::new(OnceLock::new());
    runtime.block_on(async {
        let session = Session { plan: Some(plan), ..Session::new(prepared, job, hold, interrupted.clone()) };
        tokio::select! {
            code = session.run() => code,
            _ = tokio::signal::ctrl_c() => Ok(on_interrupt(interrupted.get(), hold)),
        }
    })
}

/// Prints how to look up a job whose returns are not awaited. As in Salt, the exit code is 0.
fn on_interrupt(jid: Option<&String>, hold: Duration) -> u8 {
    let mut text = "\nExiting gracefully on Ctrl-c".to_owned();
    if let Some(jid) = jid {
        text.push_str(&format!(
            "\nThis job's jid is: {jid}\nThe minions may not have all finished running and any remaining minions will \
             return upon completion. To look up the return data for this job later, run the following command:\n\n\
             salt-run jobs.lookup_jid {jid}"
        ));
        if !hold.is_zero() {
            text.push_str(&format!("\n\n{}", hold::left_behind(jid, hold)));
        }
    }
    rt::complain!("{text}");
    exit_codes::OK
}

/// A run of the program.
struct Session {
    prepared: OnMaster,
    job: Job,
    settings: Settings,
    client: LocalClient,
    /// How the user will prove who they are.
    plan: Option<login::Plan>,
    /// The time for which the master holds the job.
    hold: Duration,
    /// The job id, for the message after Ctrl-C.
    jid: Arc<OnceLock<String>>,
}

impl Session {
    fn new(mut prepared: OnMaster, job: Job, hold: Duration, jid: Arc<OnceLock<String>>) -> Self {
        // The highstate outputter uses the function's own arguments.
        prepared.options.insert("fun", job.function.clone());
        prepared.options.insert("arg", job.arguments.clone());
        let settings = prepare::output_settings(&prepared.options);
        let client = LocalClient::new(Rt::real(), client::settings::from_config(&prepared.config));
        Session { prepared, job, settings, client, plan: None, hold, jid }
    }

    fn flag(&self, name: &str) -> bool {
        self.prepared.options.get(name).is_some_and(Value::truthy)
    }

    fn int(&self, name: &str) -> i64 {
        match self.prepared.options.get(name) {
            Some(Value::Str(text)) => text.trim().parse().unwrap_or(0),
            Some(value) => value.as_f64().unwrap_or(0.0) as i64,
            None => 0,
        }
    }

    /// Returns how long to wait for returns; zero or less means the option `timeout`.
    fn timeout(&self) -> Duration {
        match self.prepared.options.get("timeout").and_then(Value::as_f64) {
            Some(seconds) if seconds > 0.0 => Duration::from_secs_f64(seconds.min(1e9)),
            _ => self.prepared.config.client.timeout,
        }
    }

    async fn run(mut self) -> Result<u8> {
        let known = MasterFiles::new(&self.prepared.config)?;
        if self.flag("preview_target") {
            let ids = match known.expected(&self.job, self.delimiter()) {
                Ok(ids) => ids,
                Err(error) => {
                    rt::complain!("{}", value::error::chain(error.as_ref()));
                    Vec::new()
                }
            };
            return self.show_list(ids);
        }
        if let Some(code) = self.log_in().await? {
            return Ok(code);
        }
        if self.flag("async") && self.batch_size().is_some() {
            anyhow::bail!("not supported: a batch that the master runs by itself (--async with --batch)");
        }
        if self.batch_size().is_some() || self.flag("static") {
            return self.run_batch(known).await;
        }
        let limit = self.int("batch_safe_limit");
        // One minion is not a batch: Salt's limit has an effect from 2 on.
        if limit > 1 && known.expected(&self.job, self.delimiter())?.len() as i64 >= limit {
            outputters::print_line("\nNOTICE: Too many minions targeted, switching to batch execution.")?;
            let size = self.prepared.options.get("batch_safe_size").map_or("8".into(), Value::to_string);
            self.prepared.options.insert("batch", size);
            return self.run_batch(known).await;
        }
        match self.run_job(known).await {
            Ok(code) => Ok(code),
            Err(error) => match error.downcast::<Error>() {
                Ok(refused) => self.refused(&refused),
                Err(other) => Err(other),
            },
        }
    }

    /// Gets the proof with which jobs are published. Returns the exit code if the master refuses it.
    async fn log_in(&mut self) -> Result<Option<u8>> {
        let Some(plan) = self.plan.take() else { return Ok(None) };
        match login::proof(plan, &self.client).await {
            Ok(proof) => {
                self.client.set_proof(proof);
                Ok(None)
            }
            Err(error) => self.refused(&error).map(Some),
        }
    }

    /// Prints why the master refused the job, in the place of a result.
    ///
    /// Salt often exits with 0 here. A command that did nothing should not look like a success.
    fn refused(&self, error: &Error) -> Result<u8> {
        outputters::display(&value::error::chain(error).into(), None, &self.settings, 1)?;
        let kept = login::about_kept_token(&self.prepared.options, &self.prepared.config);
        if let Some(hint) = kept.as_ref().filter(|_| is_about_login(error)) {
            rt::complain!("{hint}");
        }
        // A token counts without `-a` as well, and is refused with the same code.
        let logs_in = kept.is_some() || login::is_wanted(&self.prepared.options);
        Ok(match error {
            Error::Authentication | Error::Refused(_) if !logs_in => exit_codes::NO_RETURN,
            _ => exit_codes::GENERIC,
        })
    }

    fn show_list(&self, ids: Vec<String>) -> Result<u8> {
        let empty = ids.is_empty();
        outputters::display(&ids.into(), None, &self.settings, 0)?;
        Ok(if empty { say_no_return() } else { exit_codes::OK })
    }

    fn delimiter(&self) -> &str {
        self.prepared.options.get_str("delimiter").unwrap_or(targeting::DEFAULT_DELIMITER)
    }

    fn batch_size(&self) -> Option<String> {
        self.prepared.options.get("batch").filter(|size| size.truthy()).map(Value::to_string)
    }

    /// Returns the job with everything that the flags add to function and arguments.
    fn publication(&self) -> client::Job {
        let options = &self.prepared.options;
        let mut extra = Map::new();
        extra.insert("show_timeout", self.flag("show_timeout"));
        extra.insert("show_jid", self.flag("show_jid"));
        extra.insert("delimiter", self.delimiter());
        if self.flag("state_events") {
            // Saltern's minions then report each state, whatever their own option says.
            extra.insert("state_events", true);
        }
        for (flag, name) in [
            ("return_config", "ret_config"),
            ("return_kwargs", "ret_kwargs"),
            ("module_executors", "module_executors"),
            ("executor_opts", "executor_opts"),
            ("metadata", "metadata"),
            ("start_event", "start_event"),
        ] {
            if let Some(value) = job::flag_value(options, flag) {
                extra.insert(name, value);
            }
        }
        client::Job {
            target: self.job.target.clone(),
            target_type: self.job.target_type.clone(),
            function: self.job.function.clone(),
            arguments: self.job.arguments.clone(),
            returners: options.get_str("return").unwrap_or_default().to_owned(),
            jid: String::new(),
            options: extra,
            timeout: self.timeout().as_secs() as i64,
        }
    }

    async fn run_job(&mut self, known: MasterFiles) -> Result<u8> {
        let mut publication = self.publication();
        if !self.hold.is_zero() {
            // A master of Salt would send it to the connected minions and drop it.
            self.client.check_holds().await?;
            publication.options.insert("job_hold", self.hold.as_secs_f64());
        }
        if self.flag("async") {
            // Salt prints job id 0 when the target matched no minion.
            let jid = self.client.publish(&publication).await?.map_or_else(|| "0".to_owned(), |ticket| ticket.jid);
            if jid == "0" {
                outputters::print_line(NOBODY)?;
                known.explain(&self.job, self.delimiter());
            }
            outputters::print_line(&format!("Executed command with job ID: {jid}"))?;
            return Ok(exit_codes::OK);
        }
        // Before the job is published, or fast answers would be missed.
        let mut bus = self.client.listen().await?;
        let subset = self.int("subset");
        if subset > 0 {
            let ids = self.subset(&mut bus, &publication, subset as usize).await?;
            publication.target = ids.into();
            publication.target_type = "list".into();
        }
        let ticket = self.client.publish(&publication).await?;
        let relays = self.prepared.config.jobs.order_masters;
        // With `order_masters`, minions of lower masters may match that this one does not know.
        let Some(ticket) = ticket.filter(|ticket| relays || !ticket.minions.is_empty()) else {
            outputters::print_line(NOBODY)?;
            known.explain(&self.job, self.delimiter());
            return if self.job.single_function() == Some("sys.doc") {
                Ok(no_docs())
            } else {
                no_return(&self.settings)
            };
        };
        let _ = self.jid.set(ticket.jid.clone());
        self.announce(&ticket.jid)?;
        if self.job.single_function() == Some("sys.doc") {
            return self.run_docs(&mut bus, &ticket).await;
        }
        self.run_and_print(&mut bus, &ticket, known).await
    }

    fn announce(&self, jid: &str) -> Result<()> {
        if self.flag("verbose") {
            let line = format!("Executing job with jid {jid}");
            outputters::print_line(&format!("{line}\n{}\n", "-".repeat(line.len())))?;
        } else if self.flag("show_jid") {
            outputters::print_line(&format!("jid: {jid}"))?;
        }
        Ok(())
    }

    async fn run_and_print(&mut self, bus: &mut event::Listening, ticket: &Ticket, known: MasterFiles) -> Result<u8> {
        let silence = known.about(&ticket.jid);
        let mut printer = Printer::new(&self.settings, &silence, self.flag("show_timeout"));
        if self.flag("progress") {
            printer = printer.with_progress(ticket.minions.len());
        }
        if self.flag("progress") || self.flag("state_events") {
            printer = printer.with_steps();
        }
        let patience = client::settings::patience(&self.prepared.config, self.timeout());
        // A command that holds a job waits for its minions, not for the timeout.
        match &ticket.held {
            Some(held) => {
                if !held.away.is_empty() {
                    printer.show(client::Outcome::Waiting(held.away.clone()));
                }
                self.client.gather_held(bus, ticket, patience, |outcome| printer.show(outcome)).await?;
            }
            None => self.client.gather(bus, ticket, patience, |outcome| printer.show(outcome)).await?,
        }
        let (worst, summary) = printer.finish()?;
        if self.flag("progress") || (self.flag("cli_summary") && self.settings.output.is_none()) {
            outputters::print_line(&summary.text(self.flag("verbose")))?;
        }
        Ok(match worst {
            None => no_return(&self.settings)?,
            Some(0) => exit_codes::OK,
            Some(_) => {
                rt::complain!("ERROR: Minions returned with non-zero exit code");
                exit_codes::GENERIC
            }
        })
    }

    async fn run_docs(&mut self, bus: &mut event::Listening, ticket: &Ticket) -> Result<u8> {
        let patience = client::settings::patience(&self.prepared.config, self.timeout());
        let mut docs = docs::Docs::default();
        let mut answers = 0;
        let mut collect = |outcome| {
            if let client::Outcome::Answer(answer) = outcome {
                answers += 1;
                docs.add(answer.data.get("return").unwrap_or(&Value::Null));
            }
        };
        self.client.gather(bus, ticket, patience, &mut collect).await?;
        if answers == 0 {
            return Ok(no_docs());
        }
        docs.print(&self.settings)?;
        Ok(exit_codes::OK)
    }

    /// Picks random minions among those that have the function.
    async fn subset(&mut self, bus: &mut event::Listening, job: &client::Job, count: usize) -> Result<Vec<String>> {
        let question = client::Job { function: "sys.list_functions".into(), arguments: Vec::new(), ..job.clone() };
        let mut having = Vec::new();
        if let Some(ticket) = self.client.publish(&question).await? {
            let function = self.job.function.clone();
            let patience = client::settings::patience(&self.prepared.config, self.timeout());
            let collect = |outcome| {
                if let client::Outcome::Answer(answer) = outcome {
                    let functions = answer.data.get("return").and_then(Value::as_list);
                    if functions.is_some_and(|functions| functions.contains(&function)) {
                        having.push(answer.id);
                    }
                }
            };
            self.client.gather(bus, &ticket, patience, collect).await?;
        }
        let rt = Rt::real();
        // Shuffled first, or the fastest minions would always be picked.
        for place in (1..having.len()).rev() {
            having.swap(place, rt.below(place as u64 + 1) as usize);
        }
        having.truncate(count);
        Ok(having)
    }
}

/// Returns whether the master does not know who the user is, and has not only refused what they want.
fn is_about_login(error: &Error) -> bool {
    match error {
        Error::Authentication => true,
        Error::Refused(text) => text.starts_with("Authentication"),
        _ => false,
    }
}

const NOBODY: &str = "No minions matched the target. No command was sent, no jid was assigned.";

/// Reports that nothing was returned. Programs read the result on standard output: `{}` with `--out=json`.
fn no_return(settings: &Settings) -> Result<u8> {
    outputters::display(&Map::new().into(), None, settings, 0)?;
    Ok(say_no_return())
}

fn say_no_return() -> u8 {
    rt::complain!("ERROR: No return received");
    exit_codes::NO_RETURN
}

fn no_docs() -> u8 {
    rt::complain!("No minions found to gather docs from");
    exit_codes::NO_RETURN
}

//! `salt-cp`: copies files from the master's host to minions.

mod plan;

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::{LocalClient, Outcome, target_list};
use event::Listening;
use flate2::Compression;
use flate2::write::GzEncoder;
use rt::Rt;
use value::{Map, Value};

use crate::args::{self, Parsed, Program};
use crate::prepare::{self, OnMaster};
use crate::salt::job::{self, target_type};
use crate::salt::{MasterFiles, NOT_CONNECTED, Silence};
use crate::terminal::{print, usage_error};
use crate::{exit_codes, log_setup};
use plan::Plan;

/// Runs the program.
pub fn main(parsed: Parsed) -> ExitCode {
    if parsed.arguments.len() <= 1 {
        print(&args::help::help(Program::SaltCp, 80));
        return usage_error(Program::SaltCp, "Insufficient arguments");
    }
    let prepared = match prepare::on_master(Program::SaltCp, parsed) {
        Ok(prepared) => prepared,
        Err(code) => return code,
    };
    log_setup::on_master(Program::SaltCp, &prepared.config);
    let kind = match target_type(&prepared.options) {
        Ok(kind) => kind,
        Err(text) => return usage_error(Program::SaltCp, &text),
    };
    match run(prepared, kind) {
        Ok(()) => ExitCode::from(exit_codes::OK),
        Err(error) => match error.downcast_ref::<plan::Unusable>() {
            Some(unusable) => {
                rt::complain!("{unusable}");
                ExitCode::from(unusable.code())
            }
            None => {
                prepare::complain("salt-cp", &error);
                ExitCode::from(exit_codes::GENERIC)
            }
        },
    }
}

fn run(prepared: OnMaster, kind: &str) -> Result<()> {
    let runtime = prepare::small_runtime().context("failed to start")?;
    runtime.block_on(async {
        let (result, settings) = Copy::new(prepared, kind)?.run().await?;
        outputters::display(&result.into(), None, &settings, 0)?;
        Ok(())
    })
}

/// One run of the program.
struct Copy {
    prepared: OnMaster,
    client: LocalClient,
    job: client::Job,
    timeout: Duration,
}

impl Copy {
    fn new(prepared: OnMaster, kind: &str) -> Result<Self> {
        let target = &prepared.arguments[0];
        let target = if kind == "list" { target_list(target) } else { target.as_str().into() };
        let mut target = job::Job { target, target_type: kind.into(), ..job::Job::default() };
        job::resolve_nodegroups(&mut target, &prepared.config.nodegroups)?;
        let seconds = prepared.options.get("timeout").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0);
        let timeout =
            seconds.map_or(prepared.config.client.timeout, |seconds| Duration::from_secs_f64(seconds.min(1e9)));
        let delimiter = prepared.options.get_str("delimiter").unwrap_or(targeting::DEFAULT_DELIMITER);
        let job = client::Job {
            target: target.target,
            target_type: target.target_type,
            options: Map::from_iter([("delimiter", delimiter)]),
            timeout: timeout.as_secs() as i64,
            ..client::Job::default()
        };
        let client = LocalClient::new(Rt::real(), client::settings::from_config(&prepared.config));
        Ok(Copy { prepared, client, job, timeout })
    }

    async fn run(mut self) -> Result<(Map, outputters::Settings)> {
        let settings = prepare::output_settings(&self.prepared.options);
        let (sources, destination) = match self.prepared.arguments[1..].split_last() {
            Some((destination, sources)) if !sources.is_empty() => (sources.to_vec(), destination.clone()),
            _ => bail!("a source and a destination are needed"),
        };
        let chunked = self.prepared.options.get("chunked").is_some_and(Value::truthy);
        let mut bus = self.client.listen().await?;
        let result = if chunked {
            self.in_pieces(&mut bus, &Plan::of(&sources, &destination)?).await?
        } else {
            let files = plan::texts(&sources)?;
            let arguments = vec![files.into(), destination.into()];
            self.call(&mut bus, "cp.recv", arguments).await?
        };
        Ok((result, settings))
    }

    async fn in_pieces(&mut self, bus: &mut Listening, plan: &Plan) -> Result<Map> {
        let mut result = Map::new();
        for file in &plan.files {
            self.one_file(bus, file, &mut result).await?;
        }
        for directory in &plan.empty_directories {
            let arguments = vec![directory.as_str().into(), Value::Null];
            let answers = self.call(bus, "cp.recv_chunked", arguments).await?;
            note(&mut result, directory, answers);
        }
        Ok(result)
    }

    /// Sends a file piece by piece. Each minion's first failure is its result.
    async fn one_file(&mut self, bus: &mut Listening, file: &plan::Item, result: &mut Map) -> Result<()> {
        // A piece of 0 bytes would never end.
        let size = self.prepared.config.client.salt_cp_chunk_size.max(1);
        let gzip = self.prepared.options.get("gzip").is_none_or(Value::truthy);
        let mut source =
            File::open(&file.source).with_context(|| format!("failed to open {}", file.source.display()))?;
        let mut failed = Map::new();
        let mut index = 0;
        loop {
            let piece = read_piece(&mut source, size, &file.source)?;
            // A file whose size is a multiple of the piece ends with an empty piece.
            let last = piece.len() < size;
            let packed = if gzip { compress(&piece)? } else { piece };
            let arguments = vec![
                file.destination.as_str().into(),
                STANDARD.encode(packed).into(),
                // The first piece replaces an existing file, the others are appended.
                (index > 0).into(),
                gzip.into(),
                file.mode.into(),
            ];
            let answers = self.call(bus, "cp.recv_chunked", arguments).await?;
            // The publication was too large, or no minion matches any more.
            if answers.is_empty() {
                let part = if index > 0 { " File partially transferred." } else { "" };
                bail!(
                    "Publish failed.{part} It may be necessary to decrease salt_cp_chunk_size (current value: {size})"
                );
            }
            for (id, answer) in answers.iter().filter(|(_, answer)| **answer != Value::Bool(true)) {
                if failed.get_value(id).is_none() {
                    failed.insert(id.clone(), answer.clone());
                }
            }
            note(result, &file.destination, answers);
            index += 1;
            if last {
                break;
            }
        }
        note(result, &file.destination, failed);
        Ok(())
    }

    /// Runs a function on the targeted minions, and returns their results.
    async fn call(&mut self, bus: &mut Listening, function: &str, arguments: Vec<Value>) -> Result<Map> {
        let job = client::Job { function: function.into(), arguments, ..self.job.clone() };
        let Some(ticket) = self.client.publish(&job).await?.filter(|ticket| !ticket.minions.is_empty()) else {
            outputters::print_line("No minions matched the target. No command was sent, no jid was assigned.")?;
            return Ok(Map::new());
        };
        let silence = MasterFiles::new(&self.prepared.config)?.about(&ticket.jid);
        let patience = client::settings::patience(&self.prepared.config, self.timeout);
        let mut answers = Map::new();
        let collect = |outcome| match outcome {
            Outcome::Answer(answer) => {
                answers.insert(answer.id, answer.data.get("return").cloned().unwrap_or_default());
            }
            Outcome::Silent(ids) => {
                for id in ids {
                    if let Some(text) = silence.text(&id) {
                        answers.insert(id, text);
                    }
                }
            }
            Outcome::Away(away) => {
                answers.extend(away.into_iter().map(|it| (Value::from(it.id), Value::from(NOT_CONNECTED))));
            }
            // Copies are not held.
            Outcome::Step(_) | Outcome::Waiting(_) => {}
        };
        self.client.gather(bus, &ticket, patience, collect).await?;
        Ok(answers)
    }
}

/// Adds results about a path, grouped by minion.
fn note(result: &mut Map, path: &str, answers: Map) {
    for (id, answer) in answers {
        let minion = result.entry_or_insert_with(id, || Map::new().into());
        if let Some(minion) = minion.as_map_mut() {
            minion.insert(path, answer);
        }
    }
}

fn read_piece(source: &mut File, size: usize, path: &Path) -> Result<Vec<u8>> {
    let mut piece = Vec::new();
    source.take(size as u64).read_to_end(&mut piece).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(piece)
}

fn compress(piece: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(piece)?;
    Ok(encoder.finish()?)
}

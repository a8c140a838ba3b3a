//! `salt-call`: runs a function on this machine, as its minion would.

mod presentation;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use rt::Rt;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use value::{Map, Value, map};
use yaml::args::parse_cli_arg;

use crate::args::{self, Parsed, Program};
use crate::catalogue::CATALOGUE;
use crate::prepare::{self, OnMinion};
use crate::salt::job::{no_parse, read_arguments};
use crate::terminal::{print, usage_error};
use crate::{exit_codes, hint, log_setup};
use presentation::Presentation;

/// Runs the program.
pub fn main(mut parsed: Parsed) -> ExitCode {
    if let Err(text) = check(&parsed) {
        if parsed.arguments.is_empty() {
            print(&args::help::help(Program::SaltCall, 80));
        }
        return usage_error(Program::SaltCall, &text);
    }
    adjust(&mut parsed);
    let prepared = match prepare::on_minion(Program::SaltCall, parsed) {
        Ok(prepared) => prepared,
        Err(code) => return code,
    };
    log_setup::on_minion(Program::SaltCall, &prepared.config);
    if let Err(text) = refuse(&prepared.options) {
        return usage_error(Program::SaltCall, &text);
    }
    match run(prepared) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            prepare::complain("salt-call", &error);
            ExitCode::from(exit_code(&error))
        }
    }
}

/// Returns the exit code for an error. A user that does not exist has its own.
fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<daemon::Error>() {
        Some(daemon::Error::NoUser { .. }) => exit_codes::NO_USER,
        _ => exit_codes::GENERIC,
    }
}

fn flag(settings: &Map, name: &str) -> bool {
    settings.get(name).is_some_and(Value::truthy)
}

fn check(parsed: &Parsed) -> Result<(), String> {
    let (grains, doc) = (flag(&parsed.settings, "grains_run"), flag(&parsed.settings, "doc"));
    match parsed.arguments.len() {
        0 if !grains && !doc => Err("Requires function, --grains or --doc".into()),
        1.. if grains => Err("-g/--grains does not accept any arguments".into()),
        2.. if doc => Err("You can only get documentation for one method at one time".into()),
        _ => Ok(()),
    }
}

/// Translates flags into options.
fn adjust(parsed: &mut Parsed) {
    let local = flag(&parsed.settings, "local");
    let mut ignored = Vec::new();
    for (name, option, spelled) in
        [("file_root", "file_roots", "--file-root"), ("pillar_root", "pillar_roots", "--pillar-root")]
    {
        if let Some(roots) = parsed.settings.get(name).and_then(Value::as_list).map(absolute) {
            parsed.set(option, map! { "base" => roots }.into());
            ignored.push(spelled);
        }
    }
    if let Some(directories) = parsed.settings.get("states_dir").and_then(Value::as_list).map(absolute) {
        parsed.set("states_dirs", directories.into());
        ignored.push("--states-dir");
    }
    if let Some(text) = parsed.settings.get_str("module_executors").filter(|text| !text.is_empty()) {
        let executors = parse_cli_arg(text);
        parsed.set("module_executors", executors);
    }
    if local {
        parsed.set("file_client", "local".into());
    } else if !ignored.is_empty() {
        let verb = if ignored.len() == 1 { "is" } else { "are" };
        // The warning of Salt 3008, word for word.
        rt::complain!(
            "Warning: {} {verb} ignored because --local was not specified; the remote file client retrieves these from \
             the master. Re-run with --local to use the local override.",
            ignored.join(", ")
        );
    }
    // Empty values mean flags that were not given.
    for name in ["master", "id"] {
        if parsed.settings.get_str(name) == Some("") {
            parsed.settings.remove(name);
            parsed.given.retain(|given| *given != name);
        }
    }
}

fn absolute(paths: &[Value]) -> Vec<String> {
    let paths = paths.iter().filter_map(Value::as_str);
    let full =
        |path: &str| std::path::absolute(Path::new(path)).map_or(path.to_owned(), |path| path.display().to_string());
    paths.map(full).collect()
}

fn refuse(options: &Map) -> Result<(), String> {
    let refusals = [
        ("resources_dispatch", "-r/--resources (managed resources)"),
        ("proxyid", "--proxyid (proxy minions)"),
        ("profiling_enabled", "--enable-profiling (use a profiler of the system)"),
    ];
    match refusals.iter().find(|(name, _)| flag(options, name)) {
        Some((_, what)) => Err(format!("not supported: {what}")),
        None => Ok(()),
    }
}

fn run(prepared: OnMinion) -> Result<u8> {
    if prepared.options.get("module_dirs").is_some_and(Value::truthy) {
        tracing::warn!("-m/--module-dirs: modules written in Python are not loaded");
    }
    if flag(&prepared.options, "doc") {
        return docs(&prepared);
    }
    // First: what a call writes to the caches must belong to the minion's user.
    daemon::switch_user(&prepared.config.user)?;
    // Functions may block, so they do not share their thread with the connection to the master.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(crate::prepare::STACK)
        .max_blocking_threads(crate::prepare::JOB_THREADS)
        .on_thread_start(rt::umask::start_thread)
        .enable_all()
        .build()
        .context("failed to start")?;
    if flag(&prepared.options, "grains_run") {
        return grains(&prepared);
    }
    let OnMinion { config, options, arguments } = prepared;
    let (function, words) = arguments.split_first().context("no function is given")?;
    let keep = no_parse(&options);
    let keep: Vec<&str> = keep.iter().map(String::as_str).collect();
    let request = minion::Request {
        fun: function.clone(),
        arg: read_arguments(words, &keep),
        words: words.to_vec(),
        return_event: !flag(&options, "no_return_event"),
        metadata: set_metadata(&options),
        grains: !flag(&options, "skip_grains"),
        stop: CancellationToken::new(),
    };
    if function.starts_with("state.") {
        // Starting takes other code than states do.
        daemon::map_only_what_is_used();
    }
    let answer = runtime.block_on(unless_stopped(config, request));
    // Neither a function that blocks nor the look-up of the name of a dead master is waited for.
    runtime.shutdown_background();
    if function.starts_with("state.") {
        // Nor does printing their results.
        daemon::map_only_what_is_used();
    }
    match answer? {
        Some(answer) => show(&options, function, words, answer),
        None => Ok(exit_codes::OK),
    }
}

/// Returns the metadata of `--set-metadata`.
fn set_metadata(options: &Map) -> Option<Value> {
    options.get_str("metadata").filter(|text| !text.is_empty()).map(parse_cli_arg)
}

/// How long a cancelled function may take to end its commands.
const STOPPING: Duration = Duration::from_secs(1);

/// Runs a function. Ctrl-C or SIGTERM ends it and the commands it started; then there is no answer.
async fn unless_stopped(config: config::Minion, request: minion::Request) -> Result<Option<minion::Answer>> {
    let stop = request.stop.clone();
    // Before the function starts, or the signal would end this program and leave its commands behind.
    let mut terminated = signal(SignalKind::terminate()).context("failed to watch for SIGTERM")?;
    let mut call = std::pin::pin!(minion::call(config, CATALOGUE, Rt::real(), request));
    tokio::select! {
        answer = &mut call => return Ok(Some(answer?)),
        _ = terminated.recv() => {}
        _ = tokio::signal::ctrl_c() => rt::complain!("\nExiting gracefully on Ctrl-c"),
    }
    stop.cancel();
    // Its result is no longer needed.
    let _ = tokio::time::timeout(STOPPING, call).await;
    Ok(None)
}

fn show(options: &Map, function: &str, words: &[String], answer: minion::Answer) -> Result<u8> {
    let mut options = options.clone();
    options.insert("fun", function);
    let settings = prepare::output_settings(&options);
    let code = match Presentation::of(function, &answer, || usage(function)) {
        Presentation::Complaint { text, usage, code } => {
            rt::complain!("{}", value::escape::for_terminal(&text));
            if let Some(hint) = hint::of_text(&text) {
                rt::complain!("{hint}");
            }
            if let Some(usage) = usage {
                outputters::print_line(&usage)?;
            }
            return Ok(code);
        }
        Presentation::Result(code) => code,
    };
    let retcode = answer.retcode;
    let mut hints = hint::Hints::default();
    if retcode != 0 {
        hints.look(&answer.value);
    }
    let (result, out) = if flag(&options, "print_metadata") {
        (metadata(function, words, answer, set_metadata(&options)), Some("nested".to_owned()))
    } else {
        (answer.value, answer.out)
    };
    // With `--out=highstate` a function that asks for nothing is not taken for a run of states.
    let out = out.as_deref().unwrap_or("nested");
    outputters::display(&map! { "local" => result }.into(), Some(out), &settings, retcode)?;
    hints.say();
    Ok(if flag(&options, "retcode_passthrough") { retcode as u8 } else { code })
}

/// Returns the documentation of a function, even if its module does not work here.
fn usage(name: &str) -> String {
    let (module, function) = name.split_once('.').unwrap_or((name, ""));
    let mut known = modules::ALL.iter().filter(|known| known.name == module);
    known.find_map(|known| known.function(function)).map_or_else(String::new, |known| known.doc.to_owned())
}

/// Returns what `--metadata` prints besides the result.
fn metadata(function: &str, words: &[String], answer: minion::Answer, given: Option<Value>) -> Value {
    let mut entry = map! {
        "jid" => answer.jid.as_str(),
        "return" => answer.value,
        "retcode" => answer.retcode,
    };
    if let Some(out) = &answer.out {
        entry.insert("out", out.as_str());
    }
    entry.insert("id", answer.id.as_str());
    entry.insert("fun", function);
    entry.insert("fun_args", words.to_vec());
    if let Some(given) = given {
        entry.insert("metadata", given);
    }
    entry.into()
}

fn grains(prepared: &OnMinion) -> Result<u8> {
    let grains = grains::collect(&prepared.config.raw);
    let settings = prepare::output_settings(&prepared.options);
    outputters::display(&map! { "local" => grains }.into(), Some("grains"), &settings, 0)?;
    Ok(exit_codes::OK)
}

fn docs(prepared: &OnMinion) -> Result<u8> {
    let config = &prepared.config;
    let registry = CATALOGUE.registry(&grains::collect(&config.raw), &config.raw, &config.jobs.providers);
    let wanted = prepared.arguments.first().map_or("", String::as_str);
    for (module, function) in registry.functions() {
        let name = format!("{module}.{}", function.name);
        if name.starts_with(wanted) && !function.doc.is_empty() {
            let doc = function.doc.lines().map(|line| format!("    {line}\n")).collect::<String>();
            outputters::print_line(&format!("{name}:\n\n{doc}    \n"))?;
        }
    }
    Ok(exit_codes::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_does_not_exist_has_an_exit_code_of_its_own() {
        let nobody = daemon::switch_user("no-such-user-here").unwrap_err();
        assert_eq!(exit_code(&nobody.into()), 67);
        assert_eq!(exit_code(&anyhow::anyhow!("other")), 1);
    }
}

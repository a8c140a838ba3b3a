//! `salt-run`: runs a runner in this process, and reports to the master's event bus. For a user who logs in, the runner runs
//! in the master.

pub mod logged_in;

use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use exec::{Call, bind};
use rt::Rt;
use runners::{Events, Kind, Outcome, RUNNERS, Request, RunnerContext, Sink, TABLES};
use value::{Map, Value, map};
use wire::Jid;
use yaml::args::{condition_input, parse_input};

use crate::args::{Parsed, Program};
use crate::catalogue::CATALOGUE;
use crate::prepare::{self, OnMaster};
use crate::salt::job::no_parse;
use crate::terminal::usage_error;
use crate::{exit_codes, hint, log_setup, login};

/// The time that work on other threads gets to end.
const GRACE: Duration = Duration::from_secs(1);

/// Runs the program.
pub fn main(parsed: Parsed) -> ExitCode {
    let doc = parsed.settings.get("doc").is_some_and(Value::truthy);
    if doc && parsed.arguments.len() > 1 {
        return usage_error(Program::SaltRun, "You can only get documentation for one method at one time");
    }
    // The id becomes part of paths in the job cache.
    if let Some(jid) = parsed.settings.get_str("jid").filter(|jid| !Jid::is_valid(jid)) {
        return usage_error(Program::SaltRun, &format!("'{jid}' is not a valid JID"));
    }
    let prepared = match prepare::on_master_as_client(Program::SaltRun, parsed) {
        Ok(prepared) => prepared,
        Err(code) => return code,
    };
    log_setup::on_master(Program::SaltRun, &prepared.config);
    if let Err(text) = login::check(&prepared.options) {
        return usage_error(Program::SaltRun, &text);
    }
    match run(prepared) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            prepare::complain("salt-run", &error);
            let status = error.downcast_ref::<daemon::Error>().map_or(1, daemon::Error::exit_status);
            ExitCode::from(u8::try_from(status).unwrap_or(exit_codes::GENERIC))
        }
    }
}

fn run(mut prepared: OnMaster) -> anyhow::Result<u8> {
    if prepared.options.get("profiling_enabled").is_some_and(Value::truthy) {
        anyhow::bail!("not supported: --enable-profiling (use a profiler of the system)");
    }
    let function = prepared.arguments.first().cloned().unwrap_or_default();
    prepared.options.insert("fun", function.as_str());
    let settings = prepare::output_settings(&prepared.options);
    if prepared.options.get("doc").is_some_and(Value::truthy) {
        return docs(&function, &settings);
    }
    let logs_in = login::is_wanted(&prepared.options);
    if !logs_in {
        // Files that a runner writes must belong to the master's user.
        daemon::switch_user(&prepared.config.user)?;
    }
    let mut session = Session::new(prepared, settings, function);
    let call = session.call();
    let checked = session.check(&call);
    if logs_in && checked.is_ok() {
        // Before Ctrl-C is a matter of the runtime.
        session.plan = match login::plan(&session.options, &session.ctx.config) {
            Ok(plan) => Some(plan),
            Err(error) => return error.downcast::<login::Failed>().and_then(|failed| failed.print_as_refusal()),
        };
    }
    let runtime = prepare::small_runtime().context("failed to start")?;
    let code = runtime.block_on(async {
        tokio::select! {
            code = session.run(call, checked) => code,
            _ = tokio::signal::ctrl_c() => {
                rt::complain!("\nExiting gracefully on Ctrl-c");
                Ok(exit_codes::OK)
            }
        }
    });
    // The functions of an orchestration get a short time to end.
    runtime.shutdown_timeout(GRACE);
    code
}

fn docs(wanted: &str, settings: &outputters::Settings) -> anyhow::Result<u8> {
    for (name, doc) in runners::docs(RUNNERS, wanted) {
        outputters::display(&format!("{name}:").into(), Some("text"), settings, 0)?;
        outputters::print_line(&doc.to_string())?;
    }
    Ok(exit_codes::OK)
}

struct Session {
    options: Map,
    words: Vec<String>,
    settings: outputters::Settings,
    quiet: bool,
    function: String,
    ctx: RunnerContext,
    /// How the user will log in, if they want to.
    plan: Option<login::Plan>,
}

impl Session {
    fn new(prepared: OnMaster, settings: outputters::Settings, function: String) -> Self {
        let OnMaster { config, options, arguments } = prepared;
        let quiet = options.get("quiet").is_some_and(Value::truthy);
        let config = Arc::new(config);
        let events = Events::of_master(&config, Rt::real());
        let screen = Screen { settings: settings.clone(), quiet };
        let ctx = RunnerContext::new(config, Rt::real(), events, &TABLES, CATALOGUE).watched(Arc::new(screen));
        let words = arguments.into_iter().skip(1).collect();
        Session { words, options, settings, quiet, function, ctx, plan: None }
    }

    fn flag(&self, name: &str) -> bool {
        self.options.get(name).is_some_and(Value::truthy)
    }

    /// Reads the arguments.
    fn call(&self) -> Call {
        let keep = no_parse(&self.options);
        let keep: Vec<&str> = keep.iter().map(String::as_str).collect();
        let (args, kwargs) = parse_input(self.words.iter().map(String::as_str), &keep);
        Call { args, kwargs }
    }

    async fn run(mut self, call: Call, checked: Result<(), String>) -> anyhow::Result<u8> {
        if let Some(plan) = self.plan.take() {
            return logged_in::run(&self, plan, call).await;
        }
        let jid = match self.options.get_str("jid") {
            Some(jid) => jid.to_owned(),
            None => runners::new_jid(&self.ctx).await,
        };
        if let Err(text) = checked {
            return self.refuse(&jid, call, &text).await;
        }
        if self.flag("async") {
            // The child has the same id, under which the events can be found.
            return self.leave_running(&jid);
        }
        if self.flag("show_jid") {
            outputters::print_line(&format!("jid: {jid}"))?;
        }
        let user = client::user::request_user();
        let store = self.ctx.config.jobs.runner_returns;
        let request = Request { store, ..Request::new(Kind::Runner, self.function.as_str(), call, jid, user) };
        let outcome = runners::run(&self.ctx, request).await;
        self.show(&outcome)?;
        Ok(exit_code(&outcome))
    }

    /// Checks a call before any event about it.
    fn check(&self, call: &Call) -> Result<(), String> {
        let function = TABLES
            .find(Kind::Runner, &self.function)
            .map_err(|error| format!("{error}{}", Kind::Runner.python_hint(&self.function, &self.ctx.config.raw)))?;
        match bind(function, call.clone(), &Map::new()) {
            Err(exec::Error::Invocation(text)) => Err(text),
            _ => Ok(()),
        }
    }

    fn show(&self, outcome: &Outcome) -> anyhow::Result<()> {
        if self.quiet {
            return Ok(());
        }
        // Salt's form of a result that chooses its outputter.
        let wrapped = outcome.ret.as_map().filter(|map| map.len() == 2 && map.contains_key("outputter"));
        let data = wrapped.and_then(|map| map.get("data")).unwrap_or(&outcome.ret);
        Ok(outputters::display(data, outcome.out.as_deref(), &self.settings, 0)?)
    }

    /// Shows the documentation of similar functions, or else the error. As in Salt, the exit code is 0.
    async fn refuse(&self, jid: &str, call: Call, text: &str) -> anyhow::Result<u8> {
        let data = map! {
            "success" => false,
            "return" => text,
            "retcode" => 254,
            "fun" => self.function.as_str(),
            "fun_args" => condition_input(call.args, call.kwargs),
            "jid" => jid,
        };
        self.ctx.events.fire(&format!("{}/ret", Kind::Runner.tag(jid)), data).await;
        let similar = runners::docs(RUNNERS, &format!("{}*", self.function));
        if !self.quiet {
            let shown: Value = if similar.is_empty() { text.into() } else { similar.into() };
            outputters::display(&shown, Some("nested"), &self.settings, 0)?;
            let known: Vec<String> = runners::docs(RUNNERS, "").into_iter().map(|(name, _)| name.to_string()).collect();
            if let Some(hint) = hint::of_function(&self.function, &known) {
                rt::complain!("{hint}");
            }
        }
        Ok(exit_codes::OK)
    }

    /// Starts this program again in the background, with the same job id.
    fn leave_running(&self, jid: &str) -> anyhow::Result<u8> {
        use std::os::unix::process::CommandExt;
        let program = std::env::current_exe().context("failed to find the file of this program")?;
        let mut command = Command::new(program);
        command.arg0("salt-run").arg("-c").arg(&self.ctx.config.config_dir).args(["--quiet", "--jid", jid]);
        if let Some(names) = self.options.get_str("no_parse").filter(|names| !names.is_empty()) {
            command.args(["--no-parse", names]);
        }
        // `--`: an argument that begins with a dash is not a flag.
        command.arg("--").arg(&self.function).args(&self.words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn().context("failed to start the runner in the background")?;
        announce_tag(&Kind::Runner.tag(jid));
        Ok(exit_codes::OK)
    }
}

fn announce_tag(tag: &str) {
    tracing::warn!(
        "Running in asynchronous mode. Results of this execution may be collected by attaching to the master event bus or \
         by examining the master job cache, if configured. This execution is running under tag {tag}"
    );
}

/// Returns the code of a failed function, or the `retcode` in its result.
fn exit_code(outcome: &Outcome) -> u8 {
    let in_return = || outcome.ret.get("retcode").or_else(|| outcome.ret.get("data")?.get("retcode"));
    let code = outcome.retcode.or_else(|| in_return().and_then(Value::as_i64));
    // The system keeps the lowest eight bits.
    code.map_or(exit_codes::OK, |code| code as u8)
}

/// Prints the progress of a runner.
struct Screen {
    settings: outputters::Settings,
    quiet: bool,
}

impl Sink for Screen {
    fn event(&self, suffix: &str, data: &Map) {
        // The result is shown when everything else is done.
        if self.quiet || matches!(suffix, "new" | "ret") {
            return;
        }
        let shown = map! { "suffix" => suffix, "event" => data.clone() };
        if let Err(error) = outputters::display(&shown.into(), data.get_str("outputter"), &self.settings, 0) {
            tracing::error!("failed to write the output: {error}");
        }
    }

    fn print(&self, line: &str) {
        crate::terminal::print(&format!("{line}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_that_of_the_result() {
        let outcome = |ret: Value, retcode| Outcome { ret, success: true, retcode, out: None, data: Map::new() };
        assert_eq!(exit_code(&outcome(true.into(), None)), 0);
        assert_eq!(exit_code(&outcome("failed".into(), Some(1))), 1);
        assert_eq!(exit_code(&outcome(map! { "retcode" => 3 }.into(), None)), 3);
        assert_eq!(exit_code(&outcome(map! { "data" => map! { "retcode" => 2 } }.into(), None)), 2);
    }
}

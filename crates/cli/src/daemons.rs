//! The way from a command line to a daemon, for `salt-api`, `salt-master` and `salt-minion`.

use std::future::Future;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use config::Log;
use daemon::{Directories, Launch, PidFile, Report, Reports, Shutdown};
use tokio_util::sync::CancellationToken;
use value::{Map, Value};

use crate::args::Program;
use crate::{exit_codes, log_setup, prepare};

/// A daemon calls this when it is ready, with a way to report on its work.
pub type Ready = Box<dyn FnOnce(Report) + Send>;

/// How long the program that starts a daemon in the background waits for it to be ready.
const LAUNCH: Duration = Duration::from_secs(10);

/// A daemon before it runs.
pub struct Plan<'a> {
    /// Which.
    pub program: Program,
    /// `Master` or `Minion`, for the log.
    pub word: &'static str,
    /// All options.
    pub options: &'a Map,
    /// The main configuration file.
    pub conf_file: &'a Path,
    /// The log settings.
    pub log: &'a Log,
    /// Warnings from reading the configuration.
    pub warnings: &'a [String],
    /// The user to run as.
    pub user: &'a str,
    /// The file for the process id.
    pub pidfile: &'a Path,
    /// The directories that it needs; `None` without `verify_env`.
    pub directories: Option<Directories>,
    /// The number of files that may be open (`max_open_files`), if it matters.
    pub open_files: Option<u64>,
    /// The number of threads for connections.
    pub threads: usize,
    /// Work that needs the rights of root.
    pub before_switch: Option<&'a dyn Fn()>,
}

/// The reasons for the end of a daemon.
pub enum Ended {
    /// It was asked to stop.
    Stopped,
    /// It wants to be started again.
    Restart,
}

/// Turns the process into a daemon and runs it. `run` gets a token that ends it, and a function to call when ready.
pub fn run<F>(plan: &Plan<'_>, run: impl FnOnce(CancellationToken, Ready) -> F) -> ExitCode
where
    F: Future<Output = Result<Ended>>,
{
    let (mut launch, mut has_log) = (Launch::default(), false);
    let ended = start(plan, &mut launch, &mut has_log).and_then(|pidfile| serve(plan, pidfile, &launch, run));
    // Told to stop before it was ready: nothing failed.
    if ended.is_ok() {
        launch.ready();
    }
    match ended {
        Ok(Ended::Stopped) => ExitCode::from(exit_codes::OK),
        Ok(Ended::Restart) => restart(),
        Err(error) => {
            let (status, mut text) = (status(plan.program, &error), prepare::complaint(plan.program.name(), &error));
            tracing::error!("{}", value::error::chain(error.as_ref()));
            if !(has_log && shows_errors_on_console(plan)) {
                rt::complain!("{}", value::escape::for_terminal(&text));
            }
            if status == exit_codes::NO_PORTS {
                rt::complain!("{NO_PORTS}");
                text = format!("{text}\n{NO_PORTS}");
            }
            // A daemon in the background has no standard error; the program that started it prints this.
            launch.failed(status, &text);
            ExitCode::from(status)
        }
    }
}

/// Salt's last words without ports.
const NO_PORTS: &str = "The salt master is shutdown. The ports are not available to bind";

/// Returns whether the log of a daemon shows errors to the user who starts it.
fn shows_errors_on_console(plan: &Plan<'_>) -> bool {
    let in_background = plan.options.get("daemon").is_some_and(Value::truthy);
    let level = logging::Level::parse(&plan.log.log_level).unwrap_or(logging::Level::ERROR);
    !in_background && level <= logging::Level::ERROR
}

/// Returns Salt's exit code for what keeps a daemon from working.
fn status(program: Program, error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<daemon::Error>() {
        // A second master of Salt finds the ports taken, and does not look at the pid file.
        if program == Program::SaltMaster && matches!(error, daemon::Error::Running { .. }) {
            return exit_codes::NO_PORTS;
        }
        return u8::try_from(error.exit_status()).unwrap_or(exit_codes::GENERIC);
    }
    match error.downcast_ref::<master::Error>() {
        Some(master::Error::Listen { .. } | master::Error::Interface { .. }) => exit_codes::NO_PORTS,
        _ => error.downcast_ref::<logging::Error>().map_or(exit_codes::GENERIC, log_setup::status),
    }
}

/// Everything that has to be done before there is a second thread. Sets `has_log` when the log is open.
fn start(plan: &Plan<'_>, launch: &mut Launch, has_log: &mut bool) -> Result<Option<PidFile>> {
    daemon::spare();
    let background = plan.options.get("daemon").is_some_and(Value::truthy);
    // Before the log is opened, whose directory may be missing.
    if let Some(directories) = &plan.directories {
        daemon::verify_env(directories)?;
    }
    let (log, unknown_levels) = log_setup::with_known_levels(plan.log);
    let settings = logging::Settings { console: !background, ..logging::Settings::daemon(&log, plan.user) };
    logging::init(&settings).map_err(log_setup::explained)?;
    *has_log = true;
    log_setup::complain_about_levels(&unknown_levels);
    log_setup::log_config(plan.conf_file, plan.warnings);
    PidFile::check(plan.pidfile)?;
    if background {
        *launch = daemon::go_to_background(LAUNCH)?;
    }
    // Without the file the daemon works as well; an ordinary user often has no place for it.
    // After the fork, which changes the process id, and as root, to whom the directory belongs.
    let pidfile = PidFile::write(plan.pidfile, plan.user).map_err(|error| tracing::warn!("{error}")).ok();
    if let Some(wanted) = plan.open_files {
        daemon::raise_open_files(wanted);
    }
    if let Some(work) = plan.before_switch {
        work();
    }
    daemon::switch_user(plan.user)?;
    // After the change of the user, which makes the process dumpable again.
    daemon::keep_memory_private(match plan.program {
        Program::SaltApi | Program::SaltMaster => daemon::Children::Own,
        _ => daemon::Children::Anything,
    });
    Ok(pidfile)
}

fn serve<F>(
    plan: &Plan<'_>,
    pidfile: Option<PidFile>,
    launch: &Launch,
    run: impl FnOnce(CancellationToken, Ready) -> F,
) -> Result<Ended>
where
    F: Future<Output = Result<Ended>>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(plan.threads)
        .thread_stack_size(crate::prepare::STACK)
        .max_blocking_threads(crate::prepare::JOB_THREADS)
        .on_thread_start(rt::umask::start_thread)
        .enable_all()
        .build()
        .context("failed to start threads")?;
    let name = plan.program.name();
    let ended = runtime.block_on(async {
        // Before any work: a signal from here on ends the daemon in order.
        let shutdown = Shutdown::listen(plan.word)?;
        let reports = Reports::listen(name)?;
        let stop = CancellationToken::new();
        let until_stopped = stop.clone();
        tokio::spawn(async move {
            shutdown.wait().await;
            // systemd then waits for the end, and does not take it for a crash.
            daemon::notify_stopping();
            until_stopped.cancel();
        });
        let launch = launch.clone();
        let ready = move |report: Report| {
            reports.set(report);
            // The program that started this in the background then ends with status 0.
            launch.ready();
            daemon::notify_ready(&format!("{name} is ready"));
            // Memory that only the start needed is released.
            daemon::map_only_what_is_used();
        };
        run(stop, Box::new(ready)).await
    });
    // Whatever still blocks a thread is not waited for.
    runtime.shutdown_background();
    drop(pidfile);
    ended
}

/// Replaces the process with a new one that has the same command line.
fn restart() -> ExitCode {
    use std::os::unix::process::CommandExt;
    tracing::info!("Restarting");
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let error = match std::env::current_exe() {
        // The name must stay the same: it chooses the program.
        Ok(program) => std::process::Command::new(program).arg0(name).args(words).exec(),
        Err(error) => error,
    };
    rt::complain!("failed to restart: {}", value::error::chain(&error));
    ExitCode::from(exit_codes::GENERIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_master_ends_as_with_taken_ports() {
        let status_of = |program| status(program, &daemon::Error::Running { path: "/run/x.pid".into(), pid: 1 }.into());
        assert_eq!(status_of(Program::SaltMaster), exit_codes::NO_PORTS);
        assert_eq!(status_of(Program::SaltMinion), exit_codes::GENERIC);
    }
}

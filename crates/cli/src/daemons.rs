//! What `salt-master` and `salt-minion` have in common: the way from a command line to a daemon.

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

/// What a daemon calls when it is ready, with what it will tell of its work.
pub type Ready = Box<dyn FnOnce(Report) + Send>;

/// How long the program that starts a daemon in the background waits for the word that it works.
const LAUNCH: Duration = Duration::from_secs(10);

/// A daemon before it runs.
pub struct Plan<'a> {
    /// Which.
    pub program: Program,
    /// The word for it in the log, `Master` or `Minion`.
    pub word: &'static str,
    /// All options.
    pub options: &'a Map,
    /// How it logs.
    pub log: &'a Log,
    /// What was found when the configuration was read.
    pub warnings: &'a [String],
    /// The user to run as.
    pub user: &'a str,
    /// The file for the process id.
    pub pidfile: &'a Path,
    /// The directories it needs; none without `verify_env`.
    pub directories: Option<Directories>,
    /// Files that may be open (`max_open_files`), if it cares.
    pub open_files: Option<u64>,
    /// Threads that carry connections.
    pub threads: usize,
    /// What has to be done before the process becomes the user, if anything.
    pub before_switch: Option<&'a dyn Fn()>,
}

/// How a daemon ended.
pub enum Ended {
    /// It was told to.
    Stopped,
    /// It wants to be started anew.
    Restart,
}

/// Turns the process into a daemon and runs it. `run` gets a token for its end and something to call when ready.
pub fn run<F>(plan: &Plan<'_>, run: impl FnOnce(CancellationToken, Ready) -> F) -> ExitCode
where
    F: Future<Output = Result<Ended>>,
{
    let mut launch = Launch::default();
    let ended = start(plan, &mut launch).and_then(|pidfile| serve(plan, pidfile, &launch, run));
    // Told to stop before it was ready: nothing failed.
    if ended.is_ok() {
        launch.ready();
    }
    match ended {
        Ok(Ended::Stopped) => ExitCode::from(exit_codes::OK),
        Ok(Ended::Restart) => restart(),
        Err(error) => {
            tracing::error!("{error:#}");
            let in_background = plan.options.get("daemon").is_some_and(Value::truthy);
            if in_background || !tracing::dispatcher::has_been_set() {
                // The log does not reach the person who started this.
                prepare::complain(plan.program.name(), &error);
            }
            let status = error.downcast_ref::<daemon::Error>().map_or(1, daemon::Error::exit_status);
            let status = u8::try_from(status).unwrap_or(exit_codes::GENERIC);
            // Nor does standard error, any more, from the background.
            launch.failed(status, &format!("{}: error: {error:#}", plan.program.name()));
            ExitCode::from(status)
        }
    }
}

/// Everything that has to be done before there is a second thread.
fn start(plan: &Plan<'_>, launch: &mut Launch) -> Result<Option<PidFile>> {
    daemon::spare();
    let background = plan.options.get("daemon").is_some_and(Value::truthy);
    if let Some(directories) = &plan.directories {
        daemon::verify_env(directories)?;
    }
    let settings = logging::Settings { console: !background, ..logging::Settings::daemon(plan.log, plan.user) };
    logging::init(&settings)?;
    log_setup::told(plan.warnings);
    PidFile::check(plan.pidfile)?;
    if background {
        *launch = daemon::go_to_background(LAUNCH)?;
    }
    // Without the file the daemon works as well; an ordinary user often has no place for it.
    let pidfile = PidFile::write(plan.pidfile, plan.user).map_err(|error| tracing::warn!("{error}")).ok();
    if let Some(wanted) = plan.open_files {
        daemon::raise_open_files(wanted);
    }
    if let Some(work) = plan.before_switch {
        work();
    }
    daemon::switch_user(plan.user)?;
    daemon::keep_memory_private(match plan.program {
        Program::SaltMaster => daemon::Children::Own,
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
        .enable_all()
        .build()
        .context("failed to start threads")?;
    let name = plan.program.name();
    let ended = runtime.block_on(async {
        let shutdown = Shutdown::listen(plan.word)?;
        let reports = Reports::listen(name)?;
        let stop = CancellationToken::new();
        let until_stopped = stop.clone();
        tokio::spawn(async move {
            shutdown.wait().await;
            daemon::notify_stopping();
            until_stopped.cancel();
        });
        let launch = launch.clone();
        let ready = move |report: Report| {
            reports.set(report);
            launch.ready();
            daemon::notify_ready(&format!("{name} is ready"));
            // What only the start needed goes.
            daemon::map_only_what_is_used();
        };
        run(stop, Box::new(ready)).await
    });
    // Whatever still blocks a thread is not waited for.
    runtime.shutdown_background();
    drop(pidfile);
    ended
}

/// Replaces the process by a new one with the same command line.
fn restart() -> ExitCode {
    use std::os::unix::process::CommandExt;
    tracing::info!("Restarting");
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let error = match std::env::current_exe() {
        Ok(program) => std::process::Command::new(program).arg0(name).args(words).exec(),
        Err(error) => error,
    };
    eprintln!("failed to restart: {}", prepare::chain(&error));
    ExitCode::from(exit_codes::GENERIC)
}

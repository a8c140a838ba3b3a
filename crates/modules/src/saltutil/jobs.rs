//! The jobs that run on this minion: finding them, ending them.

use std::path::{Path, PathBuf};

use exec::{Context, Error, Result, RunningJob, function};
use nix::libc::{SIGKILL, SIGTERM};
use value::{Map, Value};
use wire::msgpack::{self, Decode};

/// The running jobs but the asking one.
fn others(ctx: &Context) -> Vec<RunningJob> {
    let me = ctx.job.jid();
    // The job that asks is not shown. Without a jid, as in salt-call, it is not in the list anyway.
    ctx.agent.running().into_iter().filter(|job| me.is_empty() || job.jid() != me).collect()
}

/// Returns the jobs that run on this minion.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.running
#[function]
pub fn running(ctx: &Context) -> Result<Vec<Map>> {
    Ok(others(ctx).into_iter().map(|job| job.load).collect())
}

/// Returns the running jobs whose function matches a glob.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.is_running state.highstate
#[function]
pub fn is_running(ctx: &Context, fun: String) -> Result<Vec<Map>> {
    let fits = |job: &RunningJob| match job.load.get("fun") {
        // A compound command runs several functions.
        Some(Value::List(funs)) => funs.iter().any(|name| targeting::fnmatch(&name.to_string(), &fun)),
        Some(name) => targeting::fnmatch(&name.to_string(), &fun),
        None => targeting::fnmatch("", &fun),
    };
    Ok(others(ctx).into_iter().filter(fits).map(|job| job.load).collect())
}

/// Returns a job that runs or waits on this minion, or an empty map.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.find_job 20260102030405060708
#[function]
pub fn find_job(ctx: &Context, jid: String) -> Result<Map> {
    let running = others(ctx).into_iter().find(|job| job.jid() == jid).map(|job| job.load);
    Ok(running.or_else(|| waiting(Path::new(ctx.cachedir()), &jid)).unwrap_or_default())
}

/// Looks for a job in the queues on the disk: those beside each other, and those of each master.
fn waiting(cachedir: &Path, jid: &str) -> Option<Map> {
    let mut homes = vec![cachedir.to_owned()];
    let masters = std::fs::read_dir(cachedir.join("queues")).into_iter().flatten().flatten();
    // With several masters each has its own queues.
    homes.extend(masters.map(|entry| entry.path()));
    let suffix = format!("_{jid}.p");
    for (home, queue) in homes.iter().flat_map(|home| ["state_queue", "job_queue"].map(|queue| (home, queue))) {
        let entries = std::fs::read_dir(home.join(queue)).into_iter().flatten().flatten();
        let mine = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(&suffix));
        for path in entries.map(|entry| entry.path()).filter(mine) {
            // A file that is gone by now is a job that began.
            let load = std::fs::read(path).ok().and_then(|bytes| msgpack::unpack(&bytes, Decode::Default).ok());
            if let Some(Value::Map(mut load)) = load {
                load.entry_or_insert_with("pid", || 0.into());
                load.insert("queued", true);
                load.insert("queue_type", queue);
                return Some(load);
            }
        }
    }
    None
}

/// Returns the return of a job, from the minion's job cache (option ``cache_jobs``).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.find_cached_job 20260102030405060708
#[function]
pub fn find_cached_job(ctx: &Context, jid: String) -> Result<Value> {
    // The jid comes from the caller and becomes a path.
    if jid.contains('/') || jid.starts_with('.') {
        return Err(Error::invocation(format!("'{jid}' is not a job id")));
    }
    let folder = Path::new(ctx.cachedir()).join("minion_jobs").join(&jid);
    if !folder.is_dir() {
        return Ok(if ctx.opt("cache_jobs").is_some_and(Value::truthy) {
            format!("Local jobs cache directory {} not found", folder.display()).into()
        } else {
            "Local jobs cache directory not found; you may need to enable cache_jobs on this minion".into()
        });
    }
    let file = folder.join("return.p");
    let bytes = std::fs::read(&file).map_err(|error| Error::io("read", &file, &error))?;
    match msgpack::unpack(&bytes, Decode::Default) {
        Ok(found @ Value::Map(_)) => Ok(found),
        Ok(_) => Ok(Value::Null),
        Err(error) => Err(Error::execution(format!("failed to read {}: {error}", file.display()))),
    }
}

/// Sends a signal to the processes of a job. The job itself ends with signals that end a process.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.signal_job 20260102030405060708 15
#[function]
pub fn signal_job(ctx: &Context, jid: String, sig: i64) -> Result<String> {
    // 0 only asks whether the process exists; 64 is the last real-time signal.
    let signal = i32::try_from(sig).ok().filter(|signal| (0..=64).contains(signal));
    let signal = signal.ok_or_else(|| Error::invocation(format!("there is no signal {sig}")))?;
    Ok(send(ctx, &jid, signal))
}

fn send(ctx: &Context, jid: &str, signal: i32) -> String {
    // A job cannot signal itself.
    let Some(job) = others(ctx).into_iter().find(|job| job.jid() == jid) else { return String::new() };
    if ctx.agent.signal_job(jid, signal) {
        let pid = job.load.get("pid").map(Value::to_string).unwrap_or_default();
        format!("Signal {signal} sent to job {jid} at pid {pid}")
    } else {
        format!("Job {jid} was not running and job data has been cleaned up")
    }
}

/// Terminates a job (SIGTERM).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.term_job 20260102030405060708
#[function]
pub fn term_job(ctx: &Context, jid: String) -> Result<String> {
    Ok(send(ctx, &jid, SIGTERM))
}

/// Kills a job and its processes (SIGKILL).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.kill_job 20260102030405060708
#[function]
pub fn kill_job(ctx: &Context, jid: String) -> Result<String> {
    Ok(send(ctx, &jid, SIGKILL))
}

/// Terminates all jobs (SIGTERM).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.term_all_jobs
#[function]
pub fn term_all_jobs(ctx: &Context) -> Result<Vec<String>> {
    Ok(others(ctx).iter().map(|job| send(ctx, job.jid(), SIGTERM)).collect())
}

/// Kills all jobs and their processes (SIGKILL).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' saltutil.kill_all_jobs
#[function]
pub fn kill_all_jobs(ctx: &Context) -> Result<Vec<String>> {
    Ok(others(ctx).iter().map(|job| send(ctx, job.jid(), SIGKILL)).collect())
}

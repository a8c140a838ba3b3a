//! `jobs` — what ran, what runs, and what came back.

use exec::{Error, Result, function};
use jiff::civil::Date;
use python::dateutil;
use store::jobs::{JobCache, JobReturn, summary};
use store::proc_dir::ProcDir;
use targeting::fnmatch;
use value::{DateTime, Map, Value, list, map};
use wire::Jid;

use crate::context::failed;
use crate::job_source::Source;
use crate::local::Ask;
use crate::texts::split_input;
use crate::{Module, RunnerContext};

/// The functions of the runner `jobs`.
pub static MODULE: Module = Module::new(
    "jobs",
    "What ran, what runs, and what came back.",
    &[&ACTIVE, &EXIT_SUCCESS, &LAST_RUN, &LIST_JOB, &LIST_JOBS, &LIST_JOBS_FILTER, &LOOKUP_JID, &MASTER, &PRINT_JOB],
);

/// Returns the runners and wheel functions that run on this master now.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run jobs.master
#[function]
async fn master(ctx: &RunnerContext) -> Result<Vec<Map>> {
    ctx.blocking(|ctx| {
        let mut running = ProcDir::new(ctx.cachedir()).all().map_err(failed)?;
        // A proc file outlives a master that was killed. Its process is gone, or the pid belongs to another program
        // by now.
        running.retain(|note| note.get("pid").and_then(Value::as_i64).is_some_and(is_ours));
        Ok(running)
    })
    .await
}

/// Returns whether a process exists and is one of Salt's programs or of Saltern's.
fn is_ours(pid: i64) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains("salt")
}

/// Asks all minions for their running jobs, and returns them by job: which minions still run it, and which have
/// returned.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run jobs.active
#[function]
async fn active(ctx: &RunnerContext, #[default(false)] display_progress: bool) -> Result<Map> {
    let Some(answers) = Ask::new(ctx, "*", "glob", "saltutil.running").run_or_print(ctx).await else {
        return Ok(Map::new());
    };
    // Silent minions appear with a sentence in place of a list, and are skipped below, as in Salt.
    let answers = answers.results(ctx);
    if display_progress {
        let ids: Vec<Value> = answers.keys().cloned().collect();
        let message = format!("Attempting to contact minions: {}", Value::List(ids));
        ctx.progress(map! { "message" => message }).await;
    }
    let mut jobs = Map::new();
    for (minion, running) in answers {
        if display_progress {
            ctx.progress(map! { "message" => format!("Received reply from minion {minion}") }).await;
        }
        for job in running.as_list().unwrap_or_default() {
            note_running(&mut jobs, &minion, job);
        }
    }
    ctx.blocking(|ctx| with_returned(&ctx.jobs()?, jobs)).await
}

fn note_running(jobs: &mut Map, minion: &Value, job: &Value) {
    // A minion of any version answers here; an entry without job id has nowhere to go.
    let (Some(job), Some(jid)) = (job.as_map(), job.get("jid").map(Value::to_string)) else { return };
    let entry = jobs.entry_or_insert_with(jid.as_str(), || {
        let mut entry = described(&jid, Some(job));
        entry.insert("Running", list![]);
        entry.insert("Returned", list![]);
        entry.into()
    });
    let pid = job.get("pid").cloned().unwrap_or_default();
    if let Some(Value::List(running)) = entry.as_map_mut().and_then(|entry| entry.get_mut("Running")) {
        running.push(Map::from_iter([(minion.clone(), pid)]).into());
    }
}

fn with_returned(cache: &JobCache, mut jobs: Map) -> Result<Map> {
    for (jid, entry) in jobs.iter_mut() {
        let returns = cache.returns(&jid.to_string()).map_err(failed)?;
        if let Some(entry) = entry.as_map_mut() {
            entry.insert("Returned", returns.into_iter().map(|(id, _)| id).collect::<Value>());
        }
    }
    Ok(jobs)
}

/// Returns the minions' returns of a job.
///
/// With `states` the result shows the state of each minion (`sent`, `received`, `started`, `returned`, `unreachable`),
/// beside its return. Otherwise `returned` includes those that returned, `missing` those that did not. If the first
/// return wants an outputter, the result is a map of `outputter` and `data`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run jobs.lookup_jid 20130916125524463507
///     salt-run jobs.lookup_jid 20130916125524463507 missing=True
///     salt-run jobs.lookup_jid 20130916125524463507 states=True
#[function]
async fn lookup_jid(
    ctx: &RunnerContext,
    jid: String,
    ext_source: Option<String>,
    #[default(true)] returned: bool,
    #[default(false)] missing: bool,
    #[default(false)] display_progress: bool,
    #[default(false)] states: bool,
) -> Result<Value> {
    let source = source(ctx, ext_source.as_deref(), display_progress).await?;
    if states {
        return Ok(super::saltern::states_and_returns(ctx, &jid).await?.into());
    }
    let asked = jid.clone();
    let (job, returns) = ctx.blocking(move |ctx| read_job(ctx, &source, &jid)).await?;
    // Salt reports nothing here; the result is the same empty map.
    if let Some(text) = unknown(&asked, &job, &returns) {
        tracing::warn!("{text}");
    }
    if display_progress {
        for (id, _) in &returns {
            ctx.progress(map! { "message" => id.as_str() }).await;
        }
    }
    let mut found = Map::new();
    if returned {
        found.extend(returns.iter().map(|(id, returned)| (id.as_str(), returned.value.clone())));
    }
    let targeted = job.get("Minions").and_then(Value::as_list).unwrap_or_default();
    let absent = |id: &&Value| !returns.iter().any(|(known, _)| Some(known.as_str()) == id.as_str());
    if missing {
        found.extend(targeted.iter().filter(absent).map(|id| (id.clone(), "Minion did not return")));
    }
    // Salt takes the outputter from the first return and applies it to all.
    match returns.into_iter().next().and_then(|(_, first)| first.out).filter(Value::truthy) {
        Some(out) => Ok(map! { "outputter" => out, "data" => found }.into()),
        None => Ok(found.into()),
    }
}

/// Returns all information about a job: the function, its targets, and the returns.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run jobs.list_job 20130916125524463507
#[function]
async fn list_job(
    ctx: &RunnerContext,
    jid: String,
    ext_source: Option<String>,
    #[default(false)] display_progress: bool,
) -> Result<Map> {
    let source = source(ctx, ext_source.as_deref(), display_progress).await?;
    ctx.blocking(move |ctx| {
        let mut job = map! { "jid" => jid.as_str() };
        job.update(job_with_result(ctx, &source, &jid)?);
        Ok(job)
    })
    .await
}

/// Returns all information about a job, under its id.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run jobs.print_job 20130916125524463507
#[function]
async fn print_job(ctx: &RunnerContext, jid: String, ext_source: Option<String>) -> Result<Map> {
    let source = source(ctx, ext_source.as_deref(), false).await?;
    ctx.blocking(move |ctx| Ok(map! { jid.as_str() => job_with_result(ctx, &source, &jid)? })).await
}

/// Returns for each minion of a job whether its return counts as true.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run jobs.exit_success 20160520145827701627
#[function]
async fn exit_success(ctx: &RunnerContext, jid: String, ext_source: Option<String>) -> Result<Map> {
    let source = source(ctx, ext_source.as_deref(), false).await?;
    let (job, returns) = ctx.blocking(move |ctx| read_job(ctx, &source, &jid)).await?;
    // Minions that did not return count as failures; those that returned without being expected are judged as well.
    let targeted = job.get("Minions").and_then(Value::as_list).unwrap_or_default();
    let mut good: Map = targeted.iter().map(|id| (id.clone(), false)).collect();
    for (id, returned) in returns.iter().filter(|(_, returned)| returned.value.truthy()) {
        good.insert(id.as_str(), returned.value.truthy());
    }
    Ok(good)
}

/// Returns all stored jobs, with their functions and targets. The searches must all match.
///
/// `search_metadata` is a map of which one entry must be in the metadata of the job; `search_function` and
/// `search_target` are shell globs, a list or separated by commas; `start_time` and `end_time` are points in time such
/// as `2015, Mar 16 19:00` between which the job began.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run jobs.list_jobs
///     salt-run jobs.list_jobs search_function='test.*,pkg.install' search_target='db*'
///     salt-run jobs.list_jobs start_time='2015, Mar 16 19:00' end_time='2015, Mar 18 22:00'
#[function]
async fn list_jobs(
    ctx: &RunnerContext,
    ext_source: Option<String>,
    outputter: Option<String>,
    search_metadata: Option<Value>,
    search_function: Option<Value>,
    search_target: Option<Value>,
    start_time: Option<Value>,
    end_time: Option<Value>,
    #[default(false)] display_progress: bool,
) -> Result<Value> {
    let source = jobs_source(ctx, ext_source.as_deref(), display_progress).await?;
    let now = today(ctx);
    let search = Search {
        metadata: search_metadata.unwrap_or_default(),
        functions: split_input(&search_function.unwrap_or_default()),
        targets: split_input(&search_target.unwrap_or_default()),
        start: point(&start_time.unwrap_or_default(), now)?,
        end: point(&end_time.unwrap_or_default(), now)?,
    };
    let jobs = ctx.blocking(move |ctx| search.run(ctx, &source)).await?;
    Ok(with_outputter(outputter, jobs.into()))
}

/// Returns the latest stored jobs, the oldest first; questions about running jobs are left out.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run jobs.list_jobs_filter 50
///     salt-run jobs.list_jobs_filter 100 filter_find_job=False
#[function]
async fn list_jobs_filter(
    ctx: &RunnerContext,
    count: u64,
    #[default(true)] filter_find_job: bool,
    ext_source: Option<String>,
    outputter: Option<String>,
    #[default(false)] display_progress: bool,
) -> Result<Value> {
    let source = jobs_source(ctx, ext_source.as_deref(), display_progress).await?;
    let jobs = ctx.blocking(move |ctx| latest(ctx, &source, count, filter_find_job)).await?;
    Ok(with_outputter(outputter, jobs.into()))
}

fn latest(ctx: &RunnerContext, source: &Source, count: u64, filter_find_job: bool) -> Result<Vec<Map>> {
    let mut jobs = all_jobs(ctx, source)?;
    // `salt` itself sends a `find_job` for each job whose minions take long, so those would crowd out the others.
    if filter_find_job {
        jobs.retain(|(_, load)| load.get_str("fun") != Some("saltutil.find_job"));
    }
    let first = jobs.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
    let jobs = jobs.drain(first..).map(|(jid, load)| {
        let mut entry = summary(&jid, &load);
        // Salt's order of the entries: the start time after the job id.
        let start = entry.remove("StartTime");
        entry.insert("JID", jid);
        entry.insert("StartTime", start);
        entry
    });
    Ok(jobs.collect())
}

/// Returns the latest job that matches, with its returns, or False when there is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run jobs.last_run
///     salt-run jobs.last_run target=nodename
///     salt-run jobs.last_run function='cmd.run'
///     salt-run jobs.last_run metadata="{'foo': 'bar'}"
#[function]
async fn last_run(
    ctx: &RunnerContext,
    ext_source: Option<String>,
    outputter: Option<String>,
    metadata: Option<Value>,
    function: Option<Value>,
    target: Option<Value>,
    #[default(false)] display_progress: bool,
) -> Result<Value> {
    let metadata = metadata.unwrap_or_default();
    // Salt answers False here, without an error.
    if metadata.truthy() && metadata.as_map().is_none() {
        tracing::info!("The metadata parameter must be specified as a dictionary");
        return Ok(false.into());
    }
    let source = jobs_source(ctx, ext_source.as_deref(), display_progress).await?;
    let search = Search {
        metadata,
        functions: split_input(&function.unwrap_or_default()),
        targets: split_input(&target.unwrap_or_default()),
        start: None,
        end: None,
    };
    let job = ctx.blocking(move |ctx| {
        let jobs = search.run(ctx, &source)?;
        // Job ids sort by time.
        let last = jobs.keys().next_back().map(Value::to_string);
        last.map(|jid| Ok(map! { jid.as_str() => job_with_result(ctx, &source, &jid)? })).transpose()
    });
    Ok(job.await?.map_or(false.into(), |job| with_outputter(outputter, job.into())))
}

fn with_outputter(outputter: Option<String>, data: Value) -> Value {
    match outputter.filter(|outputter| !outputter.is_empty()) {
        Some(outputter) => map! { "outputter" => outputter, "data" => data }.into(),
        None => data,
    }
}

/// Finds the job cache to read, and reports which one it is.
async fn source(ctx: &RunnerContext, ext_source: Option<&str>, display_progress: bool) -> Result<Source> {
    let source = Source::find(ctx, ext_source)?;
    if display_progress {
        ctx.progress(map! { "message" => format!("Querying returner: {}", source.name()) }).await;
    }
    Ok(source)
}

/// The same, for all jobs.
async fn jobs_source(ctx: &RunnerContext, ext_source: Option<&str>, display_progress: bool) -> Result<Source> {
    let source = Source::find(ctx, ext_source)?;
    if display_progress {
        ctx.progress(map! { "message" => format!("Querying returner {} for jobs.", source.name()) }).await;
    }
    Ok(source)
}

fn today(ctx: &RunnerContext) -> DateTime {
    let midnight = DateTime { year: 1970, month: 1, day: 1, hour: 0, minute: 0, second: 0, micros: 0 };
    Jid::at(ctx.rt.now()).date_time().unwrap_or(midnight)
}

fn point(text: &Value, now: DateTime) -> Result<Option<DateTime>> {
    match text {
        Value::DateTime(time) => Ok(Some(*time)),
        text if !text.truthy() => Ok(None),
        text => parse(&text.to_string(), now).map(Some),
    }
}

/// Reads a point in time; what the text omits is taken from the current day.
fn parse(text: &str, now: DateTime) -> Result<DateTime> {
    let day = |part: u8| i8::try_from(part).unwrap_or(1);
    let today = i16::try_from(now.year).ok().and_then(|year| Date::new(year, day(now.month), day(now.day)).ok());
    let time = today.and_then(|today| dateutil::parse(text, today).ok());
    let unknown = || Error::Other(format!("ParserError: Unknown string format: {text}"));
    let time = time.ok_or_else(unknown)?;
    let part = |part: i8| part.unsigned_abs();
    Ok(DateTime {
        year: time.year().unsigned_abs(),
        month: part(time.month()),
        day: part(time.day()),
        hour: part(time.hour()),
        minute: part(time.minute()),
        second: part(time.second()),
        micros: time.subsec_nanosecond().unsigned_abs() / 1000,
    })
}

/// The conditions of a search for jobs.
struct Search {
    metadata: Value,
    functions: Vec<String>,
    targets: Vec<String>,
    start: Option<DateTime>,
    end: Option<DateTime>,
}

impl Search {
    fn run(&self, ctx: &RunnerContext, source: &Source) -> Result<Map> {
        // End times are only in the master's own cache, whichever one the jobs are from.
        let cache = ctx.jobs()?;
        let mut found = Map::new();
        for (jid, load) in all_jobs(ctx, source)? {
            let mut job = summary(&jid, &load);
            if !self.matches(&jid, &job) {
                continue;
            }
            add_end_time(ctx, &cache, &jid, &mut job)?;
            found.insert(jid, job);
        }
        Ok(found)
    }

    fn matches(&self, jid: &str, job: &Map) -> bool {
        let began = Jid::new(jid).ok().and_then(|jid| jid.date_time());
        (!self.metadata.truthy() || self.metadata_match(job.get("Metadata")))
            && (self.targets.is_empty() || any_glob(&self.targets, job.get("Target")))
            && (self.functions.is_empty() || any_glob(&self.functions, job.get("Function")))
            && self.start.is_none_or(|start| began.is_some_and(|began| began >= start))
            && self.end.is_none_or(|end| began.is_some_and(|began| began <= end))
    }

    fn metadata_match(&self, metadata: Option<&Value>) -> bool {
        let (Some(wanted), Some(metadata)) = (self.metadata.as_map(), metadata.and_then(Value::as_map)) else {
            return false;
        };
        // One equal entry is enough in Salt.
        wanted.iter().any(|(key, value)| metadata.get_value(key) == Some(value))
    }
}

fn any_glob(globs: &[String], value: Option<&Value>) -> bool {
    let texts: Vec<String> = match value {
        Some(Value::List(items)) => items.iter().map(Value::to_string).collect(),
        Some(value) => vec![value.to_string()],
        None => Vec::new(),
    };
    texts.iter().any(|text| globs.iter().any(|glob| fnmatch(text, glob)))
}

/// Returns all jobs, the oldest first.
fn all_jobs(ctx: &RunnerContext, source: &Source) -> Result<Vec<(String, Map)>> {
    let mut jobs = source.heads(ctx)?;
    jobs.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(jobs)
}

/// Describes a job in Salt's words, also an unknown one.
fn described(jid: &str, load: Option<&Map>) -> Map {
    let Some(load) = load else {
        return map! {
            "Error" => "Cannot contact returner or no job with this jid",
            "StartTime" => wire::jid::display_time(jid),
        };
    };
    let mut job = summary(jid, load);
    if let Some(minions) = load.get("Minions") {
        // `Minions` is inserted before the start time: Salt's order.
        let start = job.remove("StartTime");
        job.insert("Minions", minions.clone());
        job.insert("StartTime", start);
    }
    job
}

/// Salt shows an empty result for an unknown job. This sentence distinguishes it from a job without returns.
fn unknown(jid: &str, job: &Map, returns: &[(String, JobReturn)]) -> Option<String> {
    if !returns.is_empty() || !job.contains_key("Error") {
        return None;
    }
    Some(no_such_job(jid))
}

/// Returns the sentence for a job id of which nothing is known.
pub(super) fn no_such_job(jid: &str) -> String {
    match wire::Jid::is_valid(jid) {
        true => format!("There is no job {jid} in the job cache. See: salt-run jobs.list_jobs"),
        false => {
            format!(
                "{} is not a job id: those have 20 digits. See: salt-run jobs.list_jobs",
                value::escape::brief(jid, 60)
            )
        }
    }
}

fn read_job(ctx: &RunnerContext, source: &Source, jid: &str) -> Result<(Map, Vec<(String, JobReturn)>)> {
    let load = source.head(ctx, jid)?;
    Ok((described(jid, load.as_ref()), source.returns(ctx, jid)?))
}

fn job_with_result(ctx: &RunnerContext, source: &Source, jid: &str) -> Result<Map> {
    let (mut job, returns) = read_job(ctx, source, jid)?;
    let result: Map = returns.into_iter().map(|(id, returned)| (id, returned.to_map())).collect();
    job.insert("Result", result);
    add_end_time(ctx, &ctx.jobs()?, jid, &mut job)?;
    Ok(job)
}

fn add_end_time(ctx: &RunnerContext, cache: &JobCache, jid: &str, job: &mut Map) -> Result<()> {
    if ctx.config.jobs.job_cache_store_endtime
        && let Some(time) = cache.end_time(jid).map_err(failed)?.filter(|time| !time.is_empty())
    {
        job.insert("EndTime", time);
    }
    Ok(())
}

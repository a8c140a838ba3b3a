//! The functions that apply states.

use std::path::Path;

use ::state::gather::{self, TopError};
use ::state::{declare, low as lows};
use exec::{Context, Error, KwArgs, Result, VarArgs, function};
use store::disk::{self, Writing};
use value::{Map, Value, list, map};

use super::disabled;
use super::session::{Args, Begun, COMPILER_ERROR, Session, begin, set_retcode};
use crate::util::split_input;

/// Takes the place among the runs, or leaves the function with the answer for a caller who gets none.
macro_rules! session {
    ($ctx:expr, $args:expr, $needs_env:expr) => {
        match begin($ctx, $args)? {
            Begun::Mine(held) => Session::new($ctx, $args, held, $needs_env)?,
            Begun::Answer(answer) => return Ok(answer),
        }
    };
}
pub(super) use session;

/// Applies the named SLS files, or those that the top files assign to this minion.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.apply
///     salt '*' state.apply web.install,web.config test=True pillar='{"port": 8080}'
#[function(out = "highstate")]
pub fn apply(ctx: &Context, mods: Option<Value>, kwargs: KwArgs) -> Result<Value> {
    applied(ctx, mods, kwargs.0)
}

pub(super) fn applied(ctx: &Context, mods: Option<Value>, mut kwargs: Map) -> Result<Value> {
    let mut take = |key: &str| kwargs.remove(key).filter(|value| !value.is_null());
    let (test, queue, state_events) = (take("test"), take("queue"), take("state_events"));
    match mods.filter(Value::truthy) {
        // With names it is `state.sls`, without any the highstate.
        Some(mods) => {
            let (exclude, sync_mods) = (take("exclude"), take("sync_mods"));
            let args = Args { test, queue, state_events, kwargs };
            apply_sls(ctx, mods, exclude, sync_mods, args)
        }
        None => apply_top(ctx, Args { test, queue, state_events, kwargs }),
    }
}

/// Returns what ``state.apply`` would do.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.test
///     salt '*' state.test web.install
#[function(out = "highstate")]
pub fn test(ctx: &Context, args: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let mut kwargs = kwargs.0;
    // `state.test` is nothing but `state.apply` in test mode.
    kwargs.insert("test", true);
    let mods = args.0.into_iter().next().or_else(|| kwargs.remove("mods"));
    applied(ctx, mods, kwargs)
}

/// Applies the states that the top files assign to this minion.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.highstate
///     salt '*' state.highstate whitelist=web.install exclude=bar,baz test=True
#[function(out = "highstate")]
pub fn highstate(
    ctx: &Context,
    test: Option<Value>,
    queue: Option<Value>,
    state_events: Option<Value>,
    kwargs: KwArgs,
) -> Result<Value> {
    apply_top(ctx, Args { test, queue, state_events, kwargs: kwargs.0 })
}

fn apply_top(ctx: &Context, args: Args) -> Result<Value> {
    // Looked up before the lock is taken, unlike in `state.sls`. The result is the text "False" in
    // Salt, too.
    if !disabled::of(ctx, &["highstate".to_owned()]).is_empty() {
        return Ok(map! {
            "name" => "Salt highstate run is disabled. To re-enable, run state.enable highstate",
            "result" => "False",
            "comment" => "Disabled",
        }
        .into());
    }
    let session = session!(ctx, &args, false);
    if let Some(refusal) = session.pillar_refusal(&args) {
        return Ok(refusal);
    }
    let result = from_top(&session, &args)?;
    Ok(terse(&session.ctx, &args, result))
}

/// Applies the states of another top file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.top reverse_top.sls
///     salt '*' state.top prod_top.sls exclude=sls_to_exclude
#[function(out = "highstate")]
pub fn top(ctx: &Context, topfn: String, test: Option<Value>, queue: Option<Value>, kwargs: KwArgs) -> Result<Value> {
    let args = Args::with_test(test, queue, kwargs);
    let mut session = session!(ctx, &args, false);
    if let Some(refusal) = session.pillar_refusal(&args) {
        return Ok(refusal);
    }
    let mut opts = (*session.ctx.opts).clone();
    // Only for this session: the minion's own options stay as they are.
    opts.insert("state_top", topfn);
    if let Some(saltenv) = args.get("saltenv") {
        opts.insert("state_top_saltenv", saltenv.clone());
    }
    session.ctx.opts = std::sync::Arc::new(opts);
    from_top(&session, &args)
}

/// Makes the answer of a highstate without states.
fn no_states(comment: impl Into<Value>) -> Map {
    map! {
        "no_|-states_|-states_|-None" => map! {
            "result" => false, "comment" => comment, "name" => "No States", "changes" => Map::new(), "__run_num__" => 0,
        },
    }
}

/// Gathers by the top files, writes the high data down, and runs it.
fn from_top(session: &Session, args: &Args) -> Result<Value> {
    let cache = cache_path(&session.ctx, args);
    // `cache=True` applies the compiled data of the last run without asking the master.
    if args.is("cache")
        && let Some(Value::Map(high)) = disk::read_value(&cache).map_err(stored)?
    {
        return Ok(session.apply(high));
    }
    let files = session.files()?;
    let mut gatherer = session.gatherer(&files);
    let top = match gatherer.top() {
        Ok(top) => top,
        // A broken top file is reported as a failed state, while an unreachable master is a
        // compiler error, which is a list.
        Err(TopError::Render(why)) => {
            return Ok(finish(session, no_states(format!("Unable to render top file: {why}")).into()));
        }
        Err(TopError::Unreachable(why)) => return Ok(finish(session, list![why])),
    };
    // Collected and not returned at once, so that all mistakes are shown together.
    let mut errors = gather::verify(&top);
    let matches = match gatherer.matches(&top, session.minion()) {
        Ok(matches) => matches,
        Err(why) => return Ok(finish(session, list![why])),
    };
    if matches.is_empty() {
        let comment = "No Top file or master_tops data matches found. Please see master log for details.";
        return Ok(finish(session, no_states(comment).into()));
    }
    let matches = gather::only(matches, &args.get("whitelist").map(split_input).unwrap_or_default());
    // Before SLS files are rendered: they may use the modules that are fetched here.
    sync_dynamic(session, &matches);
    let (mut high, more) = gatherer.high(&matches);
    errors.extend(more);
    if !errors.is_empty() {
        return Ok(finish(session, errors.into()));
    }
    exclude(&mut high, args.get("exclude"));
    // Excludes alone are not states.
    if high.iter().all(|(id, _)| id.as_str() == Some("__exclude__")) {
        return Ok(finish(session, no_states("No states found for this minion").into()));
    }
    keep(&cache, &high.clone().into());
    Ok(session.apply(high))
}

fn finish(session: &Session, result: Value) -> Value {
    set_retcode(&session.ctx, &result, None);
    result
}

/// Fetches custom modules of the environments in use, if they are to be loaded by themselves.
fn sync_dynamic(session: &Session, matches: &Map) {
    if !session.ctx.opt("autoload_dynamic_modules").is_none_or(Value::truthy) || session.ctx.is_local() {
        return;
    }
    // Modules of all environments that the top file matched, not only of the minion's own.
    let envs: Value = matches.keys().cloned().collect();
    let call = exec::Call { args: vec![envs], kwargs: map! { "refresh" => false } };
    // States without custom modules still work, so this is no reason to fail.
    if let Err(error) = session.ctx.call_with("saltutil.sync_all", call) {
        tracing::debug!("custom modules were not fetched: {error}");
    }
}

/// Adds what the caller leaves out to what the files leave out.
fn exclude(high: &mut Map, excluded: Option<&Value>) {
    let items = match excluded {
        Some(Value::List(items)) => items.clone(),
        Some(other) => split_input(other).into_iter().filter(|sls| !sls.is_empty()).map(Value::from).collect(),
        None => Vec::new(),
    };
    if items.is_empty() {
        return;
    }
    if let Value::List(present) = high.entry_or_insert_with("__exclude__", || list![]) {
        present.extend(items);
    }
}

fn cache_path(ctx: &Context, args: &Args) -> std::path::PathBuf {
    let name = args.get("cache_name").map_or_else(|| "highstate".to_owned(), Value::to_string);
    // The name comes from the caller and must not lead out of the cache directory.
    Path::new(ctx.cachedir()).join(format!("{}.cache.p", name.replace('/', "_")))
}

/// Writes something down that a later call may want.
fn keep(path: &Path, value: &Value) {
    if let Err(error) = disk::write_value(path, value, Writing::PRIVATE) {
        tracing::error!("Unable to write to cache file {}: {error}", path.display());
    }
}

fn stored(error: store::Error) -> Error {
    Error::execution(error.to_string())
}

/// Drops results that succeeded without a change, if the argument or the option requests it.
fn terse(ctx: &Context, args: &Args, result: Value) -> Value {
    let wanted = args.is("terse") || ctx.opt_str("state_data") == Some("terse");
    match result {
        Value::Map(running) if wanted => {
            let loud = |ret: &Value| {
                !ret.get("result").is_some_and(Value::truthy) || ret.get("changes").is_some_and(Value::truthy)
            };
            running.into_iter().filter(|(_, ret)| loud(ret)).collect::<Map>().into()
        }
        other => other,
    }
}

/// Applies SLS files: a list, or names with commas.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.sls web.install,web.config test=True
///     salt '*' state.sls web exclude=id_to_leave_out saltenv=dev concurrent=True
#[function(out = "highstate")]
pub fn sls(
    ctx: &Context,
    mods: Value,
    test: Option<Value>,
    exclude: Option<Value>,
    queue: Option<Value>,
    sync_mods: Option<Value>,
    state_events: Option<Value>,
    kwargs: KwArgs,
) -> Result<Value> {
    apply_sls(ctx, mods, exclude, sync_mods, Args { test, queue, state_events, kwargs: kwargs.0 })
}

fn apply_sls(
    ctx: &Context,
    mods: Value,
    excluded: Option<Value>,
    sync_mods: Option<Value>,
    args: Args,
) -> Result<Value> {
    let names = split_input(&mods);
    let held = match begin(ctx, &args)? {
        Begun::Mine(held) => held,
        Begun::Answer(answer) => return Ok(answer),
    };
    // Inside the lock, as in Salt: a run that waits in the queue is refused only when its turn
    // comes.
    let off = disabled::of(ctx, &names);
    if !off.is_empty() {
        ctx.set_retcode(COMPILER_ERROR);
        return Ok(off.into());
    }
    let session = Session::new(ctx, &args, held, true)?;
    sync(&session, sync_mods);
    if let Some(refusal) = session.pillar_refusal(&args) {
        return Ok(refusal);
    }
    let cache = cache_path(&session.ctx, &args);
    if args.is("cache")
        && let Some(Value::Map(high)) = disk::read_value(&cache).map_err(stored)?
    {
        return Ok(session.apply(high));
    }
    let files = session.files()?;
    let matches = map! { session.saltenv() => names };
    let (mut high, errors) = session.gatherer(&files).high(&matches);
    if !errors.is_empty() {
        return Ok(finish(&session, errors.into()));
    }
    exclude(&mut high, excluded.as_ref());
    keep(&cache, &high.clone().into());
    let result = session.apply(high);
    let result = terse(&session.ctx, &args, result);
    keep(&Path::new(session.ctx.cachedir()).join("sls.p"), &result);
    Ok(result)
}

/// Fetches the kinds of custom modules that are named, or all.
fn sync(session: &Session, kinds: Option<Value>) {
    let kinds = match kinds {
        Some(Value::Bool(true)) => vec!["all".to_owned()],
        Some(Value::Bool(false)) | None => Vec::new(),
        Some(kinds) => split_input(&kinds),
    };
    let kinds = if kinds.iter().any(|kind| kind == "all") { vec!["all".to_owned()] } else { kinds };
    for kind in kinds {
        let call = exec::Call { args: Vec::new(), kwargs: map! { "saltenv" => session.saltenv() } };
        match session.ctx.call_with(&format!("saltutil.sync_{kind}"), call) {
            Ok(_) => {}
            // A misspelt kind must not keep the states from being applied.
            Err(Error::NotAvailable(_)) => tracing::warn!("Invalid custom module type '{kind}', ignoring"),
            Err(error) => tracing::warn!("custom modules were not fetched: {error}"),
        }
    }
}

/// Applies one id of SLS files, and its requisites.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.sls_id my_state my_module
///     salt '*' state.sls_id my_state my_module,a_common_module
#[function(out = "highstate")]
pub fn sls_id(
    ctx: &Context,
    id__: String,
    mods: Value,
    test: Option<Value>,
    queue: Option<Value>,
    state_events: Option<Value>,
    kwargs: KwArgs,
) -> Result<Value> {
    let args = Args { test, queue, state_events, kwargs: kwargs.0 };
    let session = session!(ctx, &args, true);
    if let Some(refusal) = session.pillar_refusal(&args) {
        return Ok(refusal);
    }
    let files = session.files()?;
    let matches = map! { session.saltenv() => split_input(&mods) };
    let (high, mut errors) = session.gatherer(&files).high(&matches);
    let mut high = Value::Map(high);
    // Verified before requisites are resolved, which relies on the structure being right.
    errors.extend(::state::high::verify_high(&high));
    let settings = session.settings();
    if let Some(high) = high.as_map_mut() {
        errors.extend(::state::high::requisite_in(high, &settings.disabled_requisites));
    }
    if !errors.is_empty() {
        return Ok(finish(&session, errors.into()));
    }
    let (chunks, errors) = lows::compile_high_data(high.into_map().unwrap_or_default(), &settings);
    if !errors.is_empty() {
        return Ok(finish(&session, errors.into()));
    }
    // The states with the ID are run, together with what they require.
    let result = session.run().only(chunks, &id__);
    if result.is_empty() {
        return Err(Error::invocation(format!(
            "No matches for ID '{id__}' found in SLS '{mods}' within saltenv '{}'",
            session.saltenv()
        )));
    }
    Ok(finish(&session, result.into()))
}

/// Applies one state that is named by its function.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.single pkg.installed name=vim
#[function(out = "highstate")]
pub fn single(
    ctx: &Context,
    fun: String,
    name: Value,
    test: Option<Value>,
    queue: Option<Value>,
    kwargs: KwArgs,
) -> Result<Value> {
    let args = Args::with_test(test, queue, kwargs);
    let session = session!(ctx, &args, false);
    let Some((module, function)) = fun.split_once('.') else {
        ctx.set_retcode(COMPILER_ERROR);
        return Ok("Invalid function passed".into());
    };
    // Salt splits at every dot and uses the first two parts.
    let function = function.split('.').next().unwrap_or(function);
    let mut low = args.kwargs.clone();
    low.update(map! { "state" => module, "fun" => function, "__id__" => name.clone(), "name" => name });
    let mut run = session.run();
    // On a copy, because verifying fills in defaults that must not show in the result.
    let errors = run.verify(&mut low.clone());
    if !errors.is_empty() {
        return Ok(finish(&session, errors.into()));
    }
    let tag = ::state::tag::of(&low);
    let ret = run.low(low);
    Ok(finish(&session, map! { tag => ret }.into()))
}

/// Applies one low chunk.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.low '{"state": "pkg", "fun": "installed", "name": "vi"}'
#[function]
pub fn low(ctx: &Context, data: Map, queue: Option<Value>, kwargs: KwArgs) -> Result<Value> {
    let args = Args::new(queue, kwargs);
    let session = session!(ctx, &args, false);
    let mut run = session.run();
    let errors = run.verify(&mut data.clone());
    if !errors.is_empty() {
        return Ok(finish(&session, errors.into()));
    }
    let mut data = data;
    let name = data.get("name").cloned().unwrap_or_default();
    data.entry_or_insert_with("__id__", || name);
    let ret = run.low(data);
    let failed = ret.get("result") == Some(&Value::Bool(false));
    session.ctx.set_retcode(if failed { super::session::STATE_FAILURE } else { 0 });
    Ok(ret.into())
}

/// Applies high data.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.high '{"vim": {"pkg": ["installed"]}}'
#[function]
pub fn high(ctx: &Context, data: Map, test: Option<Value>, queue: Option<Value>, kwargs: KwArgs) -> Result<Value> {
    let args = Args::with_test(test, queue, kwargs);
    let session = session!(ctx, &args, false);
    Ok(session.apply(data))
}

/// Applies the states of a template on this machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.template '<Path to template on the minion>'
#[function(out = "highstate")]
pub fn template(ctx: &Context, tem: String, queue: Option<Value>, kwargs: KwArgs) -> Result<Value> {
    let args = Args::new(queue, kwargs);
    let session = session!(ctx, &args, false);
    session.require_pillar(&args)?;
    let path = if tem.ends_with(".sls") { tem } else { format!("{tem}.sls") };
    // A path on this machine. The file server is not asked.
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Ok(finish(&session, list![format!("Specified SLS {path} on local filesystem cannot be found.")]));
    };
    let saltenv = args.get("saltenv").map(Value::to_string).unwrap_or_default();
    let files = session.files()?;
    let data = match files.text(text, Some(path.clone().into()), &path, &saltenv) {
        Ok(data) => data,
        Err(why) => return Ok(finish(&session, list![format!("Rendering SLS '{saltenv}:{path}' failed: {why}")])),
    };
    let (high, errors) = session.gatherer(&files).template(data, &path, &saltenv);
    if !errors.is_empty() {
        return Ok(finish(&session, errors.into()));
    }
    Ok(session.apply(high))
}

/// Applies the states of a template that is given as text.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.template_str '<Template String>'
#[function(out = "highstate")]
pub fn template_str(ctx: &Context, tem: String, queue: Option<Value>, kwargs: KwArgs) -> Result<Value> {
    let args = Args::new(queue, kwargs);
    let session = session!(ctx, &args, false);
    let data = session.files()?.text(tem, None, "", &session.saltenv()).map_err(Error::execution)?;
    if !data.truthy() {
        return Ok(finish(&session, data));
    }
    let Value::Map(mut high) = data else {
        return Ok(finish(&session, list!["Template <template-str> does not render to a dictionary"]));
    };
    let errors = declare::template(&mut high, "<template-str>");
    if !errors.is_empty() {
        return Ok(finish(&session, errors.into()));
    }
    Ok(session.apply(high))
}

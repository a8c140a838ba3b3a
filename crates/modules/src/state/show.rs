//! The functions that show what would be applied, and from where.

use ::state::gather::{self, Matches};
use ::state::{high, low};
use exec::{Context, KwArgs, Result, function};
use value::{Map, Value};

use super::apply::session;
use super::session::{Args, Begun, COMPILER_ERROR, Session, begin, set_retcode};
use crate::util::split_input;

/// Returns the high data of the top files, or the errors.
fn high_of_top(session: &Session) -> Result<std::result::Result<Map, Vec<String>>> {
    let gathered = gathered_top(session)?;
    Ok(gathered.and_then(|(high, errors)| if errors.is_empty() { Ok(high) } else { Err(errors) }))
}

/// High data and the errors of the rest.
type Partly = (Map, Vec<String>);

/// Returns as much of the high data of the top files as possible, and the errors of the rest.
fn gathered_top(session: &Session) -> Result<std::result::Result<Partly, Vec<String>>> {
    let files = session.files()?;
    let mut gatherer = session.gatherer(&files);
    let top = match gatherer.top() {
        Ok(top) => top,
        Err(why) => return Ok(Err(vec![format!("Unable to render top file: {why}")])),
    };
    let mut errors = gather::verify(&top);
    match gatherer.matches(&top, session.minion()) {
        Ok(matches) => {
            let (high, more) = gatherer.high(&matches);
            errors.extend(more);
            Ok(Ok((high, errors)))
        }
        Err(why) => Ok(Err(vec![why])),
    }
}

/// Returns what the top files give this minion.
fn matches_of_top(session: &Session) -> Result<std::result::Result<Matches, Vec<String>>> {
    let files = session.files()?;
    let mut gatherer = session.gatherer(&files);
    let top = match gatherer.top() {
        Ok(top) => top,
        Err(why) => return Ok(Err(vec![format!("Unable to render top file: {why}")])),
    };
    let errors = gather::verify(&top);
    if !errors.is_empty() {
        return Ok(Err(errors));
    }
    Ok(gatherer.matches(&top, session.minion()).map_err(|why| vec![why]))
}

fn refuse(session: &Session, errors: Vec<String>) -> Value {
    session.ctx.set_retcode(COMPILER_ERROR);
    errors.into()
}

/// Returns the SLS names that the top files assign to this minion.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.show_top
#[function]
pub fn show_top(ctx: &Context, queue: Option<Value>, kwargs: KwArgs) -> Result<Value> {
    let args = Args::new(queue, kwargs);
    let session = session!(ctx, &args, false);
    session.require_pillar(&args)?;
    Ok(match matches_of_top(&session)? {
        Ok(matches) => matches.into(),
        Err(errors) => refuse(&session, errors),
    })
}

/// Returns the high data that the top files assign to this minion.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.show_highstate
#[function]
pub fn show_highstate(ctx: &Context, queue: Option<Value>, kwargs: KwArgs) -> Result<Value> {
    let args = Args::new(queue, kwargs);
    let session = session!(ctx, &args, false);
    session.require_pillar(&args)?;
    let shown: Value = match high_of_top(&session)? {
        Ok(high) => high.into(),
        Err(errors) => errors.into(),
    };
    set_retcode(&session.ctx, &shown, None);
    Ok(shown)
}

/// Returns the low chunks that the top files assign to this minion, in their order.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.show_lowstate
#[function]
pub fn show_lowstate(ctx: &Context, queue: Option<Value>, kwargs: KwArgs) -> Result<Value> {
    let args = Args::new(queue, kwargs);
    let session = session!(ctx, &args, false);
    session.require_pillar(&args)?;
    Ok(match lows_of_top(&session)? {
        Ok(lows) => lows.into(),
        Err(errors) => errors.into(),
    })
}

fn lows_of_top(session: &Session) -> Result<std::result::Result<Vec<Map>, Vec<String>>> {
    let gathered = gathered_top(session)?;
    Ok(gathered.and_then(|(high, errors)| {
        let chunks = low::compile_what_there_is(high, errors, &session.settings())?;
        Ok(chunks.in_order().cloned().collect())
    }))
}

/// Returns the SLS names whose states would be applied, in their order.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.show_states
#[function]
pub fn show_states(ctx: &Context, queue: Option<Value>, kwargs: KwArgs) -> Result<Value> {
    let args = Args::new(queue, kwargs);
    let session = session!(ctx, &args, false);
    session.require_pillar(&args)?;
    Ok(match lows_of_top(&session)? {
        Ok(lows) => {
            // In order of their first appearance, each once.
            let mut names: Vec<Value> = Vec::new();
            for name in lows.iter().filter_map(|low| low.get("__sls__")) {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
            names.into()
        }
        Err(errors) => refuse(&session, errors),
    })
}

/// Returns for each environment which SLS files are used by the top files and which are not.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.show_state_usage
#[function]
pub fn show_state_usage(ctx: &Context, queue: Option<Value>, kwargs: KwArgs) -> Result<Value> {
    let args = Args::new(queue, kwargs);
    let session = session!(ctx, &args, false);
    let shown: Value = match matches_of_top(&session)? {
        Ok(matches) => {
            let files = session.files()?;
            match session.gatherer(&files).usage(&matches) {
                Ok(usage) => usage.into(),
                Err(why) => value::list![why],
            }
        }
        Err(errors) => errors.into(),
    };
    set_retcode(&session.ctx, &shown, None);
    Ok(shown)
}

/// Gathers and verifies the high data of SLS files.
fn high_of_sls(session: &Session, mods: &Value) -> Result<std::result::Result<Map, Vec<String>>> {
    let files = session.files()?;
    let matches = value::map! { session.saltenv() => split_input(mods) };
    let (gathered, mut errors) = session.gatherer(&files).high(&matches);
    let gathered = Value::Map(gathered);
    errors.extend(high::verify_high(&gathered));
    Ok(if errors.is_empty() { Ok(gathered.into_map().unwrap_or_default()) } else { Err(errors) })
}

/// Returns the high data of SLS files.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.show_sls core,edit.vim saltenv=dev
#[function]
pub fn show_sls(
    ctx: &Context,
    mods: Value,
    test: Option<Value>,
    queue: Option<Value>,
    kwargs: KwArgs,
) -> Result<Value> {
    shown_sls(ctx, mods, Args::with_test(test, queue, kwargs))
}

fn shown_sls(ctx: &Context, mods: Value, args: Args) -> Result<Value> {
    let session = session!(ctx, &args, true);
    session.require_pillar(&args)?;
    Ok(match high_of_sls(&session, &mods)? {
        Ok(high) => high.into(),
        Err(errors) => refuse(&session, errors),
    })
}

/// Returns the low chunks of SLS files, in their order.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.show_low_sls foo saltenv=dev
#[function]
pub fn show_low_sls(
    ctx: &Context,
    mods: Value,
    test: Option<Value>,
    queue: Option<Value>,
    kwargs: KwArgs,
) -> Result<Value> {
    shown_lows(ctx, mods, Args::with_test(test, queue, kwargs))
}

fn shown_lows(ctx: &Context, mods: Value, args: Args) -> Result<Value> {
    let session = session!(ctx, &args, true);
    session.require_pillar(&args)?;
    let high = match high_of_sls(&session, &mods)? {
        Ok(high) => high,
        Err(errors) => return Ok(refuse(&session, errors)),
    };
    let (chunks, errors) = low::compile_high_data(high, &session.settings());
    if !errors.is_empty() {
        return Ok(refuse(&session, errors));
    }
    let lows: Vec<Map> = chunks.in_order().cloned().collect();
    Ok(lows.into())
}

/// Returns whether SLS files exist and render.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.sls_exists core,edit.vim saltenv=dev
#[function]
pub fn sls_exists(
    ctx: &Context,
    mods: Value,
    test: Option<Value>,
    queue: Option<Value>,
    kwargs: KwArgs,
) -> Result<Value> {
    let shown = shown_sls(ctx, mods, Args::with_test(test, queue, kwargs))?;
    // Errors are lists, so a map means that the SLS exists and renders.
    Ok(shown.as_map().is_some().into())
}

/// Returns whether ids exist in SLS files.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.id_exists create_myfile,update_template filestate saltenv=dev
#[function]
pub fn id_exists(
    ctx: &Context,
    ids: Value,
    mods: Value,
    test: Option<Value>,
    queue: Option<Value>,
    kwargs: KwArgs,
) -> Result<Value> {
    let shown = shown_lows(ctx, mods, Args::with_test(test, queue, kwargs))?;
    let lows = shown.as_list().unwrap_or_default();
    let exists = |id: &String| lows.iter().any(|low| low.get("__id__").and_then(Value::as_str) == Some(id));
    Ok(split_input(&ids).iter().all(exists).into())
}

/// Returns the requisites of SLS files as a graph in the language of Graphviz.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.graph core,edit.vim saltenv=dev
#[function]
pub fn graph(ctx: &Context, mods: Value, test: Option<Value>, queue: Option<Value>, kwargs: KwArgs) -> Result<Value> {
    let args = Args::with_test(test, queue, kwargs);
    let session = session!(ctx, &args, true);
    session.require_pillar(&args)?;
    Ok(match high_of_sls(&session, &mods)? {
        Ok(high) => dot(&session, high),
        Err(errors) => refuse(&session, errors),
    })
}

/// Returns the requisites of this minion's highstate as a graph in the language of Graphviz.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.graph_highstate
#[function]
pub fn graph_highstate(ctx: &Context, queue: Option<Value>, kwargs: KwArgs) -> Result<Value> {
    let args = Args::new(queue, kwargs);
    let session = session!(ctx, &args, false);
    session.require_pillar(&args)?;
    Ok(match high_of_top(&session)? {
        Ok(high) => dot(&session, high),
        Err(errors) => errors.into(),
    })
}

/// The graph is returned even if it has errors: it is used to find them.
fn dot(session: &Session, high: Map) -> Value {
    let (chunks, errors) = low::compile_high_data(high, &session.settings());
    // A graph of what could be compiled is still of use.
    for error in errors {
        tracing::error!("{error}");
    }
    chunks.graph.to_dot().into()
}

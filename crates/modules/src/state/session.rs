//! The setup that all functions for states share: options, the lock of the run, pillar.

use std::cell::Cell;
use std::sync::Arc;

use ::state::gather::{Gatherer, Minion, Options};
use ::state::{How, Run, Settings, World};
use exec::{Context, Error, KwArgs, Refresh, Result};
use value::{Map, Value, map};

use super::files::Files;
use super::holders::{Held, Place, Queue, Runs};
use crate::util;

/// The return code if the states are wrong.
pub const COMPILER_ERROR: i64 = 1;
/// A state failed.
pub const STATE_FAILURE: i64 = 2;
/// The pillar does not render.
pub const PILLAR_FAILURE: i64 = 5;

/// Options of the master that states follow: they decide how SLS files are read, which must not differ between minions.
const OF_MASTER: [&str; 13] = [
    "renderer",
    "failhard",
    "state_top",
    "state_top_saltenv",
    "nodegroups",
    "state_auto_order",
    "top_file_merging_strategy",
    "env_order",
    "default_top",
    "jinja_env",
    "jinja_sls_env",
    "jinja_lstrip_blocks",
    "jinja_trim_blocks",
];

/// Options that hold if either the master or the minion has them.
const OF_EITHER: [&str; 2] = ["state_events", "state_aggregate"];

/// The arguments that all functions share.
#[derive(Clone, Default)]
pub struct Args {
    pub test: Option<Value>,
    pub queue: Option<Value>,
    pub state_events: Option<Value>,
    pub kwargs: Map,
}

impl Args {
    /// Takes the arguments of a function without `test`.
    pub fn new(queue: Option<Value>, kwargs: KwArgs) -> Self {
        Args { queue, kwargs: kwargs.0, ..Args::default() }
    }

    /// Takes the arguments of a function with `test`.
    pub fn with_test(test: Option<Value>, queue: Option<Value>, kwargs: KwArgs) -> Self {
        Args { test, queue, kwargs: kwargs.0, ..Args::default() }
    }

    /// Returns a keyword argument that is not `None`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.kwargs.get(key).filter(|value| !value.is_null())
    }

    /// Returns whether a keyword argument is given and true.
    pub fn is(&self, key: &str) -> bool {
        self.get(key).is_some_and(Value::truthy)
    }
}

/// A place among the runs, or the answer for a caller who gets none.
pub enum Begun<T> {
    Mine(T),
    Answer(Value),
}

/// Takes the place among the runs of this machine.
pub fn begin(ctx: &Context, args: &Args) -> Result<Begun<Held>> {
    let queue = Queue::read(args.queue.as_ref(), ctx.opt("state_queue"));
    match Runs::new(ctx.cachedir()).take(ctx, queue, args.is("concurrent"))? {
        Place::Mine(held) => Ok(Begun::Mine(held)),
        Place::Taken(texts) => {
            ctx.set_retcode(COMPILER_ERROR);
            Ok(Begun::Answer(texts.into()))
        }
    }
}

/// A context that states are gathered and run with, and how.
pub struct Session {
    pub ctx: Context,
    pub how: How,
    _held: Option<Held>,
    _nested: Nested,
}

/// The most runs inside each other on one thread. A run that applies itself would otherwise overflow the stack, which ends
/// the whole minion. Salt stops at about as many, when Python's recursion limit is reached.
const DEEPEST: usize = 40;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Counts a run on this thread until it is dropped.
struct Nested;

impl Nested {
    fn enter() -> Result<Self> {
        let depth = DEPTH.get();
        if depth >= DEEPEST {
            return Err(Error::execution(format!(
                "maximum recursion depth exceeded: {DEEPEST} state runs inside each other; an SLS file applies or shows itself"
            )));
        }
        DEPTH.set(depth + 1);
        Ok(Nested)
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

impl Session {
    /// Prepares options and pillar. `needs_env`: without an environment it is `base`.
    pub fn new(ctx: &Context, args: &Args, held: Held, needs_env: bool) -> Result<Self> {
        let nested = Nested::enter()?;
        let mut opts = own_options(ctx, args)?;
        add_master_options(ctx, &mut opts);
        opts.insert("test", test_value(ctx, args));
        // The highstate leaves the environment open, because the top file decides it.
        if needs_env && opts.get("saltenv").is_none_or(Value::is_null) {
            opts.insert("saltenv", "base");
        }
        // `salt --state-events` requests them in the publication.
        if let Some(events) = args.state_events.as_ref().or_else(|| ctx.job.load.get("state_events")) {
            opts.insert("state_events", events.clone());
        }
        tracing::debug!(target: "salt.state", "Gathering pillar data for state run");
        let pillar = pillar(ctx, &opts, args)?;
        tracing::debug!(target: "salt.state", "Finished gathering pillar data for state run");
        let jid = args.kwargs.get_str("__pub_jid").unwrap_or(ctx.job.jid());
        let how = How {
            jid: Some(jid.to_owned()).filter(|jid| !jid.is_empty()),
            mocked: args.is("mock"),
            orchestration_jid: args.get("orchestration_jid").cloned(),
        };
        let mut ctx = ctx.clone();
        ctx.opts = Arc::new(opts);
        ctx.pillar = Arc::new(pillar);
        Ok(Session { ctx, how, _held: Some(held), _nested: nested })
    }

    /// Returns the errors of the pillar, unless the caller ignores them.
    pub fn pillar_errors(&self, args: &Args) -> Option<Vec<Value>> {
        // States applied with half a pillar could do damage; `force=True` does so nevertheless.
        let errors = self.ctx.pillar.get("_errors").filter(|errors| errors.truthy() && !args.is("force"))?;
        self.ctx.set_retcode(PILLAR_FAILURE);
        Some(errors.as_list().map_or_else(|| vec![errors.clone()], <[Value]>::to_vec))
    }

    /// The same as the answer of a function that applies states.
    pub fn pillar_refusal(&self, args: &Args) -> Option<Value> {
        let errors = self.pillar_errors(args)?;
        let mut answer = vec![Value::from("Pillar failed to render with the following messages:")];
        answer.extend(errors);
        Some(Value::List(answer))
    }

    /// The same as the failure of a function that shows states.
    pub fn require_pillar(&self, args: &Args) -> Result<()> {
        match self.pillar_errors(args) {
            None => Ok(()),
            Some(errors) => Err(pillar_failed(errors)),
        }
    }

    /// Returns the files of the run.
    pub fn files(&self) -> Result<Files> {
        Files::new(&self.ctx)
    }

    /// Returns what gathers from these files.
    pub fn gatherer<'a>(&self, files: &'a Files) -> Gatherer<'a> {
        Gatherer::new(files, Options::new(&self.ctx.opts))
    }

    /// Returns the minion that top files are asked about.
    pub fn minion(&self) -> Minion<'_> {
        Minion {
            id: self.ctx.id(),
            grains: &self.ctx.grains,
            pillar: &self.ctx.pillar,
            nodegroups: self.ctx.opt("nodegroups").and_then(Value::as_map),
        }
    }

    /// Returns what chunks are compiled with.
    pub fn settings(&self) -> Settings<'_> {
        Settings::new(&self.ctx.opts, &self.ctx.grains, self.ctx.agent.states())
    }

    /// Returns a run.
    pub fn run(&self) -> Run {
        Run::new(self.ctx.clone(), Arc::new(Machine), self.how.clone())
    }

    /// Returns the environment of the run.
    pub fn saltenv(&self) -> String {
        self.ctx.opt_str("saltenv").unwrap_or("base").to_owned()
    }

    /// Runs high data and sets the return code.
    pub fn apply(&self, high: Map) -> Value {
        let handlers = ::state::run::failure_handlers(&high);
        let result: Value = match self.run().high(high) {
            Ok(result) => result.into(),
            Err(errors) => errors.into(),
        };
        set_retcode(&self.ctx, &result, Some(&handlers));
        result
    }
}

/// Sets the return code of a result.
pub fn set_retcode(ctx: &Context, result: &Value, high: Option<&Map>) {
    ctx.set_retcode(match result {
        Value::Map(running) if ::state::run::is_success(running, high) => 0,
        Value::List(_) => COMPILER_ERROR,
        _ => STATE_FAILURE,
    });
}

/// Returns the options, overridden by those of the caller.
fn own_options(ctx: &Context, args: &Args) -> Result<Map> {
    let mut opts = (*ctx.opts).clone();
    if let Some(path) = args.get("localconfig") {
        let path = path.to_string();
        let text = std::fs::read_to_string(&path).map_err(|error| Error::io("read", &path, &error))?;
        let local = yaml::load(&text, &path).map_err(|error| Error::execution(format!("{path}: {error}")))?;
        opts.update(local.into_map().unwrap_or_default());
        // A local configuration replaces everything else, as in Salt, even an explicit saltenv.
        return Ok(opts);
    }
    if let Some(saltenv) = args.get("saltenv") {
        let saltenv = saltenv.to_string();
        // For minions that must stay in one environment, whatever the caller requests.
        if ctx.opt("lock_saltenv").is_some_and(Value::truthy) && ctx.opt_str("saltenv") != Some(&saltenv) {
            return Err(Error::execution("lock_saltenv is enabled, saltenv cannot be changed"));
        }
        opts.insert("saltenv", saltenv);
    }
    if let Some(pillarenv) = args.kwargs.get("pillarenv") {
        let pillarenv = if pillarenv.is_null() { Value::Null } else { pillarenv.to_string().into() };
        opts.insert("pillarenv", pillarenv);
    } else if ctx.opt("pillarenv_from_saltenv").is_some_and(Value::truthy)
        && let Some(saltenv) = args.get("saltenv")
    {
        opts.insert("pillarenv", saltenv.to_string());
    }
    Ok(opts)
}

/// Lays the options of the master over those of the minion that states follow. A master that does not answer has the
/// defaults.
fn add_master_options(ctx: &Context, opts: &mut Map) {
    // `master: []` means a minion without masters, like the type `disable`.
    let without =
        ctx.opt_str("master_type") == Some("disable") || ctx.opts.get("master").is_some_and(|name| !name.truthy());
    if ctx.is_local() || without {
        return;
    }
    let asked = ctx.wait(ctx.agent.request(map! { "cmd" => "_master_opts" }, None));
    let theirs = match asked {
        Ok(Value::Map(theirs)) => theirs,
        // An older master answers something else to a command it does not know.
        Ok(_) => return,
        Err(error) => {
            tracing::warn!("the master does not tell its options: {error}");
            return;
        }
    };
    for key in OF_MASTER {
        if let Some(value) = theirs.get(key) {
            opts.insert(key, value.clone());
        }
    }
    for key in OF_EITHER {
        // Either side can switch these on.
        let value = opts.get(key).filter(|own| own.truthy()).or_else(|| theirs.get(key)).cloned();
        opts.insert(key, value.filter(Value::truthy).unwrap_or(Value::Bool(false)));
    }
}

/// Returns whether nothing is to be changed.
fn test_value(ctx: &Context, args: &Args) -> Value {
    match &args.test {
        Some(Value::Null) | None => {}
        // An explicit `test=False` wins over the configuration. Any other value counts as true.
        Some(Value::Bool(false)) => return false.into(),
        Some(_) => return true.into(),
    }
    let named = |(key, value): (&Value, &Value)| {
        key.as_str().is_some_and(|key| key.eq_ignore_ascii_case("test")) && util::is_true(value)
    };
    // A grain or a pillar can put a machine into test mode permanently.
    let elsewhere = [&*ctx.grains, &*ctx.pillar].iter().any(|map| map.get("test") == Some(&Value::Bool(true)));
    if args.kwargs.iter().any(named) || elsewhere {
        return true.into();
    }
    ctx.opts.get("test").cloned().unwrap_or_default()
}

/// Returns the pillar of the run: freshly compiled, unless the call has just compiled it.
fn pillar(ctx: &Context, opts: &Map, args: &Args) -> Result<Map> {
    let over = args.get("pillar").cloned();
    if over.as_ref().is_some_and(|over| over.as_map().is_none()) && args.get("pillar_enc").is_none() {
        return Err(Error::invocation(
            "Pillar data must be formatted as a dictionary, unless pillar_enc is specified.",
        ));
    }
    if args.get("pillar_enc").is_some() {
        return Err(Error::execution("not supported: pillar_enc"));
    }
    let same_env = opts.get("pillarenv") == ctx.opts.get("pillarenv");
    // salt-call has just compiled its pillar. In a running minion it may be hours old.
    if over.is_none() && same_env && ctx.opt_str("__cli") == Some("salt-call") {
        return Ok((*ctx.pillar).clone());
    }
    let option = |key: &str| opts.get(key).cloned().unwrap_or_default();
    let mut request = map! { "pillarenv" => option("pillarenv"), "saltenv" => option("saltenv") };
    if let Some(over) = over.clone().filter(Value::truthy) {
        request.insert("pillar_override", over);
    }
    let mut pillar = ctx.wait(ctx.agent.compile_pillar(request))?;
    if let Some(Value::Map(over)) = over {
        let lists = ctx.opt("pillar_merge_lists").is_some_and(Value::truthy);
        // Merged once more, as in Salt: the override must win whatever the master made of it.
        util::merge_maps(&mut pillar, over, lists);
    }
    Ok(pillar)
}

/// The machine, for what a run needs of it.
struct Machine;

impl World for Machine {
    fn utc_offset(&self) -> i64 {
        grains::system::local_time(None).map_or(0, |time| time.offset)
    }

    fn grains(&self, ctx: &Context) -> Option<Map> {
        if let Err(error) = ctx.wait(ctx.agent.refresh(Refresh::Grains)) {
            tracing::warn!("grains could not be loaded anew: {error}");
        }
        Some(ctx.blocking(|| grains::collect(&ctx.opts)))
    }

    fn pillar(&self, ctx: &Context) -> Option<Map> {
        let option = |key: &str| ctx.opts.get(key).cloned().unwrap_or_default();
        let request = map! { "pillarenv" => option("pillarenv"), "saltenv" => option("saltenv") };
        match ctx.wait(ctx.agent.compile_pillar(request)) {
            Ok(pillar) => Some(pillar),
            Err(error) => {
                tracing::warn!("the pillar could not be compiled anew: {error}");
                None
            }
        }
    }
}

fn pillar_failed(errors: Vec<Value>) -> Error {
    let errors = exec::nested(&errors.into());
    Error::execution(format!("Pillar failed to render. Additional info follows:\n\n{errors}"))
}

#[cfg(test)]
mod tests {
    use value::list;

    #[test]
    fn a_pillar_with_errors_is_refused_with_all_of_them() {
        let errors = list!["one\nand more", "two"].into_list().unwrap();
        let text = super::pillar_failed(errors).to_string();
        assert_eq!(text, "Pillar failed to render. Additional info follows:\n\n- one\n  and more\n- two");
    }
}

//! `pillar` — the data the master gives this minion.
//!
//! As in the 3008 line, values are shown as asterisks to an operator who did not ask to see them (`unmask=True`, or
//! `pillar_mask_output: False` for `pillar.items`).

use exec::{Context, Error, Module, Result, VarArgs, function};
use value::{Map, Value, map};

use crate::util::{self, FilterBy};

/// The module.
pub static MODULE: Module = Module::new(
    "pillar",
    "The data the master gives this minion.",
    &[&DATA, &EXT, &FETCH, &FILE_EXISTS, &FILTER_BY, &GET, &ITEM, &ITEMS, &KEYS, &LS, &OBFUSCATE, &RAW],
);

/// Stands in for every value that is masked.
const MASK: &str = "**********";

/// Replaces all values but empty ones.
fn masked(value: Value) -> Value {
    match value {
        Value::Map(map) => map.into_iter().map(|(key, value)| (key, masked(value))).collect::<Map>().into(),
        Value::List(items) => items.into_iter().map(masked).collect(),
        // Empty values are no secret, and showing them helps to find mistakes.
        Value::Bytes(bytes) if !bytes.is_empty() => Value::bytes(MASK.as_bytes()),
        Value::Str(_) | Value::Int(_) | Value::BigInt(_) | Value::Float(_) | Value::Bool(_) if value.truthy() => {
            MASK.into()
        }
        other => other,
    }
}

fn mask_unless(value: Value, unmask: Option<bool>) -> Value {
    if unmask == Some(true) { value } else { masked(value) }
}

/// The environments that the caller named. They decide where the pillar comes from.
struct Envs {
    pillarenv: Option<String>,
    saltenv: Option<String>,
}

impl Envs {
    /// The pillar in memory, or one compiled for the named environment.
    fn pillar(&self, ctx: &Context) -> Result<Map> {
        // Without another environment the pillar in memory will do. To compile one costs the master
        // a lot.
        if self.pillarenv.is_none() && self.saltenv.is_none() {
            return Ok((*ctx.pillar).clone());
        }
        self.compiled(ctx, None)
    }

    /// Returns a freshly compiled pillar, overlaid with values.
    fn compiled(&self, ctx: &Context, over: Option<Value>) -> Result<Map> {
        let from_saltenv = ctx.opt("pillarenv_from_saltenv").is_some_and(Value::truthy);
        let option = |name: &str| ctx.opt_str(name).map(str::to_owned);
        let pillarenv = match &self.pillarenv {
            Some(pillarenv) => Some(pillarenv.clone()),
            // The option makes `saltenv` count for the pillar as well.
            None if from_saltenv => self.saltenv.clone().or_else(|| option("saltenv")),
            None => option("pillarenv"),
        };
        let mut request =
            map! { "pillarenv" => pillarenv, "saltenv" => self.saltenv.clone().or_else(|| option("saltenv")) };
        if let Some(over) = over.filter(Value::truthy) {
            request.insert("pillar_override", over);
        }
        ctx.wait(ctx.agent.compile_pillar(request))
    }
}

/// Returns a freshly compiled pillar for another function, overlaid with the values of a map.
///
/// # Errors
/// When it cannot be compiled.
pub fn compiled(ctx: &Context, pillarenv: Option<String>, over: Value) -> Result<Map> {
    let mut pillar = Envs { pillarenv, saltenv: None }.compiled(ctx, Some(over.clone()))?;
    if let Value::Map(over) = over {
        // The master knows the override for its templates. Merged once more, it also takes precedence over their
        // results.
        pillar.update(over);
    }
    Ok(pillar)
}

/// Returns a value of the pillar in memory, which may be nested: ``users:anna:shell``; if it does not exist, the
/// default.
///
/// With ``merge=True`` a map or list is merged with the default. With ``pillarenv`` or ``saltenv`` the pillar is
/// compiled for that environment.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pillar.get pkg:apache unmask=True
///     salt '*' pillar.get limits default='{soft: 10}' merge=True
#[function]
fn get(
    ctx: &Context,
    key: String,
    #[default(NotSet)] default: Value,
    #[default(false)] merge: bool,
    merge_nested_lists: Option<bool>,
    #[default(":")] delimiter: String,
    pillarenv: Option<String>,
    saltenv: Option<String>,
    unmask: Option<bool>,
) -> Result<Value> {
    let lookup = Lookup { key, default, merge, merge_nested_lists, delimiter };
    lookup.answer(ctx, Envs { pillarenv, saltenv }, unmask)
}

/// The same as ``pillar.get``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pillar.fetch pkg:apache
#[function]
fn fetch(
    ctx: &Context,
    key: String,
    #[default(NotSet)] default: Value,
    #[default(false)] merge: bool,
    merge_nested_lists: Option<bool>,
    #[default(":")] delimiter: String,
    pillarenv: Option<String>,
    saltenv: Option<String>,
    unmask: Option<bool>,
) -> Result<Value> {
    let lookup = Lookup { key, default, merge, merge_nested_lists, delimiter };
    lookup.answer(ctx, Envs { pillarenv, saltenv }, unmask)
}

/// The default that distinguishes "not given" from "given as None".
struct NotSet;

/// The text that Salt shows for that default.
const NOT_SET: &str = "<Constant.NOT_SET>";

impl From<NotSet> for Value {
    fn from(_: NotSet) -> Self {
        NOT_SET.into()
    }
}

struct Lookup {
    key: String,
    default: Value,
    merge: bool,
    merge_nested_lists: Option<bool>,
    delimiter: String,
}

impl Lookup {
    fn answer(self, ctx: &Context, envs: Envs, unmask: Option<bool>) -> Result<Value> {
        let pillar = envs.pillar(ctx)?;
        let found = util::traverse(&pillar, &self.key, &self.delimiter).cloned();
        let given = (self.default.as_str() != Some(NOT_SET)).then_some(self.default);
        let option = || ctx.opt("pillar_merge_lists").is_some_and(Value::truthy);
        // Types that do not match are logged and not merged, and the pillar's value is used.
        if self.merge
            && let Some(merged) =
                laid_over(given.as_ref(), found.as_ref(), self.merge_nested_lists.unwrap_or_else(option))
        {
            return Ok(mask_unless(merged, unmask));
        }
        match found.or(given) {
            Some(value) => Ok(mask_unless(value, unmask)),
            // Salt raises a KeyError here.
            None if ctx.opt("pillar_raise_on_missing").is_some_and(Value::truthy) => {
                Err(Error::Other(format!("Pillar key not found: {}", self.key)))
            }
            None => Ok("".into()),
        }
    }
}

/// Merges the value over the default; `None` when the types do not match.
fn laid_over(default: Option<&Value>, found: Option<&Value>, join_lists: bool) -> Option<Value> {
    match (default, found) {
        (Some(Value::Map(_) | Value::List(_)), None) => default.cloned(),
        (Some(Value::Map(default)), Some(Value::Map(found))) => {
            let mut merged = default.clone();
            util::merge_maps(&mut merged, found.clone(), join_lists);
            Some(merged.into())
        }
        (Some(Value::List(default)), Some(Value::List(found))) => {
            let new = found.iter().filter(|item| !default.contains(item));
            Some(default.iter().chain(new).cloned().collect())
        }
        (default, found) => {
            let kind = |value: Option<&Value>| value.map_or("missing", Value::type_name);
            tracing::error!(
                "pillar.get: the default is of type '{}' and the pillar value of type '{}', they are not merged",
                kind(default),
                kind(found)
            );
            None
        }
    }
}

/// Returns a freshly compiled pillar or, given keys, these values of the pillar in memory.
///
/// ``pillar`` holds values that override it, ``pillarenv`` and ``saltenv`` choose environments.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pillar.items
///     salt '*' pillar.items users pillarenv=test unmask=True
#[function]
fn items(
    ctx: &Context,
    args: VarArgs,
    pillar: Option<Value>,
    pillar_enc: Option<Value>,
    pillarenv: Option<String>,
    saltenv: Option<String>,
    unmask: Option<bool>,
) -> Result<Value> {
    let request = Request { args: args.0, over: pillar, encrypted: pillar_enc, envs: Envs { pillarenv, saltenv } };
    request.maybe_masked(ctx, unmask)
}

/// The same as ``pillar.items``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pillar.data
#[function]
fn data(
    ctx: &Context,
    args: VarArgs,
    pillar: Option<Value>,
    pillar_enc: Option<Value>,
    pillarenv: Option<String>,
    saltenv: Option<String>,
    unmask: Option<bool>,
) -> Result<Value> {
    let request = Request { args: args.0, over: pillar, encrypted: pillar_enc, envs: Envs { pillarenv, saltenv } };
    request.maybe_masked(ctx, unmask)
}

/// Returns the result of ``pillar.items``, with the type in the place of each value.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pillar.obfuscate
#[function]
fn obfuscate(
    ctx: &Context,
    args: VarArgs,
    pillar: Option<Value>,
    pillar_enc: Option<Value>,
    pillarenv: Option<String>,
    saltenv: Option<String>,
    unmask: Option<bool>,
) -> Result<Value> {
    let _ = unmask;
    let request = Request { args: args.0, over: pillar, encrypted: pillar_enc, envs: Envs { pillarenv, saltenv } };
    Ok(types_of(&request.plain(ctx)?.into()))
}

fn types_of(value: &Value) -> Value {
    match value {
        Value::Map(map) => map.iter().map(|(key, value)| (key.clone(), types_of(value))).collect::<Map>().into(),
        Value::List(items) => items.iter().map(types_of).collect(),
        other => format!("<{}>", other.type_name()).into(),
    }
}

/// Returns the names of the values that ``pillar.items`` returns.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pillar.ls
#[function]
fn ls(
    ctx: &Context,
    args: VarArgs,
    pillar: Option<Value>,
    pillar_enc: Option<Value>,
    pillarenv: Option<String>,
    saltenv: Option<String>,
    unmask: Option<bool>,
) -> Result<Vec<Value>> {
    let _ = unmask;
    let request = Request { args: args.0, over: pillar, encrypted: pillar_enc, envs: Envs { pillarenv, saltenv } };
    Ok(request.plain(ctx)?.keys().cloned().collect())
}

/// The arguments `pillar.items` and its like share.
struct Request {
    args: Vec<Value>,
    over: Option<Value>,
    encrypted: Option<Value>,
    envs: Envs,
}

impl Request {
    fn plain(self, ctx: &Context) -> Result<Map> {
        if !self.args.is_empty() {
            return Ok(chosen(&self.envs.pillar(ctx)?, &self.args, &"".into(), ":"));
        }
        // To ignore it would compile a pillar without the override and look right.
        if self.encrypted.is_some_and(|encrypted| encrypted.truthy()) {
            return Err(Error::execution("not supported: pillar_enc, an encrypted pillar override"));
        }
        self.envs.compiled(ctx, self.over)
    }

    fn maybe_masked(self, ctx: &Context, unmask: Option<bool>) -> Result<Value> {
        // The option speaks of whole pillars only; named values are those of `pillar.item`.
        let option = self.args.is_empty() && ctx.opts.get("pillar_mask_output") == Some(&Value::Bool(false));
        let plain = self.plain(ctx)?;
        Ok(mask_unless(plain.into(), unmask.or(option.then_some(true))))
    }
}

fn chosen(pillar: &Map, keys: &[Value], default: &Value, delimiter: &str) -> Map {
    let find = |key: &Value| util::traverse(pillar, &key.to_string(), delimiter).unwrap_or(default).clone();
    keys.iter().map(|key| (key.clone(), find(key))).collect()
}

/// Returns the named values of the pillar in memory.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pillar.item role users:anna unmask=True
#[function]
fn item(
    ctx: &Context,
    args: VarArgs,
    default: Option<Value>,
    delimiter: Option<String>,
    pillarenv: Option<String>,
    saltenv: Option<String>,
    unmask: Option<bool>,
) -> Result<Value> {
    let pillar = Envs { pillarenv, saltenv }.pillar(ctx)?;
    let default = default.unwrap_or_else(|| "".into());
    let found = chosen(&pillar, &args.0, &default, delimiter.as_deref().unwrap_or(":"));
    Ok(mask_unless(found.into(), unmask))
}

/// Returns the pillar in memory, or one of its values, without compiling it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pillar.raw
///     salt '*' pillar.raw key=users
#[function]
fn raw(ctx: &Context, key: Option<String>, unmask: Option<bool>) -> Result<Value> {
    let found = match key.filter(|key| !key.is_empty()) {
        Some(key) => ctx.pillar.get(&key).cloned().unwrap_or_else(|| Map::new().into()),
        None => (*ctx.pillar).clone().into(),
    };
    // Templates read the pillar by this function, so it shows everything unless asked not to.
    Ok(mask_unless(found, unmask.or(Some(true))))
}

/// Returns the keys of a map of the pillar in memory.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pillar.keys users
#[function]
fn keys(ctx: &Context, key: String, #[default(":")] delimiter: String, unmask: Option<bool>) -> Result<Vec<Value>> {
    let _ = unmask;
    match util::traverse(&ctx.pillar, &key, &delimiter) {
        Some(Value::Map(map)) => Ok(map.keys().cloned().collect()),
        Some(_) => Err(Error::Other(format!("Pillar value in key {key} is not a dict"))),
        None => Err(Error::Other(format!("Pillar key not found: {key}"))),
    }
}

/// Returns a freshly compiled pillar, with an external pillar that only this call requests.
///
/// The option ``on_demand_ext_pillar`` of the master (of the minion, if it has no master) lists the external pillars
/// that may be requested. Others are left out, with a message in the log there.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pillar.ext '{cmd_yaml: cat /etc/data.yaml}'
#[function]
fn ext(ctx: &Context, external: Value, pillar: Option<Value>, unmask: Option<bool>) -> Result<Value> {
    let external = match external.as_str() {
        Some(text) => yaml::load(text, "<unicode string>").map_err(|error| Error::execution(error.to_string()))?,
        None => external,
    };
    let mut request = map! { "saltenv" => ctx.opt_str("saltenv").map(str::to_owned) };
    match external {
        Value::Map(external) => drop(request.insert("ext", external)),
        other => tracing::error!("On-demand pillar {other} is not formatted as a dictionary"),
    }
    if let Some(over) = pillar.filter(Value::truthy) {
        request.insert("pillar_override", over);
    }
    Ok(mask_unless(ctx.wait(ctx.agent.compile_pillar(request))?.into(), unmask))
}

/// Returns whether a file is in the local ``pillar_roots``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-call --local pillar.file_exists users/init.sls
#[function]
fn file_exists(ctx: &Context, path: String, saltenv: Option<String>) -> Result<bool> {
    // Only a masterless minion has the files of the pillar.
    let roots = ctx.opt("pillar_roots").and_then(Value::as_map).filter(|roots| !roots.is_empty());
    let roots = roots.ok_or_else(|| Error::execution("No pillar_roots found. Are you running this on the master?"))?;
    let wanted = |env: &Value| saltenv.as_deref().is_none_or(|wanted| env.as_str() == Some(wanted));
    let folders =
        roots.iter().filter(|(env, _)| wanted(env)).flat_map(|(_, folders)| folders.as_list().unwrap_or_default());
    Ok(folders.filter_map(Value::as_str).any(|folder| std::path::Path::new(folder).join(&path).is_file()))
}

/// Returns the entry of a map whose key, a glob, matches a value of the pillar in memory.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pillar.filter_by '{web: nginx, default: none}' role
#[function]
fn filter_by(
    ctx: &Context,
    lookup_dict: Map,
    pillar: String,
    merge: Option<Value>,
    #[default("default")] default: Value,
    base: Option<String>,
) -> Result<Value> {
    FilterBy { lookup: lookup_dict, merge, default, base }.pick(util::traverse(&ctx.pillar, &pillar, ":"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::context;
    use value::list;

    fn data() -> Map {
        map! { "foo" => "bar", "nested" => map! { "a" => 1, "l" => list![1, 2] }, "no" => false }
    }

    fn call(fun: &str, args: Value, kwargs: Map) -> Result<Value> {
        let (ctx, agent) = context(&[&MODULE], map! { "saltenv" => "base" }, map! {}, data());
        agent.answers.lock().unwrap().push_back(data().into());
        let call = exec::Call { args: args.into_list().unwrap(), kwargs };
        ctx.call_with(&format!("pillar.{fun}"), call)
    }

    /// Calls and answers of real Salt 3008.5.
    #[test]
    fn operators_see_asterisks_unless_they_ask() {
        assert_eq!(call("get", list!["nested:a"], map! {}).unwrap(), MASK.into());
        assert_eq!(call("get", list!["nested:a"], map! { "unmask" => true }).unwrap(), 1.into());
        assert_eq!(call("get", list!["none"], map! {}).unwrap(), "".into());
        assert_eq!(call("get", list!["none", 9], map! {}).unwrap(), MASK.into());
        let some = map! { "foo" => MASK, "nested:l" => list![MASK, MASK] };
        assert_eq!(call("item", list!["foo", "nested:l"], map! {}).unwrap(), some.into());
        let all = map! { "foo" => MASK, "nested" => map! { "a" => MASK, "l" => list![MASK, MASK] }, "no" => false };
        assert_eq!(call("items", list![], map! {}).unwrap(), all.into());
        assert_eq!(call("raw", list![], map! {}).unwrap(), data().into());
        assert_eq!(call("raw", list!["foo"], map! {}).unwrap(), "bar".into());
    }

    #[test]
    fn defaults_can_be_merged_with() {
        let kwargs = map! { "merge" => true, "unmask" => true, "default" => map! { "z" => 1, "a" => 5 } };
        let merged = map! { "z" => 1, "a" => 1, "l" => list![1, 2] };
        assert_eq!(call("get", list!["nested"], kwargs).unwrap(), merged.into());
        let kwargs = map! { "merge" => true, "unmask" => true, "default" => list![2, 3] };
        assert_eq!(call("get", list!["nested:l"], kwargs).unwrap(), list![2, 3, 1]);
        let kwargs = map! { "merge" => true, "unmask" => true, "default" => list![2] };
        assert_eq!(call("get", list!["foo"], kwargs).unwrap(), "bar".into());
    }

    #[test]
    fn names_and_types_are_no_secret() {
        assert_eq!(call("ls", list![], map! {}).unwrap(), list!["foo", "nested", "no"]);
        assert_eq!(call("keys", list!["nested"], map! {}).unwrap(), list!["a", "l"]);
        assert_eq!(
            call("keys", list!["foo"], map! {}).unwrap_err().to_string(),
            "Pillar value in key foo is not a dict"
        );
        assert_eq!(call("keys", list!["x"], map! {}).unwrap_err().to_string(), "Pillar key not found: x");
        let types = map! { "foo" => "<str>", "nested" => map! { "a" => "<int>", "l" => list!["<int>", "<int>"] }, "no" => "<bool>" };
        assert_eq!(call("obfuscate", list![], map! {}).unwrap(), types.into());
    }

    #[test]
    fn an_external_pillar_is_asked_for_by_one_call() {
        let (ctx, agent) = context(&[&MODULE], map! { "saltenv" => "base" }, map! {}, map! {});
        for external in [Value::from(map! { "cmd_yaml" => "cat x" }), "{cmd_yaml: cat x}".into(), list![1]] {
            agent.answers.lock().unwrap().push_back(map! { "x" => 1 }.into());
            let call = exec::Call { args: vec![external], kwargs: map! { "unmask" => true } };
            assert_eq!(ctx.call_with("pillar.ext", call).unwrap(), map! { "x" => 1 }.into());
        }
        let asked = map! { "saltenv" => "base", "ext" => map! { "cmd_yaml" => "cat x" } };
        assert_eq!(*agent.asked.lock().unwrap(), [asked.clone(), asked, map! { "saltenv" => "base" }]);
    }

    #[test]
    fn another_environment_is_compiled_for() {
        let (ctx, agent) = context(&[&MODULE], map! { "saltenv" => "base" }, map! {}, map! {});
        agent.answers.lock().unwrap().push_back(map! { "x" => 1 }.into());
        let call = exec::Call { args: vec!["x".into()], kwargs: map! { "pillarenv" => "dev", "unmask" => true } };
        assert_eq!(ctx.call_with("pillar.get", call).unwrap(), 1.into());
        assert_eq!(agent.asked.lock().unwrap()[0], map! { "pillarenv" => "dev", "saltenv" => "base" });
    }
}

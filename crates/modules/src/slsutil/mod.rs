//! `slsutil` — helpers for SLS files: merging, rendering, serializing, looking for files.

mod banner;
mod serialize;
mod tests;

use exec::{Context, Error, KwArgs, Module, Result, function};
use value::{Map, Value};

use crate::templates::{self, Sls};
use crate::util::merge_maps;
use banner::BANNER;
use serialize::{DESERIALIZE, SERIALIZE};

/// The module.
pub static MODULE: Module = Module::new(
    "slsutil",
    "Helpers for SLS files.",
    &[
        &BANNER,
        &BOOLSTR,
        &DESERIALIZE,
        &DIR_EXISTS,
        &FILE_EXISTS,
        &FINDUP,
        &MERGE,
        &MERGE_ALL,
        &PATH_EXISTS,
        &RENDERER,
        &SERIALIZE,
        &UPDATE,
    ],
);

fn no_maps() -> Error {
    Error::Other("Cannot update using non-dict types in dictupdate.update()".into())
}

/// Merges ``upd`` into ``dest`` and returns the result. In templates ``dest`` itself is changed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' slsutil.update '{foo: Foo}' '{bar: Bar}'
#[function]
fn update(
    dest: Value,
    upd: Value,
    #[default(true)] recursive_update: bool,
    #[default(false)] merge_lists: bool,
) -> Result<Map> {
    let (Value::Map(mut dest), Value::Map(upd)) = (dest, upd) else { return Err(no_maps()) };
    if recursive_update {
        merge_maps(&mut dest, upd, merge_lists);
    } else {
        dest.update(upd);
    }
    Ok(dest)
}

/// Merges two maps with a strategy: ``smart``, ``aggregate``, ``list``, ``recurse`` or ``overwrite``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' slsutil.merge '{foo: Foo}' '{bar: Bar}'
#[function]
fn merge(
    obj_a: Value,
    obj_b: Value,
    #[default("smart")] strategy: String,
    #[default("yaml")] renderer: String,
    #[default(false)] merge_lists: bool,
) -> Result<Map> {
    merged(obj_a, obj_b, &strategy, &renderer, merge_lists)
}

/// Merges all maps of a list, in order.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' slsutil.merge_all '[{foo: Foo}, {foo: Bar}]'
#[function]
fn merge_all(
    lst: Vec<Value>,
    #[default("smart")] strategy: String,
    #[default("yaml")] renderer: String,
    #[default(false)] merge_lists: bool,
) -> Result<Map> {
    lst.into_iter().try_fold(Map::new(), |all, next| merged(all.into(), next, &strategy, &renderer, merge_lists))
}

fn merged(a: Value, b: Value, strategy: &str, renderer: &str, join_lists: bool) -> Result<Map> {
    let (Value::Map(mut a), Value::Map(b)) = (a, b) else { return Err(no_maps()) };
    // To Salt "smart" means "aggregate" for yamlex and "recurse" for everything else.
    let extended = renderer.rsplit('|').next() == Some("yamlex") || renderer.starts_with("yamlex_");
    match strategy {
        // Keys of the second map alone get lost, as in Salt's `merge_list`.
        "list" => return Ok(pairs(a, &b)),
        // Aggregation is a matter of yamlex objects. Plain maps are simply updated.
        "aggregate" => a.update(b),
        "smart" if extended => a.update(b),
        "smart" | "recurse" => merge_maps(&mut a, b, join_lists),
        "overwrite" => a.update(b),
        "none" => merge_maps(&mut a, b, false),
        other => {
            tracing::warn!("Unknown merging strategy '{other}', fallback to recurse");
            merge_maps(&mut a, b, false);
        }
    }
    Ok(a)
}

fn pairs(a: Map, b: &Map) -> Map {
    let pair = |(key, old): (Value, Value)| match b.get_value(&key) {
        Some(new) => (key, Value::List(vec![old, new.clone()])),
        None => (key, old),
    };
    a.into_iter().map(pair).collect()
}

/// Runs a text or a file through the renderers. Other named arguments are variables of the template.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' slsutil.renderer salt://path/to/file
///     salt '*' slsutil.renderer string='Inline template! {{ saltenv }}' default_renderer='jinja' saltenv=dev
#[function]
fn renderer(
    ctx: &Context,
    path: Option<String>,
    string: Option<String>,
    #[default("jinja|yaml")] default_renderer: String,
    kwargs: KwArgs,
) -> Result<Value> {
    let mut given = kwargs.given();
    let some = |text: Option<String>| text.filter(|text| !text.is_empty());
    let mut take = |name: &str| given.remove(name).filter(Value::truthy).map(|value| value.to_string());
    let saltenv = take("saltenv").unwrap_or_else(|| "base".into());
    let sls = take("sls").unwrap_or_default();
    // Salt takes variables both as keyword arguments and as `context`.
    if let Some(Value::Map(context)) = given.remove("context") {
        given.update(context);
    }
    let default = Some(default_renderer);
    let sls = match (some(path), some(string)) {
        (None, None) => return Err(Error::invocation("Must pass path or string.")),
        (Some(_), Some(_)) => return Err(Error::invocation("Must not pass both path and string.")),
        (None, Some(text)) => Sls { text, path: None, sls, saltenv, default, context: given },
        (Some(address), None) => {
            let call = exec::Call {
                args: vec![address.as_str().into()],
                kwargs: value::map! { "saltenv" => saltenv.as_str() },
            };
            let place = ctx.call_with("cp.get_url", call)?;
            let Some(place) = place.as_str().filter(|place| std::path::Path::new(place).is_file()) else {
                // As in Salt, the problem is logged and the data is empty.
                tracing::error!("Template does not exist: {address}");
                return Ok(Map::new().into());
            };
            let bytes = std::fs::read(place).map_err(|error| Error::io("read", place, &error))?;
            let text = String::from_utf8(bytes)
                .map_err(|error| Error::Other(templates::no_text(place.as_ref(), error.as_bytes())))?;
            Sls { text, path: Some(place.into()), sls, saltenv, default, context: given }
        }
    };
    templates::data(ctx, sls)
}

/// Returns one of two texts, for true and false.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' slsutil.boolstr True yes no
#[function]
fn boolstr(value: Value, #[default("true")] r#true: Value, #[default("false")] r#false: Value) -> Result<Value> {
    Ok(if value.truthy() { r#true } else { r#false })
}

fn listed(ctx: &Context, function: &str, path: &str, saltenv: &str) -> Result<bool> {
    let listed = ctx.call(function, vec![saltenv.into()])?;
    Ok(listed.as_list().is_some_and(|all| all.iter().any(|known| known.as_str() == Some(path))))
}

/// Returns whether the file server has a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' slsutil.file_exists nginx/defaults.yaml
#[function]
fn file_exists(ctx: &Context, path: String, #[default("base")] saltenv: String) -> Result<bool> {
    listed(ctx, "cp.list_master", &path, &saltenv)
}

/// Returns whether the file server has a directory.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' slsutil.dir_exists nginx/files
#[function]
fn dir_exists(ctx: &Context, path: String, #[default("base")] saltenv: String) -> Result<bool> {
    listed(ctx, "cp.list_master_dirs", &path, &saltenv)
}

fn is_there(ctx: &Context, path: &str, saltenv: &str) -> Result<bool> {
    Ok(listed(ctx, "cp.list_master", path, saltenv)? || listed(ctx, "cp.list_master_dirs", path, saltenv)?)
}

/// Returns whether the file server has a file or directory.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' slsutil.path_exists nginx/defaults.yaml
#[function]
fn path_exists(ctx: &Context, path: String, #[default("base")] saltenv: String) -> Result<bool> {
    is_there(ctx, &path, &saltenv)
}

/// Looks for a file, or one of several, in a directory of the file server and in all those above it, and returns the first.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' slsutil.findup formulas/shared/nginx map.jinja
#[function]
fn findup(ctx: &Context, startpath: String, filenames: Value, #[default("base")] saltenv: String) -> Result<String> {
    let parts: Vec<&str> = startpath.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let mut start = parts.join("/");
    if !start.is_empty() && !is_there(ctx, &start, &saltenv)? {
        return Err(Error::invocation(format!("Starting path not found in the state tree: {start}")));
    }
    let names: Vec<String> = match filenames {
        Value::Str(name) => vec![name],
        Value::List(names) => names.iter().map(Value::to_string).collect(),
        _ => return Err(Error::invocation("Filenames argument must be a string or list of strings")),
    };
    loop {
        for name in &names {
            let full = if start.is_empty() { name.clone() } else { format!("{start}/{name}") };
            if is_there(ctx, &full, &saltenv)? {
                return Ok(full);
            }
        }
        if start.is_empty() {
            return Err(Error::execution("File pattern(s) not found in path ancestry"));
        }
        // An empty start is the root, which is searched last.
        start.truncate(start.rfind('/').unwrap_or(0));
    }
}

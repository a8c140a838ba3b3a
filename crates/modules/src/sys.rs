//! `sys` — the functions that can be called here, their arguments and their documentation.
//!
//! Only the returners of this program are listed. Functions about runners are refused: only the master has runners.

use exec::{Context, Error, Function, KwArgs, Module, Refresh, Registry, Result, VarArgs, function};
use targeting::Glob;
use value::{Map, Value, map};

/// The module.
pub static MODULE: Module = Module::new(
    "sys",
    "What can be called here, and how.",
    &[
        &ARGSPEC,
        &DOC,
        &LIST_FUNCTIONS,
        &LIST_MODULES,
        &LIST_RENDERERS,
        &LIST_RETURNER_FUNCTIONS,
        &LIST_RETURNERS,
        &LIST_RUNNER_FUNCTIONS,
        &LIST_RUNNERS,
        &LIST_STATE_FUNCTIONS,
        &LIST_STATE_MODULES,
        &RELOAD_MODULES,
        &RENDERER_DOC,
        &RETURNER_ARGSPEC,
        &RETURNER_DOC,
        &RUNNER_ARGSPEC,
        &RUNNER_DOC,
        &STATE_ARGSPEC,
        &STATE_DOC,
        &STATE_SCHEMA,
    ],
);

/// The renderers that `sys.list_renderers` names.
const RENDERERS: [&str; 1] = ["yaml"];

/// All functions, by full name.
fn functions(registry: &Registry) -> impl Iterator<Item = (String, &'static Function)> {
    registry.functions().map(|(module, function)| (format!("{module}.{}", function.name), function))
}

/// The functions that words mean: globs, full names or whole modules.
struct Selection(Vec<Pattern>);

enum Pattern {
    Glob(Glob),
    Module(String),
}

impl Selection {
    /// Reads words as the lists and argument specifications do: a dot makes a word a full name.
    fn of_names(words: &[Value]) -> Self {
        let read = |word: &Value| {
            let word = word.to_string();
            // `test` means all of the module, `test.ping` one function.
            if word.contains('*') || word.contains('.') {
                Pattern::Glob(Glob::new(&word))
            } else {
                Pattern::Module(word + ".")
            }
        };
        Selection(words.iter().map(read).collect())
    }

    fn wants(&self, name: &str) -> bool {
        self.0.iter().any(|wanted| match wanted {
            Pattern::Glob(glob) => glob.matches(name),
            Pattern::Module(prefix) => name.starts_with(prefix),
        })
    }
}

/// Returns the documentation of all functions, or of the named modules and functions. Globs are supported.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.doc
///     salt '*' sys.doc cp grains.get
///     salt '*' sys.doc 'network.ip*'
#[function]
fn doc(ctx: &Context, args: VarArgs) -> Result<Map> {
    let globs: Vec<Glob> = args.0.iter().map(|word| Glob::new(&doc_pattern(&word.to_string()))).collect();
    let wanted = |name: &str| {
        args.0.is_empty()
            || globs.iter().any(|glob| glob.matches(name))
            || args.0.iter().any(|word| word.to_string() == name)
    };
    let chosen = functions(ctx.agent.registry()).filter(|(name, _)| wanted(name));
    Ok(chosen.map(|(name, function)| (name, exec::docstring(function.doc))).collect())
}

/// "cp" and "cp." both mean all of cp, and not what begins alike.
fn doc_pattern(word: &str) -> String {
    // `sys.doc test` must not show `test_other.…`.
    if word.contains('*') { word.to_owned() } else { format!("{}.*", word.trim_end_matches('.')) }
}

/// Returns the names of all functions, or of those in the named modules. Globs are supported.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.list_functions
///     salt '*' sys.list_functions cp grains
///     salt '*' sys.list_functions 'sys.list_*'
#[function]
fn list_functions(ctx: &Context, args: VarArgs, kwargs: KwArgs) -> Result<Vec<String>> {
    let _ = kwargs;
    let selection = Selection::of_names(&args.0);
    let all = functions(ctx.agent.registry()).map(|(name, _)| name);
    let mut names: Vec<String> = all.filter(|name| args.0.is_empty() || selection.wants(name)).collect();
    names.sort();
    Ok(names)
}

/// Returns the names of all modules, or of those that match a glob.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.list_modules
///     salt '*' sys.list_modules 's*'
#[function]
fn list_modules(ctx: &Context, args: VarArgs) -> Result<Vec<&'static str>> {
    let words: Vec<String> = args.0.iter().map(Value::to_string).collect();
    // As in Salt a glob is held against full names, so that `s*.list*` is understood too.
    let fits = |module: &Module| {
        words.iter().any(|word| {
            let glob = Glob::new(word);
            word == module.name
                || (word.contains('*')
                    && module
                        .functions
                        .iter()
                        .any(|function| glob.matches(&format!("{}.{}", module.name, function.name))))
        })
    };
    let modules = ctx.agent.registry().modules().filter(|module| words.is_empty() || fits(module));
    Ok(modules.map(|module| module.name).collect())
}

/// Returns the arguments of all functions of a module, of one function, or of those that match a glob: their names, the
/// defaults of the last of them, and whether the function takes more positional and keyword arguments.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.argspec cp.get_file
///     salt '*' sys.argspec sys
///     salt '*' sys.argspec 'grains.*'
#[function]
fn argspec(ctx: &Context, #[default("")] module: String) -> Result<Map> {
    let selection = Selection::of_names(&[module.into()]);
    let chosen = functions(ctx.agent.registry()).filter(|(name, _)| selection.wants(name));
    Ok(chosen.map(|(name, function)| (name, specification(function))).collect())
}

/// The entry of one function in an argument specification.
pub fn specification(function: &Function) -> Map {
    let given = |yes: bool| yes.then_some(true);
    // The form of Python's `ArgSpec`: defaults belong to the last parameters.
    let names: Vec<&str> = function.params.iter().map(|param| param.name).collect();
    let defaults: Vec<Value> = function.params.iter().filter_map(|param| param.default.map(|make| make())).collect();
    map! {
        "args" => (!names.is_empty()).then_some(names),
        "defaults" => (!defaults.is_empty()).then_some(defaults),
        "varargs" => given(function.varargs.is_some()),
        "kwargs" => given(function.kwargs.is_some()),
    }
}

/// Reloads the modules.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.reload_modules
#[function]
fn reload_modules(ctx: &Context, #[default(false)] initial_load: bool, context: Option<Value>) -> Result<Value> {
    let _ = (initial_load, context);
    ctx.wait(ctx.agent.refresh(Refresh::Modules))?;
    Ok(Value::Null)
}

/// Returns the names of the renderers, or of those that match a glob.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.list_renderers
#[function]
fn list_renderers(args: VarArgs) -> Result<Vec<&'static str>> {
    let globs: Vec<Glob> = args.0.iter().map(|word| Glob::new(&word.to_string())).collect();
    let fits = |name: &str| globs.is_empty() || globs.iter().any(|glob| glob.matches(name));
    Ok(RENDERERS.into_iter().filter(|name| fits(name)).collect())
}

/// Returns the documentation of the renderers that have functions: none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.renderer_doc
#[function]
fn renderer_doc(args: VarArgs) -> Result<Map> {
    let _ = args;
    Ok(Map::new())
}

/// Returns the names of the returners. Globs are supported.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.list_returners
#[function]
fn list_returners(ctx: &Context, args: VarArgs) -> Result<Vec<String>> {
    Ok(returners(ctx, &args).into_iter().map(str::to_owned).collect())
}

/// The returners that one of the patterns names; all without a pattern.
fn returners(ctx: &Context, patterns: &VarArgs) -> Vec<&'static str> {
    let wanted = |name: &&str| {
        patterns.0.is_empty() || patterns.0.iter().any(|pattern| targeting::fnmatch(name, &pattern.to_string()))
    };
    ctx.agent.returners().into_iter().filter(wanted).collect()
}

/// Returns the names of the returners' functions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.list_returner_functions
#[function]
fn list_returner_functions(ctx: &Context, args: VarArgs, kwargs: KwArgs) -> Result<Vec<String>> {
    let _ = kwargs;
    Ok(returners(ctx, &args).into_iter().map(|name| format!("{name}.returner")).collect())
}

/// Returns the documentation of the returners.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.returner_doc
#[function]
fn returner_doc(args: VarArgs) -> Result<Map> {
    let _ = args;
    Ok(Map::new())
}

/// Returns the arguments of the returners' functions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.returner_argspec
#[function]
fn returner_argspec(#[default("")] module: String) -> Result<Map> {
    let _ = module;
    Ok(Map::new())
}

/// Returns the names of the state functions, or of those in the named modules. Globs are supported.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.list_state_functions
///     salt '*' sys.list_state_functions file
///     salt '*' sys.list_state_functions 'file.*'
#[function]
fn list_state_functions(ctx: &Context, args: VarArgs, kwargs: KwArgs) -> Result<Vec<String>> {
    let _ = kwargs;
    let selection = Selection::of_names(&args.0);
    let all = functions(ctx.agent.states()).map(|(name, _)| name);
    let mut names: Vec<String> = all.filter(|name| args.0.is_empty() || selection.wants(name)).collect();
    names.sort();
    Ok(names)
}

/// Returns the names of the state modules, or of those that match a name or a glob.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.list_state_modules
///     salt '*' sys.list_state_modules 'mysql_*'
#[function]
fn list_state_modules(ctx: &Context, args: VarArgs) -> Result<Vec<&'static str>> {
    let words: Vec<String> = args.0.iter().map(Value::to_string).collect();
    let fits = |module: &Module| {
        words.iter().any(|word| match word.contains('*') {
            // As in Salt a glob is held against full names.
            true => {
                let glob = Glob::new(word);
                module.functions.iter().any(|function| glob.matches(&format!("{}.{}", module.name, function.name)))
            }
            false => word == module.name,
        })
    };
    let modules = ctx.agent.states().modules().filter(|module| words.is_empty() || fits(module));
    Ok(modules.map(|module| module.name).collect())
}

/// Returns the documentation of all states, or of the named modules and functions. Globs are supported.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.state_doc
///     salt '*' sys.state_doc service
///     salt '*' sys.state_doc service.running
///     salt '*' sys.state_doc 'service.*'
#[function]
fn state_doc(ctx: &Context, args: VarArgs) -> Result<Map> {
    let words: Vec<String> = args.0.iter().map(Value::to_string).collect();
    let wanted = |name: &str| {
        words.is_empty()
            || words.iter().any(|word| match word.contains('*') {
                true => targeting::fnmatch(name, word),
                false => name == word || name.starts_with(&format!("{}.", word.trim_end_matches('.'))),
            })
    };
    let mut docs = Map::new();
    for module in ctx.agent.states().modules() {
        for function in module.functions {
            let name = format!("{}.{}", module.name, function.name);
            if wanted(&name) {
                // The text of the module itself precedes its first function.
                docs.entry_or_insert_with(module.name, || exec::docstring(module.doc).into());
                docs.insert(name, exec::docstring(function.doc));
            }
        }
    }
    Ok(docs)
}

/// Returns the arguments of all functions of a state module, of one function, or of those that match a glob.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.state_argspec pkg.installed
///     salt '*' sys.state_argspec file
///     salt '*' sys.state_argspec 'pkg.*'
#[function]
fn state_argspec(ctx: &Context, #[default("")] module: String) -> Result<Map> {
    let selection = Selection::of_names(&[module.into()]);
    let chosen = functions(ctx.agent.states()).filter(|(name, _)| selection.wants(name));
    Ok(chosen.map(|(name, function)| (name, specification(function))).collect())
}

/// Returns JSON schemas of the arguments of states.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.state_schema
///     salt '*' sys.state_schema pkg.installed
#[function]
fn state_schema(ctx: &Context, #[default("")] module: String) -> Result<Vec<Map>> {
    let selection = Selection::of_names(&[module.into()]);
    let chosen = functions(ctx.agent.states()).filter(|(name, _)| selection.wants(name));
    Ok(chosen.map(|(name, function)| schema(&name, function)).collect())
}

/// The JSON schema of the arguments of one function.
fn schema(name: &str, function: &Function) -> Map {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for param in function.params {
        if param.default.is_none() {
            required.push(param.name);
        }
        let mut property = map! {};
        if let Some(make) = param.default {
            property.insert("default", make());
        }
        // Only the default reveals the type, as in Salt.
        let mut kind = map! { "type" => "string" };
        match param.default.map(|make| make()) {
            Some(Value::Bool(_)) => drop(kind.insert("type", "boolean")),
            Some(Value::Int(_)) => drop(kind.insert("type", "integer")),
            Some(Value::Float(_)) => drop(kind.insert("type", "number")),
            Some(Value::List(_)) => drop(kind.insert("type", "array")),
            Some(Value::Map(_)) => drop(kind.insert("type", "object")),
            _ => {}
        }
        property.update(kind);
        properties.insert(param.name, property);
    }
    map! {
        "id" => format!("https://saltproject.io/schema/states/{name}"),
        "title" => name,
        "type" => "object",
        "properties" => properties,
        "required" => required,
        "additionalProperties" => function.kwargs.is_some(),
    }
}

/// Refused: only the master has runners. Ask it with ``salt-run -d``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.list_runners
#[function]
fn list_runners(args: VarArgs) -> Result<Vec<Value>> {
    let _ = args;
    Err(on_the_master())
}

/// Refused: only the master has runners. Ask it with ``salt-run -d``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.list_runner_functions
#[function]
fn list_runner_functions(args: VarArgs, kwargs: KwArgs) -> Result<Vec<Value>> {
    let _ = (args, kwargs);
    Err(on_the_master())
}

/// Refused: only the master has runners. Ask it with ``salt-run -d``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.runner_doc
#[function]
fn runner_doc(args: VarArgs) -> Result<Map> {
    let _ = args;
    Err(on_the_master())
}

/// Refused: only the master has runners. Ask it with ``salt-run -d``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sys.runner_argspec
#[function]
fn runner_argspec(#[default("")] module: String) -> Result<Map> {
    let _ = module;
    Err(on_the_master())
}

fn on_the_master() -> Error {
    Error::execution("not supported: a minion does not know the runners of its masters; ask one with 'salt-run -d'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::context;
    use value::list;

    fn ctx() -> Context {
        context(&[&MODULE, &crate::test::MODULE], map! {}, map! {}, map! {}).0
    }

    fn words(words: &[&str]) -> VarArgs {
        VarArgs(words.iter().map(|word| Value::from(*word)).collect())
    }

    #[test]
    fn names_globs_and_modules_choose_functions() {
        let list = |chosen: &[&str]| list_functions(&ctx(), words(chosen), KwArgs::default()).unwrap();
        assert_eq!(list(&["test.ping"]), ["test.ping"]);
        assert_eq!(
            list(&["sys.list_mod*", "test.p*"]),
            ["sys.list_modules", "test.ping", "test.provider", "test.providers"]
        );
        assert_eq!(list(&["sys"]).len(), MODULE.functions.len());
        assert_eq!(list(&["sy"]), [""; 0]);
        assert_eq!(list_modules(&ctx(), words(&["s*"])).unwrap(), ["sys"]);
        assert_eq!(list_modules(&ctx(), words(&[])).unwrap(), ["sys", "test"]);
    }

    #[test]
    fn documentation_is_laid_out_as_python_lays_it_out() {
        let docs = doc(&ctx(), words(&["test.echo"])).unwrap();
        let expected =
            "\n    Returns the given text.\n\n    CLI Example:\n\n        salt '*' test.echo 'one two three'\n    ";
        assert_eq!(docs, map! { "test.echo" => expected });
        assert_eq!(doc(&ctx(), words(&["sys."])).unwrap().len(), MODULE.functions.len());
        assert_eq!(
            doc(&ctx(), words(&[])).unwrap().len(),
            MODULE.functions.len() + crate::test::MODULE.functions.len()
        );
    }

    #[test]
    fn specifications_have_salts_shape() {
        let spec = argspec(&ctx(), "test.try".into()).unwrap();
        let entry = map! {
            "args" => list!["module", "return_try_exception"],
            "defaults" => list![false],
            "varargs" => (),
            "kwargs" => true,
        };
        assert_eq!(spec, map! { "test.try" => entry });
    }
}

//! The template environments: one for each set of options. Each keeps its compiled templates as long as the program
//! runs.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jinja::{Environment, Error, Source, Str, Syntax, TagKind, Template, UndefinedKind, Value};
use value::Map;

use super::{filters, globals, session};

/// The set of options that applies, one of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `jinja_sls_env`.
    Sls,
    /// `jinja_env`.
    File,
}

/// The options by which environments differ.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    syntax: Syntax,
    strict: bool,
}

/// An environment with its templates.
pub struct Compiled {
    env: Arc<Environment>,
    templates: Mutex<Templates>,
}

#[derive(Default)]
struct Templates {
    by_text: HashMap<(Option<Str>, Arc<str>), Template>,
    bytes: usize,
}

/// The size of the templates kept compiled, in bytes of text. Beyond it all are dropped, and those in use are compiled
/// again.
const MAX_BYTES: usize = 32 << 20;

/// The number of environments kept; real configurations use a handful.
const MAX_ENVIRONMENTS: usize = 64;

impl Compiled {
    /// Compiles a text, unless it is known.
    pub fn template(&self, name: Option<&str>, text: &str) -> Result<Template, Error> {
        let lock = || self.templates.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.map(Str::from), Arc::from(text));
        if let Some(known) = lock().by_text.get(&key) {
            return Ok(known.clone());
        }
        // Compiled without the lock. Two threads may compile the same text, which is cheaper than making all wait.
        let template = Template::compile(&self.env, name, text)?;
        let mut all = lock();
        // Dropping everything is crude, but needs no order of use: environments in use are back after one rendering.
        if all.bytes + text.len() > MAX_BYTES {
            *all = Templates::default();
        }
        all.bytes += text.len();
        all.by_text.insert(key, template.clone());
        Ok(template)
    }
}

/// Environments that were made, by their options.
type Environments = Vec<(Options, Arc<Compiled>)>;

static KNOWN: LazyLock<Mutex<Environments>> = LazyLock::new(Mutex::default);

/// Returns the environment for the options, and those in a header of the text.
pub fn get(opts: &Map, kind: Kind, header: Option<&Map>) -> Arc<Compiled> {
    let options = options(opts, kind, header);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    // A linear search: comparing a handful of options is faster than hashing them.
    if let Some((_, compiled)) = known.iter().find(|(known, _)| *known == options) {
        return Arc::clone(compiled);
    }
    if known.len() >= MAX_ENVIRONMENTS {
        known.clear();
    }
    let compiled = Arc::new(Compiled { env: Arc::new(make(&options)), templates: Mutex::default() });
    known.push((options, Arc::clone(&compiled)));
    compiled
}

/// Compiles a file that a rendering loads, in the environment of that rendering.
pub fn compiled(env: &Arc<Environment>, name: &str, text: &str) -> Result<Source, Error> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known.iter().find(|(_, compiled)| Arc::ptr_eq(&compiled.env, env)).map(|(_, found)| Arc::clone(found));
    // Compiling below must not hold up every other rendering.
    drop(known);
    match found {
        Some(compiled) => compiled.template(Some(name), text).map(Source::Compiled),
        None => Ok(Source::Text(text.to_owned())),
    }
}

fn make(options: &Options) -> Environment {
    let mut env = Environment::new();
    env.syntax = options.syntax.clone();
    env.undefined = if options.strict { UndefinedKind::Strict } else { UndefinedKind::Lenient };
    env.sandbox = true;
    env.finalize = Some(Arc::new(|state, value| match value {
        // Salt prints these so that `{{ dict }}` in an SLS file is YAML: an `OrderedDict` prints like a plain one, and
        // line breaks survive.
        Value::Dict(_) | Value::List(_) | Value::Tuple(_) => {
            jinja::python::str_of(state, value, Some(&quoted)).map(Some)
        }
        _ => Ok(None),
    }));
    for format in ["yaml", "json", "text"] {
        let filter: Str = format!("load_{format}").into();
        env.tags.insert(filter.clone(), TagKind::Load { filter: filter.clone(), end: &["endload"] });
        env.tags.insert(format!("import_{format}").into(), TagKind::Import { filter });
    }
    env.tags.insert("profile".into(), TagKind::Labelled { end: &["endprofile"] });
    env.loader = Some(Arc::new(session::FromSession));
    filters::install(&mut env);
    globals::install(&mut env);
    env
}

/// Quotes text in dictionaries so that YAML reads it back: text with line breaks gets double quotes.
fn quoted(text: &str) -> Option<String> {
    text.contains(['\n', '\r', '\t']).then(|| filters::double_quoted(text, true))
}

fn options(opts: &Map, kind: Kind, header: Option<&Map>) -> Options {
    let mut syntax = Syntax::default();
    let named = if kind == Kind::Sls { "jinja_sls_env" } else { "jinja_env" };
    let truthy = |name: &str| opts.get(name).is_some_and(value::Value::truthy);
    for (name, value) in opts.get(named).and_then(value::Value::as_map).into_iter().flatten() {
        set(&mut syntax, &name.to_string(), value, named);
    }
    // The old options set the new ones, for both environments.
    for name in ["trim_blocks", "lstrip_blocks"] {
        if truthy(&format!("jinja_{name}")) {
            set(&mut syntax, name, &true.into(), named);
        }
    }
    for (name, value) in header.into_iter().flatten() {
        set(&mut syntax, &name.to_string(), value, "jinja_fileopts");
    }
    Options { syntax, strict: !truthy("allow_undefined") }
}

fn set(syntax: &mut Syntax, name: &str, value: &value::Value, option: &str) {
    let text = || value.to_string();
    let maybe = || Some(value).filter(|value| value.truthy()).map(value::Value::to_string);
    match name.to_lowercase().as_str() {
        "block_start_string" => syntax.block_start = text(),
        "block_end_string" => syntax.block_end = text(),
        "variable_start_string" => syntax.variable_start = text(),
        "variable_end_string" => syntax.variable_end = text(),
        "comment_start_string" => syntax.comment_start = text(),
        "comment_end_string" => syntax.comment_end = text(),
        "line_statement_prefix" => syntax.line_statement_prefix = maybe(),
        "line_comment_prefix" => syntax.line_comment_prefix = maybe(),
        "trim_blocks" => syntax.trim_blocks = value.truthy(),
        "lstrip_blocks" => syntax.lstrip_blocks = value.truthy(),
        "keep_trailing_newline" => syntax.keep_trailing_newline = value.truthy(),
        "newline_sequence" => syntax.newline_sequence = text(),
        // A misspelt option must not keep every state of a minion from rendering.
        other => tracing::warn!("Jinja2 environment {other} is not recognized ({option})"),
    }
}

/// Returns the options of a line `#jinja2: {…}`, the first or the one after the line of renderers, and the text without
/// it.
pub fn header(text: &str) -> (Option<Map>, std::borrow::Cow<'_, str>) {
    const MARK: &str = "#jinja2:";
    let none = (None, text.into());
    // Nearly all templates stop here.
    if !text.contains(MARK) {
        return none;
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let place = usize::from(lines.first().is_some_and(|line| line.starts_with("#!") && !line.starts_with("#!/")));
    let Some(payload) = lines.get(place).and_then(|line| line.strip_prefix(MARK)) else { return none };
    if python::strip(payload).is_empty() {
        return none;
    }
    match python::json::loads(payload) {
        Ok(value::Value::Map(options)) => {
            let rest: String = lines.iter().enumerate().filter(|(at, _)| *at != place).map(|(_, line)| *line).collect();
            (Some(options), rest.into())
        }
        Ok(_) => {
            tracing::warn!("Ignoring '#jinja2:' header that is not a JSON object: {}", payload.trim_end());
            none
        }
        Err(_) => {
            tracing::warn!("Ignoring malformed '#jinja2:' header in template: {}", payload.trim_end());
            none
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn a_header_is_taken_from_the_first_line_or_behind_the_renderers() {
        let options = map! { "trim_blocks" => true };
        for (text, rest) in [
            ("#jinja2: {\"trim_blocks\": true}\na\n", "a\n"),
            ("#!jinja|yaml\n#jinja2: {\"trim_blocks\": true}\na\n", "#!jinja|yaml\na\n"),
        ] {
            let (found, left) = header(text);
            assert_eq!((found.as_ref(), &*left), (Some(&options), rest));
        }
        for text in [
            "a\n#jinja2: {\"trim_blocks\": true}\n",
            "#jinja2:\n",
            "#jinja2: [1]\n",
            "#jinja2: {\n",
            "#!/bin/sh\n#jinja2: {}\n",
        ] {
            let (found, left) = header(text);
            assert_eq!((found, &*left), (None, text));
        }
    }

    #[test]
    fn options_make_environments_of_their_own() {
        let plain = get(&map! {}, Kind::Sls, None);
        assert!(Arc::ptr_eq(&plain, &get(&map! { "jinja_env" => map! { "trim_blocks" => true } }, Kind::Sls, None)));
        let trimmed = map! { "jinja_sls_env" => map! { "TRIM_BLOCKS" => true, "nonsense" => 1 } };
        let other = get(&trimmed, Kind::Sls, None);
        assert!(!Arc::ptr_eq(&plain, &other) && other.env.syntax.trim_blocks);
        assert!(get(&map! { "jinja_lstrip_blocks" => true }, Kind::File, None).env.syntax.lstrip_blocks);
        assert_eq!(get(&map! { "allow_undefined" => true }, Kind::File, None).env.undefined, UndefinedKind::Lenient);
    }
}

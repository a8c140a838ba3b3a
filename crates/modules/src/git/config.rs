//! Options of git.

use exec::{Context, Error, Function, KwArgs, Result, function};
use value::{Map, Value};

use super::run::{Git, Who, listed, named};

/// The configuration to use: a repository's, or the user's.
struct Place {
    cwd: Option<String>,
    global: bool,
}

impl Place {
    fn of(who: &Who, cwd: Option<String>, global: bool) -> Result<Self> {
        match cwd {
            None if !global => Err(Error::invocation("'cwd' argument required unless global=True")),
            cwd => Ok(Place { cwd: cwd.map(|cwd| who.path(&cwd)), global }),
        }
    }

    fn flag(&self) -> &'static str {
        if self.global { "--global" } else { "--local" }
    }

    fn at<'a>(&self, git: Git<'a>) -> Git<'a> {
        match &self.cwd {
            Some(cwd) => git.at(cwd),
            None => git,
        }
    }

    /// Returns all values of an option; `None` when it is not set.
    fn values(&self, ctx: &Context, who: &Who, key: &str) -> Result<Option<Vec<String>>> {
        let git = Git::of(ctx, who, &["config", self.flag(), "--get-all", key]);
        let done = self.at(git).done()?;
        // git uses 1 for an option that is not set, and other codes for real failures.
        Ok((done.retcode != 1).then(|| done.stdout.lines().map(str::to_owned).collect()))
    }

    /// Returns the options that match the patterns, each with its values.
    fn matching(&self, ctx: &Context, who: &Who, key: &str, value: Option<String>) -> Result<Map> {
        let git = Git::of(ctx, who, &["config", self.flag(), "--get-regexp", key]).words(value);
        let done = self.at(git).done()?;
        let mut found = Map::new();
        for line in done.stdout.lines().filter(|_| done.retcode != 1) {
            let Some((name, value)) = line.split_once(char::is_whitespace) else { continue };
            if let Value::List(values) = found.entry_or_insert_with(name, || Value::List(Vec::new())) {
                values.push(value.trim_start().into());
            }
        }
        Ok(found)
    }
}

/// Returns the value of an option, the last of several; all of them with ``all=True``; None without it. Of the
/// repository, or with ``global=True`` of the user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.config_get user.name cwd=/path/to/repo
///     salt myminion git.config_get user.email global=True
#[function]
fn config_get(
    ctx: &Context,
    key: String,
    cwd: Option<String>,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
    kwargs: KwArgs,
) -> Result<Value> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let [global, all] = named(&kwargs, ["global", "all"])?;
    let place = Place::of(&who, cwd, global.truthy())?;
    match place.values(ctx, &who, &key)? {
        None => Ok(Value::Null),
        Some(values) if all.truthy() => Ok(values.into()),
        // git itself takes the last value of an option that is set more than once.
        Some(mut values) => Ok(values.pop().unwrap_or_default().into()),
    }
}

/// Returns the options whose names and, if given, values match patterns; each with all its values.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.config_get_regexp '.*' cwd=/path/to/repo
#[function]
fn config_get_regexp(
    ctx: &Context,
    key: String,
    value_regex: Option<Value>,
    cwd: Option<String>,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
    kwargs: KwArgs,
) -> Result<Map> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let [global] = named(&kwargs, ["global"])?;
    let place = Place::of(&who, cwd, global.truthy())?;
    place.matching(ctx, &who, &key, value_regex.map(|pattern| pattern.to_string()))
}

/// `config_get_regex`: the same as `config_get_regexp`.
pub static CONFIG_GET_REGEX: Function = Function {
    name: "config_get_regex",
    doc: "The same as ``git.config_get_regexp``.\n\nCLI Example:\n\n.. code-block:: bash\n\n    salt myminion git.config_get_regex '.*' cwd=/path/to/repo",
    ..CONFIG_GET_REGEXP
};

/// Sets an option to a value, or with ``multivar`` to several, and returns all its values. ``add=True`` leaves those it has.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.config_set user.email me@example.com cwd=/path/to/repo
///     salt myminion git.config_set user.email foo@bar.com global=True
#[function]
fn config_set(
    ctx: &Context,
    key: String,
    value: Option<String>,
    multivar: Option<Value>,
    cwd: Option<String>,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
    kwargs: KwArgs,
) -> Result<Value> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let [global, add] = named(&kwargs, ["global", "add"])?;
    let place = Place::of(&who, cwd, global.truthy())?;
    let first = if add.truthy() && value.is_some() { "--add" } else { "--replace-all" };
    let values = match (value, multivar) {
        (Some(_), Some(_)) => return Err(Error::invocation("Only one of 'value' and 'multivar' is permitted")),
        (Some(value), None) => vec![value],
        (None, Some(values)) => listed(&values),
        (None, None) => return Err(Error::Other("neither 'value' nor 'multivar' is given".into())),
    };
    for (index, value) in values.iter().enumerate() {
        // The first value replaces the old ones, the others are added to it.
        let how = if index == 0 { first } else { "--add" };
        let git = Git::of(ctx, &who, &["config"]).word_if(place.global, "--global").words([how, &key, value]);
        place.at(git).text()?;
    }
    Ok(place.values(ctx, &who, &key)?.map(Value::from).unwrap_or_default())
}

/// Removes an option, or those of its values that match a pattern; returns True.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.config_unset /path/to/repo foo.bar
///     salt myminion git.config_unset foo.bar global=True
#[function]
fn config_unset(
    ctx: &Context,
    key: String,
    value_regex: Option<Value>,
    cwd: Option<String>,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
    kwargs: KwArgs,
) -> Result<bool> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let [global, all] = named(&kwargs, ["global", "all"])?;
    let place = Place::of(&who, cwd, global.truthy())?;
    let how = if all.truthy() { "--unset-all" } else { "--unset" };
    let pattern = value_regex.map(|pattern| pattern.to_string());
    let git = Git::of(ctx, &who, &["config", how, place.flag(), &key]).words(pattern.clone());
    let done = place.at(git).done()?;
    let why = match done.retcode {
        0 => return Ok(true),
        1 => "Section or key is invalid".to_owned(),
        // git uses the same code for an option that is missing and for one with several values.
        5 if place.values(ctx, &who, &key)?.is_none() => format!("Key '{key}' does not exist"),
        5 => {
            let more = if pattern.is_some() { " and value_regex matches multiple values" } else { "" };
            format!("Multiple values exist for key '{key}'{more}")
        }
        6 => "The value_regex is invalid".to_owned(),
        code => {
            let more = if done.stderr.is_empty() { String::new() } else { format!("; {}", done.stderr) };
            format!("Failed to unset key '{key}', git config returned exit code {code}{more}")
        }
    };
    Err(Error::execution(why))
}

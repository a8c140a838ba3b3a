//! `debconf` — answers to the questions that packages of Debian ask.

use std::io::Write;

use exec::{Call, Context, Error, KwArgs, Module, Result, VarArgs, function};
use value::{Map, Value, list, map};

use crate::util;

/// Registers the functions of `debconf`.
pub static MODULE: Module = Module::new(
    "debconf",
    "Functions that look at the answers to questions of packages, and give them.",
    &[&GET_SELECTIONS, &SET, &SET_FILE, &SET_TEMPLATE, &SHOW],
)
.only_if(|grains| match (grains.get_str("os_family"), util::which("debconf-get-selections")) {
    (Some("Debian"), Some(_)) => Ok(()),
    (Some("Debian"), None) => Err("The debconfmod module could not be loaded: debconf-utils is not installed.".into()),
    _ => Err("The debconfmod module could not be loaded: unsupported OS family".into()),
});

/// Splits off the first word, which must be followed by a blank.
fn word(text: &str) -> Option<(&str, &str)> {
    let end = text.find([' ', '\t'])?;
    let (word, rest) = text.split_at(end);
    (!word.is_empty()).then(|| (word, rest.trim_start_matches([' ', '\t'])))
}

/// Reads a line: package, question, type and value.
fn selection(line: &str) -> Option<[&str; 4]> {
    // Descriptions are printed as comments; Salt's pattern requires at least two letters.
    let (package, rest) = word(line).filter(|(package, _)| !package.starts_with('#') && package.len() > 1)?;
    let (question, rest) = word(rest)?;
    // A value may be empty or hold blanks, so only the first three fields end at a blank.
    let (kind, value) = word(rest)?;
    Some([package, question, kind, value])
}

fn selections(ctx: &Context, empty: bool) -> Result<Map> {
    let text = ctx.call("cmd.run_stdout", vec!["debconf-get-selections".into()])?.to_string();
    let mut found = Map::new();
    for [package, question, kind, value] in text.lines().filter_map(selection) {
        if !empty && value.is_empty() {
            continue;
        }
        if let Value::List(known) = found.entry_or_insert_with(package, || list![]) {
            known.push(list![question, kind, value]);
        }
    }
    Ok(found)
}

/// Returns all answers by package: lists of question, type and value. ``fetchempty=False`` leaves out empty ones.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' debconf.get_selections
#[function]
fn get_selections(ctx: &Context, #[default(true)] fetchempty: bool) -> Result<Map> {
    selections(ctx, fetchempty)
}

/// Returns the answers of a package: lists of question, type and value; None if it has none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' debconf.show openssh-server
#[function]
fn show(ctx: &Context, name: String) -> Result<Value> {
    Ok(selections(ctx, true)?.get(&name).cloned().unwrap_or_default())
}

/// Feeds debconf with the answers in a file. Returns whether it accepted them.
fn read_answers(ctx: &Context, path: &str) -> Result<bool> {
    // The answers are in a file: every user could read them on a command line.
    let args = vec![format!("debconf-set-selections {path}").into()];
    let code = ctx.call_with("cmd.retcode", Call { args, kwargs: map! { "python_shell" => false } })?;
    Ok(!code.truthy())
}

/// Writes a temporary file that only this user can read, since answers may be passwords. It is removed when dropped.
fn secret_file(content: &str) -> Result<tempfile::TempPath> {
    let failed = |error: std::io::Error| Error::execution(format!("failed to write answers to a file: {error}"));
    let mut file = tempfile::Builder::new().prefix("salt-").tempfile().map_err(failed)?;
    file.write_all(content.as_bytes()).map_err(failed)?;
    Ok(file.into_temp_path())
}

fn line(package: &str, question: &str, kind: &str, value: Value, extra: Vec<Value>) -> String {
    // The command line splits a value at its blanks; the parts are joined to what was meant.
    let value: Vec<String> = std::iter::once(value).chain(extra).map(|part| part.to_string()).collect();
    format!("{package} {question} {kind} {}", value.join(" "))
}

/// Answers a question of a package; returns whether the answer was accepted.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' debconf.set postfix postfix/mailname string mail.example.org
#[function]
fn set(ctx: &Context, package: String, question: String, r#type: String, value: Value, extra: VarArgs) -> Result<bool> {
    let file = secret_file(&line(&package, &question, &r#type, value, extra.0))?;
    read_answers(ctx, &file.to_string_lossy())
}

/// Applies the answers in a file; returns whether they were accepted.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' debconf.set_file salt://pathto/pkg.selections
#[function]
fn set_file(ctx: &Context, path: String, #[default("base")] saltenv: String, kwargs: KwArgs) -> Result<bool> {
    let _ = kwargs;
    let cached = ctx.call("cp.cache_file", vec![path.into(), saltenv.into()])?;
    match cached.as_str().filter(|path| !path.is_empty()) {
        Some(path) => read_answers(ctx, path),
        None => Ok(false),
    }
}

/// Applies the answers in a file that is a template; returns whether they were accepted.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' debconf.set_template salt://pathto/pkg.selections.jinja jinja None None
#[function]
fn set_template(
    ctx: &Context,
    path: String,
    template: String,
    context: Value,
    defaults: Value,
    #[default("base")] saltenv: String,
    kwargs: KwArgs,
) -> Result<bool> {
    let file = secret_file("")?;
    let place = file.to_string_lossy().into_owned();
    // The context wins over the defaults, as in `file.managed`.
    let mut names = defaults.into_map().unwrap_or_default();
    names.update(context.into_map().unwrap_or_default());
    let mut more = kwargs.given();
    more.update(map! { "template" => template, "saltenv" => saltenv, "context" => names });
    let call = Call { args: vec![path.into(), place.as_str().into()], kwargs: more };
    match ctx.call_with("cp.get_template", call)?.truthy() {
        true => read_answers(ctx, &place),
        false => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_and_read() {
        let text = line("postfix", "postfix/mailname", "string", "a".into(), vec!["b".into(), 3.into()]);
        assert_eq!(text, "postfix postfix/mailname string a b 3");
        assert_eq!(selection(&text), Some(["postfix", "postfix/mailname", "string", "a b 3"]));
        assert_eq!(selection("# a comment of debconf"), None);
        let file = secret_file(&text).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

//! `file.patch`: the program `patch`.

use std::path::Path;

use exec::{Context, Error, Result, function};
use value::{Map, Value};

use super::content::run_all;
use crate::util;

/// Applies a patch to a file or directory with the program ``patch`` and returns the result of ``cmd.run_all``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.patch /opt/file.txt /tmp/file.txt.patch
#[function]
pub fn patch(
    ctx: &Context,
    originalfile: String,
    patchfile: String,
    #[default("")] options: Value,
    #[default(false)] dry_run: bool,
) -> Result<Map> {
    let options = options_of(&options)?;
    apply(ctx, &originalfile, &patchfile, &options, dry_run)
}

/// Splits options as a shell does; a list is taken as it is.
pub fn options_of(options: &Value) -> Result<Vec<String>> {
    match options {
        Value::Null => Ok(Vec::new()),
        Value::List(words) => Ok(words.iter().map(Value::to_string).collect()),
        other => python::shlex::split(&other.to_string()).map_err(|error| Error::Other(error.to_string())),
    }
}

/// Applies a patch.
///
/// # Errors
/// When there is no program `patch`.
pub fn apply(ctx: &Context, original: &str, patch: &str, options: &[String], dry_run: bool) -> Result<Map> {
    let program = util::which("patch").ok_or_else(|| {
        Error::execution("patch executable not found. Is the distribution's patch package installed?")
    })?;
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend_from_slice(options);
    if dry_run {
        words.push("--dry-run".into());
    }
    if !words.iter().any(|word| word == "-N" || word == "--forward") {
        // A patch that is applied already would make the program ask whether to reverse it.
        words.push("--forward".into());
    }
    if !words.iter().any(|word| word == "-r" || word.starts_with("-r ") || word.starts_with("--reject-file")) {
        // By default `.rej` files would be left beside the files of the application.
        words.push("--reject-file=-".into());
    }
    words.extend(["-i".into(), patch.to_owned()]);
    if Path::new(original).is_dir() {
        words.extend(["-d".into(), original.to_owned()]);
        if !words.iter().any(|word| word.starts_with("-p") || word.starts_with("--strip=")) {
            // Without the option patch drops all directories of the names and finds files by their last part.
            words.push("--strip=0".into());
        }
    } else {
        words.push(original.to_owned());
    }
    run_all(ctx, &words)
}

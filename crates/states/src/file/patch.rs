//! `file.patch`.

use std::path::Path;

use exec::{Context, Error, KwArgs, Result, function};
use modules::file::paths::expand_user;
use modules::file::{patch as program, sources};
use modules::util::which;
use value::{Map, Value, map};

use super::common::{apply, environment, for_real, parent};
use super::managed::MANAGED;
use crate::Ret;

/// Options the state sets itself.
// Each of these would redirect output that the state reads afterwards.
const TAKEN: [&str; 6] = ["-N", "--forward", "-r", "--reject-file", "-o", "--output"];

/// Makes sure that a patch is applied to a file or directory.
#[function]
pub fn patch(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] source: Value,
    #[default(Value::Null)] source_hash: Value,
    #[default(Value::Null)] source_hash_name: Value,
    #[default(false)] skip_verify: bool,
    #[default(Value::Null)] template: Value,
    #[default(Value::Null)] context: Value,
    #[default(Value::Null)] defaults: Value,
    #[default("")] options: Value,
    reject_file: Option<String>,
    strip: Option<i64>,
    saltenv: Option<String>,
    kwargs: KwArgs,
) -> Result<Ret> {
    let name = expand_user(&name);
    let mut ret = Ret::new(name.as_str());
    if let Some(wrong) = preflight(&name, reject_file.as_deref()) {
        return Ok(ret.fail(wrong));
    }
    let dropped = ["hash", "dry_run_first"].into_iter().filter(|old| kwargs.0.contains_key(old));
    let mut warnings: Vec<String> =
        dropped.map(|old| format!("The '{old}' argument is no longer used and has been ignored.")).collect();
    let (options, strip) = match sanitized(&program::options_of(&options)?, strip) {
        Ok(options) => options,
        Err(wrong) => return Ok(with_warnings(ret, &warnings).fail(wrong)),
    };
    let mut source = match sources::choose(ctx, &source, &source_hash, &environment(ctx)) {
        Ok((source, _)) => source,
        Err(error) => return Ok(with_warnings(ret, &warnings).fail(error.to_string())),
    };
    // An environment in the address wins over the argument, since it is the more specific of the
    // two.
    if let Some((env, address)) = saltenv.zip(source.as_str().filter(|source| source.starts_with("salt://"))) {
        match files::url::parse(address).and_then(|(_, own)| own) {
            Some(own) if own != env => {
                warnings.push("Ignoring 'saltenv' option in favor of saltenv included in the source URL.".into())
            }
            Some(_) => {}
            None => source = format!("{address}?saltenv={env}").into(),
        }
    }
    ret = with_warnings(ret, &warnings);
    let folder =
        tempfile::tempdir().map_err(|error| Error::execution(format!("failed to make a directory: {error}")))?;
    let place = |file: &str| folder.path().join(file).to_string_lossy().into_owned();
    let file = place("patch");
    let args = map! {
        "name" => file.as_str(), "source" => source.clone(), "source_hash" => source_hash,
        "source_hash_name" => source_hash_name, "skip_verify" => skip_verify, "template" => template,
        "context" => context, "defaults" => defaults,
    };
    // The patch is fetched even in test mode, because a dry run needs it. It goes to a temporary
    // directory, so the system does not change.
    let fetched = apply(&for_real(ctx), &MANAGED, args)?;
    // In test mode a failed download is ignored if there is a file to try anyway.
    if fetched.result == Some(false) && (!ctx.is_test() || !Path::new(&file).exists()) {
        return Ok(fetched);
    }
    let rejects = reject_file.clone().unwrap_or_else(|| place("rejects"));
    let job = Job { name, file, rejects, output: place("output"), options, strip, named: reject_file.is_some() };
    job.run(ctx, ret)
}

fn with_warnings(mut ret: Ret, warnings: &[String]) -> Ret {
    if !warnings.is_empty() {
        ret.more.insert("warnings", warnings.to_vec());
    }
    ret
}

fn preflight(name: &str, reject_file: Option<&str>) -> Option<String> {
    if which("patch").is_none() {
        return Some("patch executable not found on minion".into());
    }
    if name.is_empty() {
        return Some("A file/directory to be patched is required".into());
    }
    if !name.starts_with('/') {
        return Some(format!("{name} is not an absolute path"));
    }
    if !Path::new(name).exists() {
        return Some(format!("{name} does not exist"));
    }
    let rejects = reject_file?;
    if !parent(rejects).starts_with('/') {
        return Some(format!("'{rejects}' is not an absolute path"));
    }
    (!Path::new(parent(rejects)).is_dir())
        .then(|| format!("Parent directory for reject_file '{rejects}' either does not exist, or is not a directory"))
}

/// Takes the number of path parts to strip out of the options, and refuses those the state sets itself.
fn sanitized(options: &[String], strip: Option<i64>) -> std::result::Result<(Vec<String>, Option<i64>), String> {
    let (mut kept, mut strip, mut refused) = (Vec::new(), strip, Vec::new());
    let wrong = |option: &str| {
        format!("Invalid format for '{option}' CLI option. Consider using the 'strip' option for this state.")
    };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if TAKEN.iter().any(|taken| option.starts_with(taken)) {
            refused.push(option.clone());
        }
        if let Some(number) = option.strip_prefix("-p") {
            strip = Some(number.parse().map_err(|_| wrong("-p"))?);
        } else if option.starts_with("--strip") {
            let number = option.rsplit_once('=').map(|(_, number)| number.to_owned());
            let number = number.or_else(|| options.next().cloned());
            strip = Some(number.and_then(|number| number.parse().ok()).ok_or_else(|| wrong("-strip"))?);
        } else {
            kept.push(option.clone());
        }
    }
    if !refused.is_empty() {
        return Err(format!("The following CLI options are not allowed: {}", refused.join(", ")));
    }
    Ok((kept, strip))
}

struct Job {
    name: String,
    file: String,
    rejects: String,
    output: String,
    options: Vec<String>,
    strip: Option<i64>,
    /// The user named a place for rejects.
    named: bool,
}

impl Job {
    fn patch(&self, ctx: &Context, file: &str, more: &[&str], dry_run: bool) -> Result<Map> {
        let mut options = self.options.clone();
        options.extend(more.iter().map(|option| (*option).to_owned()));
        program::apply(ctx, &self.name, file, &options, dry_run)
    }

    fn run(&self, ctx: &Context, ret: Ret) -> Result<Ret> {
        // For a single file the path in the patch is ignored, so there is nothing to strip.
        let strip = self.strip.filter(|_| Path::new(&self.name).is_dir()).map(|strip| format!("-p{strip}"));
        let strip: Vec<&str> = strip.iter().map(String::as_str).collect();
        // The trial writes its output into a temporary file instead of using --dry-run, because
        // only a real run writes rejects. Old versions of patch cannot write to /dev/null.
        let mut options = vec!["-N", "-r", &self.rejects, "-o", &self.output];
        options.extend(&strip);
        let tried = self.patch(ctx, &self.file, &options, false)?;
        let code = |said: &Map| said.get("retcode").and_then(Value::as_i64).unwrap_or(-1);
        let stderr = tried.get("stderr").map(Value::to_string).unwrap_or_default();
        if code(&tried) != 0 {
            // Without rejects the program failed before it read any hunk, so its message is the best answer.
            if std::fs::metadata(&self.rejects).map_or(0, |meta| meta.len()) == 0 {
                return Ok(ret.fail(stderr));
            }
            // If the rejected hunks can be undone, they are in the file already. Rejects are
            // relative to the directory itself, so no -p here.
            let back = self.patch(ctx, &self.rejects, &["-R", "-f"], true)?;
            // patch exits with 1 if hunks failed and with 2 on trouble, such as an unreadable file.
            if code(&tried) == 2 && !stderr.is_empty() {
                return Ok(ret.fail(stderr));
            }
            if code(&back) == 0 {
                return Ok(ret.ok("Patch was already applied"));
            }
            return Ok(ret.fail(self.refused(&tried)));
        }
        if ctx.is_test() {
            return Ok(ret.changed(tried).would("The patch would be applied"));
        }
        let said = self.patch(ctx, &self.file, &strip, false)?;
        let done = code(&said) == 0;
        let ret = ret.changed(said);
        Ok(if done { ret.ok("Patch successfully applied") } else { ret.fail("Failed to apply patch") })
    }

    fn refused(&self, tried: &Map) -> String {
        let hint = match self.named {
            true => "",
            false => " Run state again using the reject_file option to save rejects to a persistent file.",
        };
        format!(
            "Patch would not apply cleanly, no changes made. Results of dry-run are below.{hint}\n\n{}",
            nested(tried)
        )
    }
}

/// Shows a map as Salt's outputter `nested` does, fourteen columns in.
fn nested(map: &Map) -> String {
    let mut keys: Vec<(&Value, &Value)> = map.iter().collect();
    keys.sort_by_key(|(key, _)| key.to_string());
    let indent = " ".repeat(14);
    let mut lines = vec![format!("{indent}----------")];
    for (key, value) in keys {
        lines.push(format!("{indent}{key}:"));
        lines.extend(value.to_string().lines().map(|line| format!("{indent}    {line}")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_looked_at() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(sanitized(&words("-p1 --binary"), None), Ok((words("--binary"), Some(1))));
        assert_eq!(sanitized(&words("--strip 2"), None), Ok((Vec::new(), Some(2))));
        assert!(sanitized(&words("-N --output=x"), None).unwrap_err().ends_with("-N, --output=x"));
        assert!(sanitized(&words("-px"), None).is_err());
    }
}

//! `alternatives` — which of several programs a common name means.

use std::path::Path;

use exec::{Call, Context, Module, Result, function};
use value::{Map, Value, map};

/// Registers the functions of `alternatives`.
pub static MODULE: Module = Module::new(
    "alternatives",
    "Functions that look at which program a common name means, and choose another one.",
    &[&AUTO, &CHECK_EXISTS, &CHECK_INSTALLED, &DISPLAY, &INSTALL, &REMOVE, &SET, &SHOW_CURRENT, &SHOW_LINK],
)
.only_if(|_| match Path::new(LINKS).is_dir() {
    true => Ok(()),
    false => Err("Cannot load alternatives module: /etc/alternatives dir not found".into()),
});

const LINKS: &str = "/etc/alternatives";

/// Exit code and output of the program.
struct Output {
    code: i64,
    stdout: String,
    stderr: String,
}

impl Output {
    fn failed(&self) -> bool {
        self.code > 0 && !self.stderr.is_empty()
    }
}

fn run(ctx: &Context, words: &[&str], may_fail: bool) -> Result<Output> {
    let redhat = ctx.grains.get_str("os_family") == Some("RedHat");
    // The Red Hat family ships its own implementation, without the `update-` in its name.
    let program = if redhat { "alternatives" } else { "update-alternatives" };
    let command: Value = [program].iter().chain(words).map(|word| Value::from(*word)).collect();
    let mut kwargs = map! { "python_shell" => false };
    if may_fail {
        // A name that does not exist answers the question; it must not make the job a failure.
        kwargs.insert("ignore_retcode", true);
    }
    let said: Map = ctx.call_with("cmd.run_all", Call { args: vec![command], kwargs })?.into_map().unwrap_or_default();
    let text = |name: &str| said.get(name).map(Value::to_string).unwrap_or_default();
    let code = said.get("retcode").and_then(Value::as_i64).unwrap_or_default();
    Ok(Output { code, stdout: text("stdout"), stderr: text("stderr") })
}

/// Returns stderr after a failure, otherwise stdout.
fn output_text(said: Output, failed: bool) -> String {
    if failed { said.stderr } else { said.stdout }
}

/// Returns information about a name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' alternatives.display editor
#[function(out = "txt")]
fn display(ctx: &Context, name: String) -> Result<String> {
    let said = run(ctx, &["--display", &name], true)?;
    let failed = said.failed();
    Ok(output_text(said, failed))
}

/// Returns the second line of a state file: the link of the name.
fn link_in(text: &str) -> Option<&str> {
    text.lines().nth(1)
}

/// Returns the common link of a name, such as /usr/bin/editor; False if there is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' alternatives.show_link editor
#[function]
fn show_link(ctx: &Context, name: String) -> Result<Value> {
    let folder = match ctx.grains.get_str("os_family") {
        // These implementations have no `--query`: only the state file names the link.
        Some("RedHat") => "/var/lib/alternatives",
        Some("Suse") => "/var/lib/rpm/alternatives",
        _ => {
            let said = run(ctx, &["--query", &name], true)?;
            // The blocks after the first describe the candidates, which have other fields.
            let block = said.stdout.split("\n\n").next().unwrap_or_default();
            let link = block.lines().find_map(|line| line.strip_prefix("Link:"));
            return Ok(link.filter(|_| !said.failed()).map_or(false.into(), |link| link.trim().into()));
        }
    };
    match std::fs::read_to_string(Path::new(folder).join(&name)) {
        Ok(text) => Ok(link_in(&text).map_or(false.into(), Value::from)),
        Err(error) => {
            tracing::error!("alternatives: {name} does not exist: {error}");
            Ok(false.into())
        }
    }
}

fn target(folder: &str, name: &str) -> Option<String> {
    let target = std::fs::read_link(Path::new(folder).join(name)).ok()?;
    Some(target.to_string_lossy().into_owned())
}

/// Returns the path that a name points to; False if there is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' alternatives.show_current editor
#[function]
fn show_current(name: String) -> Result<Value> {
    let found = target(LINKS, &name);
    if found.is_none() {
        tracing::error!("alternative: {name} does not exist");
    }
    Ok(found.map_or(false.into(), Value::from))
}

/// Returns whether a path is among the alternatives of a name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' alternatives.check_exists editor /usr/bin/vim
#[function]
fn check_exists(ctx: &Context, name: String, path: String) -> Result<bool> {
    let said = run(ctx, &["--display", &name], true)?;
    // A prefix is enough, as in Salt: Debian writes the priority on the same line, behind the path.
    Ok(!said.failed() && said.stdout.lines().any(|line| line.starts_with(&path)))
}

/// Returns whether a name points to a path.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' alternatives.check_installed editor /usr/bin/vim
#[function]
fn check_installed(name: String, path: String) -> Result<bool> {
    Ok(target(LINKS, &name).is_some_and(|found| found == path))
}

/// Adds a path to the alternatives of a name. Returns the output of the program.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' alternatives.install editor /usr/bin/editor /usr/bin/emacs23 50
#[function(out = "txt")]
fn install(ctx: &Context, name: String, link: String, path: String, priority: Value) -> Result<String> {
    let said = run(ctx, &["--install", &link, &name, &path, &priority.to_string()], false)?;
    let failed = said.failed();
    Ok(output_text(said, failed))
}

/// Removes a path from the alternatives of a name. Returns the output of the program.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' alternatives.remove editor /usr/bin/vim
#[function(out = "txt")]
fn remove(ctx: &Context, name: String, path: String) -> Result<String> {
    let said = run(ctx, &["--remove", &name, &path], false)?;
    let failed = said.code > 0;
    Ok(output_text(said, failed))
}

/// Selects the alternative with the highest priority for a name. Returns the output of the program.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' alternatives.auto editor
#[function]
fn auto(ctx: &Context, name: String) -> Result<String> {
    let said = run(ctx, &["--auto", &name], false)?;
    let failed = said.code > 0;
    Ok(output_text(said, failed))
}

/// Selects a path for a name. Returns the output of the program.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' alternatives.set editor /usr/bin/vim
#[function]
fn set(ctx: &Context, name: String, path: String) -> Result<String> {
    let said = run(ctx, &["--set", &name, &path], false)?;
    let failed = said.code > 0;
    Ok(output_text(said, failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/usr/bin/vim", folder.path().join("editor")).unwrap();
        let folder = folder.path().to_str().unwrap();
        assert_eq!(target(folder, "editor").as_deref(), Some("/usr/bin/vim"));
        assert_eq!(target(folder, "pager"), None);
        assert_eq!(link_in("auto\n/usr/bin/editor\n\n"), Some("/usr/bin/editor"));
        assert_eq!(link_in("auto"), None);
    }
}

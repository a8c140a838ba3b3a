//! `temp` — new temporary files and directories.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use exec::{Error, Module, Result, function};
use tempfile::Builder;

/// The module.
pub static MODULE: Module =
    Module::new("temp", "Functions that make files and directories for a while.", &[&DIR, &FILE]);

/// Returns the folder for temporary files: the given one, that of the environment, or `/tmp`.
fn folder(parent: Option<String>) -> PathBuf {
    parent.map_or_else(std::env::temp_dir, PathBuf::from)
}

fn failed(what: &str, parent: &std::path::Path, error: &std::io::Error) -> Error {
    Error::Other(format!("failed to make a temporary {what} in {}: {error}", parent.display()))
}

fn text(path: PathBuf) -> String {
    path.to_string_lossy().into_owned()
}

/// Makes a directory with a unique name that only its owner can access, and returns its path. It is not removed
/// automatically.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' temp.dir
///     salt '*' temp.dir prefix='mytemp-' parent='/var/run/'
#[function]
fn dir(#[default("")] suffix: String, #[default("tmp")] prefix: String, parent: Option<String>) -> Result<String> {
    let parent = folder(parent);
    let private = Permissions::from_mode(0o700);
    let made = Builder::new().prefix(&prefix).suffix(&suffix).rand_bytes(8).permissions(private).tempdir_in(&parent);
    Ok(text(made.map_err(|error| failed("directory", &parent, &error))?.keep()))
}

/// Makes an empty file with a unique name that only its owner can access, and returns its path. It is not removed
/// automatically.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' temp.file
///     salt '*' temp.file prefix='mytemp-' parent='/var/run/'
#[function]
fn file(#[default("")] suffix: String, #[default("tmp")] prefix: String, parent: Option<String>) -> Result<String> {
    let parent = folder(parent);
    let made = Builder::new().prefix(&prefix).suffix(&suffix).rand_bytes(8).tempfile_in(&parent);
    let kept = made.map_err(|error| failed("file", &parent, &error))?.keep();
    Ok(text(kept.map_err(|error| failed("file", &parent, &error.error))?.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::Call;
    use value::map;

    #[test]
    fn what_is_made_stays_and_is_private() {
        let (ctx, _) = exec::testing::context(&[&MODULE], map! {}, map! {}, map! {});
        let parent = tempfile::tempdir().unwrap();
        for (fun, mode) in [("temp.dir", 0o40700), ("temp.file", 0o100600)] {
            let kwargs = map! { "prefix" => "a-", "suffix" => ".b", "parent" => parent.path().to_str().unwrap() };
            let made = ctx.call_with(fun, Call { args: vec![], kwargs }).unwrap().to_string();
            let name = made.strip_prefix(&format!("{}/", parent.path().display())).unwrap();
            assert!(name.starts_with("a-") && name.ends_with(".b") && name.len() == 12, "{name}");
            assert_eq!(std::fs::metadata(&made).unwrap().permissions().mode(), mode);
        }
        let nowhere = parent.path().join("nowhere").to_string_lossy().into_owned();
        let call = Call { args: vec!["".into(), "x".into(), nowhere.as_str().into()], kwargs: map! {} };
        assert!(ctx.call_with("temp.dir", call).unwrap_err().to_string().contains(&nowhere));
    }
}

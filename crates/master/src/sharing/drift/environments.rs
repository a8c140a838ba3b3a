//! The directories of each environment that can be asked for, those that `__env__` stands for among them.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use config::Roots;

/// The entry of roots for environments that have none of their own, and the part of its paths that stands for their names.
const ANY_ENV: &str = "__env__";

/// Returns the environments of roots with their directories. Whoever asks names the environment, so those that follow from
/// `__env__` are the ones for which there is a directory.
pub fn environments(roots: &Roots) -> Vec<(String, Vec<PathBuf>)> {
    let named = roots.iter().filter(|(env, _)| *env != ANY_ENV);
    let mut all: Vec<_> = named.map(|(env, directories)| (env.to_owned(), directories.to_vec())).collect();
    let Some(template) = roots.get(ANY_ENV) else { return all };
    let found: BTreeSet<String> = template.iter().flat_map(|path| names(path)).collect();
    for env in found.into_iter().filter(|env| roots.get(env).is_none()) {
        let directories = template.iter().map(|path| path.to_string_lossy().replace(ANY_ENV, &env).into()).collect();
        all.push((env, directories));
    }
    // Directories that are the same for all environments are compared once.
    let same: Vec<PathBuf> =
        template.iter().filter(|path| !path.to_string_lossy().contains(ANY_ENV)).cloned().collect();
    if !same.is_empty() {
        all.push((ANY_ENV.to_owned(), same));
    }
    all
}

/// Returns the names for which a path with `__env__` in it leads to a directory.
fn names(path: &Path) -> Vec<String> {
    let mut above = PathBuf::new();
    for component in path.components() {
        let text = component.as_os_str().to_string_lossy();
        if let (Component::Normal(_), Some((before, after))) = (component, text.split_once(ANY_ENV)) {
            let entries = std::fs::read_dir(&above).into_iter().flatten().filter_map(Result::ok);
            let inside = |name: &str| Some(name.strip_prefix(before)?.strip_suffix(after)?.to_owned());
            let names = entries.filter_map(|entry| inside(std::str::from_utf8(entry.file_name().as_bytes()).ok()?));
            let leads = |name: &String| Path::new(&*path.to_string_lossy().replace(ANY_ENV, name)).is_dir();
            return names.filter(|name| !name.is_empty() && leads(name)).collect();
        }
        above.push(component);
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_are_those_that_have_a_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |path: &str| scratch.path().join(path);
        for path in ["dev-env/salt", "prod-env/salt", "test-env/pillar", "other/salt", "same"] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        std::fs::write(at("file-env"), "").unwrap();
        let template = vec![at("__env__-env/salt"), at("same")];
        let roots = Roots::new([("prod".to_owned(), vec![at("live")]), (ANY_ENV.to_owned(), template)]);
        let wanted = [
            ("prod".to_owned(), vec![at("live")]),
            ("dev".to_owned(), vec![at("dev-env/salt"), at("same")]),
            (ANY_ENV.to_owned(), vec![at("same")]),
        ];
        assert_eq!(environments(&roots), wanted);
    }
}

//! Virtual environments with the real Salt, one per supported line.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Failure, Step};

/// The newest release of each line; the same list as `interop::LINES`.
pub const RELEASES: [&str; 3] = ["3006.30", "3007.17", NEWEST];

/// The release the benchmark compares with.
pub const NEWEST: &str = "3008.5";

/// The lists of requirements that are installed; the rest is for other systems or for building.
const REQUIREMENTS: [&str; 3] = ["base.txt", "crypto.txt", "zeromq.txt"];

/// The directory of the environments: `SALTERN_SALT_DIR`, or below the user's cache.
pub fn folder() -> PathBuf {
    if let Some(dir) = std::env::var_os("SALTERN_SALT_DIR") {
        return dir.into();
    }
    PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache/saltern/salt")
}

/// Makes sure that a release is installed and runs.
pub fn ensure(release: &str) -> Result<(), Failure> {
    if runs(release) {
        return Ok(());
    }
    println!("installing the real Salt {release} into {}", folder().join(release).display());
    install(release)
        .map_err(|error| Failure::new(format!("the real Salt {release} could not be installed: {error}")))?;
    if runs(release) {
        Ok(())
    } else {
        Err(Failure::new(format!("the real Salt {release} is installed but does not run")))
    }
}

/// The Python clients of servers that scenarios use: package and module.
const CLIENTS: [(&str, &str); 7] = [
    ("redis", "redis"),
    ("salt-pepper", "pepper"),
    ("python-etcd", "etcd"),
    ("py-consul", "consul"),
    ("pymysql", "pymysql"),
    // Drives Chromium.
    ("playwright", "playwright"),
    ("websockets", "websockets"),
];

/// Makes sure that the Python clients of servers are installed, in a folder of their own: with them beside it, the real Salt
/// would have more functions in every scenario.
pub fn ensure_clients() -> Result<(), Failure> {
    let folder = folder().join("clients");
    if CLIENTS.iter().all(|(_, module)| folder.join(module).is_dir()) {
        return Ok(());
    }
    println!("installing Python clients of servers into {}", folder.display());
    let pip = self::folder().join(NEWEST).join("bin/pip");
    Step::new(pip)
        .args(["install", "--quiet", "--target"])
        .arg(&folder)
        .arg("--upgrade")
        .args(CLIENTS.map(|(package, _)| package))
        .run()
}

fn runs(release: &str) -> bool {
    // A virtual environment outlives the Python it was made with, so having the file is not enough.
    let version = Step::new(folder().join(release).join("bin/salt")).arg("--version").output();
    version.is_some_and(|text| text.contains(release))
}

fn install(release: &str) -> Result<(), Failure> {
    let (venv, work) = (folder().join(release), folder().join(format!("{release}.work")));
    for dir in [&venv, &work] {
        // The remains of a broken attempt would confuse pip.
        let _ = fs::remove_dir_all(dir);
    }
    create(&work)?;
    Step::new("python3").args(["-m", "venv"]).arg(&venv).run()?;
    let pip = || Step::new(venv.join("bin/pip")).dir(&work);
    pip().args(["download", "--quiet", "--no-deps", "--dest", "."]).arg(format!("salt=={release}")).run()?;
    let archive = work.join(format!("salt-{release}.tar.gz"));
    // The requirement lists are in the source archive only.
    Step::new("tar").arg("-xzf").arg(&archive).dir(&work).run()?;
    let list = work.join("requirements.txt");
    loosen(&work.join(format!("salt-{release}/requirements")), &list)?;
    pip().args(["install", "--quiet", "--prefer-binary", "setuptools", "wheel", "-r"]).arg(&list).run()?;
    // Without build isolation: Salt's build would fetch its own setuptools.
    pip().args(["install", "--quiet", "--no-deps", "--no-build-isolation"]).arg(&archive).run()?;
    fs::remove_dir_all(&work).map_err(|error| Failure::new(format!("failed to remove {}: {error}", work.display())))
}

/// Joins the requirement lists, without references between them, and with any `certifi`: the pinned one may be gone.
fn loosen(from: &Path, to: &Path) -> Result<(), Failure> {
    let mut list = String::new();
    for name in REQUIREMENTS {
        let path = from.join(name);
        let text = fs::read_to_string(&path);
        let text = text.map_err(|error| Failure::new(format!("failed to read {}: {error}", path.display())))?;
        list.extend(text.lines().filter_map(requirement).map(|line| format!("{line}\n")));
    }
    fs::write(to, list).map_err(|error| Failure::new(format!("failed to write {}: {error}", to.display())))
}

fn requirement(line: &str) -> Option<&str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') || line.starts_with("-r") {
        return None;
    }
    Some(if line.starts_with("certifi") { "certifi" } else { line })
}

fn create(dir: &Path) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(|error| Failure::new(format!("failed to create {}: {error}", dir.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requirements_are_kept_and_certifi_is_loosened() {
        let lines = ["# why", "", "-r base.txt", "certifi>=2026.10.23", "PyYAML>=6.0.3", "certifi==1; x < '2'"];
        let kept: Vec<_> = lines.into_iter().filter_map(requirement).collect();
        assert_eq!(kept, ["certifi", "PyYAML>=6.0.3", "certifi"]);
    }
}

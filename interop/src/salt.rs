//! Installations: folders with the programs of the real Salt or of Saltern.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, bail, ensure};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

/// The real releases the project is compared with: the newest of each supported line.
pub const LINES: [&str; 3] = ["3006.30", "3007.17", "3008.5"];

/// A set of programs: `salt`, `salt-master`, `salt-minion`, `salt-key`, `salt-call`, `salt-run`, `salt-cp`.
#[derive(Debug, Clone)]
pub struct Salt {
    name: String,
    bin: PathBuf,
    ours: bool,
}

impl Salt {
    /// Returns the real Salt of a line, or nothing when it is not installed (see [`missing`]).
    pub fn real(line: &str) -> Option<Self> {
        let bin = real_dir().join(line).join("bin");
        bin.join("salt-master").exists().then(|| Self { name: line.to_owned(), bin, ours: false })
    }

    /// Returns our programs, linked into a scratch directory under Salt's names.
    pub fn ours() -> Result<Self> {
        static OURS: OnceLock<Result<Salt, String>> = OnceLock::new();
        let found = OURS.get_or_init(|| find_ours().map_err(|error| format!("{error:#}")));
        found.clone().map_err(anyhow::Error::msg)
    }

    /// Returns the programs of an earlier version, linked into a scratch directory.
    pub fn of_program(program: &Path) -> Result<Self> {
        let bin =
            env::temp_dir().join(format!("saltern-interop-other-{}-{}", nix::unistd::getuid(), std::process::id()));
        Ok(Self { name: "before".to_owned(), ..link(program, bin)? })
    }

    /// Returns the path of `saltern` itself, for its own commands.
    pub fn saltern() -> Result<PathBuf> {
        program_under_test()
    }

    /// Name for messages and directories: the release, or `ours`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether these are Saltern's programs and neither the real Salt nor a substitute.
    pub fn is_ours(&self) -> bool {
        self.ours
    }

    /// The release line: 3006, 3007 or 3008 of a real Salt, nothing for ours.
    pub fn line(&self) -> Option<u32> {
        self.name.split('.').next()?.trim_start_matches("ours=").parse().ok()
    }

    /// Path of a program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    /// Installs our program into a folder as on a new host: the one file is copied there, and the names are linked.
    pub fn copied_to(&self, bin: &Path) -> Result<Self> {
        let (from, to) = (self.program("salt"), bin.join("saltern"));
        std::fs::copy(&from, &to).with_context(|| format!("failed to copy {} to {}", from.display(), to.display()))?;
        link(&to, bin.to_owned())
    }

    /// Lets the kernel forget the content of our program, so that it reads the file again as on any host that has started since
    /// the program was installed. It keeps a file that was just written in larger pieces and maps whole pieces, which shows as
    /// a megabyte more in each daemon.
    pub fn read_from_disk_again(&self) -> Result<()> {
        let path = self.program("salt");
        let forget = || -> std::io::Result<()> {
            let file = std::fs::File::open(&path)?;
            // What is not on the disk cannot be forgotten.
            file.sync_all()?;
            Ok(posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?)
        };
        forget().with_context(|| format!("failed to read {} again", path.display()))
    }

    /// Returns the Python that can import this Salt; for Saltern that of the newest installed Salt.
    pub fn python(&self) -> Result<PathBuf> {
        let own = self.bin.join("python");
        if own.exists() {
            return Ok(own);
        }
        let newest = LINES.iter().rev().find_map(|line| Self::real(line));
        Ok(newest.context("no real Salt is installed to run Python with")?.bin.join("python"))
    }
}

/// Returns whether releases of the real Salt are missing, and prints why the test is skipped. Panics where skipping is
/// not allowed (`CI=true`).
///
/// Tests begin with `if interop::missing(&["3008.5"]) { return; }`.
pub fn missing(lines: &[&str]) -> bool {
    let absent: Vec<_> = lines.iter().copied().filter(|line| Salt::real(line).is_none()).collect();
    if absent.is_empty() {
        return false;
    }
    let sentence = format!("the real Salt {} is not installed below {}", absent.join(", "), real_dir().display());
    assert!(env::var("CI").as_deref() != Ok("true"), "{sentence}; `cargo xtask test` installs it");
    println!("skipped: {sentence}; `cargo xtask test` installs it");
    true
}

/// Returns the folder with the Python clients of servers, if the one that is named is installed there. The real Salt finds
/// them through `PYTHONPATH`; they are not beside it, because it has more functions with them.
pub fn clients(name: &str) -> Option<PathBuf> {
    let folder = real_dir().join("clients");
    folder.join(name).is_dir().then_some(folder)
}

fn real_dir() -> PathBuf {
    if let Some(dir) = env::var_os("SALTERN_SALT_DIR") {
        return dir.into();
    }
    PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache/saltern/salt")
}

fn find_ours() -> Result<Salt> {
    if let Ok(substitute) = env::var("SALTERN_INTEROP_OURS") {
        return substitute_for(&substitute);
    }
    let program = program_under_test()?;
    // With user and process id: users must not find links of each other, and tests of two builds may run at once.
    let bin = env::temp_dir().join(format!("saltern-interop-bin-{}-{}", nix::unistd::getuid(), std::process::id()));
    link(&program, bin)
}

/// Links a program into a folder under the names of Salt's programs.
fn link(program: &Path, bin: PathBuf) -> Result<Salt> {
    std::fs::create_dir_all(&bin).with_context(|| format!("failed to create {}", bin.display()))?;
    let linked = Command::new(program).arg("link").arg(&bin).output();
    let linked = linked.with_context(|| format!("failed to start {}", program.display()))?;
    let said = String::from_utf8_lossy(&linked.stderr);
    ensure!(linked.status.success(), "`{} link {}` failed: {said}", program.display(), bin.display());
    Ok(Salt { name: "ours".to_owned(), bin, ours: true })
}

fn substitute_for(substitute: &str) -> Result<Salt> {
    if let Some(real) = Salt::real(substitute) {
        return Ok(Salt { name: format!("ours={substitute}"), ..real });
    }
    let bin = PathBuf::from(substitute);
    ensure!(bin.join("salt-master").exists(), "SALTERN_INTEROP_OURS={substitute} has no salt-master");
    Ok(Salt { name: "ours".to_owned(), bin, ours: true })
}

/// Finds the program in the target directory the test itself was built into, preferring the optimised one.
fn program_under_test() -> Result<PathBuf> {
    if let Some(path) = env::var_os("SALTERN_BIN") {
        return Ok(path.into());
    }
    let own = env::current_exe().context("failed to find this test's own path")?;
    let roots: BTreeSet<&Path> = own.ancestors().skip(1).take(4).collect();
    let candidates = roots.iter().flat_map(|root| ["release", "debug"].map(|p| root.join(p).join("saltern")));
    let newest =
        candidates.filter(|path| path.exists()).max_by_key(|path| path.metadata().and_then(|m| m.modified()).ok());
    match newest {
        Some(path) => Ok(path),
        None => bail!("the program `saltern` is not built; run `cargo build --release` first or set SALTERN_BIN"),
    }
}

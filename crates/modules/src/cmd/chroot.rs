//! Commands in another root directory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use exec::{Context, Error, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use value::Value;

use super::options::{CallArgs, Line, Options};
use super::run::{self, Outcome};
use crate::subprocess::quiet;

/// Mounts what the command needs, runs it inside the root, ends the processes it left behind, and unmounts.
pub fn run(ctx: &Context, given: &CallArgs) -> Result<Outcome> {
    let root = PathBuf::from(given.text("root").unwrap_or_default());
    if !root.is_absolute() || !root.is_dir() {
        return Err(Error::execution(format!("the root '{}' is not an absolute path of a directory", root.display())));
    }
    let mut mounts = Mounts { root: &root, places: Vec::new() };
    let outcome = match mount_all(ctx, &root, given.value("binds"), &mut mounts.places) {
        Ok(()) => match options(ctx, given, &root) {
            Ok(options) => run::run(ctx, &options),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    // A process that still has its root there keeps the mounts busy, and umount would fail.
    end_processes(&root);
    // In reverse, since one bind mount may be below another. All mounts are unmounted, even when a later mount failed.
    while let Some(place) = mounts.places.pop() {
        unmount(ctx, &place);
    }
    outcome
}

/// The mounts of a command. Those that are left when the job is killed are removed without the context of the job, in which
/// nothing can wait any more.
struct Mounts<'a> {
    root: &'a Path,
    places: Vec<PathBuf>,
}

impl Drop for Mounts<'_> {
    fn drop(&mut self) {
        if self.places.is_empty() {
            return;
        }
        end_processes(self.root);
        for place in self.places.iter().rev() {
            let done = std::process::Command::new("umount").arg(place).status();
            if !done.as_ref().is_ok_and(std::process::ExitStatus::success) {
                tracing::error!("failed to unmount {} of a killed job: {done:?}", place.display());
            }
        }
    }
}

fn options(ctx: &Context, given: &CallArgs, root: &Path) -> Result<Options> {
    let mut given = given.clone();
    // The shell must be in the new root; the caller's `shell` is that of the machine.
    let shell = if root.join("bin/bash").is_file() { "/bin/bash" } else { "/bin/sh" };
    let mut words = vec!["chroot".to_owned()];
    if let Some(user) = given.some_text("runas") {
        // The user lives inside the root.
        words.push(format!("--userspec={user}:{}", given.some_text("group").unwrap_or_default()));
    }
    let line = Line::from_value(given.value("cmd")).joined();
    words.extend([root.to_string_lossy().into_owned(), shell.to_owned(), "-c".to_owned(), line]);
    given.set("cmd", words);
    // The line goes to the shell inside the root as one word, so nothing is expanded outside.
    given.set("python_shell", false);
    given.set("runas", Value::Null);
    given.set("group", Value::Null);
    Options::read(ctx, &given)
}

fn mount_all(ctx: &Context, root: &Path, binds: &Value, mounted: &mut Vec<PathBuf>) -> Result<()> {
    for (kind, name) in [("devtmpfs", "dev"), ("proc", "proc"), ("sysfs", "sys")] {
        let place = root.join(name);
        mount(ctx, &["-t", kind, kind, &place.to_string_lossy()])?;
        mounted.push(place);
    }
    for bind in binds.as_list().unwrap_or_default() {
        let bind = bind.to_string();
        let place = root.join(bind.trim_start_matches('/'));
        mount(ctx, &["--bind", &bind, &place.to_string_lossy()])?;
        mounted.push(place);
    }
    Ok(())
}

fn mount(ctx: &Context, args: &[&str]) -> Result<()> {
    let outcome = quiet(ctx, &[&["mount"], args].concat())?;
    match outcome.retcode {
        Some(0) => Ok(()),
        _ => Err(Error::execution(format!("failed to mount {}: {}", args.join(" "), outcome.stderr))),
    }
}

fn unmount(ctx: &Context, place: &Path) {
    match quiet(ctx, &["umount", &place.to_string_lossy()]) {
        Ok(outcome) if outcome.retcode == Some(0) => {}
        Ok(outcome) => tracing::error!("failed to unmount {}: {}", place.display(), outcome.stderr),
        Err(error) => tracing::error!("failed to unmount {}: {error}", place.display()),
    }
}

/// Sends SIGTERM up to three times, then SIGKILL up to three times.
fn end_processes(root: &Path) {
    for round in 0..6 {
        let left = processes_in(root);
        if left.is_empty() {
            return;
        }
        let signal = if round < 3 { Signal::SIGTERM } else { Signal::SIGKILL };
        for pid in left {
            // A process that has ended in the meantime needs no signal.
            let _ = kill(pid, signal);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    if !processes_in(root).is_empty() {
        tracing::error!("Processes running in chroot could not be killed, filesystem will remain mounted");
    }
}

fn processes_in(root: &Path) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let inside = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/root")).is_ok_and(|link| link.starts_with(root));
    pids.filter(inside).map(Pid::from_raw).collect()
}

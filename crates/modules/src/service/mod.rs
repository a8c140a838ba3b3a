//! `service` — what runs in the background, by the init system that runs it.
//!
//! systemd serves every machine that was booted with it, or that has it and no other; the others are chosen by the grain
//! `os`, as in Salt, or by the option `providers`.

pub mod openrc;
pub mod red_hat;
mod scripts;
pub mod systemd;
pub mod sysv;

use std::path::Path;

use exec::{Context, Error, Result};
use value::{Map, Value};

use crate::subprocess;

/// Returns whether systemd runs this machine.
fn booted_with_systemd() -> bool {
    Path::new("/run/systemd/system").exists()
}

/// Runs a program. Returns whether it succeeded; a missing one did not.
fn succeeds<W: AsRef<str>>(ctx: &Context, words: &[W]) -> Result<bool> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match subprocess::quiet(ctx, &words) {
        Ok(said) => {
            let done = said.retcode == Some(0);
            if !done {
                // Init scripts report on either stream.
                let why = if said.stderr.trim().is_empty() { said.stdout.trim() } else { said.stderr.trim() };
                tracing::debug!("'{}' ended with {:?}: {why}", words.join(" "), said.retcode);
            }
            Ok(done)
        }
        // Salt's shell would print an error and exit with 127, which counts as a failure and is no
        // exception.
        Err(Error::CommandNotFound(program)) => {
            tracing::error!("'{}' cannot be run: there is no {program}", words.join(" "));
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Refuses names that would be read as an option, or lead out of the directory of scripts.
fn checked(name: &str) -> Result<&str> {
    // The name becomes part of a path and an argument of programs that run as root.
    match name.is_empty() || name.starts_with('-') || name.contains('/') {
        true => Err(Error::invocation(format!("'{name}' is not the name of a service"))),
        false => Ok(name),
    }
}

/// Returns whether a name is a pattern.
fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
        // An empty pair of brackets is not a character class.
        || name.find('[').is_some_and(|place| name[place + 1..].find(']').is_some_and(|end| end > 0))
}

/// Returns the runlevel that the program `runlevel` prints, or the usual one.
fn runlevel(ctx: &Context, program: &str, usual: &str) -> Result<String> {
    let text = subprocess::quiet(ctx, &[program])?.stdout;
    // The output is the previous and the current runlevel. In a container it is "unknown".
    let level = text.split_whitespace().nth(1).filter(|_| !text.contains("unknown"));
    Ok(level.unwrap_or(usual).to_owned())
}

/// Returns whether processes of this name run (`sig` of `service.status`).
fn runs_as(ctx: &Context, sig: &Value) -> Result<Value> {
    Ok(ctx.call("status.pid", vec![sig.clone()])?.truthy().into())
}

/// Returns a single answer for a name and a map for a pattern.
fn answer(name: &str, found: Vec<(String, bool)>) -> Value {
    match is_pattern(name) {
        true => found.into_iter().collect::<Map>().into(),
        false => found.into_iter().next().is_some_and(|(_, runs)| runs).into(),
    }
}

/// A path, below the directory of a test.
fn at(ctx: &Context, path: &str) -> String {
    #[cfg(test)]
    if let Some(test) = ctx.opts.get_str("__root") {
        return format!("{test}{path}");
    }
    let _ = ctx;
    path.to_owned()
}

/// The names in a directory, in order; none when there is no such directory.
fn names_in(ctx: &Context, folder: &str) -> Result<Vec<String>> {
    crate::pkg::repo_file::names_in(&at(ctx, folder), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_told_from_names() {
        assert!(is_pattern("ss*") && is_pattern("a?") && is_pattern("[ab]c"));
        assert!(!is_pattern("sshd") && !is_pattern("[]") && !is_pattern("a["));
        assert!(checked("../x").is_err() && checked("-x").is_err() && checked("a-b").is_ok());
    }
}

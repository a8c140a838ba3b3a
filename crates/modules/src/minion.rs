//! `minion` — the minion process itself, and the minions of a master on this host.

use std::path::Path;

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, list, map};

use crate::{subprocess, util};

/// Registers the functions of `minion`.
pub static MODULE: Module = Module::new("minion", "The minion process itself.", &[&KILL, &LIST, &RESTART]);

/// Salt's exit code for an internal failure.
const EX_SOFTWARE: i64 = 70;

/// Returns the minions of a master on this host, by the state of their keys.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt 'master' minion.list
#[function]
fn list(ctx: &Context) -> Result<Map> {
    // The function is for a host that runs a master too; Salt derives the master's directory in the same way.
    let pki_dir = ctx.opt_str("pki_dir").unwrap_or("/etc/salt/pki/minion").replace("minion", "master");
    let states = ["minions", "minions_pre", "minions_rejected", "minions_denied"];
    Ok(states.into_iter().map(|state| (state, ids(&Path::new(&pki_dir).join(state)))).collect())
}

fn ids(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.path().is_file());
    let names = files.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    // Salt sorts file names without regard to case.
    names.sort_by_key(|name| name.to_lowercase());
    names
}

/// Stops the minion once this job has returned.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt 'minion1' minion.kill
#[function]
fn kill(ctx: &Context, #[default(15)] timeout: i64) -> Result<Map> {
    // Nothing is waited for: the return must leave first.
    let _ = timeout;
    ctx.agent.stop_minion(false);
    Ok(map! { "killed" => std::process::id(), "retcode" => 0 })
}

/// Restarts the minion once this job has returned: with the option ``minion_restart_command``, else through systemd if
/// that runs it, else by itself.
///
/// With systemd, ``schedule_retry=True`` starts the service again after ``retry_delay`` seconds in case it did not come
/// back.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' minion.restart
#[function]
fn restart(
    ctx: &Context,
    #[default(true)] systemd: bool,
    #[default(true)] win_service: bool,
    #[default(false)] schedule_retry: bool,
    #[default(180)] retry_delay: u64,
) -> Result<Map> {
    let _ = win_service;
    // The administrator's command wins over everything that could be found out.
    let configured = util::config_get(ctx, "minion_restart_command").filter(Value::truthy);
    match configured {
        Some(command) => by_command(&command),
        None if systemd && is_systemd_service() => by_systemd(ctx, schedule_retry.then_some(retry_delay)),
        None => {
            // The process replaces itself after the return has been sent.
            ctx.agent.stop_minion(true);
            Ok(answer(map! { "killed" => std::process::id(), "comment" => list!["The minion restarts itself"] }))
        }
    }
}

/// Builds the result of `minion.restart`: the defaults, with `differences` over them.
fn answer(differences: Map) -> Map {
    let mut all = map! { "killed" => (), "restart" => map! {}, "service_restart" => map! {}, "retcode" => 0 };
    all.update(differences);
    all
}

fn by_command(command: &Value) -> Result<Map> {
    let words = match command {
        Value::List(items) => items.iter().map(Value::to_string).collect(),
        text => python::shlex::split(&text.to_string()).map_err(|error| Error::invocation(error.to_string()))?,
    };
    let mut comment = vec![Value::from("Using configuration minion_restart_command:")];
    comment.extend(words.iter().map(|word| Value::from(format!("    {word}"))));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // The command may wait for this process to exit, so nothing waits for it.
    let pid = subprocess::start(&words)?;
    tracing::info!("minion_restart_command runs as process {pid}");
    Ok(answer(map! { "comment" => comment }))
}

/// Returns whether systemd started this process as a service.
fn is_systemd_service() -> bool {
    // systemd sets the variable for services; a minion that was started in a terminal is not one.
    Path::new("/run/systemd/system").is_dir() && std::env::var_os("INVOCATION_ID").is_some()
}

fn by_systemd(ctx: &Context, retry: Option<u64>) -> Result<Map> {
    let mut comment = vec![Value::from("Using systemctl to restart salt-minion")];
    let mut service = Map::new();
    // A timer of systemd outlives the service: it starts the minion again when the restart fails.
    if let Some(seconds) = retry {
        let when = format!("--on-active={seconds}");
        let again = "systemctl is-active salt-minion || systemctl start salt-minion";
        let outcome = subprocess::quiet(ctx, &["systemd-run", &when, "/bin/sh", "-c", again])?;
        if outcome.retcode != Some(0) {
            comment.push("Adding scheduled retry failed".into());
            return Ok(failed(comment, &outcome.stderr));
        }
        service.insert("schedule_retry", map! { "detail" => outcome.stderr, "delay" => seconds });
        comment.push(format!("Scheduled retry for minion restart in {seconds} seconds").into());
    }
    // Without `--no-block` systemctl would wait for the end of the very process that waits for it.
    let outcome = subprocess::quiet(ctx, &["systemctl", "--no-block", "restart", "salt-minion"])?;
    if outcome.retcode != Some(0) {
        comment.push("Service restart failed".into());
        return Ok(failed(comment, &outcome.stderr));
    }
    service.insert("result", true);
    comment.push("Service restart successful".into());
    Ok(answer(map! { "service_restart" => service, "comment" => comment }))
}

fn failed(comment: Vec<Value>, why: &str) -> Map {
    let service = map! { "result" => false, "stderr" => why };
    answer(map! { "service_restart" => service, "retcode" => EX_SOFTWARE, "comment" => comment })
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::context;

    #[test]
    fn the_minion_ends_or_comes_back() {
        let (ctx, agent) = context(&[&MODULE], map! {}, map! {}, map! {});
        let killed = ctx.call("minion.kill", vec![]).unwrap();
        assert_eq!(killed, map! { "killed" => std::process::id(), "retcode" => 0 }.into());
        assert_eq!(*agent.stopped.lock().unwrap(), Some(false));
        let call = exec::Call { args: vec![], kwargs: map! { "systemd" => false } };
        let restarted = ctx.call_with("minion.restart", call).unwrap();
        assert_eq!(restarted.get("retcode"), Some(&0.into()));
        assert_eq!(*agent.stopped.lock().unwrap(), Some(true));
    }

    #[test]
    fn a_configured_command_restarts_it() {
        let opts = map! { "minion_restart_command" => list!["true", "x"] };
        let (ctx, agent) = context(&[&MODULE], opts, map! {}, map! {});
        let restarted = ctx.call("minion.restart", vec![]).unwrap();
        let comment = list!["Using configuration minion_restart_command:", "    true", "    x"];
        assert_eq!(restarted.get("comment"), Some(&comment));
        assert_eq!(*agent.stopped.lock().unwrap(), None);
    }

    #[test]
    fn keys_are_listed_by_state() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("pki/master/minions");
        std::fs::create_dir_all(&folder).unwrap();
        // Hidden files are not keys.
        for name in ["web2", "Web1", ".hidden"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let pki_dir = dir.path().join("pki/minion");
        let (ctx, _) = context(&[&MODULE], map! { "pki_dir" => pki_dir.to_str().unwrap() }, map! {}, map! {});
        let listed = list(&ctx).unwrap();
        assert_eq!(listed.get("minions"), Some(&list!["Web1", "web2"]));
        assert_eq!(listed.get("minions_pre"), Some(&list![]));
    }
}

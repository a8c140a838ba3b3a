//! Users and processes.

use exec::{Context, Error, Result, function};
use regex::Regex;
use value::{Map, map};

use crate::subprocess;

/// Returns the logged in users and their activity.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.w
#[function]
pub(super) fn w(ctx: &Context) -> Result<Vec<Map>> {
    match subprocess::quiet(ctx, &["w", "-fh"]) {
        Ok(outcome) => Ok(outcome.stdout.lines().filter_map(login).collect()),
        Err(Error::CommandNotFound(program)) => {
            tracing::warn!("there is no program '{program}' to tell who is logged in");
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

pub(super) fn login(line: &str) -> Option<Map> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [user, tty, login, idle, jcpu, pcpu, what @ ..] = words.as_slice() else { return None };
    Some(map! {
        "idle" => *idle, "jcpu" => *jcpu, "login" => *login, "pcpu" => *pcpu, "tty" => *tty, "user" => *user,
        "what" => what.join(" "),
    })
}

/// The lines of the process list, with the names of the columns first.
pub(super) fn process_lines(ctx: &Context) -> Result<Vec<String>> {
    // The grain has the options for this system, and administrators may change it.
    let command = ctx.grains.get_str("ps").filter(|command| !command.is_empty()).unwrap_or("ps -efHww");
    let outcome = subprocess::quiet(ctx, &["/bin/sh", "-c", command])?;
    if outcome.retcode != Some(0) {
        return Err(Error::execution(format!("failed to list processes with '{command}': {}", outcome.stderr.trim())));
    }
    Ok(outcome.stdout.lines().map(str::to_owned).collect())
}

/// Returns the processes with their users and commands.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.procs
#[function]
pub(super) fn procs(ctx: &Context) -> Result<Map> {
    Ok(parse_procs(&process_lines(ctx)?))
}

pub(super) fn parse_procs(lines: &[String]) -> Map {
    let Some((head, lines)) = lines.split_first() else { return Map::new() };
    let columns: Vec<&str> = head.split_whitespace().collect();
    let column = |names: [&str; 2]| names.iter().find_map(|name| columns.iter().position(|column| column == name));
    let user = column(["USER", "UID"]).unwrap_or_default();
    let pid = column(["PID", "PID"]).unwrap_or_default();
    let command = column(["COMMAND", "CMD"]).unwrap_or_default();
    let process = |line: &String| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let entry = map! { "user" => *words.get(user)?, "cmd" => words.get(command..)?.join(" ") };
        Some(((*words.get(pid)?).to_owned(), entry))
    };
    lines.iter().filter_map(process).collect()
}

/// Returns the ids of the processes whose line in the process list matches a regular expression, one a line.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.pid 'sshd'
#[function]
pub(super) fn pid(ctx: &Context, sig: String) -> Result<String> {
    let pattern = Regex::new(&sig).map_err(|error| Error::invocation(format!("'{sig}' is not a pattern: {error}")))?;
    let me = std::process::id().to_string();
    Ok(matching_pids(&process_lines(ctx)?, &pattern, &me).join("\n"))
}

/// Leaves out this process and its child processes.
pub(super) fn matching_pids(lines: &[String], pattern: &Regex, me: &str) -> Vec<String> {
    // The minion itself and the `ps` it started are excluded.
    let ours = |words: &[&str]| words.iter().skip(1).take(2).any(|word| *word == me);
    let found = lines.iter().skip(1).filter(|line| pattern.is_match(line)).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        if ours(&words) { None } else { words.get(1).map(|pid| (*pid).to_owned()) }
    });
    found.collect()
}

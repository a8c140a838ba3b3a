//! `sh` — commands run in shells, from `strace`.

use std::collections::BTreeMap;
use std::process::Stdio;

use exec::{Call, Context};
use futures_util::future::BoxFuture;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use value::{Map, Value, map};

use crate::config::list;
use crate::{Found, Kind, Watcher};

pub const KIND: Kind =
    Kind { name: "sh", validate: |config, _| list(config, "sh").map(drop), watch: |_| Box::new(Shells::default()) };

/// The maximum number of lines that wait for a look.
const QUEUE: usize = 1000;

#[derive(Default)]
struct Shells {
    followed: BTreeMap<String, TracedShell>,
}

struct TracedShell {
    program: Child,
    user: Value,
    lines: mpsc::Receiver<String>,
}

fn shells() -> Vec<String> {
    let text = std::fs::read_to_string("/etc/shells").unwrap_or_default();
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| line.trim().to_owned())
        .collect()
}

fn follow(pid: &str, user: Value) -> Result<TracedShell, String> {
    let started = Command::new("strace")
        .args(["-f", "-e", "execve", "-p", pid])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut program = started.map_err(|error| format!("strace: {error}"))?;
    let errors = program.stderr.take().ok_or("strace has no output")?;
    let (sender, lines) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let mut errors = BufReader::new(errors).lines();
        while let Ok(Some(line)) = errors.next_line().await {
            if sender.send(line).await.is_err() {
                return;
            }
        }
    });
    Ok(TracedShell { program, user, lines })
}

impl Watcher for Shells {
    fn look<'a>(&'a mut self, ctx: &'a Context) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            let processes = ctx.call_apart("status.procs", Call::default()).await.map_err(|error| error.to_string())?;
            let known = shells();
            for (pid, facts) in processes.as_map().cloned().unwrap_or_default().iter() {
                let command = facts.get("cmd").and_then(Value::as_str).unwrap_or_default().trim_start_matches('-');
                let pid = pid.to_string();
                // Salt tests whether the command is a part of any shell's path, so `sh` is found in `/bin/bash`.
                if known.iter().any(|shell| shell.contains(command)) && !self.followed.contains_key(&pid) {
                    let user = facts.get("user").cloned().unwrap_or_default();
                    self.followed.insert(pid.clone(), follow(&pid, user)?);
                }
            }
            let mut found = Vec::new();
            for (pid, shell) in &mut self.followed {
                while let Ok(line) = shell.lines.try_recv() {
                    found.extend(event(pid, &shell.user, &line));
                }
            }
            // After reading: the last lines of a program that has ended are still in the queue.
            self.followed.retain(|_, shell| matches!(shell.program.try_wait(), Ok(None)));
            Ok(found)
        })
    }
}

/// Parses the command in a line of `strace`.
fn event(pid: &str, user: &Value, line: &str) -> Option<Map> {
    let call = line.split_once("execve")?.1;
    // The parts between quotes; blanks and commas between them are skipped.
    let quoted: Vec<&str> = call.split('"').skip(1).step_by(2).collect();
    let arguments: Vec<Value> = quoted.iter().skip(1).map(|argument| Value::from(*argument)).collect();
    let mut event = map! { "args" => arguments, "tag" => pid };
    event.insert("cmd", quoted.first().copied());
    event.insert("user", user.clone());
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn a_command_is_parsed_from_a_trace() {
        let told = event("7", &"root".into(), r#"[pid 9] execve("/bin/ls", ["ls", "-l"], 0x1 /* 5 vars */) = 0"#);
        assert_eq!(
            told,
            Some(map! { "args" => list!["ls", "-l"], "tag" => "7", "cmd" => "/bin/ls", "user" => "root" })
        );
        assert_eq!(event("7", &Value::Null, "strace: attached"), None);
    }
}

//! `journald` — entries of the systemd journal, from `journalctl`.

use std::process::Stdio;

use exec::Context;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use value::{Map, Value};

use crate::config::{flat, list};
use crate::{Found, Kind, Watcher};

pub const KIND: Kind = Kind {
    name: "journald",
    validate: |config, _| validate(config),
    watch: |config| Box::new(Journal { config: flat(config), program: None, waiting: Vec::new() }),
};

/// Fields that Salt converts to numbers.
const NUMBERS: [&str; 14] = [
    "PRIORITY",
    "SYSLOG_FACILITY",
    "SYSLOG_PID",
    "ERRNO",
    "CODE_LINE",
    "_UID",
    "_GID",
    "_PID",
    "_AUDIT_SESSION",
    "_AUDIT_LOGINUID",
    "_SYSTEMD_OWNER_UID",
    "COREDUMP_UID",
    "COREDUMP_PID",
    "EXIT_STATUS",
];

/// The maximum number of entries that are reported at once.
const MOST: usize = 1000;

fn validate(config: &Value) -> Result<(), String> {
    let config = list(config, "journald")?;
    let services = config.get("services").and_then(Value::as_map);
    match services.is_none_or(|services| services.values().all(|fields| fields.as_map().is_some())) {
        true => Ok(()),
        false => Err("Services configuration for journald beacon must be a list of dictionaries.".to_owned()),
    }
}

struct Journal {
    config: Map,
    program: Option<(Child, Lines<BufReader<ChildStdout>>)>,
    /// Entries that were read and are not reported yet.
    waiting: Vec<String>,
}

impl Journal {
    fn start(&mut self) -> Result<(), String> {
        // Only new entries: Salt seeks to the end of the journal, too.
        let arguments = ["--follow", "--output=json", "--lines=0", "--no-pager", "--quiet"];
        let started = Command::new("journalctl")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A minion that stops must not leave the program behind.
            .kill_on_drop(true)
            .spawn();
        let mut child = started.map_err(|error| format!("journalctl: {error}"))?;
        let output = child.stdout.take().ok_or("journalctl has no output")?;
        self.program = Some((child, BufReader::new(output).lines()));
        Ok(())
    }

    /// Reads an entry into the queue. Returns false when the program has ended.
    async fn read(&mut self) -> bool {
        let Some((_, lines)) = &mut self.program else { return false };
        match lines.next_line().await {
            Ok(Some(line)) => {
                self.waiting.push(line);
                true
            }
            _ => {
                self.program = None;
                false
            }
        }
    }
}

impl Watcher for Journal {
    fn look<'a>(&'a mut self, _: &'a Context) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            if self.program.is_none() {
                self.start()?;
            }
            // The rest waits for the next look: a service in an endless loop must not fill the memory.
            while self.waiting.len() < MOST {
                let more = std::future::poll_fn(|context| {
                    // Reads what is available, without waiting.
                    let mut reading = std::pin::pin!(self.read());
                    std::task::Poll::Ready(reading.as_mut().poll(context))
                });
                if !matches!(more.await, std::task::Poll::Ready(true)) {
                    break;
                }
            }
            let lines = std::mem::take(&mut self.waiting);
            Ok(lines.iter().flat_map(|line| judge(&self.config, line)).collect())
        })
    }

    fn ready(&mut self) -> Option<BoxFuture<'_, ()>> {
        self.program.as_ref()?;
        Some(Box::pin(async move {
            self.read().await;
        }))
    }
}

/// Returns the events of an entry: one for each service it matches.
fn judge(config: &Map, line: &str) -> Vec<Map> {
    let Ok(Value::Map(entry)) = serde_json::from_str::<Value>(line) else { return Vec::new() };
    let entry: Map =
        entry.iter().filter_map(|(key, value)| Some((key.as_str()?, typed(key.as_str()?, value)?))).collect();
    let Some(services) = config.get("services").and_then(Value::as_map) else { return Vec::new() };
    let fits = |fields: &Value| {
        let fields = fields.as_map();
        fields.is_some_and(|fields| {
            // Salt compares with Python's equality, where 6 is 6.0.
            fields.iter().all(|(key, value)| entry.get_value(key).is_some_and(|is| value::python::equal(is, value)))
        })
    };
    let tagged = |name: &Value| {
        let mut event = entry.clone();
        event.insert("tag", name.to_string());
        event
    };
    services.iter().filter(|(_, fields)| fits(fields)).map(|(name, _)| tagged(name)).collect()
}

fn typed(key: &str, value: &Value) -> Option<Value> {
    match value {
        Value::Str(text) if NUMBERS.contains(&key) => {
            Some(text.parse::<i64>().map_or_else(|_| value.clone(), Value::from))
        }
        // journalctl prints null for a field that is too long.
        Value::Null => None,
        other => Some(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn entries_are_reported_for_matching_services() {
        let config = map! { "services" => map! { "sshd" => map! { "SYSLOG_IDENTIFIER" => "sshd", "PRIORITY" => 6 }, "all" => map! {} } };
        let told = judge(&config, r#"{"SYSLOG_IDENTIFIER":"sshd","PRIORITY":"6","MESSAGE":"hi","_PID":"12"}"#);
        assert_eq!(told.iter().map(|event| event.get_str("tag").unwrap()).collect::<Vec<_>>(), ["sshd", "all"]);
        assert_eq!(told[0].get("_PID"), Some(&12.into()));
        let told = judge(&config, r#"{"SYSLOG_IDENTIFIER":"cron","PRIORITY":"6"}"#);
        assert_eq!(told.len(), 1);
        assert!(judge(&config, "no entry").is_empty());
    }
}

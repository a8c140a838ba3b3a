//! Job summaries for lists.

use value::{Map, Value, map};

/// The entries of a publication that lists of jobs need. The others may be large: Salt keeps what a runner returned among them.
pub(super) const HEAD: [&str; 8] = ["jid", "fun", "arg", "tgt", "tgt_type", "user", "metadata", "kwargs"];

/// Returns what `jobs.list_jobs` shows of a job: function, arguments, target, user, start time, metadata.
pub fn summary(jid: &str, load: &Map) -> Map {
    let or = |key: &str, default: &str| load.get(key).cloned().unwrap_or_else(|| Value::from(default));
    let arguments = load.get("arg").cloned().unwrap_or_else(|| Value::List(Vec::new()));
    let mut out = map! {
        "Function" => or("fun", "unknown-function"),
        "Arguments" => arguments,
        "Target" => or("tgt", "unknown-target"),
        // These defaults are Salt's, even if `list` and `root` look odd for an unknown job.
        "Target-type" => or("tgt_type", "list"),
        "User" => or("user", "root"),
    };
    if let Some(metadata) = metadata(load) {
        out.insert("Metadata", metadata.clone());
    }
    out.insert("StartTime", wire::jid::display_time(jid));
    out
}

/// Metadata is in the load, in its options, or in the keyword arguments of the function.
fn metadata(load: &Map) -> Option<&Value> {
    let in_options = || load.get("kwargs")?.get("metadata");
    let in_arguments = || {
        let arguments = load.get("arg")?.as_list()?;
        let keywords = arguments.iter().find(|argument| {
            argument.get("__kwarg__") == Some(&Value::Bool(true)) && argument.get("metadata").is_some()
        });
        keywords?.get("metadata")
    };
    load.get("metadata").or_else(in_options).or_else(in_arguments)
}

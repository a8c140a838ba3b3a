//! `--summary`: how many minions answered, and how many did not.

use value::{Map, Value};

/// The counts of a job's minions.
#[derive(Debug, Default, PartialEq)]
pub struct Summary {
    returned: usize,
    silent: usize,
    not_connected: Vec<String>,
    not_responding: Vec<String>,
    failed: Vec<String>,
}

impl Summary {
    /// Counts a minion by its `ret` and `retcode`.
    pub fn count(&mut self, id: &str, entry: &Map) {
        let text = entry.get_str("ret").unwrap_or_default();
        // Salt distinguishes the minions by these texts as well.
        if text.starts_with("Minion did not return") {
            self.silent += 1;
            if text.contains("Not connected") {
                self.not_connected.push(id.to_owned());
            } else if text.contains("No response") {
                self.not_responding.push(id.to_owned());
            }
            return;
        }
        self.returned += 1;
        if retcode(entry) != 0 {
            self.failed.push(id.to_owned());
        }
    }

    /// Returns the text, with the names of minions in trouble if `names` is set.
    pub fn text(&self, names: bool) -> String {
        let rule = "-".repeat(43);
        let mut lines = vec![
            "\n".to_owned(),
            rule.clone(),
            "Summary".into(),
            rule.clone(),
            format!("# of minions targeted: {}", self.returned + self.silent),
            format!("# of minions returned: {}", self.returned),
            format!("# of minions that did not return: {}", self.silent),
            format!("# of minions with errors: {}", self.failed.len()),
        ];
        let groups = [
            ("not connected", &self.not_connected),
            ("not responding", &self.not_responding),
            ("with failures", &self.failed),
        ];
        for (what, ids) in groups {
            if names && !ids.is_empty() {
                lines.push(format!("Minions {what}: {}", ids.join(" ")));
            }
        }
        lines.push(rule);
        lines.join("\n")
    }
}

/// Returns the return code of a minion's answer; of several functions, the highest.
pub fn retcode(entry: &Map) -> i64 {
    match entry.get("retcode") {
        Some(Value::Map(codes)) => codes.values().filter_map(Value::as_i64).max().unwrap_or(0),
        Some(code) => code.as_i64().unwrap_or(0),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn the_summary_counts_and_names() {
        let mut summary = Summary::default();
        summary.count("a", &map! { "ret" => true, "retcode" => 0 });
        summary.count("b", &map! { "ret" => "no", "retcode" => 1 });
        summary.count("c", &map! { "ret" => "Minion did not return. [No response]\nmore", "retcode" => 1 });
        summary.count("d", &map! { "ret" => "Minion did not return. [Not connected]", "retcode" => 1 });
        let rule = "-".repeat(43);
        assert_eq!(
            summary.text(true),
            format!(
                "\n\n{rule}\nSummary\n{rule}\n# of minions targeted: 4\n# of minions returned: 2\n\
                 # of minions that did not return: 2\n# of minions with errors: 1\nMinions not connected: d\n\
                 Minions not responding: c\nMinions with failures: b\n{rule}"
            )
        );
        assert_eq!(summary.text(false).lines().count(), 10);
    }

    #[test]
    fn several_functions_have_several_codes() {
        assert_eq!(retcode(&map! { "retcode" => map! { "test.ping" => 0, "cmd.run" => 7 } }), 7);
        assert_eq!(retcode(&map! {}), 0);
    }
}

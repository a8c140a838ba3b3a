//! Bars on the error output: how many minions have returned, and how far each is with its states.

use std::collections::BTreeMap;

use client::gather::Step;
use indicatif::{MultiProgress, ProgressBar, ProgressFinish, ProgressStyle};
use value::Value;

/// The largest number of minions with a line; a terminal has no room for more.
const LINES: usize = 20;

/// The progress bars. Nothing is drawn if standard error is not a terminal.
#[derive(Default)]
pub struct Progress {
    all: MultiProgress,
    returns: Option<ProgressBar>,
    steps: bool,
    lines: BTreeMap<String, ProgressBar>,
}

impl Progress {
    /// Draws how many of the minions have returned.
    pub fn count(&mut self, minions: usize) {
        let bar = self.all.add(ProgressBar::new(minions as u64));
        bar.set_style(style("{percent:>3}% |{bar:40}| Returns: [{pos}/{len}]"));
        bar.tick();
        self.returns = Some(bar);
    }

    /// Draws a line for each minion that runs states.
    pub fn show_steps(&mut self) {
        self.steps = true;
    }

    /// Counts a state that a minion has finished.
    pub fn step(&mut self, step: &Step) {
        if !self.steps || (self.lines.len() >= LINES && !self.lines.contains_key(&step.id)) {
            return;
        }
        let line = self.lines.entry(step.id.clone()).or_insert_with(|| line(&self.all, &step.id));
        line.set_length(step.length as u64);
        line.inc(1);
        line.set_message(message(step));
    }

    /// Counts a minion that has returned.
    pub fn returned(&mut self, id: &str) {
        if let Some(bar) = &self.returns {
            bar.inc(1);
        }
        if let Some(line) = self.lines.remove(id) {
            line.finish_and_clear();
            self.all.remove(&line);
        }
    }

    /// Prints something without disturbing the bars.
    pub fn around<T>(&self, print: impl FnOnce() -> T) -> T {
        self.all.suspend(print)
    }

    /// Ends the drawing.
    pub fn end(&mut self) {
        for (_, line) in std::mem::take(&mut self.lines) {
            line.finish_and_clear();
        }
        if let Some(bar) = self.returns.take() {
            bar.abandon();
        }
    }
}

fn line(all: &MultiProgress, id: &str) -> ProgressBar {
    let line = all.add(ProgressBar::new(0)).with_finish(ProgressFinish::AndClear);
    line.set_style(style("{prefix}: {pos}/{len} {wide_msg}"));
    line.set_prefix(id.to_owned());
    line
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is a constant").progress_chars("# ")
}

/// Returns the text about the last state: its name and its result.
fn message(step: &Step) -> String {
    let text = |name: &str| step.done.get_str(name).unwrap_or_default();
    let id = if text("__id__").is_empty() { text("name") } else { text("__id__") };
    let ended = match step.done.get("result") {
        Some(Value::Bool(true)) => "done",
        Some(Value::Bool(false)) => "FAILED",
        _ => "would change",
    };
    // Names come from minions; nothing but text may reach the terminal, and a line is a line.
    format!("{} ({ended})", value::escape::for_terminal(id)).replace(['\n', '\t'], "?")
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn a_step_is_told_without_control_characters() {
        let step = |done| Step { id: "a".into(), done, length: 3 };
        let done = map! { "__id__" => "nginx\u{1b}[2J", "name" => "x", "result" => false };
        assert_eq!(message(&step(done)), "nginx?[2J (FAILED)");
        assert_eq!(message(&step(map! { "name" => "a\u{9b}2J\u{202e}b\nc", "result" => true })), "a?2J?b?c (done)");
        assert_eq!(message(&step(map! { "name" => "/etc/x", "result" => Value::Null })), "/etc/x (would change)");
    }

    #[test]
    fn lines_are_bounded_and_go_with_the_return() {
        let mut progress = Progress::default();
        progress.show_steps();
        for number in 0..LINES + 5 {
            progress.step(&Step { id: format!("m{number}"), done: map! { "name" => "x" }, length: 2 });
        }
        assert_eq!(progress.lines.len(), LINES);
        progress.returned("m0");
        assert_eq!(progress.lines.len(), LINES - 1);
    }
}

//! Prints what minions return.

use std::io::IsTerminal;
use std::time::SystemTime;

use anyhow::Result;
use client::Outcome;
use client::gather::Return;
use outputters::Settings;
use value::{Map, Value, map};

use super::progress::Progress;
use super::silence::not_connected;
use super::summary::{Summary, retcode};
use crate::hint::Hints;

/// Texts about minions that did not answer.
pub trait Silence {
    /// Returns the text about a minion; `None` for a relay master's own id.
    fn text(&self, id: &str) -> Option<String>;
}

/// Prints returns as they arrive.
pub struct Printer<'a> {
    settings: &'a Settings,
    silence: &'a dyn Silence,
    /// Prints minions that did not answer, too (`show_timeout`).
    show_silent: bool,
    progress: Progress,
    /// The highest return code so far.
    worst: i64,
    printed: usize,
    summary: Summary,
    hints: Hints,
    trouble: Option<std::io::Error>,
}

impl<'a> Printer<'a> {
    /// Creates a printer.
    pub fn new(settings: &'a Settings, silence: &'a dyn Silence, show_silent: bool) -> Self {
        Printer {
            settings,
            silence,
            show_silent,
            progress: Progress::default(),
            worst: 0,
            printed: 0,
            summary: Summary::default(),
            hints: Hints::default(),
            trouble: None,
        }
    }

    /// Draws a progress bar for this number of minions.
    pub fn with_progress(mut self, minions: usize) -> Self {
        self.progress.count(minions);
        self
    }

    /// Draws a line for each minion that reports its states.
    pub fn with_steps(mut self) -> Self {
        self.progress.show_steps();
        self
    }

    /// Prints an outcome.
    pub fn show(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Answer(answer) => self.answer(answer),
            Outcome::Silent(ids) => {
                for id in ids {
                    self.silent(&id);
                }
            }
            Outcome::Away(away) => {
                for it in away {
                    let text = not_connected(&it, self.to_a_person(), SystemTime::now());
                    self.no_return(&it.id, text);
                }
            }
            Outcome::Step(step) => self.progress.step(&step),
            Outcome::Waiting(ids) => rt::complain!("{}", super::hold::waiting(&ids)),
        }
    }

    fn answer(&mut self, answer: Return) {
        let Return { id, data } = answer;
        let result = data.get("return").cloned().unwrap_or_default();
        let entry = map! { "ret" => result.clone(), "retcode" => data.get("retcode").cloned().unwrap_or_default() };
        let out = data.get_str("out").map(str::to_owned);
        if retcode(&entry) != 0 {
            // Only failures: a result may contain any text.
            self.hints.look(&result);
        }
        self.entry(&id, result, out.as_deref(), &entry);
        self.progress.returned(&id);
    }

    fn silent(&mut self, id: &str) {
        if let Some(text) = self.silence.text(id) {
            self.no_return(id, text);
        }
    }

    /// Returns whether a user reads the output, and not a program.
    fn to_a_person(&self) -> bool {
        self.settings.output.is_none() && self.settings.output_file.is_none() && std::io::stdout().is_terminal()
    }

    fn no_return(&mut self, id: &str, text: String) {
        let entry = map! { "ret" => text.as_str(), "retcode" => 1 };
        if self.show_silent {
            self.entry(id, text.into(), Some("no_return"), &entry);
        } else {
            self.summary.count(id, &entry);
            self.worst = self.worst.max(1);
            self.printed += 1;
        }
    }

    fn entry(&mut self, id: &str, result: Value, out: Option<&str>, entry: &Map) {
        let code = retcode(entry);
        // A negative code is a failure, too.
        self.worst = self.worst.max(code.abs());
        self.summary.count(id, entry);
        self.printed += 1;
        let shown = Value::from(Map::from_iter([(id, result)]));
        let display = || outputters::display(&shown, out, self.settings, code);
        if let Err(error) = self.progress.around(display) {
            // Reported at the end: the returns that follow are still counted.
            self.trouble.get_or_insert(error);
        }
    }

    /// Ends the output. Returns the highest return code, if any minion was reported, and the summary.
    pub fn finish(mut self) -> Result<(Option<i64>, Summary)> {
        // First, or the hints would be drawn into the bars.
        self.progress.end();
        self.hints.say();
        match self.trouble {
            Some(error) => Err(anyhow::Error::new(error).context("failed to write the output")),
            None => Ok(((self.printed > 0).then_some(self.worst), self.summary)),
        }
    }
}

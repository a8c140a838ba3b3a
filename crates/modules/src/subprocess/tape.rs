//! Answers recorded from programs, in place of the programs: for tests.

use std::sync::Mutex;

use exec::{Context, Error, Result};
use value::{Map, Value};

use super::Outcome;
use super::process::Launch;

/// The recorded answers of programs, and what our code did.
#[derive(Default)]
pub struct Tape {
    /// The answers. Each belongs to the time after some number of changes.
    pub answers: Vec<Map>,
    /// The number of changes so far.
    pub changes: usize,
    /// The commands that changed something, in order.
    pub made: Vec<Value>,
    /// What was asked and is not in the recording.
    pub strange: Vec<String>,
}

/// The tape of a test, in the memo of its context; none plays outside of a replay.
pub type Recorded = Mutex<Option<Tape>>;

/// Answers in place of a program, if a tape plays.
pub fn answer(ctx: &Context, launch: &Launch) -> Option<Result<Outcome>> {
    let tape = ctx.memo.get::<Recorded>();
    let mut tape = tape.lock().unwrap();
    let tape = tape.as_mut()?;
    let words: Value = launch.words.iter().map(String::as_str).collect();
    // The same question has another answer once something was changed.
    let stage = Value::from(tape.changes as i64);
    let fits = |entry: &&Map| entry.get("words") == Some(&words) && entry.get("stage") == Some(&stage);
    let Some(entry) = tape.answers.iter().find(fits) else {
        let text = format!("asked {words} (after {stage} changes)");
        // The module may well catch the error, so the problem is kept for the end.
        tape.strange.push(text.clone());
        return Some(Err(Error::Other(text)));
    };
    let text = |name: &str| entry.get(name).map(Value::to_string).unwrap_or_default();
    let (mut stdout, mut stderr) = (text("stdout"), text("stderr"));
    if launch.merge {
        // The recording has both apart. Mixed output comes in this order there.
        stdout = stderr + &stdout;
        stderr = String::new();
    }
    let retcode = entry.get("retcode").and_then(Value::as_i64);
    if entry.get("changes").is_some_and(Value::truthy) {
        let env = entry.get("env").cloned().unwrap_or_default();
        let given = |name: &Value| launch.env.iter().rev().find(|(known, _)| *known == name.to_string());
        // The later value of a variable wins, as in the environment of a process.
        let differs = |(name, value): &(&Value, &Value)| given(name).is_none_or(|(_, ours)| *ours != value.to_string());
        if let Some((name, _)) = env.as_map().and_then(|env| env.iter().find(differs)) {
            tape.strange.push(format!("{words} without the variable {name}"));
        }
        tape.changes += 1;
        tape.made.push(words);
    }
    Some(Ok(Outcome { pid: 7, retcode, stdout, stderr, timed_out: false }))
}

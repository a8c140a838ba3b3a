//! Commands to a minion of the other master, beside one of the same master.

use std::time::Duration;

use anyhow::Result;
use interop::{Master, Minion, Salt, Sandbox};

use super::pair::Pair;
use super::{Line, milliseconds, quantile};
use crate::local;

/// How many commands are timed.
const COMMANDS: usize = 1_000;

/// What a minion of another master may take longer: 99 of 100, and always.
const EXTRA: Duration = Duration::from_millis(5);
const MOST: Duration = Duration::from_millis(20);

/// Times commands that the first master publishes.
pub fn measure(sandbox: &Sandbox, ours: &Salt) -> Result<Vec<Line>> {
    let alone = {
        let pair = Pair::start(sandbox, ours, false, true)?;
        let _near = Minion::build(ours, "near").master(&pair.one).start(sandbox)?;
        pair.one.wait_answering(&["near"])?;
        let times = commands(&pair.one, "near")?;
        pair.stop()?;
        times
    };
    let pair = Pair::start(sandbox, ours, true, true)?;
    let _near = Minion::build(ours, "by-one").master(&pair.one).start(sandbox)?;
    let _far = Minion::build(ours, "by-two").master(&pair.two).start(sandbox)?;
    pair.one.wait_answering(&["by-one", "by-two"])?;
    let (near, far) = (commands(&pair.one, "by-one")?, commands(&pair.one, "by-two")?);
    pair.stop()?;
    let at = |times: &[Duration]| {
        format!("{} / {}", milliseconds(quantile(times, 0.5)), milliseconds(quantile(times, 0.99)))
    };
    let extra = |part| quantile(&far, part).saturating_sub(quantile(&near, part));
    let both = format!("{} / {}", milliseconds(extra(0.5)), milliseconds(extra(0.99)));
    let longest = extra(1.0);
    Ok(vec![
        line("command to a minion of the same master, median / p99", Some(at(&alone)), at(&near), "", true),
        line("to a minion of the other master, median / p99", None, at(&far), "", true),
        line("what that takes longer, median / p99", None, both, "p99 5 ms", extra(0.99) <= EXTRA),
        line("what the longest takes longer", None, milliseconds(longest), "20 ms", longest <= MOST),
    ])
}

fn line(what: &'static str, alone: Option<String>, sharing: String, goal: &'static str, reached: bool) -> Line {
    Line { what, alone, sharing, goal, reached }
}

fn commands(master: &Master, minion: &str) -> Result<Vec<Duration>> {
    let conf = master.conf().join("master");
    // The first ones warm the caches of everything.
    local::jobs(&conf, minion, COMMANDS / 10)?;
    let mut times = local::jobs(&conf, minion, COMMANDS)?;
    times.sort();
    Ok(times)
}

//! `--hold`: texts about a job that waits for minions that are away.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use value::{Map, Value};

/// Returns how long to hold a job: the flag, else the option; zero for not at all.
///
/// The minions of a batch are pinged first, and those that are away get no job. So the option has no effect there,
/// and the flag is refused.
pub fn wished(options: &Map, asked: bool) -> Result<Duration> {
    let value = options.get("job_hold").cloned().unwrap_or(Value::Null);
    let hold = config::period(&value).map_err(|must| anyhow!("--hold (option job_hold): {must}"))?;
    let in_parts = ["batch", "static"].into_iter().find(|name| options.get(name).is_some_and(Value::truthy));
    match in_parts {
        Some(name) if asked && !hold.is_zero() => bail!("not supported: --hold together with --{name}"),
        Some(_) => Ok(Duration::ZERO),
        None => Ok(hold),
    }
}

/// Returns the line about the minions that are awaited.
pub fn waiting(ids: &[String]) -> String {
    let noun = if ids.len() == 1 { "minion" } else { "minions" };
    format!("Waiting for {} {noun}: {}", ids.len(), ids.join(", "))
}

/// Returns the text about a held job whose command no longer waits.
pub fn left_behind(jid: &str, hold: Duration) -> String {
    format!(
        "The master holds the job for {} after its publishing. To see how far it is, and to end it:\n\n\
         salt-run saltern.job {jid}\nsalt-run saltern.drop {jid}",
        span(hold)
    )
}

/// Returns a time in the largest unit that makes it a whole number.
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    for (unit, length) in [("d", 86_400.0), ("h", 3600.0), ("m", 60.0)] {
        if seconds >= length && (seconds / length).fract() == 0.0 {
            return format!("{}{unit}", seconds / length);
        }
    }
    format!("{seconds}s")
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn the_wish_is_a_span_of_time() {
        let ten = map! { "job_hold" => "10m" };
        assert_eq!(wished(&ten, true).unwrap(), Duration::from_secs(600));
        assert_eq!(wished(&map! {}, false).unwrap(), Duration::ZERO);
        let error = wished(&map! { "job_hold" => "soon" }, true).unwrap_err().to_string();
        assert!(error.starts_with("--hold (option job_hold): 'soon' is not a span of time"), "{error}");
        let mut batch = ten;
        batch.insert("batch", "10%");
        assert_eq!(wished(&batch, false).unwrap(), Duration::ZERO);
        assert_eq!(wished(&batch, true).unwrap_err().to_string(), "not supported: --hold together with --batch");
    }

    #[test]
    fn people_are_told_whom_and_how_long() {
        assert_eq!(waiting(&["a".into()]), "Waiting for 1 minion: a");
        assert_eq!(waiting(&["a".into(), "b".into()]), "Waiting for 2 minions: a, b");
        assert_eq!(
            ["90", "120", "1.5", "86400"].map(|text| span(config::period(&text.into()).unwrap())),
            ["90s", "2m", "1.5s", "1d"]
        );
    }
}

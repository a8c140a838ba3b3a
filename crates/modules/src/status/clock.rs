//! The uptime and the time of the machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use exec::{Context, Error, Result, function};
use value::{Map, map};

use crate::subprocess;

/// Returns the uptime of the machine and the number of logged in users.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.uptime
#[function]
pub(super) fn uptime(ctx: &Context) -> Result<Map> {
    let text = std::fs::read_to_string("/proc/uptime")
        .map_err(|error| Error::execution(format!("File /proc/uptime was not found. ({error})")))?;
    let seconds = text.split('.').next().and_then(|whole| whole.trim().parse().ok());
    let seconds: u64 = seconds.ok_or_else(|| Error::execution(format!("failed to read /proc/uptime: {text:?}")))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut result = since(now.saturating_sub(Duration::from_secs(seconds)), seconds);
    // Containers often have no `who`. Then there is no number.
    match subprocess::quiet(ctx, &["who", "-s"]) {
        Ok(outcome) => drop(result.insert("users", outcome.stdout.lines().count())),
        Err(Error::CommandNotFound(_)) => {}
        Err(error) => return Err(error),
    }
    Ok(result)
}

pub(super) fn since(boot: Duration, seconds: u64) -> Map {
    let of_day = seconds % 86_400;
    map! {
        "seconds" => seconds,
        "since_iso" => iso(boot),
        "since_t" => boot.as_secs(),
        "days" => seconds / 86_400,
        "time" => format!("{}:{}", of_day / 3600, of_day % 3600 / 60),
    }
}

/// Returns the time of the machine, in the given format (see ``man strftime``).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.time
///     salt '*' status.time '%s'
#[function]
pub(super) fn time(ctx: &Context, #[default("%A, %d. %B %Y %I:%M%p")] format: String) -> Result<String> {
    // `strftime` has many formats. `date` supports them all, and the language, too.
    let outcome = subprocess::quiet(ctx, &["date", &format!("+{format}")])?;
    match outcome.retcode {
        Some(0) => Ok(outcome.stdout.trim_end_matches('\n').to_owned()),
        _ => Err(Error::execution(format!("failed to write the time as '{format}': {}", outcome.stderr.trim()))),
    }
}

/// A point in time as Python's `isoformat()` writes it, in UTC.
pub(crate) fn iso(time: Duration) -> String {
    let micros = time.subsec_micros();
    let fraction = if micros == 0 { String::new() } else { format!(".{micros:06}") };
    format!("{}{fraction}", python::calendar::iso(time.as_secs() as i64))
}

//! `system` — the clock, the name and the end of the machine.

use exec::{Context, Error, Module, Result, function};
use grains::system::{LocalTime, local_time};
use value::Value;

use crate::subprocess;

/// The module.
pub static MODULE: Module = Module::new(
    "system",
    "Functions that look at the clock and the name of the machine, and shut it down.",
    &[
        &GET_COMPUTER_DESC,
        &GET_COMPUTER_NAME,
        &GET_SYSTEM_DATE,
        &GET_SYSTEM_DATE_TIME,
        &GET_SYSTEM_TIME,
        &HALT,
        &HAS_SETTABLE_HWCLOCK,
        &INIT,
        &POWEROFF,
        &REBOOT,
        &SHUTDOWN,
    ],
);

const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/// The time now, in local time or so far from UTC.
fn now(utc_offset: Option<&str>) -> Result<LocalTime> {
    let unknown = || Error::execution("failed to tell the time");
    let local = local_time(None).ok_or_else(unknown)?;
    let Some(offset) = utc_offset else { return Ok(local) };
    let seconds = offset_seconds(offset).ok_or_else(|| Error::invocation("Invalid UTC offset"))?;
    let utc = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let utc = i64::try_from(utc).unwrap_or(i64::MAX);
    // Moved so that local time shows what clocks there show.
    local_time(Some(utc + seconds - local.offset)).ok_or_else(unknown)
}

/// Reads `+0130`.
fn offset_seconds(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.len() != 4 || !digits.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (digits[..2].parse().ok()?, digits[2..].parse().ok()?);
    let sign = if text.starts_with('-') { -1 } else { 1 };
    Some(sign * (hours * 3600 + minutes * 60))
}

fn run(ctx: &Context, words: &[&str]) -> Result<String> {
    let said = subprocess::quiet(ctx, words)?;
    Ok(format!("{}{}", said.stdout, said.stderr).trim_end().to_owned())
}

/// Returns the description of the machine (its pretty host name), False if there is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' system.get_computer_desc
#[function]
fn get_computer_desc(ctx: &Context) -> Result<Value> {
    let text = ctx.blocking(|| std::fs::read_to_string("/etc/machine-info").unwrap_or_default());
    Ok(description(&text).map_or(Value::Bool(false), Value::from))
}

fn description(text: &str) -> Option<String> {
    // The last line counts, as for a shell that reads the file.
    let value = text.lines().filter_map(|line| line.trim().strip_prefix("PRETTY_HOSTNAME=")).next_back()?.trim();
    // The file has the quoting of a shell.
    let bare = value.strip_prefix(['"', '\'']).map_or(value, |rest| rest.strip_suffix(['"', '\'']).unwrap_or(rest));
    Some(bare.replace("\\\\", "\\").replace("\\\"", "\"").replace("\\n", "\n").replace("\\t", "\t"))
}

/// Returns the host name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' system.get_computer_name
#[function]
fn get_computer_name() -> Result<String> {
    Ok(nix::unistd::gethostname().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned()))
}

/// Returns the date, as `Fri 11/20/2026`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' system.get_system_date "'-0500'"
#[function]
fn get_system_date(utc_offset: Option<String>) -> Result<String> {
    let time = now(utc_offset.as_deref())?;
    let weekday = WEEKDAYS[usize::try_from(time.weekday).unwrap_or(0) % 7];
    Ok(format!("{weekday} {:02}/{:02}/{}", time.month, time.day, time.year))
}

/// Returns date and time, as `2026-11-20 14:30:00`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' system.get_system_date_time "'-0500'"
#[function]
fn get_system_date_time(utc_offset: Option<String>) -> Result<String> {
    let t = now(utc_offset.as_deref())?;
    Ok(format!("{}-{:02}-{:02} {:02}:{:02}:{:02}", t.year, t.month, t.day, t.hour, t.minute, t.second))
}

/// Returns the time, as `02:30:00 PM`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' system.get_system_time "'-0500'"
#[function]
fn get_system_time(utc_offset: Option<String>) -> Result<String> {
    let time = now(utc_offset.as_deref())?;
    let half = if time.hour < 12 { "AM" } else { "PM" };
    Ok(format!("{:02}:{:02}:{:02} {half}", (time.hour + 11) % 12 + 1, time.minute, time.second))
}

/// Stops the machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' system.halt
#[function]
fn halt(ctx: &Context) -> Result<String> {
    run(ctx, &["halt"])
}

/// Returns whether the hardware clock can be set.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' system.has_settable_hwclock
#[function]
fn has_settable_hwclock(ctx: &Context) -> Result<bool> {
    if crate::util::which("hwclock").is_none() {
        return Ok(false);
    }
    Ok(subprocess::quiet(ctx, &["hwclock", "--test", "--systohc"])?.retcode == Some(0))
}

/// Changes the runlevel.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' system.init 3
#[function]
fn init(ctx: &Context, runlevel: String) -> Result<String> {
    run(ctx, &["init", &runlevel])
}

/// Switches the machine off.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' system.poweroff
#[function]
fn poweroff(ctx: &Context) -> Result<String> {
    run(ctx, &["poweroff"])
}

/// Restarts the machine, now or at a time ``shutdown`` understands (`+5`, `20:00`).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' system.reboot
#[function]
fn reboot(ctx: &Context, at_time: Option<String>) -> Result<String> {
    run(ctx, &["shutdown", "-r", at_time.as_deref().unwrap_or("now")])
}

/// Shuts the machine down, now or at a time ``shutdown`` understands.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' system.shutdown 5
#[function]
fn shutdown(ctx: &Context, at_time: Option<String>) -> Result<String> {
    run(ctx, &["shutdown", "-h", at_time.as_deref().unwrap_or("now")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read() {
        assert_eq!(offset_seconds("-0130"), Some(-5400));
        assert_eq!(offset_seconds("0500"), Some(18_000));
        for wrong in ["", "5", "+5:00", "+05000", "ab12"] {
            assert_eq!(offset_seconds(wrong), None, "{wrong}");
        }
        assert!(now(Some("x")).is_err());
    }

    #[test]
    fn the_description_is_read() {
        assert_eq!(description("X=1\nPRETTY_HOSTNAME=\"My \\\"box\\\"\"\n").as_deref(), Some("My \"box\""));
        assert_eq!(description("X=1\n"), None);
    }
}

//! Durations with units: `90`, `10m`, `1h30m`.

use std::time::Duration;

use value::Value;

/// The maximum duration in seconds: ten years.
const LONGEST: f64 = 10.0 * 365.0 * 86_400.0;

/// Parses a number of seconds, or a string of numbers with the units `s`, `m`, `h` and `d`.
///
/// # Errors
/// A description of the valid values.
pub fn period(value: &Value) -> Result<Duration, String> {
    let seconds = match value {
        Value::Str(text) => seconds(text),
        Value::Null => Some(0.0),
        // Python would count `true` as one second.
        Value::Bool(_) => None,
        number => number.as_f64(),
    };
    match seconds {
        Some(seconds) if (0.0..=LONGEST).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!(
            "{value:?} is not a span of time: seconds, or numbers with s, m, h or d, as in 90, 10m or 1h30m"
        )),
    }
}

fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    // `parse` also takes `nan` and `inf`; the range check of the caller refuses both.
    if let Ok(seconds) = text.parse::<f64>() {
        return Some(seconds);
    }
    let (mut rest, mut sum) = (text, 0.0);
    while !rest.is_empty() {
        // No unit at the end is an error: in `1h30` the meaning of the 30 is unclear.
        let end = rest.find(|symbol: char| !symbol.is_ascii_digit() && symbol != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let unit = rest[end..].chars().next()?;
        let factor = match unit {
            's' => 1.0,
            'm' => 60.0,
            'h' => 3600.0,
            'd' => 86_400.0,
            _ => return None,
        };
        sum += number * factor;
        rest = rest[end + unit.len_utf8()..].trim_start();
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_units_are_read() {
        for (text, seconds) in [("90", 90), ("10m", 600), ("1h30m", 5400), (" 2d ", 172_800), ("1h 5s", 3605), ("0", 0)]
        {
            assert_eq!(period(&text.into()), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(period(&Value::Float(0.5)), Ok(Duration::from_millis(500)));
        assert_eq!(period(&Value::Null), Ok(Duration::ZERO));
        for text in ["", "m", "10x", "1h30", "-1", "-1m", "nan", "inf", "1e300", "10ü", "1.2.3m"] {
            assert!(period(&text.into()).is_err(), "{text}");
        }
    }
}

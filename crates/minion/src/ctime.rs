//! A time as C's `ctime` prints it, in local time.

use std::time::SystemTime;

/// Writes a time: `Thu Feb 29 13:14:15 2024`.
pub fn ctime(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    logging::local_time("%a %b %e %H:%M:%S %Y", seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_year_ends_the_line() {
        // Half a year in, so that no time zone is in another year.
        let text = ctime(SystemTime::UNIX_EPOCH + Duration::from_secs(1_720_000_000));
        assert!(text.ends_with(" 2024") && text.len() == 24, "{text}");
    }
}

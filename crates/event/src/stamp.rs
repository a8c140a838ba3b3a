//! The timestamp of an event.

use std::time::SystemTime;

use wire::Jid;

/// The key of the timestamp in an event's data.
pub const STAMP: &str = "_stamp";

/// The name of Salt's clusters for the master on which an event was born, in the data of an event of another master.
pub const PEER: &str = "__peer_id";

/// Formats a time as in events: ISO 8601 in UTC with microseconds, which are omitted if they are zero.
///
/// This is the form of 3008, with the offset `+00:00`; 3006 and 3007 write no offset and read both.
pub fn stamp(time: SystemTime) -> String {
    // A job id has the same moment as digits.
    let jid = Jid::at(time);
    let (date, time) = jid.as_str().split_at(8);
    let (time, micros) = time.split_at(6);
    let fraction = if micros == "000000" { String::new() } else { format!(".{micros}") };
    let day = format!("{}-{}-{}", &date[..4], &date[4..6], &date[6..]);
    format!("{day}T{}:{}:{}{fraction}+00:00", &time[..2], &time[2..4], &time[4..])
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::stamp;

    #[test]
    fn microseconds_are_left_out_when_zero() {
        let second = UNIX_EPOCH + Duration::from_secs(1_709_212_455);
        assert_eq!(stamp(second), "2024-02-29T13:14:15+00:00");
        assert_eq!(stamp(second + Duration::from_micros(678_901)), "2024-02-29T13:14:15.678901+00:00");
        assert_eq!(stamp(second + Duration::from_micros(1)), "2024-02-29T13:14:15.000001+00:00");
    }
}

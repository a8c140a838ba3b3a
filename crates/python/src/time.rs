//! Points in time as Python's `datetime.strftime()` writes them.

use nix::libc;

use crate::calendar::{days_in, days_of};

/// A local time without its zone: Python's naive `datetime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// The year, all digits of it.
    pub year: i64,
    /// The month, from 1.
    pub month: u32,
    /// The day, from 1.
    pub day: u32,
    /// The hour.
    pub hour: u32,
    /// The minute.
    pub minute: u32,
    /// The second.
    pub second: u32,
    /// Millionths of a second.
    pub micros: u32,
}

impl Local {
    /// Returns the local time at a number of seconds since 1970; `None` outside the years that calendars cover.
    pub fn at(seconds: f64) -> Option<Local> {
        let whole = seconds.floor();
        // About the years 70 to 10,200; Python ends at 9999. NaN is outside, too.
        if !(-6e10..2.6e11).contains(&whole) {
            return None;
        }
        let mut micros = ((seconds - whole) * 1e6).round_ties_even() as u32;
        let mut unix = whole as i64;
        // Rounding up to a full second.
        if micros == 1_000_000 {
            (micros, unix) = (0, unix + 1);
        }
        #[expect(unsafe_code, reason = "the local zone is known to the C library alone")]
        // SAFETY: both structures are owned here.
        let local = unsafe {
            let time: libc::time_t = unix;
            let mut local: libc::tm = std::mem::zeroed();
            if libc::localtime_r(&time, &mut local).is_null() {
                return None;
            }
            local
        };
        Some(Local {
            year: i64::from(local.tm_year) + 1900,
            month: local.tm_mon as u32 + 1,
            day: local.tm_mday as u32,
            hour: local.tm_hour as u32,
            minute: local.tm_min as u32,
            second: local.tm_sec as u32,
            micros,
        })
    }

    /// Parses a date with an optional time (`2002-12-25`, `2002/12/25 10:30`, `2002-12-25T10:30:00`), and the words
    /// `now`, `today`, `tomorrow` and `yesterday`.
    pub fn read(text: &str) -> Option<Local> {
        let text = text.trim();
        let midnight = |time: Local| Local { hour: 0, minute: 0, second: 0, micros: 0, ..time };
        let since = || Some(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?.as_secs_f64());
        match text.to_ascii_lowercase().as_str() {
            "now" => return Local::now(),
            "today" => return Local::now().map(midnight),
            "tomorrow" => return Local::at(since()? + 86_400.0).map(midnight),
            "yesterday" => return Local::at(since()? - 86_400.0).map(midnight),
            _ => {}
        }
        let (date, time) = text.split_once([' ', 'T']).unwrap_or((text, "0:0:0"));
        let sign = if date.contains('/') { '/' } else { '-' };
        let [year, month, day] = numbers(date, sign)?[..] else { return None };
        let (hour, minute, second) = match numbers(time.trim_end_matches('Z'), ':')?[..] {
            [hour, minute] => (hour, minute, 0),
            [hour, minute, second] => (hour, minute, second),
            _ => return None,
        };
        let fits = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 60;
        let read = Local { year: year.into(), month, day, hour, minute, second, micros: 0 };
        // A day that the month does not have would be one of the next month.
        (fits && year > 999 && i64::from(day) <= days_in(read.year, month.into())).then_some(read)
    }

    /// Returns the current local time.
    pub fn now() -> Option<Local> {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
        Local::at(since.as_secs_f64())
    }

    /// Days since the beginning of 1970.
    fn days(&self) -> i64 {
        days_of(self.year, self.month.into(), self.day.into())
    }

    /// Returns the weekday; 0 is Sunday.
    fn weekday(&self) -> i64 {
        (self.days() + 4).rem_euclid(7)
    }

    fn day_of_year(&self) -> i64 {
        self.days() - Local { month: 1, day: 1, ..*self }.days() + 1
    }

    /// The year and week of ISO 8601.
    fn iso_week(&self) -> (i64, i64) {
        let weekday = (self.weekday() + 6) % 7;
        // An ISO week belongs to the year of its Thursday.
        let thursday = self.days() - weekday + 3;
        let year = [self.year - 1, self.year, self.year + 1]
            .into_iter()
            .rfind(|year| Local { year: *year, month: 1, day: 1, ..*self }.days() <= thursday);
        let year = year.unwrap_or(self.year);
        let first = Local { year, month: 1, day: 1, ..*self }.days();
        (year, (thursday - first) / 7 + 1)
    }

    /// Formats it as the C library's `strftime()` does.
    pub fn format(&self, format: &str) -> String {
        let mut out = String::new();
        let mut letters = format.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                out.push(letter);
                continue;
            }
            let Some(mut sign) = letters.next() else {
                out.push('%');
                break;
            };
            let mut pad = None;
            if matches!(sign, '-' | '_' | '0') {
                pad = Some(sign);
                sign = letters.next().unwrap_or('%');
            }
            match self.field(sign) {
                Some(text) => out.push_str(&padded(text, pad)),
                // An unknown field stays as written, as in the C library.
                None => out.extend(['%', sign]),
            }
        }
        out
    }

    fn field(&self, sign: char) -> Option<String> {
        const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
        const MONTHS: [&str; 12] = [
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ];
        let day = DAYS[self.weekday() as usize];
        let month = MONTHS[(self.month as usize).clamp(1, 12) - 1];
        let hour12 = (self.hour + 11) % 12 + 1;
        let noon = if self.hour < 12 { "AM" } else { "PM" };
        let yday = self.day_of_year();
        Some(match sign {
            'Y' => format!("{}", self.year),
            'C' => format!("{:02}", self.year / 100),
            'y' => format!("{:02}", self.year.rem_euclid(100)),
            'm' => format!("{:02}", self.month),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'H' => format!("{:02}", self.hour),
            'k' => format!("{:2}", self.hour),
            'I' => format!("{hour12:02}"),
            'l' => format!("{hour12:2}"),
            'M' => format!("{:02}", self.minute),
            'S' => format!("{:02}", self.second),
            'f' => format!("{:06}", self.micros),
            'j' => format!("{yday:03}"),
            'a' => day[..3].to_owned(),
            'A' => day.to_owned(),
            'b' | 'h' => month[..3].to_owned(),
            'B' => month.to_owned(),
            'p' => noon.to_owned(),
            'P' => noon.to_lowercase(),
            'w' => self.weekday().to_string(),
            'u' => ((self.weekday() + 6) % 7 + 1).to_string(),
            'U' => format!("{:02}", (yday + 6 - self.weekday()) / 7),
            'W' => format!("{:02}", (yday + 6 - (self.weekday() + 6) % 7) / 7),
            'G' => self.iso_week().0.to_string(),
            'g' => format!("{:02}", self.iso_week().0.rem_euclid(100)),
            'V' => format!("{:02}", self.iso_week().1),
            'D' | 'x' => self.format("%m/%d/%y"),
            'F' => self.format("%Y-%m-%d"),
            'T' | 'X' => self.format("%H:%M:%S"),
            'R' => self.format("%H:%M"),
            'r' => self.format("%I:%M:%S %p"),
            'c' => self.format("%a %b %e %H:%M:%S %Y"),
            's' => self.unix().to_string(),
            // A time without a zone has none to show.
            'z' | 'Z' => String::new(),
            'n' => "\n".to_owned(),
            't' => "\t".to_owned(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }

    fn unix(&self) -> i64 {
        let wall = self.days() * 86_400 + i64::from(self.hour * 3600 + self.minute * 60 + self.second);
        // The zone's distance at that moment, found by asking what clocks showed then.
        let shown = Local::at(wall as f64).map_or(wall, |local| {
            local.days() * 86_400 + i64::from(local.hour * 3600 + local.minute * 60 + local.second)
        });
        wall - (shown - wall)
    }
}

fn numbers(text: &str, sign: char) -> Option<Vec<u32>> {
    text.split(sign).map(|part| part.parse().ok()).collect()
}

fn padded(text: String, pad: Option<char>) -> String {
    let bare = text.trim_start_matches(['0', ' ']);
    let bare = if bare.is_empty() && !text.is_empty() { "0" } else { bare };
    match pad {
        Some('-') => bare.to_owned(),
        Some('_') => format!("{bare:>width$}", width = text.len()),
        Some('0') => format!("{bare:0>width$}", width = text.len()),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Local = Local { year: 2024, month: 2, day: 29, hour: 13, minute: 5, second: 9, micros: 42 };

    #[test]
    fn fields_are_written_as_the_c_library_writes_them() {
        let format = "%Y-%m-%d %H:%M:%S.%f %a %B %j %I %p %U %W %G-%V %u %y %e %-H %D %%";
        let expected = "2024-02-29 13:05:09.000042 Thu February 060 01 PM 08 09 2024-09 4 24 29 13 02/29/24 %";
        assert_eq!(TIME.format(format), expected);
        assert_eq!(Local { hour: 5, ..TIME }.format("%-H|%-I|%k|%q|%Z"), "5|5| 5|%q|");
        let first = Local { year: 2021, month: 1, day: 1, ..TIME };
        assert_eq!(first.format("%G-W%V %A"), "2020-W53 Friday");
    }

    #[test]
    fn dates_are_read() {
        let read = |text: &str| Local::read(text).map(|time| time.format("%Y-%m-%d %H:%M:%S"));
        assert_eq!(read("2002/12/25").as_deref(), Some("2002-12-25 00:00:00"));
        assert_eq!(read("2024-02-29T10:30:05Z").as_deref(), Some("2024-02-29 10:30:05"));
        assert_eq!(read("2024-02-29 10:30").as_deref(), Some("2024-02-29 10:30:00"));
        for text in ["2023-02-29", "2024-13-01", "nonsense", "", "12", "2024-01-01 25:00"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(read("tomorrow").unwrap() > read("yesterday").unwrap());
    }

    #[test]
    fn seconds_become_local_time_and_back() {
        let local = Local::at(1_700_000_000.25).unwrap();
        assert_eq!(local.micros, 250_000);
        assert_eq!(local.format("%s"), "1700000000");
        assert!(Local::at(f64::NAN).is_none());
    }
}

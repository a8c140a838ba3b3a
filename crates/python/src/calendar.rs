//! Dates of the Gregorian calendar, counted in days.

/// The distance of 1 March of the year 0 from 1 January 1970. Years that begin in March have the leap day at their end.
const FIRST_OF_MARCH: i64 = 719_468;

/// The days of 400 years, after which the calendar repeats.
const ERA: i64 = 146_097;

/// The names of the months as texts are searched for them: in lower case.
pub(crate) const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The names of the days of the week, from Monday on.
pub(crate) const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Returns the days from 1 January 1970 to a date; months and days count from 1.
pub fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    era * ERA + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1 - FIRST_OF_MARCH
}

/// Returns year, month and day of a number of days since 1 January 1970.
pub fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + FIRST_OF_MARCH;
    let (era, of_era) = (shifted.div_euclid(ERA), shifted.rem_euclid(ERA));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Returns the number of days of a month.
pub fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Writes seconds since 1970 in UTC as `2025-05-20T00:00:00`.
pub fn iso(seconds: i64) -> String {
    let (year, month, day) = date_of(seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates_and_back() {
        for (days, date) in [(0, (1970, 1, 1)), (-1, (1969, 12, 31)), (11_016, (2000, 2, 29)), (47_540, (2100, 2, 28))]
        {
            assert_eq!(date_of(days), date);
            let (year, month, day) = date;
            assert_eq!(days_of(year, month, day), days);
        }
        assert!((-800_000..3_000_000).step_by(97).all(|days| {
            let (year, month, day) = date_of(days);
            days_of(year, month, day) == days && day <= days_in(year, month)
        }));
    }

    #[test]
    fn seconds_are_written_in_iso_format() {
        assert_eq!(iso(1_747_699_200), "2025-05-20T00:00:00");
        assert_eq!(iso(-1), "1969-12-31T23:59:59");
    }
}

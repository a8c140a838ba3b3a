//! The read and write activity of devices, as `iostat` measures it.

use exec::{Call, Context, Error, Result, function};
use value::{Map, Value, map};

use crate::util;

/// The columns of one table and the rows that were printed for each of its names.
#[derive(Default)]
struct Table {
    columns: Vec<String>,
    rows: Vec<(String, Vec<Vec<Millionths>>)>,
}

impl Table {
    fn named(&mut self, name: &str) -> &mut Vec<Vec<Millionths>> {
        let place = self.rows.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.rows.push((name.to_owned(), Vec::new()));
            self.rows.len() - 1
        });
        &mut self.rows[place].1
    }

    fn head<'a>(&mut self, columns: impl Iterator<Item = &'a str>) {
        // The heading is repeated with every report.
        if self.columns.is_empty() {
            self.columns = columns.map(str::to_owned).collect();
        }
    }

    /// Computes the mean of each column, up to the width of the shortest row.
    fn means(&self) -> impl Iterator<Item = (&str, Map)> {
        self.rows.iter().map(|(name, rows)| {
            let width = rows.iter().map(Vec::len).min().unwrap_or(0);
            let columns = self.columns.iter().take(width).enumerate();
            let means = columns.map(|(at, column)| (column.as_str(), mean(rows.iter().map(|row| row[at]))));
            (name.as_str(), means.collect())
        })
    }
}

/// A decimal number in millionths.
type Millionths = i64;

/// Reads a number such as `4996.30`.
fn millionths(text: &str) -> Result<Millionths> {
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    // iostat prints two places. Integers keep the sum exact, as Salt's `Decimal` does.
    let digits = places.bytes().all(|digit| digit.is_ascii_digit()) && places.len() <= 6;
    let number = digits.then(|| format!("{whole}{places:0<6}").parse().ok()).flatten();
    number.ok_or_else(|| Error::execution(format!("iostat printed '{text}' where a number was expected")))
}

/// Computes the mean, rounded to hundredths; ties go to the even neighbour.
fn mean(numbers: impl Iterator<Item = Millionths>) -> f64 {
    let (sum, count) = numbers.fold((0i128, 0i128), |(sum, count), number| (sum + i128::from(number), count + 1));
    let hundredth = count * 10_000;
    let (down, rest) = (sum.div_euclid(hundredth), sum.rem_euclid(hundredth));
    // Python's `round` and `quantize` send halves to the even neighbour.
    let up = rest * 2 > hundredth || rest * 2 == hundredth && down % 2 != 0;
    (down + i128::from(up)) as f64 / 100.0
}

/// Computes the means of all reports: of the processors under the name `sys`, and of each device.
fn means(text: &str) -> Result<Map> {
    let (mut processors, mut devices) = (Table::default(), Table::default());
    let mut lines = text.lines();
    let numbers = |words: std::str::SplitWhitespace| words.map(millionths).collect::<Result<Vec<_>>>();
    while let Some(line) = lines.next() {
        let mut words = line.split_whitespace();
        // Releases of sysstat from 11.5.7 on print no colon.
        match words.next() {
            Some("avg-cpu:") => {
                processors.head(words);
                let row = lines.next().unwrap_or_default().split_whitespace();
                processors.named("sys").push(numbers(row)?);
            }
            Some("Device:" | "Device") => {
                devices.head(words);
                // An empty line ends the table.
                for line in lines.by_ref().take_while(|line| line.starts_with(char::is_alphanumeric)) {
                    let mut words = line.split_whitespace();
                    let name = words.next().unwrap_or_default();
                    let row = numbers(words)?;
                    devices.named(name).push(row);
                }
            }
            _ => {}
        }
    }
    Ok(processors.means().chain(devices.means()).collect())
}

/// Returns the means of ``count`` measurements of ``iostat``, ``interval`` seconds apart: of the processors (as
/// ``sys``) and all devices, or of some devices. The first measurement is that since boot.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.iostat 1 5 disks=sda
#[function]
fn iostat(
    ctx: &Context,
    #[default(1)] interval: Value,
    #[default(5)] count: Value,
    #[default(Value::Null)] disks: Value,
) -> Result<Map> {
    util::needs(ctx, "iostat")?;
    let line = match disks {
        Value::Null => format!("iostat -x {interval} {count} "),
        Value::List(names) => {
            let names: Vec<String> = names.iter().map(Value::to_string).collect();
            format!("iostat -xd {interval} {count} {}", names.join(" "))
        }
        name => format!("iostat -xd {interval} {count} {name}"),
    };
    // Many lines of numbers would drown the log.
    let call = Call { args: vec![line.into()], kwargs: map! { "output_loglevel" => "quiet" } };
    means(&ctx.call_with("cmd.run_stdout", call)?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_rounded_to_the_even_hundredth() {
        let of = |texts: &[&str]| mean(texts.iter().map(|text| millionths(text).unwrap()));
        assert_eq!(of(&["0.01", "0.02"]), 0.02);
        assert_eq!(of(&["0.02", "0.03"]), 0.02);
        assert_eq!(of(&["1", "2.5", "3.25"]), 2.25);
        assert_eq!(of(&["0.005001"]), 0.01);
        assert_eq!(of(&["-0.01", "-0.02"]), -0.02);
    }

    #[test]
    fn devices_are_found_below_a_heading_without_a_colon() {
        let text = "Linux 6.18 (m1) \t11/23/26\n\navg-cpu:  %user   %nice\n          42.98   15.07\n\n\
                    Device            r/s     rkB/s\nvda            267.36   4996.30\n\n\
                    avg-cpu:  %user   %nice\n          90.55    0.00\n\n\
                    Device            r/s     rkB/s\nvda            190.00   2396.00\n";
        let expected = map! {
            "sys" => map! { "%user" => 66.76, "%nice" => 7.54 }, "vda" => map! { "r/s" => 228.68, "rkB/s" => 3696.15 },
        };
        assert_eq!(means(text).unwrap(), expected);
    }

    #[test]
    fn what_is_no_number_is_named() {
        for text in ["0,25", "nan", "1.2345678", "1.-5", "99999999999999999999"] {
            let wanted = format!("iostat printed '{text}' where a number was expected");
            assert_eq!(millionths(text).unwrap_err().to_string(), wanted);
        }
    }
}

//! `status` — results of `status.*`.

use std::time::SystemTime;

use exec::{Call, Context};
use futures_util::future::BoxFuture;
use value::{Map, Value, list, map};

use crate::config::{list, without_options};
use crate::{Found, Kind, Watcher};

pub const KIND: Kind = Kind {
    name: "status",
    validate: |config, _| list(config, "status").map(drop),
    watch: |config| Box::new(Status(config.clone())),
};

/// The functions that are reported by default.
const USUAL: [&str; 5] = ["loadavg", "cpustats", "meminfo", "vmstats", "time"];

struct Status(Value);

impl Watcher for Status {
    fn look<'a>(&'a mut self, ctx: &'a Context) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            let mut wanted = without_options(&self.0);
            if wanted.is_empty() {
                wanted = USUAL.iter().map(|name| ((*name).to_owned(), list!["all"])).collect();
            }
            let mut all = Map::new();
            for (fun, items) in wanted {
                let told = match ctx.call_apart(&format!("status.{fun}"), Call::default()).await {
                    Ok(data) => chosen(&data, &items),
                    // As in Salt, a function that fails leaves its part empty.
                    Err(error @ exec::Error::Execution(_)) => {
                        tracing::debug!(
                            "Status beacon attempted to process function {fun} but encountered error: {error}"
                        );
                        Map::new().into()
                    }
                    Err(error) => return Err(error.to_string()),
                };
                all.insert(fun, told);
            }
            Ok(vec![map! { "tag" => now(), "data" => all }])
        })
    }
}

/// Returns the configured parts of a function's result.
fn chosen(data: &Value, items: &Value) -> Value {
    let one = std::slice::from_ref(items);
    let mut told = Value::Map(Map::new());
    for item in items.as_list().unwrap_or(one) {
        // Whatever was selected before is replaced.
        if item.as_str() == Some("all") {
            told = data.clone();
            continue;
        }
        let found = match data {
            Value::Map(data) => data.get_value(item).cloned(),
            Value::List(data) => item.to_string().parse::<usize>().ok().and_then(|place| data.get(place).cloned()),
            _ => None,
        };
        match (found, &mut told) {
            (Some(found), Value::Map(told)) => drop(told.insert(item.clone(), found)),
            (Some(_), _) => {}
            (None, _) => {
                // Salt shows the KeyError's text, which has the key as Python prints it.
                let item = value::python::repr(item);
                told = format!("Status beacon is incorrectly configured: {item}").into();
            }
        }
    }
    told
}

/// Formats the time for the tag.
fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = ((since.as_secs() / 86400) as i64, since.as_secs() % 86400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}", since.subsec_micros())
}

/// Returns year, month and day of a number of days since 1970.
fn civil(days: i64) -> (i64, i64, i64) {
    // Days are counted from March, so that the leap day is the last one of the year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let part = (5 * of_year + 2) / 153;
    let month = if part < 10 { part + 3 } else { part - 9 };
    (era * 400 + year + i64::from(month <= 2), month, of_year - (153 * part + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_selected() {
        let data: Value = map! { "1-min" => 0.5, "5-min" => 0.1 }.into();
        assert_eq!(chosen(&data, &list!["all"]), data);
        assert_eq!(chosen(&data, &"1-min".into()), map! { "1-min" => 0.5 }.into());
        assert_eq!(chosen(&data, &list!["x"]).as_str(), Some("Status beacon is incorrectly configured: 'x'"));
        assert_eq!(chosen(&list![7, 8], &list![1]), map! { 1 => 8 }.into());
        assert_eq!((civil(0), civil(19_782)), ((1970, 1, 1), (2024, 2, 29)));
    }
}

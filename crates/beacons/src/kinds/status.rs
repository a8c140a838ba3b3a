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
    format!("{}.{:06}", python::calendar::iso(since.as_secs() as i64), since.subsec_micros())
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
    }
}

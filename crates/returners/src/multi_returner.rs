//! `multi_returner` — passes returns to each of the returners in the option of this name.

use futures_util::future::BoxFuture;
use value::{Map, Value};

use crate::{Error, Result, Returner, World, find};

/// Passes returns on.
pub struct Multi;

impl Returner for Multi {
    fn name(&self) -> &'static str {
        "multi_returner"
    }

    fn give<'a>(&'a self, world: &'a World, ret: &'a Map) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let names = world.opts().get("multi_returner").and_then(Value::as_list);
            let names = names.ok_or_else(|| Error::option("option 'multi_returner' must be a list of returners"))?;
            let mut failures = Vec::new();
            // A `multi_returner` that contains itself would never end.
            for name in names.iter().map(Value::to_string).filter(|name| name != self.name()) {
                let given = match find(world, &name) {
                    Ok(returner) => returner.give(world, ret).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = given {
                    // All are tried before the failure is reported: one dead server must not cost the other copies.
                    failures.push(format!("{name}: {error}"));
                }
            }
            if failures.is_empty() { Ok(()) } else { Err(Error::failed(failures.join("; "))) }
        })
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn a_failing_returner_does_not_stop_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("out");
        let world = testing::world(map! {
            "multi_returner" => list!["nothing", "rawfile_json"], "rawfile_json.filename" => file.to_str().unwrap(),
        });
        let error = Multi.give(&world, &testing::ret()).await.unwrap_err();
        assert_eq!(error.to_string(), "nothing: 'nothing.returner' is not available.");
        assert!(std::fs::read_to_string(file).unwrap().contains("20240229131415678901"));
    }
}

//! The minion's options that external pillars on the master may see: `pass_to_ext_pillars`.

use value::{Map, Value};

/// Returns the options that `pass_to_ext_pillars` names, each below the keys that lead to it.
///
/// # Errors
/// If the option is not a list of text.
pub fn for_ext_pillars(opts: &Map) -> Result<Map, &'static str> {
    const MALFORMED: &str = "'pass_to_ext_pillars' config is malformed.";
    let mut extra = Map::new();
    let Some(paths) = opts.get("pass_to_ext_pillars").filter(|paths| !paths.is_null()) else { return Ok(extra) };
    for path in paths.as_list().ok_or(MALFORMED)? {
        let keys: Vec<&str> = path.as_str().ok_or(MALFORMED)?.split(':').collect();
        // A path that leads nowhere is left out.
        let found = keys.iter().try_fold(None, |place: Option<&Value>, key| {
            Some(Some(place.map_or_else(|| opts.get(key), |place| place.get(key))?))
        });
        if let Some(Some(value)) = found {
            let below = keys.iter().rev().fold(value.clone(), |inner, key| value::map! { *key => inner }.into());
            extra = pillar::merged(extra, &below.into_map().unwrap_or_default());
        }
    }
    Ok(extra)
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn options_are_passed_below_their_keys() {
        let opts = map! {
            "pass_to_ext_pillars" => list!["site:rack", "site:row", "id", "nothing", "site:none", "id:x"],
            "site" => map! { "rack" => 7, "row" => list![1], "secret" => 1 }, "id" => "web1",
        };
        let expected = map! { "site" => map! { "rack" => 7, "row" => list![1] }, "id" => "web1" };
        assert_eq!(for_ext_pillars(&opts), Ok(expected));
        assert_eq!(for_ext_pillars(&map! {}), Ok(map! {}));
        assert!(for_ext_pillars(&map! { "pass_to_ext_pillars" => "site" }).is_err());
    }
}

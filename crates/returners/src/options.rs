//! The options of a returner, looked up as in Salt's `get_returner_options`.

use value::{Map, Value};

use crate::{Error, Result, World};

/// The options of one returner for one return.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    place: &'static str,
    found: Map,
}

impl Options {
    /// Looks options up under a prefix such as `redis`: as a map of that name, or each by itself (`redis.host`). A return with
    /// `ret_config` looks below another prefix first (`alternative.redis.host`), and its `ret_kwargs` override everything. Empty
    /// values count as missing.
    ///
    /// # Errors
    /// If a prefix or `ret_kwargs` is not a map.
    pub fn find(
        world: &World,
        place: &'static str,
        names: &[&'static str],
        defaults: Map,
        ret: Option<&Map>,
    ) -> Result<Options> {
        let other = ret.and_then(|ret| ret.get("ret_config")).filter(|other| other.truthy()).map(Value::to_string);
        let below = |prefix: &str| match world.option(prefix) {
            None => Ok(None),
            Some(Value::Map(map)) => Ok(Some(map)),
            Some(found) => Err(Error::option(format!("option '{prefix}' is not a map but {}", found.type_name()))),
        };
        let usual = below(place)?;
        let prefix = other.map(|other| format!("{other}.{place}"));
        let special = prefix.as_deref().map(below).transpose()?.flatten();
        // A map wins over the flat spelling under the same prefix.
        let at = |map: &Option<Map>, prefix: &str, name: &str| {
            let inside = map.as_ref().and_then(|map| map.get(name).cloned());
            inside.or_else(|| world.option(&format!("{prefix}.{name}")))
        };
        let mut found = Map::new();
        for name in names {
            let alternative = prefix.as_deref().and_then(|prefix| at(&special, prefix, name));
            let value = alternative.filter(Value::truthy).or_else(|| at(&usual, place, name));
            // As in Salt, an empty text counts as a missing option.
            let value = value.filter(|value| !value.is_null() && value.as_str() != Some(""));
            if let Some(value) = value.or_else(|| defaults.get(name).cloned()) {
                found.insert(*name, value);
            }
        }
        match ret.and_then(|ret| ret.get("ret_kwargs")) {
            None | Some(Value::Null) => {}
            // From the command line (`--return_kwargs`): these may also name options that the returner does not
            // declare.
            Some(Value::Map(given)) => found.update(given.clone()),
            Some(other) => return Err(Error::option(format!("ret_kwargs is not a map but {}", other.type_name()))),
        }
        Ok(Options { place, found })
    }

    /// Returns an option.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.found.get(name).filter(|value| !value.is_null())
    }

    /// Returns an option as text; numbers are converted.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(Value::to_string).filter(|text| !text.is_empty())
    }

    /// Returns a required option.
    ///
    /// # Errors
    /// If it is missing.
    pub fn required(&self, name: &str) -> Result<String> {
        self.text(name).ok_or_else(|| Error::option(format!("option '{}.{name}' is missing", self.place)))
    }

    /// Returns a numeric option, which may be written as text.
    ///
    /// # Errors
    /// If it is something else, or out of range.
    pub fn number<T: TryFrom<i64>>(&self, name: &str) -> Result<Option<T>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_i64().or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()));
        let wrong = || Error::option(format!("option '{}.{name}' must be a number, not {value}", self.place));
        number.and_then(|number| T::try_from(number).ok()).map(Some).ok_or_else(wrong)
    }

    /// Returns whether an option is true.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(Value::truthy)
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;
    use crate::testing;

    const NAMES: [&str; 3] = ["host", "port", "db"];

    fn found(opts: Map, ret: Map) -> Map {
        let world = testing::world(opts);
        Options::find(&world, "redis", &NAMES, map! { "db" => "none" }, Some(&ret)).unwrap().found
    }

    #[test]
    fn options_are_flat_or_in_a_map_and_have_defaults() {
        // The defaults of `redis.port` and `redis.db` are Salt's own (`config.option` finds them); they win over the
        // returner's.
        assert_eq!(found(map! { "redis.host" => "a" }, map! {}), map! { "host" => "a", "port" => 6379, "db" => "0" });
        let nested = map! { "redis" => map! { "host" => "b", "port" => 1 }, "redis.host" => "a" };
        assert_eq!(found(nested, map! {}), map! { "host" => "b", "port" => 1, "db" => "0" });
        assert_eq!(found(map! { "redis.db" => "", "redis.host" => "a" }, map! {}).get_str("db"), Some("none"));
    }

    #[test]
    fn ret_config_and_ret_kwargs_override_the_default_options() {
        let opts =
            map! { "redis.host" => "a", "x.redis.host" => "x", "x.redis" => map! { "port" => 7 }, "redis.port" => 1 };
        let ret = map! { "ret_config" => "x", "ret_kwargs" => map! { "db" => "3", "more" => true } };
        assert_eq!(found(opts, ret), map! { "host" => "x", "port" => 7, "db" => "3", "more" => true });
    }

    #[test]
    fn malformed_options_are_reported() {
        // A configuration written as a number or list is an error that names the option, not an ignored one.
        let world = testing::world(map! { "redis" => 1 });
        let error = Options::find(&world, "redis", &NAMES, map! {}, None).unwrap_err();
        assert_eq!(error.to_string(), "option 'redis' is not a map but int");
        let world = testing::world(map! { "redis.port" => list![] });
        let error = Options::find(&world, "redis", &NAMES, map! {}, None).unwrap().number::<u16>("port").unwrap_err();
        assert_eq!(error.to_string(), "option 'redis.port' must be a number, not []");
    }
}

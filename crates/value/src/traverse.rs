//! Follows a path of keys, as `grains.get`, `pillar.get` and the matchers do.

use crate::Value;

impl Value {
    /// Follows a path such as `os:family:0` through maps and lists.
    ///
    /// A map is searched for the text first, then for the same key as an integer. A list is searched by index;
    /// if the part is not one, the first of its maps that has the key is entered (Salt's
    /// `traverse_dict_and_list`). An empty path is the value itself.
    pub fn traverse(&self, path: &str, delimiter: &str) -> Option<&Value> {
        if path.is_empty() {
            return Some(self);
        }
        if delimiter.is_empty() {
            return self.step(path);
        }
        path.split(delimiter).try_fold(self, |place, part| place.step(part))
    }

    fn step(&self, part: &str) -> Option<&Value> {
        match self {
            Value::Map(map) => map
                .get(part)
                // Salt loads the part as YAML if it is not a key, which finds keys that are numbers or booleans.
                .or_else(|| map.get_value(&Value::Int(part.parse().ok()?)))
                .or_else(|| map.get_value(&Value::Bool(part.parse().ok()?))),
            Value::List(items) => match part.parse::<i64>() {
                Ok(index) => at(items, index),
                // Thus `roles:web` finds an entry in a list of one-key maps, as YAML files often have them.
                Err(_) => items.iter().find_map(|item| item.as_map()?.get(part)),
            },
            _ => None,
        }
    }
}

/// Returns the item at an index, which counts from the end if it is negative.
fn at(items: &[Value], index: i64) -> Option<&Value> {
    let index = if index < 0 { index + items.len() as i64 } else { index };
    usize::try_from(index).ok().and_then(|index| items.get(index))
}

#[cfg(test)]
mod tests {
    use crate::{Value, list, map};

    #[test]
    fn a_path_goes_through_maps_and_lists() {
        let tree = Value::from(map! {
            "a" => map! { "b" => list!["x", map! { "c" => 7 }] },
            1 => "one",
        });
        assert_eq!(tree.traverse("a:b:0", ":"), Some(&Value::from("x")));
        assert_eq!(tree.traverse("a:b:-1:c", ":"), Some(&Value::Int(7)));
        assert_eq!(tree.traverse("a:b:c", ":"), Some(&Value::Int(7)));
        assert_eq!(tree.traverse("1", ":"), Some(&Value::from("one")));
        assert_eq!(tree.traverse("a:x", ":"), None);
        assert_eq!(tree.traverse("", ":"), Some(&tree));
    }
}

//! The names of chunks in the result of a run.

use value::{Map, Value};

/// Returns the tag of a low chunk: `state_|-id_|-name_|-fun`.
pub fn of(low: &Map) -> String {
    let part = |key: &str| low.get(key).map(Value::to_string).unwrap_or_default();
    format!("{}_|-{}_|-{}_|-{}", part("state"), part("__id__"), part("name"), part("fun"))
}

/// Splits a tag into state, id, name and function.
pub fn split(tag: &str) -> Option<[&str; 4]> {
    let mut parts = tag.split("_|-");
    let four = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    // An id or a name may contain the separator; the parts cannot be separated then.
    parts.next().is_none().then_some(four)
}

/// Returns the tag of a listener that cannot be found.
pub fn listen_error(state: &str, id: &str) -> String {
    format!("Listen_Error_|-listen_{id}_|-listen_{state}_|-Listen_Error")
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn a_tag_is_put_together_and_taken_apart() {
        let tag = of(&map! { "state" => "file", "__id__" => "a b", "name" => "/x", "fun" => "managed" });
        assert_eq!(tag, "file_|-a b_|-/x_|-managed");
        assert_eq!(split(&tag), Some(["file", "a b", "/x", "managed"]));
        assert_eq!(split("a_|-b"), None);
    }
}

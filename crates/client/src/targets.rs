//! Targets: what a client reads and replaces before the master sees them.

use targeting::expand_nodegroup;
use value::{Map, Value};

/// Reads the ids of a list, separated by commas or else by blanks, as in Salt.
pub fn target_list(text: &str) -> Value {
    if text.contains(',') {
        text.replace(' ', "").split(',').map(str::to_owned).collect()
    } else {
        text.split_whitespace().map(str::to_owned).collect()
    }
}

/// Replaces node groups by their definitions: minions need not know the master's groups.
///
/// # Errors
/// When there is no such group.
pub fn resolve_nodegroups(target: &mut Value, kind: &mut String, groups: &Map) -> Result<(), targeting::Error> {
    match (kind.as_str(), target.as_str()) {
        ("nodegroup", Some(name)) => {
            // A node group is a compound target with a name.
            *target = expand_nodegroup(name, groups)?.join(" ").into();
            *kind = "compound".into();
        }
        ("compound", Some(text)) if text.contains("N@") => {
            let mut words = Vec::new();
            for word in text.split_whitespace() {
                match word.strip_prefix("N@").filter(|name| !name.is_empty()) {
                    Some(name) => words.extend(expand_nodegroup(name, groups)?),
                    None => words.push(word.to_owned()),
                }
            }
            *target = words.join(" ").into();
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn node_groups_are_put_in_place() {
        let groups = map! { "web" => "web1 or web2", "ids" => list!["a", "b"] };
        let (mut target, mut kind) = (Value::from("web"), "nodegroup".to_owned());
        resolve_nodegroups(&mut target, &mut kind, &groups).unwrap();
        assert_eq!((target, kind.as_str()), ("web1 or web2".into(), "compound"));
        let (mut target, mut kind) = (Value::from("N@ids and not a"), "compound".to_owned());
        resolve_nodegroups(&mut target, &mut kind, &groups).unwrap();
        assert_eq!(target, "L@a,b and not a".into());
    }

    #[test]
    fn ids_are_separated_by_commas_or_blanks() {
        assert_eq!(target_list("a, b,c"), list!["a", "b", "c"]);
        assert_eq!(target_list(" a b "), list!["a", "b"]);
    }
}

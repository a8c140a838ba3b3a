//! Names of what is on the servers.

use crate::wire::Place;

/// The subjects of a set.
pub(crate) struct Subjects(String);

impl Subjects {
    pub fn new(cluster_id: &str) -> Self {
        Subjects(format!("saltern.{}", encoded(cluster_id)))
    }

    /// Returns the subject of a place.
    pub fn at(&self, place: Place) -> String {
        match place {
            Place::To(node, lane) => {
                let lane = ["talk", "bulk"][lane as usize];
                format!("{}.to.{}.{lane}", self.0, hex::encode(node.0))
            }
            Place::Beat => format!("{}.beat", self.0),
        }
    }
}

/// Returns the name of a set as a part of subjects, buckets and streams: letters, digits and `-` stay, every other byte becomes `_`
/// and two hex digits. So no name reaches the subjects of another set, and none is a wildcard.
pub fn encoded(cluster_id: &str) -> String {
    let mut name = String::with_capacity(cluster_id.len());
    for byte in cluster_id.bytes() {
        match byte.is_ascii_alphanumeric() || byte == b'-' {
            true => name.push(char::from(byte)),
            false => name += &format!("_{byte:02X}"),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_of_a_set_leaves_its_part_of_a_subject_and_no_two_are_the_same() {
        let names = ["prod", "prod.to", "*", ">", "a b", "a_b", "a_20b", "ä", "prod-2", "a\u{0}b"];
        let encoded: BTreeSet<String> = names.iter().map(|name| encoded(name)).collect();
        assert_eq!(encoded.len(), names.len());
        let plain = |name: &String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        assert!(encoded.iter().all(plain), "{encoded:?}");
        assert_eq!(super::encoded("prod.*"), "prod_2E_2A");
    }
}

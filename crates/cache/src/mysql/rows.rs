//! What the rows of a table mean.

use std::collections::{BTreeSet, HashMap};

use crate::Place;

/// A row: bank, key and value.
pub(super) type Row = (String, String, Option<Vec<u8>>);

/// Puts the values of rows into the order of the places. A table of Salt finds names that differ in case, too; they are others.
pub(super) fn in_order(places: &[Place], rows: Vec<Row>) -> Vec<Option<Vec<u8>>> {
    let mut found: HashMap<(String, String), Vec<u8>> =
        rows.into_iter().filter_map(|(bank, key, value)| Some(((bank, key), value?))).collect();
    places.iter().map(|place| found.remove(&(place.bank.clone(), place.key.clone()))).collect()
}

/// Returns each name once.
pub(super) fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the keys in a bank, and the names of the banks directly below it, from rows of a bank and a key. A table of Salt finds
/// banks that differ in case, too; they are others.
pub(super) fn in_bank(bank: &str, rows: Vec<(String, String)>) -> Vec<String> {
    let (mut keys, mut below) = (Vec::new(), BTreeSet::new());
    for (found, key) in rows {
        match found.strip_prefix(bank) {
            Some("") => keys.push(key),
            Some(rest) => {
                below.extend(rest.strip_prefix('/').and_then(|rest| rest.split('/').next()).map(str::to_owned))
            }
            None => {}
        }
    }
    keys.extend(below);
    keys
}

/// Returns a pattern for the banks below a bank, with `=` as the escape character.
pub(super) fn pattern(bank: &str) -> String {
    let mut pattern = String::with_capacity(bank.len() + 2);
    for character in bank.chars() {
        if matches!(character, '=' | '%' | '_') {
            pattern.push('=');
        }
        pattern.push(character);
    }
    pattern + "/%"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_order_of_places_and_case_matters() {
        let places = ["b", "a", "c"].map(|key| Place::new("grains", key));
        let row = |key: &str, value: &str| ("grains".to_owned(), key.to_owned(), Some(value.as_bytes().to_vec()));
        let rows = vec![row("a", "1"), row("B", "2"), ("grains".into(), "c".into(), None)];
        assert_eq!(in_order(&places, rows), [None, Some(b"1".to_vec()), None]);
    }

    #[test]
    fn banks_directly_below_are_named_once() {
        let rows = [
            ("minions/web1", ""),
            ("minions", "key"),
            ("minions/web1/x", ""),
            ("minions/web2/y", ""),
            ("Minions/other", ""),
            ("MINIONS", "other"),
            ("minions2", "more"),
        ];
        let rows = rows.map(|(bank, key)| (bank.to_owned(), key.to_owned())).to_vec();
        assert_eq!(in_bank("minions", rows), ["key", "web1", "web2"]);
    }

    #[test]
    fn a_pattern_means_its_characters() {
        assert_eq!(pattern("50%_=x"), "50=%=_==x/%");
    }
}

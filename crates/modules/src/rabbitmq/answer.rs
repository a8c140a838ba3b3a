//! Parses the output of `rabbitmqctl`: tables with tabs, between lines for humans.

use exec::{Error, Result};
use python::splitlines;
use value::{Map, Value};

/// Returns whether a line is part of a table.
pub(super) fn is_data(line: &str) -> bool {
    // Some versions print titles and warnings even with `-q`. A name may begin with "Listing", but
    // then a tab follows.
    let heading = line.starts_with("Listing") && (line.ends_with("...") || !line.contains('\t'));
    !(line.is_empty() || heading || line.contains("...done") || line.starts_with("WARNING:"))
}

fn rows(text: &str) -> impl Iterator<Item = &str> {
    splitlines(text).into_iter().filter(|line| is_data(line))
}

/// The rows by their first column; a row of one column is an empty text.
pub(super) fn by_name(text: &str, read: impl Fn(&str) -> Value) -> Map {
    let entry = |row: &str| match row.split_once('\t') {
        Some((name, rest)) => (Value::from(name), read(rest)),
        None => (row.into(), "".into()),
    };
    rows(text).map(entry).collect()
}

/// Columns as a list.
pub(super) fn columns(rest: &str) -> Value {
    rest.split('\t').collect()
}

/// Reads the tags of a user, which are in brackets: `[administrator, monitoring]`.
pub(super) fn tags(rest: &str) -> Value {
    let mut letters = rest.chars();
    letters.next();
    letters.next_back();
    let inner = letters.as_str();
    match rest.contains(',') {
        true => inner.split(',').map(str::trim).collect(),
        false => inner.split(' ').collect(),
    }
}

/// All words of the rows.
pub(super) fn all_words(text: &str) -> Vec<String> {
    rows(text).flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// The rows, without white space at their ends.
pub(super) fn lines(text: &str) -> Vec<&str> {
    rows(text).map(str::trim).collect()
}

/// A list of objects in JSON as a map: by what stands under a key, which is taken out.
pub(super) fn keyed(json: &str, key: &str) -> Result<Map> {
    let strange = |what: String| Error::Other(format!("rabbitmqctl printed no list of permissions: {what}"));
    let listed: Value = serde_json::from_str(json).map_err(|error| strange(error.to_string()))?;
    let mut found = Map::new();
    for entry in listed.into_list().ok_or_else(|| strange("it is not a list".into()))? {
        let mut entry = entry.into_map().ok_or_else(|| strange("an entry is not an object".into()))?;
        let name = entry.remove(key).ok_or_else(|| strange(format!("an entry without {key}")))?;
        found.insert(name, entry);
    }
    Ok(found)
}

/// The numbers a version begins with: `3.10.8-1` is 3, 10, 8. None if it is not a version.
pub(super) fn version(text: &str) -> Option<Vec<u32>> {
    // The rest is the revision of the package.
    let plain = text.split('-').next()?;
    // Packages may have an epoch.
    let plain = plain.split_once(':').map_or(plain, |(_, rest)| rest);
    let plain = plain.split(['~', '+']).next()?;
    let numbers: Option<Vec<u32>> = plain.trim().split('.').map(|part| part.parse().ok()).collect();
    numbers.filter(|numbers| !numbers.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn lines_for_people_are_no_data() {
        let text =
            "Listing users ...\nWARNING: odd\nListing\nguest\t[administrator]\n\nann\t[a, b]\nbob\t[]\nx\n...done.\n";
        let expected = map! {
            "guest" => list!["administrator"], "ann" => list!["a", "b"], "bob" => list![""], "x" => "",
        };
        assert_eq!(by_name(text, tags), expected);
        assert_eq!(by_name("Listing\t1\t2", columns), map! { "Listing" => list!["1", "2"] });
        assert_eq!(all_words("Listing vhosts\n/\n/a b\n"), ["/", "/a", "b"]);
        assert_eq!(lines("a\tb \n  c\n"), ["a\tb", "c"]);
        assert_eq!((tags(""), tags("x"), tags("é")), (list![""], list![""], list![""]));
    }

    #[test]
    fn versions_are_numbers() {
        assert_eq!(version("3.10.8-1.1+deb12u1"), Some(vec![3, 10, 8]));
        assert_eq!(version("1:3.6~rc1"), Some(vec![3, 6]));
        assert_eq!((version(""), version("Error: odd")), (None, None));
        assert!(version("3.10.8") > version("3.7"));
    }

    #[test]
    fn what_is_no_list_of_permissions_is_told() {
        for text in ["", "{}", "[1]", "[{\"a\": 1}]"] {
            let said = keyed(text, "user").unwrap_err().to_string();
            assert!(said.starts_with("rabbitmqctl printed no list of permissions: "), "{said}");
        }
        let found = keyed(r#"[{"user":"ann","read":".*"}]"#, "user").unwrap();
        assert_eq!(found, map! { "ann" => map! { "read" => ".*" } });
    }
}

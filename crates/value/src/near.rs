//! The known name that was probably meant by an unknown one.

/// Returns the most similar name, if any is similar enough for a question to the user ("Did you mean …?").
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong; short names are like everything.
    nearest_within(name, known, (name.chars().count() / 3).clamp(1, 3))
}

/// Returns the most similar name, with at most this many typing errors: letters that are wrong, missing, extra or swapped.
pub fn nearest_within<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, slips: usize) -> Option<&'a str> {
    let near = known.into_iter().filter(|other| *other != name && other.len().abs_diff(name.len()) <= 3);
    // Swapped letters count once, since they are the most common slip.
    let far = near.map(|other| (strsim::damerau_levenshtein(name, other), other));
    // Of several that are equally near, always the same one.
    far.filter(|(distance, _)| *distance <= slips).min().map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_strangers_are_not() {
        let known = ["test.ping", "test.echo", "cmd.run", "state.apply"];
        assert_eq!(nearest("test.pin", known), Some("test.ping"));
        assert_eq!(nearest("tset.ping", known), Some("test.ping"));
        assert_eq!(nearest("foo.bar", known), None);
        assert_eq!(nearest("test.ping", known), None);
        assert_eq!(nearest_within("tset.pin", known, 1), None);
    }
}

//! The names of what is kept in JetStream. No name of a set, a lease or a key can break out of its place in them.

use data_encoding::BASE32_NOPAD;

/// The longest name of a set in the name of a stream, which may have 255 bytes.
const LONGEST_SET: usize = 64;

/// The longest text that is written out as a part of a subject.
const LONGEST_PART: usize = 128;

/// Returns the name of a set, shortened by its digest if it is long. `set` is written as in subjects: letters, digits, `-` and `_`.
fn short(set: &str) -> String {
    match set.len() <= LONGEST_SET {
        true => set.to_owned(),
        false => {
            let digest = BASE32_NOPAD.encode(&crypto::sha256(&[set.as_bytes()])[..20]).to_ascii_lowercase();
            let begin: String = set.chars().take(LONGEST_SET / 2).collect();
            format!("{begin}__{digest}")
        }
    }
}

/// Returns a text as one part of a subject: base32, or its digest if it is long.
pub fn part(text: &str) -> String {
    match text.len() <= LONGEST_PART {
        true => BASE32_NOPAD.encode(text.as_bytes()).to_ascii_lowercase(),
        // A digit that is not in base32 tells it from a text that is written out.
        false => format!("0{}", BASE32_NOPAD.encode(&crypto::sha256(&[text.as_bytes()])).to_ascii_lowercase()),
    }
}

/// Returns the name of the bucket of leases.
pub fn bucket(set: &str) -> String {
    format!("saltern_{}_lease", short(set))
}

/// Returns the name of the stream that keeps signed decisions.
pub fn keep(set: &str) -> String {
    format!("SALTERN_{}_KEEP", short(set))
}

/// Returns what the subjects of that stream begin with.
pub fn keep_subjects(set: &str) -> String {
    format!("saltern.{set}.keep")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_sets_have_one_name_and_none_is_too_long() {
        assert_eq!(bucket("prod-2"), "saltern_prod-2_lease");
        assert_eq!(keep("prod_2E"), "SALTERN_prod_2E_KEEP");
        assert_eq!(keep_subjects("a_2Eb"), "saltern.a_2Eb.keep");
        let all: Vec<String> = [1, 63, 64, 65, 66, 768].map(|length| bucket(&"x".repeat(length))).into();
        for (place, name) in all.iter().enumerate() {
            assert!(name.len() <= 100 && !all[..place].contains(name), "{name}");
        }
    }

    #[test]
    fn texts_of_any_length_are_parts_of_subjects() {
        let texts = ["a", "A", "web1.example.com", "*", ">", &"y".repeat(128), &"y".repeat(129), &"y".repeat(4_096)];
        let all: Vec<String> = texts.iter().map(|text| part(text)).collect();
        for (place, name) in all.iter().enumerate() {
            assert!(!name.is_empty() && name.len() <= 210 && name.chars().all(|one| one.is_ascii_alphanumeric()));
            assert!(!all[..place].contains(name), "{name}");
        }
    }
}

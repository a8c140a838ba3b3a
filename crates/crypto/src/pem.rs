//! The text of key files: the form in which keys are compared, and fingerprints.

use crate::HashType;

/// Returns a key text in the form in which Salt compares and signs keys: without white space at both ends, lines joined by line
/// feeds, no line feed at the end.
pub fn clean_key(text: &str) -> String {
    let text = text.trim_matches(python_space);
    // A fast path: keys are compared at each sign-in, and usually contain only these characters.
    if text.bytes().all(|byte| matches!(byte, b'\n' | b' '..=b'~')) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' => {
                characters.next_if_eq(&'\n');
                out.push('\n');
            }
            character if line_boundary(character) => out.push('\n'),
            character => out.push(character),
        }
    }
    out
}

/// Returns whether a [clean](clean_key) key text is one PEM block (RFC 7468) and nothing else. Text around it is no part
/// of the key, but of what an operator sees and of the fingerprint.
pub fn is_pem_block(text: &str) -> bool {
    let label = |line: &str, start: &str| {
        let label = line.strip_prefix(start).and_then(|rest| rest.strip_suffix("-----"));
        label.filter(|label| label.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b' '))).map(str::to_owned)
    };
    let is_base64 =
        |line: &str| line.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    let mut lines: Vec<&str> = text.lines().map(str::trim_ascii_end).collect();
    let (last, first) = (lines.pop(), lines.first().copied());
    let begin = first.and_then(|line| label(line, "-----BEGIN "));
    let end = last.and_then(|line| label(line, "-----END "));
    begin.is_some() && begin == end && lines.iter().skip(1).all(|line| !line.is_empty() && is_base64(line))
}

/// The characters at which Python's `splitlines` splits.
fn line_boundary(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The characters that Python's `strip` strips.
fn python_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\x1c'..='\x1f')
}

/// Returns Salt's fingerprint of a key file: the digest of the lines between the first and the last, as hex pairs joined by
/// colons. A line feed at the end of the file makes no difference.
pub fn pem_finger(pem: &[u8], kind: HashType) -> String {
    let lines: Vec<&[u8]> =
        // Salt skips blank lines before it removes the first and the last.
        pem.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).collect();
    let body = lines.get(1..lines.len().saturating_sub(1)).unwrap_or_default().concat();
    fingerprint(&without_carriage_returns(&body), kind)
}

/// Returns the digest of bytes as hex pairs joined by colons. For a whole key text it is what `salt-key -f` of Salt 3008
/// prints.
pub fn fingerprint(bytes: &[u8], kind: HashType) -> String {
    let pairs: Vec<String> = kind.digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(":")
}

fn without_carriage_returns(body: &[u8]) -> Vec<u8> {
    // As in Salt, only `\r\n` is replaced; a lone `\r` stays.
    let before_line_feed = |(place, byte): &(usize, &u8)| **byte == b'\r' && body.get(place + 1) == Some(&b'\n');
    body.iter().enumerate().filter(|item| !before_line_feed(item)).map(|(_, byte)| *byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::vectors;

    #[test]
    fn a_block_has_nothing_around_it_and_nothing_odd_in_it() {
        let block = "-----BEGIN PUBLIC KEY-----\nAAA+/=\nBB==\n-----END PUBLIC KEY-----";
        for fits in [block.to_owned(), block.replace("PUBLIC KEY", "RSA PUBLIC KEY"), block.replace('\n', " \n")] {
            assert!(is_pem_block(&fits), "{fits:?}");
        }
        let wrong = [
            String::new(),
            "-----BEGIN PUBLIC KEY-----".to_owned(),
            format!("web1 is trusted\n{block}"),
            format!("{block}\nand more"),
            format!("{block}\n{block}"),
            block.replace("AAA", "A\u{1b}[2J"),
            block.replace("\nBB", "\n\nBB"),
            block.replace("\nBB", "\nComment: x\nBB"),
            block.replace("END PUBLIC", "END RSA PUBLIC"),
            block.replace("PUBLIC KEY", "PUBLIC\u{1b}KEY"),
        ];
        for text in wrong {
            assert!(!is_pem_block(&text), "{text:?}");
        }
    }

    #[test]
    fn clean_key_vectors() {
        for case in vectors("keys")["clean_key_cases"].as_array().unwrap() {
            assert_eq!(clean_key(case["in"].as_str().unwrap()), case["out"].as_str().unwrap());
        }
    }

    #[test]
    fn fingerprint_vectors() {
        for (name, key) in vectors("keys")["keys"].as_object().unwrap() {
            let text = |field: &str| key[field].as_str().unwrap();
            let (stored, clean) = (text("public_pem"), text("clean_public_pem"));
            assert_eq!(clean_key(stored), clean, "{name}");
            let crlf = stored.replace('\n', "\r\n");
            for (pem, kind, expected) in [
                (stored, HashType::Sha256, "finger_path_sha256"),
                (clean, HashType::Sha256, "finger_path_sha256_of_clean_file"),
                (&crlf, HashType::Sha256, "finger_path_sha256"),
                (stored, HashType::Md5, "finger_path_md5"),
                (text("private_pem"), HashType::Sha256, "finger_private_path_sha256"),
            ] {
                assert_eq!(pem_finger(pem.as_bytes(), kind), text(expected), "{name} {expected}");
            }
            assert_eq!(fingerprint(clean.as_bytes(), HashType::Sha256), text("finger_whole_pem_sha256_clean"));
            assert_eq!(fingerprint(stored.as_bytes(), HashType::Sha256), text("finger_whole_pem_sha256_with_newline"));
        }
    }

    #[test]
    fn files_without_a_body_have_a_fingerprint_of_nothing() {
        let nothing = fingerprint(b"", HashType::Sha256);
        for pem in ["", "\n", "one line", "two\nlines\n"] {
            assert_eq!(pem_finger(pem.as_bytes(), HashType::Sha256), nothing);
        }
    }
}

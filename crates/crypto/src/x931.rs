//! ANSI X9.31 padding without a hash, as in OpenSSL's `RSA_X931_PADDING`.
//!
//! The block is `6B BB … BB BA message CC`, or `6A message CC` if the message leaves no room for padding.

/// Returns the padded block of `size` bytes; `None` if the message is longer than `size - 2`.
pub fn pad(message: &[u8], size: usize) -> Option<Vec<u8>> {
    let padding = size.checked_sub(message.len() + 2)?;
    let mut block = Vec::with_capacity(size);
    if padding == 0 {
        block.push(0x6a);
    } else {
        block.push(0x6b);
        block.resize(padding, 0xbb);
        block.push(0xba);
    }
    block.extend_from_slice(message);
    block.push(0xcc);
    Some(block)
}

/// Returns the message of a padded block; `None` if it is not padded properly.
pub fn unpad(block: &[u8]) -> Option<&[u8]> {
    let (inner, trailer) = block.split_at_checked(block.len().checked_sub(1)?)?;
    let (header, rest) = inner.split_first()?;
    match (header, trailer) {
        // The header without padding: the message fills the block.
        (0x6a, [0xcc]) => Some(rest),
        (0x6b, [0xcc]) => {
            let end = rest.iter().position(|byte| *byte != 0xbb)?;
            // The byte after the run must be the separator, even if the message begins with padding bytes.
            (rest[end] == 0xba).then(|| &rest[end + 1..])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_every_message_length() {
        for len in 0..=62 {
            let message = vec![0xbb; len];
            let block = pad(&message, 64).unwrap();
            assert_eq!((block.len(), unpad(&block)), (64, Some(&message[..])), "{len}");
        }
        assert_eq!(pad(&[0; 63], 64), None);
    }

    #[test]
    fn broken_blocks_are_refused() {
        for block in
            [&b""[..], b"\xcc", b"\x6b\xcc", b"\x6b\xbb\xbb\xcc", b"\x6b\xbb\x00\xcc", b"\x6a\x00", b"\x00\xba\x00\xcc"]
        {
            assert_eq!(unpad(block), None, "{block:x?}");
        }
    }
}

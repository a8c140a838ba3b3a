//! The checksum by which Salt chooses masters. It protects nothing.

/// Returns the CRC-32 of the bytes, as zlib computes it.
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        // Bit by bit, without a table: it runs once for an id, not over files.
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::vectors;

    #[test]
    fn vectors_of_salt() {
        let all = vectors("misc");
        for case in all["distributed_master_index"].as_array().unwrap() {
            let crc = crc32(case["id"].as_str().unwrap().as_bytes());
            assert_eq!(u64::from(crc), case["crc32"].as_u64().unwrap());
            assert_eq!(u64::from(crc % 3), case["mod3"].as_u64().unwrap());
        }
    }
}

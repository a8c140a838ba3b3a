//! DER, as far as certificates need it: written from parts, read with bounds (X.690).

/// Tags that occur in certificates.
pub mod tag {
    pub const BOOLEAN: u8 = 0x01;
    pub const INTEGER: u8 = 0x02;
    pub const BIT_STRING: u8 = 0x03;
    pub const OCTET_STRING: u8 = 0x04;
    pub const NULL: u8 = 0x05;
    pub const OID: u8 = 0x06;
    pub const ENUMERATED: u8 = 0x0a;
    pub const UTF8: u8 = 0x0c;
    pub const PRINTABLE: u8 = 0x13;
    pub const T61: u8 = 0x14;
    pub const IA5: u8 = 0x16;
    pub const UTC_TIME: u8 = 0x17;
    pub const GENERALIZED_TIME: u8 = 0x18;
    pub const UNIVERSAL: u8 = 0x1c;
    pub const BMP: u8 = 0x1e;
    pub const SEQUENCE: u8 = 0x30;
    pub const SET: u8 = 0x31;
}

/// The tag of a field by its number, holding a plain value.
// Class "context-specific" in the two highest bits, and for `fields` also the bit of constructed
// values.
pub const fn field(number: u8) -> u8 {
    0x80 | number
}

/// The tag of a field by its number, holding other values.
pub const fn fields(number: u8) -> u8 {
    0xa0 | number
}

// === writing ===

/// A value with its tag and length.
pub fn tlv(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    // DER requires the shortest form of a length.
    if body.len() < 0x80 {
        out.push(body.len() as u8);
    } else {
        let length = body.len().to_be_bytes();
        let used = &length[length.iter().take_while(|byte| **byte == 0).count()..];
        out.push(0x80 | used.len() as u8);
        out.extend_from_slice(used);
    }
    out.extend_from_slice(body);
    out
}

/// Several values under one tag.
pub fn constructed(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    tlv(tag, &parts.concat())
}

/// A sequence.
pub fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    constructed(tag::SEQUENCE, parts)
}

/// A set. DER orders the members by their encoding.
pub fn set(mut parts: Vec<Vec<u8>>) -> Vec<u8> {
    parts.sort();
    constructed(tag::SET, &parts)
}

/// The body of a number without a sign, given with its highest byte first.
pub fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let used = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    let mut body = Vec::with_capacity(used.len() + 1);
    // Integers are signed. Without a zero byte before it, a set top bit would make the number
    // negative.
    if used.first().is_none_or(|first| first & 0x80 != 0) {
        body.push(0);
    }
    body.extend_from_slice(used);
    body
}

/// A number without a sign.
pub fn integer(number: u64) -> Vec<u8> {
    tlv(tag::INTEGER, &unsigned(&number.to_be_bytes()))
}

/// Writes an object identifier. Returns None if the text is none.
pub fn oid(dotted: &str) -> Option<Vec<u8>> {
    let arcs: Vec<u64> = dotted.split('.').map(|arc| arc.parse().ok()).collect::<Option<_>>()?;
    let (&[first, second], rest) =
        arcs.split_at_checked(2).and_then(|(head, rest)| Some((head.first_chunk::<2>()?, rest)))?;
    if first > 2 || (first < 2 && second > 39) {
        return None;
    }
    let mut body = Vec::new();
    // The first two arcs share one number, a trick of the standard to save a byte.
    push_arc(&mut body, (first * 40).checked_add(second)?);
    rest.iter().for_each(|arc| push_arc(&mut body, *arc));
    Some(tlv(tag::OID, &body))
}

fn push_arc(body: &mut Vec<u8>, arc: u64) {
    // Seven bits to a byte. The top bit means that more bytes follow.
    let groups = (64 - arc.leading_zeros()).div_ceil(7).max(1);
    for group in (0..groups).rev() {
        let bits = (arc >> (7 * group)) as u8 & 0x7f;
        body.push(if group == 0 { bits } else { bits | 0x80 });
    }
}

/// The body of a list of named bits, the first bit first; zeros at the end are left out.
pub fn named_bits(bits: &[bool]) -> Vec<u8> {
    // In DER named bits end with the last one that is set. The first byte counts the unused bits at
    // the end.
    let used = bits.iter().rposition(|bit| *bit).map_or(0, |last| last + 1);
    let mut body = vec![(used.div_ceil(8) * 8 - used) as u8];
    for byte in bits[..used].chunks(8) {
        body.push(byte.iter().enumerate().fold(0, |sum, (place, bit)| sum | (u8::from(*bit) << (7 - place))));
    }
    body
}

/// A string of whole bytes as bits.
pub fn bit_string(bytes: &[u8]) -> Vec<u8> {
    let mut body = vec![0];
    body.extend_from_slice(bytes);
    tlv(tag::BIT_STRING, &body)
}

// === reading ===

/// Values one behind the other. Whatever is not DER gives nothing.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

/// A value that was read.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Its tag.
    pub tag: u8,
    /// The content without tag and length.
    pub body: &'a [u8],
    /// All of it, with tag and length.
    pub whole: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// Returns whether all has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next value, whatever it is.
    pub fn next(&mut self) -> Option<Item<'a>> {
        let (&tag, rest) = self.rest.split_first()?;
        let (&short, rest) = rest.split_first()?;
        let (length, rest) = match short {
            0..=0x7f => (usize::from(short), rest),
            // Four bytes of length are more than any certificate has. The indefinite lengths of BER
            // (0x80) are not allowed in DER.
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
                (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
            }
            _ => return None,
        };
        // Lengths come from strangers, so none is believed unless that many bytes follow.
        let (body, rest) = rest.split_at_checked(length)?;
        let whole = &self.rest[..self.rest.len() - rest.len()];
        self.rest = rest;
        Some(Item { tag, body, whole })
    }

    /// The next value, which has this tag.
    pub fn expect(&mut self, tag: u8) -> Option<Item<'a>> {
        self.next().filter(|item| item.tag == tag)
    }

    /// The next value if it has this tag.
    pub fn optional(&mut self, tag: u8) -> Option<Item<'a>> {
        if self.rest.first() == Some(&tag) { self.next() } else { None }
    }

    /// Steps into the next value, which must have this tag.
    pub fn inside(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.expect(tag).map(|item| item.inside())
    }

    /// Reads all values that are left. Returns None if they are not all DER.
    pub fn all(mut self) -> Option<Vec<Item<'a>>> {
        let mut items = Vec::new();
        while !self.is_empty() {
            items.push(self.next()?);
        }
        Some(items)
    }
}

impl<'a> Item<'a> {
    /// The values this one holds.
    pub fn inside(&self) -> Reader<'a> {
        Reader::new(self.body)
    }

    /// The object identifier's text.
    pub fn oid(&self) -> Option<String> {
        read_oid(self.body)
    }

    /// A small number without a sign.
    pub fn small(&self) -> Option<u64> {
        let bytes = &self.body[self.body.iter().take_while(|byte| **byte == 0).count()..];
        // A number with the sign bit is negative and does not fit.
        (!self.body.is_empty() && bytes.len() <= 8 && self.body[0] & 0x80 == 0)
            .then(|| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    /// Yes or no.
    pub fn truth(&self) -> bool {
        self.body.first().is_some_and(|byte| *byte != 0)
    }

    /// Returns whether a bit of a list of bits is set.
    pub fn bit(&self, number: usize) -> bool {
        self.body.get(1 + number / 8).is_some_and(|byte| byte & (0x80 >> (number % 8)) != 0)
    }
}

fn read_oid(body: &[u8]) -> Option<String> {
    let mut arcs = Vec::new();
    let mut arc: u64 = 0;
    for byte in body {
        arc = arc.checked_mul(128)? | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            arcs.push(arc);
            arc = 0;
        }
    }
    // The last arc is cut off.
    if body.last()? & 0x80 != 0 {
        return None;
    }
    // Below arc 2 there may be more than 40 arcs, hence everything from 80 on belongs to it.
    let first = arcs[0].min(80) / 40;
    let mut text = format!("{first}.{}", arcs[0] - first * 40);
    arcs[1..].iter().for_each(|arc| text.push_str(&format!(".{arc}")));
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_identifiers_go_there_and_back() {
        for text in
            ["2.5.29.15", "1.3.6.1.4.1.311.20.2.2", "0.9.2342.19200300.100.1.1", "2.999.1", "1.2.840.113549.1.9.1"]
        {
            let der = oid(text).unwrap();
            assert_eq!(Reader::new(&der).next().unwrap().oid().unwrap(), text);
        }
        for wrong in ["", "1", "1.x", "3.1", "1.40", "1.2.", "99999999999999999999.1"] {
            assert_eq!(oid(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn long_values_have_long_lengths() {
        for length in [0, 127, 128, 255, 256, 70000] {
            let der = tlv(tag::OCTET_STRING, &vec![7; length]);
            let mut reader = Reader::new(&der);
            assert_eq!(reader.next().unwrap().body.len(), length);
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn what_is_cut_or_announces_too_much_is_nothing() {
        for bytes in [&[0x30][..], &[0x30, 5, 1], &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], &[0x30, 0x80], &[0x30, 0x81]] {
            assert!(Reader::new(bytes).next().is_none(), "{bytes:?}");
        }
        assert_eq!(Reader::new(&[6, 1, 0x80]).next().unwrap().oid(), None);
        assert_eq!(Reader::new(&[6, 0]).next().unwrap().oid(), None);
    }

    #[test]
    fn named_bits_end_with_the_last_that_is_set() {
        assert_eq!(named_bits(&[true, false, true, false]), [5, 0xa0]);
        assert_eq!(named_bits(&[false, false]), [0]);
        let mut nine = [false; 9];
        nine[8] = true;
        assert_eq!(named_bits(&nine), [7, 0, 0x80]);
    }
}

//! What a holder writes under the name of its lease.

use bytes::Bytes;

/// A process that takes leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// The member.
    pub node: [u8; 8],
    /// Drawn by chance at its start.
    pub boot: u64,
}

/// Says whose an entry is.
///
/// Anyone who may write to the store can write such a text, so a process believes only what it remembers to have sent itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Who sent it.
    pub who: Who,
    /// Which of the wishes of this process it belongs to: what was given back is never held again.
    pub wish: u64,
    /// Different for each entry, so that nobody can write an entry before its owner sends it.
    pub nonce: u64,
}

/// The longest token in bytes.
const LONGEST: usize = 128;

/// How many words a token has.
const PARTS: usize = 4;

impl Token {
    /// Writes it as text, for whoever looks at the bucket.
    pub fn pack(self) -> Bytes {
        let node = u64::from_be_bytes(self.who.node);
        format!("{node:016x} {} {} {}", self.who.boot, self.wish, self.nonce).into()
    }

    /// Splits an entry into the token and what proves who wrote it. What is no token is all token.
    pub fn split(value: &[u8]) -> (&[u8], &[u8]) {
        let spaces = value.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(place, _)| place);
        match spaces.take(PARTS).nth(PARTS - 1) {
            Some(place) => (&value[..place], &value[place + 1..]),
            None => (value, &[]),
        }
    }

    /// Reads what somebody wrote; `None` if it is no token.
    pub fn unpack(value: &[u8]) -> Option<Token> {
        let text = value.get(..LONGEST.min(value.len())).filter(|text| text.len() == value.len())?;
        let mut parts = std::str::from_utf8(text).ok()?.split(' ');
        let node = parts.next().filter(|node| node.len() == 16)?;
        let node = u64::from_str_radix(node, 16).ok()?.to_be_bytes();
        let mut number = || parts.next()?.parse::<u64>().ok();
        let token = Token { who: Who { node, boot: number()? }, wish: number()?, nonce: number()? };
        parts.next().is_none().then_some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_nothing_else_is() {
        let who = Who { node: [1, 2, 3, 4, 5, 6, 7, 255], boot: u64::MAX };
        let token = Token { who, wish: 3, nonce: u64::MAX };
        assert_eq!(Token::unpack(&token.pack()), Some(token));
        let long = "1".repeat(200);
        for wrong in [
            "",
            " ",
            "x",
            "0102030405060708 1 2",
            "0102030405060708 1 2 3 4",
            "01 1 2 3",
            "é102030405060708 1 2 3",
            &long,
        ] {
            assert_eq!(Token::unpack(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Token::unpack(&[0xff; 40]), None);
    }

    #[test]
    fn what_stands_behind_a_token_is_told_from_it() {
        let token = Token { who: Who { node: [7; 8], boot: 1 }, wish: 2, nonce: 3 }.pack();
        let value = [&token[..], b" a proof"].concat();
        assert_eq!(Token::split(&value), (&token[..], &b"a proof"[..]));
        assert_eq!(Token::split(&token), (&token[..], &b""[..]));
        for odd in ["", "x", "    ", "a b c"] {
            let (text, proof) = Token::split(odd.as_bytes());
            assert!(text.len() + proof.len() <= odd.len() && Token::unpack(text).is_none(), "{odd:?}");
        }
    }
}

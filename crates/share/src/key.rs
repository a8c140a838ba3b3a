//! Keys of records: which thing of its class a record is about.

use std::borrow::Borrow;
use std::fmt;
use std::time::UNIX_EPOCH;

use wire::{Jid, MinionId};

use crate::{Class, Node};

/// The key of a record within its class: a minion id, a job id, or several such parts with `/` between them.
///
/// Neither minion ids nor job ids contain `/`. `Debug` does not show the key, because the key of a token is the token.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Box<str>);

/// The digits of a job id: those of its time, to the microsecond.
const JID_DIGITS: usize = 20;

impl Key {
    /// The maximum length of a key in bytes.
    pub const MAX_LEN: usize = 512;

    /// Returns the text as a key; `None` if it is empty or too long.
    pub fn new(text: &str) -> Option<Key> {
        (!text.is_empty() && text.len() <= Key::MAX_LEN).then(|| Key(text.into()))
    }

    /// Returns what is less than every key.
    pub(crate) fn first() -> Key {
        Key("".into())
    }

    /// Returns the key of a member.
    pub fn of_node(node: Node) -> Key {
        Key(format!("{node:?}").into())
    }

    /// Returns the key of parts, such as job id and minion id; `None` if they are too long together.
    pub fn of_parts(first: &str, second: &str) -> Option<Key> {
        Key::new(&format!("{first}/{second}"))
    }

    /// Returns the key of data of a minion: grains, pillar or mine. A pillar may be of an environment.
    ///
    /// An id may contain `:`, but never `/`, so that no two pillars have one key.
    pub fn of_data(kind: &str, id: &str, environment: Option<&str>) -> Option<Key> {
        match environment {
            Some(environment) => Key::new(&format!("{kind}/{id}/{environment}")),
            None => Key::of_parts(kind, id),
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the two parts of a key that has two.
    pub fn parts(&self) -> Option<(&str, &str)> {
        self.0.split_once('/')
    }

    /// Returns the minute since 1970 of the job id at the start of the key.
    pub fn minute(&self) -> Option<u32> {
        let jid = self.parts().map_or(self.as_str(), |(jid, _)| jid);
        let since = Jid::new(jid).ok()?.time()?.duration_since(UNIX_EPOCH).ok()?;
        u32::try_from(since.as_secs() / 60).ok()
    }

    /// Returns the slot in the job id at the start of the key: its last two digits, behind which a suffix may follow.
    pub fn slot(&self) -> Option<u8> {
        let jid = self.parts().map_or(self.as_str(), |(jid, _)| jid);
        jid.get(JID_DIGITS - 2..JID_DIGITS)?.parse().ok()
    }

    /// Returns whether this can be a key of the class. Keys become names of files and rows, so others are refused.
    pub fn fits(&self, class: Class) -> bool {
        let minion = |id: &str| MinionId::new(id).is_ok();
        match class {
            Class::Members => self.node().is_some(),
            Class::Keys | Class::Denied => minion(&self.0),
            Class::Job | Class::Expected | Class::End => self.minute().is_some() && self.parts().is_none(),
            Class::Return => self.minute().is_some() && self.parts().is_some_and(|(_, id)| minion(id)),
            // A pillar may have an environment behind its minion.
            Class::Data => self.parts().is_some_and(|(_, rest)| match rest.split_once('/') {
                Some((id, environment)) => minion(id) && !environment.is_empty(),
                None => minion(rest),
            }),
            // Salt's tokens are hex digests and become names of files; a dot or a slash would leave the directory.
            Class::Token => self.0.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            Class::Claim => self.parts().is_some(),
        }
    }

    /// Returns the node of the key of a member. Capital letters are none: each member has one key.
    pub fn node(&self) -> Option<Node> {
        let mut node = [0; 8];
        hex::decode_to_slice(self.0.as_bytes(), &mut node).ok()?;
        Some(Node(node)).filter(|node| Key::of_node(*node) == *self)
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Errors and traces print what they are about with `Debug`.
        write!(f, "Key({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_parts_and_bounds() {
        let node = Node([0xab; 8]);
        assert_eq!(Key::of_node(node).node(), Some(node));
        let key = Key::of_parts("20260101000000000000", "web1").unwrap();
        assert_eq!(key.parts(), Some(("20260101000000000000", "web1")));
        assert_eq!(key.node(), None);
        assert_eq!(Key::new("ABABABABABABABAB").unwrap().node(), None, "a second spelling");
        assert_eq!(Key::new(""), None);
        assert_eq!(Key::new(&"x".repeat(513)), None);
    }

    #[test]
    fn keys_fit_their_class() {
        let jid = "20240229131415678901";
        let fits = |class, text: &str| Key::new(text).unwrap().fits(class);
        assert!(fits(Class::Return, &format!("{jid}/web1")) && !fits(Class::Return, jid));
        assert!(fits(Class::Job, jid) && !fits(Class::Job, "20241399131415678901"));
        assert!(!fits(Class::Return, &format!("{jid}/../x")));
        assert!(fits(Class::Keys, "web1") && !fits(Class::Keys, "../x") && !fits(Class::Keys, "a/b"));
        assert!(fits(Class::Data, "pillar/web1/prod") && !fits(Class::Data, "web1"));
        assert!(!fits(Class::Data, "pillar/web1/") && !fits(Class::Data, "pillar//prod"));
        assert_ne!(Key::of_data("pillar", "web1:prod", None), Key::of_data("pillar", "web1", Some("prod")));
        assert!(fits(Class::Token, "5ec7e7") && !fits(Class::Token, "../5ec7e7"));
        assert!(fits(Class::Members, "0101010101010101") && !fits(Class::Members, "m1"));
        assert_eq!(Key::new(jid).unwrap().minute(), Some(28_486_874));
        let slot = |text: &str| Key::new(text).unwrap().slot();
        assert_eq!(
            [slot(jid), slot("20240229131415678907/web1"), slot("20240229131415678942_77")],
            [1, 7, 42].map(Some)
        );
        assert_eq!(slot("web1"), None);
    }

    #[test]
    fn debug_output_does_not_show_tokens() {
        assert!(!format!("{:?}", Key::new("5ec7e7").unwrap()).contains("5ec7e7"));
    }
}

//! Signing in: `_auth` and its answers.

use bytes::Bytes;
use value::{Map, Value, map};

use super::LoadError;
use super::field::{load, wrong};
use crate::MinionId;
use crate::envelope::MOST_FOREIGN_VALUES;
use crate::msgpack::{self, Decode, Packing};

/// A master's unsigned answer to a sign-in that failed on the master's side. Salt's minions treat any text as a failure
/// that is no verdict, log it, and retry after `acceptance_wait_time`.
pub const TRY_AGAIN: &str = "The master failed to handle this sign-in, try again";

/// The text that Salt's masters answer in the same situation.
const FAILURES: [&str; 2] = ["Some exception handling minion payload", "Server-side exception handling payload"];

/// The number of digits of a nonce.
const NONCE_DIGITS: usize = 32;

/// Returns whether a text is a nonce as every release since 3006 makes it: the 32 hexadecimal digits of a UUID.
///
/// Masters sign and seal data that contains their peers' nonces. A peer that could choose arbitrary bytes could have a
/// text signed that can be read as something else, such as a publication.
pub fn is_nonce(text: &str) -> bool {
    text.len() == NONCE_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

load! {
    /// A minion introduces itself and asks for the keys.
    pub struct AuthRequest {
        cmd "_auth";
        /// The minion.
        pub id: MinionId,
        /// 32 hex digits, repeated in the answer; from envelope version 2 on.
        pub nonce: Option<String>,
        /// The algorithm for encrypting the answer's keys; missing from older releases.
        pub enc_algo: Option<String>,
        /// The algorithm for signing the answer; missing from older releases.
        pub sig_algo: Option<String>,
        /// Grains for automatic acceptance, listed in the minion's `autosign_grains`.
        pub autosign_grains: Option<Map>,
        /// A random text encrypted to the master's key, when the minion knows that key.
        pub token: Option<Bytes>,
        /// The minion's public key in PEM, cleaned.
        pub pub_key: String = "pub",
    }
}

load! {
    /// The inner answer to an accepted minion.
    pub struct AuthAccepted {
        /// Always `pub`.
        pub enc: String,
        /// The master's public key in PEM, cleaned.
        pub pub_key: String,
        /// The port of publications.
        pub publish_port: u16,
        /// A Base64 line: the signature of `pub_key` by the signing key, with `master_sign_pubkey`.
        pub pub_sig: Option<String>,
        /// The minion's token, encrypted back to it.
        pub token: Option<Bytes>,
        /// The master's AES key string, encrypted to the minion.
        pub aes: Bytes,
        /// The minion's session key string, encrypted to the minion; missing from older releases.
        pub session: Option<Bytes>,
        /// X9.31 over the hex SHA-256 of the AES key string.
        pub sig: Option<Bytes>,
        /// The nonce of the request.
        pub nonce: Option<String>,
    }
}

load! {
    /// The inner answer to a minion that is not (yet) accepted.
    pub struct AuthRefused {
        /// The state of the key.
        pub verdict: Verdict = "ret",
        /// The nonce of the request.
        pub nonce: Option<String>,
    }
}

/// In the sign-in of a Saltern minion: how many seconds it waits for the answer while its key waits for an operator. In
/// the answer of a Saltern master: that the minion may ask this way.
pub const AWAIT_FIELD: &str = "saltern_await";

/// The decision of a master about a minion that signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthOutcome {
    /// Its key is accepted.
    Accepted,
    /// Its key waits for an operator.
    Pending,
    /// Its key is rejected.
    Rejected,
    /// The id has another key.
    Denied,
    /// `max_minions` are connected, or no more keys may wait.
    Full,
    /// It presents no key, or too short a key.
    Unusable,
}

impl AuthOutcome {
    /// Returns the word for it in the field `act` of `salt/auth` events.
    pub fn act(self) -> &'static str {
        match self {
            AuthOutcome::Accepted => "accept",
            AuthOutcome::Pending => "pend",
            AuthOutcome::Rejected => "reject",
            AuthOutcome::Denied => "denied",
            AuthOutcome::Full => "full",
            AuthOutcome::Unusable => "error",
        }
    }

    /// Returns the field `result` of `salt/auth` events: whether the minion has come in or may still come in.
    pub fn result(self) -> bool {
        matches!(self, AuthOutcome::Accepted | AuthOutcome::Pending)
    }

    /// Returns what a minion that does not come in is answered.
    pub fn refusal(self) -> Option<Verdict> {
        match self {
            AuthOutcome::Accepted => None,
            AuthOutcome::Pending => Some(Verdict::Pending),
            AuthOutcome::Rejected | AuthOutcome::Denied | AuthOutcome::Unusable => Some(Verdict::Rejected),
            AuthOutcome::Full => Some(Verdict::Full),
        }
    }
}

/// The answer to a minion whose key was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Rejected or denied, or the id or key is invalid: `False`.
    Rejected,
    /// Waiting to be accepted: `True`.
    Pending,
    /// There are `max_minions` already: `"full"`.
    Full,
}

impl super::field::Content for Verdict {
    fn from_value(value: Value) -> Result<Self, super::Problem> {
        match &value {
            // Before the test for truth: any text that is not empty counts as true in Python.
            Value::Str(text) if text == "full" => Ok(Verdict::Full),
            value if value.truthy() => Ok(Verdict::Pending),
            Value::Bool(_) | Value::Null => Ok(Verdict::Rejected),
            other => Err(wrong("a verdict", other)),
        }
    }

    fn into_value(self) -> Value {
        match self {
            Verdict::Rejected => false.into(),
            Verdict::Pending => true.into(),
            Verdict::Full => "full".into(),
        }
    }
}

/// The inner answer of either kind.
#[derive(Clone, Debug, PartialEq)]
pub enum AuthAnswer {
    /// The keys.
    Accepted(AuthAccepted),
    /// No keys.
    Refused(AuthRefused),
}

impl AuthAnswer {
    /// Reads the signed bytes of a reply.
    pub fn decode(load: &Bytes) -> Result<Self, LoadError> {
        let unreadable = |problem| LoadError { load: "AuthAnswer", field: "load", problem };
        // The peer has proved nothing yet, so the bound of strangers holds. What cannot be unpacked is reported as a
        // wrong type.
        let value = msgpack::unpack_within(load, Decode::Default, MOST_FOREIGN_VALUES).unwrap_or(Value::Null);
        match value {
            // Salt's minions distinguish the two kinds by this field too.
            Value::Map(map) if map.contains_key("ret") => AuthRefused::from_map(map).map(AuthAnswer::Refused),
            Value::Map(map) => AuthAccepted::from_map(map).map(AuthAnswer::Accepted),
            other => Err(unreadable(wrong("a packed map", &other))),
        }
    }

    /// Returns the bytes to be signed.
    pub fn encode(&self) -> Bytes {
        let map = match self {
            AuthAnswer::Accepted(accepted) => accepted.to_map(),
            AuthAnswer::Refused(refused) => refused.to_map(),
        };
        let mut out = Vec::new();
        msgpack::pack_map_into(&mut out, &map, Packing::Wire);
        out.into()
    }

    /// Returns the nonce of the request this answers.
    pub fn nonce(&self) -> Option<&str> {
        match self {
            AuthAnswer::Accepted(accepted) => accepted.nonce.as_deref(),
            AuthAnswer::Refused(refused) => refused.nonce.as_deref(),
        }
    }
}

/// The outer reply.
#[derive(Clone, Debug, PartialEq)]
pub enum AuthReply {
    /// An [`AuthAnswer`] in packed form with the master's signature over those bytes.
    Signed {
        /// The packed answer.
        load: Bytes,
        /// PKCS #1 v1.5 with the `sig_algo` of the request.
        sig: Bytes,
    },
    /// An answer without a signature: to requests below version 2, and complaints like `bad enc algo` in `ret`.
    Unsigned(Map),
    /// Something failed on the master's side, which proves nothing about the minion.
    TryAgain,
    /// Anything else, mostly the text `bad load`.
    Malformed(Value),
}

impl AuthReply {
    /// Sorts a reply.
    pub fn from_value(value: Value) -> Self {
        // Only known texts: "bad load" is a text too, and waiting does not help a minion that gets it.
        if value.as_str().is_some_and(|text| text == TRY_AGAIN || FAILURES.contains(&text)) {
            return AuthReply::TryAgain;
        }
        let Value::Map(map) = &value else { return AuthReply::Malformed(value) };
        match (map.get("load"), map.get("sig")) {
            // A signature covers packed bytes. A load that is a map cannot have one, whatever value `sig` has.
            (Some(Value::Map(load)), _) => AuthReply::Unsigned(load.clone()),
            (Some(load), Some(sig)) => match (as_bytes(load), as_bytes(sig)) {
                (Some(load), Some(sig)) => AuthReply::Signed { load, sig },
                _ => AuthReply::Malformed(value),
            },
            (None, _) if map.contains_key("enc") || map.contains_key("ret") => AuthReply::Unsigned(map.clone()),
            _ => AuthReply::Malformed(value),
        }
    }

    /// Returns the reply as it travels.
    pub fn to_value(&self) -> Value {
        match self {
            AuthReply::Signed { load, sig } => {
                map! { "enc" => "clear", "load" => load.clone(), "sig" => sig.clone() }.into()
            }
            AuthReply::Unsigned(load) if load.get_str("enc") == Some("pub") => load.clone().into(),
            AuthReply::Unsigned(load) => map! { "enc" => "clear", "load" => load.clone() }.into(),
            AuthReply::TryAgain => TRY_AGAIN.into(),
            AuthReply::Malformed(value) => value.clone(),
        }
    }

    /// Returns the complaint about an unsupported algorithm: `parameter` is `enc` or `sig`.
    pub fn bad_algorithm(parameter: &str) -> Self {
        AuthReply::Unsigned(map! { "ret" => format!("bad {parameter} algo") })
    }
}

fn as_bytes(value: &Value) -> Option<Bytes> {
    match value {
        Value::Bytes(bytes) => Some(bytes.as_ref().clone()),
        Value::Str(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_digits_of_a_uuid_are_a_nonce() {
        assert!(is_nonce("0123456789abcdef0123456789abcdef") && is_nonce("0123456789ABCDEF0123456789ABCDEF"));
        let long = "0".repeat(33);
        for other in
            ["", "0", &long, &long[2..], "0123456789abcdef0123456789abcdeg", "01234567-89ab-4def-8123-456789abcdef"]
        {
            assert!(!is_nonce(other), "{other}");
        }
        assert!(!is_nonce(&"\u{e9}".repeat(16)), "32 bytes, but no digits");
    }

    #[test]
    fn a_failure_of_the_master_is_no_verdict() {
        for text in [TRY_AGAIN, FAILURES[0], FAILURES[1]] {
            assert_eq!(AuthReply::from_value(text.into()), AuthReply::TryAgain);
        }
        assert_eq!(AuthReply::from_value(AuthReply::TryAgain.to_value()), AuthReply::TryAgain);
        assert_eq!(AuthReply::from_value("bad load".into()), AuthReply::Malformed("bad load".into()));
    }
}

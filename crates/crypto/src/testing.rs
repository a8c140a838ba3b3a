//! Recorded bytes for the tests of this crate.

use bytes::Bytes;
use value::Value;

use crate::{PrivateKey, PublicKey};

/// Reads `testdata/<name>.json`, recorded from real Salt.
pub fn vectors(name: &str) -> serde_json::Value {
    let path = format!("{}/testdata/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(&path).expect(&path)).expect(&path)
}

/// Reads the hex text of a vector.
pub fn bytes(vector: &serde_json::Value) -> Bytes {
    hex::decode(vector.as_str().expect("a hex text")).expect("hex").into()
}

/// Turns JSON of a vector into a value.
pub fn value(json: &serde_json::Value) -> Value {
    serde_json::from_value(json.clone()).expect("a value")
}

/// Returns one of the pairs `master`, `minion`, `master_sign`.
pub fn pair(name: &str) -> (PrivateKey, PublicKey) {
    let all = vectors("keys");
    let pem = |half: &str| all["keys"][name][half].as_str().expect("a key").as_bytes().to_vec();
    (PrivateKey::from_pem(&pem("private_pem"), None).unwrap(), PublicKey::from_pem(&pem("public_pem")).unwrap())
}

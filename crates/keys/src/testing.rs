//! Keys for the tests of this crate. They are recorded, because generating keys takes too long.

use crypto::PrivateKey;

/// Reads `testdata/<name>.json`.
pub(crate) fn vectors(name: &str) -> serde_json::Value {
    let path = format!("{}/testdata/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(&path).expect(&path)).expect(&path)
}

/// The text of a recorded key: 0 is a minion's, 1 a master's, 2 that of a signing pair.
fn recorded(which: usize, field: &str) -> String {
    let name = ["minion", "master", "master_sign"][which];
    vectors("keys")["keys"][name][field].as_str().expect(field).to_owned()
}

/// A public key as minions send it.
pub(crate) fn public_key(which: usize) -> String {
    recorded(which, "clean_public_pem")
}

/// The private half of the same recorded key.
pub(crate) fn private_pem(which: usize) -> String {
    recorded(which, "private_pem")
}

pub(crate) fn private_key(which: usize) -> PrivateKey {
    PrivateKey::from_pem(private_pem(which).as_bytes(), None).expect("a recorded key")
}

//! `x509` — certificates, requests for them, lists of revoked ones, and their keys.

mod build;
pub mod cert;
pub mod changes;
pub mod create;
mod der;
mod domains;
pub mod encode;
mod extension;
mod general;
pub mod issue;
pub mod keys;
pub mod load;
mod names;
mod oids;
pub mod pem;
mod points;
mod policies;
pub mod policy;
mod read;
mod serial;
mod show;
mod sign;
pub mod times;

#[cfg(test)]
mod recorded;

use std::path::Path;

use exec::{Error, KwArgs, Module, Result};
use value::Value;

/// The module.
pub static MODULE: Module = Module::new(
    "x509",
    "Functions that make, read and check certificates and their keys.",
    &[
        &create::CREATE_CERTIFICATE,
        &create::CREATE_CRL,
        &create::CREATE_CSR,
        &create::CREATE_PRIVATE_KEY,
        &encode::ENCODE_CERTIFICATE,
        &encode::ENCODE_CRL,
        &encode::ENCODE_CSR,
        &encode::ENCODE_PRIVATE_KEY,
        &read::EXPIRED,
        &read::EXPIRES,
        &pem::GET_PEM_ENTRIES,
        &pem::GET_PEM_ENTRY,
        &read::GET_PRIVATE_KEY_SIZE,
        &read::GET_PUBLIC_KEY,
        &policy::GET_SIGNING_POLICY,
        &read::READ_CERTIFICATE,
        &read::READ_CERTIFICATES,
        &read::READ_CRL,
        &read::READ_CSR,
        &policy::SIGN_REMOTE_CERTIFICATE,
        &read::VERIFY_CRL,
        &read::VERIFY_PRIVATE_KEY,
        &read::VERIFY_SIGNATURE,
        &read::WILL_EXPIRE,
        &pem::WRITE_PEM,
    ],
);

/// Bytes as pairs of digits with colons between.
fn pretty_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
}

/// A number, given with its highest byte first, in the same form; zeros before it are left out.
fn decimal_to_hex(bytes: &[u8]) -> String {
    let used = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    pretty_hex(if used.is_empty() { &[0] } else { used })
}

/// An argument that is a list, or one thing, or nothing.
pub fn listed(value: &Value) -> Vec<Value> {
    match value {
        Value::List(items) => items.clone(),
        value if value.truthy() => vec![value.clone()],
        _ => Vec::new(),
    }
}

/// Refuses arguments a function does not know. Some of earlier releases are passed over.
fn refuse_unknown(kwargs: &KwArgs, old: &[&str]) -> Result<()> {
    let given = kwargs.given();
    // Arguments of the old module are swallowed, as Salt does, and so are the `__pub_…` ones.
    let mut unknown = given.text_keys().filter(|name| !old.contains(name) && !name.starts_with('_')).peekable();
    if unknown.peek().is_none() {
        return Ok(());
    }
    let names: Value = unknown.collect();
    Err(Error::invocation(format!("Unrecognized keyword arguments: {names}")))
}

/// The files a pattern means.
fn matching(pattern: &str) -> Vec<String> {
    crate::file::paths::glob(pattern).into_iter().filter(|path| Path::new(path).is_file()).collect()
}

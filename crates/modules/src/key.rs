//! `key` — fingerprints of this minion's key and of its master's.

use std::path::{Path, PathBuf};

use exec::{Context, Error, Module, Result, function};

/// Registers the functions of `key`.
pub static MODULE: Module =
    Module::new("key", "Fingerprints of this minion's key and of its master's.", &[&FINGER, &FINGER_MASTER]);

/// Returns the fingerprint of this minion's public key.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' key.finger
#[function]
fn finger(ctx: &Context, hash_type: Option<String>) -> Result<String> {
    fingerprint(ctx, "minion.pub", hash_type)
}

/// Returns the fingerprint of the master's public key.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' key.finger_master
#[function]
fn finger_master(ctx: &Context, hash_type: Option<String>) -> Result<String> {
    fingerprint(ctx, "minion_master.pub", hash_type)
}

/// Returns the fingerprint of a key; empty when there is no such file.
fn fingerprint(ctx: &Context, file: &str, hash_type: Option<String>) -> Result<String> {
    let name = hash_type.or_else(|| ctx.opt_str("hash_type").map(str::to_owned)).unwrap_or_else(|| "sha256".into());
    let kind = name.parse().map_err(|error: crypto::UnknownHashType| Error::invocation(error.to_string()))?;
    let path: PathBuf = Path::new(ctx.opt_str("pki_dir").unwrap_or("/etc/salt/pki/minion")).join(file);
    match std::fs::read(&path) {
        Ok(pem) => Ok(crypto::pem_finger(&pem, kind)),
        // A minion that never met a master has no key of it; Salt returns an empty text.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Error::io("read the key", &path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::context;
    use value::map;

    #[test]
    fn fingerprints_are_pairs_of_digits() {
        let dir = tempfile::tempdir().unwrap();
        let (ctx, _) = context(&[&MODULE], map! { "pki_dir" => dir.path().to_str().unwrap() }, map! {}, map! {});
        // A minion without a key has no fingerprint, which is not an error.
        assert_eq!(finger(&ctx, None).unwrap(), "");
        std::fs::write(dir.path().join("minion.pub"), "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----\n")
            .unwrap();
        assert_eq!(finger(&ctx, None).unwrap().len(), 32 * 3 - 1);
        let md5 = finger(&ctx, Some("md5".into())).unwrap();
        assert_eq!(md5, "0b:ee:89:b0:7a:24:8e:27:c8:3f:c3:d5:95:12:13:c1");
        assert!(finger(&ctx, Some("crc".into())).is_err());
    }
}

//! `x509.private_key_managed`.

use exec::{Context, Error, KwArgs, Result, function};
use modules::x509::keys;
use modules::x509::load::Unloaded;
use openssl::pkey::{PKey, Private};
use value::{Map, Value, map};

use super::file::{Before, Managed, Plan, Ready, refuse_unknown, reported, sorted};
use crate::Ret;

/// The arguments about the key.
struct PrivateKeyArgs {
    algo: String,
    keysize: Option<i64>,
    passphrase: Option<String>,
    encoding: String,
    new: bool,
    overwrite: bool,
    old_container: bool,
}

/// Makes sure that there is a private key, which its owner alone may read.
#[function]
fn private_key_managed(
    ctx: &Context,
    name: String,
    #[default("rsa")] algo: String,
    keysize: Option<i64>,
    passphrase: Option<String>,
    #[default("pem")] encoding: String,
    #[default(false)] new: bool,
    #[default(false)] overwrite: bool,
    #[default(false)] pkcs12_encryption_compat: bool,
    kwargs: KwArgs,
) -> Result<Ret> {
    let (mut of_file, mut others) = sorted(&kwargs);
    let bits = others.remove("bits").and_then(|bits| bits.as_i64());
    // Arguments of the old module, accepted without effect.
    for old in ["cipher", "verbose", "text"] {
        others.remove(old);
    }
    refuse_unknown(&others)?;
    if !of_file.get("mode").is_some_and(Value::truthy) {
        // Never with the umask's mode: the key must not be readable for an instant.
        of_file.insert("mode", "0400");
    }
    let wanted = PrivateKeyArgs {
        algo,
        keysize: bits.or(keysize),
        passphrase,
        encoding,
        new,
        overwrite,
        old_container: pkcs12_encryption_compat,
    };
    let file = Managed::new(ctx, &name, "private key", of_file);
    reported(&name, wanted.apply(ctx, &file))
}

impl PrivateKeyArgs {
    fn apply(self, ctx: &Context, file: &Managed<'_>) -> Result<Ret> {
        if self.keysize.is_some_and(|size| size != 0) && matches!(self.algo.as_str(), "ed25519" | "ed448") {
            return Err(Error::invocation(format!("keysize is an invalid parameter for {}", self.algo)));
        }
        let ready = match file.look()? {
            Before::Done(ret) => return Ok(ret),
            Before::Ready(ready) => ready,
        };
        let exists = ready.exists();
        let (current, changes) = self.compare(&ready, &file.name)?;
        let same_key = current.filter(|_| changes.text_keys().all(|key| matches!(key, "encoding" | "passphrase")));
        let plan = Plan { changes, again: exists, is_text: self.encoding == "pem" };
        file.apply(ready, plan, || self.made(ctx, same_key))
    }

    /// The existing key, if it can be read, and the changes.
    fn compare(&self, ready: &Ready, name: &str) -> Result<(Option<PKey<Private>>, Map)> {
        let mut changes = Map::new();
        if !ready.exists() {
            return Ok((None, map! { "created" => name }));
        }
        // A new key on every run, so an existing one is not even read.
        if self.new {
            return Ok((None, map! { "replaced" => name }));
        }
        // A key that cannot be read may still be in use elsewhere. It is only thrown away on
        // request.
        let refused = |text: &str| if self.overwrite { Ok(None) } else { Err(Error::execution(text)) };
        let loaded = match keys::private(&ready.reference(), self.passphrase.as_deref()) {
            Ok(found) => Some(found),
            Err(Unloaded::SuperfluousPassword) => {
                changes.insert("passphrase", true);
                // The key itself is kept and written again with the passphrase.
                Some(keys::private(&ready.reference(), None)?)
            }
            Err(Unloaded::InvalidPassword) => {
                changes.insert("passphrase", true);
                refused(
                    "The provided passphrase cannot decrypt the private key. Pass overwrite: true to force regeneration",
                )?
            }
            Err(Unloaded::MissingPassword) => {
                changes.insert("passphrase", true);
                refused(
                    "The existing file is encrypted. Pass overwrite: true to force regeneration without passphrase",
                )?
            }
            Err(Unloaded::Unreadable(_)) => refused(
                "The existing file does not seem to be a private key formatted as DER, PEM or embedded in PKCS12. \
                 Pass overwrite: true to force regeneration",
            )?,
            Err(why) => return Err(why.into()),
        };
        let Some((key, encoding)) = loaded else {
            changes.insert("created", name);
            return Ok((None, changes));
        };
        changes.update(self.differences(&key, encoding));
        Ok((Some(key), changes))
    }

    fn differences(&self, key: &PKey<Private>, encoding: &str) -> Map {
        let mut changes = Map::new();
        // Salt's defaults. ed25519 and ed448 have a fixed size.
        let size = self.keysize.or(match self.algo.as_str() {
            "rsa" => Some(2048),
            "ec" => Some(256),
            _ => None,
        });
        let known = matches!(self.algo.as_str(), "rsa" | "ec" | "ed25519" | "ed448");
        if known && keys::kind(key) != Some(self.algo.as_str()) {
            changes.insert("algo", self.algo.as_str());
        } else if matches!(self.algo.as_str(), "rsa" | "ec") && keys::size(key) != size {
            changes.insert("keysize", size);
        }
        if encoding != self.encoding {
            changes.insert("encoding", self.encoding.as_str());
        }
        changes
    }

    /// The existing key in its new form, or a new one.
    fn made(self, ctx: &Context, same_key: Option<PKey<Private>>) -> Result<Vec<u8>> {
        modules::x509::encode::check(&self.encoding, modules::x509::encode::OF_KEYS)?;
        let make = move || {
            let key = same_key.map_or_else(|| keys::generate(&self.algo, self.keysize), Ok)?;
            keys::encode(&key, &self.encoding, self.passphrase.as_deref(), self.old_container)
        };
        // RSA keys take seconds to make, which cannot be interrupted.
        ctx.blocking(make)
    }
}

//! Signatures of files, checked by a module such as `gpg`.

use std::path::Path;

use exec::{Call, Context, Error, Result};
use value::{Value, map};

use super::address;
use crate::fileclient::Web;

/// The settings for the check of signatures, with Salt's names.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    /// The signature of the file: an address, a list of them, or True for one inside.
    pub signature: Value,
    /// The signature of the list of checksums, likewise.
    pub source_hash_sig: Value,
    /// Keys of which one is enough.
    pub signed_by_any: Value,
    /// Keys of which all are wanted.
    pub signed_by_all: Value,
    /// The keyring.
    pub keyring: Value,
    /// The directory of GnuPG.
    pub gnupghome: Value,
    /// The module that checks.
    pub sig_backend: String,
}

impl Signature {
    /// Returns whether the list of checksums is to be signed.
    pub fn is_of_list(&self) -> bool {
        self.source_hash_sig.truthy()
    }

    /// Checks the signature of a list of checksums, which is removed if it is wrong.
    pub fn check(&self, ctx: &Context, file: &Path, saltenv: &str) -> Result<()> {
        self.verify(ctx, file, &self.source_hash_sig, saltenv)
    }

    /// Checks the signature of a file, if a check is requested. A file with a wrong signature is removed.
    pub fn check_file(&self, ctx: &Context, file: &Path, saltenv: &str) -> Result<()> {
        match self.signature.truthy() {
            true => self.verify(ctx, file, &self.signature, saltenv),
            false => Ok(()),
        }
    }

    fn verify(&self, ctx: &Context, file: &Path, given: &Value, saltenv: &str) -> Result<()> {
        let verify = format!("{}.verify", self.sig_backend);
        // Without the module nothing could be verified, and an unverified file must not be used.
        if ctx.agent.registry().find(&verify).is_err() {
            return Err(Error::execution(format!(
                "Signature verification requires the {} module, which could not be found. Make sure you have the \
                 necessary tools and libraries intalled",
                self.sig_backend
            )));
        }
        let mut fetched = Vec::new();
        let signature = match given {
            // The signature is part of the file itself.
            Value::Bool(true) => Value::Null,
            Value::List(many) => {
                let mut places = Vec::new();
                for one in many {
                    places.push(self.fetch(ctx, &one.to_string(), saltenv, &mut fetched)?);
                }
                places.into()
            }
            one => self.fetch(ctx, &one.to_string(), saltenv, &mut fetched)?.into(),
        };
        let kwargs = map! {
            "filename" => file.to_string_lossy(), "signature" => signature, "keyring" => self.keyring.clone(),
            "gnupghome" => self.gnupghome.clone(), "signed_by_any" => self.signed_by_any.clone(),
            "signed_by_all" => self.signed_by_all.clone(),
        };
        let said = ctx.call_with(&verify, Call { args: Vec::new(), kwargs })?;
        if said.get("res").and_then(Value::as_bool) == Some(true) {
            return Ok(());
        }
        // A file that failed must not stay in the cache, where the next run would take it for checked.
        for wrong in fetched.iter().map(String::as_str).chain([&*file.to_string_lossy()]) {
            if let Err(error) = std::fs::remove_file(wrong) {
                tracing::warn!("failed to remove {wrong}, whose signature is wrong: {error}");
            }
        }
        let reason = said.get("message").map(Value::to_string).unwrap_or_default();
        Err(Error::execution(format!("The file's signature could not be verified: {reason}")))
    }

    fn fetch(&self, ctx: &Context, one: &str, saltenv: &str, fetched: &mut Vec<String>) -> Result<String> {
        let place = crate::fileclient::cache_hashed(ctx, one, saltenv, None, Web::default()).ok().flatten();
        match place {
            Some(place) => {
                let place = place.to_string_lossy().into_owned();
                // A local file is not removed: it belongs to the user.
                if !address::LOCAL.contains(&address::parse(one).scheme) {
                    fetched.push(place.clone());
                }
                Ok(place)
            }
            // Other modules may take the text of a signature in place of a file.
            None if self.sig_backend == "gpg" => {
                Err(Error::execution(format!("Detached signature file {one} not found")))
            }
            None => Ok(one.to_owned()),
        }
    }
}

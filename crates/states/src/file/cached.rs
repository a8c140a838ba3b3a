//! `file.cached` and `file.not_cached`.

use std::path::Path;

use exec::{Context, Result, function};
use modules::file::address::{self, redacted};
use modules::file::extract::{Sum, source_sum};
use modules::file::hash;
use modules::file::paths::{expand_user, real};
use modules::file::signature::Signature;
use modules::file::spec::Origin;
use modules::fileclient::Web;
use value::{Value, map};

use crate::Ret;

/// Makes sure that a file is in the minion's cache.
#[function]
pub fn cached(
    ctx: &Context,
    name: String,
    #[default("")] source_hash: Value,
    source_hash_name: Option<String>,
    #[default(false)] skip_verify: bool,
    #[default("base")] saltenv: String,
    #[default(false)] use_etag: bool,
    #[default(Value::Null)] source_hash_sig: Value,
    #[default(Value::Null)] signed_by_any: Value,
    #[default(Value::Null)] signed_by_all: Value,
    #[default(Value::Null)] keyring: Value,
    #[default(Value::Null)] gnupghome: Value,
    #[default("gpg")] sig_backend: String,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let scheme = address::parse(&name).scheme.to_owned();
    // A remote file without a checksum could be replaced on the way. Salt makes the user say that
    // this is acceptable.
    if !skip_verify && !source_hash.truthy() && !use_etag && address::REMOTE.contains(&scheme.as_str()) {
        return Ok(ret.fail(format!(
            "Unable to verify upstream hash of source file {}, please set source_hash or set skip_verify or use_etag \
             to True",
            redacted(&name)
        )));
    }
    let signature = Signature {
        source_hash_sig,
        signed_by_any,
        signed_by_all,
        keyring,
        gnupghome,
        sig_backend,
        ..Signature::default()
    };
    let web = Web { use_etag, ..Web::default() };
    let source = name.as_str().into();
    let origin = Origin { source, source_hash, source_hash_name, saltenv, skip_verify, web, signature };
    let mut sum = None;
    if origin.source_hash.truthy() {
        // No name: the checksum list is searched for the basename of the source only.
        match source_sum(ctx, "", &origin) {
            Ok(found) => sum = Some(found),
            Err(error) => return Ok(ret.fail(error.to_string())),
        }
    }
    let file = File { name, origin, sum };
    if ctx.is_test() {
        return file.check(ctx, ret);
    }
    if address::LOCAL.contains(&scheme.as_str()) {
        return file.local(ctx, ret);
    }
    file.fetch(ctx, ret)
}

struct File {
    name: String,
    origin: Origin,
    sum: Option<Sum>,
}

impl File {
    fn kind(&self, ctx: &Context) -> String {
        let default = || ctx.opt_str("hash_type").unwrap_or("sha256").to_owned();
        self.sum.as_ref().map_or_else(default, |sum| sum.kind.clone())
    }

    fn expected_sum(&self) -> Option<&Sum> {
        self.sum.as_ref().filter(|_| !self.origin.skip_verify)
    }

    fn copy(&self, ctx: &Context) -> Result<Option<String>> {
        Ok(modules::fileclient::client(ctx)?.is_cached(&self.name, &self.origin.saltenv))
    }

    fn check(&self, ctx: &Context, ret: Ret) -> Result<Ret> {
        let name = &self.name;
        let comment = match (self.copy(ctx)?, &self.sum) {
            (None, _) => format!("File will be cached: {name}"),
            (Some(_), None) => format!("No hash found. File will be cached: {name}"),
            (Some(copy), Some(sum)) => {
                // Salt hashes with the configured type here, not with that of `source_hash`, so
                // another type always reads as a mismatch in test mode.
                let kind = ctx.opt_str("hash_type").unwrap_or("sha256");
                match hash::of_file(&copy, kind)? == sum.digits {
                    true => format!("File already cached: {name}"),
                    false => format!("Hashes don't match.\nFile will be cached: {name}"),
                }
            }
        };
        Ok(ret.would(comment))
    }

    fn local(&self, ctx: &Context, ret: Ret) -> Result<Ret> {
        // A local file is not copied into the cache. The state only checks it.
        let path = real(&expand_user(address::parse(&self.name).path));
        if !Path::new(&path).exists() {
            return Ok(ret.fail(format!("File {path} is not present on the minion")));
        }
        let Some(sum) = self.expected_sum() else {
            return Ok(ret.ok(format!("File {path} is present on the minion")));
        };
        let digits = hash::of_file(&path, &self.kind(ctx))?;
        if digits == sum.digits {
            return Ok(ret.ok(format!("File {path} is present on the minion and has hash {digits}")));
        }
        Ok(ret.fail(format!(
            "File {path} is present on the minion, but the hash ({digits}) does not match the specified hash ({})",
            sum.digits
        )))
    }

    fn fetch(&self, ctx: &Context, mut ret: Ret) -> Result<Ret> {
        let kind = self.kind(ctx);
        // Hashed before the download, which may overwrite the cached copy.
        let before = self.copy(ctx)?.map(|copy| hash::of_file(&copy, &kind)).transpose()?;
        let digits = self.sum.as_ref().map(|sum| sum.digits.as_str());
        let copy =
            match modules::fileclient::cache_hashed(ctx, &self.name, &self.origin.saltenv, digits, self.origin.web) {
                Ok(Some(copy)) => copy.to_string_lossy().into_owned(),
                Ok(None) => {
                    return Ok(ret
                        // Addresses can carry a password, and comments end up in the job cache.
                        .fail(format!(
                            "Failed to cache {}, check minion log for more information",
                            redacted(&self.name)
                        )));
                }
                Err(error) => return Ok(ret.fail(redacted(&error.to_string()))),
            };
        let after = hash::of_file(&copy, &kind)?;
        if before.as_deref() != Some(&after) {
            ret.changes.insert("hash", map! { "old" => before, "new" => after.as_str() });
        }
        Ok(match self.expected_sum() {
            None => ret.ok(format!("File is cached to {copy}")),
            // "already cached" is Salt's text even if the file was downloaded just now.
            Some(sum) if sum.digits == after => ret.ok(format!("File is already cached to {copy} with hash {after}")),
            Some(sum) => ret.fail(format!(
                "File is cached to {copy}, but the hash ({after}) does not match the specified hash ({})",
                sum.digits
            )),
        })
    }
}

/// Makes sure that a file is not in the minion's cache.
#[function]
pub fn not_cached(ctx: &Context, name: String, #[default("base")] saltenv: String) -> Result<Ret> {
    let mut ret = Ret::new(name.as_str());
    let parsed = address::parse(&name);
    if address::LOCAL.contains(&parsed.scheme) {
        let path = real(&expand_user(parsed.path));
        return Ok(ret.ok(format!("File {path} is a local path, no action taken")));
    }
    let Some(copy) = modules::fileclient::client(ctx)?.is_cached(&name, &saltenv) else {
        return Ok(ret.ok(format!("{name} is not cached")));
    };
    Ok(match std::fs::remove_file(&copy) {
        Ok(()) => {
            ret.changes.insert("deleted", true);
            ret.ok(format!("{copy} was deleted"))
        }
        Err(error) => {
            let reason = modules::file::python_text(&error, &copy);
            ret.fail(format!("Failed to delete {copy}: {reason}"))
        }
    })
}

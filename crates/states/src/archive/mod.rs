//! `archive`: unpacked archives.
//!
//! [`plan`] reads the arguments and finds the archive, [`compare`] examines existing files, [`unpack`] unpacks,
//! [`owners`] sets the owners.

mod compare;
mod owners;
mod plan;
mod sums;
mod unpack;

use exec::{Context, KwArgs, Module, Result, function};
use value::{Map, Value};

use crate::Ret;
use plan::Plan;

/// The module.
pub static MODULE: Module = Module::new("archive", "Archives that are unpacked.", &[&EXTRACTED]);

/// The outcome of a step. The inner error ends the state.
type Step<T> = Result<std::result::Result<T, Ret>>;

/// The arguments, as they came.
struct ExtractArgs {
    source: Value,
    source_hash: Value,
    source_hash_name: Value,
    source_hash_update: bool,
    skip_files_list_verify: bool,
    skip_verify: bool,
    password: Option<String>,
    options: Option<String>,
    list_options: Value,
    force: bool,
    overwrite: bool,
    clean: bool,
    clean_parent: bool,
    user: Value,
    group: Value,
    if_missing: Option<Value>,
    trim_output: Value,
    use_cmd_unzip: Option<bool>,
    extract_perms: bool,
    enforce_toplevel: bool,
    enforce_ownership_on: Option<Value>,
    archive_format: Option<Value>,
    use_etag: bool,
    signatures: bool,
    sig_backend: String,
    rest: Map,
}

/// Unpacks a tar, zip or rar archive into a directory if some of its files do not exist yet, or when ``overwrite`` or a
/// change of its hash (``source_hash_update``) requires it.
///
/// The archive is found by ``source``, or the first of several, and checked by ``source_hash``. ``options`` are those
/// of tar or unzip. ``clean`` first removes the top-level entries of the archive, ``clean_parent`` the directory. An
/// archive with several top-level entries needs ``enforce_toplevel: False``.
#[function]
fn extracted(
    ctx: &Context,
    name: Value,
    source: Value,
    source_hash: Option<Value>,
    source_hash_name: Option<Value>,
    #[default(false)] source_hash_update: Value,
    #[default(false)] skip_files_list_verify: Value,
    #[default(false)] skip_verify: Value,
    password: Option<String>,
    options: Option<String>,
    list_options: Option<Value>,
    #[default(false)] force: Value,
    #[default(false)] overwrite: Value,
    #[default(false)] clean: Value,
    #[default(false)] clean_parent: Value,
    user: Option<Value>,
    group: Option<Value>,
    if_missing: Option<Value>,
    #[default(false)] trim_output: Value,
    use_cmd_unzip: Option<Value>,
    #[default(true)] extract_perms: Value,
    #[default(true)] enforce_toplevel: Value,
    enforce_ownership_on: Option<Value>,
    archive_format: Option<Value>,
    #[default(false)] use_etag: Value,
    signature: Option<Value>,
    source_hash_sig: Option<Value>,
    signed_by_any: Option<Value>,
    signed_by_all: Option<Value>,
    keyring: Option<Value>,
    gnupghome: Option<Value>,
    #[default("gpg")] sig_backend: String,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = (signed_by_any, signed_by_all, keyring, gnupghome);
    let given = ExtractArgs {
        source,
        source_hash: source_hash.unwrap_or_default(),
        source_hash_name: source_hash_name.unwrap_or_default(),
        source_hash_update: source_hash_update.truthy(),
        skip_files_list_verify: skip_files_list_verify.truthy(),
        skip_verify: skip_verify.truthy(),
        password: password.filter(|password| !password.is_empty()),
        options,
        list_options: list_options.unwrap_or_default(),
        force: force.truthy(),
        overwrite: overwrite.truthy(),
        clean: clean.truthy(),
        clean_parent: clean_parent.truthy(),
        user: user.filter(Value::truthy).unwrap_or_default(),
        group: group.filter(Value::truthy).unwrap_or_default(),
        if_missing,
        trim_output,
        use_cmd_unzip: use_cmd_unzip.map(|choice| choice.truthy()),
        extract_perms: extract_perms.truthy(),
        enforce_toplevel: enforce_toplevel.truthy(),
        enforce_ownership_on,
        archive_format,
        use_etag: use_etag.truthy(),
        signatures: signature.is_some_and(|sig| sig.truthy()) || source_hash_sig.is_some_and(|sig| sig.truthy()),
        sig_backend,
        rest: kwargs.given(),
    };
    match Plan::make(ctx, name, given)? {
        Ok(plan) => plan.apply(),
        Err(ret) => Ok(ret),
    }
}

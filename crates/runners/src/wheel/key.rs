//! `key` — the keys of minions, and the master's own.

use std::path::PathBuf;

use crypto::HashType;
use exec::{Error, KwArgs, Result, function};
use keys::{Bank, Changed, GenKeys, GenSignature, KeyError, KeyManager, Owner, Selection, generate_pair};
use value::{Map, Value};
use wire::MinionId;

use crate::context::failed;
use crate::{Module, WheelContext, key_changes};

/// The wheel functions `key.*`.
pub static MODULE: Module = Module::new(
    "key",
    "The keys of minions, and the master's own.",
    &[
        &ACCEPT,
        &ACCEPT_DICT,
        &DELETE,
        &DELETE_DICT,
        &FINGER,
        &FINGER_MASTER,
        &GEN,
        &GEN_ACCEPT,
        &GEN_KEYS,
        &GEN_SIGNATURE,
        &GLOB_MATCH,
        &LIST,
        &LIST_ALL,
        &LIST_MATCH,
        &MASTER_KEY_STR,
        &NAME_MATCH,
        &PRINT,
        &REJECT,
        &REJECT_DICT,
    ],
);

/// Runs a query of the key manager.
async fn ask<T: Send + 'static>(
    ctx: &WheelContext,
    question: impl FnOnce(&KeyManager) -> std::result::Result<T, KeyError> + Send + 'static,
) -> Result<T> {
    ctx.blocking(move |ctx| question(&key_changes::manager(ctx)?.0).map_err(failed)).await
}

/// The keys that a function may change.
enum Concerned {
    Match(Value),
    Dict(Map),
}

impl Concerned {
    fn ids(self, keys: &KeyManager) -> std::result::Result<Vec<Value>, KeyError> {
        let by_bank = match self {
            Concerned::Match(pattern) => keys.glob_match(&pattern)?,
            Concerned::Dict(by_bank) => by_bank,
        };
        Ok(by_bank.into_iter().filter_map(|(_, ids)| ids.into_list()).flatten().collect())
    }
}

/// Runs a change of the key manager, then sends its events. `deletes` says that files which are gone afterwards were deleted.
async fn change(
    ctx: &WheelContext,
    concerned: Concerned,
    deletes: bool,
    work: impl FnOnce(&KeyManager) -> std::result::Result<Changed, KeyError> + Send + 'static,
) -> Result<Map> {
    change_expected(ctx, concerned, deletes, None, work).await
}

/// As [`change`]; keys with another fingerprint than is expected of their id are left alone. `changed` in the answer names the others.
async fn change_expected(
    ctx: &WheelContext,
    concerned: Concerned,
    deletes: bool,
    fingerprints: Option<Map>,
    work: impl FnOnce(&KeyManager) -> std::result::Result<Changed, KeyError> + Send + 'static,
) -> Result<Map> {
    key_changes::may_decide(ctx)?;
    let shared = match ctx.config.cluster.is_some() {
        true => Some(ask(ctx, move |keys| concerned.ids(keys)).await?),
        false => None,
    };
    if let Some(ids) = &shared {
        key_changes::announce(ctx, ids.clone()).await;
    }
    let compares = fingerprints.is_some();
    let (changed, effects) = ctx
        .blocking(move |ctx| {
            let (manager, effects) = key_changes::manager(ctx)?;
            let text = |(id, fingerprint): (Value, Value)| (id.to_string(), fingerprint.to_string());
            let manager = manager.expecting(fingerprints.unwrap_or_default().into_iter().map(text).collect());
            // An error is handed out as well: keys changed before it still have effects that must be sent.
            Ok((work(&manager), effects))
        })
        .await?;
    effects.send().await;
    let mut changed = changed.map_err(failed)?;
    if compares {
        changed.result.insert("changed", changed.done.iter().map(|(id, _)| id.as_str()).collect::<Value>());
    }
    if let Some(ids) = shared {
        key_changes::confirm(ctx, ids, deletes).await?;
    }
    for id in &changed.invalid {
        tracing::error!("Unable to accept invalid key for {id}.");
    }
    if let Some(reason) = changed.not_rotated {
        return Err(Error::execution(reason));
    }
    Ok(changed.result)
}

fn also(banks: &[(bool, Bank)]) -> Vec<Bank> {
    banks.iter().filter(|(wanted, _)| *wanted).map(|(_, bank)| *bank).collect()
}

/// Lists a class of keys: `acc`, `pre` (or `un`), `rej`, `den`, or `all`.
#[function(name = "list")]
async fn list_(ctx: &WheelContext, match_: String) -> Result<Map> {
    ask(ctx, move |keys| keys.list(&match_)).await
}

/// Lists all keys by class, and the files of the master's own keys.
#[function]
async fn list_all(ctx: &WheelContext) -> Result<Map> {
    ask(ctx, KeyManager::list_all).await
}

/// The old name of `key.glob_match`.
#[function]
async fn name_match(ctx: &WheelContext, match_: Value) -> Result<Map> {
    ask(ctx, move |keys| keys.glob_match(&match_)).await
}

/// Lists the keys whose ids match a shell glob, by class.
#[function]
async fn glob_match(ctx: &WheelContext, match_: Value) -> Result<Map> {
    ask(ctx, move |keys| keys.glob_match(&match_)).await
}

/// Lists keys by their exact ids, by class.
#[function]
async fn list_match(ctx: &WheelContext, match_: Value) -> Result<Map> {
    ask(ctx, move |keys| keys.list_match(&match_)).await
}

/// Accepts the pending keys that match a shell glob, and those of the other requested classes.
#[function]
async fn accept(
    ctx: &WheelContext,
    match_: Value,
    #[default(false)] include_rejected: bool,
    #[default(false)] include_denied: bool,
) -> Result<Map> {
    let banks = also(&[(include_rejected, Bank::Rejected), (include_denied, Bank::Denied)]);
    change(ctx, Concerned::Match(match_.clone()), false, move |keys| keys.accept(Selection::Match(&match_), &banks))
        .await
}

/// Accepts keys named by class, such as `{"minions_pre": ["web1"]}`.
///
/// fingerprints
///     The fingerprint that the key of each id must have, such as `{"web1": "aa:bb:…"}`. Another key is left alone, and `changed` in
///     the answer lists the ids whose keys were changed. Salt does not have this argument.
#[function]
async fn accept_dict(
    ctx: &WheelContext,
    match_: Map,
    #[default(false)] include_rejected: bool,
    #[default(false)] include_denied: bool,
    fingerprints: Option<Map>,
) -> Result<Map> {
    let banks = also(&[(include_rejected, Bank::Rejected), (include_denied, Bank::Denied)]);
    let concerned = Concerned::Dict(match_.clone());
    let work = move |keys: &KeyManager| keys.accept(Selection::Dict(&match_), &banks);
    change_expected(ctx, concerned, false, fingerprints, work).await
}

/// Deletes the keys that match a shell glob.
#[function]
async fn delete(ctx: &WheelContext, match_: Value) -> Result<Map> {
    change(ctx, Concerned::Match(match_.clone()), true, move |keys| keys.delete(Selection::Match(&match_), false)).await
}

/// Deletes keys named by class, such as `{"minions": ["web1"]}`; a key of another class is left alone.
///
/// fingerprints
///     The fingerprint that the key of each id must have, such as `{"web1": "aa:bb:…"}`. Another key is left alone, and `changed` in
///     the answer lists the ids whose keys were changed. Salt does not have this argument.
#[function]
async fn delete_dict(ctx: &WheelContext, match_: Map, fingerprints: Option<Map>) -> Result<Map> {
    let concerned = Concerned::Dict(match_.clone());
    change_expected(ctx, concerned, true, fingerprints, move |keys| keys.delete(Selection::Dict(&match_), false)).await
}

/// Rejects the pending keys that match a shell glob, and those of the other requested classes.
#[function]
async fn reject(
    ctx: &WheelContext,
    match_: Value,
    #[default(false)] include_accepted: bool,
    #[default(false)] include_denied: bool,
) -> Result<Map> {
    let banks = also(&[(include_accepted, Bank::Accepted), (include_denied, Bank::Denied)]);
    change(ctx, Concerned::Match(match_.clone()), false, move |keys| keys.reject(Selection::Match(&match_), &banks))
        .await
}

/// Rejects keys named by class, such as `{"minions_pre": ["web1"]}`.
///
/// fingerprints
///     The fingerprint that the key of each id must have, such as `{"web1": "aa:bb:…"}`. Another key is left alone, and `changed` in
///     the answer lists the ids whose keys were changed. Salt does not have this argument.
#[function]
async fn reject_dict(
    ctx: &WheelContext,
    match_: Map,
    #[default(false)] include_accepted: bool,
    #[default(false)] include_denied: bool,
    fingerprints: Option<Map>,
) -> Result<Map> {
    let banks = also(&[(include_accepted, Bank::Accepted), (include_denied, Bank::Denied)]);
    let concerned = Concerned::Dict(match_.clone());
    let work = move |keys: &KeyManager| keys.reject(Selection::Dict(&match_), &banks);
    change_expected(ctx, concerned, false, fingerprints, work).await
}

/// Returns the texts of the keys that match a shell glob.
#[function(name = "print")]
async fn print_(ctx: &WheelContext, match_: Value) -> Result<Map> {
    ask(ctx, move |keys| keys.key_str(&match_)).await
}

/// Returns the text of the master's public key.
#[function]
async fn master_key_str(ctx: &WheelContext) -> Result<Map> {
    ask(ctx, KeyManager::master_key_str).await
}

fn hash(name: Option<String>) -> Result<Option<HashType>> {
    let parse = |name: String| name.parse().map_err(|_| Error::invocation(format!("hash type {name} is not known")));
    name.map(parse).transpose()
}

/// Returns the fingerprints of the keys that match a shell glob.
#[function]
async fn finger(ctx: &WheelContext, match_: Value, hash_type: Option<String>) -> Result<Map> {
    let hash = hash(hash_type)?;
    ask(ctx, move |keys| keys.finger(&match_, hash)).await
}

/// Returns the fingerprint of the master's public key.
#[function]
async fn finger_master(ctx: &WheelContext, hash_type: Option<String>) -> Result<Map> {
    let hash = hash(hash_type)?;
    ask(ctx, move |keys| keys.finger_master(hash)).await
}

/// Makes a pair of keys and returns it without storing it.
#[function]
async fn gen_(ctx: &WheelContext, id: Option<String>, #[default(2048)] keysize: u64, kwargs: KwArgs) -> Result<Map> {
    // Salt takes an id and ignores it.
    let _ = (id, kwargs);
    ctx.blocking(move |_| generate_pair(bits(keysize)?).map_err(failed)).await
}

fn bits(keysize: u64) -> Result<u32> {
    // Generating a key takes time that grows steeply with its size, and the size comes over the network.
    const LARGEST: u64 = 32_768;
    match u32::try_from(keysize) {
        Ok(bits) if keysize <= LARGEST => Ok(bits),
        _ => Err(Error::invocation(format!("keysize {keysize} is larger than {LARGEST}"))),
    }
}

/// Makes a pair of keys, accepts its public half under an id, and returns it; its private half is not stored. An id
/// that has a key keeps it, unless `force` is given.
#[function]
async fn gen_accept(
    ctx: &WheelContext,
    id: Option<String>,
    #[default(2048)] keysize: u64,
    #[default(false)] force: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    // Salt's name of the parameter ends with an underscore.
    let id = id.or_else(|| kwargs.0.get("id_").map(Value::to_string));
    let id = id.ok_or_else(|| Error::Arguments("gen_accept() missing 1 required positional argument: 'id_'".into()))?;
    let id = MinionId::new(id).map_err(|error| Error::invocation(error.to_string()))?;
    let bits = bits(keysize)?;
    ask(ctx, move |keys| keys.gen_accept(&id, bits, force)).await
}

/// Makes the files of a pair of keys and returns the fingerprint.
#[function]
async fn gen_keys(
    ctx: &WheelContext,
    keydir: Option<String>,
    keyname: Option<String>,
    keysize: Option<u64>,
    user: Option<String>,
) -> Result<String> {
    let directory = keydir.map_or_else(|| ctx.config.paths.pki_dir.clone(), PathBuf::from);
    let name = keyname.unwrap_or_else(|| "minion".into());
    let bits = keysize.map(bits).transpose()?;
    let owner = Owner::of_user(user.as_deref().unwrap_or(&ctx.config.user));
    ask(ctx, move |keys| keys.gen_keys(&GenKeys { directory: &directory, name: &name, bits, owner })).await
}

/// Signs the master's public key into a file.
#[function]
async fn gen_signature(
    ctx: &WheelContext,
    r#priv: Option<String>,
    r#pub: Option<String>,
    signature_path: Option<String>,
    #[default(false)] auto_create: bool,
    keysize: Option<u64>,
) -> Result<Value> {
    let path = |text: Option<String>| text.filter(|text| !text.is_empty()).map(PathBuf::from);
    let (private, public, directory) = (path(r#priv), path(r#pub), path(signature_path));
    let bits = keysize.map(bits).transpose()?;
    ask(ctx, move |keys| {
        keys.gen_signature(&GenSignature {
            private: private.as_deref(),
            public: public.as_deref(),
            directory: directory.as_deref(),
            auto_create,
            bits,
        })
    })
    .await
}

//! The source of a managed file's content, and the pending changes.

use std::path::{Path, PathBuf};

use exec::{Context, Error, Result};
use value::{Map, Value, map};

use super::address::{self, redacted};
use super::diff::{self, Ignore, Show};
use super::extract::{SourceHash, Sum, source_sum};
use super::perms::{is_one, normalize_mode};
use super::selinux::Selinux;
use super::signature::Signature;
use super::{attrs, facts, hash, store, template};
use crate::fileclient::Web;
use crate::text;

/// The source of a file's content.
#[derive(Clone, Debug, Default)]
pub struct SourceRequest {
    /// The file.
    pub name: String,
    /// The engine that renders the source, if one does.
    pub template: Option<String>,
    /// The address of the content.
    pub source: Option<String>,
    /// Its checksum, or the address of a list of checksums.
    pub source_hash: Value,
    /// The name it has in a list of checksums.
    pub source_hash_name: Option<String>,
    /// For the template.
    pub user: Value,
    /// For the template.
    pub group: Value,
    /// For the template.
    pub mode: Value,
    /// For the template.
    pub attrs: Value,
    /// The environment of the source.
    pub saltenv: String,
    /// The variables of the template.
    pub context: Option<Map>,
    /// The variables that the context does not define.
    pub defaults: Option<Map>,
    /// Skips the check of the checksum.
    pub skip_verify: bool,
    /// The settings for a download from the web.
    pub web: Web,
    /// Signatures.
    pub signature: Signature,
    /// Additional arguments, which the template sees.
    pub more: Map,
}

/// The content of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The local path; empty if it need not be fetched.
    pub place: String,
    /// Its checksum.
    pub sum: Option<Sum>,
    /// The reason why there is no content.
    pub trouble: String,
}

impl Fetched {
    fn trouble(place: &str, text: impl Into<String>) -> Self {
        Fetched { place: place.to_owned(), sum: None, trouble: text.into() }
    }
}

/// Finds the content of a file: fetches and renders its source.
pub fn fetch(ctx: &Context, asked: &SourceRequest) -> Result<Fetched> {
    let Some(source) = asked.source.as_deref().filter(|source| !source.is_empty()) else {
        return Ok(Fetched::default());
    };
    let parsed = address::parse(source);
    // `C:` and other words before a colon are part of a path.
    let scheme = if address::VALID.contains(&parsed.scheme) { parsed.scheme } else { "" };
    let mut place = match scheme {
        "" => source.to_owned(),
        "file" => Path::new(parsed.host).join(parsed.path).to_string_lossy().trim_end_matches('/').to_owned(),
        _ => String::new(),
    };
    // Salt's states name a local source that is missing before anything is fetched.
    if matches!(scheme, "" | "file") && !Path::new(&place).exists() {
        return Ok(Fetched::trouble("", format!("Local file source {place} does not exist")));
    }
    let sum = match wanted_sum(ctx, asked, source, scheme, &place)? {
        Ok(sum) => sum,
        Err(trouble) => return Ok(Fetched::trouble("", trouble)),
    };
    // A file of the master is only fetched when the sums differ, which the caller finds out.
    if asked.template.is_none() && !address::REMOTE.contains(&scheme) {
        return Ok(Fetched { place, sum, trouble: String::new() });
    }
    let mut fetched = Fetched { place: String::new(), sum, trouble: String::new() };
    std::mem::swap(&mut fetched.place, &mut place);
    if let Err(trouble) = into_cache(ctx, asked, source, &mut fetched)? {
        return Ok(Fetched::trouble("", trouble));
    }
    if fetched.place.is_empty() || !Path::new(&fetched.place).exists() {
        return Ok(Fetched::trouble(&fetched.place, format!("Source file '{}' not found", redacted(source))));
    }
    // A template that overwrites itself could only be rendered once.
    if fetched.place == asked.name {
        return Err(Error::invocation("Source file cannot be the same as destination"));
    }
    match asked.template.as_deref() {
        Some(engine) => rendered(ctx, asked, engine, fetched),
        None => Ok(fetched),
    }
}

/// Returns the checksum the content should have, or why it cannot be determined.
fn wanted_sum(
    ctx: &Context,
    asked: &SourceRequest,
    source: &str,
    scheme: &str,
    place: &str,
) -> Result<std::result::Result<Option<Sum>, String>> {
    let here = |path: &str| Ok::<_, Error>(Some(Sum { kind: "sha256".into(), digits: hash::of_file(path, "sha256")? }));
    if scheme == "salt" {
        // The master returns the checksum without sending the file.
        let found = crate::fileclient::within(ctx, crate::fileclient::client(ctx)?.hash_file(source, &asked.saltenv))?;
        let sum = found.as_ref().and_then(|map| Sum::from_value(&map.clone().into()));
        let missing = || format!("Source file {source} not found in saltenv '{}'", asked.saltenv);
        return Ok(sum.map(Some).ok_or_else(missing));
    }
    if !asked.source_hash.truthy() && matches!(scheme, "" | "file") {
        return here(place).map(Ok);
    }
    if asked.skip_verify {
        return Ok(Ok(None));
    }
    if !asked.source_hash.truthy() {
        let trouble = format!(
            "Unable to verify upstream hash of source file {}, please set source_hash or set skip_verify to True",
            redacted(source)
        );
        // With `use_etag` the server decides whether the file has changed, so a sum is not needed.
        return Ok(if asked.web.use_etag { Ok(None) } else { Err(trouble) });
    }
    let looked = SourceHash {
        file_name: &asked.name,
        source,
        hash: &asked.source_hash,
        name: asked.source_hash_name.as_deref(),
        saltenv: &asked.saltenv,
        signature: &asked.signature,
        web: asked.web,
    };
    match source_sum(ctx, &looked) {
        Ok(sum) => Ok(Ok(Some(sum))),
        // A wrong hash is a result of the state; other errors are failures of the call.
        Err(error @ Error::Execution(_)) => Ok(Err(format!("Unable to manage file: {error}"))),
        Err(error) => Err(error),
    }
}

/// Fetches the source into the cache; a local path that is known already is kept.
fn into_cache(
    ctx: &Context,
    asked: &SourceRequest,
    source: &str,
    fetched: &mut Fetched,
) -> Result<std::result::Result<(), String>> {
    let cached = crate::fileclient::client(ctx)?.is_cached(source, &asked.saltenv);
    let mut again = false;
    if let Some(cached) = cached.filter(|_| asked.source_hash.truthy() || asked.skip_verify || asked.web.use_etag) {
        let kind = fetched.sum.as_ref().map_or("sha256", |sum| sum.kind.as_str()).to_owned();
        let digits = hash::of_file(&cached, &kind)?;
        // The cached file is good enough, since no check is wanted.
        if asked.skip_verify {
            fetched.place = cached;
            fetched.sum = Some(Sum { kind, digits });
        } else if asked.web.use_etag || fetched.sum.as_ref().is_none_or(|sum| sum.digits != digits) {
            again = true;
        } else {
            fetched.place = cached;
        }
    }
    if !fetched.place.is_empty() && !again {
        return Ok(Ok(()));
    }
    let digits = fetched.sum.as_ref().map(|sum| sum.digits.clone());
    match crate::fileclient::cache_hashed(ctx, source, &asked.saltenv, digits.as_deref(), asked.web) {
        Ok(found) => {
            fetched.place = found.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
            Ok(Ok(()))
        }
        Err(error) => Ok(Err(format!("Failed to cache {}: {error}", redacted(source)))),
    }
}

fn rendered(ctx: &Context, asked: &SourceRequest, engine: &str, fetched: Fetched) -> Result<Fetched> {
    let mut context = asked.defaults.clone().unwrap_or_default();
    // The context wins over the defaults.
    context.update(asked.context.clone().unwrap_or_default());
    let mut known = map! {
        "name" => asked.name.as_str(), "source" => asked.source.clone(), "user" => asked.user.clone(),
        "group" => asked.group.clone(), "mode" => asked.mode.clone(), "attrs" => asked.attrs.clone(),
    };
    // Additional arguments of the state can be used in the template, as in Salt.
    known.update(asked.more.clone());
    // As in Salt, a binary file is not a template and is managed as it is.
    if text::is_binary_file(&fetched.place) {
        return Ok(fetched);
    }
    let order = template::RenderArgs { engine, saltenv: &asked.saltenv, context, known };
    match template::file(ctx, Path::new(&fetched.place), order)? {
        Ok(text) => {
            let place = store::temporary(text.as_bytes()).and_then(|path| path.keep().map_err(|error| error.error));
            let place =
                place.map_err(|error| Error::execution(format!("failed to keep what was rendered: {error}")))?;
            let place = place.to_string_lossy().into_owned();
            // The sum of the rendered text: that of the template is unrelated to the file.
            let digits = hash::of_file(&place, "sha256")?;
            Ok(Fetched { place, sum: Some(Sum { kind: "sha256".into(), digits }), trouble: String::new() })
        }
        Err(trouble) => {
            store::clean(&fetched.place);
            Ok(Fetched::trouble(&fetched.place, trouble))
        }
    }
}

/// The wanted state of a file, for reporting what would change.
#[derive(Clone, Debug, Default)]
pub struct DesiredFile {
    /// The file.
    pub name: String,
    /// The path or address of the content.
    pub place: String,
    /// The address of the content.
    pub source: Option<String>,
    /// The content's checksum.
    pub sum: Option<Sum>,
    /// Owner.
    pub user: Value,
    /// Group.
    pub group: Value,
    /// Permissions.
    pub mode: Value,
    /// Attributes.
    pub attrs: Option<String>,
    /// The environment of the source.
    pub saltenv: String,
    /// The settings for a download from the web.
    pub web: Web,
    /// The content itself.
    pub contents: Option<Vec<u8>>,
    /// SELinux context.
    pub selinux: Selinux,
    /// Follows links.
    pub follow_symlinks: bool,
    /// Differences that do not count.
    pub ignore: Ignore,
    /// Shows the whole content of a new file.
    pub new_file_diff: bool,
}

/// Returns what would change in a file, and whether that counts after everything ignored is left out.
pub fn changes(ctx: &Context, desired: &DesiredFile) -> Result<(Map, bool)> {
    let kind = desired.sum.as_ref().map(|sum| sum.kind.as_str());
    let stats =
        facts::of(&desired.name, kind.filter(|_| !Path::new(&desired.name).is_dir()), desired.follow_symlinks).ok();
    let mut changes = Map::new();
    // Without the option a new file is reported by its name alone, and nothing is fetched for a difference.
    if stats.is_none() && !desired.new_file_diff {
        changes.insert("newfile", desired.name.as_str());
        return Ok((changes, true));
    }
    let mut counts = false;
    let here = stats.as_ref().and_then(|stats| stats.get_str("sum"));
    if let Some(sum) = desired.sum.as_ref().filter(|sum| Some(sum.digits.as_str()) != here) {
        let _ = sum;
        counts = of_source(ctx, desired, stats.is_some(), &mut changes)?;
    }
    if let Some(contents) = &desired.contents {
        // A new file is compared with an empty one.
        let old = if stats.is_some() { diff::content(Path::new(&desired.name)) } else { Ok(Vec::new()) };
        let show = Show { ignore: desired.ignore.clone(), ..Show::default() };
        let text = match old {
            Ok(old) => {
                let found = diff::of_contents(ctx, &old, contents, &show);
                counts |= found.counts;
                found.text
            }
            Err(error) => error.to_string(),
        };
        if !text.is_empty() {
            let shown = if diff::is_obfuscated(ctx) { "<Obfuscated Template>".to_owned() } else { text };
            changes.insert("diff", shown);
        }
    }
    if let Some(stats) = stats {
        of_metadata(ctx, desired, &stats, &mut changes)?;
    }
    Ok((changes, counts))
}

fn of_source(ctx: &Context, desired: &DesiredFile, exists: bool, changes: &mut Map) -> Result<bool> {
    let mut place = Some(PathBuf::from(&desired.place)).filter(|place| !place.as_os_str().is_empty());
    if let Some(source) = desired.source.as_deref().filter(|_| place.is_none()) {
        let digits = desired.sum.as_ref().map(|sum| sum.digits.as_str());
        // Only now is the content needed: a difference has to be shown.
        place = crate::fileclient::cache_hashed(ctx, source, &desired.saltenv, digits, desired.web)?;
    }
    let Some(place) = place else {
        // There is nothing to show without a source, but the file would change.
        changes.insert("sum", "Checksum differs");
        return Ok(false);
    };
    let show = Show { template: exists, ignore: desired.ignore.clone(), ..Show::default() };
    let old = if exists { diff::content(Path::new(&desired.name)) } else { Ok(Vec::new()) };
    let found = old.and_then(|old| Ok(diff::of_contents(ctx, &old, &diff::content(&place)?, &show)));
    match found {
        Ok(found) => {
            changes.insert("diff", found.text);
            Ok(found.counts)
        }
        Err(error) => {
            changes.insert("diff", error.to_string());
            Ok(false)
        }
    }
}

fn of_metadata(ctx: &Context, desired: &DesiredFile, stats: &Map, changes: &mut Map) -> Result<()> {
    for (wanted, name, number) in [(&desired.user, "user", "uid"), (&desired.group, "group", "gid")] {
        if !wanted.is_null() && !is_one(wanted, stats, name, number) {
            changes.insert(name, wanted.clone());
        }
    }
    let mode = normalize_mode(&desired.mode);
    if let Some(mode) = mode.filter(|mode| stats.get_str("mode") != Some(mode)) {
        changes.insert("mode", mode);
    }
    if let Some(wanted) = desired.attrs.as_deref().filter(|wanted| !wanted.is_empty())
        && attrs::compare(ctx, &desired.name, wanted)?.is_some_and(|found| !found.is_empty())
    {
        changes.insert("attrs", wanted);
    }
    if desired.selinux.is_wanted() {
        let Some(has) = Selinux::of(ctx, &desired.name)? else {
            return Err(Error::execution("Failed to get selinux attributes"));
        };
        let lacking = desired.selinux.lacking(&has);
        let parts = [("user", lacking.user), ("role", lacking.role), ("type", lacking.kind), ("range", lacking.range)];
        for (name, part) in parts.into_iter().filter_map(|(name, part)| Some((name, part?))) {
            // Each part replaces the one before it, as in Salt, so the last one is reported.
            changes.insert("selinux", map! { name => part });
        }
    }
    Ok(())
}

/// Fetches the content of a managed file, and returns the changes, or why they cannot be determined.
pub fn check(
    ctx: &Context,
    asked: &SourceRequest,
    mut desired: DesiredFile,
    keep_mode: bool,
) -> Result<std::result::Result<(Map, bool), String>> {
    if desired.contents.is_none() {
        let fetched = fetch(ctx, asked)?;
        if !fetched.trouble.is_empty() {
            store::clean(&fetched.place);
            return Ok(Err(fetched.trouble));
        }
        // Sums are compared as text.
        desired.sum = fetched.sum.map(|sum| Sum { digits: sum.digits.to_lowercase(), ..sum });
        desired.place = fetched.place;
        if let Some(source) = asked.source.as_deref().filter(|_| keep_mode && !desired.place.is_empty()) {
            desired.mode = kept_mode(ctx, source, &asked.saltenv).unwrap_or(desired.mode);
        }
    }
    desired.source = asked.source.clone();
    desired.saltenv = asked.saltenv.clone();
    let place = desired.place.clone();
    let found = changes(ctx, &desired);
    store::clean(&place);
    found.map(Ok)
}

/// Returns the permissions of a source, if they are known.
pub fn kept_mode(ctx: &Context, source: &str, saltenv: &str) -> Option<Value> {
    // A web server does not report permissions.
    if !matches!(address::parse(source).scheme, "salt" | "file" | "") {
        return None;
    }
    let client = crate::fileclient::client(ctx);
    match client.and_then(|client| crate::fileclient::within(ctx, client.hash_and_stat(source, saltenv))) {
        Ok(found) => {
            let mode = found.and_then(|(_, stat)| stat.as_list()?.first()?.as_i64())?;
            Some(format!("{:04o}", mode & 0o7777).into())
        }
        Err(error) => {
            tracing::warn!("Unable to stat {source}: {error}");
            None
        }
    }
}

/// Returns the given content as bytes.
pub fn given_contents(contents: &Value) -> Option<Vec<u8>> {
    match contents {
        Value::Null => None,
        Value::Bytes(bytes) => Some(bytes.to_vec()),
        other => Some(other.to_string().into_bytes()),
    }
}

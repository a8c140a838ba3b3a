//! The source of a managed file's content, and the pending changes.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use exec::{Context, Error, Result};
use value::{Map, Value, map};

use super::address::{self, redacted};
use super::diff::{self, Show};
use super::extract::{Sum, source_sum};
use super::perms::{is_one, normalize_mode};
use super::selinux::Selinux;
use super::spec::{FileSpec, Origin};
use super::{attrs, facts, hash, store, template};
use crate::text;

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
pub fn fetch(ctx: &Context, spec: &FileSpec) -> Result<Fetched> {
    let Some(source) = spec.origin.address() else { return Ok(Fetched::default()) };
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
    let sum = match wanted_sum(ctx, spec, source, scheme, &place)? {
        Ok(sum) => sum,
        Err(trouble) => return Ok(Fetched::trouble("", trouble)),
    };
    // A file of the master is only fetched when the sums differ, which the caller finds out.
    if spec.template.engine.is_none() && !address::REMOTE.contains(&scheme) {
        return Ok(Fetched { place, sum, trouble: String::new() });
    }
    let mut fetched = Fetched { place: String::new(), sum, trouble: String::new() };
    std::mem::swap(&mut fetched.place, &mut place);
    if let Err(trouble) = into_cache(ctx, &spec.origin, source, &mut fetched)? {
        return Ok(Fetched::trouble("", trouble));
    }
    if fetched.place.is_empty() || !Path::new(&fetched.place).exists() {
        return Ok(Fetched::trouble(&fetched.place, format!("Source file '{}' not found", redacted(source))));
    }
    // A template that overwrites itself could only be rendered once.
    if fetched.place == spec.name {
        return Err(Error::invocation("Source file cannot be the same as destination"));
    }
    match spec.template.engine.as_deref() {
        Some(engine) => rendered(ctx, spec, engine, fetched),
        None => Ok(fetched),
    }
}

/// Returns the checksum the content should have, or why it cannot be determined.
fn wanted_sum(
    ctx: &Context,
    spec: &FileSpec,
    source: &str,
    scheme: &str,
    place: &str,
) -> Result<std::result::Result<Option<Sum>, String>> {
    let here = |path: &str| Ok::<_, Error>(Some(Sum { kind: "sha256".into(), digits: hash::of_file(path, "sha256")? }));
    let origin = &spec.origin;
    if scheme == "salt" {
        // The master returns the checksum without sending the file.
        let found = crate::fileclient::within(ctx, crate::fileclient::client(ctx)?.hash_file(source, &origin.saltenv))?;
        let sum = found.as_ref().and_then(|map| Sum::from_value(&map.clone().into()));
        let missing = || format!("Source file {source} not found in saltenv '{}'", origin.saltenv);
        return Ok(sum.map(Some).ok_or_else(missing));
    }
    if !origin.source_hash.truthy() && matches!(scheme, "" | "file") {
        return here(place).map(Ok);
    }
    if origin.skip_verify {
        return Ok(Ok(None));
    }
    if !origin.source_hash.truthy() {
        let trouble = format!(
            "Unable to verify upstream hash of source file {}, please set source_hash or set skip_verify to True",
            redacted(source)
        );
        // With `use_etag` the server decides whether the file has changed, so a sum is not needed.
        return Ok(if origin.web.use_etag { Ok(None) } else { Err(trouble) });
    }
    match source_sum(ctx, &spec.name, origin) {
        Ok(sum) => Ok(Ok(Some(sum))),
        // A wrong hash is a result of the state; other errors are failures of the call.
        Err(error @ Error::Execution(_)) => Ok(Err(format!("Unable to manage file: {error}"))),
        Err(error) => Err(error),
    }
}

/// Fetches the source into the cache; a local path that is known already is kept.
fn into_cache(
    ctx: &Context,
    origin: &Origin,
    source: &str,
    fetched: &mut Fetched,
) -> Result<std::result::Result<(), String>> {
    let cached = crate::fileclient::client(ctx)?.is_cached(source, &origin.saltenv);
    let mut again = false;
    if let Some(cached) = cached.filter(|_| origin.source_hash.truthy() || origin.skip_verify || origin.web.use_etag) {
        let kind = fetched.sum.as_ref().map_or("sha256", |sum| sum.kind.as_str()).to_owned();
        let digits = hash::of_file(&cached, &kind)?;
        // The cached file is good enough, since no check is wanted.
        if origin.skip_verify {
            fetched.place = cached;
            fetched.sum = Some(Sum { kind, digits });
        } else if origin.web.use_etag || fetched.sum.as_ref().is_none_or(|sum| sum.digits != digits) {
            again = true;
        } else {
            fetched.place = cached;
        }
    }
    if !fetched.place.is_empty() && !again {
        return Ok(Ok(()));
    }
    let digits = fetched.sum.as_ref().map(|sum| sum.digits.clone());
    match crate::fileclient::cache_hashed(ctx, source, &origin.saltenv, digits.as_deref(), origin.web) {
        Ok(found) => {
            fetched.place = found.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
            Ok(Ok(()))
        }
        Err(error) => Ok(Err(format!("Failed to cache {}: {error}", redacted(source)))),
    }
}

fn rendered(ctx: &Context, spec: &FileSpec, engine: &str, fetched: Fetched) -> Result<Fetched> {
    let mut context = spec.template.defaults.clone();
    // The context wins over the defaults.
    context.update(spec.template.context.clone());
    let mut known = map! {
        "name" => spec.name.as_str(), "source" => spec.origin.address(), "user" => spec.user.clone(),
        "group" => spec.group.clone(), "mode" => spec.mode.clone(), "attrs" => spec.attrs.clone(),
    };
    // Additional arguments of the state can be used in the template, as in Salt.
    known.update(spec.template.more.clone());
    // As in Salt, a binary file is not a template and is managed as it is.
    if text::is_binary_file(&fetched.place) {
        return Ok(fetched);
    }
    let order = template::RenderArgs { engine, saltenv: &spec.origin.saltenv, context, known };
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

/// Returns what would change in a file, and whether that counts after everything ignored is left out.
pub fn changes(ctx: &Context, spec: &FileSpec, fetched: &Fetched) -> Result<(Map, bool)> {
    let kind = fetched.sum.as_ref().map(|sum| sum.kind.as_str());
    let stats = facts::of(&spec.name, kind.filter(|_| !Path::new(&spec.name).is_dir()), spec.follow_symlinks).ok();
    let mut changes = Map::new();
    // Without the option a new file is reported by its name alone, and nothing is fetched for a difference.
    if stats.is_none() && !spec.new_file_diff {
        changes.insert("newfile", spec.name.as_str());
        return Ok((changes, true));
    }
    let mut counts = false;
    let here = stats.as_ref().and_then(|stats| stats.get_str("sum"));
    if fetched.sum.as_ref().is_some_and(|sum| Some(sum.digits.as_str()) != here) {
        counts = of_source(ctx, spec, fetched, stats.is_some(), &mut changes)?;
    }
    if let Some(contents) = spec.given_contents() {
        // A new file is compared with an empty one.
        let old = if stats.is_some() { diff::content(Path::new(&spec.name)) } else { Ok(Vec::new()) };
        let show = Show { ignore: spec.ignore.clone(), ..Show::default() };
        let text = match old {
            Ok(old) => {
                let found = diff::of_contents(ctx, &old, &contents, &show);
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
        of_metadata(ctx, spec, &stats, &mut changes)?;
    }
    Ok((changes, counts))
}

fn of_source(ctx: &Context, spec: &FileSpec, fetched: &Fetched, exists: bool, changes: &mut Map) -> Result<bool> {
    let mut place = Some(PathBuf::from(&fetched.place)).filter(|place| !place.as_os_str().is_empty());
    if let Some(source) = spec.origin.address().filter(|_| place.is_none()) {
        let digits = fetched.sum.as_ref().map(|sum| sum.digits.as_str());
        // Only now is the content needed: a difference has to be shown.
        place = crate::fileclient::cache_hashed(ctx, source, &spec.origin.saltenv, digits, spec.origin.web)?;
    }
    let Some(place) = place else {
        // There is nothing to show without a source, but the file would change.
        changes.insert("sum", "Checksum differs");
        return Ok(false);
    };
    let show = Show { template: exists, ignore: spec.ignore.clone(), ..Show::default() };
    let old = if exists { diff::content(Path::new(&spec.name)) } else { Ok(Vec::new()) };
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

fn of_metadata(ctx: &Context, spec: &FileSpec, stats: &Map, changes: &mut Map) -> Result<()> {
    for (wanted, name, number) in [(&spec.user, "user", "uid"), (&spec.group, "group", "gid")] {
        if !wanted.is_null() && !is_one(wanted, stats, name, number) {
            changes.insert(name, wanted.clone());
        }
    }
    let mode = normalize_mode(&spec.mode);
    if let Some(mode) = mode.filter(|mode| stats.get_str("mode") != Some(mode)) {
        changes.insert("mode", mode);
    }
    if let Some(wanted) = spec.attrs().filter(|wanted| !wanted.is_empty())
        && attrs::compare(ctx, &spec.name, &wanted)?.is_some_and(|found| !found.is_empty())
    {
        changes.insert("attrs", wanted);
    }
    if spec.selinux.is_wanted() {
        let Some(has) = Selinux::of(ctx, &spec.name)? else {
            return Err(Error::execution("Failed to get selinux attributes"));
        };
        let lacking = spec.selinux.lacking(&has);
        let parts = [("user", lacking.user), ("role", lacking.role), ("type", lacking.kind), ("range", lacking.range)];
        for (name, part) in parts.into_iter().filter_map(|(name, part)| Some((name, part?))) {
            // Each part replaces the one before it, as in Salt, so the last one is reported.
            changes.insert("selinux", map! { name => part });
        }
    }
    Ok(())
}

/// Fetches the content of a managed file, and returns the changes, or why they cannot be determined.
pub fn check(ctx: &Context, spec: &FileSpec) -> Result<std::result::Result<(Map, bool), String>> {
    let mut spec = Cow::Borrowed(spec);
    let mut fetched = Fetched::default();
    if spec.contents.is_null() {
        fetched = fetch(ctx, &spec)?;
        if !fetched.trouble.is_empty() {
            store::clean(&fetched.place);
            return Ok(Err(fetched.trouble));
        }
        // Sums are compared as text.
        fetched.sum = fetched.sum.map(|sum| Sum { digits: sum.digits.to_lowercase(), ..sum });
        if let Some(source) = spec.origin.address().filter(|_| spec.keep_mode && !fetched.place.is_empty())
            && let Some(mode) = kept_mode(ctx, source, &spec.origin.saltenv)
        {
            spec.to_mut().mode = mode;
        }
    }
    let found = changes(ctx, &spec, &fetched);
    store::clean(&fetched.place);
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

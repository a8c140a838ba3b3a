//! The work of `file.managed` once its arguments are parsed.

use std::path::Path;

use exec::{Context, Error, Result};
use modules::file::extract::source_sum;
use modules::file::managed::{self, Fetched};
use modules::file::perms::{self, Report};
use modules::file::spec::{FileSpec, Origin};
use modules::file::{address, hash, manage};
use value::{Map, Value};

use super::check_cmd::{CheckCmd, run_check};
use crate::Ret;
use crate::file::accumulated;
use crate::file::common::start;

/// A file with the wanted content and metadata.
pub struct File {
    pub spec: FileSpec,
    /// Leaves the source in the cache.
    pub keep_source: bool,
}

/// Turns an error into a failed state that reports no changes.
fn failed(ret: &Ret, error: &Error, what: &str) -> Ret {
    Ret { changes: Map::new(), ..ret.clone() }.fail(format!("{what}: {error}"))
}

impl File {
    /// Brings the file into the wanted state, or in test mode reports what would change.
    pub fn apply(mut self, ctx: &Context, ret: Ret, replace: bool, check: &CheckCmd) -> Result<Ret> {
        let mut replace = replace;
        // A shortcut for remote sources: if the file already has the checksum, it need not be downloaded. A template
        // has no checksum, and `skip_verify` means that the checksum is irrelevant.
        if replace
            && self.spec.contents.is_null()
            && self.spec.template.engine.is_none()
            && self.spec.origin.source.truthy()
            && !self.spec.origin.skip_verify
            && Path::new(&self.spec.name).exists()
        {
            match self.is_there(ctx) {
                Ok(there) => replace = !there,
                // Not fatal: the normal path fetches the source and reports the same problem
                // properly.
                Err(error) => {
                    tracing::error!("Failed checking existing file's hash against specified source_hash: {error}");
                }
            }
        }
        if !replace && Path::new(&self.spec.name).exists() {
            return self.only_metadata(ctx, ret);
        }
        // Templates see the texts of `file.accumulated` as the variable `accumulator`.
        if let Some(texts) = accumulated::for_file(ctx, &self.spec.name) {
            self.spec.template.context.insert("accumulator", texts);
        }
        if let Err(error) = self.spec.origin.choose(ctx) {
            return Ok(ret.fail(format!("Unable to manage file: {error}")));
        }
        if ctx.is_test() {
            return self.check(ctx, ret);
        }
        let fetched = match managed::fetch(ctx, &self.spec) {
            Ok(fetched) => fetched,
            Err(error) => return Ok(failed(&ret, &error, "Unable to manage file")),
        };
        let place = fetched.place.clone();
        let done = self.write(ctx, ret, fetched, check);
        // The cached copy goes even if writing failed: `keep_source: False` is desired for secrets.
        if !self.keep_source {
            self.forget_source(ctx, place);
        }
        done
    }

    /// Returns whether the file already has a web server's checksum.
    fn is_there(&mut self, ctx: &Context) -> Result<bool> {
        self.spec.origin.choose(ctx)?;
        let FileSpec { name, origin, .. } = &self.spec;
        let source = origin.source.to_string();
        // A local source is cheap to compare in full, so the shortcut is left to remote ones.
        let local = ["salt", "file"].contains(&address::parse(&source).scheme) || source.starts_with('/');
        if local || !origin.source.truthy() || !origin.source_hash.truthy() {
            return Ok(false);
        }
        let sum = source_sum(ctx, name, origin)?;
        Ok(hash::of_file(name, &sum.kind)? == sum.digits)
    }

    fn only_metadata(&self, ctx: &Context, ret: Ret) -> Result<Ret> {
        let name = &self.spec.name;
        let (report, found) = perms::enforce(ctx, name, Some(ret.into()), &self.spec.perms())?;
        let mut ret = Ret::from(report);
        if ctx.is_test() {
            // Salt's comment considers the mode alone, so a changed owner still reads "not updated" in test mode.
            let now = found.get("lmode").map(Value::to_string).unwrap_or_default();
            ret.comment = match self.spec.mode.as_str().filter(|mode| *mode != now) {
                Some(mode) => {
                    format!("File {name} will be updated with permissions {mode} from its current state of {now}")
                }
                None => format!("File {name} not updated"),
            }
            .into();
        } else if ret.changes.is_empty() && ret.result == Some(true) {
            ret.comment = format!("File {name} exists with proper permissions. No changes made.").into();
        }
        Ok(ret)
    }

    /// Reports what would change.
    fn check(&self, ctx: &Context, mut ret: Ret) -> Result<Ret> {
        let FileSpec { name, show_changes, ignore, .. } = &self.spec;
        let (changes, counts) = match managed::check(ctx, &self.spec)? {
            Ok(found) => found,
            Err(wrong) => return Ok(ret.fail(wrong)),
        };
        ret.changes = changes;
        if ret.changes.is_empty() {
            return Ok(ret.ok(format!("The file {name} is in the correct state")));
        }
        // The key stays, so that requisites see a change; only its text is hidden, since it may
        // hold a secret.
        if ret.changes.contains_key("diff") && !show_changes {
            ret.changes.insert("diff", "<show_changes=False>");
        }
        // The change is still made and reported. `skip_req` only keeps it from triggering `watch`
        // and `onchanges`.
        if ignore.any() && !counts {
            ret.more.insert("skip_req", true);
        }
        Ok(ret.would(format!(
            "The file {name} is set to be changed\nNote: No changes made, actual changes may\nbe different due to \
             other states."
        )))
    }

    fn write(&self, ctx: &Context, ret: Ret, mut fetched: Fetched, check: &CheckCmd) -> Result<Ret> {
        let name = &self.spec.name;
        let mut ret = ret;
        let mut beside = None;
        if check.command.truthy() {
            let trial = check.file()?;
            let place = trial.to_string_lossy().into_owned();
            // The trial starts as a copy of the present file, so that the trial run finds the same
            // changes as the real one would.
            if Path::new(name).is_file()
                && let Err(error) = std::fs::copy(name, &trial)
            {
                return Ok(ret.fail(format!("Unable to copy file {name} to {place}: {error}")));
            }
            let trial_spec = FileSpec { name: place.clone(), ..self.spec.clone() };
            let report: Report = ret.clone().into();
            let tried = match manage::manage(ctx, &trial_spec, fetched.clone(), Some(report)) {
                Ok(tried) => tried,
                Err(error) => return Ok(failed(&ret, &error, "Unable to check_cmd file")),
            };
            // The trial run's report names the temporary file, so it is thrown away.
            ret = start(name);
            if !tried.changes.is_empty() {
                if self.spec.ignore.any() {
                    ret.more.insert("skip_req", true);
                }
                if let Err(refused) = run_check(ctx, &check.command.to_string(), &place)? {
                    return Ok(refused.onto(ret));
                }
                // The checked bytes are the ones installed. Rendering or fetching once more could
                // yield others.
                fetched.place = place;
                beside = Some(trial);
            }
        }
        // Only reported now: with `contents`, a source that cannot be fetched does not matter.
        if !fetched.trouble.is_empty() && self.spec.contents.is_null() {
            return Ok(ret.fail(format!("Unable to manage file: {}", fetched.trouble)));
        }
        let report: Report = ret.clone().into();
        let done = manage::manage(ctx, &self.spec, fetched, Some(report));
        // The trial file must outlive the copy above, which reads from it.
        drop(beside);
        match done {
            Ok(report) => Ok(report.into()),
            Err(error) => Ok(failed(&ret, &error, "Unable to manage file")),
        }
    }

    fn forget_source(&self, ctx: &Context, mut place: String) {
        // An empty place means that the file was already right and nothing was fetched in this run. An older copy may
        // still be in the cache.
        let Origin { source, saltenv, .. } = &self.spec.origin;
        if let Some(source) = source.as_str().filter(|source| place.is_empty() && source.starts_with("salt://")) {
            let cached = modules::fileclient::client(ctx).ok().and_then(|client| client.is_cached(source, saltenv));
            place = cached.unwrap_or_default();
        }
        if !place.is_empty()
            && let Err(error) = std::fs::remove_file(&place)
            // Another state with the same source may have removed it before.
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!("failed to remove {place}: {error}");
        }
    }
}

//! The work of `file.managed` once its arguments are parsed.

use std::path::Path;

use exec::{Context, Error, Result};
use modules::file::address;
use modules::file::diff::Ignore;
use modules::file::extract::{SourceHash, source_sum};
use modules::file::manage::{self, FileSpec};
use modules::file::managed::{self as fetching, DesiredFile, SourceRequest};
use modules::file::perms::{self, DesiredPerms, Report};
use modules::file::selinux::Selinux;
use modules::file::signature::Signature;
use modules::file::{hash, sources};
use modules::fileclient::Web;
use value::{Map, Value};

use super::check_cmd::{CheckCmd, run_check};
use crate::Ret;
use crate::file::accumulated;
use crate::file::common::start;

/// Where the content of a file comes from, and how it is verified.
pub struct Origin {
    pub source: Value,
    pub source_hash: Value,
    pub source_hash_name: Option<String>,
    pub keep_source: bool,
    pub skip_verify: bool,
    pub web: Web,
    pub signature: Signature,
}

/// Who owns a file, and who may do what with it.
pub struct Ownership {
    pub user: Value,
    pub group: Value,
    pub mode: Option<String>,
    /// The mode is that of the source, which is known only after it is fetched.
    pub keep_mode: bool,
    pub attrs: Option<String>,
    pub selinux: Selinux,
}

/// A file with the wanted content and metadata.
pub struct File {
    pub name: String,
    pub origin: Origin,
    pub owner: Ownership,
    pub template: Option<String>,
    pub env: String,
    pub context: Map,
    pub defaults: Option<Map>,
    pub contents: Value,
    pub follow_symlinks: bool,
    pub ignore: Ignore,
    pub new_file_diff: bool,
    pub show_changes: bool,
    pub backup: Value,
    pub makedirs: bool,
    pub dir_mode: Value,
    pub encoding: Option<String>,
    pub encoding_errors: String,
    pub more: Map,
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
            && self.contents.is_null()
            && self.template.is_none()
            && self.origin.source.truthy()
            && !self.origin.skip_verify
            && Path::new(&self.name).exists()
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
        if !replace && Path::new(&self.name).exists() {
            return self.only_metadata(ctx, ret);
        }
        // Templates see the texts of `file.accumulated` as the variable `accumulator`.
        if let Some(texts) = accumulated::for_file(ctx, &self.name) {
            self.context.insert("accumulator", texts);
        }
        match sources::choose(ctx, &self.origin.source, &self.origin.source_hash, &self.env) {
            Ok((source, hash)) => (self.origin.source, self.origin.source_hash) = (source, hash),
            Err(error) => return Ok(ret.fail(format!("Unable to manage file: {error}"))),
        }
        if ctx.is_test() {
            return self.check(ctx, ret);
        }
        let fetched = match fetching::fetch(ctx, &self.source_request()) {
            Ok(fetched) => fetched,
            Err(error) => return Ok(failed(&ret, &error, "Unable to manage file")),
        };
        let order = self.order(&fetched);
        let done = self.write(ctx, ret, order, &fetched.trouble, check);
        // The cached copy goes even if writing failed: `keep_source: False` is desired for secrets.
        if !self.origin.keep_source {
            self.forget_source(ctx, &fetched.place);
        }
        done
    }

    /// Returns whether the file already has a web server's checksum.
    fn is_there(&mut self, ctx: &Context) -> Result<bool> {
        let (source, hash) = sources::choose(ctx, &self.origin.source, &self.origin.source_hash, &self.env)?;
        (self.origin.source, self.origin.source_hash) = (source, hash);
        let source = self.origin.source.to_string();
        // A local source is cheap to compare in full, so the shortcut is left to remote ones.
        let local = ["salt", "file"].contains(&address::parse(&source).scheme) || source.starts_with('/');
        if local || !self.origin.source.truthy() || !self.origin.source_hash.truthy() {
            return Ok(false);
        }
        let asked = SourceHash {
            file_name: &self.name,
            source: &source,
            hash: &self.origin.source_hash,
            name: self.origin.source_hash_name.as_deref(),
            saltenv: &self.env,
            signature: &self.origin.signature,
            web: self.origin.web,
        };
        let sum = source_sum(ctx, &asked)?;
        Ok(hash::of_file(&self.name, &sum.kind)? == sum.digits)
    }

    fn desired_perms(&self) -> DesiredPerms {
        DesiredPerms {
            user: self.owner.user.clone(),
            group: self.owner.group.clone(),
            mode: self.owner.mode.clone(),
            attrs: self.owner.attrs.clone(),
            follow_symlinks: self.follow_symlinks,
            selinux: self.owner.selinux.clone(),
        }
    }

    fn only_metadata(&self, ctx: &Context, ret: Ret) -> Result<Ret> {
        let name = &self.name;
        let (report, found) = perms::enforce(ctx, name, Some(ret.into()), &self.desired_perms())?;
        let mut ret = Ret::from(report);
        if ctx.is_test() {
            // Salt's comment considers the mode alone, so a changed owner still reads "not updated" in test mode.
            let now = found.get("lmode").map(Value::to_string).unwrap_or_default();
            ret.comment = match self.owner.mode.as_ref().filter(|mode| **mode != now) {
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

    fn source_request(&self) -> SourceRequest {
        SourceRequest {
            name: self.name.clone(),
            template: self.template.clone(),
            source: self.origin.source.as_str().map(str::to_owned),
            source_hash: self.origin.source_hash.clone(),
            source_hash_name: self.origin.source_hash_name.clone(),
            user: self.owner.user.clone(),
            group: self.owner.group.clone(),
            mode: self.owner.mode.clone().into(),
            attrs: self.owner.attrs.clone().into(),
            saltenv: self.env.clone(),
            context: Some(self.context.clone()),
            defaults: self.defaults.clone(),
            skip_verify: self.origin.skip_verify,
            web: self.origin.web,
            signature: self.origin.signature.clone(),
            more: self.more.clone(),
        }
    }

    /// Reports what would change.
    fn check(&self, ctx: &Context, mut ret: Ret) -> Result<Ret> {
        let name = &self.name;
        let desired = DesiredFile {
            name: name.clone(),
            user: self.owner.user.clone(),
            group: self.owner.group.clone(),
            mode: self.owner.mode.clone().into(),
            attrs: self.owner.attrs.clone(),
            contents: fetching::given_contents(&self.contents),
            selinux: self.owner.selinux.clone(),
            follow_symlinks: self.follow_symlinks,
            ignore: self.ignore.clone(),
            new_file_diff: self.new_file_diff,
            web: self.origin.web,
            ..DesiredFile::default()
        };
        let (changes, counts) = match fetching::check(ctx, &self.source_request(), desired, self.owner.keep_mode)? {
            Ok(found) => found,
            Err(wrong) => return Ok(ret.fail(wrong)),
        };
        ret.changes = changes;
        if ret.changes.is_empty() {
            return Ok(ret.ok(format!("The file {name} is in the correct state")));
        }
        // The key stays, so that requisites see a change; only its text is hidden, since it may
        // hold a secret.
        if ret.changes.contains_key("diff") && !self.show_changes {
            ret.changes.insert("diff", "<show_changes=False>");
        }
        // The change is still made and reported. `skip_req` only keeps it from triggering `watch`
        // and `onchanges`.
        if self.ignore.any() && !counts {
            ret.more.insert("skip_req", true);
        }
        Ok(ret.would(format!(
            "The file {name} is set to be changed\nNote: No changes made, actual changes may\nbe different due to \
             other states."
        )))
    }

    fn order(&self, fetched: &fetching::Fetched) -> FileSpec {
        FileSpec {
            name: self.name.clone(),
            place: fetched.place.clone(),
            source: self.origin.source.as_str().filter(|source| !source.is_empty()).map(str::to_owned),
            sum: fetched.sum.clone(),
            user: self.owner.user.clone(),
            group: self.owner.group.clone(),
            mode: self.owner.mode.clone().into(),
            attrs: self.owner.attrs.clone(),
            saltenv: self.env.clone(),
            backup: self.backup.clone(),
            makedirs: self.makedirs,
            show_changes: self.show_changes,
            contents: self.contents.clone(),
            dir_mode: self.dir_mode.clone(),
            follow_symlinks: self.follow_symlinks,
            skip_verify: self.origin.skip_verify,
            keep_mode: self.owner.keep_mode,
            encoding: self.encoding.clone(),
            encoding_errors: self.encoding_errors.clone(),
            selinux: self.owner.selinux.clone(),
            web: self.origin.web,
            signature: self.origin.signature.clone(),
            ignore: self.ignore.clone(),
            new_file_diff: self.new_file_diff,
        }
    }

    fn write(&self, ctx: &Context, ret: Ret, mut order: FileSpec, trouble: &str, check: &CheckCmd) -> Result<Ret> {
        let mut ret = ret;
        let mut beside = None;
        if check.command.truthy() {
            let trial = check.file()?;
            let place = trial.to_string_lossy().into_owned();
            // The trial starts as a copy of the present file, so that the trial run finds the same
            // changes as the real one would.
            if Path::new(&self.name).is_file()
                && let Err(error) = std::fs::copy(&self.name, &trial)
            {
                return Ok(ret.fail(format!("Unable to copy file {} to {place}: {error}", self.name)));
            }
            let trial_order = FileSpec { name: place.clone(), ..order.clone() };
            let report: Report = ret.clone().into();
            let tried = match manage::manage(ctx, trial_order, Some(report)) {
                Ok(tried) => tried,
                Err(error) => return Ok(failed(&ret, &error, "Unable to check_cmd file")),
            };
            // The trial run's report names the temporary file, so it is thrown away.
            ret = start(&self.name);
            if !tried.changes.is_empty() {
                if self.ignore.any() {
                    ret.more.insert("skip_req", true);
                }
                if let Err(refused) = run_check(ctx, &check.command.to_string(), &place)? {
                    return Ok(refused.onto(ret));
                }
                // The checked bytes are the ones installed. Rendering or fetching once more could
                // yield others.
                order.place = place;
                beside = Some(trial);
            }
        }
        // Only reported now: with `contents`, a source that cannot be fetched does not matter.
        if !trouble.is_empty() && self.contents.is_null() {
            return Ok(ret.fail(format!("Unable to manage file: {trouble}")));
        }
        let report: Report = ret.clone().into();
        let done = manage::manage(ctx, order, Some(report));
        // The trial file must outlive the copy above, which reads from it.
        drop(beside);
        match done {
            Ok(report) => Ok(report.into()),
            Err(error) => Ok(failed(&ret, &error, "Unable to manage file")),
        }
    }

    fn forget_source(&self, ctx: &Context, place: &str) {
        // An empty place means that the file was already right and nothing was fetched in this run. An older copy may
        // still be in the cache.
        let mut place = place.to_owned();
        if let Some(source) =
            self.origin.source.as_str().filter(|source| place.is_empty() && source.starts_with("salt://"))
        {
            let cached = modules::fileclient::client(ctx).ok().and_then(|client| client.is_cached(source, &self.env));
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

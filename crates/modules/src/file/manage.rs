//! Making a file what it should be.

use std::path::Path;

use exec::{Context, KwArgs, Result, function};
use value::{Map, Value};

use super::diff::{self, Ignore, Show};
use super::encode::Encoding;
use super::extract::Sum;
use super::managed::{self, Fetched};
use super::perms::{self, DesiredPerms, Report, normalize_mode};
use super::selinux::Selinux;
use super::signature::Signature;
use super::spec::{FileSpec, Origin, TemplateSpec, text};
use super::store::{self, Content, Keep};
use super::{address, content, hash, paths, sources, tree};
use crate::fileclient::Web;

/// The report of a run that ended early.
type Stop = Box<Report>;

/// Brings a file into the wanted state, or in test mode reports what would change.
pub fn manage(ctx: &Context, spec: &FileSpec, fetched: Fetched, report: Option<Report>) -> Result<Report> {
    let name = paths::expand_user(&spec.name);
    let report = report.unwrap_or_else(|| Report::new(name.as_str()));
    let mut work = Work { ctx, spec, name, mode: spec.mode.clone(), fetched, report, counts: false };
    match work.run()? {
        Ok(()) => Ok(work.report),
        Err(stopped) => Ok(*stopped),
    }
}

struct Work<'a> {
    ctx: &'a Context,
    spec: &'a FileSpec,
    /// The path, with the home directory in place of `~`.
    name: String,
    /// Permissions: those of the spec, of the source, or of any new file.
    mode: Value,
    fetched: Fetched,
    report: Report,
    /// Set when the difference counts, after everything ignored is left out.
    counts: bool,
}

impl Work<'_> {
    fn stop(&self, comment: impl Into<Value>) -> Stop {
        Box::new(self.report.clone().failed(comment))
    }

    fn run(&mut self) -> Result<std::result::Result<(), Stop>> {
        if let Some(sum) = &mut self.fetched.sum {
            // People paste checksums in capitals; ours are compared as text.
            sum.digits = sum.digits.to_lowercase();
        }
        if let Some(source) = self.spec.origin.address() {
            if let Err(stop) = self.fetch(source)? {
                return Ok(Err(stop));
            }
            // The mode of the source replaces the one of the state, as in Salt.
            if self.spec.keep_mode
                && let Some(kept) = managed::kept_mode(self.ctx, source, &self.spec.origin.saltenv)
            {
                self.mode = kept;
            }
        }
        let place = Path::new(&self.name);
        // A link that leads nowhere counts as present, as in Salt.
        let done = if place.is_file() || place.is_symlink() { self.change()? } else { self.make()? };
        // A rendered template is a temporary file and may hold secrets; a file of the cache stays.
        store::clean(&self.fetched.place);
        Ok(done)
    }

    /// Fetches the source, unless it is local already.
    fn fetch(&mut self, source: &str) -> Result<std::result::Result<(), Stop>> {
        if !self.fetched.place.is_empty() {
            return Ok(Ok(()));
        }
        let found =
            crate::fileclient::cache_hashed(self.ctx, source, &self.spec.origin.saltenv, None, self.spec.origin.web)?;
        let Some(found) = found else { return Ok(Err(self.stop(format!("Source file '{source}' not found")))) };
        self.fetched.place = found.to_string_lossy().into_owned();
        let default = self.ctx.opt_str("hash_type").unwrap_or("sha256").to_owned();
        let kind = self.fetched.sum.as_ref().map_or(default, |sum| sum.kind.clone());
        let digits = hash::of_file(&self.fetched.place, &kind)?;
        self.fetched.sum = Some(Sum { kind, digits });
        Ok(Ok(()))
    }

    /// Returns the given content as bytes.
    fn contents(&self) -> Result<Option<Vec<u8>>> {
        match (&self.spec.contents, &self.spec.encoding) {
            (Value::Str(text), Some(name)) => Encoding::named(name)?.encode(text, &self.spec.encoding_errors).map(Some),
            _ => Ok(self.spec.given_contents()),
        }
    }

    /// Checks the checksum and the signature of the fetched content.
    fn verify(&self, about: &str, hint: bool) -> Result<std::result::Result<(), Stop>> {
        let origin = &self.spec.origin;
        // A file from the master was compared with its own checksum when it was fetched.
        let foreign = origin.address().is_some_and(|source| address::parse(source).scheme != "salt");
        if let Some(sum) = self.fetched.sum.as_ref().filter(|_| foreign && !origin.skip_verify && !origin.web.use_etag)
        {
            let actual = hash::of_file(&self.fetched.place, &sum.kind)?;
            if actual != sum.digits {
                let hint = if hint {
                    ". If the 'source_hash' value refers to a remote file with multiple possible matches, then it may \
                     be necessary to set 'source_hash_name'."
                } else {
                    ""
                };
                return Ok(Err(self.stop(format!(
                    "Specified {} checksum for {about} ({}) does not match actual checksum ({actual}){hint}",
                    sum.kind, sum.digits
                ))));
            }
        }
        match origin.signature.check_file(self.ctx, Path::new(&self.fetched.place), &origin.saltenv) {
            Ok(()) => Ok(Ok(())),
            Err(error) => Ok(Err(self.stop(format!("Failed checking new file's signature: {error}")))),
        }
    }

    fn show(&self, hidden: bool, template: bool) -> Show {
        Show { names: None, hidden, template, ignore: self.spec.ignore.clone() }
    }

    fn keep(&self) -> Keep {
        Keep::of(self.ctx, &self.spec.backup)
    }

    fn commit(&self, content: Content<'_>, dest: &str) -> Result<std::result::Result<(), Stop>> {
        let done = store::commit(self.ctx, content, Path::new(dest), &self.keep())?;
        Ok(done.map_err(|error| {
            store::clean(&self.fetched.place);
            self.stop(format!("Failed to commit change: {error}"))
        }))
    }

    /// Changes an existing file.
    fn change(&mut self) -> Result<std::result::Result<(), Stop>> {
        let real = store::behind(&self.name, self.spec.follow_symlinks);
        let unfollowed = !self.spec.follow_symlinks && Path::new(&real).is_symlink();
        if self.spec.origin.address().is_some()
            && let Err(stop) = self.change_from_source(&real, unfollowed)?
        {
            return Ok(Err(stop));
        }
        if let Some(contents) = self.contents()?
            && let Err(stop) = self.change_from_contents(&real, &contents)?
        {
            return Ok(Err(stop));
        }
        if Path::new(&self.name).is_symlink()
            && !self.spec.follow_symlinks
            && let Err(stop) = self.replace_link()?
        {
            return Ok(Err(stop));
        }
        self.apply(self.spec.follow_symlinks)?;
        let name = self.name.clone();
        if !self.report.changes.is_empty() {
            self.report.comment = format!("File {name} updated").into();
            if self.spec.ignore.any() && !self.counts {
                self.report.more.insert("skip_req", true);
            }
        } else if self.report.result == Some(true) {
            self.report.comment = format!("File {name} is in the correct state").into();
        }
        Ok(Ok(()))
    }

    fn change_from_source(&mut self, real: &str, unfollowed: bool) -> Result<std::result::Result<(), Stop>> {
        let kind = self.fetched.sum.as_ref().map_or("sha256", |sum| sum.kind.as_str());
        // A link that is to become a file differs in any case, whatever its target holds.
        let here = if unfollowed { None } else { Some(hash::of_file(real, kind)?) };
        if here.is_some() && here.as_deref() == self.fetched.sum.as_ref().map(|sum| sum.digits.as_str()) {
            return Ok(Ok(()));
        }
        let source = self.spec.origin.address().unwrap_or_default();
        if let Err(stop) = self.verify(source, true)? {
            return Ok(Err(stop));
        }
        if diff::is_obfuscated(self.ctx) {
            self.report.changes.insert("diff", "<Obfuscated Template>");
        } else if !self.spec.show_changes {
            self.report.changes.insert("diff", "<show_changes=False>");
        } else {
            match diff::of_files(self.ctx, Path::new(real), Path::new(&self.fetched.place), &self.show(false, false)) {
                Ok(found) => {
                    self.counts |= found.counts;
                    if !found.text.is_empty() {
                        self.report.changes.insert("diff", found.text);
                    }
                }
                // As in Salt, the reason takes the place of the difference, and the function continues.
                Err(error) => drop(self.report.changes.insert("diff", error.to_string())),
            }
        }
        self.commit(Content::Of(Path::new(&self.fetched.place)), real)
    }

    fn change_from_contents(&mut self, real: &str, contents: &[u8]) -> Result<std::result::Result<(), Stop>> {
        let text = match diff::content(Path::new(real)) {
            Ok(old) => {
                let found = diff::of_contents(self.ctx, &old, contents, &self.show(!self.spec.show_changes, true));
                self.counts |= found.counts;
                found.text
            }
            Err(error) => {
                self.report.warn(format!("Failed to detect changes to file: {error}"));
                String::new()
            }
        };
        // No difference means equal contents. A hidden one is still represented by a text.
        if text.is_empty() {
            return Ok(Ok(()));
        }
        self.report.changes.insert("diff", text);
        self.commit(Content::Bytes(contents), real)
    }

    /// Replaces a link that is not to be followed by a file.
    fn replace_link(&mut self) -> Result<std::result::Result<(), Stop>> {
        let name = self.name.clone();
        if self.fetched.place.is_empty() {
            let missing = self.spec.origin.address().unwrap_or("None");
            return Ok(Err(self.stop(format!("Source file '{missing}' not found"))));
        }
        if let Err(stop) = self.verify(&name, false)? {
            return Ok(Err(stop));
        }
        if let Err(stop) = self.commit(Content::Of(Path::new(&self.fetched.place)), &name)? {
            return Ok(Err(stop));
        }
        self.report.changes.insert("diff", "Replace symbolic link with regular file");
        Ok(Ok(()))
    }

    fn apply(&mut self, follow_symlinks: bool) -> Result<()> {
        let wanted = DesiredPerms { mode: normalize_mode(&self.mode), follow_symlinks, ..self.spec.perms() };
        let report = self.report.clone();
        self.report = perms::enforce(self.ctx, &self.name, Some(report), &wanted)?.0;
        Ok(())
    }

    /// Creates a new file.
    fn make(&mut self) -> Result<std::result::Result<(), Stop>> {
        let name = self.name.clone();
        let contents = self.contents()?;
        if self.spec.origin.address().is_some() {
            if let Err(stop) = self.verify(&name, false)? {
                return Ok(Err(stop));
            }
            self.report.changes.insert("diff", "New file");
            if self.spec.new_file_diff {
                let new = diff::content(Path::new(&self.fetched.place))?;
                let found = diff::of_contents(self.ctx, b"", &new, &Show::default());
                self.report.changes.insert("diff", found.text);
            }
        }
        if !Path::new(paths::split(&name).0).is_dir() {
            if !self.spec.makedirs {
                // Nothing was made, so no change may be reported.
                self.report.changes.remove("diff");
                store::clean(&self.fetched.place);
                return Ok(Err(self.stop("Parent directory not present")));
            }
            self.make_directories(&name)?;
        }
        // The file is created empty first, so that a state without contents has something to set a mode on.
        if self.spec.origin.address().is_none() && !self.ctx.is_test() {
            self.touch(&name, contents.is_some())?;
        }
        if let Some(contents) = &contents {
            if self.spec.new_file_diff && self.report.changes.get_str("diff") == Some("New file") {
                let found = diff::of_contents(self.ctx, b"", contents, &Show::default());
                self.report.changes.insert("diff", found.text);
            }
            if let Err(stop) = self.commit(Content::Bytes(contents), &name)? {
                return Ok(Err(stop));
            }
        } else if !self.fetched.place.is_empty()
            && let Err(stop) = self.commit(Content::Of(Path::new(&self.fetched.place)), &name)?
        {
            return Ok(Err(stop));
        }
        if self.mode.is_null() {
            // The temporary file was made for its owner alone; a new file gets what any program would give it.
            self.mode = format!("{:04o}", 0o666 & !current_umask()).into();
        }
        self.apply(false)?;
        self.say_made(&name);
        Ok(Ok(()))
    }

    fn say_made(&mut self, name: &str) {
        if !self.report.comment.truthy() {
            self.report.comment = format!("File {name} updated").into();
        }
        // This text replaces the one above, as in Salt.
        if self.ctx.is_test() {
            self.report.comment = format!("File {name} not updated").into();
        } else if self.report.changes.is_empty() && self.report.result == Some(true) {
            self.report.comment = format!("File {name} is in the correct state").into();
        }
        if self.spec.ignore.any() && !self.report.changes.is_empty() && !self.counts {
            self.report.more.insert("skip_req", true);
        }
    }

    fn touch(&mut self, name: &str, filled: bool) -> Result<()> {
        // A file that will hold a secret is never readable for others.
        if self.mode.truthy() {
            use std::os::unix::fs::OpenOptionsExt;
            let opened = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(name);
            opened.map_err(|error| super::os_error(&error, name))?;
        }
        content::touched(name, None, None)?;
        if filled {
            self.report.changes.insert("diff", "New file");
        } else {
            self.report.changes.insert("new", format!("file {name} created"));
            self.report.comment = "Empty file".into();
        }
        Ok(())
    }

    fn make_directories(&self, name: &str) -> Result<()> {
        let mode = directory_mode(&self.spec.dir_mode, &self.mode);
        tree::make_parents(name, &self.spec.user, &self.spec.group, &mode)
    }
}

/// Returns the permissions of created directories: those given, or the file's with the execute bit for everybody who
/// may access it.
pub fn directory_mode(dir_mode: &Value, mode: &Value) -> Value {
    if !dir_mode.is_null() || mode.is_null() {
        return dir_mode.clone();
    }
    let text = mode.to_string();
    let digits: Vec<char> = text.chars().collect();
    // Set-user and sticky bits are not for directories on the way.
    let last = &digits[digits.len().saturating_sub(3)..];
    let opened = last.iter().map(|digit| match digit.to_digit(8) {
        Some(0) | None => *digit,
        // Users who may read the file must be able to enter the directory.
        Some(bits) => char::from_digit(bits | 1, 8).unwrap_or(*digit),
    });
    opened.collect::<String>().into()
}

/// The permissions that this thread takes from new files.
pub fn current_umask() -> u32 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

/// Brings a file into the given state and returns the changes. Meant for states.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.manage_file /etc/httpd/conf.d/httpd.conf '' '{}' salt://http/httpd.conf '{hash_type: 'md5', 'hsum': <md5sum>}' root root '755' '' base ''
#[function]
pub fn manage_file(
    ctx: &Context,
    name: String,
    sfn: Value,
    ret: Value,
    source: Value,
    source_sum: Value,
    user: Value,
    group: Value,
    mode: Value,
    attrs: Value,
    saltenv: Value,
    backup: Value,
    #[default(false)] makedirs: bool,
    #[default(Value::Null)] template: Value,
    #[default(true)] show_changes: bool,
    #[default(Value::Null)] contents: Value,
    #[default(Value::Null)] dir_mode: Value,
    #[default(true)] follow_symlinks: bool,
    #[default(false)] skip_verify: bool,
    #[default(false)] keep_mode: bool,
    encoding: Option<String>,
    #[default("strict")] encoding_errors: String,
    seuser: Option<String>,
    serole: Option<String>,
    setype: Option<String>,
    serange: Option<String>,
    #[default(true)] verify_ssl: bool,
    #[default(false)] use_etag: bool,
    #[default(Value::Null)] signature: Value,
    #[default(Value::Null)] source_hash_sig: Value,
    #[default(Value::Null)] signed_by_any: Value,
    #[default(Value::Null)] signed_by_all: Value,
    #[default(Value::Null)] keyring: Value,
    #[default(Value::Null)] gnupghome: Value,
    #[default(false)] ignore_ordering: bool,
    #[default(false)] ignore_whitespace: bool,
    #[default(Value::Null)] ignore_comment_characters: Value,
    #[default(false)] new_file_diff: bool,
    #[default("gpg")] sig_backend: String,
    kwargs: KwArgs,
) -> Result<Map> {
    // The content was rendered before; Salt takes these arguments for the sake of its callers.
    let _ = (template, kwargs);
    let signature =
        Signature { signature, source_hash_sig, signed_by_any, signed_by_all, keyring, gnupghome, sig_backend };
    let origin = Origin {
        skip_verify,
        web: Web { verify_ssl, use_etag },
        signature,
        ..Origin::read(&source, Value::Null, &Value::Null, sources::environment(&saltenv))
    };
    let spec = FileSpec {
        name,
        origin,
        template: TemplateSpec::default(),
        contents,
        encoding,
        encoding_errors,
        user,
        group,
        mode,
        keep_mode,
        attrs: text(&attrs).into(),
        selinux: Selinux { user: seuser, role: serole, kind: setype, range: serange },
        follow_symlinks,
        backup,
        makedirs,
        dir_mode,
        show_changes,
        ignore: Ignore::of(ignore_ordering, ignore_whitespace, &ignore_comment_characters),
        new_file_diff,
    };
    let fetched =
        Fetched { place: text(&sfn).unwrap_or_default(), sum: Sum::from_value(&source_sum), trouble: String::new() };
    let report = ret.into_map().filter(|map| !map.is_empty()).map(Report::from_map);
    manage(ctx, &spec, fetched, report).map(Map::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_let_in_whom_the_file_lets_read() {
        let mode = |mode: &str| directory_mode(&Value::Null, &mode.into()).to_string();
        assert_eq!(mode("0640"), "750");
        assert_eq!(mode("0644"), "755");
        assert_eq!(directory_mode(&"0700".into(), &"0644".into()), "0700".into());
        assert_eq!(directory_mode(&Value::Null, &Value::Null), Value::Null);
    }
}

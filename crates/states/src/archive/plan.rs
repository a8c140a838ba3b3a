//! The plan: what to unpack, how and where; arguments that make no sense.

use std::path::Path;

use exec::{Context, Error, Result};
use modules::git::redacted;
use regex::Regex;
use value::{Map, Value, list, map};

use super::{ExtractArgs, Step, sums};
use crate::Ret;
use crate::support::{call_with_kwargs, saltenv};

/// An archive that was found and looked into.
pub(super) struct Plan<'a> {
    pub ctx: &'a Context,
    pub given: ExtractArgs,
    pub ret: Ret,
    /// The directory, with a slash at its end.
    pub dir: String,
    /// The address of the archive.
    pub source: String,
    /// True if it is on this machine.
    pub local: bool,
    /// The archive on this machine.
    pub cached: String,
    pub format: String,
    /// The owner of the files. None leaves them to the unpacking user.
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// True if the program unzip is used.
    pub by_program: bool,
    /// The maximum number of files that are listed.
    pub trim: Option<i64>,
    pub keep_source: bool,
    /// The wanted hash.
    pub sum: Map,
    /// The hash the archive had when it was last unpacked.
    pub old_sum: Option<Map>,
    /// The content of the archive.
    pub contents: Map,
}

const FORMATS: [&str; 3] = ["tar", "rar", "zip"];

fn warn(ret: &mut Ret, text: &str) {
    if let Value::List(warnings) = ret.more.entry_or_insert_with("warnings", || Value::List(Vec::new())) {
        warnings.push(text.into());
    }
}

fn is_absolute(path: Option<&Value>) -> bool {
    path.is_none_or(|path| path.as_str().is_some_and(|path| path.starts_with('/')))
}

impl<'a> Plan<'a> {
    /// Checks the arguments in the order Salt checks them, and finds the archive.
    pub fn make(ctx: &'a Context, name: Value, mut given: ExtractArgs) -> Step<Plan<'a>> {
        let mut ret = Ret::new(name.clone());
        // Each option trusts what the other one leaves to be checked.
        if given.skip_files_list_verify && given.skip_verify {
            let text = r#"Only one of "skip_files_list_verify" and "skip_verify" can be set to True"#;
            return Ok(Err(ret.fail(text)));
        }
        let keep_source = keep_source(&mut ret, &mut given.rest);
        let dir = match directory(&name) {
            Ok(dir) => dir,
            Err(text) => return Ok(Err(ret.fail(text))),
        };
        if let Some(end) = check_paths(&given, &dir) {
            let (done, text) = end;
            return Ok(Err(if done { ret.ok(text) } else { ret.fail(text) }));
        }
        let (uid, gid) = match owners(&given) {
            Ok(owners) => owners,
            Err(text) => return Ok(Err(ret.fail(text))),
        };
        if given.source_hash_update && !given.source_hash.truthy() {
            warn(&mut ret, "The 'source_hash_update' argument is ignored when 'source_hash' is not also specified.");
        }
        // Reported like a missing module in Salt, and before anything is fetched.
        if given.signatures {
            let backend = &given.sig_backend;
            let text = format!("Cannot verify signatures because the {backend} module was not loaded");
            return Ok(Err(ret.fail(text)));
        }
        let (source, local) = match find_source(ctx, &given)? {
            Ok(found) => found,
            Err(text) => return Ok(Err(ret.fail(text))),
        };
        let format = match format_of(&given, &source) {
            Ok(format) => format,
            Err(text) => return Ok(Err(ret.fail(text))),
        };
        let by_program = match check_options(&given, &format, &mut ret) {
            Ok(by_program) => by_program,
            Err(text) => return Ok(Err(ret.fail(text))),
        };
        let trim = match &given.trim_output {
            // Salt's default number of lines.
            Value::Bool(true) => Some(100),
            other if other.truthy() => other.as_i64().or_else(|| other.as_str()?.parse().ok()),
            _ => None,
        };
        let (cached, contents, sum, old_sum) = (source.clone(), Map::new(), Map::new(), None);
        let mut plan = Plan {
            ctx,
            given,
            ret,
            dir,
            source,
            local,
            cached,
            format,
            uid,
            gid,
            by_program,
            trim,
            keep_source,
            sum,
            old_sum,
            contents,
        };
        if let Some(ret) = plan.fetch()? {
            return Ok(Err(ret));
        }
        if let Some(ret) = plan.look_inside()? {
            return Ok(Err(ret));
        }
        Ok(Ok(plan))
    }

    /// The source as it may be shown.
    pub fn redacted_source(&self) -> String {
        redacted(&self.source)
    }

    pub fn fail(&self, text: impl Into<Value>) -> Ret {
        self.ret.clone().fail(text)
    }

    /// Fetches the archive, unless it is local.
    fn fetch(&mut self) -> Result<Option<Ret>> {
        if self.given.source_hash.truthy() {
            let arguments = map! {
                "source" => self.source.clone(), "source_hash" => self.given.source_hash.clone(),
                "source_hash_name" => self.given.source_hash_name.clone(), "saltenv" => saltenv(self.ctx),
            };
            match call_with_kwargs(self.ctx, "file.get_source_sum", arguments) {
                Ok(sum) => self.sum = sum.into_map().unwrap_or_default(),
                Err(error @ Error::Execution(_)) => return Ok(Some(self.fail(error.to_string()))),
                Err(error) => return Err(error),
            }
        }
        if self.given.skip_files_list_verify {
            // The stored hash belongs to the last unpacking, so an equal one means that nothing has
            // to be listed or compared.
            let known = if self.local { Some(self.source.clone()) } else { self.is_cached()? };
            let old = known.and_then(|path| sums::read(self.ctx, &path, None));
            if let (Some(old), Some(wanted)) = (old.as_ref().and_then(|old| old.get("hsum")), self.sum.get("hsum"))
                && old == wanted
            {
                let text = format!(
                    "Archive {} existing source sum is the same as the expected one and skip_files_list_verify argument \
                     was set to True. Extraction is not needed",
                    self.redacted_source()
                );
                let ret = self.ret.clone();
                return Ok(Some(if self.ctx.is_test() { ret.would(text) } else { ret.ok(text) }));
            }
        }
        if self.local {
            return Ok(None);
        }
        // The content of the archive is not known without downloading it, so test mode ends here for a remote one.
        if self.ctx.is_test() {
            let text = format!(
                "Archive {} would be cached (if necessary) and checked to discover if extraction is needed",
                self.redacted_source()
            );
            return Ok(Some(self.ret.clone().would(text)));
        }
        let kwargs = map! {
            "source_hash" => self.given.source_hash.clone(), "source_hash_name" => self.given.source_hash_name.clone(),
            "skip_verify" => self.given.skip_verify, "saltenv" => saltenv(self.ctx), "use_etag" => self.given.use_etag,
        };
        let call = exec::Call { args: vec![self.source.as_str().into()], kwargs };
        match self.ctx.call_state("file.cached", call) {
            Ok(done) if done.get("result") == Some(&Value::Bool(true)) => {}
            // The result of `file.cached` becomes the result of this state, text and all.
            Ok(refused) => return Ok(Some(Ret::from_value(refused))),
            Err(error) => return Ok(Some(self.fail(format!("Failed to cache {}: {error}", self.redacted_source())))),
        }
        match self.is_cached()? {
            Some(path) => self.cached = path,
            None => return Ok(Some(self.fail(format!("Failed to cache {}", self.redacted_source())))),
        }
        Ok(None)
    }

    fn is_cached(&self) -> Result<Option<String>> {
        let arguments = map! { "path" => self.source.clone(), "saltenv" => saltenv(self.ctx) };
        let path = call_with_kwargs(self.ctx, "cp.is_cached", arguments)?;
        Ok(path.as_str().filter(|path| !path.is_empty()).map(str::to_owned))
    }

    /// Lists the archive and checks its content.
    fn look_inside(&mut self) -> Result<Option<Ret>> {
        // Read before it is overwritten, for the comparison later.
        self.old_sum = sums::read(self.ctx, &self.cached, None);
        if self.given.source_hash.truthy() && self.given.source_hash_update && !self.given.skip_verify {
            sums::update(self.ctx, &self.cached)?;
        }
        // An encrypted archive can be listed but not unpacked, so it would fail half way.
        if self.format == "zip" && self.given.password.is_none() {
            let arguments = map! { "name" => self.cached.clone(), "saltenv" => saltenv(self.ctx) };
            if let Ok(Value::Bool(true)) = call_with_kwargs(self.ctx, "archive.is_encrypted", arguments) {
                return Ok(Some(self.fail(format!(
                    "Archive {} is password-protected, but no password was specified. Please set the 'password' argument.",
                    self.redacted_source()
                ))));
            }
        }
        let arguments = map! {
            "name" => self.cached.clone(), "archive_format" => self.format.clone(),
            // The listing must show the paths as they will be after unpacking.
            "options" => self.given.list_options.clone(), "strip_components" => self.strip_components(),
            "verbose" => true, "use_etag" => self.given.use_etag,
        };
        match call_with_kwargs(self.ctx, "archive.list", arguments) {
            Ok(contents) => self.contents = contents.into_map().unwrap_or_default(),
            Err(error @ Error::Execution(_)) => return Ok(Some(self.fail(self.unlistable(&error)))),
            Err(error) => return Err(error),
        }
        let count = |key: &str| self.paths(key).len();
        // An archive without a single directory at its top would spill its files over the target.
        if self.given.enforce_toplevel && (count("top_level_dirs") > 1 || count("top_level_files") > 0) {
            let (format, dir) = (&self.format, &self.dir);
            return Ok(Some(self.fail(format!(
                "Archive does not have a single top-level directory. To allow this archive to be extracted, set \
                 'enforce_toplevel' to False. To avoid a '{format}-bomb' it may also be advisable to set a top-level \
                 directory by adding it to the 'name' value (for example, setting 'name' to {dir}some_dir instead of {dir})."
            ))));
        }
        if self.given.clean && self.given.clean_parent {
            return Ok(Some(self.fail("Only one of 'clean' and 'clean_parent' can be set to True")));
        }
        Ok(None)
    }

    /// The paths of a kind.
    pub fn paths(&self, key: &str) -> Vec<String> {
        let list = self.contents.get(key).and_then(Value::as_list).unwrap_or_default();
        list.iter().map(Value::to_string).collect()
    }

    fn strip_components(&self) -> Option<i64> {
        let options = self.given.options.as_deref().filter(|_| self.format == "tar")?;
        let pattern =
            // tar also accepts the short form `--strip`, and the shell's quotes may still be present.
            Regex::new(r#"--strip(?:-components)?(?:\s+|=)["']?(\d+)["']?"#).expect("the pattern is constant");
        pattern.captures(options)?[1].parse().ok()
    }

    /// The comment for an archive that cannot be listed, with the arguments that would make it
    /// work.
    fn unlistable(&self, error: &Error) -> String {
        let mut errors = Vec::new();
        if self.given.if_missing.as_ref().is_none_or(|path| !path.truthy()) {
            errors.push("'if_missing' must be set");
        }
        let owned = self.given.user.truthy() || self.given.group.truthy();
        if self.given.enforce_ownership_on.is_none() && owned {
            errors.push("Ownership cannot be managed without setting 'enforce_ownership_on'.");
        }
        let mut text = error.to_string();
        if !errors.is_empty() {
            text.push_str("\n\n");
            text.push_str(match self.format.as_str() {
                "tar" => {
                    "If the source archive is a tar archive compressed using a compression type not natively supported by \
                     the tar command, then setting the 'list_options' argument may allow the contents to be listed. \
                     Otherwise, if Salt is unable to determine the files/directories in the archive, the following \
                     workaround(s) would need to be used for this state to proceed"
                }
                _ => "The following workarounds must be used for this state to proceed",
            });
            text.push_str(&format!(" (assuming the source file is a valid {} archive):\n", self.format));
            text.extend(errors.iter().map(|error| format!("\n- {error}")));
        }
        text
    }
}

fn keep_source(ret: &mut Ret, rest: &mut Map) -> bool {
    let (one, other) = (rest.remove("keep_source"), rest.remove("keep"));
    if one.is_some() && other.is_some() {
        let text = "Both 'keep_source' and 'keep' were used. Since these both do the same thing, 'keep' was ignored.";
        warn(ret, text);
    }
    // Both default to keeping the source.
    one.or(other).is_none_or(|keep| keep.truthy())
}

fn directory(name: &Value) -> std::result::Result<String, String> {
    if !is_absolute(Some(name)) {
        return Err(format!("{name} is not an absolute path"));
    }
    let name = name.to_string();
    let plain = name.trim_end_matches('/');
    if Path::new(plain).is_file() {
        return Err(format!("{plain} exists and is not a directory"));
    }
    Ok(format!("{plain}/"))
}

/// Checks the other paths. Returns result and comment if the state ends here.
fn check_paths(given: &ExtractArgs, dir: &str) -> Option<(bool, String)> {
    if !is_absolute(given.if_missing.as_ref()) {
        return Some((false, "Value for 'if_missing' is not an absolute path".into()));
    }
    if !is_absolute(given.enforce_ownership_on.as_ref()) {
        return Some((false, "Value for 'enforce_ownership_on' is not an absolute path".into()));
    }
    if let Some(path) = &given.enforce_ownership_on
        // Compared by path components. Otherwise the state could be made to change the owner of any file of the
        // machine.
        && !Path::new(&path.to_string()).starts_with(dir)
    {
        return Some((false, format!("Value for 'enforce_ownership_on' must be within {dir}")));
    }
    let path = given.if_missing.as_ref().filter(|path| Path::new(&path.to_string()).exists())?;
    Some((true, format!("Path {path} exists")))
}

/// The numbers of user and group.
fn owners(given: &ExtractArgs) -> std::result::Result<(Option<u32>, Option<u32>), String> {
    let number = |value: &Value| value.as_i64().and_then(|number| u32::try_from(number).ok());
    let uid = match &given.user {
        Value::Null => None,
        user => {
            let named = || Some(nix::unistd::User::from_name(&user.to_string()).ok()??.uid.as_raw());
            Some(number(user).or_else(named).ok_or_else(|| format!("User {user} does not exist"))?)
        }
    };
    let gid = match &given.group {
        Value::Null => None,
        group => {
            let named = || Some(nix::unistd::Group::from_name(&group.to_string()).ok()??.gid.as_raw());
            Some(number(group).or_else(named).ok_or_else(|| format!("Group {group} does not exist"))?)
        }
    };
    Ok((uid, gid))
}

/// Returns the chosen source, and whether it is local; or the comment of the failure.
fn find_source(ctx: &Context, given: &ExtractArgs) -> Result<std::result::Result<(String, bool), String>> {
    let arguments = list![given.source.clone(), given.source_hash.clone(), saltenv(ctx)];
    let found = match ctx.call("file.source_list", arguments.into_list().unwrap_or_default()) {
        Ok(found) => found,
        Err(error @ Error::Execution(_)) => return Ok(Err(error.to_string())),
        Err(error) => return Err(error),
    };
    let source = found.as_list().and_then(|pair| pair.first()).filter(|source| source.truthy()).map(Value::to_string);
    let Some(source) = source else { return Ok(Err(format!("Invalid source \"{}\"", given.source))) };
    let path = match source.split_once("://") {
        None => source.clone(),
        Some(("file", path)) => path.to_owned(),
        Some(_) => return Ok(Ok((source, false))),
    };
    let path = path.trim_end_matches('/');
    let path = match (path.strip_prefix("~/"), std::env::var("HOME")) {
        (Some(rest), Ok(home)) => format!("{home}/{rest}"),
        _ => path.to_owned(),
    };
    // The hash is stored under the archive's path, so two names for a file must not count as two
    // archives.
    let real = std::fs::canonicalize(&path).map_or(path, |real| real.to_string_lossy().into_owned());
    if !Path::new(&real).is_file() {
        return Ok(Err(format!("Source file '{}' does not exist", redacted(&real))));
    }
    Ok(Ok((real, true)))
}

fn format_of(given: &ExtractArgs, source: &str) -> std::result::Result<String, String> {
    let formats = FORMATS.join(", ");
    let Some(format) = given.archive_format.as_ref().filter(|format| format.truthy()) else {
        // The extension of an address precedes its query.
        let plain = source.split(['?', '#']).next().unwrap_or_default();
        return modules::archive::guess_format(plain).map(str::to_owned).ok_or_else(|| {
            format!(
                "Could not guess archive_format from the value of the 'source' argument. Please set this archive_format to \
                 one of the following: {formats}"
            )
        });
    };
    let format = format.to_string().to_lowercase();
    if FORMATS.contains(&format.as_str()) {
        return Ok(format);
    }
    Err(format!(
        "Invalid archive_format '{format}'. Either set it to a supported value ({formats}) or remove this argument and the \
         archive format will be guessed based on file extension."
    ))
}

/// Returns whether the program unzip is used; or why the arguments are incompatible.
fn check_options(given: &ExtractArgs, format: &str, ret: &mut Ret) -> std::result::Result<bool, String> {
    let options = given.options.as_ref().is_some_and(|options| !options.is_empty());
    let mut by_program = given.use_cmd_unzip;
    if format == "zip" {
        if options {
            // The options are those of the program unzip; the library does not know them.
            if by_program == Some(false) {
                return Err(
                    "'use_cmd_unzip' cannot be set to False if CLI options are being specified (via the 'options' \
                            argument). Either remove 'use_cmd_unzip', or set it to True."
                        .into(),
                );
            }
            by_program = Some(true);
            if modules::util::which("unzip").is_none() {
                let text = "archive.cmd_unzip function not available, unzip might not be installed on minion";
                return Err(text.into());
            }
        }
        if given.password.is_some() && by_program == Some(true) {
            // The password would appear in the process list.
            let text = "Using a password in combination with setting 'use_cmd_unzip' to True is considered insecure. It is \
                        recommended to remove the 'use_cmd_unzip' argument (or set it to False) and allow Salt to extract \
                        the archive using Python's built-in ZIP file support.";
            warn(ret, text);
        }
    } else if given.password.is_some() {
        return Err("The 'password' argument is only supported for zip archives".into());
    }
    if format == "rar" {
        if modules::util::which("unrar").or_else(|| modules::util::which("rar")).is_none() {
            return Err("archive.unrar function not available, rar/unrar might not be installed on minion".into());
        }
        if options {
            return Err("The 'options' argument is only compatible with the following archive formats: tar, zip".into());
        }
    }
    Ok(by_program.unwrap_or(false))
}

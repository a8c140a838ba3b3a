//! `archive` — packing and unpacking.
//!
//! [`contents`] and [`unpack`] read tar and zip archives themselves; the other functions call the programs of their names.

pub mod contents;
pub mod unpack;

use std::path::{Path, PathBuf};

use exec::{Call, Context, Error, Module, Result, function};
use value::{Value, map};

pub use contents::TarStream;
use contents::{Contents, broken};
use unpack::Unzip;
pub use unpack::tar as unpack_tar;

use crate::util;
use python::shlex as words;

/// Registers the functions of `archive`.
pub static MODULE: Module = Module::new(
    "archive",
    "Functions that pack and unpack.",
    &[&CMD_UNZIP, &CMD_ZIP, &GUNZIP, &GZIP, &IS_ENCRYPTED, &LIST, &RAR, &TAR, &UNRAR, &UNZIP, &ZIP],
);

/// Guesses the form of an archive by the end of its name.
pub fn guess_format(name: &str) -> Option<&'static str> {
    const TAR: [&str; 10] =
        [".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz", ".tar.lzma", ".tlz"];
    let name = name.to_lowercase();
    if TAR.iter().any(|ending| name.ends_with(ending)) {
        return Some("tar");
    }
    ["zip", "rar"].into_iter().find(|form| name.ends_with(&format!(".{form}")))
}

fn cached(ctx: &Context, name: &str, saltenv: String, hash: Option<Value>, use_etag: bool) -> Result<PathBuf> {
    let kwargs = map! { "saltenv" => saltenv, "source_hash" => hash, "use_etag" => use_etag };
    let answer = ctx.call_with("cp.cache_file", Call { args: vec![name.into()], kwargs })?;
    match answer.as_str().filter(|path| !path.is_empty()) {
        Some(path) => Ok(path.into()),
        None => Err(Error::execution(format!("Failed to cache {name}"))),
    }
}

/// Adds the path of the archive to an error.
fn with_location(error: Error, place: &Path) -> Error {
    // Only Salt's own errors carry such additional information.
    let Error::Execution(text) = error else { return error };
    let stop = if text.ends_with(['.', '?', '!']) { "" } else { "." };
    Error::Execution(format!("{text}{stop} Additional info follows:\n\narchive location:\n    {}", place.display()))
}

/// Returns the paths in a tar, zip or rar archive, with ``verbose=True`` by kind and with those at the top.
///
/// The archive may be on the file server or elsewhere. ``options`` is a command that unpacks a tar archive to its
/// standard output. ``strip_components`` removes the first directories. ``clean=True`` removes the cached archive.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' archive.list /path/to/myfile.tar.gz
///     salt '*' archive.list salt://foo.tar.gz strip_components=1
#[function]
fn list(
    ctx: &Context,
    name: String,
    archive_format: Option<String>,
    options: Option<String>,
    strip_components: Option<Value>,
    #[default(false)] clean: bool,
    #[default(false)] verbose: bool,
    #[default("base")] saltenv: String,
    source_hash: Option<Value>,
    #[default(false)] use_etag: bool,
) -> Result<Value> {
    let place = cached(ctx, &name, saltenv, source_hash, use_etag)?;
    let read = || {
        let strip = strip_count(strip_components)?;
        let form = archive_format.filter(|form| !form.is_empty());
        let form = match form.as_deref().or_else(|| guess_format(&name)) {
            Some(form) => form.to_owned(),
            None => {
                let text = "Unable to guess archive format, please pass an 'archive_format' argument.";
                return Err(Error::execution(text));
            }
        };
        let mut contents = read_contents(ctx, &form, &name, &place, options)?;
        if let Some(count) = strip {
            contents.strip(count);
        }
        Ok(contents)
    };
    let contents = read().map_err(|error| with_location(error, &place))?;
    // The cached copy is removed only after success: after a failure it helps to find out what was wrong with it.
    if clean && let Err(error) = std::fs::remove_file(&place) {
        tracing::warn!("Failed to clean cached archive {}: {error}", place.display());
    }
    Ok(if verbose { contents.sorted().into() } else { contents.all().into() })
}

fn strip_count(count: Option<Value>) -> Result<Option<usize>> {
    let Some(count) = count.filter(Value::truthy) else { return Ok(None) };
    let number =
        count.as_i64().or_else(|| count.as_str()?.parse().ok()).and_then(|number| usize::try_from(number).ok());
    let refused = || Error::execution("'strip_components' must be a positive integer");
    number.filter(|number| *number > 0).map(Some).ok_or_else(refused)
}

fn read_contents(ctx: &Context, form: &str, name: &str, place: &Path, options: Option<String>) -> Result<Contents> {
    let (path, name) = (place.to_owned(), name.to_owned());
    match form {
        "tar" => {
            // The options name a decompressor, such as `zstd -dc`. They are split without a shell and cannot start
            // anything else.
            let command = options.map(|options| words::split(&options)).transpose();
            let command = command.map_err(|_| Error::execution("Invalid CLI options"))?;
            ctx.blocking(move || tar_contents(&path, &name, command))
        }
        "zip" => ctx.blocking(move || contents::of_zip(&path, &name)),
        "rar" => rar_contents(ctx, &name, place),
        other => Err(Error::execution(format!("Unsupported archive format '{other}'"))),
    }
}

fn tar_contents(path: &Path, name: &str, command: Option<Vec<String>>) -> Result<Contents> {
    if let Ok(found) = TarStream::open(path).and_then(contents::of_tar) {
        return Ok(found);
    }
    if let Some(command) = command.filter(|command| !command.is_empty()) {
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let stream = TarStream::through(&command, path).map_err(|error| broken(name, &error))?;
        if let Ok(found) = contents::of_tar(stream) {
            return Ok(found);
        }
    }
    Err(Error::execution(format!(
        "Unable to list contents of {name}. If this is an XZ-compressed tar archive, install XZ Utils to enable listing its \
         contents. If it is compressed using something other than XZ, it may be necessary to specify CLI options to \
         decompress the archive. See the documentation for details."
    )))
}

fn rar_contents(ctx: &Context, name: &str, place: &Path) -> Result<Contents> {
    if util::which("rar").is_none() {
        return Err(Error::execution("rar command not available, is it installed?"));
    }
    // `lt` is the technical listing: it names the type of each member, which the plain one does not.
    let output = crate::subprocess::quiet(ctx, &["rar", "lt", &place.to_string_lossy()])?.stdout;
    let pattern = regex::Regex::new(r"Name:\s*([^\n]+)\s*Type:\s*([^\n]+)").expect("the pattern is constant");
    let mut found = Contents::default();
    for hit in pattern.captures_iter(&output) {
        match &hit[2] {
            "Directory" => found.dirs.push(format!("{}/", &hit[1])),
            _ => found.files.push(hit[1].to_owned()),
        }
    }
    if found.dirs.is_empty() && found.files.is_empty() {
        return Err(Error::execution(format!("Failed to list {name}, is it a rar file?")));
    }
    Ok(found)
}

/// Returns whether a zip archive needs a password.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' archive.is_encrypted /path/to/myfile.zip
#[function]
fn is_encrypted(
    ctx: &Context,
    name: String,
    #[default(false)] clean: bool,
    #[default("base")] saltenv: String,
    source_hash: Option<Value>,
    #[default(false)] use_etag: bool,
) -> Result<bool> {
    let place = cached(ctx, &name, saltenv, source_hash, use_etag)?;
    let mut archive = contents::open_zip(&place, &name).map_err(|error| with_location(error, &place))?;
    let mut encrypted = false;
    for index in 0..archive.len() {
        // Salt reads every member to the end and takes an error for encryption; the flag in the header shows the same
        // at once.
        let entry = archive.by_index_raw(index).map_err(|error| with_location(broken(&name, &error), &place))?;
        encrypted |= entry.encrypted();
    }
    if clean && let Err(error) = std::fs::remove_file(&place) {
        tracing::warn!("Failed to clean cached archive {}: {error}", place.display());
    }
    Ok(encrypted)
}

/// Expands a list, or a comma-separated text, of paths and patterns.
fn expanded(sources: Option<Value>) -> Vec<String> {
    let named = sources.map(|sources| util::split_input(&sources)).unwrap_or_default();
    named.into_iter().flat_map(|source| globbed(&source)).collect()
}

/// Returns the files that match a pattern; a plain path is returned as it is.
fn globbed(pattern: &str) -> Vec<String> {
    if !pattern.contains(['*', '?', '[']) {
        return vec![pattern.to_owned()];
    }
    // Relative patterns are matched in the minion's working directory and stay relative, as with Python's `glob`.
    let start = if pattern.starts_with('/') { PathBuf::from("/") } else { PathBuf::new() };
    let mut found = vec![start];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        found = found.into_iter().flat_map(|directory| step(&directory, part)).collect();
    }
    found.into_iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

fn step(directory: &Path, part: &str) -> Vec<PathBuf> {
    if !part.contains(['*', '?', '[']) {
        let path = directory.join(part);
        return if path.exists() { vec![path] } else { Vec::new() };
    }
    let here = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let entries = std::fs::read_dir(here).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // A wildcard does not match a leading dot, or `*` would pack hidden files.
    let fits = |name: &String| (!name.starts_with('.') || part.starts_with('.')) && targeting::fnmatch(name, part);
    let mut names: Vec<String> = names.filter(fits).collect();
    names.sort();
    names.into_iter().map(|name| directory.join(name)).collect()
}

/// Optional settings for a run of a program.
#[derive(Default)]
struct How {
    cwd: Option<Value>,
    template: Option<Value>,
    runas: Option<Value>,
}

/// Salt's error when neither program for rar archives is installed.
const NO_UNRAR: &str = r#"None of provided binaries(["'unrar'", "'rar'"]) were found in $PATH."#;

fn lines_of(ctx: &Context, command: Vec<String>, how: How) -> Result<Vec<String>> {
    // Salt looks for the program first, so that its absence has its own error instead of one of `cmd.run`.
    util::needs(ctx, &command[0])?;
    let kwargs = map! {
        "cmd" => command, "cwd" => how.cwd, "template" => how.template, "runas" => how.runas, "python_shell" => false,
    };
    let output = ctx.call_with("cmd.run", Call { args: Vec::new(), kwargs })?;
    Ok(output.as_str().unwrap_or_default().lines().map(str::to_owned).collect())
}

/// Shortens a list to `trim` entries; True means 100.
fn trimmed(mut files: Vec<String>, trim: &Value) -> Vec<String> {
    let count = match trim {
        Value::Bool(false) => return files,
        Value::Bool(true) => 100,
        other => usize::try_from(other.as_i64().unwrap_or_default()).unwrap_or_default(),
    };
    // With a bound of 0 only the remark is left, as in Salt.
    if files.len() > count {
        files.truncate(count);
        files.push(format!("List trimmed after {count} files."));
    }
    files
}

/// Runs tar and returns the lines of its output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' archive.tar cjvf /tmp/salt.tar.bz2 '{{ salt.home }}'
///     salt '*' archive.tar xf foo.tar dest=/target/directory
#[function]
fn tar(
    ctx: &Context,
    options: String,
    tarfile: String,
    sources: Option<Value>,
    dest: Option<String>,
    cwd: Option<Value>,
    template: Option<Value>,
    runas: Option<Value>,
) -> Result<Vec<String>> {
    if options.is_empty() {
        return Err(Error::invocation("Tar options can not be empty"));
    }
    let mut command = vec!["tar".to_owned()];
    command.extend(options.split_whitespace().map(str::to_owned));
    command.push(tarfile);
    if let Some(dest) = dest.filter(|dest| !dest.is_empty()) {
        // `-C` precedes the operands: tar changes directory for those that follow, and only for them.
        command.extend(["-C".to_owned(), dest]);
    }
    command.extend(expanded(sources));
    lines_of(ctx, command, How { cwd, template, runas })
}

fn with_options(program: &str, options: Option<String>, file: String) -> Vec<String> {
    let options = options.filter(|options| !options.is_empty());
    std::iter::once(program.to_owned()).chain(options).chain([file]).collect()
}

/// Runs gzip and returns the lines of its output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' archive.gzip /tmp/sourcefile.txt options='--verbose'
#[function]
fn gzip(
    ctx: &Context,
    sourcefile: String,
    template: Option<Value>,
    runas: Option<Value>,
    options: Option<String>,
) -> Result<Vec<String>> {
    lines_of(ctx, with_options("gzip", options, sourcefile), How { template, runas, ..How::default() })
}

/// Runs gunzip and returns the lines of its output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' archive.gunzip /tmp/sourcefile.txt.gz options='--verbose'
#[function]
fn gunzip(
    ctx: &Context,
    gzipfile: String,
    template: Option<Value>,
    runas: Option<Value>,
    options: Option<String>,
) -> Result<Vec<String>> {
    lines_of(ctx, with_options("gunzip", options, gzipfile), How { template, runas, ..How::default() })
}

/// Runs zip and returns the lines of its output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' archive.cmd_zip /tmp/zipfile.zip /tmp/sourcefile1,/tmp/sourcefile2
#[function]
fn cmd_zip(
    ctx: &Context,
    zip_file: String,
    sources: Value,
    template: Option<Value>,
    cwd: Option<Value>,
    runas: Option<Value>,
) -> Result<Vec<String>> {
    let mut command = vec!["zip".to_owned(), "-r".to_owned(), zip_file];
    command.extend(expanded(Some(sources)));
    lines_of(ctx, command, How { cwd, template, runas })
}

fn owner(runas: Option<Value>) -> Result<Option<(u32, u32)>> {
    let Some(name) = runas.filter(Value::truthy) else { return Ok(None) };
    let user = nix::unistd::User::from_name(&name.to_string()).ok().flatten();
    let user = user.ok_or_else(|| Error::invocation(format!("User '{name}' does not exist")))?;
    Ok(Some((user.uid.as_raw(), user.gid.as_raw())))
}

/// Packs files and directories into a zip archive and returns the names of the members.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' archive.zip /tmp/zipfile.zip /tmp/sourcefile1,/tmp/sourcefile2
///     salt '*' archive.zip /tmp/baz.zip baz.txt cwd=/foo/bar
#[function]
fn zip(
    ctx: &Context,
    zip_file: String,
    sources: Value,
    template: Option<Value>,
    cwd: Option<String>,
    runas: Option<Value>,
    #[default(false)] zip64: bool,
) -> Result<Vec<String>> {
    // Large members are marked as such anyway.
    let _ = zip64;
    util::plain_template(template.map(|engine| engine.to_string()).as_deref(), &format!("{zip_file}{sources}"))?;
    let owner = owner(runas)?;
    let sources = expanded(Some(sources));
    match &cwd {
        None if sources.iter().any(|source| !source.starts_with('/')) => {
            return Err(Error::invocation("Relative paths require the 'cwd' parameter"));
        }
        Some(cwd) if !cwd.starts_with('/') => return Err(Error::invocation("cwd must be absolute")),
        _ => {}
    }
    ctx.blocking(move || {
        let target = Path::new(&zip_file);
        let names = unpack::zip(target, &sources, cwd.as_deref().map(Path::new))?;
        if let Some((uid, gid)) = owner {
            std::os::unix::fs::lchown(target, Some(uid), Some(gid))
                .map_err(|error| Error::io("change the owner of", target, &error))?;
        }
        Ok(names)
    })
}

fn excluded(excludes: Option<Value>) -> Vec<String> {
    excludes.filter(Value::truthy).map(|excludes| util::split_input(&excludes)).unwrap_or_default()
}

/// Runs unzip and returns the lines of its output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' archive.cmd_unzip /tmp/zipfile.zip /home/strongbad/ excludes=file_1,file_2
#[function]
fn cmd_unzip(
    ctx: &Context,
    zip_file: String,
    dest: String,
    excludes: Option<Value>,
    options: Option<String>,
    template: Option<Value>,
    runas: Option<Value>,
    #[default(false)] trim_output: Value,
    password: Option<String>,
) -> Result<Vec<String>> {
    let password = password.filter(|password| !password.is_empty());
    // The command line holds the password, so it must not be logged.
    let level = if password.is_some() { "quiet" } else { "debug" };
    let mut command = vec!["unzip".to_owned()];
    if let Some(password) = password {
        command.extend(["-P".to_owned(), password]);
    }
    if let Some(options) = options.filter(|options| !options.is_empty()) {
        command.extend(words::split(&options).map_err(|error| Error::Other(error.to_string()))?);
    }
    command.extend([zip_file, "-d".to_owned(), dest]);
    if let Some(excludes) = excludes {
        command.push("-x".into());
        command.extend(util::split_input(&excludes));
    }
    let kwargs = map! {
        "cmd" => command, "template" => template, "runas" => runas, "python_shell" => false, "redirect_stderr" => true,
        "output_loglevel" => level,
    };
    let result = ctx.call_with("cmd.run_all", Call { args: Vec::new(), kwargs })?;
    let output = result.get("stdout").and_then(Value::as_str).unwrap_or_default();
    if result.get("retcode") != Some(&Value::Int(0)) {
        return Err(Error::execution(output));
    }
    Ok(trimmed(output.lines().map(str::to_owned).collect(), &trim_output))
}

/// Unpacks a zip archive and returns the names of the members.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' archive.unzip /tmp/zipfile.zip /home/strongbad/ excludes=file_1,file_2
#[function]
fn unzip(
    ctx: &Context,
    zip_file: String,
    dest: String,
    excludes: Option<Value>,
    options: Option<Value>,
    template: Option<Value>,
    runas: Option<Value>,
    #[default(false)] trim_output: Value,
    password: Option<String>,
    #[default(true)] extract_perms: bool,
) -> Result<Vec<String>> {
    // The argument serves those who switch between this function and `cmd_unzip`; Salt ignores it here too.
    let _ = options;
    util::plain_template(template.map(|engine| engine.to_string()).as_deref(), &format!("{zip_file}{dest}"))?;
    let job = Unzip {
        excludes: excluded(excludes),
        password: password.filter(|password| !password.is_empty()),
        permissions: extract_perms,
        owner: owner(runas)?,
    };
    let names = ctx.blocking(move || job.run(Path::new(&zip_file), Path::new(&dest)))?;
    Ok(trimmed(names, &trim_output))
}

/// Runs rar and returns the lines of its output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' archive.rar /tmp/rarfile.rar /tmp/sourcefile1,/tmp/sourcefile2
#[function]
fn rar(
    ctx: &Context,
    rarfile: String,
    sources: Value,
    template: Option<Value>,
    cwd: Option<Value>,
    runas: Option<Value>,
) -> Result<Vec<String>> {
    let mut command: Vec<String> = ["rar", "a", "-idp"].map(str::to_owned).to_vec();
    command.push(rarfile);
    command.extend(expanded(Some(sources)));
    lines_of(ctx, command, How { cwd, template, runas })
}

/// Runs unrar, or rar, and returns the lines of its output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' archive.unrar /tmp/rarfile.rar /home/strongbad/ excludes=file_1,file_2
#[function]
fn unrar(
    ctx: &Context,
    rarfile: String,
    dest: String,
    excludes: Option<Value>,
    template: Option<Value>,
    runas: Option<Value>,
    #[default(false)] trim_output: Value,
) -> Result<Vec<String>> {
    let program = ["unrar", "rar"].into_iter().find(|name| util::which(name).is_some());
    let program = program.ok_or_else(|| Error::CommandNotFound(NO_UNRAR.into()))?;
    let mut command: Vec<String> = [program, "x", "-idp"].map(str::to_owned).to_vec();
    command.push(rarfile);
    for exclude in excluded(excludes) {
        command.extend(["-x".to_owned(), exclude]);
    }
    // The last word is the destination; rar only takes it for a directory when it ends with a slash.
    command.push(dest);
    let lines = lines_of(ctx, command, How { template, runas, ..How::default() })?;
    Ok(trimmed(lines, &trim_output))
}

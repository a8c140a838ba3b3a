//! `file.copy`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::Path;

use exec::{Context, KwArgs, Result, function};
use modules::file::manage::directory_mode;
use modules::file::owners::{gid_of, uid_of};
use modules::file::paths::{expand_user, split};
use modules::file::perms::{self, DesiredPerms, normalize_mode};
use modules::file::{facts, hash, tree};
use value::{Value, map};

use super::common::{check_user, default_owner, join, lexists, parent, start, user_or_owner};
use super::symlink::remove;
use crate::Ret;

/// Copies a file or directory of this machine if the target does not exist yet, or in any case with `force`.
#[function(name = "copy")]
pub fn copy_(
    ctx: &Context,
    name: String,
    source: String,
    #[default(false)] force: bool,
    #[default(false)] makedirs: bool,
    #[default(false)] preserve: bool,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default(Value::Null)] mode: Value,
    #[default(Value::Null)] dir_mode: Value,
    #[default(false)] subdir: bool,
    kwargs: KwArgs,
) -> Result<Ret> {
    let mut name = expand_user(&name);
    let source = expand_user(&source);
    let mut ret = start(&name).ok(format!("Copied \"{source}\" to \"{name}\""));
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.copy"));
    }
    if !name.starts_with('/') {
        return Ok(ret.fail(format!("Specified file {name} is not an absolute path")));
    }
    if !Path::new(&source).exists() {
        return Ok(ret.fail(format!("Source file \"{source}\" is not present")));
    }
    let mut wanted = (user, group, mode);
    let stats = facts::of(&source, None, true)?;
    let own = |key: &str| stats.get(key).cloned().unwrap_or_default();
    if preserve {
        wanted = (own("user"), own("group"), own("mode"));
    } else {
        let (user, group) = default_owner(ctx, user_or_owner(wanted.0, &kwargs), wanted.1);
        if let Some(wrong) = check_user(ctx, &user, &group) {
            return Ok(ret.fail(wrong));
        }
        // Without a mode the copy gets the source's mode, not the umask's.
        wanted = (user, group, if wanted.2.is_null() { own("mode") } else { wanted.2 });
    }
    // As with `cp`, the copy goes into an existing directory under its own name.
    if Path::new(&name).is_dir() && subdir {
        name = join(&name, split(&source).1);
    }
    let mut changed = true;
    if lexists(&name) {
        if force && Path::new(&name).is_file() && same_content(&name, &source)? {
            ret.comment = format!("{} - files are identical but force flag is set", ret.comment).into();
        }
        // Salt never compares contents to decide. Without `force` any existing target ends the
        // state, even an outdated one.
        changed = force;
        if force && !ctx.is_test() {
            // Removed and not overwritten: the copy must not write through a link.
            remove(ctx, &name)?;
        }
    }
    if !changed {
        return Ok(ret.ok(format!("The target file \"{name}\" exists and will not be overwritten")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("File \"{source}\" is set to be copied to \"{name}\"")));
    }
    let directory = parent(&name);
    if !Path::new(directory).is_dir() {
        if !makedirs {
            return Ok(ret.fail(format!("The target directory {directory} is not present")));
        }
        tree::make_parents(&name, &wanted.0, &wanted.1, &directory_mode(&dir_mode, &wanted.2))?;
    }
    if let Err(error) = transfer(&source, &name, (&wanted.0, &wanted.1)) {
        tracing::error!("{source} is not copied to {name}: {error}");
        return Ok(ret.fail(format!("Failed to copy \"{source}\" to \"{name}\"")));
    }
    ret.changes = map! { name.as_str() => source.as_str() };
    if !preserve {
        let wanted = DesiredPerms::of(&wanted.0, &wanted.1, normalize_mode(&wanted.2));
        ret = perms::enforce(ctx, &name, Some(ret.into()), &wanted)?.0.into();
    }
    Ok(ret)
}

fn same_content(a: &str, b: &str) -> Result<bool> {
    Ok(Path::new(b).is_file() && hash::of_file(a, "sha256")? == hash::of_file(b, "sha256")?)
}

fn transfer(source: &str, name: &str, (user, group): (&Value, &Value)) -> std::io::Result<()> {
    let (from, to) = (Path::new(source), Path::new(name));
    if !from.is_dir() {
        let to = if to.is_dir() { to.join(from.file_name().unwrap_or_default()) } else { to.to_owned() };
        return fs::copy(from, to).map(drop);
    }
    // `shutil.copytree` refuses an existing target.
    if to.symlink_metadata().is_ok() {
        return Err(std::io::ErrorKind::AlreadyExists.into());
    }
    copy_tree(from, to, 0)?;
    give_below(to, uid_of(user), gid_of(group))
}

/// The deepest nesting of directories.
const DEPTH_LIMIT: usize = 1_000;

fn copy_tree(from: &Path, to: &Path, level: usize) -> std::io::Result<()> {
    if level > DEPTH_LIMIT {
        return Err(std::io::Error::other("directories are nested too deep"));
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to, kind) = (entry.path(), to.join(entry.file_name()), entry.file_type()?);
        // Links are copied as links; following them could copy the same tree over and over.
        if kind.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_dir() {
            copy_tree(&from, &to, level + 1)?;
        } else if kind.is_file() {
            fs::copy(&from, &to)?;
            let meta = fs::metadata(&from)?;
            // `copytree` keeps modification times.
            fs::File::options().write(true).open(&to)?.set_modified(meta.modified()?)?;
        } else {
            // Opening a named pipe would block until someone writes to it.
            return Err(std::io::Error::other(format!("{} is not a file, directory or link", from.display())));
        }
    }
    // The directory's mode is set after its contents are copied, since it may forbid writing.
    let meta = fs::metadata(from)?;
    fs::set_permissions(to, fs::Permissions::from_mode(meta.mode() & 0o7777))
}

fn give_below(top: &Path, uid: Option<u32>, gid: Option<u32>) -> std::io::Result<()> {
    for entry in fs::read_dir(top)? {
        let entry = entry?;
        // `lchown` changes a link itself and never what it leads to.
        lchown(entry.path(), uid, gid)?;
        if entry.file_type()?.is_dir() {
            give_below(&entry.path(), uid, gid)?;
        }
    }
    Ok(())
}

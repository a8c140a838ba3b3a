//! `file.mknod`.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use exec::{Context, Result, function};
use modules::file::paths::expand_user;
use modules::file::perms::{self, DesiredPerms, Report, normalize_mode};
use modules::file::tree;
use std::path::Path;
use value::Value;

use crate::Ret;

/// Makes sure that there is a device or a named pipe.
#[function]
pub fn mknod(
    ctx: &Context,
    name: String,
    ntype: String,
    #[default(0)] major: u64,
    #[default(0)] minor: u64,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default("0600")] mode: Value,
) -> Result<Ret> {
    let name = expand_user(&name);
    let ret = Ret::new(name.as_str());
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.mknod"));
    }
    let (title, word) = match ntype.as_str() {
        "c" => ("Character device", "character device"),
        "b" => ("Block device", "block device"),
        "p" => ("Fifo pipe", "fifo pipe"),
        _ => {
            return Ok(ret.fail(format!(
                "Node type unavailable: '{ntype}'. Available node types are character ('c'), block ('b'), and pipe \
                 ('p')"
            )));
        }
    };
    if Path::new(&name).is_file() {
        return Ok(ret.fail(format!("File {name} exists and is not a {word}. Refusing to continue")));
    }
    let found = fs::metadata(&name).ok().filter(|meta| {
        let kind = meta.file_type();
        match ntype.as_str() {
            "c" => kind.is_char_device(),
            "b" => kind.is_block_device(),
            _ => kind.is_fifo(),
        }
    });
    let Some(found) = found else {
        if ctx.is_test() {
            return Ok(ret.would(format!("{title} {name} is set to be created")));
        }
        let made = tree::mknod(ctx, name, ntype, major, minor, user, group, mode)?;
        return Ok(Report::from_map(made).into());
    };
    let (is_major, is_minor) = (nix::sys::stat::major(found.rdev()), nix::sys::stat::minor(found.rdev()));
    if ntype != "p" && (is_major, is_minor) != (major, minor) {
        return Ok(ret.fail(format!(
            "{title} {name} exists and has a different major/minor {is_major}/{is_minor}. Refusing to continue"
        )));
    }
    let wanted = DesiredPerms::of(&user, &group, normalize_mode(&mode));
    let mut ret: Ret = perms::enforce(ctx, &name, None, &wanted)?.0.into();
    if ret.changes.is_empty() {
        ret.comment = format!("{title} {name} is in the correct state").into();
    }
    Ok(ret)
}

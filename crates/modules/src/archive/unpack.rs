//! Unpacking, and packing.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Component, Path, PathBuf};

use exec::{Error, Result};
use zip::write::SimpleFileOptions;

use super::contents::{LINK, TarStream, is_kind, member_name, open_zip};

/// Unpacks a tar archive and returns the names of its members. As root, members get the owners they had.
///
/// # Errors
/// When the archive or the directory fails. Members that would leave the directory are refused.
pub fn tar(stream: TarStream, dest: &Path) -> io::Result<Vec<String>> {
    let as_root = nix::unistd::geteuid().is_root();
    let mut archive = tar::Archive::new(stream);
    archive.set_preserve_permissions(true);
    archive.set_preserve_mtime(true);
    archive.set_overwrite(true);
    let mut names = Vec::new();
    // The modes and times of directories come last, when nothing is put into them any more.
    let mut late = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = member_name(&entry);
        if !entry.unpack_in(dest)? {
            return Err(io::Error::other(format!("the member '{name}' would lie outside of the directory")));
        }
        let path = dest.join(inside(&name));
        if as_root {
            set_owner(&path, entry.header())?;
        }
        if entry.header().entry_type().is_dir() {
            late.push((path, entry.header().mode()?));
        }
        names.push(name);
    }
    for (path, mode) in late.into_iter().rev() {
        fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777))?;
    }
    Ok(names)
}

/// Names count before numbers, since they are the same on every machine.
fn set_owner(path: &Path, header: &tar::Header) -> io::Result<()> {
    let user = header.username().ok().flatten().filter(|name| !name.is_empty());
    let group = header.groupname().ok().flatten().filter(|name| !name.is_empty());
    let user = user.and_then(|name| nix::unistd::User::from_name(name).ok().flatten());
    let group = group.and_then(|name| nix::unistd::Group::from_name(name).ok().flatten());
    let uid = user.map_or_else(|| header.uid().unwrap_or_default() as u32, |user| user.uid.as_raw());
    let gid = group.map_or_else(|| header.gid().unwrap_or_default() as u32, |group| group.gid.as_raw());
    lchown(path, Some(uid), Some(gid))
}

/// A path without what would lead out of a directory.
pub fn inside(name: &str) -> PathBuf {
    Path::new(name).components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// How a zip archive is unpacked.
#[derive(Debug)]
pub struct Unzip {
    /// Members that stay.
    pub excludes: Vec<String>,
    /// For those that are encrypted.
    pub password: Option<String>,
    /// Whether files get the modes they had.
    pub permissions: bool,
    /// As whom files are written.
    pub owner: Option<(u32, u32)>,
}

impl Unzip {
    /// Unpacks and returns the names of the members.
    ///
    /// # Errors
    /// When the archive or the directory fails.
    pub fn run(&self, path: &Path, dest: &Path) -> Result<Vec<String>> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::execution(format!("Exception encountered unpacking zipfile: {error}"))
        };
        let mut archive = open_zip(path, &path.to_string_lossy()).map_err(|_| failed(&"File is not a zip file"))?;
        let mut names = Vec::new();
        for index in 0..archive.len() {
            let entry = match &self.password {
                Some(password) => archive.by_index_decrypt(index, password.as_bytes()),
                None => archive.by_index(index),
            };
            let mut entry = entry.map_err(|error| failed(&error))?;
            let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
            if self.excludes.contains(&name) {
                continue;
            }
            let mode = entry.external_attributes() >> 16;
            self.member(&mut entry, &dest.join(inside(&name)), name.ends_with('/'), mode)
                .map_err(|error| failed(&error))?;
            names.push(name);
        }
        Ok(names)
    }

    fn member(&self, entry: &mut impl Read, target: &Path, is_dir: bool, mode: u32) -> io::Result<()> {
        if is_dir {
            fs::create_dir_all(target)?;
        } else {
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            if is_kind(mode, LINK) {
                let mut source = String::new();
                entry.read_to_string(&mut source)?;
                symlink(source, target)?;
                return self.own(target);
            }
            let mut file = fs::File::create(target)?;
            io::copy(entry, &mut file)?;
        }
        if self.permissions && mode & 0o7777 != 0 {
            fs::set_permissions(target, fs::Permissions::from_mode(mode & 0o7777))?;
        }
        self.own(target)
    }

    fn own(&self, target: &Path) -> io::Result<()> {
        match self.owner {
            Some((uid, gid)) => lchown(target, Some(uid), Some(gid)),
            None => Ok(()),
        }
    }
}

/// Packs files and directories and returns the names of the members. Names are relative to the directory, or to the root.
pub fn zip(target: &Path, sources: &[String], cwd: Option<&Path>) -> Result<Vec<String>> {
    let failed =
        |error: &dyn std::fmt::Display| Error::execution(format!("Exception encountered creating zipfile: {error}"));
    let file =
        fs::File::create(target).map_err(|error| failed(&crate::cmd::os_text(&error, &target.to_string_lossy())))?;
    let mut writer = zip::ZipWriter::new(file);
    let mut names = Vec::new();
    for source in sources {
        let path = cwd.map_or_else(|| PathBuf::from(source), |cwd| cwd.join(source));
        if path.exists() {
            let base = cwd.filter(|cwd| path.starts_with(cwd)).unwrap_or(Path::new("/"));
            pack(&mut writer, &path, base, &mut names).map_err(|error| failed(&error))?;
        }
    }
    writer.finish().map_err(|error| failed(&error))?;
    Ok(names)
}

fn pack(
    writer: &mut zip::ZipWriter<fs::File>,
    path: &Path,
    base: &Path,
    names: &mut Vec<String>,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let name = path.strip_prefix(base)?.to_string_lossy().into_owned();
    let meta = path.metadata()?;
    let options = SimpleFileOptions::default().unix_permissions(meta.permissions().mode() & 0o7777);
    if !meta.is_dir() {
        writer.start_file(name.as_str(), options.large_file(meta.len() >= u64::from(u32::MAX)))?;
        let mut content = fs::File::open(path)?;
        io::copy(&mut content, writer)?;
        names.push(name);
        return Ok(());
    }
    writer.add_directory(name.as_str(), options)?;
    names.push(format!("{name}/"));
    let mut entries: Vec<PathBuf> = fs::read_dir(path)?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    let (dirs, files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.is_dir() && !entry.is_symlink());
    for entry in files.iter().chain(&dirs) {
        pack(writer, entry, base, names)?;
    }
    writer.flush()?;
    Ok(())
}

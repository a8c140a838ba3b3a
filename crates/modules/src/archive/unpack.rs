//! Unpacking, and packing.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, lchown, symlink};
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
    // Unpacking twice must work, as with the program `tar`.
    archive.set_overwrite(true);
    let mut names = Vec::new();
    // The modes and times of directories come last, when nothing is put into them any more.
    let mut late = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = member_name(&entry);
        // False means that the crate skipped a member with `..` in its path. A silent gap is worse than an error.
        if !entry.unpack_in(dest)? {
            return Err(outside(&name));
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
    // Inner directories first: the mode of an outer one may forbid entering it.
    for (path, mode) in late.into_iter().rev() {
        // A later member may have put a link in the place of the directory; chmod would follow it out of `dest`.
        if !path.symlink_metadata()?.is_dir() {
            return Err(outside(&path.to_string_lossy()));
        }
        fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777))?;
    }
    Ok(names)
}

/// Sets the owner of a member. Names take precedence over ids, since they mean the same on every machine.
fn set_owner(path: &Path, header: &tar::Header) -> io::Result<()> {
    let user = header.username().ok().flatten().filter(|name| !name.is_empty());
    let group = header.groupname().ok().flatten().filter(|name| !name.is_empty());
    let user = user.and_then(|name| nix::unistd::User::from_name(name).ok().flatten());
    let group = group.and_then(|name| nix::unistd::Group::from_name(name).ok().flatten());
    let uid = user.map_or_else(|| header.uid().unwrap_or_default() as u32, |user| user.uid.as_raw());
    let gid = group.map_or_else(|| header.gid().unwrap_or_default() as u32, |group| group.gid.as_raw());
    // The link itself, never the file it leads to.
    lchown(path, Some(uid), Some(gid))
}

fn outside(name: &str) -> io::Error {
    io::Error::other(format!("the member '{name}' would lie outside of the directory"))
}

/// Returns the path of a member, and creates the directories that lead to it.
///
/// A member may be a symbolic link, and lead anywhere; no later one is written through it out of the directory.
fn place(dest: &Path, name: &str) -> io::Result<PathBuf> {
    // `dest` may itself be reached through a link; only real paths can be compared.
    let real = dest.canonicalize()?;
    let parts: Vec<_> = inside(name).components().map(|part| part.as_os_str().to_owned()).collect();
    let Some((last, directories)) = parts.split_last() else { return Ok(dest.to_owned()) };
    let mut path = dest.to_owned();
    for part in directories {
        path.push(part);
        if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            fs::create_dir(&path)?;
        }
        if !path.canonicalize().is_ok_and(|found| found.starts_with(&real)) {
            return Err(outside(name));
        }
    }
    path.push(last);
    Ok(path)
}

/// Drops every part of a path that would lead out of a directory.
pub fn inside(name: &str) -> PathBuf {
    Path::new(name).components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// The longest target of a symbolic link on Linux, in bytes.
const LONGEST_LINK: u64 = 4096;

/// How a zip archive is unpacked.
#[derive(Debug)]
pub struct Unzip {
    /// Members that are not unpacked.
    pub excludes: Vec<String>,
    /// The password for encrypted members.
    pub password: Option<String>,
    /// Restores the modes stored in the archive.
    pub permissions: bool,
    /// User and group the files are given to.
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
        fs::create_dir_all(dest)
            .map_err(|error| failed(&crate::subprocess::os_text(&error, &dest.to_string_lossy())))?;
        let mut names = Vec::new();
        for index in 0..archive.len() {
            // A password does not harm members that are not encrypted: archives may mix both.
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
            // The name is checked again for every member: an earlier one may have placed a link on the way.
            let done = place(dest, &name).and_then(|target| self.member(&mut entry, &target, &name, mode));
            done.map_err(|error| failed(&error))?;
            names.push(name);
        }
        Ok(names)
    }

    fn member(&self, entry: &mut impl Read, target: &Path, name: &str, mode: u32) -> io::Result<()> {
        let present = target.symlink_metadata().ok();
        if name.ends_with('/') {
            match present {
                None => fs::create_dir(target)?,
                Some(found) if found.is_dir() => {}
                // The directory a link leads to is not the archive's to change.
                Some(_) => return Err(outside(name)),
            }
        } else if is_kind(mode, LINK) {
            let mut source = Vec::new();
            entry.take(LONGEST_LINK).read_to_end(&mut source)?;
            symlink(Path::new(OsStr::from_bytes(&source)), target)?;
            return self.own(target);
        } else {
            if present.is_some_and(|found| found.is_symlink()) {
                // The file takes the place of the link, as in a tar archive; it is not written where the link leads.
                fs::remove_file(target)?;
            }
            let mut file = fs::File::options();
            file.write(true).create(true).truncate(true).custom_flags(nix::libc::O_NOFOLLOW);
            io::copy(entry, &mut file.open(target)?)?;
        }
        // No mode was stored: the file keeps what the umask gave it, which is also what Salt computes.
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

/// Packs files and directories, and returns the names of the members, relative to `cwd` or to the root.
pub fn zip(target: &Path, sources: &[String], cwd: Option<&Path>) -> Result<Vec<String>> {
    let failed =
        |error: &dyn std::fmt::Display| Error::execution(format!("Exception encountered creating zipfile: {error}"));
    let file = fs::File::create(target)
        .map_err(|error| failed(&crate::subprocess::os_text(&error, &target.to_string_lossy())))?;
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
    // Without stored modes, unpacking would leave everything to the umask.
    let options = SimpleFileOptions::default().unix_permissions(meta.permissions().mode() & 0o7777);
    if !meta.is_dir() {
        // The 64-bit fields are written only where they are needed: some old programs cannot read them.
        writer.start_file(name.as_str(), options.large_file(meta.len() >= u64::from(u32::MAX)))?;
        let mut content = fs::File::open(path)?;
        io::copy(&mut content, writer)?;
        names.push(name);
        return Ok(());
    }
    writer.add_directory(name.as_str(), options)?;
    names.push(format!("{name}/"));
    let mut entries: Vec<PathBuf> = fs::read_dir(path)?.flatten().map(|entry| entry.path()).collect();
    // read_dir has no order; a sorted archive lists alike on every machine. Files precede directories as in `os.walk`.
    entries.sort();
    let (dirs, files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.is_dir() && !entry.is_symlink());
    for entry in files.iter().chain(&dirs) {
        pack(writer, entry, base, names)?;
    }
    writer.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Member<'a> {
        Link(&'a str, &'a str),
        Directory(&'a str),
        File(&'a str),
    }
    use Member::{Directory, File, Link};

    fn zip_of(path: &Path, members: &[Member<'_>]) {
        let mut writer = zip::ZipWriter::new(fs::File::create(path).unwrap());
        // Open to everyone, so that a mode that reaches something outside of the directory is seen.
        let options = SimpleFileOptions::default().unix_permissions(0o777);
        for member in members {
            match member {
                Link(name, target) => writer.add_symlink(*name, *target, options).unwrap(),
                Directory(name) => writer.add_directory(*name, options).unwrap(),
                File(name) => {
                    writer.start_file(*name, options).unwrap();
                    writer.write_all(b"new").unwrap();
                }
            }
        }
        writer.finish().unwrap();
    }

    fn tar_of(path: &Path, members: &[Member<'_>]) {
        let mut builder = tar::Builder::new(fs::File::create(path).unwrap());
        for member in members {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o777);
            header.set_uid(nix::unistd::geteuid().as_raw().into());
            header.set_gid(nix::unistd::getegid().as_raw().into());
            match member {
                Link(name, target) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    header.set_size(0);
                    builder.append_link(&mut header, name, target).unwrap();
                }
                Directory(name) => {
                    header.set_entry_type(tar::EntryType::Directory);
                    header.set_size(0);
                    builder.append_data(&mut header, name, io::empty()).unwrap();
                }
                File(name) => {
                    header.set_size(3);
                    builder.append_data(&mut header, name, &b"new"[..]).unwrap();
                }
            }
        }
        builder.finish().unwrap();
    }

    /// Unpacks both kinds and returns, for each, whether it worked; nothing outside of the directory may have changed.
    fn unpacked(members: &[Member<'_>], look: impl Fn(&Path)) -> [bool; 2] {
        ["zip", "tar"].map(|kind| {
            let dir = tempfile::tempdir().unwrap();
            let (archive, dest, out) = (dir.path().join("archive"), dir.path().join("dest"), dir.path().join("out"));
            for directory in [&dest, &out] {
                fs::create_dir(directory).unwrap();
                fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
            }
            fs::write(out.join("file"), "old").unwrap();
            fs::set_permissions(out.join("file"), fs::Permissions::from_mode(0o600)).unwrap();
            let done = if kind == "zip" {
                zip_of(&archive, members);
                let job = Unzip { excludes: Vec::new(), password: None, permissions: true, owner: None };
                job.run(&archive, &dest).is_ok()
            } else {
                tar_of(&archive, members);
                TarStream::open(&archive).and_then(|stream| tar(stream, &dest)).is_ok()
            };
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "old", "{kind}");
            assert_eq!((mode(&out), mode(&out.join("file"))), (0o700, 0o600), "{kind}");
            assert_eq!(fs::read_dir(&out).unwrap().count(), 1, "{kind}");
            look(&dest);
            done
        })
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let nothing = |_: &Path| {};
        assert_eq!(unpacked(&[Link("a", "../out"), File("a/file")], nothing), [false; 2]);
        assert_eq!(unpacked(&[Link("a", "../out"), File("a/new/file")], nothing), [false; 2]);
        assert_eq!(unpacked(&[Link("a", "../out"), Directory("a/")], nothing), [false; 2]);
        assert_eq!(unpacked(&[Link("a", "../out"), Directory("a/new/")], nothing), [false; 2]);
        // The target of the second link looks harmless; it leads out through the first.
        assert_eq!(unpacked(&[Link("a", ".."), Link("b", "a/out"), File("b/file")], nothing), [false; 2]);
    }

    #[test]
    fn a_file_takes_the_place_of_a_link() {
        let is_file = |dest: &Path| assert!(dest.join("a").symlink_metadata().unwrap().is_file());
        // The same member by another name, which a comparison of texts would miss.
        assert_eq!(unpacked(&[Link("a", "../out/file"), File("./a")], is_file), [true; 2]);
    }

    #[test]
    fn links_within_the_directory_are_followed() {
        let written = |dest: &Path| assert_eq!(fs::read_to_string(dest.join("real/file")).unwrap(), "new");
        assert_eq!(unpacked(&[Directory("real/"), Link("a", "real"), File("a/file")], written), [true; 2]);
    }
}

//! Lists the contents of an archive without unpacking it.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use exec::{Error, Result};
use value::{Map, Value, map};

/// The paths in an archive. Those of directories end with a slash.
#[derive(Debug, Default)]
pub struct Contents {
    /// Directories.
    pub dirs: Vec<String>,
    /// Files, and everything else that is neither a directory nor a link.
    pub files: Vec<String>,
    /// Symbolic links.
    pub links: Vec<String>,
}

impl Contents {
    /// Removes the first `count` directories from all paths.
    pub fn strip(&mut self, count: usize) {
        for list in [&mut self.dirs, &mut self.files, &mut self.links] {
            // A path with fewer directories than `count` vanishes, as it does when tar unpacks with
            // `--strip-components`.
            let stripped = list.iter().filter_map(|path| path.splitn(count + 1, '/').nth(count));
            let mut stripped: Vec<String> = stripped.filter(|path| !path.is_empty()).map(str::to_owned).collect();
            stripped.sort();
            *list = stripped;
        }
    }

    /// Returns all paths, in alphabetical order.
    pub fn all(self) -> Vec<String> {
        let mut all = self.dirs;
        all.extend(self.files);
        all.extend(self.links);
        all.sort();
        all
    }

    /// Returns the paths by kind, and those at the top level.
    pub fn sorted(mut self) -> Map {
        for list in [&mut self.dirs, &mut self.files, &mut self.links] {
            list.sort();
        }
        let slashes = |path: &str| path.matches('/').count();
        let mut top_dirs: Vec<String> = self.dirs.iter().filter(|path| slashes(path) == 1).cloned().collect();
        let all: Vec<&String> = self.dirs.iter().chain(&self.files).chain(&self.links).collect();
        // An archive need not have a member for its top directory: when all paths share one, Salt adds it anyway.
        if let Some((first, _)) = common_prefix(&all).split_once('/') {
            let first = format!("{first}/");
            if !top_dirs.contains(&first) {
                top_dirs.push(first);
            }
        }
        let top = |list: &[String]| list.iter().filter(|path| slashes(path) == 0).cloned().collect::<Value>();
        map! {
            "top_level_files" => top(&self.files), "top_level_links" => top(&self.links), "top_level_dirs" => top_dirs,
            "dirs" => self.dirs, "files" => self.files, "links" => self.links,
        }
    }
}

/// Returns the longest common prefix of all paths, by character.
fn common_prefix(paths: &[&String]) -> String {
    // The first and the last path in order differ the most, so what these two share is shared by all.
    let (Some(least), Some(most)) = (paths.iter().min(), paths.iter().max()) else { return String::new() };
    least.chars().zip(most.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect()
}

/// A tar archive as a stream, with its compression undone.
pub struct TarStream {
    reader: Box<dyn Read + Send>,
    child: Option<Child>,
}

impl TarStream {
    /// Opens an archive, and detects its compression by the first bytes: none, gzip, bzip2, xz or lzma. The last three
    /// go through the programs `bzip2` and `xz`.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let mut head = [0; 6];
        let length = File::open(path)?.read(&mut head)?;
        // The content decides, not the name: archives often come from URLs that end with something else.
        match &head[..length] {
            [0x1f, 0x8b, ..] => {
                let reader = Box::new(flate2::read::MultiGzDecoder::new(File::open(path)?));
                Ok(TarStream { reader, child: None })
            }
            [b'B', b'Z', b'h', ..] => TarStream::through(&["bzip2", "-dc"], path),
            // The second pattern is the older .lzma format, which has no magic number: properties byte and dictionary
            // size come first.
            [0xfd, b'7', b'z', b'X', b'Z', 0] | [0x5d, 0, 0, ..] => TarStream::through(&["xz", "-dc"], path),
            _ => Ok(TarStream { reader: Box::new(File::open(path)?), child: None }),
        }
    }

    /// Decompresses with a program that writes to its standard output.
    pub fn through(program: &[&str], path: &Path) -> std::io::Result<Self> {
        let (name, words) = program.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(name)
            .args(words)
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // It is never read: a full pipe would block the program, and a broken stream shows in the tar data anyway.
            .stderr(Stdio::null())
            .spawn()?;
        let reader = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        Ok(TarStream { reader: Box::new(reader), child: Some(child) })
    }
}

impl Read for TarStream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl Drop for TarStream {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // One that was not read to its end would wait for us.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the name of a member as Python's `tarfile` gives it: without a slash at the end.
pub fn member_name(entry: &tar::Entry<impl Read>) -> String {
    String::from_utf8_lossy(&entry.path_bytes()).trim_end_matches('/').to_owned()
}

/// Reads the members of a tar archive.
pub fn of_tar(stream: TarStream) -> std::io::Result<Contents> {
    let mut archive = tar::Archive::new(stream);
    let mut found = Contents::default();
    let mut any = false;
    for entry in archive.entries()? {
        let entry = entry?;
        any = true;
        let name = member_name(&entry);
        match entry.header().entry_type() {
            tar::EntryType::Symlink => found.links.push(name),
            tar::EntryType::Directory => found.dirs.push(format!("{name}/")),
            _ => found.files.push(name),
        }
    }
    // Zero members mean that the data is not a tar archive; the `tar` crate reports an empty stream as success.
    if any { Ok(found) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
}

/// The file types of a Unix mode, and the mask that selects them.
pub const LINK: u32 = 0o120_000;
const DIRECTORY: u32 = 0o040_000;
const KIND: u32 = 0o170_000;

/// Returns whether a mode has this file type.
pub fn is_kind(mode: u32, kind: u32) -> bool {
    mode & KIND == kind
}

/// Opens a zip archive.
///
/// # Errors
/// When it is none; `name` is what it was called.
pub fn open_zip(path: &Path, name: &str) -> Result<zip::ZipArchive<std::io::BufReader<File>>> {
    let file = File::open(path).map_err(|error| Error::io("open", path, &error))?;
    zip::ZipArchive::new(std::io::BufReader::new(file))
        .map_err(|_| Error::execution(format!("{name} is not a ZIP file")))
}

/// Reads the members of a zip archive.
pub fn of_zip(path: &Path, name: &str) -> Result<Contents> {
    let mut archive = open_zip(path, name)?;
    let mut found = Contents::default();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(|error| broken(name, &error))?;
        let path = String::from_utf8_lossy(entry.name_raw()).into_owned();
        // The upper half holds the Unix mode. It is zero in archives made on Windows, whose members then count as
        // files.
        let mode = entry.external_attributes() >> 16;
        if is_kind(mode, LINK) {
            found.links.push(path);
        } else if is_kind(mode, DIRECTORY) {
            found.dirs.push(path);
        } else {
            found.files.push(path);
        }
    }
    // Archives made on Windows have no members for directories, so they are derived from the paths of the files.
    let parents: Vec<String> =
        found.files.iter().filter_map(|path| path.rfind('/').map(|end| path[..=end].to_owned())).collect();
    // Without a mode a directory was taken for a file above; the slash at its end gives it away.
    found.files.retain(|path| !parents.contains(path));
    for parent in parents {
        if !found.dirs.contains(&parent) {
            found.dirs.push(parent);
        }
    }
    Ok(found)
}

/// Words the failure of an archive that cannot be read to its end.
pub fn broken(name: &str, error: &dyn std::fmt::Display) -> Error {
    Error::execution(format!("Failed to list contents of {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn what_lies_at_the_top_is_found() {
        let contents = Contents {
            dirs: vec!["a/b/".into()],
            files: vec!["a/x".into(), "a/b/y".into()],
            links: vec!["a/l".into()],
        };
        let sorted = contents.sorted();
        assert_eq!(sorted.get("top_level_dirs"), Some(&list!["a/"]));
        assert_eq!(sorted.get("top_level_files"), Some(&list![]));
    }

    #[test]
    fn directories_are_stripped() {
        let mut contents = Contents { files: vec!["a/x".into(), "a/b/y".into(), "z".into()], ..Contents::default() };
        contents.strip(1);
        assert_eq!(contents.files, ["b/y", "x"]);
    }
}

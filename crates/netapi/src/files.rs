//! Files for browsers: the directory `static`, the page `app` and the icon.

use std::fs::{File, Metadata};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;
use tokio::io::AsyncReadExt as _;

use crate::failure::Failure;

/// How much of a file is in memory for each client.
const PIECE: usize = 64 << 10;

/// A directory of files below a path (`static` and `static_path`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The directory.
    pub place: PathBuf,
    /// The path of its files, without the prefix of all paths.
    pub path: String,
}

/// A page below a path (`app` and `app_path`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The file.
    pub file: PathBuf,
    /// Its path, without the prefix of all paths.
    pub path: String,
}

/// A file that has been opened.
#[derive(Debug)]
pub struct Opened {
    file: File,
    /// The size in bytes.
    pub size: u64,
    /// The time of its last change.
    pub modified: Option<SystemTime>,
    /// The media type.
    pub kind: &'static str,
}

impl Opened {
    /// Returns the content, which is read as fast as the client takes it.
    pub fn into_body(self) -> Body {
        let file = tokio::fs::File::from_std(self.file);
        // No more than was announced: the file may grow meanwhile.
        let pieces = stream::unfold(file.take(self.size), |mut file| async {
            let mut piece = BytesMut::with_capacity(PIECE);
            match file.read_buf(&mut piece).await {
                Ok(0) => None,
                Ok(_) => Some((Ok::<Bytes, std::io::Error>(piece.freeze()), file)),
                Err(error) => Some((Err(error), file)),
            }
        });
        Body::from_stream(pieces)
    }
}

/// Opens the file with this path in a directory. Links may not leave the directory.
///
/// # Errors
/// 403 for a path or a link out of the directory, 404 if there is no such file.
pub fn open_below(directory: &Path, rest: &str) -> Result<Opened, Failure> {
    if rest.split('/').any(|part| part == "..") {
        return Err(forbidden());
    }
    let missing = || Failure::not_found("");
    // The path of the directory itself may have links; the operator has written it.
    let parent = open(directory, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty());
    let parent = parent.map_err(|error| {
        tracing::warn!(
            "rest_cherrypy: the directory {} (option 'static') cannot be used: {error}",
            directory.display()
        );
        missing()
    })?;
    // The kernel follows the path, so nobody can put a link into it between a check and the opening. Without O_NONBLOCK a
    // named pipe would hold the thread until somebody writes.
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    match openat2(parent.as_fd(), rest, how) {
        Ok(file) => opened(File::from(file), Path::new(rest)).ok_or_else(missing),
        Err(Errno::EXDEV | Errno::EACCES | Errno::EPERM) => Err(forbidden()),
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::ENAMETOOLONG | Errno::EINVAL | Errno::ENXIO) => {
            Err(missing())
        }
        Err(error) => {
            tracing::error!("failed to open a file below {}: {error}", directory.display());
            Err(Failure::unexpected())
        }
    }
}

/// Opens a file that an option names.
///
/// # Errors
/// 404 if it cannot be read; the log says why.
pub fn open_named(option: &str, path: &Path) -> Result<Opened, Failure> {
    let missing = || Failure::not_found("");
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let file = open(path, flags, Mode::empty()).map_err(|error| {
        tracing::warn!("rest_cherrypy: the file {} (option '{option}') cannot be used: {error}", path.display());
        missing()
    })?;
    opened(File::from(file), path).ok_or_else(missing)
}

fn forbidden() -> Failure {
    Failure::new(403, "Request forbidden -- authorization will not help")
}

/// Returns `None` for what is no plain file: a directory, a device, a pipe.
fn opened(file: File, path: &Path) -> Option<Opened> {
    let about = file.metadata().ok().filter(Metadata::is_file)?;
    Some(Opened { file, size: about.len(), modified: about.modified().ok(), kind: media_type(path) })
}

/// Returns the media type by the ending of a name. These are the files that consoles are made of.
fn media_type(path: &Path) -> &'static str {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
    match ending.as_str() {
        "html" | "htm" => "text/html;charset=utf-8",
        "js" | "mjs" => "text/javascript;charset=utf-8",
        "css" => "text/css;charset=utf-8",
        "txt" | "md" => "text/plain;charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "xml" => "application/xml",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ico" => "image/vnd.microsoft.icon",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "otf" => "font/otf",
        "wasm" => "application/wasm",
        "pdf" => "application/pdf",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_outside_the_directory_is_opened() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("static");
        std::fs::create_dir_all(directory.join("a/b")).unwrap();
        std::fs::write(place.path().join("secret"), "secret").unwrap();
        std::fs::write(directory.join("a/x.css"), "body {}").unwrap();
        symlink("../secret", directory.join("relative")).unwrap();
        symlink(place.path().join("secret"), directory.join("absolute")).unwrap();
        symlink(place.path(), directory.join("a/up")).unwrap();
        symlink("a/x.css", directory.join("inside")).unwrap();
        symlink("loop", directory.join("loop")).unwrap();
        symlink("/proc/self/fd/0", directory.join("magic")).unwrap();
        nix::unistd::mkfifo(&directory.join("pipe"), Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(directory.join("socket")).unwrap();
        for (path, status) in [
            ("../secret", 403),
            ("a/../../secret", 403),
            ("a/..", 403),
            ("/etc/passwd", 403),
            ("relative", 403),
            ("absolute", 403),
            ("a/up/secret", 403),
            ("magic", 403),
            ("", 404),
            (".", 404),
            ("a", 404),
            ("a/b/", 404),
            ("a/x.css/", 404),
            ("a/x.css\0.png", 404),
            ("loop", 404),
            ("pipe", 404),
            ("socket", 404),
            ("nosuch", 404),
            (&"x".repeat(5000), 404),
            (&"x/".repeat(5000), 404),
        ] {
            assert_eq!(open_below(&directory, path).unwrap_err().status, status, "{path:.40}");
        }
        for path in ["a/x.css", "inside", "./a//x.css"] {
            assert_eq!(open_below(&directory, path).unwrap().size, 7, "{path}");
        }
        assert_eq!(open_below(&directory, "a/x.css").unwrap().kind, "text/css;charset=utf-8");
        assert_eq!(open_below(&place.path().join("nosuch"), "x").unwrap_err().status, 404);
        assert_eq!(open_named("app", &directory).unwrap_err().status, 404);
        assert_eq!(open_named("app", &directory.join("pipe")).unwrap_err().status, 404);
    }
}

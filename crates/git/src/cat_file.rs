//! Reads objects through `git cat-file --batch`.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::command::command;
use crate::object::{Kind, Object, Objects, Oid};
use crate::{Error, Result};

/// The maximum size of objects other than blobs.
const MAX_SIZE: u64 = 256 << 20;

/// `git cat-file --batch`, which keeps running and answers one request after the other.
pub(crate) struct CatFile {
    repository: PathBuf,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl CatFile {
    pub fn start(repository: &Path) -> Result<Self> {
        let mut command = command(repository);
        // It is never read, and a full pipe would block the program.
        command.args(["cat-file", "--batch"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(Error::io("start git for", repository))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were asked for")
        };
        Ok(CatFile {
            repository: repository.to_owned(),
            child,
            input: Some(input),
            output: BufReader::with_capacity(64 << 10, output),
        })
    }

    /// Requests an object, and returns its header; the content follows.
    fn ask(&mut self, name: &str) -> Result<Option<(Oid, Kind, u64)>> {
        let path = &self.repository;
        let input = self.input.as_mut().expect("it is closed only at the end");
        input.write_all(format!("{name}\n").as_bytes()).map_err(Error::io("ask git about", path))?;
        let mut head = Vec::new();
        // A header has a few dozen bytes. The bound protects against a program that is not git.
        self.output.by_ref().take(4096).read_until(b'\n', &mut head).map_err(Error::io("read objects of", path))?;
        let head = String::from_utf8_lossy(&head);
        let damaged = || Error::Damaged { path: path.clone(), reason: format!("no answer about object {name}") };
        // From the right: a name that does not exist is repeated in the answer, with whatever it contains.
        let mut words = head.strip_suffix('\n').ok_or_else(damaged)?.rsplitn(3, ' ');
        let (Some(size), Some(kind)) = (words.next(), words.next()) else { return Err(damaged()) };
        if matches!(size, "missing" | "ambiguous") {
            return Ok(None);
        }
        let kind = match kind {
            "blob" => Kind::Blob,
            "tree" => Kind::Tree,
            "commit" => Kind::Commit,
            "tag" => Kind::Tag,
            _ => return Err(damaged()),
        };
        let oid = words.next().and_then(Oid::new).ok_or_else(damaged)?;
        Ok(Some((oid, kind, size.parse().map_err(|_| damaged())?)))
    }

    fn end_of_object(&mut self) -> Result<()> {
        let mut newline = [0];
        self.output.read_exact(&mut newline).map_err(Error::io("read objects of", &self.repository))
    }
}

impl Objects for CatFile {
    fn read(&mut self, name: &str) -> Result<Option<Object>> {
        let Some((oid, kind, size)) = self.ask(name)? else { return Ok(None) };
        // Commits and trees are held in memory as a whole; contents of files are streamed.
        if size > MAX_SIZE {
            let reason = format!("object {oid} has {size} bytes");
            return Err(Error::Damaged { path: self.repository.clone(), reason });
        }
        let mut data = vec![0; size as usize];
        self.output.read_exact(&mut data).map_err(Error::io("read objects of", &self.repository))?;
        self.end_of_object()?;
        Ok(Some(Object { oid, kind, data }))
    }

    fn copy(&mut self, oid: &Oid, out: &mut dyn Write) -> Result<bool> {
        let Some((_, kind, size)) = self.ask(oid.as_str())? else { return Ok(false) };
        let copied = std::io::copy(&mut self.output.by_ref().take(size), out)
            .map_err(Error::io("copy an object of", &self.repository))?;
        if copied != size {
            let reason = format!("object {oid} ends early");
            return Err(Error::Damaged { path: self.repository.clone(), reason });
        }
        self.end_of_object()?;
        // The content is copied even of another type: the program's answer has to be read to its end.
        Ok(kind == Kind::Blob)
    }
}

impl Drop for CatFile {
    fn drop(&mut self) {
        // The program ends at the end of its input.
        self.input = None;
        // It may be in the middle of a large object. Waiting for it leaves no zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! `rawfile_json` — appends one line of JSON for each return or event to a file.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use futures_util::future::BoxFuture;
use nix::fcntl::{Flock, FlockArg};
use value::{Map, Value, map};

use crate::{Error, Options, Result, Returner, World, json};

/// Appends to the file `rawfile_json.filename`.
pub struct RawfileJson;

impl Returner for RawfileJson {
    fn name(&self) -> &'static str {
        "rawfile_json"
    }

    fn give<'a>(&'a self, world: &'a World, ret: &'a Map) -> BoxFuture<'a, Result<()>> {
        let line = json(&Value::Map(ret.clone()));
        Box::pin(async move { write(world, Some(ret), line? + "\n").await })
    }

    fn events<'a>(&'a self, world: &'a World, events: &'a [Value]) -> Option<BoxFuture<'a, Result<()>>> {
        Some(Box::pin(async move {
            let lines: Result<String> = events.iter().map(|event| json(event).map(|line| line + "\n")).collect();
            write(world, None, lines?).await
        }))
    }
}

async fn write(world: &World, ret: Option<&Map>, lines: String) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let defaults = map! { "filename" => "/var/log/salt/events" };
    let options = Options::find(world, "rawfile_json", &["filename"], defaults, ret)?;
    let path = PathBuf::from(options.required("filename")?);
    let writing = world.rt.blocking(move || {
        append(&path, &lines)
            .map_err(|error| Error::failed(format!("Could not write to rawdata_json file {}: {error}", path.display())))
    });
    writing.await.map_err(Error::failed)?
}

/// Appends under a lock. A new file is not readable by everybody, because returns may contain secrets.
fn append(path: &std::path::Path, lines: &str) -> std::io::Result<()> {
    let file: File = OpenOptions::new().append(true).create(true).mode(0o640).open(path)?;
    // Master and minion on one host may append to the same file; without the lock, long lines would mix.
    let mut file = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| std::io::Error::from(error))?;
    file.write_all(lines.as_bytes())
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn lines_are_those_of_python() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("events");
        let world = testing::world(map! { "rawfile_json" => map! { "filename" => file.to_str().unwrap() } });
        RawfileJson.give(&world, &testing::ret()).await.unwrap();
        let events =
            list![map! { "tag" => "a/b", "data" => map! { "_stamp" => "x", "n" => 1.0 } }].into_list().unwrap();
        RawfileJson.events(&world, &events).unwrap().await.unwrap();
        let expected = "{\"success\": true, \"return\": {\"a\": [1, \"ä\"]}, \"retcode\": 0, \
            \"jid\": \"20240229131415678901\", \"fun\": \"test.echo\", \"fun_args\": [\"x\"], \"user\": \"root\", \
            \"id\": \"web1\"}\n{\"tag\": \"a/b\", \"data\": {\"_stamp\": \"x\", \"n\": 1.0}}\n";
        assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_written_is_named() {
        let world = testing::world(map! { "rawfile_json.filename" => "/nowhere/at/all" });
        let error = RawfileJson.give(&world, &testing::ret()).await.unwrap_err().to_string();
        assert!(error.starts_with("Could not write to rawdata_json file /nowhere/at/all: "), "{error}");
    }
}

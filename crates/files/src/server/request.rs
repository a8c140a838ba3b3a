//! The requests of the file server.

use value::{Map, Value, list, map};

use super::{ChunkRequest, FileServer};
use crate::{Result, server::Lists};

impl FileServer {
    /// Answers a request by its `cmd`; `None` if it is not one of the file server's.
    ///
    /// Missing fields and unknown environments give Salt's empty answers. An error means that the disk failed.
    pub fn request(&self, load: &Map) -> Result<Option<Value>> {
        Ok(Some(match load.get_str("cmd").unwrap_or_default() {
            "_file_envs" => self.envs().into(),
            "_file_find" => self.answer_find(load)?,
            "_file_hash" => self.answer_hash(load)?.0,
            "_file_hash_and_stat" => {
                let (hash, stat) = self.answer_hash(load)?;
                list![hash, stat]
            }
            "_serve_file" => self.answer_serve(load)?,
            "_file_list" => self.answer_list(load, |lists| lists.files.into_iter().collect())?,
            "_dir_list" => self.answer_list(load, |lists| lists.dirs.into_iter().collect())?,
            "_file_list_emptydirs" => self.answer_list(load, |lists| lists.empty_dirs.into_iter().collect())?,
            "_symlink_list" => self.answer_links(load)?,
            _ => return Ok(None),
        }))
    }

    fn answer_find(&self, load: &Map) -> Result<Value> {
        let env = env(load).unwrap_or_else(|| "base".into());
        let found = path(load).map_or(Ok(None), |path| self.find(&path, &env))?;
        Ok(found.map_or_else(|| map! { "path" => "", "rel" => "" }, |found| found.to_map()).into())
    }

    /// Returns hash and `stat` of a file: an empty string if it has no hash, an empty map if it has vanished.
    fn answer_hash(&self, load: &Map) -> Result<(Value, Value)> {
        let found = path(load).zip(env(load)).map_or(Ok(None), |(path, env)| self.find(&path, &env))?;
        let Some(found) = found else { return Ok(("".into(), Value::Null)) };
        match self.hash(&found) {
            Ok(hash) => {
                let hash = map! { "hash_type" => self.hash_type(), "hsum" => hash };
                Ok((hash.into(), found.stat().unwrap_or_default()))
            }
            // Salt answers a file that vanished in between like this, not with an error.
            Err(crate::Error::Store(error)) if error.is_not_found() => Ok((Map::new().into(), Value::Null)),
            Err(error) => Err(error),
        }
    }

    fn answer_serve(&self, load: &Map) -> Result<Value> {
        let nothing = || super::Chunk::default().into_map().into();
        let (Some(path), Some(env), Some(offset)) = (path(load), env(load), load.get("loc").and_then(Value::as_i64))
        else {
            return Ok(nothing());
        };
        let Ok(offset) = u64::try_from(offset) else { return Ok(nothing()) };
        let gzip = load.get("gzip").and_then(Value::as_i64).and_then(|level| u32::try_from(level).ok());
        let wanted = ChunkRequest {
            path: &path,
            env: &env,
            offset,
            gzip: gzip.filter(|level| *level > 0),
            reader: load.get_str("id"),
        };
        Ok(self.serve(&wanted)?.into_map().into())
    }

    fn answer_list(&self, load: &Map, pick: impl FnOnce(Lists) -> Vec<String>) -> Result<Value> {
        let Some(env) = env(load) else { return Ok(list![]) };
        let prefix = prefix(load);
        Ok(pick(self.lists(&env)?).into_iter().filter(|path| path.starts_with(&prefix)).collect())
    }

    fn answer_links(&self, load: &Map) -> Result<Value> {
        let Some(env) = env(load) else { return Ok(Map::new().into()) };
        let prefix = prefix(load);
        let links = self.lists(&env)?.links.into_iter().filter(|(path, _)| path.starts_with(&prefix));
        Ok(links.collect::<Map>().into())
    }
}

fn path(load: &Map) -> Option<String> {
    // Numbers are valid names of files, and YAML does not quote them.
    load.get("path").map(Value::to_string).filter(|path| !path.is_empty())
}

/// Returns the environment; other types, such as numbers, are converted to strings.
fn env(load: &Map) -> Option<String> {
    load.get("saltenv").map(Value::to_string)
}

fn prefix(load: &Map) -> String {
    load.get_str("prefix").unwrap_or_default().trim_matches('/').to_owned()
}

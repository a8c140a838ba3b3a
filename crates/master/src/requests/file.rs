//! The file server's requests.

use files::{ChunkRequest, Piece};
use tracing::error;
use value::{Map, Value};

use super::{Answer, Ask, nothing};

/// Answers all requests except those for a chunk of a file.
pub fn handle(ask: Ask) -> Answer {
    match ask.shared.stores.files.request(&ask.load) {
        Ok(Some(answer)) => answer.into(),
        Ok(None) => nothing(),
        Err(failure) => {
            error!("the file server failed: {}", crate::chain(&failure));
            "".into()
        }
    }
}

/// The highest compression level. Higher levels take several times as long and hardly make a chunk smaller.
const BEST_LEVEL: u32 = 6;

/// Answers with a chunk of a file. The chunk is encrypted in the buffer into which it was read.
pub fn serve(ask: Ask) -> Answer {
    let text = |name: &str| ask.load.get(name).filter(|value| value.truthy()).map(Value::to_string);
    let offset = ask.load.get("loc").and_then(Value::as_i64).and_then(|offset| u64::try_from(offset).ok());
    let (Some(path), Some(env), Some(offset)) = (text("path"), text("saltenv"), offset) else {
        return files::Chunk::default().into_map().into();
    };
    let level = ask.load.get("gzip").and_then(Value::as_i64).and_then(|level| u32::try_from(level).ok());
    let level = level.filter(|level| *level > 0).map(|level| level.min(BEST_LEVEL));
    let reader = ask.id.as_ref().map(wire::MinionId::as_str);
    let wanted = ChunkRequest { path: &path, env: &env, offset, gzip: level, reader };
    match ask.shared.stores.files.serve(&wanted) {
        Ok(chunk) => chunk.into_map().into(),
        Err(failure) => {
            let (path, env) = (value::escape::brief(&path, 1024), value::escape::brief(&env, 256));
            error!("failed to serve {path} from {env}: {}", crate::chain(&failure));
            "".into()
        }
    }
}

/// Stores a chunk of a file that a minion pushes.
pub fn receive(ask: Ask) -> Answer {
    let Some(id) = &ask.id else { return false.into() };
    let Some((path, offset, data)) = piece(&ask.load) else { return nothing() };
    let piece = Piece { id, path: &path, offset, data };
    match ask.shared.stores.inbox.receive(&piece) {
        Ok(taken) => taken.into(),
        Err(failure) => {
            error!(minion = %id, "failed to keep a file of {id}: {}", crate::chain(&failure));
            false.into()
        }
    }
}

fn piece(load: &Map) -> Option<(Vec<String>, i64, &[u8])> {
    let path = load.get("path")?.as_list()?.iter().map(Value::to_string).collect();
    let data = match load.get("data")? {
        Value::Str(text) => text.as_bytes(),
        other => other.as_bytes()?,
    };
    Some((path, load.get("loc")?.as_i64()?, data))
}

//! The file server's requests.

use files::{ChunkRequest, Piece};
use tracing::error;
use value::Value;
use wire::loads::{FileReceive, ServeFile};

use super::{Answer, MasterRequest, nothing, read};

/// Answers all requests except those for a chunk of a file.
pub fn handle(ask: MasterRequest) -> Answer {
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
pub fn serve(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, id, load, .. } = ask;
    let Some(Place { path, env, offset, gzip }) = read(load, ServeFile::from_map).and_then(Place::of) else {
        return files::Chunk::default().into_map().into();
    };
    let reader = id.as_ref().map(wire::MinionId::as_str);
    let wanted = ChunkRequest { path: &path, env: &env, offset, gzip, reader };
    match shared.stores.files.serve(&wanted) {
        Ok(chunk) => chunk.into_map().into(),
        Err(failure) => {
            let (path, env) = (value::escape::brief(&path, 1024), value::escape::brief(&env, 256));
            error!("failed to serve {path} from {env}: {}", crate::chain(&failure));
            "".into()
        }
    }
}

/// The position of a chunk, and how it is compressed.
struct Place {
    path: String,
    env: String,
    offset: u64,
    gzip: Option<u32>,
}

impl Place {
    /// Returns `None` for a request that names no file.
    fn of(request: ServeFile) -> Option<Self> {
        let text = |value: &Value| value.truthy().then(|| value.to_string());
        let level = request.gzip.and_then(|level| u32::try_from(level.as_i64()?).ok());
        Some(Place {
            path: text(&request.path)?,
            env: request.saltenv.as_ref().and_then(text)?,
            offset: u64::try_from(request.loc?).ok()?,
            gzip: level.filter(|level| *level > 0).map(|level| level.min(BEST_LEVEL)),
        })
    }
}

/// Stores a chunk of a file that a minion pushes.
pub fn receive(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, id: Some(id), load, .. } = ask else { return false.into() };
    let Some(FileReceive { path, loc: offset, data, .. }) = read(load, FileReceive::from_map) else { return nothing() };
    let path: Vec<String> = path.into_iter().map(|part| part.0).collect();
    let piece = Piece { id: &id, path: &path, offset, data: &data };
    match shared.stores.inbox.receive(&piece) {
        Ok(taken) => taken.into(),
        Err(failure) => {
            error!(minion = %id, "failed to keep a file of {id}: {}", crate::chain(&failure));
            false.into()
        }
    }
}

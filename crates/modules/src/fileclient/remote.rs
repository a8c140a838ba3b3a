//! Whom the file client asks: the master of the job, or the minion's own directories.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use exec::{Context, Error, Result};
use files::{FileClient, FileServer, LocalRemote, Remote, RemoteError, Reply};
use value::{Map, Value};

/// The master of the job, reached through the agent.
struct Master(Context);

impl Remote for Master {
    fn call(
        &self,
        load: Map,
        reply: Reply,
    ) -> Pin<Box<dyn Future<Output = std::result::Result<Value, RemoteError>> + Send + '_>> {
        Box::pin(async move {
            let answer = match reply {
                Reply::Text => self.0.agent.request(load, None).await,
                Reply::Raw => self.0.agent.request_raw(load).await,
            };
            answer.map_err(Into::into)
        })
    }
}

// Only these: the rest of a minion's options would be checked as if they were a master's.
/// The options the minion's own file server is built from.
const LOCAL_OPTIONS: [&str; 11] = [
    "id",
    "fileserver_backend",
    "file_roots",
    "fileserver_followsymlinks",
    "fileserver_ignoresymlinks",
    "file_ignore_regex",
    "file_ignore_glob",
    "file_buffer_size",
    "fileserver_list_cache_time",
    "saltenv",
    "hash_type",
];

/// Returns the client for the files of this job.
///
/// # Errors
/// When the options about files make no sense.
pub fn client(ctx: &Context) -> Result<FileClient> {
    let cachedir = Path::new(ctx.cachedir());
    let remote: Arc<dyn Remote> =
        // With `file_client: local` no master may be asked, even when one is configured.
        if ctx.is_local() { Arc::new(LocalRemote(own_server(ctx)?)) } else { Arc::new(Master(ctx.clone())) };
    let hash_type = ctx.opt_str("hash_type").unwrap_or("sha256");
    FileClient::new(remote, cachedir, hash_type).map_err(failed)
}

/// The file server of this run, with the options it was built from.
#[derive(Default)]
struct OfRun(Mutex<Option<(Arc<Map>, Arc<FileServer>)>>);

fn own_server(ctx: &Context) -> Result<Arc<FileServer>> {
    let of_run = ctx.memo.get::<OfRun>();
    let mut made = of_run.0.lock().unwrap_or_else(PoisonError::into_inner);
    // A state run requests hundreds of files. The pointer shows whether the options are still the same without
    // comparing them.
    if let Some((_, server)) = made.as_ref().filter(|(opts, _)| Arc::ptr_eq(opts, &ctx.opts)) {
        return Ok(Arc::clone(server));
    }
    let chosen = LOCAL_OPTIONS.iter().filter_map(|name| Some((*name, ctx.opt(name)?.clone())));
    let settings =
        config::Minion::from_options(chosen.collect()).map_err(|error| Error::execution(error.to_string()))?;
    let server = FileServer::new(&settings.files, &ctx.opts, Path::new(ctx.cachedir())).map_err(failed)?;
    let server = Arc::new(server);
    *made = Some((Arc::clone(&ctx.opts), Arc::clone(&server)));
    Ok(server)
}

/// Runs a request of the file client to its end.
pub fn within<T>(ctx: &Context, work: impl Future<Output = files::Result<T>>) -> Result<T> {
    ctx.wait(work).map_err(failed)
}

/// Turns an error and all its causes into one message.
pub fn failed(error: files::Error) -> Error {
    Error::execution(value::error::chain(&error))
}

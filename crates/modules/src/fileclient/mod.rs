//! The file client of a job: files of the master or of the web, kept in the minion's cache.
//!
//! [`files::FileClient`] fetches and caches; this module gives it the master of the job to ask, or the minion's own `file_roots`
//! when there is none, and takes what comes from the web.

mod remote;
pub mod web;

use std::path::PathBuf;

use exec::{Context, Result};

pub use remote::{client, failed, within};
pub use web::Web;

/// Returns the local path of the file at an address, after fetching it into the cache if necessary; `None` when there
/// is no such file.
///
/// # Errors
/// When the master does not answer, or the address cannot be understood.
pub fn cache(ctx: &Context, address: &str, saltenv: &str) -> Result<Option<PathBuf>> {
    if web::is_foreign(address) {
        return web::into_cache(ctx, address, saltenv, None, Web::default()).map(Some);
    }
    within(ctx, client(ctx)?.cache_file(address, saltenv, None))
}

/// Like [`cache`], but a file from the web whose cached copy has this checksum is not fetched again.
///
/// # Errors
/// When the master or the web server does not answer, or the address cannot be understood.
pub fn cache_hashed(
    ctx: &Context,
    address: &str,
    saltenv: &str,
    hash: Option<&str>,
    web: Web,
) -> Result<Option<PathBuf>> {
    if web::is_foreign(address) {
        return web::into_cache(ctx, address, saltenv, hash, web).map(Some);
    }
    cache(ctx, address, saltenv)
}

/// Returns whether there is a file at a web address.
pub fn exists_abroad(ctx: &Context, address: &str) -> bool {
    web::exists(ctx, address)
}

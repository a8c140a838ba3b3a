//! `/events`: the master's events as a stream for browsers.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};

use crate::api::{Api, Caller};
use crate::exchange::Reply;
use crate::failure::Failure;
use crate::feed::Feed;

/// Returns the stream of events that a user may see.
///
/// # Errors
/// When the master is away, or the user has too many streams.
pub async fn stream(api: Arc<Api>, caller: Caller) -> Result<Reply, Failure> {
    let feed = Feed::open(api, caller).await?;
    let first = stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b"retry: 400\n")) });
    let rest = stream::unfold(feed, |mut feed| async {
        let text = next(&mut feed).await?;
        Some((Ok(text), feed))
    });
    Ok(Reply::Stream(Body::from_stream(first.chain(rest))))
}

/// Waits for the next piece of the stream; `None` at its end.
async fn next(feed: &mut Feed) -> Option<Bytes> {
    loop {
        while let Some(shown) = feed.pop() {
            if let Some(text) = shown.text() {
                return Some(text);
            }
        }
        let received = feed.wait().await;
        if feed.take(received).await.ok()? {
            return Some(Bytes::from_static(b": \n\n"));
        }
    }
}

//! What every request has: where it comes from, and a body of bounded size and time.

use std::net::IpAddr;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::api::{Api, Caller};
use crate::body_room::{BodyRoom, Kept};
use crate::cookie;
use crate::exchange::text;
use crate::failure::Failure;
use crate::origin::Provenance;

/// How long the body of a request may take.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Returns what says where a request comes from.
pub fn provenance(headers: &HeaderMap) -> Provenance<'_> {
    let content_type = text(headers, "content-type").unwrap_or_default();
    Provenance {
        origin: text(headers, "origin"),
        host: text(headers, "host"),
        fetch_site: text(headers, "sec-fetch-site"),
        plain_text: crate::body::media_type(content_type) == "text/plain",
        json: crate::body::media_type(content_type) == "application/json",
    }
}

/// Finds the caller of a request, by its header or its cookie.
///
/// # Errors
/// When the master cannot be asked about a token.
pub async fn caller(api: &Api, headers: &HeaderMap, address: IpAddr) -> Result<Option<Caller>, Failure> {
    // SaltGUI sends an empty header before the login.
    let token = text(headers, "x-auth-token").filter(|token| !token.is_empty());
    api.caller(token, cookie::session_id(headers).as_deref(), address).await
}

/// Reads the body of a request into the room of its client.
///
/// # Errors
/// When it is too large, takes too long, or cannot be read.
pub async fn read_body(
    headers: &HeaderMap,
    body: Body,
    most: usize,
    room: &BodyRoom,
) -> Result<(Bytes, Kept), Failure> {
    if let Some(coding) = text(headers, "content-encoding").filter(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(Failure::new(415, format!("Bodies in the coding '{coding}' are not read")));
    }
    let too_large = || Failure::new(413, "The body is larger than max_request_body_size");
    let announced = text(headers, "content-length").and_then(|length| length.parse::<u64>().ok());
    if announced.is_some_and(|length| length > most as u64) {
        return Err(too_large());
    }
    let collected = async {
        let (mut body, mut bytes, mut kept) = (Limited::new(body, most), BytesMut::new(), Kept::default());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
                true => too_large(),
                false => {
                    tracing::debug!("failed to read the body of a request: {error}");
                    Failure::bad_request("The body is not complete")
                }
            })?;
            let Ok(part) = frame.into_data() else { continue };
            room.keep(&mut kept, bytes.len() + part.len())?;
            bytes.extend_from_slice(&part);
        }
        Ok((bytes.freeze(), kept))
    };
    tokio::time::timeout(BODY_TIME, collected).await.map_err(|_| Failure::new(408, "The body took too long"))?
}

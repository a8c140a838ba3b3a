//! Streams in JetStream: found as they must be, or made. What stands under a subject is written by compare-and-set.

use std::time::Duration;

use async_nats::jetstream::context::{Context, PublishErrorKind, RequestError, RequestErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{Config, Info, LastRawMessageErrorKind};
use async_nats::jetstream::{Error, ErrorCode};
use bytes::Bytes;
use tokio::time::timeout;
use tracing::info;

use crate::bucket::{BucketError, OpenError, Stored};

/// For how long a request waits for its answer.
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// How many servers keep a copy, if there are that many.
const REPLICAS: usize = 3;

/// Finds a stream, or makes it if there is none. How many copies an existing one has, and how long it keeps what, is for the caller to
/// look at.
///
/// # Errors
/// If it cannot be used, now or at all.
pub async fn open(context: &Context, wanted: Config) -> Result<Info, OpenError> {
    let found = match request(context, format!("STREAM.INFO.{}", wanted.name), &()).await? {
        Ok(found) => found,
        Err(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => make(context, &wanted).await?,
        Err(error) => return Err(refused(&error)),
    };
    match difference(&wanted, &found.config) {
        None => Ok(found),
        Some(difference) => Err(OpenError::Settings(format!(
            "the JetStream stream {} {difference}. Change it with 'nats stream edit {}', or stop all masters and remove it: the first one \
             that starts creates it again",
            wanted.name, wanted.name
        ))),
    }
}

async fn make(context: &Context, wanted: &Config) -> Result<Info, OpenError> {
    for replicas in [REPLICAS, 1] {
        let config = Config { num_replicas: replicas, ..wanted.clone() };
        match request(context, format!("STREAM.CREATE.{}", config.name), &config).await? {
            Ok(made) => {
                info!("made the JetStream stream {}, of which {replicas} servers keep a copy", config.name);
                return Ok(made);
            }
            Err(error) if error.error_code() == ErrorCode::STREAM_NAME_EXIST => {
                // Another master made it in this moment.
                let found = request(context, format!("STREAM.INFO.{}", config.name), &()).await?;
                return found.map_err(|error| refused(&error));
            }
            Err(error) if replicas > 1 && has_too_few_servers(&error) => {}
            Err(error) => return Err(refused(&error)),
        }
    }
    Err(OpenError::NoAnswer("no server takes the stream".to_owned()))
}

/// Returns whether there are not as many servers as copies. If there are and one is away, whoever waits gets what it wants.
fn has_too_few_servers(error: &Error) -> bool {
    match error.error_code() {
        ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED => true,
        ErrorCode::CLUSTER_NO_PEERS | ErrorCode::INSUFFICIENT_RESOURCES => !error.to_string().contains("offline"),
        _ => false,
    }
}

/// Gives an existing stream another configuration.
///
/// # Errors
/// Why the servers refuse that, or that they do not answer.
pub async fn update(context: &Context, config: &Config) -> Result<(), String> {
    match request(context, format!("STREAM.UPDATE.{}", config.name), config).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Stores a value under a subject if the last one there has the expected sequence; 0: if there is none. Returns the new sequence.
///
/// # Errors
/// See [`BucketError`].
pub async fn publish(
    context: &Context,
    stream: &str,
    subject: String,
    expected: u64,
    value: Bytes,
) -> Result<u64, BucketError> {
    let message = PublishMessage::build().payload(value).expected_last_subject_sequence(expected);
    let message = message.expected_stream(stream);
    let published = async { context.send_publish(subject, message).await?.await };
    match timeout(TIMEOUT, published).await {
        Ok(Ok(acknowledged)) => Ok(acknowledged.sequence),
        Ok(Err(error)) => Err(match error.kind() {
            PublishErrorKind::WrongLastSequence => BucketError::OtherSequence,
            // Servers have a second code for it, 10164, of which the client knows nothing.
            _ if error.to_string().contains("wrong last sequence") => BucketError::OtherSequence,
            // Nobody listens there: the stream is gone, or has no leader at the moment.
            PublishErrorKind::StreamNotFound => BucketError::Gone(error.to_string()),
            // What exactly became of it is not said.
            _ => BucketError::NoAnswer(error.to_string()),
        }),
        Err(_) => Err(unheard()),
    }
}

/// Returns the last value under a subject, as the server in charge of the stream knows it.
///
/// # Errors
/// See [`BucketError`].
pub async fn last(context: &Context, stream: &str, subject: &str) -> Result<Option<Stored>, BucketError> {
    let asked = async {
        let stream = context.get_stream_no_info(stream).await;
        let stream = stream.map_err(|error| BucketError::Refused(error.to_string()))?;
        // The leader of the stream answers this. A direct get would be answered by any replica, which may be behind.
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(found) => Ok(Some(Stored { sequence: found.sequence, value: found.payload })),
            Err(error) => match error.kind() {
                LastRawMessageErrorKind::NoMessageFound => Ok(None),
                LastRawMessageErrorKind::JetStream(refused) => Err(refusal(&refused)),
                _ => Err(BucketError::NoAnswer(error.to_string())),
            },
        }
    };
    timeout(TIMEOUT, asked).await.unwrap_or_else(|_| Err(unheard()))
}

/// Returns what a refusal means for whoever wanted to store or read something.
pub fn refusal(error: &Error) -> BucketError {
    match error.error_code() {
        ErrorCode::STREAM_NOT_FOUND => BucketError::Gone(error.to_string()),
        _ => BucketError::NoAnswer(error.to_string()),
    }
}

/// Nobody has answered in time: what was to be stored may be stored.
pub fn unheard() -> BucketError {
    BucketError::NoAnswer(silence())
}

async fn request<T: serde::Serialize + ?Sized>(
    context: &Context,
    subject: String,
    body: &T,
) -> Result<Result<Info, Error>, OpenError> {
    let asked = context.request(subject, body);
    match timeout(TIMEOUT, asked).await {
        Ok(Ok(Response::Ok(info))) => Ok(Ok(info)),
        Ok(Ok(Response::Err { error })) => Ok(Err(error)),
        Ok(Err(error)) => Err(unanswered(context, &error)),
        Err(_) => Err(silent()),
    }
}

fn unanswered(context: &Context, error: &RequestError) -> OpenError {
    match error.kind() {
        RequestErrorKind::NoResponders if !context.client().server_info().jetstream => {
            OpenError::Absent("no server has JetStream turned on".to_owned())
        }
        RequestErrorKind::NoResponders => OpenError::NoAnswer("no server answers for JetStream".to_owned()),
        RequestErrorKind::TimedOut => silent(),
        RequestErrorKind::InvalidSubject | RequestErrorKind::Other => OpenError::NoAnswer(error.to_string()),
    }
}

fn silent() -> OpenError {
    OpenError::NoAnswer(silence())
}

fn silence() -> String {
    format!("JetStream has not answered within {} s", TIMEOUT.as_secs())
}

fn refused(error: &Error) -> OpenError {
    match error.error_code() {
        ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
            OpenError::Absent(error.to_string())
        }
        _ => OpenError::NoAnswer(error.to_string()),
    }
}

/// Returns how a stream differs from what is needed, in words.
fn difference(wanted: &Config, found: &Config) -> Option<String> {
    let flag = |name: &str, wanted: bool, found: bool| (name.to_owned(), wanted.to_string(), found.to_string());
    let number = |name: &str, wanted: i64, found: i64| (name.to_owned(), wanted.to_string(), found.to_string());
    let word = |name: &str, wanted: String, found: String| (name.to_owned(), wanted, found);
    let all = [
        word("subjects", wanted.subjects.join(" "), found.subjects.join(" ")),
        word("storage", format!("{:?}", wanted.storage), format!("{:?}", found.storage)),
        word("retention", format!("{:?}", wanted.retention), format!("{:?}", found.retention)),
        word("discard", format!("{:?}", wanted.discard), format!("{:?}", found.discard)),
        number("max_msgs_per_subject", wanted.max_messages_per_subject, found.max_messages_per_subject),
        // Without a bound servers show another number than they were given.
        number("max_bytes", wanted.max_bytes, if wanted.max_bytes == 0 { 0 } else { found.max_bytes }),
        flag("discard_new_per_subject", false, found.discard_new_per_subject),
        flag("allow_direct", wanted.allow_direct, found.allow_direct),
        flag("allow_rollup_hdrs", wanted.allow_rollup, found.allow_rollup),
        flag("deny_delete", wanted.deny_delete, found.deny_delete),
        flag("no_ack", false, found.no_ack),
        flag("sealed", false, found.sealed),
        flag("mirror", false, found.mirror.is_some()),
        flag("sources", false, found.sources.as_ref().is_some_and(|sources| !sources.is_empty())),
    ];
    let (name, wanted, found) = all.into_iter().find(|(_, wanted, found)| wanted != found)?;
    Some(format!("has the setting {name} {found}, and {wanted} is needed"))
}

#[cfg(test)]
mod tests {
    use async_nats::jetstream::stream::{DiscardPolicy, StorageType};

    use super::*;

    #[test]
    fn the_setting_that_differs_is_named() {
        let wanted = Config { discard: DiscardPolicy::New, max_messages_per_subject: 1, ..Config::default() };
        assert_eq!(difference(&wanted, &wanted), None);
        let differs = |found: Config| difference(&wanted, &found).unwrap();
        assert!(
            differs(Config { storage: StorageType::Memory, ..wanted.clone() }).contains("storage Memory, and File")
        );
        assert!(differs(Config { allow_direct: true, ..wanted.clone() }).contains("allow_direct true, and false"));
        assert!(differs(Config { max_messages_per_subject: 5, ..wanted.clone() }).contains("max_msgs_per_subject 5"));
        assert!(differs(Config { allow_rollup: true, ..wanted.clone() }).contains("allow_rollup_hdrs"));
        assert!(differs(Config { subjects: vec!["a".to_owned()], ..wanted.clone() }).contains("subjects a"));
    }
}

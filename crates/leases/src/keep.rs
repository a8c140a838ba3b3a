//! A stream that keeps the last copy of signed decisions, for a master that meets nobody. It is never the only copy, and whoever reads
//! it must check what it says: servers may have been taken over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::context::Context;
use async_nats::jetstream::stream::{Config, DiscardPolicy, Info, RetentionPolicy, StorageType};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::mpsc::Sender;
use tokio::time::timeout;

use crate::bucket::{BucketError, OpenError, Stored};
use crate::jetstream::context;
use crate::names;
use crate::objects::{self, TIMEOUT};

/// The maximum number of bytes of the stream.
const MOST_BYTES: i64 = 1 << 30;

/// The maximum length of a value in bytes. Servers take 1 MiB by default, with everything around it.
pub const LONGEST: usize = 512 * 1024;

/// How many bytes of a message the server counts beside the value: the headers.
const HEADERS: i32 = 1_024;

/// How many messages are asked for at once: the longest of them take 16 MiB.
const BATCH: usize = 32;

/// For how long nothing may arrive before the consumer is made again: consumers live on one server.
const SILENCE: Duration = Duration::from_secs(5);

/// How often the consumer is made again before it is given up.
const ATTEMPTS: u32 = 10;

/// The stream of a set.
pub struct Keep {
    context: Context,
    name: String,
    subjects: String,
    /// It was said that the servers do not take the bound of messages.
    has_warned: AtomicBool,
}

/// Why something could not be kept or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeepError {
    /// Nobody answers, or not now. It may be tried again.
    #[error("{0}")]
    NoAnswer(String),
    /// It is longer than a message may be.
    #[error("it is longer than {LONGEST} bytes")]
    TooLong,
    /// Another value is there than the one that was to be replaced: nothing was kept.
    #[error("another value is kept there")]
    OtherValue,
}

impl From<BucketError> for KeepError {
    fn from(error: BucketError) -> Self {
        match error {
            BucketError::OtherSequence => KeepError::OtherValue,
            other => KeepError::NoAnswer(other.to_string()),
        }
    }
}

impl Keep {
    /// Creates the stream of a set, whose name is written as in subjects.
    pub fn new(client: Client, set: &str) -> Keep {
        let (name, subjects) = (names::keep(set), names::keep_subjects(set));
        Keep { context: context(client), name, subjects, has_warned: AtomicBool::new(false) }
    }

    fn config(&self) -> Config {
        Config {
            name: self.name.clone(),
            subjects: vec![format!("{}.>", self.subjects)],
            description: Some("What a set of Saltern masters has decided about members and minion keys".to_owned()),
            storage: StorageType::File,
            retention: RetentionPolicy::Limits,
            max_messages_per_subject: 1,
            max_bytes: MOST_BYTES,
            max_message_size: LONGEST as i32 + HEADERS,
            discard: DiscardPolicy::New,
            deny_delete: true,
            allow_direct: false,
            ..Config::default()
        }
    }

    /// Finds the stream, or makes it.
    ///
    /// # Errors
    /// If it cannot be used, now or at all.
    pub async fn open(&self) -> Result<(), OpenError> {
        let info = objects::open(&self.context, self.config()).await?;
        if !info.config.max_age.is_zero() {
            return Err(OpenError::Settings(format!(
                "the JetStream stream {} forgets what is older than {} s (max_age), and must forget nothing",
                self.name,
                info.config.max_age.as_secs_f64()
            )));
        }
        self.bound_messages(info).await
    }

    /// Sets the maximum length of a message. Earlier versions made the stream without, and people may have made it with another one.
    async fn bound_messages(&self, info: Info) -> Result<(), OpenError> {
        let (wanted, found) = (self.config().max_message_size, info.config.max_message_size);
        if found == wanted {
            return Ok(());
        }
        let config = Config { max_message_size: wanted, ..info.config };
        let Err(reason) = objects::update(&self.context, &config).await else {
            tracing::info!("the JetStream stream {} takes messages of up to {wanted} bytes from now on", self.name);
            return Ok(());
        };
        let problem = format!(
            "the JetStream stream {} has the setting max_msg_size {found}, {wanted} is needed, and the servers do not let this master \
             change it: {reason}. Change it with 'nats stream edit {} --max-msg-size={wanted}'",
            self.name, self.name
        );
        // Without a bound, or with a higher one, all that masters keep has room.
        if found > 0 && found < wanted {
            return Err(OpenError::Settings(problem));
        }
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("{problem}");
        }
        Ok(())
    }

    fn subject(&self, class: &str, key: &str) -> String {
        format!("{}.{}.{}", self.subjects, names::part(class), names::part(key))
    }

    /// Returns what is kept of a class and key. What is longer than a value may be is no value.
    ///
    /// # Errors
    /// See [`KeepError`].
    pub async fn last(&self, class: &str, key: &str) -> Result<Option<Stored>, KeepError> {
        let found = objects::last(&self.context, &self.name, &self.subject(class, key)).await?;
        Ok(found.map(|stored| match stored.value.len() <= LONGEST {
            true => stored,
            // Another one may take its place, so its sequence counts.
            false => Stored { value: Bytes::new(), ..stored },
        }))
    }

    /// Keeps a value in place of the one of its class and key that has this sequence; 0: if there is none. So one that arrives late
    /// replaces none that its sender does not know.
    ///
    /// # Errors
    /// See [`KeepError`].
    pub async fn put(&self, class: &str, key: &str, sequence: u64, value: Bytes) -> Result<(), KeepError> {
        if value.len() > LONGEST {
            return Err(KeepError::TooLong);
        }
        let subject = self.subject(class, key);
        objects::publish(&self.context, &self.name, subject, sequence, value).await?;
        Ok(())
    }

    /// Removes the value of a class and key that has this sequence, and no later one.
    ///
    /// # Errors
    /// See [`KeepError`].
    pub async fn remove(&self, class: &str, key: &str, sequence: u64) -> Result<(), KeepError> {
        let asked = async {
            let stream = self.context.get_stream_no_info(&self.name).await.map_err(no_answer)?;
            // The stream denies that single messages are deleted, so that nothing but what has expired is missed. A purge ends before
            // the sequence that it names.
            let purge = stream.purge().filter(self.subject(class, key)).sequence(sequence.saturating_add(1));
            purge.await.map_err(no_answer)
        };
        timeout(TIMEOUT, asked).await.map_err(|_| KeepError::from(objects::unheard()))??;
        Ok(())
    }

    /// Reads all values of a class, in the order in which they were kept, until all are handed on or nobody takes them any more.
    ///
    /// # Errors
    /// If not all can be read. What came before was handed on.
    pub async fn read(&self, class: &str, to: Sender<Bytes>) -> Result<(), KeepError> {
        let (mut next, mut failures) = (1, 0);
        loop {
            match self.read_from(class, &mut next, &to).await {
                Ok(()) => return Ok(()),
                Err(error) if failures < ATTEMPTS => {
                    tracing::debug!("what JetStream keeps is read again from {next}: {error}");
                    failures += 1;
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn read_from(&self, class: &str, next: &mut u64, to: &Sender<Bytes>) -> Result<(), KeepError> {
        let stream = self.context.get_stream_no_info(&self.name).await.map_err(no_answer)?;
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: *next },
            filter_subject: format!("{}.{}.>", self.subjects, names::part(class)),
            ack_policy: AckPolicy::None,
            inactive_threshold: Duration::from_secs(30),
            ..pull::Config::default()
        };
        let made = timeout(SILENCE, stream.create_consumer(config)).await.map_err(no_answer)?;
        let consumer = made.map_err(no_answer)?;
        if consumer.cached_info().num_pending == 0 {
            return Ok(());
        }
        loop {
            let batch = consumer.batch().max_messages(BATCH).expires(SILENCE).messages().await;
            let mut batch = batch.map_err(no_answer)?;
            let mut came = false;
            while let Some(message) = timeout(2 * SILENCE, batch.next()).await.map_err(no_answer)? {
                let message = message.map_err(no_answer)?;
                let info = message.info().map_err(no_answer)?;
                let (sequence, pending) = (info.stream_sequence, info.pending);
                came = true;
                *next = sequence.saturating_add(1);
                let taken = to.send(message.message.payload.clone()).await;
                if taken.is_err() || pending == 0 {
                    return Ok(());
                }
            }
            if !came {
                return Err(KeepError::NoAnswer("nothing arrives".to_owned()));
            }
        }
    }
}

fn no_answer(error: impl std::fmt::Display) -> KeepError {
    KeepError::NoAnswer(error.to_string())
}
